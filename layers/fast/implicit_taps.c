/* implicit_taps.c: an implicit product with taps as lanes, where a kernel leaves few windows: the product of
 * a dense layer, whose rows are windows of several images.
 *
 *     narrow[o][j]  = Σ_k W[o][k] row[j][k]           row[j][k] = wide[k + j]
 *     row[j][k]     = Σ_o W[o][k] narrow[o][j]        added to the wide image
 *     dW[o][k]     += Σ_j narrow[o][j] row[j][k]
 *
 * A window that is a whole image is a row itself; others are copied, window by window, or tap by tap and then
 * transposed: windows and taps are alike, as tap t of window i reads element i * stride + t * dilation. */
#include "layers/fast/implicit.h"

#include <math.h>

enum {
    ROWS = 512,       /* of a block, at most, unless an image has more; */
    PART = 1 << 15,   /* elements of rows that stay in cache: those of some channels, */
    COLUMNS = 512,    /* which may have so many taps; */
    TURNED = 1 << 12, /* and of those that are transposed together */
    HORIZONTAL = 12,  /* the cost of adding up the lanes of a part's vectors, in products of vectors; */
    STREAM = 16,      /* of reading a vector of weights from the second cache; */
    TRANSPOSE = 12,   /* of transposing one of an image, */
    FILL = 20,        /* and of filling one, to which windows are added; */
    PIECE = 30,       /* of copying a channel of a window, or of a tap, */
    RUN = 20,         /* each row of it, */
    ELEMENT = 6,      /* and elements of one that are copied meanwhile */
    TABLES = 1 << 20, /* the most entries of tables */
};

/* Of an element, if they are apart; and of a product that makes rows, in those of windows without phases. */
static const double APART = 1.5, PRODUCT = 1.2;

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

/* Tests if windows are copied tap by tap and transposed: rows of windows are longer than those of taps. */
static bool transposes(const implicit_plan *d)
{
    const window *w = &d->w;
    return w->out[1] > w->kernel[1] || (w->out[1] == w->kernel[1] && w->out[0] > w->kernel[0]);
}

/* Taps as windows, and windows as taps. */
static window exchanged(const window *w)
{
    window v = *w;
    for (int axis = 0; axis < 2; axis++) {
        v.kernel[axis] = (int)w->out[axis], v.out[axis] = w->kernel[axis];
        v.stride[axis] = w->dilation[axis], v.dilation[axis] = w->stride[axis];
    }
    return v;
}

/* Channels that are transposed together. */
static ptrdiff_t block_channels(const implicit_plan *d)
{
    return ceil_div(largest(TURNED / windows_of(d), d->k->lanes), d->area);
}

/* The most channels that are multiplied together, while their rows stay in cache: those of a usual call, as
 * the sums of each part are added. */
static ptrdiff_t most_channels(const implicit_plan *d)
{
    return largest(ceil_div(COLUMNS, d->area), PART / (d->usual * windows_of(d) * d->area));
}

/* The cost of an image's group, in products of vectors: of products alone; */
static double cost(const implicit_plan *d)
{
    const kernel *k = kernel_narrower(d->k, depth_of(d));
    const double windows = (double)windows_of(d);
    if (!k || (double)depth_of(d) + windows * (double)d->usual + (double)d->narrow > TABLES) return HUGE_VAL;
    return windows * (double)d->narrow * (double)ceil_div(depth_of(d), k->lanes) * 1.1;
}

/* of copying windows, or of adding them back; */
static double copying_cost(const implicit_plan *d, bool back)
{
    const window *w = &d->w;
    const double windows = (double)windows_of(d), wide = (double)d->wide, area = (double)d->area,
                 transposed = transposes(d) ? wide * area * windows / d->k->lanes * TRANSPOSE : 0,
                 rows = (double)(w->kernel[0] * (w->dilation[1] > 1 ? w->kernel[1] : 1)),
                 one = RUN + (double)w->out[1] * (w->stride[1] > 1 ? APART : 1.0 / ELEMENT),
                 run = w->stride[1] > 2 && d->k->pick && !back
                           ? fmin(one, RUN + implicit_row_cost(d->k, w->out[1], w->stride[1]))
                           : one;
    if (is_whole(d)) return 0;
    if (window_is_identity(w) && !back)
        return transposes(d) ? transposed : windows * ceil(wide / d->k->lanes) * TRANSPOSE;
    if (transposes(d)) return wide * area * (PIECE + (double)w->out[0] * run) * (back ? 1.5 : 1) + transposed;
    return windows * wide * (PIECE + rows * RUN + area / ELEMENT) * (back ? 2 : 1);
}

/* and of reading weights, once for the images of a call. */
static double weights_cost(const implicit_plan *d)
{
    return (double)d->narrow * (double)depth_of(d) / d->k->lanes / (double)d->usual * STREAM;
}

