/* sets.h: data sets made from others: a part, changed by a function, joined, divided, drawn by weight.
 *
 *     st_dataset *held, *rest;
 *     st_dataset_split(all, 0.2, seed, &held, &rest);                    // a fifth of each class
 *     st_dataset *training = st_dataset_map(rest, add_noise, &level);
 *
 * Each refers to the sets it is made from, which must outlive it, and is freed by itself; arrays are copied.
 * NULL with an error. */
#ifndef STRIDE_NN_DATA_SETS_H
#define STRIDE_NN_DATA_SETS_H

#include "nn/data.h"

ST_API_BEGIN

/* `count` samples of another set from `first` on, such as its training or validation part. */
st_dataset *st_dataset_slice(const st_dataset *of, ptrdiff_t first, ptrdiff_t count);

/* Changes sample i, in x and y, in place; several threads may call it at the same time. */
typedef void st_sample_function(void *context, ptrdiff_t i, st_tensor x, st_tensor y);
st_dataset *st_dataset_map(const st_dataset *of, st_sample_function *change, void *context);

/* The samples of all sets, one set after the other: st_dataset_concat(a, b, c). Their shapes must be
 * equal. */
st_dataset *st_dataset_concat_of(int count, const st_dataset *const sets[]);
#define st_dataset_concat(...)                                                                               \
    st_dataset_concat_of(ST_COUNT(const st_dataset *, __VA_ARGS__), ST_LIST(const st_dataset *, __VA_ARGS__))

/* Samples index[0], ..., index[count - 1], which may repeat. */
st_dataset *st_dataset_subset(const st_dataset *of, ptrdiff_t count, const ptrdiff_t index[]);

/* The set that a slice, a subset or a part of st_dataset_split is made from; *i, a sample of it, becomes the
 * sample's index there. Other sets are returned unchanged. */
const st_dataset *st_dataset_origin(const st_dataset *d, ptrdiff_t *i);

/* Divides a set at random. If targets are classes (of rank 0, integers from 0 on) both parts have the same
 * fractions of each class (a stratified split): `part` gets n * fraction samples of each class of n, rounded.
 * Reads all samples once. -1 with an error: a fraction that leaves one part empty, a target that is not a
 * class. */
int st_dataset_split(const st_dataset *of, double fraction, uint64_t seed, st_dataset **part,
                     st_dataset **rest);

/* `count` samples an epoch, drawn with replacement, sample i of `of` with a probability in proportion to
 * weight[i]; drawn again in each epoch, as a function of the seed and st_dataset_begin_epoch's epoch.
 * PyTorch's WeightedRandomSampler. */
st_dataset *st_dataset_weighted(const st_dataset *of, ptrdiff_t count, const double weight[], uint64_t seed);

ST_API_END

#endif
