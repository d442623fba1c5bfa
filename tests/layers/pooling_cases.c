/* pooling_cases.c: the definitions of poolings over complex numbers.
 *
 * A definition is the value alone: its derivative by x is the imaginary part of f(x + h i) / h, exact to
 * rounding, as h is tiny. So a test knows nothing of the adjoints. */
#include "tests/layers/pooling_cases.h"

#include "layers/pooling/pooling.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- options -------------------------------------------------------------------------------------- */

#define ROLL(NAME, ...)                                                                                      \
    st_layer *roll_##NAME##_pool(dice *d, st_shape *x)                                                       \
    {                                                                                                        \
        st_maxpool_options o = roll_windows(d, x);                                                           \
        return st_##NAME##_pool(WINDOWS(o), __VA_ARGS__);                                                    \
    }
ROLL(stochastic, .pad_value = o.pad_value)
ROLL(mixed, .per_channel = chance(d, 50))
ROLL(gated, .per_channel = chance(d, 50))
ROLL(learned_norm, .per_channel = chance(d, 50), .p = 1.5 + (double)roll(d, 0, 3))
ROLL(gem, .per_channel = chance(d, 50), .p = 2 + (double)roll(d, 0, 2))
ROLL(soft, .pad_value = o.pad_value)
ROLL(logsumexp, .r = chance(d, 10) ? ST_ZERO : 0.5 * (double)roll(d, 1, 12))
ROLL(ordinal, .per_channel = chance(d, 50))
ROLL(rank, .alpha = chance(d, 10) ? ST_ZERO : 0.1 * (double)roll(d, 1, 9), .stochastic = chance(d, 50))
ROLL(median, .pad_value = o.pad_value)

/* More windows than algorithms take at once, in whole rows or in less than the rows of a window. */
static st_pool_options roll_many_windows(dice *d, st_shape *x)
{
    *x = ST_SHAPE(1, roll(d, 1, 2), roll(d, 34, 38), roll(d, 34, 38));
    return (st_pool_options){ .kernel = { chance(d, 50) ? 9 : 3, (int)roll(d, 3, 4) },
                              .stride = { 1, 1 },
                              .padding = { (int)roll(d, 0, 1), (int)roll(d, 0, 1) } };
}

st_layer *roll_many_gated_pool(dice *d, st_shape *x)
{
    const st_pool_options o = roll_many_windows(d, x);
    return st_gated_pool(WINDOWS(o), .per_channel = chance(d, 50));
}

/* Windows that are apart, more in a row than a vector has. */
st_layer *roll_apart_gated_pool(dice *d, st_shape *x)
{
    *x = ST_SHAPE(1, roll(d, 1, 2), roll(d, 4, 5), roll(d, 34, 38));
    return st_gated_pool(.kernel = { 2 }, .per_channel = chance(d, 50));
}

st_layer *roll_many_soft_pool(dice *d, st_shape *x)
{
    const st_pool_options o = roll_many_windows(d, x);
    return st_soft_pool(WINDOWS(o));
}

st_layer *roll_adaptive_max_pool(dice *d, st_shape *x)
{
    *x = roll_images(d);
    return st_adaptive_maxpool({ (int)roll(d, 0, 8), (int)roll(d, 0, 8) });
}

st_layer *roll_blur_pool(dice *d, st_shape *x)
{
    st_blur_pool_options o = { .edge = (st_blur_edge)roll(d, 0, 2) };
    *x = roll_images(d);
    for (int axis = 0; axis < 2; axis++) {
        o.kernel[axis] = (int)roll(d, 1, 5), o.stride[axis] = (int)roll(d, 1, 3);
        int *side = axis ? o.pad_width : o.pad_height, most = o.kernel[axis] - 1;
        o.padding[axis] = (int)roll(d, 0, most), side[0] = (int)roll(d, 0, most - o.padding[axis]);
        side[1] = (int)roll(d, 0, most - o.padding[axis]);
        x->n[2 + axis] += o.kernel[axis];
    }
    keep_zero(o.padding);
    return st_blur_pool_new(o);
}

