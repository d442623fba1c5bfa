/* threads.h: the number of threads to use; private to this folder. */
#ifndef STRIDE_TENSOR_THREADS_THREADS_H
#define STRIDE_TENSOR_THREADS_THREADS_H

int threads_wanted(void);
int threads_set(int threads);
int threads_check(void); /* -1 with an error: the environment's is not a number */

#endif
