/* groups.c: groups of parameters, by name: which of them train, and with which learning rate and weight
 * decay. */
#include "nn/groups/groups.h"
#include "nn/optim_impl.h"
#include "tensor/array.h"
#include "tensor/counts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct grouping {
    const st_optim *o;
    int count, members[ST_MAX_GROUPS];
    const st_param_group *group;
    struct st_optim_ranges *ranges;
    bool failed;
    char names[200]; /* of all parameters: "0.weight, 0.bias, …" */
} grouping;

/* The rest of a pattern whose first element accepts c, which is a character, ? for any one, or a set such as
 * [01] or [0-9]; NULL: it does not. */
static const char *after_match(const char *pattern, char c)
{
    const char *end = *pattern == '[' ? strchr(pattern, ']') : NULL;
    if (!end) return *pattern == '?' || *pattern == c ? pattern + 1 : NULL;
    for (const char *at = pattern + 1; at < end; at++) {
        const bool range = at[1] == '-' && at + 2 < end;
        if (range ? at[0] <= c && c <= at[2] : *at == c) return end + 1;
        if (range) at += 2;
    }
    return NULL;
}

/* Tests if a name matches a pattern, in which * stands for any text. */
static bool matches_pattern(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL; /* the last *, and the rest of the name after it */
    while (*name) {
        const char *after = *pattern && *pattern != '*' ? after_match(pattern, *name) : NULL;
        if (*pattern == '*') star = pattern++, from = name;
        else if (after) pattern = after, name++;
        else if (star) pattern = star + 1, name = ++from;
        else return false;
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

static bool matches(const st_param_group *g, const st_net_tensor *t)
{
    char below[ST_LAYER_PATH + 64];
    snprintf(below, sizeof below, "%s.*", g->names);
    return (t->value.shape.rank == 1 || !g->vectors) &&
           (matches_pattern(g->names, t->name) || matches_pattern(below, t->name));
}

/* The first group that a parameter belongs to; NULL: none. */
static const st_param_group *group_of(const grouping *all, const st_net_tensor *t)
{
    for (int k = 0; k < all->count; k++)
        if (matches(&all->group[k], t)) return &all->group[k];
    return NULL;
}

/* Appends a parameter of `count` numbers to the last range, or begins another. -1 with an error. */
static int append(grouping *all, ptrdiff_t count, double lr_factor, double weight_decay)
{
    struct st_optim_ranges *to = all->ranges;
    optim_range *last = to->count > 0 ? &to->range[to->count - 1] : NULL;
    if (last && last->first + last->count == to->parameters && last->lr_factor == lr_factor &&
        last->weight_decay == weight_decay) {
        last->count += count;
        return 0;
    }
    to = array_grow("st_optim_groups", to, to->count + 2, sizeof *to->range); /* one for the beginning */
    if (!to) return -1;
    all->ranges = to;
    to->range[to->count++] = (optim_range){ to->parameters, count, lr_factor, weight_decay };
    return 0;
}

static void group_tensor(const st_net_tensor *t, void *context)
{
    static const st_param_group rest = { 0 };
    grouping *all = context;
    const size_t used = strlen(all->names), room = sizeof all->names - used;
    if (st_is_null(t->gradient)) return; /* a state */
    if ((size_t)snprintf(all->names + used, room, "%s%s", used ? ", " : "", t->name) >= room)
        strcpy(all->names + sizeof all->names - sizeof "…", "…");
    const st_param_group *found = group_of(all, t), *g = found ? found : &rest;
    if (found) all->members[found - all->group]++;
    const bool own_decay = g->weight_decay != 0 || signbit(g->weight_decay);
    const st_optim *o = all->o;
    if (!g->frozen &&
        append(all, st_numel(t->value), g->lr_factor != 0 ? g->lr_factor : 1,
               own_decay ? g->weight_decay : st_options_number(o->kind->fields, o->options, "weight_decay")))
        all->failed = true;
    all->ranges->parameters += st_numel(t->value);
}

static void freeze_tensor(const st_net_tensor *t, void *context)
{
    if (st_is_null(t->gradient)) return;
    const st_param_group *g = group_of(context, t);
    st_layer_freeze(t->layer, t->number, g && g->frozen);
}

static int check_group(const st_param_group *g)
{
    if (!g->names) return st_error_set("st_optim_groups: a group without names");
    if (isfinite(g->lr_factor) && g->lr_factor >= 0 && isfinite(g->weight_decay) && g->weight_decay >= 0)
        return 0;
    return st_error_set("st_optim_groups: \"%s\" has lr_factor %g and weight_decay %g, expected at least 0",
                        g->names, printable(g->lr_factor), printable(g->weight_decay));
}

static int make_ranges(grouping *all, st_net *n)
{
    if (!(all->ranges = array_new("st_optim_groups", 1, sizeof *all->ranges))) return -1;
    st_net_visit(n, group_tensor, all);
    for (int k = 0; k < all->count && !all->failed; k++)
        if (all->members[k] == 0)
            return st_error_set("parameters \"%.80s\": the name matches no parameter%s; there are %s",
                                all->group[k].names, k ? " that is in no earlier group" : "", all->names);
    if (all->ranges->count == 0) st_error_set("every parameter is frozen: nothing is left to train");
    return all->failed || all->ranges->count == 0 ? -1 : 0;
}

int st_optim_groups(st_optim *o, st_net *n, int count, const st_param_group group[])
{
    if (!o || st_is_null(st_net_gradients(n)))
        return st_error_set("st_optim_groups: the %s", o ? "net is not built" : "optimizer is NULL");
    if (count < 0 || count > ST_MAX_GROUPS || (count > 0 && !group))
        return st_error_set("st_optim_groups: %d groups, expected 0 to %d", count, ST_MAX_GROUPS);
    for (int k = 0; k < count; k++)
        if (check_group(&group[k])) return -1;
    grouping all = { .o = o, .count = count, .group = group };
    if (count > 0 && make_ranges(&all, n)) {
        free(all.ranges);
        return -1;
    }
    st_net_visit(n, freeze_tensor, &all);
    free(o->groups);
    o->groups = all.ranges;
    return 0;
}

optim_grouping *optim_groups_by_name = st_optim_groups;
