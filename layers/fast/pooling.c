/* pooling.c: max and average pooling by vectors: maxima of windows with stride 1 or 2 and without dilation,
 * means of 2×2 windows and of whole images.
 *
 * Channels are computed one by one. Maxima have windows as lanes; gradients go to the positions of maxima,
 * which the forward pass saves. */
#include "layers/fast/algorithms.h"
#include "layers/lanes.h"
#include "layers/layers.h"
#include "layers/pool_impl.h"
#include "layers/types.h"
#include "tensor/counts.h"
#include "tensor/sum.h"

#include <math.h>
#include <string.h>

enum { STRIDE_MOST = 2, ROW = 4096 }; /* the position of an element of a channel is row * ROW + column */
enum { MEAN, MEANS, MAXIMA, KINDS };  /* the mean of a channel, of pairs; maxima */

/* For maxima a channel is laid out so that adjacent windows read adjacent elements: column j, counted from
 * the padding on, is at position j / stride of phase j % stride, [stride, H + 1, pitch]. The last row is
 * padding. */
typedef struct pooling {
    window w;
    int kind;
    bool pairs;             /* 2×2 windows with stride 2 and without padding */
    ptrdiff_t area, count;  /* elements of a channel, and its windows */
    st_real weight;         /* of each element in the mean of a channel */
    ptrdiff_t pitch, phase; /* distances of rows and phases */
    ptrdiff_t margin, edge; /* elements that vectors may pass a channel's ends by; channels with that many */
    ptrdiff_t room;         /* elements of each row of */
    st_real columns[];      /* [2, room]: the first column of each window; the first one of it in the image */
} pooling;

/* y of a channel x [H, W], and unless NULL the positions of maxima; and dx [channels, H, W]. */
typedef void pool_forward(const pooling *p, const st_real *x, st_real *copy, st_real *y, st_real *place);
typedef void pool_backward(const pooling *p, ptrdiff_t channels, const st_real *dy, const st_real *place,
                           st_real *dx);

/* ---- pairs: 2×2 windows with stride 2 -------------------------------------------------------------- */

INLINE void sum_pairs(int lanes, ptrdiff_t n, const st_real *up, const st_real *down, st_real *restrict y)
{
    for (ptrdiff_t begin = 0; begin < n; begin += lanes) {
        begin = lanes_within(begin, lanes, n);
        const st_real *a = up + 2 * begin, *b = down + 2 * begin;
        st_real *to = y + begin;
        for (int i = 0; i < lanes; i++)
            to[i] = ((a[2 * i] + b[2 * i]) + (a[2 * i + 1] + b[2 * i + 1])) * (st_real)0.25;
    }
}

/* A row shorter than a vector is computed as a whole vector: values beyond its end are overwritten by the
 * next one. The last rows are computed exactly, as nothing may be read or written beyond them. */
INLINE void mean_pairs(int lanes, const window *w, const st_real *x, st_real *y)
{
    const ptrdiff_t n = w->out[1], wide = w->size[1];
    ptrdiff_t left = w->out[0] * n, left_down = (w->size[0] - 1) * wide; /* from the lower row on */
    for (ptrdiff_t oh = 0; oh < w->out[0]; oh++, left -= n, left_down -= 2 * wide, x += 2 * wide, y += n) {
        const bool whole = n < lanes && left >= lanes && left_down >= 2 * lanes;
        BY_LANES(lanes, sum_pairs, whole ? lanes : n, x, x + wide, y);
    }
}

/* Each gradient goes to the position of the maximum, the others become 0; or, without positions, a quarter of
 * it to all four. */
