/* test_parallel.c: the pool of threads, and the settings that say how many there are. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "tests/support.h"

#include "layers/layers.h"
#include "nn/net.h"
#include "tensor/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS = 1000 };

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

/* ---- items ---------------------------------------------------------------------------------------- */

typedef struct tally {
    int threads;
    bool meets; /* thread 0 waits in an item until a worker has done one */
    atomic_int done[ITEMS], at_work[MOST_THREADS];
    atomic_int by_workers, wrong;
} tally;

static void count_item(ptrdiff_t i, int thread, void *context)
{
    tally *t = context;
    if (thread < 0 || thread >= t->threads) {
        t->wrong++;
        return;
    }
    t->wrong += t->at_work[thread]++ > 0; /* two calls under one number */
    t->done[i]++;
    t->by_workers += thread > 0;
    for (int k = 0; k < 10000 && t->meets && thread == 0 && t->by_workers == 0; k++) sleep_ms(1);
    t->at_work[thread]--;
}

/* True where the first `count` items have been done once, and nothing else. */
static bool all_done(tally *t, ptrdiff_t count)
{
    bool good = t->wrong == 0;
    for (ptrdiff_t i = 0; i < ITEMS; i++) good = good && t->done[i] == (i < count);
    return good;
}

TEST(each_item_is_done_once_under_a_number_of_its_own)
{
    static const ptrdiff_t counts[] = { 0, 1, 2, 7, ITEMS };
    for (int threads = 1; threads <= 8; threads++) {
        st_set_num_threads(threads);
        for (int c = 0; c < 5; c++) {
            about("%d threads, %td items", threads, counts[c]);
            bool shared = threads > 1 && counts[c] > 1;
            tally t = { .threads = threads, .meets = shared };
            parallel_for(threads, counts[c], count_item, &t);
            assert_true(all_done(&t, counts[c]));
            assert_true(shared == (t.by_workers > 0));
        }
    }
    st_set_num_threads(2); /* for a caller that asks for more, and of more workers that are there */
    tally t = { .threads = 2, .meets = true };
    parallel_for(8, ITEMS, count_item, &t);
    assert_true(all_done(&t, ITEMS));
}

static void share_within(ptrdiff_t i, int thread, void *context)
{
    tally *t = (tally *)context + i;
    t->wrong += st_num_threads() != 1;
    t->threads = 1;
    parallel_for(4, ITEMS, count_item, t);
}

TEST(a_call_inside_of_an_item_runs_in_its_thread_alone)
{
    enum { OUTER = 16 };
    st_set_num_threads(4);
    tally *t = calloc(OUTER, sizeof *t);
    parallel_for(4, OUTER, share_within, t);
    for (int i = 0; i < OUTER; i++) assert_true(all_done(&t[i], ITEMS));
    assert_int_equal(st_num_threads(), 4);
    free(t);
}

/* ---- errors --------------------------------------------------------------------------------------- */

static void fail_from(ptrdiff_t i, int thread, void *context)
{
    if (i >= *(ptrdiff_t *)context) st_error_set("item %td fails", i);
}

TEST(the_caller_is_left_with_the_error_of_the_least_item)
{
    for (int threads = 1; threads <= 4; threads++) {
        st_set_num_threads(threads);
        for (ptrdiff_t least = 0; least < ITEMS; least += 37) {
            parallel_for(threads, ITEMS, fail_from, &least);
            expect_error("item %td fails", least);
            parallel_for(threads, ITEMS, fail_from, &(ptrdiff_t){ ITEMS }); /* no worker has kept one */
            assert_null(st_error());
        }
    }
}

TEST(an_older_error_of_the_caller_stays)
{
    st_set_num_threads(4);
    st_error_set("older");
    parallel_for(4, ITEMS, fail_from, &(ptrdiff_t){ 0 });
    expect_error("older");
}

/* ---- callers and children ------------------------------------------------------------------------- */

typedef struct user {
    atomic_bool *stop;
    int calls, bad;
} user;

