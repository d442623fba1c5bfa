/* soft.c: SoftPool: Stergiou, Poppe and Kalliatakis, Refining activation downsampling with SoftPool, ICCV
 * 2021.
 *
 *     y = sum of s[i] x[i],  s = softmax(x) over the window
 *     dy/dx[i] = s[i] (1 + x[i] - y) */
#include "layers/pooling/lanes.h"

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

static void values(const st_window *w, const lanes *x, st_real *y)
{
    lanes most, sum, weighted;
    lanes_maximum(w, x, most, NULL);
    EACH_LANE(k) sum[k] = weighted[k] = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) EACH_LANE(k)
        {
            const st_real power = lane_exp(x[i][k] - most[k]);
            sum[k] += power;
            weighted[k] += power * (x[i][k] < -ST_REAL_MAX ? 0 : x[i][k]);
        }
    EACH_LANE(k) y[k] = most[k] - most[k] == 0 ? weighted[k] / sum[k] : most[k]; /* finite */
}

static void adjoints(const st_window *w, const lanes *x, const st_real *y, const st_real *dy, lanes *dx)
{
    lanes most, sum;
    lanes_maximum(w, x, most, NULL);
    EACH_LANE(k) sum[k] = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) EACH_LANE(k) sum[k] += dx[i][k] = lane_exp(x[i][k] - most[k]);
    EACH_LANE(k) sum[k] = dy[k] / sum[k];
    for (ptrdiff_t i = 0; i < w->n; i++)
        EACH_LANE(k) dx[i][k] *= sum[k] * (x[i][k] < -ST_REAL_MAX ? 0 : 1 + x[i][k] - y[k]);
}

POOLING_BY_LANES(soft_pool, st_pool_fields, values, adjoints, NULL, .value = value, .adjoint = adjoint,
                 .pad_value = ST_PAD_LOWEST)
