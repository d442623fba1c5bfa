/* norm.c: batch, layer, root-mean-square and group normalisation of contiguous images; layers/norm.c has the
 * definitions. The first loop over a set computes two sums, by fixed lanes, so that every instruction set
 * gives the same bits; the second one writes the result. gradient and backward share the sums. */
#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "layers/fast/lanes.h"
#include "layers/norm_impl.h"
#include "layers/types.h"
#include "tensor/counts.h"
#include "tensor/fast/stream.h"

#include <math.h>
#include <string.h>

/* A function that is not inlined in WIDE ones. Where gcc knows which registers a function uses, it leaves out
 * vzeroupper before the call, and Intel's processors wait some hundred cycles for the first instruction of
 * SSE, and again for the next one of AVX. */
#if defined(__clang__) || !defined(__GNUC__)
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noipa))
#endif

enum { MOST = 512 / sizeof(st_real) }; /* sets that one thread processes at once, but for those by columns */
/* Scratch: a channel or an image of x; norm_room; a tile's gradients or sums of segments; weights, biases and
 * their gradients of each element. */
enum { COPY, ROOM, KEPT, SPREAD };
enum { SEGMENT = 4096, LONG = 8 * SEGMENT }; /* longer sets of images are divided into segments */
enum { NEAR = 1 << 18 };                     /* elements of images that stay in the second cache */
enum { BRIEF = 16 }; /* channels of groups that are shorter have a weight for each element */

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

/* ---- sums ------------------------------------------------------------------------------------------ */

enum { ELEMENT_OCTETS = 4 };     /* of elements, whose gradients are added together, */
enum { SIDE_BY_SIDE = 8 };       /* of so many sets or more if nothing else is computed */
enum { OCTET = 8, BLOCK = 256 }; /* lanes of a vector, and elements that a sum adds in st_real */
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
} norm_rows;

typedef struct row_block {
    ptrdiff_t row, begin, n;
} row_block;

/* The first weight of a row. */
INLINE ptrdiff_t weight_at(const norm_rows *rows, ptrdiff_t row)
{
    return rows->periods > 0 ? (rows->first + row) % rows->periods * rows->n : 0;
}

/* Adds octet i of a row, whose weights begin at w, without the lanes that `kept` leaves out, unless it is
 * NULL. */
INLINE void add_octet(const norm_rows *rows, ptrdiff_t row, ptrdiff_t i, ptrdiff_t w, const isa_bits *kept,
                      octet *sum, octet *product)
{
    const ptrdiff_t at = row * rows->apart + i;
    const st_real mean = rows->mean[row];
    const octet off = OCTET_OF(rows->x, at) - mean;
    octet g = OCTET_OF(rows->g, at);
    if (rows->dweight) {
        const octet term = off * rows->scale[row] * g;
        *(octet_at *)(rows->dweight + w + i) += kept ? MASKED(term, kept) : term;
        if (rows->dbias) *(octet_at *)(rows->dbias + w + i) += kept ? MASKED(g, kept) : g;
    }
    if (rows->weight) g *= OCTET_OF(rows->weight, w + i);
    octet a = rows->shifted ? g - mean : g;
    if (kept) a = MASKED(a, kept);
    *sum += a;
    *product += a * off;
}

