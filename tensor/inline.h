/* inline.h: functions that are always inlined, so that they are compiled for the instruction set of the
 * function that calls them. */
#ifndef STRIDE_TENSOR_INLINE_H
#define STRIDE_TENSOR_INLINE_H

#define INLINE static inline __attribute__((always_inline))

/* Before a loop: its iterations are independent. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
