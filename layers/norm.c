/* norm.c: batch, layer, root-mean-square and group normalisation.
 *
 * A set of elements is normalised to mean 0 and variance 1, then scaled and shifted:
 *     y = w h + b,   h = (x - mean) / sqrt(variance + epsilon)
 * and with g = w dy and <> the mean over the set:
 *     dx = (g - <g> - h <g h>) / sqrt(variance + epsilon)
 * A set is a channel of the batch (batchnorm), the last axes of an image (layernorm, rmsnorm), or a group of
 * an image's channels (groupnorm). In rmsnorm, mean and <g> are 0, and there is no bias. The first pass over
 * a set computes two sums in double, by fixed lanes; the second one writes the result. */
#include "layers/lanes.h"
#include "layers/layer_impl.h"
#include "layers/types.h"
#include "tensor/sum.h"

#include <math.h>

enum { WEIGHT, BIAS };              /* parameters */
enum { RUNNING_MEAN, RUNNING_VAR }; /* states of batchnorm */
enum { MEAN, DEVIATION };           /* memory: of each set, as forward used them */
enum { COPY, SCALED };              /* scratch: a channel or an image of x; weight times dy of a set */

/* A set, or a part of one: `rows` rows of `length` elements, `stride` apart. */
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

/* ---- sets ------------------------------------------------------------------------------------------ */

/* The plan's data: how the input is divided. Adjacent sets begin `length` elements apart. */
typedef struct norm_plan {
    ptrdiff_t sets;   /* in the batch (batchnorm), or in each image */
    ptrdiff_t parts;  /* adjacent parts of a set, which have a weight and a bias each */
    ptrdiff_t length; /* of a set's row */
    bool by_element;  /* each element of a set has a weight and a bias instead */
    bool of_batch;    /* a set is a channel of the batch */
    bool centred;     /* the mean is subtracted */
    double epsilon;
} norm_plan;

static const norm_plan *plan_of(const st_call *c)
{
    return c->plan;
}

static int plan_sets(st_layer *l, st_shape x, norm_plan plan, st_shape parameters, bool no_affine)
{
    const ptrdiff_t elements = st_shape_numel(x, l->type->name);
    norm_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    plan.length = elements / x.n[0] / plan.sets;
    if (no_affine) plan.parts = 1, plan.by_element = false;
    *p = plan;
    if (!no_affine && st_layer_parameter(l, "weight", parameters, (st_init){ .constant = 1 })) return -1;
    if (!no_affine && plan.centred && st_layer_parameter(l, "bias", parameters, (st_init){ 0 })) return -1;
    const st_shape each = ST_SHAPE(plan.of_batch ? 1 : x.n[0], plan.sets);
    if (st_layer_memory(l, each) || st_layer_memory(l, each)) return -1;
    if (st_layer_scratch(l, ST_SHAPE(elements / (plan.of_batch ? plan.sets : x.n[0])))) return -1;
    return st_layer_scratch(l, ST_SHAPE(plan.by_element ? plan.length : 0));
}

/* A pass over all sets of x and dy; writes y or dx to `to`, unless that is NULL. */
typedef struct pass {
    const st_call *c;
    norm_set set, part;
    ptrdiff_t sets;                 /* of all images */
    const st_real *x, *dy;          /* dy NULL: a forward pass */
    const st_real *weight, *bias;   /* NULL: none */
    st_real *to, *mean, *deviation; /* mean and deviation of each set */
    bool gradient;
} pass;

static pass pass_over(const st_call *c, st_tensor x, st_tensor dy, st_tensor to, bool gradient)
{
    const norm_plan *plan = c->plan;
    const bool batch = plan->of_batch, wide = lanes_wide(c->layer);
    const ptrdiff_t length = plan->length, rows = batch ? c->images : 1,
                    stride = batch ? plan->sets * length : length;
    return (pass){ .c = c,
                   .set = { rows, length, stride, wide },
                   .part = { rows, length / plan->parts, stride, wide },
                   .sets = batch ? plan->sets : c->images * plan->sets,
                   .x = st_data(x),
                   .dy = st_data(dy),
                   .weight = c->layer->params > WEIGHT ? st_data(c->param[WEIGHT]) : NULL,
                   .bias = c->layer->params > BIAS ? st_data(c->param[BIAS]) : NULL,
                   .to = st_data(to),
                   .mean = st_data(st_memory(c, MEAN)),
                   .deviation = st_data(st_memory(c, DEVIATION)),
                   .gradient = gradient };
}

