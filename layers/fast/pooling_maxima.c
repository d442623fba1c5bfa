/* pooling_maxima.c: maxima of windows in any rows and columns: fractional and S3 pooling, spatial pyramids
 * and max-unpooling. Their definitions are in layers/pooling/.
 *
 * In each row of the image the maxima of the columns of windows come first, then in each row of windows those
 * of its rows; or, where there are few columns, rows come first. Places of maxima are kept for the gradient.
 * The first one of equal maxima counts, or the first NaN. */
#include "layers/fast/windows.h"
#include "layers/pooling/family.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>

enum { RUN = 16, NARROW = 12 };
#define MOST_PLACES ((double)(1 << 24)) /* a float counts up to there */

/* The windows of a channel: row r has rows[r], dilation[0] apart; likewise columns. */
typedef struct peaks {
    ptrdiff_t size[2], out[2], dilation[2], wide; /* wide: the elements of the widest column of windows */
    ptrdiff_t pitch;                              /* out[1], in whole vectors */
    pool_span *rows, *columns;
    int *index;                      /* [wide, pitch]: column of element k of each window; its last one where
                                        * it has fewer */
    st_real *number;                 /* the same as numbers */
    st_real *fetched, *most, *place; /* [pitch]; [H, pitch]; of a row of windows, at least [W] */
} peaks;

static ptrdiff_t peaks_pitch(ptrdiff_t out)
{
    return ceil_div(out, RUN) * RUN;
}

/* The room of these for as many windows, as st_reals. */
static ptrdiff_t peaks_room(const ptrdiff_t size[2], const ptrdiff_t out[2], ptrdiff_t wide)
{
    const ptrdiff_t pitch = peaks_pitch(out[1]), spans = (out[0] + out[1]) * (ptrdiff_t)sizeof(pool_span);
    return spans / (ptrdiff_t)sizeof(st_real) + pitch * (2 * wide + 2 + size[0]) +
           2 * largest(size[0] * pitch, peaks_pitch(size[1]));
}

static peaks peaks_in(st_real *room, const ptrdiff_t size[2], const ptrdiff_t out[2], ptrdiff_t wide)
{
    peaks p = { .size = { size[0], size[1] }, .out = { out[0], out[1] }, .dilation = { 1, 1 }, .wide = wide };
    p.pitch = peaks_pitch(out[1]);
    p.rows = (pool_span *)(void *)room, p.columns = p.rows + out[0];
    p.number = (st_real *)(void *)(p.columns + out[1]);
    p.index = (int *)(void *)(p.number + wide * p.pitch);
    p.fetched = p.number + 2 * wide * p.pitch;
    p.most = p.fetched + (size[0] + 2) * p.pitch;
    p.place = p.most + largest(size[0] * p.pitch, peaks_pitch(size[1]));
    return p;
}

/* After the columns are set. */
static void index_columns(peaks *p)
{
    if (p->out[1] < NARROW) return;
    ptrdiff_t most = 1;
    for (ptrdiff_t c = 0; c < p->out[1]; c++) most = largest(most, p->columns[c].count);
    p->wide = most;
    for (ptrdiff_t k = 0; k < most; k++)
        for (ptrdiff_t c = 0; c < p->pitch; c++) {
            const pool_span span = p->columns[smallest(c, p->out[1] - 1)];
            const ptrdiff_t at = span.first + smallest(k, largest(span.count - 1, 0)) * p->dilation[1];
            p->index[k * p->pitch + c] = (int)at, p->number[k * p->pitch + c] = (st_real)at;
        }
}

/* a and its place become those of b where it exceeds a. */
INLINE void exceed(ptrdiff_t n, st_real *restrict a, st_real *restrict place, const st_real *b,
                   const st_real *at, st_real offset)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const st_real v = b[i], most = a[i], there = at[i] + offset, here = place[i];
        const bool exceeds = ((int)!(v <= most) & (int)(most == most)) != 0;
        a[i] = exceeds ? v : most;
        place[i] = exceeds ? there : here;
    }
}

