/* callbacks.h: callbacks that come with the core. List the one that writes checkpoints last.
 *
 *     .callbacks = { st_clip(.norm = 1), st_early_stopping(.patience = 5) } */
#ifndef STRIDE_NN_CALLBACKS_H
#define STRIDE_NN_CALLBACKS_H

#include "nn/train.h"

ST_API_BEGIN

/* Clips the gradients before each step: each into ±value, then all so that their 2-norm is at most `norm`. */
typedef struct st_clip_options {
    double norm, value; /* 0: not clipped */
} st_clip_options;
st_callback st_clip_new(st_clip_options options);
#define st_clip(...) st_clip_new(ST_OPTIONS(st_clip_options, __VA_ARGS__))

/* Ends a run whose validation loss has not improved for `patience` epochs, and restores the parameters and states of
 * the best epoch at the end, also after an error. With a patience of all epochs the run is not ended. */
typedef struct st_early_stopping_options {
    int patience;     /* at least 1 */
    double min_delta; /* a loss that is less by no more than this is no improvement */
} st_early_stopping_options;
st_callback st_early_stopping_new(st_early_stopping_options options);
#define st_early_stopping(...) st_early_stopping_new(ST_OPTIONS(st_early_stopping_options, __VA_ARGS__))

/* An exponential moving average of the parameters: after each step average = decay average + (1 - decay) w, from the
 * parameters at the beginning on. At the end the net has the averages. Validation sees the parameters themselves. */
typedef struct st_ema_options {
    double decay; /* 0.999 */
} st_ema_options;
st_callback st_ema_new(st_ema_options options);
#define st_ema(...) st_ema_new(ST_OPTIONS(st_ema_options, __VA_ARGS__))

/* Looks for a learning rate (Smith 2017): raises it from `least` to `most` over `steps` steps, exponentially, and stops
 * then, or where the smoothed loss exceeds 4 times its minimum. *lr is the rate at which the smoothed loss fell most
 * steeply. At the end the net and the optimizer are as they were at the beginning. */
typedef struct st_lr_finder_options {
    double *lr;         /* required */
    double least, most; /* 1e-7, 10 */
    int steps;          /* 100 */
} st_lr_finder_options;
st_callback st_lr_finder_new(st_lr_finder_options options);
#define st_lr_finder(...) st_lr_finder_new(ST_OPTIONS(st_lr_finder_options, __VA_ARGS__))

ST_API_END

#endif
