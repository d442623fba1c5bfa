/* threads.h: the number of threads in the library's pool.
 *
 * Results are bit-identical for any number of threads. The pool is started when it is first needed, and idle
 * threads sleep. All threads of a program share one pool: while one of them uses it, the others run their
 * work alone. A child of fork() starts its own pool. */
#ifndef STRIDE_TENSOR_THREADS_H
#define STRIDE_TENSOR_THREADS_H

#include "tensor/api.h"

ST_API_BEGIN

/* Sets the number of threads for the whole process, the caller included, at most 64. A net that is already
 * built never uses more than it was built for. 0 restores the default, which is the first of these:
 *
 *   STRIDE_THREADS    in the environment; a value that is not a positive integer makes building a net fail
 *   OMP_NUM_THREADS   likewise, the first number of its list; ignored unless it is a positive integer
 *   the processors    available to this process: on Linux by its affinity and its control group's quota
 *
 * More threads than processors are allowed, but slow. -1 with an error for a negative number. */
int st_set_num_threads(int threads);

/* The number of threads that would share work started now: 1 inside of parallel work. */
int st_num_threads(void);

ST_API_END

#endif
