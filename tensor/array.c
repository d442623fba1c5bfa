/* array.c: allocating arrays, with a check that their size does not overflow. */
#include "tensor/array.h"
#include "tensor/error.h"

#include <stdint.h>
#include <stdlib.h>

/* At least one byte, as malloc may return NULL for none; 0 with an error. */
static size_t bytes_of(const char *who, ptrdiff_t count, size_t size)
{
    ptrdiff_t bytes;
    if (count >= 0 && !__builtin_mul_overflow(count, size, &bytes)) return bytes > 0 ? (size_t)bytes : 1;
    st_error_set("%s: %td elements of %zu bytes are more than can be addressed", who, count, size);
    return 0;
}

static void *checked(const char *who, void *array, size_t bytes)
{
    if (!array && bytes > 0) st_error_set("%s: no memory for %zu bytes", who, bytes);
    return array;
}

void *array_new(const char *who, ptrdiff_t count, size_t size)
{
    size_t bytes = bytes_of(who, count, size);
    return checked(who, bytes > 0 ? calloc(1, bytes) : NULL, bytes);
}

void *array_grow(const char *who, void *array, ptrdiff_t count, size_t size)
{
    size_t bytes = bytes_of(who, count, size);
    return checked(who, bytes > 0 ? realloc(array, bytes) : NULL, bytes);
}
