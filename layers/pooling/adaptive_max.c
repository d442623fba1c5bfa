/* adaptive_max.c: the maximum of each of OH x OW parts of the image, which lie as those of adaptive_avgpool:
 * PyTorch's AdaptiveMaxPool2d. */
#include "layers/pooling/lanes.h"

static const st_field fields[] = {
    POOL_FIELD(output_size, ST_FIELD_PAIR, st_adaptive_maxpool_options, .fallback = 1, .least = 1,
               .square = true),
    { 0 },
};

POOLING_BY_LANES(adaptive_maxpool, fields, lanes_max_values, lanes_max_adjoints, NULL,
                 .grid = &pool_adaptive_grid, .value = pool_max_value, .adjoint = pool_max_adjoint)
