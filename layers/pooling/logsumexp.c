/* logsumexp.c: log-sum-exp pooling: Pinheiro and Collobert, From image-level to pixel-level labeling with
 * convolutional networks, CVPR 2015.
 *
 *     y = log(mean of exp(r x)) / r
 *     dy/dx = softmax(r x) over the window
 *
 * A small r is near the mean, which r = 0 is, a large one near the maximum. */
#include "layers/pooling/family.h"

#include <math.h>

/* The sum of exp(r (x - most)). */
static double sum_of_powers(const st_window *w, double r, double most)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) sum += exp(r * ((double)w->x[i] - most));
    return sum;
}

static double sharpness(const st_window *w)
{
    return ((const st_logsumexp_pool_options *)w->options)->r;
}

static st_real value(const st_window *w)
{
    if (w->n == 0) return 0;
    const double r = sharpness(w), most = (double)pool_max_value(w);
    double sum = 0; /* of r (x - most), or of exp(r (x - most)) - 1, which keeps its digits if r is small */
    for (ptrdiff_t i = 0; i < w->n && isfinite(most); i++) {
        const double below = (double)w->x[i] - most;
        sum += r > 0 ? expm1(r * below) : below;
    }
    const double mean = sum / (double)w->n;
    return (st_real)(most + (r > 0 ? log1p(mean) / r : mean));
}

static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    if (w->n == 0) return;
    const double r = sharpness(w), most = (double)pool_max_value(w);
    const double share = (double)dy / sum_of_powers(w, r, most);
    for (ptrdiff_t i = 0; i < w->n; i++) dx[i] = (st_real)(share * exp(r * ((double)w->x[i] - most)));
}

static const st_field fields[] = { ST_WINDOW_FIELDS(st_logsumexp_pool_options),
                                   POOL_FIELD(r, ST_FIELD_REAL, st_logsumexp_pool_options, .fallback = 5),
                                   { 0 } };

POOLING(logsumexp_pool, st_pool_plan, fields, .value = value, .adjoint = adjoint, .pad_value = ST_PAD_LOWEST)
