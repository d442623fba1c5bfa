/* callbacks.h: callbacks that come with the core. List the one that writes checkpoints last.
 *
 *     .callbacks = { callback_clip((clip){ .norm = 1 }), callback_early_stopping((early_stopping){ .patience = 5 }) } */
#ifndef STRIDE_NN_CALLBACKS_H
#define STRIDE_NN_CALLBACKS_H

#include "nn/train.h"

#pragma GCC visibility push(default)

/* Clips the gradients before each step: each into ±value, then all so that their 2-norm is at most `norm`. */
typedef struct clip {
    double norm, value; /* 0: not clipped */
} clip;
callback callback_clip(clip options);

/* Ends a run whose validation loss has not improved for `patience` epochs, and restores the parameters and states of
 * the best epoch at the end, also after an error. With a patience of all epochs the run is not ended. */
typedef struct early_stopping {
    int patience;     /* at least 1 */
    double min_delta; /* a loss that is less by no more than this is no improvement */
} early_stopping;
callback callback_early_stopping(early_stopping options);

/* An exponential moving average of the parameters: after each step average = decay average + (1 - decay) w, from the
 * parameters at the beginning on. At the end the net has the averages. Validation sees the parameters themselves. */
typedef struct ema {
    double decay; /* 0.999 */
} ema;
callback callback_ema(ema options);

/* Looks for a learning rate (Smith 2017): raises it from `least` to `most` over `steps` steps, exponentially, and stops
 * then, or where the smoothed loss exceeds 4 times its minimum. *lr is the rate at which the smoothed loss fell most
 * steeply. At the end the net and the optimizer are as they were at the beginning. */
typedef struct lr_finder {
    double *lr;         /* required */
    double least, most; /* 1e-7, 10 */
    int steps;          /* 100 */
} lr_finder;
callback callback_lr_finder(lr_finder options);

#pragma GCC visibility pop

#endif
