/* train.c: the loop: forward, loss, backward, step. Everything else is a callback. */
#define ST_TRAINER
#include "nn/train.h"
#include "nn/train_impl.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The stream of an epoch's order is this plus the net's step at its beginning, so that a second run draws
 * other orders. Initial parameters use streams below it, dropout those above. */
static const uint64_t ORDER_STREAM = UINT64_C(1) << 62;

enum { ENDLESS = INT32_MAX }; /* larger sets are not shuffled */

/* ---- epochs -------------------------------------------------------------------------------------------- */

static void begin_epoch(st_run *run)
{
    struct st_train_memory *m = run->memory;
    const st_train_options *o = &run->options;
    run->report.epoch = run->epoch;
    if (run->batch == 0) {
        run->begun = run->net->step;
        run->loss_sum = run->hits = run->counted = run->seen = 0;
    }
    st_dataset_begin_epoch(run->data, run->begun);
    if (m->order && !o->keep_order)
        st_random_permutation(m->order, run->data->count,
                              (st_random_key){ o->seed, ORDER_STREAM + run->begun });
    if (!m->order) {
        uint64_t steps = (uint64_t)(run->epoch - 1) * (uint64_t)run->steps_per_epoch,
                 one = (uint64_t)o->batch;
        uint64_t places = (uint64_t)run->data->count - (uint64_t)run->steps_per_epoch * one + 1;
        m->batches.base = (ptrdiff_t)(steps * one % places);
    }
    train_tell(run, ST_ON_EPOCH_BEGIN);
}

static int validate(st_run *run)
{
    st_train_report *report = &run->report;
    report->best = false;
    report->validation = (st_metrics){ NAN, NAN };
    if (!run->options.validation) return 0;
    if (train_score_of(run->net, &run->options.loss, &run->memory->validation, &run->options.group,
                       &report->validation))
        return -1;
    run->validation = report->validation;
    if (!isfinite(report->validation.loss))
        return st_error_set("train: the validation loss is %g after epoch %d", report->validation.loss,
                            report->epoch);
    if (!(report->validation.loss >= run->best_loss)) {
        run->best_loss = report->validation.loss;
        run->best_epoch = report->epoch;
        report->best = true;
    }
    return 0;
}

static void summarise(const st_run *run, st_train_result *result)
{
    result->epochs = run->epoch - 1;
    result->training = train_training_score(run);
    result->stopped_early = result->epochs < run->report.epochs;
    result->samples_per_second = run->training_seconds > 0 ? run->images / run->training_seconds : 0;
}

static void end_epoch(st_run *run, st_train_result *result)
{
    if (run->stop || (run->stop = validate(run) != 0)) return;
    run->report.seconds = train_now() - run->memory->began;
    run->epoch++, run->batch = 0;
    summarise(run, result);
    train_tell(run, ST_ON_EPOCH);
}

/* ---- options and memory ---------------------------------------------------------------------------------- */

const st_field train_fields[] = {
    { "epochs", ST_FIELD_INT, offsetof(st_train_options, epochs), .fallback = 1, .least = 1 },
    { "batch", ST_FIELD_INT, offsetof(st_train_options, batch), .fallback = 64, .least = 1 },
    { "steps_per_epoch", ST_FIELD_INT, offsetof(st_train_options, steps_per_epoch) },
    { "micro_batches", ST_FIELD_INT, offsetof(st_train_options, micro_batches), .fallback = 1, .least = 1 },
    { "keep_order", ST_FIELD_BOOL, offsetof(st_train_options, keep_order) },
    { "drop_last", ST_FIELD_BOOL, offsetof(st_train_options, drop_last) },
    { 0 },
};

/* Checks that every micro-batch has an image, also in the last batch. */
static int check_batches(st_run *run)
{
    st_train_options *o = &run->options;
    const ptrdiff_t count = run->data->count;
    if (o->drop_last && o->batch > count)
        return st_error_set("train: drop_last leaves nothing of %td samples in batches of %d", count,
                            o->batch);
    if (o->batch > count) o->batch = (int)count;
    const ptrdiff_t last = o->drop_last ? 0 : count % o->batch;
    run->steps_per_epoch = (long)(count / o->batch) + (last > 0);
    if (o->steps_per_epoch > run->steps_per_epoch || (o->steps_per_epoch == 0 && count > ENDLESS))
        return st_error_set(
            "train: steps_per_epoch is %d, expected 1 to %ld for %td samples in batches of %d",
            o->steps_per_epoch, run->steps_per_epoch, count, o->batch);
    if (o->micro_batches % run->ranks || o->batch < o->micro_batches)
        return st_error_set(
            "train: micro_batches is %d, expected a multiple of %d ranks, at most a batch of %d",
            o->micro_batches, run->ranks, o->batch);
    if (o->steps_per_epoch > 0) run->steps_per_epoch = o->steps_per_epoch;
    else if (last > 0 && last < o->micro_batches)
        return st_error_set(
            "train: the last batch of an epoch has %td images for %d micro-batches; drop_last skips it", last,
            o->micro_batches);
    return 0;
}

