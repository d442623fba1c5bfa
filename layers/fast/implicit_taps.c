/* implicit_taps.c: an implicit product with taps as lanes, where a kernel leaves few windows: the product of
 * a dense layer, whose rows are windows of several images.
 *
 *     narrow[o][j]  = Σ_k W[o][k] row[j][k]           row[j][k] = wide[k + j]
 *     row[j][k]     = Σ_o W[o][k] narrow[o][j]        added to the wide image
 *     dW[o][k]     += Σ_j narrow[o][j] row[j][k]
 *
 * A window that is a whole image is a row itself; others are copied. */
#include "layers/fast/implicit.h"

#include <math.h>

enum {
    ROWS = 512,       /* of a block, at most, unless an image has more; */
    PANELS = 1 << 17, /* and their elements */
    BLOCK = 1 << 16,  /* elements of rows and weights that are multiplied together */
    DEEP = 16,        /* and vectors, at least */
    CHUNK = 8,        /* images of a usual call */
    HORIZONTAL = 12,  /* the cost of adding up the lanes of a vector, in products of vectors; */
    STREAM = 16,      /* of reading a vector of weights from the second cache; */
    TRANSPOSE = 12,   /* of transposing one of an image; */
    PIECE = 30,       /* of copying a channel of a window, */
    RUN = 20,         /* each row of it, */
    ELEMENT = 6,      /* and elements of one that are copied meanwhile */
    TABLES = 1 << 20, /* the most entries of tables */
};

/* ---- plan ------------------------------------------------------------------------------------------- */

static ptrdiff_t depth_of(const implicit_plan *d)
{
    return d->wide * d->area;
}

static ptrdiff_t windows_of(const implicit_plan *d)
{
    return d->w.out[0] * d->w.out[1];
}

/* Tests if the only window is the image. */
static bool is_whole(const implicit_plan *d)
{
    const window *w = &d->w;
    for (int axis = 0; axis < 2; axis++)
        if (w->out[axis] != 1 || w->before[axis] != 0 || w->kernel[axis] != w->size[axis] ||
            (w->dilation[axis] != 1 && w->kernel[axis] != 1))
            return false;
    return true;
}

/* The cost of an image's group, in products of vectors: of products alone, and of copying windows. */
static double cost(const implicit_plan *d)
{
    const kernel *k = kernel_narrower(d->k, depth_of(d));
    const double windows = (double)windows_of(d);
    if (!k || (double)depth_of(d) + windows * CHUNK + (double)d->narrow > TABLES) return HUGE_VAL;
    return windows * (double)d->narrow * (double)ceil_div(depth_of(d), k->lanes) * 1.1;
}

static double copying_cost(const implicit_plan *d, bool back)
{
    const double windows = (double)windows_of(d), wide = (double)d->wide,
                 rows = (double)(d->w.kernel[0] * (d->w.dilation[1] > 1 ? d->w.kernel[1] : 1)),
                 channel = PIECE + rows * RUN + (double)d->area / ELEMENT;
    if (is_whole(d)) return 0;
    if (window_is_identity(&d->w) && !back) return windows * ceil(wide / d->k->lanes) * TRANSPOSE;
    return windows * wide * channel * (back ? 2 : 1);
}

double implicit_taps_cost(const implicit_plan *d, const pass *p)
{
    const double made = (double)d->narrow * (double)windows_of(d),
                 weights = (double)d->narrow * (double)depth_of(d) / d->k->lanes / CHUNK;
    const bool gather = is_gather(d, p);
    return cost(d) + copying_cost(d, !gather) + (gather ? made * HORIZONTAL : weights * STREAM);
}

double implicit_taps_gradient_cost(const implicit_plan *d)
{
    const double weights = (double)d->narrow * (double)depth_of(d) / d->k->lanes / CHUNK;
    return cost(d) + copying_cost(d, false) + weights * STREAM / 2;
}

/* The tables that all passes share, if any of them needs them. */
void implicit_plan_taps(implicit_plan *d, arena *a)
{
    taps_tables *t = &d->taps;
    const bool gather = d->gather.by_taps, scatter = d->scatter.by_taps, gradient = d->gradient.by_taps;
    const ptrdiff_t windows = windows_of(d), depth = depth_of(d);
    if (!gather && !scatter && !gradient) return;
    t->k = kernel_narrower(d->k, depth_of(d));
    t->images = largest(1, smallest(ROWS / windows, is_whole(d) ? ROWS : PANELS / (windows * depth)));
    t->images = smallest(t->images, d->chunk);
    t->vectors = ceil_div(depth, t->k->lanes);
    const ptrdiff_t rows = t->images * windows, image = d->groups * depth,
                    narrow = d->groups * d->narrow * windows;
    t->from = arena_take(a, t->vectors), t->skip = arena_take(a, t->vectors);
    t->image = arena_take(a, rows), t->row = arena_take(a, rows), t->window = arena_take(a, rows);
    t->channel = arena_take(a, d->narrow), t->weight = arena_take(a, d->narrow);
    if (t->from) {
        for (ptrdiff_t v = 0; v < t->vectors; v++) {
            t->from[v] = smallest(v * t->k->lanes, depth - t->k->lanes);
            t->skip[v] = v * t->k->lanes - t->from[v];
        }
        iota(t->image, rows, image), iota(t->row, rows, depth);
        iota(t->channel, d->narrow, windows), iota(t->weight, d->narrow, depth);
        for (ptrdiff_t j = 0; j < rows; j++) t->window[j] = j / windows * narrow + j % windows;
    }
    pass *p = gather || gradient ? &d->gather : &d->scatter;
    p->plane = largest(p->plane, t->images * narrow);
    p->panel = largest(p->panel, rows * depth);
    p->result = largest(p->result, rows * d->narrow);
    if (scatter) d->scatter.plane = largest(d->scatter.plane, t->images * narrow);
}

