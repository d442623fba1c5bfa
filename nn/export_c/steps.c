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

/* At the other end than x. */
static int add_value(steps *s, ptrdiff_t size, int x)
{
    const int number = s->values++;
    const bool top = !s->value[x].top, outside = number == INPUT || number == s->output;
    ptrdiff_t end[2] = { 0, 0 };
    if (size > INT_MAX) st_error_set("%td numbers between two layers, expected at most %d", size, INT_MAX);
    for (const step_value *v = s->value; v < s->value + number; v++)
        if (v->used && v->offset + v->size > end[v->top]) end[v->top] = v->offset + v->size;
    s->value[number] = (step_value){ size, end[top], top, !outside, 0 };
    end[top] += outside ? 0 : size;
    if (end[0] + end[1] > s->workspace) s->workspace = end[0] + end[1];
    return number;
}

/* To made.y or, unless that is given, to x itself where that is allowed, or to a new value of made.size. */
static int add_step(steps *s, step made, const char *path, const char *suffix)
{
    step_value *x = &s->value[made.x], *other = &s->value[made.other];
    if (snprintf(made.path, sizeof made.path, "%s%s", path, suffix) >= (int)sizeof made.path)
        st_error_set("layer %s: its path is too long", path);
    if (made.form->kind >= CHANNELS) made.size = x->size;
    if (made.y == 0 && made.form->kind >= CHANNELS && made.x != INPUT && !x->held) made.y = made.x;
    if (made.y == 0) made.y = add_value(s, made.size, made.x);
    x->used = x->used && (x->held || made.y == made.x);
    other->used = other->used && (other->held || made.y == made.other);
    s->step[s->count++] = made;
    return made.y;
}

/* A batchnorm behind a flatten has other channels than what comes before the flatten. */
static int walk_leaf(steps *s, const st_layer *l, const char *path, int x)
{
    const form *f = form_of(l);
    step made = { .form = f, .l = l, .x = x, .size = st_shape_numel(l->y, "export") / l->y.n[0] };
    step *last = s->count ? &s->step[s->count - 1] : NULL;
    if (!f) st_error_set("layer %s: %s: it has no form in C", path, l->type->name);
    if (!f || f->kind == NOTHING) return x;
    if (last && (last->y != x || last->size != s->value[x].size || s->value[x].held || last->activation))
        last = NULL;
    if (f->kind == ACTIVATION) {
        if (last && (last->form->kind == PRODUCT || last->form->kind == CHANNELS))
            return last->activation = l, x;
        made.form = &form_copy;
        made.activation = l;
    }
    if (last && is_type(l, "batchnorm") && last->form->kind == PRODUCT && !last->norm &&
        last->l->y.n[1] == l->x.n[1])
        return last->norm = l, x;
    if (f->kind == PRODUCT && s->range) {
        made.range = s->range[s->layers - 1];
        made.x = add_value(s, (s->value[x].size + 3) / 4, x);
        add_step(s, (step){ .form = &form_int8, .x = x, .y = made.x, .range = made.range }, path, ".int8");
    }
    return add_step(s, made, path, "");
}

static int walk(steps *s, const st_layer *l, const char *path, int x);

static int walk_child(steps *s, const st_layer *l, const char *path, int i, int x)
{
    char below[ST_LAYER_PATH];
    if (layer_child_path(below, l, path, i) >= (int)sizeof below)
        st_error_set("layer %s: its path is too long", path);
    return walk(s, l->child[i], below, x);
}

/* The sum goes where nothing is left below it. */
static int walk_residual(steps *s, const st_layer *l, const char *path, int x)
{
    int body = walk_child(s, l, path, 0, x), through = x;
    if (l->children > 1) {
        s->value[body].held++;
        through = walk_child(s, l, path, 1, x);
        s->value[body].held--;
    }
    s->value[x].held--;
    step made = { .form = &form_add, .l = l, .x = body, .other = through };
    if (through == x ? x != INPUT && !s->value[x].held : s->value[body].top == s->value[x].top)
        made.x = through, made.other = body;
    return add_step(s, made, path, "");
}

/* A branch is copied to its place when it is there, so that its own place can be used again. */
static int walk_concat(steps *s, const st_layer *l, const char *path, int x)
{
    step copy = { .form = &form_copy, .y = add_value(s, st_shape_numel(l->y, "export") / l->y.n[0], x) };
    for (int i = 0; i < l->children; i++) {
        char suffix[24];
        snprintf(suffix, sizeof suffix, ".%d.copy", i);
        copy.x = walk_child(s, l, path, i, x);
        add_step(s, copy, path, suffix);
        copy.at += s->value[copy.x].size;
    }
    s->value[x].held--;
    return copy.y;
}

static int walk(steps *s, const st_layer *l, const char *path, int x)
{
    s->layers++;
    const bool residual = is_type(l, "residual");
    if (residual || is_type(l, "concat")) {
        step_value *from = &s->value[x];
        from->held++;
        int y = residual ? walk_residual(s, l, path, x) : walk_concat(s, l, path, x);
        from->used = from->used && (from->held || y == x);
        return y;
    }
    if (!is_type(l, "sequence")) return walk_leaf(s, l, path, x);
    for (int i = 0; i < l->children; i++) x = walk_child(s, l, path, i, x);
    return x;
}

/* Twice: the first time finds the output, which is not in the workspace. */
int steps_plan(steps *s, const st_net *n, const float *range)
{
    const size_t room =
        3 * (size_t)layer_count(n->root) + 3; /* a layer has at most two steps, and its output a copy */
    *s = (steps){ calloc(room, sizeof *s->step), calloc(room, sizeof *s->value), .output = -1,
                  .range = range };
    if (!s->step || !s->value) return st_error_set("no memory for %zu steps", room);
    for (int time = 0; time < 2; time++) {
        s->count = s->values = s->layers = 0;
        s->workspace = 0;
        int y = add_value(s, st_shape_numel(n->input, "export"), INPUT);
        if (st_net_metadata(n, "normalization"))
            y = add_step(s, (step){ .form = &form_normalize }, "input", "");
        y = walk(s, n->root, "", y);
        s->output = y != INPUT ? y : add_step(s, (step){ .form = &form_copy }, "copy", "");
    }
    return st_error() ? -1 : 0;
}

void steps_free(steps *s)
{
    free(s->step);
    free(s->value);
}
