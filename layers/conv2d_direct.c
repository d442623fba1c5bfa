/* conv2d_direct.c: convolution at stride 1 without columns: windows are rows of the padded image, found by their
 * offsets.
 *
 * An image [C, H, W] lies in a plane of pitch W + padding, its channels H + padding rows apart: the zeros after
 * a row are also the zeros before the next one. The window at (oh, ow) begins at position oh * pitch + ow, and
 * what a tap (c, kh, kw) of the kernel sees of it lies a fixed offset further on. So with position as the column
 *
 *     y[o][position]  = Σ_tap weight[o][tap] plane[offset[tap] + position]            a product of kernel.h
 *
 * computes all windows, and between the rows a few positions that are none, which are left behind. Backward it is
 * the same product of dy, in planes of the same pitch, with the kernel turned round; and the gradient is
 *
 *     dw[tap][o]     += Σ_position plane[offset[tap] + position] dyᵀ[position][o] */
#include "layers/conv2d.h"
#include "tensor/kernel.h"

enum { PLANE, RESULT, TURNED, ROW, STEP, OFFSET }; /* scratch */

/* Elements of a block of results, and of dy turned round, so that both stay in cache. */
enum { BLOCK = 1 << 15 };

/* ---- planes ---------------------------------------------------------------------------------------- */

/* Element (c, h, w) lies at lead + (c * rows + h) * pitch + w. */
typedef struct planes {
    ptrdiff_t channels, height, width, rows, pitch, lead;
} planes;

static planes planes_of(ptrdiff_t channels, ptrdiff_t height, ptrdiff_t width, ptrdiff_t above,
                        ptrdiff_t left)
{
    return (planes){ channels, height, width, height + above, width + left, above * (width + left) + left };
}

/* The zeros below the last channel are as many as those above the first. */
static ptrdiff_t planes_size(planes p)
{
    return p.channels * p.rows * p.pitch + p.lead;
}

/* How far a kernel reaches beyond its first tap, along an axis. */
static ptrdiff_t reach(const window *w, int axis)
{
    return (ptrdiff_t)w->dilation[axis] * (w->kernel[axis] - 1);
}

static planes planes_of_x(const window *w, ptrdiff_t channels)
{
    return planes_of(channels, w->size[0], w->size[1], w->before[0], w->before[1]);
}

static planes planes_of_dy(const window *w, ptrdiff_t channels)
{
    return planes_of(channels, w->out[0], w->out[1], reach(w, 0) - w->before[0], reach(w, 1) - w->before[1]);
}

static bool in_place(planes p, tensor image)
{
    return p.rows == p.height && p.pitch == p.width && tensor_is_contiguous(image);
}

/* The image in planes: where it is, or copied between the zeros of scratch. */
static const real *lay_out(planes p, tensor image, tensor scratch)
{
    if (in_place(p, image)) return tensor_data(image);
    tensor interior = { .storage = scratch.storage,
                        .offset = scratch.offset + p.lead,
                        .shape = SHAPE(p.channels, p.height, p.width),
                        .stride = { p.rows * p.pitch, p.pitch, 1 } };
    tensor_copy(interior, image);
    return tensor_data(scratch);
}

/* ---- tables of offsets ------------------------------------------------------------------------------ */

static void even(ptrdiff_t *at, ptrdiff_t count, ptrdiff_t step)
{
    for (ptrdiff_t i = 0; i < count; i++) at[i] = i * step;
}

/* Where the taps of a kernel [channels, KH, KW] look, from the position of their window. */
static void look(ptrdiff_t *at, const window *w, planes p)
{
    for (ptrdiff_t c = 0; c < p.channels; c++)
        for (ptrdiff_t kh = 0; kh < w->kernel[0]; kh++)
            for (ptrdiff_t kw = 0; kw < w->kernel[1]; kw++)
                *at++ = (c * p.rows + kh * w->dilation[0]) * p.pitch + kw * w->dilation[1];
}

