/* implicit_channels.c: the passes of an implicit product that make images, with channels as lanes.
 *
 *     result[window][m] = Σ_k image[step[k] + window] weight[k][m]
 *
 * Weights, which are packed once for a batch, are read as whole vectors, and elements of an image wherever
 * they are; but results have to be transposed, which costs as much as a few more k.
 *
 * Images are read in place: windows that the border cuts have products with the taps that are left to them,
 * and rows of a product are the same windows of several images. */
#include "layers/fast/implicit.h"

#include <math.h>

/* The cost of a product, in those of windows as lanes: tiles are not always full; and of one with a single
 * vector of channels, which loads an element for each product. */
static const double PRODUCT = 1.05, SINGLE = 1.4;

enum {
    CHANNELS = 64,                 /* the most channels of a panel of weights */
    RESULTS = 1 << 16,             /* elements of a block of results, so that it stays in cache */
    SUMS = 12,                     /* of a tile that does not wait */
    LINE = 64 / sizeof(ptrdiff_t), /* of cache, where packed weights begin */
    FEW = 8,                       /* windows are fewer than those of as many images */
    WINDOWS = 48,                  /* of a product, at least, where there are so many images */
    TABLES = 1 << 20,              /* the most entries of tables */
    WAIT = 72,          /* the cost of waiting for the elements that the windows of a tile have in a row, */
    APART = 1 << 17,    /* which lie apart, of an image of so many elements, which is not in cache; */
    TRANSPOSE = 16,     /* the cost of transposing a vector of results, in products of vectors, */
    TRANSPOSE_LOW = 32, /* with fewer elements of an image than lanes; */
    ROWS = 16,          /* of packing a vector of weights, */
    FAR = 60,           /* and more if they are */
    CACHED = 1 << 18,   /* more than so many, which do not stay in cache */
};

/* ---- plan ------------------------------------------------------------------------------------------- */

/* The weights of so many channels are a panel [k, channels]; the last one has some that are not used. Panels
 * have about as many vectors as each other, as a single one takes longer. */
static ptrdiff_t panel_of(const implicit_plan *d, const pass *p)
{
    return kernel_padded(d->k, ceil_div(p->made, ceil_div(p->made, CHANNELS)));
}

/* The cost of a product of so many vectors of channels, for each. */
static double product_cost(double vectors)
{
    return vectors > 1 ? PRODUCT : SINGLE;
}

/* Leaves the taps whose elements are in the image. Backward, elements are counted from its other end. */
static span within(span s, ptrdiff_t size)
{
    const bool up = s.step > 0;
    const ptrdiff_t step = up ? s.step : -s.step, from = up ? s.from : size - 1 - s.from,
                    before = from < 0 ? ceil_div(-from, step) : 0,
                    end = from < size ? (size - 1 - from) / step + 1 : 0;
    s.from += before * s.step, s.tap += before * s.every;
    s.taps = largest(0, smallest(s.taps, end) - before);
    return s;
}

span implicit_span(const implicit_plan *d, const pass *p, int axis, ptrdiff_t number)
{
    const window *w = &d->w;
    if (is_gather(d, p))
        return (span){ .count = w->out[axis],
                       .from = -w->before[axis],
                       .taps = w->kernel[axis],
                       .every = 1,
                       .step = w->dilation[axis] };
    const phase f = phase_of(w, axis, number);
    return (span){ .first = f.first,
                   .count = f.count,
                   .from = f.lead - f.near,
                   .tap = f.tap,
                   .taps = f.taps,
                   .every = f.every,
                   .step = -f.step };
}

/* The spans of an axis: their number, the sum of their taps, the elements that they have, and all taps of
 * those. */
typedef struct extent {
    ptrdiff_t spans, taps, elements, products;
} extent;

