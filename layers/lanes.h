/* lanes.h: vectors of a fixed length in the inner loops of layers; private to layers/.
 *
 * A loop is written once, INLINE, and stamped twice: as it is, for any machine, and WIDE, for one with vectors of
 * 32 bytes. Both compute the same to the last bit: no product and sum become one, and sums go by fixed lanes. */
#ifndef STRIDE_LAYERS_LANES_H
#define STRIDE_LAYERS_LANES_H

#include "layers/layer.h"
#include "tensor/kernel.h"

#define INLINE static inline __attribute__((always_inline))

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

enum { LANES = 32 / sizeof(real) };
typedef real lanes __attribute__((vector_size(32)));
typedef real lanes_at
    __attribute__((vector_size(32), aligned(sizeof(real)), may_alias)); /* anywhere in memory */
#ifdef STRIDE_DOUBLE
typedef long long lanes_mask __attribute__((vector_size(32))); /* of comparisons: all bits or none */
#else
typedef int lanes_mask __attribute__((vector_size(32)));
#endif

/* Of each lane a where the mask is set, b elsewhere. A macro: vectors are not passed without the machine's own. */
#define LANES_PICK(mask, a, b) ((lanes)(((mask) & (lanes_mask)(a)) | (~(mask) & (lanes_mask)(b))))

#endif
