/* parallel.h: the thread pool; private to the library. */
#ifndef STRIDE_TENSOR_PARALLEL_H
#define STRIDE_TENSOR_PARALLEL_H

#include "tensor/threads.h"

#include <stddef.h>

enum { MOST_THREADS = 64 };

/* Calls work(i, thread, context) for 0 <= i < count, in any order, on at most `threads` threads. `thread` is
 * less than that, 0 for the caller, and different for calls that run at the same time. If several items fail,
 * the caller gets the error of the lowest i. A call from inside of `work`, or while another thread uses the
 * pool, runs in the caller alone. */
void parallel_for(int threads, ptrdiff_t count, void (*work)(ptrdiff_t i, int thread, void *context),
                  void *context);

/* threads.c: the number of threads to use; and -1 with an error if the environment's is not a number. */
int threads_wanted(void);
int threads_check(void);

#endif
