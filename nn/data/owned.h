/* owned.h: data sets that own what they are made of. */
#ifndef STRIDE_NN_DATA_OWNED_H
#define STRIDE_NN_DATA_OWNED_H

#include "nn/data.h"

/* `count` images [C, H, W] of pixels 0 to 255, which become 0 to 1, and a class of each. Both are freed
 * with the data set, or here where it cannot be made: NULL. */
data *data_bytes(ptrdiff_t count, shape image, unsigned char *images, unsigned char *labels);

/* Tensors [N, ...] and [N, ...], freed likewise. */
data *data_owned(tensor x, tensor y);

/* What a set made of `of` tells as `prepared`: its text and one more, in new memory; NULL with an error. */
char *data_prepared(const data *of, const char *more);

#endif
