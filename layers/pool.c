/* pool.c: pooling: y of each window is one function of its elements, dx adds up what each window's adjoint says.
 *
 * A pooling is two functions of one window, which is a view with a stride for its rows and one for its columns. */
#include "layers/layer_impl.h"
#include "layers/layers.h"
#include "layers/pool_impl.h"
#include "layers/separable.h"
#include "layers/types.h"
#include "tensor/sum.h"

#include <math.h>

/* A window of an image, or of its gradient: element (kh, kw) is at[kh * stride[0] + kw * stride[1]]. */
typedef struct place {
    real *at;
    const ptrdiff_t *stride;
    ptrdiff_t row, column; /* of the window, among all of a channel */
} place;

typedef real window_value(const st_call *c, place x);
typedef void window_adjoint(const st_call *c, place x, real y, real dy, place dx); /* adds to dx */

enum { PADDED, DPADDED, VALUES, DVALUES }; /* scratch: padded images, and for pool one window */

/* ---- plan ---------------------------------------------------------------------------------------- */

/* Plans the windows of x and y, and a table of so many counts for each row and column of windows. */
static pool_plan *plan_windows(layer *l, shape x, shape *y, const int kernel[2], const int stride[2],
                               const int padding[2], const int dilation[2], bool ceil_mode, int counts)
{
    window w;
    if (window_plan_pool(&w, l, x, kernel, stride, padding, dilation, ceil_mode)) return NULL;
    *y = SHAPE(x.n[0], x.n[1], w.out[0], w.out[1]);
    if (shape_count(*y, l->type->name) < 0) return NULL;
    pool_plan *p =
        st_layer_plan_data(l, sizeof *p + (size_t)counts * (size_t)(w.out[0] + w.out[1]) * sizeof(int));
    if (!p) return NULL;
    p->w = w;
    shape padded = window_padded(&w) ? window_padded_shape(&w, x.n[1]) : SHAPE(0);
    return layer_scratch(l, padded) || layer_scratch(l, padded) ? NULL : p;
}

/* ---- all windows --------------------------------------------------------------------------------- */

/* The windows [C, OH, OW, KH, KW] of image i, padded. */
static tensor windows(const st_call *c, tensor x, ptrdiff_t i)
{
    const pool_plan *p = c->plan;
    tensor padded = st_scratch(c, PADDED);
    if (i == 0 && window_padded(&p->w)) tensor_fill(padded, p->padding);
    return window_view(&p->w, window_source(&p->w, tensor_select(x, 0, i), padded));
}

/* It refers to the view. */
static place place_of(const tensor *view, ptrdiff_t channel, ptrdiff_t oh, ptrdiff_t ow)
{
    return (place){ .at = tensor_data(*view) + channel * view->stride[0] + oh * view->stride[1] +
                          ow * view->stride[2],
                    .stride = view->stride + 3,
                    .row = oh,
                    .column = ow };
}

static void forward_windows(const st_call *c, tensor x, tensor y, window_value *value)
{
    const window *w = &((const pool_plan *)c->plan)->w;
    real *out = tensor_data(y);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor view = windows(c, x, i);
        for (ptrdiff_t channel = 0; channel < x.shape.n[1]; channel++)
            for (ptrdiff_t oh = 0; oh < w->out[0]; oh++)
                for (ptrdiff_t ow = 0; ow < w->out[1]; ow++)
                    *out++ = value(c, place_of(&view, channel, oh, ow));
    }
}

