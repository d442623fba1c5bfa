/* augment.h: images that look a little different each time they are asked for.
 *
 *     st_dataset *training = st_dataset_augment(digits, .shift = 2, .rotation = 10, .scale = 0.1, .seed = 1);
 *
 * What becomes of sample i is a function of (seed, pass, i) alone, `pass` being what st_dataset_begin_epoch last said: the
 * same for any number of threads and any order, another in each epoch, and a resumed run continues exactly. */
#ifndef STRIDE_NN_DATA_AUGMENT_H
#define STRIDE_NN_DATA_AUGMENT_H

#include "nn/data.h"

#include <stdint.h>

ST_API_BEGIN

/* Ends of uniform intervals unless something else is said; 0: not done. In the order in which it is done: an
 * image is mirrored, sheared, turned, scaled and shifted (one map of the plane, sampled once, about the image's
 * centre), then noise is added, then a square cut out. */
typedef struct st_augment_options {
    double flip;     /* the probability, 0 … 1, that left and right are exchanged */
    double shear;    /* ± degrees, below 90: how far vertical lines lean */
    double rotation; /* ± degrees, at most 180 */
    double scale;    /* 1 ± scale, below 1: by which height and width are multiplied */
    double shift;    /* ± pixels, down and to the right apart; at most the image's shorter side */
    double noise; /* the deviation of a normal number, added to each element; nothing is cut off at 0 or 1 */
    int cutout;   /* the side in pixels of a square of zeros inside the image; at most its shorter side */
    uint64_t seed;
} st_augment_options;

/* Samples of `of`, which the caller keeps alive; x is [C, H, W], channels are treated alike, y is left alone.
 * A sample draws eight numbers, used or not, counters 8 i … 8 i + 7 of its stream: whether it is mirrored, its
 * shear, rotation, scale, shift down, shift to the right, and the first row and column of what is cut out. So
 * an option does not change what another one draws. Noise has a stream of its own, counter i C H W + element.
 * NULL with an error where an option is out of range. */
st_dataset *st_dataset_augment_new(const st_dataset *of, st_augment_options options);
#define st_dataset_augment(of, ...) st_dataset_augment_new(of, ST_OPTIONS(st_augment_options, __VA_ARGS__))

/* Where an image's elements come from: rows and columns counted from its centre. */
typedef struct st_affine {
    double row[3], column[3];
} st_affine;

/* The map of the plane itself: element (i, j), from the centre, of each channel of `to` [C, H, W] is what `from`,
 * of the same shape and apart from it, has at
 *
 *     (row[0] i + row[1] j + row[2], column[0] i + column[1] j + column[2])
 *
 * from the centre ((H - 1) / 2, (W - 1) / 2): bilinear between the four elements around; outside is zero. 0, or -1
 * with an error. */
int st_warp_affine(st_tensor to, st_tensor from, st_affine map);

ST_API_END

#endif
