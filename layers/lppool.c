/* lppool.c: the p-norm of each window: y = (sum of |x|^p)^(1/p), as ONNX's LpPool.
 *
 * Powers are taken of ratios that are at most 1, so that none of them overflows: of x to the window's greatest,
 * y = m (sum of (|x|/m)^p)^(1/p), and of x to y, dx = dy sign(x) (|x|/y)^(p-1). */
#include "layers/layers.h"
#include "layers/types.h"
#include "layers/window.h"

#include <math.h>

enum { PADDED, DPADDED }; /* scratch */

static int geometry(const layer *l, shape x, window *w)
{
    const lppool *o = l->options;
    return window_plan_pool(w, l, x, o->kernel, o->stride, o->padding, o->dilation, o->ceil_mode);
}

static int plan(layer *l, shape x, shape *y)
{
    window w;
    if (geometry(l, x, &w)) return -1;
    *y = SHAPE(x.n[0], x.n[1], w.out[0], w.out[1]);
    shape padded = window_padded(&w) ? window_padded_shape(&w, x.n[1]) : SHAPE(0);
    return layer_scratch(l, padded) || layer_scratch(l, padded) ? -1 : 0;
}

static double power(double ratio, double p)
{
    return p == 2 ? ratio * ratio : p == 1 ? ratio : pow(ratio, p);
}

/* Of one window, with the strides of its rows and columns. NaN stays NaN. */
static real norm(const real *at, const ptrdiff_t stride[2], const int kernel[2], double p)
{
    double greatest = 0, sum = 0;
    for (int kh = 0; kh < kernel[0]; kh++)
        for (int kw = 0; kw < kernel[1]; kw++) {
            double size = fabs((double)at[kh * stride[0] + kw * stride[1]]);
            if (size > greatest || isnan(size)) greatest = size;
            if (isnan(size)) return (real)size;
        }
    if (greatest == 0 || isinf(greatest)) return (real)greatest;
    for (int kh = 0; kh < kernel[0]; kh++)
        for (int kw = 0; kw < kernel[1]; kw++)
            sum += power(fabs((double)at[kh * stride[0] + kw * stride[1]]) / greatest, p);
    return (real)(greatest * pow(sum, 1 / p));
}

static void add_slopes(real *dx, const ptrdiff_t dstride[2], const real *x, const ptrdiff_t stride[2],
                       const int kernel[2], double p, double y, double dy)
{
    if (y == 0) return;
    for (int kh = 0; kh < kernel[0]; kh++)
        for (int kw = 0; kw < kernel[1]; kw++) {
            double value = (double)x[kh * stride[0] + kw * stride[1]];
            double slope = value == 0 ? 0 : p == 2 ? value / y : copysign(pow(fabs(value) / y, p - 1), value);
            dx[kh * dstride[0] + kw * dstride[1]] += (real)(dy * slope);
        }
}

/* The windows [C, OH, OW, KH, KW] of image i. */
static tensor windows(const layer *l, const window *w, tensor x, ptrdiff_t i)
{
    return window_view(w, window_source(w, tensor_select(x, 0, i), l->scratch[PADDED]));
}

/* Where window k of a view begins, in row-major order. */
static real *begin(tensor view, ptrdiff_t k)
{
    ptrdiff_t oh = view.shape.n[1], ow = view.shape.n[2];
    return tensor_data(view) + k / (oh * ow) * view.stride[0] + k / ow % oh * view.stride[1] +
           k % ow * view.stride[2];
}

static void forward(layer *l, tensor x, tensor y)
{
    const lppool *o = l->options;
    window w;
    geometry(l, l->x, &w);
    if (window_padded(&w)) tensor_fill(l->scratch[PADDED], 0);
    ptrdiff_t count = tensor_count(y) / y.shape.n[0];
    real *out = tensor_data(y);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor view = windows(l, &w, x, i);
        for (ptrdiff_t k = 0; k < count; k++) *out++ = norm(begin(view, k), view.stride + 3, w.kernel, o->p);
    }
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    const lppool *o = l->options;
    window w;
    geometry(l, l->x, &w);
    if (window_padded(&w)) tensor_fill(l->scratch[PADDED], 0);
    ptrdiff_t count = tensor_count(y) / y.shape.n[0];
    const real *out = tensor_data(y), *dout = tensor_data(dy);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor view = windows(l, &w, x, i), image = tensor_select(dx, 0, i);
        tensor dview = window_view(&w, window_target(&w, image, l->scratch[DPADDED]));
        for (ptrdiff_t k = 0; k < count; k++, out++, dout++)
            add_slopes(begin(dview, k), dview.stride + 3, begin(view, k), view.stride + 3, w.kernel, o->p,
                       (double)*out, (double)*dout);
        window_finish(&w, image, l->scratch[DPADDED]);
    }
}

static const layer_field fields[] = {
    WINDOW_POOL_FIELDS(lppool),
    { "p", FIELD_REAL, offsetof(lppool, p), .fallback = 2, .least = 1 },
    { 0 },
};

const layer_type layer_type_lppool = {
    .name = "lppool",
    .options_size = sizeof(lppool),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};

layer *layer_lppool(lppool options)
{
    return layer_new(&layer_type_lppool, &options, 0, NULL);
}