static void backward_windows(const st_call *c, tensor x, tensor y, tensor dy, tensor dx,
                             window_adjoint *adjoint)
{
    const window *w = &((const pool_plan *)c->plan)->w;
    const real *out = tensor_data(y), *dout = tensor_data(dy);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor view = windows(c, x, i), image = tensor_select(dx, 0, i), dpadded = st_scratch(c, DPADDED);
        tensor dview = window_view(w, window_target(w, image, dpadded));
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

static int maxpool_plan(layer *l, shape x, shape *y)
{
    const maxpool *o = l->options;
    pool_plan *p = plan_windows(l, x, y, o->kernel, o->stride, o->padding, o->dilation, o->ceil_mode, 0);
    if (!p) return -1;
    p->padding = o->pad_value == PAD_ZERO ? 0 : -(real)INFINITY;
    return 0;
}

/* The first element of a window, along an axis, that lies in the image; 0 where none does. */
static ptrdiff_t first_inside(const window *w, int axis, ptrdiff_t at)
{
    ptrdiff_t outside = w->before[axis] - at * w->stride[axis], dilation = w->dilation[axis];
    ptrdiff_t first = outside > 0 ? (outside + dilation - 1) / dilation : 0;
    return first < w->kernel[axis] ? first : 0;
}

/* Row-major index of the first maximum, or of the first NaN; where all is -inf, of the first element that lies in
 * the image. */
static ptrdiff_t maximum(const st_call *c, place x, real *value)
{
    const pool_plan *p = c->plan;
    const int *kernel = p->w.kernel;
    real best = -(real)INFINITY;
    ptrdiff_t at = 0;
    if (p->padding != 0) at = first_inside(&p->w, 0, x.row) * kernel[1] + first_inside(&p->w, 1, x.column);
    for (ptrdiff_t k = 0; k < (ptrdiff_t)kernel[0] * kernel[1]; k++) {
        real element = x.at[k / kernel[1] * x.stride[0] + k % kernel[1] * x.stride[1]];
        if (element <= best || isnan(best)) continue;
        best = element;
        at = k;
    }
    *value = best;
    return at;
}

static real maxpool_value(const st_call *c, place x)
{
    real value;
    maximum(c, x, &value);
    return value;
}

static void maxpool_adjoint(const st_call *c, place x, real y, real dy, place dx)
{
    const int wide = kernel_of(c)[1];
    ptrdiff_t k = maximum(c, x, &y);
    dx.at[k / wide * dx.stride[0] + k % wide * dx.stride[1]] += dy;
}

/* A dilated window may see nothing but padding, whose maximum is -inf. */
static bool takes_maxima(const layer *l)
{
    const maxpool *o = l->options;
    return o->dilation[0] == 1 && o->dilation[1] == 1;
}

/* ---- avgpool: the mean ------------------------------------------------------------------------------ */

/* How many elements of window `at` along an axis lie in the image, or in it and its padding. */
static int counted(const window *w, int axis, ptrdiff_t at, bool exclude_pad)
{
    ptrdiff_t low = exclude_pad ? 0 : -w->before[axis];
    ptrdiff_t high = w->size[axis] + (exclude_pad ? 0 : w->before[axis]);
    int count = 0;
    for (int k = 0; k < w->kernel[axis]; k++) {
        ptrdiff_t element = at * w->stride[axis] - w->before[axis] + (ptrdiff_t)k * w->dilation[axis];
        count += element >= low && element < high;
    }
    return count;
}

static int avgpool_plan(layer *l, shape x, shape *y)
{
    const avgpool *o = l->options;
    pool_plan *p = plan_windows(l, x, y, o->kernel, o->stride, o->padding, o->dilation, o->ceil_mode, 1);
    if (!p) return -1;
    int *count = p->count;
    for (int axis = 0; axis < 2; axis++)
        for (ptrdiff_t at = 0; at < p->w.out[axis]; at++)
            *count++ = counted(&p->w, axis, at, o->count_exclude_pad);
    l->flops = (double)shape_count(*y, "avgpool") * p->w.kernel[0] * p->w.kernel[1];
    return 0;
}

static real weight_of(const st_call *c, place x)
{
    return pool_weight(c->plan, x.row, x.column);
}

static real avgpool_value(const st_call *c, place x)
{
    real sum = 0;
    for (int kh = 0; kh < kernel_of(c)[0]; kh++)
        for (int kw = 0; kw < kernel_of(c)[1]; kw++) sum += x.at[kh * x.stride[0] + kw * x.stride[1]];
    return sum * weight_of(c, x);
}

static void avgpool_adjoint(const st_call *c, place x, real y, real dy, place dx)
{
    (void)y;
    const real share = dy * weight_of(c, x);
    for (int kh = 0; kh < kernel_of(c)[0]; kh++)
        for (int kw = 0; kw < kernel_of(c)[1]; kw++) dx.at[kh * dx.stride[0] + kw * dx.stride[1]] += share;
}

/* ---- lppool: the p-norm: y = (sum of |x|^p)^(1/p), as ONNX's LpPool ------------------------------------ *
 * Powers are taken of ratios that are at most 1, so that none of them overflows: of x to the window's maximum,
 * y = m (sum of (|x|/m)^p)^(1/p), and of x to y, dx = dy sign(x) (|x|/y)^(p-1). */

static int lppool_plan(layer *l, shape x, shape *y)
{
    const lppool *o = l->options;
    return plan_windows(l, x, y, o->kernel, o->stride, o->padding, o->dilation, o->ceil_mode, 0) ? 0 : -1;
}

static double power(double ratio, double p)
{
    return p == 2 ? ratio * ratio : p == 1 ? ratio : pow(ratio, p);
}

/* NaN stays NaN. */
static real lppool_value(const st_call *c, place x)
{
    const double p = ((const lppool *)c->options)->p;
    const int *kernel = kernel_of(c);
    double most = 0, sum = 0;
    for (int kh = 0; kh < kernel[0]; kh++)
        for (int kw = 0; kw < kernel[1]; kw++) {
            double size = fabs((double)x.at[kh * x.stride[0] + kw * x.stride[1]]);
            if (isnan(size)) return (real)size;
            if (size > most) most = size;
        }
    if (most == 0 || isinf(most)) return (real)most;
    for (int kh = 0; kh < kernel[0]; kh++)
        for (int kw = 0; kw < kernel[1]; kw++)
            sum += power(fabs((double)x.at[kh * x.stride[0] + kw * x.stride[1]]) / most, p);
    return (real)(most * pow(sum, 1 / p));
}

static void lppool_adjoint(const st_call *c, place x, real y, real dy, place dx)
{
    const double p = ((const lppool *)c->options)->p, norm = (double)y;
    if (y == 0) return;
    for (int kh = 0; kh < kernel_of(c)[0]; kh++)
        for (int kw = 0; kw < kernel_of(c)[1]; kw++) {
            double value = (double)x.at[kh * x.stride[0] + kw * x.stride[1]], slope = 0;
            if (value != 0) slope = p == 2 ? value / norm : copysign(pow(fabs(value) / norm, p - 1), value);
            dx.at[kh * dx.stride[0] + kw * dx.stride[1]] += (real)((double)dy * slope);
        }
}

/* ---- pool: a function of the user's; its adjoint, too, or central differences ---------------------------- */

static int pool_layer_plan(layer *l, shape x, shape *y)
{
    const pool *o = l->options;
    if (!o->function->name || !o->function->value)
        return layer_refuse(l, "the window function %s has no %s",
                            o->function->name ? o->function->name : "?",
                            o->function->name ? "value" : "name");
    pool_plan *p = plan_windows(l, x, y, o->kernel, o->stride, o->padding, o->dilation, o->ceil_mode, 0);
    if (!p) return -1;
    p->padding = o->pad_value == PAD_LOWEST ? -(real)INFINITY : 0;
    shape elements = SHAPE(p->w.kernel[0], p->w.kernel[1]);
    return layer_scratch(l, elements) || layer_scratch(l, elements) ? -1 : 0;
}

/* The window's elements, one after another. */
static real *gather(const st_call *c, place x)
{
    const int *kernel = kernel_of(c);
    real *values = tensor_data(st_scratch(c, VALUES)), *to = values;
    for (int kh = 0; kh < kernel[0]; kh++)
        for (int kw = 0; kw < kernel[1]; kw++) *to++ = x.at[kh * x.stride[0] + kw * x.stride[1]];
    return values;
}

static real pool_value(const st_call *c, place x)
{
    const pool_function *f = ((const pool *)c->options)->function;
    return f->value(gather(c, x), (ptrdiff_t)kernel_of(c)[0] * kernel_of(c)[1], f->context);
}

static void numeric_adjoint(const pool_function *f, real *values, ptrdiff_t n, real dy, real *dvalues)
{
    const double relative = cbrt((double)REAL_EPSILON); /* balances truncation against rounding */
    for (ptrdiff_t i = 0; i < n; i++) {
        real middle = values[i], step = (real)(relative * fmax(1, fabs((double)middle)));
        real above = middle + step, below = middle - step;
        values[i] = above;
        real high = f->value(values, n, f->context);
        values[i] = below;
        real low = f->value(values, n, f->context);
        values[i] = middle;
        dvalues[i] = isfinite(middle) ? dy * (high - low) / (above - below) : 0;
    }
}

static void pool_adjoint(const st_call *c, place x, real y, real dy, place dx)
{
    const pool_function *f = ((const pool *)c->options)->function;
    const int *kernel = kernel_of(c);
    ptrdiff_t area = (ptrdiff_t)kernel[0] * kernel[1];
    real *values = gather(c, x), *dvalues = tensor_data(st_scratch(c, DVALUES));
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
    return (taps){ begin, count, 1 / (real)count, 1 / (real)count };
}

static int adaptive_avgpool_plan(layer *l, shape x, shape *y)
{
    const adaptive_avgpool *o = l->options;
    if (x.rank != 4) return layer_refuse(l, "the input is %s, expected [N, C, H, W]", shape_text(x).text);
    *y = SHAPE(x.n[0], x.n[1], o->output_size[0], o->output_size[1]);
    if (shape_count(*y, "adaptive_avgpool") < 0) return -1;
    return separable_plan(l, x, *y, part_of);
}

/* One part, the whole image: a sum along rows of neighbours, where x has them, and a fill back. */
static bool is_global(const st_call *c, tensor x)
{
    shape y = c->layer->y;
    return y.n[2] == 1 && y.n[3] == 1 && x.stride[3] == 1 && x.stride[2] == x.shape.n[3];
}

static void adaptive_avgpool_forward(const st_call *c, tensor x, tensor y)
{
    if (!is_global(c, x)) {
        separable_forward(c, x, y);
        return;
    }
    const ptrdiff_t area = x.shape.n[2] * x.shape.n[3];
    real *to = tensor_data(y);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t k = 0; k < x.shape.n[1]; k++)
            *to++ =
                (real)(sum_of_row(area, tensor_data(x) + i * x.stride[0] + k * x.stride[1]) / (double)area);
}

