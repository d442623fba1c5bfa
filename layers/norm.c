/* norm.c: batch, layer, root-mean-square and group normalisation.
 *
 * A set of elements is normalised to mean 0 and variance 1, then scaled and shifted:
 *     y = w h + b,   h = (x - mean) / sqrt(variance + epsilon)
 * and with g = w dy and <> the mean over the set:
 *     dx = (g - <g> - h <g h>) / sqrt(variance + epsilon)
 * The first pass computes two sums in double, by fixed lanes; the second one writes the result. */
#include "layers/lanes.h"
#include "layers/layer_impl.h"
#include "layers/types.h"
#include "tensor/sum.h"

#include <math.h>

enum { WEIGHT, BIAS }; /* parameters */

/* A set: `rows` rows of `length` elements, `stride` apart. */
typedef struct norm_set {
    ptrdiff_t rows, length, stride;
    bool wide; /* the processor has wide vectors */
} norm_set;

/* The biased variance is variance * unit²; unit is 1 unless squares overflow. The deviation includes epsilon. */
typedef struct moments {
    double mean, variance, unit, deviation;
} moments;

/* Sums over a set: of g, and of g (x - mean). */
typedef struct norm_sums {
    double g, product;
} norm_sums;

/* ---- sums ------------------------------------------------------------------------------------------ */

enum { AHEAD = 1024 }; /* elements to prefetch: much arithmetic per element leaves few loads in flight */

/* Sums of g - shift, and of (g - shift) (x - mean), in eight lanes; the rest of a row is added to the
 * first. */
INLINE norm_sums products(norm_set s, const st_real *g, double shift, const st_real *x, ptrdiff_t stride_x,
                          double mean)
{
    quad sum[QUADS] = { { 0 } }, product[QUADS] = { { 0 } };
    double rest = 0, rest_product = 0;
    for (ptrdiff_t r = 0; r < s.rows; r++, g += s.stride, x += stride_x) {
        ptrdiff_t i = 0;
        for (; i + QUAD * QUADS <= s.length; i += QUAD * QUADS) {
            __builtin_prefetch(g + i + AHEAD);
            __builtin_prefetch(x + i + AHEAD);
            for (int k = 0; k < QUADS; k++) {
                quad a = __builtin_convertvector(*(const quad_at *)(g + i + k * QUAD), quad) - shift;
                quad b = __builtin_convertvector(*(const quad_at *)(x + i + k * QUAD), quad) - mean;
                sum[k] += a;
                product[k] += a * b;
            }
        }
        for (; i < s.length; i++) {
            double a = (double)g[i] - shift;
            rest += a;
            rest_product += a * ((double)x[i] - mean);
        }
    }
    for (int k = 0; k < QUADS; k++)
        for (int lane = 0; lane < QUAD; lane++) {
            rest += sum[k][lane];
            rest_product += product[k][lane];
        }
    return (norm_sums){ rest, rest_product };
}

static norm_sums products_any(norm_set s, const st_real *g, double shift, const st_real *x,
                              ptrdiff_t stride_x, double mean)
{
    return products(s, g, shift, x, stride_x, mean);
}

WIDE static norm_sums products_wide(norm_set s, const st_real *g, double shift, const st_real *x,
                                    ptrdiff_t stride_x, double mean)
{
    return products(s, g, shift, x, stride_x, mean);
}

static norm_sums norm_sum(norm_set s, const st_real *g, double shift, const st_real *x, ptrdiff_t stride_x,
                          double mean)
{
    return (s.wide ? products_wide : products_any)(s, g, shift, x, stride_x, mean);
}

/* The moments in a unit that keeps squares finite: in double the square of 1e155 is not. */
static moments measure_large(norm_set s, const st_real *x, bool centred)
{
    moments m = { 0 };
    const double count = (double)(s.rows * s.length);
    for (ptrdiff_t r = 0; r < s.rows; r++)
        for (ptrdiff_t i = 0; i < s.length; i++) m.unit = fmax(m.unit, fabs((double)x[r * s.stride + i]));
    m.unit = isfinite(m.unit) ? scalbn(1, ilogb(m.unit)) : m.unit;
    for (ptrdiff_t r = 0; r < s.rows && centred; r++)
        for (ptrdiff_t i = 0; i < s.length; i++) m.mean += (double)x[r * s.stride + i] / m.unit / count;
    for (ptrdiff_t r = 0; r < s.rows; r++)
        for (ptrdiff_t i = 0; i < s.length; i++) {
            double off = (double)x[r * s.stride + i] / m.unit - m.mean;
            m.variance += off * off / count;
        }
    m.mean *= m.unit;
    return m;
}

