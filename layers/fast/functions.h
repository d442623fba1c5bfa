/* functions.h: exp and its kin as arithmetic without branches, which the compiler makes vectors of.
 *
 * A loop over one of these functions becomes a loop of vectors (-O3) of the instruction set that its caller
 * is compiled for. Multiplications and additions are fused where it can, at every place in a row alike.
 *
 * exp, expm1, logistic and the normal distribution are in st_real; the functions with `wide` in their names
 * take and return double in either precision. In the float build their errors are up to 2^-28: results are
 * rounded to float, or summed to the value of a loss.
 *
 *     exp        x = n log 2 + r, |r| <= log(2)/2; exp(r) - 1 = r + r² p(r); exp(x) = 2^n exp(r)
 *     expm1      2^n (exp(r) - 1) + (2^n - 1)
 *     logistic   m = exp(-|x|): m / (1 + m) below 0, 1 / (1 + m) above
 *     tanh       m = expm1(-2|x|): -m / (2 + m), with the sign of x
 *     log1p      of t in [0, 1]: s = t / (2 + t), 2 atanh(s) = s (2 + s² p(s²)), another p
 *     logarithm  log(1 + t) of any t >= 0: 1 + t = 2^n (1 + s), n log 2 + log1p(s)
 *     normal     Φ(-t) = exp(-t²/2) q(y) / (k t + c), y = 2 k t / (k t + c) - d, for t >= 0
 *
 * The polynomials p and q have the smallest greatest relative error (Remez's exchange, in 60 digits): 2^-26
 * and 2^-26 in the float build, 2^-62 and 2^-55 in double. The last digits of q in the float build were then
 * chosen for the least error of gelu. What activations make of them is measured by `make check-ulp`; fast_exp
 * and fast_expm1 are within 1 ulp, fast_logistic within 2.3, fast_normal within 3.6, or 4.1 without fused
 * multiply-add; gelu.h has that of AVX-512 in float. */
#ifndef STRIDE_LAYERS_FAST_FUNCTIONS_H
#define STRIDE_LAYERS_FAST_FUNCTIONS_H

#include "tensor/fast/isa.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

/* ---- exp, in st_real ----------------------------------------------------------------------------------- */

#ifdef STRIDE_DOUBLE
typedef uint64_t real_bits;
enum { BIAS = 1023, MANTISSA = 52 };
#define ROUND 0x1.8p52 /* adding it rounds to an integer */
#define LOG_2_HIGH 0x1.62e42fefa3p-1
#define LOG_2_LOW 0x1.3de6af278ece6p-42
#define TWICE_LOG_2 0x1.62e42fefa39efp+0
#define TWICE_LOG_2_LOW 4.638093627692599e-17
#define FAR 512
#define FAR_BACK 0x1p-512
#define LEAST_EXPONENT ((st_real)-1000) /* exp of it times a number of the range rounds to 0 */
#define MOST_EXPONENT ((st_real)710)
#define SILU_LEAST ((st_real)-760) /* silu of it rounds to 0 */
#else
typedef uint32_t real_bits;
enum { BIAS = 127, MANTISSA = 23 };
#define ROUND 0x1.8p23f
#define LOG_2_HIGH 0x1.62e4p-1f
#define LOG_2_LOW 1.4286068e-6f
#define TWICE_LOG_2 0x1.62e43p+0f
#define TWICE_LOG_2_LOW 0 /* the polynomial of the normal distribution makes up for it */
#define FAR 64
#define FAR_BACK 0x1p-64f
#define LEAST_EXPONENT ((st_real)-125)
#define MOST_EXPONENT ((st_real)89)
#define SILU_LEAST ((st_real)-110)
#endif
#define SILU_MOST ((st_real)40) /* exp(-x) no longer counts beside 1 */

/* exp(x) = (1 + less_1) 2^n. */
typedef struct exponent {
    st_real less_1;
    real_bits far; /* n + BIAS + FAR, with bits above those of an exponent */
} exponent;

