/* rows.c: pooling, resizing and padding by rows, for every window and size.
 *
 * Means, interpolation and borders are y = A x Bᵀ in each channel, with few elements in a row of A and B. A
 * row of A x is a weighted sum of rows of x, by vectors along them. Where each y needs few columns, they
 * are picked from the row by shuffles; short rows are joined for it. Otherwise as many rows as a vector has
 * lanes, of any channels, are transposed, so that columns are vectors, of which those of y are weighted sums.
 * The adjoint is the same with the transposed matrices. Where B only moves runs of columns, as borders do,
 * they are copied, and added on the way back. Small images may be one row each, or are picked from whole
 * planes, along one axis after the other or along both at once, as maxima and their gradients are. The way
 * with the least estimated instructions is chosen. Windows of maxima that few others overlap are searched
 * with planes as lanes: a tile of all of them is transposed, so that no lane is idle, however narrow it is.
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

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

enum { TOGETHER = 16 };                  /* taps that are added up first */
enum { AHEAD = 8192 / sizeof(st_real) }; /* rows are fetched so far before they are read or written, */
enum { SOON = 2048 / sizeof(st_real) };  /* and those of sums so far before they are read */
enum { LINE = 64 / sizeof(st_real) };    /* is fetched at once */
enum { AT_ONCE = 8 };                    /* vectors of rows that are added up at once: see SUM */
enum { BESIDE = 4 };                     /* other vectors at once */
enum { NARROW = 3 };                     /* vectors of a narrow row */
enum { JOINED = 4 };                     /* vectors that joined rows fill, at least */
enum { MOST_PICKS = 12 };                /* of an element */
enum { FEW_PARTS = 4 };                  /* of a pick that takes few instructions, and may move groups, */
enum { TABLE = 16 << 10 };               /* bytes of all their picks, which the first cache keeps, */
enum { MOVED = 1024 / sizeof(st_real) }; /* and elements of a row that is longer than what it makes */
enum { BLOCK = 8192 / sizeof(st_real) }; /* elements of rows that are summed before they are picked from */
enum { ABREAST = 2, TILE = 2048 };       /* vectors of planes; elements of each that are lanes at once */
#define NOWHERE (-(st_real)(1 << 24))    /* the row and the column of no element */

/* How one tap of each of a vector of elements is read: from `parts` vectors of the row, lane l from
 * row[from[index[l] / lanes] + index[l] % lanes]; 0 parts: the lanes are adjacent. With one part, the index
 * of a lane without this tap is `lanes`, in a second vector. */
typedef struct pick {
    ptrdiff_t taps; /* of this vector, in its first pick */
    int from[LANES_MOST], parts;
    bool lacks; /* there are lanes without this tap, whose weight is 0 */
    bool ones;  /* the weights of the others are 1 */
} pick;

/* The picks of vectors of elements, in their order, each with an index and a weight for each lane. Those of
 * maxima have a column instead of a weight, or a place in the plane, -1 outside, and NOWHERE for a lane
 * without this tap. Short rows are joined, so that they fill vectors. */
typedef struct picks {
    bool used;                 /* otherwise columns are vectors */
    bool moves;                /* elements have one tap at most, of weight 1, and the picks are few; rows are
                                * not long, nor longer than what they make: groups are moved one by one */
    ptrdiff_t rows, step, out; /* rows at once, `step` from each other; the elements that they make */
    ptrdiff_t low, high;       /* the elements of a row that are read, */
    ptrdiff_t reach;           /* and those of all rows, up to the last one of a vector */
    ptrdiff_t room;            /* for so many of them */
    pick *pick;
    isa_bits *index;
    st_real *weight;
} picks;

/* The matrix of an axis: taps begin[i] ... begin[i + 1] - 1 make element i of y. Those of maxima may lie
 * outside, where there are zeros. */
typedef struct sparse {
    ptrdiff_t size, out, pitch, out_pitch; /* pitches: sizes that are multiples of LANES_MOST */
    ptrdiff_t *begin, *alike; /* so many elements from each on have the same taps, one further each time */
    tap *taps;
    st_real *counted;   /* elements of a mean along the axis */
    bool ordered, even; /* y is x along the axis; all of counted are alike */
    picks picks;
} sparse;

/* y[to], y[to + 1], ... = x[from], x[from + step], ...; step is 1, -1 or 0. */
typedef struct column_run {
    ptrdiff_t to, from, count, step;
} column_run;

typedef struct rows_plan {
    union {
        pool_plan pool;
        separable separable;
    } definition;             /* comes first, for the definition's functions */
    sparse axis[2], each[2];  /* rows, columns */
    sparse back[2];           /* the transposed matrices, without taps outside */
    column_run *runs;         /* of columns, if each has at most one tap, of weight 1, and they are few: */
    ptrdiff_t run_count;      /* 0: they are not */
    bool by_runs[2];          /* forward, backward: runs, not picks */
    sparse plane[2], half[2]; /* the matrices of planes as picks, or of one axis, and then of the other, */
    bool by_planes[2];        /* if they are used */
    st_real *shares;          /* 1 / the number of elements of each mean, for as many planes as are joined */
    bool flat, tall, same;    /* tall: columns come before rows, which become more; same: y is x */
    bool means;               /* taps have shares */
    bool single;              /* maxima are those of one row at most */
    bool abreast;             /* maxima have planes as lanes */
    st_real value;            /* where there is no tap */
    double p;                 /* of a p-norm; 0: it is none */
    ptrdiff_t planes;         /* of all images */
    int scratch;              /* the first slot */
} rows_plan;

enum { ROOM, IMAGE, HALF }; /* scratch, from the plan's first slot on; an image; a channel, half resized */
enum { PLACES };            /* memory: the places of maxima in their channel; -1: none */

typedef struct work {
    const rows_plan *plan;
    const kernel *kernel;
    ptrdiff_t planes;
    st_real *rows, *columns, *out_columns, *out_rows; /* LANES_MOST of each */
    st_real *places, *place_columns;                  /* of maxima */
    st_real *half;                                    /* channels whose columns alone are resized */
    st_real *block, *share;                           /* rows to be picked from, and their means' shares */
    st_real *tile, *tile_out, *tile_places; /* elements of which ABREAST vectors of planes are lanes */
} work;

/* Rows, as many as there are lanes, become columns. Those that are missing hold numbers that are not used. */
static void turn_rows(const kernel *k, ptrdiff_t pitch, const st_real *rows, st_real *columns)
{
    kernel_transpose(k, k->lanes, pitch, rows, pitch, columns, k->lanes, NULL);
}

/* n <= lanes rows of an image as columns of vectors, by way of `rows`, which begin `pitch` apart. */
static void enter(const kernel *k, ptrdiff_t n, ptrdiff_t size, ptrdiff_t pitch, const st_real *from,
                  st_real *rows, st_real *columns)
{
    if (n == k->lanes && size >= k->lanes) {
        kernel_transpose(k, n, size, from, size, columns, n, NULL);
        return;
    }
    k->move(n, size, from, size, rows, pitch);
    turn_rows(k, pitch, rows, columns);
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

/* Tests if n elements do not stay in a cache. */
enum { SECOND = 1 << 20, THIRD = 1 << 25 };
static bool is_far(ptrdiff_t n, ptrdiff_t bytes)
{
    return n > bytes / (ptrdiff_t)sizeof(st_real);
}

/* Fetches the rows of x that `least` taps or more read, and some elements more, from `fetched` on; returns
 * where it ended. NULL: none, as they stay in the third cache. */
INLINE const st_real *fetch(const st_real *fetched, const tap *t, ptrdiff_t count, const st_real *x,
                            ptrdiff_t pitch, const st_real *end, ptrdiff_t least)
{
    if (!fetched || count < least) return fetched;
    const st_real *first = x + t->from * pitch, *last = x + (t[count - 1].from + 1) * pitch;
    const st_real *to = end - last < SOON ? end : last + SOON;
    if (fetched < first) fetched = first;
    for (; fetched < to; fetched += LINE) __builtin_prefetch(fetched);
    return fetched;
}

#define SUM(M, v)                                                                                            \
    case v: M##_sum_beside(v, n, i, t, count, x, pitch, ahead, to); break;

/* sum_rows: weighted sums of rows of n elements. `loose`: vectors may be read and written beyond their ends;
 * `ahead`: what is read later is fetched.
 * sum_pairs: n rows of v vectors, each the sum of two rows. sum_narrow: some rows from row i on, if they are
 * narrow and sums of two each; returns how many. They fit `room`, and are few, as the next ones are fetched.
 * spread: adds weight times n elements, after which a vector's zeros follow, to `to`; vectors may pass its
 * end, to which they add zeros, up to `end`. */
#define ROWS(M)                                                                                              \
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
    M##_TARGET static __attribute__((noinline)) ptrdiff_t M##_sum_narrow(                                    \
        const sparse *rows, ptrdiff_t i, ptrdiff_t room, ptrdiff_t wide, const st_real *x, st_real *to)      \
    {                                                                                                        \
        const ptrdiff_t v = ceil_div(wide, ISA_LANES(M)), *begin = rows->begin + i;                          \
        const tap *t = rows->taps + *begin;                                                                  \
        const ptrdiff_t most = smallest(rows->out - i, smallest(room, AHEAD / 16) / largest(wide, 1));       \
        ptrdiff_t n = 0;                                                                                     \
        while (v <= NARROW && n < most && begin[n + 1] - begin[n] == 2) n++;                                 \
        if (v == 1) M##_sum_pairs(1, n, t, wide, x, to);                                                     \
        else if (v == 2) M##_sum_pairs(2, n, t, wide, x, to);                                                \
        else M##_sum_pairs(NARROW, n, t, wide, x, to);                                                       \
        return n;                                                                                            \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_spread(ptrdiff_t n, st_real *to, const st_real *end, st_real weight,          \
                                      const st_real *from)                                                   \
    {                                                                                                        \
        ptrdiff_t i = 0;                                                                                     \
        for (; i < n && to + i + ISA_LANES(M) <= end; i += ISA_LANES(M))                                     \
            AT(M, to + i) += weight * AT(M, from + i);                                                       \
        for (; i < n; i++) to[i] += weight * from[i];                                                        \
    }

/* ---- sums ------------------------------------------------------------------------------------------ */

/* 1 / counts, or 0 for none. */
#define SHARE(M, counts)                                                                                     \
    ISA_PICK(M, (counts) > 0, 1 / ISA_PICK(M, (counts) > 0, counts, (counts) + 1), (counts) - (counts))

#define COLUMN_SUMS(M)                                                                                       \
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
    }

/* ---- picks ------------------------------------------------------------------------------------------ */

/* Groups of elements that are picked from groups of rows, `pitch` apart: joined rows, or planes. */
typedef struct groups {
    ptrdiff_t count, pitch;
    const st_real *from, *share; /* the shares of means, `shared` apart, or NULL, */
    ptrdiff_t shared;
    bool far, to_far;        /* the next ones are fetched, and places of `to` before they are written */
    st_real none, *to, *end; /* the value without a tap; nothing is written beyond the end */
    st_real *places;         /* of maxima, beside `to` or, on the way back, `from`; NULL: they are not kept */
} groups;

/* Weighted sums; maxima with their places, and the adjoint: each y whose maximum has the place. */
typedef enum picking { SUMS, MAXIMA, BACK } picking;

/* So many rows at once, of images that are so high; and planes. */
static ptrdiff_t rows_of_block(const picks *k, ptrdiff_t high)
{
    const ptrdiff_t one = largest(k->rows * k->step, k->out), most = largest(BLOCK / one, 1) * k->rows;
    const ptrdiff_t whole = high / greatest_common_divisor(high, k->rows) * k->rows;
    return most < whole ? most : most / whole * whole;
}

static ptrdiff_t planes_of_block(ptrdiff_t size)
{
    return largest(BLOCK / size, 1);
}

