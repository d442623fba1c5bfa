/* separable.c: y = A x Bᵀ and its adjoint. */
#include "layers/separable.h"

enum { A, B, HALF }; /* scratch */

int separable_plan(layer *l, shape x, shape y)
{
    l->flops =
        2 * (double)x.n[0] * (double)x.n[1] * (double)y.n[2] * (double)x.n[3] * (double)(x.n[2] + y.n[3]);
    if (layer_scratch(l, SHAPE(y.n[2], x.n[2])) || layer_scratch(l, SHAPE(y.n[3], x.n[3]))) return -1;
    return layer_scratch(l, SHAPE(y.n[2], x.n[3]));
}

void separable_forward(const layer *l, tensor x, tensor y)
{
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t c = 0; c < x.shape.n[1]; c++) {
            tensor image = tensor_select(tensor_select(x, 0, i), 0, c),
                   out = tensor_select(tensor_select(y, 0, i), 0, c);
            tensor_gemm(l->scratch[HALF], 1, l->scratch[A], image, 0);
            tensor_gemm(out, 1, l->scratch[HALF], tensor_transpose(l->scratch[B], 0, 1), 0);
        }
}

void separable_backward(const layer *l, tensor dy, tensor dx)
{
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++)
        for (ptrdiff_t c = 0; c < dx.shape.n[1]; c++) {
            tensor image = tensor_select(tensor_select(dx, 0, i), 0, c),
                   out = tensor_select(tensor_select(dy, 0, i), 0, c);
            tensor_gemm(l->scratch[HALF], 1, out, l->scratch[B], 0);
            tensor_gemm(image, 1, tensor_transpose(l->scratch[A], 0, 1), l->scratch[HALF], 0);
        }
}
