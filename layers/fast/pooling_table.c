/* pooling_table.c: the algorithms of the types of layers/pooling/. */
#include "layers/fast/windows.h"

#define ADDRESS(NAME, HOW) &NAME##_##HOW,
static const layer_algorithm *const algorithms[] = { EACH_POOLING_ALGORITHM(ADDRESS) NULL };
const layer_algorithm *const *layer_pooling_algorithms = algorithms;