static double deviation_of(moments m, double epsilon)
{
    return m.unit * sqrt(m.variance + epsilon / m.unit / m.unit);
}

/* Uses differences from one element, which is close enough to the mean that the subtraction of nearly equal
 * squares loses no digits that the elements have. Not centred: the mean counts as 0. */
static moments norm_measure(norm_set s, const st_real *x, double epsilon, bool centred)
{
    double count = (double)(s.rows * s.length), near = centred ? (double)x[0] : 0;
    norm_sums sums = norm_sum(s, x, near, x, s.stride, near);
    double mean = centred ? sums.g / count : 0, variance = (sums.product - mean * sums.g) / count;
    moments m = { near + mean, variance < 0 ? 0 : variance, 1, 0 };
    if (!isfinite(variance)) m = measure_large(s, x, centred);
    m.deviation = deviation_of(m, epsilon);
    return m;
}

/* ---- elements -------------------------------------------------------------------------------------- */

static void norm_apply(norm_set s, st_real *y, const st_real *x, double mean, double scale, double shift)
{
    const st_real middle = (st_real)mean, slope = (st_real)scale, height = (st_real)shift;
    for (ptrdiff_t r = 0; r < s.rows; r++, y += s.stride, x += s.stride) {
        for (ptrdiff_t i = 0; i < s.length; i++) y[i] = (x[i] - middle) * slope + height;
    }
}

static void norm_adjoint(norm_set s, st_real *dx, const st_real *dy, double w, const st_real *x, double mean,
                         double deviation, norm_sums of_g, double count)
{
    const st_real middle = (st_real)mean, mean_g = (st_real)(of_g.g / count), weight = (st_real)w;
    const st_real slope = (st_real)(of_g.product / count / deviation / deviation),
                  scale = (st_real)(1 / deviation);
    for (ptrdiff_t r = 0; r < s.rows; r++, dx += s.stride, dy += s.stride, x += s.stride) {
        for (ptrdiff_t i = 0; i < s.length; i++)
            dx[i] = (weight * dy[i] - mean_g - (x[i] - middle) * slope) * scale;
    }
}

/* Requests weight = 1 and bias = 0 of that shape, unless no_affine is set. */
static int request_affine(st_layer *l, st_shape s, bool no_affine, bool bias)
{
    if (no_affine) return 0;
    if (st_layer_parameter(l, "weight", s, (st_init){ .constant = 1 })) return -1;
    return bias ? st_layer_parameter(l, "bias", s, (st_init){ 0 }) : 0;
}

static bool is_affine(const st_call *c)
{
    return c->layer->params > 0;
}

/* Weight and bias k, in double. */
static double weight_of(const st_call *c, ptrdiff_t k)
{
    return is_affine(c) ? (double)st_data(c->param[WEIGHT])[k] : 1;
}

static double bias_of(const st_call *c, ptrdiff_t k)
{
    return is_affine(c) ? (double)st_data(c->param[BIAS])[k] : 0;
}

static void add_to_gradient(const st_call *c, ptrdiff_t k, norm_sums sums, double deviation)
{
    st_data(st_grad(c, WEIGHT))[k] += (st_real)(sums.product / deviation);
    st_data(st_grad(c, BIAS))[k] += (st_real)sums.g;
}

static st_tensor contiguous(st_tensor x, st_tensor copy)
{
    if (st_is_contiguous(x)) return x;
    st_copy(copy, x);
    return copy;
}

/* ---- batchnorm: each channel over the batch: Ioffe and Szegedy 2015 ----------------------------------- */

enum { RUNNING_MEAN, RUNNING_VAR }; /* states */
enum { MEAN, DEVIATION };           /* memory: of each channel, as forward used them */
enum { COPY };                      /* scratch: a channel of x, where its rows have gaps */

static int batchnorm_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_batchnorm_options *o = l->options;
    if (x.rank < 2) return st_layer_refuse(l, "the input is %s, expected [N, C, ...]", st_shape_text(x).text);
    if (o->momentum > 1) return st_layer_refuse(l, "momentum is %g, expected at most 1", o->momentum);
    st_shape channels = ST_SHAPE(x.n[1]), once = ST_SHAPE(1, x.n[1]);
    if (request_affine(l, channels, o->no_affine, true)) return -1;
    if (st_layer_state(l, "running_mean", channels, 0) || st_layer_state(l, "running_var", channels, 1))
        return -1;
    if (st_layer_memory(l, once) || st_layer_memory(l, once)) return -1;
    *y = x;
    return st_layer_scratch(l, ST_SHAPE(x.n[0], st_shape_numel(x, "batchnorm") / x.n[0] / x.n[1]));
}

