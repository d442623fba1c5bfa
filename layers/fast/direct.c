/* direct.c: convolution without columns: windows are read from the padded image, by their offsets.
 *
 * Images are laid out in planes (planes.c), where a window is a position, and each tap of the kernel reads at
 * a fixed offset from it. With enough channels of the result to fill vectors, they are lanes
 * (direct_channels.c):
 *
 *     y[position][o]  = Σ_tap plane[offset[tap] + position] weight[tap][o]            a product of kernel.h
 *     dw[tap][o]     += Σ_position plane[offset[tap] + position] dyᵀ[position][o]
 *
 * and y is transposed. Backward, each phase of dx is the same product of dy, in planes surrounded by zeros,
 * with the taps that read that phase. With few channels or taps, and stride 1, lanes are positions
 * (direct_positions.c): of a row, or of all rows with the positions between them, which are dropped.
 *
 * Groups are independent convolutions. */
#include "layers/fast/direct.h"

#include <math.h>

enum { TABLES = 5 }; /* of a pass */

/* ---- plan ------------------------------------------------------------------------------------------- */

/* Tests if sizes could overflow, or tables be large. */
static bool is_huge(const st_layer *l, const window *w)
{
    const double most = 0x1p48, most_positions = 0x1p24, most_taps = 0x1p18;
    double taps = fmax((double)l->x.n[1], (double)l->y.n[1]) * w->kernel[0] * w->kernel[1];
    double channels = (double)l->x.n[1] + (double)l->y.n[1], elements = channels;
    for (int axis = 0; axis < 2; axis++) {
        double reach = (double)w->dilation[axis] * w->kernel[axis];
        elements *= ((double)w->size[axis] + (double)(w->before[axis] + w->after[axis]) + 2 * reach +
                     w->stride[axis]) *
                    w->kernel[axis];
    }
    double positions = (double)(w->out[0] + w->before[0]) * (double)(w->size[1] + w->before[1]);
    return elements * (double)l->x.n[0] > most || elements * channels > most || positions > most_positions ||
           taps > most_taps;
}

static bool suits(const st_layer *l)
{
    const window *w = &((const conv_plan *)l->plan)->w;
    for (int axis = 0; axis < 2; axis++) {
        if (w->stride[axis] > 1 && w->dilation[axis] > 1) return false;
        if (largest(w->before[axis], w->after[axis]) > w->size[axis] + w->kernel[axis]) return false;
    }
    return w->out[0] * w->out[1] >= kernel_of(l)->lanes && !is_huge(l, w);
}

ptrdiff_t direct_block_rows(const kernel *k, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t depth,
                            ptrdiff_t block)
{
    ptrdiff_t least = ceil_div(k->lanes, width), size = largest(least, block / (width * depth));
    if (size >= rows) return rows;
    return largest(least, ceil_div(rows, ceil_div(rows, size)));
}

/* Backward, phase by phase: the taps that read an element of the phase are before its position in dy. */
void direct_plan_taps(const direct_plan *d, direct_pass *p, ptrdiff_t channel, ptrdiff_t tap)
{
    const window *w = &d->w;
    const bool back = p == &d->backward;
    const int one[2] = { 1, 1 }, *step = back ? w->stride : one;
    const ptrdiff_t channels = back ? d->s.out : d->s.in, all = d->s.groups * channels;
    p->p = back ? planes_of_dy(d->k, w, all) : planes_of_x(d->k, w, all);
    if (!p->tap) return;
    const ptrdiff_t down = w->dilation[0] * p->p.pitch, across = w->dilation[1];
    ptrdiff_t count = 0;
    for (ptrdiff_t a = 0; a < (back ? phase_count(w, 0) : 1); a++)
        for (ptrdiff_t b = 0; b < (back ? phase_count(w, 1) : 1); b++) {
            ptrdiff_t above = p->p.above + phase_of(w, 0, a).lead, left = p->p.left + phase_of(w, 1, b).lead,
                      first = above * p->p.pitch + left;
            for (ptrdiff_t c = 0; c < channels; c++)
                for (ptrdiff_t kh = a; kh < w->kernel[0]; kh += step[0])
                    for (ptrdiff_t kw = b; kw < w->kernel[1]; kw += step[1], count++) {
                        ptrdiff_t offset = kh / step[0] * down + kw / step[1] * across;
                        p->tap[count] = c * p->p.rows * p->p.pitch + (back ? first - offset : offset);
                        p->other[count] = c * channel + (kh * w->kernel[1] + kw) * tap;
                    }
        }
}

/* Lanes are positions if there are too few channels to fill vectors, or products to pay for a transpose. */
static const direct_algorithm *algorithm(const direct_plan *d, ptrdiff_t channels, ptrdiff_t depth,
                                         ptrdiff_t width)
{
    const bool few = 4 * kernel_padded(d->k, channels) >= 5 * channels;
    if (d->w.stride[0] > 1 || d->w.stride[1] > 1) return &direct_by_channels;
    return few || (depth <= 32 && direct_by_rows(d, width)) ? &direct_by_positions : &direct_by_channels;
}

static direct_pass pass_of(const direct_plan *d, ptrdiff_t channels, ptrdiff_t read, const ptrdiff_t size[2])
{
    return (direct_pass){ .by = algorithm(d, channels, read * d->s.area, size[1]),
                          .channels = channels,
                          .depth = read * d->s.area,
                          .size = { size[0], size[1] } };
}

