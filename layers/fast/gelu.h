/* gelu.h: gelu and its derivative, in float with AVX-512, with coefficients that are looked up in registers.
 *
 *     x Φ(x) = max(x, 0) - t E q        t = |x|, E = exp(-t²/2), q = Φ(-t) / E
 *     its derivative                    E (q - φ(0) t) below 0, 1 less that above
 *
 * q is a polynomial of degree 4 of t - c in each of 32 intervals, eight from a power of 2 of t + 1 to the
 * next, with the least greatest relative error (Remez's exchange), 2^-24. The numbers c, near the middles of
 * the intervals, are such that q(c) is nearly a float. t² is (2 log 2) n / 16 + r, so that E is 2^(-n/16), of
 * which the fraction is looked up, times exp(-r/2).
 *
 * A look-up is one instruction for a vector, and there is no division. Results are within 3.6 ulp. */
#ifndef STRIDE_LAYERS_FAST_GELU_H
#define STRIDE_LAYERS_FAST_GELU_H

#include "layers/fast/functions.h"
#include "tensor/counts.h"

#if defined(avx512_TARGET) && !defined(STRIDE_DOUBLE)
#include <immintrin.h>
#define TAILS

enum { ENTRIES = 32, TAIL_DEGREE = 4, ROWS_OF_TAIL = TAIL_DEGREE + 2 };

/* c, and the coefficients of (t - c)^0 to (t - c)^4. They make up for the digits that TWICE_LOG_2 lacks. */
static const float normal_tail[ROWS_OF_TAIL * ENTRIES] = {
    /* clang-format off */
    1.1249508f, 1.3749574f, 1.6250117f, 1.8749833f, 2.125f, 2.3749516f, 2.6249366f, 2.8749866f,
    3.2500668f, 3.7500818f, 4.249593f, 4.7498264f, 5.2499433f, 5.7495327f, 6.2500267f, 6.75005f,
    7.4998665f, 8.500567f, 9.499833f, 10.500474f, 11.499873f, 12.501195f, 13.500314f, 14.374326f,
    .062497836f, .187505f, .3125194f, .43750313f, .5625509f, .6874954f, .8125196f, .9375117f,
    .24533744f, .21764407f, .19502215f, .17629203f, .1605801f, .14725645f, .13583829f, .12596221f,
    .11345004f, .10003726f, .08936712f, .08067813f, .07348897f, .06745442f, .06230823f, .057882216f,
    .052293994f, .046307027f, .041543998f, .037657183f, .034434427f, .031711925f, .029391048f,
    .027621383f, .47601193f, .43318072f, .3962065f, .36410412f, .33605075f, .31143484f, .28969187f,
    .27041072f,
    -.12294955f, -.09969083f, -.082028925f, -.06839761f, -.057709534f, -.049215317f, -.04237538f,
    -.036802586f, -.030221948f, -.0237943f, -.019168362f, -.015735146f, -.013129315f, -.011110862f,
    -.009514157f, -.008234398f, -.0067442497f, -.0053062174f, -.004281177f, -.0035239495f, -.002950668f,
    -.0025052393f, -.0021538043f, -.001903413f, -.36919245f, -.31771865f, -.27512f, -.23964554f,
    -.2098966f, -.18483223f, -.16356194f, -.14542906f,
    .0535125f, .0402866f, .030862f, .0240238f, .01897363f, .0151862f, .0123028f, .0100776f, .00761315f,
    .00540322f, .00395462f, .00296941f, .002280375f, .00178606f, .001422235f, .0011498f, .000856393f,
    .00060052f, .000436727f, .000327001f, .000251049f, .000196715f, .000157007f, .000130557f, .226469f,
    .1868034f, .155113f, .129629f, .1089866f, .0921818f, .0783973f, .0670346f,
    -.020966f, -.014797f, -.010646f, -.0077976f, -.0058057f, -.004389f, -.0033647f, -.0026128f,
    -.0018335f, -.0011812f, -.00078985f, -.00054497f, -.00038663f, -.00028113f, -.00020871f, -.00015795f,
    -.000107645f, -6.7406e-5f, -4.4251e-5f, -3.0173e-5f, -2.1258e-5f, -1.5383e-5f, -1.1405e-5f, -8.92e-6f,
    -.11846f, -.094315f, -.07561f, -.061026f, -.049566f, -.040515f, -.03331f, -.027545f,
    .007507f, .005003f, .003403f, .00236f, .001666f, .001195f, .00087f, .000644f, .0004209f, .0002478f,
    .0001522f, 9.7e-5f, 6.38e-5f, 4.32e-5f, 3e-5f, 2.13e-5f, 1.327e-5f, 7.45e-6f, 4.426e-6f, 2.755e-6f,
    1.784e-6f, 1.194e-6f, 8.23e-7f, 6.06e-7f, .0548f, .0423f, .0329f, .0257f, .0203f, .0161f, .0128f,
    .0103f,
    /* clang-format on */
};

