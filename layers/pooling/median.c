/* median.c: the median of each window: Tukey, Exploratory data analysis, 1977.
 *
 *     y = (s[(n - 1) / 2] + s[n / 2]) / 2,  s = x in order
 *
 * Half of the gradient goes to each of the two middle elements; if n is odd, they are the same element. */
#include "layers/pooling/family.h"

/* The elements in the middle, which are one if n is odd. */
typedef struct middle {
    ptrdiff_t first, second;
} middle;

static middle middle_of(const st_window *w)
{
    const ptrdiff_t second = window_nth(w, w->n / 2);
    return (middle){ w->n % 2 ? second : window_nth(w, w->n / 2 - 1), second };
}

static st_real value(const st_window *w)
{
    if (w->n == 0) return 0;
    const middle at = middle_of(w);
    return (w->x[at.first] + w->x[at.second]) / 2;
}

static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    if (w->n == 0) return;
    const middle at = middle_of(w);
    fill_window(w, 0, dx);
    dx[at.first] += dy / 2;
    dx[at.second] += dy / 2;
}

POOLING(median_pool, st_pool_plan, st_pool_fields, .value = value, .adjoint = adjoint,
        .pad_value = ST_PAD_LOWEST)
