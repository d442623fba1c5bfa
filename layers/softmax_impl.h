/* softmax_impl.h: where the axis of a softmax lies in a contiguous tensor. */
#ifndef STRIDE_LAYERS_SOFTMAX_IMPL_H
#define STRIDE_LAYERS_SOFTMAX_IMPL_H

#include "layers/layers.h"

/* The plan's data, which algorithms begin theirs with: a line along the axis has `length` elements, `step`
 * apart; an image has `lines`, of which `step` begin one after another. */
typedef struct softmax_plan {
    ptrdiff_t lines, length, step;
} softmax_plan;

/* The offset of line k. */
static inline ptrdiff_t softmax_line(const softmax_plan *p, ptrdiff_t k)
{
    return k / p->step * p->step * p->length + k % p->step;
}

#endif
