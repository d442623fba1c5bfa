/* loss_impl.h: what the trainer asks of a loss. */
#ifndef STRIDE_NN_LOSS_IMPL_H
#define STRIDE_NN_LOSS_IMPL_H

#include "nn/loss.h"

/* True if a target of this number is not counted. */
bool loss_ignores(const st_loss *l, double target);

#endif
