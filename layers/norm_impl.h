/* norm_impl.h: how the input of a normalisation is divided into sets. */
#ifndef STRIDE_LAYERS_NORM_IMPL_H
#define STRIDE_LAYERS_NORM_IMPL_H

#include "layers/layer_impl.h"

enum { NORM_WEIGHT, NORM_BIAS };              /* parameters */
enum { NORM_RUNNING_MEAN, NORM_RUNNING_VAR }; /* states of batchnorm */
enum { NORM_MEAN, NORM_DEVIATION };           /* memory: of each set, as forward used them */

/* The plan's data. A set is a channel of the batch, or an image's elements at one index of its first axes, or
 * a group of an image's channels. */
typedef struct norm_plan {
    bool of_batch;    /* a set is a channel of the batch */
    int leading;      /* axes that number the sets, the batch's among them */
    ptrdiff_t groups; /* of channels, which divide each image; otherwise 1 */
    ptrdiff_t sets;   /* in the batch (batchnorm), or in each image */
    bool by_channel;  /* a channel has a weight and a bias; otherwise an element of a set has */
    bool centred;     /* the mean is subtracted */
    double epsilon;
} norm_plan;

/* Training updates batchnorm's running statistics of channel k by the batch's mean and variance, of `count`
 * elements; the variance that is kept is the unbiased one, as in PyTorch. Values that are not finite do not
 * update them. */
void norm_update_running(const st_call *c, ptrdiff_t k, double count, double mean, double variance);

#endif
