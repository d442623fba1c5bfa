/* rows_plan.c: the matrices of layers that are made by rows (rows.h): their sizes when the layer is planned,
 * and their tables when it is built. Small images may be one row each. */
#include "layers/fast/rows.h"
#include "layers/layers.h"
#include "layers/types.h"
#include "tensor/counts.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { MOST_ALL_TAPS = 1 << 20 };

static bool is_separable(const st_layer *l)
{
    return !l->type->pooling;
}

static bool is_maxima(const st_layer *l)
{
    return !is_separable(l) && l->type->pooling->value == pool_max_value;
}

/* The axis of rows, a = 0, or columns. An image of one column is taken as a row, except where zeros beside it
 * come before equal maxima of the next rows. p is the definition's plan. */
static int axis_at(const st_layer *l, const void *p, int a)
{
    const pool_plan *pool = is_maxima(l) ? p : NULL;
    const bool zeros = pool && pool->zeros && window_padded(&pool->w);
    return l->x.n[3] == 1 && l->y.n[3] == 1 && !zeros ? 1 - a : a;
}

/* The most taps of an axis; p is the definition's plan. */
static ptrdiff_t most_taps(const st_layer *l, const void *p, int a)
{
    const ptrdiff_t from = l->x.n[2 + a], to = l->y.n[2 + a];
    tap row[MOST_TAPS];
    ptrdiff_t taps = 0;
    if (!is_separable(l)) return to * ((const pool_plan *)p)->w.kernel[a];
    for (ptrdiff_t i = 0; i < to; i++)
        taps += ((const separable *)p)->row(l->options, 2 + a, i, from, to, row);
    return taps;
}

bool rows_suit(const st_layer *l)
{
    const double most = -(double)NOWHERE; /* a float counts up to there */
    if (is_maxima(l) && (double)l->x.n[2] * (double)l->x.n[3] >= most) return false;
    return most_taps(l, l->plan, 0) <= MOST_ALL_TAPS && most_taps(l, l->plan, 1) <= MOST_ALL_TAPS;
}

/* Bytes of an axis's table, with `most` picks an element. */
static size_t table_of(const sparse *a, ptrdiff_t taps, ptrdiff_t most, int lanes)
{
    return (size_t)taps * sizeof(tap) + (size_t)(a->out + 1) * (2 * sizeof(ptrdiff_t) + sizeof(column_run)) +
           (size_t)padded(a->out) * sizeof(double) + (size_t)a->out * sizeof(pool_span) +
           rows_bytes_of_picks(rows_room_of_picks(a, most, lanes), lanes);
}

/* Images so narrow that rows fill few vectors are one row each, unless they are large, or windows are. */
static bool suits_flat(const sparse each[], const ptrdiff_t taps[], ptrdiff_t narrow)
{
    enum { SMALL = 1024, FEW = 16 };
    const ptrdiff_t size = each[0].size * each[1].size, out = each[0].out * each[1].out;
    return smallest(each[1].size, each[1].out) < narrow && size <= SMALL && out <= SMALL &&
           taps[0] * taps[1] <= FEW * largest(size, out);
}

/* Narrow images that are not large are picked from planes. */
static bool suits_planes(const sparse each[])
{
    enum { SHORT = 64 };
    const ptrdiff_t size = each[0].size * each[1].size, out = each[0].out * each[1].out;
    return smallest(each[1].size, each[1].out) < SHORT && largest(size, out) <= PLANE;
}

static ptrdiff_t room_of_means(const sparse each[])
{
    return padded(largest(each[0].out * each[1].out, MOST_JOINED * LANES_MOST)) + LANES_MOST;
}

/* Channels of which columns alone are resized; a block. */
static ptrdiff_t room_of_half(const sparse each[])
{
    const ptrdiff_t high = largest(each[0].size, each[0].out);
    return largest(high * largest(each[1].pitch, each[1].out_pitch), largest(BLOCK, BESIDE * PLANE)) +
           4 * LANES_MOST;
}

static ptrdiff_t room_of_block(const sparse each[])
{
    const ptrdiff_t row = LANES_MOST * (each[1].pitch + each[1].out_pitch);
    return largest(row, largest(BLOCK, PLANE)) + 4 * LANES_MOST;
}

