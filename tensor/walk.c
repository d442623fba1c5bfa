/* walk.c: everything that moves data: one walk over views of one shape, and the rows it is made of. */
#include "tensor/error.h"
#include "tensor/storage.h"
#include "tensor/sum.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

/* ---- the walk -------------------------------------------------------------------------------- */

/* The views' common index space, canonical: no axis of one, the longest steps outermost, neighbouring
 * axes merged where every view allows it. */
typedef struct space {
    int rank;
    ptrdiff_t n[TENSOR_MAX_RANK];
    ptrdiff_t stride[TENSOR_MAX_RANK][TENSOR_MAX_VIEWS];
} space;

static ptrdiff_t total_step(const ptrdiff_t stride[], int count)
{
    ptrdiff_t total = 0;
    for (int v = 0; v < count; v++) total += stride[v] < 0 ? -stride[v] : stride[v];
    return total;
}

static bool mergeable(const space *s, int outer, const ptrdiff_t stride[], ptrdiff_t n, int count)
{
    for (int v = 0; v < count; v++)
        if (s->stride[outer][v] != stride[v] * n) return false;
    return true;
}

static space canonical(int count, const tensor views[], tensor_order order)
{
    const shape *form = &views[0].shape;
    int axis[TENSOR_MAX_RANK], rank = 0;
    ptrdiff_t step[TENSOR_MAX_RANK];
    for (int i = 0; i < form->rank; i++) {
        if (form->n[i] == 1) continue;
        ptrdiff_t stride[TENSOR_MAX_VIEWS];
        for (int v = 0; v < count; v++) stride[v] = views[v].stride[i];
        ptrdiff_t size = total_step(stride, count);
        int at = rank++; /* insertion sort, stable */
        for (; order == TENSOR_ANY_ORDER && at > 0 && step[at - 1] < size; at--) {
            axis[at] = axis[at - 1];
            step[at] = step[at - 1];
        }
        axis[at] = i;
        step[at] = size;
    }
    space s = { 0 };
    for (int i = 0; i < rank; i++) {
        ptrdiff_t stride[TENSOR_MAX_VIEWS] = { 0 }, n = form->n[axis[i]];
        for (int v = 0; v < count; v++) stride[v] = views[v].stride[axis[i]];
        if (s.rank > 0 && mergeable(&s, s.rank - 1, stride, n, count)) n *= s.n[--s.rank];
        s.n[s.rank] = n;
        memcpy(s.stride[s.rank++], stride, sizeof stride);
    }
    if (s.rank == 0) s.n[s.rank++] = 1;
    return s;
}

void tensor_walk(int count, const tensor views[], tensor_order order, tensor_row *row, void *context)
{
    if (count < 1 || count > TENSOR_MAX_VIEWS) {
        error_set("tensor_walk: %d views, expected 1 to %d", count, TENSOR_MAX_VIEWS);
        return;
    }
    real *at[TENSOR_MAX_VIEWS] = { 0 };
    for (int v = 0; v < count; v++) {
        if (!tensor_usable(views[v], "tensor_walk")) return;
        if (!shape_equal(views[v].shape, views[0].shape)) {
            error_set("tensor_walk: views of different shapes %s and %s", shape_text(views[0].shape).text,
                      shape_text(views[v].shape).text);
            return;
        }
        at[v] = tensor_data(views[v]);
    }
    if (tensor_count(views[0]) == 0) return;

    space s = canonical(count, views, order);
    int inner = s.rank - 1, middle = inner - 1;
    ptrdiff_t rows = middle < 0 ? 1 : s.n[middle], index[TENSOR_MAX_RANK] = { 0 };
    for (;;) {
        for (ptrdiff_t r = 0; r < rows; r++) { /* most of all rows: apart from the odometer */
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

/* ---- copy and add: the two halves of every adjoint pair --------------------------------------- */

static bool same_view(tensor a, tensor b)
{
    if (a.storage != b.storage || a.offset != b.offset) return false;
    for (int i = 0; i < a.shape.rank; i++)
        if (a.shape.n[i] > 1 && a.stride[i] != b.stride[i]) return false;
    return true;
}

/* Runs `row` over y and x; where writing y would change what is still to be read of x, over a copy. */
static void walk_pair(tensor y, tensor x, const char *who, tensor_row *row, void *context)
{
    if (!tensor_usable(y, who) || !tensor_usable(x, who)) return;
    if (!shape_equal(y.shape, x.shape)) {
        error_set("%s: %s from %s, the shapes differ", who, shape_text(y.shape).text,
                  shape_text(x.shape).text);
        return;
    }
    if (same_view(y, x) || !tensor_overlaps(y, x)) {
        tensor_walk(2, (tensor[]){ y, x }, TENSOR_ANY_ORDER, row, context);
        return;
    }
    tensor copy = tensor_clone(x);
    if (!tensor_is_null(copy)) tensor_walk(2, (tensor[]){ y, copy }, TENSOR_ANY_ORDER, row, context);
    tensor_free(copy);
}

static void copy_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)context;
    real *y = at[0];
    const real *x = at[1];
    ptrdiff_t sy = stride[0], sx = stride[1];
    if (sy == 1 && sx == 1 && n >= 32) { /* short rows are quicker than the call */
        memmove(y, x, (size_t)n * sizeof(real));
    } else if (sy == 1 && sx == 0) {
        const real value = *x;
        for (ptrdiff_t i = 0; i < n; i++) y[i] = value;
    } else if (sy == 1) {
        for (ptrdiff_t i = 0; i < n; i++) y[i] = x[i * sx];
    } else {
        for (ptrdiff_t i = 0; i < n; i++) y[i * sy] = x[i * sx];
    }
}

static void add_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    real alpha = *(const real *)context;
    real *y = at[0];
    const real *x = at[1];
    ptrdiff_t sy = stride[0], sx = stride[1];
    if (sy == 1 && sx == 1) {
        for (ptrdiff_t i = 0; i < n; i++) y[i] += alpha * x[i];
    } else if (sy == 1 && sx == 0) {
        const real value = alpha * *x;
        for (ptrdiff_t i = 0; i < n; i++) y[i] += value;
    } else if (sy == 0) { /* one place: a sum */
        double sum = sx == 1 ? sum_of_row(n, x) : 0;
        for (ptrdiff_t i = 0; i < n && sx != 1; i++) sum += (double)x[i * sx];
        *y = (real)((double)*y + (double)alpha * sum);
    } else {
        for (ptrdiff_t i = 0; i < n; i++) y[i * sy] += alpha * x[i * sx];
    }
}

