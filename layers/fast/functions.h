/* functions.h: exp and its kin as arithmetic without branches, which the compiler makes vectors of.
 *
 * A loop over one of these functions becomes a loop of vectors (-O3) of the instruction set that its caller
 * is compiled for. Additions and multiplications are not fused, so that every instruction set, and every
 * place in a row, gives the same bits.
 *
 * exp, expm1 and logistic are in st_real; the functions with `wide` in their names take and return double in
 * either precision. The float build rounds their results to float: they need errors of 2^-28 only.
 *
 *     exp        x = n log 2 + r, |r| <= log(2)/2; exp(r) - 1 = r + r² p(r); exp(x) = 2^n exp(r)
 *     expm1      2^n (exp(r) - 1) + (2^n - 1)
 *     logistic   m = exp(-|x|): m / (1 + m) below 0, 1 less that above
 *     tanh       m = expm1(-2|x|): -m / (2 + m), with the sign of x
 *     log1p      of t in [0, 1]: s = t / (2 + t), 2 atanh(s) = s (2 + s² p(s²)), another p
 *     normal     Φ(-t) = exp(-t²/2) q(y) / (t + 4), y = (t - 4) / (t + 4), for t >= 0;
 *                erf(x) is 2Φ(x√2) - 1
 *
 * The polynomials p and q have the smallest greatest relative error (Remez's exchange, in 60 digits): 2^-26
 * and 2^-30 in the float build, 2^-62 and 2^-55 in double. What activations make of them is measured by `make
 * check-ulp`; fast_exp and fast_expm1 are within 1 ulp, fast_logistic within 1.9. */
#ifndef STRIDE_LAYERS_FAST_FUNCTIONS_H
#define STRIDE_LAYERS_FAST_FUNCTIONS_H

#include "tensor/fast/machine.h"

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
#define LEAST_EXPONENT ((st_real)-1000) /* exp of it times a number of the range rounds to 0 */
#define MOST_EXPONENT ((st_real)710)
#else
typedef uint32_t real_bits;
enum { BIAS = 127, MANTISSA = 23 };
#define ROUND 0x1.8p23f
#define LOG_2_HIGH 0x1.62e4p-1f
#define LOG_2_LOW 1.42860682031e-6f
#define LEAST_EXPONENT ((st_real)-125)
#define MOST_EXPONENT ((st_real)89)
#endif

/* exp(x) = (1 + less_1) 2^n. */
typedef struct exponent {
    st_real less_1;
    real_bits biased; /* n + 2 BIAS */
} exponent;

/* The exponent of x + rest, for x <= MOST_EXPONENT and |rest| much smaller than 1. */
INLINE exponent exponent_of_sum(st_real x, st_real rest)
{
    const st_real in = x < LEAST_EXPONENT ? LEAST_EXPONENT : x;
    const st_real round = ROUND, shifted = in * (st_real)1.44269504088896340736 + round, n = shifted - round;
    const st_real r = in - n * LOG_2_HIGH - (n * LOG_2_LOW - rest); /* n LOG_2_HIGH is exact */
    real_bits bits, zero;
    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&zero, &round, sizeof zero);
#ifdef STRIDE_DOUBLE
    st_real p = 2.08753376952518185e-9;
    p = p * r + 2.51089797891049824e-8, p = p * r + 2.75574026075944636e-7, p = p * r + 2.7557244371451218e-6;
    p = p * r + 2.48015871726008668e-5, p = p * r + 1.98412698859688363e-4,
    p = p * r + 0.00138888888889623187;
    p = p * r + 0.00833333333332169027, p = p * r + 0.041666666666666509, p = p * r + 0.166666666666666765;
    p = p * r + 0.5;
#else
    st_real p = 0.00138824861916139499f;
    p = p * r + 0.00836652243471338825f, p = p * r + 0.0416672004486969316f,
    p = p * r + 0.166665436038211772f;
    p = p * r + 0.49999998152367199f;
#endif
    return (exponent){ r + r * r * p, bits - zero + 2 * BIAS };
}

INLINE exponent exponent_of(st_real x)
{
    return exponent_of_sum(x, 0);
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
    real_bits half = e.biased >> 1;
    return x * power_of_2(half) * power_of_2(e.biased - half);
}

INLINE st_real fast_exp(st_real x)
{
    exponent e = exponent_of(x > MOST_EXPONENT ? MOST_EXPONENT : x);
    return times_power(1 + e.less_1, e);
}

/* For x <= 0. */
INLINE st_real fast_expm1(st_real x)
{
    exponent e = exponent_of(x < -50 ? -50 : x);
    st_real power = power_of_2(e.biased - BIAS);
    return power * e.less_1 + (power - 1);
}

/* m / d with d = 1 + m 2^n is corrected by what d has rounded off. Below 0 it is multiplied by 2^n last, so
 * that nothing is lost below the normal range. */
