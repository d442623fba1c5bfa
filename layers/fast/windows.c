/* windows.c: the phases of a channel, and poolings by them (windows.h). */
#include "layers/fast/windows.h"
#include "layers/fast/functions.h"
#include "layers/fast/kernel.h"
#include "layers/pooling/family.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>

enum {
    AXIS_TABLES = 5,
    RUN = POOL_LANES / 2,
    MOST_TAPS_AT_ONCE = 1 << 16,
    KEPT = 1 << 13,
    MADE = 512,
    SQUARES = 1 << 10
};
enum { SUM_LANES = POOL_LANES / 4 };

typedef double double_lanes[SUM_LANES];

/* ---- phases, for each instruction set ------------------------------------------------------------------ */

/* Copies RUN elements at a time, which may pass the row's end, while those stand before `end`. */
INLINE void copy_run(ptrdiff_t n, const st_real *from, const st_real *end, st_real *restrict to,
                     const st_real *to_end)
{
    ptrdiff_t i = 0;
    for (; i < n && end - from >= i + RUN && to_end - to >= i + RUN; i += RUN)
        memcpy(to + i, from + i, RUN * sizeof *to);
    for (; i < n; i++) to[i] = from[i];
}

INLINE void fill_run(ptrdiff_t n, st_real fill, st_real *to)
{
    for (ptrdiff_t i = 0; i < n; i += ISA_LANES(generic)) AT(generic, to + i) = (generic_vector){ 0 } + fill;
}

/* Rows of which the next one begins `down` on: even[i] = from[2 i], i < m, and odd[i] = from[2 i + 1], i < n,
 * with `fill` up to the next row of a phase, while vectors do not pass `end`; returns how many rows that are.
 * They are written in whole vectors, which the next row, or what follows all rows, overwrites. */
