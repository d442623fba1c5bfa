/* separable.h: y = A x Bᵀ, a matrix for rows and one for columns.
 *
 * Interpolation and adaptive averages are such maps of an image. Their matrices are nearly empty, so each row of y
 * is made by adding the few rows of x that it has weights for, and likewise the columns; the adjoint is the same
 * list of adds with the sides swapped. What has no weight is not touched: an infinity stays where it is. */
#ifndef STRIDE_LAYERS_SEPARABLE_H
#define STRIDE_LAYERS_SEPARABLE_H

#include "layers/layer.h"

/* Asks for what follows as scratch slots 0, 1, 2: A [OH, H], B [OW, W], and A x [C, OH, W] of one image. */
int separable_plan(layer *l, shape x, shape y);

/* The layer fills l->scratch[0] and [1] with A and B, then y = A x Bᵀ, or dx = Aᵀ dy B, image by image. */
void separable_forward(const layer *l, tensor x, tensor y);
void separable_backward(const layer *l, tensor dy, tensor dx);

#endif
