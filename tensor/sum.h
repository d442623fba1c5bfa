/* sum.h: sums in double of many reals; private to the library.
 *
 * By eight lanes, the same on any machine; what is left of them goes to the end of the sum. */
#ifndef STRIDE_TENSOR_SUM_H
#define STRIDE_TENSOR_SUM_H

#include "tensor/real.h"

#include <stddef.h>

enum { QUAD = 4, QUADS = 2 };
typedef double quad __attribute__((vector_size(4 * sizeof(double))));
typedef real quad_at __attribute__((vector_size(4 * sizeof(real)), aligned(sizeof(real)), may_alias));

static inline double sum_of_row(ptrdiff_t n, const real *x)
{
    quad part[QUADS] = { { 0 } };
    double sum = 0;
    ptrdiff_t i = 0;
    for (; i + QUAD * QUADS <= n; i += QUAD * QUADS)
        for (int k = 0; k < QUADS; k++)
            part[k] += __builtin_convertvector(*(const quad_at *)(x + i + k * QUAD), quad);
    for (int lane = 0; lane < QUAD; lane++) sum += part[0][lane] + part[1][lane];
    for (; i < n; i++) sum += (double)x[i];
    return sum;
}

#endif
