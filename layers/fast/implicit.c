/* implicit.c: convolution and its transpose as implicit products: the plan and the hooks; see implicit.h. */
#include "layers/fast/implicit.h"

#include <math.h>

ptrdiff_t *arena_take(arena *a, ptrdiff_t count)
{
    ptrdiff_t *table = a->at ? a->at + a->used : NULL;
    a->used += count;
    return table;
}

enum {
    SMALL = 16, /* windows of an image: the weights are large beside those of a chunk */
    CHUNK = 8,  /* images of a usual call */
};

/* ---- plan ------------------------------------------------------------------------------------------- */

/* Tests if sizes could overflow, or tables be large. */
static bool is_huge(const st_layer *l, const window *w)
{
    const double most = 0x1p48, most_positions = 0x1p24, most_taps = 0x1p20;
    double taps = fmax((double)l->x.n[1], (double)l->y.n[1]) * w->kernel[0] * w->kernel[1];
    double channels = (double)l->x.n[1] + (double)l->y.n[1], elements = channels;
    for (int axis = 0; axis < 2; axis++) {
        double reach = (double)w->dilation[axis] * w->kernel[axis];
        elements *= ((double)w->size[axis] + (double)(w->before[axis] + w->after[axis]) + 2 * reach +
                     w->stride[axis]) *
                    w->kernel[axis];
    }
    double positions = fmax((double)w->out[0], (double)w->size[0]) + (double)w->before[0];
    positions *= fmax((double)w->out[1], (double)w->size[1]) + (double)w->before[1];
    return elements * (double)l->x.n[0] > most || elements * channels > most || positions > most_positions ||
           taps > most_taps;
}

static bool is_transposed(const st_layer *l)
{
    return l->type == &layer_type_conv_transpose2d;
}

static bool suits(const st_layer *l)
{
    return (l->type == &layer_type_conv2d || is_transposed(l)) &&
           !is_huge(l, &((const conv_plan *)l->plan)->w);
}

ptrdiff_t implicit_inside(const window *w, int axis, ptrdiff_t at, ptrdiff_t *tap, ptrdiff_t *element)
{
    const ptrdiff_t first = at * w->stride[axis] - w->before[axis], step = w->dilation[axis];
    *tap = first < 0 ? ceil_div(-first, step) : 0;
    *element = first + *tap * step;
    return largest(0, smallest(w->kernel[axis], ceil_div(w->size[axis] - first, step)) - *tap);
}

/* Leaves out taps, before those that any window reads in the image, and after them. */
static void trim(implicit_plan *d)
{
    window *w = &d->w;
    for (int axis = 0; axis < 2; axis++) {
        const int taps = d->kernel[axis] = w->kernel[axis];
        const ptrdiff_t step = w->dilation[axis];
        ptrdiff_t first = w->before[axis] / step, end = 0, tap, element;
        for (ptrdiff_t i = 0; i < w->out[axis]; i++) {
            const ptrdiff_t count = implicit_inside(w, axis, i, &tap, &element);
            if (count > 0) first = smallest(first, tap), end = largest(end, tap + count);
        }
        if (end == 0) first = 0, end = 1;
        d->skip[axis] = (int)first;
        w->kernel[axis] = (int)(end - first);
        w->before[axis] -= first * step;
        w->after[axis] = largest(0, w->after[axis] - (taps - end) * step);
    }
    d->area = (ptrdiff_t)w->kernel[0] * w->kernel[1];
}

static bool is_trimmed(const implicit_plan *d)
{
    return d->area < (ptrdiff_t)d->kernel[0] * d->kernel[1];
}

/* The kernels of all channels. */
static ptrdiff_t kernels_of(const implicit_plan *d)
{
    return d->groups * d->narrow * d->wide;
}

const st_real *implicit_weights(const st_layer *l)
{
    const implicit_plan *d = l->plan;
    return d->kept ? d->kept : st_data(l->param[CONV_WEIGHT]);
}

/* The taps in use of weights, or of their gradient, [N, C, KH, KW]. */
static st_tensor taps_of(const implicit_plan *d, st_tensor weights)
{
    return st_narrow(st_narrow(weights, 2, d->skip[0], d->w.kernel[0]), 3, d->skip[1], d->w.kernel[1]);
}

