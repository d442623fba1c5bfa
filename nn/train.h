/* train.h: four verbs, forward, loss, backward, step, in one call that trains a net on a data set.
 *
 *     train_result r;
 *     optim *o = optim_sgd((sgd){ .lr = 0.1, .momentum = 0.9 });
 *     train_run(n, training, (train){ .epochs = 5, .loss = loss_cross_entropy(0), .optim = o }, &r);
 *
 * One seed gives the same weights, bit for bit, for any number of threads. A second run of the same net goes on
 * drawing where the first ended: other orders, other dropout; schedules begin anew. */
#ifndef STRIDE_NN_TRAIN_H
#define STRIDE_NN_TRAIN_H

#include "nn/data.h"
#include "nn/loss.h"
#include "nn/net.h"
#include "nn/optim.h"
#include "nn/files/save.h"
#include "nn/schedule.h"
#include "nn/ranks/team.h"

#pragma GCC visibility push(default)

/* How a net does on a data set. */
typedef struct train_score {
    double loss;
    double
        accuracy; /* fraction of samples whose greatest output is their class; NaN where the loss has none */
} train_score;

/* What a callback is told after each epoch. */
typedef struct train_report {
    int epoch, epochs;      /* counted from 1 */
    long step, steps;       /* taken; of the whole run */
    double lr;              /* of the last step */
    train_score training;   /* mean over this epoch so far, in training mode */
    train_score validation; /* after the epoch; NaN where there is no such set */
    double seconds;         /* since the run began */
    bool best;              /* this epoch's parameters are the best so far */
} train_report;

/* How to train; zeros are defaults. */
typedef struct train {
    loss loss;         /* required */
    optim *optim;      /* required; the caller's */
    int epochs;        /* 0: 1 */
    ptrdiff_t batch;   /* 0: 64 */
    schedule schedule; /* zero: constant */
    const data *validation;
    int patience;                 /* stop when validation has not improved for so many epochs; 0: never */
    double min_delta;             /* what counts as an improvement of the validation loss */
    double clip_norm, clip_value; /* of the gradients; 0: not clipped */
    uint64_t seed;   /* of the order of samples, and of the net's parameters where it is not built yet */
    bool keep_order; /* no shuffling */
    bool drop_last;  /* skip an epoch's last batch where it is not full */

    int micro_batches; /* that a batch is cut into; 0: as many as ranks */
    const team *team;  /* the ranks that train together; NULL: this process alone */
    bool unordered;    /* gradients are added up by the team's own sum */

    const char *checkpoint; /* a file that holds all that the run needs to go on; NULL: none */
    long checkpoint_every;  /* steps after which it is written, besides after each epoch; 0: only then */
    bool resume;            /* go on from that file, where it exists; see below */

    const char *
        anomaly; /* where the batch goes, with the net, at which a run ends since numbers went wrong; NULL: nowhere */

    FILE *progress; /* where to show it: a line that is redrawn on a terminal, a line for each epoch
                         elsewhere; NULL: nowhere */
    /* After each epoch: false ends the run, and an error that it leaves fails it. */
    bool (*callback)(const train_report *r, void *context);
    void *context;
} train;

/* What came of it. */
typedef struct train_result {
    int epochs;                       /* run, and those that a checkpoint had run */
    long steps, resumed;              /* taken; of them before the checkpoint that the run went on from */
    train_score training, validation; /* of the last epoch; validation of the best where it is restored */
    int best_epoch;                   /* by validation loss; 0 where there is no validation */
    bool stopped_early;
    double seconds, images_per_second; /* of training alone, validation not counted */
} train_result;

/* 0, or -1 with an error: options out of range, a set that does not fit the net, a loss or a gradient that is not
 * finite, a step that would make a parameter or a state of the optimizer so. Parameters, states and the optimizer
 * are then those before that step, and the error says where the first NaN or infinity is, of all that the step
 * computes: which layer's output or gradient, or which parameter, at which index. With patience the best parameters
 * are restored at the end (patience = epochs: without stopping early); without it the last ones stay. The result may
 * be NULL. */
int train_run(net *n, const data *d, train options, train_result *result);

/* A run that ends anyhow, and is asked for again with the same options and `resume`, goes on from its last
 * checkpoint and comes to the same parameters as if it had not ended, bit for bit, for any number of threads: the
 * net, the optimizer, the schedule, the order of samples, dropout and augmentation (nn/data/augment.h), the place in the
 * epoch and the best so far are in the file. It is a net's too: net_load reads it. It replaces the one before it at
 * once, or not at all, and is on the disk when training goes on.
 *
 * What is asked for must be what was asked for then: another net, batch, seed, optimizer, schedule, number of
 * samples, augmentation, normalisation, ... is refused, naming both, and so are other samples, of which sixteen are
 * looked at before the run; those to validate with are not. More epochs are welcome where the schedule does not depend
 * on them (constant, step). The callback is called for the epochs that end in this call. */

/* A batch of n images may be cut into S micro-batches: micro-batch s has the images from s n / S up to (s + 1) n / S.
 * Each is run forward and backward by itself, with the memory of one, and their gradients are added in order. Every
 * one of them draws its own dropout and counts a step of the net. Batch normalisation normalises each by itself, as
 * PyTorch does when it accumulates gradients; each starts from the step's states, and the new states are the mean of
 * theirs. A batch of fewer images than micro-batches is refused before the run.
 *
 * Several ranks of a team (nn/ranks/team.h) train one net: each calls this with the same options and the same data.
 * Rank r of R runs micro-batches r, r + R, ...; gradients are all-reduced every step, and all ranks come to the same
 * parameters. The bits depend on the number of micro-batches, not on who runs them: one process, or any number of
 * ranks that divides it. `unordered` sends less where a rank has more than one; its last bits depend on the ranks.
 *
 * The run begins with the parameters of rank 0. Rank 0 alone reads and writes the checkpoint, whose place it tells
 * the others, shows progress, and calls back; where numbers go wrong it takes the step again. Samples to validate with
 * are evaluated in batches of the largest micro-batch, which ranks take in turn. An error at one rank ends the run at
 * all of them, before anything else is written. */

/* Takes the step again that a run ended at, from the file that its option `anomaly` names. -1 with an error that
 * says, as the run did, where numbers go wrong; 0 where they do not: with another library, say, or where it was the
 * optimizer's step, which is not taken again. */
int train_replay(const char *path, loss l, net_known known);

/* In inference mode, in batches of what the net is built for. */
int train_evaluate(net *n, const data *d, loss l, train_score *score);

#pragma GCC visibility pop

#endif
