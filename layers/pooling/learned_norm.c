/* learned_norm.c: learned-norm pooling: Gulcehre, Cho, Pascanu and Bengio, Learned-norm pooling for deep
 * feedforward and recurrent neural networks, ECML 2014.
 *
 *     y = (mean of |x|^p)^(1/p),  p = 1 + log(1 + exp(rho))
 *
 * rho is trained, one for all channels or one for each; its initial value is that of the option p. */
#include "layers/pooling/power.h"

#include <math.h>

static int plan(st_layer *l, ptrdiff_t channels, ptrdiff_t n)
{
    (void)n;
    const double p = ((const st_learned_norm_pool_options *)l->options)->p;
    if (p <= 1) return st_layer_refuse(l, "p is %g, expected more than 1", p);
    const double rho = p > 40 ? p - 1 : log(expm1(p - 1));
    return pooling_parameter(l, "rho", channels, ST_SHAPE(1), (st_init){ .constant = rho });
}

static double size(const st_window *w, ptrdiff_t i)
{
    return fabs((double)w->x[i]);
}

static double order(const st_window *w)
{
    const double rho = (double)w->param[0][0];
    return 1 + (rho > 0 ? rho + log1p(exp(-rho)) : log1p(exp(rho)));
}

static st_real value(const st_window *w)
{
    return (st_real)power_mean(w, size, order(w));
}

static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    const double slope = power_adjoint(w, size, order(w), (double)dy, dx);
    w->dparam[0][0] += slope / (1 + exp(-(double)w->param[0][0]));
    for (ptrdiff_t i = 0; i < w->n; i++)
        if (w->x[i] < 0) dx[i] = -dx[i];
}

static const st_field fields[] = {
    ST_WINDOW_FIELDS(st_learned_norm_pool_options),
    POOL_FIELD(p, ST_FIELD_REAL, st_learned_norm_pool_options, .fallback = 2, .least = 1),
    PER_CHANNEL_FIELD(st_learned_norm_pool_options),
    { 0 },
};

POOLING(learned_norm_pool, st_pool_plan, fields, .plan = plan, .value = value, .adjoint = adjoint,
        .pad_value = ST_PAD_LOWEST)
