/* norm_sums.h: the sums of g and of g (x - mean) over sets of elements, for norm.c.
 *
 *     by rows       each row of a set by fixed lanes, so that every instruction set gives the same bits
 *     by columns    sets of a few adjacent elements of each image: each column is added from image to image
 *
 * Elements are added in st_real within a block, and blocks in double. Forward, g is x, less a number near the
 * mean; backward, g is dy, times its weight where each element has one. */
#ifndef STRIDE_LAYERS_FAST_NORM_SUMS_H
#define STRIDE_LAYERS_FAST_NORM_SUMS_H

#include "layers/fast/kernel.h"
#include "layers/fast/lanes.h"
#include "tensor/counts.h"

#include <math.h>

/* A function that is not inlined in WIDE ones. Where gcc knows which registers a function uses, it leaves out
 * vzeroupper before the call, and Intel's processors wait some hundred cycles for the first instruction of
 * SSE, and again for the next one of AVX. */
#if defined(__clang__) || !defined(__GNUC__)
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noipa))
#endif

enum { NEAR = 1 << 18 }; /* elements of images that stay in the second cache */

/* A set, or a part of one: `rows` rows of `length` elements, `stride` apart. */
typedef struct norm_set {
    ptrdiff_t rows, length, stride;
} norm_set;

/* The biased variance is variance * unit²; unit is 1 unless squares overflow or underflow. The deviation
 * includes epsilon. */
typedef struct set_moments {
    double mean, variance, unit, deviation;
} set_moments;

/* Sums over a set: of g, and of g (x - mean). */
typedef struct norm_sums {
    double g, product;
} norm_sums;

/* dx = (weight dy - mean_g - (x - middle) slope) scale */
typedef struct norm_slopes {
    st_real middle, mean_g, slope, scale;
} norm_slopes;

/* ---- sums by rows ---------------------------------------------------------------------------------- */

enum { ELEMENT_OCTETS = 4 };          /* of elements, whose gradients are added together, */
enum { SIDE_BY_SIDE = 8 };            /* of so many sets or more if nothing else is computed */
enum { OCTET = 8, NORM_BLOCK = 256 }; /* lanes of a vector, and elements that a sum adds in st_real */
enum { PIECE = 128 };                 /* elements between fetches */
typedef st_real octet __attribute__((vector_size(OCTET * sizeof(st_real))));
typedef st_real octet_at
    __attribute__((vector_size(OCTET * sizeof(st_real)), aligned(sizeof(st_real)), may_alias));

typedef isa_bits octet_mask __attribute__((vector_size(OCTET * sizeof(st_real))));
typedef isa_bits octet_mask_at
    __attribute__((vector_size(OCTET * sizeof(st_real)), aligned(sizeof(st_real)), may_alias));

/* Those from n % OCTET on mask the last octet of n elements, which ends with them: others before it have its
 * first lanes, too. */
static const isa_bits ones[2 * OCTET] = { 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1 };

#define OCTET_OF(x, i) (*(const octet_at *)((x) + (i)))
#define MASKED(x, kept) ((octet)((octet_mask)(x) & (octet_mask)(*(const octet_mask_at *)(kept))))

/* With weights, g is weight dy, rounded. */
INLINE void add_exactly(norm_sums *to, ptrdiff_t n, const st_real *g, const st_real *weight, st_real shift,
                        const st_real *x, st_real mean)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const double a = (double)(weight ? weight[i] * g[i] : g[i]) - (double)shift;
        to->g += a;
        to->product += a * ((double)x[i] - (double)mean);
    }
}

