/* pool.c: pooling: y is a function of each window, and dx the sum of the windows' adjoints.
 *
 * A kind of pooling is two functions of one window, which is a view with a stride for rows and one for
 * columns. */
#include "layers/layer_impl.h"
#include "layers/pool_impl.h"
#include "layers/separable.h"
#include "layers/types.h"
#include "tensor/sum.h"

#include <math.h>

/* A window of an image, or of its gradient: element (kh, kw) is at[kh * stride[0] + kw * stride[1]]. */
typedef struct place {
    st_real *at;
    const ptrdiff_t *stride;
    ptrdiff_t row, column; /* the window's position in its channel */
} place;

typedef st_real window_value(const st_call *c, place x);
typedef void window_adjoint(const st_call *c, place x, st_real y, st_real dy, place dx); /* adds to dx */

enum { PADDED, DPADDED, VALUES, DVALUES }; /* scratch: padded images, and for pool one window */

/* ---- plan ---------------------------------------------------------------------------------------- */

/* Plans the windows of x and y, with a table of `counts` numbers for each row and each column of windows. */
static pool_plan *plan_windows(st_layer *l, st_shape x, st_shape *y, const int kernel[2], const int stride[2],
                               window_padding padding, const int dilation[2], bool ceil_mode, int counts)
{
    window w;
    if (window_plan_pool(&w, l, x, kernel, stride, padding, dilation, ceil_mode)) return NULL;
    *y = ST_SHAPE(x.n[0], x.n[1], w.out[0], w.out[1]);
    if (st_shape_numel(*y, l->type->name) < 0) return NULL;
    pool_plan *p =
        st_layer_plan_data(l, sizeof *p + (size_t)counts * (size_t)(w.out[0] + w.out[1]) * sizeof(int));
    if (!p) return NULL;
    p->w = w;
    st_shape padded = window_padded(&w) ? window_padded_shape(&w, x.n[1]) : ST_SHAPE(0);
    return st_layer_scratch(l, padded) || st_layer_scratch(l, padded) ? NULL : p;
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

/* A place refers to the memory of a view. */
static place place_of(const st_tensor *view, ptrdiff_t channel, ptrdiff_t oh, ptrdiff_t ow)
{
    return (place){ .at = st_data(*view) + channel * view->stride[0] + oh * view->stride[1] +
                          ow * view->stride[2],
                    .stride = view->stride + 3,
                    .row = oh,
                    .column = ow };
}

static void forward_windows(const st_call *c, st_tensor x, st_tensor y, window_value *value)
{
    const window *w = &((const pool_plan *)c->plan)->w;
    st_real *out = st_data(y);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        st_tensor view = windows(c, x, i);
        for (ptrdiff_t channel = 0; channel < x.shape.n[1]; channel++)
            for (ptrdiff_t oh = 0; oh < w->out[0]; oh++)
                for (ptrdiff_t ow = 0; ow < w->out[1]; ow++)
                    *out++ = value(c, place_of(&view, channel, oh, ow));
    }
}

static void backward_windows(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx,
                             window_adjoint *adjoint)
{
    const window *w = &((const pool_plan *)c->plan)->w;
    const st_real *out = st_data(y), *dout = st_data(dy);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        st_tensor view = windows(c, x, i), image = st_select(dx, 0, i), dpadded = st_scratch(c, DPADDED);
        st_tensor dview = window_view(w, window_target(w, image, dpadded));
        for (ptrdiff_t channel = 0; channel < x.shape.n[1]; channel++)
            for (ptrdiff_t oh = 0; oh < w->out[0]; oh++)
                for (ptrdiff_t ow = 0; ow < w->out[1]; ow++, out++, dout++)
                    adjoint(c, place_of(&view, channel, oh, ow), *out, *dout,
                            place_of(&dview, channel, oh, ow));
        window_finish(w, image, dpadded);
    }
}

static const int *kernel_of(const st_call *c)
{
    return ((const pool_plan *)c->plan)->w.kernel;
}

/* ---- maxpool: the maximum; the gradient goes to the place it came from ----------------------------- */

static int maxpool_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_maxpool_options *o = l->options;
    pool_plan *p =
        plan_windows(l, x, y, o->kernel, o->stride, WINDOW_PADDING(o), o->dilation, o->ceil_mode, 0);
    if (!p) return -1;
    p->padding = o->pad_value == ST_PAD_ZERO ? 0 : -(st_real)INFINITY;
    return 0;
}