st_layer *roll_fractional_max_pool(dice *d, st_shape *x)
{
    st_fractional_maxpool_options o = { .pseudo_random = chance(d, 50), .overlapping = chance(d, 50) };
    const bool windows = chance(d, 50);
    *x = roll_images(d);
    x->n[2] += 2, x->n[3] += 2;
    for (int axis = 0; axis < 2; axis++) {
        o.kernel[axis] = windows ? (int)roll(d, 1, 3) : 0;
        o.output_size[axis] = (int)roll(d, 1, x->n[2 + axis] - (windows ? o.kernel[axis] - 1 : 0));
    }
    if (chance(d, 20)) o.output_size[0] = o.output_size[1] = 0, o.output_ratio = 0.4;
    return st_fractional_maxpool_new(o);
}

st_layer *roll_s3_pool(dice *d, st_shape *x)
{
    st_s3_pool_options o = { { 0 } };
    *x = roll_images(d);
    for (int axis = 0; axis < 2; axis++) {
        o.kernel[axis] = (int)roll(d, 1, 3), o.stride[axis] = (int)roll(d, 1, 3);
        o.grid[axis] = o.stride[axis] * (int)roll(d, 1, 3);
        x->n[2 + axis] += o.stride[axis];
    }
    return st_s3_pool_new(o);
}

st_layer *roll_local_importance_pool(dice *d, st_shape *x)
{
    st_maxpool_options o = roll_windows(d, x);
    return st_local_importance_pool(WINDOWS(o));
}

st_layer *roll_pyramid_pool(dice *d, st_shape *x)
{
    *x = roll_images(d);
    return st_spatial_pyramid_pool((int)roll(d, 1, 5));
}

st_layer *roll_un_pool(dice *d, st_shape *x)
{
    st_maxpool_options o = roll_windows(d, x);
    return st_max_unpool(st_maxpool_new(o), st_leaky_relu(.slope = 0.5));
}

st_layer *roll_fractional_un_pool(dice *d, st_shape *x)
{
    return st_max_unpool(roll_fractional_max_pool(d, x), st_tanh());
}

/* ---- definitions of a window ----------------------------------------------------------------------- */

typedef double complex number;

enum { MOST_ELEMENTS = 1024 };

/* A window's elements with their places in the image; its channel's parameters; its random number. */
typedef struct pane {
    const st_layer *l;
    int n;
    number x[MOST_ELEMENTS], param[MOST_ELEMENTS];
    ptrdiff_t row[MOST_ELEMENTS], column[MOST_ELEMENTS]; /* -1: padding */
    double uniform;
    const struct edges *edges; /* of windows that are drawn; or NULL */
} pane;

typedef number definition(const pane *p);

static number maximum(const pane *p)
{
    number most = p->x[0];
    for (int i = 1; i < p->n; i++)
        if (creal(p->x[i]) > creal(most)) most = p->x[i];
    return most;
}

static number mean_of(const pane *p)
{
    number sum = 0;
    for (int i = 0; i < p->n; i++) sum += p->x[i];
    return sum / p->n;
}

/* Tests always run in training. */
static number stochastic(const pane *p)
{
    double sum = 0, reached = 0;
    for (int i = 0; i < p->n; i++) sum += fmax(creal(p->x[i]), 0);
    if (sum == 0) return p->x[(int)floor(p->uniform * p->n)];
    for (int i = 0; i < p->n; i++)
        if ((reached += fmax(creal(p->x[i]), 0)) > p->uniform * sum) return p->x[i];
    return NAN;
}

static number between(const pane *p, number share)
{
    return share * maximum(p) + (1 - share) * mean_of(p);
}

static number mixed(const pane *p)
{
    return between(p, p->param[0]);
}

static number gated(const pane *p)
{
    number sum = 0;
    for (int i = 0; i < p->n; i++) sum += p->param[i] * p->x[i];
    return between(p, 1 / (1 + cexp(-sum)));
}

/* The derivative of a power of 0 is 0. */
static number power(number base, number p)
{
    return creal(base) == 0 ? 0 : cexp(p * clog(base));
}

static number learned_norm(const pane *p)
{
    const number order = 1 + clog(1 + cexp(p->param[0]));
    number sum = 0;
    for (int i = 0; i < p->n; i++) sum += power(creal(p->x[i]) < 0 ? -p->x[i] : p->x[i], order);
    return power(sum / p->n, 1 / order);
}

/* Near p = 0, log y is the mean of log a, and p / 2 times their variance. */
static number gem(const pane *p)
{
    const number power = p->param[0];
    number sum = 0, logs = 0, of_squares = 0;
    for (int i = 0; i < p->n; i++) {
        const number a = creal(p->x[i]) <= 1e-6 ? 1e-6 : p->x[i], log_a = clog(a);
        sum += cexp(power * log_a), logs += log_a, of_squares += log_a * log_a;
    }
    const number mean = logs / p->n, variance = of_squares / p->n - mean * mean;
    return creal(power) == 0 ? cexp(mean + power * variance / 2) : cexp(clog(sum / p->n) / power);
}

