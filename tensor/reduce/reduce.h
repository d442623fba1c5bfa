/* reduce.h: sums, means and maxima of tensors over axes, and additions to elements that an index names. */
#ifndef STRIDE_TENSOR_REDUCE_REDUCE_H
#define STRIDE_TENSOR_REDUCE_REDUCE_H

#include "tensor/tensor.h"

ST_API_BEGIN

/* Reductions over the given axes (count 0: all axes). y has the remaining axes, in order. Sums along the
 * innermost axis are accumulated in double, sums over the others in st_real. The sum of no elements is 0 and
 * their mean NaN; a maximum of none is an error, here and below, and nothing is written. */
void st_sum(st_tensor y, st_tensor x, st_axes over);
void st_mean(st_tensor y, st_tensor x, st_axes over);
void st_max(st_tensor y, st_tensor x, st_axes over); /* propagates NaN */

/* Finds the first maximum, or the first NaN, over the given axes: index[k] is its row-major index within
 * these axes, at the k-th position of the remaining axes in row-major order. */
void st_argmax(ptrdiff_t *index, st_tensor x, st_axes over);

/* y[index[e]] += x[e] for every element e of x in row-major order. For each element `index` holds one
 * coordinate per axis of y; duplicates are summed. An index out of range is an error, and nothing is
 * added. */
void st_scatter_add(st_tensor y, const ptrdiff_t *index, st_tensor x);

ST_API_END

#endif