static void plan_passes(implicit_plan *d, arena *a)
{
    d->kept = is_trimmed(d) ? implicit_take_packed(a, kernels_of(d) * d->area) : NULL;
    implicit_plan_gather(d, a);
    implicit_plan_scatter(d, a);
    implicit_plan_gradient(d, a);
    implicit_plan_taps(d, a);
}

static int plan(st_layer *l, const void *given)
{
    const conv_plan *conv = given;
    const bool transposed = is_transposed(l);
    const ptrdiff_t x = l->x.n[1] / conv->groups, y = l->y.n[1] / conv->groups;
    const window w = conv->w;
    const int groups = conv->groups;
    implicit_plan *d = st_layer_plan_data(l, sizeof *d);
    if (!d) return -1;
    l->impl->hooks.whole = w.out[0] * w.out[1] <= SMALL;
    *d = (implicit_plan){ .whole = w,
                          .w = w,
                          .groups = groups,
                          .k = kernel_of(l),
                          .isa = l->impl->isa,
                          .wide = transposed ? y : x,
                          .narrow = transposed ? x : y,
                          .chunk = smallest(l->x.n[0], layer_chunk(l, l->x.n[0])),
                          .batch = l->x.n[0],
                          .usual = l->x.n[0] == 1 ? 1 : CHUNK };
    trim(d);
    arena a = { 0 };
    plan_passes(d, &a);
    l->impl->tables = (size_t)a.used * sizeof(ptrdiff_t);
    const pass *g = &d->gather, *s = &d->scatter;
    const st_shape narrow = ST_SHAPE(d->gradient.images, l->x.n[1], l->x.n[2], l->x.n[3]);
    if (st_layer_scratch(l, transposed ? narrow : ST_SHAPE(0))) return -1;
    if (st_layer_scratch(l, ST_SHAPE(largest(g->plane, s->plane)))) return -1;
    if (st_layer_scratch(l, ST_SHAPE(largest(largest(g->panel, s->panel), d->gradient.panel)))) return -1;
    if (st_layer_scratch(l, ST_SHAPE(largest(largest(g->result, s->result), d->gradient.result)))) return -1;
    return st_layer_scratch(l, ST_SHAPE(is_trimmed(d) ? kernels_of(d) * d->area : 0));
}

static void fill(st_layer *l, void *tables)
{
    plan_passes(l->plan, &(arena){ tables, 0 });
}

/* ---- several threads -------------------------------------------------------------------------------- */

typedef struct job {
    const st_call *c;
    const pass *p; /* NULL: the gradient */
    st_tensor from, to;
    const st_real *bias;
    st_real *dw;
    layer_division by;
} job;

static ptrdiff_t rows_of(const pass *p)
{
    return p->channels ? p->size[0] : p->height;
}

static void run_part(ptrdiff_t i, int thread, void *context)
{
    const job *j = context;
    const implicit_plan *d = j->c->plan;
    ptrdiff_t count, first = layer_part(&j->by, i, &count);
    share s = { .end = d->groups, .made = d->narrow, .taps = d->wide * d->area, .dw = j->dw };
    if (j->p) s.made = j->p->made, s.rows = rows_of(j->p);
    st_tensor from = j->from, to = j->to;
    st_call c = *j->c;
    c.thread = thread;
    if (j->by.axis == OF_IMAGES) from = st_narrow(from, 0, first, count), to = st_narrow(to, 0, first, count);
    if (j->by.axis == OF_GROUPS) s.group = first, s.end = first + count;
    if (j->by.axis == OF_CHANNELS) s.first = first, s.made = count;
    if (j->by.axis == OF_TAPS) s.tap = first, s.taps = count;
    if (j->by.axis == OF_ROWS) s.row = first, s.rows = count;
    if (j->p) implicit_make(&c, j->p, &s, from, to, j->bias);
    else implicit_gradient(&c, &s, from, to);
}

static void run_parts(job *j)
{
    layer_each(j->c, MOST_THREADS, j->by.parts, run_part, j);
}

