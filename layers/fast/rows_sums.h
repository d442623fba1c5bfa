/* rows_sums.h: weighted sums of rows of an image, for each instruction set. */
#ifndef STRIDE_LAYERS_FAST_ROWS_SUMS_H
#define STRIDE_LAYERS_FAST_ROWS_SUMS_H

#include "layers/fast/rows.h"

enum { TOGETHER = 16 };                 /* taps that are added up first */
enum { AT_ONCE = 8 };                   /* vectors of rows that are added up at once: see SUM */
enum { NARROW_ROW = 3 };                /* vectors, at most */
enum { SOON = 2048 / sizeof(st_real) }; /* rows of sums are fetched so far before they are read */

/* Fetches the rows of x that `least` taps or more read, and some elements more, from `fetched` on; returns
 * where it ended. NULL: none, as they stay in the third cache. */
INLINE const st_real *fetch(const st_real *fetched, const tap *t, ptrdiff_t count, const st_real *x,
                            ptrdiff_t pitch, const st_real *end, ptrdiff_t least)
{
    if (!fetched || count < least) return fetched;
    const st_real *first = x + t->from * pitch, *last = x + (t[count - 1].from + 1) * pitch;
    const st_real *to = end - last < SOON ? end : last + SOON;
    if (fetched < first) fetched = first;
    for (; fetched < to; fetched += CACHE_LINE) __builtin_prefetch(fetched);
    return fetched;
}

#define SUM(M, v)                                                                                            \
    case v: M##_sum_beside(v, n, i, t, count, x, pitch, ahead, to); break;

/* sum_rows: weighted sums of rows of n elements. `loose`: vectors may be read and written beyond their ends;
 * `ahead`: what is read later is fetched.
 * sum_pairs: n rows of v vectors, each the sum of two rows. sum_narrow: some rows from row i on, if they are
 * narrow and sums of two each; returns how many. They fit `room`, and are few, as the next ones are fetched.
 */
