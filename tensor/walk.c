/* walk.c: everything that moves data: one loop over views of the same shape, and functions for its rows. */
#include "tensor/error.h"
#include "tensor/tables.h"
#include "tensor/storage.h"

#include <math.h>
#include <string.h>

/* ---- the walk -------------------------------------------------------------------------------- */

/* The views' common index space in canonical form: axes of size 1 are removed, the largest strides are
 * outermost, and adjacent axes are merged if all views allow it. */
typedef struct space {
    int rank;
    ptrdiff_t n[ST_MAX_RANK];
    ptrdiff_t stride[ST_MAX_RANK][ST_MAX_VIEWS];
} space;

static space canonical(int count, const st_tensor views[], st_order order)
{
    const st_shape *form = &views[0].shape;
    int axis[ST_MAX_RANK], rank = 0;
    ptrdiff_t step[ST_MAX_RANK];
    for (int i = 0; i < form->rank; i++) {
        if (form->n[i] == 1) continue;
        ptrdiff_t size = 0; /* of a step, in all views */
        for (int v = 0; v < count; v++)
            size += views[v].stride[i] < 0 ? -views[v].stride[i] : views[v].stride[i];
        int at = rank++; /* insertion sort, stable */
        for (; order == ST_ANY_ORDER && at > 0 && step[at - 1] < size; at--) {
            axis[at] = axis[at - 1];
            step[at] = step[at - 1];
        }
        axis[at] = i;
        step[at] = size;
    }
    space s = { 0 };
    for (int i = 0; i < rank; i++) {
        ptrdiff_t stride[ST_MAX_VIEWS] = { 0 }, n = form->n[axis[i]];
        bool merges = s.rank > 0; /* in each view, a step of the axis before is n steps of this one */
        for (int v = 0; v < count; v++) {
            stride[v] = views[v].stride[axis[i]];
            merges = merges && s.stride[s.rank - 1][v] == stride[v] * n;
        }
        if (merges) n *= s.n[--s.rank];
        s.n[s.rank] = n;
        memcpy(s.stride[s.rank++], stride, sizeof stride);
    }
    if (s.rank == 0) s.n[s.rank++] = 1;
    return s;
}

void st_walk(int count, const st_tensor views[], st_order order, st_row_function *row, void *context)
{
    if (count < 1 || count > ST_MAX_VIEWS) {
        st_error_set("st_walk: %d views, expected 1 to %d", count, ST_MAX_VIEWS);
        return;
    }
    if (!views || !row) {
        st_error_set("st_walk: the %s NULL", views ? "function is" : "views are");
        return;
    }
    st_real *at[ST_MAX_VIEWS] = { 0 };
    for (int v = 0; v < count; v++) {
        if (!tensor_usable(views[v], "st_walk")) return;
        if (!st_shape_equal(views[v].shape, views[0].shape)) {
            st_error_set("st_walk: views of different shapes %s and %s", st_shape_text(views[0].shape).text,
                         st_shape_text(views[v].shape).text);
            return;
        }
        at[v] = st_data(views[v]);
    }
    if (st_numel(views[0]) == 0) return;

    space s = canonical(count, views, order);
    int inner = s.rank - 1, middle = inner - 1;
    ptrdiff_t rows = middle < 0 ? 1 : s.n[middle], index[ST_MAX_RANK] = { 0 };
    for (;;) {
        for (ptrdiff_t r = 0; r < rows; r++) { /* the two inner loops run without the odometer */
            row(s.n[inner], at, s.stride[inner], context);
            for (int v = 0; v < count && middle >= 0; v++) at[v] += s.stride[middle][v];
        }
        for (int v = 0; v < count && middle >= 0; v++) at[v] -= s.stride[middle][v] * rows;
        int i = middle - 1; /* the odometer */
        for (; i >= 0; i--) {
            for (int v = 0; v < count; v++) at[v] += s.stride[i][v];
            if (++index[i] < s.n[i]) break;
            for (int v = 0; v < count; v++) at[v] -= s.stride[i][v] * s.n[i];
            index[i] = 0;
        }
        if (i < 0) return;
    }
}

/* ---- copy and add: the two halves of every adjoint pair --------------------------------------- *
 * Rows with strides of 1 have no loops of their own: the compiler makes them (-O3). */

static bool same_view(st_tensor a, st_tensor b)
{
    if (a.storage != b.storage || a.offset != b.offset) return false;
    for (int i = 0; i < a.shape.rank; i++)
        if (a.shape.n[i] > 1 && a.stride[i] != b.stride[i]) return false;
    return true;
}