static number soft(const pane *p)
{
    number sum = 0, weights = 0;
    for (int i = 0; i < p->n; i++) sum += cexp(p->x[i]) * p->x[i], weights += cexp(p->x[i]);
    return sum / weights;
}

static number logsumexp(const pane *p)
{
    const double r = ((const st_logsumexp_pool_options *)p->l->options)->r;
    number sum = 0;
    for (int i = 0; i < p->n; i++) sum += r > 0 ? cexp(r * p->x[i]) : p->x[i];
    return r > 0 ? clog(sum / p->n) / r : sum / p->n;
}

/* The k-th greatest element; of equal ones, the first in the window. */
static number ranked(const pane *p, int k)
{
    for (int i = 0; i < p->n; i++) {
        int before = 0;
        for (int j = 0; j < p->n; j++)
            before += creal(p->x[j]) > creal(p->x[i]) || (creal(p->x[j]) == creal(p->x[i]) && j < i);
        if (before == k) return p->x[i];
    }
    return NAN;
}

static number ordinal(const pane *p)
{
    number sum = 0;
    for (int k = 0; k < p->n; k++) sum += p->param[k] * ranked(p, k);
    return sum;
}

static number rank(const pane *p)
{
    const st_rank_pool_options *o = p->l->options;
    double total = 0, reached = 0;
    number sum = 0;
    for (int k = 0; k < p->n; k++) total += pow(1 - o->alpha, k);
    for (int k = 0; k < p->n; k++) {
        const double share = pow(1 - o->alpha, k) / total;
        if (o->stochastic && ((reached += share) > p->uniform || k == p->n - 1)) return ranked(p, k);
        sum += share * ranked(p, k);
    }
    return sum;
}

static number median(const pane *p)
{
    return (ranked(p, (p->n - 1) / 2) + ranked(p, p->n / 2)) / 2;
}

static const struct family {
    const char *type;
    definition *value;
    bool zeros; /* padding is; false: it is left out */
} families[] = {
    { "stochastic_pool", stochastic },
    { "mixed_pool", mixed },
    { "gated_pool", gated, true },
    { "learned_norm_pool", learned_norm },
    { "gem_pool", gem },
    { "soft_pool", soft },
    { "logsumexp_pool", logsumexp },
    { "median_pool", median },
    { "ordinal_pool", ordinal, true },
    { "rank_pool", rank },
    { "fractional_maxpool", maximum },
    { "s3_pool", maximum },
    { "adaptive_maxpool", maximum },
};

/* ---- windows -------------------------------------------------------------------------------------- */

static void add_element(pane *p, bool zeros, st_tensor x, st_shape at, ptrdiff_t row, ptrdiff_t column)
{
    const bool inside = row >= 0 && row < x.shape.n[2] && column >= 0 && column < x.shape.n[3];
    if (!inside && !zeros) return;
    assert_in_range(p->n, 0, MOST_ELEMENTS - 1);
    p->row[p->n] = inside ? row : -1, p->column[p->n] = column;
    p->x[p->n++] = inside ? (double)*st_at(x, ST_INDEX(at.n[0], at.n[1], row, column)) : 0;
}

static void regular_elements(pane *p, bool zeros, st_tensor x, st_shape at)
{
    const st_maxpool_options o = { WINDOWS(*(const st_pool_options *)p->l->options) };
    const naive_axis h = naive_maxpool_axis(o, x.shape, 0), w = naive_maxpool_axis(o, x.shape, 1);
    for (ptrdiff_t i = 0; i < h.kernel * w.kernel; i++)
        add_element(p, zeros, x, at, naive_place(h, at.n[2], i / w.kernel),
                    naive_place(w, at.n[3], i % w.kernel));
}

static void adaptive_elements(pane *p, st_tensor x, st_shape at, st_shape y)
{
    const ptrdiff_t rows = x.shape.n[2], columns = x.shape.n[3];
    for (ptrdiff_t r = 0; r < rows; r++)
        for (ptrdiff_t c = 0; c < columns; c++) /* part i is floor(i H / OH) to ceil((i + 1) H / OH) - 1 */
            if (r >= at.n[2] * rows / y.n[2] && r * y.n[2] < (at.n[2] + 1) * rows &&
                c >= at.n[3] * columns / y.n[3] && c * y.n[3] < (at.n[3] + 1) * columns)
                add_element(p, false, x, at, r, c);
}