/* The most positions that a table has: those of a block with channels as lanes, or one for each vector, of
 * rows or of planes. */
static ptrdiff_t table_positions(const kernel *k, const window *w)
{
    ptrdiff_t positions = largest(w->size[0] * w->size[1], w->out[0] * w->out[1]),
              width = largest(w->size[1], w->out[1]),
              size = largest(planes_of_x(k, w, 1).size, planes_of_dy(k, w, 1).size);
    return largest(smallest(positions, DIRECT_BLOCK / k->lanes + k->lanes + width),
                   largest(2 * positions, size) / k->lanes + 1);
}

/* Plans the passes; their tables have room for `size` entries each. NULL: only measures them. */
static void plan_passes(direct_plan *d, ptrdiff_t *table, ptrdiff_t size)
{
    d->forward = pass_of(d, d->s.out, d->s.in, d->w.out);
    d->backward = pass_of(d, d->s.in, d->s.out, d->w.size);
    d->gradient = pass_of(d, d->s.out, d->s.in, d->w.out);
    direct_pass *passes[] = { &d->forward, &d->backward, &d->gradient };
    for (int i = 0; i < 3; i++) {
        direct_pass *p = passes[i];
        ptrdiff_t **tables[] = { &p->tap, &p->row, &p->other, &p->place, &p->skip };
        for (int k = 0; k < TABLES && table; k++, table += size) *tables[k] = table;
        (i < 2 ? p->by->plan_images : p->by->plan_gradient)(d, p);
    }
}

/* All tables have room for as many taps or positions as any has. */
static ptrdiff_t table_size(const direct_plan *d)
{
    return largest(largest(d->s.in, d->s.out) * d->s.area, table_positions(d->k, &d->w));
}

static int plan(st_layer *l, const void *given)
{
    const window *w = &((const conv_plan *)given)->w;
    const st_conv2d_options *o = l->options;
    ptrdiff_t in = l->x.n[1] / o->groups, out = o->out_channels / o->groups,
              area = (ptrdiff_t)w->kernel[0] * w->kernel[1];
    direct_plan *d = st_layer_plan_data(l, sizeof *d);
    if (!d) return -1;
    *d = (direct_plan){ .w = *w, .k = kernel_of(l), .s = { o->groups, in, out, area, in * area } };
    l->impl->tables = 3 * TABLES * (size_t)table_size(d) * sizeof(ptrdiff_t);
    plan_passes(d, NULL, 0);
    ptrdiff_t plane = 0, result = 0, transposed = 0;
    for (int i = 0; i < 3; i++) {
        const direct_pass *p = (const direct_pass *[]){ &d->forward, &d->backward, &d->gradient }[i];
        plane = largest(plane, p->p.size), result = largest(result, p->result);
        transposed = largest(transposed, p->transposed);
    }
    if (st_layer_scratch(l, ST_SHAPE(plane)) || st_layer_scratch(l, ST_SHAPE(result))) return -1;
    return st_layer_scratch(l, ST_SHAPE(transposed));
}

static void fill(st_layer *l, void *tables)
{
    plan_passes(l->plan, tables, table_size(l->plan));
}

/* ---- hooks ----------------------------------------------------------------------------------------- */

static void make_images(const st_call *c, const direct_pass *p, st_tensor from, st_tensor to)
{
    const direct_plan *d = c->plan;
    const ptrdiff_t group = from.shape.n[1] / d->s.groups * p->p.rows * p->p.pitch;
    st_tensor room = st_scratch(c, PLANE);
    st_fill(st_narrow(room, 0, 0, p->p.size), 0);
    if (p->by->begin) p->by->begin(c, p);
    for (ptrdiff_t i = 0; i < to.shape.n[0]; i++) {
        const st_real *plane = planes_lay_out(p->p, st_select(from, 0, i), room);
        for (ptrdiff_t g = 0; g < d->s.groups; g++)
            p->by->make(c, p, g, plane + g * group,
                        st_narrow(st_select(to, 0, i), 0, g * p->channels, p->channels));
    }
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    make_images(c, &((const direct_plan *)c->plan)->forward, x, y);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    make_images(c, &((const direct_plan *)c->plan)->backward, dy, dx);
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    const direct_plan *d = c->plan;
    const direct_pass *p = &d->gradient;
    const ptrdiff_t group = d->s.in * p->p.rows * p->p.pitch, pixels = p->size[0] * p->size[1];
    const st_real *at = st_data(dy);
    st_tensor room = st_scratch(c, PLANE);
    st_fill(st_narrow(room, 0, 0, p->p.size), 0);
    st_fill(st_narrow(st_scratch(c, TRANSPOSED), 0, 0, p->transposed), 0);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *plane = planes_lay_out(p->p, st_select(x, 0, i), room);
        for (ptrdiff_t g = 0; g < d->s.groups; g++, at += d->s.out * pixels)
            p->by->accumulate(c, g, plane + g * group, at, i > 0);
        conv_bias_gradient(c, st_narrow(dy, 0, i, 1));
    }
    if (p->by->end) p->by->end(c);
}

const layer_algorithm conv_direct = {
    .type = &layer_type_conv2d,
    .suits = suits,
    .plan = plan,
    .fill = fill,
    .hooks = { .forward = forward, .backward = backward, .gradient = gradient },
};
