/* direct_channels.c: the backward pass and the gradient of a direct convolution with channels as lanes.
 *
 * Elements that are broadcast may be at any distance, so that x needs no phases: windows with a stride are
 * some of those with stride 1. Results are transposed. */
#include "layers/fast/direct.h"

/* ---- backward --------------------------------------------------------------------------------------- */

/* The weights of each group, [output channels, KH, KW, its input channels]. */
static void transpose_weights(const st_call *call, const direct_plan *d)
{
    const direct_sizes s = d->s;
    ptrdiff_t lanes = kernel_padded(d->k, s.in), group = s.out * s.area * lanes;
    st_tensor to = st_scratch(call, TRANSPOSED);
    st_fill(st_narrow(to, 0, 0, s.groups * group), 0);
    to.shape = ST_SHAPE(s.groups, s.out, s.in, s.area);
    to.stride[0] = group, to.stride[1] = s.area * lanes, to.stride[2] = 1, to.stride[3] = lanes;
    st_copy(to, st_reshape(call->param[CONV_WEIGHT], to.shape));
}

/* to[channel][i] = result[i][channel] */
static void transpose_result(const kernel *k, const st_real *result, ptrdiff_t count, ptrdiff_t channels,
                             st_real *to, ptrdiff_t pitch)
{
    ptrdiff_t lanes = k->lanes, far = kernel_padded(k, channels), whole = count / lanes * lanes;
    kernel_transpose(k, whole, channels, result, far, to, pitch);
    if (whole < count) /* the last block overlaps the previous one */
        kernel_transpose(k, lanes, channels, result + (count - lanes) * far, far, to + count - lanes, pitch);
}

static void plan_backward(direct_plan *d)
{
    direct_pass *b = &d->backward;
    const direct_sizes s = d->s;
    ptrdiff_t lanes = kernel_padded(d->k, s.in);
    b->p = planes_of_dy(d->k, &d->w, s.groups * s.out);
    iota(b->row, d->w.size[1], 1);
    planes_look_back(b->step, b->offset, &d->w, b->p, s.out, (ptrdiff_t[]){ s.area * lanes, lanes });
}

/* Rows from `first` on of a group's dx, as rows of channels, phase by phase. */
static void backward_block(const direct_plan *d, const st_real *plane, const st_real *weight, st_real *result,
                           ptrdiff_t first, ptrdiff_t rows)
{
    const window *w = &d->w;
    const direct_pass *b = &d->backward;
    const ptrdiff_t *step = b->step, *offset = b->offset;
    ptrdiff_t lanes = kernel_padded(d->k, d->s.in), width = w->size[1];
    for (ptrdiff_t kh = 0; kh < phase_count(w, 0); kh++)
        for (ptrdiff_t kw = 0; kw < phase_count(w, 1); kw++) {
            phase f = phase_of(w, 0, kh), g = phase_of(w, 1, kw);
            ptrdiff_t depth = d->s.out * f.taps * g.taps,
                      i = first > f.first ? ceil_div(first - f.first, w->stride[0]) : 0;
            for (; i < f.count && f.first + i * w->stride[0] < first + rows; i++)
                kernel_product(d->k, g.count, lanes, depth, plane + i * b->p.pitch, b->row, step, weight,
                               offset,
                               result + ((f.first + i * w->stride[0] - first) * width + g.first) * lanes,
                               w->stride[1] * lanes, false);
            step += depth, offset += depth;
        }
}

