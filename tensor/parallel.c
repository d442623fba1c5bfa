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

static void share(int threads, ptrdiff_t count, void (*work)(ptrdiff_t i, int thread, void *context),
                  void *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    failure f = { .first = count };
    bool had_one = error_text() != NULL; /* the caller: its own stays */
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (ptrdiff_t i = 0; i < count; i++) {
        int thread = omp_get_thread_num();
        work(i, thread, context);
        if (error_text() && !(thread == 0 && had_one)) collect(&f, i);
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
