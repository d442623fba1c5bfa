/* powers_lanes.h: powers.h for vectors of each instruction set, M:
 *
 *     M_log2(some, v)  log2 of each lane where `some`, a normal number above 0; elsewhere any finite number
 *     M_exp2(v, n)     2^(v + n), which is normal, of an integer n
 *
 * AVX-512 looks numbers up in a register, in the float build: with c near 1 / m for each sixteenth of a
 * mantissa m, r = c m - 1 is between -1/32 and 1/16, and log2(m) = -log2(c) + r p(r); beside m = 1, c is a
 * power of 2, and the logarithms of the others are floats but for 2^-36. Of 2^v, 2^(k / 16) is looked up, and
 * the rest is 1 + r q(r), |r| <= 1/32. The greatest errors of p and r q, which are least (Remez's exchange),
 * are 2^-28. */
#ifndef STRIDE_LAYERS_FAST_POWERS_LANES_H
#define STRIDE_LAYERS_FAST_POWERS_LANES_H

#include "layers/fast/pooling_lanes.h"
#include "layers/fast/powers.h"

/* Defines M_NAME, whose PARAMETERS have a vector v: VALUE of each of its lanes x. */
#define BY_EACH_LANE(M, NAME, PARAMETERS, VALUE)                                                             \
    M##_TARGET INLINE M##_vector M##_##NAME PARAMETERS                                                       \
    {                                                                                                        \
        st_real each[ISA_LANES(M)];                                                                          \
        memcpy(each, &v, sizeof v);                                                                          \
        _Pragma("GCC unroll 1") for (int l = 0; l < ISA_LANES(M); l++)                                       \
        {                                                                                                    \
            const st_real x = each[l];                                                                       \
            each[l] = VALUE;                                                                                 \
        }                                                                                                    \
        memcpy(&v, each, sizeof v);                                                                          \
        return v;                                                                                            \
    }

#define POWERS_BY_LANE(M)                                                                                    \
    BY_EACH_LANE(M, exp2, (M##_vector v, int n), normal_exp2(x, n))                                          \
    BY_EACH_LANE(M, log2_each, (M##_vector v), fast_log2(x, 0))                                              \
    M##_TARGET INLINE M##_vector M##_log2(M##_test some, M##_vector v)                                       \
    {                                                                                                        \
        (void)some;                                                                                          \
        return M##_log2_each(v);                                                                             \
    }

/* 2 to the power of LEAST_NORMAL_POWER is a normal number, and beside 1 it is nothing. */
#ifdef STRIDE_DOUBLE
#define LEAST_NORMAL_POWER (-1010)
#else
#define LEAST_NORMAL_POWER (-124)
#endif

/* The base of a power, |v| or max(v, epsilon); and its derivative, times `slope`. */
#define BASES(M)                                                                                             \
    M##_TARGET INLINE M##_vector M##_base(M##_vector v, bool sizes, st_real epsilon)                         \
    {                                                                                                        \
        const M##_vector zero = { 0 };                                                                       \
        return sizes ? (M##_vector)((M##_mask)v & ~(M##_mask) - zero) : BY(M, max, v, zero + epsilon);       \
    }                                                                                                        \
    M##_TARGET INLINE M##_vector M##_base_slope(M##_vector v, bool sizes, st_real epsilon, M##_vector slope) \
    {                                                                                                        \
        const M##_vector zero = { 0 };                                                                       \
        return sizes ? (M##_vector)((M##_mask)slope | ((M##_mask)v & (M##_mask) - zero))                     \
                     : CHOOSE(M, EXCEEDS(M, v, zero + epsilon), slope, zero);                                \
    }
EACH_ISA(BASES)

#if !defined(avx512_TARGET) || defined(STRIDE_DOUBLE)
EACH_ISA(POWERS_BY_LANE)
#else
POWERS_BY_LANE(generic)
POWERS_BY_LANE(avx2)

static const float near_inverse[] = { 1,
                                      0.9141801f,
                                      0.864696205f,
                                      0.820501029f,
                                      0.780451536f,
                                      0.744180262f,
                                      0.71124357f,
                                      0.680757821f,
                                      0.653051615f,
                                      0.627485931f,
                                      0.603949189f,
                                      0.581973791f,
                                      0.561255217f,
                                      0.542510867f,
                                      0.524574697f,
                                      0.5f },
                   log2_of_near[] = { 0,
                                      0.12944968f,
                                      0.209734738f,
                                      0.285422951f,
                                      0.357619047f,
                                      0.426275969f,
                                      0.49158439f,
                                      0.554786444f,
                                      0.614731073f,
                                      0.672344983f,
                                      0.727500916f,
                                      0.780973911f,
                                      0.833271146f,
                                      0.882276058f,
                                      0.930779874f,
                                      1 },
                   exp2_of_16th[] = { 1,           1.04427373f, 1.09050775f, 1.13878858f,
                                      1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
                                      1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                                      1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f };

avx512_TARGET INLINE avx512_vector avx512_log2(__mmask16 some, avx512_vector v)
{
    const __m512 x = (__m512)v, n = _mm512_maskz_getexp_ps(some, x),
                 m = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
    const __m512i sixteenth = _mm512_srli_epi32(_mm512_castps_si512(x), MANTISSA - 4);
    const __m512 c = _mm512_permutexvar_ps(sixteenth, _mm512_loadu_ps(near_inverse)),
                 log = _mm512_permutexvar_ps(sixteenth, _mm512_loadu_ps(log2_of_near)),
                 r = _mm512_fmsub_ps(m, c, _mm512_set1_ps(1)), r2 = _mm512_mul_ps(r, r);
    const __m512 b = _mm512_fmadd_ps(_mm512_set1_ps(-0.360765483944f), r, _mm512_set1_ps(0.48091874791f)),
                 a = _mm512_fmadd_ps(_mm512_set1_ps(-0.721347559303f), r, _mm512_set1_ps(1.44269503774f)),
                 p = _mm512_fmadd_ps(_mm512_fmadd_ps(_mm512_set1_ps(0.271086700906f), r2, b), r2, a);
    return (avx512_vector)_mm512_fmadd_ps(p, r, _mm512_add_ps(n, log));
}

avx512_TARGET INLINE avx512_vector avx512_exp2(avx512_vector v, int n)
{
    const __m512 x = (__m512)v, round = _mm512_set1_ps(ROUND / 16), shifted = _mm512_add_ps(x, round),
                 near = _mm512_sub_ps(shifted, round), r = _mm512_sub_ps(x, near);
    const __m512 power = _mm512_permutexvar_ps(_mm512_castps_si512(shifted), _mm512_loadu_ps(exp2_of_16th));
    __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(0.0555041086653f), r, _mm512_set1_ps(0.240233551473f));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0.693147181037f));
    return (avx512_vector)_mm512_scalef_ps(_mm512_fmadd_ps(_mm512_mul_ps(power, r), q, power),
                                           _mm512_add_ps(near, _mm512_set1_ps((float)n)));
}
#endif

#endif
