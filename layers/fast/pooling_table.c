/* pooling_table.c: the algorithms of the types of layers/pooling/. */
#include "layers/fast/windows.h"
#include "layers/pooling/family.h"

/* Blur pooling is a pair of matrices, as resizing is; adaptive maxima have windows in rows and columns, as
 * other maxima do. */
#define ROWS(NAME, ...)                                                                                      \
    const layer_algorithm NAME##_rows = { .type = &layer_type_##NAME,                                        \
                                          .suits = rows_suit,                                                \
                                          .plan = rows_plan_for,                                             \
                                          .fill = rows_fill,                                                 \
                                          .hooks = { __VA_ARGS__ } };
ROWS(blur_pool, rows_forward, rows_backward)
ROWS(adaptive_maxpool, rows_maxima_forward, rows_maxima_backward)

#define ADDRESS(NAME, HOW) &NAME##_##HOW,
static const layer_algorithm *const algorithms[] = { EACH_POOLING_ALGORITHM(ADDRESS) NULL };
const layer_algorithm *const *layer_pooling_algorithms = algorithms;
