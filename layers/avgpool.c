/* avgpool.c: the mean of each window, and its adjoint. */
#include "layers/layers.h"
#include "layers/fast/means.h"
#include "layers/types.h"

enum { WEIGHT, WEIGHED }; /* scratch: 1 / (elements that count) [OH, OW], and dy of a row times it */

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
    return layer_scratch(l, SHAPE(w.out[0], w.out[1])) || layer_scratch(l, SHAPE(w.out[1])) ? -1 : 0;
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

static const real *weights(const layer *l, const window *w)
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
    return tensor_data(l->scratch[WEIGHT]);
}

static means begin(const layer *l)
{
    means m = { .weighed = tensor_data(l->scratch[WEIGHED]) };
    geometry(l, l->x, &m.w);
    m.weight = weights(l, &m.w);
    return m;
}

static void forward(layer *l, tensor x, tensor y)
{
    const means m = begin(l);
    means_forward(l, &m, x, y);
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    const means m = begin(l);
    means_backward(l, &m, dy, dx);
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
    .ignores_y = true,
};

layer *layer_avgpool(avgpool options)
{
    return layer_new(&layer_type_avgpool, &options, 0, NULL);
}
