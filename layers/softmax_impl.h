/* softmax_impl.h: the rows of a contiguous tensor along the axis of a softmax. */
#ifndef STRIDE_LAYERS_SOFTMAX_IMPL_H
#define STRIDE_LAYERS_SOFTMAX_IMPL_H

#include "layers/layers.h"

/* `count` rows of `length` elements, which are `step` apart. */
typedef struct rows {
    ptrdiff_t count, length, step;
} rows;

static inline rows rows_along(const st_call *c, st_tensor y)
{
    int axis = ((const st_softmax_options *)c->options)->axis;
    rows r = { st_numel(y) / y.shape.n[axis], y.shape.n[axis], 1 };
    for (int i = axis + 1; i < y.shape.rank; i++) r.step *= y.shape.n[i];
    return r;
}

/* The offset of row k. */
static inline ptrdiff_t row_begin(rows r, ptrdiff_t k)
{
    return k / r.step * r.step * r.length + k % r.step;
}

#endif
