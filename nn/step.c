/* step.c: the parts of a step: loading its batch, its loss, the optimizer's update, and the events. */
#include "tensor/system.h"

#include "nn/train_impl.h"
#include "tensor/counts.h"

#include <math.h>

bool train_stops(trainer *t)
{
    st_run *run = t->run;
    return run->stop = t->parts ? t->parts->agree(t) : run->stop || st_error();
}

/* A callback may set lr and epochs of the report. The rest is restored, as the trainer and other callbacks
 * rely on it; steps follow from epochs that a callback raises at the beginning. */
bool train_tell(trainer *t, st_event event)
{
    st_run *run = t->run;
    for (st_callback *c = t->options.callbacks; c < t->options.callbacks + ST_MAX_CALLBACKS; c++) {
        if (!c->call) continue;
        st_train_report told = run->report;
        c->call(c, run, event);
        told.lr = run->report.lr, told.epochs = run->report.epochs;
        run->report = told;
    }
    if (event == ST_ON_BEGIN) run->report.steps = run->report.batches * run->report.epochs;
    return train_stops(t);
}

int train_fetch_part(trainer *t, int s)
{
    const int parts = t->options.micro_batches;
    const ptrdiff_t begin = t->images * s / parts, end = t->images * (s + 1) / parts;
    t->run->net->step = t->net_step + (uint64_t)s;
    st_net_zero_gradients(t->run->net);
    return train_fetch(&t->batches, &t->options.loss, t->run->net, t->first + begin, end - begin, &t->x,
                       &t->target);
}

bool train_next(trainer *t)
{
    if (t->batch == t->run->report.batches) return false;
    t->step_began = system_seconds();
    t->first = t->batch * t->options.batch;
    t->images = smallest(t->options.batch, t->data->count - t->first);
    t->net_step = t->run->net->step;
    t->of_batch = (tally){ 0 };
    if (!t->parts) train_fetch_part(t, 0);
    return true;
}

st_tensor train_loss(trainer *t, st_tensor y)
{
    st_tensor dy = st_narrow(t->batches.dy, 0, 0, y.shape.n[0]);
    t->of_batch = train_tally(&t->batches, &t->options.loss, t->run->net, y, t->target, dy);
    return dy;
}

double train_rate(const trainer *t, long step)
{
    const st_run *run = t->run;
    return run->optim->lr *
           st_schedule_factor(&t->options.schedule, step, run->report.steps, run->report.batches);
}

bool train_measure(trainer *t)
{
    st_run *run = t->run;
    if (train_stops(t)) return true;
    run->loss = t->of_batch.loss / t->of_batch.weight;
    run->report.lr = train_rate(t, t->step);
    if (t->of_batch.weight == 0)
        st_error_set("train: nothing counts in the batch of step %ld (epoch %d): all targets are ignored or "
                     "have a class weight of 0",
                     t->step + 1, t->epoch);
    return run->stop = st_error() != NULL;
}

/* Text about the first element of a parameter that is not finite. */
static void find_bad(const st_net_tensor *p, void *context)
{
    char *text = context;
    for (ptrdiff_t i = 0; !st_is_null(p->gradient) && !text[0] && i < st_numel(p->value); i++) {
        double value = (double)st_data(p->value)[i];
        if (!isfinite(value))
            snprintf(text, ST_ERROR_SIZE, "element %td of %s is %g", i, p->name, printable(value));
    }
}

/* An error names the first parameter to become non-finite. */
static int update(trainer *t)
{
    const st_run *run = t->run;
    char bad[ST_ERROR_SIZE] = "";
    if (!isfinite(run->loss)) snprintf(bad, sizeof bad, "the loss is %g", printable(run->loss));
    else if (st_optim_step(run->optim, run->report.lr, st_net_parameters(run->net),
                           st_net_gradients(run->net)) == 0)
        return 0;
    else st_net_visit(run->net, find_bad, bad);
    if (!bad[0]) return st_error_within("train: ");
    st_error_clear();
    return st_error_set("train: %s at step %ld (epoch %d); a learning rate below %g, or clipping, may help",
                        bad, t->step + 1, t->epoch, run->report.lr);
}

bool train_step(trainer *t)
{
    st_train_report *r = &t->run->report;
    if (update(t)) return t->run->stop = true;
    tally_add(&t->sum, t->of_batch);
    t->batch++, t->step++;
    t->samples += (double)t->images;
    t->seconds += system_seconds() - t->step_began;
    r->batch = t->batch, r->step = t->step;
    r->training = tally_score(t->sum);
    r->seconds = system_seconds() - t->began;
    r->samples_per_second = t->samples / t->seconds;
    return false;
}
