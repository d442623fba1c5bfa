/* windows_phases.c: a channel as phases and back, windows as a grid and back (windows.h). */
#include "layers/fast/kernel.h"
#include "layers/fast/windows_impl.h"

#include <string.h>

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

#define PASSES(M)                                                                                            \
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
    }
EACH_ISA(PASSES)

#define PHASES_OF(M) { M##_to_phases, M##_from_phases, M##_join_pairs, M##_to_grid, M##_from_grid },
const phase_functions phase_isas[] = { EACH_ISA(PHASES_OF) };