/* Windows that are drawn are seen from outside: the maxima of an image of row numbers, or of their opposites,
 * are the windows' last and first rows. */
typedef struct edges {
    st_tensor of[2][2]; /* of rows and columns, the first and the last */
} edges;

static st_tensor ramp_through(const st_layer *l, st_shape s, int axis, double sign)
{
    st_tensor x = st_tensor_new(s), y = st_tensor_new(l->y);
    for (ptrdiff_t k = 0; k < st_numel(x); k++)
        *element(x, k) = (st_real)(sign * (double)index_of(s, k).n[2 + axis]);
    st_layer_forward((st_layer *)l, x, st_narrow(y, 0, 0, s.n[0]));
    st_tensor_free(x);
    return y;
}

static edges find_edges(const st_layer *l, st_shape s)
{
    edges e;
    for (int axis = 0; axis < 2; axis++)
        e.of[axis][0] = ramp_through(l, s, axis, -1), e.of[axis][1] = ramp_through(l, s, axis, 1);
    return e;
}

static void free_edges(edges e)
{
    for (int axis = 0; axis < 2; axis++) st_tensor_free(e.of[axis][0]), st_tensor_free(e.of[axis][1]);
}

static void drawn_elements(pane *p, st_tensor x, st_shape at)
{
    ptrdiff_t first[2], last[2];
    for (int axis = 0; axis < 2; axis++) {
        first[axis] = (ptrdiff_t) - *st_at(p->edges->of[axis][0], at);
        last[axis] = (ptrdiff_t)*st_at(p->edges->of[axis][1], at);
    }
    for (ptrdiff_t r = first[0]; r <= last[0]; r++)
        for (ptrdiff_t c = first[1]; c <= last[1]; c++) add_element(p, false, x, at, r, c);
}

static bool has_drawn(const st_layer *l)
{
    return strstr(l->type->name, "fractional") || strstr(l->type->name, "s3");
}

static void find_elements(pane *p, bool zeros, st_tensor x, st_shape at, st_shape y)
{
    if (p->edges) drawn_elements(p, x, at);
    else if (strstr(p->l->type->name, "adaptive")) adaptive_elements(p, x, at, y);
    else regular_elements(p, zeros, x, at);
}

static void find_parameters(pane *p, st_shape at)
{
    if (p->l->params == 0) return;
    const st_tensor w = p->l->param[0];
    const ptrdiff_t each = st_numel(w) / w.shape.n[0], channel = w.shape.n[0] > 1 ? at.n[1] : 0;
    for (ptrdiff_t k = 0; k < each; k++) p->param[k] = (double)*element(w, channel * each + k);
}

/* f's derivative by *varied, times dy. */
static double slope(const pane *p, definition *f, number *varied, double dy)
{
    const double tiny = 1e-100;
    const number before = *varied;
    *varied += tiny * I;
    const double result = dy * cimag(f(p)) / tiny;
    *varied = before;
    return result;
}

/* dparam, which sums over all windows, is in double; NULL: there are no parameters. */
static void add_slopes(pane *p, definition *f, naive *want, st_shape at, double dy, double *dparam)
{
    for (int i = 0; i < p->n && p->n > 0; i++)
        if (p->row[i] >= 0)
            *st_at(want->dx, ST_INDEX(at.n[0], at.n[1], p->row[i], p->column[i])) +=
                (st_real)slope(p, f, &p->x[i], dy);
    if (p->l->params == 0) return;
    const ptrdiff_t each = st_numel(want->dweight) / want->dweight.shape.n[0],
                    channel = want->dweight.shape.n[0] > 1 ? at.n[1] : 0;
    for (ptrdiff_t k = 0; k < each; k++) dparam[channel * each + k] += slope(p, f, &p->param[k], dy);
}

static bool has_zeros(const st_layer *l, const struct family *f)
{
    const bool chosen = l->type->fields == st_pool_fields;
    return f->zeros || (chosen && ((const st_pool_options *)l->options)->pad_value == ST_PAD_ZERO);
}

