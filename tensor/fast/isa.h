/* isa.h: the instruction sets that vector code is compiled for.
 *
 * Code for instruction set M is a macro with the parameter M, which EACH_ISA instantiates for each of
 * them. M_TARGET is the function attribute that enables its instructions, M_vector its widest vector, M_loose
 * an unaligned one, M_mask the result of a comparison: all bits of a lane, or none. Loops that the compiler
 * vectorises are written once, INLINE, and called from such instances. All instances are compiled into the
 * library; a table of one function per instruction set, made by EACH_ISA, is indexed by the result of
 * engine_choose. */
#ifndef STRIDE_TENSOR_FAST_ISA_H
#define STRIDE_TENSOR_FAST_ISA_H

#include "tensor/engine.h"
#include "tensor/inline.h"
#include "tensor/real.h"

bool engine_is_accurate(void); /* STRIDE_WINOGRAD=off leaves out algorithms that err more than a product */
int isa_best(void);            /* the index of the best instruction set of this processor */
int isa_bytes(int isa);        /* of a vector */

#ifdef STRIDE_DOUBLE
typedef long long isa_bits; /* of the size of st_real */
#else
typedef int isa_bits;
#endif

#define ISA(M, BYTES)                                                                                        \
    typedef st_real M##_vector __attribute__((vector_size(BYTES)));                                          \
    typedef st_real M##_loose __attribute__((vector_size(BYTES), aligned(sizeof(st_real)), may_alias));      \
    typedef isa_bits M##_mask __attribute__((vector_size(BYTES)));

#define ISA_LANES(M) ((int)(sizeof(M##_vector) / sizeof(st_real)))

/* The vector at a place, which need not be aligned. */
#define AT(M, place) (*(M##_loose *)(place))

/* Selects a where the mask is set, else b. A macro, as passing vectors to a function needs the instruction
 * set. */
#define ISA_PICK(M, mask, a, b) ((M##_vector)(((mask) & (M##_mask)(a)) | (~(mask) & (M##_mask)(b))))

/* M_FUSED is a b + c of vectors, rounded once; without a builtin it is what -ffp-contract=fast makes of it.
 * gcc 14 does not fuse chains of sums that it takes for slow: the bits of a sum would depend on the loop that
 * adds it up. */
#define ISA_SUM(a, b, c) ((c) + (a) * (b))

/* 16 bytes: SSE2, NEON, or scalar code. */
#define generic_TARGET
#define generic_FUSED ISA_SUM
ISA(generic, 16)

#if defined(__x86_64__) && !defined(STRIDE_GENERIC)
#define avx2_TARGET __attribute__((target("avx2,fma")))
ISA(avx2, 32)
#define avx512_TARGET __attribute__((target("avx512f,fma")))
ISA(avx512, 64)
#if defined(__clang__) || !defined(__GNUC__)
#define avx2_FUSED ISA_SUM
#define avx512_FUSED ISA_SUM
#elif defined(STRIDE_DOUBLE)
#define avx2_FUSED(a, b, c) __builtin_ia32_vfmaddpd256(a, b, c)
#define avx512_FUSED(a, b, c) __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4)
#else
#define avx2_FUSED(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)
#define avx512_FUSED(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)
#endif
#define EACH_ISA(DO) DO(avx512) DO(avx2) DO(generic)
#define EACH_ISA_OF(DO, NAME) DO(avx512, NAME) DO(avx2, NAME) DO(generic, NAME)
#else
#define EACH_ISA(DO) DO(generic)
#define EACH_ISA_OF(DO, NAME) DO(generic, NAME)
#endif

/* An unrolled loop over an array of vectors: otherwise gcc keeps the array in memory. */
#define EACH(i, count) _Pragma("GCC unroll 16") for (int i = 0; i < (count); i++)

#endif