int rows_plan_for(st_layer *l, const void *given)
{
    const int lanes = kernel_of(l)->lanes;
    const bool maxima = is_maxima(l);
    rows_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    if (is_separable(l)) p->definition.separable = *(const separable *)given;
    else p->definition.pool = *(const pool_plan *)given;
    p->means = l->type == &layer_type_avgpool || l->type == &layer_type_adaptive_avgpool;
    p->p = l->type == &layer_type_lppool ? ((const st_lppool_options *)l->options)->p : 0;
    if (l->type == &layer_type_pad2d && ((const st_pad2d_options *)l->options)->mode == ST_PAD_CONSTANT)
        p->value = (st_real)((const st_pad2d_options *)l->options)->value;
    p->planes = l->x.n[0] * l->x.n[1];
    ptrdiff_t taps[2];
    l->impl->tables = 0;
    for (int a = 0; a < 2; a++) {
        const int axis = axis_at(l, given, a);
        p->each[a] = axis_of(l->x.n[2 + axis], l->y.n[2 + axis]);
        taps[a] = most_taps(l, given, axis);
        l->impl->tables += table_of(&p->each[a], taps[a], a * MOST_PICKS, lanes);
        p->back[a] = axis_of(p->each[a].out, p->each[a].size);
    }
    const sparse one = axis_of(1, 1), all = axis_of(l->x.n[2] * l->x.n[3], l->y.n[2] * l->y.n[3]);
    for (int a = 0; a < 2; a++) l->impl->tables += table_of(&p->back[a], taps[a], a * MOST_PICKS, lanes);
    p->flat = !maxima && suits_flat(p->each, taps, l->type == &layer_type_pad2d ? 16 : 32);
    if (suits_planes(p->each))
        l->impl->tables += rows_bytes_of_picks(rows_room_of_planes(p->each, lanes), lanes) +
                           (size_t)room_of_means(p->each) * sizeof(st_real);
    p->axis[1] = p->flat ? all : p->each[1];
    const sparse back[] = { axis_of(one.out, one.size), axis_of(all.out, all.size) };
    if (p->flat) {
        taps[1] *= taps[0], taps[0] = 1;
        l->impl->tables += table_of(&one, 1, 0, lanes) + table_of(&all, taps[1], 0, lanes);
        for (int a = 0; a < 2; a++) l->impl->tables += table_of(&back[a], taps[a], 0, lanes);
    }
    if (!is_separable(l) && pool_request_scratch(l, &p->definition.pool)) return -1;
    p->scratch = l->impl->scratches;
    const sparse *columns = &p->axis[1];
    const ptrdiff_t area = l->x.n[2] * l->x.n[3], count = l->y.n[2] * l->y.n[3];
    if (maxima && st_layer_memory(l, ST_SHAPE(l->x.n[0], l->x.n[1], count))) return -1;
    const ptrdiff_t row = (maxima ? 4 : 2) * columns->pitch + 3 * columns->out_pitch;
    if (st_layer_scratch(l, ST_SHAPE(LANES_MOST * row))) return -1;
    if (st_layer_scratch(l, ST_SHAPE(l->x.n[1] * largest(area, count)))) return -1;
    const ptrdiff_t tiles = maxima ? room_of_tile(area) + 2 * room_of_tile(count) : 0;
    return st_layer_scratch(l, ST_SHAPE(room_of_half(p->each) + 2 * room_of_block(p->each) + tiles));
}

work rows_work_of(const st_call *c, ptrdiff_t planes)
{
    const rows_plan *p = c->plan;
    const ptrdiff_t pitch = LANES_MOST * p->axis[1].pitch, out_pitch = LANES_MOST * p->axis[1].out_pitch;
    work w = { .plan = p, .kernel = kernel_of(c->layer), .planes = planes };
    w.rows = st_data(st_scratch(c, p->scratch + ROOM));
    w.columns = w.rows + pitch;
    w.out_columns = w.columns + pitch + out_pitch;
    w.out_rows = w.out_columns + out_pitch;
    w.places = w.out_rows + out_pitch;
    w.place_columns = w.places + pitch;
    w.half = st_data(st_scratch(c, p->scratch + HALF));
    w.block = w.half + room_of_half(p->each);
    w.share = w.block + room_of_block(p->each);
    w.tile = w.share + room_of_block(p->each);
    w.tile_out = w.tile + room_of_tile(p->each[0].size * p->each[1].size);
    w.tile_places = w.tile_out + room_of_tile(p->each[0].out * p->each[1].out);
    return w;
}

/* ---- tables ------------------------------------------------------------------------------------------- */

static bool is_identity(const sparse *a)
{
    for (ptrdiff_t i = 0; i < a->out; i++) {
        const tap *t = a->taps + a->begin[i];
        if (a->begin[i + 1] - a->begin[i] != 1 || t->from != i || t->weight != 1) return false;
    }
    return a->size == a->out;
}

/* Tests if each element has one tap at most. */
static bool is_single(const sparse *a)
{
    for (ptrdiff_t i = 0; i < a->out; i++)
        if (a->begin[i + 1] - a->begin[i] > 1) return false;
    return true;
}

