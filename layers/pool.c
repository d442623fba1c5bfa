/* pool.c: pooling: y is a function of each window, and dx the sum of the windows' adjoints.
 *
 * A kind of pooling is two functions of one window, whose elements are copied into an array. */
#include "layers/layer_impl.h"
#include "layers/pool_impl.h"
#include "layers/types.h"
#include "tensor/counts.h"
#include "tensor/sum.h"

#include <math.h>

/* A window: its n = KH KW elements in row-major order. */
struct pool_window {
    const pool_plan *plan;
    const void *options;
    st_real *x;
    ptrdiff_t n, row, column; /* the window's position in its channel */
};

enum { PADDED, DPADDED, WINDOW, DWINDOW }; /* scratch: padded images, and one window */

/* ---- plan ---------------------------------------------------------------------------------------- */

static pool_plan *plan_windows(st_layer *l, st_shape x, st_shape *y, window w, bool ceil_mode,
                               window_value *value, window_adjoint *adjoint)
{
    if (window_plan_pool(&w, l, x, ceil_mode)) return NULL;
    *y = ST_SHAPE(x.n[0], x.n[1], w.out[0], w.out[1]);
    if (st_shape_numel(*y, l->type->name) < 0) return NULL;
    pool_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return NULL;
    *p = (pool_plan){ w, 0, value, adjoint };
    const st_shape padded = window_padded(&w) ? window_padded_shape(&w, x.n[1]) : ST_SHAPE(0);
    const st_shape scratch[] = { padded, padded, ST_SHAPE(w.kernel[0], w.kernel[1]),
                                 ST_SHAPE(w.kernel[0], w.kernel[1]) };
    for (int i = PADDED; i <= DWINDOW; i++)
        if (st_layer_scratch(l, scratch[i])) return NULL;
    return p;
}

/* ---- all windows --------------------------------------------------------------------------------- */

/* The windows [C, OH, OW, KH, KW] of image i, padded. */
static st_tensor windows(const st_call *c, st_tensor x, ptrdiff_t i)
{
    const pool_plan *p = c->plan;
    st_tensor padded = st_scratch(c, PADDED);
    if (i == 0 && window_padded(&p->w)) st_fill(padded, p->padding);
    return window_view(&p->w, window_source(&p->w, st_select(x, 0, i), padded));
}

/* The first element of a window. */
static st_real *first_of(const st_tensor *view, ptrdiff_t channel, ptrdiff_t oh, ptrdiff_t ow)
{
    const ptrdiff_t *stride = view->stride;
    return st_data(*view) + channel * stride[0] + oh * stride[1] + ow * stride[2];
}

/* Copies a window into an array; and the adjoint, which adds the array to it. */
static void gather(const window *w, const ptrdiff_t stride[2], const st_real *x, st_real *restrict to)
{
    const int high = w->kernel[0], wide = w->kernel[1];
    for (int kh = 0; kh < high; kh++, x += stride[0])
        for (int kw = 0; kw < wide; kw++) *to++ = x[kw * stride[1]];
}

static void scatter(const window *w, const ptrdiff_t stride[2], st_real *dx, const st_real *restrict from)
{
    const int high = w->kernel[0], wide = w->kernel[1];
    for (int kh = 0; kh < high; kh++, dx += stride[0])
        for (int kw = 0; kw < wide; kw++) dx[kw * stride[1]] += *from++;
}