/* ---- plan ------------------------------------------------------------------------------------------- */

static bool suits(const layer *l, const window *w, shape x)
{
    (void)x;
    if (((const conv2d *)l->options)->groups > 1) return false;
    for (int axis = 0; axis < 2; axis++)
        if (w->stride[axis] != 1 || w->before[axis] > reach(w, axis)) return false;
    return w->out[0] * w->out[1] >= l->kernel->lanes && w->size[0] * w->size[1] >= l->kernel->lanes;
}

static ptrdiff_t largest(ptrdiff_t a, ptrdiff_t b)
{
    return a > b ? a : b;
}

/* Positions from the first to the last of so many rows, of which `width` in each count. */
static ptrdiff_t positions(ptrdiff_t rows, ptrdiff_t width, ptrdiff_t pitch)
{
    return (rows - 1) * pitch + width;
}

/* Rows whose positions fill a vector. */
static ptrdiff_t least_rows(const layer *l, ptrdiff_t width, ptrdiff_t pitch)
{
    ptrdiff_t lacking = largest(0, l->kernel->lanes - width);
    return 1 + (lacking + pitch - 1) / pitch;
}

/* Rows in a block, of so many rows of `width` in `pitch` positions with `depth` numbers each: as many as fit into
 * BLOCK, and enough to fill a vector. */
static ptrdiff_t block_rows(const layer *l, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t pitch, ptrdiff_t depth)
{
    ptrdiff_t least = least_rows(l, width, pitch), size = largest(least, BLOCK / (pitch * depth));
    if (size >= rows) return rows;
    ptrdiff_t blocks = (rows + size - 1) / size;
    return largest(least, (rows + blocks - 1) / blocks);
}

/* What a product over planes makes: images [channels, height, width]. */
typedef struct target {
    ptrdiff_t channels, height, width;
} target;

static ptrdiff_t result_pitch(const layer *l, target t, ptrdiff_t pitch)
{
    return kernel_padded(l->kernel,
                         positions(block_rows(l, t.height, t.width, pitch, t.channels), t.width, pitch));
}

/* Whether lanes are better used on positions than on so few channels. */
static bool few(const layer *l, ptrdiff_t out)
{
    return 2 * kernel_padded(l->kernel, out) >= 3 * out;
}

static int plan(layer *l, const window *w, shape x)
{
    const conv2d *o = l->options;
    ptrdiff_t in = x.n[1], out = o->out_channels, area = (ptrdiff_t)w->kernel[0] * w->kernel[1];
    planes px = planes_of_x(w, in), pdy = planes_of_dy(w, out);
    target y = { out, w->out[0], w->out[1] }, dx = { in, w->size[0], w->size[1] };
    ptrdiff_t lanes_out = kernel_padded(l->kernel, out);
    ptrdiff_t turned =
        (block_rows(l, y.height, y.width, y.width, lanes_out) + least_rows(l, y.width, y.width)) * y.width;
    ptrdiff_t spread = kernel_padded(l->kernel, positions(y.height, y.width, px.pitch));
    ptrdiff_t result = largest(out * result_pitch(l, y, px.pitch), in * result_pitch(l, dx, px.pitch));
    ptrdiff_t depth = largest(largest(in, out) * area, turned);
    if (layer_scratch(l, SHAPE(largest(planes_size(px), planes_size(pdy))))) return -1;
    if (layer_scratch(l, SHAPE(largest(result, in * area * lanes_out)))) return -1;
    if (layer_scratch(l, SHAPE(largest(turned * lanes_out, few(l, out) ? out * spread : 0)))) return -1;
    if (layer_table(l, largest(in * area, out)) || layer_table(l, depth)) return -1;
    return layer_table(l, largest(depth, few(l, out) ? spread / l->kernel->lanes : 0));
}

/* ---- forward and backward: one product --------------------------------------------------------------- */

