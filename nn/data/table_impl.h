/* table_impl.h: shared by csv.c, table.c and normalize.c: sets that tables are read into. */
#ifndef STRIDE_NN_DATA_TABLE_IMPL_H
#define STRIDE_NN_DATA_TABLE_IMPL_H

#include "nn/data/data_impl.h"
#include "nn/data/table.h"

/* A set of x [N, ...] and y [N, ...] and a copy of `about`. Takes the tensors and `exact`, also on failure:
 * x in double, or NULL. */
st_dataset *table_dataset(const st_table *about, st_tensor x, st_tensor y, double *exact);

/* The features of sample i in double, in row-major order, if x does not hold all of their digits; otherwise
 * NULL. A part of a set has its origin's. */
const double *table_exact(const st_dataset *d, ptrdiff_t i);

#endif