#define PART_ROWS(M)                                                                                         \
    M##_TARGET INLINE ptrdiff_t M##_part_some_rows(ptrdiff_t rows, const st_real *from, ptrdiff_t down,      \
                                                   const st_real *end, ptrdiff_t m, st_real *even,           \
                                                   ptrdiff_t n, st_real *odd, ptrdiff_t pitch, st_real fill) \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const ptrdiff_t most = m > n ? m : n, reads = ceil_div(most, LANES) * 2 * LANES,                     \
                        gap = pitch - (m < n ? m : n);                                                       \
        ptrdiff_t j = 0;                                                                                     \
        for (; j < rows && end - from >= reads; j++, from += down, even += pitch, odd += pitch) {            \
            ptrdiff_t i = 0;                                                                                 \
            do {                                                                                             \
                const M##_vector u = AT(M, from + 2 * i), v = AT(M, from + 2 * i + LANES);                   \
                AT(M, even + i) = SHUFFLE(M, u, v, M##_OF(EVEN)),                                            \
                             AT(M, odd + i) = SHUFFLE(M, u, v, M##_OF(ODD));                                 \
                i += LANES;                                                                                  \
            } while (i < most);                                                                              \
            fill_run(gap, fill, even + m), fill_run(gap, fill, odd + n);                                     \
        }                                                                                                    \
        return j;                                                                                            \
    }
EACH_ISA(PART_ROWS)
typedef ptrdiff_t part_function(ptrdiff_t rows, const st_real *from, ptrdiff_t down, const st_real *end,
                                ptrdiff_t m, st_real *even, ptrdiff_t n, st_real *odd, ptrdiff_t pitch,
                                st_real fill);

/* to[2 i] = even[i], to[2 i + 1] = odd[i] */
INLINE void join_run(ptrdiff_t n, const st_real *even, const st_real *odd, st_real *restrict to,
                     const st_real *end)
{
    ptrdiff_t i = 0;
    for (; i < n && end - to >= 2 * (i + RUN); i += RUN) _Pragma("GCC unroll 1") for (int k = 0; k < RUN; k++)
        {
            to[2 * (i + k)] = even[i + k];
            to[2 * (i + k) + 1] = odd[i + k];
        }
    for (; i < n; i++) to[2 * i] = even[i], to[2 * i + 1] = odd[i];
}

/* A phase of a channel x [H, W]: rows top ... bottom - 1 of `row` are from[0 ... n - 1], from[down], ...,
 * after `low` others. */
typedef struct phase_rows {
    ptrdiff_t top, bottom, low, high;
    const st_real *from;
    st_real *row;
} phase_rows;

INLINE phase_rows rows_of_phase(const windows_plan *p, ptrdiff_t a, ptrdiff_t b, const st_real *x,
                                st_real *to)
{
    const phase_axis *h = &p->axis[0], *w = &p->axis[1];
    phase_rows s = { .top = h->low[a], .bottom = h->high[a], .low = w->low[b], .high = w->high[b] };
    s.from = x + (s.top * h->stride + h->residue[a] - h->before) * w->size + s.low * w->stride +
             w->residue[b] - w->before;
    s.row = to + (a * w->phases + b) * p->phase;
    return s;
}

/* Fills what precedes a phase's elements; vectors may write beyond it. */
INLINE void fill_before(const windows_plan *p, phase_rows s, st_real fill)
{
    fill_run(s.top * p->pitch + s.low, fill, s.row);
}

/* Fills what follows all rows. */
INLINE void fill_after(const windows_plan *p, phase_rows s, st_real fill)
{
    const ptrdiff_t end = largest(s.top, s.bottom);
    fill_run((p->rows - end) * p->pitch, fill, s.row + end * p->pitch);
}

/* One phase, with `fill` beyond it; vectors may read x up to `end`. What they write beyond their place is
 * overwritten by what follows. */
INLINE void to_phase(const windows_plan *p, phase_rows s, const st_real *end, st_real fill)
{
    const ptrdiff_t stride = p->axis[1].stride, down = p->axis[0].stride * p->axis[1].size,
                    n = s.high - s.low;
    const st_real *from = s.from;
    st_real *row = s.row + s.top * p->pitch + s.low, *stop = s.row + p->phase;
    fill_before(p, s, fill);
    for (ptrdiff_t j = s.top; j < s.bottom; j++, row += p->pitch, from += down) {
        if (stride == 1) copy_run(n, from, end, row, stop);
        else
            for (ptrdiff_t i = 0; i < n; i++) row[i] = from[i * stride];
        fill_run(p->pitch - n, fill, row + n); /* vectors may have written there */
    }
    fill_after(p, s, fill);
}

/* Both phases of a stride of 2, likewise: elements of s in a row are to the left of those of t. */
INLINE void to_pair(const windows_plan *p, phase_rows s, phase_rows t, const st_real *end, st_real fill,
                    part_function *part_rows)
{
    const ptrdiff_t pitch = p->pitch, down = p->axis[0].stride * p->axis[1].size, m = s.high - s.low,
                    n = t.high - t.low;
    const st_real *from = s.from;
    st_real *row = s.row + s.top * pitch + s.low, *next = t.row + s.top * pitch + t.low;
    fill_before(p, s, fill), fill_before(p, t, fill);
    ptrdiff_t j = s.top + part_rows(s.bottom - s.top, from, down, end, m, row, n, next, pitch, fill);
    from += (j - s.top) * down, row += (j - s.top) * pitch, next += (j - s.top) * pitch;
    for (; j < s.bottom; j++, row += pitch, next += pitch, from += down) {
        for (ptrdiff_t i = 0; i < pitch; i++) row[i] = i < m ? from[2 * i] : fill;
        for (ptrdiff_t i = 0; i < pitch; i++) next[i] = i < n ? from[2 * i + 1] : fill;
    }
    fill_after(p, s, fill), fill_after(p, t, fill);
}

/* The channel x [H, W] as phases. */
INLINE void to_phases(const windows_plan *p, const st_real *x, const st_real *end, st_real fill, st_real *to,
                      part_function *part_rows)
{
    const phase_axis *w = &p->axis[1];
    const bool paired = w->stride == 2 && w->phases == 2;
    for (ptrdiff_t a = 0; a < p->axis[0].phases; a++)
        if (paired) {
            const phase_rows s = rows_of_phase(p, a, 0, x, to), t = rows_of_phase(p, a, 1, x, to);
            const bool swap = t.from < s.from;
            to_pair(p, swap ? t : s, swap ? s : t, end, fill, part_rows);
        } else
            for (ptrdiff_t b = 0; b < w->phases; b++) to_phase(p, rows_of_phase(p, a, b, x, to), end, fill);
}

/* The adjoint of to_phases: writes all of the channel to [H, W]; vectors may write up to `end`. */
INLINE void from_phases(const windows_plan *p, const st_real *from, st_real *to, st_real *end)
{
    const phase_axis *h = &p->axis[0], *w = &p->axis[1];
    const ptrdiff_t before = w->before, pitch = p->pitch, wide = w->size, pair = w->phases * p->phase,
                    even = before % 2 * p->phase + before / 2,
                    odd = (before + 1) % 2 * p->phase + (before + 1) / 2,
                    end_of_1 = smallest(pitch - before, wide), end_of_2 = smallest(2 * pitch - before, wide);
    const bool paired = w->stride == 2 && w->phases == 2;
    ptrdiff_t j = h->before / h->stride, residue = h->before % h->stride; /* of row 0 */
    for (ptrdiff_t r = 0; r < h->size; r++, to += wide) {
        ptrdiff_t a = 0, done = 0;
        while (a < h->phases && h->residue[a] != residue) a++;
        if (a < h->phases && j < p->rows) {
            const st_real *row = from + a * pair + j * pitch;
            if (w->stride == 1) {
                done = end_of_1;
                copy_run(done, row + before, row + before + done + RUN, to, end);
            } else if (paired) { /* columns 0, 2, ..., and the others */
                done = end_of_2;
                join_run(done / 2, row + even, row + odd, to, end);
                if (done % 2) to[done - 1] = row[even + done / 2];
            } else {
                memset(to, 0, (size_t)wide * sizeof *to);
                for (ptrdiff_t b = 0; b < w->phases; b++) {
                    const st_real *column = row + b * p->phase;
                    for (ptrdiff_t i = w->low[b]; i < w->high[b]; i++)
                        to[i * w->stride + w->residue[b] - before] = column[i];
                }
                done = wide;
            }
        }
        for (; done < wide; done++) to[done] = 0;
        if (++residue == h->stride) residue = 0, j++;
    }
}

/* Tests if rows and columns of the channel are in turns in two phases, which have all of them. */
INLINE bool in_pairs(const windows_plan *p)
{
    bool pairs = true;
    for (int i = 0; i < 2; i++) {
        const phase_axis *a = &p->axis[i];
        pairs = pairs && a->stride == 2 && a->phases == 2 && a->size + a->before <= 2 * (a->out + a->reach);
    }
    return pairs;
}

/* from_phases of a channel that is in_pairs, whose phases are sums: in phase q, of members[q] runs of
 * elements, whose places are `at` and what follows. */
#define JOIN_PAIRS(M)                                                                                        \
    M##_TARGET INLINE M##_vector M##_sum_of_runs(ptrdiff_t members, const ptrdiff_t *at,                     \
                                                 const st_real *from)                                        \
    {                                                                                                        \
        M##_vector sum = AT(M, from + at[0]);                                                                \
        for (ptrdiff_t k = 1; k < members; k++) sum += AT(M, from + at[k]);                                  \
        return sum;                                                                                          \
    }                                                                                                        \
    M##_TARGET INLINE void M##_join_row(ptrdiff_t wide, ptrdiff_t m, const ptrdiff_t *u,                     \
                                        const st_real *even, ptrdiff_t n, const ptrdiff_t *v,                \
                                        const st_real *odd, st_real *to, const st_real *end)                 \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        ptrdiff_t i = 0;                                                                                     \
        for (; i < wide && end - to >= i + 2 * LANES; i += 2 * LANES, even += LANES, odd += LANES) {         \
            const M##_vector s = M##_sum_of_runs(m, u, even), t = M##_sum_of_runs(n, v, odd);                \
            AT(M, to + i) = SHUFFLE(M, s, t, M##_OF(LOWER));                                                 \
            AT(M, to + i + LANES) = SHUFFLE(M, s, t, M##_OF(UPPER));                                         \
        }                                                                                                    \
        for (; i < wide; i++) {                                                                              \
            st_real sum = i % 2 ? odd[v[0]] : even[u[0]];                                                    \
            for (ptrdiff_t k = 1; k < (i % 2 ? n : m); k++) sum += i % 2 ? odd[v[k]] : even[u[k]];           \
            to[i] = sum;                                                                                     \
            if (i % 2) odd++, even++;                                                                        \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET INLINE void M##_join_rows(const windows_plan *p, const st_real *from,                         \
                                         const ptrdiff_t *const *at, bool odd, ptrdiff_t m, ptrdiff_t n,     \
                                         ptrdiff_t k, ptrdiff_t l, st_real *to, st_real *end)                \
    {                                                                                                        \
        const ptrdiff_t before = p->axis[0].before, size = p->axis[0].size, wide = p->axis[1].size,          \
                        beside = p->axis[1].before;                                                          \
        const ptrdiff_t *const u = at[odd], *const v = at[!odd], *const s = at[2 + odd],                     \
                               *const t = at[3 - odd];                                                       \
        for (ptrdiff_t r = before; r < before + size; r++, to += wide) {                                     \
            const st_real *row = from + r / 2 * p->pitch + beside / 2;                                       \
            if (r % 2) M##_join_row(wide, odd ? l : k, s, row, odd ? k : l, t, row + odd, to, end);          \
            else M##_join_row(wide, odd ? n : m, u, row, odd ? m : n, v, row + odd, to, end);                \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET static void M##_join_pairs(const windows_plan *p, const st_real *from, const ptrdiff_t *at,   \
                                          const ptrdiff_t *members, st_real *to, st_real *end)               \
    {                                                                                                        \
        const ptrdiff_t phases[4] = { 0, p->phase, 2 * p->phase, 3 * p->phase },                             \
                        *first[4] = { phases, phases + 1, phases + 2, phases + 3 };                          \
        const bool odd = p->axis[1].before % 2 != 0;                                                         \
        for (int q = 0; q < 4 && members; at += members[q++]) first[q] = at;                                 \
        if (!members || members[0] == 1) {                                                                   \
            if (odd) M##_join_rows(p, from, first, true, 1, 1, 1, 1, to, end);                               \
            else M##_join_rows(p, from, first, false, 1, 1, 1, 1, to, end);                                  \
        } else if (members[0] == 4 && members[1] == 2 && members[2] == 2) {                                  \
            if (odd) M##_join_rows(p, from, first, true, 4, 2, 2, 1, to, end);                               \
            else M##_join_rows(p, from, first, false, 4, 2, 2, 1, to, end);                                  \
        } else M##_join_rows(p, from, first, odd, members[0], members[1], members[2], members[3], to, end);  \
    }
EACH_ISA(JOIN_PAIRS)

/* Windows [OH, OW] as a grid, 0 elsewhere; and back, `none` where a window has no element. */
INLINE void to_grid(const windows_plan *p, const st_real *from, const st_real *end, st_real *to)
{
    const bool dense = p->pitch == p->axis[1].out;
    const ptrdiff_t rows = dense ? 1 : p->axis[0].out, out = p->axis[1].out * (dense ? p->axis[0].out : 1),
                    pitch = dense ? out : p->pitch;
    for (ptrdiff_t row = 0; row < rows; row++, from += out, to += pitch) {
        copy_run(out, from, end, to, to + out + RUN);
        for (ptrdiff_t i = out; i < pitch; i++) to[i] = 0;
    }
    EACH_WINDOW(k) to[k] = 0;
}

INLINE void from_grid(const windows_plan *p, const st_real *from, st_real none, st_real *to,
                      const st_real *end)
{
    const bool dense = p->pitch == p->axis[1].out;
    const ptrdiff_t rows = dense ? 1 : p->axis[0].out, out = p->axis[1].out * (dense ? p->axis[0].out : 1);
    const st_real *inside = p->inside;
    for (ptrdiff_t row = 0; row < rows; row++, from += p->pitch, inside += p->pitch, to += out) {
        copy_run(out, from, from + out + RUN, to, end);
        for (ptrdiff_t i = 0; i < out && p->gaps; i++) to[i] = inside[i] > 0 ? to[i] : none;
    }
}

INLINE ptrdiff_t whole(ptrdiff_t n)
{
    return ceil_div(n, POOL_LANES) * POOL_LANES;
}

/* ---- sums over windows: of rows, and of their columns -------------------------------------------------- */

/* The rows of a channel, whose padding is the same. */
typedef struct padded_rows {
    ptrdiff_t wide, columns; /* elements of a row with its padding, and those in the image */
} padded_rows;

INLINE padded_rows padded_rows_of(const windows_plan *p)
{
    const phase_axis *w = &p->axis[1];
    const ptrdiff_t wide = w->stride * p->pitch;
    return (padded_rows){ wide, largest(smallest(w->size, wide - w->before), 0) };
}

/* Rows of `wide` numbers, of which the first n are computed. */
typedef struct row_form {
    ptrdiff_t n, wide;
    st_real fill;
} row_form;

/* add_at: to[i], i < n, is the sum of from[at[k] + i], k < count, and unless `first` of what it was; others
 * are `fill`. `from` goes on by `next` from row to row. What is written beyond a row is overwritten by what
 * follows. add_columns: the sum of the elements of each window in a row; stride is 1 or 2. part_columns: its
 * adjoint. pair_row: an image's row, where columns of windows are 2 apart and have 2 or 3 elements: the sum
 * of `count` rows of q, `up` apart, each for two columns, of which one, the second if `odd`, is in the window
 * beside, too, if there are 3. */
#define ADD_UP(M)                                                                                            \
    M##_TARGET INLINE void M##_add_some_at(ptrdiff_t rows, ptrdiff_t count, const ptrdiff_t *restrict at,    \
                                           const st_real *from, ptrdiff_t next, bool first, st_real *to,     \
                                           row_form r)                                                       \
    {                                                                                                        \
        for (; rows > 0; rows--, from += next, to += r.wide) {                                               \
            for (ptrdiff_t i = 0; i < r.n; i += ISA_LANES(M)) {                                              \
                M##_vector sum = { 0 };                                                                      \
                if (!first) sum = AT(M, to + i);                                                             \
                for (ptrdiff_t k = 0; k < count; k++) sum += AT(M, from + at[k] + i);                        \
                AT(M, to + i) = sum;                                                                         \
            }                                                                                                \
            for (ptrdiff_t i = r.n; i < r.wide; i++) to[i] = r.fill;                                         \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET INLINE void M##_add_at(ptrdiff_t rows, ptrdiff_t count, const ptrdiff_t *at,                  \
                                      const st_real *from, ptrdiff_t next, bool first, st_real *to,          \
                                      row_form r)                                                            \
    {                                                                                                        \
        if (count == 1) M##_add_some_at(rows, 1, at, from, next, first, to, r);                              \
        else if (count == 2) M##_add_some_at(rows, 2, at, from, next, first, to, r);                         \
        else if (count == 3) M##_add_some_at(rows, 3, at, from, next, first, to, r);                         \
        else if (count == 4) M##_add_some_at(rows, 4, at, from, next, first, to, r);                         \
        else M##_add_some_at(rows, count, at, from, next, first, to, r);                                     \
    }                                                                                                        \
    M##_TARGET INLINE void M##_add_columns(ptrdiff_t n, int taps, ptrdiff_t dilation, ptrdiff_t stride,      \
                                           const st_real *from, st_real *to)                                 \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        for (ptrdiff_t i = 0; i < n; i += LANES, from += stride * LANES) {                                   \
            M##_vector u = AT(M, from), v = AT(M, from + LANES);                                             \
            for (int k = 1; k < taps; k++) {                                                                 \
                u += AT(M, from + k * dilation);                                                             \
                if (stride == 2) v += AT(M, from + k * dilation + LANES);                                    \
            }                                                                                                \
            AT(M, to + i) = stride == 2 ? SHUFFLE(M, u, v, M##_OF(EVEN)) : u;                                \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET INLINE void M##_part_columns(ptrdiff_t n, int taps, ptrdiff_t dilation, ptrdiff_t stride,     \
                                            const st_real *from, st_real *to)                                \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        for (ptrdiff_t i = 0; i < n; i += LANES, from += LANES, to += stride * LANES) {                      \
            M##_vector even = AT(M, from), odd = { 0 };                                                      \
            for (int k = 1; k < taps; k++) {                                                                 \
                const M##_vector q = AT(M, from - k * dilation / stride);                                    \
                if (k * dilation % stride == 0) even += q;                                                   \
                else odd += q;                                                                               \
            }                                                                                                \
            AT(M, to) = stride == 2 ? SHUFFLE(M, even, odd, M##_OF(LOWER)) : even;                           \
            if (stride == 2) AT(M, to + LANES) = SHUFFLE(M, even, odd, M##_OF(UPPER));                       \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET static void M##_sum_windows(const windows_plan *p, const st_real *f, st_real padding,         \
                                           st_real *rows, st_real *to)                                       \
    {                                                                                                        \
        const phase_axis *h = &p->axis[0], *w = &p->axis[1];                                                 \
        const padded_rows s = padded_rows_of(p);                                                             \
        const ptrdiff_t right = p->pool.w.dilation[1], down = p->pool.w.dilation[0], n = whole(p->windows);  \
        st_real *row = rows + smallest(w->before, s.wide);                                                   \
        const st_real edge = (st_real)h->kernel * padding;                                                   \
        for (st_real *at = rows; at < row; at++) *at = edge;                                                 \
        for (ptrdiff_t r = -h->before, i = 0, same; i < h->out; i += same, r += same * h->stride) {          \
            const ptrdiff_t reach = (h->kernel - 1) * down;                                                  \
            ptrdiff_t first = 0, end = h->kernel;                                                            \
            while (first < end && r + first * down < 0) first++;                                             \
            while (first < end && r + (end - 1) * down >= h->size) end--;                                    \
            same = r >= 0 && end == h->kernel                                                                \
                       ? smallest((h->size - 1 - reach - r) / h->stride + 1, h->out - i)                     \
                       : 1;                                                                                  \
            const st_real more = (st_real)(h->kernel - (end - first)) * padding;                             \
            for (ptrdiff_t k = 0; k < same * s.wide && more != 0; k++) row[k] = more;                        \
            M##_add_at(same, end - first, p->to, f + (r + first * down) * w->size, h->stride * w->size,      \
                       more == 0, row, (row_form){ s.columns, s.wide, edge });                               \
            row += same * s.wide;                                                                            \
        }                                                                                                    \
        if (w->stride == 2 && right == 1 && w->kernel == 2) M##_add_columns(n, 2, 1, 2, rows, to);           \
        else if (w->stride == 2 && right == 1 && w->kernel == 3) M##_add_columns(n, 3, 1, 2, rows, to);      \
        else if (w->stride == 2) M##_add_columns(n, w->kernel, right, 2, rows, to);                          \
        else if (w->stride == 1 && w->kernel == 3) M##_add_columns(n, 3, right, 1, rows, to);                \
        else if (w->stride == 1) M##_add_columns(n, w->kernel, right, 1, rows, to);                          \
        else                                                                                                 \
            for (ptrdiff_t i = 0; i < n; i++) {                                                              \
                to[i] = 0;                                                                                   \
                for (int k = 0; k < w->kernel; k++) to[i] += rows[i * w->stride + k * right];                \
            }                                                                                                \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_part_rows(const windows_plan *p, const st_real *q, ptrdiff_t wide,            \
                                         st_real *rows)                                                      \
    {                                                                                                        \
        const phase_axis *h = &p->axis[0], *w = &p->axis[1];                                                 \
        const ptrdiff_t right = p->pool.w.dilation[1], n = whole(h->out * p->pitch);                         \
        if (w->stride == 2) M##_part_columns(n, w->kernel, right, 2, q, rows);                               \
        else if (w->stride == 1 && w->kernel == 3) M##_part_columns(n, 3, right, 1, q, rows);                \
        else if (w->stride == 1) M##_part_columns(n, w->kernel, right, 1, q, rows);                          \
        else {                                                                                               \
            memset(rows, 0, (size_t)((h->out + 1) * wide) * sizeof *rows);                                   \
            for (int k = 0; k < w->kernel; k++)                                                              \
                for (ptrdiff_t i = 0; i < p->windows; i++) rows[i * w->stride + k * right] += q[i];          \
        }                                                                                                    \
    }                                                                                                        \
    /* Adds adjoints to n elements of each phase, `first`: writes them; or each tap's to n elements. */      \
    M##_TARGET static void M##_add_taps(const windows_plan *p, ptrdiff_t n, const st_real *from, bool first, \
                                        st_real *to)                                                         \
    {                                                                                                        \
        const ptrdiff_t *at = p->from;                                                                       \
        for (ptrdiff_t i = 0; i < p->taps && p->far; i++)                                                    \
            M##_add_at(1, 1, p->to + i, from, 0, false, to + p->offset[i], (row_form){ n, n, 0 });           \
        if (p->far) return;                                                                                  \
        for (int q = 0; q < p->axis[0].phases * p->axis[1].phases; at += p->members[q++], to += p->phase)    \
            M##_add_at(1, p->members[q], at, from, 0, first, to, (row_form){ n, n, 0 });                     \
    }                                                                                                        \
    M##_TARGET INLINE void M##_pair_row(ptrdiff_t n, bool three, bool odd, ptrdiff_t count, ptrdiff_t up,    \
                                        const st_real *q, st_real *to)                                       \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        for (ptrdiff_t i = 0; i < n; i += 2 * LANES, q += LANES) {                                           \
            M##_vector here = { 0 }, beside = { 0 };                                                         \
            for (ptrdiff_t k = 0; k < count; k++) {                                                          \
                here += AT(M, q + k * up);                                                                   \
                if (three || odd) beside += AT(M, q + k * up + (odd ? 1 : -1));                              \
            }                                                                                                \
            M##_vector both = odd ? beside : here;                                                           \
            if (three) both = here + beside;                                                                 \
            const M##_vector u = odd ? here : both, v = odd ? both : here;                                   \
            AT(M, to + i) = SHUFFLE(M, u, v, M##_OF(LOWER));                                                 \
            AT(M, to + i + LANES) = SHUFFLE(M, u, v, M##_OF(UPPER));                                         \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET INLINE void M##_pair_rows(const windows_plan *p, bool three, bool odd, const st_real *q,      \
                                         st_real *to)                                                        \
    {                                                                                                        \
        const phase_axis *h = &p->axis[0], *w = &p->axis[1];                                                 \
        const ptrdiff_t up = h->kernel > 1 ? p->from[1] / 2 : 0, n = padded_rows_of(p).columns;              \
        for (ptrdiff_t r = 0; r < h->size; r++, to += w->size) {                                             \
            const st_real *last = q + p->last[r] * p->pitch + w->before / 2;                                 \
            M##_pair_row(n, three, odd, p->members[r], up, last, to);                                        \
            for (ptrdiff_t i = n; i < w->size; i++) to[i] = 0;                                               \
        }                                                                                                    \
        EACH_WINDOW(k) to[k] = 0;                                                                            \
    }                                                                                                        \
    /* The adjoint: each element's sum over its windows, of each q. Before q there are zeros. */             \
    M##_TARGET static void M##_sum_elements(const windows_plan *p, int sums, st_real *const *q,              \
                                            st_real *const *rows, st_real *const *to)                        \
    {                                                                                                        \
        const phase_axis *h = &p->axis[0], *w = &p->axis[1];                                                 \
        const padded_rows s = padded_rows_of(p);                                                             \
        const ptrdiff_t wide = w->size;                                                                      \
        for (int i = 0; i < sums; i++) {                                                                     \
            const bool three = w->kernel == 3, odd = w->before % 2 != 0;                                     \
            if (w->stride == 2 && (three || w->kernel == 2) && p->pool.w.dilation[1] == 1) {                 \
                if (three && odd) M##_pair_rows(p, true, true, q[i], to[i]);                                 \
                else if (three) M##_pair_rows(p, true, false, q[i], to[i]);                                  \
                else if (odd) M##_pair_rows(p, false, true, q[i], to[i]);                                    \
                else M##_pair_rows(p, false, false, q[i], to[i]);                                            \
                continue;                                                                                    \
            }                                                                                                \
            M##_part_rows(p, q[i], s.wide, rows[i]);                                                         \
            st_real *row = to[i];                                                                            \
            for (ptrdiff_t r = 0; r < h->size; r++, row += wide)                                             \
                M##_add_at(1, p->members[r], p->from, rows[i] + p->last[r] * s.wide + w->before, 0, true,    \
                           row, (row_form){ s.columns, wide, 0 });                                           \
            EACH_WINDOW(k) row[k] = 0;                                                                       \
        }                                                                                                    \
    }
EACH_ISA(ADD_UP)

#ifdef STRIDE_DOUBLE
#define NOT_FINITE 0x7ff0000000000000
#else
#define NOT_FINITE 0x7f800000
#endif

/* The bits of what is not finite are greater than those of any number without its sign. */
INLINE bool all_finite(ptrdiff_t n, const st_real *x)
{
    isa_bits most = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        real_bits bits;
        memcpy(&bits, x + i, sizeof bits);
        const isa_bits size = (isa_bits)(bits << 1 >> 1);
        most = size > most ? size : most;
    }
    return most < NOT_FINITE;
}

/* The least and the greatest x; returns if all are finite. n is a multiple of POOL_LANES. */
#define RANGE_OF(M)                                                                                          \
    M##_TARGET static bool M##_range_of(ptrdiff_t n, const st_real *x, st_real *least, st_real *most)        \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        M##_vector low[2], high[2], zero[2] = { { 0 } };                                                     \
        EACH(k, 2) low[k] = high[k] = AT(M, x + k * LANES);                                                  \
        for (ptrdiff_t i = 0; i < n; i += 2 * LANES) EACH(k, 2)                                              \
            {                                                                                                \
                const M##_vector v = AT(M, x + i + k * LANES);                                               \
                low[k] = BY(M, min, v, low[k]), high[k] = BY(M, max, v, high[k]);                            \
                zero[k] += v * 0; /* NaN of what is not finite */                                            \
            }                                                                                                \
        low[0] = BY(M, min, low[0], low[1]), high[0] = BY(M, max, high[0], high[1]);                         \
        const M##_mask other = zero[0] + zero[1] != 0;                                                       \
        st_real small[2] = { low[0][0], low[0][1] }, great[2] = { high[0][0], high[0][1] };                  \
        isa_bits any = other[0] | other[1];                                                                  \
        EACH(l, LANES)                                                                                       \
        {                                                                                                    \
            small[l % 2] = low[0][l] < small[l % 2] ? low[0][l] : small[l % 2];                              \
            great[l % 2] = high[0][l] > great[l % 2] ? high[0][l] : great[l % 2];                            \
            any |= other[l];                                                                                 \
        }                                                                                                    \
        *least = small[0] < small[1] ? small[0] : small[1];                                                  \
        *most = great[0] > great[1] ? great[0] : great[1];                                                   \
        return any == 0;                                                                                     \
    }
EACH_ISA(RANGE_OF)

INLINE void numbers_of_words(ptrdiff_t n, const uint32_t *word, st_real *to)
{
    for (ptrdiff_t i = 0; i < n; i += RUN)
        _Pragma("GCC unroll 1") for (int k = 0; k < RUN; k++) to[i + k] = number_of_word(word[i + k]);
}

/* Adds total[i] to the sums to[i]. */
INLINE void add_totals(ptrdiff_t n, lanes *total, double_lanes *to)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double *restrict sum = to[i];
        const st_real *part = total[i];
        _Pragma("GCC unroll 1") for (int l = 0; l < SUM_LANES; l++) sum[l] +=
            ((double)part[l] + (double)part[l + SUM_LANES]) +
            ((double)part[l + 2 * SUM_LANES] + (double)part[l + 3 * SUM_LANES]);
    }
}