/* Neighbours that have the same taps are a span; to NULL: their number alone. */
static extent spans_of(const implicit_plan *d, const pass *p, int axis, span *to)
{
    const ptrdiff_t phases = is_gather(d, p) ? 1 : phase_count(&d->w, axis);
    extent e = { 0 };
    for (ptrdiff_t number = 0; number < phases; number++) {
        const span all = implicit_span(d, p, axis, number);
        span last = { 0 };
        for (ptrdiff_t i = 0; i < all.count; i++) {
            span s = all;
            s.first += i * p->apart[axis], s.count = 1, s.from += i * read_stride(d, p, axis);
            s = within(s, read_size(d, p, axis));
            const bool begins = s.taps > 0 && (s.taps != last.taps || s.tap != last.tap);
            e.elements += s.taps > 0, e.products += s.taps;
            if (begins) e.spans++, e.taps += s.taps;
            if (to && begins) to[e.spans - 1] = s;
            else if (to && s.taps > 0) to[e.spans - 1].count++;
            last = s;
        }
    }
    return e;
}

/* Tests if all rows of a span of rows are one after another in the results. */
static bool merges(const pass *p, const extent rows, extent columns)
{
    const bool whole = rows.elements == p->size[0] && columns.elements == p->size[1];
    return whole && p->apart[0] * p->apart[1] == 1 && columns.spans == 1;
}

/* The images that are made together: a product has the windows of some rows, where all have the same taps, of
 * a row, or of several images where a row has few of those. */
static ptrdiff_t images_of(const implicit_plan *d, const pass *p, extent rows, extent columns)
{
    const ptrdiff_t width = p->size[1], count = ceil_div(width, p->apart[1]),
                    windows = merges(p, rows, columns) ? width * p->size[0] / rows.spans : width,
                    most = largest(1, RESULTS / 2 / (width * panel_of(d, p)));
    ptrdiff_t images = WINDOWS;
    if (columns.spans > phase_count(&d->w, 1)) images = smallest(most, ceil_div(2 * WINDOWS, width));
    else if (p->apart[1] == 1) images = ceil_div(WINDOWS, windows);
    else if (count >= FEW) images = 1;
    images = smallest(d->chunk, images);
    return ceil_div(d->chunk, ceil_div(d->chunk, images));
}

/* The cost of packing weights and of transposing results, for an image. */
static double moving_cost(const implicit_plan *d, const pass *p)
{
    const double vectors = (double)(kernel_padded(d->k, p->made) / d->k->lanes),
                 area = (double)p->size[0] * (double)p->size[1], depth = (double)(p->read * d->area);
    const bool far = (double)(d->groups * p->made) * depth > CACHED;
    const double moved = area < d->k->lanes ? TRANSPOSE_LOW : TRANSPOSE, packed = ROWS + (far ? FAR : 0);
    return vectors * (area * moved + depth * packed / (double)d->batch);
}

double implicit_turned_cost(const implicit_plan *d, const pass *p, const part *q)
{
    const double vectors = (double)(kernel_padded(d->k, p->made) / d->k->lanes),
                 windows = (double)(q->of.count[0] * q->of.count[1]);
    return (double)q->depth * windows * vectors * product_cost(vectors) + moving_cost(d, p);
}

/* Each element of an image is multiplied with its taps alone. Tiles of few sums, at the border, wait. */
double implicit_channels_cost(const implicit_plan *d, const pass *p)
{
    const extent rows = spans_of(d, p, 0, NULL), columns = spans_of(d, p, 1, NULL);
    if (rows.spans == 0 || columns.spans == 0) return 0;
    const double read = (double)p->read, vectors = (double)(kernel_padded(d->k, p->made) / d->k->lanes),
                 panels = (double)ceil_div(p->made, panel_of(d, p)),
                 images = (double)images_of(d, p, rows, columns),
                 waits = fmax(0, SUMS - images * vectors / panels) / images * panels;
    const double image = read * (double)read_size(d, p, 0) * (double)read_size(d, p, 1),
                 tile = d->k->tall[smallest(panel_of(d, p) / d->k->lanes, d->k->wide) - 1],
                 waited = read_stride(d, p, 1) > 1 && image > APART
                              ? WAIT * (double)rows.products * read * (double)columns.elements / tile
                              : 0;
    const ptrdiff_t border = columns.spans - (is_gather(d, p) ? 1 : phase_count(&d->w, 1));
    if ((double)rows.taps * (double)columns.taps * read > TABLES) return HUGE_VAL;
    return (double)rows.products * read *
               (vectors * (double)columns.products * product_cost(vectors) +
                (double)border * (double)columns.taps / (double)columns.spans * waits) +
           waited + moving_cost(d, p);
}