/* Interleaves octets within their halves, and exchanges halves. */
#define SHUFFLE_OCTETS(u, v, ...) SHUFFLE(octet, u, v, __VA_ARGS__)
#define LOWER_OF(u, v) SHUFFLE_OCTETS(u, v, 0, 8, 1, 9, 4, 12, 5, 13)
#define UPPER_OF(u, v) SHUFFLE_OCTETS(u, v, 2, 10, 3, 11, 6, 14, 7, 15)
#define FIRST_HALVES(u, v) SHUFFLE_OCTETS(u, v, 0, 1, 2, 3, 8, 9, 10, 11)
#define SECOND_HALVES(u, v) SHUFFLE_OCTETS(u, v, 4, 5, 6, 7, 12, 13, 14, 15)

/* The sums of the lanes of each of eight octets. */
INLINE void sums_of_octets(octet *sums, const octet v[OCTET])
{
    octet two[4], four[2];
    EACH(k, 4)
    {
        const octet a = v[k / 2 * 4 + k % 2], b = v[k / 2 * 4 + k % 2 + 2];
        two[k] = LOWER_OF(a, b) + UPPER_OF(a, b);
    }
    EACH(k, 2) four[k] = LOWER_OF(two[2 * k], two[2 * k + 1]) + UPPER_OF(two[2 * k], two[2 * k + 1]);
    *sums = FIRST_HALVES(four[0], four[1]) + SECOND_HALVES(four[0], four[1]);
}

/* Rows of n elements, `apart` from each other, which have a mean each. */
typedef struct norm_rows {
    ptrdiff_t count, n, apart;
    const st_real *g, *x, *mean;
    bool shifted;             /* g - mean instead of g */
    const st_real *weight;    /* g is weight times this, with a weight for each element; NULL: 1 */
    ptrdiff_t first, periods; /* row r has the weights of row (first + r) % periods; 0: all have the same */
    const st_real *scale;     /* of each row, for the gradients of weights, */
    st_real *dweight, *dbias; /* which are added here, unless these are NULL, for rows of an octet or more */
    ptrdiff_t ahead;          /* of adjacent rows, elements are fetched so far ahead of their sums; 0: none */
} norm_rows;

/* The first weight of a row. */
INLINE ptrdiff_t weight_at(const norm_rows *rows, ptrdiff_t row)
{
    return rows->periods > 0 ? (rows->first + row) % rows->periods * rows->n : 0;
}

/* A row: without weights, with them, or with their gradients, which are added. */
typedef enum row_kind { PLAIN, WEIGHTED, FUSED } row_kind;
typedef struct norm_row {
    const st_real *g, *x, *weight;
    st_real *dweight, *dbias, mean, scale;
    bool shifted;
} norm_row;

INLINE norm_row row_of(const norm_rows *rows, row_kind kind, ptrdiff_t k)
{
    const ptrdiff_t at = k * rows->apart, w = kind == PLAIN ? 0 : weight_at(rows, k);
    norm_row row = { .g = rows->g + at, .x = rows->x + at, .mean = rows->mean[k], .shifted = rows->shifted };
    if (kind != PLAIN) row.weight = rows->weight + w;
    if (kind == FUSED) {
        row.dweight = rows->dweight + w, row.scale = rows->scale[k];
        if (rows->dbias) row.dbias = rows->dbias + w;
    }
    return row;
}

/* Adds octet i of a row without the lanes that `kept` leaves out, unless it is NULL. */
INLINE void add_octet(norm_row row, row_kind kind, ptrdiff_t i, const isa_bits *kept, octet *sum,
                      octet *product)
{
    const octet off = OCTET_OF(row.x, i) - row.mean;
    octet g = OCTET_OF(row.g, i);
    if (kind == FUSED) {
        const octet term = off * row.scale * g;
        *(octet_at *)(row.dweight + i) += kept ? MASKED(term, kept) : term;
        if (row.dbias) *(octet_at *)(row.dbias + i) += kept ? MASKED(g, kept) : g;
    }
    if (kind != PLAIN) g *= OCTET_OF(row.weight, i);
    octet a = row.shifted ? g - row.mean : g;
    if (kept) a = MASKED(a, kept);
    *sum += a;
    *product += a * off;
}

typedef struct row_block {
    ptrdiff_t row, begin, n;
} row_block;

