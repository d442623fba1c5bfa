/* safetensors.h: named tensors and texts in one file, read and written.
 *
 * A file is the length of its header in 8 bytes, the header, and data: the elements of each tensor in
 * row-major order. Numbers are little-endian. The header is a JSON object that gives each tensor's dtype,
 * shape and place in the data, and texts by name under "__metadata__". The tensors fill the data without
 * holes or overlaps. https://huggingface.co/docs/safetensors
 *
 * Everything is checked before it is used. The header takes at most 16 MiB of text within json.h's limits;
 * tensors take as much as the file has. Errors name the file, the tensor, what was given and what was
 * expected. */
#ifndef STRIDE_NN_FILES_SAFETENSORS_H
#define STRIDE_NN_FILES_SAFETENSORS_H

#include "nn/files/replace.h"
#include "tensor/tensor.h"

#include <jansson.h>

typedef struct safetensors_entry {
    const char *name;
    st_shape shape;
    long long begin, end; /* bytes of the data */
    int dtype;            /* index into the table of dtypes */
    bool met;             /* set by the caller */
} safetensors_entry;

typedef struct safetensors {
    const char *path; /* borrowed */
    FILE *stream;
    long long data, size;     /* where in the file the data begins, and its bytes */
    json_t *header;           /* owns names and texts */
    const json_t *metadata;   /* an object of strings; NULL: none */
    safetensors_entry *entry; /* by name */
    int count;
} safetensors;

/* NULL with an error if the file cannot be read or any byte of it is invalid. */
safetensors *safetensors_open(const char *path);
void safetensors_close(safetensors *file); /* NULL is allowed */

/* The metadata's text under a key; NULL where there is none. */
const char *safetensors_text(const safetensors *file, const char *key);

/* The tensor of this name and shape, of a dtype that can be read; NULL with an error. */
safetensors_entry *safetensors_find(const safetensors *file, const char *name, st_shape expected);

/* The tensor of this name; NULL, without an error, if there is none. True if it can be read into that
 * shape. */
safetensors_entry *safetensors_named(const safetensors *file, const char *name);
bool safetensors_fits(const safetensors_entry *e, st_shape expected);

/* Reads the elements, F64, F32, F16 or BF16, rounded to st_real. */
int safetensors_read(const safetensors *file, const safetensors_entry *e, st_tensor to);

typedef struct safetensors_item {
    const char *name;
    st_tensor value;
} safetensors_item;

/* Replaces the file by the tensors, in this order and in this library's precision, and `metadata`, an object
 * of strings that stays the caller's. */
int safetensors_write(const char *path, int count, const safetensors_item items[], json_t *metadata);

#endif
