/* train.c: the loop: forward, loss, backward, step. */
#define _POSIX_C_SOURCE 200809L
#include "nn/train.h"
#include "nn/anomaly.h"
#include "nn/checkpoint.h"
#include "nn/progress.h"
#include "nn/reach.h"
#include "tensor/random.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The stream of an epoch's order is this and the net's step at its beginning: runs that follow each other go on
 * drawing. Parameters begin with streams below it, dropout has its own above. */
static const uint64_t ORDER_STREAM = UINT64_C(1) << 62;

typedef struct run {
    net *n;
    const data *d;
    train o;
    tensor x, target, dy;     /* a batch */
    tensor best, best_states; /* parameters and states of the best epoch, where they are to be restored */
    tensor states;            /* of the net before a step; null: it has none */
    uint64_t net_step;        /* and its step then */
    reach reach;
    ptrdiff_t *order;
    ptrdiff_t *picked; /* argmax of a batch */
    long steps_an_epoch;
    double began, training_seconds;
    double images; /* trained on by this call, counted each time */
    train_place at;
    train_report report;
    progress progress;
} run;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- scores ------------------------------------------------------------------------------------- */

/* How many rows of y [N, K] have their greatest element at their class. */
static double count_hits(tensor y, tensor target, ptrdiff_t *picked)
{
    double hits = 0;
    tensor_argmax(picked, y, AXES(1));
    for (ptrdiff_t i = 0; i < y.shape.n[0]; i++)
        hits += (double)picked[i] == (double)*tensor_at(target, INDEX(i));
    return hits;
}

static bool counts_hits(const loss *l, const net *n, const data *d)
{
    return l->classes && n->output.rank == 1 && d->y.rank == 0;
}

/* The loss would tell the place in the batch, which says little of a set that is shuffled. */
static int check_classes(const loss *l, const net *n, const data *d, const ptrdiff_t *order, ptrdiff_t first,
                         tensor target)
{
    if (!counts_hits(l, n, d)) return 0;
    for (ptrdiff_t i = 0; i < target.shape.n[0]; i++) {
        double class = (double)*tensor_at(target, INDEX(i));
        if (class >= 0 && class < (double)n->output.n[0] && class == floor(class)) continue;
        return error_set("train: sample %td is of class %g, the net tells apart %td: 0 to %td",
                         order ? order[first + i] : first + i, isnan(class) ? (double)NAN : class,
                         n->output.n[0], n->output.n[0] - 1);
    }
    return 0;
}

static int fits(const net *n, const data *d, const char *what)
{
    if (!d || d->count < 1) return error_set("train: the %s set is %s", what, d ? "empty" : "NULL");
    if (d->x.rank + 1 > TENSOR_MAX_RANK || d->y.rank + 1 > TENSOR_MAX_RANK)
        return error_set("train: samples %s and %s of the %s set leave no axis for the batch",
                         shape_text(d->x).text, shape_text(d->y).text, what);
    if (!shape_equal(d->x, n->input))
        return error_set("train: the %s set has samples %s, the net takes %s", what, shape_text(d->x).text,
                         shape_text(n->input).text);
    return 0;
}

/* The first n rows of a batch's tensor. */
static tensor rows(tensor batch, ptrdiff_t n)
{
    return tensor_narrow(batch, 0, 0, n);
}

static int evaluate(net *n, const data *d, const loss *l, tensor x, tensor target, ptrdiff_t *picked,
                    train_score *score)
{
    double loss_sum = 0, hits = 0;
    ptrdiff_t batch = x.shape.n[0];
    for (ptrdiff_t first = 0; first < d->count; first += batch) {
        ptrdiff_t count = d->count - first < batch ? d->count - first : batch;
        if (data_batch(d, NULL, first, count, rows(x, count), rows(target, count)) ||
            check_classes(l, n, d, NULL, first, rows(target, count)))
            return -1;
        tensor y = net_forward(n, rows(x, count), NET_PREDICT);
        double value = loss_value(*l, y, rows(target, count), (tensor){ 0 });
        if (error_text()) return -1;
        loss_sum += value * (double)count;
        if (counts_hits(l, n, d)) hits += count_hits(y, rows(target, count), picked);
    }
    score->loss = loss_sum / (double)d->count;
    score->accuracy = counts_hits(l, n, d) ? hits / (double)d->count : NAN;
    return 0;
}

int train_evaluate(net *n, const data *d, loss l, train_score *score)
{
    train_score unused;
    if (!score) score = &unused;
    if (!n || n->batch < 1) return error_set("train_evaluate before net_build");
    if (fits(n, d, "data")) return -1;
    tensor x = tensor_new(shape_with_batch(d->x, n->batch)),
           target = tensor_new(shape_with_batch(d->y, n->batch));
    ptrdiff_t *picked = malloc((size_t)n->batch * sizeof *picked);
    int status = -1;
    if (!picked) error_set("train_evaluate: no memory");
    else if (!tensor_is_null(x) && !tensor_is_null(target))
        status = evaluate(n, d, &l, x, target, picked, score);
    tensor_free(x);
    tensor_free(target);
    free(picked);
    return status;
}

