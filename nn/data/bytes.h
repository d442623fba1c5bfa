/* bytes.h: data sets of images whose pixels are bytes, and other sets that readers make. */
#ifndef STRIDE_NN_DATA_BYTES_H
#define STRIDE_NN_DATA_BYTES_H

#include "nn/data.h"

/* The first sample's pixels, 0 to 255, and its class, and how far the next sample's are. */
typedef struct byte_images {
    const unsigned char *image, *label;
    ptrdiff_t image_step, label_step;
    void *memory[2]; /* freed with the set, or where it cannot be made */
} byte_images;

/* `count` images [C, H, W] of values 0 to 1. */
st_dataset *data_bytes(ptrdiff_t count, st_shape image, byte_images b);

/* The text `prepared` of a set made of `of`: its own and one more, in new memory; NULL with an error. */
char *data_prepared(const st_dataset *of, const char *more);

#endif