/* All rows are fetched before vectors read them: a vector that reads what was just written in parts waits. */
INLINE void fetch(const peaks *p, const st_real *x, const int *index, st_real *restrict to)
{
    for (ptrdiff_t r = 0; r < p->size[0]; r++, x += p->size[1], to += p->pitch)
        for (ptrdiff_t c = 0; c < p->pitch; c++) to[c] = x[index[c]];
}

INLINE void find_peaks(const peaks *p, const st_real *x, st_real *y, st_real *place)
{
    fetch(p, x, p->index, p->most);
    for (ptrdiff_t r = 0; r < p->size[0]; r++) {
        const st_real first = (st_real)(r * p->size[1]);
        for (ptrdiff_t c = 0; c < p->pitch; c++) p->place[r * p->pitch + c] = p->number[c] + first;
    }
    for (ptrdiff_t k = 1; k < p->wide; k++) {
        fetch(p, x, p->index + k * p->pitch, p->fetched);
        for (ptrdiff_t r = 0; r < p->size[0]; r++)
            exceed(p->pitch, p->most + r * p->pitch, p->place + r * p->pitch, p->fetched + r * p->pitch,
                   p->number + k * p->pitch, (st_real)(r * p->size[1]));
    }
    st_real *most = p->fetched, *at = p->fetched + p->pitch;
    for (ptrdiff_t r = 0; r < p->out[0]; r++, y += p->out[1], place += p->out[1]) {
        const pool_span rows = p->rows[r];
        const ptrdiff_t next = p->dilation[0] * p->pitch;
        const st_real *from = p->most + rows.first * p->pitch, *there = p->place + rows.first * p->pitch;
        memcpy(most, from, (size_t)p->pitch * sizeof *most);
        memcpy(at, there, (size_t)p->pitch * sizeof *at);
        for (ptrdiff_t k = 1; k < rows.count; k++)
            exceed(p->pitch, most, at, from + k * next, there + k * next, 0);
        memcpy(y, most, (size_t)p->out[1] * sizeof *y);
        memcpy(place, at, (size_t)p->out[1] * sizeof *place);
    }
}

/* The same, with rows first: `most` and `place` have a row of the image. */
INLINE void find_few_peaks(const peaks *p, const st_real *x, st_real *y, st_real *place)
{
    const ptrdiff_t wide = p->size[1];
    for (ptrdiff_t r = 0; r < p->out[0]; r++) {
        const pool_span rows = p->rows[r];
        const st_real *row = x + rows.first * wide;
        st_real *restrict most = p->most, *restrict at = p->place;
        for (ptrdiff_t i = 0; i < wide; i++) most[i] = row[i], at[i] = 0;
        for (ptrdiff_t k = 1; k < rows.count; k++) {
            const st_real *next = row + k * p->dilation[0] * wide, number = (st_real)k;
            for (ptrdiff_t i = 0; i < wide; i++) {
                const st_real v = next[i], m = most[i], here = at[i];
                const bool exceeds = ((int)!(v <= m) & (int)(m == m)) != 0;
                most[i] = exceeds ? v : m;
                at[i] = exceeds ? number : here;
            }
        }
        for (ptrdiff_t c = 0; c < p->out[1]; c++) {
            const pool_span span = p->columns[c];
            ptrdiff_t best = span.first;
            for (ptrdiff_t k = 1, i = best + p->dilation[1]; k < span.count; k++, i += p->dilation[1]) {
                const bool alike = most[i] == most[best] || (isnan(most[i]) && isnan(most[best]));
                if (alike ? at[i] < at[best] : !(most[i] <= most[best]) && !isnan(most[best])) best = i;
            }
            *y++ = most[best];
            *place++ = (st_real)((rows.first + (ptrdiff_t)at[best] * p->dilation[0]) * wide + best);
        }
    }
}

