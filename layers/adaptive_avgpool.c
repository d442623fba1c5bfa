/* adaptive_avgpool.c: the image cut into output_size parts and each averaged, as A x Bᵀ: row i of A is
 * 1/length over its part, which goes from floor(i H / OH) to ceil((i+1) H / OH). */
#include "layers/lanes.h"
#include "layers/layers.h"
#include "layers/separable.h"
#include "layers/types.h"
#include "tensor/sum.h"

static int plan(layer *l, shape x, shape *y)
{
    const adaptive_avgpool *o = l->options;
    if (x.rank != 4) return layer_refuse(l, "the input is %s, expected [N, C, H, W]", shape_text(x).text);
    *y = SHAPE(x.n[0], x.n[1], o->output_size[0], o->output_size[1]);
    if (shape_count(*y, "adaptive_avgpool") < 0) return -1;
    return separable_plan(l, x, *y);
}

static void fill(tensor matrix)
{
    ptrdiff_t to = matrix.shape.n[0], from = matrix.shape.n[1];
    tensor_fill(matrix, 0);
    for (ptrdiff_t i = 0; i < to; i++) {
        ptrdiff_t begin = i * from / to, end = ((i + 1) * from + to - 1) / to;
        tensor_fill(tensor_narrow(tensor_select(matrix, 0, i), 0, begin, end - begin),
                    1 / (real)(end - begin));
    }
}

/* One part, the whole image: a sum along rows of neighbours, where x has them, and a fill back. */
static bool global(const layer *l, tensor x)
{
    return l->y.n[2] == 1 && l->y.n[3] == 1 && x.stride[3] == 1 && x.stride[2] == x.shape.n[3];
}

INLINE void forward_global(tensor x, real *y)
{
    ptrdiff_t area = x.shape.n[2] * x.shape.n[3];
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t c = 0; c < x.shape.n[1]; c++)
            *y++ =
                (real)(sum_of_row(area, tensor_data(x) + i * x.stride[0] + c * x.stride[1]) / (double)area);
}

INLINE void backward_global(const real *dy, tensor dx)
{
    ptrdiff_t area = dx.shape.n[2] * dx.shape.n[3];
    real *to = tensor_data(dx);
    for (const real *end = to + tensor_count(dx); to < end; to += area, dy++) {
        const real part = *dy / (real)area;
        for (ptrdiff_t k = 0; k < area; k++) to[k] = part;
    }
}

#define STAMP(M)                                                                                             \
    M##_TARGET static void M##_forward(tensor x, real *y)                                                    \
    {                                                                                                        \
        forward_global(x, y);                                                                                \
    }                                                                                                        \
    M##_TARGET static void M##_backward(const real *dy, tensor dx)                                           \
    {                                                                                                        \
        backward_global(dy, dx);                                                                             \
    }

#define ROW_OF_TABLE(M) { M##_forward, M##_backward },

EACH_MACHINE(STAMP)
static const struct {
    void (*forward)(tensor x, real *y);
    void (*backward)(const real *dy, tensor dx);
} machines[] = { EACH_MACHINE(ROW_OF_TABLE) };

static void forward(layer *l, tensor x, tensor y)
{
    if (global(l, x)) {
        machines[lanes_machine(l)].forward(x, tensor_data(y));
        return;
    }
    fill(l->scratch[0]);
    fill(l->scratch[1]);
    separable_forward(l, x, y);
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    if (global(l, dx)) {
        machines[lanes_machine(l)].backward(tensor_data(dy), dx);
        return;
    }
    fill(l->scratch[0]);
    fill(l->scratch[1]);
    separable_backward(l, dy, dx);
}

static const layer_field fields[] = {
    { "output_size", FIELD_PAIR, offsetof(adaptive_avgpool, output_size), .fallback = 1, .least = 1,
      .square = true },
    { 0 },
};

const layer_type layer_type_adaptive_avgpool = {
    .name = "adaptive_avgpool",
    .options_size = sizeof(adaptive_avgpool),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .ignores_y = true,
};

layer *layer_adaptive_avgpool(adaptive_avgpool options)
{
    return layer_new(&layer_type_adaptive_avgpool, &options, 0, NULL);
}
