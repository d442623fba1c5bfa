/* stream.c: stores that go past the caches, by vectors of 32 bytes, two of which fill a line. */
#include "tensor/fast/stream.h"
#include "tensor/counts.h"
#include "tensor/fast/isa.h"

#include <stdint.h>
#include <string.h>

enum { LINE = 64 / sizeof(st_real) }; /* elements */

#ifdef avx2_TARGET
#if defined(__clang__)
#define STORE(to, v) __builtin_nontemporal_store(v, (avx2_vector *)(to))
#elif defined(STRIDE_DOUBLE)
#define STORE(to, v) __builtin_ia32_movntpd256(to, v)
#else
#define STORE(to, v) __builtin_ia32_movntps256(to, v)
#endif

bool stream_has(int isa)
{
    return isa_bytes(isa) >= (int)sizeof(avx2_vector);
}

void stream_end(void)
{
    __builtin_ia32_sfence();
}

/* `to` is the start of a line if n is a line or more. */
avx2_TARGET static void copy_past(st_real *to, const st_real *from, ptrdiff_t n)
{
    enum { LANES = ISA_LANES(avx2) };
    ptrdiff_t i = 0;
    for (; i + LINE <= n; i += LINE) {
        const avx2_vector a = AT(avx2, from + i), b = AT(avx2, from + i + LANES);
        STORE(to + i, a);
        STORE(to + i + LANES, b);
    }
    memcpy(to + i, from + i, (size_t)(n - i) * sizeof *to);
}
#else
bool stream_has(int isa)
{
    (void)isa;
    return false;
}

void stream_end(void) {}

static void copy_past(st_real *to, const st_real *from, ptrdiff_t n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}
#endif

/* The elements of the first piece, which ends with a line. */
static ptrdiff_t first_piece(const st_real *to)
{
    const ptrdiff_t count = (ptrdiff_t)(-(uintptr_t)to / sizeof(st_real) % LINE);
    return count > 0 ? count : STREAM_PIECE;
}

void stream_row(ptrdiff_t n, int views, st_real *const at[], st_row_function *row, void *context)
{
    static const ptrdiff_t adjacent[ST_MAX_VIEWS] = { 1, 1, 1, 1 };
    _Alignas(64) st_real piece[STREAM_PIECE];
    for (ptrdiff_t i = 0, count = first_piece(at[0]); i < n; i += count, count = STREAM_PIECE) {
        st_real *part[ST_MAX_VIEWS] = { piece };
        for (int v = 1; v < views; v++) part[v] = at[v] + i;
        count = smallest(count, n - i);
        row(count, part, adjacent, context);
        copy_past(at[0] + i, piece, count);
    }
}
