/* norm.c: sums over a set, normalising it, and the adjoint. */
#include "layers/norm.h"
#include "layers/lanes.h"
#include "tensor/sum.h"

/* ---- sums ------------------------------------------------------------------------------------------ */

enum { AHEAD = 1024 }; /* elements: so much arithmetic leaves few of them on their way from memory */

/* Sums of g - shift, and of (g - shift) (x - mean): a row goes to eight lanes, what is left of it to the first. */
INLINE norm_sums products(norm_set s, const real *g, double shift, const real *x, ptrdiff_t stride_x,
                          double mean)
{
    quad sum[QUADS] = { { 0 } }, product[QUADS] = { { 0 } };
    double rest = 0, rest_product = 0;
    for (ptrdiff_t r = 0; r < s.rows; r++, g += s.stride, x += stride_x) {
        ptrdiff_t i = 0;
        for (; i + QUAD * QUADS <= s.length; i += QUAD * QUADS) {
            __builtin_prefetch(g + i + AHEAD);
            __builtin_prefetch(x + i + AHEAD);
            for (int k = 0; k < QUADS; k++) {
                quad a = __builtin_convertvector(*(const quad_at *)(g + i + k * QUAD), quad) - shift;
                quad b = __builtin_convertvector(*(const quad_at *)(x + i + k * QUAD), quad) - mean;
                sum[k] += a;
                product[k] += a * b;
            }
        }
        for (; i < s.length; i++) {
            double a = (double)g[i] - shift;
            rest += a;
            rest_product += a * ((double)x[i] - mean);
        }
    }
    for (int k = 0; k < QUADS; k++)
        for (int lane = 0; lane < QUAD; lane++) {
            rest += sum[k][lane];
            rest_product += product[k][lane];
        }
    return (norm_sums){ rest, rest_product };
}

static norm_sums products_any(norm_set s, const real *g, double shift, const real *x, ptrdiff_t stride_x,
                              double mean)
{
    return products(s, g, shift, x, stride_x, mean);
}

WIDE static norm_sums products_wide(norm_set s, const real *g, double shift, const real *x,
                                    ptrdiff_t stride_x, double mean)
{
    return products(s, g, shift, x, stride_x, mean);
}

/* Of the distances to one element, which is as good as near the mean: squares that nearly cancel lose nothing that
 * the elements had. */
norm_moments norm_measure(norm_set s, const real *x)
{
    double count = (double)(s.rows * s.length), near = (double)x[0];
    norm_sums sums = (s.wide ? products_wide : products_any)(s, x, near, x, s.stride, near);
    double mean = sums.g / count, variance = (sums.product - mean * sums.g) / count;
    return (norm_moments){ near + mean, variance < 0 ? 0 : variance };
}

norm_sums norm_sum(norm_set s, const real *g, const real *x, ptrdiff_t stride_x, double mean)
{
    return (s.wide ? products_wide : products_any)(s, g, 0, x, stride_x, mean);
}

/* ---- elements -------------------------------------------------------------------------------------- */

void norm_apply(norm_set s, real *y, const real *x, double mean, double scale, double shift)
{
    const real middle = (real)mean, slope = (real)scale, height = (real)shift;
    for (ptrdiff_t r = 0; r < s.rows; r++, y += s.stride, x += s.stride) {
        for (ptrdiff_t i = 0; i < s.length; i++) y[i] = (x[i] - middle) * slope + height;
    }
}

void norm_adjoint(norm_set s, real *dx, const real *dy, double w, const real *x, double mean,
                  double deviation, norm_sums of_g, double count)
{
    const real middle = (real)mean, mean_g = (real)(of_g.g / count), weight = (real)w;
    const real slope = (real)(of_g.product / count / deviation / deviation), scale = (real)(1 / deviation);
    for (ptrdiff_t r = 0; r < s.rows; r++, dx += s.stride, dy += s.stride, x += s.stride) {
        for (ptrdiff_t i = 0; i < s.length; i++)
            dx[i] = (weight * dy[i] - mean_g - (x[i] - middle) * slope) * scale;
    }
}

const real *norm_elements(tensor x, tensor copy)
{
    if (tensor_is_contiguous(x)) return tensor_data(x);
    tensor_copy(copy, x);
    return tensor_data(copy);
}
