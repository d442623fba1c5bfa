/* loss.h: losses: what training minimises.
 *
 * A loss is a value: pass it, return it. st_loss_value returns the mean over the batch and, unless dy is
 * null, overwrites dy (of y's shape) with its derivative with respect to y. Sums are accumulated in double. A
 * wrong shape or a class out of range is an error: the value is NaN, and dy is unchanged.
 *
 * Logits may be any finite numbers, without overflow. Infinite logits make the value infinite or NaN, except
 * for -inf in cross-entropy without smoothing, which excludes a class. */
#ifndef STRIDE_NN_LOSS_H
#define STRIDE_NN_LOSS_H

#include "layers/options.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

ST_API_BEGIN

/* A function and its context. The constructors below make losses; one of your own is a value with a name and
 * a function. Class weights, for instance:
 *
 *     static double weighted(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
 *     {
 *         const st_real *weight = l->context;
 *         double sum = 0;
 *         for (ptrdiff_t i = 0; i < y.shape.n[0]; i++) {
 *             st_real w = weight[(ptrdiff_t)*st_at(target, ST_INDEX(i))] / (st_real)y.shape.n[0];
 *             st_tensor part = st_is_null(dy) ? dy : st_narrow(dy, 0, i, 1);
 *             sum += w * st_loss_value(st_cross_entropy(), st_narrow(y, 0, i, 1), st_narrow(target, 0, i, 1),
 *                                      part);
 *             if (!st_is_null(dy)) st_scale(part, w);
 *         }
 *         return sum;
 *     }
 *     st_loss l = { "weighted", weighted, .classes = true, .context = weights }; */
typedef struct st_loss st_loss;
struct st_loss {
    const char *name;
    double (*value)(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy); /* dy may be null */
    bool classes;           /* targets are class indices, so that there is an accuracy */
    void *context;          /* yours */
    const st_field *fields; /* of this struct; a checkpoint compares them; NULL: none */
    double option;          /* label smoothing, delta */
};

/* Cross-entropy of softmax(y), logits y [N, K] and class indices target [N]:
 *     mean over n of -sum over k of q[n, k] log softmax(y[n])[k],
 *     q = (1 - smoothing) onehot(target) + smoothing / K      (Szegedy et al. 2016; 0: none) */
typedef struct st_cross_entropy_options {
    double label_smoothing;
} st_cross_entropy_options;
st_loss st_cross_entropy_new(st_cross_entropy_options options);
#define st_cross_entropy(...) st_cross_entropy_new(ST_OPTIONS(st_cross_entropy_options, __VA_ARGS__))

/* Means over all elements; the target has y's shape. */
st_loss st_mse(void); /* (y - t)² */
/* e = y - t: e²/2 for |e| <= delta, else delta (|e| - delta/2) */
typedef struct st_huber_options {
    double delta; /* 1 */
} st_huber_options;
st_loss st_huber_new(st_huber_options options);
#define st_huber(...) st_huber_new(ST_OPTIONS(st_huber_options, __VA_ARGS__))
st_loss st_bce_with_logits(void); /* -t log s(y) - (1-t) log(1 - s(y)), s the logistic function, t in 0..1 */

/* The mean over the batch; in dy, unless it is null, its derivative with respect to y. */
double st_loss_value(st_loss l, st_tensor y, st_tensor target, st_tensor dy);

ST_API_END

#endif
