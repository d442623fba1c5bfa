/* pool_kinds.c: the poolings of the core, each two functions of a window: maxpool, avgpool, lppool,
 * adaptive_avgpool. */
#include "layers/pool_impl.h"
#include "layers/types.h"
#include "tensor/tables.h"

#include <math.h>
#include <string.h>

const char *const pool_pad_values[] = { "default", "zero", "lowest", NULL };

const st_field st_pool_fields[] = {
    ST_WINDOW_FIELDS(st_pool_options),
    POOL_PAD_VALUE_FIELD(st_pool_options),
    { 0 },
};

st_layer *st_pool_new(const st_layer_type *type, st_pool_options options)
{
    const st_layer_type *const *known = st_layer_types;
    while (type && type->name && *known && (*known == type || strcmp((*known)->name, type->name) != 0))
        known++;
    if (type && type->name && *known) {
        st_error_set("st_pool: the library has a type %s: expected another name", type->name);
        return NULL;
    }
    if (type && type->fields == st_pool_fields) return st_layer_new(type, &options, 0, NULL);
    st_error_set("st_pool: %s is not a pooling with the options of st_pool",
                 type && type->name ? type->name : "the type");
    return NULL;
}

/* ---- maxpool: the maximum; the gradient goes to the place it came from ----------------------------- */

ptrdiff_t pool_peak(const st_real *x, ptrdiff_t rows, ptrdiff_t down, ptrdiff_t columns, ptrdiff_t right)
{
    ptrdiff_t best = 0;
    st_real most = -(st_real)INFINITY;
    for (ptrdiff_t k = 0, r = 0; r < rows; r++)
        for (ptrdiff_t s = 0; s < columns && !isnan(most); s++, k++) {
            const st_real here = x[r * down + s * right];
            if (!(here <= most)) most = here, best = k;
        }
    return best;
}

ptrdiff_t pool_maximum(const st_window *w)
{
    return pool_peak(w->x, 1, 0, w->n, 1);
}

st_real pool_max_value(const st_window *w)
{
    return w->n > 0 ? w->x[pool_maximum(w)] : -(st_real)INFINITY;
}

void pool_max_adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    for (ptrdiff_t k = 0; k < w->n; k++) dx[k] = 0;
    if (w->n > 0) dx[pool_maximum(w)] = dy;
}

POOLING_BY_WINDOWS(maxpool, st_pool_plan, POOL_PAD_VALUE_FIELD(st_maxpool_options), .value = pool_max_value,
                   .adjoint = pool_max_adjoint, .pad_value = ST_PAD_LOWEST)

/* ---- avgpool and adaptive_avgpool: the mean --------------------------------------------------------- */

static st_real mean(const st_window *w, ptrdiff_t counted)
{
    enum { SHORT = 16 }; /* elements just written are read one by one faster than as vectors */
    double sum = 0;
    for (ptrdiff_t k = 0; k < w->n && w->n < SHORT; k++) sum += (double)w->x[k];
    return (st_real)(w->n < SHORT ? sum : sum_of_row(w->n, w->x)) * POOL_SHARE(counted);
}

static void mean_adjoint(const st_window *w, ptrdiff_t counted, st_real dy, st_real *dx)
{
    const st_real share = dy * POOL_SHARE(counted);
    for (ptrdiff_t k = 0; k < w->n; k++) dx[k] = share;
}

static ptrdiff_t counted(const st_window *w)
{
    return ((const st_avgpool_options *)w->options)->count_exclude_pad ? w->n : w->whole;
}

static st_real avgpool_value(const st_window *w)
{
    return mean(w, counted(w));
}

static void avgpool_adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    mean_adjoint(w, counted(w), dy, dx);
}

static int plan_avgpool(st_layer *l, st_shape x, st_shape *y)
{
    if (st_pool_plan(l, x, y)) return -1;
    const window *w = &((const pool_plan *)l->plan)->w;
    l->flops = (double)st_shape_numel(*y, "avgpool") * w->kernel[0] * w->kernel[1];
    return 0;
}

POOLING_BY_WINDOWS(avgpool, plan_avgpool,
                   POOL_FIELD(count_exclude_pad, ST_FIELD_BOOL, st_avgpool_options, .fallback = 0),
                   .value = avgpool_value, .adjoint = avgpool_adjoint, .pad_value = ST_PAD_LOWEST)

static st_real adaptive_value(const st_window *w)
{
    return mean(w, w->n);
}

static void adaptive_adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    mean_adjoint(w, w->n, dy, dx);
}

POOLING_TO_SIZE(adaptive_avgpool, .value = adaptive_value, .adjoint = adaptive_adjoint)

/* ---- lppool: the p-norm: y = (sum of |x|^p)^(1/p), as ONNX's LpPool ------------------------------------ *
 * To avoid overflow, powers are taken of ratios of at most 1: y = m (sum of (|x|/m)^p)^(1/p), with m the
 * largest |x| of the window, and dx = dy sign(x) (|x|/y)^(p-1). */

static double power(double ratio, double p)
{
    return p == 2 ? ratio * ratio : p == 1 ? ratio : pow(ratio, p);
}

/* NaN propagates. */
static st_real lppool_value(const st_window *w)
{
    const double p = ((const st_lppool_options *)w->options)->p;
    double most = 0, sum = 0;
    for (ptrdiff_t k = 0; k < w->n; k++) {
        const double size = fabs((double)w->x[k]);
        if (isnan(size)) return (st_real)size;
        if (size > most) most = size;
    }
    if (most == 0 || isinf(most)) return (st_real)most;
    for (ptrdiff_t k = 0; k < w->n; k++) sum += power(fabs((double)w->x[k]) / most, p);
    return (st_real)(most * pow(sum, 1 / p));
}

static void lppool_adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    const double p = ((const st_lppool_options *)w->options)->p, norm = (double)y;
    for (ptrdiff_t k = 0; k < w->n; k++) {
        double value = (double)w->x[k], slope = 0;
        if (value != 0 && y != 0)
            slope = p == 2 ? value / norm : copysign(pow(fabs(value) / norm, p - 1), value);
        dx[k] = (st_real)((double)dy * slope);
    }
}

POOLING_BY_WINDOWS(lppool, st_pool_plan,
                   POOL_FIELD(p, ST_FIELD_REAL, st_lppool_options, .fallback = 2, .least = 1),
                   .value = lppool_value, .adjoint = lppool_adjoint, .pad_value = ST_PAD_LOWEST)
