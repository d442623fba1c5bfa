/* separable.c: y = A x Bᵀ and its adjoint. */
#include "layers/separable.h"

enum { A, B, HALF }; /* scratch */
enum { ROWS = 1, COLUMNS = 2 };

int separable_plan(layer *l, shape x, shape y)
{
    if (layer_scratch(l, SHAPE(y.n[2], x.n[2])) || layer_scratch(l, SHAPE(y.n[3], x.n[3]))) return -1;
    return layer_scratch(l, SHAPE(x.n[1], y.n[2], x.n[3]));
}

/* to = matrix applied to `from` along an axis of images [C, H, W]. */
static void apply(tensor matrix, int axis, tensor from, tensor to)
{
    const real *weight = tensor_data(matrix);
    tensor_fill(to, 0);
    for (ptrdiff_t i = 0; i < matrix.shape.n[0]; i++)
        for (ptrdiff_t k = 0; k < matrix.shape.n[1]; k++, weight++)
            if (*weight != 0) tensor_add(tensor_select(to, axis, i), *weight, tensor_select(from, axis, k));
}

/* The adjoint: from = the matrix's transpose applied to `to`. */
static void apply_back(tensor matrix, int axis, tensor from, tensor to)
{
    const real *weight = tensor_data(matrix);
    tensor_fill(from, 0);
    for (ptrdiff_t i = 0; i < matrix.shape.n[0]; i++)
        for (ptrdiff_t k = 0; k < matrix.shape.n[1]; k++, weight++)
            if (*weight != 0) tensor_add(tensor_select(from, axis, k), *weight, tensor_select(to, axis, i));
}

void separable_forward(const layer *l, tensor x, tensor y)
{
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        apply(l->scratch[A], ROWS, tensor_select(x, 0, i), l->scratch[HALF]);
        apply(l->scratch[B], COLUMNS, l->scratch[HALF], tensor_select(y, 0, i));
    }
}

void separable_backward(const layer *l, tensor dy, tensor dx)
{
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        apply_back(l->scratch[B], COLUMNS, l->scratch[HALF], tensor_select(dy, 0, i));
        apply_back(l->scratch[A], ROWS, tensor_select(dx, 0, i), l->scratch[HALF]);
    }
}
