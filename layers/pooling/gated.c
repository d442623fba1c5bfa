/* gated.c: gated max-average pooling: Lee, Gallagher and Tu, Generalizing pooling functions in convolutional
 * neural networks: mixed, gated, and tree, AISTATS 2016.
 *
 *     y = g max x + (1 - g) mean x,  g = sigmoid(sum of gate[i] x[i])
 *
 * The gate [1, n] or [C, n] is trained. Padding is zeros, so that every window has n elements. */
#include "layers/pooling/family.h"

#include <math.h>

static int plan(st_layer *l, ptrdiff_t channels, ptrdiff_t n)
{
    return pooling_parameter(l, "gate", channels, ST_SHAPE(1, n),
                             (st_init){ .uniform = 1 / sqrt((double)n) });
}

static double gate(const st_window *w)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) sum += (double)w->param[0][i] * (double)w->x[i];
    return 1 / (1 + exp(-sum));
}

static st_real value(const st_window *w)
{
    const double g = gate(w);
    return (st_real)(g * (double)pool_max_value(w) + (1 - g) * window_mean(w));
}

static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    const double g = gate(w), d = (double)dy;
    const ptrdiff_t most = pool_maximum(w);
    const double slope = d * g * (1 - g) * ((double)w->x[most] - window_mean(w)); /* of the gate's sum */
    for (ptrdiff_t i = 0; i < w->n; i++) {
        dx[i] = (st_real)(d * (1 - g) / (double)w->n + slope * (double)w->param[0][i]);
        w->dparam[0][i] += slope * (double)w->x[i];
    }
    dx[most] += (st_real)(d * g);
}

static const st_field fields[] = { ST_WINDOW_FIELDS(st_gated_pool_options),
                                   PER_CHANNEL_FIELD(st_gated_pool_options),
                                   { 0 } };

POOLING(gated_pool, st_pool_plan, fields, .plan = plan, .value = value, .adjoint = adjoint)
