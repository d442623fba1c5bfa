/* architecture.h: a net's layers with their options as JSON, and back.
 *
 *     {"input": [1, 28, 28], "layers": [
 *         {"type": "conv2d", "out_channels": 6, "kernel": [5, 5], ...},
 *         {"type": "sequence", "layers": [...]}]}
 *
 * Every option in a type's table of fields is written, with defaults filled in. When read, a missing
 * option takes its default; anything unknown is an error. */
#ifndef STRIDE_NN_FILES_ARCHITECTURE_H
#define STRIDE_NN_FILES_ARCHITECTURE_H

#include "nn/files/save.h"

#include <jansson.h>

/* A JSON string that holds the JSON above; NULL with an error if it could not be read back. */
json_t *architecture_write(const st_net *n);

/* A net, not yet built; NULL with an error that says which layer. */
st_net *architecture_read(const char *text, st_net_known known);

/* An option as JSON. NULL: no memory. */
json_t *json_option(const st_field *f, const void *options);

#endif