INLINE void spread_pairs(int lanes, ptrdiff_t n, const st_real *dy, const st_real *place,
                         st_real *restrict up, st_real *restrict down)
{
    for (ptrdiff_t begin = 0; begin < n; begin += lanes) {
        begin = lanes_within(begin, lanes, n);
        const st_real *from = dy + begin, *at = place ? place + begin : NULL;
        st_real *a = up + 2 * begin, *b = down + 2 * begin;
#pragma GCC unroll 1 /* otherwise gcc unrolls the loop first and does not vectorise it */
        for (int i = 0; i < lanes; i++) {
            const st_real value = place ? from[i] : from[i] * (st_real)0.25, which = place ? at[i] : 0;
            a[2 * i] = !place || which == 0 ? value : 0;
            a[2 * i + 1] = !place || which == 1 ? value : 0;
            b[2 * i] = !place || which == ROW ? value : 0;
            b[2 * i + 1] = !place || which == ROW + 1 ? value : 0;
        }
    }
}

INLINE void spread_channel(int lanes, const window *w, const st_real *dy, const st_real *place, st_real *dx)
{
    const ptrdiff_t n = w->out[1], wide = w->size[1];
    for (ptrdiff_t oh = 0; oh < w->out[0]; oh++, dy += n, dx += 2 * wide) {
        BY_LANES(lanes, spread_pairs, n, dy, place, dx, dx + wide);
        if (wide % 2) dx[wide - 1] = dx[2 * wide - 1] = 0;
        if (place) place += n;
    }
    if (w->size[0] % 2) memset(dx, 0, (size_t)wide * sizeof *dx); /* a last row in no window */
}

/* ---- maxima ---------------------------------------------------------------------------------------- */

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

INLINE void lay_out(int lanes, const pooling *p, const st_real *x, st_real *copy)
{
    const window *w = &p->w;
    const ptrdiff_t stride = w->stride[1], before = w->before[1];
    const bool gaps = p->pitch * stride != w->size[1]; /* otherwise the channel is one row */
    const ptrdiff_t rows = gaps ? w->size[0] : 1, n = w->size[0] * w->size[1] / rows;
    st_real *first = copy + before / stride + before % stride * p->phase;
    st_real *second = copy + (before + 1) / stride + (before + 1) % stride * p->phase;
    for (ptrdiff_t row = 0; row < rows; row++, x += n, first += p->pitch, second += p->pitch) {
        if (stride == 1) memcpy(first, x, (size_t)n * sizeof *x);
        else BY_LANES(lanes, part, n / 2, x, first, second);
        if (n % stride) first[n / 2] = x[n - 1];
    }
}

/* A row of windows. Rows beyond the image are the layout's last one. */
typedef struct windows {
    const st_real *x, *columns;
    ptrdiff_t pitch, phase, room, top, rows; /* top: the windows' first row */
    int high, wide, stride;
    bool pairs;          /* positions are counted from the window's first element */
    st_real first, skip; /* the position of row `top`; from it to the first row in the image */
} windows;

typedef void find_vector(windows r, ptrdiff_t i, st_real *best, st_real *place);

/* The maxima of a vector of windows from number i on. An element replaces the maximum so far if it is
 * greater, or the first NaN; if all are -inf, it is the first in the image. */
