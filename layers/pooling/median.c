/* median.c: the median of each window: Tukey, Exploratory data analysis, 1977.
 *
 *     y = (s[(n - 1) / 2] + s[n / 2]) / 2,  s = x in order
 *
 * Half of the gradient goes to each of the two middle elements; if n is odd, they are the same element. */
#include "layers/pooling/family.h"

static st_real value(const st_window *w)
{
    if (w->n == 0) return 0;
    return (w->x[window_nth(w, (w->n - 1) / 2)] + w->x[window_nth(w, w->n / 2)]) / 2;
}

static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    if (w->n == 0) return;
    fill_window(w, 0, dx);
    dx[window_nth(w, (w->n - 1) / 2)] += dy / 2;
    dx[window_nth(w, w->n / 2)] += dy / 2;
}

POOLING(median_pool, st_pool_plan, st_pool_fields, .value = value, .adjoint = adjoint,
        .pad_value = ST_PAD_LOWEST)