#define STAMP(M)                                                                                             \
    M##_TARGET static void M##_add_totals(ptrdiff_t n, lanes *total, double_lanes *to)                       \
    {                                                                                                        \
        add_totals(n, total, to);                                                                            \
    }                                                                                                        \
    M##_TARGET static void M##_to_phases(const windows_plan *p, const st_real *x, const st_real *end,        \
                                         st_real fill, st_real *to)                                          \
    {                                                                                                        \
        to_phases(p, x, end, fill, to, M##_part_some_rows);                                                  \
    }                                                                                                        \
    M##_TARGET static void M##_from_phases(const windows_plan *p, const st_real *from, st_real *to,          \
                                           st_real *end)                                                     \
    {                                                                                                        \
        from_phases(p, from, to, end);                                                                       \
    }                                                                                                        \
    M##_TARGET static void M##_to_grid(const windows_plan *p, const st_real *from, const st_real *end,       \
                                       st_real *to)                                                          \
    {                                                                                                        \
        to_grid(p, from, end, to);                                                                           \
    }                                                                                                        \
    M##_TARGET static void M##_from_grid(const windows_plan *p, const st_real *from, st_real none,           \
                                         st_real *to, const st_real *end)                                    \
    {                                                                                                        \
        from_grid(p, from, none, to, end);                                                                   \
    }                                                                                                        \
    M##_TARGET static bool M##_all_finite(ptrdiff_t n, const st_real *x)                                     \
    {                                                                                                        \
        return all_finite(n, x);                                                                             \
    }                                                                                                        \
    M##_TARGET static void M##_numbers_of_words(ptrdiff_t n, const uint32_t *word, st_real *to)              \
    {                                                                                                        \
        numbers_of_words(n, word, to);                                                                       \
    }

