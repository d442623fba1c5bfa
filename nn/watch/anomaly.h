/* anomaly.h: where in a step the first NaN or infinity is.
 *
 * First is what is computed first: parameters and states, the batch, each layer's output in turn, the loss, then from
 * the last layer to the first its gradients and its dx. Of a tensor it is the first element in row-major order. */
#ifndef STRIDE_NN_WATCH_ANOMALY_H
#define STRIDE_NN_WATCH_ANOMALY_H

#include "nn/files/save.h"
#include "nn/train.h"

ST_API_BEGIN

/* Looks at the loss and the gradients before each step. Where one is not finite it takes the step again and ends the run
 * with an error that says which layer's output or gradient, or which parameter, is the first, at which index. Parameters
 * are those before the step. `path` is where the net and the batch go, for st_train_replay; NULL: nowhere. */
st_callback st_detect_anomaly(const char *path);

/* Takes the step again that such a file holds. -1 with an error that says, as the run did, where the first NaN or
 * infinity is; 0 where there is none: with another library, say. */
int st_train_replay(const char *path, st_loss l, st_net_known known);

ST_API_END

#endif