/* Offsets of what each k reads and of its weights, for the windows of two spans. */
static void fill_tables(const implicit_plan *d, const pass *p, span rows, span columns, ptrdiff_t *step,
                        ptrdiff_t *number)
{
    const ptrdiff_t width = read_size(d, p, 1), area = read_size(d, p, 0) * width, panel = panel_of(d, p);
    for (ptrdiff_t c = 0; c < p->read; c++)
        for (ptrdiff_t i = 0; i < rows.taps; i++)
            for (ptrdiff_t j = 0; j < columns.taps; j++) {
                const ptrdiff_t tap =
                    (rows.tap + i * rows.every) * d->w.kernel[1] + columns.tap + j * columns.every;
                *step++ = c * area + i * rows.step * width + j * columns.step;
                *number++ = (c * d->area + tap) * panel;
            }
}

static void plan_spans(const implicit_plan *d, pass *p, arena *a)
{
    const extent e[2] = { spans_of(d, p, 0, NULL), spans_of(d, p, 1, NULL) };
    const ptrdiff_t depth = p->read * e[0].taps * e[1].taps;
    for (int axis = 0; axis < 2; axis++) {
        p->span[axis] = (span *)arena_take(a, e[axis].spans * (ptrdiff_t)(sizeof(span) / sizeof(ptrdiff_t)));
        if (p->span[axis]) spans_of(d, p, axis, p->span[axis]);
        p->spans[axis] = e[axis].spans, p->taps[axis] = e[axis].taps;
    }
    p->whole = e[0].elements == p->size[0] && e[1].elements == p->size[1];
    p->merged = merges(p, e[0], e[1]);
    p->images = images_of(d, p, e[0], e[1]);
    p->step = arena_take(a, depth);
    p->number = arena_take(a, depth);
    ptrdiff_t *step = p->step, *number = p->number;
    for (ptrdiff_t i = 0; step && i < p->spans[0]; i++)
        for (ptrdiff_t j = 0; j < p->spans[1]; j++) {
            const span rows = p->span[0][i], columns = p->span[1][j];
            fill_tables(d, p, rows, columns, step, number);
            step += p->read * rows.taps * columns.taps, number += p->read * rows.taps * columns.taps;
        }
}

st_real *implicit_take_packed(arena *a, ptrdiff_t count)
{
    a->used = ceil_div(a->used, LINE) * LINE;
    return (st_real *)arena_take(a, ceil_div(count * (ptrdiff_t)sizeof(st_real), sizeof(ptrdiff_t)));
}

/* Takes room for the panels of all weights. */
static void take_panels(const implicit_plan *d, pass *p, arena *a)
{
    const ptrdiff_t panel = panel_of(d, p);
    p->packed = implicit_take_packed(a, d->groups * ceil_div(p->made, panel) * p->read * d->area * panel);
}

void implicit_plan_turned(const implicit_plan *d, pass *p, part *q, arena *a)
{
    const ptrdiff_t panel = panel_of(d, p), width = q->of.count[1];
    q->rows = smallest(q->of.count[0], largest(1, RESULTS / (width * panel)));
    q->vectors = q->rows * width;
    q->from = arena_take(a, q->vectors);
    for (ptrdiff_t i = 0; q->from && i < q->vectors; i++) q->from[i] = i / width * p->p.pitch + i % width;
    q->number = arena_take(a, q->depth);
    if (q->number) iota(q->number, q->depth, panel); /* weights are in the same order */
    take_panels(d, p, a);
    p->each = largest(p->each, q->vectors * panel);
    p->turned = true;
}

/* Images that are made together, and rows of a block of their results; the offsets of its windows. */
void implicit_plan_channels(implicit_plan *d, pass *p, arena *a)
{
    const ptrdiff_t panel = panel_of(d, p), width = p->size[1],
                    image = read_size(d, p, 0) * read_size(d, p, 1) * p->read;
    plan_spans(d, p, a);
    /* Blocks begin at the same phase. */
    const ptrdiff_t most = RESULTS / (width * panel * p->images) / p->apart[0] * p->apart[0];
    p->rows = smallest(p->size[0], largest(most, p->apart[0]));
    const ptrdiff_t all = p->images * width * (p->merged ? p->rows : 1);
    p->window = arena_take(a, all);
    for (ptrdiff_t i = 0; p->window && i < all; i++) {
        const ptrdiff_t at = i / p->images, down = at / width * read_stride(d, p, 0) * read_size(d, p, 1);
        p->window[i] = i % p->images * image * d->groups + down + at % width * read_stride(d, p, 1);
    }
    p->across = arena_take(a, width);
    if (p->across) iota(p->across, width, read_stride(d, p, 1));
    take_panels(d, p, a);
    p->result = p->rows * width * p->images * panel;
    p->plane = p->images * image * d->groups;
}

