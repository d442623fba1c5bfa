/* reduce.h: gradients of micro-batches, here and at other ranks, become one. */
#ifndef STRIDE_NN_RANKS_REDUCE_H
#define STRIDE_NN_RANKS_REDUCE_H

#include "layers/micro.h"
#include "nn/net.h"

typedef struct reduction {
    const micro *m;
    bool unordered; /* by the team's own sum */
    tensor
        theirs; /* [at hand, ranks * own part]: everyone's gradients of this rank's part of the parameters */
} reduction;

/* Memory for a net that was cut. -1 with an error. */
int reduction_begin(reduction *r, const net *n, const micro *m, bool unordered);
void reduction_end(reduction *r);

/* Before a backward pass. */
void reduction_zero(const reduction *r, net *n);

/* After it net_gradients become the sum over all micro-batches: added up in their order, whoever has them, or first
 * those at hand and then by the team. Each rank adds up a part of the parameters, and sends it to the others. */
int reduction_sum(const reduction *r, net *n);

#endif
