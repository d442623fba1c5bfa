/* array.h: arrays whose size is a product: it is checked before memory is asked for. */
#ifndef STRIDE_TENSOR_ARRAY_H
#define STRIDE_TENSOR_ARRAY_H

#include <stddef.h>

/* A new array of `count` zeroed elements of `size` bytes, to be freed with free. NULL, with an error that begins with
 * `who`, where the bytes overflow or memory is short. An array of no elements is not NULL. */
void *array_new(const char *who, ptrdiff_t count, size_t size);

/* The array with room for `count` elements; those that are new hold anything. NULL, with an error, where it cannot be
 * grown: `array` is then as it was. */
void *array_grow(const char *who, void *array, ptrdiff_t count, size_t size);

#endif
