/* norm.c: batch, layer, root-mean-square and group normalisation.
 *
 * A set of elements is normalised to mean 0 and variance 1, then scaled and shifted:
 *     y = w h + b,   h = (x - mean) / sqrt(variance + epsilon)
 * and with g = w dy and <> the mean over the set:
 *     dx = (g - <g> - h <g h>) / sqrt(variance + epsilon)
 * A set is a channel of the batch (batchnorm), the last axes of an image (layernorm, rmsnorm), or a group of
 * an image's channels (groupnorm). In rmsnorm, mean and <g> are 0, and there is no bias. The first pass over
 * a set computes two sums, by fixed lanes; the second one writes the result. */
#include "layers/lanes.h"
#include "layers/layer_impl.h"
#include "layers/types.h"
#include "tensor/counts.h"

#include <math.h>

enum { WEIGHT, BIAS };              /* parameters */
enum { RUNNING_MEAN, RUNNING_VAR }; /* states of batchnorm */
enum { MEAN, DEVIATION };           /* memory: of each set, as forward used them */
enum { MOST = 64 };                 /* sets that one thread processes at once */
enum { COPY, SCALED };              /* scratch: a channel or an image of x; weight times dy of a set */

/* A set, or a part of one: `rows` rows of `length` elements, `stride` apart. */
typedef struct norm_set {
    ptrdiff_t rows, length, stride;
} norm_set;

/* The biased variance is variance * unit²; unit is 1 unless squares overflow or underflow. The deviation
 * includes epsilon. */
typedef struct moments {
    double mean, variance, unit, deviation;
} moments;

/* Sums over a set: of g, and of g (x - mean). */
typedef struct norm_sums {
    double g, product;
} norm_sums;

/* ---- sums ------------------------------------------------------------------------------------------ */

enum { OCTET = 8, OCTETS = 2, BLOCK = 512 }; /* lanes, vectors and elements that are added in st_real */
typedef st_real octet __attribute__((vector_size(OCTET * sizeof(st_real))));
typedef st_real octet_at
    __attribute__((vector_size(OCTET * sizeof(st_real)), aligned(sizeof(st_real)), may_alias));

/* Adds the sums of g - shift and of (g - shift) (x - mean) over a row. The elements of a block are added in
 * st_real, blocks in double, as are the rest of a row and all from a block on that overflows. */
INLINE void add_row(norm_sums *to, ptrdiff_t n, const st_real *g, st_real shift, const st_real *x,
                    st_real mean)
{
    ptrdiff_t done = 0;
    for (ptrdiff_t i = 0, end; i + OCTET * OCTETS <= n; done = i) {
        octet sum[OCTETS] = { { 0 } }, product[OCTETS] = { { 0 } };
        for (end = smallest(i + BLOCK, n); i + OCTET * OCTETS <= end; i += OCTET * OCTETS) {
            EACH(k, OCTETS)
            {
                octet a = *(const octet_at *)(g + i + k * OCTET) - shift;
                sum[k] += a;
                product[k] += a * (*(const octet_at *)(x + i + k * OCTET) - mean);
            }
        }
        norm_sums block = { 0 };
        for (int lane = 0; lane < OCTET; lane++) {
            block.g += (double)sum[0][lane] + (double)sum[1][lane];
            block.product += (double)product[0][lane] + (double)product[1][lane];
        }
        if (!isfinite(block.g + block.product)) break;
        to->g += block.g, to->product += block.product;
    }
    for (ptrdiff_t i = done; i < n; i++) {
        double a = (double)g[i] - (double)shift;
        to->g += a;
        to->product += a * ((double)x[i] - (double)mean);
    }
}

