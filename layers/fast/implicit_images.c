/* implicit_images.c: the passes of an implicit product that make images; lanes are windows.
 *
 *     to[m][window] = Σ_k weight[m * row + weight[k]] planes[tap[k] + window] + bias[m]
 *
 * Vectors of windows are read straight from the planes where most of their lanes are windows. Else a panel
 * of windows, of several images and of some k, is packed from them, which costs as much as products of a
 * few channels. Results that are not where they belong are moved there row by row. Many channels may be the
 * lanes instead: whole vectors of weights are read, and single windows (implicit_channels.c). */
#include "layers/fast/implicit.h"

#include <math.h>
#include <string.h>

enum {
    RESULTS = 1 << 16,                    /* elements of a block of results, so that it stays in cache */
    PANELS = (1 << 18) / sizeof(st_real), /* elements of a panel */
    BAND = (1 << 19) / sizeof(st_real),   /* of a band of planes, so that it stays in cache; */
    LOW = 4,                              /* which has so many rows for each that is laid out again */
    LEAST = 8,                            /* and at least so many; */
    SHARES = 4,                           /* of an image that threads share, so many bands, */
    SHARED = 32,                          /* with so many vectors */
    DEPTH = 384,                          /* the most k of a panel */
    BATCH = 64,                           /* images of a usual batch */
    NEAR = 1 << 13,                       /* the most weights that stay in the first cache */
    WINDOWS = 192, /* and windows, a multiple of every tile: their runs are on the stack */
    MOVE = 4,      /* the cost of moving a vector of results, in products of vectors; */
    APART = 3,     /* of an element, if they are apart; */
    CALL = 25,     /* and of each run of those that are packed; */
    REST = 10,     /* of filling one that no part has; */
    WRITE = 12,    /* of writing one, more where images that are laid out */
    FAR = 1 << 17, /* have so many elements, which do not stay in cache, */
    STRIDED = 50,  /* or if their columns are apart; */
    PACK = 6,      /* of packing one of windows, and more for */
    RUN = 8,       /* each run of them; */
    GROUP = 300,   /* of a group of an image; */
    PIECE = 30,    /* and of laying out a piece of a channel, */
    ROW = 6,       /* each row of it, */
    SPLIT = 10,    /* and a vector of every other element, */
    PICK = 4,      /* of those farther apart, for each vector that is read, */
    LOOSE = 4,     /* or of each element, one by one */
};

/* The cost of reading a weight from the second cache; a scatter reads it for each of several vectors. */
static const double STREAM = 0.5, STREAM_APART = 1.5;

/* ---- plan ------------------------------------------------------------------------------------------- */

bool implicit_by_rows(const kernel *k, ptrdiff_t width)
{
    return width >= k->lanes && 3 * kernel_padded(k, width) <= 4 * width;
}

ptrdiff_t implicit_vectors(const kernel *k, cover how, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t pitch,
                           ptrdiff_t *from, ptrdiff_t *to, ptrdiff_t *skip)
{
    const ptrdiff_t lanes = k->lanes, line = how == BY_ROWS ? width : pitch,
                    all = how == BY_ROWS ? width : (rows - 1) * pitch + width, each = ceil_div(all, lanes),
                    vectors = how == BY_ROWS ? rows * each : each;
    for (ptrdiff_t v = 0; from && v < vectors; v++) {
        const ptrdiff_t at = v % each * lanes, begin = smallest(at, largest(all - lanes, 0));
        from[v] = v / each * pitch + begin;
        to[v] = v / each * line + begin;
        if (skip) skip[v] = at - begin;
    }
    return vectors;
}

/* Tests if the elements of a part follow each other. */
static bool together(const pass *p)
{
    return p->apart[0] == 1 && p->apart[1] == 1;
}