#define PICKS(M)                                                                                             \
    /* The lanes of a pick from each of n rows, `pitch` apart. */                                            \
    M##_TARGET INLINE void M##_pick(const pick *p, M##_mask where, const st_real *row, ptrdiff_t pitch,      \
                                    int n, M##_vector *v)                                                    \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const int *from = p->from, parts = p->parts;                                                         \
        EACH(q, n) v[q] = AT(M, row + q * pitch + from[0]);                                                  \
        if (parts == 0) return;                                                                              \
        if (!M##_SHUFFLES) {                                                                                 \
            EACH(q, n)                                                                                       \
            {                                                                                                \
                M##_vector u = { 0 };                                                                        \
                EACH(l, LANES)                                                                               \
                u[l] = row[q * pitch + from[where[l] / LANES] + (ptrdiff_t)(where[l] % LANES)];              \
                v[q] = u;                                                                                    \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        if (parts == 1) EACH(q, n) v[q] = SHUFFLE_BY(M, v[q], v[q], where);                                  \
        if (parts == 1) return;                                                                              \
        EACH(q, n)                                                                                           \
        {                                                                                                    \
            const M##_vector next = AT(M, row + q * pitch + from[1]);                                        \
            v[q] = SHUFFLE_BY(M, v[q], next, where);                                                         \
        }                                                                                                    \
        for (int i = 2; i < parts; i += 2) {                                                                 \
            const M##_mask far = where >= i * LANES;                                                         \
            EACH(q, n)                                                                                       \
            {                                                                                                \
                const st_real *at = row + q * pitch;                                                         \
                M##_vector u = AT(M, at + from[i]), next = AT(M, at + from[i + 1]);                          \
                u = SHUFFLE_BY(M, u, next, where);                                                           \
                v[q] = ISA_PICK(M, far, u, v[q]);                                                            \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* Elements i, i + 1, ... of n groups by `taps` picks from `at` on. Unless `whole`, n is 1. */           \
    M##_TARGET INLINE void M##_pick_some(const picks *k, picking how, ptrdiff_t at, ptrdiff_t taps, int n,   \
                                         const groups *b, ptrdiff_t i, bool whole)                           \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const M##_vector zero = { 0 };                                                                       \
        M##_vector sum[BESIDE], place[BESIDE], v[BESIDE], from[BESIDE];                                      \
        const ptrdiff_t pitch = b->pitch, out = k->out;                                                      \
        EACH(q, n) sum[q] = how == BACK ? zero : zero + b->none, place[q] = zero - 1;                        \
        for (ptrdiff_t j = 0; j < taps; j++) {                                                               \
            const pick *p = k->pick + at + j;                                                                \
            const M##_mask where = (M##_mask)AT(M, k->index + (at + j) * LANES);                             \
            const M##_vector weight = AT(M, k->weight + (at + j) * LANES);                                   \
            const M##_mask has = how == SUMS ? weight != 0 : weight > NOWHERE;                               \
            const bool lacks = p->lacks;                                                                     \
            M##_pick(p, where, b->from, pitch, n, v);                                                        \
            const ptrdiff_t next = BESIDE * pitch + p->from[0];                                              \
            if (n > 1 && b->far) EACH(q, n) __builtin_prefetch(b->from + q * pitch + next);                  \
            if (n > 1 && b->far && how == BACK) EACH(q, n) __builtin_prefetch(b->places + q * pitch + next); \
            if (how == BACK) M##_pick(p, where, b->places, pitch, n, from);                                  \
            if (how == BACK) EACH(q, n) sum[q] += ISA_PICK(M, from[q] == weight, v[q], zero);                \
            if (how == SUMS) EACH(q, n) v[q] = j == 0 ? v[q] * weight : sum[q] + v[q] * weight;              \
            if (how == SUMS && lacks) EACH(q, n) sum[q] = ISA_PICK(M, has, v[q], sum[q]);                    \
            else if (how == SUMS) EACH(q, n) sum[q] = v[q];                                                  \
            if (how == MAXIMA && lacks) EACH(q, n) v[q] = ISA_PICK(M, weight < 0, zero, v[q]);               \
            if (how == MAXIMA) EACH(q, n)                                                                    \
                {                                                                                            \
                    M##_mask exceeds = has;                                                                  \
                    if (j > 0) exceeds &= ~(v[q] <= sum[q]) & (sum[q] == sum[q]);                            \
                    sum[q] = ISA_PICK(M, exceeds, v[q], sum[q]);                                             \
                    place[q] = ISA_PICK(M, exceeds, weight, place[q]);                                       \
                }                                                                                            \
        }                                                                                                    \
        if (b->share) EACH(q, n) sum[q] = sum[q] * AT(M, b->share + q * b->shared + i);                      \
        st_real *to = b->to + i, *places = how == MAXIMA && b->places ? b->places + i : NULL;                \
        if (!whole) {                                                                                        \
            const size_t bytes = (size_t)largest(smallest(b->end - to, LANES), 0) * sizeof *to;              \
            memcpy(to, sum, bytes);                                                                          \
            if (places) memcpy(places, place, bytes);                                                        \
            return;                                                                                          \
        }                                                                                                    \
        EACH(q, n) __builtin_prefetch(to + (BESIDE + q) * out, 1); /* of the next groups */                  \
        EACH(q, n) AT(M, to + q * out) = sum[q];                                                             \
        if (places) EACH(q, n) AT(M, places + q * out) = place[q];                                           \
    }                                                                                                        \
                                                                                                             \
    /* n groups. */                                                                                          \
    M##_TARGET INLINE void M##_pick_each(const picks *k, picking how, int n, const groups *b)                \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        ptrdiff_t at = 0, taps;                                                                              \
        for (ptrdiff_t begin = 0; begin < k->out; begin += LANES, at += taps) {                              \
            const ptrdiff_t i = k->out < LANES ? 0 : lanes_within(begin, LANES, k->out);                     \
            taps = k->pick[at].taps;                                                                         \
            if (n == 1) M##_pick_some(k, how, at, taps, 1, b, i, b->to + i + LANES <= b->end);               \
            else if (how == SUMS && taps == 1) M##_pick_some(k, how, at, 1, n, b, i, true);                  \
            else if (how == SUMS && taps == 2) M##_pick_some(k, how, at, 2, n, b, i, true);                  \
            else M##_pick_some(k, how, at, taps, n, b, i, true);                                             \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* Moves groups one after the other, as memory is fetched best; returns how many it has moved. */        \
    M##_TARGET static __attribute__((noinline)) ptrdiff_t M##_move_groups(const picks *k, const groups *b)   \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const M##_vector none = (M##_vector){ 0 } + b->none;                                                 \
        const ptrdiff_t out = k->out, last = largest(out - LANES, 0), pitch = b->pitch;                      \
        const ptrdiff_t room = b->end - b->to - last - LANES;                                                \
        const ptrdiff_t count = room < 0 ? 0 : smallest(b->count, room / out + 1);                           \
        const ptrdiff_t ahead = ceil_div(AHEAD, pitch) * pitch; /* of a later group */                       \
        const st_real *from = b->from;                                                                       \
        st_real *to = b->to;                                                                                 \
        for (ptrdiff_t g = 0; g < count; g++, from += pitch, to += out) {                                    \
            const isa_bits *index = k->index;                                                                \
            ptrdiff_t i = 0;                                                                                 \
            for (const pick *p = k->pick; i <= last; p++, index += LANES) {                                  \
                const M##_mask where = (M##_mask)AT(M, index);                                               \
                M##_vector v = AT(M, from + p->from[0]);                                                     \
                if (p->parts < 2) v = SHUFFLE_BY(M, v, none, where);                                         \
                else if (p->parts == 2) {                                                                    \
                    const M##_vector next = AT(M, from + p->from[1]);                                        \
                    v = SHUFFLE_BY(M, v, next, where);                                                       \
                } else M##_pick(p, where, from, 0, 1, &v);                                                   \
                if (p->parts > 1 && p->lacks) {                                                              \
                    const M##_mask has = AT(M, k->weight + (index - k->index)) != 0;                         \
                    v = ISA_PICK(M, has, v, none);                                                           \
                }                                                                                            \
                if (b->far) __builtin_prefetch(from + ahead + p->from[0]);                                   \
                if (b->far && p->parts > 2) __builtin_prefetch(from + ahead + p->from[p->parts - 1]);        \
                if (b->to_far) __builtin_prefetch(to + i + AHEAD, 1);                                        \
                AT(M, to + i) = v;                                                                           \
                i = i == last ? last + 1 : smallest(i + LANES, last);                                        \
            }                                                                                                \
        }                                                                                                    \
        return count;                                                                                        \
    }                                                                                                        \
    M##_TARGET INLINE void M##_pick_all(const picks *k, picking how, const groups *given)                    \
    {                                                                                                        \
        groups b = *given;                                                                                   \
        const bool places = how != SUMS && b.places;                                                         \
        ptrdiff_t n;                                                                                         \
        for (ptrdiff_t g = 0; g < b.count; g += n) {                                                         \
            const ptrdiff_t room = b.end - b.to - ISA_LANES(M);                                              \
            n = g + BESIDE <= b.count && room >= BESIDE * k->out ? BESIDE : 1;                               \
            if (n == 1) M##_pick_each(k, how, 1, &b);                                                        \
            else M##_pick_each(k, how, BESIDE, &b);                                                          \
            b.from += n * b.pitch, b.to += n * k->out;                                                       \
            if (b.share) b.share += n * b.shared;                                                            \
            if (places) b.places += n * (how == BACK ? b.pitch : k->out);                                    \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET static void M##_pick_groups(const picks *given, picking how, const groups *b)                 \
    {                                                                                                        \
        const picks k = *given;                                                                              \
        groups rest = *b;                                                                                    \
        if (M##_SHUFFLES && how == SUMS && k.moves && !b->share) {                                           \
            const ptrdiff_t n = M##_move_groups(given, b);                                                   \
            rest.count -= n, rest.from += n * b->pitch, rest.to += n * k.out;                                \
        }                                                                                                    \
        if (how == SUMS) M##_pick_all(&k, SUMS, &rest);                                                      \
        else if (how == MAXIMA) M##_pick_all(&k, MAXIMA, b);                                                 \
        else M##_pick_all(&k, BACK, b);                                                                      \
    }                                                                                                        \
                                                                                                             \
    /* 1 / counted, of means in n rows from row r on. */                                                     \
    M##_TARGET INLINE void M##_shares(const sparse *rows, ptrdiff_t r, ptrdiff_t n, const sparse *columns,   \
                                      st_real *share)                                                        \
    {                                                                                                        \
        for (ptrdiff_t l = 0; l < n; l++, share += columns->out, r = r + 1 < rows->out ? r + 1 : 0)          \
            for (ptrdiff_t i = 0; i < columns->out; i += ISA_LANES(M)) {                                     \
                const M##_vector counts = AT(M, columns->counted + i) * rows->counted[r];                    \
                AT(M, share + i) = SHARE(M, counts);                                                         \
            }                                                                                                \
    }                                                                                                        \
                                                                                                             \
    /* Rows of `to` are weighted sums of rows of `from`, and then columns are picked. */                     \
    M##_TARGET INLINE void M##_rows_and_picks(const work *w, const sparse *rows, const sparse *columns,      \
                                              st_real value, const st_real *from, st_real *to)               \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const picks *k = &columns->picks;                                                                    \
        const ptrdiff_t wide = columns->size, out = columns->out, area = rows->size * wide,                  \
                        total = w->planes * rows->out, most = rows_of_block(k, rows->out);                   \
        const st_real *end = from + w->planes * area;                                                        \
        const st_real *fetched = is_far(w->plan->planes * area, THIRD) ? from : NULL;                        \
        /* Where a third of the rows are left out, they would be fetched between others of one tap. */       \
        const ptrdiff_t least = 2 * rows->size > 3 * rows->out ? 2 : 1;                                      \
        groups b = { .pitch = k->rows * k->step, .none = value, .to = to };                                  \
        b.end = to + total * out;                                                                            \
        b.to_far = is_far(total * out, SECOND);                                                              \
        if (w->plan->means) b.share = w->share, b.shared = k->rows * out;                                    \
        for (ptrdiff_t r = 0, oh = 0, n; r < total; r += n, b.to += n * out) {                               \
            n = smallest(most, total - r);                                                                   \
            b.count = ceil_div(n, k->rows);                                                                  \
            b.from = rows->ordered ? from + oh * wide : w->block;                                            \
            if (b.share && (r == 0 || (!rows->even && most % rows->out > 0)))                                \
                M##_shares(rows, oh, n, columns, w->share);                                                  \
            const bool copied = !rows->ordered || b.from + (b.count - 1) * b.pitch + k->reach > end;         \
            if (copied) b.from = w->block;                                                                   \
            b.far = !copied && is_far(w->planes * area, SECOND);                                             \
            for (ptrdiff_t l = 0; l < n; l++) {                                                              \
                const tap *t = rows->taps + rows->begin[oh];                                                 \
                const ptrdiff_t count = rows->begin[oh + 1] - rows->begin[oh];                               \
                if (copied) fetched = fetch(fetched, t, count, from, wide, end, least);                      \
                const bool soon = copied && !fetched && count > 0 && count < 3 && oh + 1 < rows->out;        \
                for (ptrdiff_t i = 0; i < wide && soon; i += LINE) /* the next row's last tap */             \
                    __builtin_prefetch(from + rows->taps[rows->begin[oh + 2] - 1].from * wide + i);          \
                st_real *next = w->block + l * k->step;                                                      \
                if (copied && count == 0 && value != 0)                                                      \
                    for (ptrdiff_t i = 0; i < wide; i++) next[i] = value;                                    \
                else if (copied)                                                                             \
                    M##_sum_rows(wide, t, count, from, wide, from + area + LANES <= end, !fetched, next);    \
                if (++oh == rows->out) oh = 0, from += area;                                                 \
            }                                                                                                \
            M##_pick_groups(k, SUMS, &b);                                                                    \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* x times `by`, so that vectors are used: the compiler cannot tell that `to` is none of both. */        \
    M##_TARGET INLINE void M##_times(ptrdiff_t n, const st_real *x, const st_real *by, st_real *to)          \
    {                                                                                                        \
        ptrdiff_t i = 0;                                                                                     \
        for (; i + ISA_LANES(M) <= n; i += ISA_LANES(M)) AT(M, to + i) = AT(M, x + i) * AT(M, by + i);       \
        for (; i < n; i++) to[i] = x[i] * by[i];                                                             \
    }                                                                                                        \
                                                                                                             \
    /* The other way round. Means, here those of dy, are shared out first. */                                \
    M##_TARGET INLINE void M##_picks_and_rows(const work *w, const sparse *rows, const sparse *columns,      \
                                              const st_real *from, st_real *to)                              \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const picks *k = &columns->picks;                                                                    \
        const ptrdiff_t wide = columns->size, out = columns->out, high = rows->size,                         \
                        most = rows_of_block(k, high), some = planes_of_block(high * largest(wide, out));    \
        const sparse *shares = w->plan->axis;                                                                \
        const st_real *end = from + w->planes * high * wide, *to_end = to + w->planes * rows->out * out;     \
        const bool means = w->plan->means;                                                                   \
        groups b = { .pitch = k->rows * k->step };                                                           \
        for (ptrdiff_t plane = 0, planes; plane < w->planes; plane += planes) {                              \
            planes = smallest(some, w->planes - plane);                                                      \
            const ptrdiff_t all = planes * high;                                                             \
            b.end = w->half + all * out + LANES;                                                             \
            for (ptrdiff_t i = 0, n; i < all; i += n, from += n * wide) {                                    \
                n = smallest(most, all - i);                                                                 \
                b.count = ceil_div(n, k->rows);                                                              \
                b.to = w->half + i * out;                                                                    \
                const bool copied = means || from + (b.count - 1) * b.pitch + k->reach > end;                \
                b.from = copied ? w->block : from;                                                           \
                b.far = !copied && is_far(w->planes * high * wide, SECOND);                                  \
                if (means && ((plane == 0 && i == 0) || (!shares->even && most % high > 0)))                 \
                    M##_shares(&shares[0], i % high, n, &shares[1], w->share);                               \
                const ptrdiff_t count = n * wide;                                                            \
                if (means) M##_times(count, from, w->share, w->block);                                       \
                else if (copied) memcpy(w->block, from, (size_t)count * sizeof *from);                       \
                M##_pick_groups(k, SUMS, &b);                                                                \
            }                                                                                                \
            const st_real *half = w->half;                                                                   \
            for (ptrdiff_t i = 0, oh = 0, n; i < planes * rows->out; i += n, to += n * out) {                \
                const ptrdiff_t first = rows->begin[oh], count = rows->begin[oh + 1] - first;                \
                n = count == 2 ? M##_sum_narrow(rows, oh, to_end - to - LANES, out, half, to) : 0;           \
                if (n == 0) {                                                                                \
                    n = rows->alike[oh];                                                                     \
                    const ptrdiff_t length = out * n;                                                        \
                    M##_sum_rows(length, rows->taps + first, count, half, out,                               \
                                 to + length + LANES <= to_end, false, to);                                  \
                }                                                                                            \
                oh += n;                                                                                     \
                if (oh == rows->out) oh = 0, half += high * out;                                             \
            }                                                                                                \
        }                                                                                                    \
    }

