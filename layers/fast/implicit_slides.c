/* implicit_slides.c: an implicit product of one channel at a time, with windows of a row as lanes (slide.h):
 * of depthwise convolutions, and of few channels.
 *
 * Images are read in place. Vectors read beyond them, but not beyond all images: those at the ends are
 * copied. */
#include "layers/fast/implicit.h"

#include <math.h>
#include <string.h>

enum {
    BLOCK = 1 << 18,                    /* bytes of the sums of some groups, which stay in cache */
    PLANE = 5,                          /* the cost of a plane, in products of vectors, */
    PHASE = 30,                         /* or of one of its phases; */
    TILE = 20,                          /* of a tile, */
    SUMS = 60,                          /* or of one of sums, */
    WAIT = 35,                          /* more of each that adds to those of several before it; */
    COLUMN = 3,                         /* of a tile's column of one tap, */
    CHAIN = 15,                         /* or of one of sums, which wait for each other; */
    WEAVE = 8,                          /* of moving the results of a row that are apart, */
    APART = 2,                          /* and of each element of them if they are farther apart; */
    REST = 10,                          /* of filling a vector of those that no part has; */
    NEAR = (1 << 15) / sizeof(st_real), /* elements that stay in the first cache; */
    FAR = (1 << 19) / sizeof(st_real)   /* more than so many do not stay in the second one */
};
/* The cost of reading a vector, meanwhile, and of reading every other element of two. For several channels,
 * which are made one after another: that of reading one from the first cache, and of fetching one from beyond
 * the second. */
static const double READ = 2, SPLIT = 2.2, READ_NEAR = 1, READ_FAR = 4;

/* ---- plan ------------------------------------------------------------------------------------------- */

/* The elements of a part along both axes, by their taps. Rows of taps that are apart, or many, or of a larger
 * stride than columns are columns of one tap: it reads windows again. */
typedef struct reads {
    span rows, columns;
    int stride, taps;      /* of slide.h's functions; 0: they do not take those */
    ptrdiff_t lines, step; /* the rows that windows one below another are apart, in those that taps are */
} reads;

static reads reads_of(const implicit_plan *d, const pass *p, ptrdiff_t number)
{
    const ptrdiff_t across = is_gather(d, p) ? 1 : phase_count(&d->w, 1), down = read_stride(d, p, 0),
                    apart = read_stride(d, p, 1);
    reads r = {
        implicit_span(d, p, 0, number / across), implicit_span(d, p, 1, number % across), 0, 0, 1, 1
    };
    const bool dense = r.rows.step == 1 || r.rows.step == -1, even = down <= apart || r.rows.count == 1;
    if (r.rows.taps > 1 && dense && even && r.rows.taps <= SLIDE_TAPS) r.taps = (int)r.rows.taps;
    else if (r.rows.taps == 1 || apart == 1) r.taps = 1, r.lines = r.rows.taps;
    if (apart > SLIDE_STRIDE) r.taps = 0;
    r.stride = (int)apart;
    r.step = r.taps == 1 ? 1 : down;
    return r;
}

/* The images of which rows may be joined: those that are made as a whole. */
static int joined(const implicit_plan *d, const pass *p)
{
    return d->usual > 1 && p->apart[0] * p->apart[1] == 1 ? 2 : 1;
}

/* Tests if phases have whole rows, of so many windows, which are made where they belong. */
static bool is_straight(const pass *p, ptrdiff_t width, const slide *v)
{
    return p->apart[1] == 1 && width >= v->lanes;
}

