/* family.h: what the poolings in this folder share: their types, trained numbers, the order of a window. */
#ifndef STRIDE_LAYERS_POOLING_FAMILY_H
#define STRIDE_LAYERS_POOLING_FAMILY_H

#include "layers/pool_impl.h"
#include "layers/pooling/pooling.h"
#include "layers/types.h"

#include <math.h>

ST_EACH_POOLING_TYPE(DECLARE_LAYER_TYPE)

/* The mean of a window; of none, 0. */
static inline double window_mean(const st_window *w)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) sum += (double)w->x[i];
    return w->n > 0 ? sum / (double)w->n : 0;
}

static inline void fill_window(const st_window *w, double value, st_real *dx)
{
    for (ptrdiff_t i = 0; i < w->n; i++) dx[i] = (st_real)value;
}

/* The option by which a trained pooling has parameters for each channel. */
#define PER_CHANNEL_FIELD(OPTIONS) POOL_FIELD(per_channel, ST_FIELD_BOOL, OPTIONS, .fallback = 0)

/* Requests parameters: `shape` is that of all channels, [1, ...]. */
int pooling_parameter(st_layer *l, const char *name, ptrdiff_t channels, st_shape shape, st_init init);

/* A window's random number, 0 <= number < 1, of 24 bits: a block of random words is for four windows. */
enum { WINDOWS_OF_BLOCK = 4 };
static inline st_real number_of_word(uint32_t word)
{
    return (st_real)(int32_t)(word >> 8) * (st_real)0x1p-24;
}
static inline st_real window_random(const st_window *w)
{
    const st_random_block block = st_random_bits(w->key, w->number / WINDOWS_OF_BLOCK);
    return number_of_word(block.word[w->number % WINDOWS_OF_BLOCK]);
}

/* The order of a window's elements, the greatest first, in w->room; NaN is greater than any number, and equal
 * elements stay in their order. */
const ptrdiff_t *window_order(const st_window *w);

/* The number of the k-th element in that order, which takes less time than to put all in order. */
ptrdiff_t window_nth(const st_window *w, ptrdiff_t k);

/* The weight of the greatest of n elements in rank pooling; each is 1 - alpha of the one before it. */
static inline double rank_weight(double alpha, ptrdiff_t n)
{
    return alpha > 0 ? alpha / -expm1((double)n * log1p(-alpha)) : 1 / (double)n;
}

/* Requests the scratch of local importance pooling's definition. */
int local_importance_scratch(st_layer *l, const pool_plan *p);

#endif
