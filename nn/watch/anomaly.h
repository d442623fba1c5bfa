/* anomaly.h: where in a step numbers first went wrong.
 *
 * First is what is first computed: parameters and states, the batch, each layer's output in turn, the loss, then from
 * the last layer to the first its gradients and its dx. Of a tensor it is the first element in row-major order that is
 * NaN or infinite. */
#ifndef STRIDE_NN_WATCH_ANOMALY_H
#define STRIDE_NN_WATCH_ANOMALY_H

#include "nn/loss.h"
#include "nn/net.h"
#include "nn/watch/reach.h"

typedef struct anomaly {
    bool found;
    char text[384]; /* "the output of layer 3 (relu) is inf at [5, 2, 0, 1]" */
} anomaly;

/* Takes the step again, with the net's parameters and its step as they are, and looks at everything. Gradients are
 * lost; parameters, states and the step stay. Not found: where it was by chance, as memory that was overwritten. */
anomaly anomaly_find(net *n, tensor x, tensor target, loss l);

/* Which parameter's it is that a step would have left without a number. */
anomaly anomaly_of_step(net *n, const optim *o, overflow of);

/* The net with the batch, for train_replay. */
int anomaly_save(net *n, const char *path, tensor x, tensor target);

#endif
