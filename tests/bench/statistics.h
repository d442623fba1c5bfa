/* statistics.h: what is said of repeated measurements. */
#ifndef STRIDE_TESTS_BENCH_STATISTICS_H
#define STRIDE_TESTS_BENCH_STATISTICS_H

enum { STATISTICS_MOST = 128 };

/* For 1 to STATISTICS_MOST numbers, in any order; NaN for none. */
double median(const double *value, int count);

/* The distance of the quartiles as a share of the median. */
double spread(const double *value, int count);

double geometric_mean(const double *value, int count);

#endif
