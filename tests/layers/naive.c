/* naive.c: see naive.h. */
#include "tests/layers/cases.h"

#include <math.h>
#include <stdlib.h>

void naive_free(naive result)
{
    st_tensor_free(result.y), st_tensor_free(result.dx);
    st_tensor_free(result.dweight), st_tensor_free(result.dbias);
}

static st_tensor bias_of(const st_layer *l)
{
    return l->params > 1 ? l->param[1] : (st_tensor){ 0 };
}

/* ---- a layer as a sum of terms ----------------------------------------------------------------- */

/* y += c x w, for as many places of each as a layer has terms: dx += c w dy and dw += c x dy. */
typedef struct terms {
    st_shape of_y, of_x, of_w;
    double *y, *dy, *x, *dx, *w, *dw;
} terms;

/* The elements in row-major order, `value` where there are none. */
static double *numbers(st_tensor x, ptrdiff_t count, double value)
{
    double *at = malloc((size_t)(count + 1) * sizeof *at);
    if (!at) abort();
    for (ptrdiff_t k = 0; k < count; k++) at[k] = st_is_null(x) ? value : (double)*element(x, k);
    return at;
}

static ptrdiff_t count_of(st_shape s)
{
    return st_shape_numel(s, "naive");
}

/* w: null, a weight of 1. */
static terms begin(st_shape y, st_tensor x, st_tensor w, st_tensor dy)
{
    const st_tensor none = { 0 };
    ptrdiff_t ys = count_of(y), xs = st_numel(x), ws = count_of(w.shape);
    return (terms){ y,
                    x.shape,
                    w.shape,
                    numbers(none, ys, 0),
                    numbers(dy, ys, 0),
                    numbers(x, xs, 0),
                    numbers(none, xs, 0),
                    numbers(w, ws, 1),
                    numbers(none, ws, 0) };
}

static void add_term(terms *t, ptrdiff_t y, ptrdiff_t x, ptrdiff_t w, double c)
{
    t->y[y] += c * t->x[x] * t->w[w];
    t->dx[x] += c * t->w[w] * t->dy[y];
    t->dw[w] += c * t->x[x] * t->dy[y];
}

static void term(terms *t, st_shape y, st_shape x, st_shape w, double c)
{
    add_term(t, number_of(t->of_y, y), number_of(t->of_x, x), number_of(t->of_w, w), c);
}

/* number_of an index of four, in fewer steps. */
static ptrdiff_t place_of(const st_shape *s, ptrdiff_t a, ptrdiff_t b, ptrdiff_t c, ptrdiff_t d)
{
    return ((a * s->n[1] + b) * s->n[2] + c) * s->n[3] + d;
}

static st_tensor tensor_from(double *at, st_shape s)
{
    st_tensor x = st_tensor_new(s);
    if (st_is_null(x)) abort();
    for (ptrdiff_t k = 0; k < st_numel(x); k++) st_data(x)[k] = (st_real)at[k];
    free(at);
    return x;
}

/* A bias, unless null, is added to each channel; its gradient is there for every layer with a weight. */
static naive end(terms t, st_tensor bias)
{
    naive r = { 0 };
    const int axis = t.of_y.rank == 3 ? 2 : 1; /* of the channels or features */
    if (t.of_w.rank > 0) r.dbias = st_tensor_new(ST_SHAPE(t.of_y.n[axis]));
    for (ptrdiff_t k = 0; k < count_of(t.of_y) && t.of_w.rank > 0; k++) {
        ptrdiff_t channel = index_of(t.of_y, k).n[axis];
        if (!st_is_null(bias)) t.y[k] += (double)*element(bias, channel);
        *element(r.dbias, channel) += (st_real)t.dy[k];
    }
    r.y = tensor_from(t.y, t.of_y), r.dx = tensor_from(t.dx, t.of_x);
    if (t.of_w.rank > 0) r.dweight = tensor_from(t.dw, t.of_w);
    else free(t.dw);
    free(t.dy), free(t.x), free(t.w);
    return r;
}

/* The next index in row-major order: st_shape i = { .rank = loops.rank }; do … while (next(&i, &loops)); */
static bool next(st_shape *i, const st_shape *loops)
{
    for (int axis = loops->rank - 1; axis >= 0; axis--) {
        if (++i->n[axis] < loops->n[axis]) return true;
        i->n[axis] = 0;
    }
    return false;
}

