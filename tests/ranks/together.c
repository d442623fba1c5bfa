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
    st_tensor_free(o->parameters), st_tensor_free(o->states);
}

st_net *with_all_layers(void)
{
    return st_net_new(
        ST_SHAPE(1, 28, 28),
        st_conv2d(.out_channels = 8, .kernel = { 5, 5 }, .stride = { 2, 2 }), /* 12 x 12 */
        st_batchnorm(), st_relu(),
        st_residual(st_sequence(st_conv2d(.out_channels = 8, .kernel = { 3, 3 }, .padding = { 1, 1 }),
                                st_batchnorm())),
        st_maxpool(.kernel = { 2, 2 }), st_dropout(.p = 0.3), st_flatten(), st_dense(.out_features = 20),
        st_tanh(), st_dense(.out_features = 10));
}

outcome train_together(const together *what, const st_comm *t)
{
    const int rank = t ? t->rank : 0;
    ptrdiff_t samples = what->samples ? what->samples : 46;
    st_tensor x = st_tensor_new(ST_SHAPE(samples, 1, 28, 28)), y = st_tensor_new(ST_SHAPE(samples));
    st_dataset *digits = st_digits(samples, 1), *validation = st_digits(25, 2),
               *set = st_dataset_tensors(x, y),
               *drawn = st_dataset_augment(set, .shift = 2, .rotation = 10, .noise = 0.1, .seed = 7);
    st_dataset_batch(digits, NULL, 0, samples, x, y);
    if (what->spoil) what->spoil(x, y, rank);
    st_net *n = (what->make ? what->make : with_all_layers)();
    st_optim *o = st_sgd(.lr = what->lr > 0 ? what->lr : 0.05, .momentum = 0.9, .nesterov = true);
    st_train_options options = { .loss = st_cross_entropy(.label_smoothing = 0.1),
                                 .optim = o,
                                 .epochs = what->epochs ? what->epochs : 2,
                                 .batch = what->batch ? what->batch : 12,
                                 .schedule = st_one_cycle_lr(),
                                 .validation = validation,
                                 .seed = 5,
                                 .micro_batches = what->micro_batches,
                                 .ranks = t };
    st_dataset *own = what->set ? what->set() : NULL;
    if (own) options.validation = own;
    if (what->change) what->change(&options, rank);
    outcome out = { 0 };
    out.status = st_train_run(n, own ? own : what->plain ? set : drawn, options, &out.result);
    if (st_error()) strcpy(out.error, st_error());
    st_error_clear();
    if (!st_is_null(st_net_parameters(n)))
        out.parameters = st_tensor_clone(st_net_parameters(n)),
        out.states = st_tensor_clone(st_net_states(n));
    st_net_free(n), st_optim_free(options.optim);
    st_dataset_free(own), st_dataset_free(drawn), st_dataset_free(set), st_dataset_free(digits),
        st_dataset_free(validation);
    st_tensor_free(x), st_tensor_free(y);
    return out;
}

/* ---- ranks that are threads ---------------------------------------------------------------------------- */

/* Each shows the others where its own is, between two meetings. */
typedef struct place {
    pthread_barrier_t meeting;
    const void *shown[MOST_RANKS];
    int allowed, calls[MOST_RANKS];
} place;

static void meet(const st_comm *t)
{
    pthread_barrier_wait(&((place *)t->own)->meeting);
}

/* NULL at all ranks if this call fails. */
static const void *const *show(const st_comm *t, const void *mine)
{
    place *p = t->own;
    if (++p->calls[t->rank] > p->allowed) return st_error_set("the ranks are apart"), NULL;
    p->shown[t->rank] = mine;
    meet(t);
    return p->shown;
}

static int all_gather(const st_comm *t, ptrdiff_t n, size_t size, void *x)
{
    const void *const *shown = show(t, x);
    if (!shown) return -1;
    for (int q = 0; q < t->ranks; q++) {
        size_t first = (size_t)st_comm_first(t, n, q) * size, end = (size_t)st_comm_first(t, n, q + 1) * size;
        if (q != t->rank) memcpy((char *)x + first, (const char *)shown[q] + first, end - first);
    }
    meet(t);
    return 0;
}

static int all_to_all(const st_comm *t, ptrdiff_t n, size_t size, const void *x, void *parts)
{
    const void *const *shown = show(t, x);
    if (!shown) return -1;
    ptrdiff_t first = st_comm_first(t, n, t->rank), own = st_comm_first(t, n, t->rank + 1) - first;
    for (int q = 0; q < t->ranks; q++)
        memcpy((char *)parts + (size_t)(q * own) * size, (const char *)shown[q] + (size_t)first * size,
               (size_t)own * size);
    meet(t);
    return 0;
}

static int broadcast(const st_comm *t, int from, ptrdiff_t n, size_t size, void *x)
{
    const void *const *shown = show(t, x);
    if (!shown) return -1;
    if (t->rank != from) memcpy(x, shown[from], (size_t)n * size);
    meet(t);
    return 0;
}

static int all_min(const st_comm *t, int *x)
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
static int all_reduce(const st_comm *t, ptrdiff_t n, st_real *x)
{
    const void *const *shown = show(t, x);
    if (!shown) return -1;
    st_real *all = calloc((size_t)n, sizeof *all);
    for (int q = t->ranks - 1; q >= 0; q--)
        for (ptrdiff_t i = 0; i < n; i++) all[i] += ((const st_real *)shown[q])[i];
    meet(t);
    memcpy(x, all, (size_t)n * sizeof *x);
    free(all);
    return 0;
}

typedef struct member {
    st_comm team;
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
