/* power.h: the mean of powers, y = (mean of a[i]^p)^(1/p) of a[i] >= 0. */
#ifndef STRIDE_LAYERS_POOLING_POWER_H
#define STRIDE_LAYERS_POOLING_POWER_H

#include "layers/pooling/lanes.h"

/* Element i of a window as a[i]. */
typedef double power_base(const st_window *w, ptrdiff_t i);

/* Powers are taken of ratios to the greatest a, so that they do not overflow. NaN propagates; y of no
 * elements is 0. */
double power_mean(const st_window *w, power_base *base, double p);

/* Writes dx[i] = dy (dy/da[i]), or 0 where a[i] is 0, and returns dy (dy/dp). */
double power_adjoint(const st_window *w, power_base *base, double p, double dy, st_real *dx);

/* ---- lanes, where p is not near 0 ------------------------------------------------------------------- */

/* An element as a. */
typedef st_real power_lane(const st_window *w, st_real x);

/* The greatest a, and log of it; sums of r^p and, unless `weighted` is NULL, of r^p log r; r^p itself. */
static inline void lanes_powers(const st_window *w, const lanes *x, power_lane *base, st_real p,
                                st_real *most, st_real *sum, st_real *weighted, lanes *power)
{
    lanes log_most, all;
    EACH_LANE(k) most[k] = base(w, x[0][k]);
    for (ptrdiff_t i = 1; i < w->n; i++) EACH_LANE(k)
        {
            const st_real a = base(w, x[i][k]);
            most[k] = a <= most[k] ? most[k] : most[k] != most[k] ? most[k] : a;
        }
    EACH_LANE(k) log_most[k] = lane_log(most[k]), sum[k] = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) {
        EACH_LANE(k)
        {
            const st_real a = base(w, x[i][k]);
            const st_real ratio = lane_log(a) - log_most[k], r = lane_exp(p * ratio);
            all[k] = a > 0 ? r : 0;
            sum[k] += all[k];
            if (weighted) weighted[k] += all[k] * ratio;
        }
        if (power) EACH_LANE(k) power[i][k] = all[k];
    }
}

static inline void lanes_power_mean(const st_window *w, const lanes *x, power_lane *base, st_real p,
                                    st_real *y)
{
    lanes most, sum;
    lanes_powers(w, x, base, p, most, sum, NULL, NULL);
    EACH_LANE(k) sum[k] = most[k] * lane_exp(lane_log(sum[k] / (st_real)w->n) / p);
    EACH_LANE(k) y[k] = most[k] > 0 && most[k] <= ST_REAL_MAX ? sum[k] : most[k];
}

/* Writes dx[i] = dy (dy/da[i]); returns the sum of dy (dy/dp). */
static inline double lanes_power_adjoint(const st_window *w, const lanes *x, power_lane *base, st_real p,
                                         const st_real *dy, lanes *dx)
{
    lanes most, sum, weighted = { 0 }, scale;
    double slope = 0;
    lanes_powers(w, x, base, p, most, sum, weighted, dx);
    EACH_LANE(k)
    {
        const st_real log_mean = lane_log(sum[k] / (st_real)w->n),
                      y = dy[k] * most[k] * lane_exp(log_mean / p);
        weighted[k] = most[k] > 0 ? y * (weighted[k] / (p * sum[k]) - log_mean / (p * p)) : 0;
        scale[k] = y / sum[k]; /* not used of zeros alone */
    }
    for (ptrdiff_t i = 0; i < w->n; i++) EACH_LANE(k)
        {
            const st_real a = base(w, x[i][k]);
            dx[i][k] = a == 0 ? 0 : dx[i][k] * scale[k] / a;
        }
    EACH_LANE(k) slope += (double)weighted[k];
    return slope;
}

#endif
