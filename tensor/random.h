/* random.h: random numbers as a function of (seed, stream, counter).
 *
 * There is no state: number 17 of a stream is the same in any order and from any thread, so that a resumed
 * run continues exactly. The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers:
 * as easy as 1, 2, 3; SC 2011) with the seed as its key and (counter, stream) as its counter. */
#ifndef STRIDE_TENSOR_RANDOM_H
#define STRIDE_TENSOR_RANDOM_H

#include "tensor/tensor.h"

#include <stdint.h>

ST_API_BEGIN

/* A sequence of random numbers: a seed and one of its streams. */
typedef struct st_random_key {
    uint64_t seed, stream;
} st_random_key;

/* The generator's output for one counter. */
typedef struct st_random_block {
    uint32_t word[4];
} st_random_block;

/* The 128 random bits at a counter. */
st_random_block st_random_bits(st_random_key key, uint64_t counter);

/* The words of n consecutive blocks: word[4 i + k] is word k of block counter + i. */
void st_random_words(st_random_key key, uint64_t counter, uint32_t *word, ptrdiff_t n);

double st_random_uniform(st_random_key key, uint64_t counter); /* [0, 1), 53 bits */
double st_random_normal(st_random_key key, uint64_t counter);  /* mean 0, standard deviation 1: Box-Muller */

/* Uniform in 0 ... bound-1, without bias (by rejection); 0 where bound is 0. A block holds two draws; where
 * both are rejected, its bits become the key under which the same counter is drawn again, so that no other
 * counter is used up. */
uint64_t st_random_below(st_random_key key, uint64_t counter, uint64_t bound);

/* Fill x: element e, in row-major order, uses counter e. Uniform in [low, high), or low where both are equal;
 * or normal. A reversed interval, a negative deviation or a number that is not finite is an error. */
void st_uniform(st_tensor x, st_random_key key, st_real low, st_real high);
void st_normal(st_tensor x, st_random_key key, st_real mean, st_real deviation);

/* Fills order with a random permutation of 0 ... n-1 (Fisher and Yates, from the end). */
void st_random_permutation(ptrdiff_t *order, ptrdiff_t n, st_random_key key);

ST_API_END

#endif
