/* implicit_gradient.c: the gradient of an implicit product's weights.
 *
 *     dW[o][k] += Σ_p narrow[o][p] wide[k + p]
 *
 * With enough narrow channels to fill vectors, they are lanes: elements of the wide planes are broadcast,
 * wherever they are, and multiplied with rows of a transposed block of narrow images; the sum is
 * transposed at the end. Else lanes are windows, of which both sides have whole vectors, and are added up
 * at the end. */
#include "layers/fast/implicit.h"

#include <math.h>

enum {
    SUM = 1 << 12,                     /* elements of a small sum */
    RUN = (1 << 12) / sizeof(st_real), /* of a channel's windows that stay in the first cache */
    WINDOWS = 1 << 9,                  /* windows of a small block */
    SLID = 2,                          /* the most narrow channels of a group that are added up one by one */
    HORIZONTAL = 8, /* the cost of adding up the lanes of a vector, in products of vectors, */
    TRANSPOSE = 16, /* of transposing one, */
    END = 40,       /* and of adding one to the gradient at the end */
};

/* ---- plan ------------------------------------------------------------------------------------------- */

static void plan_slides(implicit_plan *d, gradient_pass *p, arena *a)
{
    part *q = &p->slides;
    implicit_fill_slide(&d->gather, q, &q->slid, a);
    p->straight = true;
    p->result = d->groups * d->narrow * q->slid.count * q->taps * q->slide->lanes;
}

static void plan_dots(implicit_plan *d, gradient_pass *p, arena *a)
{
    const ptrdiff_t *n = d->w.out, pitch = d->gather.p.pitch, band = d->gather.band,
                    extent = (band - 1) * pitch + n[1];
    p->how = implicit_by_rows(d->k, n[1]) ? BY_ROWS : FLAT;
    p->straight = p->how == BY_ROWS || (pitch == n[1] && extent >= d->k->lanes);
    for (int i = 0; i < (band < n[0] ? 2 : 1); i++) { /* a band, and one that has a row less */
        dots *t = &p->tables[i];
        t->vectors = implicit_vectors(d->k, p->how, band - i, n[1], pitch, NULL, NULL, NULL);
        t->from = arena_take(a, t->vectors), t->to = arena_take(a, t->vectors);
        t->skip = arena_take(a, t->vectors);
        implicit_vectors(d->k, p->how, band - i, n[1], pitch, t->from, t->to, t->skip);
    }
    p->panel = p->straight ? 0 : d->narrow * largest(d->k->lanes, extent);
    if (extent < d->k->lanes) d->gather.p.in_place = false; /* a vector reads beyond an image */
}

/* A block is as large as the sum to which its products are added: rows of an image, or several images. */
static void plan_products(implicit_plan *d, gradient_pass *p, arena *a)
{
    const ptrdiff_t *n = d->w.out, lanes = kernel_padded(d->k, d->narrow), taps = d->wide * d->area,
                    most = largest(largest(taps, SUM / lanes), WINDOWS);
    p->images = d->gather.band < n[0] ? 1 : smallest(d->chunk, largest(1, WINDOWS / (n[0] * n[1])));
    p->rows = p->images > 1 ? n[0] : smallest(d->gather.band, ceil_div(n[0], ceil_div(n[0] * n[1], most)));
    const ptrdiff_t each = p->rows * n[1], windows = p->images * each,
                    image = planes_size(&d->gather.p, d->wide);
    p->place = arena_take(a, windows);
    p->number = arena_take(a, windows);
    p->panel = largest(windows * lanes, taps * d->narrow);
    p->result = d->groups * taps * lanes;
    for (ptrdiff_t i = 0; p->place && i < windows; i++) {
        p->place[i] = i / each * image + i % each / n[1] * d->gather.p.pitch + i % n[1];
        p->number[i] = i * lanes;
    }
}

/* The cost of an image's group, in products of vectors, by products; and by dots or slides. */
static double products_cost(const implicit_plan *d)
{
    const double taps = (double)(d->wide * d->area), windows = (double)(d->w.out[0] * d->w.out[1]),
                 vectors = (double)(kernel_padded(d->k, d->narrow) / d->k->lanes);
    return vectors * (windows * (taps * 1.1 + TRANSPOSE) + taps * END / (double)d->usual);
}

