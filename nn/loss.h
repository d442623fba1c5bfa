/* loss.h: what a net is trained to make small.
 *
 * A loss is a value: pass it, return it. loss_value gives the mean over the batch and, unless dy is
 * null, overwrites dy (of y's shape) with its derivative by y. Sums are taken in double. A wrong shape or
 * a class out of range gives NaN and an error, and leaves dy alone.
 *
 * Logits may be as large as a real can be: value and derivative are then those of the limit. Infinite ones are an
 * overflow, and make the value infinite or NaN, so that a run ends: but for -inf in cross-entropy without smoothing,
 * which leaves a class out. */
#ifndef STRIDE_NN_LOSS_H
#define STRIDE_NN_LOSS_H

#include "tensor/error.h"
#include "tensor/tensor.h"

#pragma GCC visibility push(default)

/* A function with its one option; the functions below make them. */
typedef struct loss loss;
struct loss {
    const char *name;
    double (*value)(const loss *l, tensor y, tensor target, tensor dy);
    double option; /* label smoothing, delta */
    bool classes;  /* targets are class indices: accuracy means something */
};

/* Softmax and cross-entropy of logits y [N, K] and class indices target [N]:
 *     mean over n of -sum over k of q[n, k] log softmax(y[n])[k],
 *     q = (1 - smoothing) onehot(target) + smoothing / K      (Szegedy et al. 2016; 0: none) */
loss loss_cross_entropy(double label_smoothing);

/* The mean over all elements, target of y's shape. */
loss loss_mse(void);             /* (y - t)² */
loss loss_huber(double delta);   /* e²/2 for |e| <= delta, else delta (|e| - delta/2); delta 0: 1 */
loss loss_bce_with_logits(void); /* -t log s(y) - (1-t) log(1 - s(y)), s the logistic function, t in 0..1 */

/* The mean over the batch, and in dy its derivative: see above. */
double loss_value(loss l, tensor y, tensor target, tensor dy);

#pragma GCC visibility pop

#endif
