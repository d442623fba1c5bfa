/* loss.h: losses: what training minimises.
 *
 * A loss is a kind and its options. It is a value: pass it, return it. Sums are accumulated in double; by
 * vectors, the value of a loss of classes has an error of up to an ulp of st_real.
 *
 * Logits may be any finite numbers whose differences are finite doubles, without overflow. Infinite logits
 * make the value infinite or NaN, except for -inf in cross-entropy without smoothing, which excludes a
 * class. */
#ifndef STRIDE_NN_LOSS_H
#define STRIDE_NN_LOSS_H

#include "layers/options.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

ST_API_BEGIN

typedef struct st_loss st_loss; /* below */

/* The kind of a loss: a static const table. One of your own, the pinball loss of a quantile:
 *
 *     typedef struct pinball_options {
 *         double quantile;
 *     } pinball_options;
 *     static double pinball(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
 *     {
 *         const pinball_options *o = (const void *)&l->options;
 *         const double count = (double)st_numel(y);
 *         double sum = 0;
 *         for (ptrdiff_t i = 0; i < y.shape.n[0]; i++) {
 *             double under = (double)(*st_at(target, ST_INDEX(i, 0)) - *st_at(y, ST_INDEX(i, 0)));
 *             double slope = under > 0 ? o->quantile : o->quantile - 1;
 *             sum += slope * under;
 *             if (!st_is_null(dy)) *st_at(dy, ST_INDEX(i, 0)) = (st_real)(-slope / count);
 *         }
 *         return sum / count;
 *     }
 *     static const st_loss_kind pinball_kind = { "pinball", sizeof(pinball_options), .value = pinball };
 *     st_loss l = st_loss_new(&pinball_kind, &(pinball_options){ .quantile = 0.75 }); */
typedef struct st_loss_kind {
    const char *name;
    size_t options_size;    /* at most sizeof(st_option_bytes) */
    const st_field *fields; /* of the options; NULL: none is checked, and a checkpoint compares none */
    bool classes;           /* targets are class indices: accuracy counts the largest outputs */
    bool binary;            /* targets are 0 or 1: accuracy counts outputs on the right side of 0 */

    double (*value)(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy); /* dy may be null */

    /* The divisor of the mean, in images, by which means of parts of a batch are weighted. If it is 0 `value`
     * divides by 1. NULL: the number of images. */
    double (*counted)(const st_loss *l, st_tensor y, st_tensor target);
    bool (*ignores)(const st_loss *l, double target); /* a class that does not count; NULL: none */
    st_tensor (*weights)(const st_loss *l); /* of the options, which checkpoints compare; NULL: none */
} st_loss_kind;

struct st_loss {
    const st_loss_kind *kind; /* NULL: no loss */
    st_option_bytes options;
};

/* Fills in the defaults and checks the options. No loss, with an error, if one is out of range. */
st_loss st_loss_new(const st_loss_kind *kind, const void *options);

/* Returns the mean over the batch and, unless dy is null, overwrites dy (of y's shape) with its derivative
 * with respect to y. A wrong shape or a class out of range is an error: the value is NaN, and dy is
 * unchanged. */
double st_loss_value(st_loss l, st_tensor y, st_tensor target, st_tensor dy);

/* Returns the divisor of the mean over the batch, in images: their number, unless targets are ignored or have
 * class weights. The mean over several batches is the sum of value times weight, divided by the sum of the
 * weights. NaN with an error. */
double st_loss_weight(st_loss l, st_tensor y, st_tensor target);

ST_API_END

#endif