/* ---- weights ------------------------------------------------------------------------------------------ */

typedef struct packing {
    const st_layer *l;
    const pass *p;
} packing;

/* A panel of weights [groups, panels, read channels, taps, panel]. */
static void pack_panel(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const packing *c = context;
    const pass *p = c->p;
    const implicit_plan *d = c->l->plan;
    const kernel *k = d->k;
    const ptrdiff_t panel = panel_of(d, p), taps = p->read * d->area, panels = ceil_div(p->made, panel),
                    m = i % panels * panel, channels = smallest(panel, p->made - m);
    const st_real *from = implicit_weights(c->l) + i / panels * (d->narrow * d->wide * d->area) + m * p->row;
    st_real *to = p->packed + i * taps * panel;
    for (ptrdiff_t t = 0; channels < panel && t < taps; t++)
        for (ptrdiff_t e = channels; e < panel; e++) to[t * panel + e] = 0;
    if (is_gather(d, p)) kernel_transpose(k, channels, taps, from, p->row, to, panel, NULL);
    for (ptrdiff_t r = 0; r < p->read && !is_gather(d, p); r++)
        kernel_transpose(k, channels, d->area, from + r * d->wide * d->area, d->area,
                         to + r * d->area * panel, panel, NULL);
}

void implicit_pack_channels(const st_layer *l, const pass *p)
{
    const implicit_plan *d = l->plan;
    const ptrdiff_t panels = d->groups * ceil_div(p->made, panel_of(d, p));
    const double weights = (double)d->groups * (double)(p->made * p->read) * (double)d->area;
    parallel_for(layer_threads_for(l->impl->run, weights), panels, pack_panel, &(packing){ l, p });
}

/* ---- images ------------------------------------------------------------------------------------------- */

/* A group of some images, and a panel of its weights. */
typedef struct made {
    const implicit_plan *d;
    const pass *p;
    const st_real *from, *weight;
    ptrdiff_t images, channels; /* of the panel, a multiple of lanes */
    bool add;                   /* to results, which begin with the bias */
    st_real *result;            /* [rows, width, images, panel] */
} made;

/* Rows of the images that have the same taps, or one row, for the windows of a span of columns: as one
 * product, or one for each column or image, whichever are fewer. */
static void make_span(const made *j, ptrdiff_t rows, const span *columns, const st_real *from,
                      const ptrdiff_t *step, const ptrdiff_t *number, ptrdiff_t depth, st_real *result)
{
    const pass *p = j->p;
    const ptrdiff_t panel = panel_of(j->d, p), images = j->images, count = columns->count;
    const bool together = p->apart[1] == 1 && images == p->images, by_image = !together && images < count;
    const ptrdiff_t products = together ? 1 : smallest(images, count),
                    apart = p->apart[1] * p->images * panel;
    from += columns->from;
    result += columns->first * p->images * panel;
    for (ptrdiff_t i = 0; i < products; i++)
        kernel_product(j->d->k, rows * images * count / products, j->channels, depth,
                       from + (by_image ? p->window[i] : p->across[i]), by_image ? p->across : p->window,
                       step, j->weight, number, result + i * (by_image ? panel : apart),
                       by_image ? apart : panel, j->add);
}

