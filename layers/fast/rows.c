/* rows.c: pooling, resizing and padding by rows, for every window and size.
 *
 * Means, interpolation and borders are y = A x Bᵀ in each channel, with few elements in a row of A and B. A
 * row of A x is a weighted sum of rows of x, by vectors along them. As many such rows as a vector has lanes,
 * of any channels, are transposed, so that columns are vectors, of which those of y are weighted sums. The
 * adjoint takes the same steps backwards. Where B only shifts runs of columns, as borders do, rows of A x are
 * rows of y.
 *
 * A p-norm is a sum of powers, with powers of x before it and roots of y after it; where they leave the
 * range, a channel is left to the definition. Maxima are the maxima of columns, with their rows, and then
 * those of rows; the first one of equal ones counts. Their places are saved for the gradient. */
#include "layers/fast/algorithms.h"
#include "layers/fast/functions.h"
#include "layers/fast/kernel.h"
#include "layers/fast/lanes.h"
#include "layers/layers.h"
#include "layers/pool_impl.h"
#include "layers/separable.h"
#include "layers/types.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>
#include <tgmath.h>

enum { TOGETHER = 16 }; /* taps that are added up first */
#define AT(M, at) (*(M##_loose *)(at))

/* The matrix of an axis: taps begin[i] ... begin[i + 1] - 1 make element i of y. Those of maxima may lie
 * outside, where there are zeros. */
typedef struct axis {
    ptrdiff_t size, out, pitch, out_pitch; /* pitches: sizes that are multiples of LANES_MOST */
    ptrdiff_t *begin;
    tap *taps;
    st_real *counted; /* elements of a mean along the axis */
} axis;

/* y[to], y[to + 1], ... = x[from], x[from + step], ...; step is 1, -1 or 0. */
typedef struct run {
    ptrdiff_t to, from, count, step;
} run;

typedef struct rows_plan {
    union {
        pool_plan pool;
        separable separable;
    } definition;          /* comes first, for the definition's functions */
    axis axis[2], each[2]; /* rows, columns */
    run *runs;             /* of columns, if each has at most one tap, of weight 1, and they are few: */
    ptrdiff_t run_count;   /* 0: they are not */
    bool flat, tall, same; /* tall: columns come before rows, which become more; same: y is x */
    bool means;            /* zeros: taps outside are zeros */
    st_real value;         /* where there is no tap */
    double p;              /* of a p-norm; 0: it is none */
    int scratch;           /* the first slot */
} rows_plan;

enum { ROOM, IMAGE, HALF }; /* scratch, from the plan's first slot on; an image, and half resized */
enum { PLACES };            /* memory: the places of maxima in their channel; -1: none */

typedef struct work {
    const rows_plan *plan;
    const kernel *kernel;
    ptrdiff_t planes;
    st_real *rows, *columns, *out_columns, *out_rows; /* LANES_MOST of each */
    st_real *places, *place_columns;                  /* of maxima */
    st_real *half;                                    /* an image whose columns alone are resized */
} work;

/* n <= lanes rows of an image as columns of vectors, by way of `rows`, which begin `pitch` apart. */
static void enter(const kernel *k, ptrdiff_t n, ptrdiff_t size, ptrdiff_t pitch, const st_real *from,
                  st_real *rows, st_real *columns)
{
    if (n == k->lanes && size >= k->lanes) {
        kernel_transpose(k, n, size, from, size, columns, n, NULL);
        return;
    }
    if (n < k->lanes) memset(rows, 0, (size_t)(k->lanes * pitch) * sizeof *rows);
    k->move(n, size, from, size, rows, pitch);
    kernel_transpose(k, k->lanes, pitch, rows, pitch, columns, k->lanes, NULL);
}

static void leave(const kernel *k, ptrdiff_t n, ptrdiff_t size, ptrdiff_t pitch, const st_real *columns,
                  st_real *rows, st_real *to)
{
    if (n == k->lanes && size >= k->lanes) {
        kernel_transpose(k, size, n, columns, n, to, size, NULL);
        return;
    }
    kernel_transpose(k, pitch, k->lanes, columns, k->lanes, rows, pitch, NULL);
    k->move(n, size, rows, pitch, to, size);
}

/* ---- rows ------------------------------------------------------------------------------------------ */

enum { QUARTER = 16 / sizeof(st_real) };
typedef st_real quarter_at __attribute__((vector_size(16), aligned(sizeof(st_real)), may_alias));

/* combine: sums of n elements of rows of x. Unless `end` is NULL, vectors may read beyond a row up to there,
 * and write a whole one.
 * spread: adds weight times n elements, after which a vector's zeros follow, to `to`; vectors may pass its
 * end, to which they add zeros, up to `end`.
 * add_run: the same, without zeros. */
