/* direct_positions.c: a direct convolution with positions as lanes. */
#include "layers/fast/direct.h"

/* ---- a product of planes --------------------------------------------------------------------------- */

/* result[m][position] = Σ_k weight[row[m] + step[k]] plane[offset[k] + position] for some of the columns. */
typedef struct part {
    ptrdiff_t depth, first, width; /* columns first, first + stride, … */
    const ptrdiff_t *step, *offset;
} part;

typedef struct correlation {
    const st_real *weight, *plane, *bias; /* bias NULL: none */
    ptrdiff_t pitch, stride;
    int parts;
    part part[PHASES_TOGETHER];
} correlation;

static void multiply(const direct_plan *d, const correlation *c, const part *p, const ptrdiff_t *row,
                     ptrdiff_t channels, ptrdiff_t first, ptrdiff_t rows, st_real *result, ptrdiff_t far)
{
    ptrdiff_t count = largest(d->k->lanes, direct_span(rows, p->width, c->pitch));
    kernel_product(d->k, channels, count, p->depth, c->weight, row, p->step, c->plane + first * c->pitch,
                   p->offset, result, far, false);
}

/* to[0], to[2], … = even, to[1], to[3], … = odd */
static void alternate(ptrdiff_t width, const st_real *restrict even, const st_real *restrict odd,
                      st_real *restrict to)
{
    for (ptrdiff_t j = 0; j < width / 2; j++) to[2 * j] = even[j], to[2 * j + 1] = odd[j];
    if (width % 2) to[width - 1] = even[width / 2];
}

/* A row of interleaved parts, `size` apart. */
static void put(const correlation *c, const st_real *from, ptrdiff_t size, ptrdiff_t width, st_real *to)
{
    if (c->parts == 2 && c->stride == 2) {
        ptrdiff_t odd = c->part[1].first;
        alternate(width, from + (1 - odd) * size, from + odd * size, to);
        return;
    }
    for (int q = 0; q < c->parts; q++, from += size)
        for (ptrdiff_t j = 0; j < c->part[q].width; j++) to[c->part[q].first + j * c->stride] = from[j];
}

/* to [channels, rows, columns]: all rows, and the columns of the parts. */
static void correlate(const st_call *call, const direct_plan *d, const ptrdiff_t *row, const correlation *c,
                      st_tensor to)
{
    ptrdiff_t channels = to.shape.n[0], height = to.shape.n[1], width = to.shape.n[2];
    const ptrdiff_t rows = direct_block_rows(d->k, height, c->pitch, channels);
    bool plain = c->parts == 1 && c->stride == 1;
    bool straight = plain && rows * width >= d->k->lanes && c->pitch == width && to.stride[1] == width &&
                    !c->bias; /* written to its destination directly */
    ptrdiff_t far = straight ? to.stride[0] : direct_result_pitch(d->k, channels, height, c->pitch),
              size = channels * far;
    for (ptrdiff_t first = 0; first < height; first += rows) {
        if (first + rows > height) first = height - rows; /* the last block overlaps the previous one */
        st_real *place = st_data(to) + first * to.stride[1],
                *result = straight ? place : st_data(st_scratch(call, RESULT));
        for (int q = 0; q < c->parts; q++)
            multiply(d, c, &c->part[q], row, channels, first, rows, result + q * size, far);
        for (ptrdiff_t m = 0; m < channels && !straight; m++, place += to.stride[0], result += far)
            if (plain)
                kernel_move(d->k, rows, width, result, c->pitch, place, to.stride[1],
                            c->bias ? c->bias[m] : 0);
            else
                for (ptrdiff_t i = 0; i < rows; i++)
                    put(c, result + i * c->pitch, size, width, place + i * to.stride[1]);
    }
}

/* ---- forward and backward --------------------------------------------------------------------------- */

/* Tests if a vector has more positions than a block of such an image: it then ends in the space after the
 * planes. */
