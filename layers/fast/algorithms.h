/* algorithms.h: the algorithms in this folder. */
#ifndef STRIDE_LAYERS_FAST_ALGORITHMS_H
#define STRIDE_LAYERS_FAST_ALGORITHMS_H

#include "layers/layer_impl.h"

extern const layer_algorithm conv_winograd, conv_direct;
extern const layer_algorithm dense_unpacked;
extern const layer_algorithm maxpool_vectors, avgpool_vectors;
extern const layer_algorithm batchnorm_sets, layernorm_sets, rmsnorm_sets, groupnorm_sets;
extern const layer_algorithm sequence_fused;
extern const layer_algorithm softmax_vectors, log_softmax_vectors;

/* Adds dy's sum over each channel to the bias's gradient, if there is a bias. */
void conv_bias_gradient(const st_call *c, st_tensor dy);

/* Types whose function is one of an element; gelu has two, and prelu runs leaky_relu's rows. */
/* clang-format off */
#define EACH_ACTIVATION(DO)                                                                                  \
    DO(relu) DO(relu6) DO(leaky_relu) DO(elu) DO(selu) DO(hardtanh) DO(silu) DO(mish) DO(sigmoid) DO(tanh)   \
    DO(softplus) DO(softsign) DO(hardsigmoid) DO(hardswish)
/* clang-format on */
#define DECLARE_VECTORS(NAME) extern const layer_algorithm NAME##_vectors;
EACH_ACTIVATION(DECLARE_VECTORS)
extern const layer_algorithm gelu_none_vectors, gelu_tanh_vectors, prelu_vectors;

#endif
