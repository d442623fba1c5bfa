/* gated.c: gated max-average pooling: Lee, Gallagher and Tu, Generalizing pooling functions in convolutional
 * neural networks: mixed, gated, and tree, AISTATS 2016.
 *
 *     y = g max x + (1 - g) mean x,  g = sigmoid(sum of gate[i] x[i])
 *
 * The gate [1, n] or [C, n] is trained. Padding is zeros, so that every window has n elements. */
#include "layers/pooling/lanes.h"

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

static void gates(const st_window *w, const lanes *x, st_real *g)
{
    EACH_LANE(k) g[k] = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) EACH_LANE(k) g[k] -= w->param[0][i] * x[i][k];
    EACH_LANE(k) g[k] = 1 / (1 + lane_exp(g[k]));
}

static void values(const st_window *w, const lanes *x, st_real *y)
{
    lanes g, most, sum;
    gates(w, x, g), lanes_maximum(w, x, most, NULL), lanes_sum(w, x, sum);
    EACH_LANE(k) y[k] = g[k] * most[k] + (1 - g[k]) * (sum[k] / (st_real)w->n);
}

static void adjoints(const st_window *w, const lanes *x, const st_real *y, const st_real *dy, lanes *dx)
{
    (void)y;
    lanes g, most, place, slope;
    gates(w, x, g), lanes_maximum(w, x, most, place), lanes_sum(w, x, slope);
    EACH_LANE(k) slope[k] = dy[k] * g[k] * (1 - g[k]) * (most[k] - slope[k] / (st_real)w->n);
    for (ptrdiff_t i = 0; i < w->n; i++) {
        const st_real weight = w->param[0][i], share = 1 / (st_real)w->n;
        double sum = 0;
        EACH_LANE(k)
        dx[i][k] = dy[k] * ((1 - g[k]) * share + (place[k] == (st_real)i ? g[k] : 0)) + slope[k] * weight;
        EACH_LANE(k) sum += (double)(slope[k] * x[i][k]);
        w->dparam[0][i] += sum;
    }
}

static const st_field fields[] = { ST_WINDOW_FIELDS(st_gated_pool_options),
                                   PER_CHANNEL_FIELD(st_gated_pool_options),
                                   { 0 } };

POOLING_BY_LANES(gated_pool, fields, values, adjoints, NULL, .plan = plan, .value = value, .adjoint = adjoint)