INLINE st_real not_below_least(st_real x)
{
    return x < LEAST_EXPONENT ? LEAST_EXPONENT : x;
}

/* Adding it rounds to an integer, whose last bits have BIAS + FAR added. */
#define ROUND_FAR (ROUND + (st_real)(BIAS + FAR))

/* The exponent of x, for LEAST_EXPONENT <= x <= MOST_EXPONENT. */
INLINE exponent exponent_within(st_real x)
{
    const st_real shifted = x * (st_real)1.4426950408889634 + ROUND_FAR, n = shifted - ROUND_FAR,
                  r = x - n * LOG_2_HIGH - n * LOG_2_LOW; /* n LOG_2_HIGH is exact */
#ifdef STRIDE_DOUBLE
    st_real p = 2.087533769525182e-9;
    p = p * r + 2.5108979789104983e-8, p = p * r + 2.755740260759446e-7, p = p * r + 2.755724437145122e-6;
    p = p * r + 2.4801587172600867e-5, p = p * r + 1.98412698859688363e-4, p = p * r + 0.0013888888888962318;
    p = p * r + 0.00833333333332169, p = p * r + 0.04166666666666651, p = p * r + 0.16666666666666677;
    p = p * r + 0.5;
#else
    st_real p = 0.0013882486f;
    p = p * r + 0.008366522f, p = p * r + 0.0416672f, p = p * r + 0.16666544f;
    p = p * r + 0.49999998f;
#endif
    exponent e = { .less_1 = r + r * r * p };
    memcpy(&e.far, &shifted, sizeof shifted);
    return e;
}

INLINE exponent exponent_of(st_real x)
{
    return exponent_within(not_below_least(x));
}

