/* counts.h: integer arithmetic of sizes, and numbers in messages. */
#ifndef STRIDE_TENSOR_COUNTS_H
#define STRIDE_TENSOR_COUNTS_H

#include "tensor/inline.h"

#include <math.h>
#include <stddef.h>

INLINE ptrdiff_t largest(ptrdiff_t a, ptrdiff_t b)
{
    return a > b ? a : b;
}

INLINE ptrdiff_t smallest(ptrdiff_t a, ptrdiff_t b)
{
    return a < b ? a : b;
}

/* whole / part, rounded up. */
INLINE ptrdiff_t ceil_div(ptrdiff_t whole, ptrdiff_t part)
{
    return (whole + part - 1) / part;
}

INLINE ptrdiff_t greatest_common_divisor(ptrdiff_t a, ptrdiff_t b)
{
    while (b) {
        const ptrdiff_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* x for a message. printf writes the sign of a NaN, which processors and compilers choose. */
INLINE double printable(double x)
{
    return isnan(x) ? (double)NAN : x;
}

#endif