double implicit_taps_cost(const implicit_plan *d, const pass *p)
{
    const bool gather = is_gather(d, p);
    const double parts = (double)ceil_div(d->wide, most_channels(d)),
                 sums = (double)d->narrow * (double)windows_of(d) * parts * HORIZONTAL;
    if (gather) return cost(d) + copying_cost(d, false) + sums;
    return cost(d) * (p->apart[0] * p->apart[1] == 1 ? PRODUCT : 1) + copying_cost(d, true) +
           weights_cost(d) + (double)(d->wide * d->w.size[0] * d->w.size[1] / d->k->lanes * FILL);
}

double implicit_taps_gradient_cost(const implicit_plan *d)
{
    return cost(d) + copying_cost(d, false) + weights_cost(d) / 2;
}

double implicit_taps_copying_cost(const implicit_plan *d)
{
    return copying_cost(d, false);
}

/* Taps of a part fill a vector at least: so do those of the last one, if it has two units or a whole one. */
ptrdiff_t implicit_taps_unit(const implicit_plan *d, const layer_division *by)
{
    const ptrdiff_t unit = ceil_div(d->k->lanes, d->area);
    return d->wide % unit && d->wide < 2 * unit * by->threads ? d->wide : unit;
}

/* The tables that all passes share, if any of them needs them. */
void implicit_plan_taps(implicit_plan *d, arena *a)
{
    taps_tables *t = &d->taps;
    const bool gather = d->gather.by_taps, scatter = d->scatter.by_taps, gradient = d->gradient.by_taps;
    const ptrdiff_t windows = windows_of(d), depth = depth_of(d);
    if (!gather && !scatter && !gradient) return;
    t->k = kernel_narrower(d->k, depth_of(d));
    t->images = smallest(d->chunk, largest(1, ROWS / windows));
    t->channels = ceil_div(d->wide, ceil_div(d->wide, most_channels(d)));
    t->vectors = ceil_div(t->channels * d->area, t->k->lanes);
    const ptrdiff_t rows = t->images * windows, image = d->groups * depth,
                    narrow = d->groups * d->narrow * windows;
    t->from = arena_take(a, 2 * t->vectors), t->skip = arena_take(a, 2 * t->vectors);
    t->image = arena_take(a, rows), t->row = arena_take(a, rows), t->window = arena_take(a, rows);
    t->channel = arena_take(a, d->narrow), t->weight = arena_take(a, d->narrow);
    if (t->from) {
        /* The larger parts come first, then those that have a channel less. */
        for (ptrdiff_t i = 0; i < 2 * t->vectors; i++) {
            const ptrdiff_t at = i % t->vectors * t->k->lanes,
                            columns = (t->channels - i / t->vectors) * d->area;
            t->from[i] = largest(0, smallest(at, columns - t->k->lanes));
            t->skip[i] = at - t->from[i];
        }
        iota(t->image, rows, image), iota(t->row, rows, t->channels * d->area);
        iota(t->channel, d->narrow, windows), iota(t->weight, d->narrow, depth);
        for (ptrdiff_t j = 0; j < rows; j++) t->window[j] = j / windows * narrow + j % windows;
    }
    pass *p = gather || gradient ? &d->gather : &d->scatter;
    const ptrdiff_t block = transposes(d) ? block_channels(d) * d->area * windows : 0;
    p->panel = largest(p->panel, rows * t->channels * d->area + block);
    p->plane = largest(p->plane, t->images * narrow);
    p->result = largest(p->result, rows * d->narrow);
    if (scatter) d->scatter.plane = largest(d->scatter.plane, t->images * narrow);
}

/* ---- rows ------------------------------------------------------------------------------------------- */

/* Rows of the windows of some images, for some channels of a group; and a block of them, transposed. */
typedef struct rows {
    const implicit_plan *d;
    window w; /* with windows and taps exchanged, if rows are transposed */
    ptrdiff_t images, first, channels, pitch, some; /* channels of a block */
    st_real *row, *block;
} rows;

static rows rows_of(const st_call *c)
{
    const implicit_plan *d = c->plan;
    rows r = { .d = d, .w = transposes(d) ? exchanged(&d->w) : d->w, .pitch = d->taps.channels * d->area };
    r.some = transposes(d) ? block_channels(d) : d->wide;
    r.row = st_data(st_scratch(c, PANEL));
    r.block = r.row + d->taps.images * windows_of(d) * r.pitch;
    return r;
}

/* Channels are divided into parts. */
static ptrdiff_t parts_of(const implicit_plan *d, ptrdiff_t channels)
{
    return ceil_div(channels, d->taps.channels);
}

static void choose_part(rows *r, ptrdiff_t first, ptrdiff_t channels, ptrdiff_t i)
{
    const ptrdiff_t parts = parts_of(r->d, channels);
    r->first = first + channels * i / parts;
    r->channels = first + channels * (i + 1) / parts - r->first;
}

