/* numbers.h: number formats of files, read into and written from tensors. */
#ifndef STRIDE_NN_FILES_NUMBERS_H
#define STRIDE_NN_FILES_NUMBERS_H

#include "tensor/tensor.h"

#include <stdint.h>
#include <stdio.h>

typedef enum number_kind {
    NUMBER_UNREAD,
    NUMBER_FLOAT,
    NUMBER_BFLOAT,
    NUMBER_INT,
    NUMBER_UINT,
    NUMBER_BOOL
} number_kind;

/* The format of an element in a file. */
typedef struct numbers {
    int size; /* bytes: 1, 2, 4 or 8 */
    number_kind kind;
    bool big_endian;
} numbers;

/* A little-endian integer of `size` bytes. */
uint64_t numbers_get(const unsigned char *bytes, int size);
void numbers_put(unsigned char *bytes, int size, uint64_t value);

/* The sizeof(st_real) bytes of an element, little-endian. */
void numbers_put_real(unsigned char *bytes, st_real x);

/* Reads the elements of `to`, any view, in row-major order. -1, without an error: the stream ends early or
 * fails. */
int numbers_read(FILE *from, numbers form, st_tensor to);

/* Likewise, little-endian and in this library's precision. */
int numbers_write(FILE *to, st_tensor from);

#endif