static const st_shape no_weight = { 0 };

/* ---- windows --------------------------------------------------------------------------------- */

/* PyTorch's pooling_output_shape: floor or ceil, and no last window that begins in the right padding. */
static ptrdiff_t windows_along(naive_axis a)
{
    ptrdiff_t room = a.size + a.padding + a.after - a.dilation * (a.kernel - 1) - 1;
    ptrdiff_t count = (room + (a.ceil_mode ? a.stride - 1 : 0)) / a.stride + 1;
    if (a.ceil_mode && (count - 1) * a.stride >= a.size + a.padding) count--;
    return count;
}

ptrdiff_t naive_place(naive_axis a, ptrdiff_t at, ptrdiff_t k)
{
    return at * a.stride - a.padding + k * a.dilation;
}

static bool inside(naive_axis a, ptrdiff_t place)
{
    return place >= 0 && place < a.size;
}

static int or_1(int option)
{
    return option ? option : 1;
}

static naive_axis conv2d_axis(st_conv2d_options o, st_shape x, int axis)
{
    const int *side = axis == 0 ? o.pad_height : o.pad_width;
    return (naive_axis){ x.n[2 + axis],
                         o.kernel[axis],
                         or_1(o.stride[axis]),
                         o.padding[axis] + side[0],
                         o.padding[axis] + side[1],
                         or_1(o.dilation[axis]) };
}

naive_axis naive_maxpool_axis(st_maxpool_options o, st_shape x, int axis)
{
    const int *side = axis == 0 ? o.pad_height : o.pad_width;
    ptrdiff_t size = x.n[2 + axis], kernel = o.kernel[axis] ? o.kernel[axis] : size;
    return (naive_axis){ size,
                         kernel,
                         o.stride[axis] ? o.stride[axis] : kernel,
                         o.padding[axis] + side[0],
                         o.padding[axis] + side[1],
                         or_1(o.dilation[axis]),
                         o.ceil_mode };
}

st_shape naive_maxpool_shape(st_maxpool_options o, st_shape x)
{
    return ST_SHAPE(x.n[0], x.n[1], windows_along(naive_maxpool_axis(o, x, 0)),
                    windows_along(naive_maxpool_axis(o, x, 1)));
}

/* ---- convolution ----------------------------------------------------------------------------- */

/* Loops over image, group, channels of both of it, and windows of the larger image; y and x as for conv2d. */
static naive convolved(terms t, int groups, naive_axis h, naive_axis w, bool transposed, st_tensor bias)
{
    st_shape small = transposed ? t.of_x : t.of_y, large = transposed ? t.of_y : t.of_x;
    ptrdiff_t of_small = small.n[1] / groups, of_large = large.n[1] / groups;
    st_shape loops = ST_SHAPE(small.n[0], small.n[1], small.n[2], small.n[3], of_large, h.kernel, w.kernel);
    st_shape i = { .rank = 7 };
    do {
        ptrdiff_t row = naive_place(h, i.n[2], i.n[5]), column = naive_place(w, i.n[3], i.n[6]);
        if (!inside(h, row) || !inside(w, column)) continue;
        ptrdiff_t in_small = place_of(&small, i.n[0], i.n[1], i.n[2], i.n[3]);
        ptrdiff_t in_large = place_of(&large, i.n[0], i.n[1] / of_small * of_large + i.n[4], row, column);
        add_term(&t, transposed ? in_large : in_small, transposed ? in_small : in_large,
                 place_of(&t.of_w, i.n[1], i.n[4], i.n[5], i.n[6]), 1);
    } while (next(&i, &loops));
    return end(t, bias);
}

naive naive_conv2d(const st_layer *l, st_tensor x, st_tensor dy)
{
    st_conv2d_options o = OPTIONS(st_conv2d_options);
    naive_axis h = conv2d_axis(o, x.shape, 0), w = conv2d_axis(o, x.shape, 1);
    st_shape s = ST_SHAPE(x.shape.n[0], o.out_channels, windows_along(h), windows_along(w));
    return convolved(begin(s, x, l->param[0], dy), or_1(o.groups), h, w, false, bias_of(l));
}

