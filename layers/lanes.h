/* lanes.h: loops stamped for each machine (tensor/machine.h), in the inner loops of layers.
 *
 * Whatever the machine, they compute the same to the last bit: no product and sum become one, and sums go by fixed
 * lanes. */
#ifndef STRIDE_LAYERS_LANES_H
#define STRIDE_LAYERS_LANES_H

#include "layers/layer.h"
#include "layers/fast/kernel.h"
#include "tensor/machine.h"

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2")))
#else
#define WIDE
#endif

/* Whether this machine can run what is stamped WIDE. */
static inline bool lanes_wide(const layer *l)
{
    return l->kernel && l->kernel->lanes * (int)sizeof(real) >= 32;
}

/* The place of this layer's machine in a table made by EACH_MACHINE: the last, which any machine is, without one. */
static inline int lanes_machine(const layer *l)
{
#define ROOM(M) MACHINE_LANES(M),
    static const int lanes[] = { EACH_MACHINE(ROOM) };
#undef ROOM
    int last = (int)(sizeof lanes / sizeof *lanes) - 1, i = 0;
    while (i < last && (!l->kernel || lanes[i] != l->kernel->lanes)) i++;
    return i;
}

/* Where the vector at i begins, of those that cover n elements: the last of them lies beside the end. For n of one
 * vector at least. */
static inline ptrdiff_t lanes_within(ptrdiff_t i, int lanes, ptrdiff_t n)
{
    return i + lanes > n ? n - lanes : i;
}

/* DO(lanes, n, ...) with the longest vectors, up to `lanes`, of which n elements fill one. */
enum { LANES_MOST = 64 / sizeof(real) };
#define BY_LANES(lanes, DO, n, ...)                                                                          \
    do {                                                                                                     \
        if ((lanes) >= LANES_MOST && (n) >= LANES_MOST) DO(LANES_MOST, n, __VA_ARGS__);                      \
        else if ((lanes) >= LANES_MOST / 2 && (n) >= LANES_MOST / 2) DO(LANES_MOST / 2, n, __VA_ARGS__);     \
        else if ((n) >= LANES_MOST / 4) DO(LANES_MOST / 4, n, __VA_ARGS__);                                  \
        else DO(1, n, __VA_ARGS__);                                                                          \
    } while (0)

#endif
