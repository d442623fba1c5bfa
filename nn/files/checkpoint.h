/* checkpoint.h: all that a run needs to go on exactly where it was, in one file.
 *
 * The file is a net's (nn/files/save.h), so that net_load reads the net out of it, with the optimizer's states and the
 * best parameters so far as tensors train.optim.0, ..., train.best, train.best_states, and in the metadata an entry
 * "training", JSON: {"version": 1, "terms": {...}, "place": {...}}; the terms are the options that the run was asked
 * for. */
#ifndef STRIDE_NN_FILES_CHECKPOINT_H
#define STRIDE_NN_FILES_CHECKPOINT_H

#include "nn/train.h"

/* Where a run stands between two steps; together with the net, the optimizer and the terms, all that the steps to
 * come depend on. */
typedef struct train_place {
    int64_t epoch, batch,
        step;      /* the epoch at hand, from 1, or one more than there are; steps taken in it; in all */
    int64_t begun; /* the net's step when this epoch began: its order and its pass are drawn from it */
    int64_t net_seed, net_step, optim_steps;
    double loss_sum, hits, seen; /* of this epoch, or of the last one until another begins */
    int64_t best_epoch, since_best;
    double best_loss;       /* NaN: none yet */
    train_score validation; /* the result's */
} train_place;

typedef struct checkpoint {
    net *net;
    const train *options; /* the file's path, the optimizer, and what the steps to come depend on */
    const data *samples;  /* how many, and how they are prepared */
    uint32_t sum;         /* of them: checkpoint_sum */
    long steps_an_epoch;
    tensor best, best_states; /* null: not kept */
    train_place *place;
} checkpoint;

/* A number that a set is known by: the CRC-32 of some of its samples, from the first to the last, fetched into x and y,
 * which are of one. -1 with the error of one that cannot be. */
int checkpoint_sum(const data *d, tensor x, tensor y, uint32_t *sum);

/* 0, or -1 with an error that names the file; the old one is then as it was. */
int checkpoint_write(const checkpoint *c);

/* -1 with an error that names the file and what is different, where it is of another net or of other options; all is
 * then as it was. */
int checkpoint_read(const checkpoint *c);

#endif
