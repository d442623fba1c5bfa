/* steps.h: random places along an axis. */
#ifndef STRIDE_LAYERS_POOLING_STEPS_H
#define STRIDE_LAYERS_POOLING_STEPS_H

#include "layers/pooling/family.h"
#include "tensor/random_impl.h"

#include <string.h>

/* `count` of `among` numbers 0, 1, ..., in order, each set equally probable: Knuth's algorithm S. Blocks of
 * random numbers are made some together. */
enum { BLOCKS = 32 };
typedef struct selection {
    st_random_key key;
    uint64_t counter;
    ptrdiff_t count, among; /* left */
    int ready;              /* blocks, the last ones */
    uint32_t word[4 * BLOCKS];
} selection;

/* The counters of an axis of plane `number` begin here. */
static inline void begin_selection(selection *s, const st_window *at, uint64_t number, int axis,
                                   ptrdiff_t count, ptrdiff_t among)
{
    s->key = at->key, s->counter = (2 * number + (uint64_t)axis) << 32;
    s->count = count, s->among = among, s->ready = 0;
}

/* Tests if the next number is one of them. Nothing is drawn when all that are left are, or none is. */
static inline bool select_next(selection *s)
{
    st_random_block block;
    if (s->count == 0 || s->count == s->among) return s->count > 0;
    if (s->ready == 0) st_random_words(s->key, s->counter, s->word, s->ready = BLOCKS);
    memcpy(block.word, s->word + 4 * (BLOCKS - s->ready--), sizeof block.word);
    const bool chosen = random_below(block, s->counter++, (uint64_t)s->among--) < (uint64_t)s->count;
    s->count -= chosen;
    return chosen;
}

#endif
