/* system.h: what the library asks of the operating system, but for files (nn/files/replace.c) and threads
 * (tensor/threads/); private to the library.
 *
 * A file that includes this one includes it first. */
#ifndef STRIDE_TENSOR_SYSTEM_H
#define STRIDE_TENSOR_SYSTEM_H

#define _DEFAULT_SOURCE /* struct winsize */
#define _DARWIN_C_SOURCE
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef _WIN32
#include <io.h>
#include <malloc.h>
__declspec(dllimport) int __stdcall QueryPerformanceCounter(long long *ticks);
__declspec(dllimport) int __stdcall QueryPerformanceFrequency(long long *ticks);
#else
#include <sys/ioctl.h>
#include <unistd.h>
#endif

/* Memory of `bytes`, a multiple of the alignment. Released by system_free_aligned. */
static inline void *system_aligned(size_t alignment, size_t bytes)
{
#ifdef _WIN32
    return _aligned_malloc(bytes, alignment);
#else
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

static inline int system_is_terminal(FILE *stream)
{
#ifdef _WIN32
    return _isatty(_fileno(stream));
#else
    return isatty(fileno(stream));
#endif
}

/* The columns of a terminal, which may change; 0: not known. */
static inline int system_columns(FILE *terminal)
{
#ifdef _WIN32
    (void)terminal;
    return 0;
#else
    struct winsize size;
    return ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
#endif
}

/* Tests if there is a file of that name; -1 with errno if that cannot be known. */
static inline int system_exists(const char *path)
{
#ifdef _WIN32
    if (_access(path, 0) == 0) return 1;
#else
    if (access(path, F_OK) == 0) return 1;
#endif
    return errno == ENOENT ? 0 : -1;
}

/* Sends what was written to the disk; 0 on success. */
static inline int system_flush(FILE *stream)
{
    if (fflush(stream) || ferror(stream)) return -1;
#ifdef _WIN32
    return _commit(_fileno(stream));
#else
    return fsync(fileno(stream));
#endif
}

#endif