naive want_pooling(const st_layer *l, st_tensor x, st_tensor dy)
{
    const struct family *f = families;
    while (strcmp(f->type, l->type->name) != 0) f++;
    st_shape out = l->y;
    out.n[0] = x.shape.n[0];
    naive want = { .y = st_tensor_new(out), .dx = st_tensor_new(x.shape) };
    if (l->params > 0) want.dweight = st_tensor_new(l->param[0].shape);
    const ptrdiff_t params = l->params > 0 ? st_numel(want.dweight) : 0;
    pane *p = malloc(sizeof *p);
    double *dparam = calloc((size_t)params + 1, sizeof *dparam);
    const edges seen = has_drawn(l) ? find_edges(l, x.shape) : (edges){ 0 };
    for (ptrdiff_t k = 0; k < st_numel(want.y); k++) {
        const st_shape at = index_of(out, k);
        const st_random_key key = st_call_random(&(st_call){ .layer = l });
        const uint32_t word = st_random_bits(key, (uint64_t)k / 4).word[k % 4];
        *p = (pane){ .l = l, .uniform = (double)(word >> 8) * 0x1p-24 };
        if (has_drawn(l)) p->edges = &seen;
        find_elements(p, has_zeros(l, f), x, at, out);
        find_parameters(p, at);
        if (p->n == 0) continue;
        *element(want.y, k) = (st_real)creal(f->value(p));
        add_slopes(p, f->value, &want, at, (double)*element(dy, k), dparam);
    }
    for (ptrdiff_t k = 0; k < params; k++) *element(want.dweight, k) = (st_real)dparam[k];
    free(p), free(dparam), free_edges(seen);
    return want;
}

/* ---- blur ------------------------------------------------------------------------------------------ */

static double choose(int n, int k)
{
    return round(tgamma(n + 1.) / tgamma(k + 1.) / tgamma(n - k + 1.));
}

/* The place of element k of window i along an axis; -1: zeros. */
static ptrdiff_t blurred_place(const st_blur_pool_options *o, int axis, ptrdiff_t size, ptrdiff_t i, int k)
{
    const ptrdiff_t before = o->padding[axis] + (axis ? o->pad_width : o->pad_height)[0],
                    at = i * o->stride[axis] + k - before;
    if (at >= 0 && at < size) return at;
    if (o->edge == ST_BLUR_ZEROS) return -1;
    if (o->edge == ST_BLUR_REPLICATE) return at < 0 ? 0 : size - 1;
    return at < 0 ? -at : size - 1 - (at - (size - 1));
}

naive want_blur(const st_layer *l, st_tensor x, st_tensor dy)
{
    const st_blur_pool_options *o = l->options;
    naive want = { .y = st_tensor_new(dy.shape), .dx = st_tensor_new(x.shape) };
    for (ptrdiff_t k = 0; k < st_numel(dy); k++) {
        const st_shape at = index_of(dy.shape, k);
        for (int kh = 0; kh < o->kernel[0]; kh++)
            for (int kw = 0; kw < o->kernel[1]; kw++) {
                const ptrdiff_t r = blurred_place(o, 0, x.shape.n[2], at.n[2], kh),
                                c = blurred_place(o, 1, x.shape.n[3], at.n[3], kw);
                if (r < 0 || c < 0) continue;
                const double weight = choose(o->kernel[0] - 1, kh) * choose(o->kernel[1] - 1, kw) /
                                      pow(2, o->kernel[0] + o->kernel[1] - 2);
                const st_shape place = ST_INDEX(at.n[0], at.n[1], r, c);
                *element(want.y, k) += (st_real)(weight * (double)*st_at(x, place));
                *st_at(want.dx, place) += (st_real)(weight * (double)*element(dy, k));
            }
    }
    return want;
}

/* ---- local importance, pyramids, unpooling ----------------------------------------------------------- */

/* y of a window over all channels [C, n] of its elements, with a row [C] of the weight. */
static number importance_mean(const number *x, const number *row, ptrdiff_t channels, ptrdiff_t own, int n)
{
    number sum = 0, weights = 0;
    for (int i = 0; i < n; i++) {
        number g = 0;
        for (ptrdiff_t k = 0; k < channels; k++) g += row[k] * x[k * n + i];
        sum += cexp(g) * x[own * n + i], weights += cexp(g);
    }
    return sum / weights;
}

