/* layer_times.c: times the hooks of a net's layers (nn/callbacks/watch.h). */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/layer_times.h"
#include "nn/callbacks/watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- hooks ------------------------------------------------------------------------------------- */

/* The times of each layer in this step. */
typedef struct stopwatch {
    int threads;
    layer_time *layer;
} stopwatch;

static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

/* Hooks of one layer run in several threads concurrently; one that sees the whole batch occupies all
 * threads. */
static void count(const st_watch_call *c, void *context)
{
    const stopwatch *all = context;
    layer_time *t = &all->layer[c->number];
    double *total = c->hook == ST_WATCH_FORWARD ? &t->forward : &t->backward, began = seconds_now();
    st_watch_run(c);
    double seconds = (c->of->type->chunk == ST_WHOLE_BATCH ? all->threads : 1) * (seconds_now() - began);
    pthread_mutex_lock(&adding);
    *total += seconds;
    pthread_mutex_unlock(&adding);
}

static void list_layer(st_layer *l, const char *path, void *context)
{
    (void)path;
    layer_times *t = context;
    if (t->layer) t->layer[t->count] = (layer_time){ .of = l };
    t->count++;
}

/* ---- steps ------------------------------------------------------------------------------------- */

typedef struct step {
    st_net *n;
    st_loss loss;
    st_tensor x, target, dy;
    int layers;
    stopwatch clock;
    int steps;
    double *seconds; /* [2 (layers + 1)][steps]: forward and backward of each layer, then of all */
} step;

static int run_step(step *s, int k)
{
    layer_time *first = s->clock.layer;
    for (int i = 0; i < s->layers; i++) first[i].forward = first[i].backward = 0;
    st_net_zero_gradients(s->n);
    double began = seconds_now();
    st_tensor y = st_net_forward(s->n, s->x, ST_TRAIN);
    double between = seconds_now();
    st_loss_value(s->loss, y, s->target, s->dy);
    double backward = seconds_now();
    if (st_error() || st_net_backward(s->n, s->dy, (st_tensor){ 0 })) return -1;
    double ended = seconds_now(), *at = s->seconds + k;
    for (int i = 0; i < s->layers; i++, at += 2 * s->steps)
        at[0] = first[i].forward, at[s->steps] = first[i].backward;
    at[0] = between - began, at[s->steps] = ended - backward;
    return 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* The first step warms up and is overwritten. */
static int run_steps(step *s, layer_times *t)
{
    if (run_step(s, 0)) return -1;
    for (int k = 0; k < s->steps; k++)
        if (run_step(s, k)) return -1;
    double *at = s->seconds;
    for (int i = 0; i < t->count; i++, at += 2 * s->steps)
        t->layer[i] = (layer_time){ t->layer[i].of, median(at, s->steps), median(at + s->steps, s->steps) };
    t->forward = median(at, s->steps);
    t->backward = median(at + s->steps, s->steps);
    return 0;
}

/* ---- the net before and after ------------------------------------------------------------------ */

static int prepare(step *s, layer_times *t, const st_dataset *d)
{
    st_layer_needs needs;
    t->batch = d->count < s->n->batch ? d->count : s->n->batch;
    st_layer_visit(s->n->root, list_layer, t);
    s->x = st_tensor_new(st_shape_with_batch(d->x, t->batch));
    s->target = st_tensor_new(st_shape_with_batch(d->target, t->batch));
    s->dy = st_tensor_new(st_shape_with_batch(s->n->output, t->batch));
    if (st_error() || st_dataset_batch(d, NULL, 0, t->batch, s->x, s->target)) return -1;
    if (st_layer_measure(s->n->root, &needs)) return -1;
    t->layer = calloc((size_t)t->count, sizeof *t->layer);
    s->layers = t->count;
    s->clock = (stopwatch){ needs.threads, calloc((size_t)t->count, sizeof *s->clock.layer) };
    s->seconds = calloc(2 * ((size_t)t->count + 1) * (size_t)s->steps, sizeof *s->seconds);
    if (!t->layer || !s->clock.layer || !s->seconds) return st_error_set("layer_times: no memory");
    t->count = 0;
    st_layer_visit(s->n->root, list_layer, t);
    return 0;
}

int layer_times_measure(layer_times *t, st_net *n, const st_dataset *d, st_loss l, int steps)
{
    *t = (layer_times){ 0 };
    if (st_error()) return -1;
    if (!n || n->batch < 1) return st_error_set("layer_times before st_net_build");
    if (!d || d->count < 1) return st_error_set("layer_times: the set is %s", d ? "empty" : "NULL");
    step s = { .n = n, .loss = l, .steps = steps > 0 ? steps : 9 };
    st_tensor states = st_net_states(n), kept = st_is_null(states) ? states : st_tensor_clone(states);
    uint64_t steps_before = n->step;
    st_watch *w = prepare(&s, t, d) ? NULL : st_watch_begin(n, count, &s.clock);
    int status = w ? run_steps(&s, t) : -1;
    st_watch_end(w);
    if (!st_is_null(kept)) st_copy(states, kept);
    st_net_zero_gradients(n);
    n->step = steps_before;
    n->x = n->y = (st_tensor){ 0 };
    st_tensor_free(kept), st_tensor_free(s.x), st_tensor_free(s.target), st_tensor_free(s.dy);
    free(s.seconds), free(s.clock.layer);
    if (status) layer_times_free(t);
    return status;
}

void layer_times_free(layer_times *t)
{
    free(t->layer);
    *t = (layer_times){ 0 };
}
