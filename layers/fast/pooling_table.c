/* pooling_table.c: the algorithms of the types of layers/pooling/. */
#include "layers/fast/windows.h"
#include "layers/pooling/family.h"

/* ---- blur pooling is a pair of matrices, as resizing is ------------------------------------------------ */

const layer_algorithm blur_pool_rows = {
    .type = &layer_type_blur_pool,
    .suits = rows_suit,
    .plan = rows_plan_for,
    .fill = rows_fill,
    .hooks = { .forward = rows_forward, .backward = rows_backward },
};

#define ADDRESS(NAME, HOW) &NAME##_##HOW,
static const layer_algorithm *const algorithms[] = { EACH_POOLING_ALGORITHM(ADDRESS) NULL };
const layer_algorithm *const *layer_pooling_algorithms = algorithms;
