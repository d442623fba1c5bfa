/* direct.c: convolution without columns: windows are read from the padded image, by their offsets.
 *
 * Images are laid out in planes (planes.h), where a window is a position, and each tap of the kernel reads at
 * a fixed offset from it. With positions as columns (direct_positions.c),
 *
 *     y[o][position]  = Σ_tap weight[o][tap] plane[offset[tap] + position]            a product of kernel.h
 *
 * computes all windows, and between the rows a few positions that are not windows, which are dropped.
 * Backward, each phase of dx is the same product of dy, in planes surrounded by zeros, with the taps that
 * read that phase. If there are enough channels to fill vectors, the gradient uses them as columns
 * (direct_channels.c):
 *
 *     dw[tap][o]     += Σ_position plane[offset[tap] + position] dyᵀ[position][o]
 *
 * and so does backward if the stride is greater than 1.
 *
 * Groups are independent convolutions. */
#include "layers/fast/direct.h"

/* Elements of a block of results and of transposed dy, so that both stay in cache. */
enum { BLOCK = 1 << 16 };

static direct_sizes sizes_of(const st_layer *l, const window *w)
{
    const st_conv2d_options *o = l->options;
    ptrdiff_t in = l->x.n[1] / o->groups, area = (ptrdiff_t)w->kernel[0] * w->kernel[1];
    return (direct_sizes){ o->groups, in, o->out_channels / o->groups, area, in * area };
}

st_tensor direct_group(st_tensor image, ptrdiff_t g, ptrdiff_t channels)
{
    return st_narrow(image, 0, g * channels, channels);
}

/* ---- plan ------------------------------------------------------------------------------------------- */

/* Tests if sizes could overflow, or tables be large. */
static bool is_huge(const st_layer *l, const window *w)
{
    const double most = 0x1p48, most_positions = 0x1p24;
    double channels = (double)l->x.n[1] + (double)l->y.n[1], elements = channels;
    for (int axis = 0; axis < 2; axis++) {
        double reach = (double)w->dilation[axis] * w->kernel[axis];
        elements *= ((double)w->size[axis] + (double)(w->before[axis] + w->after[axis]) + 2 * reach +
                     w->stride[axis]) *
                    w->kernel[axis];
    }
    double positions = (double)(w->out[0] + w->before[0]) * (double)(w->size[1] + w->before[1]);
    return elements * (double)l->x.n[0] > most || elements * channels > most || positions > most_positions;
}

static bool suits(const st_layer *l)
{
    const window *w = &((const conv_plan *)l->plan)->w;
    for (int axis = 0; axis < 2; axis++)
        if (largest(w->before[axis], w->after[axis]) > w->size[axis] + w->kernel[axis]) return false;
    return w->out[0] * w->out[1] >= kernel_of(l)->lanes && !is_huge(l, w);
}

ptrdiff_t direct_least_rows(const kernel *k, ptrdiff_t width)
{
    return ceil_div(k->lanes, width);
}

ptrdiff_t direct_block_rows(const kernel *k, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t depth)
{
    ptrdiff_t least = direct_least_rows(k, width), size = largest(least, BLOCK / (width * depth));
    if (size >= rows) return rows;
    return largest(least, ceil_div(rows, ceil_div(rows, size)));
}

ptrdiff_t direct_span(ptrdiff_t rows, ptrdiff_t width, ptrdiff_t pitch)
{
    return (rows - 1) * pitch + width;
}

ptrdiff_t direct_result_pitch(const kernel *k, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t pitch)
{
    return kernel_padded(k, direct_block_rows(k, height, pitch, channels) * pitch);
}

/* Tests if there are too few channels, so that lanes should be positions. */
static bool few(const kernel *k, ptrdiff_t out)
{
    return 2 * kernel_padded(k, out) >= 3 * out;
}

/* The size of the largest block of results. */
static ptrdiff_t result_size(const direct_plan *d, const planes *px, const planes *pdy)
{
    const window *w = &d->w;
    ptrdiff_t size = d->s.out * direct_result_pitch(d->k, d->s.out, w->out[0], px->pitch),
              together = smallest(phase_count(w, 1), PHASES_TOGETHER);
    for (ptrdiff_t kh = 0; kh < phase_count(w, 0); kh++) {
        ptrdiff_t height = phase_of(w, 0, kh).count;
        if (height > 0)
            size = largest(size, together * d->s.in * direct_result_pitch(d->k, d->s.in, height, pdy->pitch));
    }
    return size;
}

