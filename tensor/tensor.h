/* tensor.h: a tensor is a storage, an offset, a shape and a stride per axis.
 *
 * A tensor is a value: pass it, return it, copy it. Views (select, narrow, step, flip, permute,
 * expand, window, split, merge, reshape) are new values over the same storage; they cost nothing and
 * allocate nothing. st_tensor_new and st_tensor_wrap make a storage; st_tensor_free ends it, once, through any
 * view of it, and all its views with it.
 *
 * Strides count elements, not bytes. A stride of 0 broadcasts, a negative one walks backwards, and two
 * indices may name the same place (windows overlap). Everything that moves data is then a copy or an
 * add between two views, and the adjoint swaps the sides:
 *
 *     st_copy(columns, windows(x))              im2col
 *     st_add(windows(dx), 1, columns)           col2im: what overlaps is summed
 *     st_copy(y, st_expand(b, y.shape))     a bias
 *     st_add(st_expand(db, dy.shape), 1, dy)    and its gradient: a sum
 *
 * Failure: a view that cannot be made latches an error (error.h) and is the null tensor; whatever is
 * given a null tensor latches an error if none is there, does nothing, and returns null in turn.
 * Axes and indices may be negative, counting from the end, wherever one is taken. */
#ifndef STRIDE_TENSOR_TENSOR_H
#define STRIDE_TENSOR_TENSOR_H

#include "tensor/real.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

ST_API_BEGIN

enum { ST_MAX_RANK = 8 }; /* axes, at most */

/* How many elements there are along each axis. */
typedef struct st_shape {
    int rank; /* 0: a single number */
    ptrdiff_t n[ST_MAX_RANK];
} st_shape;

/* Some of the axes of a tensor, in an order. */
typedef struct st_axes {
    int count;
    int axis[ST_MAX_RANK];
} st_axes;

/* A shape and axes: ST_SHAPE(64, 1, 28, 28), ST_AXES(0, -1). An index has the form of a shape: st_at(x, ST_INDEX(0, 2)). */
#define ST_SHAPE(...) ST_OPTIONS(st_shape, ST_COUNT(ptrdiff_t, __VA_ARGS__), { __VA_ARGS__ })
#define ST_AXES(...) ST_OPTIONS(st_axes, ST_COUNT(int, __VA_ARGS__), { __VA_ARGS__ })
#define ST_INDEX ST_SHAPE

typedef struct st_storage st_storage; /* the memory behind tensors */

/* Element [i, j, ...] is the storage's number offset + i stride[0] + j stride[1] + ... */
typedef struct st_tensor {
    st_storage *storage; /* NULL: the null tensor */
    ptrdiff_t offset;    /* of element [0, 0, …] from the storage's first */
    st_shape shape;
    ptrdiff_t stride[ST_MAX_RANK];
} st_tensor;

/* ---- shapes ---------------------------------------------------------------------------------- */

bool st_shape_equal(st_shape a, st_shape b); /* the same rank and sizes */

/* The number of elements; -1, with an error that names `who`, where the rank is not in 0…8, a size is
 * negative or the product overflows. */
ptrdiff_t st_shape_numel(st_shape s, const char *who);

/* [n, a, b, ...] of [a, b, ...], and back: a batch of samples, and one of them. */
st_shape st_shape_with_batch(st_shape sample, ptrdiff_t n);
st_shape st_shape_without_batch(st_shape batch);

/* "[64, 1, 28, 28]", for messages. */
typedef struct st_shape_string {
    char text[192];
} st_shape_string;
st_shape_string st_shape_text(st_shape s);

/* ---- making and ending ----------------------------------------------------------------------- */

st_tensor st_tensor_new(st_shape s); /* zeros, row-major, 64-byte aligned; null when refused */
st_tensor st_tensor_wrap(st_real *data,
                         st_shape s);   /* the caller's memory, row-major; it stays the caller's */
st_tensor st_tensor_clone(st_tensor x); /* a new contiguous tensor with the same elements */
void st_tensor_free(st_tensor x);       /* the storage, and so every view of it; null is allowed */

/* ---- asking ---------------------------------------------------------------------------------- */

/* Made of nothing, as what failed returns. */
static inline bool st_is_null(st_tensor x)
{
    return x.storage == NULL;
}
ptrdiff_t st_numel(st_tensor x);                  /* elements; 0 for the null tensor */
bool st_is_contiguous(st_tensor x);               /* row-major without gaps */
bool st_shares_storage(st_tensor a, st_tensor b); /* views of one memory; null shares none */
bool st_overlaps(st_tensor a, st_tensor b);       /* exact: is some place an element of both? */

/* Where element [0, 0, …] lies: the whole data where the tensor is contiguous. */
st_real *st_data(st_tensor x);

/* The place of one element: NULL, with an error, outside the shape. Two elements are the same place
 * exactly when these pointers are equal; equal values are not identity. */
st_real *st_at(st_tensor x, st_shape index);

/* The value of a tensor of one element; NaN, with an error, for any other. */
st_real st_item(st_tensor x);

