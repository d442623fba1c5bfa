/* picture.h: small images inside a page, as PNG in a data URI. */
#ifndef STRIDE_EXAMPLES_STRIDE_PICTURE_H
#define STRIDE_EXAMPLES_STRIDE_PICTURE_H

#include "tensor/tensor.h"

#include <stdio.h>

/* Bytes row by row, of 1 (grey), 3 (RGB) or 4 (with opacity) channels. */
typedef struct picture {
    int width, height, channels;
    unsigned char *pixels;
} picture;

/* An image [H, W] or [C, H, W], whose values from `low` to `high` become dark to bright: grey, or in colour
 * where there are three channels; of two, or more than three, the mean. Sides of more than 96 pixels become
 * the means of blocks. No pixels where it is no image; with an error where there is no memory. */
picture picture_of(st_tensor image, double low, double high);

/* Weights [C, H, W] about 0: in colour where there are three channels; else their mean, in the first
 * colour above 0, the second below, as opaque as it is far from 0. */
picture picture_of_weights(st_tensor weight, const unsigned char above[3], const unsigned char below[3]);
void picture_free(picture *p);

/* "data:image/png;base64,…"; -1, with an error, where there is no memory. */
int picture_put(FILE *to, const picture *p);

#endif