/* Tests if lanes are channels with a stride greater than 1: there are enough channels, and images fill a
 * vector. */
static bool by_channels(const kernel *k, const window *w, ptrdiff_t channels)
{
    bool strided = w->stride[0] > 1 || w->stride[1] > 1;
    return strided && !few(k, channels) && channels >= k->lanes && w->size[0] * w->size[1] >= k->lanes;
}

/* The same windows as every stride-th of those with stride 1. */
static window unstrided(const window *w)
{
    window d = *w;
    for (int axis = 0; axis < 2; axis++)
        d.stride[axis] = 1, d.out[axis] = (w->out[axis] - 1) * w->stride[axis] + 1;
    return d;
}

ptrdiff_t direct_block_positions(const kernel *k, ptrdiff_t height, ptrdiff_t width, ptrdiff_t channels)
{
    return (direct_block_rows(k, height, width, kernel_padded(k, channels)) + direct_least_rows(k, width)) *
           width;
}

static direct_pass pass_of(ptrdiff_t *table, ptrdiff_t depth)
{
    return (direct_pass){ .row = table, .step = table + depth, .offset = table + 2 * depth };
}

static int plan(st_layer *l, const void *given)
{
    direct_plan d = { .w = ((const conv_plan *)given)->w, .k = kernel_of(l) };
    const window *w = &d.w;
    const kernel *k = d.k;
    const direct_sizes s = d.s = sizes_of(l, w);
    d.unstrided = unstrided(w);
    const planes px = planes_of_x(k, w, l->x.n[1]), pd = planes_of_x(k, &d.unstrided, l->x.n[1]),
                 pdy = planes_of_dy(k, w, s.groups * s.out);
    const bool few_in = !by_channels(k, w, s.in), few_out = few(k, s.out);
    ptrdiff_t lanes_out = kernel_padded(k, s.out), lanes_in = kernel_padded(k, s.in);
    ptrdiff_t y_block = direct_block_positions(k, w->out[0], w->out[1], s.out),
              x_block = direct_block_positions(k, w->size[0], w->size[1], s.in);
    ptrdiff_t spread = kernel_padded(k, direct_span(w->out[0], w->out[1], px.pitch));
    ptrdiff_t plane = largest(largest(phase_count(w, 0) * phase_count(w, 1) * px.size, pd.size), pdy.size);
    ptrdiff_t result = largest(result_size(&d, &px, &pdy), s.groups * s.taps * lanes_out);
    ptrdiff_t transposed = few_out ? s.out * spread : y_block * lanes_out;
    ptrdiff_t depth = largest(largest(s.in, s.out) * s.area, largest(y_block, spread / k->lanes));
    if (!few_in) {
        result = largest(result, x_block * lanes_in);
        transposed = largest(transposed, s.groups * s.out * s.area * lanes_in);
        depth = largest(depth, w->size[1]);
    }
    direct_plan *p = st_layer_plan_data(l, sizeof *p + 9 * (size_t)depth * sizeof *p->table);
    if (!p) return -1;
    *p = d;
    p->forward = pass_of(p->table, depth);
    p->backward = pass_of(p->table + 3 * depth, depth);
    p->gradient = pass_of(p->table + 6 * depth, depth);
    p->backward_algorithm = few_in ? &direct_by_positions : &direct_by_channels;
    p->gradient_algorithm = few_out ? &direct_by_positions : &direct_by_channels;
    direct_plan_forward(p);
    p->backward_algorithm->plan_backward(p);
    p->gradient_algorithm->plan_gradient(p);
    if (st_layer_scratch(l, ST_SHAPE(plane)) || st_layer_scratch(l, ST_SHAPE(result))) return -1;
    return st_layer_scratch(l, ST_SHAPE(transposed));
}

/* ---- hooks ----------------------------------------------------------------------------------------- */

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    const direct_plan *d = c->plan;
    planes_clear(d->backward.p.size, st_scratch(c, PLANE));
    d->backward_algorithm->backward(c, d, dy, dx);
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    const direct_plan *d = c->plan;
    d->gradient_algorithm->gradient(c, d, x, dy);
    conv_bias_gradient(c, dy);
}

const layer_algorithm conv_direct = {
    .type = &layer_type_conv2d,
    .suits = suits,
    .plan = plan,
    .hooks = { .forward = direct_forward, .backward = backward, .gradient = gradient },
};