/* The bits of 2^(k/16 + 64) without those of k 2^19, which are added with n's. */
static const uint32_t powers_of_16th[16] = {
    0x5f800000, 0x5f7daac3, 0x5f7b95c2, 0x5f79c3d3, 0x5f7837f0, 0x5f76f532, 0x5f75fed7, 0x5f75583f,
    0x5f7504f3, 0x5f7508a4, 0x5f75672a, 0x5f76248c, 0x5f7744fd, 0x5f78ccdf, 0x5f7ac0c7, 0x5f7d257d,
};

typedef struct tail_table {
    __m512 low[ROWS_OF_TAIL], high[ROWS_OF_TAIL];
    __m512i power;
} tail_table;

avx512_TARGET INLINE tail_table normal_tail_table(void)
{
    enum { HALF = ENTRIES / 2 };
    tail_table t;
    EACH(i, ROWS_OF_TAIL)
    {
        t.low[i] = _mm512_loadu_ps(normal_tail + i * ENTRIES);
        t.high[i] = _mm512_loadu_ps(normal_tail + i * ENTRIES + HALF);
    }
    t.power = _mm512_loadu_si512(powers_of_16th);
    return t;
}

#define TAIL_ALL(x) _mm512_set1_ps(x)
#define TAIL_BITS(x) _mm512_castps_si512(x)

/* E = power (1 + less_1) 2^-FAR */
typedef struct normal_tail_of {
    __m512 t, q, power, less_1;
} normal_tail_of;

avx512_TARGET INLINE normal_tail_of normal_tail_at(__m512 x, const tail_table *table)
{
    const float round = 0x1.8p23f, most = 14.75f; /* at `most` results are 0 or 1 */
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    normal_tail_of a;
    a.t = _mm512_min_ps(TAIL_ALL(most), (__m512)_mm512_andnot_si512(sign, TAIL_BITS(x))); /* or a NaN */
    const __m512 s = _mm512_mul_ps(a.t, a.t), low = _mm512_fmsub_ps(a.t, a.t, s),
                 shifted = _mm512_fmadd_ps(s, TAIL_ALL(-11.541560f), TAIL_ALL(round)),
                 n = _mm512_sub_ps(shifted, TAIL_ALL(round)),
                 r = _mm512_add_ps(_mm512_fmadd_ps(n, TAIL_ALL(TWICE_LOG_2 / 16), s), low);
    const __m512i sixteenths = TAIL_BITS(shifted),
                  power = _mm512_add_epi32(_mm512_permutexvar_epi32(sixteenths, table->power),
                                           _mm512_slli_epi32(sixteenths, 19)),
                  interval = _mm512_srli_epi32(TAIL_BITS(_mm512_add_ps(a.t, TAIL_ALL(1))), 20);
#define TAIL_ENTRY(i) _mm512_permutex2var_ps(table->low[i], interval, table->high[i])
    const __m512 d = _mm512_sub_ps(a.t, TAIL_ENTRY(0));
    a.q = TAIL_ENTRY(ROWS_OF_TAIL - 1);
    EACH(i, TAIL_DEGREE) a.q = _mm512_fmadd_ps(a.q, d, TAIL_ENTRY(TAIL_DEGREE - i));
#undef TAIL_ENTRY
    __m512 p = TAIL_ALL(-0.020834038f);
    p = _mm512_fmadd_ps(p, r, TAIL_ALL(0.125004135f)), p = _mm512_fmadd_ps(p, r, TAIL_ALL(-0.5f));
    a.less_1 = _mm512_mul_ps(p, r);
    a.power = (__m512)power;
    return a;
}

