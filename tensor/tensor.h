/* tensor.h: a tensor is a storage, an offset, a shape and a stride per axis.
 *
 * A tensor is a value: pass it, return it, copy it. Views (select, narrow, step, flip, permute,
 * expand, window, split, merge, reshape) are new values over the same storage; they cost nothing and
 * allocate nothing. tensor_new and tensor_wrap make a storage; tensor_free ends it, once, through any
 * view of it, and all its views with it.
 *
 * Strides count elements, not bytes. A stride of 0 broadcasts, a negative one walks backwards, and two
 * indices may name the same place (windows overlap). Everything that moves data is then a copy or an
 * add between two views, and the adjoint swaps the sides:
 *
 *     tensor_copy(columns, windows(x))              im2col
 *     tensor_add(windows(dx), 1, columns)           col2im: what overlaps is summed
 *     tensor_copy(y, tensor_expand(b, y.shape))     a bias
 *     tensor_add(tensor_expand(db, dy.shape), 1, dy)    and its gradient: a sum
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

#pragma GCC visibility push(default)

enum { TENSOR_MAX_RANK = 8 }; /* axes, at most */

/* How many elements there are along each axis. */
typedef struct shape {
    int rank; /* 0: a single number */
    ptrdiff_t n[TENSOR_MAX_RANK];
} shape;

/* Some of the axes of a tensor, in an order. */
typedef struct axes {
    int count;
    int axis[TENSOR_MAX_RANK];
} axes;

/* How many arguments of a type there are, and a shape and axes of them: SHAPE(64, 1, 28, 28), AXES(0, -1). */
#define TENSOR_COUNT(type, ...) ((int)(sizeof((type[]){ __VA_ARGS__ }) / sizeof(type)))
#define SHAPE(...) ((shape){ .rank = TENSOR_COUNT(ptrdiff_t, __VA_ARGS__), .n = { __VA_ARGS__ } })
#define AXES(...) ((axes){ .count = TENSOR_COUNT(int, __VA_ARGS__), .axis = { __VA_ARGS__ } })
#define INDEX SHAPE /* an index has the form of a shape: tensor_at(x, INDEX(0, 2)) */

typedef struct storage storage; /* the memory behind tensors */

/* Element [i, j, ...] is the storage's number offset + i stride[0] + j stride[1] + ... */
typedef struct tensor {
    storage *storage; /* NULL: the null tensor */
    ptrdiff_t offset; /* of element [0, 0, …] from the storage's first */
    shape shape;
    ptrdiff_t stride[TENSOR_MAX_RANK];
} tensor;

/* ---- shapes ---------------------------------------------------------------------------------- */

bool shape_equal(shape a, shape b); /* the same rank and sizes */

/* The number of elements; -1, with an error that names `who`, where the rank is not in 0…8, a size is
 * negative or the product overflows. */
ptrdiff_t shape_count(shape s, const char *who);

/* [n, a, b, ...] of [a, b, ...], and back: a batch of samples, and one of them. */
shape shape_with_batch(shape sample, ptrdiff_t n);
shape shape_without_batch(shape batch);

/* "[64, 1, 28, 28]", for messages. */
typedef struct shape_string {
    char text[192];
} shape_string;
shape_string shape_text(shape s);

/* ---- making and ending ----------------------------------------------------------------------- */

tensor tensor_new(shape s);              /* zeros, row-major, 64-byte aligned; null when refused */
tensor tensor_wrap(real *data, shape s); /* the caller's memory, row-major; it stays the caller's */
tensor tensor_clone(tensor x);           /* a new contiguous tensor with the same elements */
void tensor_free(tensor x);              /* the storage, and so every view of it; null is allowed */

/* ---- asking ---------------------------------------------------------------------------------- */

/* Made of nothing, as what failed returns. */
static inline bool tensor_is_null(tensor x)
{
    return x.storage == NULL;
}
ptrdiff_t tensor_count(tensor x);               /* elements; 0 for the null tensor */
bool tensor_is_contiguous(tensor x);            /* row-major without gaps */
bool tensor_shares_storage(tensor a, tensor b); /* views of one memory; null shares none */
bool tensor_overlaps(tensor a, tensor b);       /* exact: is some place an element of both? */

/* Where element [0, 0, …] lies: the whole data where the tensor is contiguous. */
real *tensor_data(tensor x);

/* The place of one element: NULL, with an error, outside the shape. Two elements are the same place
 * exactly when these pointers are equal; equal values are not identity. */
real *tensor_at(tensor x, shape index);

/* The value of a tensor of one element; NaN, with an error, for any other. */
real tensor_item(tensor x);

/* ---- views (view.c) -------------------------------------------------------------------------- */

