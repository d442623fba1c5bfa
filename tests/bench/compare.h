/* compare.h: a campaign's results held against the peers', each at its best setting. */
#ifndef STRIDE_TESTS_BENCH_COMPARE_H
#define STRIDE_TESTS_BENCH_COMPARE_H

#include "tests/bench/campaign.h"

#include <stdio.h>

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
