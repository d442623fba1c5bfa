/* normalize.h: normalisation of inputs to mean 0 and standard deviation 1 in each channel, saved with the
 * net.
 *
 *     st_normalization *scale = st_normalization_measure(training);
 *     st_dataset *normal = st_dataset_normalize(training, scale);
 *     st_net_set_normalization(n, scale);                          // before st_net_save
 *
 *     st_normalization *scale = st_net_normalization(n);            // after st_net_load: from the file
 *     st_normalization_apply(scale, x);
 *
 * Channels are the first axis of a sample: C of [C, H, W], the features of [F]. Augment
 * (nn/data/augment.h) before normalising, so that pixels from outside an image are black. */
#ifndef STRIDE_NN_DATA_NORMALIZE_H
#define STRIDE_NN_DATA_NORMALIZE_H

#include "nn/data.h"
#include "nn/net.h"

ST_API_BEGIN

/* x becomes (x - mean) / deviation; a constant channel, whose deviation is 0, becomes x - mean. */
typedef struct st_normalization {
    ptrdiff_t channels;
    double *mean, *deviation; /* of each channel */
    bool of_targets;          /* of the targets, otherwise of the inputs */
} st_normalization;

/* From given numbers, which are copied. An error: a mean or deviation that is not finite, or a negative
 * deviation. */
st_normalization *st_normalization_new(ptrdiff_t channels, const double *mean, const double *deviation);
void st_normalization_free(st_normalization *n); /* NULL is allowed */

/* Measures all samples, in double; bit-identical for any number of threads. The deviation is the root of the
 * mean square difference from the mean. NULL with an error: an element is not finite. */
st_normalization *st_normalization_measure(const st_dataset *d);

/* Normalised inputs, or targets, of another set, which must outlive this one; the numbers are copied. */
st_dataset *st_dataset_normalize(const st_dataset *of, const st_normalization *n);

/* Normalises a batch [N, C, ...] in place, any view. -1 with an error: another number of channels. */
int st_normalization_apply(const st_normalization *n, st_tensor x);

/* The same for targets, when the net learns numbers: train on the normalised targets, and undo it in what the
 * net predicts, y [N, C, ...], in place. A target of rank 0 is one channel. */
st_normalization *st_normalization_measure_targets(const st_dataset *d);
int st_normalization_undo(const st_normalization *n, st_tensor y);

/* Sets the net's metadata "normalization", or "target_normalization", JSON: {"mean": [...], "deviation":
 * [...]}, with all digits. -1 with an error: the net's input or output has another number of channels. */
int st_net_set_normalization(st_net *to, const st_normalization *n);

/* The normalisation in the net's metadata; NULL if there is none; NULL with an error if it is invalid. */
st_normalization *st_net_normalization(const st_net *n);
st_normalization *st_net_target_normalization(const st_net *n);

ST_API_END

#endif
