/* pool.c: a pool of POSIX threads.
 *
 * A caller posts its job, processes its own part, helps with the other parts, closes the job, and waits only
 * for workers that are inside of it. It does not wait for a worker that the scheduler has not run yet: on a
 * busy machine the caller processes that worker's part itself.
 *
 * A worker counts itself `inside` before it reads whether the job is open, and the caller closes the job
 * before it reads whether anyone is inside. Both write before they read, in sequentially consistent order, so
 * that at least one of them sees the other. A thread that falls asleep, and one that wakes it, do the
 * same. */
#define _POSIX_C_SOURCE 200809L
#include "tensor/error.h"
#include "tensor/parallel.h"
#include "tensor/threads/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The number of pauses, each of about 40 nanoseconds, that a thread spins for before it sleeps. A spinning
 * worker takes time from other processes; a caller only waits for the last items. */
int pool_pauses = 600;
enum { CALLER_PAUSES = 2000 };

enum { STACK = 8 << 20 }; /* bytes of a worker's stack */

/* The number of items taken from a thread's part, on a cache line of its own. */
typedef struct part {
    _Alignas(64) atomic_ptrdiff_t taken;
} part;

typedef struct job {
    int threads;
    ptrdiff_t count;
    parallel_work *work;
    void *context;
    bool had_error;            /* the caller had an error before, which is kept */
    ptrdiff_t first_failed;    /* count: none */
    char error[ST_ERROR_SIZE]; /* that item's */
    part parts[MOST_THREADS];
} job;

static struct pool {
    atomic_int busy;   /* in use by a caller */
    atomic_int ending; /* workers return */
    int workers;       /* started; numbered from 1 */
    pthread_t id[MOST_THREADS];
    job *job;             /* valid while a post is open, or a worker that saw it open is inside */
    atomic_uint post;     /* incremented when a job is opened, and when it is closed: odd while open */
    atomic_int inside;    /* workers that may be running the job */
    atomic_int asleep;    /* workers that sleep until `posted` */
    atomic_int waits;     /* the caller sleeps until `left` */
    pthread_mutex_t lock; /* of both conditions and of a job's error */
    pthread_cond_t posted, left;
} pool;

static _Thread_local bool sharing; /* this thread is inside of parallel work */

/* A child of fork() has none of its parent's threads: its pool becomes empty and free. */
static void empty_pool(void)
{
    memset(&pool, 0, sizeof pool);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.posted, NULL);
    pthread_cond_init(&pool.left, NULL);
}

static void prepare_pool(void)
{
    empty_pool();
    pthread_atfork(NULL, NULL, empty_pool);
}

