/* power.c: see power.h. With r = a / m, m the greatest a:
 *
 *     log y = log m + log(mean of r^p) / p
 *     dy/da = (r^(p - 1) / sum of r^p) (y / m)
 *     dy/dp = y ((sum of r^p log r) / (p sum of r^p) - log(mean of r^p) / p²)
 *
 * and in the limit p = 0, the geometric mean, dy/dp is y times half of the variance of log r. For a small p,
 * r^p - 1 keeps the digits that r^p loses. */
#include "layers/pooling/power.h"

#include <math.h>

/* The sums of a window. */
typedef struct sums {
    double most, power, above, weighted, squares; /* m; sums of r^p, of r^p - 1, of r^p log r, of (log r)² */
} sums;

static const double NEAR_ZERO = 1e-7; /* powers p whose dy/dp is that of the limit */

/* Writes r^p to `powers` unless it is NULL. */
static sums sums_of(const st_window *w, power_base *base, double p, st_real *powers)
{
    sums s = { 0 };
    for (ptrdiff_t i = 0; i < w->n; i++) {
        const double a = base(w, i);
        if (isnan(a) || a > s.most) s.most = a;
    }
    const double most = log(s.most);
    for (ptrdiff_t i = 0; i < w->n && s.most > 0 && !isinf(s.most); i++) {
        const double ratio = log(base(w, i)) - most, power = exp(p * ratio);
        if (powers) powers[i] = (st_real)power;
        s.power += power, s.above += expm1(p * ratio);
        if (power > 0 && powers) s.weighted += power * ratio, s.squares += ratio * ratio;
    }
    return s;
}

static double mean_of(const st_window *w, sums s, double p)
{
    if (!(s.most > 0) || isinf(s.most)) return s.most;
    if (p == 0) return s.most * exp(s.weighted / (double)w->n);
    return s.most * exp(log1p(s.above / (double)w->n) / p);
}

double power_mean(const st_window *w, power_base *base, double p)
{
    sums s = sums_of(w, base, p, NULL);
    for (ptrdiff_t i = 0; i < w->n && p == 0 && s.most > 0; i++) s.weighted += log(base(w, i) / s.most);
    return mean_of(w, s, p);
}

double power_adjoint(const st_window *w, power_base *base, double p, double dy, st_real *dx)
{
    const sums s = sums_of(w, base, p, dx);
    const double y = mean_of(w, s, p), n = (double)w->n;
    if (y == 0 || !isfinite(y)) fill_window(w, y - y, dx); /* 0 or NaN */
    if (y == 0 || !isfinite(y)) return y - y;
    const st_real normal = 4 / ST_REAL_MAX; /* a smaller r^p has lost digits, which r^(p - 1) has */
    for (ptrdiff_t i = 0; i < w->n; i++) {
        const double a = base(w, i);
        if (a == 0) dx[i] = 0;
        else if (dx[i] >= normal) dx[i] = (st_real)(dy * (double)dx[i] * y / (a * s.power));
        else dx[i] = (st_real)(dy * exp((p - 1) * (log(a) - log(s.most))) * y / (s.most * s.power));
    }
    if (fabs(p) < NEAR_ZERO) return dy * y * (s.squares / n - s.weighted / n * (s.weighted / n)) / 2;
    return dy * y * (s.weighted / (p * s.power) - log1p(s.above / n) / (p * p));
}
