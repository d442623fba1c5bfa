/* random.h: random numbers as a function of (seed, stream, counter).
 *
 * There is no state to carry: number 17 of a stream is the same whoever asks for it, in whatever
 * order, from whatever thread, so that a resumed run continues exactly. The generator is Philox4x32-10
 * (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011), its key the
 * seed, its counter (counter, stream). */
#ifndef STRIDE_TENSOR_RANDOM_H
#define STRIDE_TENSOR_RANDOM_H

#include "tensor/tensor.h"

#include <stdint.h>

ST_API_BEGIN

/* Which numbers: a seed, and one of its streams. */
typedef struct st_random_key {
    uint64_t seed, stream;
} st_random_key;

/* What the generator gives at one counter. */
typedef struct st_random_block {
    uint32_t word[4];
} st_random_block;

/* The 128 random bits at a counter. */
st_random_block st_random_bits(st_random_key key, uint64_t counter);

/* Of n blocks, from a counter on, their words in turn: word[4 i + k] of block i. */
void st_random_words(st_random_key key, uint64_t counter, uint32_t *word, ptrdiff_t n);

double st_random_uniform(st_random_key key, uint64_t counter); /* [0, 1), 53 bits */
double st_random_normal(st_random_key key, uint64_t counter);  /* mean 0, deviation 1: Box-Muller */

/* 0 … bound-1, each exactly as likely; 0 where bound is 0. A draw from the surplus of 2^64 over a multiple
 * of bound is refused. A block holds two draws; where both are refused its bits are the key under which
 * the same counter is asked again, so no other counter's numbers are touched. */
uint64_t st_random_below(st_random_key key, uint64_t counter, uint64_t bound);

/* Element e, in row-major order, takes counter e: uniform in [low, high), or normal. An interval that is
 * reversed or not finite is an error; low where both ends are equal. */
void st_uniform(st_tensor x, st_random_key key, st_real low, st_real high);
void st_normal(st_tensor x, st_random_key key, st_real mean, st_real deviation);

/* order[0 … n-1] becomes a random permutation of 0 … n-1 (Fisher and Yates, from the end). */
void st_random_permutation(ptrdiff_t *order, ptrdiff_t n, st_random_key key);

ST_API_END

#endif