/* The sums of a block by lanes, by so many chains of additions. */
INLINE void add_octets(const norm_rows *rows, row_kind kind, row_block b, int by, octet *sum, octet *product)
{
    const norm_row row = row_of(rows, kind, b.row);
    const ptrdiff_t end = b.begin + b.n, ahead = by > 1 ? rows->ahead : 0;
    octet s[2] = { { 0 } }, p[2] = { { 0 } };
    ptrdiff_t i = b.begin;
    for (ptrdiff_t piece; ahead && i + by * OCTET <= end;) {
        piece = smallest(i + PIECE, end);
        FETCH_LINES(row.x + i + ahead, piece - i, 0, 2);
        if (row.g != row.x) FETCH_LINES(row.g + i + ahead, piece - i, 0, 2);
        for (; i + by * OCTET <= piece; i += by * OCTET) EACH(k, by)
        add_octet(row, kind, i + k * OCTET, NULL, &s[k], &p[k]);
    }
    for (; i + by * OCTET <= end; i += by * OCTET) EACH(k, by)
    add_octet(row, kind, i + k * OCTET, NULL, &s[k], &p[k]);
    if (by > 1 && i + OCTET <= end) add_octet(row, kind, i, NULL, &s[0], &p[0]);
    if (b.n % OCTET) add_octet(row, kind, end - OCTET, ones + b.n % OCTET, &s[0], &p[0]);
    *sum = by == 1 ? s[0] : s[0] + s[1], *product = by == 1 ? p[0] : p[0] + p[1];
}

INLINE void add_slowly(norm_sums *to, const norm_rows *rows, row_block b)
{
    const ptrdiff_t at = b.row * rows->apart + b.begin;
    const st_real mean = rows->mean[b.row];
    add_exactly(&to[b.row], b.n, rows->g + at,
                rows->weight ? rows->weight + weight_at(rows, b.row) + b.begin : NULL,
                rows->shifted ? mean : 0, rows->x + at, mean);
}

/* Block i of rows of so many, whose length is `each`, but for the last one of a row. */
INLINE row_block block_at(const norm_rows *rows, ptrdiff_t blocks, ptrdiff_t each, ptrdiff_t i)
{
    const ptrdiff_t begin = i % blocks * each;
    return (row_block){ i / blocks, begin, smallest(rows->n - begin, each) };
}

INLINE void add_blocks(norm_sums *to, norm_rows rows, row_kind kind, ptrdiff_t blocks, int by)
{
    const ptrdiff_t each = blocks == 1 ? rows.n : ceil_div(rows.n, blocks * 2 * OCTET) * 2 * OCTET;
    for (ptrdiff_t i = 0, some; i < rows.count * blocks; i += some) {
        octet sum[OCTET], product[OCTET], sums, products;
        some = smallest(rows.count * blocks - i, OCTET);
        if (by == 1 && rows.ahead) {
            FETCH_LINES(rows.x + i * rows.n + rows.ahead, some * rows.n, 0, 2);
            if (rows.g != rows.x) FETCH_LINES(rows.g + i * rows.n + rows.ahead, some * rows.n, 0, 2);
        }
        for (ptrdiff_t r = 0; r < some; r++)
            add_octets(&rows, kind, block_at(&rows, blocks, each, i + r), by, &sum[r], &product[r]);
        for (ptrdiff_t r = some; r < OCTET; r++) sum[r] = product[r] = (octet){ 0 };
        sums_of_octets(&sums, sum), sums_of_octets(&products, product);
        octet zeros = (sums + products) * 0; /* or, of a sum that may be infinite or NaN, NaN */
        zeros += SHUFFLE_OCTETS(zeros, zeros, 4, 5, 6, 7, 0, 1, 2, 3);
        zeros += SHUFFLE_OCTETS(zeros, zeros, 2, 3, 0, 1, 6, 7, 4, 5);
        const bool finite = zeros[0] + zeros[1] == 0;
        for (ptrdiff_t r = 0, k; r < some && finite; r++)
            k = (i + r) / blocks, to[k].g += (double)sums[r], to[k].product += (double)products[r];
        for (ptrdiff_t r = 0; r < some && !finite; r++) {
            const row_block b = block_at(&rows, blocks, each, i + r);
            if (!isfinite((double)sums[r] + (double)products[r])) add_slowly(to, &rows, b);
            else to[b.row].g += (double)sums[r], to[b.row].product += (double)products[r];
        }
    }
}

