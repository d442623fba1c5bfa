/* reduce.h: gradients of micro-batches, here and at other ranks, become one. */
#ifndef STRIDE_NN_RANKS_REDUCE_H
#define STRIDE_NN_RANKS_REDUCE_H

#include "nn/net.h"
#include "nn/ranks/team.h"

typedef struct reduction {
    const team *team; /* NULL: this process alone */
    bool unordered;   /* by the team's own sum */
    int added;        /* micro-batches of this rank, so far */
    tensor sum;       /* of the parameters, or of this rank's part of them */
    tensor theirs;    /* [ranks, own part]: everyone's gradients of this rank's part */
} reduction;

/* Memory to add up `here` micro-batches a step. -1 with an error. */
int reduction_begin(reduction *r, const net *n, const team *t, int here, bool unordered);
void reduction_end(reduction *r);

/* Adds net_gradients of a micro-batch. Rank r of R has micro-batches r, r + R, ...: they are added in their order,
 * whoever has them. With `unordered` each rank adds its own, and reduction_finish all-reduces the sums. */
int reduction_add(reduction *r, const net *n);

/* After the last one: net_gradients become the sum. */
int reduction_finish(reduction *r, const net *n);

#endif
