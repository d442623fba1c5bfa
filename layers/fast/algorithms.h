/* algorithms.h: the algorithms in this folder. */
#ifndef STRIDE_LAYERS_FAST_ALGORITHMS_H
#define STRIDE_LAYERS_FAST_ALGORITHMS_H

#include "layers/layer_impl.h"

extern const layer_algorithm conv_winograd, conv_direct;
extern const layer_algorithm dense_unpacked;
extern const layer_algorithm maxpool_vectors, avgpool_vectors;

#endif
