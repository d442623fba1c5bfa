/* pooling_maxima.c: maxima of windows in any rows and columns: fractional and S3 pooling, spatial pyramids
 * and max-unpooling. Their definitions are in layers/pooling/.
 *
 * In each row of the image the maxima of the columns of windows come first, which are shuffled, then in each
 * row of windows those of its rows; or, where there are few columns, rows come first, and are transposed.
 * Places of maxima are kept for the gradient. The first one of equal maxima counts, or the first NaN. */
#include "layers/fast/kernel.h"
#include "layers/fast/lanes.h"
#include "layers/fast/pooling.h"
#include "layers/fast/windows.h"
#include "layers/pooling/family.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>

enum { NARROW = 12, FEW_COLUMNS = 3 };

/* The windows of a channel: row r has rows[r], dilation[0] apart; likewise columns. */
typedef struct peaks {
    const kernel *kernel;
    ptrdiff_t size[2], out[2], dilation[2], wide; /* wide: the elements of the widest column of windows */
    ptrdiff_t pitch, row_pitch;                   /* out[1] and size[1], in whole vectors */
    pool_span *rows, *columns;
    isa_bits *index;       /* [wide, pitch]: the column of element k of each window, or of its last one */
    st_real *number;       /* the same as numbers */
    bool near_by;          /* those of a vector of windows are in two vectors of a row */
    st_real *most, *place; /* [H, pitch]; `most` is the room for rows as lanes, too */
    const st_real *x_end, *y_end, *place_end; /* of all channels of a call */
} peaks;

static ptrdiff_t padded(ptrdiff_t n)
{
    return ceil_div(n, LANES_MOST) * LANES_MOST;
}

/* The room of these for as many windows, as st_reals. */
static ptrdiff_t peaks_room(const ptrdiff_t size[2], const ptrdiff_t out[2], ptrdiff_t wide)
{
    const ptrdiff_t spans = (out[0] + out[1]) * (ptrdiff_t)(sizeof(pool_span) / sizeof(st_real));
    return spans + padded(out[1]) * 2 * wide +
           largest(2 * size[0] * padded(out[1]), 4 * LANES_MOST * padded(size[1]));
}

/* For an image [C, H, W], its maxima and their places. */
static peaks peaks_in(const st_layer *l, st_real *room, const ptrdiff_t size[2], const ptrdiff_t out[2],
                      ptrdiff_t wide)
{
    peaks p = { .kernel = kernel_of(l), .size = { size[0], size[1] }, .out = { out[0], out[1] } };
    p.dilation[0] = p.dilation[1] = 1;
    p.wide = wide, p.pitch = padded(out[1]), p.row_pitch = padded(size[1]);
    p.rows = (pool_span *)(void *)room, p.columns = p.rows + out[0];
    p.number = (st_real *)(void *)(p.columns + out[1]);
    p.index = (isa_bits *)(void *)(p.number + wide * p.pitch);
    p.most = p.number + 2 * wide * p.pitch;
    p.place = p.most + size[0] * p.pitch;
    return p;
}

/* After the columns are set. */
static void index_columns(peaks *p)
{
    if (p->out[1] < NARROW) return;
    const ptrdiff_t each = p->kernel->lanes, pitch = p->pitch, lane = each - 1; /* a power of 2 less 1 */
    ptrdiff_t wide = 1;
    for (ptrdiff_t c = 0; c < p->out[1]; c++) wide = largest(wide, p->columns[c].count);
    bool far = false;
    for (ptrdiff_t c = 0; c < pitch; c++) {
        const pool_span *span = p->columns + smallest(c, p->out[1] - 1);
        ptrdiff_t at = span->first, left = span->count;
        for (ptrdiff_t k = 0; k < wide; k++) {
            isa_bits *index = p->index + k * pitch + c;
            *index = (isa_bits)at, p->number[k * pitch + c] = (st_real)at;
            /* columns of a dilated window that the border cuts may decrease */
            const ptrdiff_t beyond = at - index[-(c & lane)];
            far = far || beyond < 0 || beyond >= 2 * each;
            if (--left > 0) at += p->dilation[1];
        }
    }
    p->wide = wide, p->near_by = !far;
}

