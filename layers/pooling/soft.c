/* soft.c: SoftPool: Stergiou, Poppe and Kalliatakis, Refining activation downsampling with SoftPool, ICCV
 * 2021.
 *
 *     y = sum of s[i] x[i],  s = softmax(x) over the window
 *     dy/dx[i] = s[i] (1 + x[i] - y) */
#include "layers/pooling/family.h"

#include <math.h>

static st_real value(const st_window *w)
{
    if (w->n == 0) return 0;
    const double most = (double)pool_max_value(w);
    double sum = 0, weighted = 0;
    if (!isfinite(most)) return (st_real)most;
    for (ptrdiff_t i = 0; i < w->n; i++) {
        const double power = exp((double)w->x[i] - most);
        sum += power;
        if (power > 0) weighted += power * (double)w->x[i];
    }
    return (st_real)(weighted / sum);
}

/* x[i] - y is a difference of differences from the maximum, as y may have been rounded by more than 1. */
static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    if (w->n == 0) return;
    const double most = (double)pool_max_value(w);
    double sum = 0, weighted = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) {
        const double below = (double)w->x[i] - most, power = exp(below);
        sum += power;
        if (power > 0) weighted += power * below;
    }
    for (ptrdiff_t i = 0; i < w->n; i++) {
        const double below = (double)w->x[i] - most, power = exp(below);
        dx[i] = power == 0 ? 0 : (st_real)((double)dy / sum * power * (1 + below - weighted / sum));
    }
}

POOLING(soft_pool, st_pool_plan, st_pool_fields, .value = value, .adjoint = adjoint,
        .pad_value = ST_PAD_LOWEST)
