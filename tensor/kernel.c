/* kernel.c: the product, in the widest vectors that the running machine has.
 *
 * A tile of the result stays in registers while its sums are taken. Tiles are written once, as a macro over a
 * kind of machine, and stamped for each; what is for more than the machine at hand is compiled, but not entered.
 * This file is compiled with -ffp-contract=fast: a product and a sum are one instruction where there is one. */
#include "tensor/kernel.h"
#include "tensor/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- tiles: R rows of W vectors, for machine M ------------------------------------------------------ */

#define VECTOR_AT(M, at, v) (*(M##_loose *)((at) + (v) * (ptrdiff_t)(sizeof(M##_vector) / sizeof(real))))

#define TILE(M, R, W)                                                                                        \
    M##_TARGET static void M##_tile_##R##_##W(ptrdiff_t depth, const real *a, const ptrdiff_t *row,          \
                                              const ptrdiff_t *step, const real *b, const ptrdiff_t *offset, \
                                              real *c, ptrdiff_t pitch, bool add)                            \
    {                                                                                                        \
        M##_vector sum[R][W] = { { { 0 } } };                                                                \
        const real *at[R];                                                                                   \
        for (int i = 0; i < R; i++) at[i] = a + row[i];                                                      \
        for (int i = 0; i < R && add; i++)                                                                   \
            for (int v = 0; v < W; v++) sum[i][v] = VECTOR_AT(M, c + i * pitch, v);                          \
        for (ptrdiff_t k = 0; k < depth; k++) {                                                              \
            M##_vector x[W];                                                                                 \
            for (int v = 0; v < W; v++) x[v] = VECTOR_AT(M, b + offset[k], v);                               \
            for (int i = 0; i < R; i++)                                                                      \
                for (int v = 0; v < W; v++) sum[i][v] += x[v] * at[i][step[k]];                              \
        }                                                                                                    \
        for (int i = 0; i < R; i++)                                                                          \
            for (int v = 0; v < W; v++) VECTOR_AT(M, c + i * pitch, v) = sum[i][v];                          \
    }

#define TO_3(DO, M, R) DO(M, R, 1) DO(M, R, 2) DO(M, R, 3)
#define TO_4(DO, M, R) TO_3(DO, M, R) DO(M, R, 4)
#define NAME(M, R, W) M##_tile_##R##_##W,

/* Sums enough to fill the machine's registers, with room for a row of b and an element of a. */
#define KERNEL_OF_32_REGISTERS(M)                                                                            \
    TO_4(TILE, M, 1)                                                                                         \
    TO_4(TILE, M, 2) TO_4(TILE, M, 3) TO_4(TILE, M, 4) TO_4(TILE, M, 5)                                      \
        TO_4(TILE, M, 6) static const kernel M = { #M,                                                       \
                                                   sizeof(M##_vector) / sizeof(real),                        \
                                                   6,                                                        \
                                                   4,                                                        \
                                                   { { TO_4(NAME, M, 1) },                                   \
                                                     { TO_4(NAME, M, 2) },                                   \
                                                     { TO_4(NAME, M, 3) },                                   \
                                                     { TO_4(NAME, M, 4) },                                   \
                                                     { TO_4(NAME, M, 5) },                                   \
                                                     { TO_4(NAME, M, 6) } } };
#define KERNEL_OF_16_REGISTERS(M)                                                                            \
    TO_3(TILE, M, 1)                                                                                         \
    TO_3(TILE, M, 2) TO_3(TILE, M, 3) TO_3(TILE, M, 4) static const kernel M = {                             \
        #M,                                                                                                  \
        sizeof(M##_vector) / sizeof(real),                                                                   \
        4,                                                                                                   \
        3,                                                                                                   \
        { { TO_3(NAME, M, 1) }, { TO_3(NAME, M, 2) }, { TO_3(NAME, M, 3) }, { TO_3(NAME, M, 4) } }           \
    };

/* ---- machines -------------------------------------------------------------------------------------- */

#define VECTORS(M, BYTES)                                                                                    \
    typedef real M##_vector __attribute__((vector_size(BYTES)));                                             \
    typedef real M##_loose __attribute__((vector_size(BYTES), aligned(sizeof(real)), may_alias));

#if defined(__x86_64__)

#define avx512_TARGET __attribute__((target("avx512f,fma")))
VECTORS(avx512, 64)
KERNEL_OF_32_REGISTERS(avx512)

#define avx2_TARGET __attribute__((target("avx2,fma")))
VECTORS(avx2, 32)
KERNEL_OF_16_REGISTERS(avx2)

#endif

/* Sixteen bytes: SSE2, NEON, or what the compiler makes of it. */
#define generic_TARGET
VECTORS(generic, 16)
#ifdef __aarch64__
KERNEL_OF_32_REGISTERS(generic)
#else
KERNEL_OF_16_REGISTERS(generic)
#endif

/* ---- choosing -------------------------------------------------------------------------------------- */

static bool runs(const kernel *k)
{
#if defined(__x86_64__)
    if (k == &avx512) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma");
    if (k == &avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return k == &generic;
}

static const kernel *const kernels[] = {
#if defined(__x86_64__)
    &avx512,
    &avx2,
#endif
    &generic,
};

int kernel_choose(const kernel **chosen)
{
    const char *name = getenv("STRIDE_ENGINE");
    bool any = !name || !name[0];
    *chosen = NULL;
    if (!any && strcmp(name, "reference") == 0) return 0;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (!any && strcmp(name, kernels[i]->name) != 0) continue;
        if (runs(kernels[i])) {
            *chosen = kernels[i];
            return 0;
        }
        if (!any) return error_set("STRIDE_ENGINE=%s: this machine has no such instructions", name);
    }
    return error_set("STRIDE_ENGINE=%s: expected reference, generic%s", name,
                     kernels[0] == &generic ? "" : ", avx2 or avx512");
}

/* ---- products of any size -------------------------------------------------------------------------- */

static ptrdiff_t parts(ptrdiff_t whole, ptrdiff_t part)
{
    return (whole + part - 1) / part;
}

/* How much of what is left goes into the next tile: as even a split as the largest tile allows. */
static ptrdiff_t share(ptrdiff_t left, ptrdiff_t most)
{
    return parts(left, parts(left, most));
}

void kernel_product(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const real *a,
                    const ptrdiff_t *row, const ptrdiff_t *step, const real *b, const ptrdiff_t *offset,
                    real *c, ptrdiff_t pitch, bool add)
{
    ptrdiff_t lanes = k->lanes, wide, tall;
    for (ptrdiff_t j = 0; j < columns; j += wide * lanes) {
        wide = share(parts(columns - j, lanes), k->wide);
        if (j + wide * lanes > columns) { /* the last tile computes some of the one before it again */
            if (wide * lanes <= columns) j = columns - wide * lanes;
            else wide = columns / lanes;
        }
        for (ptrdiff_t i = 0; i < rows; i += tall) {
            tall = share(rows - i, k->tall);
            k->tile[tall - 1][wide - 1](depth, a, row + i, step, b + j, offset, c + i * pitch + j, pitch,
                                        add);
        }
    }
}
