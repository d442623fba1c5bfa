/* train.c: the loop: forward, loss, backward, step; callbacks see its events. */
#include "tensor/system.h"

#include "nn/train_impl.h"
#include "tensor/counts.h"
#include "tensor/random.h"

#include <math.h>

__attribute__((weak)) const train_parts *train_in_parts;

/* ---- epochs -------------------------------------------------------------------------------------------- */

/* The stream of an epoch's order is this plus the net's step at its beginning, so that a second run draws
 * other orders. Initial parameters use streams below it, dropout those above. */
static const uint64_t ORDER_STREAM = UINT64_C(1) << 62;

/* A resumed run may have no step left in its epoch: the report is that of the last one. */
static void begin_epoch(trainer *t)
{
    st_train_report *r = &t->run->report;
    r->epoch = t->epoch, r->batch = t->batch;
    if (t->batch == 0) t->epoch_net_step = t->run->net->step, t->sum = (tally){ 0 };
    else r->training = tally_score(t->sum), r->lr = train_rate(t, t->step - 1);
    st_dataset_begin_epoch(t->data, t->epoch_net_step);
    if (t->batches.order)
        st_random_permutation(t->batches.order, t->data->count,
                              (st_random_key){ t->options.seed, ORDER_STREAM + t->epoch_net_step });
    train_tell(t, ST_ON_EPOCH_BEGIN);
}

static int validate(trainer *t)
{
    st_train_report *r = &t->run->report;
    r->best = false;
    if (!t->options.validation) return 0;
    if (t->parts ? t->parts->score(t, &r->validation)
                 : train_score(t->run->net, &t->options.loss, &t->validated, &r->validation))
        return -1;
    t->validation = r->validation;
    if (!isfinite(r->validation.loss))
        return st_error_set("train: the validation loss is %g after epoch %d", printable(r->validation.loss),
                            r->epoch);
    if (!(r->validation.loss >= t->best_loss)) {
        t->best_loss = r->validation.loss;
        t->best_epoch = r->epoch;
        r->best = true;
    }
    return 0;
}

static void end_epoch(trainer *t)
{
    st_run *run = t->run;
    if (run->stop || (run->stop = validate(t) != 0)) return;
    run->report.seconds = system_seconds() - t->began;
    run->result.training = run->report.training;
    t->epoch++, t->batch = 0;
    train_tell(t, ST_ON_EPOCH);
}

/* ---- the run ------------------------------------------------------------------------------------------ */

/* -1: no callback has been called. */
static int begin(trainer *t)
{
    st_run *run = t->run;
    if (t->options.micro_batches > 1 || t->options.ranks) t->parts = train_in_parts;
    train_check_options(t);
    if (train_stops(t)) return -1;
    train_allocate(t);
    if (train_stops(t)) return -1;
    if (!train_tell(t, ST_ON_BEGIN) && t->parts) t->parts->begin(t);
    train_stops(t);
    run->result.resumed = run->report.step = t->step;
    if (t->epoch > 1 && t->batch == 0) run->result.training = tally_score(t->sum);
    return 0;
}

static void end(trainer *t)
{
    st_train_result *r = &t->run->result;
    r->epochs = t->epoch - 1, r->steps = t->step;
    r->validation = t->validation, r->best_epoch = t->best_epoch;
    r->stopped_early = t->epoch <= t->run->report.epochs;
    r->seconds = t->seconds, r->samples_per_second = t->run->report.samples_per_second;
    train_tell(t, ST_ON_END);
}

int st_train_run(st_net *n, const st_dataset *d, st_train_options options, st_train_result *result)
{
    const st_metrics none = { NAN, NAN };
    trainer t = { .options = options, .data = d, .epoch = 1, .best_loss = NAN, .validation = none };
    st_run run = { n, options.optim, &t.options, .report.validation = none, .own = &t };
    run.result.training = run.result.validation = none;
    t.run = &run, t.began = system_seconds();
    if (begin(&t) == 0) {
        while (!run.stop && t.epoch <= run.report.epochs) {
            begin_epoch(&t);
            while (!run.stop && train_next(&t)) {
                if (t.parts) t.parts->gradients(&t);
                else {
                    st_tensor y = st_net_forward(n, t.x, ST_TRAIN), dy = train_loss(&t, y);
                    st_net_backward(n, dy, (st_tensor){ 0 });
                }
                if (train_measure(&t) || train_tell(&t, ST_ON_GRADIENTS) || train_step(&t)) break;
                train_tell(&t, ST_ON_STEP);
            }
            end_epoch(&t);
        }
        end(&t);
    }
    train_release(&t);
    if (result || options.result) *(result ? result : options.result) = run.result;
    return st_error() ? -1 : 0;
}
