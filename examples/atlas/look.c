/* look.c: see look.h. */
#include "examples/atlas/look.h"
#include "examples/stride/network.h"
#include "examples/stride/page.h"
#include "tensor/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- pictures ------------------------------------------------------------------------------------- */

static double largest(st_tensor x)
{
    double most = 1e-30;
    for (ptrdiff_t i = 0; i < st_numel(x); i++) most = fmax(most, fabs((double)st_data(x)[i]));
    return most;
}

/* y and dx of one pass, from another seed than before. */
static void draw(st_net *n, uint64_t seed, st_tensor x, st_tensor y, st_tensor dx)
{
    if (st_net_build(n, 1, seed)) return;
    st_copy(y, st_net_forward(n, x, ST_TRAIN));
    st_tensor ones = st_tensor_new(y.shape);
    st_fill(ones, 1);
    st_net_backward(n, ones, dx);
    st_tensor_free(ones);
}

static void add_pictures(st_net *n, st_tensor x, json_t *to)
{
    const st_shape s = st_shape_with_batch(n->output, 1);
    st_tensor y = st_tensor_new(s), other = st_tensor_new(s), dx = st_tensor_new(x.shape);
    draw(n, 2, x, other, dx);
    draw(n, 1, x, y, dx);
    if (!st_error()) {
        const double most = largest(dx);
        const bool drawn = memcmp(st_data(y), st_data(other), (size_t)st_numel(y) * sizeof(st_real)) != 0;
        json_object_set_new(to, "y", page_image(st_select(y, 0, 0), 0, largest(y)));
        json_object_set_new(to, "dx", page_image(st_select(dx, 0, 0), -most, most));
        json_object_set_new(to, "most", json_real(most));
        json_object_set_new(to, "drawn", json_boolean(drawn));
    }
    st_tensor_free(y);
    st_tensor_free(other);
    st_tensor_free(dx);
}

/* ---- speed ---------------------------------------------------------------------------------------- */

enum { MOST_POOLINGS = 64 };

/* A net, its batch, and the milliseconds of each round. */
typedef struct timed {
    st_net *net;
    st_tensor x, dy, dx;
    double round[PLAN_SPEED_ROUNDS];
} timed;

static void time_round(timed *t, int round)
{
    const double least = 0.05, began = run_seconds();
    double seconds = 0;
    int calls = 0;
    do {
        st_net_zero_gradients(t->net);
        st_net_forward(t->net, t->x, ST_TRAIN);
        st_net_backward(t->net, t->dy, t->dx);
        calls++;
        seconds = run_seconds() - began;
    } while (seconds < least && !st_error());
    t->round[round] = 1e3 * seconds / calls;
}

static void free_timed(timed *t)
{
    st_net_free(t->net);
    st_tensor_free(t->x);
    st_tensor_free(t->dy);
    st_tensor_free(t->dx);
}

