/* pooling.c: max and average pooling by vectors: maxima of windows without dilation, 1 or 2 columns apart,
 * means of 2×2 windows and of whole images, also where their size is adaptive.
 *
 * Maxima have windows as lanes; gradients go to the positions of maxima, which the forward pass saves. */
#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "layers/fast/lanes.h"
#include "layers/fast/pooling.h"
#include "layers/layers.h"
#include "layers/pool_impl.h"
#include "layers/types.h"
#include "tensor/counts.h"
#include "tensor/fast/sum.h"

#include <math.h>
#include <string.h>

enum { STRIDE_MOST = 2, PACKED = sizeof(st_real), BYTE = 8, NOWHERE = 255, COLUMNS = 1 << 20 };
enum { AHEAD = 4 };                  /* rows of dx are fetched so far before they are written */
enum { MEAN, MEANS, MAXIMA, KINDS }; /* the mean of a channel, of pairs; maxima */

/* Windows: high × wide, `down` and `right` from each other. The most common ones are constants, so that the
 * compiler unrolls their loops. */
typedef struct form {
    int high, wide, down, right;
    int rows;    /* of dx at once: 1 or `down` */
    int odd;     /* the padding % right */
    bool padded; /* or columns of the image are in no window */
    bool again;  /* what rows of windows share is kept: maxima of rows of the image, or positions */
} form;

/* That of pairs. */
#define TWO_BY_TWO ((form){ 2, 2, 2, 2, 2, 0, false, false })

/* The position of a maximum is kh * KW + kw: an st_real for pairs, otherwise a byte. A word, which has the
 * size of an st_real, holds the positions of PACKED windows, which lie below each other. */
typedef struct pooling {
    window w;
    int kind;
    bool pairs, two, three; /* 2×2 windows with stride 2 and without padding; with stride 1; 3×3 with a stride
                             * for both axes */
    form f;
    ptrdiff_t area, count, words; /* of a channel: elements, windows, words of positions */
    st_real weight;               /* of each element in the mean of a channel */
    ptrdiff_t margin;             /* vectors read and write at most so many elements beyond a channel, */
    ptrdiff_t edge;               /* which lie in the next `edge` channels */
    isa_bits number[NOWHERE];     /* 0, 1, ...: in memory, as instructions broadcast what they read */
    ptrdiff_t room;               /* elements of each row of */
    isa_bits *tables;
    /* [room]: -1 for what is no window, from window -KW on; [room]: the columns of a window left of the
     * image; [stride, room]: -1 for what is no column of the image, of those that window i reads at i *
     * stride + j */
} pooling;

/* y of channels x [channels, H, W], and unless NULL the positions of maxima; and dx. */
typedef void pool_forward(const pooling *p, ptrdiff_t channels, const st_real *x, st_real *y, st_real *place);
typedef void pool_backward(const pooling *p, ptrdiff_t channels, const st_real *dy, const st_real *place,
                           st_real *dx);

/* Tests if channels leave the second cache, but two of them do not, and they and their rows are so large that
 * hardware does not foresee what is read: the next channel is fetched meanwhile. */
static bool is_far(const pooling *p, ptrdiff_t channels)
{
    enum { SECOND = (1 << 20) / sizeof(st_real), LARGE = SECOND / 16, LONG = 768 / sizeof(st_real) };
    return channels * p->area > SECOND && 2 * p->area <= SECOND && p->area > LARGE && p->w.size[1] > LONG;
}

/* Of channels that leave the second cache, and whose rows are far apart, some rows of windows are computed at
 * once: what is read and written one after the other is in as few pages then. */
static ptrdiff_t rows_at_once(const pooling *p, ptrdiff_t all)
{
    enum { SECOND = (1 << 20) / sizeof(st_real), LONG = 2048 / sizeof(st_real), SOME = 4 * PACKED };
    return p->area > SECOND && p->w.size[1] > LONG ? SOME : all;
}

/* ---- means ----------------------------------------------------------------------------------------- */

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
            b[2 * i] = !place || which == 2 ? value : 0;
            b[2 * i + 1] = !place || which == 3 ? value : 0;
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

INLINE void spread_mean(ptrdiff_t area, st_real part, st_real *dx)
{
    for (ptrdiff_t i = 0; i < area; i++) dx[i] = part;
}

/* ---- maxima ---------------------------------------------------------------------------------------- */

