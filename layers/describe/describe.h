/* describe.h: layers and their options as text. */
#ifndef STRIDE_LAYERS_DESCRIBE_DESCRIBE_H
#define STRIDE_LAYERS_DESCRIBE_DESCRIBE_H

#include "layers/layer.h"

ST_API_BEGIN

/* "conv2d(out_channels=32, kernel=3x3)": the type and the options that differ from their defaults. As
 * snprintf: writes at most `size` bytes with the final zero, returns the full length. */
size_t st_layer_describe(const st_layer *l, char *to, size_t size);

/* "kernel=3x3, padding=1x1": the options that differ from their defaults, in the table's order. As snprintf:
 * writes at most `size` bytes with the end, returns the whole length. A real number has the digits with which
 * it reads back exactly, but at least as many as %g. */
size_t st_options_text(const st_field *fields, const void *options, char *to, size_t size);

ST_API_END

#endif
