/* rows.h: the reductions of contiguous rows that vectors speed up; private to the library. */
#ifndef STRIDE_TENSOR_ROWS_H
#define STRIDE_TENSOR_ROWS_H

#include "tensor/tensor.h"

#include <math.h>

typedef struct tensor_rows {
    double (*sum)(ptrdiff_t n, const st_real *x);
    st_real (*max)(ptrdiff_t n, const st_real *x, st_real best); /* of the row and `best` */
} tensor_rows;

/* walk.c has the definitions; tensor/fast/ puts in vectors, with the same results. Not const: clang would
 * read the weak definition when it compiles. */
extern const tensor_rows *tensor_rows_in_use;

/* Tests if x replaces the maximum so far: the first of equal elements is kept, NaN is greater than all. */
static inline bool exceeds(st_real x, st_real best)
{
    return x > best || (isnan(x) && !isnan(best));
}

#endif
