/* callbacks.h: callbacks that come with the library, each in a file of its own; nn/files/checkpoint.h has one
 * more, which is listed last.
 *
 *     .callbacks = { st_clip(.norm = 1), st_early_stopping(.patience = 5) } */
#ifndef STRIDE_NN_CALLBACKS_CALLBACKS_H
#define STRIDE_NN_CALLBACKS_CALLBACKS_H

#include "nn/train.h"

ST_API_BEGIN

/* Clips the gradients before each step: each to ±value, then all of them to a 2-norm of at most `norm`. */
typedef struct st_clip_options {
    double norm, value; /* 0: not clipped */
} st_clip_options;
st_callback st_clip_new(st_clip_options options);
#define st_clip(...) st_clip_new(ST_OPTIONS(st_clip_options, __VA_ARGS__))

/* For a loop of your own. Scales the gradients so that their 2-norm is at most `most`, and returns their norm
 * before. Does nothing if the norm is not finite. A negative or NaN `most` is an error, here and below. */
double st_clip_grad_norm(st_tensor gradients, double most);
void st_clip_grad_value(st_tensor gradients, double most); /* clips each to ±most; NaN is kept */

/* Stops a run whose validation loss has not improved for `patience` epochs. At the end, also after an error,
 * restores the parameters and states of the best epoch. */
typedef struct st_early_stopping_options {
    int patience;     /* at least 1 */
    double min_delta; /* the least decrease that counts as an improvement */
} st_early_stopping_options;
st_callback st_early_stopping_new(st_early_stopping_options options);
#define st_early_stopping(...) st_early_stopping_new(ST_OPTIONS(st_early_stopping_options, __VA_ARGS__))

/* An exponential moving average of the parameters w, which begins with their initial values: after each step
 * average = decay average + (1 - decay) w. At the end, unless by an error, the averages replace the
 * parameters. Validation uses the parameters themselves. */
typedef struct st_ema_options {
    double decay; /* 0.999 */
} st_ema_options;
st_callback st_ema_new(st_ema_options options);
#define st_ema(...) st_ema_new(ST_OPTIONS(st_ema_options, __VA_ARGS__))

/* Finds a learning rate (Smith 2017): raises it exponentially from `least` to `most` over `steps` steps, or
 * until the loss explodes, and stops the run. *lr becomes the rate at which the loss falls most steeply
 * before its minimum, and at most a tenth of the rate at the minimum. Losses are smoothed by an exponential
 * moving average. The net and the optimizer are restored. It is an error, and *lr is unchanged, if the loss
 * falls by no more than its noise, rises from the first steps on, or still falls at `most`. */
typedef struct st_lr_finder_options {
    double *lr;         /* required */
    double least, most; /* 1e-7, 10 */
    int steps;          /* 300; at least 10 */
} st_lr_finder_options;
st_callback st_lr_finder_new(st_lr_finder_options options);
#define st_lr_finder(...) st_lr_finder_new(ST_OPTIONS(st_lr_finder_options, __VA_ARGS__))

/* A progress bar on a terminal, otherwise a line per epoch. NULL: nothing. */
st_callback st_progress(FILE *to);

/* Appends a line after each epoch: to FILE.csv after a line of column names, or to FILE.jsonl, a JSON object
 * per line. The fields are epoch, step, lr, loss, accuracy, validation_loss, validation_accuracy, best.
 * Numbers read back exactly; one that is not finite is an empty field, or null. Each line is flushed to disk.
 * The same seed writes the same bytes.
 *
 * A new run overwrites the file. A resumed run removes the lines of epochs that it repeats, and an incomplete
 * line; the file must be such a log. A second run with the same file ends at once with an error that names
 * the process of the first. List it before the checkpoint. NULL: no log. */
st_callback st_log(const char *path);

/* Checks the loss and the gradients before each optimizer step. If one is not finite, repeats the forward and
 * backward pass and ends the run with an error that names the first output, gradient or parameter that is not
 * finite, with its index. Parameters remain as before the step.
 *
 * Values are searched in the order in which they are computed: parameters and states, the batch, each layer's
 * output, the loss, then each layer's gradients and dx, from the last layer to the first. In a tensor, the
 * first element in row-major order is reported. Where the validation loss is not finite, the error names the
 * first parameter, state, sample or output of the validation set that is not. List it before early stopping,
 * which restores them. */
st_callback st_detect_anomaly(void);

ST_API_END

#endif