INLINE void add_rows_of(norm_sums *to, norm_rows rows, row_kind kind)
{
    if (rows.n <= NORM_BLOCK) add_blocks(to, rows, kind, 1, 1);
    else add_blocks(to, rows, kind, ceil_div(rows.n, 2 * NORM_BLOCK), 2);
}

/* Adds the sums of g and of g (x - mean) over each row. Elements are added in st_real within a block, and
 * blocks in double. A block that overflows is added in double. The sums of a row are the same to the bit for
 * any rows beside it. */
INLINE void add_rows(norm_sums *to, norm_rows rows)
{
    if (rows.n < OCTET)
        for (ptrdiff_t k = 0; k < rows.count; k++) add_slowly(to, &rows, (row_block){ k, 0, rows.n });
    else if (rows.dweight) add_rows_of(to, rows, FUSED);
    else if (rows.weight) add_rows_of(to, rows, WEIGHTED);
    else add_rows_of(to, rows, PLAIN);
}

/* ---- sums by columns ------------------------------------------------------------------------------- */

/* Rows shorter than an octet, of adjacent sets: each column is added up from row to row, in st_real within a
 * block of rows. So many columns are processed at once: few where they stay in the cache from the first loop
 * to the second, more where they would not, as memory is read faster in long rows. */
enum { COLUMNS = 1024, WIDE_COLUMNS = 8192, TALL = 64, ARRAYS = 5 };

/* Numbers of each set, or of each column, of those that are processed at once. */
typedef struct norm_room {
    norm_sums *sums, *total;
    double *sum, *product;
    norm_slopes *slopes;
    st_real *near, *column[ARRAYS];
} norm_room;

enum {
    ROOM_OF_COLUMN =
        (2 * sizeof(norm_sums) + 2 * sizeof(double) + sizeof(norm_slopes)) / sizeof(st_real) + 1 + ARRAYS
};

static norm_room room_at(st_real *at, ptrdiff_t n)
{
    norm_room r = { .sums = (norm_sums *)at };
    r.total = r.sums + n, r.sum = (double *)(r.total + n), r.product = r.sum + n;
    r.slopes = (norm_slopes *)(r.product + n), r.near = (st_real *)(r.slopes + n);
    for (int k = 0; k < ARRAYS; k++) r.column[k] = r.near + (k + 1) * n;
    return r;
}

typedef struct norm_columns {
    norm_set set;
    ptrdiff_t count; /* of sets */
    const st_real *g, *x, *mean;
    ptrdiff_t stride_g, stride_x;
    bool shifted; /* g - mean instead of g */
    const norm_room *room;
} norm_columns;

/* Elements at[k] of sets as those of their columns. */
INLINE void each_column(const norm_columns *c, const st_real *at, st_real *to)
{
    for (ptrdiff_t k = 0; k < c->count; k++)
        for (ptrdiff_t j = 0; j < c->set.length; j++) to[k * c->set.length + j] = at[k];
}

enum { NEARBY = 4096 }; /* elements: the longest row that is fetched */

/* Fetches a row of the next image, which hardware does not foresee, unless it is long. */
INLINE void prefetch(ptrdiff_t n, const st_real *x)
{
    if (n <= NEARBY) FETCH_LINES(x, n, 0, 2);
}

INLINE bool far_rows(const norm_columns *c)
{
    return c->set.rows * c->set.stride > 2 * NEAR;
}

