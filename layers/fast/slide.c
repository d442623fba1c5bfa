/* slide.c: see slide.h. This file is compiled with -ffp-contract=fast: multiply-adds are fused where the
 * processor can. */
#include "layers/fast/slide.h"
#include "layers/fast/kernel.h"
#include "tensor/counts.h"

enum { ROWS = SLIDE_ROWS };

#define EACH_ROW(i, count) _Pragma("GCC unroll 32") for (int i = 0; i < (count); i++)

/* Tap t of window r reads row j. */
#define READS(j, t, S, R) ((j) >= (t) && ((j) - (t)) % (S) == 0 && ((j) - (t)) / (S) < (R))

/* Elements, or every other element. */
#define READ_1(M, at) AT(M, at)
#define READ_2(M, at) SHUFFLE(M, AT(M, at), AT(M, (at) + ISA_LANES(M) - 1), M##_OF(SPLIT))
#define MASK(M, S, at) ((M##_mask)READ_##S(M, at))

#define MAKE(M, S, T)                                                                                        \
    M##_TARGET static void M##_make_##S##_##T(const slide_columns *s, const slide_tile *q,                   \
                                              const st_real *weight, const st_real *b, st_real *c,           \
                                              ptrdiff_t far, st_real plus)                                   \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        M##_vector sum[ROWS];                                                                                \
        st_real aside[ROWS * LANES];                                                                         \
        const ptrdiff_t pitch = s->pitch, down = s->down;                                                    \
        EACH_ROW(r, ROWS) sum[r] = plus - (M##_vector){ 0 };                                                 \
        for (ptrdiff_t k = 0; k < s->count; k++) {                                                           \
            const st_real *from = b + s->offset[k], *w = weight + s->at[k];                                  \
            const M##_mask keep = MASK(M, S, q->keep + s->left[k]);                                          \
            const unsigned inside = *(const volatile unsigned *)&q->inside;                                  \
            M##_vector tap[T];                                                                               \
            EACH_ROW(t, T) tap[t] = w[t * down] - (M##_vector){ 0 };                                         \
            EACH_ROW(j, (ROWS - 1) * S + T)                                                                  \
            {                                                                                                \
                if (inside & 1U << j) {                                                                      \
                    const M##_vector x = (M##_vector)(keep & MASK(M, S, from));                              \
                    EACH_ROW(t, T)                                                                           \
                    if (READS(j, t, S, ROWS)) sum[(j - t) / S] = M##_FUSED(x, tap[t], sum[(j - t) / S]);     \
                }                                                                                            \
                from += pitch;                                                                               \
            }                                                                                                \
        }                                                                                                    \
        EACH_ROW(r, ROWS) if (r < q->rows && !q->exact) AT(M, c + r * far) = sum[r];                         \
        if (!q->exact) return;                                                                               \
        EACH_ROW(r, ROWS) AT(M, aside + r * LANES) = sum[r];                                                 \
        for (ptrdiff_t i = 0; i < q->rows * LANES; i++)                                                      \
            if (i % LANES < q->width) c[i / LANES * far + i % LANES] = aside[i];                             \
    }

#define DOTS(M, S, T)                                                                                        \
    M##_TARGET static void M##_dots_##S##_##T(const slide_columns *s, const slide_tile *q, const st_real *b, \
                                              const st_real *dy, ptrdiff_t far, st_real *sum)                \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const isa_bits skip = (isa_bits)q->skip, end = (isa_bits)q->width;                                   \
        const ptrdiff_t pitch = s->pitch;                                                                    \
        M##_mask own;                                                                                        \
        M##_vector d[ROWS];                                                                                  \
        for (isa_bits e = 0; e < LANES; e++) own[e] = -(e >= skip && e < end);                               \
        EACH_ROW(r, ROWS) d[r] = (M##_vector){ 0 };                                                          \
        EACH_ROW(r, ROWS) if (r < q->rows) d[r] = (M##_vector)(own & (M##_mask)AT(M, dy + r * far));         \
        for (ptrdiff_t k = 0; k < s->count; k++, sum += T * LANES) {                                         \
            const st_real *from = b + s->offset[k];                                                          \
            const M##_mask keep = MASK(M, S, q->keep + s->left[k]);                                          \
            const unsigned inside = *(const volatile unsigned *)&q->inside;                                  \
            M##_vector total[T];                                                                             \
            EACH_ROW(t, T) total[t] = AT(M, sum + t * LANES);                                                \
            EACH_ROW(j, (ROWS - 1) * S + T)                                                                  \
            {                                                                                                \
                if (inside & 1U << j) {                                                                      \
                    const M##_vector x = (M##_vector)(keep & MASK(M, S, from));                              \
                    EACH_ROW(t, T)                                                                           \
                    if (READS(j, t, S, ROWS)) total[t] = M##_FUSED(x, d[(j - t) / S], total[t]);             \
                }                                                                                            \
                from += pitch;                                                                               \
            }                                                                                                \
            EACH_ROW(t, T) AT(M, sum + t * LANES) = total[t];                                                \
        }                                                                                                    \
    }

/* clang-format off */
#define EACH_TAPS(DO, M, S)                                                                                  \
    DO(M, S, 1) DO(M, S, 2) DO(M, S, 3) DO(M, S, 4) DO(M, S, 5) DO(M, S, 6) DO(M, S, 7)
#define BOTH(M, S, T) MAKE(M, S, T) DOTS(M, S, T)
#define MADE(M, S, T) M##_make_##S##_##T,
#define SUMS(M, S, T) M##_dots_##S##_##T,
#define SLIDE(M) EACH_TAPS(BOTH, M, 1) EACH_TAPS(BOTH, M, 2)
#define OF_ISA(M)                                                                                            \
    { ISA_LANES(M), { { EACH_TAPS(MADE, M, 1) }, { EACH_TAPS(MADE, M, 2) } },                                \
      { { EACH_TAPS(SUMS, M, 1) }, { EACH_TAPS(SUMS, M, 2) } } },
/* clang-format on */

EACH_ISA(SLIDE)
const slide slide_of_isa[] = { EACH_ISA(OF_ISA) };

enum { ISAS = sizeof slide_of_isa / sizeof *slide_of_isa, WIDE = 64 / sizeof(st_real) };
static const double WIDEST = 1.6; /* the cost of a vector of 64 bytes, in others */

const slide *slide_of(int isa, ptrdiff_t width, double *cost)
{
    const slide *best = NULL, *widest = &slide_of_isa[isa];
    for (; isa < ISAS; isa++) {
        const slide *v = &slide_of_isa[isa];
        const double each = v->lanes == WIDE ? 1 : 1 / (widest->lanes == WIDE ? WIDEST : 1),
                     time = each * (double)ceil_div(width, v->lanes);
        if (best && time >= *cost) continue;
        best = v, *cost = time;
    }
    return best;
}

/* Rows from number `row` on. */
static slide_tile tile_of(const slide_columns *s, int stride, int taps, ptrdiff_t row, ptrdiff_t rows)
{
    const ptrdiff_t some = smallest(ROWS, rows - row), top = s->top + row * stride,
                    reach = (some - 1) * stride + taps, first = smallest(largest(0, -top), reach),
                    end = largest(first, smallest(s->height - top, reach));
    return (slide_tile){ .inside = (1U << end) - (1U << first), .rows = some };
}

void slide_image(const slide *v, const slide_columns *s, int stride, int taps, ptrdiff_t rows,
                 ptrdiff_t width, bool exact, const st_real *weight, const st_real *b, st_real *c,
                 st_real plus)
{
    slide_make *make = v->make[stride - 1][taps - 1];
    for (ptrdiff_t row = 0; row < rows; row += ROWS) {
        slide_tile q = tile_of(s, stride, taps, row, rows);
        q.exact = exact && width < v->lanes, q.width = width;
        for (ptrdiff_t at = 0; at < width; at += v->lanes) {
            const ptrdiff_t column = largest(0, smallest(at, width - v->lanes));
            q.keep = s->keep + column * stride;
            make(s, &q, weight, b + (s->top + row * stride) * s->pitch + column * stride,
                 c + row * width + column, width, plus);
        }
    }
}

void slide_sum_image(const slide *v, const slide_columns *s, int stride, int taps, ptrdiff_t rows,
                     ptrdiff_t width, const st_real *b, const st_real *dy, st_real *sum)
{
    slide_dots *dots = v->dots[stride - 1][taps - 1];
    for (ptrdiff_t row = 0; row < rows; row += ROWS) {
        slide_tile q = tile_of(s, stride, taps, row, rows);
        for (ptrdiff_t at = 0; at < width; at += v->lanes) {
            const ptrdiff_t column = largest(0, smallest(at, width - v->lanes));
            q.keep = s->keep + column * stride, q.skip = at - column, q.width = width - column;
            dots(s, &q, b + (s->top + row * stride) * s->pitch + column * stride, dy + row * width + column,
                 width, sum);
        }
    }
}
