/* steps.c: walks a net's tree, folds layers into the step before, and plans the workspace. Errors are
 * latched, and checked once. */
#include "nn/export_c/steps.h"
#include "layers/layer_impl.h"
#include "layers/types.h"
#include "nn/files/metadata.h"

#include <limits.h>
#include <stdlib.h>

static ptrdiff_t size_of(const st_layer *l)
{
    return st_shape_numel(l->y, l->type->name) / l->y.n[0];
}

/* Adds a step. Unless made.y is set, the step writes to new memory. Returns the memory it writes to. */
static int add_step(steps *s, const char *path, ptrdiff_t size, step made)
{
    if (size > INT_MAX) st_error_set("%td numbers between two layers, expected at most %d", size, INT_MAX);
    snprintf(made.path, sizeof made.path, "%s", path);
    made.size = size;
    if (made.y == INPUT) made.y = s->count;
    s->last = &s->step[s->count++];
    *s->last = made;
    return made.y;
}

/* A batchnorm is folded into the product before it if both have the same channels. Behind a flatten it has
 * others, and behind a dense layer of [N, T, features] its channels are T. */
static int walk_leaf(steps *s, const st_layer *l, const char *path, int x)
{
    const form *f = form_of(l);
    step *last = s->last && !s->last->activation ? s->last : NULL;
    step made = { .form = f, .l = l, .norm = l->type == &layer_type_batchnorm ? l : NULL, .x = x };
    const ptrdiff_t size = s->step[x].size;
    if (!f) st_error_set("layer %s: %s: it has no form in C", path, l->type->name);
    if (!f || f->kind == NOTHING) return x;
    if (f->kind == ACTIVATION && last) return last->activation = l, x;
    if (f->kind == ACTIVATION) made.form = &form_copy, made.activation = l;
    if (made.norm && last && last->form->kind == PRODUCT && !last->norm && last->l->y.rank != 3 &&
        last->l->y.n[1] == l->x.n[1])
        return last->norm = l, x;
    if (f->kind == PRODUCT && s->range) {
        made.range = s->range[l->impl->number];
        made.x = add_step(s, path, (size + 3) / 4,
                          (step){ .form = &form_int8, .l = l, .x = x, .range = made.range });
    }
    return add_step(s, path, made.form->kind < CHANNELS ? size_of(l) : size, made);
}

st_shape steps_product(const st_layer *l, int end)
{
    st_shape s = l->child[0]->y;
    for (int i = 1; i < end; i++)
        for (int axis = 0; axis < s.rank; axis++)
            if (s.n[axis] == 1) s.n[axis] = l->child[i]->y.n[axis];
    return s;
}

static int walk(steps *s, const st_layer *l, const char *path, int x);

/* The product of two branches, then of that and the third. */
static int walk_product(steps *s, const st_layer *l, const char *path, int x)
{
    int y = x;
    for (int i = 0; i < l->children; i++) {
        char below[ST_LAYER_PATH];
        layer_child_path(below, l, path, i);
        s->last = NULL;
        const int branch = walk(s, l->child[i], below, x);
        const st_shape product = steps_product(l, i + 1);
        step made = { .form = &form_multiply, .l = l, .x = branch, .other = y, .branch = i };
        y = i ? add_step(s, path, st_shape_numel(product, "multiply") / product.n[0], made) : branch;
    }
    return y;
}

/* Walks a chain, or branches. Each branch reads x, so that none is folded into the step before it; a concat
 * copies each to its part of y. */
static int walk(steps *s, const st_layer *l, const char *path, int x)
{
    const bool chain = l->type == &layer_type_sequence, concat = l->type == &layer_type_concat;
    step made = { .form = concat ? &form_copy : &form_add, .l = l, .x = x };
    if (l->type == &layer_type_multiply) return walk_product(s, l, path, x);
    if (!chain && !concat && l->type != &layer_type_residual) return walk_leaf(s, l, path, x);
    for (int i = 0; i < l->children; i++) {
        char below[ST_LAYER_PATH];
        layer_child_path(below, l, path, i);
        s->last = chain ? s->last : NULL;
        made.other = concat ? INPUT : made.x;
        made.x = walk(s, l->child[i], below, chain ? made.x : x);
        if (concat) made.y = add_step(s, below, size_of(l), made), made.at += s->step[made.x].size;
    }
    if (concat) s->last = NULL;
    return chain ? made.x : concat ? made.y : add_step(s, path, size_of(l), made);
}

/* Next to 0 on either side, as what steps before i have written and later ones read leaves room. */
static void place(steps *s, int i, step *x)
{
    ptrdiff_t up = 0, down = -x->size, begin = 0, end = 0;
    if (x->place != UNPLACED) return;
    for (const step *o = s->step; o <= s->step + i; o++) {
        const ptrdiff_t after = o->offset + o->size, up_before = up, down_before = down;
        if (o->place != INSIDE) continue;
        if (up < after && o->offset < up + x->size) up = after;
        if (down < after && o->offset < down + x->size) down = o->offset - x->size;
        if (up != up_before || down != down_before) o = s->step; /* the ones before may be in the way of it */
        if (begin > o->offset) begin = o->offset;
        if (end < after) end = after;
    }
    x->offset = up + x->size <= -down ? up : down;
    x->place = INSIDE;
    if (begin > x->offset) begin = x->offset;
    if (end < x->offset + x->size) end = x->offset + x->size;
    if (s->workspace < end - begin) s->workspace = end - begin;
}

/* From the last step to the first, what a step writes is placed when the last step that reads it is reached.
 * A chain of layers alternates between the sides, so that it takes its widest two neighbours. */
int steps_plan(steps *s, const st_net *n, const float *range)
{
    const size_t room = 3 * (size_t)layer_count(n->root) + 3; /* a layer has two steps, its output a copy */
    const ptrdiff_t size = st_shape_numel(n->input, "export");
    *s = (steps){ calloc(room, sizeof *s->step), .workspace = 1, .range = range };
    if (!s->step) return st_error_set("no memory for %zu steps", room);
    int y = add_step(s, "", size, (step){ .place = OUTSIDE });
    s->last = NULL;
    if (st_net_metadata(n, "normalization"))
        y = add_step(s, "normalization", size, (step){ .form = &form_normalize, .l = n->root });
    y = walk(s, n->root, "", y);
    if (y == INPUT) y = add_step(s, "output", size, (step){ .form = &form_copy, .l = n->root });
    s->step[y].place = OUTSIDE;
    for (int i = s->count - 1; i > INPUT; i--) {
        const step *a = &s->step[i], *to = &s->step[a->y];
        step *const read[] = { &s->step[a->other], &s->step[a->x] }; /* other lives longer */
        bool in_place = a->form->kind >= CHANNELS && a->form != &form_int8;
        for (int k = 0; k < 2; k++) {
            const bool over = in_place && read[k]->place == UNPLACED && read[k]->size == to->size;
            if (over) read[k]->place = to->place, read[k]->offset = to->offset, in_place = false;
            else place(s, i, read[k]);
        }
    }
    return st_error() ? -1 : 0;
}
