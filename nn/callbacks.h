/* callbacks.h: callbacks that come with the core. List the one that writes checkpoints last.
 *
 *     .callbacks = { st_clip(.norm = 1), st_early_stopping(.patience = 5) } */
#ifndef STRIDE_NN_CALLBACKS_H
#define STRIDE_NN_CALLBACKS_H

#include "nn/train.h"

ST_API_BEGIN

/* Clips the gradients before each step: each to ±value, then all of them to a 2-norm of at most `norm`. */
typedef struct st_clip_options {
    double norm, value; /* 0: not clipped */
} st_clip_options;
st_callback st_clip_new(st_clip_options options);
#define st_clip(...) st_clip_new(ST_OPTIONS(st_clip_options, __VA_ARGS__))

/* Stops a run whose validation loss has not improved for `patience` epochs. At the end, also after an error,
 * restores the parameters and states of the best epoch. */
typedef struct st_early_stopping_options {
    int patience;     /* at least 1 */
    double min_delta; /* the least decrease that counts as an improvement */
} st_early_stopping_options;
st_callback st_early_stopping_new(st_early_stopping_options options);
#define st_early_stopping(...) st_early_stopping_new(ST_OPTIONS(st_early_stopping_options, __VA_ARGS__))

/* An exponential moving average of the parameters w, which begins with their initial values: after each step
 * average = decay average + (1 - decay) w. At the end the averages replace the parameters. Validation uses
 * the parameters themselves. */
typedef struct st_ema_options {
    double decay; /* 0.999 */
} st_ema_options;
st_callback st_ema_new(st_ema_options options);
#define st_ema(...) st_ema_new(ST_OPTIONS(st_ema_options, __VA_ARGS__))

/* Finds a learning rate (Smith 2017): raises it exponentially from `least` to `most` over `steps` steps, or
 * until the smoothed loss exceeds 4 times its minimum, and stops the run. *lr becomes the rate at which the
 * smoothed loss fell most steeply. The net and the optimizer are restored. */
typedef struct st_lr_finder_options {
    double *lr;         /* required */
    double least, most; /* 1e-7, 10 */
    int steps;          /* 100 */
} st_lr_finder_options;
st_callback st_lr_finder_new(st_lr_finder_options options);
#define st_lr_finder(...) st_lr_finder_new(ST_OPTIONS(st_lr_finder_options, __VA_ARGS__))

ST_API_END

#endif
