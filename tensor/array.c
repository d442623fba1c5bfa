/* array.c: allocating arrays, with a check that their size does not overflow. */
#include "tensor/array.h"
#include "tensor/error.h"

#include <stdlib.h>
#include <string.h>

void *array_grow(const char *who, void *array, ptrdiff_t count, size_t size)
{
    ptrdiff_t bytes;
    void *grown = NULL;
    if (count < 0 || __builtin_mul_overflow(count, size, &bytes))
        st_error_set("%s: %td elements of %zu bytes are more than can be addressed", who, count, size);
    else if (!(grown = realloc(array, bytes > 0 ? (size_t)bytes : 1))) /* of none it may be NULL */
        st_error_set("%s: no memory for %td bytes", who, bytes);
    return grown;
}

void *array_new(const char *who, ptrdiff_t count, size_t size)
{
    void *array = array_grow(who, NULL, count, size);
    return array ? memset(array, 0, (size_t)count * size) : NULL;
}