#define ROW_OF_TABLE(M)                                                                                      \
    { M##_to_phases,  M##_from_phases,      M##_to_grid,      M##_from_grid,                                 \
      M##_add_taps,   M##_sum_windows,      M##_sum_elements, M##_range_of,                                  \
      M##_all_finite, M##_numbers_of_words, M##_add_totals,   M##_join_pairs },

EACH_ISA(STAMP)
static const struct {
    void (*to_phases)(const windows_plan *p, const st_real *x, const st_real *end, st_real fill, st_real *to);
    void (*from_phases)(const windows_plan *p, const st_real *from, st_real *to, st_real *end);
    void (*to_grid)(const windows_plan *p, const st_real *from, const st_real *end, st_real *to);
    void (*from_grid)(const windows_plan *p, const st_real *from, st_real none, st_real *to,
                      const st_real *end);
    void (*add_taps)(const windows_plan *p, ptrdiff_t n, const st_real *from, bool first, st_real *to);
    void (*sum_windows)(const windows_plan *p, const st_real *f, st_real padding, st_real *rows, st_real *to);
    void (*sum_elements)(const windows_plan *p, int sums, st_real *const *q, st_real *const *rows,
                         st_real *const *to);
    bool (*range_of)(ptrdiff_t n, const st_real *x, st_real *least, st_real *most);
    bool (*all_finite)(ptrdiff_t n, const st_real *x);
    void (*numbers_of_words)(ptrdiff_t n, const uint32_t *word, st_real *to);
    void (*add_totals)(ptrdiff_t n, lanes *total, double_lanes *to);
    void (*join_pairs)(const windows_plan *p, const st_real *from, const ptrdiff_t *at,
                       const ptrdiff_t *members, st_real *to, st_real *end);
} isas[] = { EACH_ISA(ROW_OF_TABLE) };

/* ---- room for a channel -------------------------------------------------------------------------------- */

/* Scratch, from the plan's first slot on: an image that is a view, what a channel needs, logits of an image
 * and their gradients. */
enum { IMAGE, ARENA, LOGITS, DLOGITS };

typedef struct room {
    st_real *phases, *dphases, *adjoints, *y, *dy, *place, *uniform;
    uint32_t *word;
    lanes *sorted, *totals;
    double_lanes *sums_of;    /* of parameters' elements */
    st_real *first, *counted; /* of each window; for each number of elements */
    st_real *weight;
    st_real *f[MOST_SUMS], *q[MOST_SUMS], *sums[MOST_SUMS], *rows[MOST_SUMS], *x, *logits, *dx, *dlogits;
} room;

/* Elements of a grid of windows, whose rows are `pitch` apart, in whole vectors, also those of a last row. */
static ptrdiff_t grid_of(const windows_plan *p)
{
    return whole(p->axis[0].out * p->pitch) + (p->squares ? POOL_LANES : 0);
}

/* Blocks of random words that are made at once: of a channel's windows, or of some channels'. */
static ptrdiff_t blocks_of(const windows_plan *p)
{
    return whole(largest(MADE, p->axis[0].out * p->axis[1].out / WINDOWS_OF_BLOCK + 2));
}

/* The room from `at` on, which may be NULL; returns its size. */
static ptrdiff_t lay_out(const windows_plan *p, st_real *at, room *r)
{
    const ptrdiff_t grid = grid_of(p) + POOL_LANES,
                    area = whole(p->axis[0].size * p->axis[1].size) + POOL_LANES,
                    all = p->phases + POOL_LANES, before = whole(p->axis[1].reach);
    const ptrdiff_t doubles = sizeof(double) / sizeof(st_real);
    ptrdiff_t used = 0;
#define TAKE(MEMBER, n) r->MEMBER = at ? (void *)(at + used) : NULL, used += whole(n)
    const bool prepares = p->lanes && p->lanes->prepare;
    TAKE(uniform, p->draws ? grid : 0);
    TAKE(word, p->draws ? WINDOWS_OF_BLOCK * blocks_of(p) + POOL_LANES : 0);
    TAKE(first, prepares ? grid : 0);
    TAKE(counted, prepares ? p->taps + 1 : 0);
    TAKE(sums_of, p->lanes ? p->taps * SUM_LANES * doubles : 0);
    TAKE(y, grid);
    TAKE(dy, grid);
    if (p->lanes) {
        TAKE(phases, all);
        TAKE(dphases, all);
        TAKE(adjoints, p->apart ? 0 : p->taps * p->run);
        TAKE(place, grid);
        TAKE(sorted, p->taps * POOL_LANES);
        TAKE(totals, p->taps * POOL_LANES);
        TAKE(weight, p->taps);
    } else {
        TAKE(x, area);
        TAKE(dx, area);
        TAKE(logits, p->logits ? area : 0);
        TAKE(dlogits, p->logits ? area : 0);
        for (int j = 0; j < p->sums->sums; j++) {
            TAKE(f[j], area);
            TAKE(sums[j], area);
            TAKE(rows[j], p->axis[1].stride * (grid + p->pitch + before + 1) + POOL_LANES);
            TAKE(q[j], before + grid);
            if (at) r->q[j] += before;
        }
    }
#undef TAKE
    return used;
}

static room room_of(const st_call *c, bool draws)
{
    const windows_plan *p = c->plan;
    room r = { 0 };
    lay_out(p, st_data(st_scratch(c, p->scratch + ARENA)), &r);
    if (p->lanes && p->lanes->prepare) {
        p->lanes->prepare(c->options, draws, p->taps, r.counted, r.weight);
        for (ptrdiff_t i = 0; i < whole(p->windows); i++) r.first[i] = r.counted[(ptrdiff_t)p->inside[i]];
    }
    /* Lanes without a window read also what no channel writes. */
    if (p->lanes) memset(r.phases, 0, (size_t)(p->phases + POOL_LANES) * sizeof *r.phases);
    if (p->lanes) memset(r.sums_of, 0, (size_t)p->taps * sizeof *r.sums_of);
    if (p->lanes) memset(r.totals, 0, (size_t)p->taps * sizeof *r.totals);
    if (p->lanes && !p->apart) memset(r.adjoints, 0, (size_t)(p->taps * p->run) * sizeof *r.adjoints);
    for (int j = 0; p->sums && j < p->sums->sums; j++)
        for (ptrdiff_t i = 1; i <= p->axis[1].reach; i++) r.q[j][-i] = 0;
    return r;
}

/* Elements of a channel, in whole vectors. */
static ptrdiff_t elements_of(const windows_plan *p)
{
    return whole(p->axis[0].size * p->axis[1].size);
}

/* How many numbers are kept of a channel: runs of its windows, as grids, a run of its elements, and last the
 * shift, or NaN where the definition computes the channel. */
static ptrdiff_t kept_of(const windows_plan *p)
{
    const ptrdiff_t elements = p->sums && p->sums->keeps_elements ? elements_of(p) : 0;
    if (p->squares) return p->squares->runs * grid_of(p) + POOL_LANES;
    return p->draws ? 0 : p->runs * grid_of(p) + elements + POOL_LANES;
}

/* A call, as its channels share it. */
typedef struct batch {
    const windows_plan *plan;
    const st_call *call;
    int isa;
    bool draws;  /* elements are drawn */
    bool places; /* and their places are kept */
    const squares_form *squares;
    uint64_t made, blocks; /* blocks of random words that are made: the first one, and how many */
    st_tensor x, y, dy, dx;
    bool contiguous;                 /* x is */
    bool has_logits;                 /* the pooling has some */
    ptrdiff_t channels, area, count; /* elements and windows of a channel */
    ptrdiff_t each;                  /* what is kept of a channel */
    st_window first, at;             /* of channel 0, and of the current one */
    ptrdiff_t elements;              /* of a channel's parameter, which is the only one; 0: there is none */
    bool per_channel;                /* each channel has its own */
    ptrdiff_t totalled;              /* windows of squares whose totals are not added yet */
    st_real order;                   /* of sums: a function of the parameter */
    st_real orders[2];               /* of squares */
    st_real *grad;                   /* NULL: it is not wanted */
    st_real *logits, *dlogits;       /* of an image, and their gradients */
    st_real *place, *kept, *x_at, *y_at, *dy_at, *dx_at, *x_end, *y_end, *dy_end, *dx_end;
    room room;
} batch;

static st_real *data_of(st_tensor x)
{
    return st_is_null(x) ? NULL : st_data(x);
}

static st_real *end_of(st_tensor x)
{
    return st_is_null(x) ? NULL : st_data(x) + st_numel(x);
}

static batch batch_of(const st_call *c, bool gradient, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const windows_plan *p = c->plan;
    batch b = { .plan = p, .call = c, .isa = c->layer->impl->isa, .draws = p->draws && c->training };
    if (b.draws || !p->draws) b.squares = p->squares;
    b.places = b.draws && !b.squares;
    b.x = x, b.y = y, b.dy = dy, b.dx = dx;
    b.contiguous = st_is_contiguous(x);
    b.channels = x.shape.n[1], b.area = x.shape.n[2] * x.shape.n[3],
    b.count = p->axis[0].out * p->axis[1].out;
    b.has_logits = p->logits != NULL;
    if (b.has_logits) {
        b.logits = st_data(st_scratch(c, p->scratch + LOGITS));
        b.dlogits = st_data(st_scratch(c, p->scratch + DLOGITS));
    }
    b.first = b.has_logits ? (st_window){ .options = c->options } : pool_channel(c, 0, 0);
    b.at = b.first;
    if (c->layer->params > 0 && !b.has_logits) b.elements = st_numel(c->param[0]) / c->param[0].shape.n[0];
    b.per_channel = b.elements > 0 && c->param[0].shape.n[0] > 1;
    if (gradient && !b.has_logits) b.grad = st_data(st_grad(c, 0));
    if (b.places) b.place = st_data(st_memory(c, 0));
    b.each = kept_of(p);
    if (b.each > 0) b.kept = st_data(st_memory(c, 0));
    b.x_at = data_of(x), b.y_at = data_of(y), b.dy_at = data_of(dy), b.dx_at = data_of(dx);
    b.x_end = end_of(x), b.y_end = end_of(y), b.dy_end = end_of(dy), b.dx_end = end_of(dx);
    b.room = room_of(c, b.draws);
    return b;
}

/* A channel: x's elements one after the other, up to the end of those that may be read. */
typedef struct channel {
    const st_real *x, *x_end, *logits;
    st_real *y, *dx, *place, *dlogits, *kept;
    const st_real *dy;
    st_real least, most; /* in the forward pass: of x, or of the logits */
    bool finite;
} channel;

/* The n elements at x, so many that they are whole vectors: the last one stands behind them. */
static const st_real *whole_vectors(ptrdiff_t n, const st_real *x, st_real *copy)
{
    if (n == whole(n)) return x;
    memcpy(copy, x, (size_t)n * sizeof *x);
    for (ptrdiff_t i = n; i < whole(n); i++) copy[i] = x[n - 1];
    return copy;
}

/* range_of of the n elements at x. */
static bool range_of_any(int isa, ptrdiff_t n, const st_real *x, st_real *least, st_real *most)
{
    lanes rest;
    st_real low, high;
    const ptrdiff_t vectors = n / POOL_LANES * POOL_LANES;
    bool finite = vectors == 0 || isas[isa].range_of(vectors, x, least, most);
    if (vectors == n || !finite) return finite;
    EACH_WINDOW(k) rest[k] = x[smallest(vectors + k, n - 1)];
    finite = isas[isa].range_of(POOL_LANES, rest, &low, &high);
    if (vectors == 0 || low < *least) *least = low;
    if (vectors == 0 || high > *most) *most = high;
    return finite;
}

/* Tests if adjoints by lanes read x. */
static bool adjoints_read(const windows_plan *p)
{
    return p->runs == 0 || p->lanes->reads;
}

/* Channel `number` of the call, which becomes the current one; each member of *a is set. */
static void find_channel(batch *b, ptrdiff_t number, channel *a)
{
    const st_call *c = b->call;
    const ptrdiff_t k = number % b->channels;
    a->x_end = b->x_end, a->place = NULL, a->dy = NULL, a->dx = a->kept = a->dlogits = NULL, a->logits = NULL;
    a->least = a->most = 0;
    if (b->contiguous) a->x = b->x_at + number * b->area;
    else {
        const st_tensor image = st_select(b->x, 0, number / b->channels),
                        copy = st_reshape(st_scratch(c, b->plan->scratch + IMAGE), image.shape);
        if (k == 0) st_copy(copy, image);
        a->x = st_data(copy) + k * b->area, a->x_end = end_of(copy);
    }
    a->y = b->y_at + number * b->count;
    if (b->dy_at) a->dy = b->dy_at + number * b->count;
    if (b->dx_at) a->dx = b->dx_at + number * b->area;
    if (b->places) a->place = b->place + number * b->count;
    b->at.channel = k, b->at.number = b->first.number + (uint64_t)number;
    if (b->per_channel) b->at.param[0] = b->first.param[0] + k * b->elements;
    for (ptrdiff_t i = 0; i < b->elements; i++) b->at.dparam[0][i] = 0;
    if (b->plan->sums && b->plan->sums->order && (number == 0 || b->per_channel))
        b->order = (st_real)b->plan->sums->order(&b->at);
    if (b->squares && b->squares->order && (number == 0 || b->per_channel))
        b->squares->order(&b->at, b->orders);
    if (b->has_logits) a->logits = b->logits + k * b->area, a->dlogits = b->dlogits + k * b->area;
    const sums_form *form = b->plan->sums;
    const bool back = b->dy_at != NULL, reads = !back || (b->squares ? b->squares->reads
                                                          : form     ? b->has_logits || !form->keeps_elements
                                                                     : adjoints_read(b->plan));
    if (b->kept) a->kept = b->kept + number * b->each;
    if (form && reads) a->x = whole_vectors(b->area, a->x, b->room.x);
    if (b->kept && back) {
        a->finite = !isnan(a->kept[b->each - 1]);
        return;
    }
    if (b->squares) {
        a->finite = true; /* until its values are not */
        return;
    }
    if (b->has_logits) a->logits = whole_vectors(b->area, a->logits, b->room.logits);
    if (form && !b->has_logits) a->finite = range_of_any(b->isa, b->area, a->x, &a->least, &a->most);
    else a->finite = isas[b->isa].all_finite(b->area, a->x);
    if (b->has_logits && a->finite) a->finite = range_of_any(b->isa, b->area, a->logits, &a->least, &a->most);
}

/* Adds the totals of vectors of windows to the sums. */
static void add_totals_of(batch *b)
{
    isas[b->isa].add_totals(b->elements, b->room.totals, b->room.sums_of);
    memset(b->room.totals, 0, (size_t)b->elements * sizeof *b->room.totals);
    b->totalled = 0;
}

/* The sums of vectors of a channel's windows, or of all channels'. */
static void end_sums(batch *b)
{
    add_totals_of(b);
    for (ptrdiff_t i = 0; i < b->elements; i++) {
        double *part = b->room.sums_of[i];
        b->at.dparam[0][i] =
            ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
        for (int l = 0; l < SUM_LANES; l++) part[l] = 0;
    }
}

static void add_gradient(batch *b)
{
    if (b->plan->lanes) end_sums(b);
    st_real *grad = b->grad + (b->per_channel ? b->at.channel * b->elements : 0);
    for (ptrdiff_t i = 0; i < b->elements; i++) grad[i] += (st_real)b->at.dparam[0][i];
}

/* ---- lanes --------------------------------------------------------------------------------------------- */

/* The adjoints of a tap stand between zeros: windows that are not computed. */
static ptrdiff_t margin_of(const windows_plan *p)
{
    return p->far ? 0 : whole(p->reach) + POOL_LANES;
}

/* Sets each member that is used. */
static void set_lanes(lanes_call *c, const batch *b, const channel *a, ptrdiff_t first)
{
    const windows_plan *p = b->plan;
    const room *r = &b->room;
    const ptrdiff_t grid = grid_of(p);
    c->at = &b->at, c->taps = p->taps, c->offset = p->offset, c->to = p->to;
    c->x = r->phases + first, c->inside = p->inside + first, c->over = p->over + first, c->full = p->full;
    c->uniform = b->draws ? r->uniform + first : NULL;
    c->places = p->places + first, c->place = r->place + first;
    c->y = r->y + first, c->dy = r->dy + first,
    c->dx = p->apart ? r->dphases + first : r->adjoints + margin_of(p);
    st_real *kept = a->kept ? a->kept : r->y; /* which is not used then */
    for (int j = 0; j < MOST_RUNS; j++) c->kept[j] = kept + j * grid + first;
    c->keeps = p->runs > 0 && !b->call->layer->impl->run->inference_only;
    c->sums = r->totals, c->room = r->sorted, c->first = r->first + first, c->weight = r->weight;
}

static void cut(const batch *b, const channel *a)
{
    isas[b->isa].to_phases(b->plan, a->x, a->x_end, b->plan->pool.zeros ? 0 : -(st_real)INFINITY,
                           b->room.phases);
}

/* The random numbers of a channel's windows. */
static void draw(batch *b)
{
    const windows_plan *p = b->plan;
    const room *r = &b->room;
    const ptrdiff_t out = p->axis[1].out, pitch = p->pitch;
    const uint64_t first = b->at.number * (uint64_t)b->count, block = first / WINDOWS_OF_BLOCK,
                   end = (first + (uint64_t)b->count + WINDOWS_OF_BLOCK - 1) / WINDOWS_OF_BLOCK;
    if (block < b->made || end > b->made + b->blocks)
        st_random_words(b->at.key, b->made = block, r->word, b->blocks = blocks_of(p));
    const uint32_t *word = r->word + (first - b->made * WINDOWS_OF_BLOCK);
    const bool dense = pitch == out;
    const ptrdiff_t rows = dense ? 1 : p->axis[0].out, n = dense ? b->count : out;
    for (ptrdiff_t row = 0; row < rows; row++) {
        isas[b->isa].numbers_of_words(n, word + row * out, r->uniform + row * pitch);
        for (ptrdiff_t i = out; i < pitch; i++) r->uniform[row * pitch + i] = 0;
    }
    fill_run(grid_of(p) - p->windows, (st_real)0.5, r->uniform + p->windows); /* 0 would be unsure */
}

/* Rows of windows from `first` on. */
static squares_call squares_of(const batch *b, const channel *a, ptrdiff_t first, ptrdiff_t rows)
{
    const windows_plan *p = b->plan;
    const room *r = &b->room;
    const ptrdiff_t wide = p->axis[1].size, out = p->axis[1].out;
    squares_call c = { .at = &b->at, .rows = rows, .columns = out, .wide = wide };
    c.x = a->x + 2 * first * wide, c.x_end = a->x_end;
    c.y = a->y + first * out, c.y_end = b->y_end;
    if (a->dy) c.dy = a->dy + first * out, c.dy_end = b->dy_end;
    if (a->dx) c.dx = a->dx + 2 * first * wide, c.dx_end = b->dx_end;
    if (a->kept) c.kept = a->kept + first * out, c.run = grid_of(p);
    if (a->logits) {
        const ptrdiff_t all = b->channels * b->area;
        c.logits = a->logits + 2 * first * wide, c.logits_end = b->logits + all;
        c.dlogits = a->dlogits + 2 * first * wide, c.dlogits_end = b->dlogits + all;
    }
    c.uniform = r->uniform + first * out;
    c.sums = r->totals, c.first = r->counted, c.weight = r->weight,
    c.order = b->squares->order ? b->orders : NULL;
    return c;
}

/* False: the definition is to compute the channel. */
static bool squares_values(batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    if (b->draws) draw(b);
    squares_call call = squares_of(b, a, 0, p->axis[0].out);
    if (b->call->layer->impl->run->inference_only) call.kept = NULL;
    const bool finite = b->squares->functions[b->isa].values(&call);
    if (a->kept) a->kept[b->each - 1] = finite ? 0 : (st_real)NAN;
    return finite;
}

static void squares_adjoints(batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    const ptrdiff_t out = p->axis[0].out, some = largest(SQUARES / p->axis[1].out, 1),
                    used = 2 * out * p->axis[1].size;
    for (ptrdiff_t first = 0; first < out; first += some) {
        const squares_call call = squares_of(b, a, first, smallest(some, out - first));
        if (b->totalled + call.rows * call.columns > SQUARES) add_totals_of(b);
        b->squares->functions[b->isa].adjoints(&call);
        b->totalled += call.rows * call.columns;
    }
    if (a->dx) memset(a->dx + used, 0, (size_t)(b->area - used) * sizeof *a->dx);
    if (a->dlogits) memset(a->dlogits + used, 0, (size_t)(b->area - used) * sizeof *a->dlogits);
}

static void lanes_values(batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    cut(b, a);
    if (b->draws) draw(b);
    lanes_call call;
    set_lanes(&call, b, a, 0);
    p->lanes->values[b->isa](&call, whole(p->windows));
    isas[b->isa].from_grid(p, b->room.y, 0, a->y, b->y_end);
    if (a->kept) a->kept[b->each - 1] = 0;
    if (b->places) isas[b->isa].from_grid(p, b->room.place, -1, a->place, a->place + b->count);
}

static void lanes_adjoints(batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    const room *r = &b->room;
    const bool at_once = p->step >= p->windows && !p->far, pairs = in_pairs(p), sums = pairs && at_once;
    if (adjoints_read(p)) cut(b, a);
    isas[b->isa].to_grid(p, a->dy, b->dy_end, r->dy);
    if (a->dx && !p->apart && !at_once) memset(r->dphases, 0, (size_t)p->phases * sizeof *r->dphases);
    for (ptrdiff_t first = 0; first < p->windows; first += p->step) {
        const ptrdiff_t count = smallest(p->step, p->windows - first), n = whole(count);
        lanes_call call;
        set_lanes(&call, b, a, first);
        p->lanes->adjoints[b->isa](&call, n);
        add_totals_of(b);
        if (!a->dx || p->apart || sums) continue;
        for (ptrdiff_t i = 0; i < p->taps && n < p->step && !p->far; i++) /* of the block before */
            memset(r->adjoints + margin_of(p) + p->to[i] + n, 0,
                   (size_t)whole(p->reach) * sizeof *r->adjoints);
        isas[b->isa].add_taps(p, p->far ? n : whole(count + p->reach), r->adjoints + margin_of(p), at_once,
                              r->dphases + first);
    }
    if (!a->dx) return;
    if (sums && !p->apart)
        isas[b->isa].join_pairs(p, r->adjoints + margin_of(p), p->from, p->members, a->dx, b->dx_end);
    else if (pairs) isas[b->isa].join_pairs(p, r->dphases, NULL, NULL, a->dx, b->dx_end);
    else isas[b->isa].from_phases(p, r->dphases, a->dx, b->dx_end);
}

/* ---- sums ---------------------------------------------------------------------------------------------- */

/* Sets each member that is used: to fill a struct with zeros would take as long as a pass over a channel. */
static void set_sums(sums_call *s, const batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    const room *r = &b->room;
    const ptrdiff_t grid = grid_of(p);
    s->at = &b->at, s->taps = p->taps, s->order = b->order, s->n = whole(b->area);
    s->x = a->x, s->logits = a->logits, s->y = r->y, s->dy = r->dy;
    s->inside = p->inside, s->over = p->over, s->kept = a->kept + p->sums->sums * grid;
    for (int j = 0; j < p->sums->sums; j++)
        s->f[j] = r->f[j], s->q[j] = r->q[j], s->s[j] = a->kept + j * grid;
}

/* The terms of padding of zeros. */
static void terms_of_padding(const batch *b, sums_call s, st_real padding[MOST_SUMS])
{
    const lanes zero = { 0 };
    lanes f[MOST_SUMS], kept;
    s.x = zero, s.n = POOL_LANES, s.kept = kept;
    for (int j = 0; j < b->plan->sums->sums; j++) s.f[j] = f[j];
    b->plan->sums->functions[b->isa].terms(&s);
    for (int j = 0; j < b->plan->sums->sums; j++) padding[j] = f[j][0];
}

static bool sums_values(const batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    const room *r = &b->room;
    const bool zeros = p->pool.zeros;
    st_real padding[MOST_SUMS] = { 0 };
    sums_call s;
    set_sums(&s, b, a);
    s.least = zeros && a->least > 0 ? 0 : a->least;
    s.shift = s.most = zeros && a->most < 0 ? 0 : a->most;
    p->sums->functions[b->isa].terms(&s);
    if (zeros) terms_of_padding(b, s, padding);
    for (int j = 0; j < p->sums->sums; j++)
        isas[b->isa].sum_windows(p, s.f[j], padding[j], r->rows[j], s.s[j]);
    s.n = whole(p->windows);
    if (!p->sums->functions[b->isa].values(&s)) return false;
    isas[b->isa].from_grid(p, r->y, 0, a->y, b->y_end);
    a->kept[b->each - 1] = s.shift;
    return true;
}

static void sums_adjoints(const batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    const room *r = &b->room;
    sums_call s;
    set_sums(&s, b, a);
    isas[b->isa].to_grid(p, a->dy, b->dy_end, r->dy);
    s.shift = a->kept[b->each - 1];
    s.n = whole(p->windows);
    p->sums->functions[b->isa].slopes(&s);
    for (int j = 0; j < p->sums->slopes; j++) {
        for (ptrdiff_t i = s.n; i < grid_of(p); i++) s.q[j][i] = 0;
        s.q[j] = r->sums[j];
    }
    isas[b->isa].sum_elements(p, p->sums->slopes, r->q, r->rows, r->sums);
    s.n = whole(b->area);
    const bool fits = s.n == b->area;
    s.dx = fits && a->dx ? a->dx : r->dx;
    s.dlogits = fits ? a->dlogits : r->dlogits;
    p->sums->functions[b->isa].back(&s);
    if (a->dx && !fits) memcpy(a->dx, r->dx, (size_t)b->area * sizeof *r->dx);
    if (b->has_logits && !fits) memcpy(a->dlogits, r->dlogits, (size_t)b->area * sizeof *r->dlogits);
}

/* ---- gradients of what was drawn ----------------------------------------------------------------------- */

/* The place of a channel's first window, where the definition has drawn. */
#define NOT_DRAWN ((st_real)-2)

static st_tensor plane(st_tensor x, ptrdiff_t image, ptrdiff_t k)
{
    return st_is_null(x) ? x : st_select(st_select(x, 0, image), 0, k);
}

static void backward_of_drawn(const batch *b)
{
    const st_real *place = b->place, *dy = st_data(b->dy);
    st_real *to = st_data(b->dx);
    for (ptrdiff_t i = 0; i < b->x.shape.n[0] * b->channels; i++, to += b->area) {
        const ptrdiff_t image = i / b->channels, k = i % b->channels;
        if (*place == NOT_DRAWN)
            pool_adjoint_plane(b->call, false, image, k, plane(b->x, image, k), st_data(b->y) + i * b->count,
                               dy, plane(b->dx, image, k));
        else {
            memset(to, 0, (size_t)b->area * sizeof *to);
            for (ptrdiff_t j = 0; j < b->count; j++)
                if (place[j] >= 0) to[(ptrdiff_t)place[j]] += dy[j];
        }
        place += b->count, dy += b->count;
    }
}

/* ---- hooks --------------------------------------------------------------------------------------------- */

/* Image i of x as [C, HW]. */
static st_tensor image_of(const batch *b, st_tensor x, ptrdiff_t i)
{
    const st_shape s = ST_SHAPE(b->channels, b->area);
    if (st_is_null(x)) return x;
    if (st_is_contiguous(x)) return st_reshape(st_select(x, 0, i), s);
    const st_tensor copy = st_reshape(st_scratch(b->call, b->plan->scratch + IMAGE), s);
    st_copy(st_reshape(copy, st_select(x, 0, i).shape), st_select(x, 0, i));
    return copy;
}

/* Image i with logits. False: the definition is to compute it. */
static bool image_with_logits(batch *b, ptrdiff_t i, bool back, bool gradient)
{
    const logits_form *form = b->plan->logits;
    const st_tensor x = image_of(b, b->x, i), dlogits = st_scratch(b->call, b->plan->scratch + DLOGITS);
    if (!back) form->logits(b->call, x, st_scratch(b->call, b->plan->scratch + LOGITS));
    for (ptrdiff_t k = 0; k < b->channels; k++) {
        channel a;
        find_channel(b, i * b->channels + k, &a);
        if (back && a.finite && b->squares) squares_adjoints(b, &a);
        else if (back && a.finite) sums_adjoints(b, &a);
        else if (back || !a.finite || !(b->squares ? squares_values(b, &a) : sums_values(b, &a))) {
            b->kept[i * b->channels * b->each + b->each - 1] = (st_real)NAN; /* the image's first */
            return false;
        }
    }
    if (back) form->end(b->call, gradient, x, dlogits, image_of(b, b->dx, i));
    return true;
}

static void forward_with_logits(batch *b, const st_call *c)
{
    for (ptrdiff_t i = 0; i < b->x.shape.n[0]; i++)
        if (!image_with_logits(b, i, false, false))
            c->layer->type->forward(c, st_narrow(b->x, 0, i, 1), st_narrow(b->y, 0, i, 1));
}

static void backward_with_logits(batch *b, const st_call *c, bool gradient)
{
    const st_layer_type *t = c->layer->type;
    for (ptrdiff_t i = 0; i < b->x.shape.n[0]; i++) {
        if (image_with_logits(b, i, true, gradient)) continue;
        const st_tensor x = st_narrow(b->x, 0, i, 1), y = st_narrow(b->y, 0, i, 1),
                        dy = st_narrow(b->dy, 0, i, 1);
        if (gradient) t->gradient(c, x, y, dy);
        if (!st_is_null(b->dx)) t->backward(c, x, y, dy, st_narrow(b->dx, 0, i, 1));
    }
}

void windows_forward(const st_call *c, st_tensor x, st_tensor y)
{
    batch b = batch_of(c, false, x, y, (st_tensor){ 0 }, (st_tensor){ 0 });
    if (b.has_logits) {
        forward_with_logits(&b, c);
        return;
    }
    for (ptrdiff_t i = 0; i < x.shape.n[0] * b.channels; i++) {
        channel a;
        find_channel(&b, i, &a);
        const ptrdiff_t image = i / b.channels, k = b.at.channel;
        if (b.places && !a.finite) a.place[0] = NOT_DRAWN;
        if (a.finite && b.plan->lanes && !b.squares) lanes_values(&b, &a);
        else if (!a.finite || !(b.plan->lanes ? squares_values(&b, &a) : sums_values(&b, &a))) {
            if (b.kept) a.kept[b.each - 1] = (st_real)NAN;
            pool_forward_plane(c, image, k, plane(x, image, k), a.y);
        }
    }
}

static void run_backward(const st_call *c, bool gradient, st_tensor x, st_tensor y, st_tensor dy,
                         st_tensor dx)
{
    batch b = batch_of(c, gradient, x, y, dy, dx);
    if (b.has_logits || b.places) {
        if (b.has_logits) backward_with_logits(&b, c, gradient);
        else backward_of_drawn(&b);
        return;
    }
    const ptrdiff_t channels = x.shape.n[0] * b.channels;
    const bool adds_once = b.plan->lanes && !b.per_channel;
    for (ptrdiff_t i = 0; i < channels; i++) {
        channel a;
        find_channel(&b, i, &a);
        const ptrdiff_t image = i / b.channels, k = b.at.channel;
        if (!a.finite)
            pool_adjoint_plane(c, gradient, image, k, plane(x, image, k), a.y, a.dy, plane(dx, image, k));
        else if (b.squares) squares_adjoints(&b, &a);
        else if (b.plan->lanes) lanes_adjoints(&b, &a);
        else sums_adjoints(&b, &a);
        if (a.finite && gradient && !adds_once) add_gradient(&b);
    }
    if (gradient && adds_once) add_gradient(&b);
}

void windows_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    run_backward(c, false, x, y, dy, dx);
}

