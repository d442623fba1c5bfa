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

/* Replaces the file as a whole: `path` is the old file or the new one, never a part of it. It keeps its permissions, and
 * a symbolic link stays one. -1 with an error that names the file and the reason: a net that is not built, a layer that
 * could not be read back, text that is not UTF-8, a path that is no regular file, what the system reports. */
int st_net_save(st_net *n, const char *path);

/* Fails where st_net_save would, for the net as it is now, and leaves no file: for the beginning of a long run. */
int st_net_can_save(st_net *n, const char *path);

/* What a file may refer to beyond the shipped layers, and take; zero: nothing, and the default. */
typedef struct st_net_known {
    const st_layer_type *const *types; /* your own layer types, ended by NULL */
    const void *const *named; /* what ST_FIELD_NAMED options point to (pool functions), ended by NULL */
    ptrdiff_t max_memory;     /* bytes that the net may take for the batch; 0: 2 GiB */
} st_net_known;

/* A net built for `batch` images, with its notes. NULL with an error that names the file and the reason: missing,
 * truncated, not safetensors, a tensor or option that does not fit, a type that is not known, more memory than
 * is allowed. Nothing large is allocated before all of that is known. */
st_net *st_net_load(const char *path, ptrdiff_t batch, st_net_known known);

/* The tensors alone, into a net of the same architecture that is built, by name: F64, F32, F16 and BF16,
 * whoever wrote them. Nothing is changed where one is missing, left over, of another shape or cannot be
 * read. */
int st_net_load_tensors(st_net *n, const char *path);

/* How a tensor of the net, or one that only the file has, took part. */
typedef enum st_net_match {
    ST_NET_MATCHED,    /* read */
    ST_NET_MISMATCHED, /* of another shape or dtype in the file: unchanged */
    ST_NET_MISSING,    /* not in the file: unchanged */
    ST_NET_LEFT_OVER   /* not in the net */
} st_net_match;
typedef void st_net_match_told(const char *name, st_net_match how, void *context);

/* For transfer learning: reads the tensors whose name and shape are the net's, which is built. The number of tensors
 * read; -1 with an error where the file cannot be read, and the net is then unchanged. `tell`, unless NULL, is called
 * for each tensor. */
int st_net_load_matching(st_net *n, const char *path, st_net_match_told *tell, void *context);

ST_API_END

#endif
