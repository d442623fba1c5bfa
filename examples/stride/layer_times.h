/* layer_times.h: the times of a net's layers in a training step. */
#ifndef STRIDE_EXAMPLES_STRIDE_LAYER_TIMES_H
#define STRIDE_EXAMPLES_STRIDE_LAYER_TIMES_H

#include "nn/data.h"
#include "nn/loss.h"
#include "nn/net.h"

/* The fewest seconds of any step, summed over threads; 0 for a layer that holds others. */
typedef struct layer_time {
    const st_layer *of;
    double forward, backward;
} layer_time;

typedef struct layer_times {
    layer_time *layer; /* every layer, in st_layer_visit's order */
    int count;
    ptrdiff_t batch;          /* images of a step */
    double forward, backward; /* elapsed seconds, of the fastest pass */
} layer_times;

/* Times `steps` (0: 9) whole training steps of a built net on the set's first batch, with all threads. States
 * are restored. 0, or -1 with an error. */
int layer_times_measure(layer_times *t, st_net *n, const st_dataset *d, st_loss l, int steps);
void layer_times_free(layer_times *t);

/* Seconds of a monotonic clock. */
double seconds_now(void);

#endif