naive want_local_importance(const st_layer *l, st_tensor x, st_tensor dy)
{
    const ptrdiff_t channels = x.shape.n[1];
    const double tiny = 1e-100;
    naive want = { .y = st_tensor_new(dy.shape), .dx = st_tensor_new(x.shape) };
    want.dweight = st_tensor_new(l->param[0].shape);
    pane *p = malloc(sizeof *p);
    for (ptrdiff_t k = 0; k < st_numel(dy); k++) {
        const st_shape at = index_of(dy.shape, k);
        const double d = (double)*element(dy, k);
        *p = (pane){ .l = l };
        regular_elements(p, false, x, at);
        if (p->n == 0) continue;
        number *all = calloc((size_t)(channels * p->n), sizeof *all),
               *row = calloc((size_t)channels, sizeof *row);
        for (ptrdiff_t c = 0; c < channels; c++) {
            row[c] = (double)*st_at(l->param[0], ST_INDEX(at.n[1], c));
            for (int i = 0; i < p->n; i++)
                all[c * p->n + i] = (double)*st_at(x, ST_INDEX(at.n[0], c, p->row[i], p->column[i]));
        }
        *element(want.y, k) = (st_real)creal(importance_mean(all, row, channels, at.n[1], p->n));
        for (ptrdiff_t c = 0; c < channels; c++) {
            row[c] += tiny * I;
            *st_at(want.dweight, ST_INDEX(at.n[1], c)) +=
                (st_real)(d * cimag(importance_mean(all, row, channels, at.n[1], p->n)) / tiny);
            row[c] -= tiny * I;
            for (int i = 0; i < p->n; i++) {
                all[c * p->n + i] += tiny * I;
                *st_at(want.dx, ST_INDEX(at.n[0], c, p->row[i], p->column[i])) +=
                    (st_real)(d * cimag(importance_mean(all, row, channels, at.n[1], p->n)) / tiny);
                all[c * p->n + i] -= tiny * I;
            }
        }
        free(all), free(row);
    }
    free(p);
    return want;
}

naive want_pyramid(const st_layer *l, st_tensor x, st_tensor dy)
{
    const int levels = OPTIONS(st_spatial_pyramid_pool_options).levels;
    naive want = { .y = st_tensor_new(dy.shape), .dx = st_tensor_new(x.shape) };
    pane *p = malloc(sizeof *p);
    ptrdiff_t feature = 0;
    for (int level = 1; level <= levels; level++) {
        const st_shape parts = ST_SHAPE(x.shape.n[0], x.shape.n[1], level, level);
        for (ptrdiff_t k = 0; k < st_shape_numel(parts, "parts"); k++) {
            const st_shape at = index_of(parts, k);
            const ptrdiff_t each = x.shape.n[1] * level * level;
            const st_shape place = ST_INDEX(at.n[0], feature + k % each);
            *p = (pane){ .l = l };
            adaptive_elements(p, x, at, parts);
            *st_at(want.y, place) = (st_real)creal(maximum(p));
            add_slopes(p, maximum, &want, at, (double)*st_at(dy, place), NULL);
        }
        feature += x.shape.n[1] * level * level;
    }
    free(p);
    return want;
}

/* The layers inside are maxpool and a leaky_relu of slope 1/2. */
naive want_unpooled(const st_layer *l, st_tensor x, st_tensor dy)
{
    const st_layer *pool = l->child[0];
    const bool zeros = ((const st_maxpool_options *)pool->options)->pad_value == ST_PAD_ZERO;
    st_shape pooled = pool->y;
    pooled.n[0] = x.shape.n[0];
    naive want = { .y = st_tensor_new(x.shape), .dx = st_tensor_new(x.shape) };
    pane *p = malloc(sizeof *p);
    for (ptrdiff_t k = 0; k < st_shape_numel(pooled, "windows"); k++) {
        const st_shape at = index_of(pooled, k);
        *p = (pane){ .l = pool };
        regular_elements(p, zeros, x, at);
        int best = 0;
        for (int i = 1; i < p->n; i++)
            if (creal(p->x[i]) > creal(p->x[best])) best = i;
        if (p->n == 0 || p->row[best] < 0) continue;
        const double most = creal(p->x[best]), slope_there = most > 0 ? 1 : 0.5;
        const st_shape place = ST_INDEX(at.n[0], at.n[1], p->row[best], p->column[best]);
        *st_at(want.y, place) += (st_real)(most * slope_there);
        *st_at(want.dx, place) += (st_real)((double)*st_at(dy, place) * slope_there);
    }
    free(p);
    return want;
}
