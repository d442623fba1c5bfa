/* powers.h: logarithms and powers of 2, in st_real, as arithmetic without branches (functions.h).
 *
 *     log2     x = 2^n (1 + s), s between sqrt(1/2) - 1 and sqrt(2) - 1: n + s p(s)
 *     power    x = n + r, |r| <= 1/2: 2^n (1 + r q(r))
 *
 * In the float build p and q have the smallest greatest relative error, 2^-27 and 2^-26 (Remez's exchange);
 * logarithms are right to two units in the last place. */
#ifndef STRIDE_LAYERS_FAST_POWERS_H
#define STRIDE_LAYERS_FAST_POWERS_H

#include "layers/fast/functions.h"

#define LOG2_E (st_real)1.44269504088896340736
#define LN_2 (st_real)0.693147180559945309417
#ifdef STRIDE_DOUBLE
#define LEAST_NORMAL 0x1p-1022
#else
#define LEAST_NORMAL 0x1p-126f
#endif

#ifndef STRIDE_DOUBLE
/* The n of x. */
INLINE int32_t log2_exponent(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int32_t)(bits - 0x3f3504f3) >> 23; /* 1 + s is from sqrt(1/2) on */
}

/* n + log2(1 + s) */
INLINE float log2_of_parts(int32_t n, float s)
{
    const float s2 = s * s, s4 = s2 * s2;
    const float a = 1.44269504083f - 0.721347351507f * s, b = 0.480898241083f - 0.360696648795f * s,
                c = 0.288567406207f - 0.239617416735f * s, d = 0.204600672281f - 0.191062703923f * s,
                e = 0.186174605084f - 0.109949225789f * s;
    const float p = (a + b * s2) + s4 * ((c + d * s2) + s4 * e);
    return p * s + (float)n;
}
#endif

/* log2(2^-lower x) of a normal x > 0. */
INLINE st_real fast_log2(st_real x, int lower)
{
#ifdef STRIDE_DOUBLE
    return wide_log(lower ? x * 0x1p-440 : x) * LOG2_E;
#else
    uint32_t bits;
    float m;
    const int32_t n = log2_exponent(x);
    memcpy(&bits, &x, sizeof bits);
    bits -= (uint32_t)n << 23;
    memcpy(&m, &bits, sizeof m);
    return log2_of_parts(n - lower, m - 1);
#endif
}

/* log2(1 + x) of -1 < x <= 0, 1 + x normal. */
INLINE st_real fast_log2_of_1_and(st_real x)
{
#ifdef STRIDE_DOUBLE
    return -wide_log_of_1_and(-x / (1 + x)) * LOG2_E;
#else
    const int32_t n = log2_exponent(1 + x);
    const uint32_t bits = (uint32_t)(BIAS - n) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return log2_of_parts(n, x * scale + (scale - 1));
#endif
}

/* 2^(n + raised) and 2^r - 1 of the parts of x. */
INLINE st_real exp2_power(st_real x, int raised)
{
#ifdef STRIDE_DOUBLE
    return power_of_2(exponent_within(x * LN_2).far - FAR + (real_bits)raised);
#else
    const float shifted = x + ROUND;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return power_of_2(bits + BIAS + (uint32_t)raised);
#endif
}

#ifndef STRIDE_DOUBLE
/* 2^r = 1 + r (t[0] + t[1] r + ...), |r| <= 1/2. */
static const float exp2_terms[] = { 0.693147187927f,   0.24022649795f,    0.0555035743383f,
                                    0.00961823747976f, 0.00133907354285f, 0.000154035175304f };
#endif

INLINE st_real exp2_rest(st_real x)
{
#ifdef STRIDE_DOUBLE
    return exponent_within(x * LN_2).less_1;
#else
    const float round = ROUND, r = x - ((x + round) - round);
    const float *t = exp2_terms;
    const float r2 = r * r, a = t[0] + t[1] * r, b = t[2] + t[3] * r, c = t[4] + t[5] * r;
    const float p = a + r2 * (b + r2 * c);
    return r * p;
#endif
}

/* 2^(x + raised), which is normal: n + raised is added to the exponent of 1 + r q(r). */
INLINE st_real normal_exp2(st_real x, int raised)
{
#ifdef STRIDE_DOUBLE
    const st_real power = exp2_power(x, raised);
    return power * exp2_rest(x) + power;
#else
    const float round = ROUND, shifted = x + round, r = x - (shifted - round);
    const float *t = exp2_terms;
    float e = t[4] + t[5] * r;
    e = t[3] + e * r, e = t[2] + e * r, e = t[1] + e * r, e = t[0] + e * r, e = 1 + e * r;
    uint32_t bits, n;
    memcpy(&bits, &e, sizeof bits);
    memcpy(&n, &shifted, sizeof n);
    bits += (n + (uint32_t)raised) << MANTISSA;
    memcpy(&e, &bits, sizeof e);
    return e;
#endif
}

#endif
