/* random.c: words of the Philox generator, of many blocks side by side. */
#include "tensor/random_impl.h"
#include "tensor/tables.h"

enum { TOGETHER = 32 }; /* blocks; with fewer gcc unrolls the loops instead of vectorising them */

/* Word k of all blocks is kept together in w[k], so that the loops over blocks vectorise. */
static void mix(st_random_key key, uint64_t counter, uint32_t *word)
{
    uint32_t w[4][TOGETHER], k[2] = { (uint32_t)key.seed, (uint32_t)(key.seed >> 32) };
    for (int i = 0; i < TOGETHER; i++) {
        w[0][i] = (uint32_t)(counter + (uint64_t)i);
        w[1][i] = (uint32_t)((counter + (uint64_t)i) >> 32);
        w[2][i] = (uint32_t)key.stream;
        w[3][i] = (uint32_t)(key.stream >> 32);
    }
    for (int round = 0; round < PHILOX_ROUNDS; round++, philox_next_key(k))
        for (int i = 0; i < TOGETHER; i++) philox_round(&w[0][i], &w[1][i], &w[2][i], &w[3][i], k);
    for (int i = 0; i < TOGETHER; i++)
        for (int j = 0; j < 4; j++) word[4 * i + j] = w[j][i];
}

static ptrdiff_t words(st_random_key key, uint64_t counter, uint32_t *word, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + TOGETHER <= n; i += TOGETHER) mix(key, counter + (uint64_t)i, word + 4 * i);
    return i;
}

random_words_function *random_words_by_vectors = words;
