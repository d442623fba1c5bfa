/* pooling_lanes.h: parts of poolings whose windows are lanes: tests of lanes, ranks of a few elements, and
 * the forms for squares. */
#ifndef STRIDE_LAYERS_FAST_POOLING_LANES_H
#define STRIDE_LAYERS_FAST_POOLING_LANES_H

#include "layers/fast/functions.h"
#include "layers/fast/kernel.h"
#include "layers/fast/windows.h"

/* The products in an array are not fused with what is done with them next. */
#define KEEP_APART(array) __asm__ volatile("" : : "r"(array) : "memory")

/* Tests of lanes, for which AVX-512 has registers: a > b; equal bits; a where a test is true, else b; n plus
 * a constant there; if a test of any lane is true. */
#define EXCEEDS(M, a, b) M##_EXCEEDS(a, b)
#define SAME(M, a, b) M##_SAME(a, b)
#define CHOOSE(M, test, a, b) M##_CHOOSE(test, a, b)
#define PLUS(M, test, n, more) M##_PLUS(test, n, more)
#define ANY(M, test) M##_ANY(test)
/* The same for masks: numbers without a sign are added, as sums take all of their bits. */
#define UNSIGNED(M) typedef real_bits M##_unsigned __attribute__((vector_size(sizeof(M##_mask))));
EACH_ISA(UNSIGNED)
#define PLUS_MASK(M, test, n, more) ((M##_mask)((M##_unsigned)(n) + (M##_unsigned)((test) & (more))))
#define generic_EXCEEDS(a, b) ((a) > (b))
#define generic_SAME(a, b) ((a) == (b))
#define generic_CHOOSE(test, a, b) ISA_PICK(generic, test, a, b)
#define generic_PLUS(test, n, more) PLUS_MASK(generic, test, n, more)
INLINE bool generic_any(generic_mask test)
{
    isa_bits any = 0;
    EACH(l, ISA_LANES(generic)) any |= test[l];
    return any != 0;
}
#define generic_ANY(test) generic_any(test)
typedef generic_mask generic_test;
#if defined(__x86_64__) && !defined(STRIDE_GENERIC)
#define avx2_EXCEEDS(a, b) ((a) > (b))
#define avx2_SAME(a, b) ((a) == (b))
#define avx2_PLUS(test, n, more) PLUS_MASK(avx2, test, n, more)
typedef avx2_mask avx2_test;
#define avx512_ANY(test) ((test) != 0)
#ifdef STRIDE_DOUBLE
typedef __mmask8 avx512_test;
#define avx512_EXCEEDS(a, b) _mm512_cmp_pd_mask((__m512d)(a), (__m512d)(b), _CMP_GT_OQ)
#define avx2_ANY(test) (_mm256_movemask_pd((__m256d)(test)) != 0)
#define avx512_SAME(a, b) _mm512_cmpeq_epi64_mask((__m512i)(a), (__m512i)(b))
#define avx512_CHOOSE(test, a, b) (avx512_vector) _mm512_mask_blend_pd(test, (__m512d)(b), (__m512d)(a))
#define avx512_PLUS(test, n, more)                                                                           \
    (avx512_mask) _mm512_mask_add_epi64((__m512i)(n), test, (__m512i)(n), _mm512_set1_epi64(more))
#define avx2_CHOOSE(test, a, b) (avx2_vector) _mm256_blendv_pd((__m256d)(b), (__m256d)(a), (__m256d)(test))
#else
typedef __mmask16 avx512_test;
#define avx512_EXCEEDS(a, b) _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_GT_OQ)
#define avx2_ANY(test) (_mm256_movemask_ps((__m256)(test)) != 0)
#define avx512_SAME(a, b) _mm512_cmpeq_epi32_mask((__m512i)(a), (__m512i)(b))
#define avx512_CHOOSE(test, a, b) (avx512_vector) _mm512_mask_blend_ps(test, (__m512)(b), (__m512)(a))
#define avx512_PLUS(test, n, more)                                                                           \
    (avx512_mask) _mm512_mask_add_epi32((__m512i)(n), test, (__m512i)(n), _mm512_set1_epi32(more))
#define avx2_CHOOSE(test, a, b) (avx2_vector) _mm256_blendv_ps((__m256)(b), (__m256)(a), (__m256)(test))
#endif
#endif

/* The pairs of elements that a sorting network exchanges, and those of four elements. */
typedef unsigned char exchange[2];
enum { EXCHANGES_OF_4 = 5 };
static const exchange exchanges_of_4[EXCHANGES_OF_4] = { { 0, 1 }, { 2, 3 }, { 0, 2 }, { 1, 3 }, { 1, 2 } };

