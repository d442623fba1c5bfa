/* rows.c: sums and maxima of rows by vectors. */
#include "tensor/fast/sum.h"
#include "tensor/tables.h"

#include <math.h>
#include <string.h>

#define SUM(M)                                                                                               \
    M##_TARGET static double M##_sum(ptrdiff_t n, const st_real *x)                                          \
    {                                                                                                        \
        return sum_by_quads(n, x);                                                                           \
    }
#define SUM_NAME(M) M##_sum,
EACH_ISA(SUM)
static double (*const sums[])(ptrdiff_t n, const st_real *x) = { EACH_ISA(SUM_NAME) };

static double sum(ptrdiff_t n, const st_real *x)
{
    return sums[isa_best()](n, x);
}

/* Each lane keeps the maximum of its elements; where both zeros are the largest, the result is either. */
static st_real max(ptrdiff_t n, const st_real *x, st_real best)
{
    enum { VECTORS = 4, LANES = ISA_LANES(generic), MANY = VECTORS * LANES };
    ptrdiff_t i = 0;
    if (n >= MANY) {
        generic_vector most[VECTORS];
        memcpy(most, x, sizeof most);
        for (i = MANY; i + MANY <= n; i += MANY) EACH(k, VECTORS)
            {
                const generic_vector v = *(const generic_loose *)(x + i + k * LANES);
                most[k] = ISA_PICK(generic, (v > most[k]) | (v != v), v, most[k]);
            }
        for (int k = 0; k < MANY; k++)
            if (exceeds(most[k / LANES][k % LANES], best)) best = most[k / LANES][k % LANES];
    }
    for (; i < n; i++)
        if (exceeds(x[i], best)) best = x[i];
    return best;
}

row_sum *row_sum_in_use = sum;
row_max *row_max_in_use = max;
