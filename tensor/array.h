/* array.h: allocating arrays, with overflow checks. */
#ifndef STRIDE_TENSOR_ARRAY_H
#define STRIDE_TENSOR_ARRAY_H

#include <stddef.h>

/* Allocates `count` zeroed elements of `size` bytes; release it with free. NULL with an error that begins
 * with `who`: the size overflows, or there is no memory. An array of no elements is not NULL. */
void *array_new(const char *who, ptrdiff_t count, size_t size);

/* Resizes an array to `count` elements; new ones are not initialised. NULL with an error, and `array` is then
 * unchanged. */
void *array_grow(const char *who, void *array, ptrdiff_t count, size_t size);

#endif
