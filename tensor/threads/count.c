/* count.c: the number of threads: set by the program, the environment or the machine. */
#if defined(__linux__)
#define _GNU_SOURCE /* sched_getaffinity */
#include <sched.h>
#else
#define _DARWIN_C_SOURCE /* _SC_NPROCESSORS_ONLN */
#endif
#include "tensor/error.h"
#include "tensor/parallel.h"
#include "tensor/threads/threads.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int by_program, by_default; /* 0: not set; not known yet */

static int at_most(long threads)
{
    return threads < MOST_THREADS ? (int)threads : MOST_THREADS;
}

/* 0: the variable is not set; -1: it is not a number of threads. The first number of a list is used. */
static int from_environment(const char *variable, bool may_be_list)
{
    const char *given = getenv(variable);
    if (!given || !given[0]) return 0;
    char *end;
    long threads = strtol(given, &end, 10);
    bool ends = *end == '\0' || (may_be_list && *end == ',');
    return ends && threads >= 1 ? at_most(threads) : -1;
}

/* The number of processors available to this process; in a container it may be less than the machine's. */
static int from_machine(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) processors = CPU_COUNT(&allowed);
    FILE *quota = fopen("/sys/fs/cgroup/cpu.max", "re");
    long used, period; /* microseconds; "max": no limit */
    if (quota && fscanf(quota, "%ld %ld", &used, &period) == 2 && used > 0 && period > 0) {
        long share = (used + period - 1) / period;
        if (share < processors) processors = share;
    }
    if (quota) fclose(quota);
#endif
    return processors > 1 ? at_most(processors) : 1;
}

int threads_wanted(void)
{
    int threads = by_program;
    if (threads == 0) threads = by_default;
    if (threads > 0) return threads;
    threads = from_environment("STRIDE_THREADS", false);
    if (threads < 1) threads = from_environment("OMP_NUM_THREADS", true);
    if (threads < 1) threads = from_machine();
    by_default = threads;
    return threads;
}

int threads_check(void)
{
    if (by_program > 0 || from_environment("STRIDE_THREADS", false) >= 0) return 0;
    return st_error_set("STRIDE_THREADS=%s: expected a number of threads, at least 1",
                        getenv("STRIDE_THREADS"));
}

int threads_set(int threads)
{
    by_program = at_most(threads);
    by_default = 0;
    return 0;
}
