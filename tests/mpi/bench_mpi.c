/* bench_mpi.c: what ranks of one machine train in a second, and how long they take to say something to each
 * other.
 *
 * Rounds of all kinds alternate; a figure is the best of its rounds, at rank 0: on a busy machine the others
 * are not its own.
 *
 *     mpirun -n 2 bench_mpi [talk]     without training */
#define _POSIX_C_SOURCE 200809L
#include "nn/data/digits.h"
#include "nn/ranks/mpi.h"
#include <stride.h>
#include "tests/bench/networks.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 31, SAMPLES = 256, MOST = 1 << 22 }; /* elements sent at once */

static const st_comm *all;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double greatest(const double of[ROUNDS])
{
    double most = of[0];
    for (int k = 1; k < ROUNDS; k++)
        if (of[k] > most) most = of[k];
    return most;
}

/* ---- training ------------------------------------------------------------------------------------------ */

typedef struct way {
    const char *name;
    int batch; /* of all ranks */
    bool unordered;
} way;
static const way ways[] = { { "in order", 64, false }, { "in order", 32, false }, { "MPI's sum", 64, true } };
enum { WAYS = sizeof ways / sizeof *ways };

/* In a second: images by the clock, and steps of processor time, which at one rank is free of what else
 * runs. */
typedef struct speed {
    double images[ROUNDS], steps[ROUNDS];
} speed;

static void train_once(st_net *n, st_optim *o, const st_dataset *d, const way *w, speed *s, int k)
{
    st_train_result r = { 0 };
    clock_t began = clock();
    st_train(n, d, .loss = st_cross_entropy(), .optim = o, .batch = w->batch, .ranks = all,
             .unordered = w->unordered, .result = &r);
    s->images[k] = r.samples_per_second;
    s->steps[k] = (double)r.steps * CLOCKS_PER_SEC / (double)(clock() - began);
}

static void measure_training(const char *name, const st_dataset *d)
{
    static speed s[WAYS];
    st_net *n = network_new(name);
    st_optim *o = st_sgd(.lr = 0.01, .momentum = 0.9);
    for (int k = 0; k < ROUNDS; k++)
        for (int w = 0; w < WAYS; w++) train_once(n, o, d, &ways[w], &s[w], k);
    st_net_free(n), st_optim_free(o);
    for (int w = 0; w < WAYS && all->rank == 0; w++)
        printf("train %-8s %d ranks, batch %2d, %-9s %8.0f images/s, %8.0f us of processor time a step\n",
               name, all->ranks, ways[w].batch, ways[w].name, greatest(s[w].images),
               1e6 / greatest(s[w].steps));
}

/* ---- what they say to each other ----------------------------------------------------------------------- */

typedef struct talk {
    const char *name;
    void (*say)(ptrdiff_t n, st_real *x, st_real *room);
} talk;

static void in_order(ptrdiff_t n, st_real *x, st_real *room)
{
    all->all_to_all(all, n, sizeof *x, x, room);
    all->all_gather(all, n, sizeof *x, x);
}
static void own_sum(ptrdiff_t n, st_real *x, st_real *room)
{
    (void)room;
    all->all_reduce(all, n, x);
}
static void agree(ptrdiff_t n, st_real *x, st_real *room)
{
    (void)n, (void)x, (void)room;
    st_comm_agree(all);
}
static void gather(ptrdiff_t n, st_real *x, st_real *room)
{
    (void)room;
    all->all_gather(all, n, sizeof *x, x);
}

static const talk talks[] = {
    { "in order", in_order }, { "MPI's sum", own_sum }, { "agree", agree }, { "gather", gather }
};

static void measure_talk(const talk *t, ptrdiff_t n, st_real *x, st_real *room)
{
    double often[ROUNDS]; /* in a second */
    int times = n < 1 << 16 ? 50 : 3;
    for (int k = 0; k < ROUNDS; k++) {
        double began = now();
        for (int i = 0; i < times; i++) t->say(n, x, room);
        often[k] = times / (now() - began);
    }
    if (all->rank == 0) printf("%-9s %8td elements %10.1f us\n", t->name, n, 1e6 / greatest(often));
}

int main(int argc, char **argv)
{
    bool trains = argc < 2 || strcmp(argv[1], "talk") != 0;
    st_dataset *d = st_digits(SAMPLES, 1);
    st_real *x = calloc(MOST, sizeof *x), *room = calloc(MOST + 64, sizeof *room);
    all = st_mpi_begin();
    if (!all || !d || !x || !room) return 1;
    if (trains) measure_training("lenet5", d), measure_training("example", d);
    if (all->ranks > 1) {
        measure_talk(&talks[2], 1, x, room);
        measure_talk(&talks[3], 3 * all->ranks, x, room);
        for (ptrdiff_t n = 1 << 10; n <= MOST; n *= 4)
            for (int t = 0; t < 2; t++) measure_talk(&talks[t], n, x, room);
    }
    if (st_error()) fprintf(stderr, "bench_mpi: %s\n", st_error());
    st_dataset_free(d), free(x), free(room);
    st_mpi_end(all);
    return st_error() != NULL;
}