static int resolve(st_run *run)
{
    st_train_options *o = &run->options;
    if (st_error()) return -1;
    if (!run->net) return st_error_set("train: the net is NULL");
    if (train_fits(run->net, run->data, "training") ||
        (o->validation && train_fits(run->net, o->validation, "validation")))
        return -1;
    if (!o->loss.kind) return st_error_set("train: the loss is missing");
    if (!o->optim) return st_error_set("train: the optimizer is missing");
    if (o->micro_batches == 0) o->micro_batches = run->ranks;
    for (st_callback *c = o->callbacks; c < o->callbacks + ST_MAX_CALLBACKS; c++)
        if (c->call && st_options_resolve(c->name, c->fields, &c->options)) return -1;
    if (st_options_resolve("train", train_fields, o) || check_batches(run)) return -1;
    run->report = (st_train_report){ .epochs = o->epochs,
                                     .steps = run->steps_per_epoch * o->epochs,
                                     .validation = { NAN, NAN },
                                     .lr = o->optim->lr };
    return 0;
}

int train_groups(const st_train_options *o)
{
    int count = 0;
    while (count < ST_MAX_GROUPS && o->groups[count].names) count++;
    return count;
}

static int allocate(st_run *run)
{
    const st_train_options *o = &run->options;
    struct st_train_memory *m = run->memory;
    const ptrdiff_t images = ceil_div(o->batch, o->micro_batches), count = run->data->count;
    if (run->net->batch < images && st_net_build(run->net, images, o->seed)) return -1;
    if (st_is_null(st_net_gradients(run->net)))
        return st_error_set("train: the net shares its parameters with another, and has no gradients");
    st_tensor states = st_net_states(run->net);
    if (train_batches_new(&m->batches, run->net, run->data, images)) return -1;
    m->validation = m->batches;
    m->validation.data = o->validation;
    for (st_callback *c = run->options.callbacks; c < run->options.callbacks + ST_MAX_CALLBACKS; c++)
        if (c->memory > 0 && !(c->context = array_new(c->name, 1, c->memory))) return -1;
    m->tally = array_new("train", o->micro_batches, sizeof *m->tally);
    if (count <= ENDLESS) m->batches.order = m->order = array_new("train", count, sizeof *m->order);
    if (!m->tally || (count <= ENDLESS && !m->order)) return -1;
    for (ptrdiff_t i = 0; i < count && m->order; i++) m->order[i] = i;
    if (o->micro_batches > 1) {
        m->states = st_tensor_clone(states);
        m->new_states = st_tensor_new(ST_SHAPE(o->micro_batches, st_numel(states)));
        if (st_is_null(m->states) || st_is_null(m->new_states)) return -1;
    }
    if (o->micro_batches > 1 && !o->group.begin) /* ranks have their own sums */
        run->options.group.sum = st_tensor_new(st_net_gradients(run->net).shape);
    if (train_groups(o) > 0 && st_optim_groups(o->optim, run->net, train_groups(o), o->groups)) return -1;
    if (st_optim_build(o->optim, st_numel(st_net_parameters(run->net)))) return -1;
    static const char *const names[ST_OPTIM_STATES] = { "optim.0", "optim.1", "optim.2" };
    for (int i = 0; i < o->optim->states; i++) st_run_keep(run, names[i], o->optim->state[i]);
    return 0;
}

static void release(st_run *run)
{
    struct st_train_memory *m = run->memory;
    if (m->tally && train_groups(&run->options) > 0) st_optim_groups(run->optim, run->net, 0, NULL);
    for (st_callback *c = run->options.callbacks; c < run->options.callbacks + ST_MAX_CALLBACKS; c++)
        if (c->memory > 0) free(c->context);
    train_batches_free(&m->batches);
    st_tensor_free(m->states);
    st_tensor_free(m->new_states);
    st_tensor_free(run->options.group.sum);
    st_tensor_free(run->options.group.theirs);
    free(m->order);
    free(m->tally);
}

enum { LONGEST_NAME = 60 };

int st_run_keep(st_run *run, const char *name, st_tensor value)
{
    if (!run || !name || !name[0] || strlen(name) > LONGEST_NAME)
        return st_error_set("st_run_keep: expected a run and a name of 1 to %d bytes", LONGEST_NAME);
    for (int i = 0; i < run->kept_count; i++)
        if (strcmp(run->kept[i].name, name) == 0)
            return st_error_set("train: \"%s\" is kept by another callback", name);
    if (run->sealed || run->kept_count == ST_MAX_KEPT + (run->optim ? run->optim->states : 0))
        return st_error_set("train: \"%s\" cannot be kept: %s", name,
                            run->sealed ? "its callback is listed after the checkpoint's"
                                        : "there are too many");
    run->kept[run->kept_count++] = (st_kept){ name, value, NULL, 0 };
    return 0;
}

