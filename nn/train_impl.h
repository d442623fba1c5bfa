/* train_impl.h: shared by the files of the trainer. */
#ifndef STRIDE_NN_TRAIN_IMPL_H
#define STRIDE_NN_TRAIN_IMPL_H

#include "nn/train.h"

/* Sums of losses, their weights (st_loss_weight), correct predictions, and predictions. */
typedef struct tally {
    double loss, weight, hits, counted;
} tally;
void tally_add(tally *sum, tally t);

/* Samples, and memory for a batch of them. */
typedef struct train_batches {
    const st_dataset *data;
    const ptrdiff_t *order; /* NULL: in order, from `base` on */
    ptrdiff_t base;
    st_tensor x, target, dy;
    ptrdiff_t *picked; /* argmax */
    int top;           /* a target among so many largest outputs is a hit; 0: argmax */
    ptrdiff_t *matrix; /* NULL, or counts by target and argmax, to which train_tally adds */
} train_batches;

extern const st_field train_fields[];        /* of train */
int train_groups(const st_train_options *o); /* their number */

int train_fits(const st_net *n, const st_dataset *d, const char *what);
bool train_counts_hits(const st_loss *l, const st_net *n, const st_dataset *d);

int train_batches_new(train_batches *b, const st_net *n, const st_dataset *d, ptrdiff_t images);
void train_batches_free(train_batches *b);

/* Loads samples from position `first` of the order on, and checks their classes. */
int train_fetch(const train_batches *b, const st_loss *l, const st_net *n, ptrdiff_t first, ptrdiff_t count,
                st_tensor *x, st_tensor *target);

/* The loss and hits of outputs y, and in dy, unless it is null, the derivative of the loss divided by
 * loss_divisor(weight). */
tally train_tally(const train_batches *b, const st_loss *l, const st_net *n, st_tensor y, st_tensor target,
                  st_tensor dy);

/* The loop's memory. Ranks run micro-batches in turn; in a table that is all-gathered, those of a rank are
 * adjacent. */
struct st_train_memory {
    train_batches batches, validation; /* of the size of a micro-batch */
    ptrdiff_t *order;                  /* NULL: endless */
    tally *tally, sums;                /* of each micro-batch, and of the batch */
    st_tensor states, new_states;      /* before the step; after each micro-batch; null for a single one */
    uint64_t net_step;                 /* the net's before the step */
    ptrdiff_t first, images;           /* the current batch */
    double began;
};

double train_now(void); /* seconds */

/* The position in the run as numbers, all that a checkpoint and other ranks need besides tensors; and back:
 * -1 with an error if the run has no such position. `check` does not change the run. */
typedef struct train_place {
    double epoch, batch, step, begun, net_step, optim_steps, best_epoch, seed_high, seed_low; /* integers */
    double loss_sum, hits, seen, best_loss, validation_loss, validation_accuracy, counted;
} train_place;
enum { TRAIN_PLACE = sizeof(train_place) / sizeof(double) };
train_place train_place_of(const st_run *run);
int train_go_to(st_run *run, const train_place *p, bool check);

/* Calls every callback; true: the run ends. */
bool train_tell(st_run *run, st_event event);

/* One step and its events: forward, loss and backward of each micro-batch, which leave the gradients of the
 * batch in the net; then, unless the run has stopped, the optimizer's update. */
void train_gradients(st_run *run);
void train_update(st_run *run);

/* Means over this epoch so far. */
st_metrics train_training_score(const st_run *run);

/* True at all ranks if one of them stops or has an error. */
bool train_agree(st_group *g, bool stop);

/* Ranks of a group take batches in turn. */
int train_score_of(st_net *n, const st_loss *l, const train_batches *b, st_group *g, st_metrics *score);

/* Loads micro-batch s of this step, and gives the net's step for its dropout. */
int train_fetch_micro(const st_run *run, int s, st_tensor *x, st_tensor *target, uint64_t *step);

#endif