#define STAMP(M)                                                                                             \
    M##_TARGET static void M##_peaks(const peaks *p, const st_real *x, st_real *y, st_real *place)           \
    {                                                                                                        \
        if (p->out[1] < NARROW) find_few_peaks(p, x, y, place);                                              \
        else find_peaks(p, x, y, place);                                                                     \
    }
#define ROW_OF_TABLE(M) M##_peaks,
EACH_MACHINE(STAMP)
static void (*const peaks_of[])(const peaks *p, const st_real *x, st_real *y,
                                st_real *place) = { EACH_MACHINE(ROW_OF_TABLE) };

/* dx[place] += dy */
static void add_at_places(ptrdiff_t n, const st_real *place, const st_real *dy, st_real *dx)
{
    for (ptrdiff_t i = 0; i < n; i++) dx[(ptrdiff_t)place[i]] += dy[i];
}

/* Image i of x one element after the other; a view is copied to scratch `slot`. */
static const st_real *image_of(const st_call *c, st_tensor x, ptrdiff_t i, int slot)
{
    const st_tensor one = st_select(x, 0, i);
    if (st_is_contiguous(x)) return st_data(one);
    const st_tensor copy = st_reshape(st_scratch(c, slot), one.shape);
    st_copy(copy, one);
    return st_data(copy);
}

/* ---- poolings of such grids ---------------------------------------------------------------------------- */

typedef struct grid_plan {
    pool_plan pool;      /* comes first, for the definition's functions */
    ptrdiff_t scale[2];  /* S3 in inference: y are means of scale[0] x scale[1] maxima */
    ptrdiff_t kernel[2]; /* of these */
    bool shared;         /* the windows of an image's channels are the same */
    int scratch;
} grid_plan;

enum { COPY, FOUND, ROOM }; /* scratch, from the plan's first slot on: an image; maxima and places; peaks */
enum { PLACES };            /* memory */

static bool grid_suits(const st_layer *l)
{
    const pool_plan *p = l->plan;
    return (double)l->x.n[2] * (double)l->x.n[3] < MOST_PLACES && p->w.kernel[1] <= p->w.size[1];
}

static ptrdiff_t windows_of(const grid_plan *p, int axis)
{
    return p->pool.w.out[axis] * p->scale[axis];
}

static int grid_plan_for(st_layer *l, const void *given)
{
    grid_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    *p = (grid_plan){ .pool = *(const pool_plan *)given, .scale = { 1, 1 } };
    const window *w = &p->pool.w;
    p->shared = l->type == &layer_type_s3_pool;
    if (p->shared) {
        const st_s3_pool_options *o = l->options;
        for (int a = 0; a < 2; a++) {
            p->kernel[a] = o->kernel[a];
            p->scale[a] = o->stride[a] > 0 ? o->stride[a] : o->kernel[a];
        }
    }
    const ptrdiff_t out[] = { windows_of(p, 0), windows_of(p, 1) };
    if (st_layer_memory(l, ST_SHAPE(l->x.n[0], l->x.n[1], out[0], out[1]))) return -1;
    if (pool_request_scratch(l, &p->pool)) return -1;
    p->scratch = l->impl->scratches;
    if (st_layer_scratch(l, ST_SHAPE(l->x.n[1], l->x.n[2], l->x.n[3]))) return -1;
    if (st_layer_scratch(l, ST_SHAPE(2, out[0], out[1]))) return -1;
    return st_layer_scratch(l, ST_SHAPE(peaks_room(w->size, out, w->kernel[1])));
}

/* In inference each window of S3's grid has scale[axis] windows along the axis, one from the other. */
static void divide(const grid_plan *p, int axis, pool_span *spans)
{
    const ptrdiff_t scale = p->scale[axis];
    for (ptrdiff_t i = p->pool.w.out[axis] - 1; i >= 0; i--) {
        const pool_span whole = spans[i];
        for (ptrdiff_t k = scale - 1; k >= 0; k--)
            spans[i * scale + k] =
                (pool_span){ whole.first + k, smallest(p->kernel[axis], whole.count - k), 0 };
    }
}