/* A pass over all channels of x and dy; writes y or dx to `to`, unless that is NULL. */
typedef struct pass {
    const st_call *c;
    norm_set set;                   /* a channel of a contiguous [N, C, ...]: a row in each image */
    const st_real *x, *dy;          /* dy NULL: a forward pass */
    st_real *to, *mean, *deviation; /* mean and deviation of each channel */
    bool gradient;
} pass;

static pass pass_over(const st_call *c, st_tensor x, st_tensor dy, st_tensor to, bool gradient)
{
    const ptrdiff_t length = st_numel(x) / x.shape.n[0] / x.shape.n[1];
    return (pass){ .c = c,
                   .set = { x.shape.n[0], length, x.shape.n[1] * length, lanes_wide(c->layer) },
                   .x = st_data(x),
                   .dy = st_data(dy),
                   .to = st_data(to),
                   .mean = st_data(st_memory(c, MEAN)),
                   .deviation = st_data(st_memory(c, DEVIATION)),
                   .gradient = gradient };
}

/* Training uses the batch's mean and variance and updates the running ones (with the unbiased variance, as
 * PyTorch does); inference uses the running ones. A batch with values that are not finite does not update
 * them. */
static void measure_channel(const pass *p, ptrdiff_t k, const st_real *x)
{
    const st_call *c = p->c;
    const st_batchnorm_options *o = c->options;
    const st_tensor *state = c->layer->state;
    st_real *mean = st_data(state[RUNNING_MEAN]) + k, *variance = st_data(state[RUNNING_VAR]) + k;
    moments m = { (double)*mean, (double)*variance, 1, 0 };
    m.deviation = deviation_of(m, o->epsilon);
    if (c->training) {
        double count = (double)(p->set.rows * p->set.length), unbiased = count > 1 ? count / (count - 1) : 1;
        m = norm_measure(p->set, x, o->epsilon, true);
        double batch = m.variance * m.unit * m.unit;
        if (isfinite(m.mean) && isfinite(batch)) {
            *mean = (st_real)((1 - o->momentum) * (double)*mean + o->momentum * m.mean);
            *variance = (st_real)((1 - o->momentum) * (double)*variance + o->momentum * batch * unbiased);
        }
    }
    p->mean[k] = (st_real)m.mean;
    p->deviation[k] = (st_real)m.deviation;
}

static void forward_channel(const pass *p, ptrdiff_t k, const st_real *x)
{
    measure_channel(p, k, x);
    norm_apply(p->set, p->to + k * p->set.length, x, (double)p->mean[k],
               weight_of(p->c, k) / (double)p->deviation[k], bias_of(p->c, k));
}

static norm_sums sums_of(const pass *p, ptrdiff_t k, const st_real *x, ptrdiff_t stride_x)
{
    return norm_sum(p->set, p->dy + k * p->set.length, 0, x, stride_x, (double)p->mean[k]);
}

static void backward_channel(const pass *p, ptrdiff_t k, const st_real *x, norm_sums sums)
{
    const norm_set set = p->set;
    const st_real *dy = p->dy + k * set.length;
    const double weight = weight_of(p->c, k), deviation = (double)p->deviation[k];
    const norm_sums of_g = { sums.g * weight, sums.product * weight };
    st_real *dx = p->to + k * set.length;
    if (p->c->training)
        norm_adjoint(set, dx, dy, weight, x, (double)p->mean[k], deviation, of_g,
                     (double)(set.rows * set.length));
    else norm_apply(set, dx, dy, 0, weight / deviation, 0); /* mean and variance are constants */
}

/* gradient and backward need the same sums, and dx is written while the channel is in cache. */
static void adjoint_channel(const pass *p, ptrdiff_t k, const st_real *x)
{
    norm_sums sums = { 0 };
    if (p->gradient || p->c->training) sums = sums_of(p, k, x, p->set.stride);
    if (p->gradient) add_to_gradient(p->c, k, sums, (double)p->deviation[k]);
    if (p->to) backward_channel(p, k, x, sums);
}

static void run_channel(ptrdiff_t k, void *context)
{
    const pass *p = context;
    const st_real *x = p->x + k * p->set.length;
    if (p->dy) adjoint_channel(p, k, x);
    else forward_channel(p, k, x);
}

