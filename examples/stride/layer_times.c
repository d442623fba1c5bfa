/* layer_times.c: times the hooks of a net's layers (nn/callbacks/watch.h). */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/layer_times.h"
#include "nn/callbacks/watch.h"

#include <math.h>
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

/* ---- steps ------------------------------------------------------------------------------------- */

typedef struct step {
    st_net *n;
    st_loss loss;
    st_tensor x, target, dy;
    stopwatch clock;
} step;

/* Runs a training step; a time of `t` becomes the step's if that is less. */
static int run_step(const step *s, layer_times *t)
{
    layer_time *each = s->clock.layer;
    for (int i = 0; i < t->count; i++) each[i] = (layer_time){ 0 };
    st_net_zero_gradients(s->n);
    double began = seconds_now();
    st_tensor y = st_net_forward(s->n, s->x, ST_TRAIN);
    double forward = seconds_now() - began;
    st_loss_value(s->loss, y, s->target, s->dy);
    began = seconds_now();
    if (st_error() || st_net_backward(s->n, s->dy, (st_tensor){ 0 })) return -1;
    t->backward = fmin(t->backward, seconds_now() - began);
    t->forward = fmin(t->forward, forward);
    for (int i = 0; i < t->count; i++) {
        t->layer[i].forward = fmin(t->layer[i].forward, each[i].forward);
        t->layer[i].backward = fmin(t->layer[i].backward, each[i].backward);
    }
    return 0;
}

/* Counts the layers, and lists them if there is a list. */
static void list_layer(st_layer *l, const char *path, void *context)
{
    (void)path;
    layer_times *t = context;
    if (t->layer) t->layer[t->count].of = l;
    t->count++;
}

/* Forgets all times, after a first step that warms up. */
static void forget(layer_times *t)
{
    t->forward = t->backward = INFINITY;
    for (int i = 0; i < t->count; i++) t->layer[i].forward = t->layer[i].backward = INFINITY;
}

static int prepare(step *s, layer_times *t, const st_dataset *d)
{
    st_layer_needs needs;
    t->batch = d->count < s->n->batch ? d->count : s->n->batch;
    s->x = st_tensor_new(st_shape_with_batch(d->x, t->batch));
    s->target = st_tensor_new(st_shape_with_batch(d->target, t->batch));
    s->dy = st_tensor_new(st_shape_with_batch(s->n->output, t->batch));
    if (st_error() || st_dataset_batch(d, NULL, 0, t->batch, s->x, s->target)) return -1;
    if (st_layer_measure(s->n->root, &needs)) return -1;
    st_layer_visit(s->n->root, list_layer, t);
    t->layer = calloc((size_t)t->count, sizeof *t->layer);
    s->clock = (stopwatch){ needs.threads, calloc((size_t)t->count, sizeof *t->layer) };
    if (!t->layer || !s->clock.layer) return st_error_set("layer_times: no memory");
    t->count = 0;
    st_layer_visit(s->n->root, list_layer, t);
    return 0;
}

int layer_times_measure(layer_times *t, st_net *n, const st_dataset *d, st_loss l, int steps)
{
    *t = (layer_times){ 0 };
    if (st_error()) return -1;
    step s = { .n = n, .loss = l };
    st_tensor states = st_net_states(n), kept = st_is_null(states) ? states : st_tensor_clone(states);
    st_watch *w = prepare(&s, t, d) ? NULL : st_watch_begin(n, count, &s.clock);
    int status = w ? run_step(&s, t) : -1;
    if (status == 0) forget(t);
    for (int k = 0; k < (steps > 0 ? steps : 9) && status == 0; k++) status = run_step(&s, t);
    st_watch_end(w);
    if (!st_is_null(kept)) st_copy(states, kept);
    st_tensor_free(kept), st_tensor_free(s.x), st_tensor_free(s.target), st_tensor_free(s.dy);
    free(s.clock.layer);
    if (status) layer_times_free(t);
    return status;
}

void layer_times_free(layer_times *t)
{
    free(t->layer);
    *t = (layer_times){ 0 };
}
