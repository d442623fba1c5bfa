/* train_impl.h: the trainer's own part of a run, and the table by which nn/ranks/ takes steps in parts. */
#ifndef STRIDE_NN_TRAIN_IMPL_H
#define STRIDE_NN_TRAIN_IMPL_H

#include "nn/train.h"

/* Sums of losses, their weights (st_loss_weight), correct predictions, and predictions. */
typedef struct tally {
    double loss, weight, correct, predictions;
} tally;
void tally_add(tally *sum, tally t);
st_metrics tally_score(tally sum);

/* Samples, and memory for a batch of them. Errors begin with `who`. */
typedef struct train_batches {
    const char *who;
    const st_dataset *data;
    ptrdiff_t *order; /* NULL: in place */
    st_tensor x, target, dy;
} train_batches;

typedef struct st_trainer {
    st_run *run;
    st_train_options options;
    const st_dataset *data;
    const struct train_parts *parts; /* NULL: one process takes the whole batch at once */
    void *own;                       /* of `parts` */
    struct train_kept *kept;         /* of checkpoints: nn/files/kept.c */

    /* The position. With the net, the optimizer and `kept` it is all that a checkpoint needs. */
    int epoch, best_epoch;   /* of the next step, from 1; best_epoch 0: none yet */
    long batch, step;        /* steps taken in that epoch; in the run */
    uint64_t epoch_net_step; /* the net's step when that epoch began, which determines its order */
    tally sum;               /* over that epoch so far */
    double best_loss;        /* NaN: none yet */
    st_metrics validation;   /* of the last epoch */

    train_batches batches, validated; /* of micro-batches; of validation, in the same memory */
    bool grouped;                     /* options.groups are in force */

    /* The current step. */
    ptrdiff_t first, images; /* of its batch: the place in the order, and the number */
    uint64_t net_step;       /* the net's, before it */
    st_tensor x, target;     /* loaded last */
    tally of_batch;

    double began, step_began, seconds, samples; /* times; seconds of steps, and samples in them */
} trainer;

/* A step in parts: micro-batches, by one process or several. */
typedef struct train_parts {
    int (*plan)(trainer *t);       /* checks the options before the net is built, and sets micro_batches */
    int (*begin)(trainer *t);      /* after ST_ON_BEGIN: all ranks become as the first */
    void (*gradients)(trainer *t); /* forward, loss and backward of each part; sets of_batch */
    int (*score)(trainer *t, st_metrics *score); /* in place of train_score */
    bool (*agree)(trainer *t);                   /* true at all ranks if one of them stops or has an error */
    void (*end)(trainer *t);                     /* frees what begin allocated */
} train_parts;

/* NULL without nn/ranks/ (tensor/tables.h). */
extern const train_parts *train_in_parts;

/* ---- before the first step (setup.c) ------------------------------------------------------------------ */

extern const st_field train_fields[];        /* of train */
int train_groups(const st_train_options *o); /* their number */

int train_check_options(trainer *t);
int train_allocate(trainer *t);
void train_release(trainer *t);

/* ---- a step (step.c) ---------------------------------------------------------------------------------- */

/* True: the run ends. train_tell calls every callback. */
bool train_stops(trainer *t);
bool train_tell(trainer *t, st_event event);

/* Loads the next batch; false at the end of the epoch. */
bool train_next(trainer *t);

/* Loads part s of options.micro_batches of the current batch, with gradients of 0. */
int train_fetch_part(trainer *t, int s);

/* Computes the loss of the loaded batch, sets of_batch, and returns the derivative with respect to y. */
st_tensor train_loss(trainer *t, st_tensor y);

/* The learning rate of a step of the run, by its schedule. */
double train_rate(const trainer *t, long step);

/* After the gradients: sets the batch's loss and the learning rate. True: the run ends. */
bool train_measure(trainer *t);

/* Runs the optimizer, and updates the report. True: the run ends by an error. */
bool train_step(trainer *t);

/* ---- batches (batches.c) ------------------------------------------------------------------------------ */

/* Tests if the net can take the set's samples; an error begins with `who` and calls the set `what`. */
int train_fits(const char *who, const st_net *n, const st_dataset *d, const char *what);

int train_batches_new(train_batches *b, const char *who, const st_net *n, const st_dataset *d,
                      ptrdiff_t images);
void train_batches_free(train_batches *b);

/* Loads samples from position `first` of the order on, and checks their classes. */
int train_fetch(const train_batches *b, const st_loss *l, const st_net *n, ptrdiff_t first, ptrdiff_t count,
                st_tensor *x, st_tensor *target);

/* ---- scores (evaluate.c) ------------------------------------------------------------------------------ */

bool train_has_accuracy(const st_loss *l, const st_net *n, const st_dataset *d);

/* The class of the largest output at position i of the targets [N, ...]; y [N, K, ...] is contiguous. */
ptrdiff_t train_class_of(st_tensor y, ptrdiff_t i);

/* The loss and the correct predictions of outputs y. Unless dy is null, dy becomes the derivative of the loss
 * divided by loss_divisor(weight). */
tally train_tally(const train_batches *b, const st_loss *l, const st_net *n, st_tensor y, st_tensor target,
                  st_tensor dy);

/* The tally of a batch of the set, from sample `first` on. */
tally train_tally_at(st_net *n, const st_loss *l, const train_batches *b, ptrdiff_t first);

/* The score of the whole set. */
int train_score(st_net *n, const st_loss *l, const train_batches *b, st_metrics *score);

/* The score from the sum of tallies. -1 with an error, which begins with `who`, if nothing counts. */
int train_mean(const char *who, tally sum, st_metrics *score);

#endif
