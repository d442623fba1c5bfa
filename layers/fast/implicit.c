/* implicit.c: convolution and its transpose as implicit products: the plan and the hooks; see implicit.h. */
#include "layers/fast/implicit.h"

#include <math.h>

ptrdiff_t *arena_take(arena *a, ptrdiff_t count)
{
    ptrdiff_t *table = a->at ? a->at + a->used : NULL;
    a->used += count;
    return table;
}

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
    double positions = fmax((double)w->out[0], (double)w->size[0]) + (double)w->before[0];
    positions *= fmax((double)w->out[1], (double)w->size[1]) + (double)w->before[1];
    return elements * (double)l->x.n[0] > most || elements * channels > most || positions > most_positions ||
           taps > most_taps;
}

static bool suits(const st_layer *l)
{
    return !is_huge(l, &((const conv_plan *)l->plan)->w);
}

static void plan_passes(implicit_plan *d, arena *a)
{
    implicit_plan_gather(d, a);
    implicit_plan_scatter(d, a);
    implicit_plan_gradient(d, a);
    implicit_plan_taps(d, a);
}

static int plan(st_layer *l, const void *given)
{
    const conv_plan *conv = given;
    const bool transposed = l->type == &layer_type_conv_transpose2d;
    const ptrdiff_t x = l->x.n[1] / conv->groups, y = l->y.n[1] / conv->groups;
    const window w = conv->w;
    const int groups = conv->groups;
    implicit_plan *d = st_layer_plan_data(l, sizeof *d);
    if (!d) return -1;
    *d = (implicit_plan){ .w = w,
                          .groups = groups,
                          .k = kernel_of(l),
                          .machine = l->impl->machine,
                          .wide = transposed ? y : x,
                          .narrow = transposed ? x : y,
                          .area = (ptrdiff_t)w.kernel[0] * w.kernel[1],
                          .chunk = smallest(l->x.n[0], layer_chunk(l, l->x.n[0])),
                          .batch = l->x.n[0] };
    arena a = { 0 };
    plan_passes(d, &a);
    l->impl->tables = (size_t)a.used * sizeof(ptrdiff_t);
    const pass *g = &d->gather, *s = &d->scatter;
    const st_shape narrow = ST_SHAPE(d->gradient.images, l->x.n[1], l->x.n[2], l->x.n[3]);
    if (st_layer_scratch(l, transposed ? narrow : ST_SHAPE(0))) return -1;
    if (st_layer_scratch(l, ST_SHAPE(largest(g->plane, s->plane)))) return -1;
    if (st_layer_scratch(l, ST_SHAPE(largest(largest(g->panel, s->panel), d->gradient.panel)))) return -1;
    return st_layer_scratch(l, ST_SHAPE(largest(largest(g->result, s->result), d->gradient.result)));
}

static void fill(st_layer *l, void *tables)
{
    plan_passes(l->plan, &(arena){ tables, 0 });
}

/* ---- hooks ----------------------------------------------------------------------------------------- */

static void prepare(const st_layer *l, bool scatters)
{
    const implicit_plan *d = l->plan;
    const pass *p = scatters ? &d->scatter : &d->gather;
    if (p->channels) implicit_pack_channels(l, p);
    if (p->groups) implicit_pack_groups(l, p);
}

static void conv_prepare(const st_layer *l, bool backward)
{
    prepare(l, backward);
}

static void transposed_prepare(const st_layer *l, bool backward)
{
    prepare(l, !backward);
}

static void conv_forward(const st_call *c, st_tensor x, st_tensor y)
{
    implicit_make(c, &((const implicit_plan *)c->plan)->gather, x, y, conv_bias(c));
}

static void conv_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    implicit_make(c, &((const implicit_plan *)c->plan)->scatter, dy, dx, NULL);
}

static void conv_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    implicit_gradient(c, x, dy);
    conv_bias_gradient(c, dy);
}

static void transposed_forward(const st_call *c, st_tensor x, st_tensor y)
{
    implicit_make(c, &((const implicit_plan *)c->plan)->scatter, x, y, conv_bias(c));
}

static void transposed_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    implicit_make(c, &((const implicit_plan *)c->plan)->gather, dy, dx, NULL);
}

static void transposed_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    implicit_gradient(c, dy, x);
    conv_bias_gradient(c, dy);
}

const layer_algorithm conv_implicit = {
    .type = &layer_type_conv2d,
    .suits = suits,
    .plan = plan,
    .fill = fill,
    .hooks = { .forward = conv_forward,
               .backward = conv_backward,
               .gradient = conv_gradient,
               .prepare = conv_prepare },
};

const layer_algorithm conv_transpose_implicit = {
    .type = &layer_type_conv_transpose2d,
    .suits = suits,
    .plan = plan,
    .fill = fill,
    .hooks = { .forward = transposed_forward,
               .backward = transposed_backward,
               .gradient = transposed_gradient,
               .prepare = transposed_prepare },
};