void windows_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    run_backward(c, true, x, y, dy, (st_tensor){ 0 });
}

void windows_both(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    run_backward(c, true, x, y, dy, dx);
}

/* ---- plans --------------------------------------------------------------------------------------------- */

bool windows_suit(const st_layer *l)
{
    const window *w = &((const pool_plan *)l->plan)->w;
    return w->kernel[0] <= MOST_TAPS_AT_ONCE / w->kernel[1] &&
           (double)w->size[0] * (double)w->size[1] < MOST_PLACES;
}

bool windows_are_squares(const st_layer *l)
{
    const window *w = &((const pool_plan *)l->plan)->w;
    for (int i = 0; i < 2; i++)
        if (w->kernel[i] != 2 || w->stride[i] != 2 || w->dilation[i] != 1 || w->before[i] != 0 ||
            w->size[i] < 2 * w->out[i] || w->size[i] > 2 * w->out[i] + 1)
            return false;
    return windows_suit(l);
}

static phase_axis axis_of(const window *w, int i)
{
    phase_axis a = { .kernel = w->kernel[i], .size = w->size[i], .out = w->out[i] };
    a.before = w->before[i], a.stride = w->stride[i];
    a.phases = (int)smallest(a.kernel, a.stride / greatest_common_divisor(a.stride, w->dilation[i]));
    a.reach = (ptrdiff_t)(a.kernel - 1) * w->dilation[i] / a.stride;
    return a;
}