/* The index of the first weight of set k. */
static ptrdiff_t first_weight(const pass *p, ptrdiff_t k)
{
    const norm_plan *plan = p->c->plan;
    return k % plan->sets * plan->parts;
}

static double weight_of(const pass *p, ptrdiff_t k)
{
    return p->weight && !plan_of(p->c)->by_element ? (double)p->weight[k] : 1;
}

/* Training uses the batch's mean and variance and updates the running ones (with the unbiased variance, as
 * PyTorch does); inference uses the running ones. A batch with values that are not finite does not update
 * them. */
static moments batch_moments(const pass *p, ptrdiff_t k, const st_real *x, double epsilon)
{
    const st_tensor *state = p->c->layer->state;
    st_real *mean = st_data(state[RUNNING_MEAN]) + k, *variance = st_data(state[RUNNING_VAR]) + k;
    moments m = { (double)*mean, (double)*variance, 1, 0 };
    m.deviation = deviation_of(m, epsilon);
    if (!p->c->training) return m;
    const double momentum = ((const st_batchnorm_options *)p->c->options)->momentum;
    const double count = (double)(p->set.rows * p->set.length),
                 unbiased = count > 1 ? count / (count - 1) : 1;
    m = norm_measure(p->set, x, epsilon, true);
    const double batch = m.variance * m.unit * m.unit;
    if (isfinite(m.mean) && isfinite(batch)) {
        *mean = (st_real)((1 - momentum) * (double)*mean + momentum * m.mean);
        *variance = (st_real)((1 - momentum) * (double)*variance + momentum * batch * unbiased);
    }
    return m;
}

