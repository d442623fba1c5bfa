/* direct.c: convolution without columns: windows are rows of the padded image, found by their offsets.
 *
 * Images lie in planes (planes.h), where a window is a position and a tap sees a fixed offset further on. So with
 * position as the column (direct_positions.c)
 *
 *     y[o][position]  = Σ_tap weight[o][tap] plane[offset[tap] + position]            a product of kernel.h
 *
 * computes all windows, and between the rows perhaps a few positions that are none, which are left behind. Backward
 * each phase of dx is the same product of dy, in planes with zeros round them, with the taps that see the phase.
 * Where there are enough channels to fill vectors, the gradient has them as columns (direct_channels.c):
 *
 *     dw[tap][o]     += Σ_position plane[offset[tap] + position] dyᵀ[position][o]
 *
 * and where windows are at a stride, so do forward and backward.
 *
 * Groups are convolutions side by side. */
#include "layers/fast/direct.h"

/* Elements of a block of results, and of dy turned round, so that both stay in cache. */
enum { BLOCK = 1 << 15 };

static direct_sizes sizes_of(const layer *l, const window *w)
{
    const conv2d *o = l->options;
    ptrdiff_t in = l->x.n[1] / o->groups, area = (ptrdiff_t)w->kernel[0] * w->kernel[1];
    return (direct_sizes){ o->groups, in, o->out_channels / o->groups, area, in * area };
}

tensor direct_group(tensor image, ptrdiff_t g, ptrdiff_t channels)
{
    return tensor_narrow(image, 0, g * channels, channels);
}

/* ---- plan ------------------------------------------------------------------------------------------- */

static bool suits(const layer *l, const window *w, shape x)
{
    (void)x;
    for (int axis = 0; axis < 2; axis++)
        if (w->before[axis] > w->size[axis] + w->kernel[axis]) return false;
    return w->out[0] * w->out[1] >= l->kernel->lanes;
}

ptrdiff_t direct_least_rows(const layer *l, ptrdiff_t width)
{
    return parts(l->kernel->lanes, width);
}

ptrdiff_t direct_block_rows(const layer *l, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t depth)
{
    ptrdiff_t least = direct_least_rows(l, width), size = largest(least, BLOCK / (width * depth));
    if (size >= rows) return rows;
    return largest(least, parts(rows, parts(rows, size)));
}

ptrdiff_t direct_span(ptrdiff_t rows, ptrdiff_t width, ptrdiff_t pitch)
{
    return (rows - 1) * pitch + width;
}

ptrdiff_t direct_result_pitch(const layer *l, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t pitch)
{
    return kernel_padded(l->kernel, direct_block_rows(l, height, pitch, channels) * pitch);
}

/* Whether lanes are better used on positions than on so few channels. */
static bool few(const layer *l, ptrdiff_t out)
{
    return 2 * kernel_padded(l->kernel, out) >= 3 * out;
}

/* The largest result of a block. */
static ptrdiff_t result_size(const layer *l, const window *w, direct_sizes s, planes px, planes pdy)
{
    ptrdiff_t size = s.out * direct_result_pitch(l, s.out, w->out[0], px.pitch),
              together = smallest(phase_count(w, 1), PHASES_TOGETHER);
    for (ptrdiff_t kh = 0; kh < phase_count(w, 0); kh++) {
        ptrdiff_t height = phase_of(w, 0, kh).count;
        if (height > 0)
            size = largest(size, together * s.in * direct_result_pitch(l, s.in, height, pdy.pitch));
    }
    return size;
}

/* Whether lanes are for channels, at a stride of windows: there are enough of them, and images fill a vector. */
static bool by_channels(const layer *l, const window *w, ptrdiff_t channels)
{
    bool strided = w->stride[0] > 1 || w->stride[1] > 1;
    return strided && !few(l, channels) && channels >= l->kernel->lanes &&
           w->size[0] * w->size[1] >= l->kernel->lanes;
}

window direct_unstrided(const window *w)
{
    window d = *w;
    for (int axis = 0; axis < 2; axis++)
        d.stride[axis] = 1, d.out[axis] = (w->out[axis] - 1) * w->stride[axis] + 1;
    return d;
}

ptrdiff_t direct_block_positions(const layer *l, ptrdiff_t height, ptrdiff_t width, ptrdiff_t channels)
{
    return (direct_block_rows(l, height, width, kernel_padded(l->kernel, channels)) +
            direct_least_rows(l, width)) *
           width;
}

static int plan(layer *l, const window *w, shape x)
{
    direct_sizes s = sizes_of(l, w);
    window d = direct_unstrided(w);
    planes px = planes_of_x(l, w, x.n[1]), pd = planes_of_x(l, &d, x.n[1]),
           pdy = planes_of_dy(l, w, s.groups * s.out);
    ptrdiff_t lanes_out = kernel_padded(l->kernel, s.out), lanes_in = kernel_padded(l->kernel, s.in);
    ptrdiff_t y_block = direct_block_positions(l, w->out[0], w->out[1], s.out),
              x_block = direct_block_positions(l, w->size[0], w->size[1], s.in);
    ptrdiff_t spread = kernel_padded(l->kernel, direct_span(w->out[0], w->out[1], px.pitch));
    ptrdiff_t plane = largest(largest(phase_count(w, 0) * phase_count(w, 1) * px.size, pd.size), pdy.size);
    ptrdiff_t result = largest(result_size(l, w, s, px, pdy), s.groups * s.taps * lanes_out);
    ptrdiff_t turned = largest(y_block * lanes_out, few(l, s.out) ? s.out * spread : 0);
    ptrdiff_t depth = largest(largest(s.in, s.out) * s.area, largest(y_block, spread / l->kernel->lanes));
    if (by_channels(l, w, s.out)) {
        result = largest(result, y_block * lanes_out);
        turned = largest(turned, s.groups * s.taps * lanes_out);
    }
    if (by_channels(l, w, s.in)) {
        result = largest(result, x_block * lanes_in);
        turned = largest(turned, s.groups * s.out * s.area * lanes_in);
        depth = largest(depth, w->size[1]);
    }
    if (layer_scratch(l, SHAPE(plane)) || layer_scratch(l, SHAPE(result)) || layer_scratch(l, SHAPE(turned)))
        return -1;
    return layer_table(l, depth) || layer_table(l, depth) || layer_table(l, depth) ? -1 : 0;
}

/* ---- dispatch -------------------------------------------------------------------------------------- */

static const direct_way *way(const layer *l, const window *w, ptrdiff_t channels)
{
    return by_channels(l, w, channels) ? &direct_by_channels : &direct_by_positions;
}

static void forward(layer *l, const window *w, tensor x, tensor y)
{
    direct_sizes s = sizes_of(l, w);
    way(l, w, s.out)->forward(l, w, s, x, y);
}

static void backward(layer *l, const window *w, tensor dy, tensor dx)
{
    direct_sizes s = sizes_of(l, w);
    planes p = planes_of_dy(l, w, dy.shape.n[1]);
    planes_clear(p.size, l->scratch[PLANE]);
    way(l, w, s.in)->backward(l, w, s, p, dy, dx);
}

static void gradient(layer *l, const window *w, tensor x, tensor dy)
{
    direct_sizes s = sizes_of(l, w);
    const direct_way *by = few(l, s.out) ? &direct_by_positions : &direct_by_channels;
    by->gradient(l, w, s, x, dy);
}

const conv2d_method conv2d_direct = {
    .suits = suits,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
};
