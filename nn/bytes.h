/* bytes.h: images kept as bytes, converted as they are asked for; private to nn/. */
#ifndef STRIDE_NN_BYTES_H
#define STRIDE_NN_BYTES_H

#include "nn/data.h"

/* `count` images [C, H, W] of pixels 0 to 255, which become 0 to 1, and a class of each. Both are freed
 * with the data set, or here where it cannot be made: NULL. */
data *data_bytes(ptrdiff_t count, shape image, unsigned char *images, unsigned char *labels);

#endif