ptrdiff_t windows_at_once(const st_layer *l)
{
    const window *w = &((const pool_plan *)l->plan)->w;
    const ptrdiff_t places = w->out[0] * (w->out[1] + axis_of(w, 1).reach);
    return largest(w->out[0] * w->out[1] / ceil_div(places, POOL_LANES), 1);
}

static ptrdiff_t members_of(const windows_plan *p)
{
    return p->sums ? p->axis[0].size : p->phases / p->phase;
}

int windows_plan_for(st_layer *l, const void *given, const lanes_form *by_lanes, const sums_form *by_sums)
{
    const window *w = &((const pool_plan *)given)->w;
    windows_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    *p = (windows_plan){ .pool = *(const pool_plan *)given, .lanes = by_lanes, .sums = by_sums };
    p->logits = by_sums ? by_sums->logits : by_lanes->logits;
    for (int i = 0; i < 2; i++) p->axis[i] = axis_of(w, i);
    p->taps = (ptrdiff_t)w->kernel[0] * w->kernel[1];
    p->rows = w->out[0] + p->axis[0].reach, p->pitch = w->out[1] + p->axis[1].reach;
    p->phase = whole(p->rows * p->pitch) + POOL_LANES;
    p->phases = p->axis[0].phases * p->axis[1].phases * p->phase;
    p->windows = (w->out[0] - 1) * p->pitch + w->out[1];
    p->step = largest(smallest(KEPT / p->taps, p->windows + POOL_LANES - 1) / POOL_LANES, 1) * POOL_LANES;
    p->draws = by_lanes && by_lanes->draws && by_lanes->draws(l->options);
    if (by_lanes && windows_are_squares(l)) p->squares = p->draws ? by_lanes->drawn : by_lanes->squares;
    if (by_sums) p->runs = by_sums->sums;
    else p->runs = p->draws ? 0 : by_lanes->runs + (FEW_TAPS(p->taps) ? by_lanes->few : 0);
    if (p->draws && !p->squares && st_layer_memory(l, ST_SHAPE(l->x.n[0], l->x.n[1], w->out[0], w->out[1])))
        return -1;
    const ptrdiff_t each = kept_of(p);
    if (each > 0 && st_layer_memory(l, ST_SHAPE(l->x.n[0], l->x.n[1], each))) return -1;
    p->reach = p->axis[0].reach * p->pitch + p->axis[1].reach;
    p->far = p->reach > p->step;
    p->run = p->step + 2 * margin_of(p);
    p->apart = p->reach == 0;
    l->impl->tables =
        (size_t)(3 * p->taps + members_of(p) + w->size[0] + AXIS_TABLES * (w->kernel[0] + w->kernel[1])) *
            sizeof(ptrdiff_t) +
        (size_t)(2 * (grid_of(p) + POOL_LANES) + p->phases + POOL_LANES) * sizeof(st_real) +
        (size_t)(w->out[0] + w->out[1]) * sizeof(pool_span);
    room r;
    const st_shape image = ST_SHAPE(l->x.n[1], l->x.n[2] * l->x.n[3]);
    const bool logits = p->logits != NULL;
    if (logits ? local_importance_scratch(l, &p->pool) : pool_request_scratch(l, &p->pool)) return -1;
    p->scratch = l->impl->scratches;
    if (st_layer_scratch(l, image) || st_layer_scratch(l, ST_SHAPE(lay_out(p, NULL, &r)))) return -1;
    return logits && (st_layer_scratch(l, image) || st_layer_scratch(l, image)) ? -1 : 0;
}

