/* summary.h: a net as a table. */
#ifndef STRIDE_NN_CHECK_SUMMARY_H
#define STRIDE_NN_CHECK_SUMMARY_H

#include "nn/net.h"

ST_API_BEGIN

/* A table: each layer with its options, output shape, parameters and FLOPs of one image, and what a batch
 * takes. 0, or -1 where the needs overflow or the stream fails. The last forward pass of a built net is
 * lost. */
int st_net_summary(st_net *n, ptrdiff_t batch, FILE *to);

ST_API_END

#endif
