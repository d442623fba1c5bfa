/* exponential.h: exp, expm1, the logistic function and tanh as arithmetic that the compiler vectorises.
 *
 * x = n log 2 + r with |r| <= log(2)/2, so exp(x) = 2^n exp(r), and exp(r) - 1 = r + r² p(r) with a
 * polynomial p fitted to a tenth of an ulp. The largest errors over all floats: exp and expm1 1 ulp, the
 * logistic function 2.5, tanh 3. In double the C library's functions are used. */
#ifndef STRIDE_LAYERS_EXPONENTIAL_H
#define STRIDE_LAYERS_EXPONENTIAL_H

#include "tensor/machine.h"

#include <stdint.h>
#include <string.h>
#include <tgmath.h>

#ifdef STRIDE_DOUBLE

INLINE st_real exponential(st_real x)
{
    return exp(x);
}

INLINE st_real exponential_less_1(st_real x)
{
    return expm1(x);
}

INLINE st_real hyperbolic_tangent(st_real x)
{
    return tanh(x);
}

#else

typedef struct exponent {
    st_real less_1; /* exp(r) - 1 */
    uint32_t n254;  /* n + 254: twice the bias of a float's exponent */
} exponent;

static inline exponent exponent_of(st_real x)
{
    const st_real round = 12582912; /* 1.5 · 2^23: adding it rounds to an integer */
    st_real shifted = x * 1.44269504f + round, n = shifted - round;
    st_real r =
        x - n * 0.693359375f - n * -2.12194440e-4f; /* log 2 in two parts: the first product is exact */
    uint32_t bits, zero;
    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&zero, &round, sizeof zero);
    st_real p = (((0.00139264064f * r + 0.00836335681f) * r + 0.0416665524f) * r + 0.166665763f) * r + 0.5f;
    return (exponent){ r + r * r * p, bits - zero + 254 };
}

/* 2^(e - 127) */
INLINE st_real power_of_2(uint32_t e)
{
    uint32_t bits = e << 23;
    st_real power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* 2^n as two factors, neither of which overflows; beyond the range the results are 0 and infinity. */
INLINE st_real exponential(st_real x)
{
    st_real low = x < -104 ? -104 : x, within = low > 89 ? 89 : low;
    exponent e = exponent_of(within);
    uint32_t half = e.n254 >> 1;
    return (1 + e.less_1) * power_of_2(half) * power_of_2(e.n254 - half);
}

/* For x <= 0. */
INLINE st_real exponential_less_1(st_real x)
{
    exponent e = exponent_of(x < -30 ? -30 : x);
    st_real power = power_of_2(e.n254 - 127);
    return power * e.less_1 + (power - 1);
}

INLINE st_real hyperbolic_tangent(st_real x)
{
    st_real e = exponential_less_1(-2 * fabs(x)); /* in [-1, 0] */
    return copysign(-e / (2 + e), x);
}

#endif

INLINE st_real logistic(st_real x)
{
    return 1 / (1 + exponential(-x));
}

#endif