static int make_timed(timed *t, const char *net, const char *layers)
{
    char *text = run_net(net, layers);
    *t = (timed){ .net = text ? network_parse(text, (st_shape){ 0 }) : NULL };
    free(text);
    if (!t->net || st_net_build(t->net, PLAN_SPEED_BATCH, 1)) return -1;
    const st_random_key key = { .seed = 1 };
    t->x = st_tensor_new(st_shape_with_batch(t->net->input, PLAN_SPEED_BATCH));
    t->dx = st_tensor_new(t->x.shape);
    t->dy = st_tensor_new(st_shape_with_batch(t->net->output, PLAN_SPEED_BATCH));
    if (st_error()) return -1;
    st_uniform(t->x, key, 0, 1);
    st_fill(t->dy, (st_real)0.01);
    return 0;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static json_t *times_json(timed *t, int rounds)
{
    qsort(t->round, (size_t)rounds, sizeof *t->round, by_size);
    return json_pack("{s:f, s:f, s:f}", "median", t->round[rounds / 2], "low", t->round[rounds / 4], "high",
                     t->round[(3 * rounds) / 4]);
}

static bool is_there(const pooling *p)
{
    return run_is_possible(p->text);
}

/* Adds to `times` what each pooling takes in that net. */
static void add_times(json_t *times, const char *what, const char *net, int rounds)
{
    timed all[MOST_POOLINGS] = { 0 };
    const pooling *p = plan_poolings;
    for (int i = 0; p[i].name && !st_error(); i++)
        if (is_there(&p[i])) make_timed(&all[i], net, p[i].text);
    for (int round = 0; round < rounds; round++)
        for (int i = 0; p[i].name && !st_error(); i++)
            if (is_there(&p[i])) time_round(&all[i], round);
    for (int i = 0; p[i].name; i++) {
        if (is_there(&p[i])) {
            json_t *of = json_object_get(times, p[i].name);
            if (!of) json_object_set_new(times, p[i].name, of = json_object());
            json_object_set_new(of, what, times_json(&all[i], rounds));
        }
        free_timed(&all[i]);
    }
}

/* Describes how times are measured: those measured otherwise are measured again. */
static json_t *speed_plan(int rounds)
{
    json_t *plan = json_pack("[i, s, s]", rounds, plan_speed_net, plan_speed_layer);
    for (const pooling *p = plan_poolings; p->name; p++)
        if (is_there(p)) json_array_append_new(plan, json_string(p->text));
    return plan;
}

/* { "plan": [...], "times": { NAME: { "layer", "step" } } } */
static json_t *speed_of(const atlas *a)
{
    static const int rounds[SCALES] = { PLAN_SPEED_ROUNDS, 3, 1 };
    json_t *plan = speed_plan(rounds[a->scale]), *kept = run_read(a, "speed"), *times = json_object();
    if (json_equal(plan, json_object_get(kept, "plan"))) {
        json_decref(plan);
        json_decref(times);
        return kept;
    }
    json_decref(kept);
    st_set_num_threads(1);
    add_times(times, "layer", plan_speed_layer, rounds[a->scale]);
    add_times(times, "step", plan_speed_net, rounds[a->scale]);
    st_set_num_threads(0);
    kept = json_pack("{s:o, s:o}", "plan", plan, "times", times);
    if (!st_error() && run_keep(a, "speed", kept) == 0) return kept;
    json_decref(kept);
    return NULL;
}

/* ---- all of it ------------------------------------------------------------------------------------ */

static json_t *look_at(const pooling *p, st_tensor digit, const json_t *times)
{
    json_t *object = json_pack("{s:s, s:s, s:s, s:s}", "name", p->name, "text", p->text, "formula",
                               p->formula, "source", p->source);
    if (!is_there(p)) {
        json_object_set_new(object, "missing", json_true());
        return object;
    }
    st_net *n = network_parse(p->text, st_shape_without_batch(digit.shape));
    if (n) add_pictures(n, digit, object);
    if (st_error()) st_error_within("%s: ", p->name);
    json_object_update(object, json_object_get(times, p->name));
    st_net_free(n);
    return object;
}

json_t *look_at_poolings(const atlas *a)
{
    json_t *speed = speed_of(a), *list = json_array();
    const st_dataset *d = a->data.test;
    st_tensor digit = st_tensor_new(st_shape_with_batch(d->x, 1)), target = st_tensor_new(ST_SHAPE(1));
    if (speed) st_dataset_batch(d, NULL, PLAN_DIGIT, 1, digit, target);
    for (const pooling *p = plan_poolings; p->name && !st_error(); p++)
        page_add(list, look_at(p, digit, json_object_get(speed, "times")));
    json_t *all = NULL;
    if (!st_error())
        all = json_pack("{s:o, s:O}", "digit", page_image(st_select(digit, 0, 0), 0, largest(digit)),
                        "poolings", list);
    st_tensor_free(digit);
    st_tensor_free(target);
    json_decref(speed);
    json_decref(list);
    return all;
}
