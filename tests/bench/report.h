/* report.h: a campaign's results as a table, as comma-separated values, and held against the peers', each at
 * its best setting. */
#ifndef STRIDE_TESTS_BENCH_REPORT_H
#define STRIDE_TESTS_BENCH_REPORT_H

#include "tests/bench/campaign.h"

#include <stdio.h>

/* The rates that a median time gives; 0 where the subject does not count it. */
typedef struct rates {
    double seconds, spread;          /* the median, and the distance of the quartiles as a share of it */
    double gflops, share_of_peak;    /* of the best round of `fma` with as many threads */
    double gigabytes, share_of_copy; /* of the best round of `copy`, which counts both ways, likewise */
    double images;                   /* a second */
} rates;

/* All NaN where nothing was measured. */
rates report_rates(const campaign *c, cell at);

/* Peer 0 alone: a line for each subject and number of threads. */
void report_table(const campaign *c, FILE *to);

/* Every peer: a line for each result. */
void report_csv(const campaign *c, FILE *to);

/* ---- peers --------------------------------------------------------------------------------------- */

/* How many times as fast as a peer Stride is: the median of the rounds' ratios, and their spread. */
typedef struct comparison {
    int peer; /* the setting that took the least time; 0: the peer does not do that, and the rest is NaN */
    double ratio, spread;
} comparison;

/* With the best of the peers of these families; whatever peer the cell names. */
comparison compare_with(const campaign *c, cell at, const char *families);

/* A line for each subject and number of threads that some peer does too; then what peers did not do. */
void compare_table(const campaign *c, FILE *to);

#endif
