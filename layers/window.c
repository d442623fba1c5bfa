/* window.c: padding and windows; im2col and col2im are a copy and an add between the same views. */
#include "layers/window.h"
#include "tensor/counts.h"

#include <limits.h>
#include <stdint.h>

static int plan_axis(window *w, int axis, ptrdiff_t before, ptrdiff_t after, bool ceil_mode)
{
    ptrdiff_t size = w->size[axis], reach = (ptrdiff_t)w->dilation[axis] * (w->kernel[axis] - 1) + 1;
    ptrdiff_t stride = w->stride[axis], room = size + before + after - reach;
    if (room < 0) return -1;
    ptrdiff_t out = room / stride + 1;
    if (ceil_mode && room % stride && out * stride < size + before) out++;
    ptrdiff_t needed = (out - 1) * stride + reach - size - before;
    w->out[axis] = out;
    w->before[axis] = before;
    w->pad_after[axis] = after;
    w->after[axis] = needed > after ? needed : after;
    return 0;
}

int window_plan(window *w, const st_layer *l, st_shape x, const int kernel[2], const int stride[2],
                window_padding padding, const int dilation[2], bool ceil_mode)
{
    if (x.rank != 4)
        return st_layer_refuse(l, "the input is %s, expected [N, C, H, W]", st_shape_text(x).text);
    for (int axis = 0; axis < 2; axis++) {
        w->size[axis] = x.n[2 + axis];
        w->kernel[axis] = kernel[axis];
        w->stride[axis] = stride[axis];
        w->dilation[axis] = dilation[axis];
        if (w->size[axis] > PTRDIFF_MAX / 4)
            return st_layer_refuse(l, "the input %s is too large", st_shape_text(x).text);
    }
    if (plan_axis(w, 0, padding.before[0], padding.after[0], ceil_mode) == 0 &&
        plan_axis(w, 1, padding.before[1], padding.after[1], ceil_mode) == 0)
        return 0;
    char dilated[64] = "";
    if (dilation[0] > 1 || dilation[1] > 1)
        snprintf(dilated, sizeof dilated, " with dilation %d×%d", dilation[0], dilation[1]);
    return st_layer_refuse(l, "kernel %d×%d%s does not fit the padded input %td×%td", kernel[0], kernel[1],
                           dilated, w->size[0] + padding.before[0] + padding.after[0],
                           w->size[1] + padding.before[1] + padding.after[1]);
}

int window_plan_pool(window *w, const st_layer *l, st_shape x, const int kernel[2], const int stride[2],
                     window_padding padding, const int dilation[2], bool ceil_mode)
{
    int full[2] = { kernel[0], kernel[1] }, step[2];
    for (int axis = 0; axis < 2; axis++) {
        ptrdiff_t size = x.rank == 4 ? x.n[2 + axis] : 1;
        if (size > INT_MAX) return st_layer_refuse(l, "the input %s is too large", st_shape_text(x).text);
        if (full[axis] == 0) full[axis] = (int)size;
        step[axis] = stride[axis] ? stride[axis] : full[axis];
        ptrdiff_t most = (ptrdiff_t)dilation[axis] * (full[axis] - 1);
        if (padding.before[axis] > most || padding.after[axis] > most)
            return st_layer_refuse(
                l, "padding %td×%td, expected less than the dilated kernel %td×%td",
                largest(padding.before[0], padding.after[0]), largest(padding.before[1], padding.after[1]),
                (ptrdiff_t)dilation[0] * (full[0] - 1) + 1, (ptrdiff_t)dilation[1] * (full[1] - 1) + 1);
    }
    return window_plan(w, l, x, full, step, padding, dilation, ceil_mode);
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

static st_tensor column_view(const window *w, st_tensor source)
{
    return st_permute(window_view(w, source), ST_AXES(0, 3, 4, 1, 2)); /* [C, KH, KW, OH, OW] */
}

void window_im2col(const window *w, st_tensor columns, st_tensor image, st_tensor padded)
{
    st_copy(columns, column_view(w, window_source(w, image, padded)));
}

void window_col2im(const window *w, st_tensor image, st_tensor columns, st_tensor padded)
{
    st_add(column_view(w, window_target(w, image, padded)), 1, columns);
    window_finish(w, image, padded);
}
