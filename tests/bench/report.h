/* report.h: a campaign's results as a table, and as comma-separated values. */
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

#endif
