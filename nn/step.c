/* step.c: one step: the gradients of a batch, and the update by the optimizer. */
#define ST_TRAINER
#define _POSIX_C_SOURCE 200809L
#include "nn/loss_impl.h"
#include "nn/train_impl.h"
#include "tensor/counts.h"

#include <math.h>
#include <time.h>

double train_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool train_agree(st_group *g, bool stop)
{
    return g->agree ? g->agree(g, stop) : stop || st_error();
}

bool train_tell(st_run *run, st_event event)
{
    for (st_callback *c = run->options.callbacks; c < run->options.callbacks + ST_MAX_CALLBACKS; c++)
        if (c->call) c->call(c, run, event);
    return run->stop = train_agree(&run->options.group, run->stop);
}

static ptrdiff_t micro_start(const st_run *run, int s)
{
    return run->memory->images * s / run->options.micro_batches;
}

static int slot(const st_run *run, int s)
{
    return s % run->ranks * (run->options.micro_batches / run->ranks) + s / run->ranks;
}

int train_fetch_micro(const st_run *run, int s, st_tensor *x, st_tensor *target, uint64_t *step)
{
    const struct st_train_memory *m = run->memory;
    ptrdiff_t begin = micro_start(run, s);
    *step = m->net_step + (uint64_t)s;
    return train_fetch(&m->batches, &run->options.loss, run->net, m->first + begin,
                       micro_start(run, s + 1) - begin, x, target);
}

/* Loads a micro-batch; the net begins with the step's states, and with gradients of 0. */
static void begin_micro_batch(st_run *run, int s, st_tensor *x, st_tensor *target)
{
    const struct st_train_memory *m = run->memory;
    st_net *n = run->net;
    const ptrdiff_t room = m->batches.x.shape.n[0];
    if (n->batch < room)
        st_error_set("train: a callback built the net for %td images, a step needs %td", n->batch, room);
    if (st_error() || train_fetch_micro(run, s, x, target, &n->step)) return;
    if (!st_is_null(m->new_states)) st_copy(st_net_states(n), m->states);
    st_net_zero_gradients(n);
}

/* The derivative, with respect to a micro-batch's outputs y, of the sum of losses divided by the batch's images.
 * The batch's weight is known after its last micro-batch: see rescale. */
static st_tensor loss_gradient(st_run *run, int s, st_tensor y, st_tensor target)
{
    struct st_train_memory *m = run->memory;
    st_tensor dy = st_narrow(m->batches.dy, 0, 0, y.shape.n[0]);
    tally *t = &m->tally[slot(run, s)];
    *t = train_tally(&m->batches, &run->options.loss, run->net, y, target, dy);
    if (run->options.micro_batches > 1) st_scale(dy, (st_real)(loss_divisor(t->weight) / (double)m->images));
    return dy;
}

/* Makes the sum of gradients that of the batch's mean loss: divided by its weight, not by its images. */
static int rescale(const st_run *run)
{
    const struct st_train_memory *m = run->memory;
    const double images = (double)m->images, weight = m->sums.weight;
    if (weight == 0)
        return st_error_set(
            "train: nothing counts in the batch of step %ld (epoch %d): all targets are ignored "
            "or have a class weight of 0",
            run->step + 1, run->epoch);
    if (run->options.micro_batches > 1 && weight != images)
        st_scale(st_net_gradients(run->net), (st_real)(images / weight));
    return 0;
}

/* Sets the net's states to the mean over the micro-batches, added in order. */
static void mean_states(st_run *run)
{
    const struct st_train_memory *m = run->memory;
    st_group *g = &run->options.group;
    const int count = run->options.micro_batches;
    if (st_is_null(m->new_states)) return;
    st_tensor mean = st_net_states(run->net);
    if (g->all_gather)
        g->all_gather(g, count, (size_t)st_numel(mean) * sizeof(st_real), st_data(m->new_states));
    for (ptrdiff_t i = 0; i < st_numel(mean); i++) {
        double sum = 0;
        for (int s = 0; s < count; s++) sum += (double)*st_at(m->new_states, ST_INDEX(slot(run, s), i));
        *st_at(mean, ST_INDEX(i)) = (st_real)(sum / count);
    }
}

