/* sweep.h: what a campaign over a list of layers or networks says of Stride against its peers. */
#ifndef STRIDE_TESTS_BENCH_SWEEP_H
#define STRIDE_TESTS_BENCH_SWEEP_H

#include "tests/bench/campaign.h"

#include <stdio.h>

/* A row is a subject with a number of threads, against the best of all peers. Prints means of the rows, by
 * threads and passes, and the twenty least by name, or all of them where they are few; then what no peer
 * has, and what fails: what a peer computes differently, or not at all, is no row. */
void sweep_table(const campaign *c, FILE *to);

/* A line for each row. */
void sweep_csv(const campaign *c, FILE *to);

/* How many results are missing, or not Stride's. */
int sweep_failures(const campaign *c);

#endif
