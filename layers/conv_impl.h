/* conv_impl.h: the plan's data of convolutions, shared with their algorithms. */
#ifndef STRIDE_LAYERS_CONV_IMPL_H
#define STRIDE_LAYERS_CONV_IMPL_H

#include "layers/layer_impl.h"
#include "layers/types.h"
#include "layers/window.h"

enum { CONV_WEIGHT, CONV_BIAS }; /* parameters */

/* The plan's data of conv2d, conv_transpose2d and their algorithms, which may add members. */
typedef struct conv_plan {
    window w; /* for a transposed convolution: in the output, one for each position of the input */
    int groups;
} conv_plan;

/* The bias of each output channel; NULL: none. */
const st_real *conv_bias(const st_call *c);

#endif
