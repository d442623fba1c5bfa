/* digits.h: a data set of drawn digits, for machines without MNIST: images [1, 28, 28] of 0 to 1, the class
 * is the digit. Image i depends on nothing but the seed and i; every ten in a row hold each digit once. */
#ifndef STRIDE_NN_DATA_DIGITS_H
#define STRIDE_NN_DATA_DIGITS_H

#include "nn/data.h"

#include <stdint.h>

ST_API_BEGIN

/* All images are drawn at once, on all threads, and kept as bytes. NULL on failure. */
st_dataset *st_digits(ptrdiff_t count, uint64_t seed);

ST_API_END

#endif
