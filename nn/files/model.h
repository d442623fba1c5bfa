/* model.h: a net in a safetensors file, with further tensors and a text. */
#ifndef STRIDE_NN_FILES_MODEL_H
#define STRIDE_NN_FILES_MODEL_H

#include "nn/files/safetensors.h"
#include "nn/files/save.h"

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

#endif
