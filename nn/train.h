/* train.h: training a net on a data set: forward, loss, backward, step.
 *
 *     st_optim *o = st_sgd(.lr = 0.1, .momentum = 0.9);
 *     st_train_result r;
 *     st_train(n, training, .epochs = 5, .loss = st_cross_entropy(), .optim = o,
 *              .callbacks = { st_progress(stderr) }, .result = &r);
 *
 * The same seed gives bit-identical weights for any number of threads. A second run of the same net draws
 * other orders and other dropout masks than the first, and restarts the schedule. Progress, logs, early
 * stopping and the like are callbacks: nn/callbacks/callbacks.h has those that come with the library,
 * nn/files/checkpoint.h has checkpoints, from which a run resumes. */
#ifndef STRIDE_NN_TRAIN_H
#define STRIDE_NN_TRAIN_H

#include "layers/options.h"
#include "nn/data.h"
#include "nn/losses.h"
#include "nn/net.h"
#include "nn/optimizers.h"
#include "nn/schedules.h"

ST_API_BEGIN

enum { ST_MAX_CALLBACKS = 12 }; /* the most callbacks of a run */

typedef struct st_run st_run;

/* ---- callbacks ----------------------------------------------------------------------------------------- */

/* Events. Every callback is called for every event, in the order of the list. */
typedef enum st_event {
    ST_ON_BEGIN,       /* the net is built, no step has been taken */
    ST_ON_EPOCH_BEGIN, /* also where a resumed run continues in the middle of an epoch */
    ST_ON_GRADIENTS,   /* loss and gradients of the batch are computed; the optimizer has not stepped */
    ST_ON_STEP,        /* the optimizer has stepped */
    ST_ON_EPOCH,       /* an epoch and its validation have ended */
    ST_ON_END          /* the run has ended, also by an error */
} st_event;

/* A function that a run calls, and its context. One of your own needs a name, `call`, and perhaps a context:
 *
 *     static void stop_at_target(st_callback *self, st_run *run, st_event event)
 *     {
 *         const double *target = self->context;
 *         if (event == ST_ON_EPOCH && run->report.validation.loss < *target) run->stop = true;
 *     }
 *     st_train(n, d, ..., .callbacks = { { "target", stop_at_target, &target } });
 *
 * One that replaces the parameters by their exponential moving average when the run ends:
 *
 *     static void average(st_callback *self, st_run *run, st_event event)
 *     {
 *         st_tensor *mean = self->context, w = st_net_parameters(run->net);
 *         if (event == ST_ON_BEGIN) *mean = st_tensor_clone(w);
 *         if (event == ST_ON_STEP) st_scale(*mean, (st_real)0.9), st_add(*mean, (st_real)0.1, w);
 *         if (event == ST_ON_END) st_copy(w, *mean), st_tensor_free(*mean);
 *     }
 *     st_callback ema = { "average", average, &mean };
 *
 * An error that it sets (st_error_set) ends the run; it must not throw a C++ exception or longjmp. `self` is
 * the run's copy, which the callback may write to. */
typedef struct st_callback st_callback;
struct st_callback {
    const char *name;
    void (*call)(st_callback *self, st_run *run, st_event event); /* NULL: the entry is skipped */
    void *context; /* yours; or NULL, and the run allocates `memory` zeroed bytes until its end */
    size_t memory;
    const st_field *fields; /* of `options`: the run checks them and fills in defaults, and they must be the
                               same when it is resumed; NULL: none */
    st_option_bytes options;
};

/* ---- options ------------------------------------------------------------------------------------------- */

