/* norm.c: batch, layer, root-mean-square and group normalisation of contiguous images; layers/norm.c has the
 * definitions. The first loop over a set computes two sums, by fixed lanes, so that every instruction set
 * gives the same bits; the second one writes the result. gradient and backward share the sums. */
#include "layers/fast/algorithms.h"
#include "layers/fast/lanes.h"
#include "layers/norm_impl.h"
#include "layers/types.h"
#include "tensor/counts.h"

#include <math.h>

enum { MOST = 64 };    /* sets that one thread processes at once */
enum { COPY, SCALED }; /* scratch: a channel or an image of x; weight times dy of a set */

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

/* Adds the sums of g - shift and of (g - shift) (x - mean) over a row. Elements are added in st_real within a
 * block, and blocks in double. The elements after the last block, or from a block on that overflows, are
 * added in double one by one. */
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

/* A number close to the mean of a set, the mean itself if all elements are equal. The variance is the mean
 * square of differences from it, less the square of their mean: few digits are lost, since the second is
 * small. */
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

/* The plan's data: the definition's, and how contiguous images are divided. Adjacent sets begin `length`
 * elements apart. */
typedef struct fast_plan {
    norm_plan norm;
    ptrdiff_t parts;  /* adjacent parts of a set, which have a weight and a bias each */
    ptrdiff_t length; /* of a set's row */
    bool by_element;  /* each element of a set has a weight and a bias instead */
} fast_plan;

static int plan(st_layer *l, const void *given)
{
    fast_plan *p = st_layer_plan_data(l, sizeof *p);
    const ptrdiff_t elements = st_shape_numel(l->x, l->type->name), images = l->x.n[0];
    const bool affine = l->params > 0;
    if (!p) return -1;
    p->norm = *(const norm_plan *)given;
    p->length = elements / images / p->norm.sets;
    p->parts = affine && p->norm.by_channel && !p->norm.of_batch ? l->x.n[1] / p->norm.groups : 1;
    p->by_element = affine && !p->norm.by_channel;
    if (st_layer_scratch(l, ST_SHAPE(elements / (p->norm.of_batch ? p->norm.sets : images)))) return -1;
    return st_layer_scratch(l, ST_SHAPE(p->by_element ? p->length : 0));
}

/* A pass over all sets of x and dy; writes y or dx to `to`, unless that is NULL. */
typedef struct pass {
    const st_call *c;
    const fast_plan *plan;
    norm_set set;
    ptrdiff_t sets, together;       /* of all images; those processed at once */
    const st_real *x, *dy;          /* dy NULL: a forward pass */
    const st_real *weight, *bias;   /* NULL: none */
    st_real *to, *mean, *deviation; /* mean and deviation of each set */
    bool gradient;
} pass;

static pass pass_over(const st_call *c, st_tensor x, st_tensor dy, st_tensor to, bool gradient)
{
    const fast_plan *plan = c->plan;
    const bool batch = plan->norm.of_batch;
    const ptrdiff_t length = plan->length, rows = batch ? c->images : 1,
                    stride = batch ? plan->norm.sets * length : length;
    return (pass){ .c = c,
                   .plan = plan,
                   .set = { rows, length, stride },
                   .sets = batch ? plan->norm.sets : c->images * plan->norm.sets,
                   .together =
                       batch ? smallest(ceil_div(plan->norm.sets, c->layer->impl->run->threads), MOST) : 1,
                   .x = st_data(x),
                   .dy = st_data(dy),
                   .weight = c->layer->params > NORM_WEIGHT ? st_data(c->param[NORM_WEIGHT]) : NULL,
                   .bias = c->layer->params > NORM_BIAS ? st_data(c->param[NORM_BIAS]) : NULL,
                   .to = st_data(to),
                   .mean = st_data(st_memory(c, NORM_MEAN)),
                   .deviation = st_data(st_memory(c, NORM_DEVIATION)),
                   .gradient = gradient };
}

/* The index of the first weight of set k. */
static ptrdiff_t first_weight(const fast_plan *plan, ptrdiff_t k)
{
    return k % plan->norm.sets * plan->parts;
}