/* ---- views (view.c) -------------------------------------------------------------------------- */

st_tensor st_select(st_tensor x, int axis, ptrdiff_t index);                   /* one index; the axis goes */
st_tensor st_narrow(st_tensor x, int axis, ptrdiff_t start, ptrdiff_t length); /* x[start : start + length] */
st_tensor st_step(st_tensor x, int axis, ptrdiff_t step); /* x[::step]; from the end where negative */
st_tensor st_flip(st_tensor x, int axis);                 /* step -1 */
st_tensor st_permute(st_tensor x, st_axes order);         /* axis i of the result is order.axis[i] */
st_tensor st_transpose(st_tensor x, int axis, int other); /* the two exchanged */
st_tensor st_expand(st_tensor x, st_shape s);             /* NumPy's broadcasting: stride 0 */

/* All windows of `size` elements along an axis, `step` apart, elements within `dilation` apart:
 * [.., L, ..] becomes [.., (L - dilation (size-1) - 1)/step + 1, .., size], the windows where the axis
 * was, their elements last. Overlapping windows name the same places. */
st_tensor st_unfold(st_tensor x, int axis, ptrdiff_t size, ptrdiff_t step, ptrdiff_t dilation);

st_tensor st_split_axis(st_tensor x, int axis, ptrdiff_t inner); /* [.., n, ..] -> [.., n/inner, inner, ..] */
st_tensor st_merge_axes(st_tensor x, int axis); /* this axis and the next, if strides allow */
st_tensor st_reshape(st_tensor x, st_shape s);  /* without a copy: refused where one is needed */

/* Any shape, strides and offset over the same storage; refused where an element would lie outside. */
st_tensor st_as_strided(st_tensor x, st_shape s, const ptrdiff_t *stride, ptrdiff_t offset);

/* ---- moving data (walk.c) -------------------------------------------------------------------- *
 * y and x have the same shape (expand says what is to be broadcast). Where y and x overlap without
 * being the same view, the result is as if x had been copied first. */

void st_fill(st_tensor y, st_real value);             /* y = value */
void st_copy(st_tensor y, st_tensor x);               /* y = x */
void st_add(st_tensor y, st_real alpha, st_tensor x); /* y += alpha x, each index in turn, in any order */
void st_scale(st_tensor y, st_real alpha);            /* every *index* once: not for overlapping y */
void st_mul(st_tensor y, st_tensor x);                /* y *= x, likewise */
void st_map(st_tensor y, st_real (*f)(st_real x, void *context), void *context, st_tensor x); /* y = f(x) */

/* Reductions over the named axes (count 0: over all). y has the other axes, in order. Sums along the innermost
 * axis are taken in double, and added up in this precision. */
void st_sum(st_tensor y, st_tensor x, st_axes over);
void st_mean(st_tensor y, st_tensor x, st_axes over);
void st_max(st_tensor y, st_tensor x, st_axes over); /* NaN where there is one */

/* Row-major index, within the reduced axes, of the first maximum (of the first NaN where there is
 * one): index[k] for the k-th remaining position in row-major order. */
void st_argmax(ptrdiff_t *index, st_tensor x, st_axes over);

/* y[index[e]] += x[e] for every element e of x in row-major order. `index` holds y's rank of
 * coordinates per element; duplicates are summed. Nothing is added when one lies outside. */
void st_scatter_add(st_tensor y, const ptrdiff_t *index, st_tensor x);

/* Every index of some views of one shape, row by row: `at[i]` points into views[i], `stride[i]` is its
 * step from one element to the next, n the row's length. Axes are merged where every view allows it;
 * in any order but ST_ROW_MAJOR also permuted for speed. */
typedef void st_row_function(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context);
typedef enum st_order { ST_ANY_ORDER, ST_ROW_MAJOR } st_order;
enum { ST_MAX_VIEWS = 4 };
void st_walk(int count, const st_tensor views[], st_order order, st_row_function *row, void *context);

/* ---- products (gemm.c) ----------------------------------------------------------------------- */

/* c = alpha a b + beta c for matrices [m, k], [k, n], [m, n]. Transposes are read from the strides; a
 * view that BLAS cannot take is packed into a copy. beta 0 overwrites whatever c held, NaN too;
 * alpha 0 reads neither a nor b. c may not overlap a or b, nor itself. The first product sets OpenBLAS to one
 * thread for the whole process: Stride runs images, not products, in parallel. */
void st_gemm(st_tensor c, st_real alpha, st_tensor a, st_tensor b, st_real beta);

/* ---- printing (print.c) ---------------------------------------------------------------------- */

/* As NumPy prints an array of this precision: shortest digits that read back, aligned columns, "..."
 * in tensors of more than 1,000 elements. No newline at the end. */
void st_print(FILE *to, st_tensor x);

/* The same into memory, as snprintf: at most `size` bytes with the end, returns the whole length. */
size_t st_format(char *to, size_t size, st_tensor x);

ST_API_END

#endif
