/* lanes.h: inner loops of layers, compiled for each instruction set (tensor/fast/isa.h).
 *
 * Results are bit-identical for every instruction set: no fused multiply-add, and sums in a fixed number of
 * lanes. */
#ifndef STRIDE_LAYERS_FAST_LANES_H
#define STRIDE_LAYERS_FAST_LANES_H

#include "layers/layer_impl.h"
#include "tensor/fast/isa.h"
#include "tensor/inline.h"

#if defined(__x86_64__) && !defined(STRIDE_GENERIC)
#define WIDE __attribute__((target("avx2")))
#else
#define WIDE
#endif

/* The start of the vector at i when vectors cover n elements: the last one ends with the last element and may
 * overlap the previous one. n is at least one vector. */
INLINE ptrdiff_t lanes_within(ptrdiff_t i, int lanes, ptrdiff_t n)
{
    return i + lanes > n ? n - lanes : i;
}

/* Fetches the lines that begin in n elements, for WRITE or reading, up to a LEVEL: as __builtin_prefetch. */
enum { CACHE_LINE = 64 / sizeof(st_real) };
#define FETCH_LINES(from, n, WRITE, LEVEL)                                                                   \
    do {                                                                                                     \
        const st_real *line = (from), *last_line = line + (n);                                               \
        for (; line < last_line; line += CACHE_LINE) __builtin_prefetch(line, WRITE, LEVEL);                 \
    } while (0)

/* DO(lanes, n, ...) with the longest vectors, of at most `lanes` lanes, that n elements fill. */
enum { LANES_MOST = 64 / sizeof(st_real) };
#define BY_LANES(lanes, DO, n, ...)                                                                          \
    do {                                                                                                     \
        if ((lanes) >= LANES_MOST && (n) >= LANES_MOST) DO(LANES_MOST, n, __VA_ARGS__);                      \
        else if ((lanes) >= LANES_MOST / 2 && (n) >= LANES_MOST / 2) DO(LANES_MOST / 2, n, __VA_ARGS__);     \
        else if ((n) >= LANES_MOST / 4) DO(LANES_MOST / 4, n, __VA_ARGS__);                                  \
        else DO(1, n, __VA_ARGS__);                                                                          \
    } while (0)

#endif