static double weight_of(const pass *p, ptrdiff_t k)
{
    return p->weight && !p->plan->by_element ? (double)p->weight[k] : 1;
}

INLINE moments batch_moments(const pass *p, ptrdiff_t k, const st_real *x, st_real near, norm_sums sums)
{
    const st_tensor *state = p->c->layer->state;
    moments m = { (double)st_data(state[NORM_RUNNING_MEAN])[k], (double)st_data(state[NORM_RUNNING_VAR])[k],
                  1, 0 };
    m.deviation = deviation_of(m, p->plan->norm.epsilon);
    if (!p->c->training) return m;
    m = moments_of(p->set, x, near, sums, p->plan->norm.epsilon, true);
    norm_update_running(p->c, k, (double)(p->set.rows * p->set.length), m.mean, m.variance * m.unit * m.unit);
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
    const fast_plan *plan = p->plan;
    const norm_set s = p->set;
    const ptrdiff_t part = s.length / plan->parts;
    const bool batch = plan->norm.of_batch, constants = batch && !p->c->training; /* mean and variance */
    const st_real *x = p->x + first * s.length;
    st_real *y = p->to + first * s.length, near[MOST];
    norm_sums sums[MOST];
    for (ptrdiff_t k = 0; k < count; k++) {
        near[k] = plan->norm.centred && !constants ? near_mean(s, x + k * s.length) : 0;
        sums[k] = (norm_sums){ 0 };
    }
    for (ptrdiff_t r = 0; r < s.rows && !constants; r++)
        for (ptrdiff_t k = 0; k < count; k++) {
            const st_real *row = x + r * s.stride + k * s.length;
            add_row(&sums[k], s.length, row, near[k], row, near[k]);
        }
    for (ptrdiff_t k = 0; k < count; k++) {
        const st_real *set = x + k * s.length;
        const moments m = batch
                              ? batch_moments(p, first + k, set, near[k], sums[k])
                              : moments_of(s, set, near[k], sums[k], plan->norm.epsilon, plan->norm.centred);
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
        st_real *dweight = st_data(st_grad(c, NORM_WEIGHT)),
                *dbias = p->bias ? st_data(st_grad(c, NORM_BIAS)) : NULL;
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
    const fast_plan *plan = p->plan;
    const norm_set s = p->set;
    const ptrdiff_t part = s.length / plan->parts;
    const bool constants = plan->norm.of_batch && !p->c->training; /* mean and variance */
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
                    st_data(st_grad(p->c, NORM_WEIGHT))[w] +=
                        (st_real)(sums[k].product / (double)deviation[k]);
                    st_data(st_grad(p->c, NORM_BIAS))[w] += (st_real)sums[k].g;
                }
                total[k].g += plan->norm.centred ? weight_of(p, w) * sums[k].g : 0;
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
    if (p.plan->norm.of_batch) st_parallel_for(c, ceil_div(p.sets, p.together), run_here, &p);
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
    const int axis = p.plan->norm.of_batch ? 1 : 0;
    const ptrdiff_t each = p.sets / x.shape.n[axis];
    for (ptrdiff_t i = 0; i < x.shape.n[axis]; i++) {
        const st_tensor source = st_select(x, axis, i);
        const st_tensor copy = st_narrow(st_scratch(c, COPY), 0, 0, st_numel(source));
        st_copy(st_reshape(copy, source.shape), source);
        for (ptrdiff_t k = 0; k < each; k++)
            adjoint_sets(&p, i * each + k, 1, st_data(copy) + k * p.set.length, p.set.length);
    }
}

/* ---- the algorithms ---------------------------------------------------------------------------------- */

static bool suits(const st_layer *l)
{
    (void)l;
    return true;
}

#define ALGORITHM(NAME)                                                                                      \
    const layer_algorithm NAME##_sets = { .type = &layer_type_##NAME,                                        \
                                          .suits = suits,                                                    \
                                          .plan = plan,                                                      \
                                          .hooks = { forward, backward, gradient, both } };
ALGORITHM(batchnorm)
ALGORITHM(layernorm)
ALGORITHM(rmsnorm)
ALGORITHM(groupnorm)
