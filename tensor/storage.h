/* storage.h: what tensors of one storage share. */
#ifndef STRIDE_TENSOR_STORAGE_H
#define STRIDE_TENSOR_STORAGE_H

#include "tensor/tensor.h"

struct st_storage {
    st_real *data;
    ptrdiff_t size; /* elements */
};

/* Every function that takes tensors begins with these: false, with an error that names `who`, where
 * the tensor is null. */
bool tensor_usable(st_tensor x, const char *who);

/* The axis counted from the front; -1, with an error, where the tensor has no such axis. */
int tensor_axis(st_tensor x, int axis, const char *who);

/* Lowest and highest offset of any element; of a tensor that has elements. */
typedef struct extent {
    ptrdiff_t low, high;
} extent;
extent tensor_extent(st_tensor x);

/* The axes as a list of each axis once, counted from the front, in ascending order (all where none is
 * named); count -1, with an error, where one is out of range or named twice. */
st_axes tensor_axes(st_tensor x, st_axes over, const char *who);

#endif
