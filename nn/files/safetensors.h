/* safetensors.h: named tensors and texts in one file, read and written.
 *
 * A file is the length of its header in 8 bytes, the header, and data: the elements of each tensor in
 * row-major order. Numbers are little-endian. The header is a JSON object that gives each tensor's dtype,
 * shape and place in the data, and under "__metadata__" texts by name. The tensors fill the data from 0
 * to its end without holes or overlaps. https://huggingface.co/docs/safetensors
 *
 * Everything a file says is checked before it is used. What is allocated is less than twice the file's size, and a few
 * KiB. Errors name the file, the tensor, what was found and what was expected. */
#ifndef STRIDE_NN_FILES_SAFETENSORS_H
#define STRIDE_NN_FILES_SAFETENSORS_H

#include "tensor/tensor.h"

#include <jansson.h>

/* Small, as a header of 55 bytes for each tensor of the file may be all that there is of it. */
typedef struct safetensors_entry {
    const char *name;
    const char *given;    /* its entry in the header, as it is written there */
    long long begin, end; /* bytes of the data */
    unsigned short size;  /* of what was given */
    unsigned char dtype;
    bool met; /* for the caller */
} safetensors_entry;

typedef struct safetensors {
    const char *path; /* borrowed */
    FILE *stream;
    long long data, size;     /* where in the file the data begins, and its bytes */
    char *header;             /* owns names and texts */
    size_t length;            /* of the header */
    safetensors_entry *entry; /* by name */
    const char **key;         /* of the metadata's texts, in the order of the file */
    int count, keys;
} safetensors;

/* NULL with an error where the file cannot be read or is not what it should be, down to its last byte. */
safetensors *safetensors_open(const char *path);
void safetensors_close(safetensors *file); /* NULL is allowed */

/* What the metadata has under a key; NULL where it has none. */
const char *safetensors_text(const safetensors *file, const char *key);
const char *safetensors_text_of(const char *key); /* one of file->key */

/* The tensor of this name and shape, of numbers that can be read; NULL with an error. */
safetensors_entry *safetensors_find(const safetensors *file, const char *name, shape expected);

/* The same of any shape, which is found. */
safetensors_entry *safetensors_find_any(const safetensors *file, const char *name, shape *found);

/* The elements of an entry that was found, F64, F32, F16 or BF16, rounded to `real`. */
int safetensors_read(const safetensors *file, const safetensors_entry *e, tensor to);

/* Writes the tensors, in this order and in this library's precision, and `metadata`, an object of strings
 * that stays the caller's. A temporary file in the same folder is flushed to disk and renamed over what
 * `path` names; where anything fails it is removed and the old file is as it was. */
typedef struct safetensors_item {
    const char *name;
    tensor value;
} safetensors_item;
int safetensors_write(const char *path, int count, const safetensors_item items[], json_t *metadata);

/* What a file says, fit for a message: one line, cut where it is long. A value is shown as JSON. */
typedef struct safetensors_shown {
    char text[80];
} safetensors_shown;
safetensors_shown safetensors_show(const json_t *value);
safetensors_shown safetensors_show_name(const char *name);

/* A shape as a list of sizes; and back, false where it is not one of at most TENSOR_MAX_RANK. */
json_t *safetensors_sizes(shape s);
bool safetensors_shape(const json_t *sizes, shape *s);

#endif