/* Runs `row` over y and x; over a copy of x if writing y would change elements of x that are read later. */
static void walk_pair(st_tensor y, st_tensor x, const char *who, st_row_function *row, void *context)
{
    if (!tensor_usable(y, who) || !tensor_usable(x, who)) return;
    if (!st_shape_equal(y.shape, x.shape)) {
        st_error_set("%s: %s from %s, the shapes differ", who, st_shape_text(y.shape).text,
                     st_shape_text(x.shape).text);
        return;
    }
    if (same_view(y, x) || !st_overlaps(y, x)) {
        st_walk(2, (st_tensor[]){ y, x }, ST_ANY_ORDER, row, context);
        return;
    }
    st_tensor copy = st_tensor_clone(x);
    if (!st_is_null(copy)) st_walk(2, (st_tensor[]){ y, copy }, ST_ANY_ORDER, row, context);
    st_tensor_free(copy);
}

static void copy_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)context;
    st_real *y = at[0];
    const st_real *x = at[1];
    ptrdiff_t sy = stride[0], sx = stride[1];
    if (sy == 1 && sx == 1 && n >= 32) { /* for short rows a call costs more */
        memmove(y, x, (size_t)n * sizeof(st_real));
    } else if (sy == 1 && sx == 0) {
        const st_real value = *x;
        for (ptrdiff_t i = 0; i < n; i++) y[i] = value;
    } else {
        for (ptrdiff_t i = 0; i < n; i++) y[i * sy] = x[i * sx];
    }
}

__attribute__((weak)) row_sum *row_sum_in_use = sum_of_row;

static void add_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    const st_real alpha = *(const st_real *)context;
    st_real *y = at[0];
    const st_real *x = at[1];
    ptrdiff_t sy = stride[0], sx = stride[1];
    if (sy == 1 && sx == 0) {
        const st_real value = alpha * *x;
        for (ptrdiff_t i = 0; i < n; i++) y[i] += value;
    } else if (sy == 0) { /* one element: a sum */
        double sum = sx == 1 ? row_sum_in_use(n, x) : 0;
        for (ptrdiff_t i = 0; i < n && sx != 1; i++) sum += (double)x[i * sx];
        *y = (st_real)((double)*y + (double)alpha * sum);
    } else {
        for (ptrdiff_t i = 0; i < n; i++) y[i * sy] += alpha * x[i * sx];
    }
}

void st_copy(st_tensor y, st_tensor x)
{
    if (!st_is_null(y) && same_view(y, x) && st_shape_equal(y.shape, x.shape)) return; /* to itself */
    walk_pair(y, x, "st_copy", copy_row, NULL);
}

void st_add(st_tensor y, st_real alpha, st_tensor x)
{
    walk_pair(y, x, "st_add", add_row, &alpha);
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static void multiply_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)context;
    st_real *y = at[0];
    const st_real *x = at[1], factor = *x;
    if (stride[0] == 1 && stride[1] == 0)
        for (ptrdiff_t i = 0; i < n; i++) y[i] *= factor;
    else
        for (ptrdiff_t i = 0; i < n; i++) y[i * stride[0]] *= x[i * stride[1]];
}

/* Runs `row` over y and a number that is broadcast to its shape. */
static void walk_number(st_tensor y, st_real number, const char *who, st_row_function *row)
{
    st_storage one = { &number, 1 };
    walk_pair(y, (st_tensor){ .storage = &one, .shape = y.shape }, who, row, NULL);
}

void st_fill(st_tensor y, st_real value)
{
    walk_number(y, value, "st_fill", copy_row);
}

void st_scale(st_tensor y, st_real alpha)
{
    walk_number(y, alpha, "st_scale", multiply_row);
}

void st_mul(st_tensor y, st_tensor x)
{
    walk_pair(y, x, "st_mul", multiply_row, NULL);
}

typedef struct mapping {
    st_real (*f)(st_real x, void *context);
    void *context;
} mapping;

static void map_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    const mapping *m = context;
    for (ptrdiff_t i = 0; i < n; i++) at[0][i * stride[0]] = m->f(at[1][i * stride[1]], m->context);
}

void st_map(st_tensor y, st_real (*f)(st_real x, void *context), void *context, st_tensor x)
{
    if (!f) st_error_set("st_map: the function is NULL");
    else walk_pair(y, x, "st_map", map_row, &(mapping){ f, context });
}
