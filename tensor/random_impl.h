/* random_impl.h: a round of the Philox generator, Salmon et al. 2011, and numbers of a block; private to the
 * library. */
#ifndef STRIDE_TENSOR_RANDOM_IMPL_H
#define STRIDE_TENSOR_RANDOM_IMPL_H

#include "tensor/random.h"

enum { PHILOX_ROUNDS = 10 };
#define PHILOX_EVEN UINT64_C(0xD2511F53)
#define PHILOX_ODD UINT64_C(0xCD9E8D57)

/* Mixes the words a, b, c, d of a block. */
static inline void philox_round(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d, const uint32_t key[2])
{
    const uint64_t even = PHILOX_EVEN * *a, odd = PHILOX_ODD * *c;
    *a = (uint32_t)(odd >> 32) ^ *b ^ key[0];
    *b = (uint32_t)odd;
    *c = (uint32_t)(even >> 32) ^ *d ^ key[1];
    *d = (uint32_t)even;
}

/* The key of the next round. */
static inline void philox_next_key(uint32_t key[2])
{
    key[0] += 0x9E3779B9; /* the golden ratio */
    key[1] += 0xBB67AE85; /* sqrt(3) - 1 */
}

/* st_random_below of a counter's block. */
uint64_t random_below(st_random_block block, uint64_t counter, uint64_t bound);

#endif
