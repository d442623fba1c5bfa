/* model.h: a net as the tensors and texts of a file, with what else goes into it. */
#ifndef STRIDE_NN_FILES_MODEL_H
#define STRIDE_NN_FILES_MODEL_H

#include "nn/files/safetensors.h"
#include "nn/files/save.h"

/* Beside a net's own: tensors whose names begin with MODEL_EXTRA, which st_net_load passes over, and a text. */
#define MODEL_EXTRA "train."

typedef struct model_extra {
    int count;
    const safetensors_item *item;
    const char *name, *text; /* of the metadata; NULL: none */
} model_extra;

/* As st_net_save and st_net_can_save. */
int model_write(st_net *n, const char *path, model_extra extra);
int model_try(st_net *n, const char *path, model_extra extra);

/* The two steps of st_net_load, for an open file: the net, not built, whose tensors are in the file; then its memory,
 * notes and tensors. */
st_net *model_plan(const safetensors *file, st_net_known known);
int model_fill(st_net *n, const safetensors *file, ptrdiff_t batch, st_net_known known);

/* Whether every tensor of the net is in the file with its shape, and every one of the file's that is no extra is
 * in the net. */
int model_check(st_net *n, const safetensors *file);

/* Their elements, of a file that was checked; the net is as it was where one cannot be read. */
int model_read(st_net *n, const safetensors *file);

#endif