#define BITS_AT(M, at) ((M##_mask)AT(M, at))
#define PICK_BITS(mask, a, b) (((mask) & (a)) | (~(mask) & (b)))

/* Vectors go down a channel, so that a row that two windows share is searched once; pairs share none, and are
 * searched row by row. What vectors write beyond the end of a row is overwritten by the next one. Unless
 * `exact`, there must be no NaN: the result tells. */
#define FIND(M)                                                                                              \
    typedef struct M##_maxima {                                                                              \
        M##_vector best;                                                                                     \
        M##_mask place;                                                                                      \
    } M##_maxima;                                                                                            \
                                                                                                             \
    /* The greater one of a, and of b after it; or the first NaN. */                                         \
    M##_TARGET INLINE M##_maxima M##_greater(M##_maxima a, M##_maxima b, bool exact)                         \
    {                                                                                                        \
        const M##_mask stays = a.best != a.best;                                                             \
        if (exact) b.best = ISA_PICK(M, stays, a.best, b.best);                                              \
        if (exact) b.place = PICK_BITS(stays, a.place, b.place);                                             \
        const M##_mask exceeds = ~(b.best <= a.best);                                                        \
        return (M##_maxima){ ISA_PICK(M, exceeds, b.best, a.best), PICK_BITS(exceeds, b.place, a.place) };   \
    }                                                                                                        \
                                                                                                             \
    /* The maxima of a row of windows i, i + 1, ..., which begins at x and has the position `first`. */      \
    M##_TARGET INLINE M##_maxima M##_row(const pooling *p, form f, bool exact, const st_real *x,             \
                                         ptrdiff_t i, int first, M##_vector *sum)                            \
    {                                                                                                        \
        const M##_vector zero = { 0 };                                                                       \
        const M##_mask none = { 0 };                                                                         \
        const window *w = &p->w;                                                                             \
        const isa_bits *left = p->tables + p->room + i, *beyond = left + p->room;                            \
        const ptrdiff_t inside = w->size[1] + w->before[1] - (w->out[1] - 1) * f.right;                      \
        M##_maxima most = { zero, none };                                                                    \
        for (int kw = 0; kw < f.wide; kw++) {                                                                \
            const st_real *at = x + kw / f.right * f.right;                                                  \
            M##_maxima next = { AT(M, at), none + p->number[first + kw] };                                   \
            if (f.right == 2) {                                                                              \
                const M##_vector more = AT(M, at + ISA_LANES(M));                                            \
                next.best = kw % 2 ? SHUFFLE(M, next.best, more, M##_OF(ODD))                                \
                                   : SHUFFLE(M, next.best, more, M##_OF(EVEN));                              \
            }                                                                                                \
            if (f.padded && (kw < w->before[1] || kw >= inside)) {                                           \
                const M##_mask out = BITS_AT(M, beyond + kw % f.right * p->room + kw / f.right);             \
                next.best = ISA_PICK(M, out, zero - (st_real)INFINITY, next.best);                           \
            }                                                                                                \
            if (!exact) *sum += next.best;                                                                   \
            most = kw > 0 ? M##_greater(most, next, exact) : next;                                           \
            if (kw == 0 && f.padded) most.place += BITS_AT(M, left);                                         \
        }                                                                                                    \
        return most;                                                                                         \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE bool M##_find(const pooling *p, form f, bool exact, bool far, ptrdiff_t channels,      \
                                    const st_real *x, st_real *y, st_real *place)                            \
    {                                                                                                        \
        const window *w = &p->w;                                                                             \
        const ptrdiff_t n = w->out[1], wide = w->size[1];                                                    \
        const ptrdiff_t tall = f.padded ? rows_at_once(p, w->out[0]) : n <= ISA_LANES(M) ? w->out[0] : 1;    \
        const M##_maxima least = { { 0 }, { 0 } };                                                           \
        M##_vector sum = { 0 };                                                                              \
        for (; channels > 0; channels--, x += p->area, y += p->count) {                                      \
            for (ptrdiff_t begin = 0; begin < w->out[0]; begin += tall)                                      \
                for (ptrdiff_t i = 0; i < n; i += ISA_LANES(M)) {                                            \
                    if (n >= ISA_LANES(M)) i = lanes_within(i, ISA_LANES(M), n);                             \
                    M##_mask word = { 0 };                                                                   \
                    M##_maxima most = least, rows[NOWHERE]; /* those of rows kh, where f.again */            \
                    for (int kh = 0; kh < f.high && f.again; kh++) rows[kh] = least;                         \
                    const st_real *first = x + i * f.right - w->before[1];                                   \
                    const ptrdiff_t end = smallest(begin + tall, w->out[0]);                                 \
                    for (ptrdiff_t oh = begin; oh < end; oh++) {                                             \
                        const ptrdiff_t top = oh * f.down - w->before[0];                                    \
                        bool begun = f.high == f.down + 1 && oh > begin;                                     \
                        const bool shares = f.again && oh > begin;                                           \
                        M##_maxima last = most;                                                              \
                        most.place -= f.down * f.wide;                                                       \
                        for (int kh = 0; kh < f.high; kh++) {                                                \
                            if (f.padded && (top + kh < 0 || top + kh >= w->size[0])) continue;              \
                            if (kh == 0 && begun) continue;                                                  \
                            const st_real *row = first + (top + kh) * wide;                                  \
                            if (shares && kh + f.down < f.high) {                                            \
                                last = rows[kh + f.down];                                                    \
                                last.place -= f.down * f.wide;                                               \
                            } else {                                                                         \
                                for (int j = 0; j < f.right && far; j++)                                     \
                                    __builtin_prefetch(row + p->area + j * ISA_LANES(M), 0, 2);              \
                                last = M##_row(p, f, exact, row, i, kh * f.wide, &sum);                      \
                            }                                                                                \
                            if (f.again) rows[kh] = last;                                                    \
                            most = begun ? M##_greater(most, last, exact) : last;                            \
                            begun = true;                                                                    \
                        }                                                                                    \
                        AT(M, y + oh * n + i) = most.best;                                                   \
                        if (far) __builtin_prefetch(y + p->count + oh * n + i, 1);                           \
                        word |= most.place << (int)((size_t)oh % PACKED * BYTE);                             \
                        const bool full = (size_t)oh % PACKED == PACKED - 1 || oh == w->out[0] - 1;          \
                        st_real *to =                                                                        \
                            place ? place + (f.padded ? (size_t)oh / PACKED : (size_t)oh) * (size_t)n + i    \
                                  : NULL;                                                                    \
                        if (to && !f.padded) AT(M, to) = __builtin_convertvector(most.place, M##_vector);    \
                        else if (to && full) AT(M, to) = (M##_vector)word, word = (M##_mask){ 0 };           \
                        most = last;                                                                         \
                    }                                                                                        \
                }                                                                                            \
            if (place) place += p->words;                                                                    \
        }                                                                                                    \
        const M##_mask lost = sum != sum;                                                                    \
        bool any = false;                                                                                    \
        for (int k = 0; k < ISA_LANES(M); k++) any |= lost[k] != 0;                                          \
        return !any;                                                                                         \
    }                                                                                                        \
                                                                                                             \
    /* Functions of their own: in one with the others, the compiler keeps less in registers. */              \
    M##_TARGET static __attribute__((noinline)) bool M##_find_again(const pooling *p, bool exact, bool far,  \
                                                                    ptrdiff_t channels, const st_real *x,    \
                                                                    st_real *y, st_real *place)              \
    {                                                                                                        \
        const form f = { p->f.high, p->f.wide, p->f.down, 1, 1, 0, true, true };                             \
        if (exact) return M##_find(p, f, true, false, channels, x, y, place);                                \
        return M##_find(p, f, false, far, channels, x, y, place);                                            \
    }                                                                                                        \
    M##_TARGET INLINE bool M##_find_form(const pooling *p, bool exact, bool far, ptrdiff_t channels,         \
                                         const st_real *x, st_real *y, st_real *place)                       \
    {                                                                                                        \
        const form f = p->f;                                                                                 \
        if (p->pairs) return M##_find(p, TWO_BY_TWO, exact, far, channels, x, y, place);                     \
        if (p->three && f.right == 2)                                                                        \
            return M##_find(p, (form){ 3, 3, 2, 2, 2, 0, true }, exact, far, channels, x, y, place);         \
        if (p->three)                                                                                        \
            return M##_find(p, (form){ 3, 3, 1, 1, 1, 0, true, true }, exact, far, channels, x, y, place);   \
        if (p->two) return M##_find(p, (form){ 2, 2, 1, 1, 1, 0, true }, exact, far, channels, x, y, place); \
        if (f.high > f.down + 1) return M##_find_again(p, exact, far, channels, x, y, place);                \
        return M##_find(p, (form){ f.high, f.wide, f.down, 1, 1, 0, true }, exact, far, channels, x, y,      \
                        place);                                                                              \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET static __attribute__((noinline)) bool M##_find_far(                                           \
        const pooling *p, ptrdiff_t channels, const st_real *x, st_real *y, st_real *place)                  \
    {                                                                                                        \
        return M##_find_form(p, false, true, channels, x, y, place);                                         \
    }                                                                                                        \
    M##_TARGET static __attribute__((noinline)) bool M##_find_near(                                          \
        const pooling *p, ptrdiff_t channels, const st_real *x, st_real *y, st_real *place)                  \
    {                                                                                                        \
        return M##_find_form(p, false, false, channels, x, y, place);                                        \
    }                                                                                                        \
    M##_TARGET static __attribute__((noinline)) bool M##_find_exactly(                                       \
        const pooling *p, ptrdiff_t channels, const st_real *x, st_real *y, st_real *place)                  \
    {                                                                                                        \
        return M##_find_form(p, true, false, channels, x, y, place);                                         \
    }

