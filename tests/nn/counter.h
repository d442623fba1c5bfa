/* counter.h: a layer that is the identity and counts, in its state "seen", the batches that it is trained
 * on. */
#ifndef STRIDE_TESTS_NN_COUNTER_H
#define STRIDE_TESTS_NN_COUNTER_H

#include "layers/layer.h"

extern const st_layer_type counter;

#endif
