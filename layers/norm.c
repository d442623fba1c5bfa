/* norm.c: batch, layer, root-mean-square and group normalisation: the definitions, in double.
 *
 * A set of elements is normalised to mean 0 and variance 1, then scaled and shifted:
 *     y = w h + b,   h = (x - mean) / sqrt(variance + epsilon)
 * and with g = w dy and <> the mean over the set:
 *     dx = (g - <g> - h <g h>) / sqrt(variance + epsilon),   dw += h dy,   db += dy
 * A set is a channel of the batch (batchnorm), the last axes of an image (layernorm, rmsnorm), or a group of
 * an image's channels (groupnorm). In rmsnorm, mean and <g> are 0, and there is no bias. Weights, biases and
 * their gradients are views of x's shape, with a stride of 0 along axes that share them. */
#include "layers/norm_impl.h"
#include "layers/types.h"

#include <float.h>
#include <math.h>

/* ---- sets ------------------------------------------------------------------------------------------ */

static ptrdiff_t sets_of(const st_call *c)
{
    const norm_plan *p = c->plan;
    return p->of_batch ? p->sets : c->images * p->sets;
}

/* Set k of a tensor of x's shape. */
static st_tensor set_of(const st_call *c, st_tensor all, ptrdiff_t k)
{
    const norm_plan *p = c->plan;
    const ptrdiff_t group = k % p->groups;
    st_tensor set = p->of_batch ? st_transpose(all, 0, 1) : all;
    k /= p->groups;
    for (int axis = p->leading - 1; axis >= 0; axis--) {
        const ptrdiff_t n = set.shape.n[axis];
        set = st_select(set, axis, k % n);
        k /= n;
    }
    if (p->groups == 1) return set;
    const ptrdiff_t channels = set.shape.n[0] / p->groups;
    return st_narrow(set, 0, group * channels, channels);
}

/* A parameter, or its gradient, as a view of x's shape. */
static st_tensor spread(const st_call *c, st_tensor w, st_tensor x)
{
    const norm_plan *p = c->plan;
    for (int axis = 2; axis < x.shape.rank && p->by_channel; axis++)
        w = st_split_axis(w, w.shape.rank - 1, 1); /* [C] -> [C, 1, ...] */
    return st_expand(w, x.shape);
}

static bool has(const st_call *c, int parameter)
{
    return c->layer->params > parameter;
}

/* ---- rows ------------------------------------------------------------------------------------------ */

/* A compensated sum: it keeps the rounding errors of its additions (Knuth), as if it were rounded once. */
typedef struct total {
    double sum, error;
} total;

static void add(total *t, double x)
{
    const double sum = t->sum + x, added = sum - t->sum;
    t->error += (t->sum - (sum - added)) + (x - added);
    t->sum = sum;
}

static double mean_of(total t, double count)
{
    return (t.sum + t.error) / count;
}

/* The moments of a set, and the sums that are made of it. */
typedef struct moments {
    double mean, variance, deviation; /* deviation: sqrt(variance + epsilon) */
    double unit;
    total off, squares; /* of (x - mean) / unit */
    total g, gh;
    double mean_g, mean_gh;
} moments;

static void greatest_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    moments *m = context;
    for (ptrdiff_t i = 0; i < n; i++) m->unit = fmax(m->unit, fabs((double)at[0][i * stride[0]]));
}

/* Adds up (x - mean) / unit and its square. */
static void sum_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    moments *m = context;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double off = ((double)at[0][i * stride[0]] - m->mean) / m->unit;
        add(&m->off, off), add(&m->squares, off * off);
    }
}

static double h_of(const moments *m, st_real x)
{
    return ((double)x - m->mean) / m->deviation;
}

/* y = h */
static void normalise_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *m)
{
    for (ptrdiff_t i = 0; i < n; i++) at[0][i * stride[0]] = (st_real)h_of(m, at[1][i * stride[1]]);
}

/* Adds up g and g h. */
static void product_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    moments *m = context;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double g = (double)at[0][i * stride[0]];
        add(&m->g, g), add(&m->gh, g * h_of(m, at[1][i * stride[1]]));
    }
}

/* dx, which is g, becomes (g - <g> - h <g h>) / deviation. */
static void adjoint_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    const moments *m = context;
    for (ptrdiff_t i = 0; i < n; i++) {
        st_real *dx = at[0] + i * stride[0];
        *dx =
            (st_real)(((double)*dx - m->mean_g - h_of(m, at[1][i * stride[1]]) * m->mean_gh) / m->deviation);
    }
}

/* dw += h dy */
static void gradient_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *m)
{
    st_real *dw = at[0];
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++, dw += stride[0]) {
        sum += h_of(m, at[1][i * stride[1]]) * (double)at[2][i * stride[2]];
        if (stride[0] == 0 && i < n - 1) continue; /* one weight: its gradient is rounded once */
        *dw = (st_real)((double)*dw + sum);
        sum = 0;
    }
}

/* ---- moments --------------------------------------------------------------------------------------- */

