/* direct_channels.c: a direct convolution with channels as lanes.
 *
 * Elements that are broadcast may be at any distance, so that windows with a stride are some of those with
 * stride 1. Results are transposed. */
#include "layers/fast/direct.h"

/* The offsets of some windows in planes, row by row. */
static void windows_at(ptrdiff_t *at, ptrdiff_t count, ptrdiff_t width, ptrdiff_t down, ptrdiff_t across)
{
    for (ptrdiff_t i = 0; i < count; i++) at[i] = i / width * down + i % width * across;
}

/* ---- forward and backward --------------------------------------------------------------------------- */

enum { PANEL = 64, SUM = 1 << 12 };

/* The weights of so many channels are a panel [taps, channels]. */
static ptrdiff_t panel_of(const direct_plan *d, const direct_pass *p)
{
    ptrdiff_t padded = kernel_padded(d->k, p->channels);
    return kernel_padded(d->k, ceil_div(padded, ceil_div(padded, PANEL)));
}

/* All taps of a channel of the result. */
static ptrdiff_t depth_of(const direct_plan *d, const direct_pass *p)
{
    return (p == &d->backward ? d->s.out : d->s.in) * d->s.area;
}

static ptrdiff_t block_rows(const direct_plan *d, const direct_pass *p)
{
    return direct_block_rows(d->k, p->size[0], p->size[1], panel_of(d, p), DIRECT_BLOCK);
}

static void plan_images(const direct_plan *d, direct_pass *p)
{
    const bool back = p == &d->backward;
    ptrdiff_t panel = panel_of(d, p), panels = ceil_div(p->channels, panel);
    direct_plan_taps(d, p, d->s.area * panel, panel);
    windows_at(p->row, block_rows(d, p) * p->size[1], p->size[1], (back ? 1 : d->w.stride[0]) * p->p.pitch,
               back ? 1 : d->w.stride[1]);
    p->result = block_rows(d, p) * p->size[1] * panel;
    p->transposed = d->s.groups * panels * depth_of(d, p) * panel;
}

/* Weights [groups, panels, taps, panel]; the taps of the backward pass are [output channels, KH, KW]. */
static void pack_weights(const st_call *call, const direct_plan *d, const direct_pass *p)
{
    const direct_sizes s = d->s;
    const ptrdiff_t panel = panel_of(d, p), size = depth_of(d, p) * panel;
    st_tensor to = st_scratch(call, TRANSPOSED),
              weight = st_reshape(call->param[CONV_WEIGHT], ST_SHAPE(s.groups, s.out, s.in, s.area));
    st_fill(st_narrow(to, 0, 0, p->transposed), 0);
    to.stride[0] = s.area * panel, to.stride[1] = panel, to.stride[2] = 1;
    for (ptrdiff_t g = 0; g < s.groups; g++)
        for (ptrdiff_t first = 0; first < p->channels; first += panel, to.offset += size) {
            ptrdiff_t channels = smallest(panel, p->channels - first);
            st_tensor from = st_narrow(st_select(weight, 0, g), p == &d->backward, first, channels);
            if (p == &d->backward) {
                from = st_transpose(from, 1, 2);
                to.shape = from.shape;
                st_copy(to, from);
            } else {
                kernel_transpose(d->k, channels, s.taps, st_data(from), s.taps, st_data(to), panel, NULL);
            }
        }
}

/* Rows from `first` on of some channels, as rows of channels, phase by phase; forward has one. */
static void block(const direct_plan *d, const direct_pass *p, const st_real *plane, const st_real *weight,
                  st_real *result, ptrdiff_t first, ptrdiff_t rows)
{
    const window *w = &d->w;
    const bool back = p == &d->backward;
    const int one[2] = { 1, 1 }, *apart = back ? w->stride : one;
    const ptrdiff_t panel = panel_of(d, p), width = p->size[1], down = (back ? 1 : w->stride[0]) * p->p.pitch,
                    together = apart[0] * apart[1] == 1 ? rows : 1;
    const ptrdiff_t *tap = p->tap, *other = p->other;
    for (ptrdiff_t kh = 0; kh < (back ? phase_count(w, 0) : 1); kh++)
        for (ptrdiff_t kw = 0; kw < (back ? phase_count(w, 1) : 1); kw++) {
            phase f = { .taps = w->kernel[0], .count = p->size[0] },
                  g = { .taps = w->kernel[1], .count = width };
            if (back) f = phase_of(w, 0, kh), g = phase_of(w, 1, kw);
            ptrdiff_t depth = (back ? d->s.out : d->s.in) * f.taps * g.taps,
                      i = first > f.first ? ceil_div(first - f.first, apart[0]) : 0;
            for (; i < f.count && f.first + i * apart[0] < first + rows; i += together)
                kernel_product(d->k, together * g.count, panel, depth, plane + i * down, p->row, tap, weight,
                               other, result + ((f.first + i * apart[0] - first) * width + g.first) * panel,
                               apart[1] * panel, false);
            tap += depth, other += depth;
        }
}

