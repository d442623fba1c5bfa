/* window.c: images, their padding and windows. */
#include "layers/window.h"
#include "layers/layer_impl.h"
#include "tensor/counts.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

int layer_check_images(const st_layer *l, st_shape x)
{
    if (x.rank == 4) return 0;
    return st_layer_refuse(l, "the input is %s, expected [N, C, H, W]", st_shape_text(x).text);
}

static ptrdiff_t reach(const window *w, int axis)
{
    return (ptrdiff_t)w->dilation[axis] * (w->kernel[axis] - 1) + 1;
}

int window_plan(window *w, const st_layer *l, st_shape x, bool ceil_mode)
{
    if (layer_check_images(l, x)) return -1;
    bool fits = true;
    for (int axis = 0; axis < 2; axis++) {
        const ptrdiff_t size = w->size[axis] = x.n[2 + axis], stride = w->stride[axis];
        if (size > PTRDIFF_MAX / 4)
            return st_layer_refuse(l, "the input %s is too large", st_shape_text(x).text);
        const ptrdiff_t room = size + w->before[axis] + w->pad_after[axis] - reach(w, axis);
        fits = fits && (room >= 0 || (ceil_mode && room > -stride)); /* a window that extends beyond */
        ptrdiff_t out = room / stride + 1;
        if (ceil_mode && room % stride > 0 && out * stride < size + w->before[axis]) out++;
        w->out[axis] = out;
        w->after[axis] =
            largest((out - 1) * stride + reach(w, axis) - size - w->before[axis], w->pad_after[axis]);
    }
    if (fits) return 0;
    char dilated[64] = "";
    if (w->dilation[0] > 1 || w->dilation[1] > 1)
        snprintf(dilated, sizeof dilated, " with dilation %dx%d", w->dilation[0], w->dilation[1]);
    return st_layer_refuse(l, "kernel %dx%d%s does not fit the padded input %tdx%td", w->kernel[0],
                           w->kernel[1], dilated, w->size[0] + w->before[0] + w->pad_after[0],
                           w->size[1] + w->before[1] + w->pad_after[1]);
}

int window_plan_pool(window *w, const st_layer *l, st_shape x, bool ceil_mode)
{
    if (layer_check_images(l, x)) return -1;
    for (int axis = 0; axis < 2; axis++) {
        const ptrdiff_t size = x.n[2 + axis];
        if (size > INT_MAX) return st_layer_refuse(l, "the input %s is too large", st_shape_text(x).text);
        if (w->kernel[axis] == 0) w->kernel[axis] = (int)size;
        if (w->stride[axis] == 0) w->stride[axis] = w->kernel[axis];
    }
    const ptrdiff_t padding[] = { largest(w->before[0], w->pad_after[0]),
                                  largest(w->before[1], w->pad_after[1]) };
    if (padding[0] < reach(w, 0) && padding[1] < reach(w, 1)) return window_plan(w, l, x, ceil_mode);
    return st_layer_refuse(l, "padding %tdx%td, expected less than the dilated kernel %tdx%td", padding[0],
                           padding[1], reach(w, 0), reach(w, 1));
}

bool window_padded(const window *w)
{
    return w->before[0] || w->before[1] || w->after[0] || w->after[1];
}

st_shape window_padded_shape(const window *w, ptrdiff_t channels)
{
    return ST_SHAPE(channels, w->before[0] + w->size[0] + w->after[0],
                    w->before[1] + w->size[1] + w->after[1]);
}

static st_tensor interior(const window *w, st_tensor padded)
{
    return st_narrow(st_narrow(padded, 1, w->before[0], w->size[0]), 2, w->before[1], w->size[1]);
}

st_tensor window_source(const window *w, st_tensor image, st_tensor padded)
{
    if (!window_padded(w)) return image;
    st_copy(interior(w, padded), image);
    return padded;
}

st_tensor window_target(const window *w, st_tensor image, st_tensor padded)
{
    st_tensor target = window_padded(w) ? padded : image;
    st_fill(target, 0);
    return target;
}

void window_finish(const window *w, st_tensor image, st_tensor padded)
{
    if (window_padded(w)) st_copy(image, interior(w, padded));
}

st_tensor window_view(const window *w, st_tensor source)
{
    st_tensor rows = st_unfold(source, 1, w->kernel[0], w->stride[0], w->dilation[0]); /* [C, OH, W, KH] */
    st_tensor view = st_unfold(rows, 2, w->kernel[1], w->stride[1], w->dilation[1]);
    view = st_narrow(view, 1, 0, w->out[0]); /* the view may have more windows */
    return st_narrow(view, 2, 0, w->out[1]); /* [C, OH, OW, KH, KW] */
}

bool window_is_identity(const window *w)
{
    bool same = !window_padded(w);
    for (int axis = 0; axis < 2; axis++)
        same = same && w->kernel[axis] == 1 && w->stride[axis] == 1 && w->out[axis] == w->size[axis];
    return same;
}
