/* pool.c: pooling: y is a function of each window, and dx the sum of the windows' adjoints.
 *
 * A window's elements are copied into an array, and those of its adjoint added back to where they came
 * from. */
#include "layers/pool_impl.h"

#include <limits.h>
#include <math.h>

/* Scratch: a window and its adjoint; sums of parameters' derivatives, as doubles; rows and columns of
 * windows; a window's room. */
enum { WINDOW, DWINDOW, SUMS, SPANS, ROOM, SLOTS };

/* ---- the regular grid ----------------------------------------------------------------------------- */

static int plan_regular(window *w, const st_layer *l, st_shape x)
{
    const st_pool_options *o = l->options;
    if (l->type->options_size < offsetof(st_pool_options, pad_value))
        return st_layer_refuse(l, "its options do not begin with those of windows");
    *w = WINDOW_OF(o);
    return window_plan_pool(w, l, x, o->ceil_mode);
}

/* The elements first ... end - 1 of a window, along an axis, that lie in low ... high - 1. */
typedef struct range {
    ptrdiff_t first, end;
} range;

static range inside(const window *w, int axis, ptrdiff_t at, ptrdiff_t low, ptrdiff_t high)
{
    const ptrdiff_t begin = at * w->stride[axis] - w->before[axis], dilation = w->dilation[axis];
    if (begin >= low && begin + dilation * (w->kernel[axis] - 1) < high) return (range){ 0, w->kernel[axis] };
    const ptrdiff_t first = begin < low ? ceil_div(low - begin, dilation) : 0;
    const ptrdiff_t end = begin < high ? ceil_div(high - begin, dilation) : 0;
    return (range){ first, largest(first, smallest(end, w->kernel[axis])) };
}

int pool_counted(const window *w, int axis, ptrdiff_t at, bool exclude_pad)
{
    const ptrdiff_t size = w->size[axis];
    const range counted = exclude_pad ? inside(w, axis, at, 0, size)
                                      : inside(w, axis, at, -w->before[axis], size + w->pad_after[axis]);
    return (int)(counted.end - counted.first);
}

static void regular_spans(const pool_plan *p, const st_window *at, int axis, pool_span *to)
{
    (void)at;
    const window *w = &p->w;
    for (ptrdiff_t i = 0; i < w->out[axis]; i++) {
        range of = { 0, w->kernel[axis] };
        if (!p->zeros) of = inside(w, axis, i, 0, w->size[axis]);
        to[i] = (pool_span){ i * w->stride[axis] - w->before[axis] + of.first * w->dilation[axis],
                             of.end - of.first, pool_counted(w, axis, i, false) };
    }
}

const st_grid st_regular_grid = { .plan = plan_regular, .spans = regular_spans };

/* ---- the adaptive grid: windows from floor(i H / OH) to ceil((i + 1) H / OH) ------------------------- */

static int plan_adaptive(window *w, const st_layer *l, st_shape x)
{
    const int *out = l->options; /* output_size, the first option */
    if (layer_check_images(l, x)) return -1;
    *w = (window){ .stride = { 1, 1 }, .dilation = { 1, 1 } };
    for (int axis = 0; axis < 2; axis++) {
        const ptrdiff_t size = w->size[axis] = x.n[2 + axis];
        if (size > INT_MAX) return st_layer_refuse(l, "the input %s is too large", st_shape_text(x).text);
        w->out[axis] = out[axis];
        w->kernel[axis] = (int)ceil_div(size, out[axis]) + (size % out[axis] != 0 && size > 1);
    }
    return 0;
}

static void adaptive_spans(const pool_plan *p, const st_window *at, int axis, pool_span *to)
{
    (void)at;
    const ptrdiff_t size = p->w.size[axis], out = p->w.out[axis];
    for (ptrdiff_t i = 0; i < out; i++) to[i] = pool_adaptive_span(i, size, out);
}

const st_grid pool_adaptive_grid = { .plan = plan_adaptive, .spans = adaptive_spans };

/* ---- plan ----------------------------------------------------------------------------------------- */

/* The number of a parameter's elements for each channel. */
static ptrdiff_t elements(const st_layer *l, int param)
{
    return st_shape_numel(l->param[param].shape, l->type->name) / l->param[param].shape.n[0];
}

static int check_parameters(const st_layer *l)
{
    const ptrdiff_t channels = l->x.n[1];
    for (int i = 0; i < l->params; i++) {
        const st_shape s = l->param[i].shape;
        if (s.rank < 1 || (s.n[0] != 1 && s.n[0] != channels))
            return st_layer_refuse(l, "parameter %s is %s, expected [1, ...] or [%td, ...]", l->param_name[i],
                                   st_shape_text(s).text, channels);
    }
    if (l->params == 0 || l->type->pooling->adjoint) return 0;
    return st_layer_refuse(l, "has parameters but no adjoint");
}

