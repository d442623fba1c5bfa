/* timing.h: how long one repetition takes, and what is said of several. */
#ifndef STRIDE_TESTS_BENCH_TIMING_H
#define STRIDE_TESTS_BENCH_TIMING_H

/* Seconds, by a clock that is never set back; with BENCH_CLOCK=cpu those that processors have spent on this
 * process. */
double now(void);

/* Seconds that a measured repetition lasts at the least: 0.05, or what BENCH_SECONDS says. The scheduler
 * takes some 20 ms to move a second thread to a processor of its own. */
double least_seconds(void);

/* Seconds of one call: a first call that is not counted, then as many as last so long together. */
double seconds_a_call(void (*call)(void *context), void *context);

/* ---- statistics of repeated measurements ---------------------------------------------------------- */

enum { STATISTICS_MOST = 4096 };

/* For 1 to STATISTICS_MOST numbers, in any order; NaN for none. Quantiles lie between the sorted numbers:
 * share 0 is the least, 1 the greatest. */
double quantile(const double *value, int count, double share);
double median(const double *value, int count);

/* The distance of the quartiles as a share of the median. */
double spread(const double *value, int count);

double geometric_mean(const double *value, int count);

#endif