static void set_grid(const st_call *c, const st_window *at, peaks *k, bool divided)
{
    const grid_plan *p = c->plan;
    p->pool.grid->spans(&p->pool, at, 0, k->rows), p->pool.grid->spans(&p->pool, at, 1, k->columns);
    if (divided) divide(p, 0, k->rows), divide(p, 1, k->columns);
    index_columns(k);
}

static void grid_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const grid_plan *p = c->plan;
    const window *w = &p->pool.w;
    const bool divided = p->shared && !c->training, kept = !c->layer->impl->run->inference_only;
    const ptrdiff_t out[] = { w->out[0] * (divided ? p->scale[0] : 1),
                              w->out[1] * (divided ? p->scale[1] : 1) };
    const ptrdiff_t most = windows_of(p, 0) * windows_of(p, 1), channels = x.shape.n[1];
    peaks k = peaks_in(st_data(st_scratch(c, p->scratch + ROOM)), w->size, out, w->kernel[1]);
    st_real *found = st_data(st_scratch(c, p->scratch + FOUND)), *to = st_data(y), *places = found + most;
    const st_real *image = NULL;
    st_window at = { .options = c->options, .training = c->training, .key = st_call_random(c) };
    for (ptrdiff_t i = 0; i < x.shape.n[0] * channels; i++) {
        if (i % channels == 0) image = image_of(c, x, i / channels, p->scratch + COPY);
        const st_real *from = image + i % channels * w->size[0] * w->size[1];
        at.channel = i % channels, at.number = (uint64_t)(c->first * channels + i);
        if (!p->shared || at.channel == 0) set_grid(c, &at, &k, divided);
        if (kept) places = st_data(st_memory(c, PLACES)) + i * most;
        peaks_of[c->layer->impl->machine](&k, from, divided ? found : to, places);
        for (ptrdiff_t o = 0; o < w->out[0] * w->out[1]; o++, to++) {
            if (!divided) continue;
            double sum = 0;
            for (ptrdiff_t r = 0; r < p->scale[0]; r++)
                for (ptrdiff_t s = 0; s < p->scale[1]; s++)
                    sum += (double)
                        found[(o / w->out[1] * p->scale[0] + r) * out[1] + o % w->out[1] * p->scale[1] + s];
            *to = (st_real)(sum / (double)(p->scale[0] * p->scale[1]));
        }
    }
}

static void grid_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const grid_plan *p = c->plan;
    const window *w = &p->pool.w;
    const bool divided = p->shared && !c->training;
    const ptrdiff_t area = w->size[0] * w->size[1], most = windows_of(p, 0) * windows_of(p, 1),
                    count = w->out[0] * w->out[1], wide = windows_of(p, 1);
    const st_real *places = st_data(st_memory(c, PLACES)), *from = st_data(dy);
    st_real *to = st_data(dx), *shares = st_data(st_scratch(c, p->scratch + FOUND));
    const st_real share = 1 / (st_real)(p->scale[0] * p->scale[1]);
    for (ptrdiff_t i = 0; i < x.shape.n[0] * x.shape.n[1]; i++, to += area, from += count, places += most) {
        memset(to, 0, (size_t)area * sizeof *to);
        for (ptrdiff_t k = 0; k < most && divided; k++)
            shares[k] = share * from[k / wide / p->scale[0] * w->out[1] + k % wide / p->scale[1]];
        if (divided) add_at_places(most, places, shares, to);
        else add_at_places(count, places, from, to);
    }
}

#define GRID_ALGORITHM(NAME)                                                                                 \
    const layer_algorithm NAME##_peaks = { .type = &layer_type_##NAME,                                       \
                                           .suits = grid_suits,                                              \
                                           .plan = grid_plan_for,                                            \
                                           .hooks = { .forward = grid_forward,                               \
                                                      .backward = grid_backward } };