static pool_window window_of(const st_call *c)
{
    const pool_plan *p = c->plan;
    return (pool_window){ .plan = p,
                          .options = c->options,
                          .x = st_data(st_scratch(c, WINDOW)),
                          .n = (ptrdiff_t)p->w.kernel[0] * p->w.kernel[1] };
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    pool_window at = window_of(c);
    const window *w = &at.plan->w;
    st_real *out = st_data(y);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_tensor view = windows(c, x, i);
        for (ptrdiff_t channel = 0; channel < x.shape.n[1]; channel++)
            for (at.row = 0; at.row < w->out[0]; at.row++)
                for (at.column = 0; at.column < w->out[1]; at.column++) {
                    gather(w, view.stride + 3, first_of(&view, channel, at.row, at.column), at.x);
                    *out++ = at.plan->value(&at);
                }
    }
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    pool_window at = window_of(c);
    const window *w = &at.plan->w;
    const st_real *out = st_data(y), *dout = st_data(dy);
    st_real *from = st_data(st_scratch(c, DWINDOW));
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_tensor image = st_select(dx, 0, i), dpadded = st_scratch(c, DPADDED);
        const st_tensor view = windows(c, x, i), dview = window_view(w, window_target(w, image, dpadded));
        for (ptrdiff_t channel = 0; channel < x.shape.n[1]; channel++)
            for (at.row = 0; at.row < w->out[0]; at.row++)
                for (at.column = 0; at.column < w->out[1]; at.column++) {
                    gather(w, view.stride + 3, first_of(&view, channel, at.row, at.column), at.x);
                    at.plan->adjoint(&at, *out++, *dout++, from);
                    scatter(w, dview.stride + 3, first_of(&dview, channel, at.row, at.column), from);
                }
        window_finish(w, image, dpadded);
    }
}

/* ---- maxpool: the maximum; the gradient goes to the place it came from ----------------------------- */

/* The elements first ... end - 1 of a window, along an axis, that are in the image; or in the image and its
 * padding. */
typedef struct range {
    ptrdiff_t first, end;
} range;

static range inside(const window *w, int axis, ptrdiff_t at, bool exclude_pad)
{
    const ptrdiff_t begin = at * w->stride[axis] - w->before[axis], dilation = w->dilation[axis];
    const ptrdiff_t low = exclude_pad ? 0 : -w->before[axis];
    const ptrdiff_t high = w->size[axis] + (exclude_pad ? 0 : w->pad_after[axis]);
    if (begin >= low && begin + dilation * (w->kernel[axis] - 1) < high) return (range){ 0, w->kernel[axis] };
    const ptrdiff_t first = begin < low ? ceil_div(low - begin, dilation) : 0;
    const ptrdiff_t end = begin < high ? ceil_div(high - begin, dilation) : 0;
    return (range){ first, largest(first, smallest(end, w->kernel[axis])) };
}

/* The index of the first maximum, or of the first NaN; if all elements are -inf, of the first one in the
 * image. */
static ptrdiff_t maximum(const pool_window *at)
{
    const window *w = &at->plan->w;
    const range rows = inside(w, 0, at->row, true), columns = inside(w, 1, at->column, true);
    ptrdiff_t best = 0;
    if (at->plan->padding != 0 && rows.first < rows.end && columns.first < columns.end)
        best = rows.first * w->kernel[1] + columns.first;
    for (ptrdiff_t k = 0; k < at->n; k++)
        if (!(at->x[k] <= at->x[best]) && !isnan(at->x[best])) best = k;
    return best;
}

static st_real maxpool_value(const pool_window *at)
{
    return at->x[maximum(at)];
}

static void maxpool_adjoint(const pool_window *at, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    for (ptrdiff_t k = 0; k < at->n; k++) dx[k] = 0;
    dx[maximum(at)] = dy;
}

static int plan_maxpool(st_layer *l, st_shape x, st_shape *y)
{
    const st_maxpool_options *o = l->options;
    pool_plan *p = plan_windows(l, x, y, WINDOW_OF(o), o->ceil_mode, maxpool_value, maxpool_adjoint);
    if (p) p->padding = o->pad_value == ST_PAD_ZERO ? 0 : -(st_real)INFINITY;
    return p ? 0 : -1;
}

/* ---- avgpool: the mean ------------------------------------------------------------------------------ */

int pool_counted(const window *w, int axis, ptrdiff_t at, bool exclude_pad)
{
    const range counted = inside(w, axis, at, exclude_pad);
    return (int)(counted.end - counted.first);
}

