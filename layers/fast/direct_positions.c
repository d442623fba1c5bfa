/* direct_positions.c: a direct convolution with positions as lanes; the stride is 1. */
#include "layers/fast/direct.h"

#include <string.h>

/* The number of positions from the first to the last in some rows. */
static ptrdiff_t span(const direct_pass *p, ptrdiff_t rows)
{
    return (rows - 1) * p->p.pitch + p->size[1];
}

static void move(ptrdiff_t rows, ptrdiff_t width, const st_real *from, ptrdiff_t from_pitch, st_real *to,
                 ptrdiff_t to_pitch)
{
    for (; rows > 0; rows--, from += from_pitch, to += to_pitch) memcpy(to, from, (size_t)width * sizeof *to);
}

/* ---- forward and backward --------------------------------------------------------------------------- */

bool direct_by_rows(const direct_plan *d, ptrdiff_t width)
{
    return width >= d->k->lanes && 3 * kernel_padded(d->k, width) <= 4 * width;
}

/* Vectors of rows, if that fills most lanes, or of all positions in a block of rows, at least one vector: the
 * last one overlaps the previous one. */
static void plan_vectors(const direct_plan *d, direct_pass *p)
{
    const bool by_rows = direct_by_rows(d, p->size[1]);
    const ptrdiff_t lanes = d->k->lanes, width = by_rows ? p->size[1] : largest(lanes, span(p, p->rows)),
                    each = ceil_div(width, lanes);
    p->straight = by_rows || (p->p.pitch == p->size[1] && span(p, p->rows) >= lanes);
    p->vectors = by_rows ? p->rows * each : each;
    for (ptrdiff_t v = 0; p->row && v < p->vectors; v++) {
        ptrdiff_t at = smallest(v % each * lanes, width - lanes);
        p->row[v] = v / each * p->p.pitch + at;
        p->place[v] = v / each * width + at;
        p->skip[v] = v % each * lanes - at;
    }
}

static void plan_images(const direct_plan *d, direct_pass *p)
{
    const bool back = p == &d->backward;
    direct_plan_taps(d, p, back ? d->s.taps : d->s.area, 1);
    p->rows = direct_block_rows(d->k, p->size[0], p->p.pitch, p->channels, DIRECT_BLOCK);
    plan_vectors(d, p);
    p->result = p->straight ? 0 : p->channels * largest(d->k->lanes, span(p, p->rows));
    /* A vector with more positions than a block ends in the space after the planes. */
    p->p.copied = span(p, p->rows) < d->k->lanes;
}

/* to[channel][position] = Σ_k weight[row[channel] + other[k]] plane[tap[k] + position] + bias[channel] */
static void make(const st_call *call, const direct_pass *p, ptrdiff_t group, const st_real *plane,
                 st_tensor to)
{
    const direct_plan *d = call->plan;
    const bool back = p == &d->backward;
    const st_real *bias = back ? NULL : conv_bias(call),
                  *weight = st_data(call->param[CONV_WEIGHT]) + group * d->s.out * d->s.taps;
    const ptrdiff_t height = p->size[0], width = p->size[1], pitch = p->p.pitch, rows = p->rows,
                    far = p->straight ? to.stride[0] : p->result / p->channels;
    for (ptrdiff_t first = 0; first < height; first += rows) {
        if (first + rows > height) first = height - rows; /* the last block overlaps the previous one */
        st_real *place = st_data(to) + first * width,
                *result = p->straight ? place : st_data(st_scratch(call, RESULT));
        kernel_spread(d->k, p->channels, p->vectors, p->depth, weight, back ? d->s.area : d->s.taps, p->other,
                      plane + first * pitch, p->tap, p->row, result, far, p->place,
                      bias ? bias + group * p->channels : NULL);
        for (ptrdiff_t m = 0; m < p->channels && !p->straight; m++, place += to.stride[0], result += far)
            move(rows, width, result, pitch, place, width);
    }
}

/* ---- gradient --------------------------------------------------------------------------------------- */

static void plan_gradient(const direct_plan *d, direct_pass *p)
{
    direct_plan_taps(d, p, 0, 0);
    p->rows = p->size[0];
    plan_vectors(d, p);
    p->transposed = p->straight ? 0 : d->s.out * largest(d->k->lanes, span(p, p->rows));
}

/* dw[o][tap] += Σ_position dy[o][position] plane[tap + position]; dy is straight, or copied into rows of
 * `pitch` positions, between zeros. */
static void accumulate(const st_call *call, ptrdiff_t group, const st_real *plane, const st_real *dy,
                       bool add)
{
    (void)add;
    const direct_plan *d = call->plan;
    const direct_pass *p = &d->gradient;
    const ptrdiff_t out = d->s.out, taps = d->s.taps, height = p->size[0], width = p->size[1],
                    far = p->straight ? height * width : p->transposed / out;
    st_real *to = st_data(st_scratch(call, TRANSPOSED));
    for (ptrdiff_t o = 0; o < out && !p->straight; o++)
        move(height, width, dy + o * height * width, width, to + o * far, p->p.pitch);
    kernel_dot(d->k, out, taps, p->vectors, p->straight ? dy : to, far, p->place, p->skip, plane, p->tap,
               p->row, st_data(st_grad(call, CONV_WEIGHT)) + group * out * taps, taps);
}

const direct_algorithm direct_by_positions = {
    .plan_images = plan_images,
    .make = make,
    .plan_gradient = plan_gradient,
    .accumulate = accumulate,
};
