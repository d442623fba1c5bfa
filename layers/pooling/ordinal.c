/* ordinal.c: ordinal pooling: Deliège, Istasse, Kumar, De Vleeschouwer and Van Droogenbroeck, Ordinal
 * pooling, BMVC 2019.
 *
 *     y = sum of weight[k] s[k],  s = x in order, the greatest first
 *
 * The weights [1, n] or [C, n] are trained; they begin as 1/n and are not constrained. Padding is zeros, so
 * that every window has n elements. */
#include "layers/pooling/family.h"

static int plan(st_layer *l, ptrdiff_t channels, ptrdiff_t n)
{
    return pooling_parameter(l, "weight", channels, ST_SHAPE(1, n), (st_init){ .constant = 1 / (double)n });
}

static st_real value(const st_window *w)
{
    const ptrdiff_t *s = window_order(w);
    double sum = 0;
    for (ptrdiff_t k = 0; k < w->n; k++) sum += (double)w->param[0][k] * (double)w->x[s[k]];
    return (st_real)sum;
}

static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    const ptrdiff_t *s = window_order(w);
    for (ptrdiff_t k = 0; k < w->n; k++) {
        dx[s[k]] = dy * w->param[0][k];
        w->dparam[0][k] += (double)dy * (double)w->x[s[k]];
    }
}

POOLING_BY_WINDOWS(ordinal_pool, st_pool_plan, PER_CHANNEL_FIELD(st_ordinal_pool_options), .plan = plan,
                   .value = value, .adjoint = adjoint)
