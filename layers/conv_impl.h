/* conv_impl.h: what plan works out for convolutions, and what their algorithms share. */
#ifndef STRIDE_LAYERS_CONV_IMPL_H
#define STRIDE_LAYERS_CONV_IMPL_H

#include "layers/layer_impl.h"
#include "layers/layers.h"
#include "layers/types.h"
#include "layers/window.h"

enum { CONV_WEIGHT, CONV_BIAS }; /* parameters */

/* The data of the plan of conv2d, conv_transpose2d and of each algorithm, which may add to it. */
typedef struct conv_plan {
    window w; /* of a transposed convolution: of the output, one window for each place of the input */
} conv_plan;

/* The bias of each output channel; NULL: none. */
const st_real *conv_bias(const st_call *c);

/* Adds dy's sum over each channel to the bias's gradient, where there is a bias. */
void conv_bias_gradient(const st_call *c, st_tensor dy);

#endif
