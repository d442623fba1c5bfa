/* types.c: the list of all types, to find one by name. */
#include "layers/types.h"
#include "layers/layers.h"

#define ADDRESS(NAME) &layer_type_##NAME,
const st_layer_type *const st_layer_types[] = { EACH_LAYER_TYPE(ADDRESS) NULL };
