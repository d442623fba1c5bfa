/* maxima.c: max pooling with windows as lanes: maxima, and gradients back to their positions.
 *
 * A channel is laid out so that adjacent windows read adjacent elements: with its padding, and column j at
 * position j / phases of phase j % phases, where `phases` is the windows' stride. */
#include "layers/fast/algorithms.h"
#include "layers/lanes.h"
#include "layers/layers.h"
#include "layers/pool_impl.h"
#include "layers/types.h"

#include <math.h>
#include <string.h>

typedef struct maxima_layout {
    ptrdiff_t phases, rows, pitch; /* [phases, rows, pitch] */
} maxima_layout;

/* One call: the windows, and workspace. */
typedef struct maxima {
    window w;
    bool pads_zero;       /* the padding is 0; otherwise -inf */
    const st_real *first; /* for each window of a row, the first column of it in the image */
    st_real *copy;        /* a channel, laid out */
    st_real *seen;        /* dy and positions of a channel, with a margin that has no gradients */
} maxima;

/* Maxima of a channel [H, W] of x with such strides, and unless NULL the row-major position of each in its
 * window. An element replaces the maximum so far if it is greater, or the first NaN; if all are -inf, it is
 * the first in the image. */
typedef void maxima_find(const maxima *m, const st_real *x, const ptrdiff_t stride[2], st_real *best,
                         st_real *place);

/* dx [H, W] = each gradient at the position of its maximum. If windows overlap they are added row by row. */
typedef void maxima_scatter(const maxima *m, const st_real *place, const st_real *dy, st_real *dx);

static maxima_layout maxima_arrange(const window *w)
{
    ptrdiff_t wide = w->before[1] + w->size[1] + w->after[1], stride = w->stride[1];
    ptrdiff_t phases = stride < wide ? stride : wide;
    return (maxima_layout){ phases, w->before[0] + w->size[0] + w->after[0], (wide + phases - 1) / phases };
}

/* Whole vectors are read. */
static ptrdiff_t maxima_copy_room(const window *w)
{
    maxima_layout a = maxima_arrange(w);
    return a.phases * a.rows * a.pitch + LANES_MOST;
}

static ptrdiff_t maxima_first_room(const window *w)
{
    return w->out[1] + LANES_MOST;
}

/* ---- channels and their layout --------------------------------------------------------------------- */

/* even[i] = x[2 i], odd[i] = x[2 i + 1]. */
INLINE void part(int lanes, ptrdiff_t n, const st_real *x, st_real *restrict even, st_real *restrict odd)
{
    for (ptrdiff_t i = 0; i < n; i += lanes) {
        i = lanes_within(i, lanes, n);
        const st_real *from = x + 2 * i;
        st_real *e = even + i, *o = odd + i;
        for (int k = 0; k < lanes; k++) {
            e[k] = from[2 * k];
            o[k] = from[2 * k + 1];
        }
    }
}

INLINE void copy(int lanes, ptrdiff_t n, const st_real *x, st_real *restrict y)
{
    for (ptrdiff_t i = 0; i < n; i += lanes) {
        i = lanes_within(i, lanes, n);
        const st_real *from = x + i;
        st_real *to = y + i;
        for (int k = 0; k < lanes; k++) to[k] = from[k];
    }
}

/* A row of n elements from column `begin` on: the first position and the number of those in the phase of
 * element k. */
typedef struct stretch {
    ptrdiff_t at, count;
} stretch;

INLINE stretch stretch_of(maxima_layout a, ptrdiff_t begin, ptrdiff_t n, ptrdiff_t k)
{
    return (stretch){ (begin + k) % a.phases * a.rows * a.pitch + (begin + k) / a.phases,
                      (n - k + a.phases - 1) / a.phases };
}

/* A contiguous row; a row of elements `step` apart. */
INLINE void copy_row(int lanes, maxima_layout a, ptrdiff_t begin, ptrdiff_t n, const st_real *x, st_real *to)
{
    if (a.phases == 1) BY_LANES(lanes, copy, n, x, to + begin);
    else if (a.phases == 2) {
        stretch s = stretch_of(a, begin, n, 0), t = stretch_of(a, begin, n, 1);
        BY_LANES(lanes, part, t.count, x, to + s.at, to + t.at);
        if (n % 2) to[s.at + t.count] = x[n - 1];
    } else
        for (ptrdiff_t k = 0; k < a.phases && k < n; k++) {
            stretch s = stretch_of(a, begin, n, k);
            for (ptrdiff_t i = 0; i < s.count; i++) to[s.at + i] = x[i * a.phases + k];
        }
}