/* y = (x - mean) scale weight + bias, with a weight and a bias for each element. */
static void apply_elements(const pass *p, ptrdiff_t k, st_real *y, const st_real *x)
{
    const st_real mean = p->mean[k], scale = 1 / p->deviation[k], *weight = p->weight, *bias = p->bias;
    const ptrdiff_t n = p->set.length;
    if (bias)
        for (ptrdiff_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
    else
        for (ptrdiff_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * weight[i];
}

static void forward_set(const pass *p, ptrdiff_t k)
{
    const st_call *c = p->c;
    const norm_plan *plan = c->plan;
    const ptrdiff_t length = p->part.length;
    const st_real *x = p->x + k * p->set.length;
    st_real *y = p->to + k * p->set.length;
    const moments m = plan->of_batch ? batch_moments(p, k, x, plan->epsilon)
                                     : norm_measure(p->set, x, plan->epsilon, plan->centred);
    p->mean[k] = (st_real)m.mean;
    p->deviation[k] = (st_real)m.deviation;
    if (plan->by_element) apply_elements(p, k, y, x);
    for (ptrdiff_t i = 0, w = first_weight(p, k); i < plan->parts && !plan->by_element; i++, w++)
        norm_apply(p->part, y + i * length, x + i * length, (double)p->mean[k],
                   weight_of(p, w) / (double)p->deviation[k], p->bias ? (double)p->bias[w] : 0);
}

/* Adds the gradients of the elements' weights and biases; returns dy times their weights. */
static const st_real *adjoint_elements(const pass *p, ptrdiff_t k, const st_real *x, const st_real *dy)
{
    const st_call *c = p->c;
    const st_real mean = p->mean[k], scale = 1 / p->deviation[k];
    st_real *scaled = st_data(st_scratch(c, SCALED));
    if (p->gradient) {
        st_real *dweight = st_data(st_grad(c, WEIGHT));
        st_real *dbias = p->bias ? st_data(st_grad(c, BIAS)) : NULL;
        for (ptrdiff_t i = 0; i < p->set.length; i++) dweight[i] += (x[i] - mean) * scale * dy[i];
        for (ptrdiff_t i = 0; i < p->set.length && dbias; i++) dbias[i] += dy[i];
    }
    for (ptrdiff_t i = 0; i < p->set.length && p->to; i++) scaled[i] = p->weight[i] * dy[i];
    return scaled;
}

/* gradient and backward need the same sums, and dx is written while the set is in cache. Rows of x are
 * stride_x apart. */
static void adjoint_set(const pass *p, ptrdiff_t k, const st_real *x, ptrdiff_t stride_x)
{
    const st_call *c = p->c;
    const norm_plan *plan = c->plan;
    const bool constants = plan->of_batch && !c->training; /* mean and variance */
    const bool gradient = p->gradient && !plan->by_element;
    const double mean = (double)p->mean[k], deviation = (double)p->deviation[k];
    const double count = (double)(p->set.rows * p->set.length);
    const ptrdiff_t first = first_weight(p, k), length = p->part.length;
    const st_real *dy = p->dy + k * p->set.length;
    if (plan->by_element) dy = adjoint_elements(p, k, x, dy);
    norm_sums total = { 0 };
    for (ptrdiff_t i = 0; i < plan->parts && (gradient || (p->to && !constants)); i++) {
        const norm_sums sums = norm_sum(p->part, dy + i * length, 0, x + i * length, stride_x, mean);
        if (gradient) {
            st_data(st_grad(c, WEIGHT))[first + i] += (st_real)(sums.product / deviation);
            st_data(st_grad(c, BIAS))[first + i] += (st_real)sums.g;
        }
        total.g += plan->centred ? weight_of(p, first + i) * sums.g : 0;
        total.product += weight_of(p, first + i) * sums.product;
    }
    for (ptrdiff_t i = 0; i < plan->parts && p->to; i++) {
        const double weight = weight_of(p, first + i);
        const st_real *slope = dy + i * length;
        st_real *dx = p->to + k * p->set.length + i * length;
        if (constants) norm_apply(p->part, dx, slope, 0, weight / deviation, 0);
        else norm_adjoint(p->part, dx, slope, weight, x + i * length, mean, deviation, total, count);
    }
}

static void run_set(ptrdiff_t k, void *context)
{
    const pass *p = context;
    if (p->dy) adjoint_set(p, k, p->x + k * p->set.length, p->set.stride);
    else forward_set(p, k);
}

/* Channels run in any order, in any thread; sets of images in order, as their gradients are added up. */
static void each_set(const st_call *c, st_tensor x, st_tensor dy, st_tensor to, bool gradient)
{
    pass p = pass_over(c, x, dy, to, gradient);
    if (plan_of(c)->of_batch) st_parallel_for(c, p.sets, run_set, &p);
    else
        for (ptrdiff_t k = 0; k < p.sets; k++) run_set(k, &p);
}

static st_tensor contiguous(st_tensor x, st_tensor copy)
{
    if (st_is_contiguous(x)) return x;
    st_copy(copy, x);
    return copy;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    each_set(c, contiguous(x, y), (st_tensor){ 0 }, y, false);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    each_set(c, contiguous(x, dx), dy, dx, false);
}

static void both(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    each_set(c, contiguous(x, dx), dy, dx, true);
}

/* Copies an x that is not contiguous channel by channel (batchnorm), or image by image. */
static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    if (st_is_contiguous(x)) {
        each_set(c, x, dy, (st_tensor){ 0 }, true);
        return;
    }
    const int axis = plan_of(c)->of_batch ? 1 : 0;
    const pass p = pass_over(c, x, dy, (st_tensor){ 0 }, true);
    const ptrdiff_t each = p.sets / x.shape.n[axis];
    for (ptrdiff_t i = 0; i < x.shape.n[axis]; i++) {
        const st_tensor source = st_select(x, axis, i);
        const st_tensor copy = st_narrow(st_scratch(c, COPY), 0, 0, st_numel(source));
        st_copy(st_reshape(copy, source.shape), source);
        for (ptrdiff_t k = 0; k < each; k++)
            adjoint_set(&p, i * each + k, st_data(copy) + k * p.set.length, p.set.length);
    }
}

/* ---- batchnorm: each channel over the batch: Ioffe and Szegedy 2015 ----------------------------------- */

static int batchnorm_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_batchnorm_options *o = l->options;
    if (x.rank < 2) return st_layer_refuse(l, "the input is %s, expected [N, C, ...]", st_shape_text(x).text);
    if (o->momentum > 1) return st_layer_refuse(l, "momentum is %g, expected at most 1", o->momentum);
    const st_shape channels = ST_SHAPE(x.n[1]);
    *y = x;
    if (st_layer_state(l, "running_mean", channels, 0) || st_layer_state(l, "running_var", channels, 1))
        return -1;
    return plan_sets(
        l, x,
        (norm_plan){ .sets = x.n[1], .parts = 1, .of_batch = true, .centred = true, .epsilon = o->epsilon },
        channels, o->no_affine);
}