int st_run_keep_numbers(st_run *run, const char *name, int count, double numbers[])
{
    if (!numbers || count < 1 || count > ST_MAX_NUMBERS)
        return st_error_set("st_run_keep_numbers: %d numbers, expected 1 to %d", numbers ? count : 0,
                            ST_MAX_NUMBERS);
    if (st_run_keep(run, name, (st_tensor){ 0 })) return -1;
    run->kept[run->kept_count - 1].numbers = numbers;
    run->kept[run->kept_count - 1].count = count;
    return 0;
}

/* ---- the place ------------------------------------------------------------------------------------------- */

static const double HALF = 4294967296; /* a seed is two numbers */

train_place train_place_of(const st_run *run)
{
    train_place p;
    p.epoch = run->epoch, p.batch = (double)run->batch, p.step = (double)run->step;
    p.begun = (double)run->begun, p.best_epoch = run->best_epoch;
    p.net_step = (double)run->net->step, p.optim_steps = (double)run->optim->steps;
    p.seed_high = (double)(run->net->seed >> 32), p.seed_low = (double)(run->net->seed & UINT32_MAX);
    p.loss_sum = run->loss_sum, p.hits = run->hits, p.seen = run->seen, p.counted = run->counted;
    p.best_loss = run->best_loss;
    p.validation_loss = run->validation.loss, p.validation_accuracy = run->validation.accuracy;
    return p;
}

int train_go_to(st_run *run, const train_place *p, bool check)
{
    const double epochs = run->report.epochs, steps = (double)run->steps_per_epoch;
    bool possible = p->epoch >= 1 && p->epoch <= epochs + 1 && p->batch <= (p->epoch > epochs ? 0 : steps) &&
                    p->step == (p->epoch - 1) * steps + p->batch && p->best_epoch < p->epoch &&
                    p->seed_high < HALF && p->seed_low < HALF;
    for (const double *n = &p->epoch; n <= &p->seed_low; n++)
        possible &= *n >= 0 && *n < 0x1p53 && *n == floor(*n);
    if (!possible)
        return st_error_set("train: the position is not in this run: epoch %g of %g, step %g", p->epoch,
                            epochs, p->step);
    if (check) return 0;
    run->epoch = (int)p->epoch, run->batch = (long)p->batch, run->step = (long)p->step;
    run->begun = (uint64_t)p->begun, run->best_epoch = (int)p->best_epoch;
    run->net->step = (uint64_t)p->net_step, run->optim->steps = (long)p->optim_steps;
    run->net->seed = (uint64_t)p->seed_high << 32 | (uint64_t)p->seed_low;
    run->loss_sum = p->loss_sum, run->hits = p->hits, run->seen = p->seen, run->counted = p->counted;
    run->best_loss = p->best_loss;
    run->validation = (st_metrics){ p->validation_loss, p->validation_accuracy };
    return 0;
}

/* ---- the run --------------------------------------------------------------------------------------------- */

/* Sets `stop` if the run must not take a step. */
static void begin_run(st_run *run, st_train_result *result)
{
    st_group *g = &run->options.group;
    if (!train_tell(run, ST_ON_BEGIN) && g->begin) g->begin(g, run);
    if ((run->stop = train_agree(g, run->stop))) return;
    result->resumed = run->resumed = run->report.step = run->step;
    if (run->epoch > 1 && run->batch == 0) summarise(run, result);
}

int st_train_run(st_net *n, const st_dataset *d, st_train_options options, st_train_result *result)
{
    st_train_result unused;
    struct st_train_memory memory = { .began = train_now() };
    st_run run = { .net = n, .data = d, .optim = options.optim, .options = options, .memory = &memory };
    st_group *g = &run.options.group;
    if (!result) result = options.result ? options.result : &unused;
    *result = (st_train_result){ .training = { NAN, NAN }, .validation = { NAN, NAN } };
    if (g->ranks == 0) g->ranks = 1;
    run.rank = g->rank, run.ranks = g->ranks;
    run.epoch = 1, run.best_loss = NAN, run.validation = result->validation;
    resolve(&run);
    if (train_agree(g, false)) return -1;
    allocate(&run);
    if (!train_agree(g, false)) {
        begin_run(&run, result);
        while (!run.stop && run.epoch <= run.report.epochs) {
            begin_epoch(&run);
            while (!run.stop && run.batch < run.steps_per_epoch) {
                double began = train_now();
                train_gradients(&run);
                if (!run.stop) train_update(&run);
                run.training_seconds += train_now() - began;
            }
            end_epoch(&run, result);
        }
        train_tell(&run, ST_ON_END);
    }
    release(&run);
    result->steps = run.step;
    result->validation = run.validation;
    result->best_epoch = run.best_epoch;
    result->seconds = run.training_seconds;
    return st_error() ? -1 : 0;
}