/* ---- rows ------------------------------------------------------------------------------------------- */

/* The rows of some windows of a group, and the images that have them. */
typedef struct rows {
    const implicit_plan *d;
    st_real *row;
    ptrdiff_t images;
} rows;

/* Copies windows into rows. */
static void take(const rows *r, const implicit_images *from, ptrdiff_t first, ptrdiff_t group)
{
    const window *w = &r->d->w;
    const ptrdiff_t depth = depth_of(r->d), across = w->dilation[1] * from->stride[3],
                    windows = windows_of(r->d);
    st_real *row = r->row;
    for (ptrdiff_t n = 0; n < r->images && window_is_identity(&r->d->w) && from->contiguous; n++)
        kernel_transpose(r->d->k, depth, windows,
                         from->data + (first + n) * from->stride[0] + group * depth * windows, windows,
                         row + n * windows * depth, depth, NULL);
    if (window_is_identity(&r->d->w) && from->contiguous) return;
    for (ptrdiff_t k = 0; k < r->images * windows_of(r->d) * depth; k++) row[k] = 0;
    for (ptrdiff_t n = 0; n < r->images; n++)
        for (ptrdiff_t i = 0; i < windows_of(r->d); i++, row += depth) {
            ptrdiff_t top, y, left, x, high = implicit_inside(w, 0, i / w->out[1], &top, &y),
                                       wide = implicit_inside(w, 1, i % w->out[1], &left, &x);
            for (ptrdiff_t c = 0; c < r->d->wide && high > 0 && wide > 0; c++) {
                const st_real *at = from->data + (first + n) * from->stride[0] +
                                    (group * r->d->wide + c) * from->stride[1] + y * from->stride[2] +
                                    x * from->stride[3];
                st_real *to = row + c * r->d->area + top * w->kernel[1] + left;
                planes_move(r->d->k, (ptrdiff_t[]){ high, wide }, at, w->dilation[0] * from->stride[2],
                            across, to, w->kernel[1], 1);
            }
        }
}

/* Adds rows to the windows of some channels of images, which are contiguous, and begin as 0. */
static void give(const rows *r, ptrdiff_t channels, st_real *images, ptrdiff_t next)
{
    const window *w = &r->d->w;
    const ptrdiff_t area = w->size[0] * w->size[1];
    const st_real *row = r->row;
    for (ptrdiff_t n = 0; n < r->images; n++, images += next) {
        for (ptrdiff_t k = 0; k < channels * area; k++) images[k] = 0;
        for (ptrdiff_t i = 0; i < windows_of(r->d); i++, row += depth_of(r->d)) {
            ptrdiff_t top, y, left, x, high = implicit_inside(w, 0, i / w->out[1], &top, &y),
                                       wide = implicit_inside(w, 1, i % w->out[1], &left, &x);
            for (ptrdiff_t c = 0; c < channels; c++)
                for (ptrdiff_t h = 0; h < high; h++) {
                    const st_real *from = row + c * r->d->area + (top + h) * w->kernel[1] + left;
                    st_real *to = images + c * area + (y + h * w->dilation[0]) * w->size[1] + x;
                    for (ptrdiff_t v = 0; v < wide && w->dilation[1] > 1; v++)
                        to[v * w->dilation[1]] += from[v];
                    for (ptrdiff_t v = 0; v < wide && w->dilation[1] == 1; v++) to[v] += from[v];
                }
        }
    }
}

/* The rows of a group of images from number `first` on: in place, or copied; and their places. */
static const st_real *rows_at(const rows *r, const implicit_images *from, ptrdiff_t first, ptrdiff_t group,
                              const ptrdiff_t **place)
{
    const taps_tables *t = &r->d->taps;
    if (is_whole(r->d) && from->contiguous) {
        *place = t->image;
        return from->data + first * from->stride[0] + group * depth_of(r->d);
    }
    take(r, from, first, group);
    *place = t->row;
    return r->row;
}

/* ---- passes ----------------------------------------------------------------------------------------- */