/* The taps of a window that are in the image, or the windows of a tap: for each axis, their number, the first
 * one and the element that it reads. */
typedef struct inside {
    ptrdiff_t count[2], first[2], element[2];
} inside;

static inside inside_of(const window *w, ptrdiff_t number)
{
    const ptrdiff_t at[2] = { number / w->out[1], number % w->out[1] };
    inside i;
    for (int axis = 0; axis < 2; axis++)
        i.count[axis] = implicit_inside(w, axis, at[axis], &i.first[axis], &i.element[axis]);
    return i;
}

/* Copies windows of channels, `apart` from each other, where each window is `next` from the previous one. */
static void copy(const kernel *k, const window *w, ptrdiff_t channels, const st_real *image,
                 const ptrdiff_t stride[3], st_real *to, ptrdiff_t next, ptrdiff_t apart)
{
    for (ptrdiff_t n = 0; n < w->out[0] * w->out[1]; n++, to += next) {
        const inside i = inside_of(w, n);
        const st_real *from = image + i.element[0] * stride[1] + i.element[1] * stride[2];
        for (ptrdiff_t c = 0; c < channels && i.count[0] > 0 && i.count[1] > 0; c++)
            planes_move(k, i.count, from + c * stride[0], w->dilation[0] * stride[1],
                        w->dilation[1] * stride[2], to + c * apart + i.first[0] * w->kernel[1] + i.first[1],
                        w->kernel[1], 1);
    }
}

/* The adjoint, to a contiguous image. */
static void add(const window *w, ptrdiff_t channels, const st_real *from, ptrdiff_t next, ptrdiff_t apart,
                st_real *image)
{
    const ptrdiff_t width = w->size[1], across = w->dilation[1];
    for (ptrdiff_t n = 0; n < w->out[0] * w->out[1]; n++, from += next) {
        const inside i = inside_of(w, n);
        for (ptrdiff_t c = 0; c < channels; c++)
            for (ptrdiff_t row = 0; row < i.count[0]; row++) {
                const st_real *at = from + c * apart + (i.first[0] + row) * w->kernel[1] + i.first[1];
                st_real *to =
                    image + (c * w->size[0] + i.element[0] + row * w->dilation[0]) * width + i.element[1];
                for (ptrdiff_t v = 0; v < i.count[1] && across > 1; v++) to[v * across] += at[v];
                for (ptrdiff_t v = 0; v < i.count[1] && across == 1; v++) to[v] += at[v];
            }
    }
}

/* Copies windows of a group of images from number `first` on into rows. */
static void take(const rows *r, const implicit_images *from, ptrdiff_t first, ptrdiff_t group)
{
    const implicit_plan *d = r->d;
    const ptrdiff_t windows = windows_of(d);
    const bool turned = transposes(d), in_place = window_is_identity(&d->w) && from->contiguous;
    const ptrdiff_t size = turned ? r->some * d->area : r->images * r->pitch;
    for (ptrdiff_t k = 0; k < size * windows && !in_place; k++) (turned ? r->block : r->row)[k] = 0;
    for (ptrdiff_t n = 0; n < r->images; n++)
        for (ptrdiff_t c = 0, some; c < r->channels; c += some) {
            const st_real *image = from->data + (first + n) * from->stride[0] +
                                   (group * d->wide + r->first + c) * from->stride[1];
            st_real *to = r->row + n * windows * r->pitch + c * d->area;
            some = smallest(r->some, r->channels - c);
            if (!turned) copy(d->k, &r->w, some, image, from->stride + 1, to, r->pitch, d->area);
            else if (!in_place)
                copy(d->k, &r->w, some, image, from->stride + 1, r->block, windows, d->area * windows);
            if (turned)
                kernel_transpose(d->k, some * d->area, windows, in_place ? image : r->block, windows, to,
                                 r->pitch, NULL);
        }
}

/* Fills each channel of an image with its bias, or adds it. */
static void begin(ptrdiff_t channels, ptrdiff_t area, st_real *image, const st_real *bias, bool add)
{
    for (ptrdiff_t c = 0; c < channels; c++, image += area)
        for (ptrdiff_t k = 0; k < area; k++) image[k] = (add ? image[k] : 0) + (bias ? bias[c] : 0);
}