/* Adds up the gradients of one process, as they come. */
static void add(st_group *g, st_run *run, int s)
{
    st_tensor gradients = st_net_gradients(run->net);
    if (st_is_null(g->sum)) return;
    if (s == 0) st_copy(g->sum, gradients);
    else st_add(g->sum, 1, gradients);
    if (s == run->options.micro_batches - 1) st_copy(gradients, g->sum);
}

void train_gradients(st_run *run)
{
    const st_train_options *o = &run->options;
    struct st_train_memory *m = run->memory;
    st_group *g = &run->options.group;
    st_net *n = run->net;
    m->sums = (tally){ 0 };
    m->first = run->batch * o->batch;
    m->images = m->order ? smallest(o->batch, run->data->count - m->first) : o->batch;
    m->net_step = n->step;
    if (!st_is_null(m->new_states)) st_copy(m->states, st_net_states(n));
    for (int s = run->rank; s < o->micro_batches; s += run->ranks) { /* an error makes the rest do nothing */
        st_tensor x = { 0 }, target = { 0 };
        begin_micro_batch(run, s, &x, &target);
        st_tensor y = st_net_forward(n, x, ST_TRAIN);
        st_net_backward(n, loss_gradient(run, s, y, target), (st_tensor){ 0 });
        if (!st_is_null(m->new_states)) st_copy(st_select(m->new_states, 0, slot(run, s)), st_net_states(n));
        (g->add ? g->add : add)(g, run, s);
    }
    n->step = m->net_step + (uint64_t)o->micro_batches;
    if (g->all_gather) g->all_gather(g, o->micro_batches, sizeof *m->tally, m->tally);
    mean_states(run);
    for (int s = 0; s < o->micro_batches; s++) tally_add(&m->sums, m->tally[slot(run, s)]);
    run->stop = train_agree(g, run->stop) || rescale(run);
}

/* Text about the first element of a parameter that is not finite. */
static void find_bad(const st_net_tensor *t, void *context)
{
    char *text = context;
    for (ptrdiff_t i = 0; !st_is_null(t->gradient) && !text[0] && i < st_numel(t->value); i++) {
        double value = (double)st_data(t->value)[i];
        if (!isfinite(value))
            snprintf(text, ST_ERROR_SIZE, "element %td of %s is %g", i, t->name,
                     isnan(value) ? (double)NAN : value);
    }
}

/* The optimizer's step; an error names the first parameter to become non-finite. */
static int take_step(st_run *run)
{
    char bad[ST_ERROR_SIZE] = "";
    if (!isfinite(run->loss))
        snprintf(bad, sizeof bad, "the loss is %g", isnan(run->loss) ? (double)NAN : run->loss);
    else if (st_optim_step(run->optim, run->report.lr, st_net_parameters(run->net),
                           st_net_gradients(run->net)) == 0)
        return 0;
    else st_net_visit(run->net, find_bad, bad);
    if (!bad[0]) return st_error_within("train: ");
    st_error_clear();
    return st_error_set("train: %s at step %ld (epoch %d); a learning rate below %g, or clipping, may help",
                        bad, run->step + 1, run->epoch, run->report.lr);
}

void train_update(st_run *run)
{
    const st_train_options *o = &run->options;
    const struct st_train_memory *m = run->memory;
    run->loss = m->sums.loss / m->sums.weight;
    run->report.lr =
        run->optim->lr * st_schedule_factor(&o->schedule, run->step, run->report.steps, run->steps_per_epoch);
    if (train_tell(run, ST_ON_GRADIENTS) || (run->stop = take_step(run) != 0)) return;
    run->loss_sum += m->sums.loss, run->seen += m->sums.weight;
    run->hits += m->sums.hits, run->counted += m->sums.counted;
    run->images += (double)m->images;
    run->batch++, run->step++;
    run->report.step = run->step;
    run->report.training = train_training_score(run);
    run->report.seconds = train_now() - m->began;
    train_tell(run, ST_ON_STEP);
}

/* Means over this epoch so far. */
st_metrics train_training_score(const st_run *run)
{
    return (st_metrics){ run->loss_sum / run->seen, run->hits / run->counted };
}
