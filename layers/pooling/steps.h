/* steps.h: random places along an axis. */
#ifndef STRIDE_LAYERS_POOLING_STEPS_H
#define STRIDE_LAYERS_POOLING_STEPS_H

#include "layers/pooling/family.h"

/* `count` of `among` numbers 0, 1, ..., in order, each set equally probable: Knuth's algorithm S. */
typedef struct selection {
    st_random_key key;
    uint64_t counter;
    ptrdiff_t count, among; /* left */
} selection;

/* The counters of an axis of plane `number` begin here. */
static inline selection selection_of(const st_window *at, uint64_t number, int axis, ptrdiff_t count,
                                     ptrdiff_t among)
{
    return (selection){ at->key, (2 * number + (uint64_t)axis) << 32, count, among };
}

/* Tests if the next number is one of them. */
static inline bool select_next(selection *s)
{
    const bool chosen = st_random_below(s->key, s->counter++, (uint64_t)s->among--) < (uint64_t)s->count;
    s->count -= chosen;
    return chosen;
}

#endif