/* The cost of a pass over an image by that cover, in products of vectors. */
static double cost(const implicit_plan *d, const pass *p, const part *q, cover how)
{
    const ptrdiff_t lanes = d->k->lanes, *n = q->of.count;
    if (how == BY_CHANNELS) return implicit_turned_cost(d, p, q);
    /* Loads of vectors that few channels share take longer than their products. */
    const double made = (double)p->made * (p->made == 1 ? 2.5 : p->made == 2 ? 1.5 : p->made == 3 ? 1.2 : 1);
    const ptrdiff_t packed = ceil_div(d->chunk * n[0] * n[1], lanes),
                    all = how == PACKED
                              ? packed
                              : implicit_vectors(d->k, how, n[0], n[1], p->p.pitch, NULL, NULL, NULL);
    /* Weights that do not stay in the first cache are read again for each tile's vectors. */
    const double stream = is_gather(d, p) || (together(p) && n[0] * n[1] <= lanes) ? STREAM : STREAM_APART,
                 read = p->made * q->depth > NEAR ? stream / (double)smallest(all, d->k->wide) : 0,
                 depth = (double)q->depth * (1 + read);
    const bool pairs = p->apart[1] == 2 && phase_count(&d->w, 1) == 2 && how != PACKED; /* make_pair */
    /* A run of windows, of those that follow each other in the planes. */
    const bool follow =
        p->p.pitch == n[1] && (how == PACKED ? together(p) : p->apart[0] * p->size[1] == p->apart[1] * n[1]);
    const double runs = (double)(follow ? 1 : n[0]), length = (double)(n[0] * n[1]) / runs,
                 run = together(p) ? MOVE * ceil(length / (double)lanes)
                       : pairs     ? SPLIT * ceil(length / (double)lanes)
                                   : APART * length,
                 moved = q->straight ? 0 : (double)p->made * runs * (run + (how == PACKED ? CALL : ROW));
    if (how == PACKED) {
        const double vectors = (double)packed / (double)d->chunk;
        return depth * (vectors * (made + PACK) + runs * RUN) + moved;
    }
    return (double)all * made * depth + moved;
}

/* The best cover. */
static double choose_cover(const implicit_plan *d, const pass *p, part *q)
{
    const ptrdiff_t lanes = d->k->lanes, *n = q->of.count;
    const bool all = p->p.pitch == n[1];
    double least = -1;
    for (cover how = BY_ROWS; how <= BY_CHANNELS; how++) {
        part tried = *q;
        tried.how = how;
        tried.straight = together(p) && (how == BY_ROWS || (how == FLAT && all && n[0] * n[1] >= lanes));
        if (how == BY_CHANNELS ? !together(p) : how == BY_ROWS && n[1] < lanes) continue;
        const double time = cost(d, p, &tried, how);
        if (least >= 0 && time >= least) continue;
        least = time;
        *q = tried;
    }
    return least;
}

/* Rows that a block of results has. */
static void plan_block(const implicit_plan *d, pass *p, part *q, arena *a)
{
    const ptrdiff_t lanes = d->k->lanes, *n = q->of.count, high = smallest(n[0], p->band);
    q->line = q->how == FLAT ? p->p.pitch : n[1];
    q->rows = high;
    if (q->how == BY_CHANNELS) {
        implicit_plan_turned(d, p, q, a);
        return;
    }
    if (q->how == PACKED) {
        q->split = ceil_div(q->depth, ceil_div(q->depth, DEPTH));
        const ptrdiff_t tile = d->k->high * lanes, images = largest(1, ceil_div(WINDOWS, n[0] * n[1]));
        p->images = largest(p->images, smallest(d->chunk, images));
        q->columns = largest(tile, PANELS / q->split / tile * tile);
        q->columns = smallest(smallest(q->columns, WINDOWS), kernel_padded(d->k, d->chunk * n[0] * n[1]));
        p->panel = largest(p->panel, q->split * q->columns + lanes);
        p->each = largest(p->each, p->made * q->columns);
        q->vectors = q->columns / lanes;
        q->from = arena_take(a, q->vectors);
        q->to = arena_take(a, q->split);
        if (a->at) iota(q->from, q->vectors, lanes), iota(q->to, q->split, q->columns);
        return;
    }
    if (!q->straight) {
        const ptrdiff_t least = ceil_div(lanes, q->line),
                        most = largest(least, RESULTS / (p->made * q->line));
        q->rows = smallest(high, largest(least, ceil_div(high, ceil_div(high, most))));
        p->each = largest(p->each, p->made * largest(lanes, q->rows * q->line));
        /* A vector of more windows than there are reads beyond an image. */
        if (q->rows * q->line - q->line + n[1] < lanes) p->p.in_place = false;
    }
    q->vectors = implicit_vectors(d->k, q->how, q->rows, n[1], p->p.pitch, NULL, NULL, NULL);
    q->from = arena_take(a, q->vectors);
    q->to = arena_take(a, q->vectors);
    implicit_vectors(d->k, q->how, q->rows, n[1], p->p.pitch, q->from, q->to, NULL);
}