/* Each thread that has some channels lays out all that they read. */
static double again(const implicit_plan *d, const pass *p, double depth)
{
    const double laid = implicit_layout_cost(d, p), windows = (double)p->size[0] * (double)p->size[1];
    return laid / (laid + windows * depth / d->k->lanes);
}

/* Rows are divided at bands, of which each part has several, as the last one overlaps the previous one. */
static void try_rows(layer_division *by, const pass *p)
{
    const ptrdiff_t all = rows_of(p);
    if (p->channels) {
        layer_try_axis(by, OF_ROWS, all, p->apart[0], 0.02);
    } else if (p->whole) {
        const ptrdiff_t bands = ceil_div(all, p->band), spare = bands * p->band - all;
        if (bands >= 2 * by->threads && p->band >= spare + p->before)
            layer_try_axis(by, OF_ROWS, all, p->band, 0.01);
    }
}

static void make(const st_call *c, const pass *p, st_tensor from, st_tensor to, const st_real *bias)
{
    const implicit_plan *d = c->plan;
    const bool wide = p->by_taps && p == &d->scatter;
    job j = { c, p, from, to, bias, .by = layer_undivided(c) };
    ptrdiff_t unit = p->channels || p->turned ? d->k->lanes : 1;
    if (p->groups) unit = p->made;
    if (wide) unit = implicit_taps_unit(d, &j.by);
    layer_try_axis(&j.by, OF_GROUPS, d->groups, p->groups ? implicit_group_lanes(d) : 1, 0);
    layer_try_axis(&j.by, OF_IMAGES, c->images, p->images, 0);
    if (!p->groups && !p->by_taps && !p->slides) try_rows(&j.by, p);
    layer_try_axis(&j.by, OF_CHANNELS, p->made, unit,
                   p->channels || wide ? 0.02 : again(d, p, (double)p->made * (double)(p->read * d->area)));
    run_parts(&j);
}

/* The sums of images are not divided. */
static void sum(const st_call *c, st_tensor wide, st_tensor narrow)
{
    const implicit_plan *d = c->plan;
    const st_tensor sums = st_scratch(c, KEPT);
    st_real *dw = st_data(st_grad(c, CONV_WEIGHT));
    job j = { c, NULL, wide, narrow, NULL, d->kept ? st_data(sums) : dw, layer_undivided(c) };
    if (d->kept) st_fill(sums, 0);
    implicit_divide_gradient(d, &j.by);
    run_parts(&j);
    if (d->kept) {
        const st_tensor all = taps_of(d, st_grad(c, CONV_WEIGHT));
        st_add(all, 1, st_reshape(sums, all.shape));
    }
}

/* ---- hooks ----------------------------------------------------------------------------------------- */

/* Without the bias, the forward pass of each type is the backward pass of the other. */
static const pass *pass_of(const st_layer *l, bool backward)
{
    const implicit_plan *d = l->plan;
    return is_transposed(l) == backward ? &d->gather : &d->scatter;
}

static void prepare(const st_layer *l, bool backward)
{
    const pass *p = pass_of(l, backward);
    const implicit_plan *d = l->plan;
    if (d->kept) {
        const st_tensor used = taps_of(d, l->param[CONV_WEIGHT]);
        const ptrdiff_t row = d->w.kernel[1];
        for (int i = 0; i < d->w.kernel[0]; i++)
            d->k->move(kernels_of(d), row, st_data(used) + i * used.stride[2], used.stride[1],
                       d->kept + i * row, d->area);
    }
    if (p->channels || p->turned) implicit_pack_channels(l, p);
    if (p->groups) implicit_pack_groups(l, p);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    make(c, pass_of(c->layer, false), x, y, conv_bias(c));
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    make(c, pass_of(c->layer, true), dy, dx, NULL);
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    const bool transposed = is_transposed(c->layer);
    sum(c, transposed ? dy : x, transposed ? x : dy);
    conv_bias_gradient(c, dy);
}

const layer_algorithm conv_implicit = {
    .suits = suits,
    .plan = plan,
    .fill = fill,
    .hooks = { forward, backward, gradient, .prepare = prepare, .divides = true },
};
