/* table.c: the library's types with those of this folder. */
#include "layers/pooling/family.h"
#include "layers/types.h"

#define ADDRESS(NAME) &layer_type_##NAME,
const st_layer_type *const st_layer_types[] = { ST_EACH_LAYER_TYPE(ADDRESS) ST_EACH_POOLING_TYPE(ADDRESS)
                                                    NULL };
