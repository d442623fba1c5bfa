/* groups.c: groups of parameters, by name: which of them train, and with which learning rate and weight
 * decay. */
#include "nn/groups/groups.h"
#include "nn/optim_impl.h"
#include "tensor/array.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct grouping {
    st_optim *o;
    int count, members[ST_MAX_GROUPS];
    const st_param_group *group;
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
    const char *star = NULL,
               *from = NULL; /* the last * and the part of the name that it does not cover yet */
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

/* Appends a parameter of `count` numbers to the last range, or begins another. */
static void append(struct st_optim_ranges *to, ptrdiff_t count, double lr_factor, double weight_decay)
{
    optim_range *last = to->count > 0 ? &to->range[to->count - 1] : NULL;
    if (last && last->first + last->count == to->parameters && last->lr_factor == lr_factor &&
        last->weight_decay == weight_decay) {
        last->count += count;
        return;
    }
    optim_range *grown = array_grow("st_optim_groups", to->range, to->count + 1, sizeof *grown);
    if (!grown) return;
    to->range = grown;
    to->range[to->count++] = (optim_range){ to->parameters, count, lr_factor, weight_decay };
}

static void group_tensor(const st_net_tensor *t, void *context)
{
    static const st_param_group rest = { 0 };
    const st_param_group *g = &rest;
    grouping *all = context;
    const size_t used = strlen(all->names), room = sizeof all->names - used;
    if (st_is_null(t->gradient)) return; /* a state */
    if ((size_t)snprintf(all->names + used, room, "%s%s", used ? ", " : "", t->name) >= room)
        strcpy(all->names + sizeof all->names - sizeof "…", "…");
    for (int k = 0; k < all->count && g == &rest; k++)
        if (matches(&all->group[k], t)) g = &all->group[k], all->members[k]++;
    st_layer_freeze(t->layer, t->number, g->frozen);
    const bool own_decay = g->weight_decay != 0 || signbit(g->weight_decay);
    const st_optim *o = all->o;
    if (!g->frozen)
        append(o->groups, st_numel(t->value), g->lr_factor != 0 ? g->lr_factor : 1,
               own_decay ? g->weight_decay : st_options_number(o->kind->fields, o->options, "weight_decay"));
    o->groups->parameters += st_numel(t->value);
}

static int check_group(const st_param_group *g)
{
    if (!g->names) return st_error_set("st_optim_groups: a group without names");
    if (isfinite(g->lr_factor) && g->lr_factor >= 0 && isfinite(g->weight_decay) && g->weight_decay >= 0)
        return 0;
    return st_error_set("st_optim_groups: \"%s\" has lr_factor %g and weight_decay %g, expected at least 0",
                        g->names, g->lr_factor, g->weight_decay);
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
    if (!o->groups && !(o->groups = array_new("st_optim_groups", 1, sizeof *o->groups))) return -1;
    o->groups->count = 0, o->groups->parameters = 0;
    st_net_visit(n, group_tensor, &all);
    if (st_error()) return -1;
    for (int k = 0; k < count; k++)
        if (all.members[k] == 0)
            return st_error_set("parameters \"%.80s\": the name matches no parameter%s; there are %s",
                                group[k].names, k ? " that is in no earlier group" : "", all.names);
    return o->groups->count > 0 ? 0 : st_error_set("every parameter is frozen: nothing is left to train");
}

optim_grouping *optim_groups_by_name = st_optim_groups;
