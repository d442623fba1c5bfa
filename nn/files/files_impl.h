/* files_impl.h: a net in a safetensors file, with further tensors and a text; its architecture and the
 * configuration of a run as JSON.
 *
 *     {"input": [1, 28, 28], "layers": [
 *         {"type": "conv2d", "out_channels": 6, "kernel": [5, 5], ...},
 *         {"type": "sequence", "layers": [...]}]}
 *
 * Every option in a type's table of fields is written, with defaults filled in. When read, a missing
 * option takes its default; anything unknown is an error. */
#ifndef STRIDE_NN_FILES_FILES_IMPL_H
#define STRIDE_NN_FILES_FILES_IMPL_H

#include "nn/files/safetensors.h"
#include "nn/files/save.h"
#include "nn/files/kept.h"

/* ---- architectures (architecture.c) ----------------------------------------------------------------- */

/* A JSON string that holds the JSON above; NULL with an error if it could not be read back. */
json_t *architecture_write(const st_net *n);

/* A net, not yet built; NULL with an error that says which layer. */
st_net *architecture_read(const char *text, st_net_known known);

/* An option as JSON. NULL: no memory. */
json_t *json_option(const st_field *f, const void *options);

/* ---- nets (save.c) ---------------------------------------------------------------------------------- */

/* Tensors whose names begin with MODEL_EXTRA, which st_net_load ignores, and an entry of the metadata. */
#define MODEL_EXTRA "train."

typedef struct model_extra {
    int count;
    const safetensors_item *item;
    const char *name, *text; /* of the entry; NULL: none */
} model_extra;

int model_write(st_net *n, const char *path, model_extra extra);

/* Checks that the file has every tensor of the net with its shape, and no others but extra ones. */
int model_check(st_net *n, const safetensors *file);

/* Reads the tensors of a file that was checked. */
int model_read(st_net *n, const safetensors *file);

/* Tensors with copies of their elements, which are put back if a file cannot be read to its end. */
typedef struct backup {
    int count;
    st_tensor of[2 + MOST_KEPT], copy[2 + MOST_KEPT];
} backup;
int backup_add(backup *b, st_tensor x);
int backup_add_net(backup *b, const st_net *n);
int backup_end(backup *b, int status); /* puts the elements back unless the status, which it returns, is 0 */

/* ---- the configuration of a run, which a resumed run and other ranks must have, too (checkpoint.c) ----- */

/* `sum` is the CRC-32 of samples. To be freed by json_decref; NULL with an error. */
json_t *checkpoint_terms(const st_run *run, uint32_t sum);

/* -1 with an error that begins with `who` and names the first difference. */
int checkpoint_compare(const char *who, const json_t *mine, const json_t *theirs);

#endif
