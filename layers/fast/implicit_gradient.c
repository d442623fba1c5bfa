/* implicit_gradient.c: the gradient of an implicit product's weights.
 *
 *     dW[o][k] += Σ_p narrow[o][p] wide[k + p]
 *
 * With enough narrow channels to fill vectors, they are lanes: elements of wide images are broadcast,
 * wherever they are, and multiplied with rows of a transposed block of narrow images; the sum is
 * transposed at the end. Only images with a border are copied. Else lanes are windows, of which both sides
 * have whole vectors, and are added up at the end. */
#include "layers/fast/implicit.h"

#include <math.h>

enum {
    SUM = 1 << 12,                      /* elements of a small sum */
    RUN = (1 << 12) / sizeof(st_real),  /* of a channel's windows that stay in the first cache */
    WINDOWS = 1 << 9,                   /* windows of a small block */
    BAND = (1 << 19) / sizeof(st_real), /* elements of images with a border that stay in cache, */
    LOW = 4,                            /* with so many rows of windows for each that is copied again */
    HORIZONTAL = 8, /* the cost of adding up the lanes of a vector, in products of vectors, */
    TRANSPOSE = 16, /* of transposing one, */
    END = 40,       /* and of adding one to the gradient at the end */
};

/* ---- plan ------------------------------------------------------------------------------------------- */

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

/* The elements of images lie as for windows with a stride of 1, where none of those copied is left out. */
static void plan_image(const implicit_plan *d, gradient_pass *g, arena *a)
{
    const ptrdiff_t phases = phase_count(&d->w, 0) * phase_count(&d->w, 1), high = d->w.out[0];
    planes_piece *piece =
        (planes_piece *)arena_take(a, phases * (ptrdiff_t)(sizeof *piece / sizeof(ptrdiff_t)));
    window *w = &g->w;
    *w = d->w;
    for (int axis = 0; axis < 2; axis++) {
        const ptrdiff_t reach = (w->kernel[axis] - 1) * w->dilation[axis];
        if (window_padded(&d->w) && reach + 1 < w->stride[axis]) continue;
        w->out[axis] = largest((w->out[axis] - 1) * w->stride[axis] + 1, w->size[axis] - reach);
        w->stride[axis] = 1;
    }
    pass *p = &g->image;
    *p = (pass){ .p = planes_of_windows(d->k, w, piece), .read = d->wide, .band = high };
    const ptrdiff_t apart = d->w.stride[0] / w->stride[0],
                    rows = BAND / (d->wide * (p->p.channel / p->p.rows)) - p->p.reach;
    if (p->p.in_place || rows > (high - 1) * apart || rows < LOW * (p->p.reach + 1)) return;
    p->band = ceil_div(high, ceil_div(high, ceil_div(rows, apart)));
    planes_make_band(&p->p, (p->band - 1) * apart + 1);
}

/* Elements from one image to the next one. */
static ptrdiff_t image_size(const implicit_plan *d, const pass *p)
{
    return p->p.in_place ? d->groups * d->wide * d->w.size[0] * d->w.size[1] : planes_size(&p->p, d->wide);
}

/* A block is as large as the sum to which its products are added: rows of an image, or several images. */
static void plan_products(implicit_plan *d, gradient_pass *p, arena *a)
{
    const window *w = &d->w;
    const pass *q = &p->image;
    const ptrdiff_t *n = w->out, lanes = kernel_padded(d->k, d->narrow), taps = d->wide * d->area,
                    most = largest(largest(taps, SUM / lanes), WINDOWS);
    p->images = q->band < n[0] ? 1 : smallest(d->chunk, largest(1, WINDOWS / (n[0] * n[1])));
    p->rows = p->images > 1 ? n[0] : smallest(q->band, ceil_div(n[0], ceil_div(n[0] * n[1], most)));
    const ptrdiff_t each = p->rows * n[1], windows = p->images * each, image = image_size(d, q);
    p->place = arena_take(a, windows), p->number = arena_take(a, windows);
    p->from = arena_take(a, taps);
    p->panel = largest(windows * lanes, taps * d->narrow);
    p->result = d->groups * taps * lanes;
    for (ptrdiff_t i = 0; p->place && i < windows; i++) {
        const ptrdiff_t row = i % each / n[1] * (w->stride[0] / p->w.stride[0]);
        p->place[i] = i / each * image + row * q->p.pitch + i % n[1] * (w->stride[1] / p->w.stride[1]);
        p->number[i] = i * lanes;
    }
    if (p->from) implicit_fill_taps(&p->w, &q->p, d->wide, p->from);
}

