/* table.c: the algorithms that replace definitions; the first suitable one is used. */
#include "layers/fast/algorithms.h"

#include <stdlib.h>

#define VECTORS_OF(NAME) &NAME##_vectors,

const layer_algorithm *layer_algorithms[] = {
    &conv_winograd,
    &conv_implicit,
    &dense_products,
    &maxpool_vectors,
    &avgpool_vectors,
    &adaptive_avgpool_vectors,
    &maxpool_rows,
    &avgpool_rows,
    &adaptive_avgpool_rows,
    &lppool_rows,
    &upsample_rows,
    &pad2d_rows,
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
    &pooling_once, /* the last one, of any type */
    NULL,
};

__attribute__((weak)) const layer_algorithm *const *layer_pooling_algorithms;

static const layer_algorithm *suitable(const layer_algorithm *const *a, const st_layer *l)
{
    while (*a && (((*a)->type && (*a)->type != l->type) || !(*a)->suits(l))) a++;
    return *a;
}

int layer_choose_algorithm(st_layer *l)
{
    const layer_algorithm *a = layer_pooling_algorithms ? suitable(layer_pooling_algorithms, l) : NULL;
    if (!a) a = suitable(layer_algorithms, l);
    if (!a) return 0;
    void *given = l->plan;
    l->plan = NULL;
    l->impl->hooks = a->hooks;
    l->impl->fill = a->fill;
    l->impl->data = 0;
    l->impl->scratches = 0;
    const int status = a->plan(l, given);
    free(given);
    return status;
}