/* The windows lie in the output. */
naive naive_conv_transpose2d(const st_layer *l, st_tensor x, st_tensor dy)
{
    st_conv_transpose2d_options o = OPTIONS(st_conv_transpose2d_options);
    naive_axis axis[2];
    st_shape s = ST_SHAPE(x.shape.n[0], o.out_channels, 0, 0);
    for (int k = 0; k < 2; k++) {
        int stride = or_1(o.stride[k]), dilation = or_1(o.dilation[k]);
        s.n[2 + k] = (x.shape.n[2 + k] - 1) * stride - 2 * o.padding[k] + dilation * (o.kernel[k] - 1) +
                     o.output_padding[k] + 1;
        axis[k] = (naive_axis){ s.n[2 + k], o.kernel[k], stride, o.padding[k], o.padding[k], dilation };
    }
    return convolved(begin(s, x, l->param[0], dy), or_1(o.groups), axis[0], axis[1], true, bias_of(l));
}

/* Every row of x, whatever the axes before its last one. */
naive naive_dense(const st_layer *l, st_tensor x, st_tensor dy)
{
    const st_shape w = l->param[0].shape;
    st_shape y = x.shape;
    y.n[y.rank - 1] = w.n[0];
    const st_shape loops = ST_SHAPE(st_numel(x) / w.n[1], w.n[0], w.n[1]);
    st_shape i = { .rank = 3 };
    terms t = begin(y, x, l->param[0], dy);
    do {
        add_term(&t, i.n[0] * w.n[0] + i.n[1], i.n[0] * w.n[1] + i.n[2], i.n[1] * w.n[1] + i.n[2], 1);
    } while (next(&i, &loops));
    return end(t, bias_of(l));
}

/* ---- pooling --------------------------------------------------------------------------------- */

static bool beats(double x, double best)
{
    return !isnan(best) && (isnan(x) || x > best);
}

/* If padding is -inf only places in the image are looked at, and a window without any is -inf; where it is 0
 * all are. */
naive naive_maxpool(const st_layer *l, st_tensor x, st_tensor dy)
{
    st_maxpool_options o = OPTIONS(st_maxpool_options);
    naive_axis h = naive_maxpool_axis(o, x.shape, 0), w = naive_maxpool_axis(o, x.shape, 1);
    terms t = begin(naive_maxpool_shape(o, x.shape), x, (st_tensor){ 0 }, dy);
    st_shape i = { .rank = 4 };
    do {
        bool any = false;
        double best = -INFINITY;
        st_shape at = i; /* of the first maximum, which may lie in the padding */
        for (ptrdiff_t k = 0; k < h.kernel * w.kernel; k++) {
            st_shape place = ST_INDEX(i.n[0], i.n[1], naive_place(h, i.n[2], k / w.kernel),
                                      naive_place(w, i.n[3], k % w.kernel));
            bool seen = inside(h, place.n[2]) && inside(w, place.n[3]);
            double value = seen ? (double)*st_at(x, place) : 0;
            if ((!seen && o.pad_value != ST_PAD_ZERO) || (any && !beats(value, best))) continue;
            any = true, best = value, at = place;
        }
        if (any && inside(h, at.n[2]) && inside(w, at.n[3])) term(&t, i, at, no_weight, 1);
        else t.y[number_of(t.of_y, i)] = best;
    } while (next(&i, &t.of_y));
    return end(t, (st_tensor){ 0 });
}

/* How many places of window `at` lie in the image, or in it and its padding. */
static ptrdiff_t places(naive_axis a, ptrdiff_t at, bool and_padding)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t k = 0; k < a.kernel; k++) {
        ptrdiff_t place = naive_place(a, at, k);
        count += and_padding ? place < a.size + a.after : inside(a, place);
    }
    return count;
}

naive naive_avgpool(const st_layer *l, st_tensor x, st_tensor dy)
{
    st_avgpool_options o = OPTIONS(st_avgpool_options);
    st_maxpool_options windows = { WINDOWS(o) };
    naive_axis h = naive_maxpool_axis(windows, x.shape, 0), w = naive_maxpool_axis(windows, x.shape, 1);
    st_shape s = naive_maxpool_shape(windows, x.shape), i = { .rank = 6 };
    st_shape loops = ST_SHAPE(s.n[0], s.n[1], s.n[2], s.n[3], h.kernel, w.kernel);
    terms t = begin(s, x, (st_tensor){ 0 }, dy);
    do {
        ptrdiff_t row = naive_place(h, i.n[2], i.n[4]), column = naive_place(w, i.n[3], i.n[5]);
        if (!inside(h, row) || !inside(w, column)) continue;
        double count =
            (double)(places(h, i.n[2], !o.count_exclude_pad) * places(w, i.n[3], !o.count_exclude_pad));
        term(&t, ST_INDEX(i.n[0], i.n[1], i.n[2], i.n[3]), ST_INDEX(i.n[0], i.n[1], row, column), no_weight,
             1 / count);
    } while (next(&i, &loops));
    return end(t, (st_tensor){ 0 });
}