#define ROWS(M)                                                                                              \
    M##_TARGET INLINE void M##_combine(ptrdiff_t n, st_real *to, const tap *t, ptrdiff_t count,              \
                                       const st_real *x, ptrdiff_t pitch, const st_real *end)                \
    {                                                                                                        \
        bool inside = n >= MACHINE_LANES(M) || end;                                                          \
        for (ptrdiff_t k = 0; k < count && n < MACHINE_LANES(M) && end; k++)                                 \
            inside = inside && x + t[k].from * pitch + MACHINE_LANES(M) <= end;                              \
        const bool copied = count == 1 && t->weight == 1;                                                    \
        const st_real *one = copied ? x + t->from * pitch : x;                                               \
        for (ptrdiff_t begin = 0; begin < n && inside && copied; begin += MACHINE_LANES(M)) {                \
            const ptrdiff_t i = n < MACHINE_LANES(M) ? 0 : lanes_within(begin, MACHINE_LANES(M), n);         \
            AT(M, to + i) = AT(M, one + i);                                                                  \
        }                                                                                                    \
        for (ptrdiff_t begin = 0; begin < n && inside && !copied; begin += MACHINE_LANES(M)) {               \
            const ptrdiff_t i = n < MACHINE_LANES(M) ? 0 : lanes_within(begin, MACHINE_LANES(M), n);         \
            M##_vector sum = { 0 };                                                                          \
            if (count == 2)                                                                                  \
                sum = t[0].weight * AT(M, x + t[0].from * pitch + i) +                                       \
                      t[1].weight * AT(M, x + t[1].from * pitch + i);                                        \
            else                                                                                             \
                for (ptrdiff_t k = 0; k < count; k += TOGETHER) {                                            \
                    M##_vector part = { 0 };                                                                 \
                    for (ptrdiff_t j = k; j < count && j < k + TOGETHER; j++)                                \
                        part += t[j].weight * AT(M, x + t[j].from * pitch + i);                              \
                    sum += part;                                                                             \
                }                                                                                            \
            AT(M, to + i) = sum;                                                                             \
        }                                                                                                    \
        ptrdiff_t quarters = inside ? n : 0;                                                                 \
        for (; n - quarters >= QUARTER && copied; quarters += QUARTER)                                       \
            *(quarter_at *)(to + quarters) = *(const quarter_at *)(one + quarters);                          \
        for (ptrdiff_t i = quarters; i < n; i++) {                                                           \
            st_real sum = 0;                                                                                 \
            for (ptrdiff_t k = 0; k < count; k++) sum += t[k].weight * x[t[k].from * pitch + i];             \
            to[i] = sum;                                                                                     \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_spread(ptrdiff_t n, st_real *to, const st_real *end, st_real weight,          \
                                      const st_real *from)                                                   \
    {                                                                                                        \
        ptrdiff_t i = 0;                                                                                     \
        for (; i < n && to + i + MACHINE_LANES(M) <= end; i += MACHINE_LANES(M))                             \
            AT(M, to + i) += weight * AT(M, from + i);                                                       \
        for (; i < n; i++) to[i] += weight * from[i];                                                        \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_add_run(ptrdiff_t n, st_real *to, st_real weight, const st_real *from)        \
    {                                                                                                        \
        ptrdiff_t i = 0;                                                                                     \
        for (; i + MACHINE_LANES(M) <= n; i += MACHINE_LANES(M)) AT(M, to + i) += weight * AT(M, from + i);  \
        for (; i < n; i++) to[i] += weight * from[i];                                                        \
    }

/* ---- sums ------------------------------------------------------------------------------------------ */

/* 1 / counts, or 0 for none. */
#define SHARE(M, counts)                                                                                     \
    MACHINE_PICK(M, (counts) > 0, 1 / MACHINE_PICK(M, (counts) > 0, counts, (counts) + 1),                   \
                 (counts) - (counts))

#define SUMS(M)                                                                                              \
    /* The number of elements of a mean in each of n rows from row r on. */                                  \
    M##_TARGET INLINE void M##_count_rows(M##_vector *counts, const axis *rows, ptrdiff_t r, ptrdiff_t n)    \
    {                                                                                                        \
        st_real count[MACHINE_LANES(M)] = { 0 };                                                             \
        for (ptrdiff_t l = 0; l < n; l++) count[l] = rows->counted[(r + l) % rows->out];                     \
        *counts = AT(M, count);                                                                              \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_sum_columns(const work *w, M##_vector counts)                                 \
    {                                                                                                        \
        const rows_plan *p = w->plan;                                                                        \
        const axis *columns = &p->axis[1];                                                                   \
        for (ptrdiff_t i = 0; i < columns->out; i++) {                                                       \
            M##_vector sum = { 0 };                                                                          \
            const ptrdiff_t last = columns->begin[i + 1];                                                    \
            if (columns->begin[i] == last) sum += p->value;                                                  \
            for (ptrdiff_t k = columns->begin[i]; k < last; k += TOGETHER) {                                 \
                M##_vector part = { 0 };                                                                     \
                for (ptrdiff_t j = k; j < last && j < k + TOGETHER; j++)                                     \
                    part += columns->taps[j].weight *                                                        \
                            AT(M, w->columns + columns->taps[j].from * MACHINE_LANES(M));                    \
                sum += part;                                                                                 \
            }                                                                                                \
            if (p->means) sum = sum * SHARE(M, counts * columns->counted[i]);                                \
            AT(M, w->out_columns + i * MACHINE_LANES(M)) = sum;                                              \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_spread_columns(const work *w, M##_vector counts)                              \
    {                                                                                                        \
        const rows_plan *p = w->plan;                                                                        \
        const axis *columns = &p->axis[1];                                                                   \
        memset(w->columns, 0, (size_t)(MACHINE_LANES(M) * columns->pitch) * sizeof *w->columns);             \
        for (ptrdiff_t i = 0; i < columns->out; i++) {                                                       \
            M##_vector d = AT(M, w->out_columns + i * MACHINE_LANES(M));                                     \
            if (p->means) d = d * SHARE(M, counts * columns->counted[i]);                                    \
            for (ptrdiff_t k = columns->begin[i]; k < columns->begin[i + 1]; k++)                            \
                AT(M, w->columns + columns->taps[k].from * MACHINE_LANES(M)) += columns->taps[k].weight * d; \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_sums_of_rows(const work *w, const st_real *x, st_real *y)                     \
    {                                                                                                        \
        const rows_plan *p = w->plan;                                                                        \
        const axis rows = p->axis[0], columns = p->axis[1];                                                  \
        const ptrdiff_t total = w->planes * rows.out, area = rows.size * columns.size;                       \
        const st_real *end = x + w->planes * area;                                                           \
        for (ptrdiff_t r = 0, n; r < total; r += n) {                                                        \
            n = smallest(total - r, MACHINE_LANES(M));                                                       \
            if (p->flat)                                                                                     \
                enter(w->kernel, n, columns.size, columns.pitch, x + r * area, w->rows, w->columns);         \
            else {                                                                                           \
                if (n < MACHINE_LANES(M))                                                                    \
                    memset(w->rows, 0, (size_t)(MACHINE_LANES(M) * columns.pitch) * sizeof *w->rows);        \
                for (ptrdiff_t l = 0; l < n; l++) {                                                          \
                    const ptrdiff_t oh = (r + l) % rows.out, first = rows.begin[oh];                         \
                    M##_combine(columns.size, w->rows + l * columns.pitch, rows.taps + first,                \
                                rows.begin[oh + 1] - first, x + (r + l) / rows.out * area, columns.size,     \
                                end);                                                                        \
                }                                                                                            \
                kernel_transpose(w->kernel, MACHINE_LANES(M), columns.pitch, w->rows, columns.pitch,         \
                                 w->columns, MACHINE_LANES(M), NULL);                                        \
            }                                                                                                \
            M##_vector counts = { 0 };                                                                       \
            if (p->means) M##_count_rows(&counts, &rows, r, n);                                              \
            M##_sum_columns(w, counts);                                                                      \
            leave(w->kernel, n, columns.out, columns.out_pitch, w->out_columns, w->out_rows,                 \
                  y + r * columns.out);                                                                      \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_sums_back(const work *w, const st_real *dy, st_real *dx)                      \
    {                                                                                                        \
        const rows_plan *p = w->plan;                                                                        \
        const axis rows = p->axis[0], columns = p->axis[1];                                                  \
        const ptrdiff_t total = w->planes * rows.out, area = rows.size * columns.size;                       \
        const st_real *end = dx + w->planes * area;                                                          \
        if (!p->flat) memset(dx, 0, (size_t)(w->planes * area) * sizeof *dx);                                \
        for (ptrdiff_t r = 0, n; r < total; r += n) {                                                        \
            n = smallest(total - r, MACHINE_LANES(M));                                                       \
            enter(w->kernel, n, columns.out, columns.out_pitch, dy + r * columns.out, w->out_rows,           \
                  w->out_columns);                                                                           \
            M##_vector counts = { 0 };                                                                       \
            if (p->means) M##_count_rows(&counts, &rows, r, n);                                              \
            M##_spread_columns(w, counts);                                                                   \
            if (p->flat) {                                                                                   \
                leave(w->kernel, n, columns.size, columns.pitch, w->columns, w->rows, dx + r * area);        \
                continue;                                                                                    \
            }                                                                                                \
            kernel_transpose(w->kernel, columns.pitch, MACHINE_LANES(M), w->columns, MACHINE_LANES(M),       \
                             w->rows, columns.pitch, NULL);                                                  \
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
    M##_TARGET INLINE void M##_tall(const work *w, const st_real *x, st_real *y)                             \
    {                                                                                                        \
        const axis rows = w->plan->axis[0], columns = w->plan->axis[1];                                      \
        const ptrdiff_t total = w->planes * rows.size;                                                       \
        for (ptrdiff_t r = 0, n; r < total; r += n) {                                                        \
            n = smallest(total - r, MACHINE_LANES(M));                                                       \
            enter(w->kernel, n, columns.size, columns.pitch, x + r * columns.size, w->rows, w->columns);     \
            M##_sum_columns(w, (M##_vector){ 0 });                                                           \
            leave(w->kernel, n, columns.out, columns.out_pitch, w->out_columns, w->out_rows,                 \
                  w->half + r * columns.out);                                                                \
        }                                                                                                    \
        for (ptrdiff_t plane = 0; plane < w->planes; plane++)                                                \
            for (ptrdiff_t oh = 0; oh < rows.out; oh++, y += columns.out)                                    \
                M##_combine(columns.out, y, rows.taps + rows.begin[oh], rows.begin[oh + 1] - rows.begin[oh], \
                            w->half + plane * rows.size * columns.out, columns.out, NULL);                   \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_tall_back(const work *w, const st_real *dy, st_real *dx)                      \
    {                                                                                                        \
        const axis rows = w->plan->axis[0], columns = w->plan->axis[1];                                      \
        const ptrdiff_t total = w->planes * rows.size;                                                       \
        memset(w->half, 0, (size_t)(total * columns.out) * sizeof *w->half);                                 \
        for (ptrdiff_t r = 0; r < w->planes * rows.out; r++) {                                               \
            const ptrdiff_t oh = r % rows.out;                                                               \
            for (ptrdiff_t k = rows.begin[oh]; k < rows.begin[oh + 1]; k++)                                  \
                M##_add_run(columns.out,                                                                     \
                            w->half + (r / rows.out * rows.size + rows.taps[k].from) * columns.out,          \
                            rows.taps[k].weight, dy + r * columns.out);                                      \
        }                                                                                                    \
        for (ptrdiff_t r = 0, n; r < total; r += n) {                                                        \
            n = smallest(total - r, MACHINE_LANES(M));                                                       \
            enter(w->kernel, n, columns.out, columns.out_pitch, w->half + r * columns.out, w->out_rows,      \
                  w->out_columns);                                                                           \
            M##_spread_columns(w, (M##_vector){ 0 });                                                        \
            leave(w->kernel, n, columns.size, columns.pitch, w->columns, w->rows, dx + r * columns.size);    \
        }                                                                                                    \
    }

/* ---- runs of columns ---------------------------------------------------------------------------------- */

/* A run that goes back, or stays at an element; and its adjoint. */
INLINE void turn(const run *r, const tap *t, ptrdiff_t count, const st_real *x, ptrdiff_t pitch,
                 st_real *restrict y)
{
    for (ptrdiff_t j = 0; j < r->count; j++) y[j] = 0;
    for (ptrdiff_t k = 0; k < count; k++) {
        const st_real weight = t[k].weight, *restrict row = x + t[k].from * pitch + r->from;
        if (r->step == -1)
            for (ptrdiff_t j = 0; j < r->count; j++) y[j] += weight * row[-j];
        else
            for (ptrdiff_t j = 0; j < r->count; j++) y[j] += weight * row[0];
    }
}

INLINE void turn_back(const run *r, st_real weight, const st_real *restrict dy, st_real *restrict row)
{
    st_real *restrict to = row + r->from, sum = 0;
    if (r->step == -1)
        for (ptrdiff_t j = 0; j < r->count; j++) to[-j] += weight * dy[j];
    for (ptrdiff_t j = 0; j < r->count && r->step == 0; j++) sum += dy[j];
    if (r->step == 0) *to += weight * sum;
}

#define RUNS(M)                                                                                              \
    M##_TARGET INLINE void M##_runs_of_rows(const work *w, const st_real *x, st_real *y)                     \
    {                                                                                                        \
        const rows_plan *p = w->plan;                                                                        \
        const axis rows = p->axis[0], columns = p->axis[1];                                                  \
        const ptrdiff_t total = w->planes * rows.out, area = rows.size * columns.size;                       \
        for (ptrdiff_t r = 0, oh = 0; r < total; r++, y += columns.out) {                                    \
            const ptrdiff_t first = rows.begin[oh], count = rows.begin[oh + 1] - first;                      \
            const st_real *from = x;                                                                         \
            if (++oh == rows.out) oh = 0, x += area;                                                         \
            const run *runs = p->runs;                                                                       \
            for (ptrdiff_t k = 0, done = 0; k <= p->run_count; k++) {                                        \
                const ptrdiff_t next = k < p->run_count && count > 0 ? runs[k].to : columns.out;             \
                for (; done < next; done++) y[done] = p->value;                                              \
                if (next == columns.out) break;                                                              \
                if (runs[k].step != 1)                                                                       \
                    turn(&runs[k], rows.taps + first, count, from, columns.size, y + next);                  \
                else                                                                                         \
                    M##_combine(runs[k].count, y + next, rows.taps + first, count, from + runs[k].from,      \
                                columns.size, NULL);                                                         \
                done = next + runs[k].count;                                                                 \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_runs_back(const work *w, const st_real *dy, st_real *dx)                      \
    {                                                                                                        \
        const rows_plan *p = w->plan;                                                                        \
        const axis rows = p->axis[0], columns = p->axis[1];                                                  \
        const ptrdiff_t area = rows.size * columns.size, wide = columns.size;                                \
        const run *runs = p->runs, *whole = runs;                                                            \
        while (whole < runs + p->run_count && (whole->from > 0 || whole->count < wide || whole->step != 1))  \
            whole++;                                                                                         \
        if (whole == runs + p->run_count) whole = NULL;                                                      \
        for (ptrdiff_t plane = 0; plane < w->planes; plane++, dx += area) {                                  \
            for (ptrdiff_t r = 0; r < rows.size; r++) w->rows[r] = 0; /* 1: row r of dx is written */        \
            for (ptrdiff_t oh = 0; oh < rows.out; oh++, dy += columns.out)                                   \
                for (ptrdiff_t k = rows.begin[oh]; k < rows.begin[oh + 1]; k++) {                            \
                    const tap t = rows.taps[k];                                                              \
                    st_real *to = dx + t.from * wide;                                                        \
                    const bool begun = w->rows[t.from] > 0;                                                  \
                    w->rows[t.from] = 1;                                                                     \
                    if (!begun && whole)                                                                     \
                        M##_combine(wide, to, &(tap){ 0, t.weight }, 1, dy + whole->to, wide, NULL);         \
                    else if (!begun) memset(to, 0, (size_t)wide * sizeof *to);                               \
                    for (const run *at = runs; at < runs + p->run_count; at++)                               \
                        if (at->step != 1) turn_back(at, t.weight, dy + at->to, to);                         \
                        else if (begun || at != whole)                                                       \
                            M##_add_run(at->count, to + at->from, t.weight, dy + at->to);                    \
                }                                                                                            \
            for (ptrdiff_t r = 0; r < rows.size; r++)                                                        \
                if (w->rows[r] == 0) memset(dx + r * wide, 0, (size_t)wide * sizeof *dx);                    \
        }                                                                                                    \
    }

/* ---- p-norms ------------------------------------------------------------------------------------------ */

/* |x|^e, or 0 for 0. */
INLINE st_real power(st_real x, double e)
{
    const st_real size = fabs(x);
    return size == 0 ? 0 : (st_real)wide_exp(e * wide_log((double)size));
}

INLINE void powers(ptrdiff_t n, const st_real *x, double e, st_real *to)
{
    if (e == 1)
        for (ptrdiff_t i = 0; i < n; i++) to[i] = fabs(x[i]);
    else if (e == 2)
        for (ptrdiff_t i = 0; i < n; i++) to[i] = x[i] * x[i];
    else if (e == 3)
        for (ptrdiff_t i = 0; i < n; i++) to[i] = x[i] * x[i] * fabs(x[i]);
    else
        for (ptrdiff_t i = 0; i < n; i++) to[i] = power(x[i], e);
}

/* y^(1/p). */
INLINE void roots(ptrdiff_t n, st_real *y, double p)
{
    if (p == 2)
        for (ptrdiff_t i = 0; i < n; i++) y[i] = sqrt(y[i]);
    else if (p != 1)
        for (ptrdiff_t i = 0; i < n; i++) y[i] = power(y[i], 1 / p);
}

/* q *= y^(1-p), or 0 if y is. */
INLINE void norms_before(ptrdiff_t n, const st_real *y, double p, st_real *q)
{
    if (p == 1)
        for (ptrdiff_t i = 0; i < n; i++) q[i] = y[i] == 0 ? 0 : q[i];
    else if (p == 2)
        for (ptrdiff_t i = 0; i < n; i++) q[i] = y[i] == 0 ? 0 : q[i] / y[i];
    else
        for (ptrdiff_t i = 0; i < n; i++) q[i] *= power(y[i], 1 - p);
}

/* dx *= sign(x) |x|^(p-1) */
INLINE void norms_after(ptrdiff_t n, const st_real *x, double p, st_real *dx)
{
    if (p == 1)
        for (ptrdiff_t i = 0; i < n; i++) dx[i] *= x[i] == 0 ? 0 : copysign((st_real)1, x[i]);
    else if (p == 2)
        for (ptrdiff_t i = 0; i < n; i++) dx[i] *= x[i];
    else if (p == 3)
        for (ptrdiff_t i = 0; i < n; i++) dx[i] *= x[i] * fabs(x[i]);
    else
        for (ptrdiff_t i = 0; i < n; i++) dx[i] *= copysign(power(x[i], p - 1), x[i]);
}

/* Tests if all of x are 0 or within limits. */
INLINE bool all_within(ptrdiff_t n, const st_real *x, st_real low, st_real high)
{
    int outside = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const st_real size = fabs(x[i]);
        outside |= !((size == 0) | ((int)(size >= low) & (int)(size <= high)));
    }
    return !outside;
}

/* ---- maxima ---------------------------------------------------------------------------------------- */

#define NOWHERE (-(st_real)(1 << 24)) /* the row of no element */

/* maxima_of_columns: of each of n columns over a window's rows, with their rows; vectors write a whole one
 * beyond, and may read up to there if x goes on. maxima_of_rows: the first one of equal maxima is the one in
 * the upper row, or left of the other. */
#define MAXIMA(M)                                                                                            \
    M##_TARGET INLINE void M##_maxima_of_columns(const rows_plan *p, ptrdiff_t oh, const st_real *x,         \
                                                 bool goes_on, st_real *best, st_real *place)                \
    {                                                                                                        \
        const axis *rows = &p->axis[0];                                                                      \
        const ptrdiff_t n = p->axis[1].size, first = rows->begin[oh], last = rows->begin[oh + 1];            \
        for (ptrdiff_t i = 0; i < n; i += MACHINE_LANES(M)) {                                                \
            M##_vector most = (M##_vector){ 0 } - (st_real)INFINITY, at = (M##_vector){ 0 } + NOWHERE;       \
            for (ptrdiff_t k = first; k < last; k++) {                                                       \
                const ptrdiff_t row = rows->taps[k].from;                                                    \
                M##_vector v = { 0 };                                                                        \
                if (row >= 0 && row < rows->size && (goes_on || i + MACHINE_LANES(M) <= n))                  \
                    v = AT(M, x + row * n + i);                                                              \
                else if (row >= 0 && row < rows->size) {                                                     \
                    st_real rest[MACHINE_LANES(M)] = { 0 };                                                  \
                    for (ptrdiff_t j = i; j < n; j++) rest[j - i] = x[row * n + j];                          \
                    v = AT(M, rest);                                                                         \
                }                                                                                            \
                M##_mask exceeds = ~(v <= most) & (most == most);                                            \
                if (k == first) exceeds = ~(M##_mask){ 0 };                                                  \
                most = MACHINE_PICK(M, exceeds, v, most);                                                    \
                if (place) at = MACHINE_PICK(M, exceeds, (M##_vector){ 0 } + (st_real)row, at);              \
            }                                                                                                \
            AT(M, best + i) = most;                                                                          \
            if (place) AT(M, place + i) = at;                                                                \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_maxima_of_rows(const work *w, ptrdiff_t r, bool placed, bool flat)            \
    {                                                                                                        \
        const axis *rows = &w->plan->axis[0], *columns = &w->plan->axis[1];                                  \
        const M##_vector zero = { 0 };                                                                       \
        st_real tops[MACHINE_LANES(M)];                                                                      \
        for (int l = 0; l < MACHINE_LANES(M) && placed; l++) {                                               \
            const ptrdiff_t oh = (r + l) % rows->out, first = rows->begin[oh];                               \
            tops[l] = first < rows->begin[oh + 1] ? (st_real)rows->taps[first].from : NOWHERE;               \
        }                                                                                                    \
        for (ptrdiff_t i = 0; i < columns->out; i++) {                                                       \
            M##_vector most = zero - (st_real)INFINITY, row = zero + NOWHERE, column = zero;                 \
            for (ptrdiff_t k = columns->begin[i]; k < columns->begin[i + 1]; k++) {                          \
                const ptrdiff_t from = columns->taps[k].from;                                                \
                const bool inside = from >= 0 && from < columns->size;                                       \
                M##_vector v = zero, at = zero;                                                              \
                if (inside) v = AT(M, w->columns + from * MACHINE_LANES(M));                                 \
                M##_mask exceeds = ~(v <= most) & (most == most);                                            \
                if (placed) {                                                                                \
                    at = AT(M, tops);                                                                        \
                    if (inside && flat) at = zero;                                                           \
                    else if (inside) at = AT(M, w->place_columns + from * MACHINE_LANES(M));                 \
                    if (!flat) exceeds |= ((v == most) | ((v != v) & (most != most))) & (at < row);          \
                }                                                                                            \
                if (k == columns->begin[i]) exceeds = ~(M##_mask){ 0 };                                      \
                most = MACHINE_PICK(M, exceeds, v, most);                                                    \
                if (!placed) continue;                                                                       \
                row = flat ? zero : MACHINE_PICK(M, exceeds, at, row);                                       \
                column = MACHINE_PICK(M, exceeds, zero + (st_real)from, column);                             \
            }                                                                                                \
            AT(M, w->out_columns + i * MACHINE_LANES(M)) = most;                                             \
            if (!placed) continue;                                                                           \
            const M##_mask is = (row >= 0) & (row < (st_real)rows->size) & (column >= 0) &                   \
                                (column < (st_real)columns->size);                                           \
            AT(M, w->columns + (columns->pitch + i) * MACHINE_LANES(M)) =                                    \
                MACHINE_PICK(M, is, row * (st_real)columns->size + column, zero - 1);                        \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_maxima(const work *w, const st_real *x, st_real *y, st_real *places)          \
    {                                                                                                        \
        const rows_plan *p = w->plan;                                                                        \
        const axis rows = p->axis[0], columns = p->axis[1];                                                  \
        const ptrdiff_t total = w->planes * rows.out, area = rows.size * columns.size;                       \
        for (ptrdiff_t r = 0, n; r < total; r += n) {                                                        \
            n = smallest(total - r, MACHINE_LANES(M));                                                       \
            if (p->flat)                                                                                     \
                enter(w->kernel, n, columns.size, columns.pitch, x + r * area, w->rows, w->columns);         \
            else {                                                                                           \
                if (n < MACHINE_LANES(M))                                                                    \
                    memset(w->rows, 0, (size_t)(MACHINE_LANES(M) * columns.pitch) * sizeof *w->rows);        \
                if (n < MACHINE_LANES(M) && places)                                                          \
                    memset(w->places, 0, (size_t)(MACHINE_LANES(M) * columns.pitch) * sizeof *w->places);    \
                for (ptrdiff_t l = 0; l < n; l++) {                                                          \
                    const ptrdiff_t plane = (r + l) / rows.out;                                              \
                    M##_maxima_of_columns(p, (r + l) % rows.out, x + plane * area,                           \
                                          plane < w->planes - 1 && area >= MACHINE_LANES(M),                 \
                                          w->rows + l * columns.pitch,                                       \
                                          places ? w->places + l * columns.pitch : NULL);                    \
                }                                                                                            \
                kernel_transpose(w->kernel, MACHINE_LANES(M), columns.pitch, w->rows, columns.pitch,         \
                                 w->columns, MACHINE_LANES(M), NULL);                                        \
                if (places)                                                                                  \
                    kernel_transpose(w->kernel, MACHINE_LANES(M), columns.pitch, w->places, columns.pitch,   \
                                     w->place_columns, MACHINE_LANES(M), NULL);                              \
            }                                                                                                \
            if (p->flat) M##_maxima_of_rows(w, r, places != NULL, true);                                     \
            else M##_maxima_of_rows(w, r, places != NULL, false);                                            \
            leave(w->kernel, n, columns.out, columns.out_pitch, w->out_columns, w->out_rows,                 \
                  y + r * columns.out);                                                                      \
            if (places)                                                                                      \
                leave(w->kernel, n, columns.out, columns.out_pitch,                                          \
                      w->columns + columns.pitch * MACHINE_LANES(M), w->out_rows, places + r * columns.out); \
        }                                                                                                    \
    }

static void maxima_back(const work *w, const st_real *dy, const st_real *places, st_real *dx)
{
    const axis *rows = &w->plan->axis[0], *columns = &w->plan->axis[1];
    const ptrdiff_t area = rows->size * columns->size, count = rows->out * columns->out;
    for (ptrdiff_t plane = 0; plane < w->planes; plane++, dx += area, dy += count, places += count) {
        memset(dx, 0, (size_t)area * sizeof *dx);
        for (ptrdiff_t i = 0; i < count; i++) {
            const ptrdiff_t at = (ptrdiff_t)places[i];
            if (at >= 0) dx[at] += dy[i];
        }
    }
}

/* ---- for each instruction set ---------------------------------------------------------------------- */

static void copy_all(const work *w, const st_real *from, st_real *to)
{
    const axis *each = w->plan->each;
    memcpy(to, from, (size_t)(w->planes * each[0].size * each[1].size) * sizeof *to);
}

typedef void image_pass(const work *w, const st_real *from, st_real *to);
typedef void maxima_pass(const work *w, const st_real *x, st_real *y, st_real *places);
typedef void norm_pass(ptrdiff_t n, const st_real *x, double p, st_real *to);

#define STAMP(M)                                                                                             \
    ROWS(M)                                                                                                  \
    SUMS(M)                                                                                                  \
    RUNS(M) MAXIMA(M) M##_TARGET static void M##_forward(const work *w, const st_real *x, st_real *y)        \
    {                                                                                                        \
        if (w->plan->same) copy_all(w, x, y);                                                                \
        else if (w->plan->run_count > 0) M##_runs_of_rows(w, x, y);                                          \
        else if (w->plan->tall) M##_tall(w, x, y);                                                           \
        else M##_sums_of_rows(w, x, y);                                                                      \
    }                                                                                                        \
    M##_TARGET static void M##_backward(const work *w, const st_real *dy, st_real *dx)                       \
    {                                                                                                        \
        if (w->plan->same) copy_all(w, dy, dx);                                                              \
        else if (w->plan->run_count > 0) M##_runs_back(w, dy, dx);                                           \
        else if (w->plan->tall) M##_tall_back(w, dy, dx);                                                    \
        else M##_sums_back(w, dy, dx);                                                                       \
    }                                                                                                        \
    M##_TARGET static void M##_maxima_any(const work *w, const st_real *x, st_real *y, st_real *places)      \
    {                                                                                                        \
        if (places) M##_maxima(w, x, y, places);                                                             \
        else M##_maxima(w, x, y, NULL);                                                                      \
    }                                                                                                        \
    M##_TARGET static void M##_powers(ptrdiff_t n, const st_real *x, double p, st_real *to)                  \
    {                                                                                                        \
        powers(n, x, p, to);                                                                                 \
    }                                                                                                        \
    M##_TARGET static void M##_roots(ptrdiff_t n, const st_real *x, double p, st_real *y)                    \
    {                                                                                                        \
        (void)x;                                                                                             \
        roots(n, y, p);                                                                                      \
    }                                                                                                        \
    M##_TARGET static void M##_before(ptrdiff_t n, const st_real *y, double p, st_real *dy)                  \
    {                                                                                                        \
        norms_before(n, y, p, dy);                                                                           \
    }                                                                                                        \
    M##_TARGET static void M##_after(ptrdiff_t n, const st_real *x, double p, st_real *dx)                   \
    {                                                                                                        \
        norms_after(n, x, p, dx);                                                                            \
    }
#define FUNCTIONS(M)                                                                                         \
    { M##_forward, M##_backward, M##_maxima_any, M##_powers, M##_roots, M##_before, M##_after },

EACH_MACHINE(STAMP)
static const struct {
    image_pass *forward, *backward;
    maxima_pass *maxima;
    norm_pass *powers, *roots, *before, *after;
} machines[] = { EACH_MACHINE(FUNCTIONS) };

/* ---- the hooks -------------------------------------------------------------------------------------- */

static work work_of(const st_call *c, ptrdiff_t planes)
{
    const rows_plan *p = c->plan;
    const ptrdiff_t pitch = LANES_MOST * p->axis[1].pitch, out_pitch = LANES_MOST * p->axis[1].out_pitch;
    work w = { .plan = p, .kernel = kernel_of(c->layer), .planes = planes };
    w.rows = st_data(st_scratch(c, p->scratch + ROOM));
    w.columns = w.rows + pitch;
    w.out_columns = w.columns + pitch + out_pitch;
    w.out_rows = w.out_columns + out_pitch;
    w.places = w.out_rows + out_pitch;
    w.place_columns = w.places + pitch;
    w.half = st_data(st_scratch(c, p->scratch + HALF));
    return w;
}

/* Image i as contiguous elements; a view of others is copied. */
static const st_real *image_of(const st_call *c, st_tensor x, ptrdiff_t i)
{
    const st_tensor one = st_select(x, 0, i);
    if (st_is_contiguous(x)) return st_data(one);
    const st_tensor room =
        st_narrow(st_scratch(c, ((const rows_plan *)c->plan)->scratch + IMAGE), 0, 0, st_numel(one));
    st_copy(st_reshape(room, one.shape), one);
    return st_data(room);
}

/* Channels that are computed together: all, or those of one image if it is copied, or resized by halves. */
static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const rows_plan *p = c->plan;
    const bool single = p->tall || !st_is_contiguous(x);
    const ptrdiff_t images = x.shape.n[0], some = single ? 1 : images;
    const work w = work_of(c, some * x.shape.n[1]);
    for (ptrdiff_t i = 0; i < images; i += some)
        machines[c->layer->impl->machine].forward(&w, image_of(c, x, i), st_data(st_select(y, 0, i)));
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    const rows_plan *p = c->plan;
    const ptrdiff_t images = dx.shape.n[0], some = p->tall ? 1 : images;
    const work w = work_of(c, some * dx.shape.n[1]);
    for (ptrdiff_t i = 0; i < images; i += some)
        machines[c->layer->impl->machine].backward(&w, st_data(st_select(dy, 0, i)),
                                                   st_data(st_select(dx, 0, i)));
}

static void maxima_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const ptrdiff_t images = x.shape.n[0], channels = x.shape.n[1], some = st_is_contiguous(x) ? images : 1;
    const work w = work_of(c, some * channels);
    const bool placed = !c->layer->impl->run->inference_only;
    for (ptrdiff_t i = 0; i < images; i += some)
        machines[c->layer->impl->machine].maxima(&w, image_of(c, x, i), st_data(st_select(y, 0, i)),
                                                 placed ? st_data(st_select(st_memory(c, PLACES), 0, i))
                                                        : NULL);
}

static void maxima_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    const work w = work_of(c, dx.shape.n[0] * dx.shape.n[1]);
    maxima_back(&w, st_data(dy), st_data(st_memory(c, PLACES)), st_data(dx));
}

/* Elements of which powers, and sums of as many as there are in an image, are in range. */
static void limits_of(double p, double *low, double *high)
{
    const double most = sizeof(st_real) == 8 ? 1e240 : 1e28;
    *low = pow(1 / most, 1 / fmax(p, 1)), *high = pow(most, 1 / fmax(p, 1));
}

static void norms_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const rows_plan *p = c->plan;
    const ptrdiff_t channels = x.shape.n[1], area = x.shape.n[2] * x.shape.n[3],
                    count = y.shape.n[2] * y.shape.n[3];
    const work w = work_of(c, channels);
    const int machine = c->layer->impl->machine;
    st_real *raised = st_data(st_scratch(c, p->scratch + IMAGE));
    double low, high;
    limits_of(p->p, &low, &high);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *from = image_of(c, x, i);
        st_real *to = st_data(st_select(y, 0, i));
        for (ptrdiff_t k = 0; k < channels; k++)
            if (all_within(area, from + k * area, (st_real)low, (st_real)high))
                machines[machine].powers(area, from + k * area, p->p, raised + k * area);
            else
                for (ptrdiff_t j = 0; j < area; j++) raised[k * area + j] = NAN;
        machines[machine].forward(&w, raised, to);
        machines[machine].roots(channels * count, NULL, p->p, to);
        for (ptrdiff_t k = 0; k < channels; k++) {
            int lost = 0;
            for (ptrdiff_t j = 0; j < count; j++) lost |= isnan(to[k * count + j]);
            if (lost) pool_forward_plane(c, i, k, st_select(st_select(x, 0, i), 0, k), to + k * count);
        }
    }
}

static void norms_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const rows_plan *p = c->plan;
    const ptrdiff_t channels = x.shape.n[1], area = x.shape.n[2] * x.shape.n[3],
                    count = y.shape.n[2] * y.shape.n[3];
    const work w = work_of(c, channels);
    const int machine = c->layer->impl->machine;
    st_real *q = st_data(st_scratch(c, p->scratch + IMAGE));
    double low, high;
    limits_of(p->p, &low, &high);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *norms = st_data(st_select(y, 0, i)), *g = st_data(st_select(dy, 0, i));
        st_real *to = st_data(st_select(dx, 0, i));
        memcpy(q, g, (size_t)(channels * count) * sizeof *q);
        machines[machine].before(channels * count, norms, p->p, q);
        machines[machine].backward(&w, q, to);
        const st_real *from = image_of(c, x, i);
        for (ptrdiff_t k = 0; k < channels; k++)
            if (all_within(area, from + k * area, (st_real)low, (st_real)high))
                machines[machine].after(area, from + k * area, p->p, to + k * area);
            else
                pool_backward_plane(c, i, k, st_select(st_select(x, 0, i), 0, k), norms + k * count,
                                    g + k * count, st_select(st_select(dx, 0, i), 0, k));
    }
}

/* ---- plans ------------------------------------------------------------------------------------------- */

enum { RUN = 8, MOST_ALL_TAPS = 1 << 20 }; /* the shortest mean run of columns */

static bool is_separable(const st_layer *l)
{
    return !l->type->pooling;
}

/* The most taps of an axis; p is the definition's plan. */
static ptrdiff_t most_taps(const st_layer *l, const void *p, int a)
{
    const ptrdiff_t from = l->x.n[2 + a], to = l->y.n[2 + a];
    tap row[MOST_TAPS];
    ptrdiff_t taps = 0;
    if (!is_separable(l)) return to * ((const pool_plan *)p)->w.kernel[a];
    for (ptrdiff_t i = 0; i < to; i++)
        taps += ((const separable *)p)->row(l->options, 2 + a, i, from, to, row);
    return taps;
}

static bool suits(const st_layer *l)
{
    const double most = -(double)NOWHERE; /* a float counts up to there */
    if (l->type == &layer_type_maxpool && (double)l->x.n[2] * (double)l->x.n[3] >= most) return false;
    return most_taps(l, l->plan, 0) <= MOST_ALL_TAPS && most_taps(l, l->plan, 1) <= MOST_ALL_TAPS;
}

static ptrdiff_t padded(ptrdiff_t n)
{
    return ceil_div(n, LANES_MOST) * LANES_MOST;
}

/* Bytes of an axis's table. */
static size_t table_of(const axis *a, ptrdiff_t taps)
{
    return (size_t)taps * sizeof(tap) + (size_t)(a->out + 1) * (sizeof(ptrdiff_t) + sizeof(run)) +
           (size_t)padded(a->out) * sizeof(double) + (size_t)a->out * sizeof(pool_span);
}

static axis axis_of(ptrdiff_t size, ptrdiff_t out)
{
    return (axis){ .size = size, .out = out, .pitch = padded(size), .out_pitch = padded(out) };
}

/* Images so narrow that rows fill few vectors are one row each, unless they are large, or windows are. */
static bool suits_flat(const axis each[], const ptrdiff_t taps[], ptrdiff_t narrow)
{
    enum { SMALL = 1024, FEW = 16 };
    const ptrdiff_t size = each[0].size * each[1].size, out = each[0].out * each[1].out;
    return smallest(each[1].size, each[1].out) < narrow && size <= SMALL && out <= SMALL &&
           taps[0] * taps[1] <= FEW * largest(size, out);
}

static int plan(st_layer *l, const void *given)
{
    const bool maxima = l->type == &layer_type_maxpool;
    rows_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    if (is_separable(l)) p->definition.separable = *(const separable *)given;
    else p->definition.pool = *(const pool_plan *)given;
    p->means = l->type == &layer_type_avgpool || l->type == &layer_type_adaptive_avgpool;
    p->p = l->type == &layer_type_lppool ? ((const st_lppool_options *)l->options)->p : 0;
    if (l->type == &layer_type_pad2d && ((const st_pad2d_options *)l->options)->mode == ST_PAD_CONSTANT)
        p->value = (st_real)((const st_pad2d_options *)l->options)->value;
    ptrdiff_t taps[2];
    l->impl->tables = 0;
    for (int a = 0; a < 2; a++) {
        p->each[a] = axis_of(l->x.n[2 + a], l->y.n[2 + a]);
        taps[a] = most_taps(l, given, a);
        l->impl->tables += table_of(&p->each[a], taps[a]);
    }
    p->flat = suits_flat(p->each, taps, maxima || l->type == &layer_type_pad2d ? 16 : 32);
    const axis one = axis_of(1, 1), all = axis_of(l->x.n[2] * l->x.n[3], l->y.n[2] * l->y.n[3]);
    p->axis[0] = p->flat ? one : p->each[0], p->axis[1] = p->flat ? all : p->each[1];
    if (p->flat) l->impl->tables += table_of(&one, 1) + table_of(&all, taps[0] * taps[1]);
    if (!is_separable(l) && pool_request_scratch(l, &p->definition.pool)) return -1;
    p->scratch = l->impl->scratches;
    const axis *columns = &p->axis[1];
    const ptrdiff_t area = l->x.n[2] * l->x.n[3], count = l->y.n[2] * l->y.n[3];
    if (maxima && st_layer_memory(l, ST_SHAPE(l->x.n[0], l->x.n[1], count))) return -1;
    const ptrdiff_t row = (maxima ? 4 : 2) * columns->pitch + 3 * columns->out_pitch;
    if (st_layer_scratch(l, ST_SHAPE(largest(LANES_MOST * row, p->each[0].size)))) return -1;
    if (st_layer_scratch(l, ST_SHAPE(l->x.n[1] * largest(area, count)))) return -1;
    const bool may_be_tall = is_separable(l) && l->y.n[2] > l->x.n[2];
    return st_layer_scratch(l, ST_SHAPE(may_be_tall ? l->x.n[1] * l->x.n[2] * l->y.n[3] : 0));
}

/* The columns as runs, if they are few. */
static void find_runs(rows_plan *p)
{
    const axis *a = &p->axis[1];
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < a->out; i++) {
        const tap *t = a->taps + a->begin[i];
        if (a->begin[i + 1] - a->begin[i] > 1) return;
        if (a->begin[i + 1] == a->begin[i]) continue;
        if (t->weight != 1) return;
        run *last = count > 0 ? &p->runs[count - 1] : NULL;
        const bool next = last && last->to + last->count == i;
        const ptrdiff_t step = next ? t->from - (last->from + (last->count - 1) * last->step) : 2;
        if (next && step >= -1 && step <= 1 && (last->count == 1 || step == last->step)) {
            last->step = step;
            last->count++;
        } else p->runs[count++] = (run){ i, t->from, 1, 1 };
    }
    if (count == 1 || count * RUN <= a->out) p->run_count = count;
}

static bool is_identity(const axis *a)
{
    for (ptrdiff_t i = 0; i < a->out; i++) {
        const tap *t = a->taps + a->begin[i];
        if (a->begin[i + 1] - a->begin[i] != 1 || t->from != i || t->weight != 1) return false;
    }
    return a->size == a->out;
}

static void fill_pooling(const st_layer *l, rows_plan *p, int i, pool_span *spans)
{
    const pool_plan *pool = &p->definition.pool;
    axis *a = &p->each[i];
    const st_window at = { .options = l->options };
    const bool exclude =
        l->type == &layer_type_avgpool && ((const st_avgpool_options *)l->options)->count_exclude_pad;
    pool->grid->spans(pool, &at, i, spans);
    for (ptrdiff_t o = 0, n = 0; o < a->out; o++) {
        for (ptrdiff_t k = 0; k < spans[o].count; k++)
            a->taps[n++] = (tap){ spans[o].first + k * pool->w.dilation[i], 1 };
        a->begin[o + 1] = n;
        a->counted[o] = (st_real)(exclude ? spans[o].count : spans[o].whole);
    }
}

/* The table of an axis at `at`; returns its end. */
static char *lay_out(axis *a, ptrdiff_t taps, char *at, run **runs, pool_span **spans)
{
    a->taps = (tap *)(void *)at, at += (size_t)taps * sizeof *a->taps;
    *runs = (run *)(void *)at, at += (size_t)(a->out + 1) * sizeof **runs;
    *spans = (pool_span *)(void *)at, at += (size_t)a->out * sizeof **spans;
    a->begin = (ptrdiff_t *)(void *)at, at += (size_t)(a->out + 1) * sizeof *a->begin;
    a->counted = (st_real *)(void *)at, at += (size_t)padded(a->out) * sizeof(double);
    a->begin[0] = 0;
    return at;
}

static bool is_outside(const axis *a, tap t)
{
    return t.from < 0 || t.from >= a->size;
}

/* Every element of y as one of a row: its taps are those of its row and its column. */
static void flatten(rows_plan *p)
{
    const axis *rows = &p->each[0], *columns = &p->each[1];
    axis *one = &p->axis[0], *all = &p->axis[1];
    one->taps[0] = (tap){ 0, 1 }, one->begin[1] = 1, one->counted[0] = 1;
    for (ptrdiff_t o = 0, n = 0; o < all->out; o++) {
        const ptrdiff_t oh = o / columns->out, ow = o % columns->out;
        for (ptrdiff_t i = rows->begin[oh]; i < rows->begin[oh + 1]; i++)
            for (ptrdiff_t j = columns->begin[ow]; j < columns->begin[ow + 1]; j++) {
                const tap a = rows->taps[i], b = columns->taps[j];
                const bool outside = is_outside(rows, a) || is_outside(columns, b);
                all->taps[n++] = (tap){ outside ? -1 : a.from * columns->size + b.from, a.weight * b.weight };
            }
        all->begin[o + 1] = n;
        all->counted[o] = rows->counted[oh] * columns->counted[ow];
    }
}

static void fill(st_layer *l, void *tables)
{
    rows_plan *p = l->plan;
    char *at = tables;
    ptrdiff_t taps[2];
    pool_span *spans;
    for (int i = 0; i < 2; i++) {
        axis *a = &p->each[i];
        taps[i] = most_taps(l, &p->definition, i);
        at = lay_out(a, taps[i], at, &p->runs, &spans);
        if (!is_separable(l)) fill_pooling(l, p, i, spans);
        else
            for (ptrdiff_t o = 0; o < a->out; o++)
                a->begin[o + 1] = a->begin[o] + separable_taps(l, 2 + i, o, a->taps + a->begin[o]),
                             a->counted[o] = 1;
    }
    p->run_count = 0;
    p->same = is_separable(l) && is_identity(&p->each[0]) && is_identity(&p->each[1]);
    if (p->flat) {
        at = lay_out(&p->axis[0], 1, at, &p->runs, &spans);
        lay_out(&p->axis[1], taps[0] * taps[1], at, &p->runs, &spans);
        flatten(p);
    } else {
        p->axis[0] = p->each[0], p->axis[1] = p->each[1];
        if (is_separable(l)) find_runs(p);
        p->tall = is_separable(l) && p->run_count == 0 && p->each[0].out > p->each[0].size;
    }
}

#define ALGORITHM(NAME, ...)                                                                                 \
    const layer_algorithm NAME##_rows = {                                                                    \
        .type = &layer_type_##NAME, .suits = suits, .plan = plan, .fill = fill, .hooks = { __VA_ARGS__ }     \
    };
ALGORITHM(maxpool, maxima_forward, maxima_backward)
ALGORITHM(avgpool, forward, backward)
ALGORITHM(adaptive_avgpool, forward, backward)
ALGORITHM(lppool, norms_forward, norms_backward)
ALGORITHM(upsample, forward, backward)
ALGORITHM(pad2d, forward, backward)
