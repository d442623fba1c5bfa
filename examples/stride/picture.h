/* picture.h: small images inside a page, as PNG in a data URI. */
#ifndef STRIDE_EXAMPLES_STRIDE_PICTURE_H
#define STRIDE_EXAMPLES_STRIDE_PICTURE_H

#include "tensor/tensor.h"

#include <stdio.h>

/* Bytes row by row, with 1 (grey), 3 (RGB) or 4 (RGBA) channels. */
typedef struct picture {
    int width, height, channels;
    unsigned char *pixels;
} picture;

/* An image [H, W] or [C, H, W], with values from `low` (dark) to `high` (bright). Three channels are shown
 * in colour, any other number by their mean. Larger images are averaged down to 96 pixels a side. No
 * pixels if it is not an image, or with an error: no memory. */
picture picture_of(st_tensor image, double low, double high);

/* Weights [C, H, W]. Three channels are shown in colour; otherwise their mean is shown in one colour above
 * 0 and in the other below, with an opacity of |mean|. */
picture picture_of_weights(st_tensor weight, const unsigned char above[3], const unsigned char below[3]);
void picture_free(picture *p);

/* "data:image/png;base64,…"; -1 with an error: no memory. */
int picture_put(FILE *to, const picture *p);

#endif