static void adaptive_avgpool_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    if (!is_global(c, dx)) {
        separable_backward(c, dy, dx);
        return;
    }
    const ptrdiff_t area = dx.shape.n[2] * dx.shape.n[3];
    const real *from = tensor_data(dy);
    real *to = tensor_data(dx);
    for (const real *end = to + tensor_count(dx); to < end; to += area, from++) {
        const real share = *from / (real)area;
        for (ptrdiff_t k = 0; k < area; k++) to[k] = share;
    }
}

/* ---- the types --------------------------------------------------------------------------------------- */

/* The options that every pooling but adaptive_avgpool has, and the hooks of those that go window by window. */
#define WINDOW_FIELDS(TYPE)                                                                                  \
    { "kernel", FIELD_PAIR, offsetof(TYPE, kernel), .square = true },                                        \
        { "stride", FIELD_PAIR, offsetof(TYPE, stride), .square = true },                                    \
        { "padding", FIELD_PAIR, offsetof(TYPE, padding) },                                                  \
        { "dilation", FIELD_PAIR, offsetof(TYPE, dilation), .least = 1, .fallback = 1, .square = true },     \
    {                                                                                                        \
        "ceil_mode", FIELD_BOOL, offsetof(TYPE, ceil_mode)                                                   \
    }
