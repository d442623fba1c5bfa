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

#include "layers/options.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

#pragma GCC visibility push(default)

/* A function, and what it is given. The functions below make losses; one of your own is a value with a name and a
 * function. Class weights, for instance, in the context:
 *
 *     static double weighted(const loss *l, tensor y, tensor target, tensor dy)
 *     {
 *         const real *weight = l->context;
 *         double sum = 0;
 *         for (ptrdiff_t i = 0; i < y.shape.n[0]; i++) {
 *             real w = weight[(ptrdiff_t)*tensor_at(target, INDEX(i))] / (real)y.shape.n[0];
 *             tensor slope = tensor_is_null(dy) ? dy : tensor_narrow(dy, 0, i, 1);
 *             sum += w * loss_value(loss_cross_entropy(0), tensor_narrow(y, 0, i, 1), tensor_narrow(target, 0, i, 1),
 *                                   slope);
 *             if (!tensor_is_null(dy)) tensor_scale(slope, w);
 *         }
 *         return sum;
 *     }
 *     loss l = { "weighted", weighted, .classes = true, .context = weights }; */
typedef struct loss loss;
struct loss {
    const char *name;
    double (*value)(const loss *l, tensor y, tensor target, tensor dy); /* dy may be null */
    bool classes;              /* targets are class indices: accuracy means something */
    void *context;             /* yours */
    const layer_field *fields; /* of this struct: options that a checkpoint compares; NULL: none */
    double option;             /* label smoothing, delta */
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