/* ---- parts ------------------------------------------------------------------------------------------ */

/* A gather makes an image as a whole, a scatter phase by phase. */
static part part_of(const implicit_plan *d, const pass *p, ptrdiff_t number)
{
    const window *w = &d->w;
    if (is_gather(d, p))
        return (part){ .of = { { 0, 0 }, { w->out[0], w->out[1] } }, .depth = d->wide * d->area };
    const ptrdiff_t across = phase_count(w, 1);
    const phase f = phase_of(w, 0, number / across), g = phase_of(w, 1, number % across);
    return (part){ .of = { { f.first, g.first }, { f.count, g.count } },
                   .depth = d->narrow * f.taps * g.taps };
}

void implicit_fill_taps(const window *w, const planes *p, ptrdiff_t channels, ptrdiff_t *tap)
{
    for (ptrdiff_t c = 0; c < channels; c++)
        for (ptrdiff_t kh = 0; kh < w->kernel[0]; kh++)
            for (ptrdiff_t kw = 0; kw < w->kernel[1]; kw++) {
                const ptrdiff_t a = kh % phase_count(w, 0), b = kw % phase_count(w, 1),
                                i = kh * w->dilation[0] / w->stride[0],
                                j = kw * w->dilation[1] / w->stride[1];
                *tap++ = c * p->channel + planes_phase(p, w, a, b) + i * p->pitch + j;
            }
}

static void fill_scatter(const implicit_plan *d, const pass *p, part *q, ptrdiff_t number)
{
    const window *w = &d->w;
    const ptrdiff_t across = phase_count(w, 1), pitch = p->p.pitch;
    const phase f = phase_of(w, 0, number / across), g = phase_of(w, 1, number % across);
    const ptrdiff_t origin = planes_origin(&p->p, w, f, g);
    for (ptrdiff_t o = 0, k = 0; o < d->narrow; o++)
        for (ptrdiff_t i = 0; i < f.taps; i++)
            for (ptrdiff_t j = 0; j < g.taps; j++, k++) {
                q->tap[k] = o * p->p.channel + origin - (f.near + i * f.step) * pitch - (g.near + j * g.step);
                q->weight[k] =
                    o * d->wide * d->area + (f.tap + i * f.every) * w->kernel[1] + g.tap + j * g.every;
            }
}

double implicit_row_cost(const kernel *k, ptrdiff_t columns, ptrdiff_t apart)
{
    const double vectors = (double)ceil_div(columns, k->lanes);
    if (apart <= 2) return vectors * (apart == 1 ? MOVE : SPLIT);
    const double loose = (double)columns * LOOSE;
    return k->pick && apart <= k->lanes ? fmin(loose, vectors * PICK * (double)apart) : loose;
}

double implicit_layout_cost(const implicit_plan *d, const pass *p)
{
    const window *w = &d->w;
    const bool wide = p != &d->scatter;
    const ptrdiff_t apart = p->p.apart[1], across = apart > 1 ? phase_count(w, 1) : 1,
                    pieces = p->p.apart[0] > 1 ? phase_count(w, 0) * across : across,
                    height = wide ? w->size[0] : w->out[0], width = wide ? w->size[1] : w->out[1];
    const double row = ROW + implicit_row_cost(d->k, ceil_div(width, apart), apart);
    return p->p.in_place ? 0 : (double)p->read * ((double)pieces * PIECE + (double)(height * across) * row);
}

/* The cost of an image with windows as lanes. */
static double windows_cost(const implicit_plan *d, const pass *p, ptrdiff_t parts)
{
    const double vectors = (double)p->made * (double)p->size[0] * (double)p->size[1] / d->k->lanes;
    const bool far = is_gather(d, p) && !p->p.in_place && p->read * d->w.size[0] * d->w.size[1] > FAR;
    const double written = !far ? 0 : p->p.apart[1] > 1 ? STRIDED : WRITE;
    double windows = GROUP + implicit_layout_cost(d, p) + vectors * ((p->whole ? 0 : REST) + written);
    for (ptrdiff_t n = 0; n < parts; n++) {
        part q = part_of(d, p, n);
        if (q.of.count[0] == 0 || q.of.count[1] == 0) continue;
        windows += choose_cover(d, p, &q);
    }
    return windows;
}

