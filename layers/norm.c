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

void norm_forward(tensor y, tensor x, ptrdiff_t length, double epsilon)
{
    tensor_copy(y, x);
    norm_set set = { 1, length, length };
    for (real *at = tensor_data(y), *end = at + tensor_count(y); at < end; at += length) {
        norm_moments m = norm_measure(set, at);
        norm_apply(set, at, m.mean, sqrt(m.variance + epsilon));
    }
}

void norm_backward(tensor dx, tensor x, tensor g, ptrdiff_t length, double epsilon)
{
    tensor_copy(dx, x);
    norm_set set = { 1, length, length };
    const real *slope = tensor_data(g);
    for (real *at = tensor_data(dx), *end = at + tensor_count(dx); at < end; at += length, slope += length) {
        norm_moments m = norm_measure(set, at);
        double deviation = sqrt(m.variance + epsilon);
        norm_apply(set, at, m.mean, deviation);
        norm_adjoint(set, at, slope, deviation);
    }
}

tensor norm_by_channel(tensor c, shape s)
{
    tensor view = { .storage = c.storage, .offset = c.offset, .shape = s };
    view.stride[1] = c.stride[0];
    return view;
}
