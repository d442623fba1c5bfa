/* npy.h: NumPy's .npy files: st_npy_load reads what numpy.save writes, and the other way round.
 *
 * A file is a magic number, a version (1.0, 2.0 or 3.0), the length of its header, the header, which says
 * dtype, order and shape as Python would write a dict, and the elements.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef STRIDE_NN_DATA_NPY_H
#define STRIDE_NN_DATA_NPY_H

#include "nn/data.h"

ST_API_BEGIN

/* A new tensor, converted to st_real from float16, float32, float64, int8 to int64, uint8 to uint64 or bool,
 * in either byte order. An array in Fortran order becomes a permuted view. Null with an error that names the
 * file: missing, not a regular file, another dtype, more than ST_MAX_RANK axes, a size that differs from the
 * header. Nothing larger than the file is allocated before it is checked. */
st_tensor st_npy_load(const char *path);

/* Writes any view, in C order and this library's precision. The file is replaced atomically. -1 with an
 * error; the file is then unchanged. */
int st_npy_save(const char *path, st_tensor x);

/* A pair of files, x [N, ...] and y [N, ...]: y [N] are classes, [N, K] targets. Images [N, H, W] become
 * samples [1, H, W] of one channel. */
st_dataset *st_dataset_npy(const char *x, const char *y);

ST_API_END

#endif
