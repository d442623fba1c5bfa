/* traits.c: which types run in place, overwrite their neighbours' tensors, or may change places. */
#include "layers/fast/algorithms.h"
#include "layers/types.h"

/* A dilated window may contain only padding, whose maximum is -inf. */
static bool takes_maxima(const st_layer *l)
{
    const st_maxpool_options *o = l->options;
    return o->dilation[0] == 1 && o->dilation[1] == 1;
}

static const layer_traits all[] = {
    { &layer_type_relu, .in_place = true, .monotone = true },
    { &layer_type_relu6, .in_place = true },
    { &layer_type_hardtanh, .in_place = true },
    { &layer_type_sigmoid, .in_place = true },
    { &layer_type_tanh, .in_place = true },
    { &layer_type_dropout, .in_place = true, .ignores_y = true },
    { &layer_type_channel_dropout, .in_place = true, .ignores_y = true },
    { &layer_type_flatten, .in_place = true, .ignores_y = true },
    { &layer_type_unflatten, .in_place = true, .ignores_y = true },
    { &layer_type_identity, .in_place = true, .ignores_y = true },
    { &layer_type_maxpool, .ignores_y = true, .takes_maxima = takes_maxima },
    { &layer_type_avgpool, .ignores_y = true },
    { &layer_type_adaptive_avgpool, .ignores_y = true },
    { &layer_type_upsample, .ignores_y = true },
    { &layer_type_pad2d, .ignores_y = true },
    { &layer_type_conv2d, .ignores_y = true },
    { &layer_type_dense, .ignores_y = true },
    { &layer_type_batchnorm, .ignores_y = true, .infer = batchnorm_infer },
    { &layer_type_layernorm, .ignores_y = true },
    { &layer_type_rmsnorm, .ignores_y = true },
    { &layer_type_groupnorm, .ignores_y = true },
    { &layer_type_leaky_relu, .ignores_y = true },
    { &layer_type_prelu, .ignores_y = true },
    { &layer_type_elu, .ignores_y = true },
    { &layer_type_selu, .ignores_y = true },
    { &layer_type_gelu, .ignores_y = true },
    { &layer_type_silu, .ignores_y = true },
    { &layer_type_mish, .ignores_y = true },
    { &layer_type_softplus, .ignores_y = true },
    { &layer_type_softsign, .ignores_y = true },
    { &layer_type_hardsigmoid, .ignores_y = true },
    { &layer_type_hardswish, .ignores_y = true },
    { 0 },
};

const layer_traits *traits_of(const st_layer *l)
{
    const layer_traits *t = all;
    while (t->type && t->type != l->type) t++;
    return t;
}

bool layer_infers(const st_layer *l)
{
    return traits_of(l)->infer && l->x.rank > 2;
}
