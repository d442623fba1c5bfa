/* step.c: one step: forward, loss and backward of each micro-batch, and the optimizer. */
#define _POSIX_C_SOURCE 200809L
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

bool train_tell(train_state *run, train_event event)
{
    train_group *g = &run->options.group;
    for (callback *c = run->options.callbacks; c < run->options.callbacks + TRAIN_CALLBACKS; c++)
        if (c->call) c->call(c, run, event);
    return run->stop = g->agree(g, run->stop);
}

static ptrdiff_t micro_start(const train_state *run, int s)
{
    return run->memory->images * s / run->options.micro_batches;
}

static int slot(const train_state *run, int s)
{
    return s % run->ranks * (run->options.micro_batches / run->ranks) + s / run->ranks;
}

int train_fetch_micro(const train_state *run, int s, tensor *x, tensor *target, uint64_t *step)
{
    const struct train_memory *m = run->memory;
    ptrdiff_t begin = micro_start(run, s);
    *step = m->net_step + (uint64_t)s;
    return train_fetch(&m->batches, &run->options.loss, run->net, m->first + begin,
                       micro_start(run, s + 1) - begin, x, target);
}

static void run_micro_batch(train_state *run, int s)
{
    struct train_memory *m = run->memory;
    net *n = run->net;
    tensor x, target;
    const ptrdiff_t room = m->batches.x.shape.n[0];
    if (n->batch < room)
        error_set("train: a callback built the net for %td images, a step needs %td", n->batch, room);
    if (error_text() || train_fetch_micro(run, s, &x, &target, &n->step)) return;
    ptrdiff_t count = x.shape.n[0];
    tensor dy = tensor_narrow(m->batches.dy, 0, 0, count);
    if (!tensor_is_null(m->new_states)) tensor_copy(net_states(n), m->states);
    net_zero_gradients(n);
    tensor y = net_forward(n, x, NET_TRAIN);
    if (error_text()) return;
    m->tally[slot(run, s)] = train_tally(&m->batches, &run->options.loss, n, y, target, dy);
    if (count < m->images) tensor_scale(dy, (real)((double)count / (double)m->images));
    net_backward(n, dy, (tensor){ 0 });
    if (!tensor_is_null(m->new_states))
        tensor_copy(tensor_select(m->new_states, 0, slot(run, s)), net_states(n));
}

/* The net's states become the mean over the micro-batches, added in their order. */
static void mean_states(train_state *run)
{
    const struct train_memory *m = run->memory;
    train_group *g = &run->options.group;
    const int count = run->options.micro_batches;
    if (tensor_is_null(m->new_states)) return;
    tensor mean = net_states(run->net);
    g->all_gather(g, count, (size_t)tensor_count(mean) * sizeof(real), tensor_data(m->new_states));
    for (ptrdiff_t i = 0; i < tensor_count(mean); i++) {
        double sum = 0;
        for (int s = 0; s < count; s++) sum += (double)*tensor_at(m->new_states, INDEX(slot(run, s), i));
        *tensor_at(mean, INDEX(i)) = (real)(sum / count);
    }
}

/* Forward, loss and backward of the batch; its gradients are in the net. */
static tally accumulate(train_state *run)
{
    struct train_memory *m = run->memory;
    train_group *g = &run->options.group;
    const int count = run->options.micro_batches;
    tally all = { 0 };
    m->net_step = run->net->step;
    if (!tensor_is_null(m->new_states)) tensor_copy(m->states, net_states(run->net));
    for (int s = run->rank; s < count; s += run->ranks) {
        run_micro_batch(run, s);
        g->add(g, run, s);
    }
    run->net->step = m->net_step + (uint64_t)count;
    g->all_gather(g, count, sizeof *m->tally, m->tally);
    mean_states(run);
    for (int s = 0; s < count; s++)
        all.loss += m->tally[slot(run, s)].loss, all.hits += m->tally[slot(run, s)].hits;
    return all;
}

static void find_bad(const net_tensor *t, void *context)
{
    const train_state *run = context;
    for (ptrdiff_t i = 0; !tensor_is_null(t->gradient) && i < tensor_count(t->value); i++) {
        double value = (double)tensor_data(t->value)[i];
        if (isfinite(value) || error_text()) continue;
        error_set("train: element %td of %s is %g after step %ld (epoch %d); a learning rate below %g, or "
                  "clipping, "
                  "may help",
                  i, t->name, isnan(value) ? (double)NAN : value, run->step + 1, run->epoch, run->report.lr);
    }
}

/* The optimizer's step. Says which parameter is no longer finite. */
static int take_step(train_state *run)
{
    char text[ERROR_SIZE];
    if (!isfinite(run->loss))
        return error_set(
            "train: the loss is %g at step %ld (epoch %d); a learning rate below %g, or clipping, may help",
            isnan(run->loss) ? (double)NAN : run->loss, run->step + 1, run->epoch, run->report.lr);
    if (optim_step(run->optim, run->report.lr, net_parameters(run->net), net_gradients(run->net)) == 0)
        return 0;
    snprintf(text, sizeof text, "%s", error_text());
    error_clear();
    net_visit(run->net, find_bad, run);
    return error_set("train: %s", text);
}

void train_step(train_state *run)
{
    const train *o = &run->options;
    struct train_memory *m = run->memory;
    m->first = run->batch * o->batch;
    m->images = m->order ? smallest(o->batch, run->data->count - m->first) : o->batch;
    tally sums = accumulate(run);
    if ((run->stop = o->group.agree(&run->options.group, run->stop))) return;
    run->loss = sums.loss / (double)m->images;
    run->report.lr =
        run->optim->lr * schedule_factor(&o->schedule, run->step, run->report.steps, run->steps_per_epoch);
    if (train_tell(run, ON_GRADIENTS) || (run->stop = take_step(run) != 0)) return;
    run->loss_sum += sums.loss, run->hits += sums.hits, run->seen += (double)m->images;
    run->images += (double)m->images;
    run->batch++, run->step++;
    run->report.step = run->step;
    run->report.training = train_training_score(run);
    run->report.seconds = train_now() - m->began;
    train_tell(run, ON_STEP);
}

/* Over the samples of this epoch so far. */
train_score train_training_score(const train_state *run)
{
    bool counted = train_counts_hits(&run->options.loss, run->net, run->data);
    return (train_score){ run->loss_sum / run->seen, counted ? run->hits / run->seen : NAN };
}

/* ---- one process ------------------------------------------------------------------------------------------ */

/* Gradients of micro-batches are added as they come. */
static void begin_alone(train_group *g, train_state *run)
{
    if (run->options.micro_batches > 1) g->sum = tensor_new(net_gradients(run->net).shape);
}

static bool agree_alone(train_group *g, bool stop)
{
    (void)g;
    return stop || error_text();
}

static void all_gather_alone(train_group *g, ptrdiff_t rows, size_t size, void *table)
{
    (void)g, (void)rows, (void)size, (void)table;
}

static void add_alone(train_group *g, train_state *run, int s)
{
    tensor gradients = net_gradients(run->net);
    if (tensor_is_null(g->sum)) return;
    if (s == 0) tensor_copy(g->sum, gradients);
    else tensor_add(g->sum, 1, gradients);
    if (s == run->options.micro_batches - 1) tensor_copy(gradients, g->sum);
}

train_group train_alone(void)
{
    return (train_group){ .ranks = 1,
                          .begin = begin_alone,
                          .agree = agree_alone,
                          .all_gather = all_gather_alone,
                          .add = add_alone };
}
