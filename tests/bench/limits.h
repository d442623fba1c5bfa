/* limits.h: the least time that a layer's pass takes on this machine. */
#ifndef STRIDE_TESTS_BENCH_LIMITS_H
#define STRIDE_TESTS_BENCH_LIMITS_H

#include "tests/bench/campaign.h"

/* The longer one of two times, in seconds: of the pass's nominal multiply-adds on registers, as `fma` does
 * them at its best, and of a copy of as many bytes as the pass must read and write, by the C library or by
 * relu, at its best. Between the sizes of the copies that were measured, bytes a second follow the logarithm
 * of the size. 0 where a network, which keeps its activations as it likes, has no such limit. Winograd's
 * algorithm, with fewer multiply-adds, can take less, as can a pass that reads more than it writes. The
 * peer of the cell does not matter. */
double limit_seconds(const campaign *c, cell at);

#endif
