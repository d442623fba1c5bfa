/* gem.c: generalised-mean pooling (GeM): Radenović, Tolias and Chum, Fine-tuning CNN image retrieval with no
 * human annotation, TPAMI 2018.
 *
 *     y = (mean of max(x, epsilon)^p)^(1/p)
 *
 * p is trained, one for all channels or one for each; its initial value is the option p. */
#include "layers/pooling/power.h"

#include <math.h>

static double epsilon_of(const st_window *w)
{
    return ((const st_gem_pool_options *)w->options)->epsilon;
}

static int plan(st_layer *l, ptrdiff_t channels, ptrdiff_t n)
{
    (void)n;
    const double p = ((const st_gem_pool_options *)l->options)->p;
    return pooling_parameter(l, "p", channels, ST_SHAPE(1), (st_init){ .constant = p });
}

static double clamped(const st_window *w, ptrdiff_t i)
{
    const double x = (double)w->x[i], epsilon = epsilon_of(w);
    return x < epsilon ? epsilon : x;
}

static st_real value(const st_window *w)
{
    return (st_real)power_mean(w, clamped, (double)w->param[0][0]);
}

static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    w->dparam[0][0] += power_adjoint(w, clamped, (double)w->param[0][0], (double)dy, dx);
    for (ptrdiff_t i = 0; i < w->n; i++)
        if ((double)w->x[i] <= epsilon_of(w)) dx[i] = 0;
}

static const st_field fields[] = {
    ST_WINDOW_FIELDS(st_gem_pool_options),
    POOL_FIELD(p, ST_FIELD_REAL, st_gem_pool_options, .fallback = 3),
    POOL_FIELD(epsilon, ST_FIELD_REAL, st_gem_pool_options, .fallback = 1e-6),
    PER_CHANNEL_FIELD(st_gem_pool_options),
    { 0 },
};

POOLING(gem_pool, st_pool_plan, fields, .plan = plan, .value = value, .adjoint = adjoint,
        .pad_value = ST_PAD_LOWEST)