/* ---- their gradients ------------------------------------------------------------------------------- */

/* How far from windows i, i + 1, ... those begin whose column kw is in vector i of dx. */
INLINE ptrdiff_t away_of(const window *w, form f, int kw)
{
    return w->before[1] / f.right + ((kw + f.odd) % f.right + f.odd - kw) / f.right;
}

/* Rows of dx by vectors that begin at each second, or each, column; the last ones first, as they may pass the
 * end of a row. Column kw of a window is column c of its `right` ones. Windows are added in their order. */
#define GATHER(M)                                                                                            \
    /* Where the maxima of windows oh are, whose column kw is in vector i of dx. */                          \
    M##_TARGET INLINE M##_mask M##_positions(const window *w, form f, const isa_bits *outside,               \
                                             const st_real *place, ptrdiff_t oh, ptrdiff_t i, int kw)        \
    {                                                                                                        \
        const ptrdiff_t away = away_of(w, f, kw);                                                            \
        const st_real *words = place + (size_t)oh / PACKED * (size_t)w->out[1] + i;                          \
        M##_mask which = BITS_AT(M, words + away) >> (int)((size_t)oh % PACKED * BYTE) & NOWHERE;            \
        if (f.padded) which |= BITS_AT(M, outside + away);                                                   \
        return which;                                                                                        \
    }                                                                                                        \
                                                                                                             \
    /* Vector i of rows of dx: those of windows begin ... end - 1. */                                        \
    M##_TARGET INLINE void M##_gather_down(const pooling *p, form f, window w, bool far, ptrdiff_t begin,    \
                                           ptrdiff_t end, ptrdiff_t i, const st_real *dy,                    \
                                           const st_real *place, st_real *dx)                                \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const ptrdiff_t n = w.out[1], wide = w.size[1], ahead = far ? p->area : AHEAD * wide;                \
        const isa_bits *outside = p->tables + w.kernel[1] + i;                                               \
        M##_mask above[2][3] = { { { 0 } } };         /* `which` of windows t - 1 - j */                     \
        ptrdiff_t row = begin * f.down - w.before[0]; /* from the padding on: row kh of windows t */         \
        for (int j = 0; j < (f.high - 1) / f.down && f.again; j++)                                           \
            for (int kw = 0; kw < f.wide; kw++)                                                              \
                if (begin > j && begin - 1 - j < w.out[0])                                                   \
                    above[j][kw] = M##_positions(&w, f, outside, place, begin - 1 - j, i, kw);               \
        for (ptrdiff_t t = begin; t < end; t++)                                                              \
            for (int kh = 0; kh < f.down; kh += f.rows, row += f.rows) {                                     \
                M##_vector sum[STRIDE_MOST][STRIDE_MOST] = { 0 };                                            \
                for (int j = (f.high - 1) / f.down; j >= 0; j--) {                                           \
                    const ptrdiff_t oh = t - j;                                                              \
                    if (oh < 0 || oh >= w.out[0]) continue;                                                  \
                    if (far && j == 0) __builtin_prefetch(dy + p->count + oh * n + i, 0, 2);                 \
                    for (int kw = f.wide - 1; kw >= 0; kw--) {                                               \
                        const int c = (kw + f.odd) % f.right;                                                \
                        M##_mask which = { 0 };                                                              \
                        if (f.again && j > 0) which = above[j - 1][kw];                                      \
                        else which = M##_positions(&w, f, outside, place, oh, i, kw);                        \
                        if (f.again && j < 2) above[j][kw] = which;                                          \
                        const M##_mask d = BITS_AT(M, dy + oh * n + i + away_of(&w, f, kw));                 \
                        for (int r = 0; r < f.rows && kh + r + j * f.down < f.high; r++) {                   \
                            const int number = (kh + r + j * f.down) * f.wide + kw;                          \
                            sum[r][c] += (M##_vector)((which == p->number[number]) & d);                     \
                        }                                                                                    \
                    }                                                                                        \
                }                                                                                            \
                for (int r = 0; r < f.rows; r++) {                                                           \
                    st_real *to = dx + (row + r) * wide + i * f.right;                                       \
                    if (row + r < 0 || row + r >= w.size[0]) continue;                                       \
                    __builtin_prefetch(to + ahead, 1);                                                       \
                    if (f.right == 1) AT(M, to) = sum[r][0];                                                 \
                    else AT(M, to) = SHUFFLE(M, sum[r][0], sum[r][1], M##_OF(LOWER));                        \
                    if (f.right == 1) continue;                                                              \
                    __builtin_prefetch(to + ahead + LANES, 1);                                               \
                    AT(M, to + LANES) = SHUFFLE(M, sum[r][0], sum[r][1], M##_OF(UPPER));                     \
                }                                                                                            \
            }                                                                                                \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_gather(const pooling *p, form f, ptrdiff_t channels, const st_real *dy,       \
                                      const st_real *place, st_real *dx)                                     \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const window w = p->w;                                                                               \
        const ptrdiff_t vectors = ceil_div(w.size[1], f.right),                                              \
                        all = ceil_div(w.size[0] + w.before[0], f.down), some = rows_at_once(p, all);        \
        const bool far = is_far(p, channels);                                                                \
        for (; channels > 0; channels--, dy += p->count, place += p->words, dx += p->area)                   \
            for (ptrdiff_t top = 0; top < all; top += some)                                                  \
                for (ptrdiff_t begin = (vectors - 1) / LANES * LANES; begin >= 0; begin -= LANES) {          \
                    const ptrdiff_t i = vectors < LANES ? 0 : lanes_within(begin, LANES, vectors);           \
                    M##_gather_down(p, f, w, far, top, smallest(top + some, all), i, dy, place, dx);         \
                }                                                                                            \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET static __attribute__((noinline)) void M##_gather_two(                                         \
        const pooling *p, ptrdiff_t channels, const st_real *dy, const st_real *place, st_real *dx)          \
    {                                                                                                        \
        M##_gather(p, (form){ 2, 2, 1, 1, 1, 0, true, true }, channels, dy, place, dx);                      \
    }                                                                                                        \
    M##_TARGET static void M##_maxima_back(const pooling *p, ptrdiff_t channels, const st_real *dy,          \
                                           const st_real *place, st_real *dx)                                \
    {                                                                                                        \
        const form f = p->f;                                                                                 \
        for (; p->pairs && channels > 0; channels--, dy += p->count, place += p->words, dx += p->area)       \
            spread_channel(ISA_LANES(M), &p->w, dy, place, dx);                                              \
        if (p->pairs) return;                                                                                \
        if (p->three && f.right == 1)                                                                        \
            M##_gather(p, (form){ 3, 3, 1, 1, 1, 0, true, true }, channels, dy, place, dx);                  \
        else if (p->three && f.odd)                                                                          \
            M##_gather(p, (form){ 3, 3, 2, 2, 2, 1, true, true }, channels, dy, place, dx);                  \
        else if (p->three) M##_gather(p, (form){ 3, 3, 2, 2, 2, 0, true, true }, channels, dy, place, dx);   \
        else if (p->two) M##_gather_two(p, channels, dy, place, dx);                                         \
        else if (f.right == 2)                                                                               \
            M##_gather(p, (form){ f.high, f.wide, f.down, 2, 1, f.odd, true }, channels, dy, place, dx);     \
        else M##_gather(p, (form){ f.high, f.wide, f.down, 1, 1, 0, true }, channels, dy, place, dx);        \
    }

/* ---- channels, for each instruction set ------------------------------------------------------------ */

/* Functions of a kind of pooling; the last argument computes a channel of means. */
#define FORWARD(M, KIND, ...)                                                                                \
    M##_TARGET static void M##_##KIND(const pooling *p, ptrdiff_t channels, const st_real *x, st_real *y,    \
                                      st_real *place)                                                        \
    {                                                                                                        \
        (void)place;                                                                                         \
        for (; channels > 0; channels--, x += p->area, y += p->count) __VA_ARGS__;                           \
    }

