/* lppool.c: the p-norm of each window: y = (sum of |x|^p)^(1/p), as ONNX's LpPool.
 *
 * |x|^p is summed by one add of windows into a spread output; backward, dy y^(1-p) is spread back over the
 * windows, and dx = sign(x) |x|^(p-1) times what arrives. */
#include "layers/layers.h"
#include "layers/types.h"
#include "layers/window.h"

#include <math.h>

enum { PADDED, POWERS, WEIGHED }; /* scratch */

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
    if (layer_scratch(l, window_padded(&w) ? window_padded_shape(&w, x.n[1]) : SHAPE(0))) return -1;
    if (layer_scratch(l, SHAPE(x.n[1], x.n[2], x.n[3]))) return -1;
    return layer_scratch(l, SHAPE(y->n[1], y->n[2], y->n[3]));
}

static real power(real x, void *p)
{
    return (real)pow(fabs((double)x), *(double *)p);
}

/* sign(x) |x|^(p-1), 0 at 0. */
static real slope(real x, void *p)
{
    double size = x == 0 ? 0 : pow(fabs((double)x), *(double *)p - 1);
    return (real)(x < 0 ? -size : size);
}

static real root(real x, void *p)
{
    return (real)pow((double)x, 1 / *(double *)p);
}

/* y^(1-p), 0 where the window is all zeros. */
static real root_slope(real y, void *p)
{
    return y == 0 ? 0 : (real)pow((double)y, 1 - *(double *)p);
}

static void forward(layer *l, tensor x, tensor y)
{
    double p = ((const lppool *)l->options)->p;
    window w;
    geometry(l, l->x, &w);
    if (window_padded(&w)) tensor_fill(l->scratch[PADDED], 0);
    tensor_fill(y, 0);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor_map(l->scratch[POWERS], power, &p, tensor_select(x, 0, i));
        tensor source = window_source(&w, l->scratch[POWERS], l->scratch[PADDED]);
        tensor_add(window_spread(&w, tensor_select(y, 0, i)), 1, window_view(&w, source));
    }
    tensor_map(y, root, &p, y);
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    double p = ((const lppool *)l->options)->p;
    window w;
    geometry(l, l->x, &w);
    tensor weighed = l->scratch[WEIGHED];
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        tensor image = tensor_select(dx, 0, i);
        tensor_map(weighed, root_slope, &p, tensor_select(y, 0, i));
        tensor_multiply(weighed, tensor_select(dy, 0, i));
        tensor target = window_target(&w, image, l->scratch[PADDED]);
        tensor_add(window_view(&w, target), 1, window_spread(&w, weighed));
        window_finish(&w, image, l->scratch[PADDED]);
        tensor_map(l->scratch[POWERS], slope, &p, tensor_select(x, 0, i));
        tensor_multiply(image, l->scratch[POWERS]);
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