/* Wakes the threads that sleep. A thread that takes the lock later sees the change. */
static void wake(pthread_cond_t *sleepers)
{
    pthread_mutex_lock(&pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_cond_broadcast(sleepers);
}

static void pause_awake(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Takes the next item of a thread's part; -1: none is left. */
static ptrdiff_t take(job *j, int thread)
{
    ptrdiff_t first = j->count * thread / j->threads, end = j->count * (thread + 1) / j->threads;
    ptrdiff_t i = first + atomic_fetch_add_explicit(&j->parts[thread].taken, 1, memory_order_relaxed);
    return i < end ? i : -1;
}

/* Moves this thread's error to the job, if item i is the lowest that failed. */
static void collect(job *j, ptrdiff_t i)
{
    pthread_mutex_lock(&pool.lock);
    if (i < j->first_failed) {
        j->first_failed = i;
        memcpy(j->error, st_error(), strlen(st_error()) + 1);
    }
    pthread_mutex_unlock(&pool.lock);
    st_error_clear();
}

/* A thread begins with its own part, which is the same in each job of that count: its cache may still hold
 * the data. */
static void work_on(job *j, int thread)
{
    for (int k = 0; k < j->threads; k++)
        for (ptrdiff_t i; (i = take(j, (thread + k) % j->threads)) >= 0;) {
            j->work(i, thread, j->context);
            if (st_error() && !(thread == 0 && j->had_error)) collect(j, i);
        }
}

static bool is_news(unsigned post, unsigned seen)
{
    return post % 2 == 1 && post != seen;
}

static void await_post(unsigned seen)
{
    for (int k = 0; k < pool_pauses; k++) {
        if (is_news(pool.post, seen) || pool.ending) return;
        pause_awake();
    }
    pthread_mutex_lock(&pool.lock);
    pool.asleep++;
    while (!is_news(pool.post, seen) && !pool.ending) pthread_cond_wait(&pool.posted, &pool.lock);
    pool.asleep--;
    pthread_mutex_unlock(&pool.lock);
}

static void *serve(void *number)
{
    const int thread = (int)(intptr_t)number;
    sharing = true;
    for (unsigned seen = 0;;) {
        await_post(seen);
        if (pool.ending) return NULL;
        pool.inside++;
        unsigned post = pool.post;
        if (is_news(post, seen)) {
            if (thread < pool.job->threads) work_on(pool.job, thread);
            seen = post;
        }
        if (--pool.inside == 0 && pool.waits) wake(&pool.left);
    }
}

/* When the process ends, idle workers end first: tools that look for leaks find nothing of theirs. A pool at
 * work is left alone. */
__attribute__((destructor)) static void dismiss(void)
{
    if (atomic_exchange(&pool.busy, true) || pool.workers == 0) return;
    pool.ending = true;
    wake(&pool.posted);
    for (int i = 0; i < pool.workers; i++) pthread_join(pool.id[i], NULL);
}

/* Starts missing workers if possible; returns the number of threads available. */
static int hire(int threads)
{
    pthread_attr_t attributes;
    if (pool.workers >= threads - 1) return threads;
    if (pthread_attr_init(&attributes)) return pool.workers + 1;
    pthread_attr_setstacksize(&attributes, STACK);
    for (; pool.workers < threads - 1; pool.workers++)
        if (pthread_create(&pool.id[pool.workers], &attributes, serve, (void *)(intptr_t)(pool.workers + 1)))
            break;
    pthread_attr_destroy(&attributes);
    return pool.workers + 1;
}

static void await_workers(void)
{
    for (int k = 0; k < CALLER_PAUSES && pool.inside > 0; k++) pause_awake();
    if (pool.inside == 0) return;
    pthread_mutex_lock(&pool.lock);
    pool.waits = true;
    while (pool.inside > 0) pthread_cond_wait(&pool.left, &pool.lock);
    pool.waits = false;
    pthread_mutex_unlock(&pool.lock);
}

/* A function of its own: the job is large, and work that is not shared nests. */
__attribute__((noinline)) static void run(int threads, ptrdiff_t count, parallel_work *work, void *context)
{
    job j = { hire(threads), count, work, context, .had_error = st_error(), .first_failed = count };
    const unsigned open = pool.post + 1;
    pool.job = &j;
    pool.post = open;
    if (pool.asleep > 0) wake(&pool.posted);
    sharing = true;
    work_on(&j, 0);
    sharing = false;
    pool.post = open + 1;
    await_workers();
    if (j.first_failed < count) st_error_set("%s", j.error);
}

static int wanted(void)
{
    return sharing ? 1 : threads_wanted();
}

static bool share(int threads, ptrdiff_t count, parallel_work *work, void *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int most = wanted();
    if (most > threads) most = threads;
    if (most > count) most = (int)count;
    if (most < 2) return false;
    pthread_once(&once, prepare_pool);
    if (atomic_exchange(&pool.busy, true)) return false;
    run(most, count, work, context);
    /* In a child of fork() the pool is empty, and items that the parent's workers had begun are lost. */
    if (!atomic_exchange(&pool.busy, false))
        st_error_set("this process was forked while its threads were at work");
    return true;
}

static const parallel_pool threads_pool = { threads_set, wanted, threads_check, share };
const parallel_pool *parallel_threads = &threads_pool;