void tensor_copy(tensor y, tensor x)
{
    if (!tensor_is_null(y) && same_view(y, x) && shape_equal(y.shape, x.shape))
        return; /* what runs in place copies itself */
    walk_pair(y, x, "tensor_copy", copy_row, NULL);
}

void tensor_add(tensor y, real alpha, tensor x)
{
    walk_pair(y, x, "tensor_add", add_row, &alpha);
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static void fill_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    real value = *(const real *)context, *y = at[0];
    if (stride[0] == 1)
        for (ptrdiff_t i = 0; i < n; i++) y[i] = value;
    else
        for (ptrdiff_t i = 0; i < n; i++) y[i * stride[0]] = value;
}

void tensor_fill(tensor y, real value)
{
    if (tensor_usable(y, "tensor_fill")) tensor_walk(1, &y, TENSOR_ANY_ORDER, fill_row, &value);
}

static void scale_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    real alpha = *(const real *)context, *y = at[0];
    if (stride[0] == 1)
        for (ptrdiff_t i = 0; i < n; i++) y[i] *= alpha;
    else
        for (ptrdiff_t i = 0; i < n; i++) y[i * stride[0]] *= alpha;
}

void tensor_scale(tensor y, real alpha)
{
    if (tensor_usable(y, "tensor_scale")) tensor_walk(1, &y, TENSOR_ANY_ORDER, scale_row, &alpha);
}

static void multiply_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)context;
    real *y = at[0];
    const real *x = at[1], factor = *x;
    if (stride[0] == 1 && stride[1] == 1)
        for (ptrdiff_t i = 0; i < n; i++) y[i] *= x[i];
    else if (stride[0] == 1 && stride[1] == 0)
        for (ptrdiff_t i = 0; i < n; i++) y[i] *= factor;
    else
        for (ptrdiff_t i = 0; i < n; i++) y[i * stride[0]] *= x[i * stride[1]];
}

void tensor_multiply(tensor y, tensor x)
{
    walk_pair(y, x, "tensor_multiply", multiply_row, NULL);
}

typedef struct mapping {
    real (*f)(real x, void *context);
    void *context;
} mapping;

static void map_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    const mapping *m = context;
    for (ptrdiff_t i = 0; i < n; i++) at[0][i * stride[0]] = m->f(at[1][i * stride[1]], m->context);
}