static void copy_row_apart(maxima_layout a, ptrdiff_t begin, ptrdiff_t n, const st_real *x, ptrdiff_t step,
                           st_real *to)
{
    for (ptrdiff_t k = 0; k < a.phases && k < n; k++) {
        stretch s = stretch_of(a, begin, n, k);
        for (ptrdiff_t i = 0; i < s.count; i++) to[s.at + i] = x[(i * a.phases + k) * step];
    }
}

INLINE void copy_channel(int lanes, const maxima *m, maxima_layout a, const st_real *x,
                         const ptrdiff_t stride[2])
{
    const window *w = &m->w;
    ptrdiff_t rows = w->size[0], n = w->size[1];
    if (stride[0] == n * stride[1] && a.pitch * a.phases == n) { /* all rows are contiguous: one row */
        n *= rows;
        rows = 1;
    }
    st_real *to = m->copy + w->before[0] * a.pitch;
    for (ptrdiff_t row = 0; row < rows; row++, x += stride[0], to += a.pitch) {
        if (stride[1] == 1) copy_row(lanes, a, w->before[1], n, x, to);
        else copy_row_apart(a, w->before[1], n, x, stride[1], to);
    }
}

/* ---- maxima ---------------------------------------------------------------------------------------- */

/* The first element of a window, along an axis, that is in the image; 0 if none is. */
static int first_inside(const window *w, int axis, ptrdiff_t at)
{
    ptrdiff_t outside = w->before[axis] - at * w->stride[axis], dilation = w->dilation[axis];
    ptrdiff_t first = outside > 0 ? (outside + dilation - 1) / dilation : 0;
    return first < w->kernel[axis] ? (int)first : 0;
}

static void fill(st_real *to, ptrdiff_t n, st_real value)
{
    for (ptrdiff_t i = 0; i < n; i++) to[i] = value;
}

/* The border of the copy. */
static void maxima_prepare(const maxima *m)
{
    if (window_padded(&m->w)) fill(m->copy, maxima_copy_room(&m->w), m->pads_zero ? 0 : -(st_real)INFINITY);
}

/* A row of windows from x on; rows are `down` apart, phases `apart`. */
typedef struct windows {
    const st_real *x, *first;
    st_real first_row; /* the first row of them in the image, times their width */
    ptrdiff_t down, apart, phases, dilation;
    int high, wide;
} windows;

typedef void find_vector(windows r, ptrdiff_t i, st_real *best, st_real *place, ptrdiff_t count);

