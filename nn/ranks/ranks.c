/* ranks.c: a step in parts: micro-batches, which the ranks of a communicator share. */
#include "nn/ranks/ranks.h"
#include "nn/files/files_impl.h"
#include "nn/files/json.h"
#include "nn/loss_impl.h"
#include "nn/train_impl.h"
#include "tensor/array.h"

#include <stdlib.h>
#include <string.h>

/* Rank r runs micro-batches r, r + ranks, r + 2 ranks, ... all_gather needs the results of each rank side by
 * side: slot() is the place of a micro-batch in such a table. */
typedef struct parts {
    const st_comm *comm; /* NULL: this process alone */
    int rank, ranks;
    bool failed;                  /* an error is set at all ranks */
    tally *tally, *score;         /* of each micro-batch; of each rank's batch of a set */
    st_tensor states, new_states; /* before the step; after each micro-batch; null for a single one */
    st_tensor sum, theirs;        /* of gradients; of each rank, the part that this one adds up */
} parts;

static const st_comm *comm_of(const trainer *t)
{
    const st_train_options *o = &t->options;
    return o->ranks && (o->ranks->ranks > 1 || o->unordered) ? o->ranks : NULL;
}

static int slot(const trainer *t, int s)
{
    const parts *p = t->own;
    return s % p->ranks * (t->options.micro_batches / p->ranks) + s / p->ranks;
}

static void all_gather(const parts *p, ptrdiff_t rows, size_t size, void *table)
{
    if (p->comm) p->comm->all_gather(p->comm, rows, size, table);
}

/* ---- the same run everywhere ----------------------------------------------------------------------- */

/* The terms that must be the same at all ranks: the configuration of the run, and numbers that make ranks
 * wait for each other at the same places. NULL with an error. */
static json_t *terms_of(const st_run *run, int kept_count)
{
    const st_train_options *o = run->options;
    const struct term {
        const char *name;
        ptrdiff_t value;
    } terms[] = { { "parameters", st_numel(st_net_parameters(run->net)) },
                  { "states", st_numel(st_net_states(run->net)) },
                  { "samples to validate with", o->validation ? o->validation->count : 0 },
                  { "unordered sums", o->unordered },
                  { "steps in an epoch", run->report.batches },
                  { "epochs of the run", run->report.epochs },
                  { "kept tensors and numbers", kept_count } };
    json_t *all = checkpoint_terms(run, 0);
    int status = 0;
    for (size_t i = 0; i < sizeof terms / sizeof *terms && all; i++)
        status |= json_object_set_new(all, terms[i].name, json_integer(terms[i].value));
    if (status) st_error_set("train: no memory for the options of a run");
    json_object_del(all, "epochs"); /* those of the run are compared, whatever its schedule */
    return all;
}

/* Rank 0 sends its terms as JSON, and each rank compares them with its own. */
static int match(const st_comm *t, const st_run *run, int kept_count)
{
    json_t *mine = terms_of(run, kept_count);
    char *text = mine ? json_write(mine) : NULL;
    uint64_t length = text ? strlen(text) : 0;
    if (mine && !text) st_error_set("train: no memory for the options of a run");
    int status = st_comm_agree(t) || t->broadcast(t, 0, 1, sizeof length, &length);
    char *first = status ? NULL : malloc(length);
    if (!status && !first) st_error_set("train: no memory for the options of rank 0");
    if (first && t->rank == 0) memcpy(first, text, length);
    if (!status) status = st_comm_agree(t) || t->broadcast(t, 0, (ptrdiff_t)length, 1, first);
    json_t *theirs = status ? NULL : json_read(first, length, "train: options of rank 0");
    if (theirs) checkpoint_compare("train: rank 0 has", mine, theirs);
    json_decref(mine), json_decref(theirs), free(text), free(first);
    return status ? -1 : st_comm_agree(t);
}

static int follow(const st_comm *t, st_tensor flat)
{
    return st_is_null(flat) ? 0 : t->broadcast(t, 0, st_numel(flat), sizeof(st_real), st_data(flat));
}

static int follow_all(const st_comm *t, st_run *run, int count, const kept_item list[])
{
    for (const kept_item *k = list; k < list + count; k++)
        if (k->count ? t->broadcast(t, 0, k->count, sizeof(double), k->numbers) : follow(t, k->tensor))
            return -1;
    run_go_to_position(run);
    return follow(t, st_net_parameters(run->net)) || follow(t, st_net_states(run->net)) ? -1 : 0;
}

