/* slide.c: see slide.h. This file is compiled with -ffp-contract=fast: multiply-adds are fused where the
 * processor can. */
#include "layers/fast/slide.h"
#include "tensor/counts.h"

#define EACH_ROW(i, count) _Pragma("GCC unroll 32") for (int i = 0; i < (count); i++)

/* Loaded once, where gcc would load it again for each product. */
#define ONCE_AT(M, at) (*(const volatile M##_loose *)(at))

/* Tap t of window r reads row j. */
#define READS(j, t, S, R) ((j) >= (t) && ((j) - (t)) % (S) == 0 && ((j) - (t)) / (S) < (R))

#define MAKE(M, S, T, R)                                                                                     \
    M##_TARGET static void M##_make_##S##_##T##_##R(const slide_columns *s, const st_real *weight,           \
                                                    const st_real *b, st_real *c, ptrdiff_t far,             \
                                                    st_real plus)                                            \
    {                                                                                                        \
        M##_vector sum[R];                                                                                   \
        EACH_ROW(r, R) sum[r] = (M##_vector){ 0 } + plus;                                                    \
        for (ptrdiff_t k = 0; k < s->count; k++) {                                                           \
            const st_real *from = b + s->offset[k], *w = weight + s->at[k];                                  \
            M##_vector tap[T];                                                                               \
            EACH_ROW(t, T) tap[t] = (M##_vector){ 0 } + w[t * s->down];                                      \
            EACH_ROW(j, (R - 1) * S + T)                                                                     \
            {                                                                                                \
                const M##_vector x = ONCE_AT(M, from + j / S * s->pitch + j % S * s->phase);                 \
                EACH_ROW(t, T)                                                                               \
                if (READS(j, t, S, R)) sum[(j - t) / S] = M##_FUSED(x, tap[t], sum[(j - t) / S]);            \
            }                                                                                                \
        }                                                                                                    \
        EACH_ROW(r, R) AT(M, c + r * far) = sum[r];                                                          \
    }

/* Four rows at a time, in two sums, as a chain of sums would wait. */
#define DOTS(M, S, T)                                                                                        \
    M##_TARGET static void M##_dots_##S##_##T(const slide_columns *s, const st_real *b, ptrdiff_t rows,      \
                                              const st_real *dy, ptrdiff_t far, ptrdiff_t skip,              \
                                              st_real *sum)                                                  \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M), R = SLIDE_LOW };                                                        \
        M##_mask keep;                                                                                       \
        for (int e = 0; e < LANES; e++) keep[e] = -(e >= skip);                                              \
        for (ptrdiff_t k = 0; k < s->count; k++, sum += T * LANES) {                                         \
            const st_real *from = b + s->offset[k], *at = dy;                                                \
            M##_vector even[T], odd[T];                                                                      \
            ptrdiff_t r = 0;                                                                                 \
            EACH_ROW(t, T) even[t] = AT(M, sum + t * LANES), odd[t] = (M##_vector){ 0 };                     \
            for (; r + R <= rows; r += R, at += R * far, from += R * s->pitch) {                             \
                M##_vector d[R];                                                                             \
                EACH_ROW(i, R) d[i] = (M##_vector)(keep & (M##_mask)AT(M, at + i * far));                    \
                EACH_ROW(j, (R - 1) * S + T)                                                                 \
                {                                                                                            \
                    const M##_vector x = ONCE_AT(M, from + j / S * s->pitch + j % S * s->phase);             \
                    EACH_ROW(t, T) if (READS(j, t, S, R))                                                    \
                    {                                                                                        \
                        if ((j - t) / S % 2) odd[t] = M##_FUSED(x, d[(j - t) / S], odd[t]);                  \
                        else even[t] = M##_FUSED(x, d[(j - t) / S], even[t]);                                \
                    }                                                                                        \
                }                                                                                            \
            }                                                                                                \
            for (; r < rows; r++, at += far, from += s->pitch) {                                             \
                const M##_vector d = (M##_vector)(keep & (M##_mask)AT(M, at));                               \
                EACH_ROW(t, T)                                                                               \
                even[t] = M##_FUSED(d, AT(M, from + t / S * s->pitch + t % S * s->phase), even[t]);          \
            }                                                                                                \
            EACH_ROW(t, T) AT(M, sum + t * LANES) = even[t] + odd[t];                                        \
        }                                                                                                    \
    }

/* clang-format off */
#define EACH_TAPS(DO, M, S)                                                                                  \
    DO(M, S, 1) DO(M, S, 2) DO(M, S, 3) DO(M, S, 4) DO(M, S, 5) DO(M, S, 6) DO(M, S, 7)
#define ALL(M, S, T) MAKE(M, S, T, 8) MAKE(M, S, T, 4) DOTS(M, S, T)
#define TALL(M, S, T) M##_make_##S##_##T##_8,
#define LOW(M, S, T) M##_make_##S##_##T##_4,
#define SUMS(M, S, T) M##_dots_##S##_##T,
#define SLIDE(M) EACH_TAPS(ALL, M, 1) EACH_TAPS(ALL, M, 2)
#define OF_ISA(M)                                                                                        \
    { ISA_LANES(M), 8, { { EACH_TAPS(TALL, M, 1) }, { EACH_TAPS(TALL, M, 2) } },                         \
      { { EACH_TAPS(LOW, M, 1) }, { EACH_TAPS(LOW, M, 2) } },                                                \
      { { EACH_TAPS(SUMS, M, 1) }, { EACH_TAPS(SUMS, M, 2) } } },
/* clang-format on */

EACH_ISA(SLIDE)
const slide slide_of_isa[] = { EACH_ISA(OF_ISA) };

enum { ISAS = sizeof slide_of_isa / sizeof *slide_of_isa };

const slide *slide_of(int isa, ptrdiff_t width)
{
    for (; isa < ISAS; isa++)
        if (slide_of_isa[isa].lanes <= width) return &slide_of_isa[isa];
    return NULL;
}

void slide_image(const slide *v, const slide_columns *s, int stride, int taps, ptrdiff_t rows,
                 ptrdiff_t width, const st_real *weight, const st_real *b, st_real *c, ptrdiff_t far,
                 st_real plus)
{
    const bool tall = rows % v->high == 0 || rows > 2 * v->high;
    const ptrdiff_t high = tall ? v->high : SLIDE_LOW;
    slide_make *make = (tall ? v->tall : v->low)[stride - 1][taps - 1];
    for (ptrdiff_t column = 0; column < width; column += v->lanes) {
        column = smallest(column, width - v->lanes); /* the last vector and tile overlap the previous ones */
        for (ptrdiff_t row = 0; row < rows; row += high) {
            row = smallest(row, rows - high);
            make(s, weight, b + row * s->pitch + column, c + row * far + column, far, plus);
        }
    }
}

void slide_sum_image(const slide *v, const slide_columns *s, int stride, int taps, ptrdiff_t rows,
                     ptrdiff_t width, const st_real *b, const st_real *dy, ptrdiff_t far, st_real *sum)
{
    for (ptrdiff_t column = 0; column < width; column += v->lanes) {
        const ptrdiff_t at = smallest(column, width - v->lanes);
        v->dots[stride - 1][taps - 1](s, b + at, rows, dy + at, far, column - at, sum);
    }
}

void slide_add_sums(const slide *v, const slide_columns *s, int taps, const st_real *sum, st_real *dw)
{
    for (ptrdiff_t k = 0; k < s->count; k++)
        for (int t = 0; t < taps; t++, sum += v->lanes) {
            st_real total = 0;
            for (int e = 0; e < v->lanes; e++) total += sum[e];
            dw[s->at[k] + t * s->down] += total;
        }
}