#define FIND(M)                                                                                              \
    M##_TARGET INLINE void M##_find(windows r, ptrdiff_t i, st_real *best_to, st_real *place_to)             \
    {                                                                                                        \
        const M##_vector zero = { 0 };                                                                       \
        M##_vector best = zero - (st_real)INFINITY, number = zero, place = zero, first = zero;               \
        if (!r.pairs) {                                                                                      \
            first = *(const M##_loose *)(r.columns + i) + r.first;                                           \
            place = *(const M##_loose *)(r.columns + r.room + i) + r.skip;                                   \
        }                                                                                                    \
        for (int kh = 0; kh < r.high; kh++, number += (st_real)(ROW - r.wide)) {                             \
            const ptrdiff_t row = r.top + kh, inside = row >= 0 && row < r.rows ? row : r.rows;              \
            for (int kw = 0; kw < r.wide; kw++, number += 1) {                                               \
                const st_real *x = r.x + inside * r.pitch + kw % r.stride * r.phase + kw / r.stride + i;     \
                M##_vector value = *(const M##_loose *)x;                                                    \
                M##_mask exceeds = ~(value <= best) & (best == best);                                        \
                best = MACHINE_PICK(M, exceeds, value, best);                                                \
                if (place_to) place = MACHINE_PICK(M, exceeds, number, place);                               \
            }                                                                                                \
        }                                                                                                    \
        *(M##_loose *)best_to = best;                                                                        \
        if (place_to) *(M##_loose *)place_to = place + first;                                                \
    }

/* Row by row: numbers written beyond the end of a row are overwritten by the next one. */
INLINE void find_rows(int lanes, const pooling *p, int size, int stride, bool pairs, const st_real *copy,
                      find_vector *find, st_real *best, st_real *place)
{
    const window *w = &p->w;
    const ptrdiff_t n = w->out[1];
    windows r = { copy, p->columns, p->pitch, p->phase, p->room, .rows = w->size[0], .stride = stride };
    r.high = size ? size : w->kernel[0];
    r.wide = size ? size : w->kernel[1];
    r.pairs = pairs;
    for (ptrdiff_t oh = 0; oh < w->out[0]; oh++, best += n) {
        r.top = oh * w->stride[0] - w->before[0];
        r.first = (st_real)(r.top * ROW);
        r.skip = r.top < 0 ? -r.first : 0;
        for (ptrdiff_t i = 0; i < n; i += lanes) {
            if (n >= lanes) i = lanes_within(i, lanes, n);
            find(r, i, best + i, place ? place + i : NULL);
        }
        if (place) place += n;
    }
}

/* Constants for the most common windows, so that the compiler unrolls them. */
INLINE void find_channel(int lanes, const pooling *p, const st_real *x, st_real *copy, find_vector *find,
                         st_real *best, st_real *place)
{
    const int size = p->w.kernel[0] == p->w.kernel[1] ? p->w.kernel[0] : 0, stride = p->w.stride[1];
    lay_out(lanes, p, x, copy);
    if (p->pairs) find_rows(lanes, p, 2, 2, true, copy, find, best, place);
    else if (size == 3 && stride == 2) find_rows(lanes, p, 3, 2, false, copy, find, best, place);
    else if (size == 3) find_rows(lanes, p, 3, 1, false, copy, find, best, place);
    else if (stride == 2) find_rows(lanes, p, 0, 2, false, copy, find, best, place);
    else find_rows(lanes, p, 0, 1, false, copy, find, best, place);
}

/* ---- their gradients ------------------------------------------------------------------------------- */

/* The windows that overlap a row of the image: rows begin ... end - 1 of n windows. */
typedef struct reach {
    const st_real *place, *dy, *columns;
    ptrdiff_t begin, end, n, shift; /* shift: the padding / stride */
    int wide, stride, odd;          /* odd: the padding % stride */
    st_real first;                  /* the position of column 0, and of its padding in `columns` */
} reach;

typedef void gather_vector(reach r, ptrdiff_t i, st_real *to);

/* `stride` vectors of elements from column i * stride on. Column kw of a window is column c of its `stride`
 * elements. Windows are added from left to right. Those read beyond the ends of their row have their maxima
 * in other columns. */
#define GATHER(M)                                                                                            \
    M##_TARGET INLINE void M##_gather(reach r, ptrdiff_t i, st_real *to)                                     \
    {                                                                                                        \
        M##_vector sum[STRIDE_MOST] = { { 0 }, { 0 } };                                                      \
        const M##_vector first = *(const M##_loose *)(r.columns + i) + r.first;                              \
        for (ptrdiff_t oh = r.begin; oh < r.end; oh++)                                                       \
            for (int kw = r.wide - 1; kw >= 0; kw--) {                                                       \
                const int c = (kw + r.odd) % r.stride;                                                       \
                const ptrdiff_t at = oh * r.n + i + r.shift + (c + r.odd - kw) / r.stride;                   \
                M##_mask here = *(const M##_loose *)(r.place + at) == first + (st_real)c;                    \
                sum[c] += (M##_vector)(here & (M##_mask) * (const M##_loose *)(r.dy + at));                  \
            }                                                                                                \
        if (r.stride == 1) *(M##_loose *)to = sum[0];                                                        \
        else                                                                                                 \
            for (int k = 0; k < MACHINE_LANES(M); k++) {                                                     \
                to[2 * k] = sum[0][k];                                                                       \
                to[2 * k + 1] = sum[1][k];                                                                   \
            }                                                                                                \
    }

/* Row by row, as find_rows. */
INLINE void gather_rows(int lanes, const pooling *p, int wide, int stride, int odd, gather_vector *gather,
                        const st_real *place, const st_real *dy, st_real *dx)
{
    const window *w = &p->w;
    const ptrdiff_t n = w->size[1], vectors = ceil_div(n, stride);
    reach r = { place, dy, p->columns, .n = w->out[1], .wide = wide, .stride = stride, .odd = odd };
    r.shift = w->before[1] / stride;
    for (ptrdiff_t row = w->before[0]; row < w->before[0] + w->size[0]; row++, dx += n) {
        while (r.begin * w->stride[0] + w->kernel[0] <= row) r.begin++;
        while (r.end < w->out[0] && r.end * w->stride[0] <= row) r.end++;
        r.first = (st_real)((row - w->before[0]) * ROW + w->before[1]);
        for (ptrdiff_t i = 0; i < vectors; i += lanes) {
            if (vectors >= lanes) i = lanes_within(i, lanes, vectors);
            gather(r, i, dx + i * stride);
        }
    }
}

INLINE void gather_channel(int lanes, const pooling *p, gather_vector *gather, const st_real *place,
                           const st_real *dy, st_real *dx)
{
    const int wide = p->w.kernel[1], stride = p->w.stride[1], odd = (int)p->w.before[1] % stride;
    if (p->pairs) spread_channel(lanes, &p->w, dy, place, dx);
    else if (stride == 1) gather_rows(lanes, p, wide, 1, 0, gather, place, dy, dx);
    else if (wide == 3 && odd) gather_rows(lanes, p, 3, 2, 1, gather, place, dy, dx);
    else if (wide == 3) gather_rows(lanes, p, 3, 2, 0, gather, place, dy, dx);
    else gather_rows(lanes, p, wide, 2, odd, gather, place, dy, dx);
}

INLINE void spread_mean(ptrdiff_t area, st_real part, st_real *dx)
{
    for (ptrdiff_t i = 0; i < area; i++) dx[i] = part;
}

/* ---- channels, for each machine -------------------------------------------------------------------- */

/* Functions of a kind of pooling; the last argument computes a channel. */
#define FORWARD(M, KIND, ...)                                                                                \
    M##_TARGET static void M##_##KIND(const pooling *p, const st_real *x, st_real *copy, st_real *y,         \
                                      st_real *place)                                                        \
    {                                                                                                        \
        (void)copy, (void)place;                                                                             \
        __VA_ARGS__;                                                                                         \
    }

#define BACKWARD(M, KIND, ...)                                                                               \
    M##_TARGET static void M##_##KIND##_back(const pooling *p, ptrdiff_t channels, const st_real *dy,        \
                                             const st_real *place, st_real *dx)                              \
    {                                                                                                        \
        for (; channels > 0; channels--, dy += p->count, dx += p->area) {                                    \
            __VA_ARGS__;                                                                                     \
            if (place) place += p->count;                                                                    \
        }                                                                                                    \
    }

#define STAMP(M)                                                                                             \
    FORWARD(M, mean, *y = (st_real)sum_of_row(p->area, x) * p->weight)                                       \
    BACKWARD(M, mean, spread_mean(p->area, *dy * p->weight, dx))                                             \
    FORWARD(M, means, mean_pairs(MACHINE_LANES(M), &p->w, x, y))                                             \
    BACKWARD(M, means, spread_channel(MACHINE_LANES(M), &p->w, dy, NULL, dx))                                \
    FIND(M)                                                                                                  \
    FORWARD(M, maxima, if (place) find_channel(MACHINE_LANES(M), p, x, copy, M##_find, y, place);            \
            else find_channel(MACHINE_LANES(M), p, x, copy, M##_find, y, NULL))                              \
    GATHER(M)                                                                                                \
    BACKWARD(M, maxima, gather_channel(MACHINE_LANES(M), p, M##_gather, place, dy, dx))

#define ROW_OF_TABLE(M)                                                                                      \
    { { M##_mean, M##_means, M##_maxima }, { M##_mean_back, M##_means_back, M##_maxima_back } },

EACH_MACHINE(STAMP)
static const struct {
    pool_forward *forward[KINDS];
    pool_backward *backward[KINDS];
} machines[] = { EACH_MACHINE(ROW_OF_TABLE) };

/* ---- the algorithms -------------------------------------------------------------------------------- */

enum { IMAGE, COPY, RESULT, PLACES }; /* scratch, for one channel */
enum { WHERE };                       /* memory: positions of maxima, unless no backward pass follows */

static bool paired(const window *w)
{
    return w->kernel[0] == 2 && w->kernel[1] == 2 && w->stride[0] == 2 && w->stride[1] == 2 &&
           w->dilation[0] == 1 && w->dilation[1] == 1 && !window_padded(w);
}

static bool suits_means(const st_layer *l)
{
    const window *w = &((const pool_plan *)l->plan)->w;
    const bool whole = w->kernel[0] == w->size[0] && w->kernel[1] == w->size[1] && !window_padded(w);
    return whole || paired(w);
}

/* Positions are stored as st_real. Windows in the same place of different rows have no columns in common. */
static bool suits_maxima(const st_layer *l)
{
    const pool_plan *p = l->plan;
    const window *w = &p->w;
    const st_shape padded = window_padded_shape(w, 1);
    return w->dilation[0] == 1 && w->dilation[1] == 1 && w->stride[1] <= STRIDE_MOST &&
           w->kernel[1] <= w->stride[1] * w->out[1] && (p->padding != 0 || !window_padded(w)) &&
           padded.n[1] <= ROW && padded.n[2] <= ROW;
}

static int plan(st_layer *l, const void *given)
{
    const window *w = &((const pool_plan *)given)->w;
    const ptrdiff_t room = largest(w->out[1], w->size[1]) + LANES_MOST, stride = w->stride[1];
    pooling *p = st_layer_plan_data(l, sizeof *p + (size_t)(2 * room) * sizeof *p->columns);
    if (!p) return -1;
    p->w = *w;
    p->pairs = paired(w);
    p->kind = l->type == &layer_type_maxpool ? MAXIMA : p->pairs ? MEANS : MEAN;
    p->area = w->size[0] * w->size[1];
    p->count = w->out[0] * w->out[1];
    p->weight = 1 / ((st_real)w->size[0] * (st_real)w->size[1]);
    p->pitch = ceil_div(w->before[1] + w->size[1] + w->after[1], stride);
    p->phase = (w->size[0] + 1) * p->pitch;
    p->margin = STRIDE_MOST * LANES_MOST + 2 * w->kernel[1];
    p->edge = p->kind == MAXIMA ? ceil_div(p->margin, smallest(p->count, p->area)) : 0;
    p->room = room;
    for (ptrdiff_t i = 0; i < room; i++) {
        p->columns[i] = (st_real)(i * stride - w->before[1]);
        p->columns[room + i] = p->columns[i] < 0 ? -p->columns[i] : 0;
    }
    if (p->kind == MAXIMA && st_layer_memory(l, l->y)) return -1;
    const ptrdiff_t scratch[] = { p->area + p->margin, stride * p->phase + LANES_MOST,
                                  p->count + 2 * p->margin, p->count + 2 * p->margin };
    for (int i = IMAGE; i <= PLACES; i++)
        if (st_layer_scratch(l, ST_SHAPE(scratch[i]))) return -1;
    return 0;
}

/* A contiguous copy of a channel. */
static const st_real *copied(st_tensor x, ptrdiff_t i, ptrdiff_t channel, st_tensor scratch)
{
    const st_tensor one = st_select(st_select(x, 0, i), 0, channel);
    st_copy(st_reshape(st_narrow(scratch, 0, 0, st_numel(one)), one.shape), one);
    return st_data(scratch);
}

/* Vectors pass the ends of a channel only into others of the call: those at its ends are copied. */
static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const pooling *p = c->plan;
    pool_forward *run = machines[c->layer->impl->machine].forward[p->kind];
    const ptrdiff_t channels = x.shape.n[0] * x.shape.n[1], count = p->count;
    const bool saves = p->kind == MAXIMA && !c->layer->impl->run->inference_only;
    const bool contiguous = x.stride[2] == x.shape.n[3] && x.stride[3] == 1;
    const st_real *data = st_data(x);
    st_real *copy = st_data(st_scratch(c, COPY)), *best = st_data(st_scratch(c, RESULT)), *to = st_data(y);
    st_real *places = saves ? st_data(st_scratch(c, PLACES)) : NULL;
    st_real *where = saves ? st_data(st_memory(c, WHERE)) : NULL;
    if (window_padded(&p->w)) st_fill(st_scratch(c, COPY), -(st_real)INFINITY);
    for (ptrdiff_t k = 0, i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t channel = 0; channel < x.shape.n[1]; channel++, k++, to += count) {
            const st_real *from = data + i * x.stride[0] + channel * x.stride[1];
            const bool direct = k >= p->edge && k + p->edge < channels;
            if (!contiguous) from = copied(x, i, channel, st_scratch(c, IMAGE));
            run(p, from, copy, direct ? to : best, direct ? where : places);
            if (!direct) memcpy(to, best, (size_t)count * sizeof *to);
            if (!direct && where) memcpy(where, places, (size_t)count * sizeof *where);
            if (where) where += count;
        }
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    const pooling *p = c->plan;
    pool_backward *run = machines[c->layer->impl->machine].backward[p->kind];
    const ptrdiff_t channels = dx.shape.n[0] * dx.shape.n[1], count = p->count;
    st_real *copy = st_data(st_scratch(c, RESULT)) + p->margin, *image = st_data(st_scratch(c, IMAGE));
    st_real *places = st_data(st_scratch(c, PLACES)) + p->margin, *from = st_data(dy), *to = st_data(dx);
    const st_real *where = p->kind == MAXIMA ? st_data(st_memory(c, WHERE)) : NULL;
    for (ptrdiff_t i = 0; i < p->margin; i++) places[i - p->margin] = places[count + i] = -1;
    for (ptrdiff_t k = 0, n; k < channels; k += n, from += n * count, to += n * p->area) {
        const bool direct = k == p->edge && channels > 2 * k;
        n = direct ? channels - 2 * k : 1;
        if (direct) run(p, n, from, where, to);
        else {
            memcpy(copy, from, (size_t)count * sizeof *copy);
            memcpy(places, where, (size_t)count * sizeof *places);
            run(p, 1, copy, places, image);
            memcpy(to, image, (size_t)p->area * sizeof *to);
        }
        if (where) where += n * count;
    }
}

const layer_algorithm maxpool_vectors = {
    .type = &layer_type_maxpool,
    .suits = suits_maxima,
    .plan = plan,
    .hooks = { .forward = forward, .backward = backward },
};

const layer_algorithm avgpool_vectors = {
    .type = &layer_type_avgpool,
    .suits = suits_means,
    .plan = plan,
    .hooks = { .forward = forward, .backward = backward },
};
