/* tensor.h: a tensor is a storage, an offset, a shape and a stride per axis.
 *
 * A tensor is a value: pass it, return it, copy it. Views (st_select, st_narrow, st_permute, st_unfold, ...)
 * are new values over the same storage; they copy and allocate nothing. st_tensor_new and st_tensor_wrap make
 * a storage; st_tensor_free, called once with any view of it, frees it and invalidates all its views.
 *
 * Strides count elements, not bytes. A stride of 0 broadcasts, a negative one runs backwards, and two indices
 * may refer to the same element (windows overlap). Everything that moves data is then a copy or an add
 * between two views, and the adjoint swaps source and destination:
 *
 *     st_copy(columns, windows(x))              im2col
 *     st_add(windows(dx), 1, columns)           col2im: overlapping windows are summed
 *     st_copy(y, st_expand(b, y.shape))         a bias
 *     st_add(st_expand(db, dy.shape), 1, dy)    its gradient: a sum
 *
 * Errors: a view that cannot be made sets the error (error.h) and returns the null tensor. A function that is
 * given a null tensor sets the error (unless one is set), does nothing, and returns null. Axes and
 * indices may be negative: they count from the end. */
#ifndef STRIDE_TENSOR_TENSOR_H
#define STRIDE_TENSOR_TENSOR_H

#include "tensor/real.h"

#include <stdbool.h>
#include <stddef.h>

ST_API_BEGIN

enum { ST_MAX_RANK = 8 }; /* the most axes */

/* The number of elements along each axis. */
typedef struct st_shape {
    int rank; /* 0: a single number */
    ptrdiff_t n[ST_MAX_RANK];
} st_shape;

/* A list of axes of a tensor. */
typedef struct st_axes {
    int count;
    int axis[ST_MAX_RANK];
} st_axes;

/* A shape and axes: ST_SHAPE(64, 1, 28, 28), ST_AXES(0, -1). An index has the form of a shape: st_at(x,
 * ST_INDEX(0, 2)). */
#define ST_SHAPE(...) ST_OPTIONS(st_shape, ST_COUNT(ptrdiff_t, __VA_ARGS__), { __VA_ARGS__ })
#define ST_AXES(...) ST_OPTIONS(st_axes, ST_COUNT(int, __VA_ARGS__), { __VA_ARGS__ })
#define ST_INDEX ST_SHAPE

typedef struct st_storage st_storage; /* the memory behind tensors */

/* Element [i, j, ...] is element offset + i stride[0] + j stride[1] + ... of the storage. */
typedef struct st_tensor {
    st_storage *storage; /* NULL: the null tensor */
    ptrdiff_t offset;    /* of element [0, 0, ...] in the storage */
    st_shape shape;
    ptrdiff_t stride[ST_MAX_RANK];
} st_tensor;

/* ---- shapes ---------------------------------------------------------------------------------- */

bool st_shape_equal(st_shape a, st_shape b); /* the same rank and sizes */

/* The number of elements; -1, with an error that names `who`, if the rank is not from 0 to ST_MAX_RANK, a
 * size is negative, or the product overflows. */
ptrdiff_t st_shape_numel(st_shape s, const char *who);

/* [a, b, ...] -> [n, a, b, ...], the shape of a batch of samples; and back. */
st_shape st_shape_with_batch(st_shape sample, ptrdiff_t n);
st_shape st_shape_without_batch(st_shape batch);

/* "[64, 1, 28, 28]", for messages. */
typedef struct st_shape_string {
    char text[192];
} st_shape_string;
st_shape_string st_shape_text(st_shape s);

/* ---- making and freeing ---------------------------------------------------------------------- */

st_tensor st_tensor_new(st_shape s);                 /* zeros, row-major, 64-byte aligned; null on failure */
st_tensor st_tensor_wrap(st_real *data, st_shape s); /* a view of the caller's row-major array */
st_tensor st_tensor_clone(st_tensor x);              /* a new contiguous tensor with the same elements */
void st_tensor_free(st_tensor x); /* frees the storage with all its views; null is allowed */

/* ---- queries --------------------------------------------------------------------------------- */

/* The null tensor: what functions return on failure. */
static inline bool st_is_null(st_tensor x)
{
    return x.storage == NULL;
}
ptrdiff_t st_numel(st_tensor x);                  /* elements; 0 for the null tensor */
bool st_is_contiguous(st_tensor x);               /* row-major without gaps */
bool st_shares_storage(st_tensor a, st_tensor b); /* views of one storage; false for null */