/* The cost of a part of a group of an image, in products of vectors; HUGE_VAL: it cannot slide. */
static double part_cost(const implicit_plan *d, const pass *p, ptrdiff_t number, int tile)
{
    const reads r = reads_of(d, p, number);
    const ptrdiff_t rows = r.rows.count, width = r.columns.count;
    double row = 0;
    if (rows == 0 || width == 0) return 0;
    if (r.taps == 0) return HUGE_VAL;
    const slide *v = slide_of(d->isa, width, joined(d, p), &row);
    const double high = (double)ceil_div(rows, SLIDE_ROWS),
                 vectors = (double)ceil_div(width, v->lanes) / v->images, tiles = vectors * high,
                 waits = tile == SUMS ? fmax(0, tiles - 2) * WAIT : 0,
                 read = vectors * (double)(rows * r.step) + tiles * (double)(r.taps - r.step);
    const double moved = p->apart[0] * p->apart[1] == 1 || is_straight(p, width, v) ? 0
                         : p->apart[1] <= 2 ? (double)(WEAVE * (ceil_div(width, d->k->lanes) + 1))
                                            : (double)width * APART;
    const ptrdiff_t image = p->read * read_size(d, p, 0) * read_size(d, p, 1);
    const bool several = p->made > 1 && tile == TILE, near = image <= NEAR || p->made == 1;
    const double products = high * SLIDE_ROWS * r.taps * row, reading = read * row / vectors,
                 column = r.stride > 1       ? products + read * SPLIT
                          : near && !several ? fmax(products, reading * READ)
                                             : products + reading * (near ? READ_NEAR : READ),
                 again = several && image > FAR ? (double)image / d->k->lanes * READ_FAR : 0;
    const double each = r.taps > 1 ? 0 : tiles * (tile == SUMS ? CHAIN : COLUMN);
    return (double)p->made * ((moved > 0 ? PHASE : PLANE) + (double)rows * moved + tiles * tile + waits +
                              (double)(p->read * r.lines * r.columns.taps) * (column + each) + again);
}

double implicit_slides_cost(const implicit_plan *d, const pass *p, ptrdiff_t parts)
{
    const double vectors = (double)p->made * (double)p->size[0] * (double)p->size[1] / d->k->lanes;
    double cost = p->whole ? 0 : vectors * REST;
    for (ptrdiff_t n = 0; n < parts; n++) cost += part_cost(d, p, n, TILE);
    return cost;
}

double implicit_slide_sums_cost(const implicit_plan *d)
{
    const double lanes = (double)(d->narrow * d->area * d->k->lanes); /* are added up at the end */
    if (d->wide > 1 || d->narrow > 2) return HUGE_VAL;
    return part_cost(d, &d->gather, 0, SUMS) + lanes / (double)d->usual;
}

/* The planes of which a phase is made before the next one. */
static ptrdiff_t phases_together(const pass *p)
{
    return largest(1, NEAR / (2 * p->each));
}

void implicit_plan_slide(const implicit_plan *d, pass *p, part *q, ptrdiff_t number, arena *a)
{
    const reads r = reads_of(d, p, number);
    const ptrdiff_t width = read_size(d, p, 1), area = read_size(d, p, 0) * width, row = d->w.kernel[1],
                    channel = is_gather(d, p) ? d->area : d->wide * d->area;
    const bool up = r.rows.step < 0 && r.taps > 1;
    const ptrdiff_t last = up ? r.rows.taps - 1 : 0, tap = r.rows.tap + last * r.rows.every,
                    top = r.rows.from + last * r.rows.step, high = read_size(d, p, 0),
                    down = read_stride(d, p, 0), bands = ceil_div(r.rows.count, SLIDE_ROWS);
    double cost;
    q->slide = slide_of(d->isa, r.columns.count, joined(d, p), &cost);
    q->stride = r.stride, q->taps = r.taps;
    slide_columns *s = &q->slid;
    *s = (slide_columns){ .count = p->read * r.lines * r.columns.taps,
                          .lines = r.lines,
                          .down = (up ? -row : row) * r.rows.every,
                          .first = top * width,
                          .next = down * width,
                          .pitch = (r.taps == 1 ? down : 1) * width };
    ptrdiff_t *offset = arena_take(a, s->count), *at = arena_take(a, s->count),
              *left = arena_take(a, s->count), *line = arena_take(a, s->count),
              *inside = arena_take(a, bands * r.lines);
    s->offset = offset, s->at = at, s->left = left, s->line = line, s->inside = inside;
    for (ptrdiff_t i = 0; inside && i < bands * r.lines; i++) {
        const ptrdiff_t begin = i / r.lines * SLIDE_ROWS,
                        rows = smallest(SLIDE_ROWS, r.rows.count - begin) - 1, each = s->pitch / width,
                        at_first = top + begin * down + i % r.lines * r.rows.step,
                        reach = rows * r.step + r.taps,
                        first = smallest(largest(0, ceil_div(-at_first, each)), reach),
                        stop = largest(first, smallest(ceil_div(high - at_first, each), reach));
        inside[i] = (1 << stop) - (1 << first);
    }
    const ptrdiff_t end = r.columns.from + (r.columns.taps - 1) * r.columns.step,
                    reach = largest(r.columns.count, q->slide->lanes) * r.stride;
    s->before = largest(0, -smallest(r.columns.from, end));
    s->after = largest(0, largest(r.columns.from, end) + reach - width);
    st_real *keep = implicit_take_packed(a, s->before + width + s->after);
    if (keep) {
        memset(keep, 0, (size_t)(s->before + width + s->after) * sizeof *keep);
        memset(keep + s->before, -1, (size_t)width * sizeof *keep);
        s->keep = keep + s->before;
    }
    for (ptrdiff_t i = 0; at && i < s->count; i++) {
        const ptrdiff_t each = r.lines * r.columns.taps, c = i / each, n = i % each / r.columns.taps,
                        j = i % r.columns.taps;
        line[i] = n;
        left[i] = r.columns.from + j * r.columns.step;
        offset[i] = c * area + n * r.rows.step * width + left[i];
        at[i] = c * channel + (tap + n * r.rows.every) * row + r.columns.tap + j * r.columns.every;
    }
    p->plane = largest(p->plane, q->slide->images * (s->before + p->read * area + s->after));
    p->each = largest(p->each, r.rows.count * r.columns.count + q->slide->lanes);
    p->result = 2 * p->each * phases_together(p);
}