int pool_request_scratch(st_layer *l, const pool_plan *p)
{
    const window *w = &p->w;
    ptrdiff_t sums = 0;
    for (int i = 0; i < l->params; i++) sums += elements(l, i);
    const st_shape taps = ST_SHAPE(w->kernel[0], w->kernel[1]);
    const st_shape of[SLOTS] = { [WINDOW] = taps,
                                 [DWINDOW] = taps,
                                 [SUMS] = ST_SHAPE(sums, REALS_OF(double)),
                                 [SPANS] = ST_SHAPE(w->out[0] + w->out[1], REALS_OF(pool_span)),
                                 [ROOM] = ST_SHAPE(w->kernel[0], w->kernel[1], REALS_OF(ptrdiff_t)) };
    for (int i = 0; i < SLOTS; i++)
        if (st_layer_scratch(l, of[i])) return -1;
    return 0;
}

int st_pool_plan(st_layer *l, st_shape x, st_shape *y)
{
    if (!layer_given(l, "st_pool_plan")) return -1;
    const st_pooling *kind = l->type->pooling;
    if (!y || !kind || !kind->value) return st_layer_refuse(l, "is not a pooling with a value");
    const double option = layer_option(l, "pad_value");
    pool_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    *p = (pool_plan){ .kind = kind, .grid = kind->grid ? kind->grid : &st_regular_grid };
    p->zeros = (option > 0 ? (st_pad_value)option : kind->pad_value) != ST_PAD_LOWEST;
    if (p->grid->plan(&p->w, l, x)) return -1;
    p->channels = x.n[1];
    *y = ST_SHAPE(x.n[0], x.n[1], p->w.out[0], p->w.out[1]);
    const ptrdiff_t n = st_shape_numel(ST_SHAPE(p->w.kernel[0], p->w.kernel[1]), l->type->name);
    if (n < 0 || st_shape_numel(*y, l->type->name) < 0) return -1;
    const st_init initial = { .constant = kind->initial };
    if (kind->parameter && st_layer_parameter(l, kind->parameter, ST_SHAPE(x.n[1]), initial)) return -1;
    if ((kind->plan && kind->plan(l, x.n[1], n)) || check_parameters(l)) return -1;
    return pool_request_scratch(l, p);
}

/* ---- all windows of a channel ------------------------------------------------------------------------- */

/* The parameters of a channel, and their sums, which are 0. */
static void bind_parameters(const st_call *c, st_window *at)
{
    double *sum = (double *)(void *)st_data(st_scratch(c, SUMS));
    for (int i = 0; i < c->layer->params; i++) {
        const ptrdiff_t count = elements(c->layer, i), each = c->param[i].shape.n[0] > 1 ? at->channel : 0;
        at->param[i] = st_data(c->param[i]) + each * count;
        at->dparam[i] = sum;
        for (ptrdiff_t k = 0; k < count; k++) *sum++ = 0;
    }
}

/* Adds the sums of a channel's parameters to the gradients. */
static void add_parameters(const st_call *c, const st_window *at)
{
    for (int i = 0; i < c->layer->params; i++) {
        const ptrdiff_t count = elements(c->layer, i), each = c->param[i].shape.n[0] > 1 ? at->channel : 0;
        st_real *grad = st_data(st_grad(c, i)) + each * count;
        for (ptrdiff_t k = 0; k < count; k++) grad[k] += (st_real)at->dparam[i][k];
    }
}

st_window pool_channel(const st_call *c, ptrdiff_t image, ptrdiff_t channel)
{
    st_window at = {
        .options = c->options, .channel = channel, .training = c->training, .key = st_call_random(c)
    };
    at.number = (uint64_t)((c->first + image) * c->layer->x.n[1] + channel);
    bind_parameters(c, &at);
    return at;
}

/* A channel of an image: its windows; the one that is being computed, and its elements. */
typedef struct plane {
    const pool_plan *plan;
    const pool_span *rows, *columns;
    st_window at;
    st_real *x, *dx; /* of the window */
} plane;

static plane plane_of(const st_call *c, ptrdiff_t image, ptrdiff_t channel)
{
    const pool_plan *p = c->plan;
    pool_span *spans = (pool_span *)(void *)st_data(st_scratch(c, SPANS));
    plane a = { .plan = p, .rows = spans, .columns = spans + p->w.out[0] };
    a.x = st_data(st_scratch(c, WINDOW)), a.dx = st_data(st_scratch(c, DWINDOW));
    a.at = pool_channel(c, image, channel);
    p->grid->spans(p, &a.at, 0, spans), p->grid->spans(p, &a.at, 1, spans + p->w.out[0]);
    a.at.number *= (uint64_t)(p->w.out[0] * p->w.out[1]);
    a.at.x = a.x;
    a.at.room = (ptrdiff_t *)(void *)st_data(st_scratch(c, ROOM));
    return a;
}

static bool is_padding(const window *w, ptrdiff_t row, ptrdiff_t column)
{
    return row < 0 || row >= w->size[0] || column < 0 || column >= w->size[1];
}

