/* train.c: the loop: forward, loss, backward, step. */
#define _POSIX_C_SOURCE 200809L
#include "nn/train.h"
#include "nn/watch/anomaly.h"
#include "nn/files/checkpoint.h"
#include "nn/watch/progress.h"
#include "nn/ranks/ranks.h"
#include "nn/watch/reach.h"
#include "nn/ranks/reduce.h"
#include "tensor/counts.h"
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

/* Of a batch, or a part of one. */
typedef struct tally {
    double loss, hits; /* sums over its images */
    double failed;     /* not 0: there is an error where it was made */
} tally;

typedef struct run {
    net *n;
    const data *d;
    train o;
    int rank, ranks;   /* 0 of 1 alone */
    int here;          /* micro-batches of this rank */
    ptrdiff_t largest; /* images of a micro-batch */
    reduction reduction;
    tensor x, target, dy; /* a micro-batch */
    tally *tally;         /* of each micro-batch: see slot */
    tensor new_states; /* [micro-batches, states], in the order of tally; null: the net's are the batch's */
    tensor best, best_states; /* parameters and states of the best epoch, where they are to be restored */
    tensor states;            /* of the net before a step; null: it has none */
    uint64_t net_step;        /* and its step then */
    reach reach;
    ptrdiff_t *order;
    ptrdiff_t *picked; /* argmax of a batch */
    uint32_t sum;      /* of the samples, where there is a checkpoint */
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

/* What a batch is evaluated with. */
typedef struct evaluation {
    net *n;
    const data *d;
    const loss *l;
    tensor x, target; /* of as many images */
    ptrdiff_t *picked;
    const team *team; /* NULL: alone */
    tally *tally;     /* of each rank */
} evaluation;

static tally evaluate_batch(const evaluation *e, ptrdiff_t first)
{
    ptrdiff_t count = smallest(e->x.shape.n[0], e->d->count - first);
    tensor x = rows(e->x, count), target = rows(e->target, count);
    if (data_batch(e->d, NULL, first, count, x, target) ||
        check_classes(e->l, e->n, e->d, NULL, first, target))
        return (tally){ .failed = 1 };
    tensor y = net_forward(e->n, x, NET_PREDICT);
    tally t = { .loss = loss_value(*e->l, y, target, (tensor){ 0 }) * (double)count };
    if (!error_text() && counts_hits(e->l, e->n, e->d)) t.hits = count_hits(y, target, e->picked);
    t.failed = error_text() != NULL;
    return t;
}

/* Ranks take batches in turn; sums are in the order of the batches. */
static int evaluate(const evaluation *e, train_score *score)
{
    const team *t = e->team;
    const int rank = t ? t->rank : 0, ranks = t ? t->ranks : 1;
    double loss_sum = 0, hits = 0, failed = 0, images = (double)e->d->count;
    ptrdiff_t batch = e->x.shape.n[0];
    for (ptrdiff_t first = 0; first < e->d->count; first += ranks * batch) {
        ptrdiff_t mine = first + rank * batch;
        e->tally[rank] = mine < e->d->count ? evaluate_batch(e, mine) : (tally){ 0 };
        if (t && t->gather(t, ranks, sizeof *e->tally, e->tally)) return -1;
        for (const tally *of = e->tally; of < e->tally + ranks; of++)
            loss_sum += of->loss, hits += of->hits, failed += of->failed;
        if (failed > 0) return team_agree(t);
    }
    score->loss = loss_sum / images;
    score->accuracy = counts_hits(e->l, e->n, e->d) ? hits / images : NAN;
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
    tally of_batch;
    int status = -1;
    if (!picked) error_set("train_evaluate: no memory");
    else if (!tensor_is_null(x) && !tensor_is_null(target))
        status = evaluate(&(evaluation){ n, d, &l, x, target, picked, NULL, &of_batch }, score);
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
    return (checkpoint){ r->n, &r->o, r->d, r->sum, r->steps_an_epoch, r->best, r->best_states, &r->at };
}

/* Rank 0 does what is done once: it writes, and tells. */
static bool leads(const run *r)
{
    return !r->o.team || r->o.team->rank == 0;
}

static int write_place(run *r)
{
    r->at.net_seed = (int64_t)r->n->seed;
    r->at.net_step = (int64_t)r->n->step;
    r->at.optim_steps = r->o.optim->steps;
    checkpoint c = checkpoint_of(r);
    return checkpoint_write(&c);
}

static int keep_place(run *r)
{
    if (team_agree(r->o.team)) return -1;
    if (leads(r)) write_place(r);
    return team_agree(r->o.team);
}

/* Where the file says that the run was; where there is no file, at its beginning. */
static int read_place(run *r)
{
    if (!r->o.resume) return 0;
    if (access(r->o.checkpoint, F_OK))
        return errno == ENOENT ? 0 : error_set("%s: %s", r->o.checkpoint, strerror(errno));
    checkpoint c = checkpoint_of(r);
    return checkpoint_read(&c);
}

static int find_place(run *r)
{
    checkpoint c = checkpoint_of(r);
    if (leads(r)) read_place(r);
    if (team_agree(r->o.team)) return -1;
    return r->o.team ? ranks_follow(&c) : 0;
}

/* ---- one step ----------------------------------------------------------------------------------- */

/* What a step that fails has changed: states that saw its batch, and the count of steps. Parameters and the optimizer
 * change last, or not at all. */
static void take_back(run *r)
{
    if (!tensor_is_null(r->states)) tensor_copy(net_states(r->n), r->states);
    r->n->step = r->net_step;
}

static ptrdiff_t micro_start(const run *r, ptrdiff_t images, int s)
{
    return images * s / r->o.micro_batches;
}

/* Fetches micro-batch s of the batch of `images` images from `first` on. */
static int fetch(run *r, ptrdiff_t first, ptrdiff_t images, int s, tensor *x, tensor *target)
{
    ptrdiff_t begin = micro_start(r, images, s), count = micro_start(r, images, s + 1) - begin;
    *x = rows(r->x, count), *target = rows(r->target, count);
    if (data_batch(r->d, r->order + first + begin, 0, count, *x, *target)) return -1;
    return check_classes(&r->o.loss, r->n, r->d, r->order, first + begin, *target);
}

/* Takes the step again, micro-batch by micro-batch up to the first that goes wrong, and says where; or names what the
 * optimizer would have overflown. */
static int explain(run *r, ptrdiff_t first, ptrdiff_t images, const char *what, const overflow *bad)
{
    anomaly a = bad ? anomaly_of_step(r->n, r->o.optim, *bad) : (anomaly){ 0 };
    tensor x, target;
    for (int s = 0; s < r->o.micro_batches; s++) {
        r->n->step = r->net_step + (uint64_t)s;
        if (fetch(r, first, images, s, &x, &target) || bad) break;
        a = anomaly_find(r->n, x, target, r->o.loss);
        if (a.found || error_text()) break;
    }
    bool saved = !error_text() && r->o.anomaly && anomaly_save(r->n, r->o.anomaly, x, target) == 0;
    r->n->step = r->net_step;
    if (error_text())
        return error_within("train: %s at step %ld: %s%s", what, r->report.step + 1, a.found ? a.text : "",
                            a.found ? "; " : "");
    return error_set(
        "train: %s at step %ld (epoch %d): %s; a smaller learning rate than %g, or clipping, may help%s%s",
        what, r->report.step + 1, r->report.epoch, a.found ? a.text : "taken again, the step is finite",
        r->report.lr, saved ? "; the batch is in " : "", saved ? r->o.anomaly : "");
}

static int go_wrong(run *r, ptrdiff_t first, ptrdiff_t count, const char *what, const overflow *bad)
{
    take_back(r);
    if (leads(r)) explain(r, first, count, what, bad);
    return r->o.team ? team_agree(r->o.team) : -1;
}

static int find_wrong(run *r, ptrdiff_t first, ptrdiff_t count, const char *format, double value)
{
    char what[64];
    snprintf(what, sizeof what, format, isnan(value) ? (double)NAN : value); /* whose sign says nothing */
    return go_wrong(r, first, count, what, NULL);
}

/* An error of one rank alone is left to the next agreement, up to which all do the same. */
static int alone(const run *r)
{
    return error_text() && !r->o.team ? -1 : 0;
}

static int follow_gradients(run *r, ptrdiff_t first, ptrdiff_t count, double greatest)
{
    overflow bad;
    if (r->o.clip_value > 0) optim_clip_value(net_gradients(r->n), r->o.clip_value);
    if (r->o.clip_norm > 0) optim_clip_norm(net_gradients(r->n), r->o.clip_norm);
    r->report.lr =
        r->o.optim->lr * schedule_factor(&r->o.schedule, r->report.step, r->report.steps, r->steps_an_epoch);
    const int status = reach_step(&r->reach, r->o.optim, r->report.lr, net_parameters(r->n),
                                  net_gradients(r->n), greatest, &bad);
    if (bad.found) return go_wrong(r, first, count, "a parameter overflows", &bad);
    return status ? alone(r) : 0;
}

/* Ranks take micro-batches in turn; a rank's own follow each other in tables that are all-gathered. */
static int slot(const run *r, int s)
{
    return s % r->ranks * r->here + s / r->ranks;
}

/* Forward, loss and backward of a micro-batch; its gradient is added to those before it. */
static void run_micro_batch(run *r, ptrdiff_t first, ptrdiff_t images, int s)
{
    tensor x, target;
    tally *t = &r->tally[slot(r, s)];
    *t = (tally){ 0 };
    r->n->step = r->net_step + (uint64_t)s;
    if (r->n->batch < r->largest)
        error_set("train: the net was built for %td images meanwhile, a step needs %td", r->n->batch,
                  r->largest);
    else if (fetch(r, first, images, s, &x, &target) == 0) {
        ptrdiff_t count = x.shape.n[0];
        tensor dy = rows(r->dy, count);
        if (s >= r->ranks && !tensor_is_null(r->states)) tensor_copy(net_states(r->n), r->states);
        net_zero_gradients(r->n);
        tensor y = net_forward(r->n, x, NET_TRAIN);
        if (!error_text()) t->loss = loss_value(r->o.loss, y, target, dy) * (double)count;
        if (!error_text() && counts_hits(&r->o.loss, r->n, r->d)) t->hits = count_hits(y, target, r->picked);
        if (r->o.micro_batches > 1) tensor_scale(dy, (real)((double)count / (double)images));
        net_backward(r->n, dy, (tensor){ 0 });
        if (!tensor_is_null(r->new_states))
            tensor_copy(tensor_select(r->new_states, 0, slot(r, s)), net_states(r->n));
    }
    t->failed = error_text() != NULL;
    if (reduction_add(&r->reduction, r->n)) t->failed = 1;
}

/* The net's states become the mean over the micro-batches, added in their order. */
static int mean_states(run *r)
{
    const team *t = r->o.team;
    const int count = r->o.micro_batches;
    if (tensor_is_null(r->new_states)) return 0;
    tensor mean = net_states(r->n);
    size_t size = (size_t)tensor_count(mean) * sizeof(real);
    if (t && t->gather(t, count, size, tensor_data(r->new_states))) return -1;
    for (ptrdiff_t i = 0; i < tensor_count(mean); i++) {
        double sum = 0;
        for (int s = 0; s < count; s++) sum += (double)*tensor_at(r->new_states, INDEX(slot(r, s), i));
        *tensor_at(mean, INDEX(i)) = (real)(sum / count);
    }
    return 0;
}

/* Everything up to the batch's gradient, and the sums over its images. */
static tally accumulate(run *r, ptrdiff_t first, ptrdiff_t images)
{
    const team *t = r->o.team;
    tally all = { 0 };
    for (int s = r->rank; s < r->o.micro_batches; s += r->ranks) run_micro_batch(r, first, images, s);
    r->n->step = r->net_step + (uint64_t)r->o.micro_batches;
    if (t && t->gather(t, r->o.micro_batches, sizeof *r->tally, r->tally)) all.failed = 1;
    for (int s = 0; s < r->o.micro_batches; s++) {
        const tally *part = &r->tally[slot(r, s)];
        all.loss += part->loss, all.hits += part->hits, all.failed += part->failed;
    }
    return all;
}

static int take_step(run *r, ptrdiff_t first, ptrdiff_t count)
{
    tally sums = accumulate(r, first, count);
    if (sums.failed > 0) return team_agree(r->o.team);
    double value = sums.loss / (double)count;
    if (!isfinite(value)) return find_wrong(r, first, count, "the loss is %g", value);
    if (reduction_finish(&r->reduction, r->n) == 0) mean_states(r);
    if (team_agree(r->o.team)) return -1;
    double greatest = reach_greatest(net_gradients(r->n));
    if (!isfinite(greatest))
        return find_wrong(r, first, count, "a gradient is not finite, the loss is %g", value);
    if (follow_gradients(r, first, count, greatest)) return -1;

    r->at.batch++;
    r->report.step = (long)++r->at.step;
    r->at.loss_sum += sums.loss;
    r->at.seen += (double)count;
    r->images += (double)count;
    r->at.hits += sums.hits;
    r->report.training = training_score(r);
    return alone(r);
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
    const evaluation e = {
        r->n, r->o.validation, &r->o.loss, r->x, r->target, r->picked, r->o.team, r->tally
    };
    if (evaluate(&e, &r->report.validation)) return -1;
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
    if (o->micro_batches < 0)
        return error_set("train: %d micro-batches, expected at least 1", o->micro_batches);
    if (o->team && o->micro_batches % o->team->ranks)
        return error_set("train: %d micro-batches for %d ranks, expected a multiple", o->micro_batches,
                         o->team->ranks);
    if (o->unordered && (!o->team || !o->team->sum))
        return error_set("train: unordered, but %s",
                         o->team ? "the team has no sum of its own" : "there is no team");
    return schedule_check(&o->schedule);
}

/* Every micro-batch has an image, of full batches and of the last one. */
static int check_batches(const run *r)
{
    const train *o = &r->o;
    ptrdiff_t last = o->drop_last ? 0 : r->d->count % o->batch;
    if (o->batch < o->micro_batches)
        return error_set("train: a batch of %td images cannot be cut into %d micro-batches", o->batch,
                         o->micro_batches);
    if (last > 0 && last < o->micro_batches)
        return error_set(
            "train: the last batch of an epoch has %td of %td images, which cannot be cut into %d "
            "micro-batches; drop_last leaves it out",
            last, o->batch, o->micro_batches);
    return 0;
}

static int allocate(run *r)
{
    const train *o = &r->o;
    const ptrdiff_t batch = r->largest;
    if (check_batches(r)) return -1;
    if (r->n->batch < batch && net_build(r->n, batch, o->seed)) return -1;
    if (tensor_is_null(net_gradients(r->n)))
        return error_set("train: the net shares its parameters with another, and has no gradients");
    if (reduction_begin(&r->reduction, r->n, o->team, r->here, o->unordered)) return -1;
    r->x = tensor_new(shape_with_batch(r->d->x, batch));
    r->target = tensor_new(shape_with_batch(r->d->y, batch));
    r->dy = tensor_new(shape_with_batch(r->n->output, batch));
    if (tensor_is_null(r->x) || tensor_is_null(r->target) || tensor_is_null(r->dy)) return -1;
    if (!tensor_is_null(net_states(r->n))) {
        r->states = tensor_clone(net_states(r->n));
        if (o->micro_batches > 1)
            r->new_states = tensor_new(SHAPE(o->micro_batches, tensor_count(net_states(r->n))));
        if (tensor_is_null(r->states) || (o->micro_batches > 1 && tensor_is_null(r->new_states))) return -1;
    }
    if (o->patience > 0) {
        r->best = tensor_clone(net_parameters(r->n));
        r->best_states = tensor_clone(net_states(r->n));
        if (tensor_is_null(r->best) || tensor_is_null(r->best_states)) return -1;
    }
    r->picked = malloc((size_t)batch * sizeof *r->picked);
    r->order = malloc((size_t)r->d->count * sizeof *r->order);
    r->tally = malloc((size_t)o->micro_batches * sizeof *r->tally);
    if (!r->picked || !r->order || !r->tally)
        return error_set("train: no memory for the order of %td samples", r->d->count);
    for (ptrdiff_t i = 0; i < r->d->count; i++) r->order[i] = i;
    if (o->checkpoint && checkpoint_sum(r->d, rows(r->x, 1), rows(r->target, 1), &r->sum)) return -1;
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
    tensor_free(r->new_states);
    reduction_end(&r->reduction);
    free(r->picked);
    free(r->order);
    free(r->tally);
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

/* Whether the callback lets the run go on. */
static int ask(const run *r, bool *go_on)
{
    const team *t = r->o.team;
    if (r->o.callback && leads(r)) *go_on = r->o.callback(&r->report, r->o.context);
    if (team_agree(t)) return -1;
    return t ? t->broadcast(t, 0, 1, sizeof *go_on, go_on) : 0;
}

static int one_epoch(run *r, train_result *result, bool *go_on)
{
    r->report.epoch = (int)r->at.epoch;
    if (train_epoch(r) || validate(r)) return -1;
    r->report.seconds = now() - r->began;
    progress_epoch(&r->progress, &r->report, images_per_second(r));
    if (ask(r, go_on)) return -1;
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

static int match(run *r)
{
    checkpoint c = checkpoint_of(r);
    return r->o.team ? ranks_match(&c) : 0;
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
    if (r.o.team && r.o.team->ranks == 1 && !r.o.unordered) r.o.team = NULL;
    if (r.o.micro_batches == 0) r.o.micro_batches = r.o.team ? r.o.team->ranks : 1;
    if (!error_text()) check_options(&r);
    if (team_agree(r.o.team)) return -1;
    if (r.o.batch > d->count) r.o.batch = d->count;
    r.rank = r.o.team ? r.o.team->rank : 0;
    r.ranks = r.o.team ? r.o.team->ranks : 1;
    r.here = r.o.micro_batches / r.ranks;
    r.largest = parts(r.o.batch, r.o.micro_batches);
    r.steps_an_epoch = (long)(d->count / r.o.batch) + (!r.o.drop_last && d->count % r.o.batch != 0);
    r.report = (train_report){ .epochs = r.o.epochs,
                               .steps = r.steps_an_epoch * r.o.epochs,
                               .validation = { NAN, NAN },
                               .lr = r.o.optim->lr };
    r.progress = progress_begin(leads(&r) ? r.o.progress : NULL);
    allocate(&r);
    int status = team_agree(r.o.team) || match(&r) ? -1 : epochs(&r, result);
    progress_end(&r.progress);
    result->steps = r.report.step;
    result->seconds = r.training_seconds;
    release(&r);
    return status;
}