/* ---- planes ------------------------------------------------------------------------------------------- */

enum { PLANE = 4096 };     /* elements, at most */
enum { CACHE = 48 << 10 }; /* bytes that picks and their planes should fit */

#define PLANES(M)                                                                                            \
    /* Planes are picked from planes, or from their halves; from copies where vectors pass the end. */       \
    M##_TARGET INLINE void M##_pick_planes(const work *w, bool back, picking how, const st_real *share,      \
                                           st_real value, const st_real *from, st_real *places, st_real *to) \
    {                                                                                                        \
        const sparse *a = &w->plan->plane[back], *half = &w->plan->half[back];                               \
        const picks *k = &a->picks;                                                                          \
        const bool halved = half->out > 0;                                                                   \
        const ptrdiff_t last = w->planes * a->size - k->reach, step = k->rows * a->size;                     \
        const ptrdiff_t out = k->rows * (halved ? half->out : a->out);                                       \
        const ptrdiff_t direct = last < 0 ? 0 : last / step + 1, all = ceil_div(w->planes, k->rows);         \
        groups b = {                                                                                         \
            .pitch = step, .places = places, .to = to, .end = to + w->planes * (halved ? half->out : a->out) \
        };                                                                                                   \
        if (!halved) b.share = share, b.none = value;                                                        \
        b.far = is_far(w->planes * a->size, SECOND);                                                         \
        b.to_far = is_far(b.end - to, SECOND);                                                               \
        for (ptrdiff_t g = 0; g < all; g += b.count) {                                                       \
            b.count = g >= direct ? 1 : halved ? smallest(BESIDE, direct - g) : direct;                      \
            b.from = g < direct ? from + g * step : w->block;                                                \
            const size_t bytes = (size_t)smallest(step, w->planes * a->size - g * step) * sizeof *from;      \
            if (g >= direct) memcpy(w->block, from + g * step, bytes);                                       \
            if (how == BACK) b.places = g < direct ? places + g * step : w->share;                           \
            if (how == BACK && g >= direct) memcpy(w->share, places + g * step, bytes);                      \
            if (halved) {                                                                                    \
                groups first = b, then = b;                                                                  \
                first.to = w->half, first.end = w->half + b.count * k->out + ISA_LANES(M);                   \
                first.to_far = false;                                                                        \
                then.from = w->half, then.pitch = k->out, then.share = share, then.far = false;              \
                M##_pick_groups(k, SUMS, &first);                                                            \
                M##_pick_groups(&half->picks, SUMS, &then);                                                  \
            } else M##_pick_groups(k, how, &b);                                                              \
            b.to += b.count * out;                                                                           \
            if (how == MAXIMA && places) b.places += b.count * out;                                          \
        }                                                                                                    \
    }

/* ---- runs of columns ---------------------------------------------------------------------------------- */

/* The adjoint of a run. */
INLINE void add_run(const column_run *r, const st_real *restrict y, st_real *restrict x)
{
    st_real *restrict to = x + r->from, sum = 0;
    if (r->step == 1)
        for (ptrdiff_t j = 0; j < r->count; j++) to[j] += y[j];
    else if (r->step == -1)
        for (ptrdiff_t j = 0; j < r->count; j++) to[-j] += y[j];
    else {
        for (ptrdiff_t j = 0; j < r->count; j++) sum += y[j];
        *to += sum;
    }
}

INLINE void reverse(ptrdiff_t n, const st_real *restrict from, st_real *restrict to)
{
    for (ptrdiff_t i = 0; i < n; i++) to[i] = from[-i];
}

/* Tests if half of the rows are read after lower ones, or with others far from them, as of reflections: no
 * hardware fetches the next ones, and those of the next image are fetched meanwhile. */
static bool jumps(const sparse *rows)
{
    ptrdiff_t count = 0, before = 0;
    for (ptrdiff_t i = 0; i < rows->out; i++) {
        const tap *t = rows->taps + rows->begin[i], *end = rows->taps + rows->begin[i + 1];
        if (t == end) continue;
        if (t->from < before || end[-1].from - t->from >= end - t) count++;
        before = t->from;
    }
    return 2 * count >= rows->out;
}

/* Rows are fetched so many elements before they are read: those of a later image, if images are small or rows
 * jump, so that rows that are left out are not fetched. */
static ptrdiff_t apart_of(const sparse *rows, ptrdiff_t area)
{
    const bool later = area < AHEAD || (jumps(rows) && !is_far(2 * area, SECOND));
    return later ? ceil_div(AHEAD, largest(area, 1)) * area : AHEAD;
}

INLINE void fetch_between(const st_real *from, ptrdiff_t begin, ptrdiff_t end)
{
    for (ptrdiff_t k = begin; k < end; k += LINE) __builtin_prefetch(from + k);
}

/* At most n, as many as fit `room`; often n is 1, and divisions take long. */
INLINE ptrdiff_t fitting(ptrdiff_t n, ptrdiff_t room, ptrdiff_t each)
{
    return n * each <= room ? n : room / each;
}

/* The run of columns, forward or backward, if there is one alone, it is narrow, and the columns before and
 * after it are a vector at most; otherwise its count is 0. */
static column_run narrow_run(const rows_plan *p, ptrdiff_t lanes, bool back)
{
    const column_run r = p->run_count == 1 && !p->axis[1].ordered ? p->runs[0] : (column_run){ 0 };
    const ptrdiff_t before = back ? r.from : r.to, out = back ? p->axis[1].size : p->axis[1].out;
    if (r.step != 1 || r.count > NARROW * lanes || before > lanes || out - before - r.count > lanes)
        return (column_run){ 0 };
    return back ? (column_run){ r.from, r.to, r.count, 1 } : r;
}

/* Tests if a run in reverse is wider than a narrow one. */
static bool is_wide(const column_run *r, ptrdiff_t lanes)
{
    return r->step < 0 && r->count > NARROW * lanes;
}

