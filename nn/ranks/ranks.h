/* ranks.h: several processes train one net.
 *
 *     const st_comm *all = st_mpi_begin();
 *     st_train(n, training, ..., .group = st_group_of(all, false), .result = &r);      // at every rank
 *
 * Each rank calls st_train_run with the same options and the same data, and runs its share of every batch. The run starts
 * from the parameters of rank 0. Rank 0 alone shows progress, logs and writes checkpoints; callbacks of your own are
 * called at every rank and see run->rank. An error or a stop at one rank ends the run at all of them, after the same
 * step. */
#ifndef STRIDE_NN_RANKS_RANKS_H
#define STRIDE_NN_RANKS_RANKS_H

#include "nn/ranks/team.h"
#include "nn/train.h"

ST_API_BEGIN

/* Ranks that all-reduce gradients: added in the order of the micro-batches, or, `unordered`, by the team's own sum,
 * which sends less where a rank has several micro-batches, and whose last bits depend on the number of ranks. */
st_group st_group_of(const st_comm *t, bool unordered);

ST_API_END

#endif