/* Of this epoch so far. */
static train_score training_score(const run *r)
{
    bool counted = counts_hits(&r->o.loss, r->n, r->d);
    return (train_score){ r->at.loss_sum / r->at.seen, counted ? r->at.hits / r->at.seen : NAN };
}

/* ---- checkpoints -------------------------------------------------------------------------------- */

static checkpoint checkpoint_of(run *r)
{
    return (checkpoint){ r->n, &r->o, r->d, r->steps_an_epoch, r->best, r->best_states, &r->at };
}

static int keep_place(run *r)
{
    r->at.net_seed = (int64_t)r->n->seed;
    r->at.net_step = (int64_t)r->n->step;
    r->at.optim_steps = r->o.optim->steps;
    checkpoint c = checkpoint_of(r);
    return checkpoint_write(&c);
}

/* Where the file says that the run was; where there is no file, at its beginning. */
static int find_place(run *r)
{
    if (!r->o.resume) return 0;
    if (access(r->o.checkpoint, F_OK))
        return errno == ENOENT ? 0 : error_set("%s: %s", r->o.checkpoint, strerror(errno));
    checkpoint c = checkpoint_of(r);
    return checkpoint_read(&c);
}

/* ---- one step ----------------------------------------------------------------------------------- */

/* What a step that fails has changed: states that saw its batch, and the count of steps. Parameters and the optimizer
 * change last, or not at all. */
static void take_back(run *r)
{
    if (!tensor_is_null(r->states)) tensor_copy(net_states(r->n), r->states);
    r->n->step = r->net_step;
}

/* Before anything has been changed by it: says what went wrong in the step, and where. */
static int go_wrong(run *r, tensor x, tensor target, const char *what, anomaly a)
{
    bool saved = !error_text() && r->o.anomaly && anomaly_save(r->n, r->o.anomaly, x, target) == 0;
    if (error_text()) return error_within("train: %s at step %ld: ", what, r->report.step + 1);
    return error_set(
        "train: %s at step %ld (epoch %d): %s; a smaller learning rate than %g, or clipping, may help%s%s",
        what, r->report.step + 1, r->report.epoch, a.found ? a.text : "taken again, the step is finite",
        r->report.lr, saved ? "; the batch is in " : "", saved ? r->o.anomaly : "");
}

/* The way up to the gradients went wrong: it is taken again. */
static int find_wrong(run *r, tensor x, tensor target, const char *format, double value)
{
    char what[64];
    snprintf(what, sizeof what, format, isnan(value) ? (double)NAN : value); /* whose sign says nothing */
    take_back(r);
    return go_wrong(r, x, target, what, anomaly_find(r->n, x, target, r->o.loss));
}

static int follow_gradients(run *r, tensor x, tensor target, double greatest)
{
    overflow bad;
    if (r->o.clip_value > 0) optim_clip_value(net_gradients(r->n), r->o.clip_value);
    if (r->o.clip_norm > 0) optim_clip_norm(net_gradients(r->n), r->o.clip_norm);
    r->report.lr =
        r->o.optim->lr * schedule_factor(&r->o.schedule, r->report.step, r->report.steps, r->steps_an_epoch);
    if (reach_step(&r->reach, r->o.optim, r->report.lr, net_parameters(r->n), net_gradients(r->n), greatest,
                   &bad))
        return -1;
    if (!bad.found) return 0;
    anomaly a = anomaly_of_step(r->n, r->o.optim, bad);
    take_back(r);
    return go_wrong(r, x, target, "a parameter overflows", a);
}

static int take_step(run *r, ptrdiff_t first, ptrdiff_t count)
{
    tensor x = rows(r->x, count), target = rows(r->target, count), dy = rows(r->dy, count);
    if (data_batch(r->d, r->order + first, 0, count, x, target) ||
        check_classes(&r->o.loss, r->n, r->d, r->order, first, target))
        return -1;
    net_zero_gradients(r->n);

    tensor y = net_forward(r->n, x, NET_TRAIN);
    double value = loss_value(r->o.loss, y, target, dy);
    if (error_text()) return -1;
    if (!isfinite(value)) return find_wrong(r, x, target, "the loss is %g", value);
    if (net_backward(r->n, dy, (tensor){ 0 })) return -1;
    double greatest = reach_greatest(net_gradients(r->n));
    if (!isfinite(greatest))
        return find_wrong(r, x, target, "a gradient is not finite, the loss is %g", value);
    if (follow_gradients(r, x, target, greatest)) return -1;

    r->at.batch++;
    r->report.step = (long)++r->at.step;
    r->at.loss_sum += value * (double)count;
    r->at.seen += (double)count;
    r->images += (double)count;
    if (counts_hits(&r->o.loss, r->n, r->d)) r->at.hits += count_hits(y, target, r->picked);
    r->report.training = training_score(r);
    return error_text() ? -1 : 0;
}