/* The cost of transposing an image's narrow channels, in products of vectors. */
static double transposing_cost(const implicit_plan *d)
{
    return (double)(kernel_padded(d->k, d->narrow) / d->k->lanes * d->w.out[0] * d->w.out[1]) * TRANSPOSE;
}

/* The cost of an image's group by products; and by dots. */
static double products_cost(const implicit_plan *d)
{
    const double taps = (double)(d->wide * d->area), windows = (double)(d->w.out[0] * d->w.out[1]),
                 vectors = (double)(kernel_padded(d->k, d->narrow) / d->k->lanes);
    return vectors * taps * (windows * 1.1 + END / (double)d->usual) + transposing_cost(d);
}

static double dots_cost(const implicit_plan *d)
{
    const ptrdiff_t *n = d->w.out, made = d->narrow * d->wide * d->area;
    const cover how = implicit_by_rows(d->k, n[1]) ? BY_ROWS : FLAT;
    const double each = 1.3 + 2.3 / (double)d->narrow; /* a vector of the narrow image is read */
    ptrdiff_t vectors = implicit_vectors(d->k, how, n[0], n[1], d->gather.p.pitch, NULL, NULL, NULL);
    vectors += HORIZONTAL * ceil_div(vectors, RUN / d->k->lanes);
    return (double)(vectors * made) * each;
}

void implicit_plan_gradient(implicit_plan *d, arena *a)
{
    gradient_pass *p = &d->gradient;
    *p = (gradient_pass){ .images = 1 };
    plan_image(d, p, a);
    const double by_groups = implicit_group_sums_cost(d), by_taps = implicit_taps_gradient_cost(d),
                 by_dots = dots_cost(d) + implicit_layout_cost(d, &d->gather),
                 products = products_cost(d) + implicit_layout_cost(d, &p->image),
                 others = fmin(by_dots, products);
    const double by_rows = implicit_slide_sums_cost(d);
    p->dots = by_dots < products;
    p->groups = by_groups < fmin(fmin(others, by_taps), by_rows);
    p->by_rows = !p->groups && by_rows < fmin(others, by_taps);
    p->by_taps = !p->groups && !p->by_rows && by_taps < others;
    if (p->groups) implicit_plan_group_sums(d, p, a);
    if (p->by_rows) implicit_plan_slide_sums(d, p, a);
    if (p->groups || p->by_taps || p->by_rows) return;
    (p->dots ? plan_dots : plan_products)(d, p, a);
    d->gather.plane = largest(d->gather.plane, p->images * (p->dots ? planes_size(&d->gather.p, d->wide)
                                                                    : image_size(d, &p->image)));
}