void tensor_map(tensor y, real (*f)(real x, void *context), void *context, tensor x)
{
    walk_pair(y, x, "tensor_map", map_row, &(mapping){ f, context });
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* y, of the axes of x that are not reduced, as a view of x's shape with stride 0 along the others. */
static tensor spread(tensor y, tensor x, axes over, const char *who)
{
    if (!tensor_usable(y, who) || !tensor_usable(x, who)) return (tensor){ 0 };
    axes reduced = tensor_axes(x, over, who);
    if (reduced.count < 0) return (tensor){ 0 };
    tensor wide = { .storage = y.storage, .offset = y.offset, .shape = x.shape };
    shape expected = { 0 };
    for (int i = 0, next = 0; i < x.shape.rank; i++) {
        if (next < reduced.count && reduced.axis[next] == i) next++;
        else {
            if (expected.rank < y.shape.rank) wide.stride[i] = y.stride[expected.rank];
            expected.n[expected.rank++] = x.shape.n[i];
        }
    }
    if (shape_equal(expected, y.shape)) return wide;
    error_set("%s: the result of reducing %s is %s, not %s", who, shape_text(x.shape).text,
              shape_text(expected).text, shape_text(y.shape).text);
    return (tensor){ 0 };
}

/* Runs `row` over y, begun as `start`, and x; y may be a part of x, which is then copied first. */
static bool reduce(tensor y, tensor x, axes over, const char *who, real start, tensor_row *row, void *context)
{
    tensor wide = spread(y, x, over, who);
    if (tensor_is_null(wide)) return false;
    tensor source = tensor_overlaps(y, x) ? tensor_clone(x) : x;
    if (tensor_is_null(source)) return false;
    tensor_fill(y, start);
    tensor_walk(2, (tensor[]){ wide, source }, TENSOR_ANY_ORDER, row, context);
    if (source.storage != x.storage) tensor_free(source);
    return true;
}

void tensor_sum(tensor y, tensor x, axes over)
{
    reduce(y, x, over, "tensor_sum", 0, add_row, &(real){ 1 });
}

static real divided(real x, void *count)
{
    return x / *(const real *)count;
}

void tensor_mean(tensor y, tensor x, axes over)
{
    if (!reduce(y, x, over, "tensor_mean", 0, add_row, &(real){ 1 }) || tensor_count(y) == 0) return;
    real count = (real)(tensor_count(x) / tensor_count(y));
    tensor_map(y, divided, &count, y); /* NaN for the mean of nothing */
}

/* Whether `x` takes the place of the maximum so far: the first of equals stays, NaN beats all. */
static bool exceeds(real x, real best)
{
    return x > best || (isnan(x) && !isnan(best));
}

static void max_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)context;
    for (ptrdiff_t i = 0; i < n; i++) {
        real *best = at[0] + i * stride[0], x = at[1][i * stride[1]];
        if (exceeds(x, *best)) *best = x;
    }
}

void tensor_max(tensor y, tensor x, axes over)
{
    if (tensor_is_null(spread(y, x, over, "tensor_max"))) return;
    if (tensor_count(x) == 0 && tensor_count(y) > 0) {
        error_set("tensor_max: no maximum of nothing, the tensor is %s", shape_text(x.shape).text);
        return;
    }
    reduce(y, x, over, "tensor_max", -(real)INFINITY, max_row, NULL);
}

typedef struct argmax {
    ptrdiff_t *index;
    ptrdiff_t group, seen; /* elements reduced into one index, and visited so far */
    real best;
} argmax;

static void argmax_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    argmax *a = context;
    for (ptrdiff_t i = 0; i < n; i++, a->seen++) {
        real x = at[0][i * stride[0]];
        ptrdiff_t within = a->seen % a->group;
        if (within > 0 && !exceeds(x, a->best)) continue;
        a->best = x;
        a->index[a->seen / a->group] = within;
    }
}

void tensor_argmax(ptrdiff_t *index, tensor x, axes over)
{
    if (!tensor_usable(x, "tensor_argmax")) return;
    axes reduced = tensor_axes(x, over, "tensor_argmax"), order = { 0 };
    if (reduced.count < 0) return;
    argmax a = { .index = index, .group = 1 };
    ptrdiff_t results = 1;
    for (int i = 0, next = 0; i < x.shape.rank; i++) { /* the kept axes first */
        if (next < reduced.count && reduced.axis[next] == i) next++;
        else {
            order.axis[order.count++] = i;
            results *= x.shape.n[i] > 0;
        }
    }
    for (int i = 0; i < reduced.count; i++) {
        order.axis[order.count++] = reduced.axis[i];
        a.group *= x.shape.n[reduced.axis[i]];
    }
    if (a.group == 0 && results > 0) {
        error_set("tensor_argmax: no maximum of nothing, the tensor is %s", shape_text(x.shape).text);
        return;
    }
    tensor view = tensor_permute(x, order);
    tensor_walk(1, &view, TENSOR_ROW_MAJOR, argmax_row, &a);
}

/* ---- scatter --------------------------------------------------------------------------------- */

typedef struct scatter {
    tensor y;
    const ptrdiff_t *index;
} scatter;

static void scatter_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    scatter *s = context;
    for (ptrdiff_t e = 0; e < n; e++) {
        real *place = tensor_data(s->y);
        for (int i = 0; i < s->y.shape.rank; i++) place += *s->index++ * s->y.stride[i];
        *place += at[0][e * stride[0]];
    }
}

void tensor_scatter_add(tensor y, const ptrdiff_t *index, tensor x)
{
    if (!tensor_usable(y, "tensor_scatter_add") || !tensor_usable(x, "tensor_scatter_add")) return;
    ptrdiff_t count = tensor_count(x);
    const ptrdiff_t *place = index;
    for (ptrdiff_t e = 0; e < count; e++)
        for (int i = 0; i < y.shape.rank; i++, place++)
            if (*place < 0 || *place >= y.shape.n[i]) {
                error_set("tensor_scatter_add: element %td goes to index %td of axis %d of %s", e, *place, i,
                          shape_text(y.shape).text);
                return;
            }
    tensor source = tensor_overlaps(y, x) ? tensor_clone(x) : x;
    tensor_walk(1, &source, TENSOR_ROW_MAJOR, scatter_row, &(scatter){ y, index });
    if (source.storage != x.storage) tensor_free(source);
}
