/* moonshot.h: what Stride is to reach, with what was measured. */
#ifndef STRIDE_TESTS_BENCH_MOONSHOT_H
#define STRIDE_TESTS_BENCH_MOONSHOT_H

#include "tests/bench/campaign.h"

#include <stdio.h>

/* Whole programs; NaN: not measured. */
typedef struct program_runs {
    double mnist_seconds, mnist_accuracy; /* training MNIST from a built tree; the accuracy is a share */
    double once_seconds, once_megabytes;  /* predicting one picture with a saved net */
} program_runs;

/* Run the shell's command: mnist's prints "accuracy=SHARE", once's "seconds=S megabytes=M". -1 with an error
 * where it fails. */
int moonshot_mnist(const char *command, program_runs *runs);
int moonshot_once(const char *command, program_runs *runs);

/* Each goal: measured, wanted, and whether it is met. */
void moonshot_table(const campaign *c, const program_runs *runs, FILE *to);

#endif