/* The first element of a window, along an axis, that is in the image; 0 if none is. */
static ptrdiff_t first_inside(const window *w, int axis, ptrdiff_t at)
{
    ptrdiff_t outside = w->before[axis] - at * w->stride[axis], dilation = w->dilation[axis];
    ptrdiff_t first = outside > 0 ? (outside + dilation - 1) / dilation : 0;
    return first < w->kernel[axis] ? first : 0;
}

/* The row-major index of the first maximum, or of the first NaN; if all elements are -inf, of the first one
 * in the image. */
static ptrdiff_t maximum(const st_call *c, place x, st_real *value)
{
    const pool_plan *p = c->plan;
    const int *kernel = p->w.kernel;
    st_real best = -(st_real)INFINITY;
    ptrdiff_t at = 0;
    if (p->padding != 0) at = first_inside(&p->w, 0, x.row) * kernel[1] + first_inside(&p->w, 1, x.column);
    for (ptrdiff_t k = 0; k < (ptrdiff_t)kernel[0] * kernel[1]; k++) {
        st_real element = x.at[k / kernel[1] * x.stride[0] + k % kernel[1] * x.stride[1]];
        if (element <= best || isnan(best)) continue;
        best = element;
        at = k;
    }
    *value = best;
    return at;
}

static st_real maxpool_value(const st_call *c, place x)
{
    st_real value;
    maximum(c, x, &value);
    return value;
}

static void maxpool_adjoint(const st_call *c, place x, st_real y, st_real dy, place dx)
{
    const int wide = kernel_of(c)[1];
    ptrdiff_t k = maximum(c, x, &y);
    dx.at[k / wide * dx.stride[0] + k % wide * dx.stride[1]] += dy;
}

/* A dilated window may contain only padding, whose maximum is -inf. */
static bool takes_maxima(const st_layer *l)
{
    const st_maxpool_options *o = l->options;
    return o->dilation[0] == 1 && o->dilation[1] == 1;
}

/* ---- avgpool: the mean ------------------------------------------------------------------------------ */

int pool_counted(const window *w, int axis, ptrdiff_t at, bool exclude_pad)
{
    ptrdiff_t low = exclude_pad ? 0 : -w->before[axis];
    ptrdiff_t high = w->size[axis] + (exclude_pad ? 0 : w->pad_after[axis]);
    int count = 0;
    for (int k = 0; k < w->kernel[axis]; k++) {
        ptrdiff_t element = at * w->stride[axis] - w->before[axis] + (ptrdiff_t)k * w->dilation[axis];
        count += element >= low && element < high;
    }
    return count;
}

static int avgpool_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_avgpool_options *o = l->options;
    pool_plan *p =
        plan_windows(l, x, y, o->kernel, o->stride, WINDOW_PADDING(o), o->dilation, o->ceil_mode, 1);
    if (!p) return -1;
    int *count = p->count;
    for (int axis = 0; axis < 2; axis++)
        for (ptrdiff_t at = 0; at < p->w.out[axis]; at++)
            *count++ = pool_counted(&p->w, axis, at, o->count_exclude_pad);
    l->flops = (double)st_shape_numel(*y, "avgpool") * p->w.kernel[0] * p->w.kernel[1];
    return 0;
}

static st_real weight_of(const st_call *c, place x)
{
    return pool_weight(c->plan, x.row, x.column);
}

static st_real avgpool_value(const st_call *c, place x)
{
    const int *kernel = kernel_of(c);
    const bool dense = x.stride[1] == 1, whole = dense && x.stride[0] == kernel[1];
    double sum = 0;
    if (whole) sum = sum_of_row((ptrdiff_t)kernel[0] * kernel[1], x.at);
    for (int kh = 0; kh < kernel[0] && !whole; kh++, x.at += x.stride[0]) {
        if (dense) sum += sum_of_row(kernel[1], x.at);
        for (int kw = 0; kw < kernel[1] && !dense; kw++) sum += (double)x.at[kw * x.stride[1]];
    }
    return (st_real)sum * weight_of(c, x);
}

static void avgpool_adjoint(const st_call *c, place x, st_real y, st_real dy, place dx)
{
    (void)y;
    const st_real share = dy * weight_of(c, x);
    for (int kh = 0; kh < kernel_of(c)[0]; kh++)
        for (int kw = 0; kw < kernel_of(c)[1]; kw++) dx.at[kh * dx.stride[0] + kw * dx.stride[1]] += share;
}

