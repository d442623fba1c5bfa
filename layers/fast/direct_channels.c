/* direct_channels.c: a direct convolution with channels as lanes.
 *
 * Elements that are broadcast may be at any distance, so that windows with a stride are some of those with
 * stride 1. Results are transposed. */
#include "layers/fast/direct.h"

/* The offsets of some windows in planes, row by row; NULL: nothing. */
static void windows_at(ptrdiff_t *at, ptrdiff_t count, ptrdiff_t width, ptrdiff_t down, ptrdiff_t across)
{
    for (ptrdiff_t i = 0; at && i < count; i++) at[i] = i / width * down + i % width * across;
}

/* ---- forward and backward --------------------------------------------------------------------------- */

enum { PANEL = 64, SUM = 1 << 12 };

/* The weights of so many channels are a panel [taps, channels]. */
static ptrdiff_t panel_of(const direct_plan *d, const direct_pass *p)
{
    ptrdiff_t padded = kernel_padded(d->k, p->channels);
    return kernel_padded(d->k, ceil_div(padded, ceil_div(padded, PANEL)));
}

static void plan_images(const direct_plan *d, direct_pass *p)
{
    const bool back = p == &d->backward;
    ptrdiff_t panel = panel_of(d, p), panels = ceil_div(p->channels, panel), width = p->size[1];
    direct_plan_taps(d, p, d->s.area * panel, panel);
    p->rows = direct_block_rows(d->k, p->size[0], width, panel, DIRECT_BLOCK);
    windows_at(p->row, p->rows * width, width, (back ? 1 : d->w.stride[0]) * p->p.pitch,
               back ? 1 : d->w.stride[1]);
    p->result = p->rows * width * panel;
    p->transposed = d->s.groups * panels * p->depth * panel;
}

/* Weights [groups, panels, taps, panel]; the taps of the backward pass are [output channels, KH, KW]. */
static void pack_weights(const st_call *call, const direct_pass *p)
{
    const direct_plan *d = call->plan;
    const direct_sizes s = d->s;
    const ptrdiff_t panel = panel_of(d, p), size = p->depth * panel;
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

static void begin(const st_call *call, const direct_pass *p)
{
    const direct_plan *d = call->plan;
    pack_weights(call, p);
    if (p == &d->backward && (d->w.kernel[0] < d->w.stride[0] || d->w.kernel[1] < d->w.stride[1]))
        st_fill(st_narrow(st_scratch(call, RESULT), 0, 0, p->result), 0);
}

static void make(const st_call *call, const direct_pass *p, ptrdiff_t group, const st_real *plane,
                 st_tensor to)
{
    const direct_plan *d = call->plan;
    const st_real *bias = p == &d->backward ? NULL : conv_bias(call);
    const ptrdiff_t panel = panel_of(d, p), height = p->size[0], width = p->size[1], rows = p->rows,
                    size = p->depth * panel;
    st_real *result = st_data(st_scratch(call, RESULT));
    const st_real *weight =
        st_data(st_scratch(call, TRANSPOSED)) + group * ceil_div(p->channels, panel) * size;
    for (ptrdiff_t c = 0; c < p->channels; c += panel, weight += size)
        for (ptrdiff_t first = 0; first < height; first += rows) {
            if (first + rows > height) first = height - rows; /* the last block overlaps the previous one */
            block(d, p, plane, weight, result, first, rows);
            kernel_transpose(d->k, rows * width, smallest(panel, p->channels - c), result, panel,
                             st_data(to) + (c * height + first) * width, height * width,
                             bias ? bias + group * p->channels + c : NULL);
        }
}

/* ---- gradient --------------------------------------------------------------------------------------- */

/* A block is as large as the sum to which its products are added. */
static void plan_gradient(const direct_plan *d, direct_pass *p)
{
    const ptrdiff_t lanes_out = kernel_padded(d->k, d->s.out), width = p->size[1];
    direct_plan_taps(d, p, 0, 0);
    p->rows = direct_block_rows(d->k, p->size[0], width, lanes_out, largest(d->s.taps * lanes_out, SUM));
    windows_at(p->row, p->rows * width, width, d->w.stride[0] * p->p.pitch, d->w.stride[1]);
    if (p->other) iota(p->other, p->rows * width, lanes_out);
    p->result = d->s.groups * d->s.taps * lanes_out;
    p->transposed = p->rows * width * lanes_out;
}

/* result[group][t][o] (+)= Σ_position plane[tap[t] + row[position]] dy[o][position] */
static void accumulate(const st_call *call, ptrdiff_t group, const st_real *plane, const st_real *dy,
                       bool add)
{
    const direct_plan *d = call->plan;
    const direct_pass *p = &d->gradient;
    const ptrdiff_t height = p->size[0], width = p->size[1], lanes_out = kernel_padded(d->k, d->s.out);
    st_real *result = st_data(st_scratch(call, RESULT)) + group * d->s.taps * lanes_out,
            *transposed = st_data(st_scratch(call, TRANSPOSED));
    for (ptrdiff_t first = 0, rows; first < height; first += rows, add = true) {
        rows = smallest(p->rows, height - first);
        kernel_transpose(d->k, d->s.out, rows * width, dy + first * width, height * width, transposed,
                         lanes_out, NULL);
        kernel_product(d->k, d->s.taps, lanes_out, rows * width, plane + first * d->w.stride[0] * p->p.pitch,
                       p->tap, p->row, transposed, p->other, result, lanes_out, add);
    }
}

static void end(const st_call *call)
{
    const direct_sizes s = ((const direct_plan *)call->plan)->s;
    const ptrdiff_t lanes_out = kernel_padded(((const direct_plan *)call->plan)->k, s.out);
    st_tensor dw = st_grad(call, CONV_WEIGHT), sum = st_scratch(call, RESULT);
    sum.shape = ST_SHAPE(s.groups, s.out, s.taps); /* as dw, of its transpose */
    sum.stride[0] = s.taps * lanes_out, sum.stride[1] = 1, sum.stride[2] = lanes_out;
    st_add(st_reshape(dw, sum.shape), 1, sum);
}

const direct_algorithm direct_by_channels = { plan_images, begin, make, plan_gradient, accumulate, end };
