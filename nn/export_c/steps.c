/* steps.c: walks a net's tree, folds layers into the step before, and plans the workspace: a stack at either end, of
 * which a step reads one and writes the other, so that a chain of layers takes its widest two neighbours. Errors are
 * latched, and looked for when the walk is over. */
#include "nn/export_c/steps.h"
#include "layers/layer_impl.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

bool is_type(const st_layer *l, const char *type)
{
    return strcmp(l->type->name, type) == 0;
}

/* Where each stack begins that a part of the net may use: below lies what others read later. */
typedef struct floors {
    ptrdiff_t at[3];
} floors;

static floors above(floors f, step_value v)
{
    if (f.at[v.side] < v.offset + v.size) f.at[v.side] = v.offset + v.size;
    return f;
}

/* At the other end than x. */
static int add_value(steps *s, floors f, ptrdiff_t size, int x)
{
    const side to = s->values == s->output ? OUTSIDE : s->value[x].side == BOTTOM ? TOP : BOTTOM;
    const step_value made = { f.at[to], size, to };
    const floors used = above(above(f, s->value[x]), made);
    if (size > INT_MAX) st_error_set("%td numbers between two layers, expected at most %d", size, INT_MAX);
    if (s->workspace < used.at[BOTTOM] + used.at[TOP]) s->workspace = used.at[BOTTOM] + used.at[TOP];
    s->value[s->values] = made;
    return s->values++;
}

static bool is_free(const steps *s, floors f, int value)
{
    return s->value[value].offset >= f.at[s->value[value].side];
}

/* To made.y or, unless that is given, to where a value is that no one reads later, or to a new one. */
static int add_step(steps *s, floors f, const char *path, step made)
{
    const bool int8 = made.form == &form_int8,
               in_place = made.form->kind >= AFFINE && !int8 && made.y == INPUT;
    if (made.form->kind >= AFFINE) made.size = s->value[made.x].size;
    if (in_place && is_free(s, f, made.x)) made.y = made.x;
    if (in_place && is_free(s, f, made.other)) made.y = made.other;
    if (made.y == INPUT) made.y = add_value(s, f, int8 ? (made.size + 3) / 4 : made.size, made.x);
    snprintf(made.path, sizeof made.path, "%s", path);
    s->last = &s->step[s->count++];
    *s->last = made;
    return made.y;
}

/* A batchnorm behind a flatten has other channels than what comes before the flatten. */
static int walk_leaf(steps *s, floors low, const st_layer *l, const char *path, int x)
{
    const form *f = form_of(l);
    step *last = s->last && !s->last->activation ? s->last : NULL;
    step made = { .form = f, .l = l, .x = x, .size = st_shape_numel(l->y, path) / l->y.n[0] };
    if (!f) st_error_set("layer %s: %s: it has no form in C", path, l->type->name);
    if (!f || f->kind == NOTHING) return x;
    if (f->kind == ACTIVATION) {
        if (last && last->form->kind >= PRODUCT && last->form->kind <= CHANNELS)
            return last->activation = l, x;
        made.form = &form_copy, made.activation = l;
    }
    if (is_type(l, "batchnorm")) {
        if (last && last->form->kind == PRODUCT && !last->norm && last->l->y.n[1] == l->x.n[1])
            return last->norm = l, x;
        made.norm = l;
    }
    if (f->kind == PRODUCT && s->range) {
        made.int8 = true, made.range = s->range[l->impl->number];
        made.x = add_step(s, low, path, (step){ .form = &form_int8, .l = l, .x = x, .range = made.range });
    }
    return add_step(s, low, path, made);
}

/* A chain, or branches that all read x, so that none is folded into the step that makes it: a concat copies each to its
 * place when it is there. The sum of a residual goes where x was, as nothing is left below it there. */
static int walk(steps *s, floors f, const st_layer *l, const char *path, int x)
{
    const bool chain = is_type(l, "sequence"), concat = is_type(l, "concat");
    step made = { .form = concat ? &form_copy : &form_add, .l = l, .x = x };
    floors inner = chain ? f : above(f, s->value[x]);
    if (!chain && !concat && !is_type(l, "residual")) return walk_leaf(s, f, l, path, x);
    if (concat) made.y = add_value(s, f, st_shape_numel(l->y, path) / l->y.n[0], x);
    if (concat) inner = above(inner, s->value[made.y]);
    for (int i = 0; i < l->children; i++) {
        char below[ST_LAYER_PATH];
        layer_child_path(below, l, path, i);
        s->last = chain ? s->last : NULL;
        made.other = made.x;
        made.x = walk(s, inner, l->child[i], below, chain ? made.x : x);
        if (concat) add_step(s, f, below, made), made.at += s->value[made.x].size;
        else if (!chain) inner = above(inner, s->value[made.x]);
    }
    if (concat) s->last = NULL;
    return chain ? made.x : concat ? made.y : add_step(s, f, path, made);
}

/* Twice: the first time finds the output, which is not in the workspace. */
int steps_plan(steps *s, const st_net *n, const float *range)
{
    const size_t room = 3 * (size_t)layer_count(n->root) + 3; /* a layer has two steps, its output a copy */
    *s = (steps){ calloc(room, sizeof *s->step), .value = calloc(room, sizeof *s->value), .range = range };
    if (!s->step || !s->value) return st_error_set("no memory for %zu steps", room);
    const ptrdiff_t size = st_shape_numel(n->input, "export");
    const floors f = { { 0, 0, size } };
    for (int time = 0; time < 2; time++) {
        s->count = 0, s->values = 1, s->workspace = 0, s->last = NULL;
        s->value[INPUT] = (step_value){ 0, size, OUTSIDE };
        int y = INPUT;
        if (st_net_metadata(n, "normalization"))
            y = add_step(s, f, "input", (step){ .form = &form_normalize, .l = n->root });
        y = walk(s, f, n->root, "", y);
        if (y == INPUT) y = add_step(s, f, "output", (step){ .form = &form_copy, .l = n->root });
        s->output = y;
    }
    return st_error() ? -1 : 0;
}
