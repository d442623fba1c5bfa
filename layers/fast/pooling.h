/* pooling.h: positions of maxima that max pooling keeps, for layers that take numbers from there. */
#ifndef STRIDE_LAYERS_FAST_POOLING_H
#define STRIDE_LAYERS_FAST_POOLING_H

#include "layers/layer.h"

/* Tests if a layer keeps positions of its maxima, unless no backward pass follows; and sets `to`, as large as
 * its y, to what x has there: the adjoint of its backward pass. */
bool pooling_keeps_positions(const st_layer *l);
void pooling_at_positions(const st_layer *l, ptrdiff_t images, const st_real *x, st_real *to);

#endif
