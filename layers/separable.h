/* separable.h: y = A x Bᵀ, a matrix for rows and one for columns; private to layers/.
 *
 * Interpolation and adaptive averages are such maps of an image. */
#ifndef STRIDE_LAYERS_SEPARABLE_H
#define STRIDE_LAYERS_SEPARABLE_H

#include "layers/layer.h"

/* Asks for what follows as scratch slots 0, 1, 2: A [OH, H], B [OW, W], and A x [OH, W] of one channel. */
int separable_plan(layer *l, shape x, shape y);

/* The layer fills l->scratch[0] and [1] with A and B, then y = A x Bᵀ, or dx = Aᵀ dy B, channel by channel. */
void separable_forward(const layer *l, tensor x, tensor y);
void separable_backward(const layer *l, tensor dy, tensor dx);

#endif
