/* ranks.c: a team as a group of the trainer's: gradients are all-reduced, errors and stops are shared. */
#include "nn/ranks/ranks.h"
#include "nn/files/files_impl.h"
#include "nn/files/json.h"
#include "nn/train_impl.h"

#include <stdlib.h>
#include <string.h>

static const st_comm *team_of(const st_group *g)
{
    return g->context;
}

/* ---- the same run everywhere ----------------------------------------------------------------------- */

/* What must be the same at all ranks: the configuration of the run, and numbers that make ranks wait for each
 * other at the same places. NULL with an error. */
static json_t *terms_of(const st_run *run)
{
    const st_train_options *o = &run->options;
    const struct term {
        const char *name;
        ptrdiff_t value;
    } terms[] = { { "parameters", st_numel(st_net_parameters(run->net)) },
                  { "states", st_numel(st_net_states(run->net)) },
                  { "samples to validate with", o->validation ? o->validation->count : 0 },
                  { "unordered sums", o->group.unordered },
                  { "steps in an epoch", run->steps_per_epoch },
                  { "epochs of the run", run->report.epochs },
                  { "kept tensors and numbers", run->kept_count } };
    json_t *all = checkpoint_terms(run, 0);
    int status = 0;
    for (size_t i = 0; i < sizeof terms / sizeof *terms && all; i++)
        status |= json_object_set_new(all, terms[i].name, json_integer(terms[i].value));
    if (status) st_error_set("train: no memory for the options of a run");
    return all;
}

/* Rank 0 sends its terms as JSON, and each rank compares them with its own. */
static int match(const st_comm *t, const st_run *run)
{
    json_t *mine = terms_of(run);
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

static int follow_all(const st_comm *t, st_run *run)
{
    train_place place = train_place_of(run);
    if (t->broadcast(t, 0, 1, sizeof place, &place) || train_go_to(run, &place, false)) return -1;
    if (follow(t, st_net_parameters(run->net)) || follow(t, st_net_states(run->net))) return -1;
    for (const st_kept *k = run->kept; k < run->kept + run->kept_count; k++)
        if (k->count ? t->broadcast(t, 0, k->count, sizeof(double), k->numbers) : follow(t, k->tensor))
            return -1;
    return 0;
}

/* ---- gradients ------------------------------------------------------------------------------------- */

static ptrdiff_t part_of(const st_comm *t, ptrdiff_t count, ptrdiff_t *first)
{
    *first = st_comm_first(t, count, t->rank);
    return st_comm_first(t, count, t->rank + 1) - *first;
}

/* Each rank adds up its part of the parameters, of every micro-batch as it comes, and all-gathers the sum. */
static void add_in_order(st_group *g, st_tensor gradients, bool begins, bool ends)
{
    const st_comm *t = team_of(g);
    ptrdiff_t count = st_numel(gradients), first, own = part_of(t, count, &first);
    if (t->all_to_all(t, count, sizeof(st_real), st_data(gradients), st_data(g->theirs))) return;
    for (int q = 0; q < t->ranks; q++) {
        st_tensor of_rank = st_select(g->theirs, 0, q);
        if (begins && q == 0) st_copy(g->sum, of_rank);
        else st_add(g->sum, 1, of_rank);
    }
    if (!ends) return;
    st_copy(st_narrow(gradients, 0, first, own), g->sum);
    t->all_gather(t, count, sizeof(st_real), st_data(gradients));
}

static void add_in_any_order(st_group *g, st_tensor gradients, bool begins, bool ends)
{
    const st_comm *t = team_of(g);
    if (begins) st_copy(g->sum, gradients);
    else st_add(g->sum, 1, gradients);
    if (!ends) return;
    st_copy(gradients, g->sum);
    t->all_reduce(t, st_numel(gradients), st_data(gradients));
}

/* ---- the group's functions ------------------------------------------------------------------------- */

static void add(st_group *g, st_run *run, int s)
{
    bool begins = s == g->rank, ends = s + g->ranks >= run->options.micro_batches;
    (g->unordered ? add_in_any_order : add_in_order)(g, st_net_gradients(run->net), begins, ends);
}

static void all_gather(st_group *g, ptrdiff_t rows, size_t size, void *table)
{
    const st_comm *t = team_of(g);
    t->all_gather(t, rows, size, table);
}

static bool agree(st_group *g, bool stop)
{
    const st_comm *t = team_of(g);
    int go_on = !stop;
    if (!g->failed) g->failed = st_comm_agree(t) || t->all_min(t, &go_on); /* later all ranks know */
    return g->failed || !go_on;
}

static void begin(st_group *g, st_run *run)
{
    const st_comm *t = team_of(g);
    ptrdiff_t first, count = st_numel(st_net_gradients(run->net)), own = part_of(t, count, &first);
    g->sum = st_tensor_new(ST_SHAPE(g->unordered ? count : own));
    if (!g->unordered) g->theirs = st_tensor_new(ST_SHAPE(t->ranks, own));
    if (g->unordered && !t->all_reduce) st_error_set("train: unordered, but the team has no all_reduce");
    g->failed = st_comm_agree(t) || match(t, run) || follow_all(t, run);
}

st_group st_group_of(const st_comm *t, bool unordered)
{
    if (!t || (t->ranks == 1 && !unordered)) return (st_group){ 0 };
    return (st_group){ t->rank, t->ranks, begin, agree, all_gather, add, (void *)t, unordered };
}
