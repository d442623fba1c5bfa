/* ranks.h: several processes train one net.
 *
 *     const st_comm *all = st_mpi_begin();
 *     st_train(n, training, ..., .group = st_group_of(all, false), .result = &r);      // at every rank
 *
 * Every rank trains with the same options and the same data, and loads a shard of each batch. Options and
 * engines are compared first: a difference is an error at all ranks that names the rank and the option. The
 * run starts from the parameters of rank 0. Only rank 0 shows progress, logs and writes checkpoints;
 * callbacks of your own are called at every rank and can read run->rank. An error or a stop at one rank ends
 * the run at all ranks, after the same step. */
#ifndef STRIDE_NN_RANKS_RANKS_H
#define STRIDE_NN_RANKS_RANKS_H

#include "nn/ranks/team.h"
#include "nn/train.h"

ST_API_BEGIN

/* Ranks that all-reduce gradients: in the order of the micro-batches, or, with `unordered`, by the
 * communicator's own sum, which sends less if a rank has several micro-batches, but depends on the number of
 * ranks in the last bits. */
st_group st_group_of(const st_comm *t, bool unordered);

ST_API_END

#endif