tensor tensor_select(tensor x, int axis, ptrdiff_t index);                   /* one index; the axis goes */
tensor tensor_narrow(tensor x, int axis, ptrdiff_t start, ptrdiff_t length); /* x[start : start + length] */
tensor tensor_step(tensor x, int axis, ptrdiff_t step); /* x[::step]; from the end where negative */
tensor tensor_flip(tensor x, int axis);                 /* step -1 */
tensor tensor_permute(tensor x, axes order);            /* axis i of the result is order.axis[i] */
tensor tensor_transpose(tensor x, int axis, int other); /* the two exchanged */
tensor tensor_expand(tensor x, shape s);                /* NumPy's broadcasting: stride 0 */

/* All windows of `size` elements along an axis, `step` apart, elements within `dilation` apart:
 * [.., L, ..] becomes [.., (L - dilation (size-1) - 1)/step + 1, .., size], the windows where the axis
 * was, their elements last. Overlapping windows name the same places. */
tensor tensor_window(tensor x, int axis, ptrdiff_t size, ptrdiff_t step, ptrdiff_t dilation);

tensor tensor_split(tensor x, int axis, ptrdiff_t inner); /* [.., n, ..] -> [.., n/inner, inner, ..] */
tensor tensor_merge(tensor x, int axis);                  /* this axis and the next, if strides allow */
tensor tensor_reshape(tensor x, shape s);                 /* without a copy: refused where one is needed */

/* Any shape, strides and offset over the same storage; refused where an element would lie outside. */
tensor tensor_as_strided(tensor x, shape s, const ptrdiff_t *stride, ptrdiff_t offset);

/* ---- moving data (walk.c) -------------------------------------------------------------------- *
 * y and x have the same shape (expand says what is to be broadcast). Where y and x overlap without
 * being the same view, the result is as if x had been copied first. */

void tensor_fill(tensor y, real value);          /* y = value */
void tensor_copy(tensor y, tensor x);            /* y = x */
void tensor_add(tensor y, real alpha, tensor x); /* y += alpha x, each index in turn, in any order */
void tensor_scale(tensor y, real alpha);         /* every *index* once: not for overlapping y */
void tensor_multiply(tensor y, tensor x);        /* y *= x, likewise */
void tensor_map(tensor y, real (*f)(real x, void *context), void *context, tensor x); /* y = f(x) */

/* Reductions over the named axes (count 0: over all). y has the other axes, in order. Sums along the innermost
 * axis are taken in double, and added up in this precision. */
void tensor_sum(tensor y, tensor x, axes over);
void tensor_mean(tensor y, tensor x, axes over);
void tensor_max(tensor y, tensor x, axes over); /* NaN where there is one */

/* Row-major index, within the reduced axes, of the first maximum (of the first NaN where there is
 * one): index[k] for the k-th remaining position in row-major order. */
void tensor_argmax(ptrdiff_t *index, tensor x, axes over);

/* y[index[e]] += x[e] for every element e of x in row-major order. `index` holds y's rank of
 * coordinates per element; duplicates are summed. Nothing is added when one lies outside. */
void tensor_scatter_add(tensor y, const ptrdiff_t *index, tensor x);

/* Every index of some views of one shape, row by row: `at[i]` points into views[i], `stride[i]` is its
 * step from one element to the next, n the row's length. Axes are merged where every view allows it;
 * in any order but TENSOR_ROW_MAJOR also permuted for speed. */
typedef void tensor_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context);
typedef enum tensor_order { TENSOR_ANY_ORDER, TENSOR_ROW_MAJOR } tensor_order;
enum { TENSOR_MAX_VIEWS = 4 };
void tensor_walk(int count, const tensor views[], tensor_order order, tensor_row *row, void *context);

/* ---- products (gemm.c) ----------------------------------------------------------------------- */

/* c = alpha a b + beta c for matrices [m, k], [k, n], [m, n]. Transposes are read from the strides; a
 * view that BLAS cannot take is packed into a copy. beta 0 overwrites whatever c held, NaN too;
 * alpha 0 reads neither a nor b. c may not overlap a or b, nor itself. The first product sets OpenBLAS to one
 * thread for the whole process: Stride runs images, not products, in parallel. */
void tensor_gemm(tensor c, real alpha, tensor a, tensor b, real beta);

/* ---- printing (print.c) ---------------------------------------------------------------------- */

/* As NumPy prints an array of this precision: shortest digits that read back, aligned columns, "..."
 * in tensors of more than 1,000 elements. No newline at the end. */
void tensor_print(FILE *to, tensor x);

/* The same into memory, as snprintf: at most `size` bytes with the end, returns the whole length. */
size_t tensor_format(char *to, size_t size, tensor x);

#pragma GCC visibility pop

#endif
