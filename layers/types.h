/* types.h: the library's layer types, defined in the file of their family. */
#ifndef STRIDE_LAYERS_TYPES_H
#define STRIDE_LAYERS_TYPES_H

#include "layers/layer.h"

extern const st_layer_type layer_type_conv2d, layer_type_maxpool, layer_type_avgpool, layer_type_pool;
extern const st_layer_type layer_type_dense, layer_type_dropout, layer_type_flatten, layer_type_sequence;
extern const st_layer_type layer_type_relu, layer_type_relu6, layer_type_leaky_relu, layer_type_elu;
extern const st_layer_type layer_type_selu, layer_type_gelu, layer_type_silu, layer_type_mish;
extern const st_layer_type layer_type_sigmoid, layer_type_tanh, layer_type_softplus, layer_type_softsign;
extern const st_layer_type layer_type_hardsigmoid, layer_type_hardswish;
extern const st_layer_type layer_type_conv_transpose2d, layer_type_lppool, layer_type_adaptive_avgpool;
extern const st_layer_type layer_type_batchnorm, layer_type_layernorm, layer_type_groupnorm;
extern const st_layer_type layer_type_softmax, layer_type_log_softmax, layer_type_pad2d, layer_type_upsample;
extern const st_layer_type layer_type_channel_dropout, layer_type_identity, layer_type_residual;
extern const st_layer_type layer_type_concat;

#endif
