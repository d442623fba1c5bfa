/* reduce.c: sums, means and maxima over axes, and indexing's adjoint. A sum is an addition to a view whose
 * strides along the axes to reduce are 0. */
#include "tensor/reduce/reduce.h"
#include "tensor/error.h"
#include "tensor/storage.h"
#include "tensor/tables.h"

#include <math.h>

/* ---- sums and maxima ---------------------------------------------------------------------------- */

/* Marks the axes of the list, or all of x for an empty one. -1 with an error: one is out of range, or named
 * twice. */
static int mark_axes(st_tensor x, st_axes over, const char *who, bool reduced[ST_MAX_RANK])
{
    if (over.count < 0 || over.count > x.shape.rank)
        return st_error_set("%s: %d axes of a tensor of rank %d", who, over.count, x.shape.rank);
    for (int i = 0; i < ST_MAX_RANK; i++) reduced[i] = over.count == 0;
    for (int i = 0; i < over.count; i++) {
        const int axis = tensor_axis(x, over.axis[i], who);
        if (axis < 0) return -1;
        if (reduced[axis]) return st_error_set("%s: axis %d is named twice", who, axis);
        reduced[axis] = true;
    }
    return 0;
}

/* y, which has the axes of x that are not reduced, expanded to x's shape: its stride is 0 along the reduced
 * axes. */
static st_tensor expanded(st_tensor y, st_tensor x, st_axes over, const char *who)
{
    bool reduced[ST_MAX_RANK];
    if (!tensor_usable(y, who) || !tensor_usable(x, who) || mark_axes(x, over, who, reduced))
        return (st_tensor){ 0 };
    st_tensor wide = { .storage = y.storage, .offset = y.offset, .shape = x.shape };
    st_shape expected = { 0 };
    for (int i = 0; i < x.shape.rank; i++) {
        if (reduced[i]) continue;
        if (expected.rank < y.shape.rank) wide.stride[i] = y.stride[expected.rank];
        expected.n[expected.rank++] = x.shape.n[i];
    }
    if (st_shape_equal(expected, y.shape)) return wide;
    st_error_set("%s: the result of reducing %s is %s, not %s", who, st_shape_text(x.shape).text,
                 st_shape_text(expected).text, st_shape_text(y.shape).text);
    return (st_tensor){ 0 };
}

__attribute__((weak)) row_max *row_max_in_use;

static void max_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)context;
    if (stride[0] == 0 && stride[1] == 1 && row_max_in_use) {
        *at[0] = row_max_in_use(n, at[1], *at[0]);
        return;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        st_real *best = at[0] + i * stride[0], x = at[1][i * stride[1]];
        if (exceeds(x, *best)) *best = x;
    }
}

/* Fills y with `start` and adds weight times x; or, where `weight` is NULL, takes the maximum with x. If y
 * overlaps x, x is copied first. */
static void reduce(st_tensor y, st_tensor x, st_axes over, const char *who, st_real start,
                   const st_real *weight)
{
    st_tensor wide = expanded(y, x, over, who);
    if (st_is_null(wide)) return;
    st_tensor source = st_overlaps(y, x) ? st_tensor_clone(x) : x;
    if (st_is_null(source)) return;
    st_fill(y, start);
    if (weight) st_add(wide, *weight, source);
    else st_walk(2, (st_tensor[]){ wide, source }, ST_ANY_ORDER, max_row, NULL);
    if (source.storage != x.storage) st_tensor_free(source);
}

void st_sum(st_tensor y, st_tensor x, st_axes over)
{
    reduce(y, x, over, "st_sum", 0, &(st_real){ 1 });
}

void st_mean(st_tensor y, st_tensor x, st_axes over)
{
    const ptrdiff_t elements = st_numel(x); /* the mean of none is NaN */
    const st_real weight = elements > 0 ? (st_real)st_numel(y) / (st_real)elements : 0;
    reduce(y, x, over, "st_mean", elements > 0 ? 0 : (st_real)NAN, &weight);
}