/* The tables of an axis begin at `at`; returns their end. */
static ptrdiff_t *fill_axis(phase_axis *a, ptrdiff_t dilation, ptrdiff_t *at)
{
    const ptrdiff_t length = a->out + a->reach;
    ptrdiff_t phases = 0,
              **const tables[AXIS_TABLES] = { &a->phase, &a->shift, &a->residue, &a->low, &a->high };
    for (int i = 0; i < AXIS_TABLES; i++) *tables[i] = at + i * a->kernel;
    for (ptrdiff_t k = 0; k < a->kernel; k++) {
        const ptrdiff_t residue = k * dilation % a->stride;
        ptrdiff_t b = 0;
        while (b < phases && a->residue[b] != residue) b++;
        if (b == phases) a->residue[phases++] = residue;
        a->phase[k] = b, a->shift[k] = k * dilation / a->stride;
    }
    for (ptrdiff_t b = 0; b < phases; b++) {
        const ptrdiff_t first = a->before - a->residue[b];
        a->low[b] = smallest(ceil_div(largest(first, 0), a->stride), length);
        a->high[b] = smallest(ceil_div(largest(first + a->size, 0), a->stride), length);
    }
    return at + AXIS_TABLES * a->kernel;
}

/* For sums: counts the windows that share each row of the image, and finds the row of the last one; they are
 * some rows apart. */