/* ---- layernorm: the last `axes` axes of each image, by default all: Ba, Kiros and Hinton 2016 ----- *
 * rmsnorm: Zhang and Sennrich 2019. */

static int layernorm_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_layernorm_options *o = l->options;
    if (x.rank < 2) return st_layer_refuse(l, "the input is %s, expected [N, ...]", st_shape_text(x).text);
    if (o->axes >= x.rank)
        return st_layer_refuse(l, "axes=%d of an input %s, expected less than %d", o->axes,
                               st_shape_text(x).text, x.rank);
    norm_plan plan = { .sets = 1,
                       .parts = 1,
                       .by_element = true,
                       .centred = l->type == &layer_type_layernorm,
                       .epsilon = o->epsilon };
    st_shape normalised = { .rank = o->axes ? o->axes : x.rank - 1 };
    const int first = x.rank - normalised.rank;
    for (int i = 1; i < first; i++) plan.sets *= x.n[i];
    for (int i = 0; i < normalised.rank; i++) normalised.n[i] = x.n[first + i];
    *y = x;
    return plan_sets(l, x, plan, normalised, o->no_affine);
}

/* ---- groupnorm: each image's channels in groups: Wu and He 2018 --------------------------------------- */

static int groupnorm_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_groupnorm_options *o = l->options;
    if (x.rank < 2) return st_layer_refuse(l, "the input is %s, expected [N, C, ...]", st_shape_text(x).text);
    if (x.n[1] % o->groups)
        return st_layer_refuse(l, "groups=%d must divide the %td channels", o->groups, x.n[1]);
    *y = x;
    return plan_sets(
        l, x,
        (norm_plan){ .sets = o->groups, .parts = x.n[1] / o->groups, .centred = true, .epsilon = o->epsilon },
        ST_SHAPE(x.n[1]), o->no_affine);
}

/* ---- the types --------------------------------------------------------------------------------------- */

#define EPSILON(OPTIONS, DEFAULT)                                                                            \
    {                                                                                                        \
        "epsilon", ST_FIELD_REAL, offsetof(OPTIONS, epsilon), .fallback = DEFAULT                            \
    }

/* A type with its fields; the last one, no_affine, all have. */
#define NORM(NAME, PLAN, OPTIONS, CHUNK, ...)                                                                \
    static const st_field NAME##_fields[] = {                                                                \
        __VA_ARGS__,                                                                                         \
        { "no_affine", ST_FIELD_BOOL, offsetof(OPTIONS, no_affine) },                                        \
        { 0 },                                                                                               \
    };                                                                                                       \
    const st_layer_type layer_type_##NAME = {                                                                \
        .name = #NAME,                                                                                       \
        .options_size = sizeof(OPTIONS),                                                                     \
        .fields = NAME##_fields,                                                                             \
        .chunk = CHUNK,                                                                                      \
        .plan = PLAN,                                                                                        \
        .forward = forward,                                                                                  \
        .backward = backward,                                                                                \
        .gradient = gradient,                                                                                \
        .traits = &(const layer_traits){ .ignores_y = true, .both = both },                                  \
    };                                                                                                       \
    CONSTRUCTOR(NAME, OPTIONS)

/* clang-format off */
NORM(batchnorm, batchnorm_plan, st_batchnorm_options, ST_WHOLE_BATCH, EPSILON(st_batchnorm_options, 1e-5),
     { "momentum", ST_FIELD_REAL, offsetof(st_batchnorm_options, momentum), .fallback = 0.1 })
NORM(layernorm, layernorm_plan, st_layernorm_options, 0,
     { "axes", ST_FIELD_INT, offsetof(st_layernorm_options, axes), .below = ST_MAX_RANK },
     EPSILON(st_layernorm_options, 1e-5))
NORM(rmsnorm, layernorm_plan, st_layernorm_options, 0,
     { "axes", ST_FIELD_INT, offsetof(st_layernorm_options, axes), .below = ST_MAX_RANK },
     EPSILON(st_layernorm_options, (double)ST_REAL_EPSILON))
NORM(groupnorm, groupnorm_plan, st_groupnorm_options, 0,
     { "groups", ST_FIELD_INT, offsetof(st_groupnorm_options, groups), .least = 1 },
     EPSILON(st_groupnorm_options, 1e-5))
/* clang-format on */