static double dots_cost(const implicit_plan *d)
{
    const slide *v = d->gradient.slides.slide;
    const ptrdiff_t *n = d->w.out, made = d->narrow * d->wide * d->area;
    const cover how = implicit_by_rows(d->k, n[1]) ? BY_ROWS : FLAT;
    const double each = v ? 1.3 : 1.3 + 1.3 / (double)d->narrow; /* a vector of the narrow image is read */
    ptrdiff_t vectors = v ? n[0] * ceil_div(n[1], v->lanes)
                          : implicit_vectors(d->k, how, n[0], n[1], d->gather.p.pitch, NULL, NULL, NULL);
    if (!v) vectors += HORIZONTAL * ceil_div(vectors, RUN / d->k->lanes);
    return (double)(vectors * made) * each;
}

void implicit_plan_gradient(implicit_plan *d, arena *a)
{
    gradient_pass *p = &d->gradient;
    *p = (gradient_pass){ .images = 1 };
    p->slides = (part){ .of = { { 0, 0 }, { d->w.out[0], d->w.out[1] } }, .depth = d->wide * d->area };
    if (d->gather.part) p->slides = *d->gather.part;
    implicit_plan_slide(d, &d->gather, &p->slides, 0);
    if (d->wide > 1 || d->narrow > SLID) p->slides.slide = NULL;
    p->dots = dots_cost(d) < products_cost(d);
    if (!p->dots) p->slides.slide = NULL;
    const double by_groups = implicit_group_sums_cost(d), by_taps = implicit_taps_gradient_cost(d),
                 others = (p->dots ? dots_cost : products_cost)(d) + implicit_layout_cost(d, &d->gather);
    p->groups = by_groups < fmin(others, by_taps);
    p->by_taps = !p->groups && 1.1 * by_taps < others;
    if (p->groups || p->by_taps) p->slides.slide = NULL;
    if (p->groups) implicit_plan_group_sums(d, p, a);
    if (p->groups || p->by_taps) return;
    (p->slides.slide ? plan_slides : p->dots ? plan_dots : plan_products)(d, p, a);
    d->gather.plane = largest(d->gather.plane, p->images * planes_size(&d->gather.p, d->wide));
}

/* ---- lanes are channels ------------------------------------------------------------------------------ */

/* A group of some images: their wide planes, and the narrow images, contiguous, with the distance to the
 * next one. */
typedef struct group {
    const st_real *wide, *narrow;
    ptrdiff_t images, next;
    ptrdiff_t row, rows;   /* a band of windows */
    bool first;            /* of the call */
    const share *s;        /* channels and taps */
    st_real *sum, *result; /* of the group: the gradient, and what is added to it at the end */
} group;

/* result[k][o] += Σ_p wide[k + p] narrow[o][p] */
static void add_products(const st_call *c, const group *g)
{
    const implicit_plan *d = c->plan;
    const gradient_pass *p = &d->gradient;
    const share *s = g->s;
    const ptrdiff_t *n = d->w.out, lanes = kernel_padded(d->k, d->narrow), area = n[0] * n[1];
    st_real *panel = st_data(st_scratch(c, PANEL));
    for (ptrdiff_t first = g->row, rows; first < g->row + g->rows; first += rows) {
        rows = smallest(p->rows, g->row + g->rows - first);
        for (ptrdiff_t i = 0; i < g->images; i++)
            kernel_transpose(d->k, s->made, rows * n[1],
                             g->narrow + i * g->next + s->first * area + first * n[1], area,
                             panel + i * rows * n[1] * lanes, lanes, NULL);
        const st_real *wide = g->wide + (first - g->row) * d->gather.p.pitch;
        kernel_product(d->k, s->taps, kernel_padded(d->k, s->made), g->images * rows * n[1], wide,
                       d->gather.part->tap + s->tap, p->place, panel, p->number, g->result + s->tap * lanes,
                       lanes, !g->first || first > 0);
    }
}

/* dW[o][k] += result[k][o] */
static void end_products(const st_call *c, const group *g)
{
    const implicit_plan *d = c->plan;
    const share *s = g->s;
    const ptrdiff_t lanes = kernel_padded(d->k, d->narrow), taps = d->wide * d->area;
    st_real *panel = st_data(st_scratch(c, PANEL)), *to = g->sum + s->first * taps + s->tap;
    kernel_transpose(d->k, s->taps, s->made, g->result + s->tap * lanes, lanes, panel, s->taps, NULL);
    for (ptrdiff_t o = 0; o < s->made; o++, to += taps, panel += s->taps)
        for (ptrdiff_t k = 0; k < s->taps; k++) to[k] += panel[k];
}

