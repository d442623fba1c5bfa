/* peak.h: the most multiply-adds a processor can do. */
#ifndef STRIDE_TESTS_BENCH_PEAK_H
#define STRIDE_TESTS_BENCH_PEAK_H

/* Floating-point operations of one call, on each thread. */
extern const double peak_flops;

/* Multiply-adds on registers alone, with the widest vectors that this processor has. The sum of what they
 * gave, so that no compiler leaves them out. */
float peak_run(void);

#endif
