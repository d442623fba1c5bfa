/* ranks.c: see ranks.h. */
#include "nn/ranks/ranks.h"

enum { TERMS = 12 };

/* One of the numbers that have to be the same. Others, of which the result depends as well, are a program's own affair:
 * with these alike ranks wait for each other at the same places. */
typedef struct term {
    const char *name;
    double value;
} term;

int ranks_match(const checkpoint *c)
{
    const train *o = c->options;
    const team *t = o->team;
    const term mine[TERMS] = {
        { "parameters", (double)tensor_count(net_parameters(c->net)) },
        { "states", (double)tensor_count(net_states(c->net)) },
        { "samples", (double)c->samples->count },
        { "samples to validate with", o->validation ? (double)o->validation->count : 0 },
        { "images in a batch", (double)o->batch },
        { "micro-batches", o->micro_batches },
        { "sums in any order", o->unordered },
        { "states of the optimizer", o->optim->states },
        { "steps an epoch", (double)c->steps_an_epoch },
        { "epochs", o->epochs },
        { "epochs of patience", o->patience },
        { "steps from checkpoint to checkpoint", o->checkpoint ? (double)o->checkpoint_every : -1 },
    };
    double first[TERMS];
    for (int i = 0; i < TERMS; i++) first[i] = mine[i].value;
    if (t->broadcast(t, 0, TERMS, sizeof *first, first)) return -1;
    for (int i = 0; i < TERMS; i++)
        if (mine[i].value != first[i])
            error_set("train: %.17g %s, rank 0 has %.17g", mine[i].value, mine[i].name, first[i]);
    return team_agree(t);
}

static int follow(const team *t, tensor flat)
{
    return tensor_is_null(flat) ? 0 : t->broadcast(t, 0, tensor_count(flat), sizeof(real), tensor_data(flat));
}

int ranks_follow(const checkpoint *c)
{
    const team *t = c->options->team;
    optim *o = c->options->optim;
    train_place *at = c->place;
    at->net_seed = (int64_t)c->net->seed;
    at->net_step = (int64_t)c->net->step;
    at->optim_steps = o->steps;
    optim_build(o, tensor_count(net_parameters(c->net)));
    if (team_agree(t) || t->broadcast(t, 0, 1, sizeof *at, at)) return -1;
    for (int i = 0; i < o->states; i++)
        if (follow(t, o->state[i])) return -1;
    if (follow(t, net_parameters(c->net)) || follow(t, net_states(c->net)) || follow(t, c->best) ||
        follow(t, c->best_states))
        return -1;
    c->net->seed = (uint64_t)at->net_seed;
    c->net->step = (uint64_t)at->net_step;
    o->steps = (long)at->optim_steps;
    return 0;
}
