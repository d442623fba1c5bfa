/* parallel.h: work that threads share; private to the library. */
#ifndef STRIDE_TENSOR_PARALLEL_H
#define STRIDE_TENSOR_PARALLEL_H

#include "tensor/threads.h"

#include <stddef.h>

enum { MOST_THREADS = 64 };

/* Calls work(i, thread, context) for each i below count, in any order, on at most so many threads.
 * `thread` is below that number, 0 for the caller, and differs between calls that run at the same time. If
 * several items fail, the caller is left with the error of the least i. A call from inside of `work`, or
 * while another thread's work is being shared, runs in the caller alone. */
void parallel_for(int threads, ptrdiff_t count, void (*work)(ptrdiff_t i, int thread, void *context),
                  void *context);

/* threads.c: the number that is set, and -1 with an error where the environment's is no number. */
int threads_wanted(void);
int threads_check(void);

#endif
