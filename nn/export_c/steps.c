/* steps.c: walks a net's tree, folds layers into the one before, and plans the workspace. */
#include "nn/export_c/steps.h"
#include "tensor/error.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int step_refuse(const char *path, const st_layer *l, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return st_error_set("layer %s: %s: %s", path, l->type->name, text);
}

void steps_free(steps *s)
{
    free(s->step);
    free(s->value);
    free(s->place);
}

/* ---- values and steps -------------------------------------------------------------------------------- */

/* `list` with room for one more element. */
static int grow(void *list, int count, size_t size)
{
    void **at = list, *wider = realloc(*at, ((size_t)count + 1) * size);
    if (!wider) return st_error_set("no memory for %d steps", count + 1);
    *at = wider;
    return 0;
}

static int add_value(steps *s, ptrdiff_t size)
{
    if (size > INT_MAX)
        return st_error_set("%td numbers between two layers, expected at most %d", size, INT_MAX);
    if (grow(&s->value, s->values, sizeof *s->value)) return -1;
    s->value[s->values] = (step_value){ .size = size, .place = -1 };
    return s->values++;
}

/* Adds a step from x, and other unless it is -1, to y. Returns y. */
static int add_step(steps *s, step made)
{
    if (made.x < 0 || made.y < 0 || grow(&s->step, s->count, sizeof made)) return -1;
    s->value[made.x].last = s->count;
    if (made.other >= 0) s->value[made.other].last = s->count;
    s->step[s->count++] = made;
    return made.y;
}

/* The step that computes x, where x goes only to the layer that follows it and nothing comes between; else NULL. */
static step *before(steps *s, int x)
{
    step *last = s->count ? &s->step[s->count - 1] : NULL;
    return last && last->y == x && !s->value[x].shared && !last->activation ? last : NULL;
}

/* A leaf. A batchnorm behind a flatten has other channels than what comes before the flatten. */
static int walk_leaf(steps *s, const st_layer *l, const char *path, int x)
{
    const form *f = form_of(l);
    if (!f) return step_refuse(path, l, "it has no form in C");
    if (!f->write && !f->activation) return x;
    step *last = before(s, x);
    if (last && f->activation && last->form->takes_activation) {
        last->activation = l;
        return x;
    }
    if (last && strcmp(f->type, "batchnorm") == 0 && last->form->takes_norm && !last->norm &&
        last->l->y.n[1] == l->x.n[1]) {
        last->norm = l;
        return x;
    }
    step made = { .form = f, .l = l, .x = x, .other = -1 };
    made.size = f->activation ? s->value[x].size : st_shape_numel(l->y, "export") / l->y.n[0];
    made.y = add_value(s, made.size);
    snprintf(made.path, sizeof made.path, "%s", path);
    return add_step(s, made);
}

/* ---- layers of layers ---------------------------------------------------------------------------------- */

static int walk(steps *s, const st_layer *l, const char *path, int x);

static int walk_child(steps *s, const st_layer *l, const char *path, int i, int x)
{
    char own[ST_LAYER_PATH], number[16];
    snprintf(number, sizeof number, "%d", i);
    const char *name = l->type->child_names ? l->type->child_names[i] : number;
    if (snprintf(own, sizeof own, "%s%s%s", path, path[0] ? "." : "", name) >= (int)sizeof own)
        return st_error_set("layer %s: its path is too long", path);
    return x < 0 ? -1 : walk(s, l->child[i], own, x);
}

static int walk_residual(steps *s, const st_layer *l, const char *path, int x)
{
    s->value[x].shared = true;
    int body = walk_child(s, l, path, 0, x);
    int through = l->children > 1 && body >= 0 ? walk_child(s, l, path, 1, x) : x;
    if (body < 0 || through < 0) return -1;
    step made = { .form = &form_add, .l = l, .x = body, .other = through, .size = s->value[body].size };
    made.y = add_value(s, made.size);
    snprintf(made.path, sizeof made.path, "%s", path);
    return add_step(s, made);
}

/* A branch is copied to its place when it is there, so that its own place can be used again. */
static int walk_concat(steps *s, const st_layer *l, const char *path, int x)
{
    ptrdiff_t at = 0;
    s->value[x].shared = true;
    int y = add_value(s, st_shape_numel(l->y, "export") / l->y.n[0]);
    for (int i = 0; i < l->children && y >= 0; i++) {
        int branch = walk_child(s, l, path, i, x);
        if (branch < 0) return -1;
        step made = { .form = &form_copy, .x = branch, .other = -1, .y = y, .at = at };
        made.size = s->value[branch].size;
        if (add_step(s, made) < 0) return -1;
        at += made.size;
    }
    return y;
}

