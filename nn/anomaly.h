/* anomaly.h: where in a step numbers first went wrong; private to nn/.
 *
 * First is what is first computed: parameters and states, the batch, each layer's output in turn, the loss, then from
 * the last layer to the first its gradients and its dx. Of a tensor it is the first element in row-major order that is
 * NaN or infinite. */
#ifndef STRIDE_NN_ANOMALY_H
#define STRIDE_NN_ANOMALY_H

#include "nn/loss.h"
#include "nn/net.h"

typedef struct anomaly {
    bool found;
    char text[256]; /* "the output of layer 3 (relu) is inf at [5, 2, 0, 1]" */
} anomaly;

bool anomaly_is_finite(tensor flat); /* of rank 1: every element; several threads share it */

/* Takes the step again, with the net's parameters and its step as they are, and looks at everything. Gradients are
 * lost; parameters, states and the step stay. Not found: where it was by chance, as memory that was overwritten. */
anomaly anomaly_find(net *n, tensor x, tensor target, loss l);

/* The net with the batch, for train_replay. */
int anomaly_save(net *n, const char *path, tensor x, tensor target);

#endif