/* to[m][position] = Σ_k weight[row[m] + step[k]] plane[offset[k] + position] */
static void correlate(const layer *l, ptrdiff_t depth, const real *plane, ptrdiff_t pitch, const real *bias,
                      tensor to)
{
    target t = { to.shape.n[0], to.shape.n[1], to.shape.n[2] };
    bool straight = pitch == t.width && !bias; /* no position is none: to its place at once */
    const ptrdiff_t rows = straight ? t.height : block_rows(l, t.height, t.width, pitch, t.channels);
    ptrdiff_t far = straight ? to.stride[0] : result_pitch(l, t, pitch);
    for (ptrdiff_t first = 0; first < t.height; first += rows) {
        if (first + rows > t.height) first = t.height - rows; /* some once more */
        real *place = tensor_data(to) + first * t.width,
             *result = straight ? place : tensor_data(l->scratch[RESULT]);
        kernel_product(l->kernel, t.channels, positions(rows, t.width, pitch), depth,
                       tensor_data(l->param[CONV2D_WEIGHT]), layer_offsets(l, ROW), layer_offsets(l, STEP),
                       plane + first * pitch, layer_offsets(l, OFFSET), result, far, false);
        for (ptrdiff_t m = 0; m < t.channels && !straight; m++)
            kernel_move(l->kernel, rows, t.width, result + m * far, pitch, place + m * to.stride[0], t.width,
                        bias ? bias[m] : 0);
    }
}

static ptrdiff_t area(const window *w)
{
    return (ptrdiff_t)w->kernel[0] * w->kernel[1];
}

/* The zeros between images in planes, where they are copied. */
static void clear(planes p, tensor scratch)
{
    tensor_fill(tensor_narrow(scratch, 0, 0, planes_size(p)), 0);
}

static void forward(layer *l, const window *w, tensor x, tensor y)
{
    planes p = planes_of_x(w, x.shape.n[1]);
    ptrdiff_t taps = p.channels * area(w);
    even(layer_offsets(l, ROW), y.shape.n[1], taps);
    even(layer_offsets(l, STEP), taps, 1);
    look(layer_offsets(l, OFFSET), w, p);
    clear(p, l->scratch[PLANE]);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        correlate(l, taps, lay_out(p, tensor_select(x, 0, i), l->scratch[PLANE]), p.pitch, conv2d_bias(l),
                  tensor_select(y, 0, i));
}

/* dx[c][position] sums over all that looked at it: tap (o, kh, kw) of the kernel turned round. */
static void backward(layer *l, const window *w, tensor dy, tensor dx)
{
    planes p = planes_of_dy(w, dy.shape.n[1]);
    ptrdiff_t in = dx.shape.n[1], *step = layer_offsets(l, STEP);
    even(layer_offsets(l, ROW), in, area(w));
    for (ptrdiff_t o = 0; o < p.channels; o++)
        for (ptrdiff_t tap = area(w) - 1; tap >= 0; tap--) *step++ = o * in * area(w) + tap;
    look(layer_offsets(l, OFFSET), w, p);
    clear(p, l->scratch[PLANE]);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++)
        correlate(l, p.channels * area(w), lay_out(p, tensor_select(dy, 0, i), l->scratch[PLANE]), p.pitch,
                  NULL, tensor_select(dx, 0, i));
}

/* ---- gradient --------------------------------------------------------------------------------------- */

/* result[tap][o] (+)= Σ_position plane[row[tap] + step[position]] dy[o][position], of one image. */
static void accumulate(const layer *l, planes p, const real *plane, tensor dy, bool add)
{
    ptrdiff_t out = dy.shape.n[0], height = dy.shape.n[1], width = dy.shape.n[2], size;
    ptrdiff_t taps = tensor_count(l->param[CONV2D_WEIGHT]) / out, lanes_out = kernel_padded(l->kernel, out);
    ptrdiff_t rows = block_rows(l, height, width, width, lanes_out);
    real *turned = tensor_data(l->scratch[TURNED]);
    for (ptrdiff_t first = 0; first < height; first += size, add = true) {
        size = height - first < rows + least_rows(l, width, width) ? height - first : rows;
        kernel_transpose(l->kernel, out, size * width, tensor_data(dy) + first * width, height * width,
                         turned, lanes_out);
        kernel_product(l->kernel, taps, lanes_out, size * width, plane + first * p.pitch,
                       layer_offsets(l, ROW), layer_offsets(l, STEP), turned, layer_offsets(l, OFFSET),
                       tensor_data(l->scratch[RESULT]), lanes_out, add);
    }
}

