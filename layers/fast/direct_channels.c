/* direct_channels.c: a direct convolution with channels as lanes.
 *
 *     result[position][o]  = Σ_tap plane[position + offset[tap]] weightᵀ[tap][o]      and likewise backward
 *
 * What is broadcast may lie at any distance, so that x needs no phases: windows at a stride are some of those at
 * stride 1. Results are turned round. */
#include "layers/fast/direct.h"

/* ---- forward and backward --------------------------------------------------------------------------- */

/* The weights of each group [taps, its output channels], or [output channels, KH, KW, its input channels]. */
static void turn_weights(const layer *l, direct_sizes s, bool back)
{
    ptrdiff_t lanes = kernel_padded(l->kernel, back ? s.in : s.out), o = back ? s.area * lanes : 1;
    ptrdiff_t c = back ? 1 : s.area * lanes, g = (back ? s.out * s.area : s.taps) * lanes;
    tensor to = l->scratch[TURNED];
    tensor_fill(tensor_narrow(to, 0, 0, s.groups * g), 0);
    to.shape = SHAPE(s.groups, s.out, s.in, s.area);
    to.stride[0] = g, to.stride[1] = o, to.stride[2] = c, to.stride[3] = lanes;
    tensor_copy(to, tensor_reshape(l->param[CONV2D_WEIGHT], to.shape));
}

/* to[channel][i] = result[i][channel] */
static void turn_result(const layer *l, ptrdiff_t count, ptrdiff_t channels, real *to, ptrdiff_t pitch)
{
    ptrdiff_t lanes = l->kernel->lanes, far = kernel_padded(l->kernel, channels),
              whole = count / lanes * lanes;
    const real *result = tensor_data(l->scratch[RESULT]);
    kernel_transpose(l->kernel, whole, channels, result, far, to, pitch);
    if (whole < count) /* some once more */
        kernel_transpose(l->kernel, lanes, channels, result + (count - lanes) * far, far, to + count - lanes,
                         pitch);
}

/* Where the windows of a block look, in a plane of stride 1. */
static void windows_at(ptrdiff_t *at, ptrdiff_t count, const window *w, planes p)
{
    for (ptrdiff_t i = 0; i < count; i++)
        at[i] = i / w->out[1] * w->stride[0] * p.pitch + i % w->out[1] * w->stride[1];
}

static void forward_group(const layer *l, const window *w, direct_sizes s, planes p, const real *plane,
                          const real *weight, const real *bias, tensor y)
{
    ptrdiff_t lanes = kernel_padded(l->kernel, s.out), width = w->out[1];
    const ptrdiff_t rows = direct_block_rows(l, w->out[0], width, lanes);
    real *result = tensor_data(l->scratch[RESULT]);
    for (ptrdiff_t first = 0; first < w->out[0]; first += rows) {
        if (first + rows > w->out[0]) first = w->out[0] - rows; /* some once more */
        for (ptrdiff_t i = 0; i < rows * width && bias; i++)
            for (ptrdiff_t o = 0; o < lanes; o++) result[i * lanes + o] = o < s.out ? bias[o] : 0;
        kernel_product(l->kernel, rows * width, lanes, s.taps, plane + first * w->stride[0] * p.pitch,
                       layer_offsets(l, ROW), layer_offsets(l, STEP), weight, layer_offsets(l, OFFSET),
                       result, lanes, bias != NULL);
        turn_result(l, rows * width, s.out, tensor_data(y) + first * width, w->out[0] * width);
    }
}

static void forward(const layer *l, const window *w, direct_sizes s, tensor x, tensor y)
{
    window d = direct_unstrided(w);
    planes p = planes_of_x(l, &d, x.shape.n[1]);
    ptrdiff_t lanes = kernel_padded(l->kernel, s.out);
    const real *bias = conv2d_bias(l);
    windows_at(layer_offsets(l, ROW), direct_block_positions(l, w->out[0], w->out[1], s.out), w, p);
    planes_look_out(layer_offsets(l, STEP), &d, p, s.in);
    even(layer_offsets(l, OFFSET), s.taps, lanes);
    turn_weights(l, s, false);
    planes_clear(p.size, l->scratch[PLANE]);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const real *plane = planes_lay_out_x(&d, p, tensor_select(x, 0, i), l->scratch[PLANE]);
        for (ptrdiff_t g = 0; g < s.groups; g++)
            forward_group(l, w, s, p, plane + g * s.in * p.rows * p.pitch,
                          tensor_data(l->scratch[TURNED]) + g * s.taps * lanes,
                          bias ? bias + g * s.out : NULL, direct_group(tensor_select(y, 0, i), g, s.out));
    }
}