/* -1 with an error at all ranks. */
static int begin_alike(const st_comm *t, st_run *run)
{
    kept_item list[MOST_KEPT];
    const int count = run_list(run, list);
    return st_comm_agree(t) || match(t, run, count) || follow_all(t, run, count, list) ? -1 : 0;
}

/* ---- gradients ------------------------------------------------------------------------------------- */

static ptrdiff_t part_of(const st_comm *t, ptrdiff_t count, ptrdiff_t *first)
{
    *first = st_comm_first(t, count, t->rank);
    return st_comm_first(t, count, t->rank + 1) - *first;
}

/* Each rank adds up its part of the parameters, of every micro-batch as it comes, and all-gathers the sum. */
static void add_in_order(const parts *p, st_tensor gradients, bool begins, bool ends)
{
    const st_comm *t = p->comm;
    ptrdiff_t count = st_numel(gradients), first, own = part_of(t, count, &first);
    if (t->all_to_all(t, count, sizeof(st_real), st_data(gradients), st_data(p->theirs))) return;
    for (int q = 0; q < t->ranks; q++) {
        st_tensor of_rank = st_select(p->theirs, 0, q);
        if (begins && q == 0) st_copy(p->sum, of_rank);
        else st_add(p->sum, 1, of_rank);
    }
    if (!ends) return;
    st_copy(st_narrow(gradients, 0, first, own), p->sum);
    t->all_gather(t, count, sizeof(st_real), st_data(gradients));
}

/* Each rank adds up its own micro-batches first. */
static void add_own_first(const parts *p, st_tensor gradients, bool begins, bool ends)
{
    if (begins) st_copy(p->sum, gradients);
    else st_add(p->sum, 1, gradients);
    if (!ends) return;
    st_copy(gradients, p->sum);
    if (p->comm) p->comm->all_reduce(p->comm, st_numel(gradients), st_data(gradients));
}

/* Forward, loss and backward of micro-batch s. dy is the derivative of the sum of losses divided by the
 * batch's images, as the batch's weight is known after its last micro-batch: see rescale. Other ranks wait
 * for its gradients also where an error is set. */
static void run_part(trainer *t, int s)
{
    const parts *p = t->own;
    const int count = t->options.micro_batches;
    st_net *n = t->run->net;
    if (!st_error() && count > 1) st_copy(st_net_states(n), p->states);
    if (!st_error()) train_fetch_part(t, s);
    st_tensor y = st_net_forward(n, t->x, ST_TRAIN), dy = train_loss(t, y);
    if (count > 1) st_scale(dy, (st_real)(loss_divisor(t->of_batch.weight) / (double)t->images));
    st_net_backward(n, dy, (st_tensor){ 0 });
    p->tally[slot(t, s)] = t->of_batch;
    if (count > 1) st_copy(st_select(p->new_states, 0, slot(t, s)), st_net_states(n));
    (p->comm && !t->options.unordered ? add_in_order : add_own_first)(p, st_net_gradients(n), s == p->rank,
                                                                      s + p->ranks >= count);
}

/* Sets the net's states to the mean over the micro-batches, added in order. */
static void mean_states(const trainer *t)
{
    const parts *p = t->own;
    const int count = t->options.micro_batches;
    if (count == 1) return;
    st_tensor mean = st_net_states(t->run->net);
    all_gather(p, count, (size_t)st_numel(mean) * sizeof(st_real), st_data(p->new_states));
    for (ptrdiff_t i = 0; i < st_numel(mean); i++) {
        double sum = 0;
        for (int s = 0; s < count; s++) sum += (double)*st_at(p->new_states, ST_INDEX(slot(t, s), i));
        *st_at(mean, ST_INDEX(i)) = (st_real)(sum / count);
    }
}

/* Makes the sum of gradients that of the batch's mean loss: divided by its weight, not by its images. */
static void rescale(const trainer *t)
{
    const double images = (double)t->images, weight = t->of_batch.weight;
    if (t->options.micro_batches > 1 && weight > 0 && weight != images)
        st_scale(st_net_gradients(t->run->net), (st_real)(images / weight));
}