/* All of it, or nothing. */
static int step(run *r, ptrdiff_t first, ptrdiff_t count)
{
    r->net_step = r->n->step;
    if (!tensor_is_null(r->states)) tensor_copy(r->states, net_states(r->n));
    if (take_step(r, first, count) == 0) return 0;
    take_back(r);
    return -1;
}

/* ---- one epoch ---------------------------------------------------------------------------------- */

static double images_per_second(const run *r)
{
    return r->training_seconds > 0 ? r->images / r->training_seconds : 0;
}

static int train_epoch(run *r)
{
    double began = now(), before = r->training_seconds;
    train_place *at = &r->at;
    if (at->batch == 0) {
        at->begun = (int64_t)r->n->step;
        at->loss_sum = at->hits = at->seen = 0;
    }
    r->reach.known = false; /* between epochs anybody may have changed the parameters */
    data_begin(r->d, (uint64_t)at->begun);
    if (!r->o.keep_order)
        random_permutation(r->order, r->d->count,
                           (random_key){ r->o.seed, ORDER_STREAM + (uint64_t)at->begun });
    while (at->batch < r->steps_an_epoch) {
        ptrdiff_t first = at->batch * r->o.batch, left = r->d->count - first;
        if (step(r, first, left < r->o.batch ? left : r->o.batch)) return -1;
        r->report.seconds = now() - r->began;
        r->training_seconds = before + now() - began;
        progress_step(&r->progress, &r->report, (long)at->batch, r->steps_an_epoch, images_per_second(r));
        bool due = r->o.checkpoint_every > 0 && at->step % r->o.checkpoint_every == 0;
        if (due && at->batch < r->steps_an_epoch && keep_place(r)) return -1;
    }
    return 0;
}

static int validate(run *r)
{
    r->report.best = false;
    r->report.validation = (train_score){ NAN, NAN };
    if (!r->o.validation) return 0;
    if (evaluate(r->n, r->o.validation, &r->o.loss, r->x, r->target, r->picked, &r->report.validation))
        return -1;
    if (!isfinite(r->report.validation.loss))
        return error_set("train: the validation loss is %g after epoch %d", r->report.validation.loss,
                         r->report.epoch);
    if (r->o.patience == 0) r->at.validation = r->report.validation;
    r->at.since_best++;
    if (r->report.validation.loss >= r->at.best_loss - r->o.min_delta) return 0;
    r->at.best_loss = r->report.validation.loss;
    r->at.best_epoch = r->report.epoch;
    r->at.since_best = 0;
    r->report.best = true;
    r->at.validation = r->report.validation;
    if (r->o.patience > 0) {
        tensor_copy(r->best, net_parameters(r->n));
        tensor_copy(r->best_states, net_states(r->n));
    }
    return 0;
}

/* ---- the run ------------------------------------------------------------------------------------ */

static int check_options(const run *r)
{
    const train *o = &r->o;
    if (!r->n) return error_set("train: the net is NULL");
    if (fits(r->n, r->d, "training") || (o->validation && fits(r->n, o->validation, "validation"))) return -1;
    if (!o->loss.value) return error_set("train: the loss is missing");
    if (!o->optim) return error_set("train: the optimizer is missing");
    if (o->epochs < 0) return error_set("train: %d epochs, expected at least 0", o->epochs);
    if (o->batch < 0) return error_set("train: a batch of %td, expected at least 1", o->batch);
    if (o->patience < 0) return error_set("train: a patience of %d epochs, expected at least 0", o->patience);
    if (o->patience > 0 && !o->validation) return error_set("train: patience needs a validation set");
    if (!(o->clip_norm >= 0) || !(o->clip_value >= 0) || !(o->min_delta >= 0) || !isfinite(o->min_delta))
        return error_set("train: clip_norm %g, clip_value %g, min_delta %g, expected at least 0",
                         o->clip_norm, o->clip_value, o->min_delta);
    if (o->checkpoint_every < 0)
        return error_set("train: a checkpoint every %ld steps, expected at least 0", o->checkpoint_every);
    if (!o->checkpoint && (o->resume || o->checkpoint_every > 0))
        return error_set("train: checkpoint is missing, the file to %s", o->resume ? "go on from" : "write");
    if (o->drop_last && o->batch > r->d->count)
        return error_set("train: drop_last leaves nothing of %td samples in batches of %td", r->d->count,
                         o->batch);
    return schedule_check(&o->schedule);
}