/* Differences are divided by a power of two, the unit, so that their squares neither overflow nor underflow:
 * in double the square of 1e155 does. The sum of the differences from the mean, which is 0 but for rounding,
 * corrects the mean: Chan, Golub and LeVeque 1983. The mean of equal elements is exact. */
static moments measure(const norm_plan *p, st_tensor set)
{
    const double count = (double)st_numel(set);
    moments m = { .unit = DBL_MIN };
    st_walk(1, &set, ST_ANY_ORDER, greatest_row, &m);
    m.unit = isfinite(m.unit) ? scalbn(1, ilogb(m.unit)) : m.unit;
    st_walk(1, &set, ST_ANY_ORDER, sum_row, &m);
    if (p->centred) {
        m.mean = mean_of(m.off, count) * m.unit;
        m.off = m.squares = (total){ 0 };
        st_walk(1, &set, ST_ANY_ORDER, sum_row, &m);
    }
    const double rest = p->centred ? mean_of(m.off, count) : 0;
    const double variance = fdim(mean_of(m.squares, count), rest * rest);
    m.mean += rest * m.unit;
    m.variance = variance * m.unit * m.unit;
    m.deviation = hypot(sqrt(variance) * m.unit, sqrt(p->epsilon));
    return m;
}

void norm_update_running(const st_call *c, ptrdiff_t k, double count, double mean, double variance)
{
    const double momentum = ((const st_batchnorm_options *)c->options)->momentum;
    const double unbiased = count / fmax(count - 1, 1);
    const st_tensor *state = c->layer->state;
    st_real *running_mean = st_data(state[NORM_RUNNING_MEAN]) + k,
            *running_var = st_data(state[NORM_RUNNING_VAR]) + k;
    if (!isfinite(mean) || !isfinite(variance)) return;
    *running_mean = (st_real)((1 - momentum) * (double)*running_mean + momentum * mean);
    *running_var = (st_real)((1 - momentum) * (double)*running_var + momentum * variance * unbiased);
}

/* Inference of a batchnorm uses the running mean and variance. */
static bool uses_running(const st_call *c)
{
    return ((const norm_plan *)c->plan)->of_batch && !c->training;
}

static moments moments_of(const st_call *c, ptrdiff_t k, st_tensor set)
{
    const norm_plan *p = c->plan;
    const st_tensor *state = c->layer->state;
    moments m = { 0 };
    if (uses_running(c)) {
        m.mean = (double)st_data(state[NORM_RUNNING_MEAN])[k];
        m.deviation = sqrt((double)st_data(state[NORM_RUNNING_VAR])[k] + p->epsilon);
        return m;
    }
    m = measure(p, set);
    if (p->of_batch) norm_update_running(c, k, (double)st_numel(set), m.mean, m.variance);
    return m;
}

/* ---- hooks ----------------------------------------------------------------------------------------- */

/* The moments of set k that forward kept. */
static moments kept(const st_call *c, ptrdiff_t k)
{
    return (moments){ .mean = (double)st_data(st_memory(c, NORM_MEAN))[k],
                      .deviation = (double)st_data(st_memory(c, NORM_DEVIATION))[k] };
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    for (ptrdiff_t k = 0; k < sets_of(c); k++) {
        const st_tensor views[] = { set_of(c, y, k), set_of(c, x, k) };
        moments m = moments_of(c, k, views[1]);
        st_data(st_memory(c, NORM_MEAN))[k] = (st_real)m.mean;
        st_data(st_memory(c, NORM_DEVIATION))[k] = (st_real)m.deviation;
        m = kept(c, k);
        st_walk(2, views, ST_ANY_ORDER, normalise_row, &m);
    }
    if (has(c, NORM_WEIGHT)) st_mul(y, spread(c, c->param[NORM_WEIGHT], y));
    if (has(c, NORM_BIAS)) st_add(y, 1, spread(c, c->param[NORM_BIAS], y));
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const norm_plan *p = c->plan;
    st_copy(dx, dy);
    if (has(c, NORM_WEIGHT)) st_mul(dx, spread(c, c->param[NORM_WEIGHT], dx));
    for (ptrdiff_t k = 0; k < sets_of(c); k++) {
        const st_tensor views[] = { set_of(c, dx, k), set_of(c, x, k) };
        const double count = (double)st_numel(views[0]);
        moments m = kept(c, k);
        if (!uses_running(c)) st_walk(2, views, ST_ANY_ORDER, product_row, &m);
        m.mean_g = p->centred ? mean_of(m.g, count) : 0;
        m.mean_gh = mean_of(m.gh, count);
        st_walk(2, views, ST_ANY_ORDER, adjoint_row, &m);
    }
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    const st_tensor dw = spread(c, st_grad(c, NORM_WEIGHT), x);
    for (ptrdiff_t k = 0; k < sets_of(c); k++) {
        moments m = kept(c, k);
        const st_tensor views[] = { set_of(c, dw, k), set_of(c, x, k), set_of(c, dy, k) };
        st_walk(3, views, ST_ANY_ORDER, gradient_row, &m);
    }
    if (has(c, NORM_BIAS)) st_add(spread(c, st_grad(c, NORM_BIAS), dy), 1, dy);
}

