/* npy.h: tensors in files of NumPy: numpy.save writes what st_npy_load reads, and the other way round.
 *
 * A file is a magic number, a version (1.0, 2.0 or 3.0), the length of its header, the header, which says dtype,
 * order and shape as Python would write a dict, and the elements.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef STRIDE_NN_DATA_NPY_H
#define STRIDE_NN_DATA_NPY_H

#include "nn/data.h"

ST_API_BEGIN

/* A new tensor of numbers rounded to `real`: float16, float32, float64, int8 to int64, uint8 to uint64 and bool, of
 * either byte order. What is in Fortran's order is a permuted view of what was read. Null, with an error that names
 * the file, where it is missing, no regular file, of another dtype, of a rank beyond ST_MAX_RANK, or longer or
 * shorter than its header says; nothing larger than the file is allocated before that is known. */
st_tensor st_npy_load(const char *path);

/* Any view, in C's order and this library's precision. The file is replaced as a whole, or where anything fails
 * unchanged: -1. */
int st_npy_save(const char *path, st_tensor x);

/* A pair of files, x [N, ...] and y [N, ...]: y [N] are classes, [N, K] targets. Images [N, H, W] become samples
 * [1, H, W] of one channel. */
st_dataset *st_dataset_npy(const char *x, const char *y);

ST_API_END

#endif