static void *call_often(void *context)
{
    user *u = context;
    while (u->stop ? !*u->stop : u->calls < 500) {
        tally t = { .threads = 4 };
        parallel_for(4, ITEMS, count_item, &t);
        u->bad += !all_done(&t, ITEMS);
        u->calls++;
    }
    return NULL;
}

TEST(threads_of_a_program_may_call_at_once)
{
    enum { USERS = 3 };
    pthread_t thread[USERS];
    user u[USERS] = { { 0 } };
    st_set_num_threads(4);
    for (int i = 0; i < USERS; i++) assert_int_equal(pthread_create(&thread[i], NULL, call_often, &u[i]), 0);
    for (int i = 0; i < USERS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(u[i].calls, 500);
        assert_int_equal(u[i].bad, 0);
    }
}

/* Ends a child with 0 where its own workers share its work. */
static void work_in_child(void)
{
    alarm(60);
    tally t = { .threads = 4, .meets = true };
    parallel_for(4, ITEMS, count_item, &t);
    _exit(!all_done(&t, ITEMS) || t.by_workers == 0 || st_error());
}

static void assert_good(pid_t child)
{
    int status;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(a_child_has_workers_of_its_own)
{
    st_set_num_threads(4);
    tally t = { .threads = 4, .meets = true };
    parallel_for(4, ITEMS, count_item, &t);
    pid_t child = fork();
    if (child == 0) work_in_child();
    assert_good(child);
}

TEST(a_child_may_be_born_while_another_thread_shares_work)
{
    st_set_num_threads(4);
    pthread_t thread;
    atomic_bool stop = false;
    user u = { .stop = &stop };
    assert_int_equal(pthread_create(&thread, NULL, call_often, &u), 0);
    for (int k = 0; k < 30; k++) {
        pid_t child = fork();
        if (child == 0) work_in_child();
        assert_good(child);
    }
    stop = true;
    pthread_join(thread, NULL);
    assert_true(u.calls > 0 && u.bad == 0);
}

static void fork_once(ptrdiff_t i, int thread, void *context)
{
    atomic_int *child = context;
    if (thread == 0 && *child < 0) {
        *child = fork();
        if (*child == 0) alarm(60);
    }
    for (int k = 0; k < 10000 && *child < 0; k++) sleep_ms(1); /* workers leave an item to the caller */
}

/* The child does not have the items that its parent's workers had begun. */
TEST(a_child_from_within_an_item_is_told_that_items_are_missing)
{
    st_set_num_threads(4);
    atomic_int child = -1;
    parallel_for(4, ITEMS, fork_once, &child);
    if (child == 0) {
        bool told = st_error() && strstr(st_error(), "forked");
        st_error_clear();
        if (!told) _exit(2);
        work_in_child();
    }
    assert_null(st_error());
    assert_good(child);
}

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

TEST(threads_that_cannot_be_started_are_done_without)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || HAS_FEATURE(address_sanitizer) ||       \
    HAS_FEATURE(thread_sanitizer) || HAS_FEATURE(memory_sanitizer)
    skip_because("a sanitizer's own memory would be refused as well");
#endif
    st_set_num_threads(MOST_THREADS);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = { 0, 0 };
        tally t = { .threads = MOST_THREADS };
        alarm(60);
        if (setrlimit(RLIMIT_AS, &none)) _exit(2);
        parallel_for(MOST_THREADS, ITEMS, count_item, &t);
        _exit(!all_done(&t, ITEMS) || st_error());
    }
    assert_good(child);
}

/* ---- waiting -------------------------------------------------------------------------------------- */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

TEST(workers_without_work_sleep)
{
    st_set_num_threads(4);
    tally t = { .threads = 4, .meets = true };
    parallel_for(4, ITEMS, count_item, &t);
    double before = cpu_seconds();
    sleep_ms(200);
    assert_true(cpu_seconds() - before < 0.02);
}