#define PEAKS(M)                                                                                             \
    M##_TARGET INLINE void M##_keep(M##_vector v, ptrdiff_t n, st_real *to, const st_real *end)              \
    {                                                                                                        \
        if (end - to >= ISA_LANES(M)) AT(M, to) = v;                                                         \
        else {                                                                                               \
            const M##_vector copy = v; /* which is in memory, as v need not be */                            \
            memcpy(to, &copy, (size_t)smallest(n, ISA_LANES(M)) * sizeof *to);                               \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* The elements of a row at index[0], ..., which in vectors are `in` after the first one. */             \
    M##_TARGET INLINE M##_vector M##_fetch(const st_real *row, const isa_bits *index, M##_mask in,           \
                                           bool loose)                                                       \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const st_real *from = row + index[0];                                                                \
        if (M##_SHUFFLES && loose) return SHUFFLE_BY(M, AT(M, from), AT(M, from + LANES), in);               \
        M##_vector v = { 0 };                                                                                \
        EACH(l, LANES) v[l] = row[index[l]];                                                                 \
        return v;                                                                                            \
    }                                                                                                        \
    /* The maxima of windows c, ... in rows r ... end - 1; few: a window has at most FEW_COLUMNS columns. */ \
    M##_TARGET INLINE void M##_in_rows(const peaks *p, ptrdiff_t wide, bool few, const st_real *x,           \
                                       ptrdiff_t c, ptrdiff_t r, ptrdiff_t end, bool loose)                  \
    {                                                                                                        \
        const ptrdiff_t pitch = p->pitch, next = p->size[1];                                                 \
        st_real *best = p->most + r * pitch + c, *found = p->place + r * pitch + c;                          \
        const isa_bits *index = p->index + c;                                                                \
        M##_vector number[FEW_COLUMNS];                                                                      \
        M##_mask in[FEW_COLUMNS];                                                                            \
        for (ptrdiff_t k = 0; k < wide && few; k++) {                                                        \
            number[k] = AT(M, p->number + k * pitch + c);                                                    \
            in[k] = (M##_mask)AT(M, index + k * pitch) - index[k * pitch];                                   \
        }                                                                                                    \
        for (x += r * next; r < end; r++, x += next, best += pitch, found += pitch) {                        \
            M##_vector most = { 0 }, at = { 0 };                                                             \
            for (ptrdiff_t k = 0; k < wide; k++) {                                                           \
                const isa_bits *each = index + k * pitch;                                                    \
                M##_mask places = (M##_mask)AT(M, each) - each[0];                                           \
                M##_vector here = AT(M, p->number + k * pitch + c);                                          \
                if (few) places = in[k], here = number[k];                                                   \
                const M##_vector v = M##_fetch(x, each, places, loose);                                      \
                const M##_mask exceeds = ~(v <= most) & (most == most);                                      \
                most = k == 0 ? v : ISA_PICK(M, exceeds, v, most);                                           \
                at = k == 0 ? here : ISA_PICK(M, exceeds, here, at);                                         \
            }                                                                                                \
            AT(M, best) = most, AT(M, found) = at + (st_real)(r * next);                                     \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* The maxima of columns in each row of the image, and then those of rows. */                            \
    M##_TARGET static void M##_find(const peaks *p, const st_real *x, st_real *y, st_real *place)            \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const ptrdiff_t n = p->out[1], pitch = p->pitch, wide = p->size[1], rows = p->size[0],               \
                        room = p->x_end - x - wide - 2 * LANES;                                              \
        const ptrdiff_t loose = p->near_by && room >= 0 ? smallest(room / wide + 1, rows) : 0;               \
        for (ptrdiff_t c = 0; c < n; c += LANES) {                                                           \
            if (p->wide == 2) M##_in_rows(p, 2, true, x, c, 0, loose, true);                                 \
            else if (p->wide == 3) M##_in_rows(p, 3, true, x, c, 0, loose, true);                            \
            else M##_in_rows(p, p->wide, false, x, c, 0, loose, true);                                       \
            M##_in_rows(p, p->wide, false, x, c, loose, rows, false);                                        \
        }                                                                                                    \
        for (ptrdiff_t r = 0; r < p->out[0]; r++, y += n, place += n)                                        \
            for (ptrdiff_t c = 0; c < n; c += LANES) {                                                       \
                const ptrdiff_t first = p->rows[r].first * pitch + c, next = p->dilation[0] * pitch;         \
                M##_vector most = AT(M, p->most + first), at = AT(M, p->place + first);                      \
                for (ptrdiff_t k = 1; k < p->rows[r].count; k++) {                                           \
                    const M##_vector v = AT(M, p->most + first + k * next);                                  \
                    const M##_mask exceeds = ~(v <= most) & (most == most);                                  \
                    most = ISA_PICK(M, exceeds, v, most);                                                    \
                    at = ISA_PICK(M, exceeds, AT(M, p->place + first + k * next), at);                       \
                }                                                                                            \
                M##_keep(most, n - c, y + c, p->y_end);                                                      \
                M##_keep(at, n - c, place + c, p->place_end);                                                \
            }                                                                                                \
    }                                                                                                        \
                                                                                                             \
    /* Elements of x, of which `left` are there. */                                                          \
    M##_TARGET INLINE M##_vector M##_elements_at(const st_real *x, bool loose, ptrdiff_t left)               \
    {                                                                                                        \
        if (loose) return AT(M, x);                                                                          \
        M##_vector v = { 0 };                                                                                \
        EACH(l, ISA_LANES(M)) v[l] = l < left ? x[l] : 0;                                                    \
        return v;                                                                                            \
    }                                                                                                        \
    /* The maxima of columns in rows, and the rows of these: of `vectors` vectors from column i on. */       \
    M##_TARGET INLINE void M##_some_of(const peaks *p, const st_real *x, pool_span rows, ptrdiff_t i,        \
                                       int vectors, st_real *best, st_real *at)                              \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const ptrdiff_t next = p->dilation[0] * p->size[1], left = p->size[1] - i;                           \
        M##_vector most[2], row[2], here = (M##_vector){ 0 } + (st_real)rows.first;                          \
        x += rows.first * p->size[1] + i;                                                                    \
        const bool loose = p->x_end - x >= (rows.count - 1) * next + vectors * LANES;                        \
        EACH(j, vectors) most[j] = M##_elements_at(x + j * LANES, loose, left - j * LANES), row[j] = here;   \
        for (ptrdiff_t k = 1; k < rows.count; k++) {                                                         \
            x += next, here += (st_real)p->dilation[0];                                                      \
            EACH(j, vectors)                                                                                 \
            {                                                                                                \
                const M##_vector v = M##_elements_at(x + j * LANES, loose, left - j * LANES);                \
                const M##_mask exceeds = ~(v <= most[j]) & (most[j] == most[j]);                             \
                most[j] = ISA_PICK(M, exceeds, v, most[j]), row[j] = ISA_PICK(M, exceeds, here, row[j]);     \
            }                                                                                                \
        }                                                                                                    \
        EACH(j, vectors) AT(M, best + i + j * LANES) = most[j], AT(M, at + i + j * LANES) = row[j];          \
    }                                                                                                        \
    M##_TARGET INLINE void M##_rows_of(const peaks *p, const st_real *x, pool_span rows, st_real *best,      \
                                       st_real *at)                                                          \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        ptrdiff_t i = 0;                                                                                     \
        for (; i + LANES < p->size[1]; i += 2 * LANES) M##_some_of(p, x, rows, i, 2, best, at);              \
        if (i < p->size[1]) M##_some_of(p, x, rows, i, 1, best, at);                                         \
    }                                                                                                        \
                                                                                                             \
    /* The same of several channels, rows first, as lanes; of equal maxima the upper, then the left one. */  \
    M##_TARGET static void M##_find_few(const peaks *p, ptrdiff_t channels, const st_real *x, st_real *y,    \
                                        st_real *place)                                                      \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const ptrdiff_t total = channels * p->out[0], area = p->size[0] * p->size[1], pitch = p->row_pitch;  \
        st_real *best = p->most, *at = best + LANES_MOST * pitch, *columns = at + LANES_MOST * pitch,        \
                *rows = columns + LANES_MOST * pitch;                                                        \
        for (ptrdiff_t r = 0, n; r < total; r += n) {                                                        \
            n = smallest(total - r, LANES);                                                                  \
            for (ptrdiff_t l = 0; l < LANES; l++) {                                                          \
                const ptrdiff_t i = r + smallest(l, n - 1);                                                  \
                M##_rows_of(p, x + i / p->out[0] * area, p->rows[i % p->out[0]], best + l * pitch,           \
                            at + l * pitch);                                                                 \
            }                                                                                                \
            kernel_transpose(p->kernel, LANES, pitch, best, pitch, columns, LANES, NULL);                    \
            kernel_transpose(p->kernel, LANES, pitch, at, pitch, rows, LANES, NULL);                         \
            for (ptrdiff_t c = 0; c < p->out[1]; c++) {                                                      \
                const pool_span span = p->columns[c];                                                        \
                const st_real *v = columns + span.first * LANES, *in = rows + span.first * LANES;            \
                M##_vector most = AT(M, v), row = AT(M, in),                                                 \
                           column = (M##_vector){ 0 } + (st_real)span.first;                                 \
                for (ptrdiff_t k = 1; k < span.count; k++) {                                                 \
                    const ptrdiff_t step = k * p->dilation[1];                                               \
                    const M##_vector u = AT(M, v + step * LANES), here = AT(M, in + step * LANES);           \
                    const M##_mask exceeds = (~(u <= most) & (most == most)) |                               \
                                             (((u == most) | ((u != u) & (most != most))) & (here < row));   \
                    most = ISA_PICK(M, exceeds, u, most);                                                    \
                    row = ISA_PICK(M, exceeds, here, row);                                                   \
                    column = ISA_PICK(M, exceeds, (M##_vector){ 0 } + (st_real)(span.first + step), column); \
                }                                                                                            \
                row = row * (st_real)p->size[1] + column;                                                    \
                for (ptrdiff_t l = 0; l < n; l++) {                                                          \
                    y[(r + l) * p->out[1] + c] = most[l];                                                    \
                    place[(r + l) * p->out[1] + c] = row[l];                                                 \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET static void M##_peaks(const peaks *p, ptrdiff_t channels, const st_real *x, st_real *y,       \
                                     st_real *place)                                                         \
    {                                                                                                        \
        if (p->out[1] < NARROW) {                                                                            \
            M##_find_few(p, channels, x, y, place);                                                          \
            return;                                                                                          \
        }                                                                                                    \
        for (; channels > 0; channels--, x += p->size[0] * p->size[1], y += p->out[0] * p->out[1],           \
                             place += p->out[0] * p->out[1])                                                 \
            M##_find(p, x, y, place);                                                                        \
    }

#define ROW_OF_TABLE(M) M##_peaks,
EACH_ISA(PEAKS)
static void (*const peaks_of[])(const peaks *p, ptrdiff_t channels, const st_real *x, st_real *y,
                                st_real *place) = { EACH_ISA(ROW_OF_TABLE) };

/* dx[place] += dy */
static void add_at_places(ptrdiff_t n, const st_real *place, const st_real *dy, st_real *dx)
{
    for (ptrdiff_t i = 0; i < n; i++) dx[(ptrdiff_t)place[i]] += dy[i];
}

static st_real *end_of(st_tensor x)
{
    return st_data(x) + st_numel(x);
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
    const ptrdiff_t most = windows_of(p, 0) * windows_of(p, 1), channels = x.shape.n[1],
                    count = w->out[0] * w->out[1];
    peaks k = peaks_in(c->layer, st_data(st_scratch(c, p->scratch + ROOM)), w->size, out, w->kernel[1]);
    st_real *found = st_data(st_scratch(c, p->scratch + FOUND)), *to = st_data(y), *places = found + most;
    const st_real *image = NULL;
    st_real *memory = kept ? st_data(st_memory(c, PLACES)) : NULL;
    k.y_end = divided ? found + most : to + st_numel(y);
    k.place_end = kept ? end_of(st_memory(c, PLACES)) : places + most;
    st_window at = { .options = c->options, .training = c->training, .key = st_call_random(c) };
    for (ptrdiff_t i = 0; i < x.shape.n[0] * channels; i++) {
        if (i % channels == 0) image = image_of(c, x, i / channels, p->scratch + COPY);
        const st_real *from = image + i % channels * w->size[0] * w->size[1];
        at.channel = i % channels, at.number = (uint64_t)(c->first * channels + i);
        if (!p->shared || at.channel == 0) set_grid(c, &at, &k, divided);
        if (kept) places = memory + i * most;
        k.x_end = image + channels * w->size[0] * w->size[1];
        peaks_of[c->layer->impl->isa](&k, 1, from, divided ? found : to, places);
        for (ptrdiff_t o = 0; divided && o < count; o++) {
            double sum = 0;
            for (ptrdiff_t r = 0; r < p->scale[0]; r++)
                for (ptrdiff_t s = 0; s < p->scale[1]; s++)
                    sum += (double)
                        found[(o / w->out[1] * p->scale[0] + r) * out[1] + o % w->out[1] * p->scale[1] + s];
            to[o] = (st_real)(sum / (double)(p->scale[0] * p->scale[1]));
        }
        to += count;
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

/* The maxima of each 2 x 2 parts of channels, and their places: the parts of the level of half as many. */
static void join_parts(ptrdiff_t channels, ptrdiff_t parts, const st_real *from, const st_real *at,
                       st_real *y, st_real *place)
{
    const ptrdiff_t corner[] = { 1, 2 * parts, 2 * parts + 1 };
    for (ptrdiff_t r = 0; r < channels * parts; r++, from += 2 * parts, at += 2 * parts)
        for (ptrdiff_t c = 0; c < parts; c++, from += 2, at += 2) {
            st_real most = from[0], where = at[0];
            for (int k = 0; k < 3; k++) {
                const st_real v = from[corner[k]], here = at[corner[k]];
                const bool exceeds = (int)!(v <= most) & (int)(most == most),
                           same = (int)(v == most) | ((int)isnan(v) & (int)isnan(most));
                const bool earlier = (int)same & (int)(here < where);
                most = exceeds ? v : most, where = (int)exceeds | (int)earlier ? here : where;
            }
            *y++ = most, *place++ = where;
        }
}

/* A level of p parts is made of that of 2 p, which begin and end at the same places. */
static void pyramid_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const int levels = ((const st_spatial_pyramid_pool_options *)c->options)->levels;
    const ptrdiff_t size[] = { x.shape.n[2], x.shape.n[3] }, channels = x.shape.n[1],
                    all = st_numel(y) / x.shape.n[0];
    for (ptrdiff_t n = 0; n < x.shape.n[0]; n++) {
        const st_real *image = image_of(c, x, n, 0);
        st_real *to = st_data(y) + (n + 1) * all, *places = st_data(st_memory(c, PLACES)) + (n + 1) * all;
        for (ptrdiff_t parts = levels; parts > 0; parts--) {
            const ptrdiff_t out[] = { parts, parts };
            to -= channels * parts * parts, places -= channels * parts * parts;
            if (2 * parts <= levels) {
                ptrdiff_t up = 0;
                for (ptrdiff_t i = parts; i < 2 * parts; i++) up += channels * i * i;
                join_parts(channels, parts, to + up, places + up, to, places);
                continue;
            }
            peaks k = peaks_in(c->layer, st_data(st_scratch(c, 1)), size, out, size[1]);
            for (ptrdiff_t i = 0; i < parts; i++)
                k.rows[i] = pool_adaptive_span(i, size[0], parts),
                k.columns[i] = pool_adaptive_span(i, size[1], parts);
            index_columns(&k);
            k.x_end = image + channels * size[0] * size[1];
            k.y_end = end_of(y), k.place_end = end_of(st_memory(c, PLACES));
            peaks_of[c->layer->impl->isa](&k, channels, image, to, places);
        }
    }
}

static void pyramid_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const int levels = ((const st_spatial_pyramid_pool_options *)c->options)->levels;
    const ptrdiff_t area = x.shape.n[2] * x.shape.n[3], channels = x.shape.n[1];
    const st_real *from = st_data(dy), *places = st_data(st_memory(c, PLACES));
    st_real *to = st_data(dx);
    for (ptrdiff_t n = 0; n < x.shape.n[0]; n++, to += channels * area) {
        memset(to, 0, (size_t)(channels * area) * sizeof *to);
        for (ptrdiff_t parts = 1; parts <= levels; parts++)
            for (ptrdiff_t i = 0; i < channels; i++, from += parts * parts, places += parts * parts)
                add_at_places(parts * parts, places, from, to + i * area);
    }
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
    bool kept;      /* that layer keeps positions of its maxima, unless no backward pass follows: they are not
                     * looked for again then */
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
    p->kept = pooling_keeps_positions(l->child[POOL]);
    const window *w = &p->pool.w;
    if (!p->kept && st_layer_memory(l, pooled)) return -1;
    if (st_layer_scratch(l, pooled) || st_layer_scratch(l, pooled)) return -1;
    if (st_layer_scratch(l, ST_SHAPE(l->x.n[1], l->x.n[2], l->x.n[3]))) return -1;
    return st_layer_scratch(l, ST_SHAPE(peaks_room(w->size, w->out, smallest(w->kernel[1], w->size[1]))));
}

/* y is the adjoint of the maximum at x, applied to the body's y. */
static void unpool_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const unpool_plan *p = c->plan;
    const window *w = &p->pool.w;
    const st_layer *pool = c->layer->child[POOL];
    const st_tensor body = st_forward_child(c, BODY, st_forward_child(c, POOL, x));
    const st_layer_run *run = c->layer->impl->run;
    if (p->kept && !run->inference_only && !run->shared) {
        st_backward_child(c, POOL, x, body, y);
        return;
    }
    const st_tensor found = p->kept ? st_scratch(c, DBODY) : st_memory(c, PLACES);
    const ptrdiff_t next = p->kept ? 0 : w->out[0] * w->out[1]; /* places are not kept otherwise */
    const ptrdiff_t area = w->size[0] * w->size[1], count = w->out[0] * w->out[1], channels = x.shape.n[1];
    peaks k = peaks_in(c->layer, st_data(st_scratch(c, PEAKS)), w->size, w->out,
                       smallest(w->kernel[1], w->size[1]));
    for (int a = 0; a < 2; a++) k.dilation[a] = w->dilation[a];
    st_real *places = st_data(found), *to = st_data(y), *most = st_data(st_scratch(c, DPOOL));
    const st_real *from = st_data(body), *image = NULL;
    st_window at = { .options = pool->options, .training = c->training };
    at.key = st_call_random(&(st_call){ .layer = pool });
    k.y_end = most + count, k.place_end = end_of(found);
    for (ptrdiff_t i = 0; i < x.shape.n[0] * channels; i++, places += next, to += area, from += count) {
        at.channel = i % channels, at.number = (uint64_t)i;
        if (i == 0 || !p->fixed) {
            p->pool.grid->spans(&p->pool, &at, 0, k.rows), p->pool.grid->spans(&p->pool, &at, 1, k.columns);
            index_columns(&k);
        }
        if (at.channel == 0) image = image_of(c, x, i / channels, IMAGE);
        k.x_end = image + channels * area;
        peaks_of[c->layer->impl->isa](&k, 1, image + at.channel * area, most, places);
        memset(to, 0, (size_t)area * sizeof *to);
        add_at_places(count, places, from, to);
    }
}

static void unpool_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const unpool_plan *p = c->plan;
    const window *w = &p->pool.w;
    const st_tensor dbody = st_narrow(st_scratch(c, DBODY), 0, 0, c->images),
                    dpool = st_narrow(st_scratch(c, DPOOL), 0, 0, c->images);
    const ptrdiff_t area = w->size[0] * w->size[1], count = w->out[0] * w->out[1],
                    channels = x.shape.n[0] * x.shape.n[1];
    const st_real *places = p->kept ? NULL : st_data(st_memory(c, PLACES)), *from = st_data(dy);
    st_real *to = st_data(dbody);
    if (p->kept) pooling_at_positions(c->layer->child[POOL], c->images, from, to);
    else
        for (ptrdiff_t i = 0; i < channels; i++, places += count, from += area, to += count)
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
