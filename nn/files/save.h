/* save.h: nets in safetensors files, with the architecture in the metadata.
 *
 * Parameters and states have the names, shapes and order of torch.nn.Sequential's state dict, so that PyTorch
 * can load them. They are F32, or F64 with the double library; both libraries read both. `__metadata__` holds
 *
 *     "format"          "stride"
 *     "stride_version"  "1", the version of these entries
 *     "architecture"    the image's shape and every layer with its options, as JSON
 *     "note.NAME"       the net's metadata
 *
 * so that st_net_load makes a working net without the code that built it. */
#ifndef STRIDE_NN_FILES_SAVE_H
#define STRIDE_NN_FILES_SAVE_H

#include "nn/net.h"

ST_API_BEGIN

/* Replaces the file atomically; it keeps its permissions, and a symbolic link stays one. -1 with an error
 * that names the file and the reason: a net that is not built, a layer that could not be read back, text that
 * is not UTF-8, a path that is not a regular file, an error of the system. */
int st_net_save(st_net *n, const char *path);

/* Types and functions that a file may refer to besides the library's, and a memory limit. Zeros are
 * defaults. */
typedef struct st_net_known {
    const st_layer_type *const *types; /* your own layer types; ends with NULL */
    const void *const *named;          /* targets of ST_FIELD_NAMED options; ends with NULL */
    ptrdiff_t max_memory;              /* the most bytes that the net may need for the batch; 0: 2 GiB */
} st_net_known;

/* Options of st_net_load. Zeros are defaults. */
typedef struct st_net_load_options {
    ptrdiff_t batch; /* images that the net is built for; 0: 64 */
    st_net_known known;
    bool plan_only; /* the net is neither built nor read, which takes no memory: for st_net_summary */
} st_net_load_options;

/* A built net with its metadata: st_net_load("a.safetensors"), or st_net_load(path, .batch = 1, .known = {
 * ... }). NULL with an error that names the file and the reason: missing, truncated, not safetensors, a
 * tensor or option that does not fit, an unknown type, more memory than allowed. Nothing large is allocated
 * before all of this is checked. */
st_net *st_net_load_file(const char *path, st_net_load_options options);
#define st_net_load(...) ST_CALL(st_net_load_file, st_net_load_options, __VA_ARGS__)

/* 1 if a safetensors file has the architecture of a net, for st_net_load; 0 if it has tensors alone, as
 * PyTorch's have, for st_net_load_tensors. -1 with an error if it is no such file. */
int st_net_described(const char *path);

/* The layer of a JSON object such as the architecture has: {"type": "conv2d", "out_channels": 6,
 * "kernel": [5, 5]}; a missing option takes its default. NULL with an error that names the type and the
 * option. */
st_layer *st_layer_from_json(const char *json, st_net_known known);

/* Reads tensors by name into a built net of the same architecture, from any safetensors file: F64, F32, F16
 * or BF16. -1 with an error, and nothing is changed: a tensor is missing, left over, of another shape or
 * dtype, or the disk fails while they are read. */
int st_net_load_tensors(st_net *n, const char *path);

/* The outcome for a tensor of the net or of the file. */
typedef enum st_net_match {
    ST_NET_MATCHED,    /* read */
    ST_NET_MISMATCHED, /* of another shape or dtype in the file: unchanged */
    ST_NET_MISSING,    /* not in the file: unchanged */
    ST_NET_LEFT_OVER   /* not in the net */
} st_net_match;
typedef void st_net_match_told(const char *name, st_net_match how, void *context);

/* For transfer learning: reads the tensors that have the name and shape of one in the built net. Returns
 * their number; -1 with an error, and nothing is changed, if the file cannot be read. Calls `tell`, unless
 * NULL, for each tensor. */
int st_net_load_matching(st_net *n, const char *path, st_net_match_told *tell, void *context);

ST_API_END

#endif
