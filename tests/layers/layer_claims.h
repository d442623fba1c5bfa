/* layer_claims.h: what tests claim of layers as they are made and built. */
#ifndef STRIDE_TESTS_LAYER_CLAIMS_H
#define STRIDE_TESTS_LAYER_CLAIMS_H

#include "layers/layer.h"

/* The layer is made, and built for this input; it is in training mode from here on. */
void assert_built(st_layer *l, st_shape x);

/* y of x, and dx of dy, new tensors that held NaN. */
st_tensor forward(st_layer *l, st_tensor x);
st_tensor backward(st_layer *l, st_tensor x, st_tensor y, st_tensor dy);

/* No layer is made, and this is in the error. */
void assert_refused(st_layer *l, const char *text);

/* The layer is made but not for this input, and this is in the error; frees it. */
void assert_unbuildable(st_layer *l, st_shape x, const char *text);

#endif
