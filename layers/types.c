/* types.c: the shipped types in one list, for whoever has only a name. */
#include "layers/types.h"
#include "layers/layers.h"

const layer_type *const layer_types[] = { &layer_type_conv2d,
                                          &layer_type_maxpool,
                                          &layer_type_avgpool,
                                          &layer_type_pool,
                                          &layer_type_dense,
                                          &layer_type_relu,
                                          &layer_type_relu6,
                                          &layer_type_leaky_relu,
                                          &layer_type_elu,
                                          &layer_type_selu,
                                          &layer_type_gelu,
                                          &layer_type_silu,
                                          &layer_type_mish,
                                          &layer_type_sigmoid,
                                          &layer_type_tanh,
                                          &layer_type_softplus,
                                          &layer_type_softsign,
                                          &layer_type_hardsigmoid,
                                          &layer_type_hardswish,
                                          &layer_type_dropout,
                                          &layer_type_flatten,
                                          &layer_type_sequence,
                                          NULL };
