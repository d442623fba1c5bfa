/* table.c: the algorithms that replace definitions; the first suitable one is used. */
#include "layers/fast/algorithms.h"

static const layer_algorithm *all[] = {
    &conv_winograd, &conv_direct, &dense_unpacked, &maxpool_vectors, &avgpool_vectors, NULL,
};

const layer_algorithm **layer_algorithms = all;