/* Vectors are read and written beyond the ends of rows; the next row is written later. */
#define RUNS(M)                                                                                              \
    M##_TARGET INLINE void M##_copy(ptrdiff_t n, const st_real *from, st_real *to)                           \
    {                                                                                                        \
        for (ptrdiff_t i = 0; i < n; i += ISA_LANES(M)) AT(M, to + i) = AT(M, from + i);                     \
    }                                                                                                        \
                                                                                                             \
    /* A row of y from a row of x; NULL: there is none. */                                                   \
    M##_TARGET INLINE void M##_copy_runs(const rows_plan *p, const st_real *x, st_real *y)                   \
    {                                                                                                        \
        const M##_vector value = (M##_vector){ 0 } + p->value;                                               \
        const ptrdiff_t out = p->axis[1].out;                                                                \
        ptrdiff_t done = 0;                                                                                  \
        for (const column_run *r = p->runs; x && r < p->runs + p->run_count; r++) {                          \
            for (; done < r->to; done += ISA_LANES(M)) AT(M, y + done) = value;                              \
            const st_real *from = x + r->from;                                                               \
            st_real *to = y + r->to;                                                                         \
            const M##_vector one = (M##_vector){ 0 } + *from;                                                \
            if (r->step == 1) M##_copy(r->count, from, to);                                                  \
            else if (r->step == 0)                                                                           \
                for (ptrdiff_t i = 0; i < r->count; i += ISA_LANES(M)) AT(M, to + i) = one;                  \
            else reverse(r->count, from, to);                                                                \
            done = r->to + r->count;                                                                         \
        }                                                                                                    \
        for (; done < out; done += ISA_LANES(M)) AT(M, y + done) = value;                                    \
    }                                                                                                        \
                                                                                                             \
    /* The adjoint of a run. One in reverse is added by vectors if it is wide: loads wait for stores that */ \
    /* they overlap in part. The last vector comes first, and `rest` of its elements are added. */           \
    M##_TARGET INLINE void M##_add_run(const column_run *r, const st_real *y, st_real *x)                    \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const ptrdiff_t count = r->count, rest = count % LANES;                                              \
        M##_mask turned;                                                                                     \
        EACH(l, LANES) turned[l] = LANES - 1 - l;                                                            \
        if (!M##_SHUFFLES || !is_wide(r, LANES)) {                                                           \
            add_run(r, y, x);                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        for (ptrdiff_t i = rest > 0 ? -LANES : 0; i + LANES <= count; i += LANES) {                          \
            const ptrdiff_t j = i < 0 ? count - LANES : i;                                                   \
            st_real *to = x + r->from - j - (LANES - 1);                                                     \
            const M##_vector before = AT(M, to), v = AT(M, y + j);                                           \
            M##_vector sum = before + SHUFFLE_BY(M, v, v, turned);                                           \
            if (i < 0) sum = ISA_PICK(M, turned >= (isa_bits)(LANES - rest), sum, before);                   \
            AT(M, to) = sum;                                                                                 \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* A row of dx from a row of dy: the longest run of adjacent columns is copied, the others are added. */ \
    M##_TARGET INLINE void M##_add_runs(const rows_plan *p, const column_run *longest, const st_real *dy,    \
                                        st_real *dx)                                                         \
    {                                                                                                        \
        const M##_vector none = { 0 };                                                                       \
        const ptrdiff_t wide = p->axis[1].size, first = longest ? longest->from : wide,                      \
                        end = longest ? first + longest->count : wide;                                       \
        const st_real *from = longest ? dy + longest->to : dy;                                               \
        for (ptrdiff_t i = 0; i < first; i += ISA_LANES(M)) AT(M, dx + i) = none;                            \
        M##_copy(end - first, from, dx + first);                                                             \
        for (ptrdiff_t i = end; i < wide; i += ISA_LANES(M)) AT(M, dx + i) = none;                           \
        for (const column_run *r = p->runs; r < p->runs + p->run_count; r++)                                 \
            if (r != longest) M##_add_run(r, dy + r->to, dx);                                                \
    }                                                                                                        \
                                                                                                             \
    /* n rows of a narrow run of v vectors, and of the columns beside it. */                                 \
    M##_TARGET INLINE void M##_copy_narrow(int v, ptrdiff_t n, column_run r, st_real none, const st_real *x, \
                                           ptrdiff_t wide, st_real *y, ptrdiff_t out)                        \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const M##_vector value = (M##_vector){ 0 } + none;                                                   \
        const ptrdiff_t end = r.to + r.count;                                                                \
        for (x += r.from; n > 0; n--, x += wide, y += out) {                                                 \
            M##_vector u[NARROW];                                                                            \
            EACH(q, v) u[q] = AT(M, x + q * LANES);                                                          \
            if (r.to > 0) AT(M, y) = value;                                                                  \
            EACH(q, v) AT(M, y + r.to + q * LANES) = u[q];                                                   \
            if (end < out) AT(M, y + end) = value;                                                           \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_by_runs(const work *w, bool back, const st_real *x, st_real *y)               \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const rows_plan *p = w->plan;                                                                        \
        const sparse rows = back ? p->back[0] : p->axis[0], columns = back ? p->back[1] : p->axis[1];        \
        const ptrdiff_t wide = columns.size, out = columns.out, area = rows.size * wide,                     \
                        total = w->planes * rows.out;                                                        \
        const st_real *end = x + w->planes * area, *y_end = y + total * out;                                 \
        st_real *sums = back ? w->out_rows : w->rows, *aside = back ? w->rows : w->out_rows;                 \
        const bool far = is_far(w->planes * area, SECOND), to_far = is_far(y_end - y, SECOND);               \
        const ptrdiff_t apart = apart_of(&rows, area);                                                       \
        const bool every = back && jumps(&rows);                                                             \
        const column_run *longest = NULL;                                                                    \
        for (const column_run *r = p->runs; r < p->runs + p->run_count; r++)                                 \
            if (r->step == 1 && (!longest || r->count > longest->count)) longest = r;                        \
        const column_run narrow = narrow_run(p, LANES, back);                                                \
        const ptrdiff_t v = ceil_div(narrow.count, LANES);                                                   \
        const st_real value = back ? 0 : p->value;                                                           \
        for (ptrdiff_t r = 0, i = 0, n; r < total; r += n, y += n * out) {                                   \
            const tap *t = rows.taps + rows.begin[i];                                                        \
            const ptrdiff_t count = rows.begin[i + 1] - rows.begin[i];                                       \
            const bool goes_on = x + area + LANES <= end, last = y + out + LANES > y_end;                    \
            const bool one = count == 1 && t->weight == 1;                                                   \
            const st_real *row = count > 0 ? x + t->from * wide : x;                                         \
            st_real *to = last ? aside : y;                                                                  \
            n = v > 0 && (count == 0 || one) ? fitting(rows.alike[i], y_end - y - LANES, out) : 0;           \
            if (n > 0 && one) n = fitting(n, end - row - narrow.from - v * LANES, wide);                     \
            if (n > 0 && count == 0) {                                                                       \
                for (ptrdiff_t k = 0; k < n * out; k += LANES) AT(M, y + k) = (M##_vector){ 0 } + value;     \
            } else if (n > 0 && v == 1) {                                                                    \
                M##_copy_narrow(1, n, narrow, value, row, wide, y, out);                                     \
            } else if (n > 0 && v == 2) {                                                                    \
                M##_copy_narrow(2, n, narrow, value, row, wide, y, out);                                     \
            } else if (n > 0) {                                                                              \
                M##_copy_narrow(NARROW, n, narrow, value, row, wide, y, out);                                \
            } else if (columns.ordered && count == 2 && goes_on &&                                           \
                       (n = M##_sum_narrow(&rows, i, y_end - y - LANES, wide, x, y)) > 0) {                  \
            } else if (columns.ordered && (back || count > 0)) {                                             \
                n = rows.alike[i];                                                                           \
                const ptrdiff_t all = out * n;                                                               \
                if (one && goes_on && y + all + LANES <= y_end) M##_copy(all, row, y);                       \
                else if (one) memcpy(y, row, (size_t)all * sizeof *y);                                       \
                else M##_sum_rows(all, t, count, x, wide, goes_on && !last && n == 1, true, y);              \
            } else {                                                                                         \
                n = 1;                                                                                       \
                if (!one || row + wide + LANES > end) {                                                      \
                    M##_sum_rows(wide, t, count, x, wide, goes_on, true, sums);                              \
                    row = sums;                                                                              \
                }                                                                                            \
                if (back) M##_add_runs(p, longest, row, to);                                                 \
                else M##_copy_runs(p, count > 0 ? row : NULL, to);                                           \
                if (last) memcpy(y, to, (size_t)out * sizeof *y);                                            \
            }                                                                                                \
            for (ptrdiff_t k = 0; far && k < (every ? count : smallest(count, 1)); k++)                      \
                fetch_between(x + t[k].from * wide, largest(n * wide, apart), n * wide + apart);             \
            for (ptrdiff_t k = largest(n * out, AHEAD); to_far && k < n * out + AHEAD; k += LINE)            \
                __builtin_prefetch(y + k, 1);                                                                \
            i += n;                                                                                          \
            if (i == rows.out) i = 0, x += area;                                                             \
        }                                                                                                    \
    }

/* ---- p-norms ------------------------------------------------------------------------------------------ */

/* |x|^e, or 0 for 0. */
INLINE st_real power_of(st_real x, double e)
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
        for (ptrdiff_t i = 0; i < n; i++) to[i] = power_of(x[i], e);
}

/* y^(1/p). */
INLINE void roots(ptrdiff_t n, st_real *y, double p)
{
    if (p == 2)
        for (ptrdiff_t i = 0; i < n; i++) y[i] = sqrt(y[i]);
    else if (p != 1)
        for (ptrdiff_t i = 0; i < n; i++) y[i] = power_of(y[i], 1 / p);
}

/* q *= y^(1-p), or 0 if y is. */
INLINE void norms_before(ptrdiff_t n, const st_real *y, double p, st_real *q)
{
    if (p == 1)
        for (ptrdiff_t i = 0; i < n; i++) q[i] = y[i] == 0 ? 0 : q[i];
    else if (p == 2)
        for (ptrdiff_t i = 0; i < n; i++) q[i] = y[i] == 0 ? 0 : q[i] / y[i];
    else
        for (ptrdiff_t i = 0; i < n; i++) q[i] *= power_of(y[i], 1 - p);
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
        for (ptrdiff_t i = 0; i < n; i++) dx[i] *= copysign(power_of(x[i], p - 1), x[i]);
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

/* maxima_of_columns: of each of n columns over a window's rows, with their rows; vectors write a whole one
 * beyond, and may read up to there if x goes on. maxima_of_rows: the first one of equal maxima is the one in
 * the upper row, or left of the other. */
#define COLUMN_MAXIMA(M)                                                                                     \
    /* The maxima of `beside` vectors from column i on; the last ones may overlap, rows are `step` apart. */ \
    M##_TARGET INLINE void M##_maxima_beside(int beside, ptrdiff_t n, const tap *t, ptrdiff_t count,         \
                                             const st_real *top, ptrdiff_t step, ptrdiff_t i, st_real *best, \
                                             st_real *place)                                                 \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        M##_vector most[BESIDE], at[BESIDE];                                                                 \
        ptrdiff_t from[BESIDE];                                                                              \
        EACH(v, beside) from[v] = smallest(i + v * LANES, largest(n - LANES, 0));                            \
        EACH(v, beside) most[v] = AT(M, top + from[v]), at[v] = (M##_vector){ 0 } + (st_real)t->from;        \
        EACH(v, beside) __builtin_prefetch(top + from[v] + AHEAD);                                           \
        for (ptrdiff_t k = 1; k < count; k++) {                                                              \
            const st_real *next = top + k * step;                                                            \
            const M##_vector row = (M##_vector){ 0 } + (st_real)t[k].from;                                   \
            EACH(v, beside) __builtin_prefetch(next + from[v] + AHEAD);                                      \
            EACH(v, beside)                                                                                  \
            {                                                                                                \
                const M##_vector u = AT(M, next + from[v]);                                                  \
                const M##_mask exceeds = ~(u <= most[v]) & (most[v] == most[v]);                             \
                most[v] = ISA_PICK(M, exceeds, u, most[v]);                                                  \
                if (place) at[v] = ISA_PICK(M, exceeds, row, at[v]);                                         \
            }                                                                                                \
        }                                                                                                    \
        EACH(v, beside) AT(M, best + from[v]) = most[v];                                                     \
        if (place) EACH(v, beside) AT(M, place + from[v]) = at[v];                                           \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_maxima_of_columns(const rows_plan *p, ptrdiff_t oh, const st_real *x,         \
                                                 bool goes_on, st_real *best, st_real *place)                \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const sparse *rows = &p->axis[0];                                                                    \
        const ptrdiff_t n = p->axis[1].size, first = rows->begin[oh], last = rows->begin[oh + 1];            \
        const tap *t = rows->taps + first;                                                                   \
        const ptrdiff_t count = last - first, step = count > 1 ? t[1].from - t[0].from : 0;                  \
        const bool inside = count > 0 && t->from >= 0 && t[count - 1].from < rows->size;                     \
        const st_real *top = inside ? x + t->from * n : x;                                                   \
        ptrdiff_t i = 0;                                                                                     \
        for (bool some; inside && i < n && (goes_on || n >= LANES); i += some ? BESIDE * LANES : LANES) {    \
            some = n - i > LANES;                                                                            \
            if (some && n - i > 2 * LANES)                                                                   \
                M##_maxima_beside(BESIDE, n, t, count, top, step *n, i, best, place);                        \
            else if (some) M##_maxima_beside(2, n, t, count, top, step *n, i, best, place);                  \
            else M##_maxima_beside(1, n, t, count, top, step *n, i, best, place);                            \
        }                                                                                                    \
        for (; i < n; i += LANES) {                                                                          \
            M##_vector most = (M##_vector){ 0 } - (st_real)INFINITY, at = (M##_vector){ 0 } + NOWHERE;       \
            for (ptrdiff_t k = first; k < last; k++) {                                                       \
                const ptrdiff_t row = rows->taps[k].from;                                                    \
                M##_vector v = { 0 };                                                                        \
                if (row >= 0 && row < rows->size && (goes_on || i + LANES <= n)) v = AT(M, x + row * n + i); \
                else if (row >= 0 && row < rows->size) {                                                     \
                    st_real rest[LANES] = { 0 };                                                             \
                    for (ptrdiff_t j = i; j < n; j++) rest[j - i] = x[row * n + j];                          \
                    v = AT(M, rest);                                                                         \
                }                                                                                            \
                M##_mask exceeds = ~(v <= most) & (most == most);                                            \
                if (k == first) exceeds = ~(M##_mask){ 0 };                                                  \
                most = ISA_PICK(M, exceeds, v, most);                                                        \
                if (place) at = ISA_PICK(M, exceeds, (M##_vector){ 0 } + (st_real)row, at);                  \
            }                                                                                                \
            AT(M, best + i) = most;                                                                          \
            if (place) AT(M, place + i) = at;                                                                \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_maxima_of_rows(const work *w, ptrdiff_t r, bool placed)                       \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const sparse *rows = &w->plan->axis[0], *columns = &w->plan->axis[1];                                \
        const M##_vector zero = { 0 };                                                                       \
        const bool single = w->plan->single;                                                                 \
        st_real tops[LANES];                                                                                 \
        for (int l = 0; l < LANES && placed; l++) {                                                          \
            const ptrdiff_t oh = (r + l) % rows->out, first = rows->begin[oh];                               \
            tops[l] = first < rows->begin[oh + 1] ? (st_real)rows->taps[first].from : NOWHERE;               \
        }                                                                                                    \
        for (ptrdiff_t i = 0; i < columns->out; i++) {                                                       \
            M##_vector most = zero - (st_real)INFINITY, row = zero + NOWHERE, column = zero;                 \
            for (ptrdiff_t k = columns->begin[i]; k < columns->begin[i + 1]; k++) {                          \
                const ptrdiff_t from = columns->taps[k].from;                                                \
                const bool inside = from >= 0 && from < columns->size;                                       \
                M##_vector v = zero, at = zero;                                                              \
                if (inside) v = AT(M, w->columns + from * LANES);                                            \
                M##_mask exceeds = ~(v <= most) & (most == most);                                            \
                if (placed) {                                                                                \
                    at = AT(M, tops);                                                                        \
                    if (inside && !single) at = AT(M, w->place_columns + from * LANES);                      \
                    exceeds |= ((v == most) | ((v != v) & (most != most))) & (at < row);                     \
                }                                                                                            \
                if (k == columns->begin[i]) exceeds = ~(M##_mask){ 0 };                                      \
                most = ISA_PICK(M, exceeds, v, most);                                                        \
                if (!placed) continue;                                                                       \
                row = ISA_PICK(M, exceeds, at, row);                                                         \
                column = ISA_PICK(M, exceeds, zero + (st_real)from, column);                                 \
            }                                                                                                \
            AT(M, w->out_columns + i * LANES) = most;                                                        \
            if (!placed) continue;                                                                           \
            const M##_mask is = (row >= 0) & (row < (st_real)rows->size) & (column >= 0) &                   \
                                (column < (st_real)columns->size);                                           \
            AT(M, w->columns + (columns->pitch + i) * LANES) =                                               \
                ISA_PICK(M, is, row * (st_real)columns->size + column, zero - 1);                            \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* n maxima by picks from those of columns, whose rows are `rows`. `loose`: as of sum_rows. */           \
    M##_TARGET INLINE void M##_pick_maxima(const work *w, const st_real *row, const st_real *rows,           \
                                           bool loose, ptrdiff_t n, st_real *y, st_real *places)             \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const sparse *size = w->plan->axis;                                                                  \
        const picks k = size[1].picks;                                                                       \
        const M##_vector zero = { 0 };                                                                       \
        const st_real high = (st_real)size[0].size, wide = (st_real)size[1].size;                            \
        ptrdiff_t at = 0;                                                                                    \
        for (ptrdiff_t begin = 0; begin < n; begin += LANES) {                                               \
            const ptrdiff_t i = k.out < LANES ? 0 : lanes_within(begin, LANES, k.out);                       \
            const ptrdiff_t taps = k.pick[at].taps;                                                          \
            M##_vector most, from = zero;                                                                    \
            M##_pick(&k.pick[at], (M##_mask)AT(M, k.index + at * LANES), row, 0, 1, &most);                  \
            M##_vector column = AT(M, k.weight + at * LANES);                                                \
            if (k.pick[at].lacks) most = ISA_PICK(M, column > NOWHERE, most, zero - (st_real)INFINITY);      \
            if (places) M##_pick(&k.pick[at], (M##_mask)AT(M, k.index + at * LANES), rows, 0, 1, &from);     \
            at++;                                                                                            \
            for (ptrdiff_t j = 1; j < taps; j++, at++) {                                                     \
                const isa_bits *index = k.index + at * LANES;                                                \
                const M##_vector here = AT(M, k.weight + at * LANES);                                        \
                M##_vector v, in = zero;                                                                     \
                M##_pick(&k.pick[at], (M##_mask)AT(M, index), row, 0, 1, &v);                                \
                if (places) M##_pick(&k.pick[at], (M##_mask)AT(M, index), rows, 0, 1, &in);                  \
                M##_mask exceeds = ~(v <= most) & (most == most);                                            \
                if (places) exceeds |= ((v == most) | ((v != v) & (most != most))) & (in < from);            \
                if (k.pick[at].lacks) exceeds &= here > NOWHERE;                                             \
                most = ISA_PICK(M, exceeds, v, most);                                                        \
                if (places) from = ISA_PICK(M, exceeds, in, from);                                           \
                if (places) column = ISA_PICK(M, exceeds, here, column);                                     \
            }                                                                                                \
            const M##_mask is = (from >= 0) & (from < high) & (column >= 0) & (column < wide);               \
            const M##_vector place = ISA_PICK(M, is, from * wide + column, zero - 1);                        \
            const size_t bytes = (size_t)largest(n - i, 0) * sizeof *y;                                      \
            const bool whole = loose || i + LANES <= n;                                                      \
            if (whole) AT(M, y + i) = most;                                                                  \
            else memcpy(y + i, &most, bytes);                                                                \
            if (places && whole) AT(M, places + i) = place;                                                  \
            else if (places) memcpy(places + i, &place, bytes);                                              \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* Maxima of columns, and then picks. Elements outside are 0. */                                         \
    M##_TARGET INLINE void M##_picked_maxima(const work *w, const st_real *x, st_real *y, st_real *places)   \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const rows_plan *p = w->plan;                                                                        \
        const sparse rows = p->axis[0], columns = p->axis[1];                                                \
        const picks k = columns.picks;                                                                       \
        const ptrdiff_t wide = columns.size, out = columns.out, area = rows.size * wide,                     \
                        total = w->planes * rows.out, left = largest(-k.low, 0),                             \
                        right = largest(k.high, wide);                                                       \
        const st_real *end = x + w->planes * area, *y_end = y + total * out;                                 \
        for (ptrdiff_t r = 0, oh = 0, n; r < total; r += n, y += n * out) {                                  \
            n = smallest(k.rows, total - r);                                                                 \
            for (ptrdiff_t l = 0; l < n; l++) {                                                              \
                const ptrdiff_t first = rows.begin[oh];                                                      \
                const st_real top = first < rows.begin[oh + 1] ? (st_real)rows.taps[first].from : NOWHERE;   \
                st_real *best = w->rows + left + l * k.step, *at = w->places + left + l * k.step;            \
                M##_maxima_of_columns(p, oh, x, x + area + LANES <= end, best, places ? at : NULL);          \
                for (ptrdiff_t j = -left; j < 0; j++) best[j] = 0, at[j] = top;                              \
                for (ptrdiff_t j = wide; j < right; j++) best[j] = 0, at[j] = top;                           \
                if (++oh == rows.out) oh = 0, x += area;                                                     \
            }                                                                                                \
            M##_pick_maxima(w, w->rows + left, w->places + left, y + n * out + LANES <= y_end, n * out, y,   \
                            places);                                                                         \
            if (places) places += n * out;                                                                   \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET INLINE void M##_maxima(const work *w, const st_real *x, st_real *y, st_real *places)          \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        if (w->plan->axis[1].picks.used) {                                                                   \
            M##_picked_maxima(w, x, y, places);                                                              \
            return;                                                                                          \
        }                                                                                                    \
        const rows_plan *p = w->plan;                                                                        \
        const sparse rows = p->axis[0], columns = p->axis[1];                                                \
        const ptrdiff_t total = w->planes * rows.out, area = rows.size * columns.size;                       \
        const bool placed = places && !p->single;                                                            \
        for (ptrdiff_t r = 0, n; r < total; r += n) {                                                        \
            n = smallest(total - r, LANES);                                                                  \
            if (rows.ordered)                                                                                \
                enter(w->kernel, n, columns.size, columns.pitch, x + r * columns.size, w->rows, w->columns); \
            for (ptrdiff_t l = 0; l < n && !rows.ordered; l++) {                                             \
                const ptrdiff_t plane = (r + l) / rows.out;                                                  \
                M##_maxima_of_columns(p, (r + l) % rows.out, x + plane * area,                               \
                                      plane < w->planes - 1 && area >= LANES, w->rows + l * columns.pitch,   \
                                      placed ? w->places + l * columns.pitch : NULL);                        \
            }                                                                                                \
            if (!rows.ordered) turn_rows(w->kernel, columns.pitch, w->rows, w->columns);                     \
            if (placed) turn_rows(w->kernel, columns.pitch, w->places, w->place_columns);                    \
            M##_maxima_of_rows(w, r, places != NULL);                                                        \
            leave(w->kernel, n, columns.out, columns.out_pitch, w->out_columns, w->out_rows,                 \
                  y + r * columns.out);                                                                      \
            if (places)                                                                                      \
                leave(w->kernel, n, columns.out, columns.out_pitch, w->columns + columns.pitch * LANES,      \
                      w->out_rows, places + r * columns.out);                                                \
        }                                                                                                    \
    }

/* ---- maxima of planes that are lanes ------------------------------------------------------------------ */

/* Windows of both axes, and the elements that they read. */
typedef struct tile {
    ptrdiff_t from[2], to[2], low[2], high[2];
} tile;

static ptrdiff_t room_of_tile(ptrdiff_t elements)
{
    return smallest(elements, TILE) * ABREAST * LANES_MOST;
}

static bool is_outside(const sparse *a, tap t)
{
    return t.from < 0 || t.from >= a->size;
}

/* Appends window to[axis] to a tile if its elements, or its windows, do not become too many. */
static bool append(const rows_plan *p, int axis, tile *t)
{
    const sparse *a = &p->axis[axis];
    tile next = *t;
    for (ptrdiff_t k = a->begin[t->to[axis]]; k < a->begin[t->to[axis] + 1]; k++) {
        if (is_outside(a, a->taps[k])) continue;
        const ptrdiff_t at = a->taps[k].from;
        const bool first = next.high[axis] == next.low[axis];
        next.low[axis] = first ? at : smallest(next.low[axis], at);
        next.high[axis] = first ? at + 1 : largest(next.high[axis], at + 1);
    }
    next.to[axis]++;
    const ptrdiff_t size = (next.high[0] - next.low[0]) * (next.high[1] - next.low[1]);
    const ptrdiff_t out = (next.to[0] - next.from[0]) * (next.to[1] - next.from[1]);
    if (size > TILE || out > TILE) return false;
    *t = next;
    return true;
}

/* As many windows as there may be from (oh, ow) on: whole rows, or else a part of one; none at the end. */
static tile tile_at(const rows_plan *p, ptrdiff_t oh, ptrdiff_t ow)
{
    const ptrdiff_t high = p->axis[0].out, wide = p->axis[1].out;
    tile t = { { oh, 0 }, { oh, wide }, { 0, 0 }, { 0, p->axis[1].size } };
    while (ow == 0 && t.to[0] < high && append(p, 0, &t)) continue;
    if (t.to[0] > oh || oh == high) return t;
    t = (tile){ { oh, ow }, { oh, ow }, { 0, 0 }, { 0, 0 } };
    append(p, 0, &t);
    while (t.to[1] < wide && append(p, 1, &t)) continue;
    return t;
}

static tile first_tile(const rows_plan *p)
{
    return tile_at(p, 0, 0);
}

static tile next_tile(const rows_plan *p, const tile *t)
{
    const bool ends = t->to[1] == p->axis[1].out; /* of a row */
    return tile_at(p, ends ? t->to[0] : t->from[0], ends ? 0 : t->to[1]);
}

/* Elements of n planes that a tile reads: `lines` runs of each plane. */
typedef struct patch {
    const st_real *from;
    ptrdiff_t n, area, lines, wide, length;
} patch;

static patch patch_of(const rows_plan *p, const tile *t, ptrdiff_t n, const st_real *x)
{
    const ptrdiff_t wide = p->axis[1].size, high = t->high[0] - t->low[0], part = t->high[1] - t->low[1];
    const bool joined = part == wide;
    return (patch){ x + t->low[0] * wide + t->low[1], n, p->axis[0].size * wide, joined ? 1 : high, wide,
                    joined ? high * wide : part };
}

/* A patch is fetched by and by: line by line, run by run. */
typedef struct fetching {
    patch of;
    const st_real *at, *end;    /* of the run */
    ptrdiff_t line, runs, each; /* those that are left; lines at once */
} fetching;

static fetching fetching_of(patch p, ptrdiff_t steps)
{
    if (p.length == p.area) p.length *= p.n, p.n = 1;
    const ptrdiff_t runs = p.n * p.lines, each = runs * (ceil_div(p.length, LINE) + 1);
    return (fetching){ p, p.from, p.from + p.length, 0, runs, each / largest(steps, 1) + 1 };
}

INLINE void fetch_some(fetching *f)
{
    for (ptrdiff_t k = 0; k < f->each && f->runs > 0; k++, f->at += LINE) {
        __builtin_prefetch(f->at, 0, 2);
        if (f->at < f->end) continue;
        if (++f->line == f->of.lines) f->line = 0, f->of.from += f->of.area;
        f->at = f->of.from + f->line * f->of.wide - LINE, f->end = f->at + LINE + f->of.length;
        f->runs--;
    }
}

#define PLANE_MAXIMA(M)                                                                                      \
    /* The maxima of a tile's windows, of `abreast` vectors of planes. Unless `exact`, there must be \
     * no NaN: the sum tells. */       \
    M##_TARGET INLINE M##_vector M##_maxima_of_tile(const work *w, const tile *t, int abreast, bool exact,   \
                                                    bool placed, fetching next)                              \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M), EACH_ELEMENT = ABREAST * LANES };                                       \
        const sparse rows = w->plan->axis[0], columns = w->plan->axis[1];                                    \
        const ptrdiff_t wide = t->high[1] - t->low[1];                                                       \
        const M##_vector zero = { 0 };                                                                       \
        const st_real none[EACH_ELEMENT] = { 0 };                                                            \
        st_real *to = w->tile_out, *places = w->tile_places;                                                 \
        M##_vector sum[ABREAST] = { { 0 } };                                                                 \
        for (ptrdiff_t oh = t->from[0]; oh < t->to[0]; oh++)                                                 \
            for (ptrdiff_t ow = t->from[1]; ow < t->to[1]; ow++) {                                           \
                const ptrdiff_t top = rows.begin[oh], bottom = rows.begin[oh + 1], left = columns.begin[ow], \
                                right = columns.begin[ow + 1];                                               \
                M##_vector most[ABREAST], place[ABREAST]; /* a NaN is less than the first element */         \
                M##_mask first = ~(M##_mask){ 0 };                                                           \
                EACH(q, abreast) most[q] = zero - (st_real)INFINITY, place[q] = zero - 1;                    \
                if (top < bottom && left < right) EACH(q, abreast) most[q] = zero + (st_real)NAN;            \
                for (ptrdiff_t i = top; i < bottom; i++) {                                                   \
                    const ptrdiff_t row = rows.taps[i].from;                                                 \
                    const bool in_rows = row >= 0 && row < rows.size;                                        \
                    const st_real *line = w->tile + ((row - t->low[0]) * wide - t->low[1]) * EACH_ELEMENT;   \
                    fetch_some(&next);                                                                       \
                    for (ptrdiff_t j = left; j < right; j++) {                                               \
                        const ptrdiff_t column = columns.taps[j].from;                                       \
                        const bool inside = in_rows && column >= 0 && column < columns.size;                 \
                        const st_real *at = inside ? line + column * EACH_ELEMENT : none;                    \
                        const st_real number = (st_real)(inside ? row * columns.size + column : -1);         \
                        EACH(q, abreast)                                                                     \
                        {                                                                                    \
                            const M##_vector v = AT(M, at + q * LANES);                                      \
                            M##_mask exceeds = ~(v <= most[q]);                                              \
                            if (exact) exceeds = first | (exceeds & (most[q] == most[q]));                   \
                            else sum[q] += v;                                                                \
                            most[q] = ISA_PICK(M, exceeds, v, most[q]);                                      \
                            if (placed) place[q] = ISA_PICK(M, exceeds, zero + number, place[q]);            \
                        }                                                                                    \
                        first = (M##_mask){ 0 };                                                             \
                    }                                                                                        \
                }                                                                                            \
                EACH(q, abreast) AT(M, to + q * LANES) = most[q];                                            \
                if (placed) EACH(q, abreast) AT(M, places + q * LANES) = place[q];                           \
                to += EACH_ELEMENT, places += EACH_ELEMENT;                                                  \
            }                                                                                                \
        EACH(q, abreast) sum[0] += q > 0 ? sum[q] : zero;                                                    \
        return sum[0];                                                                                       \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_maxima_abreast(const work *w, const st_real *x, st_real *y, st_real *places)  \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M), EACH_ELEMENT = ABREAST * LANES };                                       \
        const sparse *rows = &w->plan->axis[0], *columns = &w->plan->axis[1];                                \
        const ptrdiff_t area = rows->size * columns->size, count = rows->out * columns->out;                 \
        const bool far = is_far(w->planes * area, SECOND);                                                   \
        const tile begin = first_tile(w->plan);                                                              \
        for (ptrdiff_t plane = 0, n; plane < w->planes; plane += n) {                                        \
            n = smallest(EACH_ELEMENT, w->planes - plane);                                                   \
            if (plane == 0 && n < EACH_ELEMENT) /* lanes that are missing are not used */                    \
                memset(w->tile, 0, (size_t)room_of_tile(area) * sizeof *w->tile);                            \
            for (tile t = begin, after; t.from[0] < rows->out; t = after) {                                  \
                const patch p = patch_of(w->plan, &t, n, x);                                                 \
                for (ptrdiff_t i = 0; i < p.lines; i++)                                                      \
                    kernel_transpose(w->kernel, n, p.length, p.from + i * p.wide, area,                      \
                                     w->tile + i * p.length * EACH_ELEMENT, EACH_ELEMENT, NULL);             \
                const ptrdiff_t left = w->planes - plane - n;                                                \
                const ptrdiff_t steps =                                                                      \
                    (rows->begin[t.to[0]] - rows->begin[t.from[0]]) * (t.to[1] - t.from[1]);                 \
                fetching f = { .runs = 0 };                                                                  \
                after = next_tile(w->plan, &t);                                                              \
                if (far && after.from[0] < rows->out)                                                        \
                    f = fetching_of(patch_of(w->plan, &after, n, x), steps);                                 \
                else if (far && left > 0)                                                                    \
                    f = fetching_of(patch_of(w->plan, &begin, smallest(n, left), x + n * area), steps);      \
                M##_vector sum;                                                                              \
                if (n > LANES && places) sum = M##_maxima_of_tile(w, &t, ABREAST, false, true, f);           \
                else if (n > LANES) sum = M##_maxima_of_tile(w, &t, ABREAST, false, false, f);               \
                else sum = M##_maxima_of_tile(w, &t, 1, false, places != NULL, f);                           \
                const M##_mask lost = sum != sum;                                                            \
                bool any = false;                                                                            \
                EACH(k, LANES) any |= lost[k] != 0;                                                          \
                if (any) M##_maxima_of_tile(w, &t, ABREAST, true, true, f);                                  \
                const ptrdiff_t first = t.from[0] * columns->out + t.from[1];                                \
                const ptrdiff_t made = (t.to[0] - t.from[0]) * (t.to[1] - t.from[1]);                        \
                kernel_transpose(w->kernel, made, n, w->tile_out, EACH_ELEMENT, y + first, count, NULL);     \
                if (places)                                                                                  \
                    kernel_transpose(w->kernel, made, n, w->tile_places, EACH_ELEMENT, places + first,       \
                                     count, NULL);                                                           \
            }                                                                                                \
            x += n * area, y += n * count;                                                                   \
            if (places) places += n * count;                                                                 \
        }                                                                                                    \
    }