/* Blocks are those of a usual call, as each is added up. */
static void dot(const implicit_plan *d, ptrdiff_t made, ptrdiff_t count, const st_real *weight,
                const st_real *row, const ptrdiff_t *place, st_real *c)
{
    const taps_tables *t = &d->taps;
    const ptrdiff_t deep = largest(DEEP, BLOCK / ((d->narrow + CHUNK * windows_of(d)) * t->k->lanes));
    for (ptrdiff_t v = 0; v < t->vectors; v += deep)
        kernel_dot(t->k, made, count, smallest(deep, t->vectors - v), weight, depth_of(d), t->from + v,
                   t->skip + v, row, place, t->from + v, c, count);
}

static void gather(const st_call *c, const share *s, st_tensor from, st_tensor to, const st_real *bias)
{
    const implicit_plan *d = c->plan;
    const implicit_images wide = implicit_images_of(from);
    const ptrdiff_t windows = windows_of(d), each = d->narrow * windows;
    const st_real *weight = implicit_weights(c->layer);
    st_real *result = st_data(st_scratch(c, RESULT)), *y = st_data(to);
    rows r = { d, st_data(st_scratch(c, PANEL)), 0 };
    for (ptrdiff_t i = 0; i < wide.count; i += r.images)
        for (ptrdiff_t g = s->group; g < s->end; g++) {
            r.images = smallest(d->taps.images, wide.count - i);
            const ptrdiff_t count = r.images * windows, first = g * d->narrow + s->first, *place;
            const st_real *row = rows_at(&r, &wide, i, g, &place);
            for (ptrdiff_t k = 0; k < s->made * count; k++) result[k] = bias ? bias[first + k / count] : 0;
            dot(d, s->made, count, weight + first * depth_of(d), row, place, result);
            for (ptrdiff_t n = 0; n < r.images; n++)
                for (ptrdiff_t o = 0; o < s->made; o++)
                    for (ptrdiff_t p = 0; p < windows; p++)
                        y[(i + n) * d->groups * each + (first + o) * windows + p] =
                            result[o * count + n * windows + p];
        }
}

static void scatter(const st_call *c, const share *s, st_tensor from, st_tensor to, const st_real *bias)
{
    const implicit_plan *d = c->plan;
    const taps_tables *t = &d->taps;
    const bool whole = is_whole(d);
    const ptrdiff_t windows = windows_of(d), depth = depth_of(d), area = d->w.size[0] * d->w.size[1],
                    next = d->groups * d->wide * area;
    const st_real *weight = implicit_weights(c->layer);
    rows r = { d, st_data(st_scratch(c, PANEL)), 0 };
    for (ptrdiff_t i = 0; i < from.shape.n[0]; i += r.images) {
        r.images = smallest(t->images, from.shape.n[0] - i);
        const st_real *narrow = implicit_contiguous(c, st_narrow(from, 0, i, r.images));
        for (ptrdiff_t g = s->group; g < s->end; g++) {
            const ptrdiff_t first = g * d->wide + s->first;
            st_real *images = st_data(to) + i * next + first * area;
            kernel_product(t->k, r.images * windows, s->made * d->area, d->narrow,
                           narrow + g * d->narrow * windows, t->window, t->channel,
                           weight + g * d->narrow * depth + s->first * d->area, t->weight,
                           whole ? images : r.row, whole ? next : depth, false);
            if (!whole) give(&r, s->made, images, next);
            for (ptrdiff_t n = 0; n < r.images && bias; n++)
                for (ptrdiff_t k = 0; k < s->made * area; k++) images[n * next + k] += bias[first + k / area];
        }
    }
}

void implicit_make_taps(const st_call *c, const pass *p, const share *s, st_tensor from, st_tensor to,
                        const st_real *bias)
{
    (p == &((const implicit_plan *)c->plan)->gather ? gather : scatter)(c, s, from, to, bias);
}

void implicit_sum_taps(const st_call *c, const share *s, st_tensor wide, st_tensor narrow)
{
    const implicit_plan *d = c->plan;
    const taps_tables *t = &d->taps;
    const implicit_images from = implicit_images_of(wide);
    const ptrdiff_t windows = windows_of(d), depth = depth_of(d);
    st_real *dw = s->dw;
    rows r = { d, st_data(st_scratch(c, PANEL)), 0 };
    for (ptrdiff_t i = 0; i < from.count; i += r.images) {
        r.images = smallest(t->images, from.count - i);
        const st_real *dy = implicit_contiguous(c, st_narrow(narrow, 0, i, r.images));
        for (ptrdiff_t g = s->group; g < s->end; g++) {
            const ptrdiff_t first = g * d->narrow + s->first, *place;
            const st_real *row = rows_at(&r, &from, i, g, &place);
            kernel_product(t->k, s->made, depth, r.images * windows, dy + first * windows, t->channel,
                           t->window, row, place, dw + first * depth, depth, true);
        }
    }
}
