/* together.c: see together.h. */
#define _POSIX_C_SOURCE 200809L
#include "tests/ranks/together.h"

#include "nn/data/augment.h"
#include "nn/data/digits.h"
#include "nn/ranks/ranks.h"
#include "tests/support.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

void outcome_free(outcome *o)
{
    tensor_free(o->parameters), tensor_free(o->states);
}

net *with_all_layers(void)
{
    return net_new(
        SHAPE(1, 28, 28),
        layer_conv2d((conv2d){ .out_channels = 8, .kernel = { 5, 5 }, .stride = { 2, 2 } }), /* 12 x 12 */
        layer_batchnorm((batchnorm){ 0 }), layer_relu(),
        layer_residual(layer_sequence(
            layer_conv2d((conv2d){ .out_channels = 8, .kernel = { 3, 3 }, .padding = { 1, 1 } }),
            layer_batchnorm((batchnorm){ 0 }))),
        layer_maxpool((maxpool){ .kernel = { 2, 2 } }), layer_dropout(0.3), layer_flatten(),
        layer_dense((dense){ .out_features = 20 }), layer_tanh(), layer_dense((dense){ .out_features = 10 }));
}

outcome train_together(const together *what, const team *t)
{
    const int rank = t ? t->rank : 0;
    ptrdiff_t samples = what->samples ? what->samples : 46;
    tensor x = tensor_new(SHAPE(samples, 1, 28, 28)), y = tensor_new(SHAPE(samples));
    data *digits = digits_new(samples, 1), *validation = digits_new(25, 2), *set = data_tensors(x, y),
         *drawn = data_augment(set, (augment){ .shift = 2, .rotation = 10, .noise = 0.1, .seed = 7 });
    data_batch(digits, NULL, 0, samples, x, y);
    if (what->spoil) what->spoil(x, y, rank);
    net *n = (what->make ? what->make : with_all_layers)();
    optim *o = optim_sgd((sgd){ .lr = what->lr > 0 ? what->lr : 0.05, .momentum = 0.9, .nesterov = true });
    train options = { .loss = loss_cross_entropy(0.1),
                      .optim = o,
                      .epochs = what->epochs ? what->epochs : 2,
                      .batch = what->batch ? what->batch : 12,
                      .schedule = schedule_one_cycle((one_cycle){ 0 }),
                      .validation = validation,
                      .seed = 5,
                      .micro_batches = what->micro_batches,
                      .group = ranks_of(t, false) };
    if (what->change) what->change(&options, rank);
    outcome out = { 0 };
    out.status = train_run(n, what->plain ? set : drawn, options, &out.result);
    if (error_text()) strcpy(out.error, error_text());
    error_clear();
    if (!tensor_is_null(net_parameters(n)))
        out.parameters = tensor_clone(net_parameters(n)), out.states = tensor_clone(net_states(n));
    net_free(n), optim_free(options.optim);
    data_free(drawn), data_free(set), data_free(digits), data_free(validation);
    tensor_free(x), tensor_free(y);
    return out;
}

/* ---- ranks that are threads -------------------------------------------------------------------------------- */

/* Each shows the others where its own is, between two meetings. */
typedef struct place {
    pthread_barrier_t meeting;
    const void *shown[MOST_RANKS];
    int allowed, calls[MOST_RANKS];
} place;

static void meet(const team *t)
{
    pthread_barrier_wait(&((place *)t->own)->meeting);
}

/* NULL, at all ranks, where the call is one that fails. */
static const void *const *show(const team *t, const void *mine)
{
    place *p = t->own;
    if (++p->calls[t->rank] > p->allowed) return error_set("the ranks are apart"), NULL;
    p->shown[t->rank] = mine;
    meet(t);
    return p->shown;
}

static int all_gather(const team *t, ptrdiff_t n, size_t size, void *x)
{
    const void *const *shown = show(t, x);
    if (!shown) return -1;
    for (int q = 0; q < t->ranks; q++) {
        size_t first = (size_t)team_first(t, n, q) * size, end = (size_t)team_first(t, n, q + 1) * size;
        if (q != t->rank) memcpy((char *)x + first, (const char *)shown[q] + first, end - first);
    }
    meet(t);
    return 0;
}

static int all_to_all(const team *t, ptrdiff_t n, size_t size, const void *x, void *parts)
{
    const void *const *shown = show(t, x);
    if (!shown) return -1;
    ptrdiff_t first = team_first(t, n, t->rank), own = team_first(t, n, t->rank + 1) - first;
    for (int q = 0; q < t->ranks; q++)
        memcpy((char *)parts + (size_t)(q * own) * size, (const char *)shown[q] + (size_t)first * size,
               (size_t)own * size);
    meet(t);
    return 0;
}

static int broadcast(const team *t, int from, ptrdiff_t n, size_t size, void *x)
{
    const void *const *shown = show(t, x);
    if (!shown) return -1;
    if (t->rank != from) memcpy(x, shown[from], (size_t)n * size);
    meet(t);
    return 0;
}

static int all_min(const team *t, int *x)
{
    const void *const *shown = show(t, x);
    if (!shown) return -1;
    int all = *x;
    for (int q = 0; q < t->ranks; q++)
        if (*(const int *)shown[q] < all) all = *(const int *)shown[q];
    meet(t);
    *x = all;
    return 0;
}

/* From the last rank to the first: other bits than in order. */
static int all_reduce(const team *t, ptrdiff_t n, real *x)
{
    const void *const *shown = show(t, x);
    if (!shown) return -1;
    real *all = calloc((size_t)n, sizeof *all);
    for (int q = t->ranks - 1; q >= 0; q--)
        for (ptrdiff_t i = 0; i < n; i++) all[i] += ((const real *)shown[q])[i];
    meet(t);
    memcpy(x, all, (size_t)n * sizeof *x);
    free(all);
    return 0;
}

typedef struct member {
    team team;
    const together *what;
    outcome *out;
} member;

static void *work(void *context)
{
    member *m = context;
    *m->out = train_together(m->what, &m->team);
    return NULL;
}

void train_by_threads(const together *what, int ranks, outcome out[])
{
    place p = { .allowed = what->calls ? what->calls : INT_MAX };
    pthread_t thread[MOST_RANKS];
    member m[MOST_RANKS];
    assert_int_equal(pthread_barrier_init(&p.meeting, NULL, (unsigned)ranks), 0);
    for (int q = 0; q < ranks; q++) {
        m[q] = (member){ { q, ranks, all_gather, all_to_all, broadcast, all_min, all_reduce, &p },
                         what,
                         &out[q] };
        assert_int_equal(pthread_create(&thread[q], NULL, work, &m[q]), 0);
    }
    for (int q = 0; q < ranks; q++) pthread_join(thread[q], NULL);
    pthread_barrier_destroy(&p.meeting);
}
