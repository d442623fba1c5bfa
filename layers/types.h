/* types.h: the library's layer types, each defined in the file of its family. */
#ifndef STRIDE_LAYERS_TYPES_H
#define STRIDE_LAYERS_TYPES_H

#include "layers/layer.h"

/* clang-format off */
#define EACH_LAYER_TYPE(DO)                                                                                  \
    DO(conv2d) DO(conv_transpose2d) DO(maxpool) DO(avgpool) DO(lppool) DO(adaptive_avgpool) DO(pool)         \
    DO(dense) DO(batchnorm) DO(layernorm) DO(rmsnorm) DO(groupnorm)                                          \
    DO(relu) DO(relu6) DO(hardtanh) DO(leaky_relu) DO(prelu) DO(elu) DO(selu) DO(gelu) DO(silu) DO(mish)     \
    DO(sigmoid) DO(tanh) DO(softplus) DO(softsign) DO(hardsigmoid) DO(hardswish)                             \
    DO(softmax) DO(log_softmax) DO(dropout) DO(channel_dropout) DO(pad2d) DO(upsample) DO(flatten)           \
    DO(unflatten) DO(identity) DO(sequence) DO(residual) DO(concat)
/* clang-format on */

#define DECLARE_LAYER_TYPE(NAME) extern const st_layer_type layer_type_##NAME;
EACH_LAYER_TYPE(DECLARE_LAYER_TYPE)

#endif
