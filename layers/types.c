/* types.c: the table of all types, to find one by name; layers/pooling/ has one with more. */
#include "layers/types.h"

#define ADDRESS(NAME) &layer_type_##NAME,
__attribute__((weak)) const st_layer_type *const st_layer_types[] = { ST_EACH_LAYER_TYPE(ADDRESS) NULL };
