/* share.h: nets that share parameters, for inference in several threads. */
#ifndef STRIDE_NN_SHARE_SHARE_H
#define STRIDE_NN_SHARE_SHARE_H

#include "nn/net.h"

ST_API_BEGIN

/* A net for inference in another thread that shares the parameters and states of the built net n, with its
 * own memory for batches of up to `batch` images. n may run concurrently; do not train it while shared copies
 * run; free it last. If both are built for the same batch size, their results are bit-identical. NULL with an
 * error. */
st_net *st_net_share(const st_net *n, ptrdiff_t batch);

/* Builds a clone that shares the parameters and states of a built tree, for inference in another thread. It
 * has no gradients. Free it before `of`, and do not write to the parameters of `of` while it runs. */
int st_layer_build_shared(st_layer *clone, st_shape x, const st_layer *of);

ST_API_END

#endif