enum { FEW_RANKED = 9, PACKED_RANKS = 8 };

/* Ranks of a few elements have four bits each, so that one addition changes two: overs[i][j] is for
 * x[i] > x[j], j < i. The last of nine is left out, as all are 0 ^ 1 ^ ... ^ 8 = 8. */
#define RANK_1(i) ((real_bits)((i) < PACKED_RANKS) << 4 * ((i) % PACKED_RANKS))
#define OVER(i, j) (isa_bits)(RANK_1(j) - RANK_1(i))
#define OVERS(i)                                                                                             \
    {                                                                                                        \
        OVER(i, 0), OVER(i, 1), OVER(i, 2), OVER(i, 3), OVER(i, 4), OVER(i, 5), OVER(i, 6), OVER(i, 7)       \
    }
static const isa_bits overs[FEW_RANKED][PACKED_RANKS] = { OVERS(0), OVERS(1), OVERS(2), OVERS(3), OVERS(4),
                                                          OVERS(5), OVERS(6), OVERS(7), OVERS(8) };

/* For each instruction set, M_ranks_of(n, x, overs), the ranks of n elements, M_rank_in, one of them, and
 * M_weights_of and M_weights_in, the weight [rank] of each lane. */
#define RANKS(M)                                                                                             \
    M##_TARGET INLINE M##_mask M##_ranks_of(int n, const M##_vector *x, const isa_bits(*over)[PACKED_RANKS]) \
    {                                                                                                        \
        M##_mask sum[2] = { { 0 } };                                                                         \
        M##_unsigned own = { 0 };                                                                            \
        EACH(i, n) own += (real_bits)i * RANK_1(i);                                                          \
        EACH(i, n)                                                                                           \
        EACH(j, n)                                                                                           \
        if (j < i) sum[j % 2] = PLUS(M, EXCEEDS(M, x[i], x[j]), sum[j % 2], over[i][j]);                     \
        return (M##_mask)(own + (M##_unsigned)sum[0] + (M##_unsigned)sum[1]);                                \
    }                                                                                                        \
    /* In the lowest four bits; others are not 0. */                                                         \
    M##_TARGET INLINE M##_mask M##_rank_in(M##_mask ranks, int i)                                            \
    {                                                                                                        \
        if (i < PACKED_RANKS) return ranks >> 4 * i;                                                         \
        ranks ^= ranks >> 16, ranks ^= ranks >> 8;                                                           \
        return ranks ^ ranks >> 4 ^ 8;                                                                       \
    }                                                                                                        \
    M##_TARGET INLINE M##_vector M##_weights_of(ptrdiff_t n, M##_mask rank, const st_real *weight)           \
    {                                                                                                        \
        M##_vector own = { 0 };                                                                              \
        if (M##_SHUFFLES && n <= ISA_LANES(M)) own = SHUFFLE_BY(M, AT(M, weight), AT(M, weight), rank);      \
        else if (M##_SHUFFLES && n <= 2 * ISA_LANES(M))                                                      \
            own = SHUFFLE_BY(M, AT(M, weight), AT(M, weight + ISA_LANES(M)), rank);                          \
        else if (n > POOL_LANES) EACH(l, ISA_LANES(M)) own[l] = weight[rank[l]];                             \
        else                                                                                                 \
            for (ptrdiff_t i = 0; i < n; i++)                                                                \
                own = ISA_PICK(M, rank == (isa_bits)i, (M##_vector){ 0 } + weight[i], own);                  \
        return own;                                                                                          \
    }                                                                                                        \
    /* Shuffles take as many bits as n has. */                                                               \
    M##_TARGET INLINE M##_vector M##_weights_in(int n, M##_mask ranks, int i, const st_real *weight)         \
    {                                                                                                        \
        const M##_mask rank = M##_rank_in(ranks, i);                                                         \
        return M##_weights_of(n, M##_SHUFFLES && n <= 2 * ISA_LANES(M) ? rank : rank & 15, weight);          \
    }
EACH_ISA(RANKS)

/* Between these, sums of elements above 0 have all digits. */
#define LEAST_SUM ((st_real)1e-30)
#define MOST_SUM ((st_real)1e37)

/* Returns what an element adds to the sum that stochastic pooling draws from. */
INLINE st_real chance(st_real x)
{
    return x > 0 ? x : 0;
}

/* By pooling_squares.c. */
extern const squares_form mixed_squares_form, gated_squares_form, ordinal_squares_form, rank_squares_form,
    median_squares_form, drawn_rank_squares_form, stochastic_squares_form;

#endif
