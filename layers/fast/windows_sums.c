/* windows_sums.c: sums over windows, of rows first, then of columns, and their adjoints (windows.h). */
#include "layers/fast/kernel.h"
#include "layers/fast/windows_impl.h"
#include "tensor/counts.h"

#include <string.h>

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
        if (count == 3) M##_add_some_at(rows, 3, at, from, next, first, to, r);                              \
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
        if (w->stride == 2) M##_add_columns(n, w->kernel, right, 2, rows, to);                               \
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

#define SUMS_OF(M) { M##_add_taps, M##_sum_windows, M##_sum_elements },
const add_functions add_isas[] = { EACH_ISA(SUMS_OF) };
