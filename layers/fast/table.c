/* table.c: the algorithms that replace definitions; the first suitable one is used. */
#include "layers/fast/algorithms.h"

#define VECTORS_OF(NAME) &NAME##_vectors,

static const layer_algorithm *all[] = {
    &conv_winograd,
    &conv_implicit,
    &conv_transpose_implicit,
    &dense_unpacked,
    &maxpool_vectors,
    &avgpool_vectors,
    /* clang-format off */
    EACH_ACTIVATION(VECTORS_OF)
    &gelu_none_vectors,
    /* clang-format on */
    &gelu_tanh_vectors,
    &prelu_vectors,
    &batchnorm_sets,
    &layernorm_sets,
    &rmsnorm_sets,
    &groupnorm_sets,
    &softmax_vectors,
    &log_softmax_vectors,
    &sequence_fused,
    NULL,
};

const layer_algorithm **layer_algorithms = all;
