/* avgpool.c: the mean of each window: one add of windows into a spread output, and its adjoint. */
#include "layers/layers.h"
#include "layers/types.h"
#include "layers/window.h"

enum { PADDED, WEIGHT, WEIGHED }; /* scratch; WEIGHT [OH, OW] is 1 / (elements that count) */

static int geometry(const layer *l, shape x, window *w)
{
    const avgpool *o = l->options;
    return window_plan_pool(w, l, x, o->kernel, o->stride, o->padding, o->dilation, o->ceil_mode);
}

static int plan(layer *l, shape x, shape *y)
{
    window w;
    if (geometry(l, x, &w)) return -1;
    *y = SHAPE(x.n[0], x.n[1], w.out[0], w.out[1]);
    l->flops = (double)shape_count(*y, "avgpool") * w.kernel[0] * w.kernel[1];
    if (layer_scratch(l, window_padded(&w) ? window_padded_shape(&w, x.n[1]) : SHAPE(0))) return -1;
    if (layer_scratch(l, SHAPE(w.out[0], w.out[1]))) return -1;
    return layer_scratch(l, SHAPE(x.n[1], w.out[0], w.out[1]));
}

/* How many places of window `at` along an axis lie in the image, or in it and its padding. */
static int counted(const window *w, int axis, ptrdiff_t at, bool exclude_pad)
{
    ptrdiff_t low = exclude_pad ? 0 : -w->before[axis];
    ptrdiff_t high = w->size[axis] + (exclude_pad ? 0 : w->before[axis]);
    int count = 0;
    for (int k = 0; k < w->kernel[axis]; k++) {
        ptrdiff_t place = at * w->stride[axis] - w->before[axis] + (ptrdiff_t)k * w->dilation[axis];
        count += place >= low && place < high;
    }
    return count;
}

static tensor weights(const layer *l, const window *w)
{
    const avgpool *o = l->options;
    real *weight = tensor_data(l->scratch[WEIGHT]);
    for (ptrdiff_t oh = 0; oh < w->out[0]; oh++) {
        int rows = counted(w, 0, oh, o->count_exclude_pad);
        for (ptrdiff_t ow = 0; ow < w->out[1]; ow++) {
            int columns = rows ? counted(w, 1, ow, o->count_exclude_pad) : 0;
            *weight++ = columns ? 1 / ((real)rows * (real)columns) : 0;
        }
    }
    return tensor_expand(l->scratch[WEIGHT], SHAPE(l->x.n[1], w->out[0], w->out[1]));
}

static void forward(layer *l, tensor x, tensor y)
{
    window w;
    geometry(l, l->x, &w);
    tensor weight = weights(l, &w);
    if (window_padded(&w)) tensor_fill(l->scratch[PADDED], 0);
    tensor_fill(y, 0);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor out = tensor_select(y, 0, i);
        tensor source = window_source(&w, tensor_select(x, 0, i), l->scratch[PADDED]);
        tensor_add(window_spread(&w, out), 1, window_view(&w, source));
        tensor_multiply(out, weight);
    }
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    window w;
    geometry(l, l->x, &w);
    tensor weight = weights(l, &w), weighed = l->scratch[WEIGHED];
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        tensor image = tensor_select(dx, 0, i);
        tensor_copy(weighed, tensor_select(dy, 0, i));
        tensor_multiply(weighed, weight);
        tensor target = window_target(&w, image, l->scratch[PADDED]);
        tensor_add(window_view(&w, target), 1, window_spread(&w, weighed));
        window_finish(&w, image, l->scratch[PADDED]);
    }
}

static const layer_field fields[] = {
    WINDOW_POOL_FIELDS(avgpool),
    { "count_exclude_pad", FIELD_BOOL, offsetof(avgpool, count_exclude_pad) },
    { 0 },
};

const layer_type layer_type_avgpool = {
    .name = "avgpool",
    .options_size = sizeof(avgpool),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};

layer *layer_avgpool(avgpool options)
{
    return layer_new(&layer_type_avgpool, &options, 0, NULL);
}