static void maxima_back(const work *w, const st_real *dy, const st_real *places, st_real *dx)
{
    const sparse *rows = &w->plan->axis[0], *columns = &w->plan->axis[1];
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
    const sparse *each = w->plan->each;
    memcpy(to, from, (size_t)(w->planes * each[0].size * each[1].size) * sizeof *to);
}

typedef void image_pass(const work *w, const st_real *from, st_real *to);
typedef void maxima_pass(const work *w, bool back, const st_real *from, st_real *places, st_real *to);
typedef enum norms_step { POWERS, ROOTS, BEFORE, AFTER } norms_step;
typedef void norm_pass(norms_step step, ptrdiff_t n, const st_real *x, double p, st_real *to);

#define STAMP(M)                                                                                             \
    ROWS(M)                                                                                                  \
    COLUMN_SUMS(M)                                                                                           \
    PICKS(M)                                                                                                 \
    PLANES(M)                                                                                                \
    RUNS(M)                                                                                                  \
    COLUMN_MAXIMA(M)                                                                                         \
    PLANE_MAXIMA(M) M##_TARGET static void M##_forward(const work *w, const st_real *x, st_real *y)          \
    {                                                                                                        \
        const rows_plan *p = w->plan;                                                                        \
        const sparse *rows = p->axis, *columns = rows + 1;                                                   \
        if (p->same) copy_all(w, x, y);                                                                      \
        else if (p->by_planes[0])                                                                            \
            M##_pick_planes(w, false, SUMS, p->means ? p->shares : NULL, p->value, x, NULL, y);              \
        else if (p->by_runs[0]) M##_by_runs(w, false, x, y);                                                 \
        else if (columns->picks.used && p->tall) M##_picks_and_rows(w, rows, columns, x, y);                 \
        else if (columns->picks.used) M##_rows_and_picks(w, rows, columns, p->value, x, y);                  \
        else M##_sums_of_rows(w, x, y);                                                                      \
    }                                                                                                        \
    M##_TARGET static void M##_backward(const work *w, const st_real *dy, st_real *dx)                       \
    {                                                                                                        \
        const rows_plan *p = w->plan;                                                                        \
        const sparse *rows = p->back, *columns = rows + 1;                                                   \
        if (p->same) copy_all(w, dy, dx);                                                                    \
        else if (p->by_planes[1]) M##_pick_planes(w, true, SUMS, NULL, 0, dy, NULL, dx);                     \
        else if (p->by_runs[1]) M##_by_runs(w, true, dy, dx);                                                \
        else if (columns->picks.used && (p->tall || (rows->ordered && !p->means)))                           \
            M##_rows_and_picks(w, rows, columns, 0, dy, dx);                                                 \
        else if (columns->picks.used) M##_picks_and_rows(w, rows, columns, dy, dx);                          \
        else M##_sums_back(w, dy, dx);                                                                       \
    }                                                                                                        \
    M##_TARGET static void M##_maxima_any(const work *w, bool back, const st_real *from, st_real *places,    \
                                          st_real *to)                                                       \
    {                                                                                                        \
        if (w->plan->by_planes[back] && back) M##_pick_planes(w, true, BACK, NULL, 0, from, places, to);     \
        else if (w->plan->by_planes[back])                                                                   \
            M##_pick_planes(w, false, MAXIMA, NULL, -(st_real)INFINITY, from, places, to);                   \
        else if (back) maxima_back(w, from, places, to);                                                     \
        else if (w->plan->abreast) M##_maxima_abreast(w, from, to, places);                                  \
        else if (places) M##_maxima(w, from, to, places);                                                    \
        else M##_maxima(w, from, to, NULL);                                                                  \
    }                                                                                                        \
    M##_TARGET static void M##_norms(norms_step step, ptrdiff_t n, const st_real *x, double p, st_real *to)  \
    {                                                                                                        \
        if (step == POWERS) powers(n, x, p, to);                                                             \
        else if (step == ROOTS) roots(n, to, p);                                                             \
        else if (step == BEFORE) norms_before(n, x, p, to);                                                  \
        else norms_after(n, x, p, to);                                                                       \
    }
