/* power.c: see power.h. */
#include "layers/pooling/power.h"

#include <math.h>

/* The limit p = 0, the geometric mean; the derivative of its logarithm is half of the variance of log r. */
static double geometric_mean(const st_window *w, power_base *base, double most, double *slope)
{
    double mean = 0, squares = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) {
        const double part = log(base(w, i) / most) / (double)w->n;
        mean += part, squares += part * part * (double)w->n;
    }
    const double y = most * exp(mean);
    if (slope) *slope = y > 0 ? y * (squares - mean * mean) / 2 : 0;
    return y;
}

/* With r = a / m, m the greatest a: log y = log m + log(mean of r^p) / p, whose derivative is
 *     (sum of r^p log r) / (p sum of r^p) - log(mean of r^p) / p² */
double power_mean(const st_window *w, power_base *base, double p, double *slope)
{
    double most = 0, sum = 0, weighted = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) {
        const double a = base(w, i);
        if (isnan(a) || a > most) most = a;
    }
    if (slope) *slope = 0;
    if (!(most > 0) || isinf(most)) return most;
    if (p == 0) return geometric_mean(w, base, most, slope);
    for (ptrdiff_t i = 0; i < w->n; i++) {
        const double r = base(w, i) / most, power = p == 1 ? r : p == 2 ? r * r : pow(r, p);
        sum += power;
        if (slope && power > 0) weighted += power * log(r);
    }
    const double log_mean = log(sum / (double)w->n), y = most * exp(log_mean / p);
    if (slope) *slope = y * (weighted / (p * sum) - log_mean / (p * p));
    return y;
}
