/* allocations.c: malloc and its relatives, counted and passed on to glibc's.
 *
 * A program's own definitions come before those of the shared libraries it is linked with, also for calls
 * from within these. free needs no counting and stays as it is. */
#define _POSIX_C_SOURCE 200809L
#include "tests/bench/allocations.h"

#include <errno.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OTHER_ALLOCATOR
#endif
#endif

#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                  \
    defined(OTHER_ALLOCATOR)

long allocations(void)
{
    return -1;
}

#else

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static long calls;

long allocations(void)
{
    return __atomic_load_n(&calls, __ATOMIC_RELAXED);
}

#define COUNTED(name, real_one, parameters, ...)                                                             \
    void *name parameters                                                                                    \
    {                                                                                                        \
        __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);                                                     \
        return real_one(__VA_ARGS__);                                                                        \
    }
COUNTED(malloc, __libc_malloc, (size_t size), size)
COUNTED(calloc, __libc_calloc, (size_t count, size_t size), count, size)
COUNTED(realloc, __libc_realloc, (void *old, size_t size), old, size)
COUNTED(aligned_alloc, __libc_memalign, (size_t alignment, size_t size), alignment, size)

int posix_memalign(void **to, size_t alignment, size_t size)
{
    *to = aligned_alloc(alignment, size);
    return *to ? 0 : ENOMEM;
}

#endif