#define BACKWARD(M, KIND, ...)                                                                               \
    M##_TARGET static void M##_##KIND##_back(const pooling *p, ptrdiff_t channels, const st_real *dy,        \
                                             const st_real *place, st_real *dx)                              \
    {                                                                                                        \
        (void)place;                                                                                         \
        for (; channels > 0; channels--, dy += p->count, dx += p->area) __VA_ARGS__;                         \
    }

#define STAMP(M)                                                                                             \
    FORWARD(M, mean, *y = (st_real)sum_by_quads(p->area, x) * p->weight)                                     \
    BACKWARD(M, mean, spread_mean(p->area, *dy * p->weight, dx))                                             \
    FORWARD(M, means, mean_pairs(ISA_LANES(M), &p->w, x, y))                                                 \
    BACKWARD(M, means, spread_channel(ISA_LANES(M), &p->w, dy, NULL, dx))                                    \
    FIND(M)                                                                                                  \
    M##_TARGET static void M##_maxima_of(const pooling *p, ptrdiff_t channels, const st_real *x, st_real *y, \
                                         st_real *place)                                                     \
    {                                                                                                        \
        bool found;                                                                                          \
        if (is_far(p, channels)) found = M##_find_far(p, channels, x, y, place);                             \
        else if (place && p->pairs) found = M##_find(p, TWO_BY_TWO, false, false, channels, x, y, place);    \
        else if (place) found = M##_find_near(p, channels, x, y, place);                                     \
        else found = M##_find_form(p, false, false, channels, x, y, NULL);                                   \
        if (!found) M##_find_exactly(p, channels, x, y, place);                                              \
    }                                                                                                        \
    GATHER(M)

