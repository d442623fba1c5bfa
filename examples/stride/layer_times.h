/* layer_times.h: which layers a training step spends its time in. */
#ifndef STRIDE_EXAMPLES_STRIDE_LAYER_TIMES_H
#define STRIDE_EXAMPLES_STRIDE_LAYER_TIMES_H

#include "nn/data.h"
#include "nn/loss.h"
#include "nn/net.h"

/* Seconds of a step, all threads' together; 0 of a layer that holds others, which have theirs. */
typedef struct layer_time {
    const st_layer *of;
    double forward, backward;
} layer_time;

typedef struct layer_times {
    layer_time *layer; /* every layer, in st_layer_visit's order */
    int count;
    ptrdiff_t batch;          /* images of a step */
    double forward, backward; /* seconds of a step, by the clock */
} layer_times;

/* Medians over so many training steps (0: 9) on the set's first batch, of a net that is built: of steps as
 * they are in training, with all threads, not of layers one at a time. The net goes on as if nothing had
 * happened, but for its last forward, which it forgets, and its gradients, which are 0. 0, or -1 with an
 * error. */
int layer_times_measure(layer_times *t, st_net *n, const st_dataset *d, st_loss l, int steps);
void layer_times_free(layer_times *t);

/* Seconds of a monotonic clock. */
double seconds_now(void);

/* The median; sorts the values. */
double median(double *values, int count);

#endif