/* ---- lppool: the p-norm: y = (sum of |x|^p)^(1/p), as ONNX's LpPool ------------------------------------ *
 * To avoid overflow, powers are taken of ratios of at most 1: y = m (sum of (|x|/m)^p)^(1/p), with m the
 * largest |x| of the window, and dx = dy sign(x) (|x|/y)^(p-1). */

static int lppool_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_lppool_options *o = l->options;
    return plan_windows(l, x, y, o->kernel, o->stride, WINDOW_PADDING(o), o->dilation, o->ceil_mode, 0) ? 0
                                                                                                        : -1;
}

static double power(double ratio, double p)
{
    return p == 2 ? ratio * ratio : p == 1 ? ratio : pow(ratio, p);
}

/* NaN propagates. */
static st_real lppool_value(const st_call *c, place x)
{
    const double p = ((const st_lppool_options *)c->options)->p;
    const int *kernel = kernel_of(c);
    double most = 0, sum = 0;
    for (int kh = 0; kh < kernel[0]; kh++)
        for (int kw = 0; kw < kernel[1]; kw++) {
            double size = fabs((double)x.at[kh * x.stride[0] + kw * x.stride[1]]);
            if (isnan(size)) return (st_real)size;
            if (size > most) most = size;
        }
    if (most == 0 || isinf(most)) return (st_real)most;
    for (int kh = 0; kh < kernel[0]; kh++)
        for (int kw = 0; kw < kernel[1]; kw++)
            sum += power(fabs((double)x.at[kh * x.stride[0] + kw * x.stride[1]]) / most, p);
    return (st_real)(most * pow(sum, 1 / p));
}

static void lppool_adjoint(const st_call *c, place x, st_real y, st_real dy, place dx)
{
    const double p = ((const st_lppool_options *)c->options)->p, norm = (double)y;
    if (y == 0) return;
    for (int kh = 0; kh < kernel_of(c)[0]; kh++)
        for (int kw = 0; kw < kernel_of(c)[1]; kw++) {
            double value = (double)x.at[kh * x.stride[0] + kw * x.stride[1]], slope = 0;
            if (value != 0) slope = p == 2 ? value / norm : copysign(pow(fabs(value) / norm, p - 1), value);
            dx.at[kh * dx.stride[0] + kw * dx.stride[1]] += (st_real)((double)dy * slope);
        }
}

/* ---- pool: a function of the user's; its adjoint, too, or central differences ---------------------------- */

static int pool_layer_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_pool_options *o = l->options;
    if (!o->function->name || !o->function->value)
        return st_layer_refuse(l, "the window function %s has no %s",
                               o->function->name ? o->function->name : "?",
                               o->function->name ? "value" : "name");
    pool_plan *p =
        plan_windows(l, x, y, o->kernel, o->stride, WINDOW_PADDING(o), o->dilation, o->ceil_mode, 0);
    if (!p) return -1;
    p->padding = o->pad_value == ST_PAD_LOWEST ? -(st_real)INFINITY : 0;
    st_shape elements = ST_SHAPE(p->w.kernel[0], p->w.kernel[1]);
    return st_layer_scratch(l, elements) || st_layer_scratch(l, elements) ? -1 : 0;
}

/* Copies the window's elements into an array. */
static st_real *gather(const st_call *c, place x)
{
    const int *kernel = kernel_of(c);
    st_real *values = st_data(st_scratch(c, VALUES)), *to = values;
    for (int kh = 0; kh < kernel[0]; kh++)
        for (int kw = 0; kw < kernel[1]; kw++) *to++ = x.at[kh * x.stride[0] + kw * x.stride[1]];
    return values;
}

static st_real pool_value(const st_call *c, place x)
{
    const st_pool_function *f = ((const st_pool_options *)c->options)->function;
    return f->value(gather(c, x), (ptrdiff_t)kernel_of(c)[0] * kernel_of(c)[1], f->context);
}

static void numeric_adjoint(const st_pool_function *f, st_real *values, ptrdiff_t n, st_real dy,
                            st_real *dvalues)
{
    const double relative = cbrt((double)ST_REAL_EPSILON); /* balances truncation and rounding errors */
    for (ptrdiff_t i = 0; i < n; i++) {
        st_real middle = values[i], step = (st_real)(relative * fmax(1, fabs((double)middle)));
        st_real above = middle + step, below = middle - step;
        values[i] = above;
        st_real high = f->value(values, n, f->context);
        values[i] = below;
        st_real low = f->value(values, n, f->context);
        values[i] = middle;
        dvalues[i] = isfinite(middle) ? dy * (high - low) / (above - below) : 0;
    }
}

