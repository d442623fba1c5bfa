/* one_hot.h: classes as numbers, for losses of numbers. */
#ifndef STRIDE_EXAMPLES_STRIDE_ONE_HOT_H
#define STRIDE_EXAMPLES_STRIDE_ONE_HOT_H

#include "nn/data.h"

/* A class in `number` becomes y [K]: 1 for the class, 0 for the others. -1 with an error: no class from 0 to
 * K - 1. */
int one_hot(double number, st_tensor y);

/* The set with such targets; `of` has classes, and must outlive it. NULL with an error. */
st_dataset *one_hot_set(const st_dataset *of, ptrdiff_t classes);

#endif