/* The elements of a group's sums; and the groups whose sums stay in cache. */
static ptrdiff_t sum_size(const implicit_plan *d, const part *q)
{
    return d->narrow * q->slid.count * q->taps * q->slide->lanes * q->slide->images;
}

static ptrdiff_t block_of(const implicit_plan *d, const part *q)
{
    const ptrdiff_t size = sum_size(d, q) * (ptrdiff_t)sizeof(st_real);
    return smallest(d->groups, largest(1, BLOCK / size));
}

void implicit_plan_slide_sums(implicit_plan *d, gradient_pass *p, arena *a)
{
    part *q = &p->slides;
    pass *of = &d->gather;
    const ptrdiff_t result = of->result;
    implicit_plan_slide(d, of, q, 0, a);
    of->result = result;
    p->panel = q->slide->images * (d->narrow * d->w.out[0] * d->w.out[1] + q->slide->lanes);
    p->result = 2 * block_of(d, q) * sum_size(d, q);
}

/* ---- passes ----------------------------------------------------------------------------------------- */

/* Images that are read: the ends of what may be read. */
typedef struct source {
    st_tensor images;
    const st_real *begin, *end;
    bool in_place; /* channels of an image are contiguous */
} source;

static source source_of(st_tensor images)
{
    const ptrdiff_t *n = images.shape.n, *stride = images.stride;
    source s = { .images = images, .begin = st_data(images) };
    s.in_place = stride[3] == 1 && stride[2] == n[3] && stride[1] == n[2] * n[3];
    s.end = s.begin + (n[0] - 1) * stride[0] + n[1] * n[2] * n[3];
    return s;
}

static ptrdiff_t place_of(const source *s, ptrdiff_t image, ptrdiff_t channel)
{
    return image * s->images.stride[0] + channel * s->images.stride[1];
}

/* Tests if some channels of an image may be read in place, with so many elements before and after them. */
static bool is_in_place(const source *s, ptrdiff_t image, ptrdiff_t first, ptrdiff_t channels,
                        ptrdiff_t before, ptrdiff_t after)
{
    return s->in_place && place_of(s, image, first) >= before &&
           s->end - s->begin - place_of(s, image, first + channels) >= after;
}

/* Some channels of one or two images, and the distance of the second one's: in place, or a copy. */
static const st_real *channels_of(const source *s, ptrdiff_t image, ptrdiff_t images, ptrdiff_t first,
                                  ptrdiff_t channels, ptrdiff_t before, ptrdiff_t after, st_tensor room,
                                  ptrdiff_t *other)
{
    const ptrdiff_t *n = s->images.shape.n, count = channels * n[2] * n[3];
    *other = images > 1 ? s->images.stride[0] : 0;
    if (is_in_place(s, image, first, channels, before, after) &&
        is_in_place(s, image + images - 1, first, channels, before, after))
        return s->begin + place_of(s, image, first);
    *other = images > 1 ? before + count + after : 0;
    for (ptrdiff_t i = 0; i < images; i++)
        st_copy(st_reshape(st_narrow(room, 0, before + i * *other, count), ST_SHAPE(channels, n[2], n[3])),
                st_narrow(st_select(s->images, 0, image + i), 0, first, channels));
    return (st_real *)st_data(room) + before;
}