static void pool_adjoint(const st_call *c, place x, st_real y, st_real dy, place dx)
{
    const st_pool_function *f = ((const st_pool_options *)c->options)->function;
    const int *kernel = kernel_of(c);
    ptrdiff_t area = (ptrdiff_t)kernel[0] * kernel[1];
    st_real *values = gather(c, x), *dvalues = st_data(st_scratch(c, DVALUES));
    if (f->adjoint) f->adjoint(values, area, y, dy, dvalues, f->context);
    else numeric_adjoint(f, values, area, dy, dvalues);
    for (int kh = 0; kh < kernel[0]; kh++)
        for (int kw = 0; kw < kernel[1]; kw++) dx.at[kh * dx.stride[0] + kw * dx.stride[1]] += *dvalues++;
}

/* ---- adaptive_avgpool: the image cut into output_size parts, the mean of each, as A x Bᵀ ------------------- *
 * Row i of A is 1/length over its part, from floor(i H / OH) to ceil((i+1) H / OH). */

static taps part_of(const void *options, ptrdiff_t i, ptrdiff_t from, ptrdiff_t to)
{
    (void)options;
    ptrdiff_t begin = i * from / to, count = ((i + 1) * from + to - 1) / to - begin;
    return (taps){ begin, count, 1 / (st_real)count, 1 / (st_real)count };
}

static int adaptive_avgpool_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_adaptive_avgpool_options *o = l->options;
    if (x.rank != 4)
        return st_layer_refuse(l, "the input is %s, expected [N, C, H, W]", st_shape_text(x).text);
    *y = ST_SHAPE(x.n[0], x.n[1], o->output_size[0], o->output_size[1]);
    if (st_shape_numel(*y, "adaptive_avgpool") < 0) return -1;
    return separable_plan(l, x, *y, part_of);
}

/* One part, the whole image: forward a sum, along contiguous rows if x has them; backward a fill. */
static bool is_global(const st_call *c, st_tensor x)
{
    st_shape y = c->layer->y;
    return y.n[2] == 1 && y.n[3] == 1 && x.stride[3] == 1 && x.stride[2] == x.shape.n[3];
}

static void adaptive_avgpool_forward(const st_call *c, st_tensor x, st_tensor y)
{
    if (!is_global(c, x)) {
        separable_forward(c, x, y);
        return;
    }
    const ptrdiff_t area = x.shape.n[2] * x.shape.n[3];
    st_real *to = st_data(y);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t k = 0; k < x.shape.n[1]; k++)
            *to++ =
                (st_real)(sum_of_row(area, st_data(x) + i * x.stride[0] + k * x.stride[1]) / (double)area);
}

static void adaptive_avgpool_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    if (!is_global(c, dx)) {
        separable_backward(c, dy, dx);
        return;
    }
    const ptrdiff_t area = dx.shape.n[2] * dx.shape.n[3];
    const st_real *from = st_data(dy);
    st_real *to = st_data(dx);
    for (const st_real *end = to + st_numel(dx); to < end; to += area, from++) {
        const st_real share = *from / (st_real)area;
        for (ptrdiff_t k = 0; k < area; k++) to[k] = share;
    }
}

/* ---- the types --------------------------------------------------------------------------------------- */

/* The options of every pooling but adaptive_avgpool, and the hooks of those that run window by window. */
#define WINDOW_FIELDS(TYPE)                                                                                  \
    { "kernel", ST_FIELD_PAIR, offsetof(TYPE, kernel), .square = true },                                     \
        { "stride", ST_FIELD_PAIR, offsetof(TYPE, stride), .square = true },                                 \
        { "padding", ST_FIELD_PAIR, offsetof(TYPE, padding) },                                               \
        { "dilation", ST_FIELD_PAIR, offsetof(TYPE, dilation), .least = 1, .fallback = 1, .square = true },  \
    {                                                                                                        \
        "ceil_mode", ST_FIELD_BOOL, offsetof(TYPE, ceil_mode)                                                \
    }
