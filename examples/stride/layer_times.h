/* layer_times.h: which layers a training step spends its time in. */
#ifndef STRIDE_EXAMPLES_STRIDE_LAYER_TIMES_H
#define STRIDE_EXAMPLES_STRIDE_LAYER_TIMES_H

#include "nn/loss.h"
#include "nn/data.h"
#include "nn/net.h"

/* Of one layer: seconds of a step, all threads' together. What a layer that holds others spends is what they do
 * not. */
typedef struct layer_time {
    const layer *of;
    double forward, backward;
} layer_time;

typedef struct layer_times {
    layer_time *layer; /* parents first, as layer_visit goes; without the root */
    int count;
    ptrdiff_t batch;          /* images of the steps */
    double forward, backward; /* seconds of a step, by the clock */
} layer_times;

/* Medians over so many training steps (0: 9), on the set's first batch, of a net that is built: the step itself,
 * with all its threads, not layers one at a time. The net goes on as if nothing had happened, but for its last
 * forward and its gradients, which are 0. 0, or -1 with an error. */
int layer_times_measure(layer_times *t, net *n, const data *d, loss l, int steps);
void layer_times_free(layer_times *t);

#endif