#define FUNCTIONS(M) { M##_forward, M##_backward, M##_maxima_any, M##_norms },

EACH_ISA(STAMP)
static const struct {
    image_pass *forward, *backward;
    maxima_pass *maxima;
    norm_pass *norms;
} passes_of[] = { EACH_ISA(FUNCTIONS) };

#define SHUFFLES(M) M##_SHUFFLES,
static const bool isa_shuffles[] = { EACH_ISA(SHUFFLES) };

/* Channels of which columns alone are resized; a block. */
static ptrdiff_t room_of_half(const sparse each[])
{
    const ptrdiff_t high = largest(each[0].size, each[0].out);
    return largest(high * largest(each[1].pitch, each[1].out_pitch), largest(BLOCK, BESIDE * PLANE)) +
           4 * LANES_MOST;
}

static ptrdiff_t room_of_block(const sparse each[])
{
    const ptrdiff_t row = LANES_MOST * (each[1].pitch + each[1].out_pitch);
    return largest(row, largest(BLOCK, PLANE)) + 4 * LANES_MOST;
}

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
    w.block = w.half + room_of_half(p->each);
    w.share = w.block + room_of_block(p->each);
    w.tile = w.share + room_of_block(p->each);
    w.tile_out = w.tile + room_of_tile(p->each[0].size * p->each[1].size);
    w.tile_places = w.tile_out + room_of_tile(p->each[0].out * p->each[1].out);
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

/* Channels from one place to another, and unless NULL the places of their maxima. */
typedef struct division {
    const st_call *call;
    const st_real *from;
    st_real *to, *places;
    ptrdiff_t planes, size; /* all, and those of a piece */
    bool maxima, back;
} division;

static void run_piece(ptrdiff_t i, int thread, void *context)
{
    const division *d = context;
    st_call c = *d->call;
    c.thread = thread;
    const ptrdiff_t first = i * d->size;
    const work w = work_of(&c, smallest(d->size, d->planes - first));
    const sparse *each = w.plan->each;
    const ptrdiff_t area = each[0].size * each[1].size, count = each[0].out * each[1].out;
    const st_real *from = d->from + first * (d->back ? count : area);
    st_real *to = d->to + first * (d->back ? area : count),
            *places = d->places ? d->places + first * count : NULL;
    const int isa = c.layer->impl->isa;
    if (d->maxima) passes_of[isa].maxima(&w, d->back, from, places, to);
    else (d->back ? passes_of[isa].backward : passes_of[isa].forward)(&w, from, to);
}

/* The bits of a channel do not depend on those beside it. */
static void divide(division d)
{
    d.size = ceil_div(d.planes, layer_call_threads(d.call));
    if (d.planes > 0) layer_each(d.call, MOST_THREADS, ceil_div(d.planes, d.size), run_piece, &d);
}

/* Channels that are computed together: all, or those of one image if it is copied. */
static void forward(const st_call *c, st_tensor x, st_tensor y, bool maxima)
{
    const ptrdiff_t images = x.shape.n[0], some = st_is_contiguous(x) ? images : 1;
    const bool placed = maxima && !c->layer->impl->run->inference_only;
    for (ptrdiff_t i = 0; i < images; i += some)
        divide((division){ .call = c,
                           .from = image_of(c, x, i),
                           .to = st_data(st_select(y, 0, i)),
                           .places = placed ? st_data(st_select(st_memory(c, PLACES), 0, i)) : NULL,
                           .planes = some * x.shape.n[1],
                           .maxima = maxima });
}

static void backward(const st_call *c, st_tensor dy, st_tensor dx, bool maxima)
{
    divide((division){ .call = c,
                       .from = st_data(dy),
                       .to = st_data(dx),
                       .places = maxima ? st_data(st_memory(c, PLACES)) : NULL,
                       .planes = dx.shape.n[0] * dx.shape.n[1],
                       .maxima = maxima,
                       .back = true });
}

void rows_forward(const st_call *c, st_tensor x, st_tensor y)
{
    forward(c, x, y, false);
}

void rows_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    backward(c, dy, dx, false);
}

void rows_maxima_forward(const st_call *c, st_tensor x, st_tensor y)
{
    forward(c, x, y, true);
}

void rows_maxima_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    backward(c, dy, dx, true);
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
    const int isa = c->layer->impl->isa;
    st_real *raised = st_data(st_scratch(c, p->scratch + IMAGE));
    double low, high;
    limits_of(p->p, &low, &high);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *from = image_of(c, x, i);
        st_real *to = st_data(st_select(y, 0, i));
        for (ptrdiff_t k = 0; k < channels; k++)
            if (all_within(area, from + k * area, (st_real)low, (st_real)high))
                passes_of[isa].norms(POWERS, area, from + k * area, p->p, raised + k * area);
            else
                for (ptrdiff_t j = 0; j < area; j++) raised[k * area + j] = NAN;
        passes_of[isa].forward(&w, raised, to);
        passes_of[isa].norms(ROOTS, channels * count, NULL, p->p, to);
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
    const int isa = c->layer->impl->isa;
    st_real *q = st_data(st_scratch(c, p->scratch + IMAGE));
    double low, high;
    limits_of(p->p, &low, &high);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *norms = st_data(st_select(y, 0, i)), *g = st_data(st_select(dy, 0, i));
        st_real *to = st_data(st_select(dx, 0, i));
        memcpy(q, g, (size_t)(channels * count) * sizeof *q);
        passes_of[isa].norms(BEFORE, channels * count, norms, p->p, q);
        passes_of[isa].backward(&w, q, to);
        const st_real *from = image_of(c, x, i);
        for (ptrdiff_t k = 0; k < channels; k++)
            if (all_within(area, from + k * area, (st_real)low, (st_real)high))
                passes_of[isa].norms(AFTER, area, from + k * area, p->p, to + k * area);
            else
                pool_adjoint_plane(c, false, i, k, st_select(st_select(x, 0, i), 0, k), norms + k * count,
                                   g + k * count, st_select(st_select(dx, 0, i), 0, k));
    }
}

/* ---- plans ------------------------------------------------------------------------------------------- */

enum { RUN = 8, MOST_ALL_TAPS = 1 << 20 }; /* the shortest mean run of columns */
enum { MOST_JOINED = 16 };                 /* vectors that joined planes fill */

static bool is_separable(const st_layer *l)
{
    return !l->type->pooling;
}

static bool is_maxima(const st_layer *l)
{
    return !is_separable(l) && l->type->pooling->value == pool_max_value;
}

/* The axis of rows, a = 0, or columns. An image of one column is taken as a row, except where zeros beside it
 * come before equal maxima of the next rows. p is the definition's plan. */
static int axis_at(const st_layer *l, const void *p, int a)
{
    const pool_plan *pool = is_maxima(l) ? p : NULL;
    const bool zeros = pool && pool->zeros && window_padded(&pool->w);
    return l->x.n[3] == 1 && l->y.n[3] == 1 && !zeros ? 1 - a : a;
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

bool rows_suit(const st_layer *l)
{
    const double most = -(double)NOWHERE; /* a float counts up to there */
    if (is_maxima(l) && (double)l->x.n[2] * (double)l->x.n[3] >= most) return false;
    return most_taps(l, l->plan, 0) <= MOST_ALL_TAPS && most_taps(l, l->plan, 1) <= MOST_ALL_TAPS;
}

static ptrdiff_t padded(ptrdiff_t n)
{
    return ceil_div(n, LANES_MOST) * LANES_MOST;
}

/* The vectors of an axis's picks, `most` for each; of picks of planes; and bytes of picks. */
static ptrdiff_t room_of_picks(const sparse *a, ptrdiff_t most, int lanes)
{
    return (a->out_pitch / lanes + JOINED + 1) * most;
}

static ptrdiff_t room_of_planes(const sparse each[], int lanes)
{
    const ptrdiff_t size = each[0].size * each[1].size, out = each[0].out * each[1].out;
    return smallest((ceil_div(size, lanes) + ceil_div(out, lanes) + MOST_JOINED) * MOST_PICKS, 1 << 11);
}

static size_t bytes_of_picks(ptrdiff_t room, int lanes)
{
    return LINE * sizeof(st_real) +
           (size_t)room * (sizeof(pick) + (size_t)lanes * (sizeof(isa_bits) + sizeof(st_real)));
}

/* Bytes of an axis's table, with `most` picks an element. */
static size_t table_of(const sparse *a, ptrdiff_t taps, ptrdiff_t most, int lanes)
{
    return (size_t)taps * sizeof(tap) + (size_t)(a->out + 1) * (2 * sizeof(ptrdiff_t) + sizeof(column_run)) +
           (size_t)padded(a->out) * sizeof(double) + (size_t)a->out * sizeof(pool_span) +
           bytes_of_picks(room_of_picks(a, most, lanes), lanes);
}

static sparse axis_of(ptrdiff_t size, ptrdiff_t out)
{
    return (sparse){ .size = size, .out = out, .pitch = padded(size), .out_pitch = padded(out) };
}

/* Images so narrow that rows fill few vectors are one row each, unless they are large, or windows are. */
static bool suits_flat(const sparse each[], const ptrdiff_t taps[], ptrdiff_t narrow)
{
    enum { SMALL = 1024, FEW = 16 };
    const ptrdiff_t size = each[0].size * each[1].size, out = each[0].out * each[1].out;
    return smallest(each[1].size, each[1].out) < narrow && size <= SMALL && out <= SMALL &&
           taps[0] * taps[1] <= FEW * largest(size, out);
}

/* Narrow images that are not large are picked from planes. */
static bool suits_planes(const sparse each[])
{
    enum { SHORT = 64 };
    const ptrdiff_t size = each[0].size * each[1].size, out = each[0].out * each[1].out;
    return smallest(each[1].size, each[1].out) < SHORT && largest(size, out) <= PLANE;
}

static ptrdiff_t room_of_means(const sparse each[])
{
    return padded(largest(each[0].out * each[1].out, MOST_JOINED * LANES_MOST)) + LANES_MOST;
}

int rows_plan_for(st_layer *l, const void *given)
{
    const int lanes = kernel_of(l)->lanes;
    const bool maxima = is_maxima(l);
    rows_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    if (is_separable(l)) p->definition.separable = *(const separable *)given;
    else p->definition.pool = *(const pool_plan *)given;
    p->means = l->type == &layer_type_avgpool || l->type == &layer_type_adaptive_avgpool;
    p->p = l->type == &layer_type_lppool ? ((const st_lppool_options *)l->options)->p : 0;
    if (l->type == &layer_type_pad2d && ((const st_pad2d_options *)l->options)->mode == ST_PAD_CONSTANT)
        p->value = (st_real)((const st_pad2d_options *)l->options)->value;
    p->planes = l->x.n[0] * l->x.n[1];
    ptrdiff_t taps[2];
    l->impl->tables = 0;
    for (int a = 0; a < 2; a++) {
        const int axis = axis_at(l, given, a);
        p->each[a] = axis_of(l->x.n[2 + axis], l->y.n[2 + axis]);
        taps[a] = most_taps(l, given, axis);
        l->impl->tables += table_of(&p->each[a], taps[a], a * MOST_PICKS, lanes);
        p->back[a] = axis_of(p->each[a].out, p->each[a].size);
    }
    const sparse one = axis_of(1, 1), all = axis_of(l->x.n[2] * l->x.n[3], l->y.n[2] * l->y.n[3]);
    for (int a = 0; a < 2; a++) l->impl->tables += table_of(&p->back[a], taps[a], a * MOST_PICKS, lanes);
    p->flat = !maxima && suits_flat(p->each, taps, l->type == &layer_type_pad2d ? 16 : 32);
    if (suits_planes(p->each))
        l->impl->tables += bytes_of_picks(room_of_planes(p->each, lanes), lanes) +
                           (size_t)room_of_means(p->each) * sizeof(st_real);
    p->axis[1] = p->flat ? all : p->each[1];
    const sparse back[] = { axis_of(one.out, one.size), axis_of(all.out, all.size) };
    if (p->flat) {
        taps[1] *= taps[0], taps[0] = 1;
        l->impl->tables += table_of(&one, 1, 0, lanes) + table_of(&all, taps[1], 0, lanes);
        for (int a = 0; a < 2; a++) l->impl->tables += table_of(&back[a], taps[a], 0, lanes);
    }
    if (!is_separable(l) && pool_request_scratch(l, &p->definition.pool)) return -1;
    p->scratch = l->impl->scratches;
    const sparse *columns = &p->axis[1];
    const ptrdiff_t area = l->x.n[2] * l->x.n[3], count = l->y.n[2] * l->y.n[3];
    if (maxima && st_layer_memory(l, ST_SHAPE(l->x.n[0], l->x.n[1], count))) return -1;
    const ptrdiff_t row = (maxima ? 4 : 2) * columns->pitch + 3 * columns->out_pitch;
    if (st_layer_scratch(l, ST_SHAPE(LANES_MOST * row))) return -1;
    if (st_layer_scratch(l, ST_SHAPE(l->x.n[1] * largest(area, count)))) return -1;
    const ptrdiff_t tiles = maxima ? room_of_tile(area) + 2 * room_of_tile(count) : 0;
    return st_layer_scratch(l, ST_SHAPE(room_of_half(p->each) + 2 * room_of_block(p->each) + tiles));
}

/* The columns as runs, if they are few. */
static void find_runs(rows_plan *p)
{
    enum { FEW = 3 };
    const sparse *a = &p->axis[1];
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < a->out; i++) {
        const tap *t = a->taps + a->begin[i];
        if (a->begin[i + 1] - a->begin[i] > 1) return;
        if (a->begin[i + 1] == a->begin[i]) continue;
        if (t->weight != 1) return;
        column_run *last = count > 0 ? &p->runs[count - 1] : NULL;
        const bool next = last && last->to + last->count == i;
        const ptrdiff_t step = next ? t->from - (last->from + (last->count - 1) * last->step) : 2;
        if (next && step >= -1 && step <= 1 && (last->count == 1 || step == last->step)) {
            last->step = step;
            last->count++;
        } else p->runs[count++] = (column_run){ i, t->from, 1, 1 };
    }
    if (count <= FEW || count * RUN <= a->out) p->run_count = count;
}

