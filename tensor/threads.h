/* threads.h: the number of threads that the library works with.
 *
 * Results are the same bits for any number. Threads are started when they are first needed and sleep while
 * there is nothing to do. All threads of a program share them: while one thread's work is being shared,
 * the others work alone. A child of fork() starts its own. */
#ifndef STRIDE_TENSOR_THREADS_H
#define STRIDE_TENSOR_THREADS_H

#include "tensor/api.h"

ST_API_BEGIN

/* Sets the number of threads for the whole process, the caller among them; above 64 it is 64. A net that is
 * already built never takes more than it was built for. 0 restores the default, which is the first of these:
 *
 *   STRIDE_THREADS    in the environment; if it is not a whole number from 1, building a net fails
 *   OMP_NUM_THREADS   likewise, the first number of its list; ignored if it is not a whole number from 1
 *   the processors    that this process may use: on Linux its affinity and its control group's quota count
 *
 * More threads than processors are allowed, but slow each other down. -1 with an error for a negative
 * number. */
int st_set_num_threads(int threads);

/* The number of threads that would share work started now: 1 inside of work that is shared already. */
int st_num_threads(void);

ST_API_END

#endif
