/* types.h: the library's layer types, each defined in the file of its family, with its constructor. */
#ifndef STRIDE_LAYERS_TYPES_H
#define STRIDE_LAYERS_TYPES_H

#include "layers/layers.h"

#define DECLARE_LAYER_TYPE(NAME) extern const st_layer_type layer_type_##NAME;
ST_EACH_LAYER_TYPE(DECLARE_LAYER_TYPE)

/* The constructor of a type with options, and of one without. */
#define CONSTRUCTOR(NAME, OPTIONS)                                                                           \
    st_layer *st_##NAME##_new(OPTIONS options)                                                               \
    {                                                                                                        \
        return st_layer_new(&layer_type_##NAME, &options, 0, NULL);                                          \
    }
#define PLAIN_CONSTRUCTOR(NAME)                                                                              \
    st_layer *st_##NAME(void)                                                                                \
    {                                                                                                        \
        return st_layer_new(&layer_type_##NAME, NULL, 0, NULL);                                              \
    }

#endif
