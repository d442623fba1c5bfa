/* save.h: nets in files: safetensors, with the architecture in its metadata.
 *
 * Parameters and states have the names, shapes and order of torch.nn.Sequential's state dict, so that
 * PyTorch reads the tensors without a script, in this library's precision: F32, or F64 of the double
 * library. Files of either are read by both. `__metadata__` holds
 *
 *     "format"          "stride"
 *     "stride_version"  "1", of these entries
 *     "architecture"    the image's shape and every layer with its options, as JSON
 *     "note.NAME"       each note of the net
 *
 * so that st_net_load makes a working net without the code that built it. */
#ifndef STRIDE_NN_FILES_SAVE_H
#define STRIDE_NN_FILES_SAVE_H

#include "nn/net.h"

ST_API_BEGIN

/* Writes a temporary file beside `path`, flushes it, and renames it over: `path` is the old file or the
 * new one, never half of it. -1, with an error that names the file and the reason: a net that is not
 * built, a layer that could not be read back, text that is not UTF-8, whatever the system says. */
int st_net_save(st_net *n, const char *path);

/* What a file may refer to beyond the shipped layers; zero: nothing. */
typedef struct st_net_known {
    const st_layer_type *const *types; /* your own layer types, ended by NULL */
    const void *const *named; /* what ST_FIELD_NAMED options point to (pool functions), ended by NULL */
} st_net_known;

/* A net built for `batch` images, with its notes. NULL, with an error that names the file and the reason:
 * missing, truncated, not safetensors, a tensor or option that does not fit, a type that is not known. */
st_net *st_net_load(const char *path, ptrdiff_t batch, st_net_known known);

/* The tensors alone, into a net of the same architecture that is built, by name: F64, F32, F16 and BF16,
 * whoever wrote them. Nothing is changed where one is missing, left over, of another shape or cannot be
 * read. */
int st_net_load_tensors(st_net *n, const char *path);

ST_API_END

#endif