/* ---- borders and sizes ----------------------------------------------------------------------- */

/* Every row of the output is a weighted sum of rows of the input, and so is every column. */
typedef struct blend {
    int count;
    ptrdiff_t from[16];
    double weight[16];
} blend;

typedef blend blend_at(const void *options, int axis, ptrdiff_t at, ptrdiff_t from, ptrdiff_t to);

static naive blended(blend_at *rule, const void *options, st_shape s, double outside, st_tensor x,
                     st_tensor dy)
{
    terms t = begin(s, x, (st_tensor){ 0 }, dy);
    st_shape i = { .rank = 4 };
    do {
        blend rows = rule(options, 0, i.n[2], x.shape.n[2], s.n[2]),
              columns = rule(options, 1, i.n[3], x.shape.n[3], s.n[3]);
        if (rows.count == 0 || columns.count == 0) t.y[number_of(s, i)] = outside;
        for (int k = 0; k < rows.count * columns.count; k++) {
            int a = k / columns.count, b = k % columns.count;
            term(&t, i, ST_INDEX(i.n[0], i.n[1], rows.from[a], columns.from[b]), no_weight,
                 rows.weight[a] * columns.weight[b]);
        }
    } while (next(&i, &s));
    return end(t, (st_tensor){ 0 });
}

static blend pad_at(const void *options, int axis, ptrdiff_t at, ptrdiff_t from, ptrdiff_t to)
{
    const st_pad2d_options *o = options;
    ptrdiff_t place = at - (axis == 0 ? o->height : o->width)[0], last = from - 1;
    bool before = 0 > place, after = place > last;
    if (o->mode == ST_PAD_CONSTANT && (before || after)) return (blend){ 0 };
    if (o->mode == ST_PAD_REFLECT) place = before ? -place : after ? 2 * last - place : place;
    if (o->mode == ST_PAD_REPLICATE) place = before ? 0 : after ? last : place;
    return (blend){ 1, { place }, { 1 } };
}

static st_shape pad2d_shape(st_pad2d_options o, st_shape x)
{
    return ST_SHAPE(x.n[0], x.n[1], x.n[2] + o.height[0] + o.height[1], x.n[3] + o.width[0] + o.width[1]);
}

naive naive_pad2d(const st_layer *l, st_tensor x, st_tensor dy)
{
    st_pad2d_options o = OPTIONS(st_pad2d_options);
    return blended(pad_at, &o, pad2d_shape(o, x.shape), o.value, x, dy);
}

static blend upsample_at(const void *options, int axis, ptrdiff_t at, ptrdiff_t from, ptrdiff_t to)
{
    (void)axis;
    const st_upsample_options *o = options;
    const bool is_nearest = o->mode == ST_UPSAMPLE_NEAREST,
               uses_sizes = to == from || (is_nearest && to == 2 * from);
    double scale = o->scale_factor > 0 && !uses_sizes ? o->scale_factor : (double)to / (double)from;
    if (is_nearest) {
        ptrdiff_t pixel = 0;
        while (pixel + 1 < from && (double)(pixel + 1) * scale <= (double)at) pixel++;
        return (blend){ 1, { pixel }, { 1 } };
    }
    double place = ((double)at + 0.5) / scale - 0.5;
    if (o->align_corners) place = to > 1 ? (double)(at * (from - 1)) / (double)(to - 1) : 0;
    place = fmin(fmax(place, 0), (double)(from - 1));
    ptrdiff_t low = (ptrdiff_t)floor(place);
    if (low + 1 == from) return (blend){ 1, { low }, { 1 } };
    return (blend){ 2, { low, low + 1 }, { (double)(low + 1) - place, place - (double)low } };
}

