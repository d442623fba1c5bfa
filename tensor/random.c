/* random.c: the Philox generator, and distributions computed from its words. */
#include "tensor/random.h"
#include "tensor/counts.h"
#include "tensor/error.h"
#include "tensor/random_impl.h"
#include "tensor/tables.h"

#include <string.h>
#include <tgmath.h>

/* ---- blocks ---------------------------------------------------------------------------------- */

st_random_block st_random_bits(st_random_key key, uint64_t counter)
{
    uint32_t w[4] = { (uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)key.stream,
                      (uint32_t)(key.stream >> 32) };
    uint32_t k[2] = { (uint32_t)key.seed, (uint32_t)(key.seed >> 32) };
    for (int round = 0; round < PHILOX_ROUNDS; round++, philox_next_key(k))
        philox_round(&w[0], &w[1], &w[2], &w[3], k);
    return (st_random_block){ { w[0], w[1], w[2], w[3] } };
}

__attribute__((weak)) random_words_function *random_words_by_vectors;

void st_random_words(st_random_key key, uint64_t counter, uint32_t *word, ptrdiff_t n)
{
    if (!word && n > 0) {
        st_error_set("st_random_words: the words are NULL");
        return;
    }
    ptrdiff_t i = random_words_by_vectors ? random_words_by_vectors(key, counter, word, n) : 0;
    for (; i < n; i++)
        memcpy(word + 4 * i, st_random_bits(key, counter + (uint64_t)i).word, sizeof(st_random_block));
}

/* One of the block's two 64-bit halves. */
static uint64_t half(st_random_block block, int which)
{
    return (uint64_t)block.word[2 * which + 1] << 32 | block.word[2 * which];
}

/* ---- one number ------------------------------------------------------------------------------ */

/* The upper 53 bits as a fraction: every multiple of 2^-53 in [0, 1) is equally likely. */
static double fraction(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

/* Box and Muller's transform, which makes a pair of numbers; the second one is not used, so that each counter
 * gives one number. 1 - u is in (0, 1], so that the logarithm is finite. */
static double normal(st_random_block block)
{
    double radius = sqrt(-2 * log(1 - fraction(half(block, 0))));
    return radius * cos(6.283185307179586476925 * fraction(half(block, 1))); /* M_PI is not in C11 */
}

double st_random_uniform(st_random_key key, uint64_t counter)
{
    return fraction(half(st_random_bits(key, counter), 0));
}

double st_random_normal(st_random_key key, uint64_t counter)
{
    return normal(st_random_bits(key, counter));
}

/* The lowest 2^64 mod bound numbers are rejected, so that the number of the others is a multiple of bound. */
uint64_t random_below(st_random_block block, uint64_t counter, uint64_t bound)
{
    while (bound > 0) {
        for (int which = 0; which < 2; which++) {
            const uint64_t bits = half(block, which);
            if (bits >= bound || bits >= -bound % bound) return bits % bound;
        }
        block = st_random_bits((st_random_key){ half(block, 0), half(block, 1) }, counter);
    }
    return 0;
}

uint64_t st_random_below(st_random_key key, uint64_t counter, uint64_t bound)
{
    return random_below(st_random_bits(key, counter), counter, bound);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The counter of the next element, its distribution, and two parameters of that. */
typedef struct draw {
    st_random_key key;
    uint64_t counter;
    st_real (*number)(st_random_block block, double a, double b);
    double a, b;
} draw;

static void draw_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    enum { BLOCKS = 64 }; /* are drawn at once */
    st_random_block block[BLOCKS];
    draw *d = context;
    for (ptrdiff_t i = 0; i < n; i++, d->counter++) {
        const ptrdiff_t k = i % BLOCKS;
        if (k == 0) st_random_words(d->key, d->counter, (uint32_t *)block, n - i < BLOCKS ? n - i : BLOCKS);
        at[0][i * stride[0]] = d->number(block[k], d->a, d->b);
    }
}

/* A weighted mean of the ends, as high - low may overflow. Rounding may reach or exceed an end. */
static st_real between(st_random_block block, double low, double high)
{
    const double u = fraction(half(block, 0));
    const st_real value = (st_real)(low * (1 - u) + high * u);
    return value < low ? (st_real)low : value < high ? value : nextafter((st_real)high, (st_real)low);
}

static st_real around(st_random_block block, double mean, double deviation)
{
    return (st_real)(mean + deviation * normal(block));
}

void st_uniform(st_tensor x, st_random_key key, st_real low, st_real high)
{
    if (isfinite(low) && isfinite(high) && low <= high)
        st_walk(1, &x, ST_ROW_MAJOR, draw_row, &(draw){ key, 0, between, low, high });
    else
        st_error_set("st_uniform: from %g to %g, expected finite ends in ascending order",
                     printable((double)low), printable((double)high));
}

void st_normal(st_tensor x, st_random_key key, st_real mean, st_real deviation)
{
    if (isfinite(mean) && isfinite(deviation) && deviation >= 0)
        st_walk(1, &x, ST_ROW_MAJOR, draw_row, &(draw){ key, 0, around, mean, deviation });
    else
        st_error_set("st_normal: mean %g and deviation %g, expected finite numbers, the second at least 0",
                     printable((double)mean), printable((double)deviation));
}

/* ---- orders ---------------------------------------------------------------------------------- */

void st_random_permutation(ptrdiff_t *order, ptrdiff_t n, st_random_key key)
{
    if (!order && n > 0) {
        st_error_set("st_random_permutation: the order is NULL");
        return;
    }
    for (ptrdiff_t i = 0; i < n; i++) order[i] = i;
    for (ptrdiff_t i = n > 0 ? n - 1 : 0; i > 0; i--) {
        ptrdiff_t j = (ptrdiff_t)st_random_below(key, (uint64_t)i, (uint64_t)i + 1);
        ptrdiff_t taken = order[i];
        order[i] = order[j];
        order[j] = taken;
    }
}