static bool is_copy(const sparse *a)
{
    return a->ordered && a->even && (a->out == 0 || a->counted[0] == 1);
}

static void fill_pooling(const st_layer *l, int axis, const pool_plan *pool, sparse *a, pool_span *spans)
{
    const st_window at = { .options = l->options };
    const bool exclude =
        l->type == &layer_type_avgpool && ((const st_avgpool_options *)l->options)->count_exclude_pad;
    pool->grid->spans(pool, &at, axis, spans);
    for (ptrdiff_t o = 0, n = 0; o < a->out; o++) {
        for (ptrdiff_t k = 0; k < spans[o].count; k++)
            a->taps[n++] = (tap){ spans[o].first + k * pool->w.dilation[axis], 1 };
        a->begin[o + 1] = n;
        a->counted[o] = (st_real)(exclude ? spans[o].count : spans[o].whole);
    }
}

static char *lay_out_picks(picks *p, ptrdiff_t room, int lanes, char *at)
{
    p->room = room;
    p->pick = (pick *)(void *)at, at += (size_t)room * sizeof *p->pick;
    at += -(uintptr_t)at % (CACHE_LINE * sizeof(st_real)); /* vectors of indexes lie in one line */
    p->index = (isa_bits *)(void *)at, at += (size_t)(room * lanes) * sizeof *p->index;
    p->weight = (st_real *)(void *)at;
    return at + (size_t)(room * lanes) * sizeof *p->weight;
}

/* The table of an axis at `at`; returns its end. */
static char *lay_out_axis(sparse *a, ptrdiff_t taps, ptrdiff_t most, int lanes, char *at, column_run **runs,
                          pool_span **spans)
{
    a->taps = (tap *)(void *)at, at += (size_t)taps * sizeof *a->taps;
    *runs = (column_run *)(void *)at, at += (size_t)(a->out + 1) * sizeof **runs;
    *spans = (pool_span *)(void *)at, at += (size_t)a->out * sizeof **spans;
    a->begin = (ptrdiff_t *)(void *)at, at += (size_t)(a->out + 1) * sizeof *a->begin;
    a->alike = (ptrdiff_t *)(void *)at, at += (size_t)a->out * sizeof *a->alike;
    a->counted = (st_real *)(void *)at, at += (size_t)padded(a->out) * sizeof(double);
    a->begin[0] = 0;
    return lay_out_picks(&a->picks, rows_room_of_picks(a, most, lanes), lanes, at);
}

/* Every element of y as one of a row: its taps are those of its row and its column. */
static void flatten(rows_plan *p)
{
    const sparse *rows = &p->each[0], *columns = &p->each[1];
    sparse *one = &p->axis[0], *all = &p->axis[1];
    one->taps[0] = (tap){ 0, 1 }, one->begin[1] = 1, one->counted[0] = 1;
    for (ptrdiff_t o = 0, n = 0; o < all->out; o++) {
        const ptrdiff_t oh = o / columns->out, ow = o % columns->out;
        for (ptrdiff_t i = rows->begin[oh]; i < rows->begin[oh + 1]; i++)
            for (ptrdiff_t j = columns->begin[ow]; j < columns->begin[ow + 1]; j++) {
                const tap a = rows->taps[i], b = columns->taps[j];
                all->taps[n++] = (tap){ a.from * columns->size + b.from, a.weight * b.weight };
            }
        all->begin[o + 1] = n;
        all->counted[o] = rows->counted[oh] * columns->counted[ow];
    }
}

/* The transposed matrix, without taps outside. */
static void transpose(const sparse *a, sparse *to)
{
    memset(to->begin, 0, (size_t)(to->out + 1) * sizeof *to->begin);
    for (ptrdiff_t k = 0; k < a->begin[a->out]; k++)
        if (!is_outside(a, a->taps[k])) to->begin[a->taps[k].from + 1]++;
    for (ptrdiff_t i = 0; i < to->out; i++) to->begin[i + 1] += to->begin[i];
    const ptrdiff_t all = to->begin[to->out];
    for (ptrdiff_t i = a->out - 1; i >= 0; i--) /* begin[i + 1] goes down to where it begins, */
        for (ptrdiff_t k = a->begin[i]; k < a->begin[i + 1]; k++)
            if (!is_outside(a, a->taps[k]))
                to->taps[--to->begin[a->taps[k].from + 1]] = (tap){ i, a->taps[k].weight };
    for (ptrdiff_t i = 0; i < to->out; i++) to->begin[i] = to->begin[i + 1]; /* and back to its place */
    to->begin[to->out] = all;
}