/* ---- planning ---------------------------------------------------------------------------------------- */

static int plan_sets(st_layer *l, st_shape x, st_shape *y, norm_plan plan, st_shape parameters,
                     bool no_affine)
{
    norm_plan *p = st_layer_plan_data(l, sizeof *p);
    const st_shape sets = ST_SHAPE(plan.of_batch ? 1 : x.n[0], plan.sets);
    if (!p) return -1;
    *p = plan;
    *y = x;
    if (!no_affine && st_layer_parameter(l, "weight", parameters, (st_init){ .constant = 1 })) return -1;
    if (!no_affine && plan.centred && st_layer_parameter(l, "bias", parameters, (st_init){ 0 })) return -1;
    if (st_layer_memory(l, sets)) return -1; /* NORM_MEAN, then NORM_DEVIATION */
    return st_layer_memory(l, sets);
}

/* ---- batchnorm: each channel over the batch: Ioffe and Szegedy 2015 ----------------------------------- */

static int batchnorm_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_batchnorm_options *o = l->options;
    if (x.rank < 2) return st_layer_refuse(l, "the input is %s, expected [N, C, ...]", st_shape_text(x).text);
    if (o->momentum > 1) return st_layer_refuse(l, "momentum is %g, expected at most 1", o->momentum);
    const st_shape channels = ST_SHAPE(x.n[1]);
    const norm_plan plan = { .of_batch = true,
                             .leading = 1,
                             .groups = 1,
                             .sets = x.n[1],
                             .by_channel = true,
                             .centred = true,
                             .epsilon = o->epsilon };
    if (st_layer_state(l, "running_mean", channels, 0) || st_layer_state(l, "running_var", channels, 1))
        return -1;
    return plan_sets(l, x, y, plan, channels, o->no_affine);
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
    st_shape normalised = { .rank = o->axes ? o->axes : x.rank - 1 };
    norm_plan plan = { .leading = x.rank - normalised.rank,
                       .groups = 1,
                       .sets = 1,
                       .centred = l->type == &layer_type_layernorm,
                       .epsilon = o->epsilon };
    for (int i = 1; i < plan.leading; i++) plan.sets *= x.n[i];
    for (int i = 0; i < normalised.rank; i++) normalised.n[i] = x.n[plan.leading + i];
    return plan_sets(l, x, y, plan, normalised, o->no_affine);
}

/* ---- groupnorm: each image's channels in groups: Wu and He 2018 --------------------------------------- */

static int groupnorm_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_groupnorm_options *o = l->options;
    if (x.rank < 2) return st_layer_refuse(l, "the input is %s, expected [N, C, ...]", st_shape_text(x).text);
    if (x.n[1] % o->groups)
        return st_layer_refuse(l, "groups=%d must divide the %td channels", o->groups, x.n[1]);
    const norm_plan plan = { .leading = 1,
                             .groups = o->groups,
                             .sets = o->groups,
                             .by_channel = true,
                             .centred = true,
                             .epsilon = o->epsilon };
    return plan_sets(l, x, y, plan, ST_SHAPE(x.n[1]), o->no_affine);
}

/* ---- the types --------------------------------------------------------------------------------------- */

/* The bound refuses a number of channels: st_batchnorm(32), st_groupnorm(4, 32). */
#define EPSILON(OPTIONS) ST_FIELD(REAL, OPTIONS, epsilon), .below = 1

/* A type with its fields; the last one, no_affine, all have. */
#define NORM(NAME, PLAN, OPTIONS, CHUNK, ...)                                                                \
    static const st_field NAME##_fields[] = {                                                                \
        __VA_ARGS__,                                                                                         \
        { ST_FIELD(BOOL, OPTIONS, no_affine) },                                                              \
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
    };                                                                                                       \
    CONSTRUCTOR(NAME, OPTIONS)

/* clang-format off */
NORM(batchnorm, batchnorm_plan, st_batchnorm_options, ST_WHOLE_BATCH,
     { EPSILON(st_batchnorm_options), .fallback = 1e-5 },
     { ST_FIELD(REAL, st_batchnorm_options, momentum), .fallback = 0.1 })
NORM(layernorm, layernorm_plan, st_layernorm_options, 0,
     { ST_FIELD(INT, st_layernorm_options, axes), .below = ST_MAX_RANK },
     { EPSILON(st_layernorm_options), .fallback = 1e-5 })
NORM(rmsnorm, layernorm_plan, st_layernorm_options, 0,
     { ST_FIELD(INT, st_layernorm_options, axes), .below = ST_MAX_RANK },
     { EPSILON(st_layernorm_options), .fallback = (double)ST_REAL_EPSILON })
NORM(groupnorm, groupnorm_plan, st_groupnorm_options, 0,
     { ST_FIELD(INT, st_groupnorm_options, groups), .least = 1 },
     { EPSILON(st_groupnorm_options), .fallback = 1e-5 })
/* clang-format on */
