/* random.c: words of the Philox generator, of many blocks side by side. */
#include "tensor/fast/isa.h"
#include "tensor/random_impl.h"
#include "tensor/tables.h"

enum { TOGETHER = 32 }; /* blocks; with fewer gcc unrolls the loops instead of vectorising them */

/* Word k of all blocks is kept together in w[k], so that the loops over blocks vectorise. */
static void generic_mix(st_random_key key, uint64_t counter, uint32_t *word)
{
    uint32_t w[4][TOGETHER], k[2] = { (uint32_t)key.seed, (uint32_t)(key.seed >> 32) };
    for (int i = 0; i < TOGETHER; i++) {
        const uint64_t at = counter + (uint64_t)i;
        w[0][i] = (uint32_t)at, w[1][i] = (uint32_t)(at >> 32);
        w[2][i] = (uint32_t)key.stream;
        w[3][i] = (uint32_t)(key.stream >> 32);
    }
    for (int round = 0; round < PHILOX_ROUNDS; round++, philox_next_key(k))
        for (int i = 0; i < TOGETHER; i++) philox_round(&w[0][i], &w[1][i], &w[2][i], &w[3][i], k);
    for (int i = 0; i < TOGETHER; i++)
        for (int j = 0; j < 4; j++) word[4 * i + j] = w[j][i];
}

#if defined(__x86_64__) && !defined(STRIDE_GENERIC)
#include <immintrin.h>

/* The same with a word in the lower half of each 64-bit lane, whose products are one instruction; upper
 * halves have any bits. gcc makes three multiplications of the loops above. */
#define avx512_PRODUCT(a, b) (avx512_words) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#define avx2_PRODUCT(a, b) (avx2_words) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
typedef uint64_t pair __attribute__((aligned(4), may_alias)); /* of words */

#define MIX(M)                                                                                               \
    typedef uint64_t M##_words __attribute__((vector_size(sizeof(M##_vector))));                             \
                                                                                                             \
    M##_TARGET static void M##_mix(st_random_key key, uint64_t counter, uint32_t *word)                      \
    {                                                                                                        \
        enum { LANES = sizeof(M##_words) / 8, VECTORS = 4, SOME = VECTORS * LANES };                         \
        const M##_words zero = { 0 };                                                                        \
        M##_words lane = { 0 };                                                                              \
        EACH(l, LANES) lane[l] = (uint64_t)l;                                                                \
        for (pair *to = (pair *)word; to < (pair *)word + 2 * TOGETHER; to += 2 * SOME, counter += SOME) {   \
            M##_words a[VECTORS], b[VECTORS], c[VECTORS], d[VECTORS], half[2][VECTORS];                      \
            uint32_t k[2] = { (uint32_t)key.seed, (uint32_t)(key.seed >> 32) };                              \
            EACH(v, VECTORS)                                                                                 \
            {                                                                                                \
                a[v] = lane + (counter + (uint64_t)(v * LANES));                                             \
                b[v] = a[v] >> 32, c[v] = zero + key.stream, d[v] = c[v] >> 32;                              \
            }                                                                                                \
            for (int round = 0; round < PHILOX_ROUNDS; round++, philox_next_key(k)) EACH(v, VECTORS)         \
                {                                                                                            \
                    const M##_words even = M##_PRODUCT(a[v], zero + PHILOX_EVEN),                            \
                                    odd = M##_PRODUCT(c[v], zero + PHILOX_ODD);                              \
                    a[v] = odd >> 32 ^ b[v] ^ k[0], b[v] = odd;                                              \
                    c[v] = even >> 32 ^ d[v] ^ k[1], d[v] = even;                                            \
                }                                                                                            \
            EACH(v, VECTORS)                                                                                 \
            half[0][v] = a[v] << 32 >> 32 | b[v] << 32, half[1][v] = c[v] << 32 >> 32 | d[v] << 32;          \
            for (int l = 0; l < SOME; l++)                                                                   \
                to[2 * l] = ((pair *)half[0])[l], to[2 * l + 1] = ((pair *)half[1])[l];                      \
        }                                                                                                    \
    }
MIX(avx512)
MIX(avx2)
#endif

#define NAME(M) M##_mix,
static void (*const mix[])(st_random_key key, uint64_t counter, uint32_t *word) = { EACH_ISA(NAME) };

static ptrdiff_t words(st_random_key key, uint64_t counter, uint32_t *word, ptrdiff_t n)
{
    const int isa = isa_best();
    ptrdiff_t i = 0;
    for (; i + TOGETHER <= n; i += TOGETHER) mix[isa](key, counter + (uint64_t)i, word + 4 * i);
    return i;
}

random_words_function *random_words_by_vectors = words;