#define SIDE_FIELDS(TYPE)                                                                                    \
    { "pad_height", ST_FIELD_PAIR, offsetof(TYPE, pad_height) },                                             \
    {                                                                                                        \
        "pad_width", ST_FIELD_PAIR, offsetof(TYPE, pad_width)                                                \
    }
#define WINDOW_HOOKS(NAME)                                                                                   \
    static void NAME##_forward(const st_call *c, st_tensor x, st_tensor y)                                   \
    {                                                                                                        \
        forward_windows(c, x, y, NAME##_value);                                                              \
    }                                                                                                        \
    static void NAME##_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)      \
    {                                                                                                        \
        backward_windows(c, x, y, dy, dx, NAME##_adjoint);                                                   \
    }
WINDOW_HOOKS(maxpool)
WINDOW_HOOKS(avgpool)
WINDOW_HOOKS(lppool)
WINDOW_HOOKS(pool)

static const char *const pad_values[] = { "default", "zero", "lowest", NULL };

static const st_field maxpool_fields[] = {
    WINDOW_FIELDS(st_maxpool_options),
    { "pad_value", ST_FIELD_CHOICE, offsetof(st_maxpool_options, pad_value), .choices = pad_values },
    SIDE_FIELDS(st_maxpool_options),
    { 0 },
};

const st_layer_type layer_type_maxpool = {
    .name = "maxpool",
    .options_size = sizeof(st_maxpool_options),
    .fields = maxpool_fields,
    .plan = maxpool_plan,
    .forward = maxpool_forward,
    .backward = maxpool_backward,
    .traits = &(const layer_traits){ .takes_maxima = takes_maxima, .ignores_y = true },
};

CONSTRUCTOR(maxpool, st_maxpool_options)

static const st_field avgpool_fields[] = {
    WINDOW_FIELDS(st_avgpool_options),
    { "count_exclude_pad", ST_FIELD_BOOL, offsetof(st_avgpool_options, count_exclude_pad) },
    SIDE_FIELDS(st_avgpool_options),
    { 0 },
};

const st_layer_type layer_type_avgpool = {
    .name = "avgpool",
    .options_size = sizeof(st_avgpool_options),
    .fields = avgpool_fields,
    .plan = avgpool_plan,
    .forward = avgpool_forward,
    .backward = avgpool_backward,
    .traits = &(const layer_traits){ .ignores_y = true },
};

CONSTRUCTOR(avgpool, st_avgpool_options)

static const st_field lppool_fields[] = {
    WINDOW_FIELDS(st_lppool_options),
    { "p", ST_FIELD_REAL, offsetof(st_lppool_options, p), .fallback = 2, .least = 1 },
    SIDE_FIELDS(st_lppool_options),
    { 0 },
};

const st_layer_type layer_type_lppool = {
    .name = "lppool",
    .options_size = sizeof(st_lppool_options),
    .fields = lppool_fields,
    .plan = lppool_plan,
    .forward = lppool_forward,
    .backward = lppool_backward,
};

CONSTRUCTOR(lppool, st_lppool_options)

static const st_field pool_fields[] = {
    { "function", ST_FIELD_NAMED, offsetof(st_pool_options, function) },
    WINDOW_FIELDS(st_pool_options),
    { "pad_value", ST_FIELD_CHOICE, offsetof(st_pool_options, pad_value), .choices = pad_values },
    SIDE_FIELDS(st_pool_options),
    { 0 },
};

const st_layer_type layer_type_pool = {
    .name = "pool",
    .options_size = sizeof(st_pool_options),
    .fields = pool_fields,
    .plan = pool_layer_plan,
    .forward = pool_forward,
    .backward = pool_backward,
};

CONSTRUCTOR(pool, st_pool_options)

static const st_field adaptive_avgpool_fields[] = {
    { "output_size", ST_FIELD_PAIR, offsetof(st_adaptive_avgpool_options, output_size), .fallback = 1,
      .least = 1, .square = true },
    { 0 },
};

const st_layer_type layer_type_adaptive_avgpool = {
    .name = "adaptive_avgpool",
    .options_size = sizeof(st_adaptive_avgpool_options),
    .fields = adaptive_avgpool_fields,
    .plan = adaptive_avgpool_plan,
    .forward = adaptive_avgpool_forward,
    .backward = adaptive_avgpool_backward,
    .traits = &(const layer_traits){ .ignores_y = true },
};

CONSTRUCTOR(adaptive_avgpool, st_adaptive_avgpool_options)