/* Rows first, first + 1, … of dx, of a group, into rows of channels: what there is of each phase in turn. */
static void backward_block(const layer *l, const window *w, direct_sizes s, planes p, const real *plane,
                           const real *weight, ptrdiff_t first, ptrdiff_t rows)
{
    const ptrdiff_t *step = layer_offsets(l, STEP), *offset = layer_offsets(l, OFFSET);
    ptrdiff_t lanes = kernel_padded(l->kernel, s.in), width = w->size[1];
    real *result = tensor_data(l->scratch[RESULT]);
    for (ptrdiff_t kh = 0; kh < phase_count(w, 0); kh++)
        for (ptrdiff_t kw = 0; kw < phase_count(w, 1); kw++) {
            phase f = phase_of(w, 0, kh), g = phase_of(w, 1, kw);
            ptrdiff_t depth = s.out * f.taps * g.taps,
                      i = first > f.first ? parts(first - f.first, w->stride[0]) : 0;
            for (; i < f.count && f.first + i * w->stride[0] < first + rows; i++)
                kernel_product(l->kernel, g.count, lanes, depth, plane + i * p.pitch, layer_offsets(l, ROW),
                               step, weight, offset,
                               result + ((f.first + i * w->stride[0] - first) * width + g.first) * lanes,
                               w->stride[1] * lanes, false);
            step += depth, offset += depth;
        }
}

static void backward(const layer *l, const window *w, direct_sizes s, planes p, tensor dy, tensor dx)
{
    ptrdiff_t lanes = kernel_padded(l->kernel, s.in), height = w->size[0], width = w->size[1];
    const ptrdiff_t rows = direct_block_rows(l, height, width, lanes);
    even(layer_offsets(l, ROW), width, 1);
    planes_look_back(layer_offsets(l, STEP), layer_offsets(l, OFFSET), w, p, s.out,
                     (ptrdiff_t[]){ s.area * lanes, lanes });
    turn_weights(l, s, true);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        const real *plane = planes_lay_out_dy(p, tensor_select(dy, 0, i), l->scratch[PLANE]);
        for (ptrdiff_t g = 0; g < s.groups; g++)
            for (ptrdiff_t first = 0; first < height; first += rows) {
                if (first + rows > height) first = height - rows; /* some once more */
                if (phase_gaps(w)) planes_clear(rows * width * lanes, l->scratch[RESULT]);
                backward_block(l, w, s, p, plane + g * s.out * p.rows * p.pitch,
                               tensor_data(l->scratch[TURNED]) + g * s.out * s.area * lanes, first, rows);
                turn_result(l, rows * width, s.in,
                            tensor_data(dx) + ((i * s.groups + g) * s.in * height + first) * width,
                            height * width);
            }
    }
}

/* ---- gradient --------------------------------------------------------------------------------------- */

/* result[tap][o] (+)= Σ_position plane[row[tap] + step[position]] dy[o][position], of an image and a group; windows
 * of the next row are `down` further on. */
static void accumulate(const layer *l, direct_sizes s, const real *plane, ptrdiff_t down, tensor dy,
                       real *result, bool add)
{
    ptrdiff_t height = dy.shape.n[1], width = dy.shape.n[2], lanes_out = kernel_padded(l->kernel, s.out),
              size;
    ptrdiff_t rows = direct_block_rows(l, height, width, lanes_out);
    real *turned = tensor_data(l->scratch[TURNED]);
    for (ptrdiff_t first = 0; first < height; first += size, add = true) {
        size = height - first < rows + direct_least_rows(l, width) ? height - first : rows;
        kernel_transpose(l->kernel, s.out, size * width, tensor_data(dy) + first * width, height * width,
                         turned, lanes_out);
        kernel_product(l->kernel, s.taps, lanes_out, size * width, plane + first * down,
                       layer_offsets(l, ROW), layer_offsets(l, STEP), turned, layer_offsets(l, OFFSET),
                       result, lanes_out, add);
    }
}

static void gradient(const layer *l, const window *w, direct_sizes s, tensor x, tensor dy)
{
    tensor dw = l->grad[CONV2D_WEIGHT], sum = l->scratch[RESULT];
    window d = direct_unstrided(w);
    planes p = planes_of_x(l, &d, x.shape.n[1]);
    ptrdiff_t lanes_out = kernel_padded(l->kernel, s.out), each = s.taps * lanes_out;
    ptrdiff_t block = direct_block_positions(l, w->out[0], w->out[1], s.out);
    planes_look_out(layer_offsets(l, ROW), &d, p, s.in);
    windows_at(layer_offsets(l, STEP), block, w, p);
    even(layer_offsets(l, OFFSET), block, lanes_out);
    planes_clear(p.size, l->scratch[PLANE]);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const real *plane = planes_lay_out_x(&d, p, tensor_select(x, 0, i), l->scratch[PLANE]);
        for (ptrdiff_t g = 0; g < s.groups; g++)
            accumulate(l, s, plane + g * s.in * p.rows * p.pitch, w->stride[0] * p.pitch,
                       direct_group(tensor_select(dy, 0, i), g, s.out), tensor_data(sum) + g * each, i > 0);
    }
    sum.shape = SHAPE(s.groups, s.out, s.taps); /* as dw, of its transpose */
    sum.stride[0] = each, sum.stride[1] = 1, sum.stride[2] = lanes_out;
    tensor_add(tensor_reshape(dw, sum.shape), 1, sum);
}

const direct_way direct_by_channels = { .forward = forward, .backward = backward, .gradient = gradient };
