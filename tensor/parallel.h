/* parallel.h: work that may be shared among threads; private to the library. */
#ifndef STRIDE_TENSOR_PARALLEL_H
#define STRIDE_TENSOR_PARALLEL_H

#include "tensor/threads.h"

#include <stdbool.h>
#include <stddef.h>

enum { MOST_THREADS = 64 };

/* Calls work(i, thread, context) for 0 <= i < count, in any order, on at most `threads` threads. `thread` is
 * the number of the thread, from 0, which is the caller. If several items fail, the caller gets the error of
 * the lowest i. A call from inside of `work`, or while another thread uses the pool, runs in the caller
 * alone. */
typedef void parallel_work(ptrdiff_t i, int thread, void *context);
void parallel_for(int threads, ptrdiff_t count, parallel_work *work, void *context);

/* The fewest items that are worth a thread, where each item copies this many elements. */
static inline ptrdiff_t parallel_grain(ptrdiff_t elements)
{
    return 1 + (1 << 13) / (elements > 0 ? elements : 1);
}

/* A pool of threads. */
typedef struct parallel_pool {
    int (*set)(int threads); /* st_set_num_threads, of a number that is not negative */
    int (*wanted)(void);     /* st_num_threads */
    int (*check)(void);      /* -1 with an error: the environment's number of threads is not a number */
    /* parallel_for with more than one thread; false: the pool is in use */
    bool (*share)(int threads, ptrdiff_t count, parallel_work *work, void *context);
} parallel_pool;

/* NULL in the core, where work runs in the caller; tensor/threads/ puts its pool in (tables.h). */
extern const parallel_pool *parallel_threads;

#endif