/* The moments in a unit whose squares neither overflow nor underflow: in double the square of 1e155 does. */
static __attribute__((noinline)) moments measure_extreme(norm_set s, const st_real *x, bool centred)
{
    moments m = { .unit = 1e-60 };
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

/* A number close to the mean of a set: differences from it are squared, and the subtraction of nearly equal
 * squares loses few digits. If all elements are equal, it is their mean. */
INLINE st_real near_mean(norm_set s, const st_real *x)
{
    const ptrdiff_t few = smallest(s.length, 64);
    norm_sums sums = { 0 };
    add_row(&sums, few, x, x[0], x, x[0]);
    return x[0] + (st_real)(sums.g / (double)few);
}

/* The moments of x from its sums. Not centred: near is 0 and the mean counts as 0. */
INLINE moments moments_of(norm_set s, const st_real *x, st_real near, norm_sums sums, double epsilon,
                          bool centred)
{
    const double count = (double)(s.rows * s.length), mean = centred ? sums.g / count : 0,
                 variance = (sums.product - mean * sums.g) / count;
    moments m = { (double)near + mean, variance < 0 ? 0 : variance, 1, 0 };
    if (!isfinite(variance) || m.variance + epsilon < 1e-28) m = measure_extreme(s, x, centred);
    m.deviation = deviation_of(m, epsilon);
    return m;
}

/* ---- elements -------------------------------------------------------------------------------------- */

INLINE void norm_apply(ptrdiff_t n, st_real *y, const st_real *x, double mean, double scale, double shift)
{
    const st_real middle = (st_real)mean, slope = (st_real)scale, height = (st_real)shift;
    for (ptrdiff_t i = 0; i < n; i++) y[i] = (x[i] - middle) * slope + height;
}

INLINE void norm_adjoint(ptrdiff_t n, st_real *dx, const st_real *dy, double w, const st_real *x, double mean,
                         double deviation, norm_sums of_g, double count)
{
    const st_real middle = (st_real)mean, mean_g = (st_real)(of_g.g / count), weight = (st_real)w;
    const st_real slope = (st_real)(of_g.product / count / deviation / deviation),
                  scale = (st_real)(1 / deviation);
    for (ptrdiff_t i = 0; i < n; i++) dx[i] = (weight * dy[i] - mean_g - (x[i] - middle) * slope) * scale;
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
    const norm_plan *plan;
    norm_set set;
    ptrdiff_t sets, together;       /* of all images; those processed at once */
    const st_real *x, *dy;          /* dy NULL: a forward pass */
    const st_real *weight, *bias;   /* NULL: none */
    st_real *to, *mean, *deviation; /* mean and deviation of each set */
    bool gradient;
} pass;

static pass pass_over(const st_call *c, st_tensor x, st_tensor dy, st_tensor to, bool gradient)
{
    const norm_plan *plan = c->plan;
    const bool batch = plan->of_batch;
    const ptrdiff_t length = plan->length, rows = batch ? c->images : 1,
                    stride = batch ? plan->sets * length : length;
    return (pass){ .c = c,
                   .plan = plan,
                   .set = { rows, length, stride },
                   .sets = batch ? plan->sets : c->images * plan->sets,
                   .together = batch ? smallest(ceil_div(plan->sets, c->layer->impl->run->threads), MOST) : 1,
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
static ptrdiff_t first_weight(const norm_plan *plan, ptrdiff_t k)
{
    return k % plan->sets * plan->parts;
}

static double weight_of(const pass *p, ptrdiff_t k)
{
    return p->weight && !p->plan->by_element ? (double)p->weight[k] : 1;
}

/* Training uses the batch's mean and variance and updates the running ones (with the unbiased variance, as
 * PyTorch does); inference uses the running ones. A batch with values that are not finite does not update
 * them. */
INLINE moments batch_moments(const pass *p, ptrdiff_t k, const st_real *x, st_real near, norm_sums sums)
{
    const st_tensor *state = p->c->layer->state;
    st_real *mean = st_data(state[RUNNING_MEAN]) + k, *variance = st_data(state[RUNNING_VAR]) + k;
    moments m = { (double)*mean, (double)*variance, 1, 0 };
    m.deviation = deviation_of(m, p->plan->epsilon);
    if (!p->c->training) return m;
    const double momentum = ((const st_batchnorm_options *)p->c->options)->momentum;
    const double count = (double)(p->set.rows * p->set.length),
                 unbiased = count > 1 ? count / (count - 1) : 1;
    m = moments_of(p->set, x, near, sums, p->plan->epsilon, true);
    const double batch = m.variance * m.unit * m.unit;
    if (isfinite(m.mean) && isfinite(batch)) {
        *mean = (st_real)((1 - momentum) * (double)*mean + momentum * m.mean);
        *variance = (st_real)((1 - momentum) * (double)*variance + momentum * batch * unbiased);
    }
    return m;
}

/* y = (x - mean) scale weight + bias, with a weight and a bias for each element. */
INLINE void apply_elements(const pass *p, ptrdiff_t k, st_real *y, const st_real *x)
{
    const st_real mean = p->mean[k], scale = 1 / p->deviation[k], *weight = p->weight, *bias = p->bias;
    const ptrdiff_t n = p->set.length;
    if (bias)
        for (ptrdiff_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
    else
        for (ptrdiff_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * weight[i];
}

/* Channels of a batch are adjacent in an image, so several are processed together, image by image. */
INLINE void forward_sets(const pass *p, ptrdiff_t first, ptrdiff_t count)
{
    const norm_plan *plan = p->plan;
    const norm_set s = p->set;
    const ptrdiff_t part = s.length / plan->parts;
    const bool batch = plan->of_batch, constants = batch && !p->c->training; /* mean and variance */
    const st_real *x = p->x + first * s.length;
    st_real *y = p->to + first * s.length, near[MOST];
    norm_sums sums[MOST];
    for (ptrdiff_t k = 0; k < count; k++) {
        near[k] = plan->centred && !constants ? near_mean(s, x + k * s.length) : 0;
        sums[k] = (norm_sums){ 0 };
    }
    for (ptrdiff_t r = 0; r < s.rows && !constants; r++)
        for (ptrdiff_t k = 0; k < count; k++) {
            const st_real *row = x + r * s.stride + k * s.length;
            add_row(&sums[k], s.length, row, near[k], row, near[k]);
        }
    for (ptrdiff_t k = 0; k < count; k++) {
        const st_real *set = x + k * s.length;
        const moments m = batch ? batch_moments(p, first + k, set, near[k], sums[k])
                                : moments_of(s, set, near[k], sums[k], plan->epsilon, plan->centred);
        p->mean[first + k] = (st_real)m.mean;
        p->deviation[first + k] = (st_real)m.deviation;
    }
    if (plan->by_element) apply_elements(p, first, y, x);
    for (ptrdiff_t r = 0; r < s.rows && !plan->by_element; r++)
        for (ptrdiff_t k = 0; k < count; k++)
            for (ptrdiff_t i = 0, w = first_weight(plan, first + k); i < plan->parts; i++, w++) {
                const ptrdiff_t at = r * s.stride + k * s.length + i * part;
                norm_apply(part, y + at, x + at, (double)p->mean[first + k],
                           weight_of(p, w) / (double)p->deviation[first + k],
                           p->bias ? (double)p->bias[w] : 0);
            }
}

/* Adds the gradients of the elements' weights and biases; returns dy times their weights. */
INLINE const st_real *adjoint_elements(const pass *p, ptrdiff_t k, const st_real *x, const st_real *dy)
{
    const st_call *c = p->c;
    const st_real mean = p->mean[k], scale = 1 / p->deviation[k];
    const ptrdiff_t n = p->set.length;
    st_real *scaled = st_data(st_scratch(c, SCALED));
    if (p->gradient) {
        st_real *dweight = st_data(st_grad(c, WEIGHT)), *dbias = p->bias ? st_data(st_grad(c, BIAS)) : NULL;
        for (ptrdiff_t i = 0; i < n; i++) dweight[i] += (x[i] - mean) * scale * dy[i];
        if (dbias)
            for (ptrdiff_t i = 0; i < n; i++) dbias[i] += dy[i];
    }
    if (p->to)
        for (ptrdiff_t i = 0; i < n; i++) scaled[i] = p->weight[i] * dy[i];
    return scaled;
}

/* gradient and backward need the same sums, and dx is written while sets are in cache. Rows of x are stride_x
 * apart. */
INLINE void adjoint_sets(const pass *p, ptrdiff_t first, ptrdiff_t count, const st_real *x,
                         ptrdiff_t stride_x)
{
    const norm_plan *plan = p->plan;
    const norm_set s = p->set;
    const ptrdiff_t part = s.length / plan->parts;
    const bool constants = plan->of_batch && !p->c->training; /* mean and variance */
    const bool gradient = p->gradient && !plan->by_element;
    const st_real *dy = p->dy + first * s.length, *mean = p->mean + first, *deviation = p->deviation + first;
    norm_sums sums[MOST], total[MOST];
    for (ptrdiff_t k = 0; k < count; k++) sums[k] = total[k] = (norm_sums){ 0 };
    if (plan->by_element) dy = adjoint_elements(p, first, x, dy);
    for (ptrdiff_t r = 0; r < s.rows && (gradient || (p->to && !constants)); r++)
        for (ptrdiff_t k = 0; k < count; k++)
            for (ptrdiff_t i = 0, w = first_weight(plan, first + k); i < plan->parts; i++, w++) {
                const ptrdiff_t at = k * s.length + i * part;
                add_row(&sums[k], part, dy + r * s.stride + at, 0, x + r * stride_x + at, mean[k]);
                if (r < s.rows - 1) continue;
                if (gradient) {
                    st_data(st_grad(p->c, WEIGHT))[w] += (st_real)(sums[k].product / (double)deviation[k]);
                    st_data(st_grad(p->c, BIAS))[w] += (st_real)sums[k].g;
                }
                total[k].g += plan->centred ? weight_of(p, w) * sums[k].g : 0;
                total[k].product += weight_of(p, w) * sums[k].product;
                sums[k] = (norm_sums){ 0 };
            }
    for (ptrdiff_t r = 0; r < s.rows && p->to; r++)
        for (ptrdiff_t k = 0; k < count; k++)
            for (ptrdiff_t i = 0, w = first_weight(plan, first + k); i < plan->parts; i++, w++) {
                const ptrdiff_t at = k * s.length + i * part, to = first * s.length + r * s.stride + at;
                const st_real *g = dy + r * s.stride + at;
                const double weight = weight_of(p, w), of = (double)deviation[k];
                if (constants) norm_apply(part, p->to + to, g, 0, weight / of, 0);
                else
                    norm_adjoint(part, p->to + to, g, weight, x + r * stride_x + at, (double)mean[k], of,
                                 total[k], (double)(s.rows * s.length));
            }
}

INLINE void run(const pass *p, ptrdiff_t i)
{
    const ptrdiff_t first = i * p->together, count = smallest(p->together, p->sets - first);
    if (p->dy) adjoint_sets(p, first, count, p->x + first * p->set.length, p->set.stride);
    else forward_sets(p, first, count);
}

static void run_any(ptrdiff_t i, void *p)
{
    run(p, i);
}

WIDE static void run_wide(ptrdiff_t i, void *p)
{
    run(p, i);
}

/* Channels run in any order, in any thread; sets of images in order, as their gradients are added up. */
static void each_set(const st_call *c, st_tensor x, st_tensor dy, st_tensor to, bool gradient)
{
    pass p = pass_over(c, x, dy, to, gradient);
    void (*run_here)(ptrdiff_t i, void *p) = lanes_wide(c->layer) ? run_wide : run_any;
    if (p.plan->of_batch) st_parallel_for(c, ceil_div(p.sets, p.together), run_here, &p);
    else
        for (ptrdiff_t k = 0; k < p.sets; k++) run_here(k, &p);
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
    const pass p = pass_over(c, x, dy, (st_tensor){ 0 }, true);
    const int axis = p.plan->of_batch ? 1 : 0;
    const ptrdiff_t each = p.sets / x.shape.n[axis];
    for (ptrdiff_t i = 0; i < x.shape.n[axis]; i++) {
        const st_tensor source = st_select(x, axis, i);
        const st_tensor copy = st_narrow(st_scratch(c, COPY), 0, 0, st_numel(source));
        st_copy(st_reshape(copy, source.shape), source);
        for (ptrdiff_t k = 0; k < each; k++)
            adjoint_sets(&p, i * each + k, 1, st_data(copy) + k * p.set.length, p.set.length);
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
