/* outline.h: what is told of a result, so that a peer's can be compared with Stride's, and the numbers that
 * both compute it from. */
#ifndef STRIDE_TESTS_BENCH_OUTLINE_H
#define STRIDE_TESTS_BENCH_OUTLINE_H

#include <stddef.h>

enum { OUTLINE = 12 }; /* elements that are told */

/* Numbers that every peer can make, whatever its generator: at least -0.5, below 0.5. Those of one k differ
 * within 1009 elements. */
static inline double pattern(size_t i, int k)
{
    return (double)((i * 7919 + (size_t)k * 104729) % 1009) / 1009 - 0.5;
}

/* Prints "output SHAPE LARGEST PRODUCT ELEMENTS...": the largest absolute element, the sum of
 * value[i] pattern(i, 1), and elements that are evenly spaced from the first to the last. */
void outline_print(const char *shape, const float *value, size_t count);

#endif
