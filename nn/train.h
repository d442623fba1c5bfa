/* train.h: training a net on a data set: forward, loss, backward, step.
 *
 *     st_optim *o = st_sgd(.lr = 0.1, .momentum = 0.9);
 *     st_train_result r;
 *     st_train(n, training, .epochs = 5, .loss = st_cross_entropy(), .optim = o,
 *                                     .callbacks = { st_progress(stderr) }, .result = &r);
 *
 * The same seed gives the same weights, bit for bit, for any number of threads. A second run of the same net draws
 * other orders and other dropout than the first; schedules begin anew. Everything beyond the loop is a callback:
 * nn/callbacks.h has those that come with the library. */
#ifndef STRIDE_NN_TRAIN_H
#define STRIDE_NN_TRAIN_H

#include "layers/options.h"
#include "nn/data.h"
#include "nn/loss.h"
#include "nn/net.h"
#include "nn/optim.h"
#include "nn/schedule.h"

ST_API_BEGIN

enum {
    ST_MAX_CALLBACKS = 12, /* in a run, at most */
    ST_MAX_KEPT = 16,      /* tensors and lists of numbers that callbacks keep in checkpoints, at most */
    ST_MAX_NUMBERS = 16    /* in a list */
};

typedef struct st_run st_run;

/* ---- callbacks ----------------------------------------------------------------------------------------- */

/* When callbacks are called. Each is called for every event, in the order of the list. */
typedef enum st_event {
    ST_ON_BEGIN,       /* the net is built, no step has been taken */
    ST_ON_EPOCH_BEGIN, /* also where a resumed run continues in the middle of an epoch */
    ST_ON_GRADIENTS,   /* the batch's loss and gradients are there; the optimizer has not stepped */
    ST_ON_STEP,        /* the optimizer has stepped */
    ST_ON_EPOCH,       /* an epoch has ended, and validation after it */
    ST_ON_END          /* the run has ended, also by an error; ST_ON_BEGIN came before */
} st_event;

/* A function that a run calls, with what belongs to it. One of your own needs a name, `call` and perhaps a context:
 *
 *     static void stop_at_target(st_callback *self, st_run *run, st_event event)
 *     {
 *         const double *target = self->context;
 *         if (event == ST_ON_EPOCH && run->report.validation.accuracy > *target) run->stop = true;
 *     }
 *     st_train(n, d, ..., .callbacks = { { "target", stop_at_target, &target } });
 *
 * An error that it latches (st_error_set) fails the run. The run has a copy of the callback, which it may write to. */
typedef struct st_callback st_callback;
struct st_callback {
    const char *name;
    void (*call)(st_callback *self, st_run *run, st_event event); /* NULL: the entry is skipped */
    void *context;          /* yours, or memory between ST_ON_BEGIN and ST_ON_END */
    const st_field *fields; /* of `options`; a checkpoint refuses a run where they differ; NULL: none */
    union st_callback_options {
        double number;
        void *pointer;
        unsigned char bytes[48];
    } options;
};

/* ---- options ------------------------------------------------------------------------------------------- */

/* Processes that train one net together. nn/ranks/ranks.h makes them; zero is this process alone. Every function is
 * called by all ranks in the same order, also where an error is latched. */
typedef struct st_group st_group;
struct st_group {
    int rank, ranks;                         /* ranks 0: alone */
    void (*begin)(st_group *g, st_run *run); /* all start where rank 0 is */
    bool (*agree)(st_group *g, bool stop);   /* an error or a stop of one rank becomes everyone's */
    void (*all_gather)(st_group *g, ptrdiff_t rows, size_t size, void *table); /* equal parts of the rows */
    void (*add)(st_group *g, st_run *run, int micro_batch); /* adds up st_net_gradients: see below */
    void *context;
    bool unordered, failed; /* failed: all ranks have an error */
    st_tensor sum, theirs;  /* the run frees them */
};

/* How to train. Zeros are defaults. */
typedef struct st_train_options {
    int epochs;                   /* 0: 1 */
    int batch;                    /* images a step; 0: 64 */
    st_loss loss;                 /* required */
    st_optim *optim;              /* required; the caller frees it */
    st_schedule schedule;         /* zero: constant */
    const st_dataset *validation; /* evaluated after each epoch; NULL: none */
    uint64_t seed;       /* of the order of samples, and of parameters where the net is not built yet */
    int steps_per_epoch; /* 0: as many as the set has batches; required for endless sets */
    int micro_batches;   /* each batch is cut into: see below; 0: 1, or as many as ranks */
    bool keep_order;     /* samples are not shuffled */
    bool drop_last;      /* skips the last batch of an epoch where it is not full */
    st_group group;      /* ranks that train together */
    st_callback callbacks[ST_MAX_CALLBACKS];
    struct st_train_result *result; /* filled in; NULL: not wanted */
} st_train_options;

