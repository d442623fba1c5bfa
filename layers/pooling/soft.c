/* soft.c: SoftPool: Stergiou, Poppe and Kalliatakis, Refining activation downsampling with SoftPool, ICCV
 * 2021.
 *
 *     y = sum of s[i] x[i],  s = softmax(x) over the window
 *     dy/dx[i] = s[i] (1 + x[i] - y) */
#include "layers/pooling/family.h"

#include <math.h>

/* The sum of exp(x - most). */
static double sum_of_powers(const st_window *w, double most)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) sum += exp((double)w->x[i] - most);
    return sum;
}

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

static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    if (w->n == 0) return;
    const double most = (double)pool_max_value(w), share = (double)dy / sum_of_powers(w, most);
    for (ptrdiff_t i = 0; i < w->n; i++) {
        const double power = exp((double)w->x[i] - most);
        dx[i] = power == 0 ? 0 : (st_real)(share * power * (1 + (double)w->x[i] - (double)y));
    }
}

POOLING(soft_pool, st_pool_plan, st_pool_fields, .value = value, .adjoint = adjoint,
        .pad_value = ST_PAD_LOWEST)