static void find_alike(sparse *a)
{
    for (ptrdiff_t i = a->out - 1; i >= 0; i--) {
        const tap *t = a->taps + a->begin[i], *end = a->taps + a->begin[i + 1], *next = end;
        bool same = i + 1 < a->out && a->begin[i + 2] - a->begin[i + 1] == end - t;
        for (; same && t < end; t++, next++) same = next->from == t->from + 1 && next->weight == t->weight;
        a->alike[i] = 1 + (same ? a->alike[i + 1] : 0);
    }
}

/* Picks of planes, and the shares of their means. */
static char *lay_out_planes(rows_plan *p, picks *room, int lanes, char *at)
{
    const sparse *rows = &p->each[0], *columns = &p->each[1];
    const ptrdiff_t count = rows->out * columns->out;
    at = lay_out_picks(room, rows_room_of_planes(p->each, lanes), lanes, at);
    p->shares = (st_real *)(void *)at;
    for (ptrdiff_t i = 0; i < room_of_means(p->each); i++) {
        const st_real counted = rows->counted[i % count / columns->out] * columns->counted[i % columns->out];
        p->shares[i] = counted > 0 ? 1 / counted : 0;
    }
    return (char *)(p->shares + room_of_means(p->each));
}

void rows_fill(st_layer *l, void *tables)
{
    rows_plan *p = l->plan;
    char *at = tables;
    ptrdiff_t taps[2];
    pool_span *spans;
    column_run *runs;
    picks room = { 0 };
    const bool maxima = is_maxima(l), flat = p->flat;
    const int lanes = kernel_of(l)->lanes;
    for (int i = 0; i < 2; i++) {
        sparse *a = &p->each[i];
        const int axis = axis_at(l, &p->definition, i);
        taps[i] = most_taps(l, &p->definition, axis);
        at = lay_out_axis(a, taps[i], i * MOST_PICKS, lanes, at, &runs, &spans);
        if (i == 1) p->runs = runs;
        if (!is_separable(l)) fill_pooling(l, axis, &p->definition.pool, a, spans);
        else
            for (ptrdiff_t o = 0; o < a->out; o++)
                a->begin[o + 1] = a->begin[o] + separable_taps(l, 2 + axis, o, a->taps + a->begin[o]),
                             a->counted[o] = 1;
        a->ordered = is_identity(a);
        a->even = true;
        for (ptrdiff_t o = 1; o < a->out; o++) a->even = a->even && a->counted[o] == a->counted[0];
    }
    p->single = is_single(&p->each[0]);
    p->run_count = 0;
    p->by_runs[0] = p->by_runs[1] = p->flat = false;
    p->same = !maxima && is_copy(&p->each[0]) && is_copy(&p->each[1]);
    for (int i = 0; i < 2; i++) {
        p->axis[i] = p->each[i];
        p->back[i] = axis_of(p->each[i].out, p->each[i].size);
        at = lay_out_axis(&p->back[i], taps[i], i * MOST_PICKS, lanes, at, &runs, &spans);
        transpose(&p->axis[i], &p->back[i]);
        p->back[i].ordered = p->axis[i].ordered;
        find_alike(&p->axis[i]), find_alike(&p->back[i]);
    }
    if (is_separable(l)) rows_find_runs(p);
    p->tall = is_separable(l) && p->run_count == 0 && p->each[0].out > p->each[0].size;
    p->by_planes[0] = p->by_planes[1] = p->abreast = false;
    if (suits_planes(p->each)) at = lay_out_planes(p, &room, lanes, at);
    const ptrdiff_t area = p->each[0].size * p->each[1].size, count = p->each[0].out * p->each[1].out;
    const double all = (double)p->each[0].begin[p->each[0].out] * (double)p->each[1].begin[p->each[1].out];
    const double each = 0.7 * (14 * (double)(padded(area) + padded(count)) + 5 * all) / lanes;
    if (rows_choose(p, maxima, l->impl->isa, &room, flat ? each : INFINITY) <= 0 || !flat) return;
    p->flat = true;
    p->run_count = 0;
    p->by_runs[0] = p->by_runs[1] = p->tall = false;
    p->axis[0] = axis_of(1, 1), p->axis[1] = axis_of(area, count);
    p->back[0] = axis_of(1, 1), p->back[1] = axis_of(count, area);
    taps[1] *= taps[0], taps[0] = 1;
    for (int i = 0; i < 2; i++) at = lay_out_axis(&p->axis[i], taps[i], 0, lanes, at, &runs, &spans);
    flatten(p);
    for (int i = 0; i < 2; i++) {
        at = lay_out_axis(&p->back[i], taps[i], 0, lanes, at, &runs, &spans);
        transpose(&p->axis[i], &p->back[i]);
    }
}