/* 1 / (the number of elements that count), or 0 for none. */
static st_real weight_of(const pool_window *at)
{
    const bool exclude_pad = ((const st_avgpool_options *)at->options)->count_exclude_pad;
    const int rows = pool_counted(&at->plan->w, 0, at->row, exclude_pad);
    const int columns = pool_counted(&at->plan->w, 1, at->column, exclude_pad);
    return rows && columns ? 1 / ((st_real)rows * (st_real)columns) : 0;
}

static st_real avgpool_value(const pool_window *at)
{
    enum { SHORT = 16 }; /* elements just written are read one by one faster than as vectors */
    double sum = 0;
    for (ptrdiff_t k = 0; k < at->n && at->n < SHORT; k++) sum += (double)at->x[k];
    return (st_real)(at->n < SHORT ? sum : sum_of_row(at->n, at->x)) * weight_of(at);
}

static void avgpool_adjoint(const pool_window *at, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    const st_real share = dy * weight_of(at);
    for (ptrdiff_t k = 0; k < at->n; k++) dx[k] = share;
}

static int plan_avgpool(st_layer *l, st_shape x, st_shape *y)
{
    const st_avgpool_options *o = l->options;
    pool_plan *p = plan_windows(l, x, y, WINDOW_OF(o), o->ceil_mode, avgpool_value, avgpool_adjoint);
    if (p) l->flops = (double)st_shape_numel(*y, "avgpool") * p->w.kernel[0] * p->w.kernel[1];
    return p ? 0 : -1;
}

/* ---- lppool: the p-norm: y = (sum of |x|^p)^(1/p), as ONNX's LpPool ------------------------------------ *
 * To avoid overflow, powers are taken of ratios of at most 1: y = m (sum of (|x|/m)^p)^(1/p), with m the
 * largest |x| of the window, and dx = dy sign(x) (|x|/y)^(p-1). */

static double power(double ratio, double p)
{
    return p == 2 ? ratio * ratio : p == 1 ? ratio : pow(ratio, p);
}

/* NaN propagates. */
static st_real lppool_value(const pool_window *at)
{
    const double p = ((const st_lppool_options *)at->options)->p;
    double most = 0, sum = 0;
    for (ptrdiff_t k = 0; k < at->n; k++) {
        const double size = fabs((double)at->x[k]);
        if (isnan(size)) return (st_real)size;
        if (size > most) most = size;
    }
    if (most == 0 || isinf(most)) return (st_real)most;
    for (ptrdiff_t k = 0; k < at->n; k++) sum += power(fabs((double)at->x[k]) / most, p);
    return (st_real)(most * pow(sum, 1 / p));
}

static void lppool_adjoint(const pool_window *at, st_real y, st_real dy, st_real *dx)
{
    const double p = ((const st_lppool_options *)at->options)->p, norm = (double)y;
    for (ptrdiff_t k = 0; k < at->n; k++) {
        double value = (double)at->x[k], slope = 0;
        if (value != 0 && y != 0)
            slope = p == 2 ? value / norm : copysign(pow(fabs(value) / norm, p - 1), value);
        dx[k] = (st_real)((double)dy * slope);
    }
}

static int plan_lppool(st_layer *l, st_shape x, st_shape *y)
{
    const st_lppool_options *o = l->options;
    return plan_windows(l, x, y, WINDOW_OF(o), o->ceil_mode, lppool_value, lppool_adjoint) ? 0 : -1;
}

/* ---- pool: a function of the user's; its adjoint, too, or central differences -------------------------- */

static st_real pool_value(const pool_window *at)
{
    const st_pool_function *f = ((const st_pool_options *)at->options)->function;
    return f->value(at->x, at->n, f->context);
}

