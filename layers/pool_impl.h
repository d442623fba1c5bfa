/* pool_impl.h: what plan works out for maxpool, avgpool, lppool and pool. */
#ifndef STRIDE_LAYERS_POOL_IMPL_H
#define STRIDE_LAYERS_POOL_IMPL_H

#include "layers/window.h"

typedef struct pool_plan {
    window w;
    st_real padding; /* the value of an element of the padding */
    int count
        []; /* avgpool: elements that count, along each axis: of each row of windows [OH], each column [OW] */
} pool_plan;

/* avgpool: 1 / (the elements that count of a window); 0 where none does. */
static inline st_real pool_weight(const pool_plan *p, ptrdiff_t row, ptrdiff_t column)
{
    int rows = p->count[row], columns = p->count[p->w.out[0] + column];
    return rows && columns ? 1 / ((st_real)rows * (st_real)columns) : 0;
}

#endif