static bool is_identity(const sparse *a)
{
    for (ptrdiff_t i = 0; i < a->out; i++) {
        const tap *t = a->taps + a->begin[i];
        if (a->begin[i + 1] - a->begin[i] != 1 || t->from != i || t->weight != 1) return false;
    }
    return a->size == a->out;
}

/* Tests if each element has one tap at most. */
static bool is_single(const sparse *a)
{
    for (ptrdiff_t i = 0; i < a->out; i++)
        if (a->begin[i + 1] - a->begin[i] > 1) return false;
    return true;
}

static bool is_copy(const sparse *a)
{
    return a->ordered && a->even && (a->out == 0 || a->counted[0] == 1);
}

static void fill_pooling(const st_layer *l, int axis, const pool_plan *pool, sparse *a, pool_span *spans)
{
    const st_window at = { .options = l->options };
    const bool exclude =
        l->type == &layer_type_avgpool && ((const st_avgpool_options *)l->options)->count_exclude_pad;
    pool->grid->spans(pool, &at, axis, spans);
    for (ptrdiff_t o = 0, n = 0; o < a->out; o++) {
        for (ptrdiff_t k = 0; k < spans[o].count; k++)
            a->taps[n++] = (tap){ spans[o].first + k * pool->w.dilation[axis], 1 };
        a->begin[o + 1] = n;
        a->counted[o] = (st_real)(exclude ? spans[o].count : spans[o].whole);
    }
}

static char *lay_out_picks(picks *p, ptrdiff_t room, int lanes, char *at)
{
    p->room = room;
    p->pick = (pick *)(void *)at, at += (size_t)room * sizeof *p->pick;
    at += -(uintptr_t)at % (LINE * sizeof(st_real)); /* vectors of indexes lie in one line */
    p->index = (isa_bits *)(void *)at, at += (size_t)(room * lanes) * sizeof *p->index;
    p->weight = (st_real *)(void *)at;
    return at + (size_t)(room * lanes) * sizeof *p->weight;
}

/* The table of an axis at `at`; returns its end. */
static char *lay_out_axis(sparse *a, ptrdiff_t taps, ptrdiff_t most, int lanes, char *at, column_run **runs,
                          pool_span **spans)
{
    a->taps = (tap *)(void *)at, at += (size_t)taps * sizeof *a->taps;
    *runs = (column_run *)(void *)at, at += (size_t)(a->out + 1) * sizeof **runs;
    *spans = (pool_span *)(void *)at, at += (size_t)a->out * sizeof **spans;
    a->begin = (ptrdiff_t *)(void *)at, at += (size_t)(a->out + 1) * sizeof *a->begin;
    a->alike = (ptrdiff_t *)(void *)at, at += (size_t)a->out * sizeof *a->alike;
    a->counted = (st_real *)(void *)at, at += (size_t)padded(a->out) * sizeof(double);
    a->begin[0] = 0;
    return lay_out_picks(&a->picks, room_of_picks(a, most, lanes), lanes, at);
}

/* Every element of y as one of a row: its taps are those of its row and its column. */
static void flatten(rows_plan *p)
{
    const sparse *rows = &p->each[0], *columns = &p->each[1];
    sparse *one = &p->axis[0], *all = &p->axis[1];
    one->taps[0] = (tap){ 0, 1 }, one->begin[1] = 1, one->counted[0] = 1;
    for (ptrdiff_t o = 0, n = 0; o < all->out; o++) {
        const ptrdiff_t oh = o / columns->out, ow = o % columns->out;
        for (ptrdiff_t i = rows->begin[oh]; i < rows->begin[oh + 1]; i++)
            for (ptrdiff_t j = columns->begin[ow]; j < columns->begin[ow + 1]; j++) {
                const tap a = rows->taps[i], b = columns->taps[j];
                all->taps[n++] = (tap){ a.from * columns->size + b.from, a.weight * b.weight };
            }
        all->begin[o + 1] = n;
        all->counted[o] = rows->counted[oh] * columns->counted[ow];
    }
}

/* The transposed matrix, without taps outside. */
static void transpose(const sparse *a, sparse *to)
{
    memset(to->begin, 0, (size_t)(to->out + 1) * sizeof *to->begin);
    for (ptrdiff_t k = 0; k < a->begin[a->out]; k++)
        if (!is_outside(a, a->taps[k])) to->begin[a->taps[k].from + 1]++;
    for (ptrdiff_t i = 0; i < to->out; i++) to->begin[i + 1] += to->begin[i];
    const ptrdiff_t all = to->begin[to->out];
    for (ptrdiff_t i = a->out - 1; i >= 0; i--) /* begin[i + 1] goes down to where it begins, */
        for (ptrdiff_t k = a->begin[i]; k < a->begin[i + 1]; k++)
            if (!is_outside(a, a->taps[k]))
                to->taps[--to->begin[a->taps[k].from + 1]] = (tap){ i, a->taps[k].weight };
    for (ptrdiff_t i = 0; i < to->out; i++) to->begin[i] = to->begin[i + 1]; /* and back to its place */
    to->begin[to->out] = all;
}

static void find_alike(sparse *a)
{
    for (ptrdiff_t i = a->out - 1; i >= 0; i--) {
        const tap *t = a->taps + a->begin[i], *end = a->taps + a->begin[i + 1], *next = end;
        bool same = i + 1 < a->out && a->begin[i + 2] - a->begin[i + 1] == end - t;
        for (; same && t < end; t++, next++) same = next->from == t->from + 1 && next->weight == t->weight;
        a->alike[i] = 1 + (same ? a->alike[i + 1] : 0);
    }
}

/* The matrix of a plane from those of its axes, NULL for one that is as it was, or of a row: `rows` is NULL.
 * Taps of means that go back are shares. */
typedef struct matrix {
    const sparse *rows, *columns;
    ptrdiff_t wide, out_wide;
    const st_real *shares;
} matrix;

static ptrdiff_t count_of(const sparse *a, ptrdiff_t i)
{
    return a ? a->begin[i + 1] - a->begin[i] : 1;
}

static tap tap_of(const sparse *a, ptrdiff_t i, ptrdiff_t k)
{
    return a ? a->taps[a->begin[i] + k] : (tap){ i, 1 };
}

/* Tap k of the elements from i on; returns about how many instructions it takes. */
static double find_pick(const sparse *a, const matrix *m, picking how, ptrdiff_t i, ptrdiff_t k, int lanes,
                        bool shuffles, pick *p, isa_bits *index, st_real *weight)
{
    ptrdiff_t from[LANES_MOST] = { 0 };
    bool adjacent = true;
    *p = (pick){ .taps = 1, .ones = true };
    for (int l = 0; l < lanes; l++) {
        const ptrdiff_t plane = (i + l) / a->out, o = (i + l) % a->out;
        const ptrdiff_t oh = o / m->out_wide, ow = o % m->out_wide;
        const ptrdiff_t beside = count_of(m->columns, ow), taps = count_of(m->rows, oh) * beside;
        from[l] = PTRDIFF_MIN, weight[l] = how == SUMS ? 0 : NOWHERE, index[l] = 0;
        if (plane >= a->picks.rows) continue;
        p->taps = largest(p->taps, taps);
        if (k >= taps) {
            p->lacks = true, adjacent = false;
            continue;
        }
        const tap row = tap_of(m->rows, oh, k / beside), column = tap_of(m->columns, ow, k % beside);
        const bool outside =
            how == MAXIMA && m->rows && (is_outside(m->rows, row) || is_outside(m->columns, column));
        const ptrdiff_t at = outside ? -1 : row.from * m->wide + column.from;
        if (outside) p->lacks = true, adjacent = false;
        else from[l] = at + plane * a->picks.step;
        weight[l] = how == SUMS ? row.weight * column.weight : (st_real)(how == BACK ? o : at);
        if (m->shares) weight[l] *= m->shares[at];
        p->ones = p->ones && weight[l] == 1;
        adjacent = adjacent && from[l] == from[0] + l;
    }
    for (int l = 0; l < lanes && adjacent; l++) index[l] = l, p->from[l] = (int)from[0];
    for (int parts = 0; !adjacent; parts++) { /* a vector from the first element on that is in none */
        ptrdiff_t low = PTRDIFF_MAX;
        for (int l = 0; l < lanes; l++)
            if (from[l] > PTRDIFF_MIN) low = smallest(low, from[l]);
        if (low == PTRDIFF_MAX) break;
        for (int l = 0; l < lanes; l++)
            if (from[l] > PTRDIFF_MIN && from[l] < low + lanes)
                index[l] = (isa_bits)(parts * lanes + (from[l] - low)), from[l] = PTRDIFF_MIN;
        for (int j = parts; j < LANES_MOST; j++) p->from[j] = (int)low;
        p->parts = parts + 1;
    }
    if (!adjacent && p->parts == 0) p->parts = 1;
    for (int l = 0; l < lanes && how == SUMS && p->lacks && p->parts == 1; l++)
        if (weight[l] == 0) index[l] = lanes;
    const double each = shuffles ? p->parts + (p->parts + 1) / 2 * 2 - 1 : 2 * lanes;
    if (how != SUMS)
        return (m->rows ? 6 : 10) + (how == BACK || !m->rows ? 2 : 1) * (p->parts == 0 ? 0 : each);
    const double shuffled = p->parts > FEW_PARTS ? 6 + 4.0 * p->parts : p->parts > 2 ? 9 : 4;
    return (shuffles ? shuffled : 6 + each) + (p->lacks ? 1 : 0);
}

/* The picks of rows or planes that are joined; returns about how many instructions one takes. */
static double find_picks(sparse *a, const matrix *m, picking how, int most, int lanes, bool shuffles)
{
    picks *p = &a->picks;
    ptrdiff_t at = 0;
    double picked = how == SUMS ? 2 : 8;
    if (p->step > INT_MAX / (2 * LANES_MOST)) return INFINITY;
    p->reach = 0, p->out = p->rows * a->out;
    p->moves = how == SUMS && p->step <= largest(a->out, MOVED);
    for (ptrdiff_t begin = 0; begin < p->out; begin += lanes, picked += 6) {
        const ptrdiff_t i = p->out < lanes ? 0 : lanes_within(begin, lanes, p->out);
        for (ptrdiff_t k = 0, taps = 1; k < taps; k++, at++) {
            if (at == p->room || taps > most) return INFINITY;
            pick *to = &p->pick[at];
            picked += find_pick(a, m, how, i, k, lanes, shuffles, to, p->index + at * lanes,
                                p->weight + at * lanes);
            taps = to->taps;
            p->moves = p->moves && taps == 1 && to->ones && to->parts <= FEW_PARTS;
            for (int j = 0; j < LANES_MOST; j++) p->reach = largest(p->reach, to->from[j] + lanes);
        }
    }
    p->moves = p->moves && (size_t)at * (sizeof *p->pick + (size_t)lanes * sizeof *p->index) <= TABLE;
    p->room = at;
    return picked / (double)p->rows;
}

/* Picks, or vectors of columns, of which each takes `each`, of `more` times as many rows: whichever takes the
 * fewest instructions, whose number it returns about. A pick's further parts lie in two lines each. Rows that
 * are joined, and what vectors pass their ends by, are within the room of rows. */
static double choose_columns(sparse *a, bool maxima, int lanes, bool shuffles, double each, double more)
{
    picks *p = &a->picks;
    const ptrdiff_t room = LANES_MOST * (a->pitch - 3);
    const double taps = (double)a->begin[a->out] * (maxima ? 10 : 5);
    const double way = (double)(a->pitch + a->out_pitch) * each + 12 * (double)a->out + taps;
    const double transposed = (maxima ? 1 : 1.3) * more * way / lanes;
    p->low = p->high = 0;
    for (ptrdiff_t k = 0; k < a->begin[a->out]; k++)
        p->low = smallest(p->low, a->taps[k].from), p->high = largest(p->high, a->taps[k].from + 1);
    p->step = largest(p->high, a->size) - p->low;
    p->rows = smallest(ceil_div(JOINED * lanes, a->out), room / p->step);
    const matrix m = { NULL, a, a->size, a->out, NULL };
    const double picked =
        p->rows < 1 ? INFINITY : find_picks(a, &m, maxima ? MAXIMA : SUMS, MOST_PICKS, lanes, shuffles);
    double parts = 0;
    for (ptrdiff_t k = 0; k < p->room && picked < INFINITY && !maxima; k++)
        if (p->pick[k].parts > 2 && p->pick[k].parts <= FEW_PARTS)
            parts += 2.0 * p->pick[k].parts / (double)p->rows;
    p->used = picked + parts < transposed && p->reach - p->low <= LANES_MOST * a->pitch;
    return fmin(picked, transposed);
}