GRID_ALGORITHM(fractional_maxpool)
GRID_ALGORITHM(s3_pool)

/* ---- spatial pyramids ---------------------------------------------------------------------------------- */

typedef struct pyramid_plan {
    ptrdiff_t parts; /* of all levels */
} pyramid_plan;

static bool pyramid_suits(const st_layer *l)
{
    return (double)l->x.n[2] * (double)l->x.n[3] < MOST_PLACES;
}

static int plan_pyramid(st_layer *l, const void *given)
{
    (void)given;
    const ptrdiff_t levels = ((const st_spatial_pyramid_pool_options *)l->options)->levels;
    const ptrdiff_t out[] = { levels, levels }, size[] = { l->x.n[2], l->x.n[3] };
    if (st_layer_memory(l, l->y) || st_layer_scratch(l, ST_SHAPE(l->x.n[1], size[0], size[1]))) return -1;
    return st_layer_scratch(l, ST_SHAPE(peaks_room(size, out, size[1])));
}

static void pyramid_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const int levels = ((const st_spatial_pyramid_pool_options *)c->options)->levels;
    const ptrdiff_t size[] = { x.shape.n[2], x.shape.n[3] }, channels = x.shape.n[1];
    st_real *to = st_data(y), *places = st_data(st_memory(c, PLACES));
    for (ptrdiff_t n = 0; n < x.shape.n[0]; n++) {
        const st_real *image = image_of(c, x, n, 0);
        for (ptrdiff_t parts = 1; parts <= levels; parts++) {
            const ptrdiff_t out[] = { parts, parts };
            peaks k = peaks_in(st_data(st_scratch(c, 1)), size, out, size[1]);
            for (ptrdiff_t i = 0; i < parts; i++)
                k.rows[i] = pool_adaptive_span(i, size[0], parts),
                k.columns[i] = pool_adaptive_span(i, size[1], parts);
            index_columns(&k);
            for (ptrdiff_t i = 0; i < channels; i++, to += parts * parts, places += parts * parts)
                peaks_of[c->layer->impl->machine](&k, image + i * size[0] * size[1], to, places);
        }
    }
}

static void pyramid_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const int levels = ((const st_spatial_pyramid_pool_options *)c->options)->levels;
    const ptrdiff_t area = x.shape.n[2] * x.shape.n[3], channels = x.shape.n[1];
    const st_real *from = st_data(dy), *places = st_data(st_memory(c, PLACES));
    st_fill(dx, 0);
    for (ptrdiff_t n = 0; n < x.shape.n[0]; n++)
        for (ptrdiff_t parts = 1; parts <= levels; parts++)
            for (ptrdiff_t i = 0; i < channels; i++, from += parts * parts, places += parts * parts)
                add_at_places(parts * parts, places, from, st_data(dx) + (n * channels + i) * area);
}

const layer_algorithm spatial_pyramid_pool_peaks = {
    .type = &layer_type_spatial_pyramid_pool,
    .suits = pyramid_suits,
    .plan = plan_pyramid,
    .hooks = { .forward = pyramid_forward, .backward = pyramid_backward },
};

/* ---- max-unpooling ------------------------------------------------------------------------------------- */

enum { POOL, BODY };                 /* children */
enum { DBODY, DPOOL, IMAGE, PEAKS }; /* scratch */

typedef struct unpool_plan {
    pool_plan pool; /* of the layer whose places are used */
    bool fixed;     /* the windows of all channels are the same */
} unpool_plan;