/* The windows of all parts, times their k. */
static double products_of(const implicit_plan *d, const pass *p, ptrdiff_t parts)
{
    double products = 0;
    for (ptrdiff_t n = 0; n < parts; n++) {
        const part q = part_of(d, p, n);
        products += (double)(q.of.count[0] * q.of.count[1]) * (double)q.depth;
    }
    return products;
}

/* Chooses the lanes of a pass. All but slides and taps add the same products in the same order, to the same
 * bits; those two are chosen for a usual batch, unless the planned one is an image, so that results do not
 * depend on it. */
static void choose_lanes(implicit_plan *d, pass *p, ptrdiff_t parts)
{
    const ptrdiff_t chunk = d->chunk, batch = d->batch;
    const double groups = implicit_groups_cost(d, p, products_of(d, p, parts)),
                 taps = implicit_taps_cost(d, p);
    d->chunk = d->usual, d->batch = d->usual == 1 ? 1 : BATCH;
    const double sliding = implicit_slides_cost(d, p, parts),
                 others = fmin(fmin(windows_cost(d, p, parts), groups), implicit_channels_cost(d, p));
    p->slides = sliding < fmin(others, taps);
    p->by_taps = taps < fmin(others, sliding);
    d->chunk = chunk, d->batch = batch;
    const bool fixed = p->slides || p->by_taps;
    const double windows = windows_cost(d, p, parts), channels = implicit_channels_cost(d, p);
    p->groups = !fixed && groups <= fmin(windows, channels);
    p->channels = !fixed && !p->groups && channels < windows;
}

/* Images whose planes do not stay in cache are laid out and made by bands of rows, of more than half of the
 * rows that do; and one that threads share. */
static void plan_band(const implicit_plan *d, pass *p, ptrdiff_t parts)
{
    ptrdiff_t low = p->size[0];
    const bool windows = !p->groups && !p->by_taps && !p->channels && !p->slides;
    bool packed = !windows && !is_gather(d, p);
    for (ptrdiff_t n = 0; n < parts; n++) {
        part q = part_of(d, p, n);
        if (q.of.count[0] == 0 || q.of.count[1] == 0) continue;
        if (windows && !packed) choose_cover(d, p, &q), packed = q.how == PACKED;
        p->height = largest(p->height, q.of.count[0]), low = smallest(low, q.of.count[0]);
    }
    p->band = p->height, p->before = 0;
    const ptrdiff_t width = p->size[1] / p->apart[1], least = largest(LEAST, LOW * (p->p.reach + 1)),
                    quarter = ceil_div(p->height, SHARES);
    ptrdiff_t band = BAND / (p->read * p->p.channel / p->p.rows);
    if (d->usual == 1 && quarter >= least && quarter * width >= SHARED * d->k->lanes)
        band = band < least ? quarter : smallest(band, quarter);
    if (packed || (p->p.in_place && is_gather(d, p)) || band >= p->height || band < least ||
        (band / 2 - 1) * width < d->k->lanes)
        return;
    p->band = ceil_div(p->height, ceil_div(p->height, band));
    if (p->p.in_place) return;
    p->before = p->height - low;
    planes_make_band(&p->p, p->band + p->before);
}

/* Plans all parts that have elements. */
static void plan_parts(implicit_plan *d, pass *p, ptrdiff_t parts, arena *a)
{
    p->part = (part *)arena_take(a, parts * (ptrdiff_t)(sizeof *p->part / sizeof(ptrdiff_t)));
    choose_lanes(d, p, parts);
    if (p->channels) implicit_plan_channels(d, p, a);
    if (p->groups) implicit_plan_groups(d, p, a);
    plan_band(d, p, parts);
    if (p->channels && p == &d->scatter) return; /* the gradient uses the tables of the gather */
    for (ptrdiff_t n = 0; n < parts; n++) {
        part q = part_of(d, p, n);
        if (q.of.count[0] == 0 || q.of.count[1] == 0) continue;
        q.tap = arena_take(a, q.depth);
        q.weight = arena_take(a, q.depth);
        if (a->at && is_gather(d, p))
            implicit_fill_taps(&d->w, &p->p, d->wide, q.tap), iota(q.weight, q.depth, 1);
        else if (a->at) fill_scatter(d, p, &q, n);
        if (p->groups) implicit_number_groups(d, p, &q, a);
        else if (p->slides) implicit_plan_slide(d, p, &q, n, a);
        else if (!p->channels && !p->by_taps) choose_cover(d, p, &q), plan_block(d, p, &q, a);
        if (p->part) p->part[p->parts] = q;
        p->parts++;
    }
    if (p->channels || p->groups || p->by_taps || p->slides) return;
    p->plane = p->images * planes_size(&p->p, p->read);
    p->result = p->apart[1] == 2 ? 2 * p->each : p->each; /* for two phases */
}

