/* data_impl.h: shared by the data sets of this folder: the bytes of a file, images whose pixels are bytes,
 * and sets that wrap another one. */
#ifndef STRIDE_NN_DATA_DATA_IMPL_H
#define STRIDE_NN_DATA_DATA_IMPL_H

#include "nn/data.h"

/* All bytes of a file, plain or gzipped, and a zero after them; to be freed. NULL with an error that names
 * the file, or begins with `who`: no path, missing, truncated, corrupt, larger than 4 GiB; in a text, a byte
 * that is 0. Memory grows with the bytes that are read. */
char *data_read(const char *who, const char *path, ptrdiff_t *size);
char *data_read_text(const char *who, const char *path, ptrdiff_t *size);

/* Pixels, 0 to 255, and classes. */
typedef struct byte_images {
    const unsigned char *image, *label; /* of the first sample */
    ptrdiff_t image_step, label_step;   /* bytes to the next sample's */
    void *memory;                       /* freed with the set, also on failure */
} byte_images;

/* `count` images [C, H, W], scaled to 0 ... 1. */
st_dataset *data_bytes(ptrdiff_t count, st_shape image, byte_images b);

/* The beginning of the `own` of a set that wraps another one. */
typedef struct data_wrapper {
    const st_dataset *of;
    uint64_t epoch; /* of the last st_dataset_begin_epoch */
    char *prepared;
} data_wrapper;

/* Wraps `of` in a set that kind.get and .own make. Members of `kind` that are 0 come from `of`: count and
 * grain; `release` is then data_unwrap. `step`, unless NULL, is appended to `prepared`. On failure `own` is
 * released. */
st_dataset *data_wrap(const st_dataset *of, st_dataset kind, const char *step);

/* Frees the `own` of such a set: the end of its `release`. */
void data_unwrap(st_dataset *d);

/* An affine map of an image, from its `framed` copy: element (i, j) of each channel of `to` [C, H, W], from
 * the centre ((H - 1) / 2, (W - 1) / 2), is sampled at (row[0] i + row[1] j + row[2], column[0] i + ...) from
 * the centre, with bilinear interpolation; elements outside are zero. */
typedef struct affine {
    double row[3], column[3];
} affine;
void data_warp(st_tensor to, st_tensor framed, affine map);

/* A new tensor of zeros for an image [C, H, W] within a frame of zeros, so that sampling needs no bounds
 * checks; and the image in it. */
st_tensor data_framed(st_shape image);
st_tensor data_inside(st_tensor framed);

#endif