/* As many planes as fill vectors best, with `half` elements on the way from `size` to `out`. */
static ptrdiff_t planes_joined(ptrdiff_t size, ptrdiff_t half, ptrdiff_t out, int lanes)
{
    ptrdiff_t best = 1, vectors = ceil_div(half, lanes) + ceil_div(out, lanes);
    const ptrdiff_t most = half > 0 ? smallest(PLANE, BLOCK / 2) : PLANE;
    for (ptrdiff_t n = 2; n * largest(half, out) <= MOST_JOINED * lanes && n * largest(size, half) <= most;
         n++) {
        const ptrdiff_t next = ceil_div(n * half, lanes) + ceil_div(n * out, lanes);
        if (next * best < vectors * n) best = n, vectors = next;
    }
    return best;
}

/* Picks of planes, of which `joined` are joined. Returns about how many instructions a plane takes. */
static double find_some(sparse *a, const matrix *m, picking how, ptrdiff_t joined, picks *room, int lanes,
                        bool shuffles)
{
    a->picks = *room;
    a->picks.step = a->size;
    a->picks.rows = joined;
    const double picked = find_picks(a, m, how, MOST_PICKS, lanes, shuffles);
    if (picked == INFINITY) return picked;
    const ptrdiff_t planes = BESIDE * joined * (a->size + a->out) * (ptrdiff_t)sizeof(st_real);
    const bool near = planes + (ptrdiff_t)bytes_of_picks(a->picks.room, lanes) <= CACHE;
    room->pick += a->picks.room, room->index += a->picks.room * lanes;
    room->weight += a->picks.room * lanes, room->room -= a->picks.room;
    return how == SUMS && near ? 0.7 * picked : picked;
}

/* Picks of planes: sums of few elements, in the order of the definition; or sums along the axis after which
 * there are fewer elements, and then along the other. Returns about how many instructions a plane takes. */
static double find_planes(rows_plan *p, int i, picking how, const st_real *shares, picks *room, int lanes,
                          bool shuffles)
{
    sparse *a = &p->plane[i], *half = &p->half[i];
    const sparse *rows = i == 0 ? p->axis : p->back, *columns = rows + 1;
    const ptrdiff_t size = rows->size * columns->size, out = rows->out * columns->out;
    const ptrdiff_t halves[] = { rows->out * columns->size, rows->size * columns->out };
    const bool second = halves[1] < halves[0];
    const matrix whole = { rows, columns, columns->size, columns->out, shares };
    const ptrdiff_t wide = second ? columns->out : columns->size;
    matrix steps[] = { { rows, NULL, wide, wide, NULL },
                       { NULL, columns, columns->size, columns->out, NULL } };
    picks left = *room;
    *a = axis_of(size, out), *half = axis_of(0, 0);
    const double picked =
        find_some(a, &whole, how, planes_joined(size, 0, out, lanes), room, lanes, shuffles);
    if (how != SUMS || p->value != 0) return picked; /* halves have zeros where there is no tap */
    const ptrdiff_t joined = planes_joined(size, halves[second], out, lanes);
    const picks begin = left;
    steps[second].shares = shares;
    *a = axis_of(size, halves[second]), *half = axis_of(halves[second], out);
    double by_halves = find_some(a, &steps[second], SUMS, joined, &left, lanes, shuffles);
    if (by_halves < picked)
        by_halves += find_some(half, &steps[!second], SUMS, joined, &left, lanes, shuffles);
    if (by_halves < picked) {
        *room = left;
        return by_halves;
    }
    *room = begin;
    *a = axis_of(size, out), *half = axis_of(0, 0);
    return find_some(a, &whole, how, planes_joined(size, 0, out, lanes), room, lanes, shuffles);
}

/* Picks of planes, and the shares of their means. */
static char *lay_out_planes(rows_plan *p, picks *room, int lanes, char *at)
{
    const sparse *rows = &p->each[0], *columns = &p->each[1];
    const ptrdiff_t count = rows->out * columns->out;
    at = lay_out_picks(room, room_of_planes(p->each, lanes), lanes, at);
    p->shares = (st_real *)(void *)at;
    for (ptrdiff_t i = 0; i < room_of_means(p->each); i++) {
        const st_real counted = rows->counted[i % count / columns->out] * columns->counted[i % columns->out];
        p->shares[i] = counted > 0 ? 1 / counted : 0;
    }
    return (char *)(p->shares + room_of_means(p->each));
}

/* About how many instructions a channel takes by rows, whose taps take `each_tap`; a row takes `each`
 * more. */
static double cost_of_rows(const sparse *rows, double each_tap, ptrdiff_t count, double each)
{
    const double sums = each_tap * (double)rows->begin[rows->out] + 16 * (double)rows->out;
    return (rows->ordered ? 0 : sums) + each * (double)count;
}

/* The same by runs, or their adjoint: a row of x, or of dy, and then each run. */
static double cost_of_runs(const rows_plan *p, int lanes, bool shuffles, bool back)
{
    const sparse *rows = back ? p->back : p->axis, *columns = rows + 1;
    const double vectors = (double)ceil_div(columns->size, lanes), taps = (double)rows->begin[rows->out];
    double row = 10;
    const column_run one = narrow_run(p, lanes, back);
    const int beside = (one.to > 0) + (one.to + one.count < columns->out);
    if (one.count > 0)
        return 10 + 2 * (double)rows->out + (double)(3 + 2 * ceil_div(one.count, lanes) + 2 * beside) * taps;
    if (columns->ordered) return 6 * (double)rows->out + 2 * vectors * taps;
    for (ptrdiff_t k = 0; k < p->run_count; k++) {
        const column_run r = p->runs[k];
        const bool most = 2 * r.count > p->axis[1].size;
        const double by_one = (double)r.count, each = (double)ceil_div(r.count, lanes);
        if (back && shuffles && is_wide(&r, lanes)) row += 30 + 6 * each;
        else if (back && r.step < 1) row += 6 + 1.2 * by_one;
        else if (r.step < 0) row += 6 + by_one / 2;
        else row += back && !most ? 6 + 3 * (each + (double)(r.count % lanes)) : 6 + 2 * each;
    }
    return row * (double)rows->out + 4 * vectors * fmax(taps - (double)rows->out, 0);
}

/* The same of maxima of planes that are lanes. */
static double cost_abreast(const rows_plan *p, int lanes)
{
    const sparse *rows = &p->axis[0], *columns = &p->axis[1];
    const ptrdiff_t planes = ceil_div(p->planes, lanes) * lanes;
    double cost = 8 * (double)rows->begin[rows->out] * (double)columns->begin[columns->out];
    for (tile t = first_tile(p); t.from[0] < rows->out; t = next_tile(p, &t)) {
        if (t.to[0] == t.from[0] || t.to[1] == t.from[1]) return INFINITY; /* a window is too large */
        const ptrdiff_t size = (t.high[0] - t.low[0]) * (t.high[1] - t.low[1]);
        cost += 6 * (double)size + 24 * (double)((t.to[0] - t.from[0]) * (t.to[1] - t.from[1]));
    }
    return cost / lanes * (double)planes / (double)p->planes;
}

/* The fastest ways for rows and columns as they are; returns about how many instructions a channel takes
 * more than if each way took `flat`. */
static double choose_rows(rows_plan *p, bool maxima, int lanes, bool shuffles, picks *room, double flat)
{
    const sparse *rows = p->axis, *columns = rows + 1, *back = p->back;
    const ptrdiff_t high = rows->size, down = rows->out, wide = p->tall ? columns->out : columns->size,
                    count = p->tall ? high : down;
    const double more = (double)down / (double)count;
    double each = choose_columns(&p->axis[1], maxima, lanes, shuffles, maxima ? 14 : 7, more);
    const double vectors = (double)ceil_div(wide, lanes);
    const double slow = cost_of_rows(rows, fmax(10, 6 * vectors), count, each);
    double costs[] = { cost_of_rows(rows, maxima && vectors == 1 ? 10 : 2 * vectors, count, each), 0 };
    if (maxima)
        costs[1] = 30 + (double)(rows->size * columns->size) / lanes + 2 * (double)(down * columns->out);
    else {
        each = choose_columns(&p->back[1], false, lanes, shuffles, 10, more);
        costs[1] = cost_of_rows(back, 2 * vectors, count, each);
        for (int i = 0; i < 2 && p->run_count > 0; i++) {
            const double runs = cost_of_runs(p, lanes, shuffles, i == 1);
            p->by_runs[i] = !(i == 0 ? columns : back + 1)->picks.used || runs <= costs[i];
            if (p->by_runs[i]) costs[i] = runs;
        }
    }
    double rest = 0;
    for (int i = 0; i < 2; i++) {
        const picking how = !maxima ? SUMS : i == 0 ? MAXIMA : BACK;
        const st_real *shares = i == 1 && p->means ? p->shares : NULL;
        const double flat_or_rows = (maxima || p->by_runs[i] ? 1 : 1.25) * fmin(flat, costs[i]);
        double planes = INFINITY;
        if (room->room > 0) planes = find_planes(p, i, how, shares, room, lanes, shuffles);
        p->by_planes[i] = planes < flat_or_rows;
        if (how == MAXIMA) {
            const double abreast = cost_abreast(p, lanes), other = p->by_planes[i] ? 0.6 * planes : slow;
            p->abreast = abreast < other;
            if (p->abreast) p->by_planes[i] = false;
        }
        if (!p->by_planes[i]) rest += costs[i] - flat;
    }
    return rest;
}

void rows_fill(st_layer *l, void *tables)
{
    rows_plan *p = l->plan;
    char *at = tables;
    ptrdiff_t taps[2];
    pool_span *spans;
    column_run *runs;
    picks room = { 0 };
    const bool maxima = is_maxima(l), shuffles = isa_shuffles[l->impl->isa], flat = p->flat;
    const int lanes = kernel_of(l)->lanes;
    for (int i = 0; i < 2; i++) {
        sparse *a = &p->each[i];
        const int axis = axis_at(l, &p->definition, i);
        taps[i] = most_taps(l, &p->definition, axis);
        at = lay_out_axis(a, taps[i], i * MOST_PICKS, lanes, at, &runs, &spans);
        if (i == 1) p->runs = runs;
        if (!is_separable(l)) fill_pooling(l, axis, &p->definition.pool, a, spans);
        else
            for (ptrdiff_t o = 0; o < a->out; o++)
                a->begin[o + 1] = a->begin[o] + separable_taps(l, 2 + axis, o, a->taps + a->begin[o]),
                             a->counted[o] = 1;
        a->ordered = is_identity(a);
        a->even = true;
        for (ptrdiff_t o = 1; o < a->out; o++) a->even = a->even && a->counted[o] == a->counted[0];
    }
    p->single = is_single(&p->each[0]);
    p->run_count = 0;
    p->by_runs[0] = p->by_runs[1] = p->flat = false;
    p->same = !maxima && is_copy(&p->each[0]) && is_copy(&p->each[1]);
    for (int i = 0; i < 2; i++) {
        p->axis[i] = p->each[i];
        p->back[i] = axis_of(p->each[i].out, p->each[i].size);
        at = lay_out_axis(&p->back[i], taps[i], i * MOST_PICKS, lanes, at, &runs, &spans);
        transpose(&p->axis[i], &p->back[i]);
        p->back[i].ordered = p->axis[i].ordered;
        find_alike(&p->axis[i]), find_alike(&p->back[i]);
    }
    if (is_separable(l)) find_runs(p);
    p->tall = is_separable(l) && p->run_count == 0 && p->each[0].out > p->each[0].size;
    p->by_planes[0] = p->by_planes[1] = p->abreast = false;
    if (suits_planes(p->each)) at = lay_out_planes(p, &room, lanes, at);
    const ptrdiff_t area = p->each[0].size * p->each[1].size, count = p->each[0].out * p->each[1].out;
    const double all = (double)p->each[0].begin[p->each[0].out] * (double)p->each[1].begin[p->each[1].out];
    const double each = 0.7 * (14 * (double)(padded(area) + padded(count)) + 5 * all) / lanes;
    if (choose_rows(p, maxima, lanes, shuffles, &room, flat ? each : INFINITY) <= 0 || !flat) return;
    p->flat = true;
    p->run_count = 0;
    p->by_runs[0] = p->by_runs[1] = p->tall = false;
    p->axis[0] = axis_of(1, 1), p->axis[1] = axis_of(area, count);
    p->back[0] = axis_of(1, 1), p->back[1] = axis_of(count, area);
    taps[1] *= taps[0], taps[0] = 1;
    for (int i = 0; i < 2; i++) at = lay_out_axis(&p->axis[i], taps[i], 0, lanes, at, &runs, &spans);
    flatten(p);
    for (int i = 0; i < 2; i++) {
        at = lay_out_axis(&p->back[i], taps[i], 0, lanes, at, &runs, &spans);
        transpose(&p->axis[i], &p->back[i]);
    }
}

#define ALGORITHM(NAME, ...)                                                                                 \
    const layer_algorithm NAME##_rows = { .type = &layer_type_##NAME,                                        \
                                          .suits = rows_suit,                                                \
                                          .plan = rows_plan_for,                                             \
                                          .fill = rows_fill,                                                 \
                                          .hooks = { __VA_ARGS__ } };
ALGORITHM(maxpool, rows_maxima_forward, rows_maxima_backward, .divides = true)
ALGORITHM(avgpool, rows_forward, rows_backward, .divides = true)
ALGORITHM(adaptive_avgpool, rows_forward, rows_backward, .divides = true)
ALGORITHM(lppool, norms_forward, norms_backward)
ALGORITHM(upsample, rows_forward, rows_backward, .divides = true)
ALGORITHM(pad2d, rows_forward, rows_backward, .divides = true)
