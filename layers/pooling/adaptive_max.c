/* adaptive_max.c: the maximum of each of OH x OW parts of the image, which lie as those of adaptive_avgpool:
 * PyTorch's AdaptiveMaxPool2d. */
#include "layers/pooling/family.h"

POOLING_TO_SIZE(adaptive_maxpool, .value = pool_max_value, .adjoint = pool_max_adjoint)