/* Options of a run. Zeros are defaults. */
typedef struct st_train_options {
    int epochs;                   /* 0: 1 */
    int batch;                    /* samples per step; 0: 64 */
    st_loss loss;                 /* required */
    st_optim *optim;              /* required; the caller frees it */
    st_schedule schedule;         /* zero: constant */
    const st_dataset *validation; /* evaluated after each epoch; NULL: none */
    uint64_t seed;       /* of the order of samples, and of the parameters if the net is not built yet */
    int steps_per_epoch; /* 0: the number of batches in the set */
    int micro_batches;   /* per batch; 0: the number of ranks */
    st_param_group groups[ST_MAX_GROUPS]; /* of this run, by name: frozen, learning rates; see nn/optim.h */
    bool keep_order;                      /* samples are not shuffled */
    bool drop_last;                       /* skips an incomplete last batch */
    const struct st_comm *ranks;          /* processes that train this net together; NULL: this one alone */
    bool unordered;                       /* with ranks: gradients are added in any order */
    st_callback callbacks[ST_MAX_CALLBACKS];
    struct st_train_result *result; /* filled in unless NULL */
} st_train_options;

/* The loss of a batch, and its gradient, are means over all of its targets that count, with their weights
 * (st_loss_weight), however it is cut into micro-batches. A batch or a validation set in which nothing counts
 * is an error.
 *
 * An epoch is one pass over the set, in a new random order. With steps_per_epoch it ends after that many
 * batches.
 *
 * nn/ranks/ranks.h says what micro-batches and ranks are; a library without nn/ranks/ rejects them. */

/* ---- results ------------------------------------------------------------------------------------------ */

/* Loss and accuracy on a data set. */
typedef struct st_metrics {
    double loss;
    /* Losses of classes: the fraction of samples (of pixels, say, of outputs [K, H, W]) whose largest output
     * is their class; those of ignore_index do not count. Binary losses: the fraction of outputs that are
     * above 0 where the target is above 1/2, and not above 0 elsewhere. Other losses: NaN. */
    double accuracy;
} st_metrics;

/* The progress of a run. */
typedef struct st_train_report {
    int epoch, epochs;         /* counted from 1; a callback may raise `epochs` at ST_ON_BEGIN */
    long step, steps;          /* steps taken; steps of the whole run */
    long batch, batches;       /* steps taken in this epoch; steps of an epoch */
    double lr;                 /* of the last step; a callback may set it at ST_ON_GRADIENTS */
    st_metrics training;       /* mean over this epoch so far, in training mode */
    st_metrics validation;     /* after the epoch; NaN without a validation set */
    double seconds;            /* since the run began */
    double samples_per_second; /* of training so far, without validation */
    bool best;                 /* this epoch's validation loss is the lowest so far */
} st_train_report;

/* The outcome of a run. */
typedef struct st_train_result {
    int epochs;                      /* completed, those before a checkpoint included */
    long steps, resumed;             /* taken; those before the checkpoint that the run resumed from */
    st_metrics training, validation; /* of the last epoch; validation: of the best epoch if it was restored */
    int best_epoch;                  /* lowest validation loss; 0 without validation */
    bool stopped_early;
    double seconds, samples_per_second; /* of training, without validation */
} st_train_result;

/* A run, as callbacks see it. They may set `stop`, report.lr and, at ST_ON_END, the result, and change the
 * parameters of the net and the optimizer. */
struct st_run {
    st_net *const net;
    st_optim *const optim;
    const st_train_options *const options; /* with defaults filled in */
    st_train_report report;
    double loss;                  /* mean of the batch; valid at ST_ON_GRADIENTS and ST_ON_STEP */
    bool stop;                    /* ends the run after this event */
    int rank;                     /* 0 for a single process */
    st_train_result result;       /* complete at ST_ON_END */
    struct st_trainer *const own; /* private */
};

/* Trains the net. 0, or -1 with an error: options out of range, a set that does not fit the net, a loss or a
 * parameter that is not finite, an error of a callback. The net then has the parameters of the step at which
 * the run ended. `result` may be NULL. */
int st_train_run(st_net *n, const st_dataset *d, st_train_options options, st_train_result *result);
#define st_train(net, dataset, ...)                                                                          \
    st_train_run(net, dataset, ST_OPTIONS(st_train_options, __VA_ARGS__), NULL)

/* Evaluates the net in inference mode, in batches of the size that it is built for: the mean of the loss is
 * over the whole set. -1 with an error, also if no target counts. */
int st_evaluate(st_net *n, const st_dataset *d, st_loss l, st_metrics *score);

ST_API_END

#endif
