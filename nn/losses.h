/* losses.h: the losses of the library, and their options. An option that is 0 has the default in its
 * comment. */
#ifndef STRIDE_NN_LOSSES_H
#define STRIDE_NN_LOSSES_H

#include "nn/loss.h"

ST_API_BEGIN

/* Cross-entropy of softmax(y) over the second axis, as PyTorch has it. y are logits [N, K], or [N, K, ...]
 * such as K for each pixel; the target has class indices [N] or [N, ...], or probabilities of y's shape.
 * With weights w and smoothing s the loss of a position is
 *     -sum over k of w[k] q[k] log softmax(y)[k],   q = (1 - s) target + s / K      (Szegedy et al. 2016)
 * where the target is one-hot or the given probabilities. The mean is weighted: with class indices the sum is
 * divided by the sum of the targets' weights, with probabilities by the number of positions. Positions whose
 * class index is ignore_index do not count. If the sum of the weights is 0 the mean is NaN or infinite, and
 * dy is the derivative of the sum divided by the positions of an image. */
typedef struct st_cross_entropy_options {
    st_tensor weight;    /* [K], which must outlive the loss; null: 1 */
    double ignore_index; /* -100; ST_ZERO: class 0 */
    double label_smoothing;
} st_cross_entropy_options;
st_loss st_cross_entropy_new(st_cross_entropy_options options);
#define st_cross_entropy(...) st_cross_entropy_new(ST_OPTIONS(st_cross_entropy_options, __VA_ARGS__))

/* The same for log-probabilities y, such as the output of st_log_softmax, and class indices. */
typedef struct st_nll_options {
    st_tensor weight;    /* [K], which must outlive the loss; null: 1 */
    double ignore_index; /* -100; ST_ZERO: class 0 */
} st_nll_options;
st_loss st_nll_new(st_nll_options options);
#define st_nll(...) st_nll_new(ST_OPTIONS(st_nll_options, __VA_ARGS__))

/* Means over all elements; the target has y's shape. */
st_loss st_mse(void); /* (y - t)² */
/* e = y - t: e²/2 for |e| <= delta, else delta (|e| - delta/2) */
typedef struct st_huber_options {
    double delta; /* 1 */
} st_huber_options;
st_loss st_huber_new(st_huber_options options);
#define st_huber(...) st_huber_new(ST_OPTIONS(st_huber_options, __VA_ARGS__))
/* -p t log s(y) - (1-t) log(1 - s(y)), s the logistic function, t in 0..1, p the weight of positive
 * targets */
typedef struct st_bce_with_logits_options {
    st_tensor pos_weight; /* broadcast to y's shape, such as [K]; must outlive the loss; null: 1 */
} st_bce_with_logits_options;
st_loss st_bce_with_logits_new(st_bce_with_logits_options options);
#define st_bce_with_logits(...) st_bce_with_logits_new(ST_OPTIONS(st_bce_with_logits_options, __VA_ARGS__))

/* These kinds; ends with NULL. */
extern const st_loss_kind *const st_loss_kinds[];

ST_API_END

#endif
