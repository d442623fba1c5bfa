/* digits.h: a data set of drawn digits, for use without MNIST: images [1, 28, 28] from 0 to 1; the class is
 * the digit. Image i is a function of the seed and i; images 10 k to 10 k + 9 are one of each digit. */
#ifndef STRIDE_NN_DATA_DIGITS_H
#define STRIDE_NN_DATA_DIGITS_H

#include "nn/data.h"

#include <stdint.h>

ST_API_BEGIN

/* Draws all images at once, in all threads, and stores them as bytes. Another seed draws other images, to
 * test with. NULL on failure. */
st_dataset *st_digits(ptrdiff_t count, uint64_t seed);

ST_API_END

#endif
