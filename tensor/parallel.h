/* parallel.h: work that threads share. */
#ifndef STRIDE_TENSOR_PARALLEL_H
#define STRIDE_TENSOR_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>

/* Threads that could share work here and now: 1 where it is shared already, and in the child of a process that has
 * shared work, whose threads stayed behind. */
int parallel_threads(void);

/* work(i, thread, context) for i below count, in any order, by up to so many threads, which are numbered from 0: the
 * caller. Of several errors the caller is left with that of the least i. A single thread goes on in its own: for a
 * parallel region inside another OpenMP would make new threads each time. */
void parallel_for(int threads, ptrdiff_t count, void (*work)(ptrdiff_t i, int thread, void *context),
                  void *context);

#endif