static void gradients(trainer *t)
{
    const parts *p = t->own;
    const int count = t->options.micro_batches;
    if (count > 1) st_copy(p->states, st_net_states(t->run->net));
    for (int s = p->rank; s < count; s += p->ranks) run_part(t, s);
    t->run->net->step = t->net_step + (uint64_t)count;
    all_gather(p, count, sizeof *p->tally, p->tally);
    mean_states(t);
    t->of_batch = (tally){ 0 };
    for (int s = 0; s < count; s++) tally_add(&t->of_batch, p->tally[slot(t, s)]);
    rescale(t);
}

/* ---- the table's other functions ------------------------------------------------------------------- */

static bool agree(trainer *t)
{
    const st_comm *c = comm_of(t);
    parts *p = t->own;
    int go_on = !t->run->stop;
    if (!c) return t->run->stop || st_error();
    if (p && p->failed) return true;
    bool failed = st_comm_agree(c) || c->all_min(c, &go_on);
    if (p) p->failed = failed; /* from now on all ranks know */
    return failed || !go_on;
}

/* Every micro-batch has an image, also in the last batch. */
static int plan(trainer *t)
{
    st_train_options *o = &t->options;
    const st_comm *c = comm_of(t);
    parts *p = t->own = array_new("train", 1, sizeof *p);
    if (!p) return -1;
    *p = (parts){ .comm = c, .rank = c ? c->rank : 0, .ranks = c ? c->ranks : 1 };
    t->run->rank = p->rank;
    if (o->micro_batches == 0) o->micro_batches = p->ranks;
    if (o->micro_batches % p->ranks || o->batch < o->micro_batches)
        return st_error_set(
            "train: micro_batches is %d, expected a multiple of the ranks, %d, and at most the batch, %d",
            o->micro_batches, p->ranks, o->batch);
    const ptrdiff_t last = t->data->count % o->batch;
    if (o->drop_last || o->steps_per_epoch > 0 || last == 0 || last >= o->micro_batches) return 0;
    return st_error_set(
        "train: the last batch of an epoch has %td images for %d micro-batches; drop_last skips it", last,
        o->micro_batches);
}

static int allocate(trainer *t)
{
    parts *p = t->own;
    const st_comm *c = p->comm;
    const st_tensor states = st_net_states(t->run->net);
    const ptrdiff_t count = st_numel(st_net_gradients(t->run->net));
    const bool ordered = c && !t->options.unordered;
    ptrdiff_t first;
    p->tally = array_new("train", t->options.micro_batches, sizeof *p->tally);
    p->score = array_new("train", p->ranks, sizeof *p->score);
    p->sum = st_tensor_new(ST_SHAPE(ordered ? part_of(c, count, &first) : count));
    if (ordered) p->theirs = st_tensor_new(ST_SHAPE(c->ranks, st_numel(p->sum)));
    if (t->options.micro_batches > 1) {
        p->states = st_tensor_clone(states);
        p->new_states = st_tensor_new(ST_SHAPE(t->options.micro_batches, st_numel(states)));
    }
    if (c && !ordered && !c->all_reduce) st_error_set("train: unordered, but the team has no all_reduce");
    return st_error() ? -1 : 0;
}

static int begin(trainer *t)
{
    parts *p = t->own;
    int status = allocate(t);
    if (!p->comm) return status;
    p->failed = begin_alike(p->comm, t->run) != 0;
    return p->failed ? -1 : 0;
}

/* Ranks take batches in turn; sums are added up in the order of the batches. */
static int score(trainer *t, st_metrics *to)
{
    const parts *p = t->own;
    const train_batches *b = &t->validated;
    const ptrdiff_t batch = b->x.shape.n[0], count = b->data->count;
    tally sum = { 0 }, *of = p->score;
    for (ptrdiff_t first = 0; first < count; first += p->ranks * batch) {
        ptrdiff_t mine = first + p->rank * batch;
        of[p->rank] = mine < count ? train_tally_at(t->run->net, &t->options.loss, b, mine) : (tally){ 0 };
        all_gather(p, p->ranks, sizeof *of, of);
        for (int q = 0; q < p->ranks; q++) tally_add(&sum, of[q]);
        if (agree(t)) break;
    }
    return train_mean(b->who, sum, to);
}

static void end(trainer *t)
{
    parts *p = t->own;
    if (!p) return;
    st_tensor_free(p->states), st_tensor_free(p->new_states);
    st_tensor_free(p->sum), st_tensor_free(p->theirs);
    free(p->tally), free(p->score);
    free(p);
}

static const train_parts in_parts = { plan, begin, gradients, score, agree, end };
const train_parts *train_in_parts = &in_parts;