avx512_TARGET INLINE __m512 normal_value(__m512 x, const tail_table *table)
{
    const normal_tail_of a = normal_tail_at(x, table);
    const __m512 part = _mm512_mul_ps(a.t, a.q),
                 tail = _mm512_mul_ps(_mm512_fmadd_ps(part, a.less_1, part), a.power);
    return _mm512_fnmadd_ps(tail, TAIL_ALL(FAR_BACK), _mm512_max_ps(TAIL_ALL(0), x));
}

avx512_TARGET INLINE __m512 normal_slope(__m512 x, const tail_table *table)
{
    const normal_tail_of a = normal_tail_at(x, table);
    const __m512 part = _mm512_fmadd_ps(a.t, TAIL_ALL(-0.39894228f), a.q),
                 far = _mm512_mul_ps(_mm512_fmadd_ps(part, a.less_1, part), a.power),
                 tail = _mm512_mul_ps(far, TAIL_ALL(FAR_BACK));
    const __mmask16 above = _mm512_cmp_ps_mask(x, TAIL_ALL(0), _CMP_GE_OQ);
    return _mm512_mask_sub_ps(tail, above, TAIL_ALL(1), tail);
}

avx512_TARGET INLINE __m512 normal_of(const float *given, const float *x, bool slope, const tail_table *table)
{
    const __m512 at = _mm512_loadu_ps(x);
    return slope ? _mm512_mul_ps(_mm512_loadu_ps(given), normal_slope(at, table)) : normal_value(at, table);
}

/* y of x, or dx of dy and x: n elements, which need not be adjacent. */
avx512_TARGET INLINE void normal_rows(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], bool slope)
{
    enum { LANES = ISA_LANES(avx512), AHEAD_OF_TAIL = 512 };
    const tail_table table = normal_tail_table();
    const int x = slope ? 2 : 1; /* its place */
    ptrdiff_t i = 0;
    if (stride[0] == 1 && stride[1] == 1 && stride[x] == 1)
        for (; i + LANES <= n; i += LANES) {
            for (int v = 0; v <= x; v++) __builtin_prefetch(at[v] + i + AHEAD_OF_TAIL);
            _mm512_storeu_ps(at[0] + i, normal_of(at[1] + i, at[x] + i, slope, &table));
        }
    for (; i < n; i += LANES) {
        const ptrdiff_t count = smallest(LANES, n - i);
        float to[LANES], from[2][LANES] = { { 0 } };
        for (ptrdiff_t k = 0; k < count; k++) {
            from[0][k] = at[1][(i + k) * stride[1]];
            from[1][k] = at[x][(i + k) * stride[x]];
        }
        _mm512_storeu_ps(to, normal_of(from[0], from[1], slope, &table));
        for (ptrdiff_t k = 0; k < count; k++) at[0][(i + k) * stride[0]] = to[k];
    }
}

avx512_TARGET static void normal_value_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[],
                                           void *options)
{
    (void)options;
    normal_rows(n, at, stride, false);
}

avx512_TARGET static void normal_slope_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[],
                                           void *options)
{
    (void)options;
    normal_rows(n, at, stride, true);
}
#endif

#endif
