/* direct_positions.c: a direct convolution with positions as lanes; the stride is 1. */
#include "layers/fast/direct.h"

/* The number of positions from the first to the last in some rows. */
static ptrdiff_t span(const direct_pass *p, ptrdiff_t rows)
{
    return (rows - 1) * p->p.pitch + p->size[1];
}

/* ---- forward and backward --------------------------------------------------------------------------- */

/* The distance between the channels of a block of results. */
static ptrdiff_t result_pitch(const direct_plan *d, const direct_pass *p)
{
    return kernel_padded(d->k, p->rows * p->p.pitch);
}

static void plan_images(const direct_plan *d, direct_pass *p)
{
    const bool back = p == &d->backward;
    iota(p->row, p->channels, back ? d->s.area : d->s.taps);
    direct_plan_taps(d, p, back ? d->s.taps : d->s.area, 1);
    p->rows = direct_block_rows(d->k, p->size[0], p->p.pitch, p->channels, DIRECT_BLOCK);
    p->result = p->channels * result_pitch(d, p);
    /* A vector with more positions than a block ends in the space after the planes. */
    p->p.copied = span(p, p->rows) < d->k->lanes;
}

/* to[channel][position] = Σ_k weight[row[channel] + other[k]] plane[tap[k] + position] + bias[channel] */
static void make(const st_call *call, const direct_pass *p, ptrdiff_t group, const st_real *plane,
                 st_tensor to)
{
    const direct_plan *d = call->plan;
    const st_real *bias = p == &d->backward ? NULL : conv_bias(call),
                  *weight = st_data(call->param[CONV_WEIGHT]) + group * d->s.out * d->s.taps;
    const ptrdiff_t height = p->size[0], width = p->size[1], pitch = p->p.pitch, rows = p->rows;
    /* Written to its destination directly? */
    const bool straight = rows * width >= d->k->lanes && pitch == width && !bias;
    const ptrdiff_t far = straight ? to.stride[0] : result_pitch(d, p);
    for (ptrdiff_t first = 0; first < height; first += rows) {
        if (first + rows > height) first = height - rows; /* the last block overlaps the previous one */
        st_real *place = st_data(to) + first * width,
                *result = straight ? place : st_data(st_scratch(call, RESULT));
        kernel_product(d->k, p->channels, largest(d->k->lanes, span(p, rows)), p->depth, weight, p->row,
                       p->other, plane + first * pitch, p->tap, result, far, false);
        for (ptrdiff_t m = 0; m < p->channels && !straight; m++, place += to.stride[0], result += far)
            kernel_move(d->k, rows, width, result, pitch, place, width,
                        bias ? bias[group * p->channels + m] : 0);
    }
}

/* ---- gradient --------------------------------------------------------------------------------------- */

/* The last vector of positions ends with the last position, and overlaps the previous one. A single one
 * begins with the first position: rows of windows that are wider than the pitch overlap, so that there may be
 * fewer positions than windows. */
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
static void accumulate(const st_call *call, ptrdiff_t group, const st_real *plane, const st_real *dy,
                       bool add)
{
    (void)add;
    const direct_plan *d = call->plan;
    const direct_pass *p = &d->gradient;
    const ptrdiff_t out = d->s.out, taps = d->s.taps, count = span(p, p->size[0]),
                    far = kernel_padded(d->k, count);
    st_real *to = st_data(st_scratch(call, TRANSPOSED));
    for (ptrdiff_t o = 0; o < out; o++) spread(d, dy + o * p->size[0] * p->size[1], count, to + o * far);
    kernel_dot(d->k, out, taps, far / d->k->lanes, to, far, plane, p->tap, p->other,
               st_data(st_grad(call, CONV_WEIGHT)) + group * out * taps, taps);
}

const direct_algorithm direct_by_positions = {
    .plan_images = plan_images,
    .make = make,
    .plan_gradient = plan_gradient,
    .accumulate = accumulate,
};