/* Every window has an element, and padding is left out. */
static bool unpool_suits(const st_layer *l)
{
    const pool_plan *p = l->plan;
    const window *w = &p->w;
    if ((double)l->x.n[2] * (double)l->x.n[3] >= MOST_PLACES) return false;
    if (p->grid != &st_regular_grid) return true;
    bool any = true;
    for (int a = 0; a < 2; a++)
        for (ptrdiff_t i = 0; i < w->out[a]; i++) any = any && pool_counted(w, a, i, true) > 0;
    return any && !(p->zeros && window_padded(w));
}

static int plan_unpool(st_layer *l, const void *given)
{
    unpool_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    const st_shape pooled = l->child[POOL]->y;
    p->pool = *(const pool_plan *)given;
    p->fixed = p->pool.grid == &st_regular_grid || p->pool.grid == &pool_adaptive_grid;
    const window *w = &p->pool.w;
    if (st_layer_memory(l, pooled) || st_layer_scratch(l, pooled) || st_layer_scratch(l, pooled)) return -1;
    if (st_layer_scratch(l, ST_SHAPE(l->x.n[1], l->x.n[2], l->x.n[3]))) return -1;
    return st_layer_scratch(l, ST_SHAPE(peaks_room(w->size, w->out, smallest(w->kernel[1], w->size[1]))));
}

static void unpool_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const unpool_plan *p = c->plan;
    const window *w = &p->pool.w;
    const st_layer *pool = c->layer->child[POOL];
    const st_tensor body = st_forward_child(c, BODY, st_forward_child(c, POOL, x));
    const ptrdiff_t area = w->size[0] * w->size[1], count = w->out[0] * w->out[1], channels = x.shape.n[1];
    peaks k = peaks_in(st_data(st_scratch(c, PEAKS)), w->size, w->out, smallest(w->kernel[1], w->size[1]));
    for (int a = 0; a < 2; a++) k.dilation[a] = w->dilation[a];
    st_real *places = st_data(st_memory(c, PLACES)), *to = st_data(y), *most = st_data(st_scratch(c, DPOOL));
    const st_real *from = st_data(body), *image = NULL;
    st_window at = { .options = pool->options, .training = c->training };
    at.key = st_call_random(&(st_call){ .layer = pool });
    for (ptrdiff_t i = 0; i < x.shape.n[0] * channels; i++, places += count, to += area, from += count) {
        at.channel = i % channels, at.number = (uint64_t)i;
        if (i == 0 || !p->fixed) {
            p->pool.grid->spans(&p->pool, &at, 0, k.rows), p->pool.grid->spans(&p->pool, &at, 1, k.columns);
            index_columns(&k);
        }
        if (at.channel == 0) image = image_of(c, x, i / channels, IMAGE);
        peaks_of[c->layer->impl->machine](&k, image + at.channel * area, most, places);
        memset(to, 0, (size_t)area * sizeof *to);
        add_at_places(count, places, from, to);
    }
}

static void unpool_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const window *w = &((const unpool_plan *)c->plan)->pool.w;
    const st_tensor dbody = st_narrow(st_scratch(c, DBODY), 0, 0, c->images),
                    dpool = st_narrow(st_scratch(c, DPOOL), 0, 0, c->images);
    const ptrdiff_t area = w->size[0] * w->size[1], count = w->out[0] * w->out[1];
    const st_real *places = st_data(st_memory(c, PLACES)), *from = st_data(dy);
    st_real *to = st_data(dbody);
    for (ptrdiff_t i = 0; i < x.shape.n[0] * x.shape.n[1]; i++, places += count, from += area, to += count)
        for (ptrdiff_t k = 0; k < count; k++) to[k] = from[(ptrdiff_t)places[k]];
    st_backward_child(c, BODY, st_child_output(c, POOL), dbody, st_is_null(dx) ? dx : dpool);
    if (!st_is_null(dx)) st_backward_child(c, POOL, x, dpool, dx);
}

const layer_algorithm max_unpool_peaks = {
    .type = &layer_type_max_unpool,
    .suits = unpool_suits,
    .plan = plan_unpool,
    .hooks = { .forward = unpool_forward, .backward = unpool_backward },
};
