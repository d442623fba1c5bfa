/* separable.h: the plan's data of layers that are y = A x Bᵀ of each channel, a matrix for rows and one for
 * columns: upsample and adaptive_avgpool. A row of A or B has few nonzero elements, which are adjacent. */
#ifndef STRIDE_LAYERS_SEPARABLE_H
#define STRIDE_LAYERS_SEPARABLE_H

#include "layers/layer.h"

/* A row of a matrix: elements first ... first + count - 1 are not 0: the first is `weight`, the others
 * `rest`. */
typedef struct taps {
    ptrdiff_t first, count;
    st_real weight, rest;
} taps;

typedef struct separable {
    /* Row i of a matrix with `to` rows and `from` columns. */
    taps (*of)(const void *options, ptrdiff_t i, ptrdiff_t from, ptrdiff_t to);
} separable;

#endif
