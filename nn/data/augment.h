/* augment.h: random augmentation of images, different in each epoch.
 *
 *     st_dataset *training = st_dataset_augment(digits, .shift = 2, .rotation = 10, .scale = 0.1, .seed = 1);
 *
 * The augmentation of sample i is a function of (seed, epoch, i), with the epoch of the last
 * st_dataset_begin_epoch. It does not depend on threads or order, and a resumed run continues exactly. */
#ifndef STRIDE_NN_DATA_AUGMENT_H
#define STRIDE_NN_DATA_AUGMENT_H

#include "nn/data.h"

#include <stdint.h>

ST_API_BEGIN

/* Options, in the order in which they are applied; 0: not applied. Numbers after ± are the ends of a uniform
 * interval. Flip, shear, rotation, scale and shift are one affine map about the image's centre, sampled
 * once. */
typedef struct st_augment_options {
    double flip;     /* the probability, 0 ... 1, of a horizontal flip */
    double shear;    /* ± degrees, below 90: the slant of vertical lines */
    double rotation; /* ± degrees, at most 180 */
    double scale;    /* 1 ± scale, below 1: the factor of height and width */
    double shift;    /* ± pixels, drawn for each direction; at most the image's shorter side */
    double noise;    /* the standard deviation of normal noise, added to each element without clipping */
    int cutout;      /* the side in pixels of a square of zeros inside the image; at most its shorter side */
    uint64_t seed;
} st_augment_options;

/* Augmented samples of another set, which must outlive this one; x is [C, H, W], and y is unchanged. All
 * channels get the same map. Each sample draws eight numbers, used or not, with the counters 8 i ... 8 i + 7:
 * flip, shear, rotation, scale, shift down, shift right, first row and first column of the cutout. Options do
 * not change each other's numbers. Noise has a stream of its own, with the counter i C H W + element. NULL
 * with an error: an option is out of range. */
st_dataset *st_dataset_augment_new(const st_dataset *of, st_augment_options options);
#define st_dataset_augment(...) ST_CALL(st_dataset_augment_new, st_augment_options, __VA_ARGS__)

ST_API_END

#endif