static int walk(steps *s, const st_layer *l, const char *path, int x)
{
    if (strcmp(l->type->name, "residual") == 0) return walk_residual(s, l, path, x);
    if (strcmp(l->type->name, "concat") == 0) return walk_concat(s, l, path, x);
    if (strcmp(l->type->name, "sequence") != 0) return walk_leaf(s, l, path, x);
    for (int i = 0; i < l->children && x >= 0; i++) x = walk_child(s, l, path, i, x);
    return x;
}

/* ---- the workspace -------------------------------------------------------------------------------------- */

/* Each value gets a place: that of x, where the step may run in place and nobody reads x afterwards. */
static int make_places(steps *s)
{
    for (int i = 0; i < s->count; i++) {
        const step *at = &s->step[i];
        const step_value *x = &s->value[at->x];
        step_value *y = &s->value[at->y];
        if (y->place < 0 && at->form->in_place && at->x != VALUE_INPUT && x->last == i) y->place = x->place;
        if (y->place < 0) {
            if (grow(&s->place, s->places, sizeof *s->place)) return -1;
            s->place[s->places] = (step_place){ y->size, PLACE_INPUT, i, i };
            y->place = s->places++;
        }
        if (y->last > s->place[y->place].last) s->place[y->place].last = y->last;
    }
    return 0;
}

static bool at_once(const step_place *a, const step_place *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static bool is_free(const steps *s, const step_place *p, ptrdiff_t offset)
{
    for (int i = 0; i < s->places; i++) {
        const step_place *q = &s->place[i];
        if (q != p && q->offset >= 0 && at_once(p, q) && offset < q->offset + q->size &&
            q->offset < offset + p->size)
            return false;
    }
    return true;
}

/* Places p as low as it fits or, from the top, as high below `limit`. Whether it ends below the limit. */
static bool put(const steps *s, step_place *p, ptrdiff_t limit, bool top)
{
    ptrdiff_t best = -1;
    for (int i = -1; i < s->places; i++) {
        const step_place *q = i < 0 ? NULL : &s->place[i];
        if (q && (q == p || q->offset < 0)) continue;
        ptrdiff_t offset = top ? (q ? q->offset : limit) - p->size : q ? q->offset + q->size : 0;
        if (offset < 0 || !is_free(s, p, offset)) continue;
        if (best < 0 || (top ? offset > best : offset < best)) best = offset;
    }
    p->offset = best;
    return best >= 0 && best + p->size <= limit;
}

/* The most that is in use at once: no workspace is smaller. */
static ptrdiff_t least_workspace(const steps *s)
{
    ptrdiff_t most = 0;
    for (int i = 0; i < s->count; i++) {
        ptrdiff_t sum = 0;
        for (int k = 0; k < s->places; k++)
            if (s->place[k].offset != PLACE_OUTPUT && s->place[k].first <= i && i <= s->place[k].last)
                sum += s->place[k].size;
        if (sum > most) most = sum;
    }
    return most;
}

static void unplace(steps *s)
{
    for (int i = 0; i < s->places; i++)
        if (s->place[i].offset != PLACE_OUTPUT) s->place[i].offset = PLACE_INPUT;
}

/* By turns at the bottom and at the top: of a chain, that takes the widest two neighbours and no more. */
static bool place_by_turns(steps *s, ptrdiff_t limit)
{
    bool top = false;
    for (int i = 0; i < s->places; i++) {
        if (s->place[i].offset == PLACE_OUTPUT) continue;
        if (!put(s, &s->place[i], limit, top)) return false;
        top = !top;
    }
    return true;
}

/* The largest first, each as low as it fits. Returns the end. */
static ptrdiff_t place_by_size(steps *s)
{
    ptrdiff_t end = 0;
    for (;;) {
        step_place *largest = NULL;
        for (int i = 0; i < s->places; i++)
            if (s->place[i].offset == PLACE_INPUT && (!largest || s->place[i].size > largest->size))
                largest = &s->place[i];
        if (!largest) return end;
        put(s, largest, PTRDIFF_MAX, false);
        if (largest->offset + largest->size > end) end = largest->offset + largest->size;
    }
}

int steps_plan(steps *s, const st_layer *root, ptrdiff_t inputs, bool normalize)
{
    *s = (steps){ 0 };
    int y = add_value(s, inputs);
    if (y >= 0 && normalize)
        y = add_step(s, (step){ .form = &form_normalize,
                                .path = "input",
                                .other = -1,
                                .y = add_value(s, inputs),
                                .size = inputs });
    if (y >= 0) y = walk(s, root, "", y);
    if (y == VALUE_INPUT) /* nothing in inference */
        y = add_step(s, (step){ .form = &form_copy, .other = -1, .y = add_value(s, inputs), .size = inputs });
    if (y < 0 || make_places(s)) return -1;
    s->place[s->value[y].place].offset = PLACE_OUTPUT;
    s->workspace = least_workspace(s);
    if (place_by_turns(s, s->workspace)) return 0;
    unplace(s);
    s->workspace = place_by_size(s);
    return 0;
}
