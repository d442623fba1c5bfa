/* mixed.c: mixed max-average pooling: Lee, Gallagher and Tu, Generalizing pooling functions in convolutional
 * neural networks: mixed, gated, and tree, AISTATS 2016.
 *
 *     y = a max x + (1 - a) mean x
 *
 * a is trained: one number, or one for each channel. It is not kept in 0 ... 1. */
#include "layers/pooling/family.h"

static int plan(st_layer *l, ptrdiff_t channels, ptrdiff_t n)
{
    (void)n;
    return pooling_parameter(l, "mix", channels, ST_SHAPE(1), (st_init){ .constant = 0.5 });
}

static st_real value(const st_window *w)
{
    const double a = (double)w->param[0][0];
    return w->n > 0 ? (st_real)(a * (double)pool_max_value(w) + (1 - a) * window_mean(w)) : 0;
}

static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    if (w->n == 0) return;
    const double a = (double)w->param[0][0];
    const ptrdiff_t most = pool_maximum(w);
    fill_window(w, (double)dy * (1 - a) / (double)w->n, dx);
    dx[most] += (st_real)((double)dy * a);
    w->dparam[0][0] += (double)dy * ((double)w->x[most] - window_mean(w));
}

static const st_field fields[] = { ST_WINDOW_FIELDS(st_mixed_pool_options),
                                   PER_CHANNEL_FIELD(st_mixed_pool_options),
                                   { 0 } };

POOLING(mixed_pool, st_pool_plan, fields, .plan = plan, .value = value, .adjoint = adjoint,
        .pad_value = ST_PAD_LOWEST)