void implicit_plan_gather(implicit_plan *d, arena *a)
{
    const window *w = &d->w;
    const ptrdiff_t phases = phase_count(w, 0) * phase_count(w, 1);
    planes_piece *piece =
        (planes_piece *)arena_take(a, phases * (ptrdiff_t)(sizeof *piece / sizeof(ptrdiff_t)));
    d->gather = (pass){ .p = planes_of_windows(d->k, w, piece),
                        .read = d->wide,
                        .made = d->narrow,
                        .row = d->wide * d->area,
                        .size = { w->out[0], w->out[1] },
                        .apart = { 1, 1 },
                        .whole = true,
                        .images = 1 };
    plan_parts(d, &d->gather, 1, a);
}

void implicit_plan_scatter(implicit_plan *d, arena *a)
{
    const window *w = &d->w;
    const ptrdiff_t down = phase_count(w, 0), across = phase_count(w, 1);
    planes_piece *piece = (planes_piece *)arena_take(a, (ptrdiff_t)(sizeof *piece / sizeof(ptrdiff_t)));
    d->scatter = (pass){ .p = planes_of_results(d->k, w, piece),
                         .read = d->narrow,
                         .made = d->wide,
                         .row = d->area,
                         .size = { w->size[0], w->size[1] },
                         .apart = { w->stride[0], w->stride[1] },
                         .whole = down == w->stride[0] && across == w->stride[1],
                         .images = 1 };
    plan_parts(d, &d->scatter, down * across, a);
}

/* ---- a block of results ------------------------------------------------------------------------------- */

/* Windows of an image that follow each other both in the planes and in the results. */
typedef struct run {
    ptrdiff_t from, at, length; /* in the planes, in the results */
    ptrdiff_t image, row, column;
} run;

/* Data that the groups of some images share. */
typedef struct job {
    const st_call *c;
    const implicit_plan *d;
    const pass *p;
    implicit_source from;
    const st_real *weight; /* of the group */
    ptrdiff_t images;      /* laid out together */
    ptrdiff_t row, laid;   /* where a band begins in parts, and that in the planes */
    ptrdiff_t made;        /* channels */
    st_real *to;           /* those of the first image */
    ptrdiff_t next;        /* from there to those of the next one */
    const st_real *bias;   /* of the group */
    ptrdiff_t group;
    const share *s;
} job;

/* Moves the results of runs that follow each other in an image, of all channels, to where they belong. */
static void place(const job *j, const part *q, run r, ptrdiff_t rows, const st_real *result, ptrdiff_t pitch)
{
    const pass *p = j->p;
    const ptrdiff_t area = p->size[0] * p->size[1], count[2] = { rows, r.length };
    st_real *to = j->to + r.image * j->next + (q->of.first[0] + r.row * p->apart[0]) * p->size[1] +
                  q->of.first[1] + r.column * p->apart[1];
    result += r.at;
    for (ptrdiff_t m = 0; m < j->made; m++, to += area, result += pitch)
        planes_move(j->d->k, count, result, q->line, 1, to, p->apart[0] * p->size[1], p->apart[1]);
}

static void product(const job *j, const part *q, ptrdiff_t vectors, ptrdiff_t k, ptrdiff_t depth,
                    const st_real *b, const ptrdiff_t *offset, const ptrdiff_t *from, const ptrdiff_t *to,
                    st_real *result, ptrdiff_t pitch)
{
    const bool ahead = j->p->p.in_place && j->d->area == 1; /* each k is another channel, read once */
    kernel_spread(j->d->k, j->made, vectors, depth, j->weight, j->p->row, q->weight + k, b, offset, from,
                  result, pitch, to, j->bias, k > 0, ahead && q->how != PACKED);
}