INLINE st_real fast_logistic(st_real x)
{
    exponent e = exponent_of(-fabs(x));
    st_real m = 1 + e.less_1, power = times_power(m, e), d = 1 + power, ratio = m / d;
    st_real lesser = times_power(ratio - ratio * (power - (d - 1)), e);
    return x < 0 ? lesser : 1 - lesser;
}

/* x logistic(x), faster than the product, and its errors are as small. */
INLINE st_real fast_silu(st_real x)
{
    exponent e = exponent_of(-fabs(x));
    st_real m = 1 + e.less_1, d = 1 + times_power(m, e), in = x < LEAST_EXPONENT ? LEAST_EXPONENT : x;
    return x < 0 ? times_power(in * m / d, e) : x / d;
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

/* exp(-t²/2): t² as the square of the upper half of t's digits, which is exact, and the rest. */
INLINE double wide_exp_of_square(double t)
{
    uint64_t bits;
    double upper;
    memcpy(&bits, &t, sizeof bits);
    bits &= ~(uint64_t)0x7ffffff;
    memcpy(&upper, &bits, sizeof upper);
    exponent e = exponent_of_sum(-upper * upper / 2, (upper - t) * (upper + t) / 2);
    return times_power(1 + e.less_1, e);
}

INLINE double log1p_polynomial(double z)
{
    double p = 0.170185987581955628;
    p = p * z + 0.0834008967911018749, p = p * z + 0.121060886947013244, p = p * z + 0.133009733253612394;
    p = p * z + 0.153865599377926101, p = p * z + 0.181817439245700151, p = p * z + 0.222222239697284268;
    p = p * z + 0.285714285478541841, p = p * z + 0.400000000001572383;
    return p * z + 0.666666666666663038;
}

INLINE double normal_polynomial(double y)
{
    double q = -1.19654672190320506e-9;
    q = q * y - 3.39060938983424927e-10, q = q * y + 1.46190430418194368e-8,
    q = q * y + 1.60693091699696705e-8;
    q = q * y - 7.72104498067383399e-8, q = q * y - 1.5659218832344496e-7, q = q * y + 2.64154581932132284e-7;
    q = q * y + 1.02185727212280829e-6, q = q * y - 6.2522845250191516e-7, q = q * y - 5.92001129720865117e-6;
    q = q * y + 7.14975530283605525e-7, q = q * y + 3.5144569680885602e-5, q = q * y - 1.9078439758303457e-6;
    q = q * y - 2.31094903718143014e-4, q = q * y + 1.33344248524314075e-4,
    q = q * y + 0.00163081845328015189;
    q = q * y - 0.00347969236160692632, q = q * y - 0.00754018896643519312, q = q * y + 0.0603965748906662778;
    q = q * y - 0.186521857959665417, q = q * y + 0.387137400742219477, q = q * y - 0.607896641971892049;
    return q * y + 0.755285130415751478;
}

#else

typedef struct wide_exponent {
    double less_1;
    uint64_t n; /* modulo 2^12 */
} wide_exponent;

INLINE wide_exponent wide_exponent_of(double x)
{
    double high = x < -700 ? -700 : x, in = high > 700 ? 700 : high;
    const double round = 0x1.8p52, shifted = in * 1.44269504088896340736 + round, n = shifted - round;
    const double r = in - n * 0.693147180559945309417;
    wide_exponent e;
    memcpy(&e.n, &shifted, sizeof e.n);
    double p = 0.00138824861916139499;
    p = p * r + 0.00836652243471338825, p = p * r + 0.0416672004486969316, p = p * r + 0.166665436038211772;
    p = p * r + 0.49999998152367199;
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

/* exp(-t²/2), t being a float, whose square is exact. */
INLINE double wide_exp_of_square(double t)
{
    return wide_exp(-t * t / 2);
}

INLINE double log1p_polynomial(double z)
{
    double p = 0.243009443702013295;
    p = p * z + 0.214276577995066091, p = p * z + 0.28616884474867821, p = p * z + 0.399988777717028538;
    return p * z + 0.666666756213916823;
}

INLINE double normal_polynomial(double y)
{
    double q = -4.63191704723624588e-5;
    q = q * y - 2.22058533831398219e-4, q = q * y + 1.70940079993644867e-4,
    q = q * y + 0.00163708842610306213;
    q = q * y - 0.00349129652065741494, q = q * y - 0.00754290576980709333, q = q * y + 0.0603981480613558588;
    q = q * y - 0.18652155447013853, q = q * y + 0.387137318597044229, q = q * y - 0.607896649780853138;
    return q * y + 0.755285131160974595;
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

/* Φ(x) and φ(x): the normal distribution and its density. */
typedef struct normal {
    double below, density;
} normal;

INLINE normal wide_normal(double x)
{
    double t = fabs(x) > 50 ? 50 : fabs(x), over = 1 / (t + 4),
           e = wide_exp_of_square(t); /* exp(-50²/2) is 0 */
    double tail = e * (normal_polynomial((t - 4) * over) * over);
    return (normal){ x < 0 ? tail : 1 - tail, e * 0.398942280401432677940 };
}

#endif