/* ---- lanes are windows ------------------------------------------------------------------------------- */

static void add_dots(const st_call *c, const group *g)
{
    const implicit_plan *d = c->plan;
    const gradient_pass *p = &d->gradient;
    const ptrdiff_t height = d->w.out[0], width = d->w.out[1], taps = d->wide * d->area,
                    far = p->straight ? height * width : p->panel / d->narrow, pitch = d->gather.p.pitch;
    st_real *to = st_data(st_scratch(c, PANEL));
    const st_real *from = g->narrow + (g->s->first * height + g->row) * width;
    for (ptrdiff_t o = 0; o < g->s->made && !p->straight; o++)
        d->k->move(g->rows, width, from + o * height * width, width, to + o * far, pitch);
    const dots *t = &p->tables[d->gather.band - g->rows];
    const ptrdiff_t most = RUN / d->k->lanes;
    for (ptrdiff_t v = 0; v < t->vectors; v += most)
        kernel_dot(d->k, g->s->made, taps, smallest(most, t->vectors - v), p->straight ? from : to, far,
                   t->to + v, t->skip + v, g->wide, d->gather.part->tap, t->from + v,
                   g->sum + g->s->first * taps, taps);
}

/* Sums of all images, each in the lanes of a vector. */
static void add_slides(const st_call *c, const group *g)
{
    const implicit_plan *d = c->plan;
    const part *q = &d->gradient.slides;
    const ptrdiff_t *n = d->w.out, size = q->depth * q->slide->lanes;
    for (ptrdiff_t i = 0; g->first && g->row == 0 && i < d->narrow * size; i++) g->result[i] = 0;
    for (ptrdiff_t o = 0; o < d->narrow; o++)
        slide_sum_image(q->slide, &q->slid, q->stride, q->taps, g->rows, n[1], g->wide,
                        g->narrow + (o * n[0] + g->row) * n[1], n[1], g->result + o * size);
}

static void end_slides(const st_call *c, const group *g)
{
    const implicit_plan *d = c->plan;
    const part *q = &d->gradient.slides;
    for (ptrdiff_t o = 0; o < d->narrow; o++)
        slide_add_sums(q->slide, &q->slid, q->taps, g->result + o * q->depth * q->slide->lanes,
                       g->sum + o * d->area);
}

/* ---- the pass ---------------------------------------------------------------------------------------- */

void implicit_gradient(const st_call *c, const share *s, st_tensor wide, st_tensor narrow)
{
    const implicit_plan *d = c->plan;
    const gradient_pass *p = &d->gradient;
    if (p->groups || p->by_taps) {
        (p->groups ? implicit_sum_groups : implicit_sum_taps)(c, s, wide, narrow);
        return;
    }
    const bool slides = p->slides.slide, products = !p->dots;
    const implicit_images from = implicit_images_of(wide);
    const ptrdiff_t height = d->w.out[0], image = height * d->w.out[1] * d->narrow;
    st_real *room = st_data(st_scratch(c, PLANES)), *dw = s->dw, *results = st_data(st_scratch(c, RESULT));
    implicit_begin(c, &d->gather, p->images);
    if (p->dots && !p->straight) st_fill(st_narrow(st_scratch(c, PANEL), 0, 0, p->panel), 0);
    group g = { .next = d->groups * image, .s = s };
    for (ptrdiff_t i = 0; i < from.count; i += p->images) {
        g.images = smallest(p->images, from.count - i), g.first = i == 0;
        const bool last = i + g.images == from.count;
        const st_real *images = implicit_contiguous(st_narrow(narrow, 0, i, g.images), st_scratch(c, NARROW));
        for (ptrdiff_t number = s->group; number < s->end; number++) {
            g.narrow = images + number * image;
            g.sum = dw + number * d->narrow * d->wide * d->area;
            g.result = results + number * (p->result / d->groups);
            for (g.row = 0; g.row < height; g.row += g.rows) {
                g.rows = ceil_div(height - g.row, ceil_div(height - g.row, d->gather.band));
                g.wide =
                    implicit_lay_out(d, &d->gather, &from, i, g.images, number, g.row, p->images == 1, room)
                        .plane;
                (slides ? add_slides : products ? add_products : add_dots)(c, &g);
            }
            if (last && slides) end_slides(c, &g);
            if (last && products) end_products(c, &g);
        }
    }
}
