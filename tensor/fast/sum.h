/* sum.h: sum_of_row by vectors of four doubles, in the same order. */
#ifndef STRIDE_TENSOR_FAST_SUM_H
#define STRIDE_TENSOR_FAST_SUM_H

#include "tensor/fast/isa.h"

#include <stddef.h>

enum { QUAD = 4 };
typedef double quad __attribute__((vector_size(QUAD * sizeof(double))));

/* Four elements as doubles. gcc compiles this to one instruction, a vector conversion to many. */
#define QUAD_OF(x) ((quad){ (double)(x)[0], (double)(x)[1], (double)(x)[2], (double)(x)[3] })

INLINE double sum_by_quads(ptrdiff_t n, const st_real *x)
{
    enum { LONG = 4 }; /* independent sums, as each addition waits for the one before */
    quad part[LONG] = { { 0 } };
    ptrdiff_t i = 0;
    for (; i + QUAD * LONG <= n; i += QUAD * LONG) EACH(k, LONG) part[k] += QUAD_OF(x + i + k * QUAD);
    quad all = (part[0] + part[1]) + (part[2] + part[3]);
    for (; i + QUAD <= n; i += QUAD) all += QUAD_OF(x + i);
    double sum = (all[0] + all[1]) + (all[2] + all[3]);
    for (; i < n; i++) sum += (double)x[i];
    return sum;
}

#endif