/* An epoch goes through the whole set in a new order. With steps_per_epoch it ends after so many batches; a set of more
 * than 2^31 samples is then endless: it is not shuffled, and each epoch takes up where the last one ended.
 *
 * A batch of n images may be cut into S micro-batches: micro-batch s has the images from s n / S up to (s + 1) n / S.
 * Each is run forward and backward by itself, with the memory of one, and their gradients are added in order. Every
 * one of them draws its own dropout and counts a step of the net. Batch normalisation normalises each by itself, as
 * PyTorch does when it accumulates gradients; each starts from the step's states, and the new states are the mean of
 * theirs. A batch of fewer images than micro-batches is refused before the run.
 *
 * Of R ranks, rank r runs micro-batches r, r + R, ...; gradients are all-reduced every step, and all ranks come to
 * the same parameters. The bits depend on the number of micro-batches, not on who runs them: one process, or any
 * number of ranks that divides it. */

/* ---- what a run tells --------------------------------------------------------------------------------------- */

/* How a net does on a data set. */
typedef struct st_metrics {
    double loss;
    double
        accuracy; /* fraction of samples whose greatest output is their class; NaN where the loss has none */
} st_metrics;

/* The progress of a run. */
typedef struct st_train_report {
    int epoch, epochs;     /* counted from 1 */
    long step, steps;      /* taken; of the whole run */
    double lr;             /* of the last step; a callback may set it ST_ON_GRADIENTS */
    st_metrics training;   /* mean over this epoch so far, in training mode */
    st_metrics validation; /* after the epoch; NaN where there is no such set */
    double seconds;        /* since the run began */
    bool best;             /* this epoch's validation loss is the least so far */
} st_train_report;

/* What a callback keeps in checkpoints: a tensor, or numbers. */
typedef struct st_kept {
    const char *name;
    st_tensor tensor;
    double *numbers;
    int count; /* of the numbers; 0: a tensor */
} st_kept;

/* A run, as callbacks see it. They may set `stop`, report.lr, and what belongs to the net and the optimizer. */
struct st_run {
    st_net *net;
    st_optim *optim;
    const st_dataset *data;
    st_train_options options; /* defaults filled in; `callbacks` are the run's */
    st_train_report report;
    bool stop;                       /* set it, and the run ends after this event */
    double loss;                     /* the batch's mean loss: ST_ON_GRADIENTS, ST_ON_STEP */
    long steps_per_epoch, resumed;   /* resumed: steps taken before this call, by the checkpoint */
    double training_seconds, images; /* without validation; trained on by this call */
    int rank, ranks;                 /* 0 of 1 alone */

    /* The place in the run; with the net, the optimizer and what callbacks keep, all that a checkpoint needs. */
    int epoch, best_epoch;       /* the next step's epoch, one more than there are at the end; 0: none yet */
    long batch, step;            /* steps taken in that epoch, and in all */
    uint64_t begun;              /* the net's step when that epoch began: its order is drawn from it */
    double loss_sum, hits, seen; /* over the samples of this epoch so far */
    double best_loss;            /* NaN: none yet */
    st_metrics validation;       /* of the last epoch, or of the one whose parameters are restored */

    st_kept kept[ST_MAX_KEPT];
    int kept_count;
    bool sealed; /* the checkpoint was read: nothing can be added to `kept` */

    struct st_train_memory *memory; /* the loop's own */
};

/* ST_ON_BEGIN, a callback that is listed before the checkpoint: what is to be kept in it under this name. It is borrowed
 * until the run ends, and holds what the file has when the run is resumed. -1 with an error: too many. */
int st_run_keep(st_run *run, const char *name, st_tensor value);
int st_run_keep_numbers(st_run *run, const char *name, int count, double numbers[]);

/* What came of a run. */
typedef struct st_train_result {
    int epochs;                      /* run, those before a checkpoint included */
    long steps, resumed;             /* taken; those before the checkpoint that the run was resumed from */
    st_metrics training, validation; /* of the last epoch; validation of the best where it is restored */
    int best_epoch;                  /* with the least validation loss; 0 where there is no validation */
    bool stopped_early;
    double seconds, images_per_second; /* of training alone, without validation */
} st_train_result;

/* 0, or -1 with an error: options out of range, a set that does not fit the net, a loss or a parameter that is not
 * finite, an error of a callback. The net then has the parameters of the step at which the run ended. The result may
 * be NULL. */
int st_train_run(st_net *n, const st_dataset *d, st_train_options options, st_train_result *result);
#define st_train(net, dataset, ...)                                                                          \
    st_train_run(net, dataset, ST_OPTIONS(st_train_options, __VA_ARGS__), NULL)

/* In inference mode, in batches of the size the net is built for. */
int st_evaluate(st_net *n, const st_dataset *d, st_loss l, st_metrics *score);

ST_API_END

#endif