static st_shape upsample_shape(st_upsample_options o, st_shape x)
{
    if (o.size[0]) return ST_SHAPE(x.n[0], x.n[1], o.size[0], o.size[1] ? o.size[1] : o.size[0]);
    if (o.scale_factor > 0)
        return ST_SHAPE(x.n[0], x.n[1], (ptrdiff_t)((double)x.n[2] * o.scale_factor),
                        (ptrdiff_t)((double)x.n[3] * o.scale_factor));
    return ST_SHAPE(x.n[0], x.n[1], x.n[2] * o.scale[0], x.n[3] * o.scale[1]);
}

naive naive_upsample(const st_layer *l, st_tensor x, st_tensor dy)
{
    st_upsample_options o = OPTIONS(st_upsample_options);
    return blended(upsample_at, &o, upsample_shape(o, x.shape), 0, x, dy);
}

static blend adaptive_at(const void *options, int axis, ptrdiff_t at, ptrdiff_t from, ptrdiff_t to)
{
    blend b = { 0 };
    for (ptrdiff_t row = 0; row < from; row++) /* of those that part `at` touches */
        if ((row + 1) * to > at * from && row * to < (at + 1) * from) b.from[b.count++] = row;
    for (int k = 0; k < b.count; k++) b.weight[k] = 1.0 / b.count;
    return b;
}

static st_shape adaptive_shape(st_adaptive_avgpool_options o, st_shape x)
{
    return ST_SHAPE(x.n[0], x.n[1], or_1(o.output_size[0]), or_1(o.output_size[1]));
}

naive naive_adaptive_avgpool(const st_layer *l, st_tensor x, st_tensor dy)
{
    st_adaptive_avgpool_options o = OPTIONS(st_adaptive_avgpool_options);
    return blended(adaptive_at, &o, adaptive_shape(o, x.shape), 0, x, dy);
}

/* ---- prelu ------------------------------------------------------------------------------------ */

naive naive_prelu(const st_layer *l, st_tensor x, st_tensor dy)
{
    st_tensor weight = l->param[0];
    terms t = begin(x.shape, x, weight, dy);
    for (ptrdiff_t k = 0; k < st_numel(x); k++) {
        st_shape at = index_of(x.shape, k);
        if (t.x[k] > 0) t.y[k] = t.x[k], t.dx[k] = t.dy[k];
        else term(&t, at, at, ST_INDEX(weight.shape.n[0] > 1 ? at.n[1] : 0), 1);
    }
    return end(t, (st_tensor){ 0 });
}

/* ---- activations ----------------------------------------------------------------------------- */

#define INF INFINITY
#define SLOPE NAIVE_LEAKY_SLOPE
#define ALPHA NAIVE_ELU_ALPHA
#define LAMBDA 1.0507009873554804934
#define LEAST (-LAMBDA * 1.6732632423543772848) /* of selu, -lambda alpha */

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

/* clang-format off */
/* Each of x. */
#define FUNCTION(name, value)                                                                                \
    static double name(double x)                                                                             \
    {                                                                                                        \
        return value;                                                                                        \
    }
