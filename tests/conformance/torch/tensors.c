/* tensors.c: ONNX's cases of what Stride does without a layer. onnx_tensors.py says each as a program: views
 * of tensors, copies and adds between them, sums, maxima, products, as a list of steps
 *
 *     { "do": "narrow", "of": "x.0", "by": [axis, start, length], "to": "a" }
 *
 * whose tensors y.0, y.1, ... are compared with those of the case. */
#include "tests/conformance/torch/parity.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------- */

typedef struct names {
    trial *t;
    const char *name[MOST_TENSORS];
    st_tensor value[MOST_TENSORS];
    int count;
} names;

static st_tensor *find(names *n, const char *name)
{
    for (int i = 0; i < n->count; i++)
        if (strcmp(n->name[i], name) == 0) return &n->value[i];
    if (n->count == MOST_TENSORS) st_error_set("more than %d names", MOST_TENSORS);
    if (n->count == MOST_TENSORS) return &n->value[0];
    n->name[n->count] = name;
    n->value[n->count] = has(n->t, name) ? given(n->t, name) : (st_tensor){ 0 };
    return &n->value[n->count++];
}

/* ---- steps ------------------------------------------------------------------------------------- */

enum { MOST_NUMBERS = 512 };

/* `x` is the tensor "of", `y` the one that has the result, which a step makes, or writes into. */
typedef struct step {
    trial *t;
    st_tensor x, *y, *at;
    int count;
    ptrdiff_t by[MOST_NUMBERS];
    double number;
} step;

static st_shape sizes(const step *s)
{
    st_shape shape = { .rank = s->count };
    for (int i = 0; i < s->count && i < ST_MAX_RANK; i++) shape.n[i] = s->by[i];
    return shape;
}

static st_axes axes(const step *s)
{
    st_axes over = { .count = s->count };
    for (int i = 0; i < s->count && i < ST_MAX_RANK; i++) over.axis[i] = (int)s->by[i];
    return over;
}

static void permute(step *s)
{
    *s->y = st_permute(s->x, axes(s));
}
static void reshape(step *s)
{
    *s->y = st_reshape(s->x, sizes(s));
}
static void expand(step *s)
{
    *s->y = st_expand(s->x, sizes(s));
}
static void narrow(step *s)
{
    *s->y = st_narrow(s->x, (int)s->by[0], s->by[1], s->by[2]);
}
static void every(step *s)
{
    *s->y = st_step(s->x, (int)s->by[0], s->by[1]);
}
static void split_axis(step *s)
{
    *s->y = st_split_axis(s->x, (int)s->by[0], s->by[1]);
}
static void zeros(step *s)
{
    *s->y = make(s->t, sizes(s));
}
static void copy(step *s)
{
    st_copy(*s->y = make(s->t, s->x.shape), s->x);
}
static void assign(step *s)
{
    st_copy(*s->y, s->x);
}
static void add(step *s)
{
    st_add(*s->y, (st_real)s->number, s->x);
}
static void multiply(step *s)
{
    st_mul(*s->y, s->x);
}
static void scale(step *s)
{
    st_scale(*s->y, (st_real)s->number);
}
static void product(step *s)
{
    st_gemm(*s->y, 1, s->x, *s->at, 0);
}

/* A shape without some of its axes. */
static st_shape without(st_shape s, st_axes over)
{
    st_shape rest = { .rank = 0 };
    for (int i = 0; i < s.rank; i++) {
        bool gone = over.count == 0;
        for (int k = 0; k < over.count; k++) gone = gone || over.axis[k] == i;
        if (!gone) rest.n[rest.rank++] = s.n[i];
    }
    return rest;
}

static void reduce(step *s, void by(st_tensor y, st_tensor x, st_axes over))
{
    by(*s->y = make(s->t, without(s->x.shape, axes(s))), s->x, axes(s));
}

static void sum(step *s)
{
    reduce(s, st_sum);
}
static void mean(step *s)
{
    reduce(s, st_mean);
}
static void maximum(step *s)
{
    reduce(s, st_max);
}

static void places(st_tensor y, st_tensor x, st_axes over)
{
    ptrdiff_t *index = calloc((size_t)st_numel(y) + 1, sizeof *index);
    st_argmax(index, x, over);
    for (ptrdiff_t k = 0; k < st_numel(y); k++) st_data(y)[k] = (st_real)index[k];
    free(index);
}

static void argmax(step *s)
{
    reduce(s, places);
}
static void scatter(step *s)
{
    st_scatter_add(*s->y, s->by, s->x);
}

static const struct {
    const char *name;
    void (*run)(step *s);
} steps[] = {
    { "permute", permute }, { "reshape", reshape },   { "expand", expand },
    { "narrow", narrow },   { "step", every },        { "split_axis", split_axis },
    { "zeros", zeros },     { "copy", copy },         { "assign", assign },
    { "add", add },         { "multiply", multiply }, { "scale", scale },
    { "product", product }, { "sum", sum },           { "mean", mean },
    { "max", maximum },     { "argmax", argmax },     { "scatter", scatter },
};

static void run(names *n, const json_t *given_step)
{
    const char *what = json_string_value(json_object_get(given_step, "do")),
               *to = json_string_value(json_object_get(given_step, "to")),
               *of = json_string_value(json_object_get(given_step, "of")),
               *at = json_string_value(json_object_get(given_step, "at"));
    const json_t *by = json_object_get(given_step, "by"), *number;
    size_t i;
    step s = { .t = n->t, .number = json_number_value(json_object_get(given_step, "number")) };
    json_array_foreach(by, i, number)
    {
        if (s.count == MOST_NUMBERS) st_error_set("more than %d numbers", MOST_NUMBERS);
        else s.by[s.count++] = (ptrdiff_t)json_integer_value(number);
    }
    if (of) s.x = *find(n, of);
    if (at) s.at = find(n, at);
    s.y = find(n, to ? to : "");
    for (i = 0; i < sizeof steps / sizeof *steps; i++)
        if (what && strcmp(steps[i].name, what) == 0) {
            steps[i].run(&s);
            return;
        }
    st_error_set("step %s is not known", what ? what : "");
}

void judge_tensors(trial *t)
{
    names n = { .t = t };
    json_t *program = json_loads(text(t, "program"), 0, NULL), *each;
    size_t i;
    json_array_foreach(program, i, each)
    {
        if (!st_error()) run(&n, each);
    }
    for (int k = 0; k < n.count && !st_error(); k++) {
        char expected[40];
        if (strncmp(n.name[k], "y.", 2) != 0) continue;
        snprintf(expected, sizeof expected, "expected/%s", n.name[k]);
        st_tensor got = make(t, n.value[k].shape);
        st_copy(got, n.value[k]);
        compare(t, n.name[k], got, given(t, expected));
    }
    json_decref(program);
}

/* ---- a step of an optimizer with states ---------------------------------------------------------- */

void judge_update(trial *t)
{
    st_optim *o = optim_named(t);
    st_tensor w = given(t, "w"), g = given(t, "g");
    char name[16];
    if (o && !st_error() && st_optim_build(o, st_numel(w)) == 0) {
        o->steps = (long)option(t, "taken");
        for (int i = 0; i < o->states; i++) {
            snprintf(name, sizeof name, "state.%d", i);
            st_copy(o->state[i], given(t, name));
        }
        st_optim_step(o, option(t, "lr"), w, g);
        compare(t, "w", w, given(t, "after/w"));
        for (int i = 0; i < o->states && !st_error(); i++) {
            snprintf(name, sizeof name, "after/state.%d", i);
            compare(t, name, o->state[i], given(t, name));
        }
    }
    st_optim_free(o);
}