/* The groups of some images from number `first` on that are read together: all that are in place, or one. */
static ptrdiff_t together(const source *s, ptrdiff_t image, ptrdiff_t images, ptrdiff_t first, ptrdiff_t end,
                          ptrdiff_t channels, ptrdiff_t before, ptrdiff_t after)
{
    const ptrdiff_t last = image + images - 1, c = channels;
    ptrdiff_t count = end - first;
    while (count > 1 && !(is_in_place(s, image, first * c, count * c, before, after) &&
                          is_in_place(s, last, first * c, count * c, before, after)))
        count = is_in_place(s, last, first * c, (count - 1) * c, before, after) ? count - 1 : 1;
    return count;
}

/* The phases of some planes: those of even and odd columns take turns. */
static void make_phases(const implicit_plan *d, const pass *p, const slide_planes *made, const st_real *from,
                        const st_real *weight, st_real *to, st_real *room)
{
    const ptrdiff_t width = p->size[1], down = p->apart[0] * width, area = p->size[0] * width;
    slide_planes set = *made;
    for (const part *q = p->part, *end = q + p->parts; q < end; q++) {
        const ptrdiff_t rows = q->of.count[0];
        const bool pair = p->apart[1] == 2 && q + 1 < end && q[0].of.first[0] == q[1].of.first[0];
        st_real *u = room, *v = room + set.count * p->each, *row = to + q->of.first[0] * width;
        const bool straight = is_straight(p, q->of.count[1], q->slide);
        set.made = straight ? area : p->each, set.exact = straight ? 0 : set.count;
        slide_image(q->slide, &q->slid, &set, q->stride, q->taps, rows, q->of.count[1], weight, from,
                    straight ? row : u, straight ? down : q->of.count[1]);
        if (straight) continue;
        if (!pair) {
            for (ptrdiff_t n = 0; n < set.count; n++)
                planes_move(d->k, q->of.count, u + n * p->each, q->of.count[1], 1,
                            row + n * area + q->of.first[1], down, p->apart[1]);
            continue;
        }
        q++;
        slide_image(q->slide, &q->slid, &set, q->stride, q->taps, rows, q->of.count[1], weight, from, v,
                    q->of.count[1]);
        const bool odd = q->of.first[1] == 0;
        const ptrdiff_t even_line = q[odd ? 0 : -1].of.count[1], odd_line = q[odd ? -1 : 0].of.count[1];
        for (ptrdiff_t n = 0; n < set.count; n++, u += p->each, v += p->each, row += area) {
            const st_real *even = odd ? v : u;
            d->k->weave(rows, width / 2, even, even_line, odd ? u : v, odd_line, row, down);
            for (ptrdiff_t r = 0; r < rows && width % 2; r++)
                row[r * down + width - 1] = even[r * even_line + width / 2];
        }
    }
}

/* Results that are followed by those of other channels, which are made next, need not be exact. */
void implicit_make_slides(const st_call *c, const pass *p, const share *s, st_tensor from, st_tensor to,
                          const st_real *bias)
{
    const implicit_plan *d = c->plan;
    const ptrdiff_t area = p->size[0] * p->size[1], each = d->narrow * d->wide * d->area,
                    all = d->groups * p->made * area;
    const source images = source_of(from);
    const st_tensor room = st_scratch(c, PLANES);
    st_real *results = st_data(st_scratch(c, RESULT));
    const st_real *weights = implicit_weights(c->layer);
    const part *q = p->part;
    const bool whole = p->apart[0] * p->apart[1] == 1,
               all_channels = s->made == p->made && (p->made == 1 || each == p->made * p->row);
    /* Rows that are read in order need not be fetched. */
    const bool ahead = layer_streams(c) && s->made == 1 && read_stride(d, p, 0) > 1;
    const ptrdiff_t most = whole ? 1 : phases_together(p);
    ptrdiff_t before = 0, after = 0;
    for (ptrdiff_t n = 0; n < p->parts; n++)
        before = largest(before, q[n].slid.before), after = largest(after, q[n].slid.after);
    for (ptrdiff_t i = 0, pair, some; i < from.shape.n[0]; i += pair) {
        pair = whole ? smallest(q->slide->images, from.shape.n[0] - i) : 1;
        for (ptrdiff_t g = s->group; g < s->end; g += some) {
            some = all_channels ? together(&images, i, pair, g, s->end, p->read, before, after) : 1;
            if (!whole) some = largest(1, smallest(some, most / s->made));
            slide_planes set = { .count = some * s->made,
                                 .shared = s->made,
                                 .weight = p->made == 1 ? each : p->row,
                                 .read = p->read * from.stride[1],
                                 .made = area,
                                 .ahead = ahead };
            const st_real *plane = channels_of(&images, i, pair, g * p->read, some * p->read, before, after,
                                               room, &set.other_read),
                          *weight = weights + g * each + s->first * p->row;
            const ptrdiff_t channel = g * p->made + s->first;
            st_real *image = (st_real *)st_data(to) + i * all + channel * area;
            for (ptrdiff_t k = 0; k < pair * set.count && !p->whole; k++) {
                const ptrdiff_t m = k % set.count;
                implicit_fill_rest(p, image + k / set.count * all + m * area, bias ? bias[channel + m] : 0);
            }
            set.plus = bias ? bias + channel : NULL;
            if (!whole) {
                for (ptrdiff_t n = 0, planes_of = set.count; n < planes_of; n += set.count) {
                    set.count = smallest(most, planes_of - n);
                    make_phases(d, p, &set, plane, weight + n * set.weight, image + n * area, results);
                    if (set.plus) set.plus += set.count;
                }
                continue;
            }
            const bool next = area >= q->slide->lanes && s->made == p->made && g + some < s->end;
            set.exact = set.count - (next ? 0 : ceil_div(q->slide->lanes, area));
            set.other_made = pair > 1 ? all : 0;
            slide_image(q->slide, &q->slid, &set, q->stride, q->taps, p->size[0], p->size[1], weight, plane,
                        image, p->size[1]);
        }
    }
}