/* Rows of an image from `first` on, as many as a block has, of all channels, `pitch` apart. */
static void compute(const job *j, const part *q, ptrdiff_t image, ptrdiff_t first, st_real *result,
                    ptrdiff_t pitch)
{
    const pass *p = j->p;
    const st_real *plane = j->from.plane + image * j->from.apart + (first - j->laid) * p->p.pitch;
    product(j, q, q->vectors, 0, q->depth, plane, q->tap, q->from, q->to, result, pitch);
}

/* The rows of a part that a band has: the last one overlaps the previous one. */
static ptrdiff_t rows_of(const job *j, const part *q, ptrdiff_t *end)
{
    const ptrdiff_t high = smallest(q->of.count[0], j->p->band),
                    first = smallest(j->row, q->of.count[0] - high);
    *end = first + high;
    return first;
}

/* Blocks of rows of an image. */
static void make_rows(const job *j, const part *q, ptrdiff_t image)
{
    const pass *p = j->p;
    const ptrdiff_t pitch = p->each / p->made;
    ptrdiff_t end, first = rows_of(j, q, &end);
    st_real *result = st_data(st_scratch(j->c, RESULT));
    if (q->straight) {
        compute(j, q, image, first, j->to + image * j->next + first * p->size[1], p->size[0] * p->size[1]);
        return;
    }
    for (; first < end; first += q->rows) {
        first = smallest(first, end - q->rows); /* the last block overlaps the previous one */
        compute(j, q, image, first, result, pitch);
        place(j, q, (run){ .length = q->of.count[1], .image = image, .row = first }, q->rows, result, pitch);
    }
}

/* The same of windows with channels as lanes. */
static void make_turned(const job *j, const part *q, ptrdiff_t image)
{
    const pass *p = j->p;
    const ptrdiff_t width = p->size[1], area = p->size[0] * width;
    ptrdiff_t end, first = rows_of(j, q, &end);
    for (ptrdiff_t rows; first < end; first += rows) {
        rows = smallest(q->rows, end - first);
        implicit_make_turned(j->c, p, q, j->group, j->s, rows * width,
                             j->from.plane + image * j->from.apart + (first - j->laid) * p->p.pitch,
                             j->to + image * j->next + first * width, area, j->bias);
    }
}

/* Tests if a part and the next one are the even and the odd columns of the same rows, by the same blocks. */
static bool is_pair(const pass *p, const part *q)
{
    return p->apart[1] == 2 && q + 1 < p->part + p->parts && q[0].how != PACKED && q[1].how != PACKED &&
           q[0].of.first[0] == q[1].of.first[0] && q[0].rows == q[1].rows;
}

/* Both parts of a pair, whose columns take turns. */
static void make_pair(const job *j, const part *q, ptrdiff_t image)
{
    const pass *p = j->p;
    const ptrdiff_t pitch = p->each / p->made, width = p->size[1], down = p->apart[0] * width;
    const part *even = q[0].of.first[1] == 0 ? q : q + 1, *odd = even == q ? q + 1 : q;
    ptrdiff_t end, first = rows_of(j, q, &end);
    st_real *u = st_data(st_scratch(j->c, RESULT)), *v = u + p->each;
    for (; first < end; first += q->rows) {
        first = smallest(first, end - q->rows);
        compute(j, even, image, first, u, pitch);
        compute(j, odd, image, first, v, pitch);
        st_real *to = j->to + image * j->next + (q->of.first[0] + first * p->apart[0]) * width;
        for (ptrdiff_t m = 0; m < j->made; m++, to += p->size[0] * width) {
            j->d->k->weave(q->rows, width / 2, u + m * pitch, even->line, v + m * pitch, odd->line, to, down);
            for (ptrdiff_t r = 0; r < q->rows && width % 2; r++)
                to[r * down + width - 1] = u[m * pitch + r * even->line + width / 2];
        }
    }
}

/* The runs of a panel, which are on the stack. */
typedef struct runs {
    ptrdiff_t from[WINDOWS], length[WINDOWS];
    int at[WINDOWS], image[WINDOWS], row[WINDOWS], column[WINDOWS];
} runs;

static run run_at(const runs *r, ptrdiff_t i)
{
    return (run){ r->from[i], r->at[i], r->length[i], r->image[i], r->row[i], r->column[i] };
}

