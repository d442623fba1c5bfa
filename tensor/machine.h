/* machine.h: the kinds of machines that fast paths are compiled for.
 *
 * Code for machine M is a macro over M, stamped for each by EACH_MACHINE. M_TARGET stands before a function that is
 * to have M's instructions, M_vector is its widest vector, M_loose the same anywhere in memory, M_mask what comes
 * of comparing two: all bits of a lane or none. Loops that the compiler turns into vectors itself are written once,
 * INLINE, and called from what is stamped. Code for machines other than the one at hand is compiled, but not called:
 * a table of one function a machine, made by EACH_MACHINE, is indexed by what machine_choose says. */
#ifndef STRIDE_TENSOR_MACHINE_H
#define STRIDE_TENSOR_MACHINE_H

#include "tensor/real.h"

#include <stdbool.h>

/* The index of the best machine that this processor runs, or of the one that the environment variable STRIDE_ENGINE
 * names: "avx512", "avx2", "generic". "reference" is the last machine, with definitions instead of algorithms. -1
 * with an error for another name, and for a machine that this processor does not run. */
int machine_choose(int *machine, bool *reference);
int machine_bytes(int machine); /* of a vector */
const char *machine_name(int machine);

#define INLINE static inline __attribute__((always_inline))

#ifdef STRIDE_DOUBLE
typedef long long machine_bits; /* as many as a real has */
#else
typedef int machine_bits;
#endif

#define MACHINE(M, BYTES)                                                                                    \
    typedef st_real M##_vector __attribute__((vector_size(BYTES)));                                          \
    typedef st_real M##_loose __attribute__((vector_size(BYTES), aligned(sizeof(st_real)), may_alias));      \
    typedef machine_bits M##_mask __attribute__((vector_size(BYTES)));

#define MACHINE_LANES(M) ((int)(sizeof(M##_vector) / sizeof(st_real)))

/* Of each lane a where the mask is set, b elsewhere. A macro: vectors are not passed without the machine's own. */
#define MACHINE_PICK(M, mask, a, b) ((M##_vector)(((mask) & (M##_mask)(a)) | (~(mask) & (M##_mask)(b))))

/* Sixteen bytes: SSE2, NEON, or what the compiler makes of it. */
#define generic_TARGET
MACHINE(generic, 16)

#if defined(__x86_64__) && !defined(STRIDE_GENERIC)
#define avx2_TARGET __attribute__((target("avx2,fma")))
MACHINE(avx2, 32)
#define avx512_TARGET __attribute__((target("avx512f,fma")))
MACHINE(avx512, 64)
#define EACH_MACHINE(DO) DO(avx512) DO(avx2) DO(generic)
#define EACH_MACHINE_OF(DO, NAME) DO(avx512, NAME) DO(avx2, NAME) DO(generic, NAME)
#else
#define EACH_MACHINE(DO) DO(generic)
#define EACH_MACHINE_OF(DO, NAME) DO(generic, NAME)
#endif

/* A loop over vectors of an array: left to itself, gcc keeps the array in memory and copies it at the end. */
#define EACH(i, count) _Pragma("GCC unroll 16") for (int i = 0; i < (count); i++)

#endif