/* 2^(e - BIAS) */
INLINE st_real power_of_2(real_bits e)
{
    real_bits bits = e << MANTISSA;
    st_real power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* x 2^n: the power as two factors, neither of which overflows. A result below the normal range is rounded
 * once. */
INLINE st_real times_power(st_real x, exponent e)
{
    const st_real round = ROUND;
    real_bits zero;
    memcpy(&zero, &round, sizeof zero);
    const real_bits both = e.far - zero + BIAS - FAR, half = both >> 1;
    return x * power_of_2(half) * power_of_2(both - half);
}

/* x 2^n for n <= 0, with one power, 2^(n + FAR), which is normal. A result below the normal range is rounded
 * once. */
INLINE st_real times_low_power(st_real x, exponent e)
{
    return x * power_of_2(e.far) * FAR_BACK;
}

INLINE st_real fast_exp(st_real x)
{
    exponent e = exponent_of(x > MOST_EXPONENT ? MOST_EXPONENT : x);
    return times_power(1 + e.less_1, e);
}

/* For LEAST_EXPONENT <= x, no more than rounding above 0. */
INLINE st_real fast_exp_within(st_real x)
{
    exponent e = exponent_within(x);
    return times_low_power(1 + e.less_1, e);
}

/* For x <= 0. */
INLINE st_real fast_expm1(st_real x)
{
    exponent e = exponent_of(x < -50 ? -50 : x);
    st_real power = power_of_2(e.far - FAR);
    return power * e.less_1 + (power - 1);
}

/* a where the sign of x is negative, else b. Not by a condition: the compiler would make two divisions of one
 * by whose sides it is. */
INLINE st_real by_sign(st_real x, st_real a, st_real b)
{
    real_bits bits, of_a, of_b;
    memcpy(&bits, &x, sizeof bits);
    memcpy(&of_a, &a, sizeof of_a);
    memcpy(&of_b, &b, sizeof of_b);
    const real_bits negative = 0 - (bits >> (8 * sizeof bits - 1));
    bits = (of_a & negative) | (of_b & ~negative);
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* min(|x|, most), of the bits, whose order is that of the numbers: the compiler would make a branch or blends
 * of what depends on a minimum of numbers. That of a NaN is `most`. */
INLINE st_real magnitude(st_real x, st_real most)
{
    real_bits bits, last;
    memcpy(&bits, &x, sizeof bits);
    memcpy(&last, &most, sizeof last);
    bits &= (real_bits)-1 >> 1;
    bits = bits < last ? bits : last;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* exp(-|x|) / (1 + exp(-|x|)) below 0, 1 / (1 + exp(-|x|)) above: one division. */
INLINE st_real fast_logistic(st_real x)
{
    const exponent e = exponent_of(-fabs(x));
    const st_real power = times_low_power(1 + e.less_1, e);
    return by_sign(x, power, 1) / (1 + power);
}

/* x / (1 + exp(-x)), with exp(-x) / 2^FAR, which does not overflow. The result is multiplied by 2^-FAR last,
 * so that one below the normal range is rounded once. */
INLINE st_real fast_silu(st_real x)
{
    const st_real low = x < SILU_LEAST ? SILU_LEAST : x, in = low > SILU_MOST ? SILU_MOST : low;
    const exponent e = exponent_within(-in);
    const st_real power = (1 + e.less_1) * power_of_2(e.far - 2 * FAR),
                  ratio = in / (power + FAR_BACK) * FAR_BACK;
    return x > SILU_MOST ? x : ratio;
}

/* With e = exp(-|x|), (d + x e) / d² above, and e (d + x) / d² below, d = 1 + e. */
INLINE st_real fast_silu_slope(st_real x)
{
    const st_real t = magnitude(x, -LEAST_EXPONENT), in = by_sign(x, -t, t);
    const exponent e = exponent_within(-t);
    const st_real m = 1 + e.less_1, power = times_low_power(m, e), d = 1 + power;
    const st_real ratio = by_sign(x, m, 1) * (d + in * by_sign(x, 1, power)) / (d * d),
                  slope = by_sign(x, times_low_power(ratio, e), ratio);
    return x == x ? slope : x;
}

/* ---- in double ----------------------------------------------------------------------------------------- */

#ifdef STRIDE_DOUBLE

INLINE double wide_exp(double x)
{
    return fast_exp(x);
}

INLINE double wide_expm1(double x)
{
    return fast_expm1(x);
}

INLINE double log1p_polynomial(double z)
{
    double p = 0.17018598758195563;
    p = p * z + 0.08340089679110188, p = p * z + 0.12106088694701324, p = p * z + 0.1330097332536124;
    p = p * z + 0.1538655993779261, p = p * z + 0.18181743924570015, p = p * z + 0.22222223969728427;
    p = p * z + 0.28571428547854183, p = p * z + 0.4000000000015724;
    return p * z + 0.6666666666666631;
}

#else

typedef struct wide_exponent {
    double less_1;
    uint64_t n; /* modulo 2^12 */
} wide_exponent;

INLINE wide_exponent wide_exponent_of(double x)
{
    double high = x < -700 ? -700 : x, in = high > 700 ? 700 : high;
    const double round = 0x1.8p52, shifted = in * 1.4426950408889634 + round, n = shifted - round;
    const double r = in - n * 0.6931471805599453;
    wide_exponent e;
    memcpy(&e.n, &shifted, sizeof e.n);
    double p = 0.001388248619161395;
    p = p * r + 0.008366522434713388, p = p * r + 0.04166720044869693, p = p * r + 0.16666543603821177;
    p = p * r + 0.499999981523672;
    e.less_1 = r + r * r * p;
    return e;
}

/* x 2^n of a number in [1/2, 2): n is added to its exponent. */
INLINE double wide_times_power(double x, wide_exponent e)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits += e.n << 52;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

INLINE double wide_exp(double x)
{
    wide_exponent e = wide_exponent_of(x);
    return wide_times_power(1 + e.less_1, e);
}

INLINE double wide_expm1(double x)
{
    wide_exponent e = wide_exponent_of(x);
    double power = wide_times_power(1, e);
    return power * e.less_1 + (power - 1);
}

INLINE double log1p_polynomial(double z)
{
    double p = 0.2430094437020133;
    p = p * z + 0.21427657799506608, p = p * z + 0.2861688447486782, p = p * z + 0.39998877771702857;
    return p * z + 0.6666667562139168;
}

#endif

INLINE double wide_logistic(double x)
{
    double m = wide_exp(-fabs(x));
    return (x < 0 ? m : 1) / (1 + m);
}

INLINE double wide_tanh(double x)
{
    double m = wide_expm1(-2 * fabs(x));
    return copysign(-m / (2 + m), x);
}

/* For 0 <= t <= 1. */
INLINE double wide_log1p(double t)
{
    double s = t / (2 + t), z = s * s;
    return s * (2 + z * log1p_polynomial(z));
}

/* The n of 2^n <= x < 2^(n+1), for normal x > 0, and 2^-n. */
INLINE double wide_binary_exponent(double x, double *scale)
{
    const double magic = 0x1p52;
    uint64_t bits, power, number;
    memcpy(&bits, &x, sizeof bits);
    power = (2046 - (bits >> 52)) << 52;
    memcpy(scale, &power, sizeof *scale);
    memcpy(&number, &magic, sizeof number);
    number |= bits >> 52;
    double n;
    memcpy(&n, &number, sizeof n);
    return n - magic - 1023;
}

/* log(1 + t) of any t >= 0 that is not infinite. */
INLINE double wide_log_of_1_and(double t)
{
    double scale, n = wide_binary_exponent(1 + t, &scale);
    return n * 0.6931471805599453 + wide_log1p(n > 0 ? t * scale + (scale - 1) : t);
}

/* For normal x > 0 that is not infinite. */
INLINE double wide_log(double x)
{
    double scale, n = wide_binary_exponent(x, &scale);
    return n * 0.6931471805599453 + wide_log1p(x * scale - 1);
}

/* Tests if code for an instruction set has fused multiply-adds. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
enum { generic_FUSES = true };
#else
enum { generic_FUSES = false };
#endif
enum { avx2_FUSES = true, avx512_FUSES = true };

/* ---- the normal distribution --------------------------------------------------------------------------- */

#ifdef STRIDE_DOUBLE
#define LOWER_HALF (real_bits)0x7ffffff
#define NORMAL_MOST 44 /* the density is 0 there */
#define NORMAL_RATE 1
#define NORMAL_SHIFT 4
#define NORMAL_CENTRE 1

INLINE st_real normal_polynomial(st_real y)
{
    st_real q = -1.1965467219032051e-9;
    q = q * y - 3.390609389834249e-10, q = q * y + 1.4619043041819437e-8, q = q * y + 1.606930916996967e-8;
    q = q * y - 7.721044980673833e-8, q = q * y - 1.5659218832344496e-7, q = q * y + 2.6415458193213227e-7;
    q = q * y + 1.0218572721228083e-6, q = q * y - 6.252284525019151e-7, q = q * y - 5.920011297208651e-6;
    q = q * y + 7.149755302836055e-7, q = q * y + 3.51445696808856e-5, q = q * y - 1.9078439758303457e-6;
    q = q * y - 0.000231094903718143, q = q * y + 0.0001333442485243141, q = q * y + 0.001630818453280152;
    q = q * y - 0.003479692361606926, q = q * y - 0.007540188966435193, q = q * y + 0.06039657489066628;
    q = q * y - 0.18652185795966542, q = q * y + 0.3871374007422195, q = q * y - 0.6078966419718921;
    return q * y + 0.7552851304157515;
}
#else
#define LOWER_HALF (real_bits)0xfff
#define NORMAL_MOST 15
#define NORMAL_RATE (st_real)0.90625 /* of those tried, the one with the least error */
#define NORMAL_SHIFT (st_real)3.4267578125
#define NORMAL_CENTRE (st_real)0.75

INLINE st_real normal_polynomial(st_real y)
{
    st_real q = 0.000409886212f;
    q = q * y - 0.000235210551f, q = q * y - 0.00411817757f, q = q * y + 0.00639058277f;
    q = q * y + 0.0323427878f, q = q * y - 0.176356122f, q = q * y + 0.443269283f;
    q = q * y - 0.726103663f;
    return q * y + 0.837005496f;
}
#endif

INLINE st_real upper_half(st_real x)
{
    real_bits bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= ~LOWER_HALF;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* a b + c, rounded once or, without fused multiply-add, nearly: from the halves of digits. */
INLINE st_real product_and(st_real a, st_real b, st_real c, bool fuses)
{
    if (fuses) return fma(a, b, c);
    const st_real x = upper_half(a), y = upper_half(b), product = a * b;
    return (product + c) + (x * y - product + x * (b - y) + (a - x) * y + (a - x) * (b - y));
}

/* exp(-r/2) - 1, for |r| <= log(2). */
INLINE st_real fast_half_expm1(st_real r)
{
#ifdef STRIDE_DOUBLE
    st_real p = 5.0965e-13;
    p = p * r - 1.22602e-11, p = p * r + 2.6911526e-10, p = p * r - 5.38227429e-9;
    p = p * r + 9.6881199893e-8, p = p * r - 1.55009920984e-6, p = p * r + 2.1701388889004e-5;
    p = p * r - 0.0002604166666663, p = p * r + 0.002604166666666657, p = p * r - 0.020833333333333346;
    p = p * r + 0.125, p = p * r - 0.5;
#else
    st_real p = 2.16913922e-5f;
    p = p * r - 0.000261454348f, p = p * r + 0.00260420796f, p = p * r - 0.0208330378f;
    p = p * r + 0.125f, p = p * r - 0.5f;
#endif
    return p * r;
}

/* exp(-t²/2) */
INLINE exponent exponent_of_square(st_real t, bool fuses)
{
    const st_real s = t * t, low = product_and(t, t, -s, fuses),
                  shifted = s * (st_real)-0.7213475204444817 + ROUND_FAR, n = shifted - ROUND_FAR,
                  lower = TWICE_LOG_2_LOW == 0 ? low : n * TWICE_LOG_2_LOW + low,
                  rest = product_and(n, TWICE_LOG_2, s, fuses) + lower;
    exponent e = { .less_1 = fast_half_expm1(rest) };
    memcpy(&e.far, &shifted, sizeof shifted);
    return e;
}

/* x Φ(x) = max(x, 0) - t Φ(-t), t = |x|. The polynomial takes the rounded share, so that in the tail, where
 * it is nearly 0.4 / share, their product does not depend on the rounding. */
INLINE st_real fast_normal(st_real x, bool fuses)
{
    const st_real t = magnitude(x, NORMAL_MOST), share = t / (t * NORMAL_RATE + NORMAL_SHIFT),
                  q = normal_polynomial(2 * NORMAL_RATE * share - NORMAL_CENTRE), part = share * q;
    const exponent e = exponent_of_square(t, fuses);
    return (x < 0 ? 0 : x) - times_low_power(product_and(share, q, part * e.less_1, fuses), e);
}

/* Φ(x) + x φ(x): Φ(-t) - t φ(t) below 0, 1 less that above. A NaN, which t is not, passes through `over`. */
INLINE st_real fast_normal_slope(st_real x, bool fuses)
{
    const st_real t = magnitude(x, NORMAL_MOST), over = 1 / (fabs(x) + NORMAL_SHIFT / NORMAL_RATE),
                  part = normal_polynomial(t * over * 2 - NORMAL_CENTRE) * over -
                         t * (st_real)(NORMAL_RATE * 0.3989422804014327);
    const exponent e = exponent_of_square(t, fuses);
    const st_real tail = (part + part * e.less_1) * power_of_2(e.far) * (FAR_BACK / NORMAL_RATE);
    return x < 0 ? tail : 1 - tail;
}

#endif