static void gradient_by_channels(const layer *l, const window *w, planes p, tensor x, tensor dy)
{
    tensor dw = l->grad[CONV2D_WEIGHT], sum = l->scratch[RESULT];
    ptrdiff_t out = dw.shape.n[0], lanes_out = kernel_padded(l->kernel, out);
    ptrdiff_t turned = tensor_count(l->scratch[TURNED]) / lanes_out;
    for (ptrdiff_t i = 0; i < turned; i++)
        layer_offsets(l, STEP)[i] = i / w->out[1] * p.pitch + i % w->out[1];
    even(layer_offsets(l, OFFSET), turned, lanes_out);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        accumulate(l, p, lay_out(p, tensor_select(x, 0, i), l->scratch[PLANE]), tensor_select(dy, 0, i),
                   i > 0);
    sum.shape = SHAPE(out, p.channels * area(w)); /* as dw, of its transpose */
    sum.stride[0] = 1, sum.stride[1] = lanes_out;
    tensor_add(tensor_reshape(dw, sum.shape), 1, sum);
}

/* dw[o][tap] += Σ_position dy[o][position] plane[row[tap] + position], where dy lies in rows of x's pitch with zeros
 * between them, and its last vector holds what is left, after zeros: it is read at the last positions. */
static void gradient_by_positions(const layer *l, const window *w, planes p, tensor x, tensor dy)
{
    tensor dw = l->grad[CONV2D_WEIGHT], spread = l->scratch[TURNED];
    ptrdiff_t out = dy.shape.n[1], lanes = l->kernel->lanes, count = positions(w->out[0], w->out[1], p.pitch);
    ptrdiff_t blocks = (count + lanes - 1) / lanes, surplus = blocks * lanes - count;
    even(layer_offsets(l, OFFSET), blocks, lanes);
    layer_offsets(l, OFFSET)[blocks - 1] = count - lanes;
    tensor_fill(spread, 0);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        for (ptrdiff_t o = 0; o < out; o++) {
            const real *from = tensor_data(dy) + (i * out + o) * w->out[0] * w->out[1];
            real *to = tensor_data(spread) + o * blocks * lanes, *last = to + (blocks - 1) * lanes;
            for (ptrdiff_t e = 0; e < lanes; e++) last[e] = 0;
            kernel_move(l->kernel, w->out[0], w->out[1], from, w->out[1], to, p.pitch, 0);
            for (ptrdiff_t e = lanes - 1; e >= 0; e--) last[e] = e < surplus ? 0 : last[e - surplus];
        }
        kernel_dot(l->kernel, out, p.channels * area(w), blocks, tensor_data(spread), blocks * lanes,
                   lay_out(p, tensor_select(x, 0, i), l->scratch[PLANE]), layer_offsets(l, ROW),
                   layer_offsets(l, OFFSET), tensor_data(dw), p.channels * area(w));
    }
}

static void gradient(layer *l, const window *w, tensor x, tensor dy)
{
    planes p = planes_of_x(w, x.shape.n[1]);
    look(layer_offsets(l, ROW), w, p);
    clear(p, l->scratch[PLANE]);
    if (few(l, dy.shape.n[1])) gradient_by_positions(l, w, p, x, dy);
    else gradient_by_channels(l, w, p, x, dy);
}

const conv2d_method conv2d_direct = {
    .suits = suits,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
};