static void backward(const st_call *call, const direct_plan *d, st_tensor dy, st_tensor dx)
{
    const window *w = &d->w;
    const direct_sizes s = d->s;
    const planes p = d->backward.p;
    ptrdiff_t lanes = kernel_padded(d->k, s.in), height = w->size[0], width = w->size[1];
    const ptrdiff_t rows = direct_block_rows(d->k, height, width, lanes);
    st_tensor room = st_scratch(call, PLANE), result = st_scratch(call, RESULT);
    const st_real *weight = st_data(st_scratch(call, TRANSPOSED));
    transpose_weights(call, d);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        const st_real *plane = planes_lay_out_dy(p, st_select(dy, 0, i), room);
        for (ptrdiff_t g = 0; g < s.groups; g++)
            for (ptrdiff_t first = 0; first < height; first += rows) {
                if (first + rows > height)
                    first = height - rows; /* the last block overlaps the previous one */
                if (phase_gaps(w)) planes_clear(rows * width * lanes, result);
                backward_block(d, plane + g * s.out * p.rows * p.pitch, weight + g * s.out * s.area * lanes,
                               st_data(result), first, rows);
                transpose_result(d->k, st_data(result), rows * width, s.in,
                                 st_data(dx) + ((i * s.groups + g) * s.in * height + first) * width,
                                 height * width);
            }
    }
}

/* ---- gradient --------------------------------------------------------------------------------------- */

/* The offsets of a block's windows in a plane of stride 1. */
static void windows_at(ptrdiff_t *at, ptrdiff_t count, const window *w, planes p)
{
    for (ptrdiff_t i = 0; i < count; i++)
        at[i] = i / w->out[1] * w->stride[0] * p.pitch + i % w->out[1] * w->stride[1];
}

static void plan_gradient(direct_plan *d)
{
    direct_pass *g = &d->gradient;
    ptrdiff_t block = direct_block_positions(d->k, d->w.out[0], d->w.out[1], d->s.out);
    g->p = planes_of_x(d->k, &d->unstrided, d->s.groups * d->s.in);
    planes_look_out(g->row, &d->unstrided, g->p, d->s.in);
    windows_at(g->step, block, &d->w, g->p);
    iota(g->offset, block, kernel_padded(d->k, d->s.out));
}

/* result[tap][o] (+)= Σ_position plane[row[tap] + step[position]] dy[o][position], for an image and a
 * group. */
static void accumulate(const direct_plan *d, const st_real *plane, st_tensor dy, st_real *transposed,
                       st_real *result, bool add)
{
    const direct_pass *g = &d->gradient;
    const ptrdiff_t down = d->w.stride[0] * g->p.pitch; /* the distance between rows of windows */
    ptrdiff_t height = dy.shape.n[1], width = dy.shape.n[2], lanes_out = kernel_padded(d->k, d->s.out), size;
    ptrdiff_t rows = direct_block_rows(d->k, height, width, lanes_out);
    for (ptrdiff_t first = 0; first < height; first += size, add = true) {
        size = height - first < rows + direct_least_rows(d->k, width) ? height - first : rows;
        kernel_transpose(d->k, d->s.out, size * width, st_data(dy) + first * width, height * width,
                         transposed, lanes_out);
        kernel_product(d->k, d->s.taps, lanes_out, size * width, plane + first * down, g->row, g->step,
                       transposed, g->offset, result, lanes_out, add);
    }
}

static void gradient(const st_call *call, const direct_plan *d, st_tensor x, st_tensor dy)
{
    const direct_sizes s = d->s;
    const planes p = d->gradient.p;
    st_tensor dw = st_grad(call, CONV_WEIGHT), sum = st_scratch(call, RESULT), room = st_scratch(call, PLANE);
    st_real *transposed = st_data(st_scratch(call, TRANSPOSED));
    ptrdiff_t lanes_out = kernel_padded(d->k, s.out), each = s.taps * lanes_out;
    planes_clear(p.size, room);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *plane = planes_lay_out_x(&d->unstrided, p, st_select(x, 0, i), room);
        for (ptrdiff_t g = 0; g < s.groups; g++)
            accumulate(d, plane + g * s.in * p.rows * p.pitch, direct_group(st_select(dy, 0, i), g, s.out),
                       transposed, st_data(sum) + g * each, i > 0);
    }
    sum.shape = ST_SHAPE(s.groups, s.out, s.taps); /* as dw, of its transpose */
    sum.stride[0] = each, sum.stride[1] = 1, sum.stride[2] = lanes_out;
    st_add(st_reshape(dw, sum.shape), 1, sum);
}

const direct_algorithm direct_by_channels = { plan_backward, plan_gradient, backward, gradient };
