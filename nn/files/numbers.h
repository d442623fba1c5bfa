/* numbers.h: numbers as files hold them, between a stream and a tensor. */
#ifndef STRIDE_NN_FILES_NUMBERS_H
#define STRIDE_NN_FILES_NUMBERS_H

#include "tensor/tensor.h"

#include <stdint.h>

/* How an element lies in a file: its bytes, and its value, rounded to `real`, by their bits. */
typedef struct numbers {
    int size; /* 1, 2, 4 or 8 */
    bool big_endian;
    real (*value)(uint64_t bits); /* NULL: not to be read as `real` */
} numbers;

real numbers_f64(uint64_t bits);
real numbers_f32(uint64_t bits);
real numbers_f16(uint64_t bits);
real numbers_bf16(uint64_t bits);
real numbers_i64(uint64_t bits);
real numbers_i32(uint64_t bits);
real numbers_i16(uint64_t bits);
real numbers_i8(uint64_t bits);
real numbers_unsigned(uint64_t bits);
real numbers_bool(uint64_t bits);

/* An integer of so many bytes, the first the least significant. */
uint64_t numbers_get(const unsigned char *bytes, int size);
void numbers_put(unsigned char *bytes, int size, uint64_t value);

/* All elements of `to`, any view, in row-major order. -1, without an error, where the stream ends early or fails. */
int numbers_read(FILE *from, numbers form, tensor to);

/* Likewise, little-endian and in this library's precision. */
int numbers_write(FILE *to, tensor from);

#endif
