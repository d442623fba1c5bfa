/* normalize.h: inputs of mean 0 and deviation 1 in each channel, measured once and kept with the net.
 *
 *     st_normalization *scale = st_normalization_measure(training);
 *     st_dataset *normal = st_dataset_normalize(training, scale);
 *     st_net_set_normalization(n, scale);                          // before st_net_save
 *
 *     st_normalization *scale = st_net_normalization(n);            // after st_net_load: the program needs no flags
 *     st_normalization_apply(scale, x);
 *
 * Channels are the first axis of a sample: C of [C, H, W], the features of [F]. What is made up (nn/data/augment.h) is made
 * up first and normalised then, so that what comes in from outside an image is black. */
#ifndef STRIDE_NN_DATA_NORMALIZE_H
#define STRIDE_NN_DATA_NORMALIZE_H

#include "nn/data.h"
#include "nn/net.h"

ST_API_BEGIN

/* x becomes (x - mean) / deviation; a channel of deviation 0, one that is constant, becomes x - mean. */
typedef struct st_normalization {
    ptrdiff_t channels;
    double *mean, *deviation; /* of each channel */
} st_normalization;

/* Given numbers, copied; a mean that is not finite, or a deviation that is neither 0 nor positive, is refused. */
st_normalization *st_normalization_new(ptrdiff_t channels, const double *mean, const double *deviation);
void st_normalization_free(st_normalization *n); /* NULL is allowed */

/* Of all samples, in double, and the same for any number of threads. The deviation is that of the samples
 * themselves: the root of the mean square distance from the mean. NULL with an error where an element is
 * not finite. */
st_normalization *st_normalization_measure(const st_dataset *d);

/* Samples of `of`, which the caller keeps alive, normalised; the numbers are copied. */
st_dataset *st_dataset_normalize(const st_dataset *of, const st_normalization *n);

/* A batch [N, C, ...] in place, any view. -1 with an error where it has other channels. */
int st_normalization_apply(const st_normalization *n, st_tensor x);

/* As the note "normalization" of a net, JSON: {"mean": [...], "deviation": [...]}, every digit kept. -1 with an error
 * where the net's input has other channels. */
int st_net_set_normalization(st_net *to, const st_normalization *n);

/* What that note says; NULL, without an error, where there is none; with one where it is not what was written. */
st_normalization *st_net_normalization(const st_net *n);

ST_API_END

#endif