static void fill_sharers(const windows_plan *p)
{
    const phase_axis *h = &p->axis[0];
    const ptrdiff_t again = h->phases * p->pool.w.dilation[0] / h->stride, some = h->kernel / h->phases;
    for (ptrdiff_t k = 0; k < h->kernel; k++) {
        p->from[k] = -k * again * p->axis[1].stride * p->pitch;
        p->to[k] = k * p->pool.w.dilation[0] * p->axis[1].size;
    }
    for (ptrdiff_t r = 0; r < h->size; r++) {
        const ptrdiff_t row = r + h->before, residue = row % h->stride;
        int a = 0;
        while (a < h->phases && h->residue[a] != residue) a++;
        ptrdiff_t count = a < h->phases ? some + (a < h->kernel % h->phases) : 0,
                  last = row / h->stride - (a < h->phases ? h->shift[a] : 0);
        for (; count > 0 && last >= h->out; count--) last -= again;
        while (count > 0 && last - (count - 1) * again < 0) count--;
        p->members[r] = count, p->last[r] = count > 0 ? last : 0;
    }
}

/* For lanes: lists the elements of each phase. */
static void fill_members(const windows_plan *p)
{
    for (ptrdiff_t q = 0, k = 0; q < p->phases / p->phase; q++) {
        const ptrdiff_t begin = k;
        for (ptrdiff_t i = 0; i < p->taps; i++)
            if (p->offset[i] / p->phase == q) p->from[k++] = p->to[i] - p->offset[i] % p->phase;
        p->members[q] = k - begin;
    }
}

static void fill_places(const windows_plan *p)
{
    const phase_axis *h = &p->axis[0], *w = &p->axis[1];
    for (ptrdiff_t i = 0; i < p->phases + POOL_LANES; i++) p->places[i] = -1;
    for (ptrdiff_t i = 0; i < p->phases; i++) {
        const ptrdiff_t a = i / p->phase / w->phases, b = i / p->phase % w->phases, k = i % p->phase,
                        row = k / p->pitch, column = k % p->pitch,
                        r = row * h->stride + h->residue[a] - h->before,
                        s = column * w->stride + w->residue[b] - w->before;
        if (row < h->high[a] && row >= h->low[a] && column >= w->low[b] && column < w->high[b])
            p->places[i] = (st_real)(r * w->size + s);
    }
}

void windows_fill(st_layer *l, void *tables)
{
    windows_plan *p = l->plan;
    phase_axis *h = &p->axis[0], *w = &p->axis[1];
    const ptrdiff_t each = grid_of(p) + POOL_LANES;
    p->inside = tables, p->over = p->inside + each, p->places = p->over + each;
    ptrdiff_t *rest = (ptrdiff_t *)(void *)(p->places + p->phases + POOL_LANES);
    p->offset = fill_axis(w, p->pool.w.dilation[1], fill_axis(h, p->pool.w.dilation[0], rest));
    p->to = p->offset + p->taps;
    p->from = p->to + p->taps, p->members = p->from + p->taps;
    p->last = p->members + members_of(p);
    pool_span *rows = (pool_span *)(void *)(p->last + h->size), *columns = rows + h->out;
    for (ptrdiff_t i = 0; i < p->taps; i++) {
        const ptrdiff_t r = i / w->kernel, s = i % w->kernel;
        p->offset[i] =
            (h->phase[r] * w->phases + w->phase[s]) * p->phase + h->shift[r] * p->pitch + w->shift[s];
        p->to[i] = p->apart ? p->offset[i] : i * p->run;
    }
    if (p->sums) fill_sharers(p);
    else fill_members(p);
    const st_window at = { .options = l->options };
    for (int i = 0; i < 2; i++) st_regular_grid.spans(&p->pool, &at, i, i ? columns : rows);
    for (ptrdiff_t i = 0; i < 2 * each; i++) p->inside[i] = 0;
    fill_places(p);
    p->full = true;
    for (ptrdiff_t r = 0; r < h->out; r++)
        for (ptrdiff_t s = 0; s < w->out; s++) {
            const ptrdiff_t count = rows[r].count * columns[s].count, k = r * p->pitch + s;
            p->inside[k] = (st_real)count;
            p->over[k] = count > 0 ? 1 / (st_real)count : 0;
            p->full = p->full && count == p->taps, p->gaps = p->gaps || count == 0;
        }
}
