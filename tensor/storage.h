/* storage.h: the storage of tensors, and checks of arguments; private to the library. */
#ifndef STRIDE_TENSOR_STORAGE_H
#define STRIDE_TENSOR_STORAGE_H

#include "tensor/tensor.h"

struct st_storage {
    st_real *data;
    ptrdiff_t size; /* elements */
};

/* The null tensor, for a function that fails: return refused(st_error_set(...)). */
static inline st_tensor refused(int error)
{
    (void)error;
    return (st_tensor){ 0 };
}

/* Checks a tensor argument: false, with an error that names the function `who`, if it is null. */
bool tensor_usable(st_tensor x, const char *who);

/* The axis counted from the front; -1 with an error: x is null, or has no such axis. */
int tensor_axis(st_tensor x, int axis, const char *who);

/* The lowest and highest offset of an element. The tensor must have elements. */
typedef struct extent {
    ptrdiff_t low, high;
} extent;
extent tensor_extent(st_tensor x);

#endif