static void pool_adjoint(const pool_window *at, st_real y, st_real dy, st_real *dx)
{
    const st_pool_function *f = ((const st_pool_options *)at->options)->function;
    const double relative = cbrt((double)ST_REAL_EPSILON); /* balances truncation and rounding errors */
    if (f->adjoint) {
        f->adjoint(at->x, at->n, y, dy, dx, f->context);
        return;
    }
    for (ptrdiff_t k = 0; k < at->n; k++) {
        const st_real middle = at->x[k], step = (st_real)(relative * fmax(1, fabs((double)middle)));
        const st_real above = middle + step, below = middle - step;
        at->x[k] = above;
        const st_real high = pool_value(at);
        at->x[k] = below;
        const st_real low = pool_value(at);
        at->x[k] = middle;
        dx[k] = isfinite(middle) ? dy * (high - low) / (above - below) : 0;
    }
}

static int plan_pool(st_layer *l, st_shape x, st_shape *y)
{
    const st_pool_options *o = l->options;
    if (!o->function->name || !o->function->value)
        return st_layer_refuse(l, "the window function %s has no %s",
                               o->function->name ? o->function->name : "?",
                               o->function->name ? "value" : "name");
    pool_plan *p = plan_windows(l, x, y, WINDOW_OF(o), o->ceil_mode, pool_value, pool_adjoint);
    if (p) p->padding = o->pad_value == ST_PAD_LOWEST ? -(st_real)INFINITY : 0;
    return p ? 0 : -1;
}

/* ---- the types --------------------------------------------------------------------------------------- */

/* A pooling by windows, with options of its own besides those that all have. */
#define POOLING(NAME, OPTIONS, ...)                                                                          \
    static const st_field NAME##_fields[] = {                                                                \
        { "kernel", ST_FIELD_PAIR, offsetof(OPTIONS, kernel), .square = true },                              \
        { "stride", ST_FIELD_PAIR, offsetof(OPTIONS, stride), .square = true },                              \
        { "padding", ST_FIELD_PAIR, offsetof(OPTIONS, padding), .square = true },                            \
        { "dilation", ST_FIELD_PAIR, offsetof(OPTIONS, dilation), .least = 1, .fallback = 1,                 \
          .square = true },                                                                                  \
        { "ceil_mode", ST_FIELD_BOOL, offsetof(OPTIONS, ceil_mode) },                                        \
        __VA_ARGS__,                                                                                         \
        { "pad_height", ST_FIELD_PAIR, offsetof(OPTIONS, pad_height) },                                      \
        { "pad_width", ST_FIELD_PAIR, offsetof(OPTIONS, pad_width) },                                        \
        { 0 },                                                                                               \
    };                                                                                                       \
    const st_layer_type layer_type_##NAME = {                                                                \
        .name = #NAME,                                                                                       \
        .options_size = sizeof(OPTIONS),                                                                     \
        .fields = NAME##_fields,                                                                             \
        .plan = plan_##NAME,                                                                                 \
        .forward = forward,                                                                                  \
        .backward = backward,                                                                                \
    };                                                                                                       \
    CONSTRUCTOR(NAME, OPTIONS)

static const char *const pad_values[] = { "default", "zero", "lowest", NULL };

/* clang-format off */
POOLING(maxpool, st_maxpool_options,
        { "pad_value", ST_FIELD_CHOICE, offsetof(st_maxpool_options, pad_value), .choices = pad_values })
POOLING(avgpool, st_avgpool_options,
        { "count_exclude_pad", ST_FIELD_BOOL, offsetof(st_avgpool_options, count_exclude_pad) })
POOLING(lppool, st_lppool_options,
        { "p", ST_FIELD_REAL, offsetof(st_lppool_options, p), .fallback = 2, .least = 1 })
POOLING(pool, st_pool_options,
        { "function", ST_FIELD_NAMED, offsetof(st_pool_options, function) },
        { "pad_value", ST_FIELD_CHOICE, offsetof(st_pool_options, pad_value), .choices = pad_values })
/* clang-format on */