static bool overhangs(const kernel *k, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t width, ptrdiff_t pitch)
{
    return direct_span(direct_block_rows(k, height, pitch, channels), width, pitch) < k->lanes;
}

void direct_plan_forward(direct_plan *d)
{
    direct_pass *f = &d->forward;
    const direct_sizes s = d->s;
    f->p = planes_of_x(d->k, &d->w, s.groups * s.in);
    f->p.copied = overhangs(d->k, s.out, d->w.out[0], d->w.out[1], f->p.pitch);
    iota(f->row, s.out, s.taps);
    iota(f->step, s.taps, 1);
    planes_look_out(f->offset, &d->w, f->p, s.in);
}

void direct_forward(const st_call *call, st_tensor x, st_tensor y)
{
    const direct_plan *d = call->plan;
    const direct_sizes s = d->s;
    const direct_pass *f = &d->forward;
    const planes p = f->p;
    const st_real *bias = conv_bias(call), *weight = st_data(call->param[CONV_WEIGHT]);
    const part all = { s.taps, 0, d->w.out[1], f->step, f->offset };
    st_tensor room = st_scratch(call, PLANE);
    planes_clear(phase_count(&d->w, 0) * phase_count(&d->w, 1) * p.size, room);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *plane = planes_lay_out_x(&d->w, p, st_select(x, 0, i), room);
        for (ptrdiff_t g = 0; g < s.groups; g++) {
            correlation c = { .weight = weight + g * s.out * s.taps,
                              .plane = plane + g * s.in * p.rows * p.pitch,
                              .bias = bias ? bias + g * s.out : NULL,
                              .pitch = p.pitch,
                              .stride = 1,
                              .parts = 1,
                              .part = { all } };
            correlate(call, d, f->row, &c, direct_group(st_select(y, 0, i), g, s.out));
        }
    }
}

static void plan_backward(direct_plan *d)
{
    direct_pass *b = &d->backward;
    const direct_sizes s = d->s;
    b->p = planes_of_dy(d->k, &d->w, s.groups * s.out);
    iota(b->row, s.in, s.area);
    planes_look_back(b->offset, b->step, &d->w, b->p, s.out, (ptrdiff_t[]){ s.taps, 1 });
    for (ptrdiff_t kh = 0; kh < phase_count(&d->w, 0); kh++)
        for (ptrdiff_t kw = 0; kw < phase_count(&d->w, 1); kw++) {
            ptrdiff_t height = phase_of(&d->w, 0, kh).count, width = phase_of(&d->w, 1, kw).count;
            if (height > 0 && width > 0 && overhangs(d->k, s.in, height, width, b->p.pitch))
                b->p.copied = true;
        }
}

/* Rows of a phase of dx [C, H, W], for each group: sums over all taps that read them. */
static void backward_rows(const st_call *call, const direct_plan *d, const correlation *c, st_tensor dx)
{
    const direct_sizes s = d->s;
    const planes p = d->backward.p;
    for (ptrdiff_t g = 0; g < s.groups; g++) {
        correlation own = *c;
        own.weight += g * s.out * s.taps, own.plane += g * s.out * p.rows * p.pitch;
        correlate(call, d, d->backward.row, &own, direct_group(dx, g, s.in));
    }
}

static void backward_image(const st_call *call, const direct_plan *d, const st_real *plane, st_tensor dx)
{
    const window *w = &d->w;
    const ptrdiff_t *step = d->backward.step, *offset = d->backward.offset;
    correlation c = { .weight = st_data(call->param[CONV_WEIGHT]),
                      .plane = plane,
                      .pitch = d->backward.p.pitch,
                      .stride = w->stride[1] };
    for (ptrdiff_t kh = 0; kh < phase_count(w, 0); kh++) {
        phase f = phase_of(w, 0, kh);
        st_tensor rows =
            f.count > 0 ? st_step(st_narrow(dx, 1, f.first, dx.shape.n[1] - f.first), 1, w->stride[0]) : dx;
        for (ptrdiff_t kw = 0; kw < phase_count(w, 1); kw++) {
            phase g = phase_of(w, 1, kw);
            ptrdiff_t depth = d->s.out * f.taps * g.taps;
            if (g.count > 0) c.part[c.parts++] = (part){ depth, g.first, g.count, step, offset };
            step += depth, offset += depth;
            if (c.parts == PHASES_TOGETHER || kw == phase_count(w, 1) - 1) {
                if (f.count > 0) backward_rows(call, d, &c, rows);
                c.parts = 0;
            }
        }
    }
}

