/* slide.c: see slide.h. This file is compiled with -ffp-contract=fast: multiply-adds are fused where the
 * processor can. */
#include "layers/fast/slide.h"
#include "layers/fast/kernel.h"
#include "layers/fast/lanes.h"
#include "tensor/counts.h"

enum { ROWS = SLIDE_ROWS, TILES = 128 }; /* that are planned at a time */

#define EACH_ROW(i, count) _Pragma("GCC unroll 32") for (int i = 0; i < (count); i++)

/* Tap t of a window reads row j, where windows are D rows apart. */
#define READS(j, t, D) ((j) >= (t) && ((j) - (t)) % (D) == 0 && ((j) - (t)) / (D) < ROWS)

/* Elements, or every other element, of an image or of two. */
#define READ_1_1(M, at, other) AT(M, at)
#define READ_2_1(M, at, other) SHUFFLE(M, AT(M, at), AT(M, (at) + ISA_LANES(M) - 1), M##_OF(SPLIT))
#define READ_1_2(M, at, other) HALVES(M, at, other)
#define READ_2_2(M, at, other) SHUFFLE(M, AT(M, at), AT(M, (at) + (other)), M##_OF(EVEN))
#define MASK(M, S, I, at) ((M##_mask)READ_##S##_##I(M, at, 0))

