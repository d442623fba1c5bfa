/* rows.c: sums, maxima and products of rows by vectors. */
#include "tensor/counts.h"
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

enum { PRODUCTS = 512 }; /* elements that are multiplied before they are added */

/* to = a b, where strides of a and b may be 0, and `to` may be a. */
INLINE void multiply(ptrdiff_t n, st_real *to, const st_real *a, ptrdiff_t sa, const st_real *b, ptrdiff_t sb)
{
    const st_real all_a = *a, all_b = *b;
    if (sa == 1 && sb == 1) {
        INDEPENDENT
        for (ptrdiff_t i = 0; i < n; i++) to[i] = a[i] * b[i];
    } else if (sa == 1 && sb == 0) {
        INDEPENDENT
        for (ptrdiff_t i = 0; i < n; i++) to[i] = a[i] * all_b;
    } else if (sa == 0 && sb == 1) {
        INDEPENDENT
        for (ptrdiff_t i = 0; i < n; i++) to[i] = all_a * b[i];
    } else {
        for (ptrdiff_t i = 0; i < n; i++) to[i] = a[i * sa] * b[i * sb];
    }
}

INLINE void multiply_all(int factors, ptrdiff_t n, st_real *to, st_real *const at[], const ptrdiff_t stride[])
{
    const st_real one = 1;
    if (factors == 1) multiply(n, to, at[1], stride[1], &one, 0);
    else multiply(n, to, at[1], stride[1], at[2], stride[2]);
    if (factors == 3) multiply(n, to, to, 1, at[3], stride[3]);
}

/* A piece of a row that is not put where it is multiplied. */
INLINE void products_of_piece(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[],
                              const row_products *p)
{
    st_real block[PRODUCTS], *to = at[0];
    multiply_all(p->factors, n, block, at, stride);
    if (p->adds && stride[0] == 0) *to = (st_real)((double)*to + sum_by_quads(n, block));
    else if (p->adds && stride[0] == 1)
        for (ptrdiff_t i = 0; i < n; i++) to[i] += block[i];
    else
        for (ptrdiff_t i = 0; i < n; i++)
            to[i * stride[0]] = p->adds ? to[i * stride[0]] + block[i] : block[i];
}

#define PRODUCTS_ROW(M)                                                                                      \
    M##_TARGET static void M##_products(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[],          \
                                        void *context)                                                       \
    {                                                                                                        \
        const row_products *p = context;                                                                     \
        st_real *from[ST_MAX_VIEWS];                                                                         \
        for (; n > PRODUCTS && (p->adds || stride[0] != 1); n -= PRODUCTS) {                                 \
            M##_products(PRODUCTS, at, stride, context);                                                     \
            for (int k = 0; k <= p->factors; k++) from[k] = at[k] + PRODUCTS * stride[k];                    \
            at = from;                                                                                       \
        }                                                                                                    \
        if (p->adds || stride[0] != 1) products_of_piece(n, at, stride, p);                                  \
        else multiply_all(p->factors, n, at[0], at, stride);                                                 \
    }
EACH_ISA(PRODUCTS_ROW)
#define PRODUCTS_NAME(M) M##_products,
static st_row_function *const products[] = { EACH_ISA(PRODUCTS_NAME) };

static st_row_function *products_in_use(void)
{
    return products[isa_best()];
}

row_sum *row_sum_in_use = sum;
row_max *row_max_in_use = max;
st_row_function *(*row_products_by_vectors)(void) = products_in_use;
