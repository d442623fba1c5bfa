/* parallel.c: work that threads share, by OpenMP where the compiler has it; in turn where not. */
#define _POSIX_C_SOURCE 200809L
#include "tensor/parallel.h"
#include "tensor/error.h"

#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
#include <stdbool.h>

/* A child has none of its parent's threads, but OpenMP believes that it has: it works with one. */
static bool forked;

static void note_fork(void)
{
    forked = true;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, note_fork);
}

int parallel_threads(void)
{
    return forked || omp_in_parallel() ? 1 : omp_get_max_threads();
}

/* The first of the errors met, by the number of the work that met it. */
typedef struct failure {
    ptrdiff_t first;
    char text[ERROR_SIZE];
} failure;

/* An error in a worker belongs to whoever called, and is not left behind. */
static void collect(failure *f, ptrdiff_t i)
{
#pragma omp critical(stride_parallel_failure)
    if (i < f->first) {
        f->first = i;
        memcpy(f->text, error_text(), strlen(error_text()) + 1);
    }
    error_clear();
}

enum { MOST_THREADS = 64 };

/* How many of a thread's part have been taken; on a cache line of its own. */
typedef struct part {
    _Alignas(64) ptrdiff_t taken;
} part;

/* The next of a thread's part that nobody has taken; -1: none is left. */
static ptrdiff_t take(part *parts, int thread, int threads, ptrdiff_t count)
{
    ptrdiff_t first = count * thread / threads, end = count * (thread + 1) / threads, taken;
#pragma omp atomic capture
    taken = parts[thread].taken++;
    return first + taken < end ? first + taken : -1;
}

/* A thread has its own part, the same whenever there is as much: what it left in its cache it finds there again. Who
 * is done with it helps the others. */
static void share(int threads, ptrdiff_t count, void (*work)(ptrdiff_t i, int thread, void *context),
                  void *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    failure f = { .first = count };
    bool had_one = error_text() != NULL; /* the caller: its own stays */
    part parts[MOST_THREADS] = { { 0 } };
#pragma omp parallel num_threads(threads < MOST_THREADS ? threads : MOST_THREADS)
    {
        const int thread = omp_get_thread_num(), team = omp_get_num_threads();
        for (int k = 0; k < team; k++)
            for (ptrdiff_t i; (i = take(parts, (thread + k) % team, team, count)) >= 0;) {
                work(i, thread, context);
                if (error_text() && !(thread == 0 && had_one)) collect(&f, i);
            }
    }
    if (f.first < count) error_set("%s", f.text);
}
#else
int parallel_threads(void)
{
    return 1;
}

static void share(int threads, ptrdiff_t count, void (*work)(ptrdiff_t i, int thread, void *context),
                  void *context)
{
    (void)threads;
    for (ptrdiff_t i = 0; i < count; i++) work(i, 0, context);
}
#endif

void parallel_for(int threads, ptrdiff_t count, void (*work)(ptrdiff_t i, int thread, void *context),
                  void *context)
{
    if (threads > 1 && count > 1 && parallel_threads() > 1) share(threads, count, work, context);
    else
        for (ptrdiff_t i = 0; i < count; i++) work(i, 0, context);
}