/* Adds up the lanes of sums [channels, columns, taps, lanes], and adds them to the gradient. */
static void end_sums(const implicit_plan *d, const part *q, ptrdiff_t channels, const st_real *sum,
                     st_real *room, st_real *dw)
{
    const slide_columns *s = &q->slid;
    const ptrdiff_t lanes = q->slide->lanes * q->slide->images, count = channels * s->count * q->taps;
    kernel_transpose(d->k, count, lanes, sum, lanes, room, count, NULL);
    for (ptrdiff_t e = 1; e < lanes; e++)
        for (ptrdiff_t i = 0; i < count; i++) room[i] += room[e * count + i];
    for (ptrdiff_t o = 0; o < channels; o++, dw += d->area)
        for (ptrdiff_t k = 0; k < s->count; k++)
            for (int t = 0; t < q->taps; t++) dw[s->at[k] + t * s->down] += *room++;
}

/* Sums of all images, each in the lanes of a vector, of some groups at a time. A group has several planes of
 * windows, or several groups are read together. */
void implicit_sum_slides(const st_call *c, const share *s, st_tensor wide, st_tensor narrow_images)
{
    const implicit_plan *d = c->plan;
    const part *q = &d->gradient.slides;
    const slide *v = q->slide;
    const ptrdiff_t *n = d->w.out, area = n[0] * n[1], size = sum_size(d, q), before = q->slid.before,
                    after = q->slid.after, narrow = d->narrow;
    const source images = source_of(wide), windows = source_of(narrow_images);
    const st_tensor sums = st_scratch(c, RESULT), room = st_scratch(c, PLANES), rest = st_scratch(c, PANEL);
    st_real *sum = st_data(sums);
    for (ptrdiff_t first = s->group, end; first < s->end; first = end) {
        end = smallest(first + block_of(d, q), s->end);
        st_fill(st_narrow(sums, 0, 0, (end - first) * size), 0);
        for (ptrdiff_t i = 0, pair; i < wide.shape.n[0]; i += pair) {
            pair = smallest(v->images, wide.shape.n[0] - i);
            for (ptrdiff_t g = first, some; g < end; g += some) {
                some = smallest(together(&images, i, pair, g, end, 1, before, after),
                                together(&windows, i, pair, g, end, narrow, 0, v->lanes));
                slide_planes set = { .count = some * narrow,
                                     .shared = narrow,
                                     .read = wide.stride[1],
                                     .made = area,
                                     .alone = pair < v->images,
                                     .ahead = layer_streams(c) && narrow == 1 &&
                                              read_stride(d, &d->gather, 0) > 1 };
                const st_real *plane =
                    channels_of(&images, i, pair, g, some, before, after, room, &set.other_read);
                slide_sum_image(
                    v, &q->slid, &set, q->stride, q->taps, n[0], n[1], plane,
                    channels_of(&windows, i, pair, g * narrow, set.count, 0, v->lanes, rest, &set.other_made),
                    sum + (g - first) * size);
            }
        }
        end_sums(d, q, (end - first) * narrow, sum, sum + (end - first) * size,
                 s->dw + first * narrow * d->area);
    }
}