/* The runs of `columns` windows from number `first` on, counted over all images. */
static ptrdiff_t runs_of(const job *j, const part *q, ptrdiff_t first, ptrdiff_t columns, runs *r)
{
    const pass *p = j->p;
    const ptrdiff_t *n = q->of.count;
    const bool whole = p->p.pitch == n[1] && together(p) && p->size[1] == n[1];
    const ptrdiff_t length = whole ? n[0] * n[1] : n[1], each = n[0] * n[1] / length;
    ptrdiff_t count = 0, line = first / length, column = first % length;
    for (ptrdiff_t at = 0; at < columns; line++, column = 0) {
        const ptrdiff_t image = line / each, row = line % each;
        r->at[count] = (int)at, r->image[count] = (int)image;
        r->row[count] = (int)row, r->column[count] = (int)column;
        r->from[count] = image * j->from.apart + row * p->p.pitch + column;
        r->length[count] = smallest(length - column, columns - at);
        at += r->length[count++];
    }
    return count;
}

/* Blocks of windows of all images, packed into panels. */
static void make_packed(const job *j, const part *q)
{
    const kernel *k = j->d->k;
    const ptrdiff_t all = j->images * q->of.count[0] * q->of.count[1];
    st_real *result = st_data(st_scratch(j->c, RESULT)), *panel = st_data(st_scratch(j->c, PANEL));
    runs r;
    for (ptrdiff_t first = 0, columns; first < all; first += columns) {
        columns = smallest(q->columns, all - first);
        const ptrdiff_t count = runs_of(j, q, first, columns, &r);
        for (ptrdiff_t at = 0, depth; at < q->depth; at += depth) {
            depth = smallest(q->split, q->depth - at);
            k->pack(depth, j->from.plane, q->tap + at, j->from.end, count, r.from, r.length, panel,
                    q->columns);
            product(j, q, ceil_div(columns, k->lanes), at, depth, panel, q->to, q->from, q->from, result,
                    q->columns);
        }
        for (ptrdiff_t i = 0; i < count; i++) place(j, q, run_at(&r, i), 1, result, q->columns);
    }
}

/* ---- images ------------------------------------------------------------------------------------------- */

/* Tests if parts have all elements of rows of that phase. */
static bool are_made(const pass *p, ptrdiff_t row)
{
    ptrdiff_t columns = 0;
    for (const part *q = p->part; q < p->part + p->parts; q++) columns += q->of.first[0] == row;
    return columns >= smallest(p->apart[1], p->size[1]);
}

void implicit_fill_rest(const pass *p, st_real *to, st_real value)
{
    const ptrdiff_t down = p->apart[0], area = p->size[0] * p->size[1];
    ptrdiff_t made = 0;
    for (ptrdiff_t row = 0; row < down; row++) made += are_made(p, row);
    const ptrdiff_t width = made > 0 ? p->size[1] : area, every = made > 0 ? down : 1;
    for (ptrdiff_t row = 0; row < every; row++) {
        if (are_made(p, row)) continue;
        for (ptrdiff_t at = row * width; at < area; at += every * width) {
            if (value == 0 && !signbit(value)) memset(to + at, 0, (size_t)width * sizeof *to);
            else
                for (ptrdiff_t c = 0; c < width; c++) to[at + c] = value;
        }
    }
}

void implicit_begin(const st_call *c, const pass *p, ptrdiff_t images, ptrdiff_t channel, ptrdiff_t channels)
{
    const st_tensor room = st_scratch(c, PLANES);
    const ptrdiff_t each = planes_size(&p->p, p->read), first = channel * p->p.channel;
    for (ptrdiff_t i = 0; i < images; i++)
        st_fill(st_narrow(room, 0, i * each + first, planes_size(&p->p, channels)), 0);
}

implicit_images implicit_images_of(st_tensor images)
{
    implicit_images v = { st_data(images), images.shape.n[0], .contiguous = st_is_contiguous(images) };
    for (int axis = 0; axis < 4; axis++) v.stride[axis] = images.stride[axis];
    return v;
}