/* A vector of windows from number i on; `count` of them are needed. */
#define FIND(M, NAME, PLACES)                                                                                \
    M##_TARGET INLINE void M##_##NAME(windows r, ptrdiff_t i, st_real *best_to, st_real *place_to,           \
                                      ptrdiff_t count)                                                       \
    {                                                                                                        \
        M##_vector best = (M##_vector){ 0 } - (st_real)INFINITY, number = { 0 };                             \
        M##_vector place = *(const M##_loose *)(r.first + i) + r.first_row;                                  \
        for (int kh = 0; kh < r.high; kh++) {                                                                \
            const st_real *x = r.x + kh * r.down + i;                                                        \
            ptrdiff_t phase = 0;                                                                             \
            for (int kw = 0; kw < r.wide; kw++, number += 1) {                                               \
                M##_vector value = *(const M##_loose *)(x + phase * r.apart);                                \
                M##_mask exceeds = ~(value <= best) & (best == best);                                        \
                best = MACHINE_PICK(M, exceeds, value, best);                                                \
                if (PLACES) place = MACHINE_PICK(M, exceeds, number, place);                                 \
                for (phase += r.dilation; phase >= r.phases; phase -= r.phases) x++;                         \
            }                                                                                                \
        }                                                                                                    \
        if (count >= MACHINE_LANES(M)) {                                                                     \
            *(M##_loose *)best_to = best;                                                                    \
            if (PLACES) *(M##_loose *)place_to = place;                                                      \
        } else {                                                                                             \
            for (ptrdiff_t k = 0; k < count; k++) {                                                          \
                best_to[k] = best[k];                                                                        \
                if (PLACES) place_to[k] = place[k];                                                          \
            }                                                                                                \
        }                                                                                                    \
    }

/* Row by row: values written beyond the end of a row are overwritten by the next one; nothing is written
 * beyond the last one. */
INLINE void find_rows(int lanes, const maxima *m, maxima_layout a, windows r, find_vector *find,
                      st_real *best, st_real *place)
{
    const window *w = &m->w;
    ptrdiff_t n = w->out[1], left = w->out[0] * n;
    r.first = m->first;
    r.down = w->dilation[0] * a.pitch;
    r.apart = a.rows * a.pitch;
    for (ptrdiff_t oh = 0; oh < w->out[0]; oh++, left -= n) {
        r.first_row = m->pads_zero ? 0 : (st_real)first_inside(w, 0, oh) * (st_real)r.wide;
        for (ptrdiff_t i = 0; i < n; i += lanes) {
            if (n >= lanes) i = lanes_within(i, lanes, n);
            find(r, i, best + i, place ? place + i : NULL, left - i);
        }
        r.x += w->stride[0] * a.pitch;
        best += n;
        if (place) place += n;
    }
}

/* Constants for the most common windows, so that the compiler unrolls them. */
INLINE void find_common(int lanes, const maxima *m, maxima_layout a, const st_real *x, find_vector *find,
                        st_real *best, st_real *place)
{
    const window *w = &m->w;
    const int high = w->kernel[0], wide = w->kernel[1], dilation = w->dilation[1];
    windows two = { .x = x, .phases = 2, .dilation = 1, .high = 2, .wide = 2 }, three = two,
            three_beside = two;
    windows any = { .x = x, .phases = a.phases, .dilation = dilation, .high = high, .wide = wide };
    three.high = three.wide = three_beside.high = three_beside.wide = 3;
    three_beside.phases = 1;
    bool pair = high == 2 && wide == 2 && dilation == 1, triple = high == 3 && wide == 3 && dilation == 1;
    if (pair && a.phases == 2) find_rows(lanes, m, a, two, find, best, place);
    else if (triple && a.phases == 2) find_rows(lanes, m, a, three, find, best, place);
    else if (triple && a.phases == 1) find_rows(lanes, m, a, three_beside, find, best, place);
    else find_rows(lanes, m, a, any, find, best, place);
}

/* Reads windows in place if adjacent ones are adjacent in x and no vector reads beyond it. */
INLINE void find_channel(int lanes, const maxima *m, const st_real *x, const ptrdiff_t stride[2],
                         find_vector *values, find_vector *places, st_real *best, st_real *place)
{
    maxima_layout a = maxima_arrange(&m->w);
    if (a.phases == 1 && stride[1] == 1 && !window_padded(&m->w) && m->w.out[1] >= lanes) a.pitch = stride[0];
    else {
        copy_channel(lanes, m, a, x, stride);
        x = m->copy;
    }
    if (place) find_common(lanes, m, a, x, places, best, place);
    else find_common(lanes, m, a, x, values, best, NULL);
}

/* ---- gradients ------------------------------------------------------------------------------------- */

/* Gathers when few windows overlap an element. */
static bool gathers(const window *w, int lanes)
{
    bool near = w->dilation[0] == 1 && w->dilation[1] == 1;
    return near && w->stride[1] <= 2 && w->kernel[0] <= 4 * lanes / w->kernel[1];
}

/* dy and positions of a channel, [2, OH, pitch], each row after a margin. Positions beside the windows of a
 * row match nothing, so that dy there is not used. */
typedef struct seen {
    ptrdiff_t margin, pitch, places; /* the distance from dy to the positions */
    st_real *dy;
} seen;

static seen see(const window *w, st_real *room)
{
    ptrdiff_t margin = (w->kernel[1] - 1) / w->stride[1];
    ptrdiff_t reach = (w->before[1] + w->size[1]) / w->stride[1] + 1, pitch = margin + reach + LANES_MOST;
    return (seen){ margin, pitch, w->out[0] * pitch, room };
}

static ptrdiff_t maxima_seen_room(const window *w)
{
    return gathers(w, LANES_MOST) ? 2 * see(w, NULL).places : 1;
}

static void maxima_prepare_adjoint(const maxima *m)
{
    if (!gathers(&m->w, LANES_MOST)) return;
    seen s = see(&m->w, m->seen);
    fill(s.dy + s.places, s.places, -1);
}

/* The windows that overlap a row of the image: rows begin ... end - 1, which have it as their row first - oh
 * * down. */
typedef struct reach {
    ptrdiff_t begin, end, first, down, pitch, places;
    const st_real
        *dy; /* of the window that begins in the padded column of column 0 or, with `odd`, one earlier */
    int stride, odd, wide;
} reach;

typedef void gather_vector(reach r, ptrdiff_t i, st_real *to, ptrdiff_t count);

/* `stride` vectors of columns from i * stride on; `count` elements are needed. Column i * stride + q is at
 * position i + shift of its phase, and is column phase + k * stride of the window k positions before. Windows
 * are processed from left to right. */
#define GATHER(M)                                                                                            \
    M##_TARGET INLINE void M##_gather(reach r, ptrdiff_t i, st_real *to, ptrdiff_t count)                    \
    {                                                                                                        \
        enum { LANES = MACHINE_LANES(M) };                                                                   \
        M##_vector sum[2] = { { 0 }, { 0 } };                                                                \
        for (ptrdiff_t oh = r.begin; oh < r.end; oh++) {                                                     \
            const st_real before = (st_real)((r.first - oh * r.down) * r.wide);                              \
            for (int q = 0; q < r.stride; q++) {                                                             \
                const int phase = (q + r.odd) % r.stride, shift = (q + r.odd) / r.stride;                    \
                const st_real *dy = r.dy + oh * r.pitch + i + shift, *place = dy + r.places;                 \
                for (int k = (r.wide - 1 - phase + r.stride) / r.stride - 1; k >= 0; k--) {                  \
                    M##_vector gradient = *(const M##_loose *)(dy - k);                                      \
                    M##_vector column = *(const M##_loose *)(place - k) - before;                            \
                    M##_mask here = column == (M##_vector){ 0 } + (st_real)(phase + k * r.stride);           \
                    sum[q] += (M##_vector)(here & (M##_mask)gradient);                                       \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        if (r.stride == 1 && count >= LANES) *(M##_loose *)to = sum[0];                                      \
        else if (count >= 2 * LANES)                                                                         \
            for (int k = 0; k < LANES; k++) to[2 * k] = sum[0][k], to[2 * k + 1] = sum[1][k];                \
        else                                                                                                 \
            for (int k = 0; k < r.stride * LANES && k < count; k++) to[k] = sum[k % r.stride][k / r.stride]; \
    }

/* As in find_rows, values written beyond the end of a row are overwritten by the next one. */
INLINE void gather_rows(int lanes, const maxima *m, int stride, int odd, int wide, gather_vector *gather,
                        const st_real *place, const st_real *dy, st_real *dx)
{
    const window *w = &m->w;
    const ptrdiff_t count = w->out[1], n = w->size[1], vectors = (n + stride - 1) / stride;
    const seen s = see(w, m->seen);
    for (ptrdiff_t oh = 0; oh < w->out[0]; oh++, dy += count, place += count) {
        st_real *to = s.dy + oh * s.pitch + s.margin;
        BY_LANES(lanes, copy, count, dy, to);
        BY_LANES(lanes, copy, count, place, to + s.places);
    }
    reach r = {
        .down = w->stride[0], .pitch = s.pitch, .places = s.places, .stride = stride, .odd = odd, .wide = wide
    };
    r.dy = s.dy + s.margin + w->before[1] / stride;
    ptrdiff_t left = w->size[0] * n;
    for (ptrdiff_t h = 0; h < w->size[0]; h++, dx += n, left -= n) {
        r.first = h + w->before[0];
        r.begin = r.first < w->kernel[0] ? 0 : (r.first - w->kernel[0]) / r.down + 1;
        r.end = r.first / r.down + 1 < w->out[0] ? r.first / r.down + 1 : w->out[0];
        for (ptrdiff_t i = 0; i < vectors; i += lanes) {
            if (vectors >= lanes) i = lanes_within(i, lanes, vectors);
            gather(r, i, dx + i * stride, left - i * stride);
        }
    }
}

INLINE void gather_common(int lanes, const maxima *m, gather_vector *gather, const st_real *place,
                          const st_real *dy, st_real *dx)
{
    const int wide = m->w.kernel[1], odd = (int)(m->w.before[1] % 2);
    if (m->w.stride[1] == 1) gather_rows(lanes, m, 1, 0, wide, gather, place, dy, dx);
    else if (wide == 3 && odd) gather_rows(lanes, m, 2, 1, 3, gather, place, dy, dx);
    else if (wide == 3) gather_rows(lanes, m, 2, 0, 3, gather, place, dy, dx);
    else gather_rows(lanes, m, 2, odd, wide, gather, place, dy, dx);
}

/* 2×2 windows with stride 2: elements that are not a maximum become 0, without a pass that zeroes dx
 * first. */
INLINE void choose_row(int lanes, ptrdiff_t n, const st_real *place, const st_real *dy, st_real *restrict up,
                       st_real *restrict down)
{
    for (ptrdiff_t begin = 0; begin < n; begin += lanes) {
        begin = lanes_within(begin, lanes, n);
        const st_real *at = place + begin, *from = dy + begin;
        st_real *a = up + 2 * begin, *b = down + 2 * begin;
#pragma GCC unroll 1 /* otherwise gcc unrolls the loop first and does not vectorise it */
        for (int i = 0; i < lanes; i++) {
            const st_real which = at[i], value = from[i];
            a[2 * i] = which == 0 ? value : 0;
            a[2 * i + 1] = which == 1 ? value : 0;
            b[2 * i] = which == 2 ? value : 0;
            b[2 * i + 1] = which == 3 ? value : 0;
        }
    }
}

INLINE void choose(int lanes, const maxima *m, const st_real *place, const st_real *dy, st_real *dx)
{
    const ptrdiff_t wide = m->w.size[1], n = m->w.out[1];
    for (ptrdiff_t oh = 0; oh < m->w.out[0]; oh++, place += n, dy += n, dx += 2 * wide) {
        BY_LANES(lanes, choose_row, n, place, dy, dx, dx + wide);
        if (wide % 2) dx[wide - 1] = dx[2 * wide - 1] = 0;
    }
    if (m->w.size[0] % 2) fill(dx, wide, 0); /* a last row in no window */
}

/* Scatters each gradient to its position in the image: for large windows that overlap little. */
static void scatter(const maxima *m, const st_real *place, const st_real *dy, st_real *dx)
{
    const window *w = &m->w;
    memset(dx, 0, (size_t)(w->size[0] * w->size[1]) * sizeof(st_real));
    for (ptrdiff_t oh = 0; oh < w->out[0]; oh++)
        for (ptrdiff_t ow = 0; ow < w->out[1]; ow++) {
            ptrdiff_t where = (ptrdiff_t)*place++;
            ptrdiff_t h = oh * w->stride[0] - w->before[0] + where / w->kernel[1] * w->dilation[0];
            ptrdiff_t v = ow * w->stride[1] - w->before[1] + where % w->kernel[1] * w->dilation[1];
            if (h >= 0 && h < w->size[0] && v >= 0 && v < w->size[1]) dx[h * w->size[1] + v] += *dy;
            dy++;
        }
}

/* ---- for each machine ------------------------------------------------------------------------------ */

#define STAMP(M)                                                                                             \
    FIND(M, find_values, false)                                                                              \
    FIND(M, find_places, true)                                                                               \
    M##_TARGET static void M##_find(const maxima *m, const st_real *x, const ptrdiff_t stride[2],            \
                                    st_real *best, st_real *place)                                           \
    {                                                                                                        \
        find_channel(MACHINE_LANES(M), m, x, stride, M##_find_values, M##_find_places, best, place);         \
    }                                                                                                        \
    GATHER(M)                                                                                                \
    M##_TARGET static void M##_scatter(const maxima *m, const st_real *place, const st_real *dy,             \
                                       st_real *dx)                                                          \
    {                                                                                                        \
        gather_common(MACHINE_LANES(M), m, M##_gather, place, dy, dx);                                       \
    }                                                                                                        \
    M##_TARGET static void M##_choose(const maxima *m, const st_real *place, const st_real *dy, st_real *dx) \
    {                                                                                                        \
        choose(MACHINE_LANES(M), m, place, dy, dx);                                                          \
    }

#define ROW_OF_TABLE(M) { MACHINE_LANES(M), M##_find, M##_scatter, M##_choose },

EACH_MACHINE(STAMP)
static const struct {
    int lanes;
    maxima_find *find;
    maxima_scatter *scatter, *choose;
} machines[] = { EACH_MACHINE(ROW_OF_TABLE) };

/* ---- the algorithm --------------------------------------------------------------------------------- */

enum { COPY, SEEN, MAXIMA, PLACES }; /* scratch, for one channel */
enum { WHERE };                      /* memory, written in training: the position of each maximum */

/* Begins with the members of pool_plan. */
typedef struct maxima_plan {
    window w;
    st_real padding;
    st_real first[];
} maxima_plan;

/* Positions are stored as st_real. */
static bool suits(const st_layer *l)
{
    const window *w = &((const pool_plan *)l->plan)->w;
    return (double)w->kernel[0] * w->kernel[1] <= 1 / (double)ST_REAL_EPSILON;
}

static int plan(st_layer *l, const void *given)
{
    const pool_plan *pool = given;
    const window *w = &pool->w;
    const ptrdiff_t count = w->out[0] * w->out[1];
    maxima_plan *p = st_layer_plan_data(l, sizeof *p + (size_t)maxima_first_room(w) * sizeof *p->first);
    if (!p) return -1;
    p->w = *w;
    p->padding = pool->padding;
    for (ptrdiff_t ow = 0; ow < w->out[1] && pool->padding != 0; ow++)
        p->first[ow] = (st_real)first_inside(w, 1, ow);
    if (st_layer_memory(l, l->y)) return -1;
    const ptrdiff_t room[] = { maxima_copy_room(w), maxima_seen_room(w), count, count };
    for (size_t i = 0; i < sizeof room / sizeof *room; i++)
        if (st_layer_scratch(l, ST_SHAPE(room[i]))) return -1;
    return 0;
}

static maxima begin(const st_call *c)
{
    const maxima_plan *p = c->plan;
    return (maxima){ .w = p->w,
                     .pads_zero = p->padding == 0,
                     .first = p->first,
                     .copy = st_data(st_scratch(c, COPY)),
                     .seen = st_data(st_scratch(c, SEEN)) };
}

static const st_real *channel(st_tensor x, ptrdiff_t i, ptrdiff_t c)
{
    return st_data(x) + i * x.stride[0] + c * x.stride[1];
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const maxima m = begin(c);
    maxima_find *find = machines[c->layer->impl->machine].find;
    maxima_prepare(&m);
    ptrdiff_t area = m.w.out[0] * m.w.out[1];
    st_real *out = st_data(y), *where = c->training ? st_data(st_memory(c, WHERE)) : NULL;
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t k = 0; k < x.shape.n[1]; k++, out += area) {
            find(&m, channel(x, i, k), x.stride + 2, out, where);
            if (where) where += area;
        }
}

static maxima_scatter *scatterer(const st_call *c, const window *w)
{
    bool near = w->dilation[0] == 1 && w->dilation[1] == 1, pairs = w->kernel[0] == 2 && w->kernel[1] == 2;
    int machine = c->layer->impl->machine;
    if (pairs && near && w->stride[0] == 2 && w->stride[1] == 2 && !window_padded(w))
        return machines[machine].choose;
    return gathers(w, machines[machine].lanes) ? machines[machine].scatter : scatter;
}

/* Inference saved no positions: they are computed again. */
static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const maxima m = begin(c);
    maxima_find *find = machines[c->layer->impl->machine].find;
    maxima_scatter *scatter_to = scatterer(c, &m.w);
    if (!c->training) maxima_prepare(&m);
    maxima_prepare_adjoint(&m);
    ptrdiff_t area = m.w.out[0] * m.w.out[1], image = m.w.size[0] * m.w.size[1];
    const st_real *out = st_data(dy), *where = st_data(st_memory(c, WHERE));
    st_real *to = st_data(dx), *best = st_data(st_scratch(c, MAXIMA)),
            *again = st_data(st_scratch(c, PLACES));
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++)
        for (ptrdiff_t k = 0; k < dx.shape.n[1]; k++, out += area, where += area, to += image) {
            if (!c->training) find(&m, channel(x, i, k), x.stride + 2, best, again);
            scatter_to(&m, c->training ? where : again, out, to);
        }
}

const layer_algorithm maxpool_vectors = {
    .type = &layer_type_maxpool,
    .suits = suits,
    .plan = plan,
    .hooks = { .forward = forward, .backward = backward },
};
