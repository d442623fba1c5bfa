/* rank.c: rank-based pooling: Shi, Ye and Wu, Rank-based pooling for deep convolutional neural networks,
 * Neural Networks 83, 2016.
 *
 *     y = sum of p[k] s[k],  p[k] = alpha (1 - alpha)^k / (1 - (1 - alpha)^n),  s = x in order
 *
 * The greatest element is s[0]. With `stochastic`, training draws one element with these probabilities. */
#include "layers/pooling/family.h"

static const st_rank_pool_options *options(const st_window *w)
{
    return w->options;
}

static bool draws(const st_window *w)
{
    return options(w)->stochastic && w->training;
}

/* The rank whose sum of weights (1 - alpha)^k passes a random part of the sum of all. */
static ptrdiff_t drawn(const st_window *w)
{
    const double rest = 1 - options(w)->alpha;
    st_real all = 0, sum = 1;
    double weight = 1;
    for (ptrdiff_t k = 0; k < w->n; k++, weight *= rest) all += (st_real)weight;
    const st_real part = window_random(w) * all;
    ptrdiff_t k = 0;
    for (weight = rest; k < w->n - 1 && part >= sum; k++, weight *= rest) sum += (st_real)weight;
    return k;
}

static st_real value(const st_window *w)
{
    if (w->n == 0) return 0;
    const ptrdiff_t *s = window_order(w);
    if (draws(w)) return w->x[s[drawn(w)]];
    double sum = 0, p = rank_weight(options(w)->alpha, w->n);
    for (ptrdiff_t k = 0; k < w->n && p > 0; k++, p *= 1 - options(w)->alpha) sum += p * (double)w->x[s[k]];
    return (st_real)sum;
}

static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    if (w->n == 0) return;
    const ptrdiff_t *s = window_order(w);
    double p = rank_weight(options(w)->alpha, w->n);
    fill_window(w, 0, dx);
    if (draws(w)) dx[s[drawn(w)]] = dy;
    else
        for (ptrdiff_t k = 0; k < w->n; k++, p *= 1 - options(w)->alpha) dx[s[k]] = (st_real)((double)dy * p);
}

static const st_field fields[] = {
    ST_WINDOW_FIELDS(st_rank_pool_options),
    POOL_FIELD(alpha, ST_FIELD_REAL, st_rank_pool_options, .fallback = 0.5, .below = 1),
    POOL_FIELD(stochastic, ST_FIELD_BOOL, st_rank_pool_options, .fallback = 0),
    { 0 },
};

POOLING(rank_pool, st_pool_plan, fields, .value = value, .adjoint = adjoint, .pad_value = ST_PAD_LOWEST)