implicit_source implicit_lay_out(const implicit_plan *d, const pass *p, const implicit_images *from,
                                 const implicit_block *b, bool in_place, st_real *room)
{
    const st_real *group = from->data + b->first * from->stride[0] + b->group * p->read * from->stride[1];
    if (in_place && p->p.in_place && from->contiguous)
        return (implicit_source){ group, from->data + from->count * from->stride[0], from->stride[0] };
    const implicit_source s = { room, room + p->plane, planes_size(&p->p, p->read) };
    for (ptrdiff_t i = 0; i < b->images; i++)
        planes_lay_out(&p->p, d->k, b->channels, group + i * from->stride[0] + b->channel * from->stride[1],
                       from->stride + 1, b->row, room + i * s.apart + b->channel * p->p.channel);
    return s;
}

/* Makes the part at q, or a pair; returns the number of parts. */
static ptrdiff_t make_parts(const job *j, const part *q)
{
    if (q->how == PACKED) {
        make_packed(j, q);
        return 1;
    }
    const bool pair = is_pair(j->p, q);
    for (ptrdiff_t image = 0; image < j->images; image++)
        (q->how == BY_CHANNELS ? make_turned : pair ? make_pair : make_rows)(j, q, image);
    return pair ? 2 : 1;
}

const st_real *implicit_contiguous(st_tensor images, st_tensor room)
{
    if (st_is_contiguous(images)) return st_data(images);
    room = st_reshape(room, ST_SHAPE(st_numel(room)));
    room = st_reshape(st_narrow(room, 0, 0, st_numel(images)), images.shape);
    st_copy(room, images);
    return st_data(room);
}

static void make_by_channels(const st_call *c, const pass *p, const share *s, st_tensor from, st_tensor to,
                             const st_real *bias)
{
    const implicit_plan *d = c->plan;
    const ptrdiff_t all = from.shape.n[0], next = d->groups * p->made * p->size[0] * p->size[1],
                    each = st_numel(from) / all / d->groups;
    const st_tensor room = st_scratch(c, PLANES);
    for (ptrdiff_t i = 0; i < all; i += p->images) {
        const ptrdiff_t images = smallest(p->images, all - i);
        const st_real *image = implicit_contiguous(st_narrow(from, 0, i, images), room);
        for (ptrdiff_t g = s->group; g < s->end; g++)
            implicit_make_channels(c, p, g, s, image + g * each, images,
                                   st_data(to) + i * next + g * (next / d->groups), next,
                                   bias ? bias + g * p->made : NULL);
    }
}

void implicit_make(const st_call *c, const pass *p, const share *s, st_tensor from, st_tensor to,
                   const st_real *bias)
{
    if (p->channels || p->groups || p->by_taps || p->slides) {
        (p->groups    ? implicit_make_groups
         : p->slides  ? implicit_make_slides
         : p->by_taps ? implicit_make_taps
                      : make_by_channels)(c, p, s, from, to, bias);
        return;
    }
    const implicit_plan *d = c->plan;
    const implicit_images images = implicit_images_of(from);
    const ptrdiff_t area = p->size[0] * p->size[1], weights = d->narrow * d->wide * d->area,
                    end = s->row + s->rows;
    const st_real *weight = implicit_weights(c->layer);
    st_real *room = st_data(st_scratch(c, PLANES));
    if (!(p->p.in_place && images.contiguous)) implicit_begin(c, p, p->images, 0, p->read);
    job j = { .c = c, .d = d, .p = p, .made = s->made, .next = d->groups * p->made * area, .s = s };
    for (ptrdiff_t i = 0; i < images.count; i += p->images)
        for (ptrdiff_t g = s->group; g < s->end; g++) {
            const ptrdiff_t channel = g * p->made + s->first;
            j.images = smallest(p->images, images.count - i);
            j.group = g;
            j.weight = weight + g * weights + s->first * p->row;
            j.to = st_data(to) + i * j.next + channel * area;
            j.bias = bias ? bias + channel : NULL;
            for (ptrdiff_t k = 0; k < j.images * j.made && !p->whole; k++)
                implicit_fill_rest(p, j.to + k / j.made * j.next + k % j.made * area,
                                   j.bias ? j.bias[k % j.made] : 0);
            for (j.row = s->row; j.row < end; j.row += p->band) {
                j.row = smallest(j.row, end - p->band);
                j.laid = p->p.band ? j.row - p->before : 0;
                if (p->p.band || j.row == s->row)
                    j.from = implicit_lay_out(
                        d, p, &images, &(implicit_block){ i, j.images, g, 0, p->read, j.laid }, true, room);
                for (ptrdiff_t n = 0; n < p->parts;) n += make_parts(&j, &p->part[n]);
            }
        }
}