static void backward(const st_call *call, const direct_plan *d, st_tensor dy, st_tensor dx)
{
    st_tensor room = st_scratch(call, PLANE);
    if (phase_gaps(&d->w)) st_fill(dx, 0);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++)
        backward_image(call, d, planes_lay_out_dy(d->backward.p, st_select(dy, 0, i), room),
                       st_select(dx, 0, i));
}

/* ---- gradient --------------------------------------------------------------------------------------- */

/* The number of positions of dy, those between its rows included. */
static ptrdiff_t positions(const direct_plan *d)
{
    return direct_span(d->w.out[0], d->w.out[1], d->gradient.p.pitch);
}

/* The last vector of positions ends with the last position, and overlaps the previous one. */
static void plan_gradient(direct_plan *d)
{
    direct_pass *g = &d->gradient;
    g->p = planes_of_x(d->k, &d->w, d->s.groups * d->s.in);
    ptrdiff_t lanes = d->k->lanes, count = positions(d), vectors = kernel_padded(d->k, count) / lanes;
    planes_look_out(g->row, &d->w, g->p, d->s.in);
    iota(g->offset, vectors, lanes);
    g->offset[vectors - 1] = count - lanes;
}

/* dy of one channel in rows of `pitch` positions, padded with zeros. The last vector holds zeros and then the
 * remainder, as it is used with the last positions. */
static void spread(const direct_plan *d, const st_real *dy, ptrdiff_t count, st_real *to)
{
    const window *w = &d->w;
    ptrdiff_t lanes = d->k->lanes, surplus = kernel_padded(d->k, count) - count;
    st_real *last = to + count + surplus - lanes;
    for (ptrdiff_t e = 0; e < lanes; e++) last[e] = 0;
    kernel_move(d->k, w->out[0], w->out[1], dy, w->out[1], to, d->gradient.p.pitch, 0);
    for (ptrdiff_t e = lanes - 1; e >= 0; e--) last[e] = e < surplus ? 0 : last[e - surplus];
}

/* dw[o][tap] += Σ_position dy[o][position] plane[row[tap] + position] */
static void gradient(const st_call *call, const direct_plan *d, st_tensor x, st_tensor dy)
{
    const window *w = &d->w;
    const direct_sizes s = d->s;
    const direct_pass *pass = &d->gradient;
    const planes p = pass->p;
    ptrdiff_t lanes = d->k->lanes, count = positions(d), far = kernel_padded(d->k, count);
    st_tensor room = st_scratch(call, PLANE), spreads = st_scratch(call, TRANSPOSED);
    st_real *to = st_data(spreads), *dw = st_data(st_grad(call, CONV_WEIGHT));
    planes_clear(phase_count(w, 0) * phase_count(w, 1) * p.size, room);
    st_fill(spreads, 0);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *plane = planes_lay_out_x(w, p, st_select(x, 0, i), room);
        for (ptrdiff_t g = 0; g < s.groups; g++) {
            const st_real *from = st_data(dy) + (i * s.groups + g) * s.out * w->out[0] * w->out[1];
            for (ptrdiff_t o = 0; o < s.out; o++)
                spread(d, from + o * w->out[0] * w->out[1], count, to + o * far);
            kernel_dot(d->k, s.out, s.taps, far / lanes, to, far, plane + g * s.in * p.rows * p.pitch,
                       pass->row, pass->offset, dw + g * s.out * s.taps, s.taps);
        }
    }
}

const direct_algorithm direct_by_positions = { plan_backward, plan_gradient, backward, gradient };
