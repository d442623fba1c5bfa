/* pool_impl.h: the plan's data of maxpool, avgpool, lppool and pool. */
#ifndef STRIDE_LAYERS_POOL_IMPL_H
#define STRIDE_LAYERS_POOL_IMPL_H

#include "layers/window.h"

typedef struct pool_plan {
    window w;
    st_real padding; /* the value of padding elements */
    int count[];     /* avgpool: elements that count, for each row of windows [OH], then each column [OW] */
} pool_plan;

/* The number of elements of window `at`, along an axis, in the image, or in the image and its padding. */
int pool_counted(const window *w, int axis, ptrdiff_t at, bool exclude_pad);

/* avgpool: 1 / (the number of elements of a window that count), or 0 for none. */
static inline st_real pool_weight(const pool_plan *p, ptrdiff_t row, ptrdiff_t column)
{
    int rows = p->count[row], columns = p->count[p->w.out[0] + column];
    return rows && columns ? 1 / ((st_real)rows * (st_real)columns) : 0;
}

#endif