/* The sums of a block by lanes, by so many chains of additions. */
INLINE void add_octets(const norm_rows *rows, row_block b, int by, octet *sum, octet *product)
{
    const ptrdiff_t end = b.begin + b.n, w = weight_at(rows, b.row);
    octet s[2] = { { 0 } }, p[2] = { { 0 } };
    ptrdiff_t i = b.begin;
    for (; i + by * OCTET <= end; i += by * OCTET) EACH(k, by)
    add_octet(rows, b.row, i + k * OCTET, w, NULL, &s[k], &p[k]);
    if (by > 1 && i + OCTET <= end) add_octet(rows, b.row, i, w, NULL, &s[0], &p[0]);
    if (b.n % OCTET) add_octet(rows, b.row, end - OCTET, w, ones + b.n % OCTET, &s[0], &p[0]);
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

INLINE row_block block_at(const norm_rows *rows, ptrdiff_t blocks, ptrdiff_t i)
{
    const ptrdiff_t each = blocks == 1 ? rows->n : ceil_div(rows->n, blocks * 2 * OCTET) * 2 * OCTET,
                    begin = i % blocks * each;
    return (row_block){ i / blocks, begin, smallest(rows->n - begin, each) };
}

INLINE void add_blocks(norm_sums *to, norm_rows rows, ptrdiff_t blocks, int by)
{
    for (ptrdiff_t i = 0, some; i < rows.count * blocks; i += some) {
        octet sum[OCTET], product[OCTET], sums, products;
        some = smallest(rows.count * blocks - i, OCTET);
        for (ptrdiff_t r = 0; r < some; r++)
            add_octets(&rows, block_at(&rows, blocks, i + r), by, &sum[r], &product[r]);
        for (ptrdiff_t r = some; r < OCTET; r++) sum[r] = product[r] = (octet){ 0 };
        sums_of_octets(&sums, sum), sums_of_octets(&products, product);
        octet zeros = (sums + products) * 0; /* or, of a sum that may be infinite or NaN, NaN */
        zeros += SHUFFLE_OCTETS(zeros, zeros, 4, 5, 6, 7, 0, 1, 2, 3);
        zeros += SHUFFLE_OCTETS(zeros, zeros, 2, 3, 0, 1, 6, 7, 4, 5);
        const bool finite = zeros[0] + zeros[1] == 0;
        for (ptrdiff_t r = 0, k; r < some && finite; r++)
            k = (i + r) / blocks, to[k].g += (double)sums[r], to[k].product += (double)products[r];
        for (ptrdiff_t r = 0; r < some && !finite; r++) {
            const row_block b = block_at(&rows, blocks, i + r);
            if (!isfinite((double)sums[r] + (double)products[r])) add_slowly(to, &rows, b);
            else to[b.row].g += (double)sums[r], to[b.row].product += (double)products[r];
        }
    }
}

/* Adds the sums of g and of g (x - mean) over each row. Elements are added in st_real within a block, and
 * blocks in double. A block that overflows is added in double. The sums of a row are the same to the bit for
 * any rows beside it. */
INLINE void add_rows(norm_sums *to, norm_rows rows)
{
    if (rows.n < OCTET)
        for (ptrdiff_t k = 0; k < rows.count; k++) add_slowly(to, &rows, (row_block){ k, 0, rows.n });
    else if (rows.n <= BLOCK) add_blocks(to, rows, 1, 1);
    else add_blocks(to, rows, ceil_div(rows.n, 2 * BLOCK), 2);
}

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
    enum { LINE = 64 / sizeof(st_real) };
    for (ptrdiff_t i = 0; i < n && n <= NEARBY; i += LINE) __builtin_prefetch(x + i, 0, 2);
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

enum { ROWS = 4, PIECE = 128 }; /* rows that are added to columns at once, and elements between fetches */

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

/* The moments in a unit whose squares neither overflow nor underflow: in double the square of 1e155 does. */
APART static set_moments measure_extreme(norm_set s, const st_real *x, bool centred)
{
    set_moments m = { .unit = 1e-60 };
    const double count = (double)(s.rows * s.length);
    for (ptrdiff_t r = 0; r < s.rows; r++)
        for (ptrdiff_t i = 0; i < s.length; i++) m.unit = fmax(m.unit, fabs((double)x[r * s.stride + i]));
    m.unit = isfinite(m.unit) ? scalbn(1, ilogb(m.unit)) : m.unit;
    for (ptrdiff_t r = 0; r < s.rows && centred; r++)
        for (ptrdiff_t i = 0; i < s.length; i++) m.mean += (double)x[r * s.stride + i] / m.unit / count;
    for (ptrdiff_t r = 0; r < s.rows; r++)
        for (ptrdiff_t i = 0; i < s.length; i++) {
            double off = (double)x[r * s.stride + i] / m.unit - m.mean;
            m.variance += off * off / count;
        }
    m.mean *= m.unit;
    return m;
}

static double deviation_of(set_moments m, double epsilon)
{
    return m.unit * sqrt(m.variance + epsilon / m.unit / m.unit);
}

/* For each of `count` adjacent sets a number close to the mean, which is the mean itself if all elements are
 * equal. The variance is the mean square of differences from it, less the square of their mean: few digits
 * are lost, since the second is small. */
INLINE void near_means(st_real *near, norm_sums *sums, norm_set s, ptrdiff_t count, const st_real *x)
{
    const ptrdiff_t few = smallest(s.length, 64);
    for (ptrdiff_t k = 0; k < count; k++) near[k] = x[k * s.length];
    add_rows(sums, (norm_rows){ count, few, s.length, x, x, near, .shifted = true });
    for (ptrdiff_t k = 0; k < count; k++)
        near[k] += (st_real)(sums[k].g / (double)few), sums[k] = (norm_sums){ 0 };
}

/* The moments of x from its sums. Not centred: near is 0 and the mean counts as 0. */
INLINE set_moments moments_of(norm_set s, const st_real *x, st_real near, norm_sums sums, double epsilon,
                              bool centred)
{
    const double count = (double)(s.rows * s.length), mean = centred ? sums.g / count : 0,
                 variance = (sums.product - mean * sums.g) / count;
    set_moments m = { (double)near + mean, variance < 0 ? 0 : variance, 1, 0 };
    if (!isfinite(variance) || m.variance + epsilon < 1e-28) m = measure_extreme(s, x, centred);
    m.deviation = deviation_of(m, epsilon);
    return m;
}

/* ---- elements -------------------------------------------------------------------------------------- */

/* From one octet on, the last one ends with the row. It is computed before y is written, which may be x. */
INLINE void norm_apply(ptrdiff_t n, st_real *y, const st_real *x, double mean, double scale, double shift)
{
    const st_real middle = (st_real)mean, slope = (st_real)scale, height = (st_real)shift;
#define APPLY(x) ((x)-middle) * slope + height
    if (n < OCTET)
        for (ptrdiff_t i = 0; i < n; i++) y[i] = APPLY(x[i]);
    else {
        const octet end = APPLY(OCTET_OF(x, n - OCTET));
        for (ptrdiff_t i = 0; i < n - OCTET; i += OCTET) *(octet_at *)(y + i) = APPLY(OCTET_OF(x, i));
        *(octet_at *)(y + n - OCTET) = end;
    }
#undef APPLY
}

INLINE norm_slopes slopes_of(double mean, double deviation, norm_sums of_g, double per_element)
{
    const double scale = 1 / deviation;
    return (norm_slopes){ (st_real)mean, (st_real)(of_g.g * per_element),
                          (st_real)(of_g.product * per_element * scale * scale), (st_real)scale };
}

/* With a weight for each element, w is not used. */
INLINE void norm_adjoint(ptrdiff_t n, st_real *dx, const st_real *dy, const st_real *weights, double w,
                         const st_real *x, norm_slopes s)
{
    const st_real weight = (st_real)w;
#define ADJOINT(g, x) ((g)-s.mean_g - ((x)-s.middle) * s.slope) * s.scale
#define OCTET_ADJOINT(i)                                                                                     \
    ADJOINT(OCTET_OF(dy, i) * (weights ? (octet)OCTET_OF(weights, i) : (octet){ 0 } + weight), OCTET_OF(x, i))
    if (n < OCTET)
        for (ptrdiff_t i = 0; i < n; i++) dx[i] = ADJOINT(dy[i] * (weights ? weights[i] : weight), x[i]);
    else {
        const octet end = OCTET_ADJOINT(n - OCTET);
        for (ptrdiff_t i = 0; i < n - OCTET; i += OCTET) *(octet_at *)(dx + i) = OCTET_ADJOINT(i);
        *(octet_at *)(dx + n - OCTET) = end;
    }
#undef OCTET_ADJOINT
#undef ADJOINT
}

/* ---- sets ------------------------------------------------------------------------------------------ */

/* The plan's data: the definition's, and how contiguous images are divided. Adjacent sets begin `length`
 * elements apart. */
typedef struct set_division {
    norm_plan norm;
    ptrdiff_t parts;    /* adjacent parts of a set, which have a weight and a bias each */
    ptrdiff_t length;   /* of a set's row */
    ptrdiff_t segments; /* of a long set of an image, unless it has one weight; otherwise 0 */
    ptrdiff_t tile;     /* sets of images whose gradients are kept before they are added in order */
    bool narrow;        /* channels of a batch are processed by columns: many fill a line of the cache */
    bool by_element;    /* each element of a set has a weight and a bias instead, */
    ptrdiff_t spread;   /* of a copy, if this is not 0: so many elements in turn have the same */
    ptrdiff_t apart;    /* of the weights of adjacent sets of an image; 0: they have the same, */
    bool side_by_side;  /* and rows that are short, or near, whose gradients are added together */
} set_division;

/* Sets that are processed at once: channels of a batch that stay in the cache from the first loop to the
 * second, by each thread; or whole sets of few elements: fewer backward, so that x and dy are read while dx
 * is written, rather than in turns. Where dx is written past the caches, short sets would be read and written
 * in turns that are too short: more are processed, and the next ones are fetched meanwhile. */
static ptrdiff_t together(const set_division *p, ptrdiff_t images, int threads, bool backward, bool streams)
{
    enum { FEW = 4096, FEW_BACK = 1000, CACHED = 1 << 16, SOME = 32 };
    const ptrdiff_t least = p->length > BLOCK ? 1 : OCTET, /* rows that add_rows takes at once */
        cached = largest(CACHED / (images * p->length * least), 1) * least,
                    most = p->narrow ? COLUMNS / p->length : smallest(SOME, cached);
    if (p->narrow && images > NEAR / COLUMNS) { /* as many for each thread */
        const ptrdiff_t wide = WIDE_COLUMNS / p->length * threads;
        return ceil_div(p->norm.sets, ceil_div(p->norm.sets, wide) * threads);
    }
    if (p->norm.of_batch) return smallest(ceil_div(p->norm.sets, threads), most);
    const bool few = backward && !(streams && p->length < FEW_BACK);
    return largest(smallest((few ? FEW_BACK : FEW) / p->length, SOME), 1);
}

/* How many sets a tile has: there is room for their gradients, or their elements stay in the cache; a
 * multiple of those that are processed together. */
static ptrdiff_t tile_of(const set_division *p, ptrdiff_t images)
{
    enum { GRADIENTS = 1 << 13, ELEMENTS = 1 << 17 };
    const ptrdiff_t some = together(p, images, 1, true, false),
                    most = p->by_element ? ELEMENTS / p->length : GRADIENTS / p->parts;
    return smallest(largest(most / some, 1), ceil_div(images * p->norm.sets, some)) * some;
}

static int plan_division(st_layer *l, const void *given)
{
    set_division *p = st_layer_plan_data(l, sizeof *p);
    const ptrdiff_t elements = st_shape_numel(l->x, l->type->name), images = l->x.n[0];
    const bool affine = l->params > 0;
    if (!p) return -1;
    p->norm = *(const norm_plan *)given;
    p->length = elements / images / p->norm.sets;
    p->parts = affine && p->norm.by_channel && !p->norm.of_batch ? l->x.n[1] / p->norm.groups : 1;
    const ptrdiff_t part = p->length / p->parts;
    const bool brief = p->parts > 1 && part < BRIEF;
    p->spread = brief && part > 1 ? part : 0;
    if (brief) p->parts = 1;
    p->by_element = affine && (!p->norm.by_channel || brief);
    p->apart = brief ? p->length : p->by_element ? 0 : p->parts;
    p->side_by_side = p->apart == 0 && (p->length < BLOCK || elements < NEAR);
    p->narrow = p->norm.of_batch && p->length < OCTET;
    p->tile = tile_of(p, images);
    const bool alike = p->by_element || !affine; /* no weight is that of a whole set */
    if (!p->norm.of_batch && p->parts == 1 && alike && p->length > LONG)
        p->segments = ceil_div(p->length, SEGMENT);
    if (st_layer_scratch(l, ST_SHAPE(elements / (p->norm.of_batch ? p->norm.sets : images)))) return -1;
    if (st_layer_scratch(l, ST_SHAPE(p->narrow ? elements / images * ROOM_OF_COLUMN : 0))) return -1;
    const bool keeps = affine && !p->norm.of_batch && !p->by_element;
    const ptrdiff_t sums = p->segments * (ptrdiff_t)(sizeof(norm_sums) / sizeof(st_real));
    if (st_layer_scratch(l, ST_SHAPE(keeps ? 2 * p->tile * p->parts : sums))) return -1;
    return st_layer_scratch(l, ST_SHAPE(p->spread ? 2 * l->params : 0, elements / images));
}

/* Pieces of a pass: some sets, forward or backward; columns of all of them, of which the gradients of
 * elements are added; segments of the first set; channels, by their running statistics. */
typedef enum norm_pieces { SETS, SETS_BACK, COLUMNS_OF_SETS, SEGMENTS, CHANNELS } norm_pieces;

/* A pass over all sets of x and dy; writes y or dx to `to`, unless that is NULL. */
typedef struct norm_pass {
    const st_call *c;
    const set_division *plan;
    norm_set set;
    ptrdiff_t first, end;           /* of the sets of the pass, or of a tile */
    ptrdiff_t together, columns;    /* sets or columns of a piece, */
    ptrdiff_t alike;                /* and sets whose gradients of elements are added together */
    norm_sums *sums;                /* of segments */
    const norm_slopes *slopes;      /* of the segments' set, for its result; NULL: sums are computed */
    const st_real *x, *dy;          /* dy NULL: a forward pass */
    const st_real *weight, *bias;   /* NULL: none */
    st_real *to, *mean, *deviation; /* mean and deviation of each set */
    st_real *dweight, *dbias;       /* NULL: no gradients are asked for */
    st_real *kept;                  /* pairs of them, from the first set on; NULL: they are added */
    bool streams;                   /* rows of elements are written past the caches */
} norm_pass;

/* Parameters of channels as those of elements, and gradients of elements, which are 0. */
static void spread_parameters(norm_pass *p)
{
    const ptrdiff_t n = p->plan->spread, channels = p->c->param[NORM_WEIGHT].shape.n[0], all = n * channels;
    st_real *to = st_data(st_scratch(p->c, SPREAD));
    for (ptrdiff_t k = 0; k < channels; k++)
        for (ptrdiff_t i = k * n; i < k * n + n; i++) to[i] = p->weight[k], to[all + i] = p->bias[k];
    p->weight = to, p->bias = to + all;
    if (!p->dweight) return;
    p->dweight = to + 2 * all, p->dbias = to + 3 * all;
    memset(p->dweight, 0, (size_t)(2 * all) * sizeof *to);
}

/* Adds the gradients of elements to those of channels. */
static void gather_gradients(const norm_pass *p)
{
    const ptrdiff_t n = p->plan->spread;
    const st_real *from = p->dweight;
    for (int i = NORM_WEIGHT; i <= NORM_BIAS && n > 0 && from; i++) {
        st_real *to = st_data(st_grad(p->c, i));
        for (ptrdiff_t k = 0; k < p->c->param[i].shape.n[0]; k++) {
            st_real sum = to[k];
            for (ptrdiff_t end = 0; end < n; end++) sum += *from++;
            to[k] = sum;
        }
    }
}

static norm_pass pass_over(const st_call *c, st_tensor x, st_tensor dy, st_tensor to, bool gradient)
{
    const set_division *plan = c->plan;
    const bool batch = plan->norm.of_batch;
    const ptrdiff_t length = plan->length, rows = batch ? c->images : 1,
                    stride = batch ? plan->norm.sets * length : length;
    norm_pass p = { .c = c,
                    .plan = plan,
                    .set = { rows, length, stride },
                    .end = batch ? plan->norm.sets : c->images * plan->norm.sets,
                    .x = st_data(x),
                    .dy = st_data(dy),
                    .weight = c->layer->params > NORM_WEIGHT ? st_data(c->param[NORM_WEIGHT]) : NULL,
                    .bias = c->layer->params > NORM_BIAS ? st_data(c->param[NORM_BIAS]) : NULL,
                    .to = st_data(to),
                    .mean = st_data(st_memory(c, NORM_MEAN)),
                    .deviation = st_data(st_memory(c, NORM_DEVIATION)),
                    .dweight = gradient ? st_data(st_grad(c, NORM_WEIGHT)) : NULL,
                    .dbias =
                        gradient && c->layer->params > NORM_BIAS ? st_data(st_grad(c, NORM_BIAS)) : NULL };
    /* A short set that was just read is in the first cache: nothing is read while it is written. */
    const ptrdiff_t least = batch || p.dy ? STREAM_PIECE : NEARBY;
    p.streams = layer_streams(c) && p.to != p.x && p.to != p.dy && length / plan->parts >= least;
    p.together = together(plan, c->images, c->layer->impl->run->threads, p.dy != NULL, p.streams);
    p.alike = plan->side_by_side ? p.together : 1;
    if (plan->by_element && plan->apart == 0 && !p.to)
        p.together = p.alike = largest(p.together, SIDE_BY_SIDE);
    if (plan->spread) spread_parameters(&p);
    return p;
}

/* The index of the first weight of set k. */
static ptrdiff_t first_weight(const set_division *plan, ptrdiff_t k)
{
    return k % plan->norm.sets * plan->apart;
}

/* The weights of the elements of set k; NULL: they have none of their own. */
static const st_real *weights_of(const norm_pass *p, ptrdiff_t k)
{
    return p->plan->by_element ? p->weight + first_weight(p->plan, k) : NULL;
}

static double norm_weight(const norm_pass *p, ptrdiff_t k)
{
    return p->weight && !p->plan->by_element ? (double)p->weight[k] : 1;
}

INLINE set_moments batch_moments(const norm_pass *p, ptrdiff_t k, const st_real *x, st_real near,
                                 norm_sums sums)
{
    const st_tensor *state = p->c->layer->state;
    set_moments m = { (double)st_data(state[NORM_RUNNING_MEAN])[k],
                      (double)st_data(state[NORM_RUNNING_VAR])[k], 1, 0 };
    m.deviation = deviation_of(m, p->plan->norm.epsilon);
    if (!p->c->training) return m;
    m = moments_of(p->set, x, near, sums, p->plan->norm.epsilon, true);
    norm_update_running(p->c, k, (double)(p->set.rows * p->set.length), m.mean, m.variance * m.unit * m.unit);
    return m;
}

/* y = (x - mean) scale weight + bias, with a weight and a bias for each element from `begin` on of set k. */
INLINE void apply_elements(const norm_pass *p, ptrdiff_t k, ptrdiff_t begin, ptrdiff_t n, st_real *y,
                           const st_real *x)
{
    const ptrdiff_t first = first_weight(p->plan, k) + begin;
    const st_real mean = p->mean[k], scale = 1 / p->deviation[k], *weight = p->weight + first,
                  *bias = p->bias ? p->bias + first : NULL;
    for (ptrdiff_t i = 0; i < n; i++) {
        const st_real v = (x[i] - mean) * scale * weight[i];
        y[i] = bias ? v + bias[i] : v;
    }
}

/* norm_apply and norm_adjoint of pieces of a row that is written past the caches. */
typedef struct applied_row {
    double mean, scale, shift;
    ptrdiff_t ahead; /* to the elements that are fetched meanwhile; 0: none */
} applied_row;

WIDE static void apply_piece(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    const applied_row *a = context;
    (void)stride;
    if (a->ahead) prefetch(n, at[1] + a->ahead);
    norm_apply(n, at[0], at[1], a->mean, a->scale, a->shift);
}

APART static void stream_applied(const norm_pass *p, ptrdiff_t n, st_real *y, const st_real *x, double mean,
                                 double scale, double shift)
{
    applied_row a = { mean, scale, shift, p->plan->norm.of_batch ? p->together * p->set.length : 0 };
    stream_row(n, 2, (st_real *const[]){ y, (st_real *)x }, apply_piece, &a);
}

typedef struct adjoined_row {
    double weight;
    norm_slopes slopes;
    ptrdiff_t ahead; /* to the elements that are fetched meanwhile; 0: none */
} adjoined_row;

WIDE static void adjoint_piece(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    const adjoined_row *a = context;
    (void)stride;
    if (a->ahead) prefetch(n, at[1] + a->ahead), prefetch(n, at[2] + a->ahead);
    norm_adjoint(n, at[0], at[1], at[3], a->weight, at[2], a->slopes);
}

APART static void stream_adjoint(ptrdiff_t n, st_real *dx, const st_real *dy, const st_real *weights,
                                 double w, const st_real *x, norm_slopes s, ptrdiff_t ahead)
{
    adjoined_row a = { w, s, ahead };
    stream_row(n, weights ? 4 : 3, (st_real *const[]){ dx, (st_real *)dy, (st_real *)x, (st_real *)weights },
               adjoint_piece, &a);
}

/* One of the two; `streams` is the pass's, read before a loop. */
INLINE void run_apply(bool streams, const norm_pass *p, ptrdiff_t n, st_real *y, const st_real *x,
                      double mean, double scale, double shift)
{
    if (__builtin_expect(streams, false)) stream_applied(p, n, y, x, mean, scale, shift);
    else norm_apply(n, y, x, mean, scale, shift);
}

INLINE void run_adjoint(bool streams, ptrdiff_t n, st_real *dx, const st_real *dy, const st_real *weights,
                        double w, const st_real *x, norm_slopes s, ptrdiff_t ahead)
{
    if (__builtin_expect(streams, false)) stream_adjoint(n, dx, dy, weights, w, x, s, ahead);
    else norm_adjoint(n, dx, dy, weights, w, x, s);
}

/* norm_apply of rows by columns. */
INLINE void apply_columns(const norm_pass *p, const norm_columns *c, ptrdiff_t first, st_real *y)
{
    const ptrdiff_t n = c->count * c->set.length;
    st_real *const *column = c->room->column, *middle = column[0], *slope = column[1], *height = column[2],
                   *each = column[3];
    memset(height, 0, (size_t)n * sizeof *height);
    each_column(c, p->mean + first, middle);
    for (ptrdiff_t k = 0; k < c->count; k++)
        each[k] = (st_real)(norm_weight(p, first + k) / (double)p->deviation[first + k]);
    each_column(c, each, slope);
    if (p->bias) each_column(c, p->bias + first, height);
    for (ptrdiff_t r = 0; r < c->set.rows; r++) {
        const st_real *x = c->x + r * c->stride_x;
        st_real *to = y + r * c->set.stride;
        prefetch_row(c, r, x, c->stride_x);
        for (ptrdiff_t i = 0; i < n; i++) to[i] = (x[i] - middle[i]) * slope[i] + height[i];
    }
}

/* norm_adjoint of rows by columns; or, where mean and variance are constants, dx = dy slope. */
INLINE void adjoint_columns(const norm_pass *p, const norm_columns *c, ptrdiff_t first,
                            const norm_slopes *slopes, bool constants, st_real *dx)
{
    const ptrdiff_t n = c->count * c->set.length;
    st_real *const *column = c->room->column, *weight = column[0], *middle = column[1], *mean_g = column[2],
                   *slope = column[3], *scale = column[4];
    for (ptrdiff_t i = 0; i < n; i++) {
        const ptrdiff_t k = i / c->set.length;
        const norm_slopes s = slopes[k];
        const double w = norm_weight(p, first + k);
        weight[i] = (st_real)(constants ? w / (double)p->deviation[first + k] : w);
        middle[i] = s.middle, mean_g[i] = s.mean_g, slope[i] = s.slope, scale[i] = s.scale;
    }
    for (ptrdiff_t r = 0; r < c->set.rows; r++) {
        const st_real *x = c->x + r * c->stride_x, *dy = c->g + r * c->stride_g;
        prefetch_row(c, r, x, c->stride_x), prefetch_row(c, r, dy, c->stride_g);
        st_real *to = dx + r * c->set.stride;
        if (constants)
            for (ptrdiff_t i = 0; i < n; i++) to[i] = dy[i] * weight[i];
        else
            for (ptrdiff_t i = 0; i < n; i++)
                to[i] = (weight[i] * dy[i] - mean_g[i] - (x[i] - middle[i]) * slope[i]) * scale[i];
    }
}

/* Fetches set k, whose turn is next. */
INLINE void prefetch_set(const norm_pass *p, ptrdiff_t k)
{
    const ptrdiff_t n = p->set.length;
    if (n < BLOCK || p->plan->norm.of_batch || k >= p->end || p->end * n < NEAR) return;
    prefetch(n, p->x + k * n);
}

static norm_room room_of(const norm_pass *p, ptrdiff_t first, ptrdiff_t count)
{
    const ptrdiff_t length = p->set.length;
    return room_at(st_data(st_scratch(p->c, ROOM)) + first * length * ROOM_OF_COLUMN, count * length);
}

/* norm_apply of the sets from `first` on, whose x and y these are. */
INLINE void apply_sets(const norm_pass *p, ptrdiff_t first, ptrdiff_t count, const st_real *x, st_real *y,
                       bool streams)
{
    const set_division *plan = p->plan;
    const norm_set s = p->set;
    const ptrdiff_t part = s.length / plan->parts;
    for (ptrdiff_t r = 0; r < s.rows; r++)
        for (ptrdiff_t k = 0; k < count; k++) {
            prefetch_set(p, first + count + k);
            for (ptrdiff_t i = 0, w = first_weight(plan, first + k); i < plan->parts; i++, w++) {
                const ptrdiff_t at = r * s.stride + k * s.length + i * part;
                run_apply(streams, p, part, y + at, x + at, (double)p->mean[first + k],
                          norm_weight(p, w) / (double)p->deviation[first + k],
                          p->bias ? (double)p->bias[w] : 0);
            }
        }
}

/* The same in a function of its own: inlined with it, rows that are short would take a tenth longer. */
WIDE static __attribute__((noinline)) void stream_sets(const norm_pass *p, ptrdiff_t first, ptrdiff_t count,
                                                       const st_real *x, st_real *y)
{
    apply_sets(p, first, count, x, y, true);
}

/* Channels of a batch are adjacent in an image, so several are processed together, image by image. */
INLINE void forward_sets(const norm_pass *p, ptrdiff_t first, ptrdiff_t count)
{
    const set_division *plan = p->plan;
    const norm_set s = p->set;
    const bool batch = plan->norm.of_batch, constants = batch && !p->c->training; /* mean and variance */
    const st_real *x = p->x + first * s.length;
    st_real *y = p->to + first * s.length, some_near[MOST];
    norm_sums some_sums[MOST];
    const bool narrow = plan->narrow;
    const norm_room room =
        narrow ? room_of(p, first, count) : (norm_room){ .sums = some_sums, .near = some_near };
    norm_sums *sums = room.sums;
    st_real *near = room.near;
    for (ptrdiff_t k = 0; k < count; k++) near[k] = 0, sums[k] = (norm_sums){ 0 };
    norm_columns columns = { s, count, x, x, near, s.stride, s.stride, true, &room };
    if (plan->norm.centred && !constants) near_means(near, sums, s, count, x);
    if (narrow && !constants) add_columns(sums, &columns);
    for (ptrdiff_t r = 0; r < s.rows && !constants && !narrow; r++) {
        const st_real *row = x + r * s.stride;
        if (r + 1 < s.rows) prefetch(count * s.length, row + s.stride);
        add_rows(sums, (norm_rows){ count, s.length, s.length, row, row, near, .shifted = true });
    }
    for (ptrdiff_t k = 0; k < count; k++) {
        const st_real *set = x + k * s.length;
        const set_moments m =
            batch ? batch_moments(p, first + k, set, near[k], sums[k])
                  : moments_of(s, set, near[k], sums[k], plan->norm.epsilon, plan->norm.centred);
        p->mean[first + k] = (st_real)m.mean;
        p->deviation[first + k] = (st_real)m.deviation;
    }
    for (ptrdiff_t k = 0; k < count && plan->by_element; k++) {
        prefetch_set(p, first + count + k);
        apply_elements(p, first + k, 0, s.length, y + k * s.length, x + k * s.length);
    }
    if (narrow) apply_columns(p, &columns, first, y);
    if (plan->by_element || narrow) return;
    if (p->streams) stream_sets(p, first, count, x, y);
    else apply_sets(p, first, count, x, y, false);
}

/* Adds the gradients of some octets of elements over `count` rows: of the weights to to[0] and, unless it is
 * NULL, of the biases to to[1]; of one octet without the lanes that `kept` leaves out, unless it is NULL. */
INLINE void add_lanes(int octets, const isa_bits *kept, ptrdiff_t count, ptrdiff_t apart, const st_real *x,
                      const st_real *dy, const st_real *mean, const st_real *scale, st_real *const to[2],
                      ptrdiff_t at)
{
    octet weights[ELEMENT_OCTETS], biases[ELEMENT_OCTETS];
    EACH(v, octets) weights[v] = biases[v] = OCTET_OF(to[0], at + v * OCTET);
    if (to[1]) EACH(v, octets) biases[v] = OCTET_OF(to[1], at + v * OCTET);
    x += at, dy += at;
    for (ptrdiff_t r = 0; r < count; r++, x += apart, dy += apart) EACH(v, octets)
        {
            octet g = OCTET_OF(dy, v * OCTET), term = (OCTET_OF(x, v * OCTET) - mean[r]) * scale[r] * g;
            if (kept) g = MASKED(g, kept), term = MASKED(term, kept);
            weights[v] += term, biases[v] += g;
        }
    EACH(v, octets)
    {
        *(octet_at *)(to[0] + at + v * OCTET) = weights[v];
        if (to[1]) *(octet_at *)(to[1] + at + v * OCTET) = biases[v];
    }
}

/* Not inlined: gcc would warn that a scale may not have been set. */
APART static void set_scales(st_real *scale, ptrdiff_t count, const st_real *deviation)
{
    for (ptrdiff_t r = 0; r < count; r++) scale[r] = 1 / deviation[r];
}

/* Adds the gradients of the weights and biases of n elements of `count` sets from k on, which have the same
 * weights: x and dy begin with the element `begin` of set k. The last octet ends with the last element. Fewer
 * elements than lanes are read with the first ones of the next set, whose sums are not used. */
INLINE void add_elements(const norm_pass *p, ptrdiff_t k, ptrdiff_t count, ptrdiff_t begin, ptrdiff_t n,
                         const st_real *x, const st_real *dy)
{
    const ptrdiff_t first = first_weight(p->plan, k) + begin, apart = p->set.length;
    const st_real *mean = p->mean + k;
    st_real *const to[2] = { p->dweight + first, p->dbias ? p->dbias + first : NULL };
    st_real scale[MOST], own[2][OCTET] = { 0 };
    ptrdiff_t i = 0, whole = 0;
    set_scales(scale, count, p->deviation + k);
    for (; i + ELEMENT_OCTETS * OCTET <= n; i += ELEMENT_OCTETS * OCTET)
        add_lanes(ELEMENT_OCTETS, NULL, count, apart, x, dy, mean, scale, to, i);
    for (; i + OCTET <= n; i += OCTET) add_lanes(1, NULL, count, apart, x, dy, mean, scale, to, i);
    if (i < n && n > OCTET)
        add_lanes(1, ones + n % OCTET, count, apart, x, dy, mean, scale, to, n - OCTET), i = n;
    if (n < OCTET && count > ceil_div(OCTET - n, apart)) {
        whole = count - ceil_div(OCTET - n, apart);
        for (ptrdiff_t j = 0; j < n; j++) own[0][j] = to[0][j], own[1][j] = to[1] ? to[1][j] : 0;
        add_lanes(1, NULL, whole, apart, x, dy, mean, scale, (st_real *const[]){ own[0], own[1] }, 0);
        for (ptrdiff_t j = 0; j < n; j++) to[0][j] = own[0][j];
        for (ptrdiff_t j = 0; j < n && to[1]; j++) to[1][j] = own[1][j];
    }
    for (; i < n; i++)
        for (ptrdiff_t r = whole, at = r * apart + i; r < count; r++, at += apart) {
            to[0][i] += (x[at] - mean[r]) * scale[r] * dy[at];
            if (to[1]) to[1][i] += dy[at];
        }
}

/* Adds the gradients of weights and biases of n parts of set k, from part i on, from the sums over them; and
 * these to the set's. */
INLINE void add_parts(const norm_pass *p, ptrdiff_t k, ptrdiff_t i, ptrdiff_t n, const norm_sums *sums,
                      norm_sums *total)
{
    const ptrdiff_t w = first_weight(p->plan, k) + i;
    const bool own = p->dweight && !p->plan->by_element;
    const double deviation = (double)p->deviation[k];
    st_real *kept = own && p->kept ? p->kept + 2 * ((k - p->first) * p->plan->parts + i) : NULL;
    if (kept)
        for (ptrdiff_t r = 0; r < n; r++)
            kept[2 * r] = (st_real)(sums[r].product / deviation), kept[2 * r + 1] = (st_real)sums[r].g;
    else if (own)
        for (ptrdiff_t r = 0; r < n; r++)
            p->dweight[w + r] += (st_real)(sums[r].product / deviation),
                p->dbias[w + r] += (st_real)sums[r].g;
    for (ptrdiff_t r = 0; r < n && p->to; r++) {
        const double weight = norm_weight(p, w + r);
        total->g += p->plan->norm.centred ? weight * sums[r].g : 0;
        total->product += weight * sums[r].product;
    }
}

/* Runs of parts of one set, of `some` parts from i on: those from the r-th on are set k's from w on. */
#define EACH_RUN(i, some, parts, r, run, k, w)                                                               \
    for (ptrdiff_t r = 0, k = (i) / (parts), w = (i) % (parts), run;                                         \
         run = smallest((parts)-w, (some)-r), r < (some); r += run, k++, w = 0)

/* gradient and backward need the same sums, and dx is written while sets are in cache. Rows of x are stride_x
 * apart. */
INLINE void adjoint_sets(const norm_pass *p, ptrdiff_t first, ptrdiff_t count, const st_real *x,
                         ptrdiff_t stride_x)
{
    const set_division *plan = p->plan;
    const norm_set s = p->set;
    const bool streams = p->streams;
    const ptrdiff_t part = s.length / plan->parts;
    const bool constants = plan->norm.of_batch && !p->c->training;               /* mean and variance */
    const bool plain = !plan->norm.of_batch && (!p->weight || plan->by_element); /* no set has a weight */
    const st_real *dy = p->dy + first * s.length, *mean = p->mean + first, *deviation = p->deviation + first;
    norm_sums some_sums[MOST], some_totals[MOST];
    norm_slopes some_slopes[MOST];
    const bool narrow = plan->narrow;
    const norm_room room =
        narrow ? room_of(p, first, count)
               : (norm_room){ .sums = some_sums, .total = some_totals, .slopes = some_slopes };
    norm_sums *sums = room.sums, *total = room.total;
    norm_slopes *slopes = room.slopes;
    for (ptrdiff_t k = 0; k < count; k++)
        sums[k] = total[k] = (norm_sums){ 0 }, slopes[k] = (norm_slopes){ 0 };
    const bool fused = plan->by_element && p->dweight && p->to && !plan->side_by_side && s.length >= OCTET;
    if (plan->by_element && p->dweight && !fused)
        for (ptrdiff_t k = 0, alike = smallest(p->alike, count); k < count; k += alike)
            add_elements(p, first + k, alike, 0, s.length, x + k * s.length, dy + k * s.length);
    const bool needed = (p->dweight && !plan->by_element) || (p->to && !constants);
    const norm_columns columns = { s, count, dy, x, mean, s.stride, stride_x, false, &room };
    if (needed && narrow) {
        add_columns(sums, &columns);
        for (ptrdiff_t k = 0; k < count; k++) add_parts(p, first + k, 0, 1, &sums[k], &total[k]);
    } else if (needed && plan->parts == 1) {
        for (ptrdiff_t r = 0; r < s.rows; r++) {
            const st_real *row_dy = dy + r * s.stride, *row = x + r * stride_x;
            if (r + 1 < s.rows)
                prefetch(count * part, row_dy + s.stride), prefetch(count * part, row + stride_x);
            norm_rows rows = { count, part, part, row_dy, row, .mean = mean };
            st_real scale[MOST];
            if (plan->by_element)
                rows.weight = p->weight, rows.first = first, rows.periods = plan->apart ? plan->norm.sets : 0;
            for (ptrdiff_t k = 0; k < count && fused; k++) scale[k] = 1 / deviation[k];
            if (fused) rows.scale = scale, rows.dweight = p->dweight, rows.dbias = p->dbias;
            add_rows(sums, rows);
        }
        if (plain)
            for (ptrdiff_t k = 0; k < count; k++)
                total[k] = (norm_sums){ plan->norm.centred ? sums[k].g : 0, sums[k].product };
        else
            for (ptrdiff_t k = 0; k < count; k++) add_parts(p, first + k, 0, 1, &sums[k], &total[k]);
    } else if (needed) /* sets of one row, in parts */
        for (ptrdiff_t i = 0, some; i < count * plan->parts; i += some) {
            st_real means[MOST];
            some = smallest(count * plan->parts - i, MOST);
            EACH_RUN(i, some, plan->parts, r, run, k, w)
            for (ptrdiff_t j = r; j < r + run; j++) means[j] = mean[k], sums[j] = (norm_sums){ 0 };
            add_rows(sums, (norm_rows){ some, part, part, dy + i * part, x + i * part, .mean = means });
            EACH_RUN(i, some, plan->parts, r, run, k, w)
            add_parts(p, first + k, w, run, &sums[r], &total[k]);
        }
    for (ptrdiff_t k = 0; k < count && p->to && !constants; k++)
        slopes[k] =
            slopes_of((double)mean[k], (double)deviation[k], total[k], 1 / (double)(s.rows * s.length));
    if (narrow && p->to) adjoint_columns(p, &columns, first, slopes, constants, p->to + first * s.length);
    const bool more = count > 1 && !plan->norm.of_batch && first + 2 * count <= p->end;
    const ptrdiff_t ahead = more ? count * s.length : 0; /* to as many sets, which are next */
    for (ptrdiff_t k = 0; k < count && p->to && plain; k++) {
        const ptrdiff_t at = k * s.length;
        run_adjoint(streams, s.length, p->to + first * s.length + at, dy + at, weights_of(p, first + k), 1,
                    x + at, slopes[k], ahead);
    }
    for (ptrdiff_t r = 0; r < s.rows && p->to && !narrow && !plain; r++)
        for (ptrdiff_t k = 0; k < count; k++)
            for (ptrdiff_t i = 0, w = first_weight(plan, first + k); i < plan->parts; i++, w++) {
                const ptrdiff_t at = k * s.length + i * part, to = first * s.length + r * s.stride + at;
                const st_real *g = dy + r * s.stride + at;
                const double weight = norm_weight(p, w);
                if (constants)
                    run_apply(streams, p, part, p->to + to, g, 0, weight / (double)deviation[k], 0);
                else
                    run_adjoint(streams, part, p->to + to, g, NULL, weight, x + r * stride_x + at, slopes[k],
                                ahead);
            }
}

/* The sums of segment i of the first set, whose mean is near for x's, or its result. */
INLINE void run_segment(const norm_pass *p, ptrdiff_t i)
{
    const ptrdiff_t k = p->first, begin = i * SEGMENT, n = smallest(p->set.length - begin, SEGMENT),
                    at = k * p->set.length + begin;
    const st_real *x = p->x + at, *g = p->dy ? p->dy + at : x, mean = p->mean[k];
    st_real *to = p->to + at;
    if (p->dweight && !p->slopes) add_elements(p, k, 1, begin, n, x, g);
    const st_real *weights = p->dy ? weights_of(p, k) : NULL;
    if (weights) weights += begin;
    if (!p->slopes) {
        p->sums[i] = (norm_sums){ 0 };
        add_rows(&p->sums[i], (norm_rows){ 1, n, n, g, x, &mean, !p->dy, .weight = weights });
    } else if (p->dy) run_adjoint(p->streams, n, to, g, weights, 1, x, *p->slopes, 0);
    else if (p->plan->by_element) apply_elements(p, k, begin, n, to, x);
    else run_apply(p->streams, p, n, to, x, (double)mean, 1 / (double)p->deviation[k], 0);
}

/* Channel k of some images, by the running statistics. */
INLINE void infer(const norm_pass *p, ptrdiff_t k)
{
    const norm_set s = p->set;
    const set_moments m = batch_moments(p, k, NULL, 0, (norm_sums){ 0 });
    const double mean = (double)(st_real)m.mean, slope = norm_weight(p, k) / (double)(st_real)m.deviation,
                 height = p->bias ? (double)p->bias[k] : 0;
    for (ptrdiff_t r = 0, at = k * s.length; r < s.rows; r++, at += s.stride)
        run_apply(p->streams, p, s.length, p->to + at, p->x + at, mean, slope, height);
}

/* Adds the gradients of some columns' elements over all sets. Hardware foresees no parts of rows. */
INLINE void add_columns_of_sets(const norm_pass *p, ptrdiff_t i)
{
    const ptrdiff_t length = p->set.length, left = i * p->columns, n = smallest(p->columns, length - left);
    for (ptrdiff_t k = p->first, alike; k < p->end; k += alike) {
        const ptrdiff_t at = k * length + left;
        alike = smallest(p->alike, p->end - k);
        if (alike == 1 && k + 1 < p->end) prefetch(n, p->x + at + length), prefetch(n, p->dy + at + length);
        add_elements(p, k, alike, left, n, p->x + at, p->dy + at);
    }
}

/* Piece i of that kind. The scratch of a type that sees the whole batch is not a thread's. */
INLINE void run(const norm_pass *pass, norm_pieces kind, ptrdiff_t i, int thread)
{
    st_call c = *pass->c;
    norm_pass p = *pass;
    if (!p.plan->norm.of_batch) c.thread = thread;
    p.c = &c;
    const ptrdiff_t first = p.first + i * p.together, count = smallest(p.together, p.end - first);
    if (kind == SETS) forward_sets(&p, first, count);
    if (kind == SETS_BACK) adjoint_sets(&p, first, count, p.x + first * p.set.length, p.set.stride);
    if (kind == COLUMNS_OF_SETS) add_columns_of_sets(&p, i);
    if (kind == SEGMENTS) run_segment(&p, i);
    if (kind == CHANNELS) infer(&p, i);
    if (p.streams) stream_end();
}

/* A function for each kind, which has that kind's arrays on its stack alone. */
#define RUN(KIND)                                                                                            \
    static void KIND##_by_any(ptrdiff_t i, int thread, void *p)                                              \
    {                                                                                                        \
        run(p, KIND, i, thread);                                                                             \
    }                                                                                                        \
    WIDE static void KIND##_by_wide(ptrdiff_t i, int thread, void *p)                                        \
    {                                                                                                        \
        run(p, KIND, i, thread);                                                                             \
    }
RUN(SETS)
RUN(SETS_BACK)
RUN(COLUMNS_OF_SETS)
RUN(SEGMENTS)
RUN(CHANNELS)
#define RUNS(KIND) [KIND] = { KIND##_by_any, KIND##_by_wide }

static void each_piece(norm_pass p, norm_pieces kind, ptrdiff_t count, int threads)
{
    static parallel_work *const runs[][2] = { RUNS(SETS), RUNS(SETS_BACK), RUNS(COLUMNS_OF_SETS),
                                              RUNS(SEGMENTS), RUNS(CHANNELS) };
    const bool wide =
        isa_bytes(p.c->layer->impl->isa) >= 32; /* this processor can run functions marked WIDE */
    layer_each(p.c, threads, count, runs[kind][wide], &p);
}

static void each_some_sets(const norm_pass *p, int threads)
{
    each_piece(*p, p->dy ? SETS_BACK : SETS, ceil_div(p->end - p->first, p->together), threads);
}

/* Sets one after another, the segments of each in threads. */
static void by_segments(const norm_pass *all)
{
    const norm_plan *plan = &all->plan->norm;
    const norm_set s = all->set;
    norm_pass p = *all;
    p.sums = (norm_sums *)st_data(st_scratch(p.c, KEPT));
    for (; p.first < p.end; p.first++, p.slopes = NULL) {
        const st_real *x = p.x + p.first * s.length;
        st_real *mean = &p.mean[p.first], *deviation = &p.deviation[p.first];
        norm_sums sums = { 0 };
        if (!p.dy) *mean = 0;
        if (!p.dy && plan->centred) near_means(mean, &sums, s, 1, x);
        each_piece(p, SEGMENTS, p.plan->segments, MOST_THREADS);
        for (ptrdiff_t i = 0; i < p.plan->segments; i++)
            sums.g += p.sums[i].g, sums.product += p.sums[i].product;
        if (!p.dy) {
            const set_moments m = moments_of(s, x, *mean, sums, plan->epsilon, plan->centred);
            *mean = (st_real)m.mean, *deviation = (st_real)m.deviation;
        }
        if (!plan->centred) sums.g = 0;
        const norm_slopes slopes = slopes_of((double)*mean, (double)*deviation, sums, 1 / (double)s.length);
        p.slopes = &slopes;
        each_piece(p, SEGMENTS, p.plan->segments, MOST_THREADS);
    }
}

/* Adds the gradients that a tile's sets have kept. */
static void add_kept(const norm_pass *p)
{
    const ptrdiff_t parts = p->plan->parts;
    const st_real *kept = p->kept;
    for (ptrdiff_t k = p->first; k < p->end; k++, kept += 2 * parts) {
        st_real *dweight = p->dweight + first_weight(p->plan, k),
                *dbias = p->dbias + first_weight(p->plan, k);
        for (ptrdiff_t i = 0; i < parts; i++) dweight[i] += kept[2 * i], dbias[i] += kept[2 * i + 1];
    }
}

/* The gradients of images on several threads. They are added in the order of the sets, so tiles of sets
 * follow each other. If each element has a weight, threads divide the elements; otherwise they divide the
 * sets, whose gradients are kept and added after them. dx, which may be x, is written last. */
static void by_tiles(const norm_pass *all, int threads)
{
    const bool by_element = all->plan->by_element;
    const ptrdiff_t unit = threads * OCTET, tile = by_element && !all->to ? all->end : all->plan->tile;
    for (norm_pass p = *all; p.first < all->end; p.first = p.end) {
        p.end = smallest(p.first + tile, all->end), p.columns = ceil_div(p.set.length, unit) * OCTET;
        norm_pass part = p;
        if (by_element) {
            each_piece(p, COLUMNS_OF_SETS, ceil_div(p.set.length, p.columns), MOST_THREADS);
            part.dweight = part.dbias = NULL;
        } else part.kept = st_data(st_scratch(p.c, KEPT));
        if (!by_element || p.to) each_some_sets(&part, MOST_THREADS);
        if (!by_element) add_kept(&part);
    }
}

/* Sets run in any order, in any thread; those of images in order if their gradients are added up. */
static void each_set(const st_call *c, st_tensor x, st_tensor dy, st_tensor to, bool gradient)
{
    const norm_pass p = pass_over(c, x, dy, to, gradient);
    const bool in_order = gradient && !p.plan->norm.of_batch;
    const int threads = layer_call_threads(c);
    if (!st_is_null(to) && p.plan->segments > 0) by_segments(&p);
    else if (in_order && threads > 1) by_tiles(&p, threads);
    else each_some_sets(&p, in_order ? 1 : MOST_THREADS);
    gather_gradients(&p);
}

static st_tensor contiguous(st_tensor x, st_tensor copy)
{
    if (st_is_contiguous(x)) return x;
    st_copy(copy, x);
    return copy;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    each_set(c, contiguous(x, y), (st_tensor){ 0 }, y, false);
}

void batchnorm_infer(const st_call *c, st_tensor x, st_tensor y)
{
    norm_pass p = pass_over(c, contiguous(x, y), (st_tensor){ 0 }, y, false);
    each_piece(p, CHANNELS, p.end, MOST_THREADS);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    each_set(c, contiguous(x, dx), dy, dx, false);
}

static void both(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    each_set(c, contiguous(x, dx), dy, dx, true);
}

/* Copies an x that is not contiguous channel by channel (batchnorm), or image by image. */
static void gradient_alone(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    if (st_is_contiguous(x)) {
        each_set(c, x, dy, (st_tensor){ 0 }, true);
        return;
    }
    const norm_pass p = pass_over(c, x, dy, (st_tensor){ 0 }, true);
    const int axis = p.plan->norm.of_batch ? 1 : 0;
    const ptrdiff_t each = p.end / x.shape.n[axis];
    for (ptrdiff_t i = 0; i < x.shape.n[axis]; i++) {
        const st_tensor source = st_select(x, axis, i);
        const st_tensor copy = st_narrow(st_scratch(c, COPY), 0, 0, st_numel(source));
        st_copy(st_reshape(copy, source.shape), source);
        for (ptrdiff_t k = 0; k < each; k++)
            adjoint_sets(&p, i * each + k, 1, st_data(copy) + k * p.set.length, p.set.length);
    }
    gather_gradients(&p);
}

/* ---- the algorithms ---------------------------------------------------------------------------------- */

static bool suits(const st_layer *l)
{
    (void)l;
    return true;
}

#define ALGORITHM(NAME, OF_IMAGES)                                                                           \
    const layer_algorithm NAME##_sets = { .type = &layer_type_##NAME,                                        \
                                          .suits = suits,                                                    \
                                          .plan = plan_division,                                             \
                                          .hooks = { forward, backward, gradient_alone, both,                \
                                                     .divides = OF_IMAGES } };
ALGORITHM(batchnorm, false)
ALGORITHM(layernorm, true)
ALGORITHM(rmsnorm, true)
ALGORITHM(groupnorm, true)
