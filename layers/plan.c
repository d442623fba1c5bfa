/* plan.c: from shapes to requests: plans layers. Slots hold shapes until build.c binds them. */
#include "layers/layer_impl.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((weak)) const layer_executor *layer_fast_executor;

/* ---- requests: slots hold a shape until they are bound ------------------------------------------ */

static int request(st_layer *l, st_tensor slot[], int *used, st_shape s, const char *what)
{
    char who[96];
    snprintf(who, sizeof who, "%s: %s", l->type->name, what);
    if (*used == ST_LAYER_SLOTS)
        return st_layer_refuse(l, "requests %s, but %d slots of its kind are taken", what, ST_LAYER_SLOTS);
    if (st_shape_numel(s, who) < 0) return -1;
    slot[(*used)++] = (st_tensor){ .shape = s };
    return 0;
}

/* A parameter or state. One that is bound keeps its values when the layer is planned again, and its shape. */
static int request_kept(st_layer *l, st_tensor slot[], int *used, st_shape s, const char *name)
{
    if (!name) return st_layer_refuse(l, "requests a parameter or a state without a name");
    for (int i = 0; i < l->params + l->states; i++)
        if (strcmp(i < l->params ? l->param_name[i] : l->state_name[i - l->params], name) == 0)
            return st_layer_refuse(l, "requests two parameters or states called %s", name);
    const st_tensor bound = l->impl->run && *used < ST_LAYER_SLOTS ? slot[*used] : (st_tensor){ 0 };
    if (!st_is_null(bound) && !st_shape_equal(bound.shape, s))
        return st_layer_refuse(l, "%s is %s, an input of %s needs %s", name, st_shape_text(bound.shape).text,
                               st_shape_text(l->x).text, st_shape_text(s).text);
    if (request(l, slot, used, s, name)) return -1;
    if (!st_is_null(bound)) slot[*used - 1] = bound;
    return 0;
}

int st_layer_parameter(st_layer *l, const char *name, st_shape s, st_init init)
{
    if (!layer_given(l, "st_layer_parameter") || request_kept(l, l->param, &l->params, s, name)) return -1;
    l->param_name[l->params - 1] = name;
    l->impl->param_init[l->params - 1] = init;
    const bool finite =
        isfinite((st_real)init.uniform) && isfinite((st_real)init.normal) && isfinite((st_real)init.constant);
    if (finite && init.uniform >= 0 && init.normal >= 0) return 0;
    return st_layer_refuse(l,
                           "%s begins with uniform %g, normal %g, constant %g, expected finite numbers, the "
                           "first two at least 0",
                           name, printable(init.uniform), printable(init.normal), printable(init.constant));
}

int st_layer_state(st_layer *l, const char *name, st_shape s, double value)
{
    if (!layer_given(l, "st_layer_state") || request_kept(l, l->state, &l->states, s, name)) return -1;
    l->state_name[l->states - 1] = name;
    l->impl->state_init[l->states - 1] = (st_init){ .constant = value };
    return 0;
}

int st_layer_memory(st_layer *l, st_shape s)
{
    if (!layer_given(l, "st_layer_memory")) return -1;
    const bool by_image = s.rank > 0 && s.n[0] == l->x.n[0];
    const bool of_batch = s.rank > 0 && s.n[0] == 1 && layer_is_whole(l);
    if (by_image || of_batch) return request(l, l->impl->memory, &l->impl->memories, s, "memory");
    return st_layer_refuse(l, "requests memory %s, expected [%td, ...]", st_shape_text(s).text, l->x.n[0]);
}

int st_layer_scratch(st_layer *l, st_shape s)
{
    if (!layer_given(l, "st_layer_scratch")) return -1;
    return request(l, l->impl->scratch, &l->impl->scratches, s, "scratch");
}

void *st_layer_plan_data(st_layer *l, size_t size)
{
    if (!layer_given(l, "st_layer_plan_data")) return NULL;
    free(l->plan);
    l->plan = array_new(l->type->name, 1, size);
    l->impl->data = l->plan ? size : 0;
    return l->plan;
}

int st_plan_child(st_layer *l, int i, st_shape x, st_shape *y)
{
    if (!layer_given(l, "st_plan_child")) return -1;
    if (i < 0 || i >= l->children || !y)
        return st_layer_refuse(l, "plans child %d of %d%s", i, l->children,
                               y ? "" : " into a shape that is NULL");
    st_layer *child = l->child[i];
    const char *const *names = l->type->child_names;
    if (st_layer_plan(child, x, y))
        return names ? st_error_within("%s: ", names[i]) : st_error_within("layer %d: ", i);
    child->impl->output = (st_tensor){ .shape = *y };
    l->flops += child->flops;
    return 0;
}

/* ---- planning ---------------------------------------------------------------------------------- */

static int run_plan(st_layer *l)
{
    bool failed_before = st_error() != NULL;
    if (l->type->plan(l, l->x, &l->y))
        return st_error() ? -1 : st_error_set("%s: plan failed without an error", l->type->name);
    if (st_error() && !failed_before)
        return st_error_within("%s: plan ignored a failed request: ", l->type->name);
    if (l->y.rank < 1 || l->y.n[0] != l->x.n[0])
        return st_layer_refuse(l, "plan made %s of a batch %s, expected [%td, ...]", st_shape_text(l->y).text,
                               st_shape_text(l->x).text, l->x.n[0]);
    if (l->params > 0 && !l->type->gradient)
        return st_layer_refuse(l, "has %d parameters and no gradient hook", l->params);
    return st_shape_numel(l->y, l->type->name) < 0 ? -1 : 0;
}

/* After a failure the layer keeps its parameters and states, and must be planned again before it is built. */
int st_layer_plan(st_layer *l, st_shape x, st_shape *y)
{
    if (!layer_given(l, "st_layer_plan")) return -1;
    layer_impl *own = l->impl;
    const int params = l->params, states = l->states;
    const ptrdiff_t count = st_shape_numel(x, l->type->name);
    if (count < 0) return -1;
    if (x.rank < 1 || count == 0)
        return st_layer_refuse(l, "the input is %s, expected a batch [N, ...] of at least one",
                               st_shape_text(x).text);
    if ((own->isa = engine_choose()) < 0) return -1;
    if (own->run) own->run->ready = false;
    free(l->plan);
    l->plan = NULL;
    own->data = own->tables = 0;
    own->fill = NULL;
    l->x = x;
    l->flops = 0;
    l->params = l->states = own->memories = own->scratches = 0;
    own->output = (st_tensor){ 0 };
    own->partial = 0;
    own->hooks = (layer_hooks){ l->type->forward, l->type->backward, l->type->gradient, NULL };
    int status = run_plan(l);
    if (status == 0 && layer_fast_executor && !engine_is_reference()) status = layer_fast_executor->choose(l);
    if (own->run && status == 0 && (l->params != params || l->states != states))
        status = st_layer_refuse(l, "an input of %s needs %d parameters and %d states, it has %d and %d",
                                 st_shape_text(x).text, l->params, l->states, params, states);
    if (own->run && status) l->params = params, l->states = states;
    if (status == 0 && y) *y = l->y;
    return status;
}
