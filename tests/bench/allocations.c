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

static void count(void)
{
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
}

long allocations(void)
{
    return __atomic_load_n(&calls, __ATOMIC_RELAXED);
}

void *malloc(size_t size)
{
    count();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    count();
    return __libc_calloc(number, size);
}

void *realloc(void *old, size_t size)
{
    count();
    return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **to, size_t alignment, size_t size)
{
    count();
    void *memory = __libc_memalign(alignment, size);
    if (!memory) return ENOMEM;
    *to = memory;
    return 0;
}

#endif
