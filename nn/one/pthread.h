/* pthread.h: mutexes and cancellation, which builds without threads need not have. */
#ifndef STRIDE_NN_ONE_PTHREAD_H
#define STRIDE_NN_ONE_PTHREAD_H

#ifndef ST_OMIT_THREADS
#include <pthread.h>
#else
typedef int one_mutex;
#define pthread_mutex_t one_mutex
#undef PTHREAD_MUTEX_INITIALIZER
#define PTHREAD_MUTEX_INITIALIZER 0
#define PTHREAD_CANCEL_DISABLE 0
#define pthread_setcancelstate(state, before) ((void)(*(before) = (state)))
#define pthread_mutex_lock(mutex) ((void)(mutex))
#define pthread_mutex_unlock(mutex) ((void)(mutex))
#endif

#endif
