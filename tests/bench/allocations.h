/* allocations.h: how often the process has asked for memory. */
#ifndef STRIDE_TESTS_BENCH_ALLOCATIONS_H
#define STRIDE_TESTS_BENCH_ALLOCATIONS_H

/* Calls of malloc and its relatives so far, of every library in the process; always -1 where they cannot be
 * counted: without glibc, or under a sanitizer, which has an allocator of its own. */
long allocations(void);

#endif