/* Channels run in any order, in any thread. */
static void each_channel(const st_call *c, st_tensor x, st_tensor dy, st_tensor to, bool gradient)
{
    pass p = pass_over(c, x, dy, to, gradient);
    st_parallel_for(c, x.shape.n[1], run_channel, &p);
}

static void batchnorm_forward(const st_call *c, st_tensor x, st_tensor y)
{
    each_channel(c, contiguous(x, y), (st_tensor){ 0 }, y, false);
}

static void batchnorm_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    each_channel(c, contiguous(x, dx), dy, dx, false);
}

static void batchnorm_both(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    each_channel(c, contiguous(x, dx), dy, dx, true);
}

static void batchnorm_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    if (st_is_contiguous(x)) {
        each_channel(c, x, dy, (st_tensor){ 0 }, true);
        return;
    }
    const pass p = pass_over(c, x, dy, (st_tensor){ 0 }, true);
    st_tensor copy = st_narrow(st_scratch(c, COPY), 0, 0, p.set.rows);
    for (ptrdiff_t k = 0; k < x.shape.n[1]; k++) {
        st_tensor channel = st_select(x, 1, k);
        st_copy(st_reshape(copy, channel.shape), channel);
        add_to_gradient(c, k, sums_of(&p, k, st_data(copy), p.set.length), (double)p.deviation[k]);
    }
}

static const st_field batchnorm_fields[] = {
    { "epsilon", ST_FIELD_REAL, offsetof(st_batchnorm_options, epsilon), .fallback = 1e-5 },
    { "momentum", ST_FIELD_REAL, offsetof(st_batchnorm_options, momentum), .fallback = 0.1 },
    { "no_affine", ST_FIELD_BOOL, offsetof(st_batchnorm_options, no_affine) },
    { 0 },
};

const st_layer_type layer_type_batchnorm = {
    .name = "batchnorm",
    .options_size = sizeof(st_batchnorm_options),
    .fields = batchnorm_fields,
    .chunk = ST_WHOLE_BATCH,
    .plan = batchnorm_plan,
    .forward = batchnorm_forward,
    .backward = batchnorm_backward,
    .gradient = batchnorm_gradient,
    .traits = &(const layer_traits){ .ignores_y = true, .both = batchnorm_both },
};

CONSTRUCTOR(batchnorm, st_batchnorm_options)

/* ---- layernorm, rmsnorm and groupnorm: runs of elements of each image ----------------------------------------- */

enum { IMAGE, SCALED }; /* scratch: a contiguous copy of x; layernorm: weight times dy of one set */

/* The adjacent sets of an image. */
static norm_set run_of(const st_call *c, ptrdiff_t parts)
{
    ptrdiff_t length = st_shape_numel(c->layer->x, "norm") / c->layer->x.n[0] / parts;
    return (norm_set){ 1, length, length, lanes_wide(c->layer) };
}

/* ---- layernorm: the last axes of each image: Ba, Kiros and Hinton 2016 --------------------------------- *
 * rmsnorm is the same with a mean of 0, and without <g> and bias: Zhang and Sennrich 2019. */

static bool is_centred(const st_layer *l)
{
    return l->type == &layer_type_layernorm;
}

/* The shape of a set and of the parameters: the last `axes` axes, by default all but the batch. */
static st_shape normalised(const st_layernorm_options *o, st_shape x)
{
    st_shape s = { .rank = o->axes ? o->axes : x.rank - 1 };
    for (int i = 0; i < s.rank; i++) s.n[i] = x.n[x.rank - s.rank + i];
    return s;
}

static int layernorm_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_layernorm_options *o = l->options;
    if (x.rank < 2) return st_layer_refuse(l, "the input is %s, expected [N, ...]", st_shape_text(x).text);
    if (o->axes >= x.rank)
        return st_layer_refuse(l, "axes=%d of an input %s, expected less than %d", o->axes,
                               st_shape_text(x).text, x.rank);
    const st_shape s = normalised(o, x);
    if (request_affine(l, s, o->no_affine, is_centred(l))) return -1;
    *y = x;
    x.n[0] = 1;
    return st_layer_scratch(l, x) || st_layer_scratch(l, s) ? -1 : 0;
}

static norm_set layernorm_run(const st_call *c)
{
    st_shape x = c->layer->x;
    ptrdiff_t image = st_shape_numel(x, "layernorm") / x.n[0];
    return run_of(c, image / st_shape_numel(normalised(c->options, x), "layernorm"));
}

