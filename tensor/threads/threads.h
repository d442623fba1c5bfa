/* threads.h: the number of threads to use, and how long they spin; private to this folder, and to tests. */
#ifndef STRIDE_TENSOR_THREADS_THREADS_H
#define STRIDE_TENSOR_THREADS_THREADS_H

int threads_wanted(void);
int threads_set(int threads);
int threads_check(void); /* -1 with an error: the environment's is not a number */

extern int pool_pauses; /* of an idle worker before it sleeps (pool.c) */

#endif