static void images(const st_call *call, const direct_plan *d, const direct_pass *p, st_tensor from,
                   st_tensor to)
{
    const direct_sizes s = d->s;
    const bool back = p == &d->backward;
    const st_real *bias = back ? NULL : conv_bias(call);
    const ptrdiff_t panel = panel_of(d, p), height = p->size[0], width = p->size[1], rows = block_rows(d, p);
    const ptrdiff_t read = (back ? s.out : s.in) * p->p.rows * p->p.pitch; /* by a group */
    st_tensor room = st_scratch(call, PLANE);
    st_real *result = st_data(st_scratch(call, RESULT));
    pack_weights(call, d, p);
    planes_clear(p->p, room);
    if (back && phase_gaps(&d->w)) st_fill(st_narrow(st_scratch(call, RESULT), 0, 0, p->result), 0);
    for (ptrdiff_t i = 0; i < to.shape.n[0]; i++) {
        const st_real *plane = planes_lay_out(p->p, st_select(from, 0, i), room),
                      *weight = st_data(st_scratch(call, TRANSPOSED));
        st_real *image = st_data(st_select(to, 0, i));
        for (ptrdiff_t g = 0; g < s.groups; g++, plane += read)
            for (ptrdiff_t c = 0; c < p->channels; c += panel, weight += depth_of(d, p) * panel)
                for (ptrdiff_t first = 0; first < height; first += rows) {
                    if (first + rows > height)
                        first = height - rows; /* the last block overlaps the previous one */
                    block(d, p, plane, weight, result, first, rows);
                    ptrdiff_t channel = g * p->channels + c;
                    kernel_transpose(d->k, rows * width, smallest(panel, p->channels - c), result, panel,
                                     image + (channel * height + first) * width, height * width,
                                     bias ? bias + channel : NULL);
                }
    }
}

/* ---- gradient --------------------------------------------------------------------------------------- */

/* A block is as large as the sum to which its products are added. */
static ptrdiff_t gradient_rows(const direct_plan *d)
{
    const ptrdiff_t lanes_out = kernel_padded(d->k, d->s.out);
    return direct_block_rows(d->k, d->w.out[0], d->w.out[1], lanes_out, largest(d->s.taps * lanes_out, SUM));
}

static void plan_gradient(const direct_plan *d, direct_pass *p)
{
    ptrdiff_t lanes_out = kernel_padded(d->k, d->s.out), block = gradient_rows(d) * d->w.out[1];
    direct_plan_taps(d, p, 0, 0);
    windows_at(p->row, block, d->w.out[1], d->w.stride[0] * p->p.pitch, d->w.stride[1]);
    iota(p->other, block, lanes_out);
    p->result = d->s.groups * d->s.taps * lanes_out;
    p->transposed = block * lanes_out;
}

/* result[t][o] (+)= Σ_position plane[tap[t] + row[position]] dy[o][position], for an image and a group. */
static void accumulate(const direct_plan *d, const st_real *plane, const st_real *dy, st_real *transposed,
                       st_real *result, bool add)
{
    const direct_pass *p = &d->gradient;
    ptrdiff_t height = d->w.out[0], width = d->w.out[1], lanes_out = kernel_padded(d->k, d->s.out), rows;
    const ptrdiff_t most = gradient_rows(d);
    for (ptrdiff_t first = 0; first < height; first += rows, add = true) {
        rows = smallest(most, height - first);
        kernel_transpose(d->k, d->s.out, rows * width, dy + first * width, height * width, transposed,
                         lanes_out, NULL);
        kernel_product(d->k, d->s.taps, lanes_out, rows * width, plane + first * d->w.stride[0] * p->p.pitch,
                       p->tap, p->row, transposed, p->other, result, lanes_out, add);
    }
}

static void gradient(const st_call *call, const direct_plan *d, st_tensor x, st_tensor dy)
{
    const direct_sizes s = d->s;
    const direct_pass *p = &d->gradient;
    st_tensor dw = st_grad(call, CONV_WEIGHT), sum = st_scratch(call, RESULT), room = st_scratch(call, PLANE),
              transposed = st_scratch(call, TRANSPOSED);
    ptrdiff_t lanes_out = kernel_padded(d->k, s.out), each = s.taps * lanes_out,
              channel = d->w.out[0] * d->w.out[1];
    planes_clear(p->p, room);
    st_fill(st_narrow(transposed, 0, 0, p->transposed), 0);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *plane = planes_lay_out(p->p, st_select(x, 0, i), room);
        for (ptrdiff_t g = 0; g < s.groups; g++)
            accumulate(d, plane + g * s.in * p->p.rows * p->p.pitch,
                       st_data(dy) + (i * s.groups + g) * s.out * channel, st_data(transposed),
                       st_data(sum) + g * each, i > 0);
    }
    sum.shape = ST_SHAPE(s.groups, s.out, s.taps); /* as dw, of its transpose */
    sum.stride[0] = each, sum.stride[1] = 1, sum.stride[2] = lanes_out;
    st_add(st_reshape(dw, sum.shape), 1, sum);
}

const direct_algorithm direct_by_channels = { plan_images, images, plan_gradient, gradient };