/* Adds rows to the windows of images, which are contiguous, `next` apart, and begin as the bias. */
static void give(const rows *r, st_real *images, ptrdiff_t next, const st_real *bias)
{
    const implicit_plan *d = r->d;
    const ptrdiff_t windows = windows_of(d), area = d->w.size[0] * d->w.size[1];
    for (ptrdiff_t n = 0; n < r->images; n++, images += next)
        for (ptrdiff_t c = 0, some; c < r->channels; c += some) {
            const st_real *from = r->row + n * windows * r->pitch + c * d->area;
            some = smallest(r->some, r->channels - c);
            begin(some, area, images + c * area, bias ? bias + c : NULL, false);
            if (transposes(d)) {
                kernel_transpose(d->k, windows, some * d->area, from, r->pitch, r->block, windows, NULL);
                add(&r->w, some, r->block, windows, d->area * windows, images + c * area);
            } else add(&r->w, some, from, r->pitch, d->area, images + c * area);
        }
}

/* The rows of a group of images from number `first` on: in place, or copied; and their places. */
static const st_real *rows_at(const rows *r, const implicit_images *from, ptrdiff_t first, ptrdiff_t group,
                              const ptrdiff_t **place)
{
    const implicit_plan *d = r->d;
    const bool in_place = is_whole(d) && from->contiguous;
    *place = in_place ? d->taps.image : d->taps.row;
    if (in_place)
        return from->data + first * from->stride[0] + (group * d->wide + r->first) * from->stride[1];
    take(r, from, first, group);
    return r->row;
}

/* ---- passes ----------------------------------------------------------------------------------------- */

static void gather(const st_call *c, const share *s, st_tensor from, st_tensor to, const st_real *bias)
{
    const implicit_plan *d = c->plan;
    const taps_tables *t = &d->taps;
    const implicit_images wide = implicit_images_of(from);
    const ptrdiff_t windows = windows_of(d), each = d->narrow * windows;
    const st_real *weight = implicit_weights(c->layer);
    st_real *result = st_data(st_scratch(c, RESULT)), *y = st_data(to);
    rows r = rows_of(c);
    for (ptrdiff_t i = 0; i < wide.count; i += r.images)
        for (ptrdiff_t g = s->group; g < s->end; g++) {
            r.images = smallest(t->images, wide.count - i);
            const ptrdiff_t count = r.images * windows, first = g * d->narrow + s->first, *place;
            for (ptrdiff_t k = 0; k < s->made * count; k++) result[k] = bias ? bias[first + k / count] : 0;
            for (ptrdiff_t n = 0; n < parts_of(d, d->wide); n++) {
                choose_part(&r, 0, d->wide, n);
                const st_real *row = rows_at(&r, &wide, i, g, &place);
                const ptrdiff_t at = (t->channels - r.channels) * t->vectors;
                kernel_dot(t->k, s->made, count, ceil_div(r.channels * d->area, t->k->lanes),
                           weight + first * depth_of(d) + r.first * d->area, depth_of(d), t->from + at,
                           t->skip + at, row, place, t->from + at, result, count);
            }
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
    const ptrdiff_t parts = parts_of(d, s->made);
    const st_real *weight = implicit_weights(c->layer);
    rows r = rows_of(c);
    for (ptrdiff_t i = 0; i < from.shape.n[0]; i += r.images) {
        r.images = smallest(t->images, from.shape.n[0] - i);
        const st_real *narrow = implicit_contiguous(st_narrow(from, 0, i, r.images), st_scratch(c, PLANES));
        for (ptrdiff_t n = 0; n < (s->end - s->group) * parts; n++) {
            const ptrdiff_t g = s->group + n / parts;
            choose_part(&r, s->first, s->made, n % parts);
            const ptrdiff_t first = g * d->wide + r.first;
            st_real *images = st_data(to) + i * next + first * area;
            kernel_product(t->k, r.images * windows, r.channels * d->area, d->narrow,
                           narrow + g * d->narrow * windows, t->window, t->channel,
                           weight + g * d->narrow * depth + r.first * d->area, t->weight,
                           whole ? images : r.row, whole ? next : r.pitch, false);
            if (!whole) give(&r, images, next, bias ? bias + first : NULL);
            for (ptrdiff_t m = 0; m < r.images && whole && bias; m++)
                begin(r.channels, area, images + m * next, bias + first, true);
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
    const ptrdiff_t channel = s->tap / d->area, channels = s->taps / d->area, parts = parts_of(d, channels);
    rows r = rows_of(c);
    for (ptrdiff_t i = 0; i < from.count; i += r.images) {
        r.images = smallest(t->images, from.count - i);
        const st_real *dy = implicit_contiguous(st_narrow(narrow, 0, i, r.images), st_scratch(c, PLANES));
        for (ptrdiff_t n = 0; n < (s->end - s->group) * parts; n++) {
            const ptrdiff_t g = s->group + n / parts, first = g * d->narrow + s->first, *place;
            choose_part(&r, channel, channels, n % parts);
            const st_real *row = rows_at(&r, &from, i, g, &place);
            kernel_product(t->k, s->made, r.channels * d->area, r.images * windows, dy + first * windows,
                           t->channel, t->window, row, place, dw + first * depth + r.first * d->area, depth,
                           true);
        }
    }
}