#define ROW_OF_TABLE(M)                                                                                      \
    { { M##_mean, M##_means, M##_maxima_of }, { M##_mean_back, M##_means_back, M##_maxima_back } },

EACH_ISA(STAMP)
static const struct {
    pool_forward *forward[KINDS];
    pool_backward *backward[KINDS];
} isas[] = { EACH_ISA(ROW_OF_TABLE) };

/* ---- the algorithms -------------------------------------------------------------------------------- */

enum { IMAGE, RESULT, PLACES }; /* scratch, for one channel */
enum { WHERE };                 /* memory: positions of maxima, unless no backward pass follows */

static bool paired(const window *w)
{
    return w->kernel[0] == 2 && w->kernel[1] == 2 && w->stride[0] == 2 && w->stride[1] == 2 &&
           w->dilation[0] == 1 && w->dilation[1] == 1 && !window_padded(w);
}

/* Rows that fill half a vector at most are left to rows_picks.c, which joins them. */
static bool narrow(const window *w)
{
    return w->out[1] <= LANES_MOST / 2;
}

/* So are means of fewer elements than a sum has terms at once. */
static bool suits_mean(const st_layer *l)
{
    return l->y.n[2] == 1 && l->y.n[3] == 1 && l->x.n[2] * l->x.n[3] >= 4;
}

static bool suits_means(const st_layer *l)
{
    const window *w = &((const pool_plan *)l->plan)->w;
    const bool whole = w->kernel[0] == w->size[0] && w->kernel[1] == w->size[1] && !window_padded(w);
    return (whole && suits_mean(l)) || (paired(w) && !narrow(w));
}

/* Positions are bytes. */
static bool suits_maxima(const st_layer *l)
{
    const pool_plan *p = l->plan;
    const window *w = &p->w;
    const bool three = w->kernel[0] == 3 && w->kernel[1] == 3 && w->stride[0] == w->stride[1];
    return !narrow(w) && w->dilation[0] == 1 && w->dilation[1] == 1 && w->stride[1] <= STRIDE_MOST &&
           (w->stride[1] == 1 || three || paired(w)) && (double)w->kernel[0] * w->kernel[1] <= NOWHERE &&
           w->size[1] <= COLUMNS && (!p->zeros || !window_padded(w));
}

static int plan(st_layer *l, const void *given)
{
    const window *w = &((const pool_plan *)given)->w;
    const ptrdiff_t reach = w->kernel[1], stride = w->stride[1];
    const bool maxima = l->type == &layer_type_maxpool;
    const ptrdiff_t room = maxima ? largest(w->out[1], w->size[1]) + LANES_MOST + 2 * reach : 0;
    pooling *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    p->w = *w;
    p->f = (form){ w->kernel[0], w->kernel[1], w->stride[0], w->stride[1], 1, (int)(w->before[1] % stride),
                   true };
    p->pairs = paired(w);
    p->two = w->kernel[0] == 2 && w->kernel[1] == 2 && w->stride[0] == 1 && w->stride[1] == 1;
    p->three = w->kernel[0] == 3 && w->kernel[1] == 3 && w->stride[0] == w->stride[1];
    p->kind = maxima ? MAXIMA : p->pairs ? MEANS : MEAN;
    p->area = w->size[0] * w->size[1];
    p->count = w->out[0] * w->out[1];
    p->words = p->pairs ? p->count : ceil_div(w->out[0], PACKED) * w->out[1];
    p->weight = 1 / ((st_real)w->size[0] * (st_real)w->size[1]);
    p->margin = STRIDE_MOST * LANES_MOST + 2 * (ptrdiff_t)w->kernel[1];
    const ptrdiff_t tail = LANES_MOST + reach; /* words, or windows */
    p->edge = maxima ? largest(ceil_div(p->margin, p->area), ceil_div(tail, p->words)) : 0;
    p->room = room;
    l->impl->tables = (size_t)((2 + stride) * room) * sizeof *p->tables;
    for (int i = 0; i < NOWHERE; i++) p->number[i] = i;
    if (maxima && st_layer_memory(l, ST_SHAPE(l->x.n[0], l->x.n[1], p->words))) return -1;
    const ptrdiff_t scratch[] = { p->area, p->count, p->words };
    for (int i = IMAGE; i <= PLACES; i++)
        if (st_layer_scratch(l, ST_SHAPE(scratch[i] + 2 * p->margin))) return -1;
    return 0;
}

static void fill(st_layer *l, void *tables)
{
    pooling *p = l->plan;
    const window *w = &p->w;
    const ptrdiff_t room = p->room, reach = w->kernel[1], stride = w->stride[1];
    p->tables = tables;
    for (ptrdiff_t i = 0; i < room; i++) {
        p->tables[i] = i < reach || i >= reach + w->out[1] ? -1 : 0;
        p->tables[room + i] = (isa_bits)largest(w->before[1] - i * stride, 0);
    }
    for (ptrdiff_t i = 0; i < stride * room; i++) {
        const ptrdiff_t column = i % room * stride + i / room - w->before[1];
        p->tables[2 * room + i] = column < 0 || column >= w->size[1] ? -1 : 0;
    }
}

/* Scratch i between margins. */
static st_real *between_margins(const st_call *c, int i)
{
    return st_data(st_scratch(c, i)) + ((const pooling *)c->plan)->margin;
}

/* Vectors pass the ends of a channel only into others of the call: those at its ends are copied. */
static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const pooling *p = c->plan;
    pool_forward *run = isas[c->layer->impl->isa].forward[p->kind];
    const ptrdiff_t planes = x.shape.n[1], channels = x.shape.n[0] * planes, count = p->count;
    const bool saves = p->kind == MAXIMA && !c->layer->impl->run->inference_only, whole = st_is_contiguous(x);
    st_real *image = between_margins(c, IMAGE), *best = between_margins(c, RESULT), *to = st_data(y);
    st_real *places = saves ? between_margins(c, PLACES) : NULL;
    st_real *where = saves ? st_data(st_memory(c, WHERE)) : NULL;
    for (ptrdiff_t i = 0; i < p->margin; i++) image[i - p->margin] = image[p->area + i] = 0;
    for (ptrdiff_t k = 0, n; k < channels; k += n, to += n * count) {
        const bool direct = whole && k == p->edge && channels > 2 * k;
        n = direct ? channels - 2 * k : 1;
        if (direct) run(p, n, st_data(x) + k * p->area, to, where);
        else {
            const st_tensor one = st_select(st_select(x, 0, k / planes), 0, k % planes);
            if (whole) memcpy(image, st_data(x) + k * p->area, (size_t)p->area * sizeof *image);
            else st_copy(st_reshape(st_narrow(st_scratch(c, IMAGE), 0, p->margin, p->area), one.shape), one);
            run(p, 1, image, best, places);
            memcpy(to, best, (size_t)count * sizeof *to);
            if (where) memcpy(where, places, (size_t)p->words * sizeof *where);
        }
        if (where) where += n * p->words;
    }
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    const pooling *p = c->plan;
    pool_backward *run = isas[c->layer->impl->isa].backward[p->kind];
    const ptrdiff_t channels = dx.shape.n[0] * dx.shape.n[1], count = p->count;
    st_real *copy = between_margins(c, RESULT), *image = between_margins(c, IMAGE);
    st_real *places = between_margins(c, PLACES), *from = st_data(dy), *to = st_data(dx);
    const st_real *where = p->kind == MAXIMA ? st_data(st_memory(c, WHERE)) : NULL;
    for (ptrdiff_t k = 0, n; k < channels; k += n, from += n * count, to += n * p->area) {
        const bool direct = k == p->edge && channels > 2 * k;
        n = direct ? channels - 2 * k : 1;
        if (direct) run(p, n, from, where, to);
        else {
            memcpy(copy, from, (size_t)count * sizeof *copy);
            memcpy(places, where, (size_t)p->words * sizeof *places);
            run(p, 1, copy, places, image);
            memcpy(to, image, (size_t)p->area * sizeof *to);
        }
        if (where) where += n * p->words;
    }
}

/* Others test too many positions in the backward pass. */
bool pooling_keeps_positions(const st_layer *l)
{
    const pooling *p = l->plan;
    return l->impl->hooks.backward == backward && p->kind == MAXIMA && (p->two || p->three);
}

/* Rows of windows whose positions are in the same words; a position is `offset` from a window's first one. */
INLINE void at_positions(const window *w, ptrdiff_t rows, const ptrdiff_t *offset, const st_real *words,
                         const st_real *x, st_real *restrict to)
{
    const ptrdiff_t n = w->out[1], down = w->stride[0] * w->size[1], right = w->stride[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        isa_bits word;
        memcpy(&word, words + i, sizeof word);
        for (ptrdiff_t r = 0; r < rows; r++)
            to[r * n + i] = x[r * down + i * right + offset[word >> (int)r * BYTE & NOWHERE]];
    }
}

void pooling_at_positions(const st_layer *l, ptrdiff_t images, const st_real *x, st_real *to)
{
    const st_call c = layer_call(l, 0, images, 0);
    const pooling *p = c.plan;
    const window *w = &p->w;
    const ptrdiff_t n = w->out[1], wide = w->size[1], down = w->stride[0] * wide;
    const st_real *words = st_data(st_memory(&c, WHERE));
    ptrdiff_t offset[NOWHERE];
    for (int i = 0; i < w->kernel[0] * w->kernel[1]; i++)
        offset[i] = (i / w->kernel[1] - w->before[0]) * wide + i % w->kernel[1] - w->before[1];
    for (ptrdiff_t k = 0; k < images * l->x.n[1]; k++, x += p->area)
        for (ptrdiff_t oh = 0; oh < w->out[0]; oh += PACKED, words += n) {
            const ptrdiff_t rows = smallest(w->out[0] - oh, PACKED);
            if (rows == PACKED) at_positions(w, PACKED, offset, words, x + oh * down, to);
            else at_positions(w, rows, offset, words, x + oh * down, to);
            to += rows * n;
        }
}

#define ALGORITHM(NAME, SUITS)                                                                               \
    const layer_algorithm NAME##_vectors = { .type = &layer_type_##NAME,                                     \
                                             .suits = SUITS,                                                 \
                                             .plan = plan,                                                   \
                                             .fill = fill,                                                   \
                                             .hooks = { .forward = forward, .backward = backward } };
ALGORITHM(maxpool, suits_maxima)
ALGORITHM(avgpool, suits_means)
ALGORITHM(adaptive_avgpool, suits_mean)