/* Tests if rows of columns are fetched: parts of longer ones, which are not near. */
INLINE bool fetches_rows(const norm_columns *c)
{
    return c->count * c->set.length < c->set.stride && far_rows(c);
}

/* Fetches the next row of columns, of which this is a part. */
INLINE void prefetch_row(const norm_columns *c, ptrdiff_t r, const st_real *x, ptrdiff_t stride)
{
    const ptrdiff_t n = c->count * c->set.length;
    if (r + 1 < c->set.rows && fetches_rows(c)) prefetch(n, x + stride);
}

enum { ROWS = 4 }; /* rows that are added to columns at once */

/* Adds rows r to r + rows - 1 of columns to the parts of their sums. */
INLINE void add_rows_of_columns(const norm_columns *c, ptrdiff_t r, int rows, ptrdiff_t n,
                                const st_real *restrict shift, const st_real *restrict middle,
                                st_real *restrict part, st_real *restrict part_product)
{
    const ptrdiff_t stride_g = c->stride_g, stride_x = c->stride_x;
    const st_real *g = c->g + r * stride_g, *x = c->x + r * stride_x;
    const bool fetch = r + 2 * rows <= c->set.rows && fetches_rows(c);
    for (ptrdiff_t begin = 0, end; begin < n; begin = end) {
        end = smallest(begin + PIECE, n);
        EACH(k, rows)
        if (fetch) {
            prefetch(end - begin, x + (k + rows) * stride_x + begin);
            if (g != x) prefetch(end - begin, g + (k + rows) * stride_g + begin);
        }
        for (ptrdiff_t i = begin; i < end; i++) {
            st_real s = part[i], p = part_product[i];
            EACH(k, rows)
            {
                const st_real a = g[k * stride_g + i] - shift[i];
                s += a;
                p += a * (x[k * stride_x + i] - middle[i]);
            }
            part[i] = s, part_product[i] = p;
        }
    }
}

INLINE void add_columns(norm_sums *to, const norm_columns *c)
{
    const ptrdiff_t length = c->set.length, n = c->count * length;
    const norm_room *room = c->room;
    st_real *restrict middle = room->column[0], *restrict shift = room->column[1],
                      *restrict part = room->column[2], *restrict part_product = room->column[3];
    double *restrict sum = room->sum, *restrict product = room->product;
    const bool single = c->g != c->x && n <= PIECE && far_rows(c); /* short rows, which hardware foresees */
    each_column(c, c->mean, middle);
    for (ptrdiff_t i = 0; i < n; i++) shift[i] = c->shifted ? middle[i] : 0, sum[i] = product[i] = 0;
    for (ptrdiff_t top = 0; top < c->set.rows; top += TALL) {
        for (ptrdiff_t i = 0; i < n; i++) part[i] = part_product[i] = 0;
        const ptrdiff_t end = smallest(top + TALL, c->set.rows);
        ptrdiff_t r = top;
        for (; r + ROWS <= end && !single; r += ROWS)
            add_rows_of_columns(c, r, ROWS, n, shift, middle, part, part_product);
        for (; r < end; r++) add_rows_of_columns(c, r, 1, n, shift, middle, part, part_product);
        for (ptrdiff_t i = 0; i < n; i++) sum[i] += (double)part[i], product[i] += (double)part_product[i];
    }
    for (ptrdiff_t k = 0; k < c->count; k++) {
        norm_sums all = { 0 };
        for (ptrdiff_t i = k * length; i < (k + 1) * length; i++) all.g += sum[i], all.product += product[i];
        if (!isfinite(all.g + all.product)) {
            all = (norm_sums){ 0 };
            for (ptrdiff_t r = 0, at = k * length; r < c->set.rows; r++)
                add_exactly(&all, length, c->g + r * c->stride_g + at, NULL, shift[at],
                            c->x + r * c->stride_x + at, middle[at]);
        }
        to[k].g += all.g, to[k].product += all.product;
    }
}

#endif
