/* direct_positions.c: a direct convolution with positions as lanes; the stride is 1. */
#include "layers/fast/direct.h"

/* The number of positions from the first to the last in some rows. */
static ptrdiff_t span(const direct_pass *p, ptrdiff_t rows)
{
    return (rows - 1) * p->p.pitch + p->size[1];
}

/* ---- forward and backward --------------------------------------------------------------------------- */

static ptrdiff_t block_rows(const direct_plan *d, const direct_pass *p)
{
    return direct_block_rows(d->k, p->size[0], p->p.pitch, p->channels, DIRECT_BLOCK);
}

/* The distance between the channels of a block of results. */
static ptrdiff_t result_pitch(const direct_plan *d, const direct_pass *p)
{
    return kernel_padded(d->k, block_rows(d, p) * p->p.pitch);
}

static void plan_images(const direct_plan *d, direct_pass *p)
{
    const bool back = p == &d->backward;
    iota(p->row, p->channels, back ? d->s.area : d->s.taps);
    direct_plan_taps(d, p, back ? d->s.taps : d->s.area, 1);
    p->result = p->channels * result_pitch(d, p);
    /* A vector with more positions than a block ends in the space after the planes. */
    p->p.copied = span(p, block_rows(d, p)) < d->k->lanes;
}

/* to[channel][position] = Σ_k weight[row[channel] + other[k]] plane[tap[k] + position] + bias[channel] */
static void correlate(const st_call *call, const direct_plan *d, const direct_pass *p, const st_real *weight,
                      const st_real *bias, const st_real *plane, st_tensor to)
{
    ptrdiff_t height = p->size[0], width = p->size[1], pitch = p->p.pitch, depth;
    const ptrdiff_t rows = block_rows(d, p);
    depth = (p == &d->backward ? d->s.out : d->s.in) * d->s.area;
    bool straight =
        rows * width >= d->k->lanes && pitch == width && !bias; /* written to its destination directly */
    ptrdiff_t far = straight ? to.stride[0] : result_pitch(d, p);
    for (ptrdiff_t first = 0; first < height; first += rows) {
        if (first + rows > height) first = height - rows; /* the last block overlaps the previous one */
        st_real *place = st_data(to) + first * width,
                *result = straight ? place : st_data(st_scratch(call, RESULT));
        kernel_product(d->k, p->channels, largest(d->k->lanes, span(p, rows)), depth, weight, p->row,
                       p->other, plane + first * pitch, p->tap, result, far, false);
        for (ptrdiff_t m = 0; m < p->channels && !straight; m++, place += to.stride[0], result += far)
            kernel_move(d->k, rows, width, result, pitch, place, width, bias ? bias[m] : 0);
    }
}

static void images(const st_call *call, const direct_plan *d, const direct_pass *p, st_tensor from,
                   st_tensor to)
{
    const direct_sizes s = d->s;
    const bool back = p == &d->backward;
    const st_real *bias = back ? NULL : conv_bias(call), *weight = st_data(call->param[CONV_WEIGHT]);
    const ptrdiff_t read = (back ? s.out : s.in) * p->p.rows * p->p.pitch; /* by a group */
    st_tensor room = st_scratch(call, PLANE);
    planes_clear(p->p, room);
    for (ptrdiff_t i = 0; i < to.shape.n[0]; i++) {
        const st_real *plane = planes_lay_out(p->p, st_select(from, 0, i), room);
        for (ptrdiff_t g = 0; g < s.groups; g++)
            correlate(call, d, p, weight + g * s.out * s.taps, bias ? bias + g * s.out : NULL,
                      plane + g * read, st_narrow(st_select(to, 0, i), 0, g * p->channels, p->channels));
    }
}

/* ---- gradient --------------------------------------------------------------------------------------- */

/* The last vector of positions ends with the last position, and overlaps the previous one. The only one begins with the
 * first: rows of windows that are wider than the pitch overlap, so that there may be fewer positions than windows. */
static void plan_gradient(const direct_plan *d, direct_pass *p)
{
    direct_plan_taps(d, p, 0, 0);
    ptrdiff_t lanes = d->k->lanes, count = span(p, d->w.out[0]), vectors = kernel_padded(d->k, count) / lanes;
    iota(p->other, vectors, lanes);
    p->other[vectors - 1] = largest(count - lanes, 0);
    p->transposed = d->s.out * vectors * lanes;
}

/* dy of one channel in rows of `pitch` positions, padded with zeros. The last vector holds zeros and then the
 * remainder, as it is used with the last positions. */
static void spread(const direct_plan *d, const st_real *dy, ptrdiff_t count, st_real *to)
{
    const window *w = &d->w;
    ptrdiff_t lanes = d->k->lanes, far = kernel_padded(d->k, count),
              surplus = count < lanes ? 0 : far - count;
    st_real *last = to + far - lanes;
    for (ptrdiff_t e = 0; e < lanes; e++) last[e] = 0;
    kernel_move(d->k, w->out[0], w->out[1], dy, w->out[1], to, d->gradient.p.pitch, 0);
    for (ptrdiff_t e = lanes - 1; e >= 0; e--) last[e] = e < surplus ? 0 : last[e - surplus];
}

/* dw[o][tap] += Σ_position dy[o][position] plane[row[tap] + position] */
static void gradient(const st_call *call, const direct_plan *d, st_tensor x, st_tensor dy)
{
    const window *w = &d->w;
    const direct_sizes s = d->s;
    const direct_pass *p = &d->gradient;
    ptrdiff_t lanes = d->k->lanes, count = span(p, w->out[0]), far = kernel_padded(d->k, count);
    st_tensor room = st_scratch(call, PLANE), spreads = st_scratch(call, TRANSPOSED);
    st_real *to = st_data(spreads), *dw = st_data(st_grad(call, CONV_WEIGHT));
    planes_clear(p->p, room);
    st_fill(spreads, 0);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *plane = planes_lay_out(p->p, st_select(x, 0, i), room);
        for (ptrdiff_t g = 0; g < s.groups; g++) {
            const st_real *from = st_data(dy) + (i * s.groups + g) * s.out * w->out[0] * w->out[1];
            for (ptrdiff_t o = 0; o < s.out; o++)
                spread(d, from + o * w->out[0] * w->out[1], count, to + o * far);
            kernel_dot(d->k, s.out, s.taps, far / lanes, to, far, plane + g * s.in * p->p.rows * p->p.pitch,
                       p->tap, p->other, dw + g * s.out * s.taps, s.taps);
        }
    }
}

const direct_algorithm direct_by_positions = { plan_images, images, plan_gradient, gradient };
