/* loss.h: what a net is trained to make small.
 *
 * A loss is a value: pass it, return it. st_loss_value gives the mean over the batch and, unless dy is
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

ST_API_BEGIN

/* A function, and what it is given. The functions below make losses; one of your own is a value with a name and a
 * function. Class weights, for instance, in the context:
 *
 *     static double weighted(const st_loss *l, tensor y, tensor target, tensor dy)
 *     {
 *         const st_real *weight = l->context;
 *         double sum = 0;
 *         for (ptrdiff_t i = 0; i < y.shape.n[0]; i++) {
 *             real w = weight[(ptrdiff_t)*st_at(target, ST_INDEX(i))] / (st_real)y.shape.n[0];
 *             tensor slope = st_is_null(dy) ? dy : st_narrow(dy, 0, i, 1);
 *             sum += w * st_loss_value(st_cross_entropy(), st_narrow(y, 0, i, 1), st_narrow(target, 0, i, 1),
 *                                   slope);
 *             if (!st_is_null(dy)) st_scale(slope, w);
 *         }
 *         return sum;
 *     }
 *     loss l = { "weighted", weighted, .classes = true, .context = weights }; */
typedef struct st_loss st_loss;
struct st_loss {
    const char *name;
    double (*value)(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy); /* dy may be null */
    bool classes;           /* targets are class indices: accuracy means something */
    void *context;          /* yours */
    const st_field *fields; /* of this struct: options that a checkpoint compares; NULL: none */
    double option;          /* label smoothing, delta */
};

/* Softmax and cross-entropy of logits y [N, K] and class indices target [N]:
 *     mean over n of -sum over k of q[n, k] log softmax(y[n])[k],
 *     q = (1 - smoothing) onehot(target) + smoothing / K      (Szegedy et al. 2016; 0: none) */
typedef struct st_cross_entropy_options {
    double label_smoothing;
} st_cross_entropy_options;
st_loss st_cross_entropy_new(st_cross_entropy_options options);
#define st_cross_entropy(...) st_cross_entropy_new(ST_OPTIONS(st_cross_entropy_options, __VA_ARGS__))

/* The mean over all elements, target of y's shape. */
st_loss st_mse(void); /* (y - t)² */
/* e²/2 for |e| <= delta, else delta (|e| - delta/2); delta 0: 1 */
typedef struct st_huber_options {
    double delta;
} st_huber_options;
st_loss st_huber_new(st_huber_options options);
#define st_huber(...) st_huber_new(ST_OPTIONS(st_huber_options, __VA_ARGS__))
st_loss st_bce_with_logits(void); /* -t log s(y) - (1-t) log(1 - s(y)), s the logistic function, t in 0..1 */

/* The mean over the batch, and in dy its derivative: see above. */
double st_loss_value(st_loss l, st_tensor y, st_tensor target, st_tensor dy);

ST_API_END

#endif
