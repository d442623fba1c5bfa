/* dense_impl.h: what the algorithms of a dense layer share. */
#ifndef STRIDE_LAYERS_DENSE_IMPL_H
#define STRIDE_LAYERS_DENSE_IMPL_H

#include "layers/layer_impl.h"
#include "layers/layers.h"
#include "layers/types.h"

enum { DENSE_WEIGHT, DENSE_BIAS }; /* parameters */

/* Adds dy's sum over the batch to the bias's gradient, where there is a bias. */
void dense_bias_gradient(const st_call *c, st_tensor dy);

#endif