static moments layernorm_measure(const st_call *c, norm_set set, const st_real *x)
{
    return norm_measure(set, x, ((const st_layernorm_options *)c->options)->epsilon, is_centred(c->layer));
}

/* y = (x - mean) scale weight + bias; bias may be NULL */
static void apply_affine(ptrdiff_t n, st_real *y, const st_real *x, moments m, const st_real *weight,
                         const st_real *bias)
{
    const st_real mean = (st_real)m.mean, scale = (st_real)(1 / m.deviation);
    if (bias)
        for (ptrdiff_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
    else
        for (ptrdiff_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * weight[i];
}

static void layernorm_forward(const st_call *c, st_tensor x, st_tensor y)
{
    norm_set set = layernorm_run(c);
    const st_real *in = st_data(contiguous(x, y));
    const st_real *bias = c->layer->params > BIAS ? st_data(c->param[BIAS]) : NULL;
    st_real *out = st_data(y), *end = out + st_numel(y);
    for (; out < end; in += set.length, out += set.length) {
        moments m = layernorm_measure(c, set, in);
        if (!is_affine(c)) norm_apply(set, out, in, m.mean, 1 / m.deviation, 0);
        else apply_affine(set.length, out, in, m, st_data(c->param[WEIGHT]), bias);
    }
}

static void layernorm_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    norm_set set = layernorm_run(c);
    const st_real *in = st_data(contiguous(x, dx)), *slope = st_data(dy);
    const st_real *weight = is_affine(c) ? st_data(c->param[WEIGHT]) : NULL;
    st_real *out = st_data(dx), *end = out + st_numel(dx), *scaled = st_data(st_scratch(c, SCALED));
    for (; out < end; in += set.length, out += set.length, slope += set.length) {
        moments m = layernorm_measure(c, set, in);
        for (ptrdiff_t i = 0; i < set.length && weight; i++) scaled[i] = weight[i] * slope[i];
        const st_real *g = weight ? scaled : slope;
        norm_sums sums = norm_sum(set, g, 0, in, set.stride, m.mean);
        if (!is_centred(c->layer)) sums.g = 0;
        norm_adjoint(set, out, g, 1, in, m.mean, m.deviation, sums, (double)set.length);
    }
}

static void add_affine_gradient(ptrdiff_t n, st_real *dweight, st_real *dbias, const st_real *x, moments m,
                                const st_real *dy)
{
    const st_real mean = (st_real)m.mean, scale = (st_real)(1 / m.deviation);
    for (ptrdiff_t i = 0; i < n; i++) dweight[i] += (x[i] - mean) * scale * dy[i];
    for (ptrdiff_t i = 0; i < n && dbias; i++) dbias[i] += dy[i];
}

static void layernorm_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    norm_set set = layernorm_run(c);
    const st_real *slope = st_data(dy);
    st_real *dweight = st_data(st_grad(c, WEIGHT)), *dbias = NULL;
    if (c->layer->params > BIAS) dbias = st_data(st_grad(c, BIAS));
    st_tensor copy = st_scratch(c, IMAGE);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *in = st_data(contiguous(st_narrow(x, 0, i, 1), copy)), *end = in + st_numel(copy);
        for (; in < end; in += set.length, slope += set.length)
            add_affine_gradient(set.length, dweight, dbias, in, layernorm_measure(c, set, in), slope);
    }
}

/* A normalisation of each image, with one option of its own; its hooks are called FAMILY_plan, ... */
#define IMAGE_NORM(NAME, FAMILY, OPTIONS, EPSILON, ...)                                                      \
    static const st_field NAME##_fields[] = {                                                                \
        { __VA_ARGS__ },                                                                                     \
        { "epsilon", ST_FIELD_REAL, offsetof(OPTIONS, epsilon), .fallback = EPSILON },                       \
        { "no_affine", ST_FIELD_BOOL, offsetof(OPTIONS, no_affine) },                                        \
        { 0 },                                                                                               \
    };                                                                                                       \
    const st_layer_type layer_type_##NAME = {                                                                \
        .name = #NAME,                                                                                       \
        .options_size = sizeof(OPTIONS),                                                                     \
        .fields = NAME##_fields,                                                                             \
        .plan = FAMILY##_plan,                                                                               \
        .forward = FAMILY##_forward,                                                                         \
        .backward = FAMILY##_backward,                                                                       \
        .gradient = FAMILY##_gradient,                                                                       \
        .traits = &(const layer_traits){ .ignores_y = true },                                                \
    };                                                                                                       \
    CONSTRUCTOR(NAME, OPTIONS)