void st_max(st_tensor y, st_tensor x, st_axes over)
{
    if (st_is_null(expanded(y, x, over, "st_max"))) return;
    if (st_numel(x) == 0 && st_numel(y) > 0) {
        st_error_set("st_max: no maximum of nothing, the tensor is %s", st_shape_text(x.shape).text);
        return;
    }
    reduce(y, x, over, "st_max", -(st_real)INFINITY, NULL);
}

/* ---- places of maxima --------------------------------------------------------------------------- */

typedef struct argmax {
    ptrdiff_t *index;
    ptrdiff_t group, seen; /* elements reduced into one index, and visited so far */
    st_real best;
} argmax;

static void argmax_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    argmax *a = context;
    for (ptrdiff_t i = 0; i < n; i++, a->seen++) {
        st_real x = at[0][i * stride[0]];
        ptrdiff_t within = a->seen % a->group;
        if (within > 0 && !exceeds(x, a->best)) continue;
        a->best = x;
        a->index[a->seen / a->group] = within;
    }
}

void st_argmax(ptrdiff_t *index, st_tensor x, st_axes over)
{
    if (!tensor_usable(x, "st_argmax")) return;
    if (!index) {
        st_error_set("st_argmax: the index is NULL");
        return;
    }
    bool reduced[ST_MAX_RANK], results = true;
    if (mark_axes(x, over, "st_argmax", reduced)) return;
    argmax a = { .index = index, .group = 1 };
    st_axes order = { 0 };               /* the kept axes first */
    const bool empty = st_numel(x) == 0; /* sizes of an empty view may overflow their product */
    for (int i = 0; i < x.shape.rank; i++)
        if (!reduced[i]) order.axis[order.count++] = i, results = results && x.shape.n[i] > 0;
    for (int i = 0; i < x.shape.rank; i++)
        if (reduced[i]) order.axis[order.count++] = i, a.group *= empty ? 1 : x.shape.n[i];
    if (empty && results) {
        st_error_set("st_argmax: no maximum of nothing, the tensor is %s", st_shape_text(x.shape).text);
        return;
    }
    st_tensor view = st_permute(x, order);
    st_walk(1, &view, ST_ROW_MAJOR, argmax_row, &a);
}

/* ---- scatter --------------------------------------------------------------------------------- */

typedef struct scatter {
    st_tensor y;
    const ptrdiff_t *index;
} scatter;

static void scatter_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    scatter *s = context;
    for (ptrdiff_t e = 0; e < n; e++) {
        st_real *place = st_data(s->y);
        for (int i = 0; i < s->y.shape.rank; i++) place += *s->index++ * s->y.stride[i];
        *place += at[0][e * stride[0]];
    }
}

void st_scatter_add(st_tensor y, const ptrdiff_t *index, st_tensor x)
{
    if (!tensor_usable(y, "st_scatter_add") || !tensor_usable(x, "st_scatter_add")) return;
    ptrdiff_t count = st_numel(x);
    if (!index && count > 0 && y.shape.rank > 0) {
        st_error_set("st_scatter_add: the index is NULL");
        return;
    }
    const ptrdiff_t *place = index;
    for (ptrdiff_t e = 0; e < count; e++)
        for (int i = 0; i < y.shape.rank; i++, place++)
            if (*place < 0 || *place >= y.shape.n[i]) {
                st_error_set("st_scatter_add: element %td goes to index %td of axis %d of %s", e, *place, i,
                             st_shape_text(y.shape).text);
                return;
            }
    st_tensor source = st_overlaps(y, x) ? st_tensor_clone(x) : x;
    st_walk(1, &source, ST_ROW_MAJOR, scatter_row, &(scatter){ y, index });
    if (source.storage != x.storage) st_tensor_free(source);
}
