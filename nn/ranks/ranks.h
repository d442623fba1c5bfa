/* ranks.h: micro-batches and ranks: a batch that is cut into parts, which several processes may share.
 *
 *     st_train(n, training, ..., .micro_batches = 4);
 *
 *     const st_comm *all = st_mpi_begin();
 *     st_train(n, training, ..., .ranks = all, .result = &r);      // at every rank
 *
 * A batch of n images may be cut into S micro-batches: micro-batch s has the images from s n / S up to (s +
 * 1) n / S. Each runs forward and backward by itself, so that only the memory of one is needed, and their
 * gradients are added in order. Each draws its own dropout masks and counts as a step of the net. Batch
 * normalisation uses the statistics of each micro-batch, as in PyTorch with gradient accumulation; each
 * starts from the states before the step, and the new states are the mean of theirs. The trainer rejects
 * batches of fewer images than micro-batches.
 *
 * Ranks are processes that run the same program (nn/ranks/team.h). Every rank trains with the same options
 * and the same data; rank r of R runs micro-batches r, r + R, ..., and gradients are all-reduced every step,
 * so that all ranks have the same parameters. Results depend on the number of micro-batches but not on the
 * number of ranks, which must divide it. With the option `unordered` gradients are added by the
 * communicator's own sum, which sends less if a rank has several micro-batches, but depends on the number of
 * ranks in the last bits.
 *
 * Options and engines are compared first: a difference is an error at all ranks that names the rank and the
 * option. The run starts from the parameters of rank 0. Only rank 0 shows progress, logs and writes
 * checkpoints; callbacks of your own are called at every rank and can read run->rank. An error or a stop at
 * one rank ends the run at all ranks, after the same step. */
#ifndef STRIDE_NN_RANKS_RANKS_H
#define STRIDE_NN_RANKS_RANKS_H

#include "nn/ranks/team.h"
#include "nn/train.h"

#endif
