/* types.c: the list of all types, to find one by name; and the constructors that only pass options on. */
#include "layers/types.h"
#include "layers/layers.h"

#define ADDRESS(NAME) &layer_type_##NAME,
const st_layer_type *const st_layer_types[] = { EACH_LAYER_TYPE(ADDRESS) NULL };

#define CONSTRUCTOR(NAME, OPTIONS)                                                                           \
    st_layer *st_##NAME##_new(OPTIONS options)                                                               \
    {                                                                                                        \
        return st_layer_new(&layer_type_##NAME, &options, 0, NULL);                                          \
    }

CONSTRUCTOR(conv2d, st_conv2d_options)
CONSTRUCTOR(conv_transpose2d, st_conv_transpose2d_options)
CONSTRUCTOR(maxpool, st_maxpool_options)
CONSTRUCTOR(avgpool, st_avgpool_options)
CONSTRUCTOR(lppool, st_lppool_options)
CONSTRUCTOR(adaptive_avgpool, st_adaptive_avgpool_options)
CONSTRUCTOR(pool, st_pool_options)
CONSTRUCTOR(dense, st_dense_options)
CONSTRUCTOR(batchnorm, st_batchnorm_options)
CONSTRUCTOR(layernorm, st_layernorm_options)
CONSTRUCTOR(groupnorm, st_groupnorm_options)
CONSTRUCTOR(rmsnorm, st_layernorm_options)
CONSTRUCTOR(prelu, st_prelu_options)
CONSTRUCTOR(gelu, st_gelu_options)
CONSTRUCTOR(softmax, st_softmax_options)
CONSTRUCTOR(log_softmax, st_softmax_options)
CONSTRUCTOR(dropout, st_dropout_options)
CONSTRUCTOR(channel_dropout, st_dropout_options)
CONSTRUCTOR(pad2d, st_pad2d_options)
CONSTRUCTOR(upsample, st_upsample_options)
CONSTRUCTOR(unflatten, st_unflatten_options)
