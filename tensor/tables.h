/* tables.h: functions of the core that annexes replace, to the same results but for roundings; private to the
 * library.
 *
 * Each is a pointer, as are other tables of annexes (engine.h, parallel.h, layer_impl.h, ...). The core has
 * its weak definition, an annex the strong one. The pointers are not const: clang would read the weak
 * definition when it compiles. */
#ifndef STRIDE_TENSOR_TABLES_H
#define STRIDE_TENSOR_TABLES_H

#include "tensor/inline.h"
#include "tensor/random.h"
#include "tensor/tensor.h"

#include <math.h>

/* The sum of a contiguous row, accumulated in double, bit-identical on every machine. Sixteen sums, each of
 * every sixteenth element, become four, and the four one: vectors of any width can keep this order. */
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

/* sum_of_row, or the same by the vectors of tensor/fast/. */
typedef double row_sum(ptrdiff_t n, const st_real *x);
extern row_sum *row_sum_in_use;

/* The maximum of `best` and a contiguous row, for tensor/reduce/; NULL without tensor/fast/. */
typedef st_real row_max(ptrdiff_t n, const st_real *x, st_real best);
extern row_max *row_max_in_use;

/* Returns a function for st_walk, with a row_products as context: the product of the rows after at[0] goes
 * there, or is added there, as a sum if its stride is 0. NULL without tensor/fast/; layers/join.c has one. */
typedef struct row_products {
    int factors; /* 1 to ST_MAX_VIEWS - 1; the first may be at[0] */
    bool adds;
} row_products;
extern st_row_function *(*row_products_by_vectors)(void);

/* Tests if x replaces the maximum so far: the first of equal elements is kept, NaN is greater than all. */
static inline bool exceeds(st_real x, st_real best)
{
    return x > best || (isnan(x) && !isnan(best));
}

/* c = alpha a b + beta c, for matrices of any strides that st_gemm has checked; none of them is empty. NULL
 * in the core, where st_gemm runs its own loops, as it does with STRIDE_ENGINE=reference; tensor/blas/ puts
 * BLAS in. */
typedef void product_function(st_tensor c, st_real alpha, st_tensor a, st_tensor b, st_real beta);
extern product_function *product_by_library;

/* Makes the words of some of n blocks of random numbers, the first ones; returns how many. NULL in the core,
 * where st_random_words makes one block at a time; tensor/fast/ puts vectors in, to the same bits. */
typedef ptrdiff_t random_words_function(st_random_key key, uint64_t counter, uint32_t *word, ptrdiff_t n);
extern random_words_function *random_words_by_vectors;

#endif
