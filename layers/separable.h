/* separable.h: y = A x Bᵀ, a matrix for rows and one for columns.
 *
 * Interpolation and adaptive averages are such maps of an image. A row of A or B has few nonzero elements,
 * which are adjacent: each row of y is a weighted sum of a few rows of x, and likewise for columns. The
 * adjoint is the same list of adds with the sides swapped. */
#ifndef STRIDE_LAYERS_SEPARABLE_H
#define STRIDE_LAYERS_SEPARABLE_H

#include "layers/layer.h"

/* A row of a matrix: elements first ... first + count - 1 are not 0: the first is `weight`, the others
 * `rest`. */
typedef struct taps {
    ptrdiff_t first, count;
    st_real weight, rest;
} taps;

/* Row i of a matrix with `to` rows and `from` columns. */
typedef taps taps_of(const void *options, ptrdiff_t i, ptrdiff_t from, ptrdiff_t to);

/* The plan's data. */
typedef struct separable {
    taps_of *of; /* both matrices' rows */
} separable;

/* Plans scratch slot 0, A x [C, OH, W] of one image. */
int separable_plan(st_layer *l, st_shape x, st_shape y, taps_of *of);

/* y = A x Bᵀ and dx = Aᵀ dy B, image by image. */
void separable_forward(const st_call *c, st_tensor x, st_tensor y);
void separable_backward(const st_call *c, st_tensor dy, st_tensor dx);

#endif
