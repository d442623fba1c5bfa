/* moonshot.h: what Stride is to reach, with what was measured. */
#ifndef STRIDE_TESTS_BENCH_MOONSHOT_H
#define STRIDE_TESTS_BENCH_MOONSHOT_H

#include "tests/bench/campaign.h"

#include <stdio.h>

/* Training MNIST from a built tree. */
typedef struct mnist_run {
    double seconds;  /* 0: not measured */
    double accuracy; /* a share */
} mnist_run;

/* Runs the shell's command, which prints "accuracy=SHARE"; -1 with an error where it fails. */
int moonshot_mnist(const char *command, mnist_run *run);

/* Each goal: measured, wanted, and whether it is met. */
void moonshot_table(const campaign *c, const mnist_run *mnist, FILE *to);

#endif