/* A thread with some narrow channels lays out all wide ones; with wide ones, it transposes narrow ones. */
void implicit_divide_gradient(const implicit_plan *d, layer_division *by)
{
    const gradient_pass *p = &d->gradient;
    const ptrdiff_t *n = d->w.out;
    layer_try_axis(by, OF_GROUPS, d->groups, p->groups ? implicit_group_lanes(d) : 1, 0);
    if (p->groups || p->by_rows) return;
    double laid, narrow, products;
    if (p->by_taps) {
        laid = implicit_taps_copying_cost(d), narrow = 0;
        products = implicit_taps_gradient_cost(d) - laid;
    } else if (p->dots) {
        laid = implicit_layout_cost(d, &d->gather), products = dots_cost(d);
        narrow = p->straight ? 0 : (double)(d->narrow * n[0]) * implicit_row_cost(d->k, n[1], 1);
    } else {
        laid = implicit_layout_cost(d, &p->image), narrow = transposing_cost(d);
        products = products_cost(d) - narrow;
    }
    const double all = laid + narrow + products;
    layer_try_axis(by, OF_CHANNELS, d->narrow, p->dots || p->by_taps ? 1 : d->k->lanes, laid / all);
    layer_try_axis(by, OF_TAPS, d->wide * d->area, d->area * (p->by_taps ? implicit_taps_unit(d, by) : 1),
                   narrow / all);
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
        const st_real *wide =
            g->wide + (first - g->row) * (d->w.stride[0] / p->w.stride[0]) * p->image.p.pitch;
        kernel_product(d->k, s->taps, kernel_padded(d->k, s->made), g->images * rows * n[1], wide,
                       p->from + s->tap, p->place, panel, p->number, g->result + s->tap * lanes, lanes,
                       !g->first || first > 0);
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
        kernel_dot(d->k, g->s->made, g->s->taps, smallest(most, t->vectors - v), p->straight ? from : to, far,
                   t->to + v, t->skip + v, g->wide, d->gather.part->tap + g->s->tap, t->from + v,
                   g->sum + g->s->first * taps + g->s->tap, taps);
}

/* ---- the pass ---------------------------------------------------------------------------------------- */

void implicit_gradient(const st_call *c, const share *s, st_tensor wide, st_tensor narrow)
{
    const implicit_plan *d = c->plan;
    const gradient_pass *p = &d->gradient;
    if (p->groups || p->by_taps || p->by_rows) {
        (p->groups    ? implicit_sum_groups
         : p->by_rows ? implicit_sum_slides
                      : implicit_sum_taps)(c, s, wide, narrow);
        return;
    }
    const bool products = !p->dots;
    const pass *q = products ? &p->image : &d->gather;
    const bool in_place = products && q->p.in_place;
    const ptrdiff_t height = d->w.out[0], image = height * d->w.out[1] * d->narrow, all = wide.shape.n[0],
                    area = d->w.size[0] * d->w.size[1],
                    apart = products ? d->w.stride[0] / p->w.stride[0] : 1, channel = s->tap / d->area,
                    channels = s->taps / d->area;
    const st_tensor scratch = st_scratch(c, PLANES);
    st_real *dw = s->dw, *results = st_data(st_scratch(c, RESULT));
    if (!in_place) implicit_begin(c, q, p->images, channel, channels);
    if (p->dots && !p->straight) st_fill(st_narrow(st_scratch(c, PANEL), 0, 0, p->panel), 0);
    group g = { .next = d->groups * image, .s = s };
    for (ptrdiff_t i = 0; i < all; i += p->images) {
        g.images = smallest(p->images, all - i), g.first = i == 0;
        const bool last = i + g.images == all;
        const st_real *images = implicit_contiguous(st_narrow(narrow, 0, i, g.images), st_scratch(c, NARROW));
        const st_tensor some = st_narrow(wide, 0, i, g.images);
        const implicit_images from = implicit_images_of(some);
        const st_real *laid = in_place ? implicit_contiguous(some, scratch) : NULL;
        for (ptrdiff_t number = s->group; number < s->end; number++) {
            g.narrow = images + number * image;
            g.sum = dw + number * d->narrow * d->wide * d->area;
            g.result = results + number * (p->result / d->groups);
            for (g.row = 0; g.row < height; g.row += g.rows) {
                g.rows = ceil_div(height - g.row, ceil_div(height - g.row, q->band));
                const implicit_block b = { 0, g.images, number, channel, channels, g.row * apart };
                g.wide = in_place ? laid + number * d->wide * area
                                  : implicit_lay_out(d, q, &from, &b, p->images == 1, st_data(scratch)).plane;
                (products ? add_products : add_dots)(c, &g);
            }
            if (last && products) end_products(c, &g);
        }
    }
}
