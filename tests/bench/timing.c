/* timing.c: see timing.h. */
#define _POSIX_C_SOURCE 200809L
#include "tests/bench/timing.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool is_set(const char *name, const char *value)
{
    const char *given = getenv(name);
    return given && strcmp(given, value) == 0;
}

double least_seconds(void)
{
    const char *given = getenv("BENCH_SECONDS");
    const double seconds = given ? strtod(given, NULL) : 0;
    return seconds > 0 ? seconds : 0.05;
}

double now(void)
{
    struct timespec t;
    clock_gettime(is_set("BENCH_CLOCK", "cpu") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(void (*call)(void *context), void *context, long calls)
{
    double began = now();
    for (long i = 0; i < calls; i++) call(context);
    return now() - began;
}

/* Aims a little above, and never more than tenfold: a first guess from a tiny time is a bad one. */
static long more_calls(long calls, double seconds)
{
    double factor = seconds > 0 ? 1.2 * least_seconds() / seconds : 10;
    return (long)((double)calls * (factor > 10 ? 10 : factor)) + 1;
}

double seconds_a_call(void (*call)(void *context), void *context)
{
    long calls = 1;
    call(context);
    for (;;) {
        double seconds = seconds_of(call, context, calls);
        if (seconds >= least_seconds()) return seconds / (double)calls;
        calls = more_calls(calls, seconds);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double quantile(const double *value, int count, double share)
{
    double sorted[STATISTICS_MOST];
    if (count < 1 || count > STATISTICS_MOST) return NAN;
    memcpy(sorted, value, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    double place = share * (count - 1);
    int below = (int)place, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

double median(const double *value, int count)
{
    return quantile(value, count, 0.5);
}

double spread(const double *value, int count)
{
    return (quantile(value, count, 0.75) - quantile(value, count, 0.25)) / median(value, count);
}

double geometric_mean(const double *value, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) sum += log(value[i]);
    return count > 0 ? exp(sum / count) : NAN;
}
