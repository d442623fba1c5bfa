/* norm_elements.h: the mean and the deviation of a set from its sums, and the second loop of norm.c over its
 * elements, which writes y or dx: by rows, in the caches or past them, or by columns. */
#ifndef STRIDE_LAYERS_FAST_NORM_ELEMENTS_H
#define STRIDE_LAYERS_FAST_NORM_ELEMENTS_H

#include "layers/fast/norm_pass.h"

/* ---- moments --------------------------------------------------------------------------------------- */

/* The moments in a unit whose squares neither overflow nor underflow: in double the square of 1e155 does. */
APART static set_moments measure_extreme(norm_set s, const st_real *x, bool centred)
{
    set_moments m = { .unit = 1e-60 };
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

static double deviation_of(set_moments m, double epsilon)
{
    return m.unit * sqrt(m.variance + epsilon / m.unit / m.unit);
}

/* For each of `count` adjacent sets a number close to the mean, which is the mean itself if all elements are
 * equal. The variance is the mean square of differences from it, less the square of their mean: few digits
 * are lost, since the second is small. */
INLINE void near_means(st_real *near, norm_sums *sums, norm_set s, ptrdiff_t count, const st_real *x)
{
    const ptrdiff_t few = smallest(s.length, 64);
    for (ptrdiff_t k = 0; k < count; k++) near[k] = x[k * s.length];
    add_rows(sums, (norm_rows){ count, few, s.length, x, x, near, .shifted = true });
    for (ptrdiff_t k = 0; k < count; k++)
        near[k] += (st_real)(sums[k].g / (double)few), sums[k] = (norm_sums){ 0 };
}

/* The moments of x from its sums. Not centred: near is 0 and the mean counts as 0. */
INLINE set_moments moments_of(norm_set s, const st_real *x, st_real near, norm_sums sums, double epsilon,
                              bool centred)
{
    const double count = (double)(s.rows * s.length), mean = centred ? sums.g / count : 0,
                 variance = (sums.product - mean * sums.g) / count;
    set_moments m = { (double)near + mean, variance < 0 ? 0 : variance, 1, 0 };
    if (!isfinite(variance) || m.variance + epsilon < 1e-28) m = measure_extreme(s, x, centred);
    m.deviation = deviation_of(m, epsilon);
    return m;
}

INLINE set_moments batch_moments(const norm_pass *p, ptrdiff_t k, const st_real *x, st_real near,
                                 norm_sums sums)
{
    const st_tensor *state = p->c->layer->state;
    set_moments m = { (double)st_data(state[NORM_RUNNING_MEAN])[k],
                      (double)st_data(state[NORM_RUNNING_VAR])[k], 1, 0 };
    m.deviation = deviation_of(m, p->plan->norm.epsilon);
    if (!p->c->training) return m;
    m = moments_of(p->set, x, near, sums, p->plan->norm.epsilon, true);
    norm_update_running(p->c, k, (double)(p->set.rows * p->set.length), m.mean, m.variance * m.unit * m.unit);
    return m;
}

/* ---- elements -------------------------------------------------------------------------------------- */

/* From one octet on, the last one ends with the row. It is computed before y is written, which may be x. */
INLINE void norm_apply(ptrdiff_t n, st_real *y, const st_real *x, double mean, double scale, double shift)
{
    const st_real middle = (st_real)mean, slope = (st_real)scale, height = (st_real)shift;
#define APPLY(x) ((x)-middle) * slope + height
    if (n < OCTET)
        for (ptrdiff_t i = 0; i < n; i++) y[i] = APPLY(x[i]);
    else {
        const octet end = APPLY(OCTET_OF(x, n - OCTET));
        for (ptrdiff_t i = 0; i < n - OCTET; i += OCTET) *(octet_at *)(y + i) = APPLY(OCTET_OF(x, i));
        *(octet_at *)(y + n - OCTET) = end;
    }
#undef APPLY
}

INLINE norm_slopes slopes_of(double mean, double deviation, norm_sums of_g, double per_element)
{
    const double scale = 1 / deviation;
    return (norm_slopes){ (st_real)mean, (st_real)(of_g.g * per_element),
                          (st_real)(of_g.product * per_element * scale * scale), (st_real)scale };
}

/* With a weight for each element, w is not used. */
INLINE void norm_adjoint(ptrdiff_t n, st_real *dx, const st_real *dy, const st_real *weights, double w,
                         const st_real *x, norm_slopes s)
{
    const st_real weight = (st_real)w;
#define ADJOINT(g, x) ((g)-s.mean_g - ((x)-s.middle) * s.slope) * s.scale
#define OCTET_ADJOINT(i)                                                                                     \
    ADJOINT(OCTET_OF(dy, i) * (weights ? (octet)OCTET_OF(weights, i) : (octet){ 0 } + weight), OCTET_OF(x, i))
    if (n < OCTET)
        for (ptrdiff_t i = 0; i < n; i++) dx[i] = ADJOINT(dy[i] * (weights ? weights[i] : weight), x[i]);
    else {
        const octet end = OCTET_ADJOINT(n - OCTET);
        for (ptrdiff_t i = 0; i < n - OCTET; i += OCTET) *(octet_at *)(dx + i) = OCTET_ADJOINT(i);
        *(octet_at *)(dx + n - OCTET) = end;
    }
#undef OCTET_ADJOINT
#undef ADJOINT
}

/* y = (x - mean) scale weight + bias, with a weight and a bias for each element from `begin` on of set k. */
INLINE void apply_elements(const norm_pass *p, ptrdiff_t k, ptrdiff_t begin, ptrdiff_t n, st_real *y,
                           const st_real *x)
{
    const ptrdiff_t first = first_weight(p->plan, k) + begin;
    const st_real mean = p->mean[k], scale = 1 / p->deviation[k], *weight = p->weight + first,
                  *bias = p->bias ? p->bias + first : NULL;
    for (ptrdiff_t i = 0; i < n; i++) {
        const st_real v = (x[i] - mean) * scale * weight[i];
        y[i] = bias ? v + bias[i] : v;
    }
}

/* norm_apply and norm_adjoint of pieces of a row that is written past the caches. */
typedef struct applied_row {
    double mean, scale, shift;
    ptrdiff_t ahead; /* to the elements that are fetched meanwhile; 0: none */
} applied_row;

WIDE static void apply_piece(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    const applied_row *a = context;
    (void)stride;
    if (a->ahead) prefetch(n, at[1] + a->ahead);
    norm_apply(n, at[0], at[1], a->mean, a->scale, a->shift);
}

APART static void stream_applied(const norm_pass *p, ptrdiff_t n, st_real *y, const st_real *x, double mean,
                                 double scale, double shift)
{
    applied_row a = { mean, scale, shift, p->plan->norm.of_batch ? p->together * p->set.length : 0 };
    stream_row(n, 2, (st_real *const[]){ y, (st_real *)x }, apply_piece, &a);
}

typedef struct adjoined_row {
    double weight;
    norm_slopes slopes;
} adjoined_row;

WIDE static void adjoint_piece(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    const adjoined_row *a = context;
    (void)stride;
    norm_adjoint(n, at[0], at[1], at[3], a->weight, at[2], a->slopes);
}

APART static void stream_adjoint(ptrdiff_t n, st_real *dx, const st_real *dy, const st_real *weights,
                                 double w, const st_real *x, norm_slopes s)
{
    adjoined_row a = { w, s };
    stream_row(n, weights ? 4 : 3, (st_real *const[]){ dx, (st_real *)dy, (st_real *)x, (st_real *)weights },
               adjoint_piece, &a);
}

/* One of the two; `streams` is the pass's, read before a loop. */
INLINE void run_apply(bool streams, const norm_pass *p, ptrdiff_t n, st_real *y, const st_real *x,
                      double mean, double scale, double shift)
{
    if (__builtin_expect(streams, false)) stream_applied(p, n, y, x, mean, scale, shift);
    else norm_apply(n, y, x, mean, scale, shift);
}

INLINE void run_adjoint(bool streams, ptrdiff_t n, st_real *dx, const st_real *dy, const st_real *weights,
                        double w, const st_real *x, norm_slopes s)
{
    if (__builtin_expect(streams, false)) stream_adjoint(n, dx, dy, weights, w, x, s);
    else norm_adjoint(n, dx, dy, weights, w, x, s);
}

/* norm_apply of rows by columns. */
INLINE void apply_columns(const norm_pass *p, const norm_columns *c, ptrdiff_t first, st_real *y)
{
    const ptrdiff_t n = c->count * c->set.length;
    st_real *const *column = c->room->column, *middle = column[0], *slope = column[1], *height = column[2],
                   *each = column[3];
    memset(height, 0, (size_t)n * sizeof *height);
    each_column(c, p->mean + first, middle);
    for (ptrdiff_t k = 0; k < c->count; k++)
        each[k] = (st_real)(norm_weight(p, first + k) / (double)p->deviation[first + k]);
    each_column(c, each, slope);
    if (p->bias) each_column(c, p->bias + first, height);
    for (ptrdiff_t r = 0; r < c->set.rows; r++) {
        const st_real *x = c->x + r * c->stride_x;
        st_real *to = y + r * c->set.stride;
        prefetch_row(c, r, x, c->stride_x);
        for (ptrdiff_t i = 0; i < n; i++) to[i] = (x[i] - middle[i]) * slope[i] + height[i];
    }
}

/* norm_adjoint of rows by columns; or, where mean and variance are constants, dx = dy slope. */
INLINE void adjoint_columns(const norm_pass *p, const norm_columns *c, ptrdiff_t first,
                            const norm_slopes *slopes, bool constants, st_real *dx)
{
    const ptrdiff_t n = c->count * c->set.length;
    st_real *const *column = c->room->column, *weight = column[0], *middle = column[1], *mean_g = column[2],
                   *slope = column[3], *scale = column[4];
    for (ptrdiff_t i = 0; i < n; i++) {
        const ptrdiff_t k = i / c->set.length;
        const norm_slopes s = slopes[k];
        const double w = norm_weight(p, first + k);
        weight[i] = (st_real)(constants ? w / (double)p->deviation[first + k] : w);
        middle[i] = s.middle, mean_g[i] = s.mean_g, slope[i] = s.slope, scale[i] = s.scale;
    }
    for (ptrdiff_t r = 0; r < c->set.rows; r++) {
        const st_real *x = c->x + r * c->stride_x, *dy = c->g + r * c->stride_g;
        prefetch_row(c, r, x, c->stride_x), prefetch_row(c, r, dy, c->stride_g);
        st_real *to = dx + r * c->set.stride;
        if (constants)
            for (ptrdiff_t i = 0; i < n; i++) to[i] = dy[i] * weight[i];
        else
            for (ptrdiff_t i = 0; i < n; i++)
                to[i] = (weight[i] * dy[i] - mean_g[i] - (x[i] - middle[i]) * slope[i]) * scale[i];
    }
}

#endif