static void sleep_in_a_worker(ptrdiff_t i, int thread, void *context)
{
    atomic_int *came = context;
    *came += thread > 0;
    for (int k = 0; k < 10000 && thread == 0 && *came == 0; k++) sleep_ms(1);
    if (thread > 0) sleep_ms(200);
    *came += thread > 0;
}

TEST(a_caller_waits_for_the_last_item_and_sleeps)
{
    st_set_num_threads(2);
    atomic_int came = 0;
    double before = cpu_seconds();
    parallel_for(2, 2, sleep_in_a_worker, &came);
    assert_int_equal(came, 2); /* the worker came, and left */
    assert_true(cpu_seconds() - before < 0.02);
}

/* ---- settings ------------------------------------------------------------------------------------- */

static void put(const char *variable, const char *value)
{
    if (value) setenv(variable, value, 1);
    else unsetenv(variable);
}

static int threads_with(const char *stride, const char *omp)
{
    put("STRIDE_THREADS", stride), put("OMP_NUM_THREADS", omp);
    st_set_num_threads(0);
    int threads = st_num_threads();
    put("STRIDE_THREADS", NULL), put("OMP_NUM_THREADS", NULL);
    return threads;
}

TEST(the_program_then_the_environment_then_the_machine_decide)
{
    const int machine = threads_with(NULL, NULL);
    assert_true(machine >= 1 && machine <= sysconf(_SC_NPROCESSORS_ONLN));
    const struct {
        const char *stride, *omp;
        int threads;
    } cases[] = { { "3", "5", 3 },         { NULL, "5", 5 },        { "", "5", 5 },
                  { NULL, "5,2", 5 },      { "3", "x", 3 },         { "1000", NULL, 64 },
                  { NULL, "0", machine },  { NULL, "-2", machine }, { NULL, "many", machine },
                  { NULL, "2x", machine }, { "x", "5", 5 },         { NULL, "99999999999999999999", 64 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        about("STRIDE_THREADS=%s OMP_NUM_THREADS=%s", cases[i].stride ? cases[i].stride : "(unset)",
              cases[i].omp ? cases[i].omp : "(unset)");
        assert_int_equal(threads_with(cases[i].stride, cases[i].omp), cases[i].threads);
    }
    setenv("STRIDE_THREADS", "3", 1);
    assert_int_equal(st_set_num_threads(7), 0);
    assert_int_equal(st_num_threads(), 7);
    expect_failure(st_set_num_threads(-1),
                   "st_set_num_threads: -1 threads; expected at least 1, or 0 for the default");
    assert_int_equal(st_num_threads(), 7);
    assert_int_equal(st_set_num_threads(65), 0);
    assert_int_equal(st_num_threads(), 64);
    unsetenv("STRIDE_THREADS");
    assert_int_equal(st_set_num_threads(0), 0);
}

/* A process that may run on one processor has one thread, however many processors there are. */
TEST(affinity_counts)
{
#if defined(__linux__)
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int threads = threads_with(NULL, NULL);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(threads, 1);
    st_set_num_threads(0);
#else
    skip_because("this system has no sched_setaffinity");
#endif
}

TEST(a_number_of_threads_that_is_none_is_refused)
{
    static const char *const bad[] = { "0", "-1", "many", "2x", "1.5", "2,3" };
    auto_net *n = st_net_new(ST_SHAPE(2), st_relu());
    for (int i = 0; i < 6; i++) {
        setenv("STRIDE_THREADS", bad[i], 1);
        st_set_num_threads(0);
        expect_failure(st_net_build(n, 4, 1), "STRIDE_THREADS=%s: expected a number of threads, at least 1",
                       bad[i]);
        st_set_num_threads(2); /* the program's own setting wins */
        assert_int_equal(st_net_build(n, 4, 1), 0);
    }
    unsetenv("STRIDE_THREADS");
    st_set_num_threads(0);
    assert_int_equal(st_net_build(n, 4, 1), 0);
}

static int without_settings(void **state)
{
    return unsetenv("STRIDE_THREADS") || unsetenv("OMP_NUM_THREADS");
}

SETUP(without_settings)
