/* stochastic.c: stochastic pooling: Zeiler and Fergus, Stochastic pooling for regularization of deep
 * convolutional neural networks, ICLR 2013.
 *
 *     training:  y = x[k], where k is drawn with probability p[k] = x[k] / sum of x
 *     inference: y = sum of p[i] x[i]
 *
 * The paper's x are at least 0. An element below 0 counts as 0; where no element is above 0, all are equally
 * probable. In training the gradient goes to x[k]. */
#include "layers/pooling/family.h"

#include <math.h>

/* NaN stays. */
static double chance(st_real x)
{
    return x <= 0 ? 0 : (double)x;
}

static double sum_of_chances(const st_window *w)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) sum += chance(w->x[i]);
    return sum;
}

static ptrdiff_t draw(const st_window *w)
{
    const double sum = sum_of_chances(w), uniform = (double)window_random(w);
    if (sum == 0) return (ptrdiff_t)(uniform * (double)w->n);
    double left = uniform * sum;
    ptrdiff_t k = 0, last = 0;
    for (; k < w->n && !(left < 0); k++) { /* NaN: up to the element that makes it so */
        const double part = chance(w->x[k]);
        if (!isfinite(part)) return k;
        if (part > 0) last = k;
        left -= part;
    }
    return last;
}

static st_real value(const st_window *w)
{
    if (w->n == 0) return 0;
    if (w->training) return w->x[draw(w)];
    const double sum = sum_of_chances(w);
    double squares = 0;
    if (sum == 0) return (st_real)window_mean(w);
    for (ptrdiff_t i = 0; i < w->n; i++) squares += chance(w->x[i]) * chance(w->x[i]);
    return isinf(sum) ? (st_real)sum : (st_real)(squares / sum);
}

static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    const double sum = w->training ? 0 : sum_of_chances(w);
    fill_window(w, w->training || w->n == 0 ? 0 : (double)dy / (double)w->n, dx);
    if (w->training && w->n > 0) dx[draw(w)] = dy;
    for (ptrdiff_t i = 0; i < w->n && sum != 0; i++)
        dx[i] = w->x[i] <= 0 ? 0 : (st_real)((double)dy * (2 * (double)w->x[i] - (double)y) / sum);
}

POOLING(stochastic_pool, st_pool_plan, st_pool_fields, .value = value, .adjoint = adjoint,
        .pad_value = ST_PAD_LOWEST)
