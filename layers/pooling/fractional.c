/* fractional.c: fractional max-pooling: Graham, Fractional max-pooling, arXiv:1412.6071, 2014.
 *
 * The windows of an axis begin at a[0] = 0, a[1], ..., in steps that differ by at most 1 and end the last
 * window at the edge. With a kernel all windows have its size, as PyTorch's FractionalMaxPool2d; without one
 * window i is a[i] ... a[i + 1] - 1, the paper's disjoint regions, or with `overlapping` a[i] ... a[i + 1].
 *
 * `count` steps add up to `length`, and alpha = length / count is their mean:
 *     random:        the larger steps are at random places
 *     pseudo-random: a[i] = floor(alpha (i + u)) - floor(alpha u), u in [0, 1) at random
 * Each channel of each image has random numbers of its own. Inference rounds the mean of a[i] in training:
 * a[i] = floor(alpha i + 1/2). With u = 1/2 instead, windows would begin up to a pixel further than in
 * training, and nets would err more. */
#include "layers/pooling/steps.h"

#include <limits.h>

static int plan_fractional(window *w, const st_layer *l, st_shape x)
{
    const st_fractional_maxpool_options *o = l->options;
    if (layer_check_images(l, x)) return -1;
    if ((o->output_size[0] > 0) == (o->output_ratio > 0))
        return st_layer_refuse(l, "expected either output_size or output_ratio");
    if (o->output_ratio >= 1)
        return st_layer_refuse(l, "output_ratio is %g, expected less than 1", o->output_ratio);
    *w = (window){ .stride = { 1, 1 }, .dilation = { 1, 1 } };
    for (int axis = 0; axis < 2; axis++) {
        const ptrdiff_t size = w->size[axis] = x.n[2 + axis], kernel = o->kernel[axis];
        const ptrdiff_t out = w->out[axis] =
            o->output_size[0] > 0 ? o->output_size[axis] : (ptrdiff_t)((double)size * o->output_ratio);
        const ptrdiff_t most = size - largest(kernel, 1) + 1;
        if (most < 1 || size > INT_MAX - 2)
            return st_layer_refuse(l, "kernel %dx%d does not fit into an input %s", o->kernel[0],
                                   o->kernel[1], st_shape_text(x).text);
        if (out < 1 || out > most)
            return st_layer_refuse(l, "%td windows of an axis, expected 1 to %td of an input %s", out, most,
                                   st_shape_text(x).text);
        w->kernel[axis] = kernel > 0 ? (int)kernel : (int)ceil_div(size, out) + o->overlapping;
    }
    return 0;
}

/* Writes a[i] of each window as `first`; a[0] = 0. */
static void begin_windows(const st_window *at, int axis, ptrdiff_t count, ptrdiff_t length, ptrdiff_t out,
                          pool_span *to)
{
    const st_fractional_maxpool_options *o = at->options;
    const ptrdiff_t step = count > 0 ? length / count : 0;
    selection larger;
    begin_selection(&larger, at, at->number, axis, length - step * count, count);
    ptrdiff_t offset = count / 2; /* floor(alpha i + offset / count) is a whole division */
    if (at->training && o->pseudo_random)
        offset = (ptrdiff_t)(st_random_uniform(larger.key, larger.counter) * (double)length);
    const bool selects = at->training && !o->pseudo_random;
    ptrdiff_t next = to[0].first = 0;
    for (ptrdiff_t i = 1; i < out; i++) {
        if (selects) next += step + select_next(&larger);
        else next = (ptrdiff_t)(((int64_t)i * length + offset) / count) - offset / count;
        to[i].first = next;
    }
}

static void spans(const pool_plan *p, const st_window *at, int axis, pool_span *to)
{
    const st_fractional_maxpool_options *o = at->options;
    const ptrdiff_t size = p->w.size[axis], out = p->w.out[axis], kernel = o->kernel[axis];
    if (kernel > 0) begin_windows(at, axis, out - 1, size - kernel, out, to);
    else begin_windows(at, axis, out, size, out, to);
    if (kernel > 0 && out == 1) to[0].first = size - kernel; /* as PyTorch has it */
    for (ptrdiff_t i = 0; i < out; i++) {
        const ptrdiff_t next = i + 1 < out ? to[i + 1].first : size;
        const ptrdiff_t end = kernel > 0 ? to[i].first + kernel : smallest(next + o->overlapping, size);
        to[i].count = to[i].whole = end - to[i].first;
    }
}

static const st_grid grid = { .plan = plan_fractional, .spans = spans };

static const st_field fields[] = {
    POOL_FIELD(kernel, ST_FIELD_PAIR, st_fractional_maxpool_options, .square = true),
    POOL_FIELD(output_size, ST_FIELD_PAIR, st_fractional_maxpool_options, .square = true),
    POOL_FIELD(output_ratio, ST_FIELD_REAL, st_fractional_maxpool_options, .fallback = 0),
    POOL_FIELD(pseudo_random, ST_FIELD_BOOL, st_fractional_maxpool_options, .fallback = 0),
    POOL_FIELD(overlapping, ST_FIELD_BOOL, st_fractional_maxpool_options, .fallback = 0),
    { 0 },
};

POOLING(fractional_maxpool, st_pool_plan, fields, .grid = &grid, .value = pool_max_value,
        .adjoint = pool_max_adjoint)
