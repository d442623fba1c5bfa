/* norm.c: moments of a set, normalising it, and the adjoint. Sums are taken in double. */
#include "layers/norm.h"

#include <math.h>

norm_moments norm_measure(norm_set s, const real *x)
{
    double count = (double)(s.rows * s.length), sum = 0, squares = 0;
    for (ptrdiff_t r = 0; r < s.rows; r++)
        for (ptrdiff_t i = 0; i < s.length; i++) sum += (double)x[r * s.stride + i];
    double mean = sum / count;
    for (ptrdiff_t r = 0; r < s.rows; r++)
        for (ptrdiff_t i = 0; i < s.length; i++) {
            double d = (double)x[r * s.stride + i] - mean;
            squares += d * d;
        }
    return (norm_moments){ mean, squares / count };
}

void norm_apply(norm_set s, real *x, double mean, double deviation)
{
    const real middle = (real)mean, scale = (real)(1 / deviation);
    for (ptrdiff_t r = 0; r < s.rows; r++)
        for (ptrdiff_t i = 0; i < s.length; i++) x[r * s.stride + i] = (x[r * s.stride + i] - middle) * scale;
}

void norm_adjoint(norm_set s, real *h, const real *g, double deviation)
{
    double count = (double)(s.rows * s.length), sum = 0, product = 0;
    for (ptrdiff_t r = 0; r < s.rows; r++)
        for (ptrdiff_t i = 0; i < s.length; i++) {
            ptrdiff_t e = r * s.stride + i;
            sum += (double)g[e];
            product += (double)g[e] * (double)h[e];
        }
    const real mean = (real)(sum / count), slope = (real)(product / count), scale = (real)(1 / deviation);
    for (ptrdiff_t r = 0; r < s.rows; r++)
        for (ptrdiff_t i = 0; i < s.length; i++) {
            ptrdiff_t e = r * s.stride + i;
            h[e] = (g[e] - mean - h[e] * slope) * scale;
        }
}

tensor norm_by_channel(tensor c, shape s)
{
    tensor view = { .storage = c.storage, .offset = c.offset, .shape = s };
    view.stride[1] = c.stride[0];
    return view;
}

/* ---- runs of an image ---------------------------------------------------------------------------- */

enum { WEIGHT, BIAS }; /* parameters */
enum { IMAGE };        /* scratch: weight times dy, or h */

/* y = h of x. */
static void normalise(norm_runs r, tensor y, tensor x)
{
    tensor_copy(y, x);
    norm_set set = { 1, r.length, r.length };
    for (real *at = tensor_data(y), *end = at + tensor_count(y); at < end; at += r.length) {
        norm_moments m = norm_measure(set, at);
        norm_apply(set, at, m.mean, sqrt(m.variance + r.epsilon));
    }
}

void norm_runs_forward(const layer *l, norm_runs r, tensor x, tensor y)
{
    normalise(r, y, x);
    if (l->params == 0) return;
    tensor_multiply(y, r.spread(l->param[WEIGHT], y.shape));
    tensor_add(y, 1, r.spread(l->param[BIAS], y.shape));
}

void norm_runs_backward(const layer *l, norm_runs r, tensor x, tensor dy, tensor dx)
{
    tensor g = l->scratch[IMAGE];
    norm_set set = { 1, r.length, r.length };
    tensor_copy(dx, x);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        real *at = tensor_data(tensor_select(dx, 0, i)), *end = at + tensor_count(g);
        const real *slope = tensor_data(g);
        tensor_copy(g, tensor_narrow(dy, 0, i, 1));
        if (l->params > 0) tensor_multiply(g, r.spread(l->param[WEIGHT], g.shape));
        for (; at < end; at += r.length, slope += r.length) {
            norm_moments m = norm_measure(set, at);
            double deviation = sqrt(m.variance + r.epsilon);
            norm_apply(set, at, m.mean, deviation);
            norm_adjoint(set, at, slope, deviation);
        }
    }
}

void norm_runs_gradient(const layer *l, norm_runs r, tensor x, tensor dy)
{
    tensor h = l->scratch[IMAGE];
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        normalise(r, h, tensor_narrow(x, 0, i, 1));
        tensor_multiply(h, tensor_narrow(dy, 0, i, 1));
        tensor_add(r.spread(l->grad[WEIGHT], h.shape), 1, h);
    }
    tensor_add(r.spread(l->grad[BIAS], dy.shape), 1, dy);
}