/* False if a and b have no element in common: their addresses do not interleave, or their strides keep them
 * apart, as they do two columns of a matrix. True otherwise. */
bool st_overlaps(st_tensor a, st_tensor b);

/* A pointer to element [0, 0, ...]; for a contiguous tensor, to all its elements. */
st_real *st_data(st_tensor x);

/* A pointer to one element. NULL, with an error, for an index out of range. */
st_real *st_at(st_tensor x, st_shape index);

/* The value of a tensor of one element; NaN, with an error, for any other. */
st_real st_item(st_tensor x);

/* ---- views (view.c) -------------------------------------------------------------------------- */

st_tensor st_select(st_tensor x, int axis, ptrdiff_t index); /* x[index]; removes the axis */
st_tensor st_narrow(st_tensor x, int axis, ptrdiff_t start, ptrdiff_t length); /* x[start : start + length] */
st_tensor st_step(st_tensor x, int axis, ptrdiff_t step); /* x[::step]; negative: from the end */
st_tensor st_flip(st_tensor x, int axis);                 /* x[::-1] */
st_tensor st_permute(st_tensor x, st_axes order);         /* axis i of the result is order.axis[i] */
st_tensor st_transpose(st_tensor x, int axis, int other); /* exchanges two axes */
st_tensor st_expand(st_tensor x, st_shape s);             /* broadcasts as NumPy does: stride 0 */

/* Sliding windows of `size` elements along an axis, windows `step` apart, their elements `dilation` apart:
 * [.., L, ..] becomes [.., (L - dilation (size-1) - 1)/step + 1, .., size]. The windows take the axis's
 * place, their elements become the last axis. Overlapping windows share elements. */
st_tensor st_unfold(st_tensor x, int axis, ptrdiff_t size, ptrdiff_t step, ptrdiff_t dilation);

st_tensor st_split_axis(st_tensor x, int axis, ptrdiff_t inner); /* [.., n, ..] -> [.., n/inner, inner, ..] */
st_tensor st_reshape(st_tensor x, st_shape s); /* never copies: an error if a copy would be needed */

/* Any shape, strides and offset over the same storage. An error if an element would lie outside of it. */
st_tensor st_as_strided(st_tensor x, st_shape s, const ptrdiff_t *stride, ptrdiff_t offset);

/* ---- moving data (walk.c) -------------------------------------------------------------------- *
 * y and x have the same shape (use st_expand to broadcast). If y and x overlap (st_overlaps) without being
 * the same view, x is copied first. */

void st_fill(st_tensor y, st_real value); /* y = value */
void st_copy(st_tensor y, st_tensor x);   /* y = x */
/* y += alpha x; an element that is in y several times gets the sum */
void st_add(st_tensor y, st_real alpha, st_tensor x);
void st_scale(st_tensor y, st_real alpha); /* y *= alpha; y must not overlap itself */
void st_mul(st_tensor y, st_tensor x);     /* y *= x; y must not overlap itself */
void st_map(st_tensor y, st_real (*f)(st_real x, void *context), void *context, st_tensor x); /* y = f(x) */

/* Iterates over views of the same shape, row by row: row() gets the row's length n, and for views[i] a
 * pointer at[i] to its first element and the stride[i] between elements. Axes are merged where all views
 * allow it, and with ST_ANY_ORDER also permuted for speed. Views that overlap are not copied. */
typedef void st_row_function(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context);
typedef enum st_order { ST_ANY_ORDER, ST_ROW_MAJOR } st_order;
enum { ST_MAX_VIEWS = 4 };
void st_walk(int count, const st_tensor views[], st_order order, st_row_function *row, void *context);

/* ---- products (gemm.c) ----------------------------------------------------------------------- */

/* c = alpha a b + beta c for matrices a [m, k], b [k, n], c [m, n]. Transposed views are passed to BLAS as
 * such; a view that BLAS does not support is copied first. beta 0 overwrites c, even NaN; alpha 0 does not
 * read a and b. c must not overlap a, b or itself. The first product sets OpenBLAS to one thread for the
 * whole process: Stride runs images, not products, in parallel. */
void st_gemm(st_tensor c, st_real alpha, st_tensor a, st_tensor b, st_real beta);

ST_API_END

#endif
