/* lanes.h: loops stamped for each machine (tensor/machine.h), in the inner loops of layers.
 *
 * Whatever the machine, they compute the same to the last bit: no product and sum become one, and sums go by fixed
 * lanes. */
#ifndef STRIDE_LAYERS_LANES_H
#define STRIDE_LAYERS_LANES_H

#include "layers/layer_impl.h"
#include "tensor/machine.h"

#if defined(__x86_64__) && !defined(STRIDE_GENERIC)
#define WIDE __attribute__((target("avx2")))
#else
#define WIDE
#endif

/* Whether this machine can run what is stamped WIDE. */
static inline bool lanes_wide(const st_layer *l)
{
    return machine_bytes(l->impl->machine) >= 32;
}

/* Where the vector at i begins, of those that cover n elements: the last one ends with the last element and may
 * overlap the previous one. n fills one vector at least. */
static inline ptrdiff_t lanes_within(ptrdiff_t i, int lanes, ptrdiff_t n)
{
    return i + lanes > n ? n - lanes : i;
}

/* DO(lanes, n, ...) with the longest vectors, up to `lanes`, of which n elements fill one. */
enum { LANES_MOST = 64 / sizeof(st_real) };
#define BY_LANES(lanes, DO, n, ...)                                                                          \
    do {                                                                                                     \
        if ((lanes) >= LANES_MOST && (n) >= LANES_MOST) DO(LANES_MOST, n, __VA_ARGS__);                      \
        else if ((lanes) >= LANES_MOST / 2 && (n) >= LANES_MOST / 2) DO(LANES_MOST / 2, n, __VA_ARGS__);     \
        else if ((n) >= LANES_MOST / 4) DO(LANES_MOST / 4, n, __VA_ARGS__);                                  \
        else DO(1, n, __VA_ARGS__);                                                                          \
    } while (0)

#endif