static int allocate(run *r)
{
    const train *o = &r->o;
    ptrdiff_t batch = o->batch;
    if ((tensor_is_null(net_parameters(r->n)) || r->n->batch < batch) && net_build(r->n, batch, o->seed))
        return -1;
    if (tensor_is_null(net_gradients(r->n)))
        return error_set("train: the net shares its parameters with another, and has no gradients");
    r->x = tensor_new(shape_with_batch(r->d->x, batch));
    r->target = tensor_new(shape_with_batch(r->d->y, batch));
    r->dy = tensor_new(shape_with_batch(r->n->output, batch));
    if (tensor_is_null(r->x) || tensor_is_null(r->target) || tensor_is_null(r->dy)) return -1;
    if (!tensor_is_null(net_states(r->n))) {
        r->states = tensor_clone(net_states(r->n));
        if (tensor_is_null(r->states)) return -1;
    }
    if (o->patience > 0) {
        r->best = tensor_clone(net_parameters(r->n));
        r->best_states = tensor_clone(net_states(r->n));
        if (tensor_is_null(r->best) || tensor_is_null(r->best_states)) return -1;
    }
    r->picked = malloc((size_t)batch * sizeof *r->picked);
    r->order = malloc((size_t)r->d->count * sizeof *r->order);
    if (!r->picked || !r->order)
        return error_set("train: no memory for the order of %td samples", r->d->count);
    for (ptrdiff_t i = 0; i < r->d->count; i++) r->order[i] = i;
    return optim_build(o->optim, tensor_count(net_parameters(r->n)));
}

static void release(run *r)
{
    tensor_free(r->x);
    tensor_free(r->target);
    tensor_free(r->dy);
    tensor_free(r->best);
    tensor_free(r->best_states);
    tensor_free(r->states);
    free(r->picked);
    free(r->order);
}

/* By validation, where that ends a run. */
static bool is_patient(const run *r)
{
    return r->o.patience == 0 || r->at.since_best < r->o.patience;
}

/* After an epoch. */
static void tell(const run *r, train_result *result)
{
    result->epochs = (int)r->at.epoch - 1;
    result->training = training_score(r);
    result->validation = r->at.validation;
    result->best_epoch = (int)r->at.best_epoch;
    result->images_per_second = images_per_second(r);
}

static int one_epoch(run *r, train_result *result, bool *go_on)
{
    r->report.epoch = (int)r->at.epoch;
    if (train_epoch(r) || validate(r)) return -1;
    r->report.seconds = now() - r->began;
    progress_epoch(&r->progress, &r->report, images_per_second(r));
    *go_on = !r->o.callback || r->o.callback(&r->report, r->o.context);
    if (error_text()) return -1;
    r->at.epoch++;
    r->at.batch = 0;
    tell(r, result);
    return r->o.checkpoint ? keep_place(r) : 0;
}

static int epochs(run *r, train_result *result)
{
    bool go_on = true;
    if (find_place(r)) return -1;
    result->resumed = r->report.step = (long)r->at.step;
    if (r->at.epoch > 1 && r->at.batch == 0) tell(r, result);
    while (go_on && is_patient(r) && r->at.epoch <= r->o.epochs)
        if (one_epoch(r, result, &go_on)) return -1;
    result->stopped_early = result->epochs < r->o.epochs;
    if (r->o.patience > 0) {
        tensor_copy(net_parameters(r->n), r->best);
        tensor_copy(net_states(r->n), r->best_states);
    }
    return 0;
}

int train_run(net *n, const data *d, train options, train_result *result)
{
    train_result unused;
    if (!result) result = &unused;
    *result = (train_result){ .training = { NAN, NAN }, .validation = { NAN, NAN } };
    run r = { .n = n, .d = d, .o = options, .began = now() };
    r.at = (train_place){ .epoch = 1, .best_loss = NAN, .validation = { NAN, NAN } };
    if (r.o.epochs == 0) r.o.epochs = 1;
    if (r.o.batch == 0) r.o.batch = 64;
    if (error_text() || check_options(&r)) return -1;
    if (r.o.batch > d->count) r.o.batch = d->count;
    r.steps_an_epoch = (long)(d->count / r.o.batch) + (!r.o.drop_last && d->count % r.o.batch != 0);
    r.report = (train_report){ .epochs = r.o.epochs,
                               .steps = r.steps_an_epoch * r.o.epochs,
                               .validation = { NAN, NAN },
                               .lr = r.o.optim->lr };
    r.progress = progress_begin(r.o.progress);
    int status = allocate(&r) ? -1 : epochs(&r, result);
    progress_end(&r.progress);
    result->steps = r.report.step;
    result->seconds = r.training_seconds;
    release(&r);
    return status;
}