#define SUMS_OF_ROWS(M)                                                                                      \
    M##_TARGET INLINE void M##_sum_beside(int v, ptrdiff_t n, ptrdiff_t done, const tap *t, ptrdiff_t count, \
                                          const st_real *x, ptrdiff_t pitch, bool ahead, st_real *to)        \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        M##_vector sum[AT_ONCE] = { { 0 } };                                                                 \
        const ptrdiff_t last = done + (v - 1) * LANES;                                                       \
        const ptrdiff_t less = n < LANES ? 0 : last - lanes_within(last, LANES, n);                          \
        for (ptrdiff_t k = 0; k < count; k += TOGETHER) {                                                    \
            M##_vector part[AT_ONCE] = { { 0 } };                                                            \
            for (ptrdiff_t j = k; j < count && j < k + TOGETHER; j++) {                                      \
                const st_real *row = x + done + t[j].from * pitch;                                           \
                if (v == AT_ONCE && ahead) EACH(q, v) __builtin_prefetch(row + q * LANES + AHEAD);           \
                EACH(q, v) part[q] += t[j].weight * AT(M, row + q * LANES - (q == v - 1 ? less : 0));        \
            }                                                                                                \
            EACH(q, v) sum[q] += part[q];                                                                    \
        }                                                                                                    \
        EACH(q, v) AT(M, to + done + q * LANES - (q == v - 1 ? less : 0)) = sum[q];                          \
    }                                                                                                        \
                                                                                                             \
    /* Sums many rows by vectors that are beside each other, so that elements are read in their order. */    \
    M##_TARGET static void M##_sum_many(ptrdiff_t n, const tap *t, ptrdiff_t count, const st_real *x,        \
                                        ptrdiff_t pitch, bool ahead, st_real *to)                            \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        for (ptrdiff_t i = 0; i < n; i += AT_ONCE * LANES)                                                   \
            switch (smallest(ceil_div(n - i, LANES), AT_ONCE)) {                                             \
                SUM(M, 1) SUM(M, 2) SUM(M, 3) SUM(M, 4) SUM(M, 5) SUM(M, 6) SUM(M, 7) SUM(M, 8)              \
            }                                                                                                \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_sum_rows(ptrdiff_t n, const tap *t, ptrdiff_t count, const st_real *x,        \
                                        ptrdiff_t pitch, bool loose, bool ahead, st_real *to)                \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        if (!loose && n < LANES) {                                                                           \
            for (ptrdiff_t i = 0; i < n; i++) {                                                              \
                st_real sum = count > 0 ? t[0].weight * x[t[0].from * pitch + i] : 0;                        \
                if (count == 2) sum += t[1].weight * x[t[1].from * pitch + i];                               \
                else if (count > 2) sum = 0;                                                                 \
                for (ptrdiff_t k = 0; k < count && count > 2; k += TOGETHER) {                               \
                    st_real part = 0;                                                                        \
                    for (ptrdiff_t j = k; j < count && j < k + TOGETHER; j++)                                \
                        part += t[j].weight * x[t[j].from * pitch + i];                                      \
                    sum += part;                                                                             \
                }                                                                                            \
                to[i] = sum;                                                                                 \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        if (count > 2) {                                                                                     \
            M##_sum_many(n, t, count, x, pitch, ahead, to);                                                  \
            return;                                                                                          \
        }                                                                                                    \
        const st_real *first = count > 0 ? x + t[0].from * pitch : x;                                        \
        const st_real *second = count > 1 ? x + t[1].from * pitch : x;                                       \
        for (ptrdiff_t begin = 0; begin < n; begin += LANES) {                                               \
            const ptrdiff_t i = n < LANES ? 0 : lanes_within(begin, LANES, n);                               \
            M##_vector sum = { 0 };                                                                          \
            if (count == 1 && t[0].weight == 1) sum = AT(M, first + i);                                      \
            else if (count == 1) sum = t[0].weight * AT(M, first + i);                                       \
            else if (count == 2) sum = t[0].weight * AT(M, first + i) + t[1].weight * AT(M, second + i);     \
            __builtin_prefetch(to + i + AHEAD, 1);                                                           \
            AT(M, to + i) = sum;                                                                             \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_sum_pairs(int v, ptrdiff_t n, const tap *t, ptrdiff_t wide, const st_real *x, \
                                         st_real *to)                                                        \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const ptrdiff_t last = largest(wide - LANES, 0);                                                     \
        for (; n > 0; n--, t += 2, to += wide) {                                                             \
            const st_real *a = x + t[0].from * wide, *b = x + t[1].from * wide;                              \
            for (int q = 0; q < v; q++) {                                                                    \
                const ptrdiff_t i = q == v - 1 ? last : q * LANES;                                           \
                __builtin_prefetch(to + i + AHEAD, 1);                                                       \
                AT(M, to + i) = t[0].weight * AT(M, a + i) + t[1].weight * AT(M, b + i);                     \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET static __attribute__((noinline, unused)) ptrdiff_t M##_sum_narrow(                            \
        const sparse *rows, ptrdiff_t i, ptrdiff_t room, ptrdiff_t wide, const st_real *x, st_real *to)      \
    {                                                                                                        \
        const ptrdiff_t v = ceil_div(wide, ISA_LANES(M)), *begin = rows->begin + i;                          \
        const tap *t = rows->taps + *begin;                                                                  \
        const ptrdiff_t most = smallest(rows->out - i, smallest(room, AHEAD / 16) / largest(wide, 1));       \
        ptrdiff_t n = 0;                                                                                     \
        while (v <= NARROW_ROW && n < most && begin[n + 1] - begin[n] == 2) n++;                             \
        if (v == 1) M##_sum_pairs(1, n, t, wide, x, to);                                                     \
        else if (v == 2) M##_sum_pairs(2, n, t, wide, x, to);                                                \
        else M##_sum_pairs(NARROW_ROW, n, t, wide, x, to);                                                   \
        return n;                                                                                            \
    }
EACH_ISA(SUMS_OF_ROWS)

/* 1 / counts, or 0 for none. */
#define SHARE(M, counts)                                                                                     \
    ISA_PICK(M, (counts) > 0, 1 / ISA_PICK(M, (counts) > 0, counts, (counts) + 1), (counts) - (counts))

#endif