void pool_copy_window(const pool_plan *p, pool_span rows, pool_span columns, st_tensor x, st_real *to)
{
    const window *w = &p->w;
    const st_real *from = st_data(x);
    for (ptrdiff_t kh = 0, r = rows.first; kh < rows.count; kh++, r += w->dilation[0])
        for (ptrdiff_t kw = 0, s = columns.first; kw < columns.count; kw++, s += w->dilation[1])
            *to++ = p->zeros && is_padding(w, r, s) ? 0 : from[r * x.stride[0] + s * x.stride[1]];
}

/* Makes window [row, column] the current one. */
static void gather(plane *a, st_tensor x, ptrdiff_t row, ptrdiff_t column)
{
    const pool_span rows = a->rows[row], columns = a->columns[column];
    pool_copy_window(a->plan, rows, columns, x, a->x);
    a->at.row = row, a->at.column = column;
    a->at.rows = rows.count, a->at.columns = columns.count;
    a->at.n = rows.count * columns.count;
    a->at.whole = rows.whole * columns.whole;
}

/* The adjoint of gather. */
static void scatter(const plane *a, st_tensor dx)
{
    const window *w = &a->plan->w;
    const pool_span rows = a->rows[a->at.row], columns = a->columns[a->at.column];
    const st_real *from = a->dx;
    st_real *to = st_data(dx);
    for (ptrdiff_t kh = 0, r = rows.first; kh < rows.count; kh++, r += w->dilation[0])
        for (ptrdiff_t kw = 0, s = columns.first; kw < columns.count; kw++, s += w->dilation[1], from++)
            if (!a->plan->zeros || !is_padding(w, r, s)) to[r * dx.stride[0] + s * dx.stride[1]] += *from;
}

/* By central differences. */
static void differences(const plane *a, st_real dy)
{
    const double relative = cbrt((double)ST_REAL_EPSILON); /* balances truncation and rounding errors */
    for (ptrdiff_t k = 0; k < a->at.n; k++) {
        const st_real middle = a->x[k], step = (st_real)(relative * fmax(1, fabs((double)middle)));
        const st_real above = middle + step, below = middle - step;
        a->x[k] = above;
        const st_real high = a->plan->kind->value(&a->at);
        a->x[k] = below;
        const st_real low = a->plan->kind->value(&a->at);
        a->x[k] = middle;
        a->dx[k] = isfinite(middle) ? dy * (high - low) / (above - below) : 0;
    }
}

void pool_forward_plane(const st_call *c, ptrdiff_t image, ptrdiff_t channel, st_tensor x, st_real *y)
{
    plane a = plane_of(c, image, channel);
    for (ptrdiff_t row = 0; row < a.plan->w.out[0]; row++)
        for (ptrdiff_t column = 0; column < a.plan->w.out[1]; column++, a.at.number++) {
            gather(&a, x, row, column);
            *y++ = a.plan->kind->value(&a.at);
        }
}

void pool_adjoint_plane(const st_call *c, bool gradient, ptrdiff_t image, ptrdiff_t channel, st_tensor x,
                        const st_real *y, const st_real *dy, st_tensor dx)
{
    plane a = plane_of(c, image, channel);
    if (!st_is_null(dx)) st_fill(dx, 0);
    for (ptrdiff_t row = 0; row < a.plan->w.out[0]; row++)
        for (ptrdiff_t column = 0; column < a.plan->w.out[1]; column++, a.at.number++, y++, dy++) {
            gather(&a, x, row, column);
            if (a.plan->kind->adjoint) a.plan->kind->adjoint(&a.at, *y, *dy, a.dx);
            else differences(&a, *dy);
            if (!st_is_null(dx)) scatter(&a, dx);
        }
    if (gradient) add_parameters(c, &a.at);
}

/* ---- the hooks ---------------------------------------------------------------------------------------- */

static st_tensor channel_of(st_tensor x, ptrdiff_t image, ptrdiff_t channel)
{
    return st_is_null(x) ? x : st_select(st_select(x, 0, image), 0, channel);
}

void st_pool_forward(const st_call *c, st_tensor x, st_tensor y)
{
    if (!layer_call_given(c, "st_pool_forward")) return;
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t k = 0; k < x.shape.n[1]; k++)
            pool_forward_plane(c, i, k, channel_of(x, i, k), st_data(channel_of(y, i, k)));
}

static void run_backward(const st_call *c, bool gradient, st_tensor x, st_tensor y, st_tensor dy,
                         st_tensor dx)
{
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t k = 0; k < x.shape.n[1]; k++)
            pool_adjoint_plane(c, gradient, i, k, channel_of(x, i, k), st_data(channel_of(y, i, k)),
                               st_data(channel_of(dy, i, k)), channel_of(dx, i, k));
}

void pool_both(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    run_backward(c, true, x, y, dy, dx);
}

void st_pool_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    if (layer_call_given(c, "st_pool_backward")) run_backward(c, false, x, y, dy, dx);
}

void st_pool_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    if (layer_call_given(c, "st_pool_gradient")) run_backward(c, true, x, y, dy, (st_tensor){ 0 });
}