#define WRITE_1(M, at, other, v) AT(M, at) = (v)
#define WRITE_2(M, at, other, v)                                                                             \
    *(M##_half *)(at) = __builtin_shufflevector(v, v, M##_OF(FIRST)),                                        \
               *(M##_half *)((at) + (other)) = __builtin_shufflevector(v, v, M##_OF(SECOND))

/* The first elements of rows of an image or of two. */
static void write_part(const st_real *from, int lanes, int each, ptrdiff_t rows, ptrdiff_t width, st_real *to,
                       ptrdiff_t far, ptrdiff_t beside)
{
    for (ptrdiff_t r = 0; r < rows; r++, from += lanes, to += far)
        for (int i = 0; i < lanes; i++)
            if (i % each < width) to[i / each * beside + i % each] = from[i];
}

/* Fetches a tile's share of the plane after plane n, which begins at b. */
INLINE void fetch_ahead(const slide_planes *p, ptrdiff_t n, const st_real *b, ptrdiff_t tile, ptrdiff_t tiles)
{
    const ptrdiff_t share = p->read / tiles;
    if (p->ahead && n + 1 < p->count) FETCH_LINES(b + p->read + tile * share, share, 0, 2);
}

#define MAKE(M, I, S, D, T)                                                                                  \
    M##_TARGET static void M##_make_##I##_##S##_##D##_##T(                                                   \
        const slide_columns *s, const slide_planes *p, const slide_tile *tile, ptrdiff_t tiles,              \
        const st_real *weight, const st_real *b, st_real *c, ptrdiff_t far)                                  \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M), EACH = LANES / (I) };                                                   \
        const ptrdiff_t pitch = s->pitch, down = s->down, other = p->other_read, beside = p->other_made;     \
        (void)other, (void)beside;                                                                           \
        for (ptrdiff_t n = 0, m = 0; n < p->count; n++, weight += p->weight, c += p->made) {                 \
            for (const slide_tile *q = tile; q < tile + tiles; q++) {                                        \
                M##_vector sum[ROWS];                                                                        \
                st_real aside[ROWS * LANES], *to = c + q->to;                                                \
                const ptrdiff_t rows = q->rows;                                                              \
                fetch_ahead(p, n, b, q - tile, tiles);                                                       \
                sum[0] = (p->plus ? p->plus[n] : 0) - (M##_vector){ 0 };                                     \
                EACH_ROW(r, ROWS) sum[r] = sum[0];                                                           \
                for (ptrdiff_t k = 0; k < s->count; k++) {                                                   \
                    const st_real *from = b + q->from + s->offset[k], *w = weight + s->at[k];                \
                    const M##_mask keep = MASK(M, S, I, q->keep + s->left[k]);                               \
                    const unsigned inside = (unsigned)*(const volatile ptrdiff_t *)(q->inside + s->line[k]); \
                    M##_vector tap[T];                                                                       \
                    EACH_ROW(t, T) tap[t] = w[t * down] - (M##_vector){ 0 };                                 \
                    EACH_ROW(j, (ROWS - 1) * D + T)                                                          \
                    {                                                                                        \
                        if (inside & 1U << j) {                                                              \
                            const M##_vector x =                                                             \
                                (M##_vector)(keep & (M##_mask)READ_##S##_##I(M, from, other));               \
                            EACH_ROW(t, T)                                                                   \
                            if (READS(j, t, D)) sum[(j - t) / D] = M##_FUSED(x, tap[t], sum[(j - t) / D]);   \
                        }                                                                                    \
                        from += pitch;                                                                       \
                    }                                                                                        \
                }                                                                                            \
                if (n < p->exact || q->width >= EACH) {                                                      \
                    EACH_ROW(r, ROWS)                                                                        \
                    {                                                                                        \
                        if (r < rows) {                                                                      \
                            WRITE_##I(M, to, beside, sum[r]);                                                \
                        }                                                                                    \
                        to += far;                                                                           \
                    }                                                                                        \
                    continue;                                                                                \
                }                                                                                            \
                EACH_ROW(r, ROWS) AT(M, aside + r * LANES) = sum[r];                                         \
                write_part(aside, LANES, EACH, rows, q->width, to, far, beside);                             \
            }                                                                                                \
            if (++m == p->shared) m = 0, b += p->read;                                                       \
        }                                                                                                    \
    }

#define DOTS(M, I, S, D, T)                                                                                  \
    M##_TARGET static void M##_dots_##I##_##S##_##D##_##T(                                                   \
        const slide_columns *s, const slide_planes *p, const slide_tile *tile, ptrdiff_t tiles,              \
        const st_real *b, const st_real *dy, ptrdiff_t far, st_real *sum)                                    \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M), EACH = LANES / (I) };                                                   \
        const ptrdiff_t pitch = s->pitch, other = p->other_read, beside = p->other_made;                     \
        const isa_bits all = p->alone ? EACH : LANES;                                                        \
        (void)other, (void)beside;                                                                           \
        M##_mask used;                                                                                       \
        for (isa_bits e = 0; e < LANES; e++) used[e] = -(e < all);                                           \
        for (ptrdiff_t n = 0, m = 0; n < p->count; n++, dy += p->made, sum += s->count * T * LANES) {        \
            for (const slide_tile *q = tile; q < tile + tiles; q++) {                                        \
                const isa_bits skip = (isa_bits)q->skip, end = (isa_bits)q->width;                           \
                const ptrdiff_t rows = q->rows;                                                              \
                st_real *to = sum;                                                                           \
                fetch_ahead(p, n, b, q - tile, tiles);                                                       \
                M##_mask own = { 0 };                                                                        \
                M##_vector d[ROWS];                                                                          \
                for (isa_bits e = 0; e < LANES; e++) own[e] = -(e % EACH >= skip && e % EACH < end);         \
                own &= used;                                                                                 \
                EACH_ROW(r, ROWS) d[r] = (M##_vector){ 0 };                                                  \
                EACH_ROW(r, ROWS)                                                                            \
                if (r < rows)                                                                                \
                    d[r] = (M##_vector)(own & (M##_mask)READ_1_##I(M, dy + q->to + r * far, beside));        \
                for (ptrdiff_t k = 0; k < s->count; k++, to += T * LANES) {                                  \
                    const st_real *from = b + q->from + s->offset[k];                                        \
                    const M##_mask keep = used & MASK(M, S, I, q->keep + s->left[k]);                        \
                    const unsigned inside = (unsigned)*(const volatile ptrdiff_t *)(q->inside + s->line[k]); \
                    M##_vector total[T];                                                                     \
                    EACH_ROW(t, T) total[t] = AT(M, to + t * LANES);                                         \
                    EACH_ROW(j, (ROWS - 1) * D + T)                                                          \
                    {                                                                                        \
                        if (inside & 1U << j) {                                                              \
                            const M##_vector x =                                                             \
                                (M##_vector)(keep & (M##_mask)READ_##S##_##I(M, from, other));               \
                            EACH_ROW(t, T)                                                                   \
                            if (READS(j, t, D)) total[t] = M##_FUSED(x, d[(j - t) / D], total[t]);           \
                        }                                                                                    \
                        from += pitch;                                                                       \
                    }                                                                                        \
                    EACH_ROW(t, T) AT(M, to + t * LANES) = total[t];                                         \
                }                                                                                            \
            }                                                                                                \
            if (++m == p->shared) m = 0, b += p->read;                                                       \
        }                                                                                                    \
    }

/* clang-format off */
#define EACH_TAPS(DO, M, I, S, D)                                                                            \
    DO(M, I, S, D, 2) DO(M, I, S, D, 3) DO(M, I, S, D, 4)                                                    \
    DO(M, I, S, D, 5) DO(M, I, S, D, 6) DO(M, I, S, D, 7)
#define BOTH(M, I, S, D, T) MAKE(M, I, S, D, T) DOTS(M, I, S, D, T)
#define MADE(M, I, S, D, T) M##_make_##I##_##S##_##D##_##T,
#define SUMS(M, I, S, D, T) M##_dots_##I##_##S##_##D##_##T,
#define SLIDE(M, I)                                                                                          \
    BOTH(M, I, 1, 1, 1) EACH_TAPS(BOTH, M, I, 1, 1)                                                          \
    BOTH(M, I, 2, 1, 1) EACH_TAPS(BOTH, M, I, 2, 1) EACH_TAPS(BOTH, M, I, 2, 2)
#define EACH_FORM(DO, M, I)                                                                                  \
    { { DO(M, I, 1, 1, 1) EACH_TAPS(DO, M, I, 1, 1) }, { DO(M, I, 2, 1, 1) EACH_TAPS(DO, M, I, 2, 1) },      \
      { NULL, EACH_TAPS(DO, M, I, 2, 2) } }
#define OF_ISA(M, I) { ISA_LANES(M) / (I), I, EACH_FORM(MADE, M, I), EACH_FORM(SUMS, M, I) },
#define ONE(M) SLIDE(M, 1)
#define OF_ONE(M) OF_ISA(M, 1)
/* clang-format on */

EACH_ISA(ONE)
static const slide slide_of_isa[] = { EACH_ISA(OF_ONE) };

#ifdef PAIRS
#define FIRST_4 0, 1
#define FIRST_8 0, 1, 2, 3
#define FIRST_16 0, 1, 2, 3, 4, 5, 6, 7
#define SECOND_4 2, 3
#define SECOND_8 4, 5, 6, 7
#define SECOND_16 8, 9, 10, 11, 12, 13, 14, 15
SLIDE(avx512, 2)
SLIDE(avx2, 2)
static const slide pair_of_isa[] = { OF_ISA(avx512, 2) OF_ISA(avx2, 2) };
enum { PAIRED = sizeof pair_of_isa / sizeof *pair_of_isa };
#else
static const slide *const pair_of_isa = NULL;
enum { PAIRED = 0 };
#endif

enum { ISAS = sizeof slide_of_isa / sizeof *slide_of_isa };
static const double WIDEST = 1.6, /* the cost of a vector of 64 bytes, in others; */
    JOIN = 1.1;                   /* of a vector that is joined */

const slide *slide_of(int isa, ptrdiff_t width, int images, double *cost)
{
    const slide *best = NULL;
    const double widest = slide_of_isa[isa].lanes == LANES_MOST ? WIDEST : 1;
    for (; isa < ISAS; isa++)
        for (int pair = 0; pair < (images > 1 && isa < PAIRED ? 2 : 1); pair++) {
            const slide *v = pair ? &pair_of_isa[isa] : &slide_of_isa[isa];
            if (pair && width > v->lanes) continue;
            const double each = v->lanes * v->images == LANES_MOST ? 1 : 1 / widest,
                         time = each * (pair ? JOIN / 2 : 1) * (double)ceil_div(width, v->lanes);
            if (best && time >= *cost) continue;
            best = v, *cost = time;
        }
    return best;
}

/* The first tile of some rows from number `row` on. */
static slide_tile tile_of(const slide_columns *s, ptrdiff_t row, ptrdiff_t rows, ptrdiff_t width,
                          ptrdiff_t far)
{
    return (slide_tile){ .from = s->first + row * s->next,
                         .to = row * far,
                         .inside = s->inside + row / ROWS * s->lines,
                         .rows = smallest(ROWS, rows - row),
                         .width = width,
                         .keep = s->keep };
}

/* Some tiles from number `first` on, row by row; returns their number. */
static ptrdiff_t fill_tiles(const slide *v, const slide_columns *s, int stride, ptrdiff_t rows,
                            ptrdiff_t width, ptrdiff_t far, ptrdiff_t first, slide_tile tile[TILES])
{
    const ptrdiff_t across = ceil_div(width, v->lanes),
                    count = smallest(TILES, across * ceil_div(rows, ROWS) - first);
    ptrdiff_t row = first / across * ROWS, at = first % across * v->lanes;
    slide_tile begin = tile_of(s, row, rows, width, far);
    for (ptrdiff_t i = 0; i < count; i++, at += v->lanes) {
        if (at >= width) at = 0, row += ROWS, begin = tile_of(s, row, rows, width, far);
        const ptrdiff_t column = largest(0, smallest(at, width - v->lanes));
        tile[i] = (slide_tile){ .from = begin.from + column * stride,
                                .to = begin.to + column,
                                .inside = begin.inside,
                                .rows = begin.rows,
                                .width = width - column,
                                .skip = at - column,
                                .keep = begin.keep + column * stride };
    }
    return count;
}

/* Runs `DO` with some tiles: all planes if there are no others, else plane by plane. */
#define EACH_TILES(DO)                                                                                       \
    slide_tile tile[TILES];                                                                                  \
    const ptrdiff_t all = ceil_div(width, v->lanes) * ceil_div(rows, ROWS);                                  \
    slide_planes some = *p;                                                                                  \
    if (all > TILES) some.count = 1;                                                                         \
    for (ptrdiff_t n = 0, i, tiles; n < p->count; n += some.count, some.exact -= some.count) {               \
        for (i = 0; i < all; i += tiles) {                                                                   \
            tiles = fill_tiles(v, s, stride, rows, width, far, i, tile);                                     \
            DO;                                                                                              \
        }                                                                                                    \
        if (some.plus) some.plus += some.count;                                                              \
    }

/* One row of windows is in any form. */
static int form_of(const slide_columns *s, int stride)
{
    return stride == 1 ? ROWS_1_1 : s->next == s->pitch ? ROWS_1_2 : ROWS_2_2;
}

void slide_image(const slide *v, const slide_columns *s, const slide_planes *p, int stride, int taps,
                 ptrdiff_t rows, ptrdiff_t width, const st_real *weight, const st_real *b, st_real *c,
                 ptrdiff_t far)
{
    slide_make *make = v->make[form_of(s, stride)][taps - 1];
    EACH_TILES(make(s, &some, tile, tiles, weight + n * p->weight, b + n / p->shared * p->read,
                    c + n * p->made, far))
}

void slide_sum_image(const slide *v, const slide_columns *s, const slide_planes *p, int stride, int taps,
                     ptrdiff_t rows, ptrdiff_t width, const st_real *b, const st_real *dy, st_real *sum)
{
    slide_dots *dots = v->dots[form_of(s, stride)][taps - 1];
    const ptrdiff_t size = s->count * taps * v->lanes * v->images, far = width;
    EACH_TILES(
        dots(s, &some, tile, tiles, b + n / p->shared * p->read, dy + n * p->made, far, sum + n * size))
}
