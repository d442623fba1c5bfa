/* anomaly.h: where in a step the first NaN or infinity is.
 *
 * Values are searched in the order in which they are computed: parameters and states, the batch, each layer's
 * output, the loss, then each layer's gradients and dx, from the last layer to the first. In a tensor, the
 * first element in row-major order is reported. */
#ifndef STRIDE_NN_WATCH_ANOMALY_H
#define STRIDE_NN_WATCH_ANOMALY_H

#include "nn/train.h"

ST_API_BEGIN

/* Checks the loss and the gradients before each optimizer step. If one is not finite, repeats the forward and
 * backward pass and ends the run with an error that names the first output, gradient or parameter that is not
 * finite, with its index. Parameters remain as before the step. */
st_callback st_detect_anomaly(void);

ST_API_END

#endif