FUNCTION(logistic, 1 / (1 + exp(-x)))
FUNCTION(log_1_plus_exp, fmax(x, 0) + log1p(exp(-fabs(x))))
FUNCTION(normal_distribution, erfc(-x / sqrt(2)) / 2)
FUNCTION(normal_density, exp(-x * x / 2) / sqrt(2 * acos(-1)))
FUNCTION(relu, fmax(x, 0))
FUNCTION(relu_slope, x > 0)
FUNCTION(relu6, clamp(x, 0, 6))
FUNCTION(relu6_slope, x > 0 && x < 6)
FUNCTION(leaky_relu, fmax(x, 0) + SLOPE * fmin(x, 0))
FUNCTION(leaky_relu_slope, x > 0 ? 1 : SLOPE)
FUNCTION(elu, x > 0 ? x : ALPHA * (exp(x) - 1))
FUNCTION(elu_slope, x > 0 ? 1 : ALPHA * exp(x))
FUNCTION(selu, x > 0 ? LAMBDA * x : -LEAST * (exp(x) - 1))
FUNCTION(selu_slope, x > 0 ? LAMBDA : -LEAST * exp(x))
FUNCTION(gelu, x * normal_distribution(x))
FUNCTION(gelu_slope, normal_distribution(x) + x * normal_density(x))
FUNCTION(silu, x / (1 + exp(-x)))
FUNCTION(silu_slope, logistic(x) + x * logistic(x) * logistic(-x))
FUNCTION(mish, x * tanh(log_1_plus_exp(x)))
FUNCTION(mish_slope, tanh(log_1_plus_exp(x)) + x * logistic(x) / pow(cosh(log_1_plus_exp(x)), 2))
FUNCTION(sigmoid_slope, logistic(x) * logistic(-x))
FUNCTION(tanh_slope, 1 / (cosh(x) * cosh(x)))
FUNCTION(softsign, x / (1 + fabs(x)))
FUNCTION(softsign_slope, 1 / ((1 + fabs(x)) * (1 + fabs(x))))
FUNCTION(hardsigmoid, clamp(x / 6 + 0.5, 0, 1))
FUNCTION(hardsigmoid_slope, x > -3 && x <= 3 ? 1.0 / 6 : 0)
FUNCTION(hardswish, x * hardsigmoid(x))
FUNCTION(hardtanh, clamp(x, NAIVE_HARDTANH[0], NAIVE_HARDTANH[1]))
FUNCTION(hardtanh_slope, x > NAIVE_HARDTANH[0] && x < NAIVE_HARDTANH[1])
FUNCTION(gelu_argument, sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))
FUNCTION(gelu_argument_slope, sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * x * x))
FUNCTION(gelu_tanh, x / 2 * (1 + tanh(gelu_argument(x))))
FUNCTION(gelu_tanh_slope, fabs(x) > 50 ? x > 0
                                       : (1 + tanh(gelu_argument(x))) / 2 +
                                             x / 2 * gelu_argument_slope(x) / pow(cosh(gelu_argument(x)), 2))
FUNCTION(hardswish_slope, x <= -3 ? 0 : x <= 3 ? x / 3 + 0.5 : 1)

static st_layer *make_gelu(void)
{
    return st_gelu();
}

static st_layer *make_gelu_tanh(void)
{
    return st_gelu(.approximate = ST_GELU_TANH);
}

static st_layer *make_hardtanh(void)
{
    return st_hardtanh(.min_val = NAIVE_HARDTANH[0], .max_val = NAIVE_HARDTANH[1]);
}

static st_layer *make_leaky_relu(void)
{
    return st_leaky_relu(.slope = SLOPE);
}

static st_layer *make_elu(void)
{
    return st_elu(.alpha = ALPHA);
}

const naive_function naive_functions[] = {
    { "relu",        st_relu,        relu,           relu_slope,        { 0, INF },      { 0, 1 } },
    { "relu6",       st_relu6,       relu6,          relu6_slope,       { 0, 6 },        { 0, 0 } },
    { "leaky_relu",  make_leaky_relu,   leaky_relu,     leaky_relu_slope,  { -INF, INF },   { SLOPE, 1 } },
    { "elu",         make_elu,          elu,            elu_slope,         { -ALPHA, INF }, { 0, 1 } },
    { "selu",        st_selu,        selu,           selu_slope,        { LEAST, INF },  { 0, LAMBDA } },
    { "hardtanh",    make_hardtanh,  hardtanh,       hardtanh_slope,    { -2, 3 },       { 0, 0 } },
    { "gelu_tanh",   make_gelu_tanh, gelu_tanh,      gelu_tanh_slope,   { 0, INF },      { 0, 1 } },
    { "gelu",        make_gelu,        gelu,           gelu_slope,        { 0, INF },      { 0, 1 } },
    { "silu",        st_silu,        silu,           silu_slope,        { 0, INF },      { 0, 1 } },
    { "mish",        st_mish,        mish,           mish_slope,        { 0, INF },      { 0, 1 } },
    { "sigmoid",     st_sigmoid,     logistic,       sigmoid_slope,     { 0, 1 },        { 0, 0 } },
    { "tanh",        st_tanh,        tanh,           tanh_slope,        { -1, 1 },       { 0, 0 } },
    { "softplus",    st_softplus,    log_1_plus_exp, logistic,          { 0, INF },      { 0, 1 } },
    { "softsign",    st_softsign,    softsign,       softsign_slope,    { -1, 1 },       { 0, 0 } },
    { "hardsigmoid", st_hardsigmoid, hardsigmoid,    hardsigmoid_slope, { 0, 1 },        { 0, 0 } },
    { "hardswish",   st_hardswish,   hardswish,      hardswish_slope,   { 0, INF },      { 0, 1 } },
    { 0 },
};
/* clang-format on */
