/* normalize.h: inputs of mean 0 and deviation 1 in each channel, measured once and kept with the net.
 *
 *     normalization *scale = normalize_measure(training);
 *     data *normal = data_normalize(training, scale);
 *     normalize_note(n, scale);                          // before net_save
 *
 *     normalization *scale = normalize_of(n);            // after net_load: the program needs no flags
 *     normalize_apply(scale, x);
 *
 * Channels are the first axis of a sample: C of [C, H, W], the features of [F]. What is made up (nn/data/augment.h) is made
 * up first and normalised then, so that what comes in from outside an image is black. */
#ifndef STRIDE_NN_DATA_NORMALIZE_H
#define STRIDE_NN_DATA_NORMALIZE_H

#include "nn/data.h"
#include "nn/net.h"

#pragma GCC visibility push(default)

/* x becomes (x - mean) / deviation; a channel of deviation 0, one that is constant, becomes x - mean. */
typedef struct normalization {
    ptrdiff_t channels;
    double *mean, *deviation; /* of each channel */
} normalization;

/* Given numbers, copied; a mean that is not finite, or a deviation that is neither 0 nor positive, is refused. */
normalization *normalize_new(ptrdiff_t channels, const double *mean, const double *deviation);
void normalize_free(normalization *n); /* NULL is allowed */

/* Of all samples, in double, and the same for any number of threads. The deviation is that of the samples
 * themselves: the root of the mean square distance from the mean. NULL with an error where an element is
 * not finite. */
normalization *normalize_measure(const data *d);

/* Samples of `of`, which the caller keeps alive, normalised; the numbers are copied. */
data *data_normalize(const data *of, const normalization *n);

/* A batch [N, C, ...] in place, any view. -1 with an error where it has other channels. */
int normalize_apply(const normalization *n, tensor x);

/* As the note "normalization" of a net, JSON: {"mean": [...], "deviation": [...]}, every digit kept. -1 with an error
 * where the net's input has other channels. */
int normalize_note(net *to, const normalization *n);

/* What that note says; NULL, without an error, where there is none; with one where it is not what was written. */
normalization *normalize_of(const net *n);

#pragma GCC visibility pop

#endif
