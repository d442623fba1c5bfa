/* system.h: memory that is aligned, and a clock; private to the library. Annexes call the operating system in
 * nn/files/streams.h, nn/files/replace.c and tensor/threads/.
 *
 * A file that includes this one includes it first. */
#ifndef STRIDE_TENSOR_SYSTEM_H
#define STRIDE_TENSOR_SYSTEM_H

#define _DARWIN_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE

#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef _WIN32
#include <malloc.h>
__declspec(dllimport) int __stdcall QueryPerformanceCounter(long long *ticks);
__declspec(dllimport) int __stdcall QueryPerformanceFrequency(long long *ticks);
#endif

/* Memory of `bytes`, a multiple of the alignment. Released by system_free_aligned. */
static inline void *system_aligned(size_t alignment, size_t bytes)
{
#ifdef _WIN32
    return _aligned_malloc(bytes, alignment);
#else
#ifdef MADV_HUGEPAGE
    enum { HUGE_PAGE = 1 << 21 }; /* bytes: the processor remembers where a few pages are */
    void *memory;
    if (bytes >= HUGE_PAGE) {
        if (posix_memalign(&memory, HUGE_PAGE, bytes)) return NULL;
        madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
        return memory;
    }
#endif
    return aligned_alloc(alignment, bytes);
#endif
}

static inline void system_free_aligned(void *memory)
{
#ifdef _WIN32
    _aligned_free(memory);
#else
    free(memory);
#endif
}

/* Seconds from some moment on; setting the clock does not change them. */
static inline double system_seconds(void)
{
#ifdef _WIN32
    long long ticks, ticks_a_second;
    QueryPerformanceCounter(&ticks), QueryPerformanceFrequency(&ticks_a_second);
    return (double)ticks / (double)ticks_a_second;
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
}

#endif