/* Rows first to first + rows of the images. */
static void make_block(const made *j, ptrdiff_t first, ptrdiff_t rows)
{
    const pass *p = j->p;
    const ptrdiff_t panel = panel_of(j->d, p), width = read_size(j->d, p, 1), apart = p->apart[0];
    const ptrdiff_t *step = p->step, *number = p->number;
    for (ptrdiff_t s = 0; s < p->spans[0]; s++) {
        const span own = p->span[0][s];
        const ptrdiff_t begin = first > own.first ? ceil_div(first - own.first, apart) : 0;
        const ptrdiff_t end = smallest(own.count, ceil_div(first + rows - own.first, apart)),
                        high = p->merged && j->images == p->images ? end - begin : 1;
        for (ptrdiff_t i = begin; i < end; i += high) {
            const st_real *from = j->from + (own.from + i * read_stride(j->d, p, 0)) * width;
            st_real *result = j->result + (own.first + i * apart - first) * p->size[1] * p->images * panel;
            ptrdiff_t at = 0;
            for (ptrdiff_t t = 0, depth; t < p->spans[1]; t++, at += depth) {
                depth = p->read * own.taps * p->span[1][t].taps;
                make_span(j, high, &p->span[1][t], from, step + at, number + at, depth, result);
            }
        }
        step += p->read * own.taps * p->taps[1], number += p->read * own.taps * p->taps[1];
    }
}

/* Results of so many windows begin with the bias of some channels. */
static void begin_with(const kernel *k, ptrdiff_t windows, const st_real *bias, ptrdiff_t channels,
                       st_real *result, ptrdiff_t panel)
{
    const ptrdiff_t all = kernel_padded(k, channels);
    st_real row[CHANNELS];
    for (ptrdiff_t m = 0; m < all; m++) row[m] = m < channels ? bias[m] : 0;
    k->move(windows, all, row, 0, result, panel);
}

/* ---- of some images ------------------------------------------------------------------------------------ */

/* Block by block; results are transposed. */
void implicit_make_channels(const st_call *c, const pass *p, ptrdiff_t group, const share *s,
                            const st_real *from, ptrdiff_t images, st_real *to, ptrdiff_t next,
                            const st_real *bias)
{
    const implicit_plan *d = c->plan;
    const ptrdiff_t panel = panel_of(d, p), height = p->size[0], width = p->size[1],
                    each = p->read * d->area * panel;
    made j = { .d = d, .p = p, .from = from, .images = images, .add = bias };
    j.result = st_data(st_scratch(c, RESULT));
    for (ptrdiff_t m = s->first, end = m + s->made, channels; m < end; m += channels) {
        channels = smallest(panel - m % panel, end - m);
        j.weight = p->packed + (group * ceil_div(p->made, panel) + m / panel) * each + m % panel;
        for (ptrdiff_t first = s->row, rows; first < s->row + s->rows; first += rows) {
            j.channels = kernel_padded(d->k, channels);
            rows = smallest(p->rows, s->row + s->rows - first);
            if (bias) begin_with(d->k, rows * width * p->images, bias + m, channels, j.result, panel);
            else if (!p->whole) st_fill(st_narrow(st_scratch(c, RESULT), 0, 0, p->result), 0);
            make_block(&j, first, rows);
            for (ptrdiff_t i = 0; i < images; i++)
                kernel_transpose(d->k, rows * width, channels, j.result + i * panel, p->images * panel,
                                 to + i * next + (m * height + first) * width, height * width, NULL);
        }
    }
}

/* The same of planes, whose windows have all taps. */
void implicit_make_turned(const st_call *c, const pass *p, const part *q, ptrdiff_t group, const share *s,
                          ptrdiff_t windows, const st_real *plane, st_real *to, ptrdiff_t next,
                          const st_real *bias)
{
    const implicit_plan *d = c->plan;
    const ptrdiff_t panel = panel_of(d, p), each = p->read * d->area * panel;
    st_real *result = st_data(st_scratch(c, RESULT));
    for (ptrdiff_t m = s->first, end = m + s->made, channels; m < end; m += channels) {
        channels = smallest(panel - m % panel, end - m);
        const st_real *weight = p->packed + (group * ceil_div(p->made, panel) + m / panel) * each + m % panel;
        if (bias) begin_with(d->k, windows, bias + m - s->first, channels, result, panel);
        kernel_product(d->k, windows, kernel_padded(d->k, channels), q->depth, plane, q->from, q->tap, weight,
                       q->number, result, panel, bias);
        kernel_transpose(d->k, windows, channels, result, panel, to + (m - s->first) * next, next, NULL);
    }
}