#define WINDOW_HOOKS(NAME)                                                                                   \
    static void NAME##_forward(const st_call *c, tensor x, tensor y)                                         \
    {                                                                                                        \
        forward_windows(c, x, y, NAME##_value);                                                              \
    }                                                                                                        \
    static void NAME##_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)                  \
    {                                                                                                        \
        backward_windows(c, x, y, dy, dx, NAME##_adjoint);                                                   \
    }
WINDOW_HOOKS(maxpool)
WINDOW_HOOKS(avgpool)
WINDOW_HOOKS(lppool)
WINDOW_HOOKS(pool)

static const char *const pad_values[] = { "default", "zero", "lowest", NULL };

static const layer_field maxpool_fields[] = {
    WINDOW_FIELDS(maxpool),
    { "pad_value", FIELD_CHOICE, offsetof(maxpool, pad_value), .choices = pad_values },
    { 0 },
};

const layer_type layer_type_maxpool = {
    .name = "maxpool",
    .options_size = sizeof(maxpool),
    .fields = maxpool_fields,
    .plan = maxpool_plan,
    .forward = maxpool_forward,
    .backward = maxpool_backward,
    .traits = &(const layer_traits){ .takes_maxima = takes_maxima, .ignores_y = true },
};

static const layer_field avgpool_fields[] = {
    WINDOW_FIELDS(avgpool),
    { "count_exclude_pad", FIELD_BOOL, offsetof(avgpool, count_exclude_pad) },
    { 0 },
};

const layer_type layer_type_avgpool = {
    .name = "avgpool",
    .options_size = sizeof(avgpool),
    .fields = avgpool_fields,
    .plan = avgpool_plan,
    .forward = avgpool_forward,
    .backward = avgpool_backward,
    .traits = &(const layer_traits){ .ignores_y = true },
};

static const layer_field lppool_fields[] = {
    WINDOW_FIELDS(lppool),
    { "p", FIELD_REAL, offsetof(lppool, p), .fallback = 2, .least = 1 },
    { 0 },
};

const layer_type layer_type_lppool = {
    .name = "lppool",
    .options_size = sizeof(lppool),
    .fields = lppool_fields,
    .plan = lppool_plan,
    .forward = lppool_forward,
    .backward = lppool_backward,
};

static const layer_field pool_fields[] = {
    { "function", FIELD_NAMED, offsetof(pool, function) },
    WINDOW_FIELDS(pool),
    { "pad_value", FIELD_CHOICE, offsetof(pool, pad_value), .choices = pad_values },
    { 0 },
};

const layer_type layer_type_pool = {
    .name = "pool",
    .options_size = sizeof(pool),
    .fields = pool_fields,
    .plan = pool_layer_plan,
    .forward = pool_forward,
    .backward = pool_backward,
};

static const layer_field adaptive_avgpool_fields[] = {
    { "output_size", FIELD_PAIR, offsetof(adaptive_avgpool, output_size), .fallback = 1, .least = 1,
      .square = true },
    { 0 },
};

const layer_type layer_type_adaptive_avgpool = {
    .name = "adaptive_avgpool",
    .options_size = sizeof(adaptive_avgpool),
    .fields = adaptive_avgpool_fields,
    .plan = adaptive_avgpool_plan,
    .forward = adaptive_avgpool_forward,
    .backward = adaptive_avgpool_backward,
    .traits = &(const layer_traits){ .ignores_y = true },
};

layer *layer_maxpool(maxpool options)
{
    return layer_new(&layer_type_maxpool, &options, 0, NULL);
}

layer *layer_avgpool(avgpool options)
{
    return layer_new(&layer_type_avgpool, &options, 0, NULL);
}

layer *layer_lppool(lppool options)
{
    return layer_new(&layer_type_lppool, &options, 0, NULL);
}

layer *layer_pool(pool options)
{
    return layer_new(&layer_type_pool, &options, 0, NULL);
}

layer *layer_adaptive_avgpool(adaptive_avgpool options)
{
    return layer_new(&layer_type_adaptive_avgpool, &options, 0, NULL);
}
