/* loss_impl.h: functions of a loss for the trainer and for the kinds of losses; private to the library. */
#ifndef STRIDE_NN_LOSS_IMPL_H
#define STRIDE_NN_LOSS_IMPL_H

#include "nn/loss.h"

/* Tests if a target does not count. */
bool loss_ignores(const st_loss *l, double target);

/* st_loss_value, but the sum is divided by loss_divisor(*weight), and *weight becomes st_loss_weight's: with
 * label smoothing, a part of a batch can have a loss although its weight is 0. */
double loss_part(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy, double *weight);

static inline double loss_divisor(double weight)
{
    return weight > 0 ? weight : 1;
}

/* Sets the error "loss KIND: y ... and target ..., expected ..."; NaN. */
double loss_refuse(const st_loss *l, st_tensor y, st_tensor target, const char *expected);

#endif
