/* separable.h: layers that are y = A x Bᵀ of each channel, a matrix for rows and one for columns.
 *
 * A row of A has the weights of the rows of x in a row of y; few are not 0. */
#ifndef STRIDE_LAYERS_SEPARABLE_H
#define STRIDE_LAYERS_SEPARABLE_H

#include "layers/layer.h"

enum { MOST_TAPS = 16 }; /* of a row of a matrix */

/* An element of a row of a matrix. */
typedef struct tap {
    ptrdiff_t from; /* its column */
    st_real weight;
} tap;

/* Writes row i of the matrix of axis 2 or 3, with `to` rows and `from` columns; returns the number of its
 * elements. */
typedef int separable_row(const void *options, int axis, ptrdiff_t i, ptrdiff_t from, ptrdiff_t to,
                          tap row[MOST_TAPS]);

/* The plan's data. */
typedef struct separable {
    separable_row *row;
} separable;

int separable_plan(st_layer *l, st_shape x, st_shape y, separable_row *row);
void separable_forward(const st_call *c, st_tensor x, st_tensor y);
void separable_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);

/* Row i of the matrix of an axis, 2 or 3, of such a layer or of an adaptive mean: at most as many elements as
 * the image has along that axis and MOST_TAPS. Returns their number. */
ptrdiff_t separable_taps(const st_layer *l, int axis, ptrdiff_t i, tap row[]);

#endif