IMAGE_NORM(layernorm, layernorm, st_layernorm_options, 1e-5, "axes", ST_FIELD_INT,
           offsetof(st_layernorm_options, axes), .below = ST_MAX_RANK)
IMAGE_NORM(rmsnorm, layernorm, st_layernorm_options, (double)ST_REAL_EPSILON, "axes", ST_FIELD_INT,
           offsetof(st_layernorm_options, axes), .below = ST_MAX_RANK)

/* ---- groupnorm: each image's channels in groups: Wu and He 2018 --------------------------------------- */

static int groupnorm_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_groupnorm_options *o = l->options;
    if (x.rank < 2) return st_layer_refuse(l, "the input is %s, expected [N, C, ...]", st_shape_text(x).text);
    if (x.n[1] % o->groups)
        return st_layer_refuse(l, "groups=%d must divide the %td channels", o->groups, x.n[1]);
    if (request_affine(l, ST_SHAPE(x.n[1]), o->no_affine, true)) return -1;
    *y = x;
    x.n[0] = 1;
    return st_layer_scratch(l, x);
}

/* A group is a range of channels; both are contiguous. */
static norm_set group_run(const st_call *c)
{
    return run_of(c, ((const st_groupnorm_options *)c->options)->groups);
}

static moments group_measure(const st_call *c, const st_real *x)
{
    return norm_measure(group_run(c), x, ((const st_groupnorm_options *)c->options)->epsilon, true);
}

static void groupnorm_forward(const st_call *c, st_tensor x, st_tensor y)
{
    norm_set set = run_of(c, x.shape.n[1]);
    ptrdiff_t channels = x.shape.n[1], each = group_run(c).length / set.length;
    const st_real *in = st_data(contiguous(x, y));
    st_real *out = st_data(y);
    moments m = { 0 };
    for (ptrdiff_t k = 0; k < x.shape.n[0] * channels; k++, in += set.length, out += set.length) {
        if (k % each == 0) m = group_measure(c, in);
        norm_apply(set, out, in, m.mean, weight_of(c, k % channels) / m.deviation, bias_of(c, k % channels));
    }
}

/* A group's sums are those of its channels, each times its weight. */
static void backward_group(const st_call *c, ptrdiff_t first, const st_real *x, const st_real *dy,
                           st_real *dx)
{
    norm_set set = run_of(c, c->layer->x.n[1]);
    ptrdiff_t each = group_run(c).length / set.length;
    moments m = group_measure(c, x);
    norm_sums total = { 0 };
    for (ptrdiff_t k = 0; k < each; k++) {
        norm_sums sums = norm_sum(set, dy + k * set.length, 0, x + k * set.length, set.stride, m.mean);
        total.g += weight_of(c, first + k) * sums.g;
        total.product += weight_of(c, first + k) * sums.product;
    }
    for (ptrdiff_t k = 0; k < each; k++, x += set.length, dy += set.length, dx += set.length)
        norm_adjoint(set, dx, dy, weight_of(c, first + k), x, m.mean, m.deviation, total,
                     (double)(each * set.length));
}

static void groupnorm_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const st_real *in = st_data(contiguous(x, dx)), *slope = st_data(dy);
    st_real *out = st_data(dx);
    ptrdiff_t length = group_run(c).length, groups = ((const st_groupnorm_options *)c->options)->groups;
    for (ptrdiff_t k = 0; k < dx.shape.n[0] * groups; k++, in += length, slope += length, out += length)
        backward_group(c, k % groups * (c->layer->x.n[1] / groups), in, slope, out);
}

static void groupnorm_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    norm_set set = run_of(c, x.shape.n[1]);
    ptrdiff_t each = group_run(c).length / set.length;
    const st_real *slope = st_data(dy);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *in = st_data(contiguous(st_narrow(x, 0, i, 1), st_scratch(c, IMAGE)));
        moments m = { 0 };
        for (ptrdiff_t k = 0; k < x.shape.n[1]; k++, in += set.length, slope += set.length) {
            if (k % each == 0) m = group_measure(c, in);
            add_to_gradient(c, k, norm_sum(set, slope, 0, in, set.stride, m.mean), m.deviation);
        }
    }
}

IMAGE_NORM(groupnorm, groupnorm, st_groupnorm_options, 1e-5, "groups", ST_FIELD_INT,
           offsetof(st_groupnorm_options, groups), .least = 1)
