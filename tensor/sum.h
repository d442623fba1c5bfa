/* sum.h: the sum of a row, accumulated in double in a fixed order: bit-identical on every machine. */
#ifndef STRIDE_TENSOR_SUM_H
#define STRIDE_TENSOR_SUM_H

#include "tensor/inline.h"

#include <stddef.h>

/* Sixteen sums, each of every sixteenth element; they become four, and the four one. Vectors of any width can
 * keep this order. */
INLINE double sum_of_row(ptrdiff_t n, const st_real *x)
{
    double part[16] = { 0 }, four[4];
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++) part[k] += (double)x[i + k];
    for (int k = 0; k < 4; k++) four[k] = (part[k] + part[4 + k]) + (part[8 + k] + part[12 + k]);
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) four[k] += (double)x[i + k];
    double sum = (four[0] + four[1]) + (four[2] + four[3]);
    for (; i < n; i++) sum += (double)x[i];
    return sum;
}

#endif
