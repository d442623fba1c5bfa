/* rows_columns.c: resizing, averages and borders with columns as vectors: rows are summed, as many as a
 * vector has lanes, of any channels, are transposed, and each column of y is a weighted sum of columns. Small
 * images may be one row each. */
#include "layers/fast/rows_sums.h"
#include "layers/types.h"
#include "tensor/counts.h"

#include <string.h>

/* spread: adds weight times n elements, after which a vector's zeros follow, to `to`; vectors may pass its
 * end, to which they add zeros, up to `end`. */
#define COLUMNS(M)                                                                                           \
    M##_TARGET INLINE void M##_spread(ptrdiff_t n, st_real *to, const st_real *end, st_real weight,          \
                                      const st_real *from)                                                   \
    {                                                                                                        \
        ptrdiff_t i = 0;                                                                                     \
        for (; i < n && to + i + ISA_LANES(M) <= end; i += ISA_LANES(M))                                     \
            AT(M, to + i) += weight * AT(M, from + i);                                                       \
        for (; i < n; i++) to[i] += weight * from[i];                                                        \
    }                                                                                                        \
                                                                                                             \
    /* The number of elements of a mean in each of n rows from row r on. */                                  \
    M##_TARGET INLINE void M##_count_rows(M##_vector *counts, const sparse *rows, ptrdiff_t r, ptrdiff_t n)  \
    {                                                                                                        \
        st_real count[ISA_LANES(M)] = { 0 };                                                                 \
        for (ptrdiff_t l = 0; l < n; l++) count[l] = rows->counted[(r + l) % rows->out];                     \
        *counts = AT(M, count);                                                                              \
    }                                                                                                        \
                                                                                                             \
    /* Columns as vectors: sums of those of `from`, times 1 / counts in a mean. */                           \
    M##_TARGET INLINE void M##_sum_columns(const sparse *a, st_real value, const st_real *from,              \
                                           const st_real *counted, M##_vector counts, st_real *to)           \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const ptrdiff_t *begin = a->begin, out = a->out;                                                     \
        const tap *taps = a->taps;                                                                           \
        M##_vector none = (M##_vector){ 0 } + value;                                                         \
        for (ptrdiff_t i = 0; i < out; i++) {                                                                \
            M##_vector sum = { 0 };                                                                          \
            const ptrdiff_t first = begin[i], count = begin[i + 1] - first;                                  \
            const tap *t = taps + first;                                                                     \
            if ((count == 0) | (int)((count == 1) & (t->weight == 1))) /* without a branch for each */       \
                sum = AT(M, count == 0 ? (st_real *)&none : from + t->from * LANES);                         \
            else                                                                                             \
                for (ptrdiff_t k = 0; k < count; k += TOGETHER) {                                            \
                    M##_vector part = { 0 };                                                                 \
                    for (ptrdiff_t j = k; j < count && j < k + TOGETHER; j++)                                \
                        part += t[j].weight * AT(M, from + t[j].from * LANES);                               \
                    sum += part;                                                                             \
                }                                                                                            \
            if (counted) sum = sum * SHARE(M, counts * counted[i]);                                          \
            AT(M, to + i * LANES) = sum;                                                                     \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_share_columns(const work *w, M##_vector counts)                               \
    {                                                                                                        \
        const sparse *columns = &w->plan->axis[1];                                                           \
        for (ptrdiff_t i = 0; i < columns->out; i++) {                                                       \
            st_real *at = w->out_columns + i * ISA_LANES(M);                                                 \
            AT(M, at) = AT(M, at) * SHARE(M, counts * columns->counted[i]);                                  \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_sums_of_rows(const work *w, const st_real *x, st_real *y)                     \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const rows_plan *p = w->plan;                                                                        \
        const sparse rows = p->axis[0], columns = p->axis[1];                                                \
        const ptrdiff_t total = w->planes * rows.out, area = rows.size * columns.size;                       \
        const st_real *end = x + w->planes * area;                                                           \
        const st_real *fetched = is_far(w->plan->planes * area, THIRD) ? x : NULL;                           \
        for (ptrdiff_t r = 0, n; r < total; r += n) {                                                        \
            n = smallest(total - r, LANES);                                                                  \
            if (p->flat)                                                                                     \
                enter(w->kernel, n, columns.size, columns.pitch, x + r * area, w->rows, w->columns);         \
            else {                                                                                           \
                for (ptrdiff_t l = 0; l < n; l++) {                                                          \
                    const ptrdiff_t oh = (r + l) % rows.out, count = rows.begin[oh + 1] - rows.begin[oh];    \
                    const tap *t = rows.taps + rows.begin[oh];                                               \
                    const st_real *image = x + (r + l) / rows.out * area;                                    \
                    fetched = fetch(fetched, t, count, image, columns.size, end, 2);                         \
                    M##_sum_rows(columns.size, t, count, image, columns.size, image + area + LANES <= end,   \
                                 !fetched, w->rows + l * columns.pitch);                                     \
                }                                                                                            \
                turn_rows(w->kernel, columns.pitch, w->rows, w->columns);                                    \
            }                                                                                                \
            M##_vector counts = { 0 };                                                                       \
            if (p->means) M##_count_rows(&counts, &rows, r, n);                                              \
            M##_sum_columns(&columns, p->value, w->columns, p->means ? columns.counted : NULL, counts,       \
                            w->out_columns);                                                                 \
            leave(w->kernel, n, columns.out, columns.out_pitch, w->out_columns, w->out_rows,                 \
                  y + r * columns.out);                                                                      \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_sums_back(const work *w, const st_real *dy, st_real *dx)                      \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const rows_plan *p = w->plan;                                                                        \
        const sparse rows = p->axis[0], columns = p->axis[1];                                                \
        const ptrdiff_t total = w->planes * rows.out, area = rows.size * columns.size;                       \
        const st_real *end = dx + w->planes * area;                                                          \
        if (!p->flat) memset(dx, 0, (size_t)(w->planes * area) * sizeof *dx);                                \
        for (ptrdiff_t r = 0, n; r < total; r += n) {                                                        \
            n = smallest(total - r, LANES);                                                                  \
            enter(w->kernel, n, columns.out, columns.out_pitch, dy + r * columns.out, w->out_rows,           \
                  w->out_columns);                                                                           \
            M##_vector counts = { 0 };                                                                       \
            if (p->means) M##_count_rows(&counts, &rows, r, n);                                              \
            if (p->means) M##_share_columns(w, counts);                                                      \
            M##_sum_columns(&p->back[1], 0, w->out_columns, NULL, counts, w->columns);                       \
            if (p->flat) {                                                                                   \
                leave(w->kernel, n, columns.size, columns.pitch, w->columns, w->rows, dx + r * area);        \
                continue;                                                                                    \
            }                                                                                                \
            memset(w->columns + LANES * columns.size, 0,                                                     \
                   (size_t)(LANES * (columns.pitch - columns.size)) * sizeof *w->columns);                   \
            kernel_transpose(w->kernel, columns.pitch, LANES, w->columns, LANES, w->rows, columns.pitch,     \
                             NULL);                                                                          \
            for (ptrdiff_t l = 0; l < n; l++) {                                                              \
                const ptrdiff_t oh = (r + l) % rows.out;                                                     \
                st_real *to = dx + (r + l) / rows.out * area;                                                \
                for (ptrdiff_t k = rows.begin[oh]; k < rows.begin[oh + 1]; k++)                              \
                    M##_spread(columns.size, to + rows.taps[k].from * columns.size, end,                     \
                               rows.taps[k].weight, w->rows + l * columns.pitch);                            \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET static void M##_by_columns(const work *w, bool back, const st_real *from, st_real *to)        \
    {                                                                                                        \
        if (back) M##_sums_back(w, from, to);                                                                \
        else M##_sums_of_rows(w, from, to);                                                                  \
    }
EACH_ISA(COLUMNS)

#define ADDRESS(M) M##_by_columns,
rows_pass *const rows_by_columns[] = { EACH_ISA(ADDRESS) };
