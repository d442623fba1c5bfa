/* kernel.c: the matrix product, with the widest vectors of the processor.
 *
 * A tile of the result is accumulated in registers. Tiles are a macro with the instruction set as a parameter
 * (isa.h). This file is compiled with -ffp-contract=fast: multiply-adds are fused where the processor
 * can. */
#include "layers/fast/kernel.h"
#include "tensor/counts.h"

/* ---- tiles: R rows of W vectors, for instruction set M ---------------------------------------------- */

#define VECTOR_AT(M, at, v) (*(M##_loose *)((at) + (v) * (ptrdiff_t)(sizeof(M##_vector) / sizeof(st_real))))

/* Adds a vector times a number. */
#define ADD_TIMES(M, sum, x, a) (sum) = M##_FUSED(x, (a) - (M##_vector){ 0 }, sum)

#define TILE(M, R, W)                                                                                        \
    M##_TARGET static void M##_tile_##R##_##W(                                                               \
        ptrdiff_t depth, const st_real *a, const ptrdiff_t *row, const ptrdiff_t *step, const st_real *b,    \
        const ptrdiff_t *offset, st_real *c, ptrdiff_t pitch, bool add)                                      \
    {                                                                                                        \
        M##_vector sum[R][W];                                                                                \
        const st_real *at[R];                                                                                \
        EACH(i, R) at[i] = a + row[i];                                                                       \
        EACH(i, R) EACH(v, W) sum[i][v] = (M##_vector){ 0 };                                                 \
        if (add) EACH(i, R) EACH(v, W) sum[i][v] = VECTOR_AT(M, c + i * pitch, v);                           \
        for (ptrdiff_t k = 0; k < depth; k++) {                                                              \
            M##_vector x[W];                                                                                 \
            EACH(v, W) x[v] = VECTOR_AT(M, b + offset[k], v);                                                \
            EACH(i, R) EACH(v, W) ADD_TIMES(M, sum[i][v], x[v], at[i][step[k]]);                             \
        }                                                                                                    \
        EACH(i, R) EACH(v, W) VECTOR_AT(M, c + i * pitch, v) = sum[i][v];                                    \
    }

/* Four rows share a pointer, so that all fit in the registers. */
#define MATRIX(M, R, W)                                                                                      \
    M##_TARGET static void M##_matrix_##R##_##W(                                                             \
        ptrdiff_t depth, const st_real *a, ptrdiff_t row, ptrdiff_t step, const st_real *b, ptrdiff_t next,  \
        const st_real *begin, ptrdiff_t beside, st_real *c, ptrdiff_t pitch)                                 \
    {                                                                                                        \
        enum { FOURS = (R + 3) / 4 };                                                                        \
        M##_vector sum[R][W], x[W];                                                                          \
        const st_real *at[FOURS];                                                                            \
        EACH(g, FOURS) at[g] = a + 4 * g * row;                                                              \
        EACH(i, R) EACH(v, W) sum[i][v] = (M##_vector){ 0 };                                                 \
        if (begin) EACH(i, R) EACH(v, W) sum[i][v] = VECTOR_AT(M, begin + i * beside, v);                    \
        for (ptrdiff_t k = 0; k < depth; k++, b += next) {                                                   \
            EACH(v, W) x[v] = VECTOR_AT(M, b, v);                                                            \
            EACH(i, R) EACH(v, W) ADD_TIMES(M, sum[i][v], x[v], at[i / 4][i % 4 * row]);                     \
            EACH(g, FOURS) at[g] += step;                                                                    \
        }                                                                                                    \
        EACH(i, R) EACH(v, W) VECTOR_AT(M, c + i * pitch, v) = sum[i][v];                                    \
    }

#define SPREAD(M, W, R)                                                                                      \
    M##_TARGET static void M##_spread_##W##_##R(                                                             \
        ptrdiff_t depth, const st_real *a, ptrdiff_t row, const ptrdiff_t *step, const st_real *b,           \
        const ptrdiff_t *offset, const ptrdiff_t *from, st_real *c, ptrdiff_t pitch, const ptrdiff_t *to,    \
        const st_real *plus, bool add)                                                                       \
    {                                                                                                        \
        M##_vector sum[R][W], x[W];                                                                          \
        const st_real *at[W];                                                                                \
        EACH(v, W) at[v] = b + from[v];                                                                      \
        EACH(i, R) EACH(v, W) sum[i][v] = (M##_vector){ 0 } + (plus ? plus[i] : 0);                          \
        if (add) EACH(i, R) EACH(v, W) sum[i][v] = VECTOR_AT(M, c + i * pitch + to[v], 0);                   \
        for (ptrdiff_t k = 0; k < depth; k++) {                                                              \
            EACH(v, W) x[v] = VECTOR_AT(M, at[v] + offset[k], 0);                                            \
            EACH(i, R) EACH(v, W) ADD_TIMES(M, sum[i][v], x[v], a[i * row + step[k]]);                       \
        }                                                                                                    \
        EACH(i, R) EACH(v, W) VECTOR_AT(M, c + i * pitch + to[v], 0) = sum[i][v];                            \
    }

/* Horizontal sums of at most as many vectors as there are lanes: lane i of the result is the sum of vector
 * i. */
#define SUMS_OF_LANES(M, total, vectors, count)                                                              \
    do {                                                                                                     \
        M##_vector level[ISA_LANES(M)];                                                                      \
        EACH(u, ISA_LANES(M)) level[u] = u < (count) ? (vectors)[u] : (M##_vector){ 0 };                     \
        _Pragma("GCC unroll 4") for (int n = ISA_LANES(M) / 2; n > 0; n /= 2) EACH(u, n) level[u] =          \
            SHUFFLE(M, level[2 * u], level[2 * u + 1], M##_OF(EVEN)) +                                       \
            SHUFFLE(M, level[2 * u], level[2 * u + 1], M##_OF(ODD));                                         \
        (total) = level[0];                                                                                  \
    } while (0)

#define DOT(M, R, D)                                                                                         \
    M##_TARGET static void M##_dot_##R##_##D(ptrdiff_t depth, const st_real *a, ptrdiff_t step,              \
                                             const ptrdiff_t *from, const st_real *keep,                     \
                                             const ptrdiff_t *skip, const st_real *b, const ptrdiff_t *row,  \
                                             const ptrdiff_t *offset, st_real *c, ptrdiff_t pitch)           \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M), GROUPS = (R * D + LANES - 1) / LANES };                                 \
        M##_vector sum[R * D], x[R], total;                                                                  \
        st_real all[GROUPS * LANES];                                                                         \
        const st_real *at[D];                                                                                \
        EACH(j, D) at[j] = b + row[j];                                                                       \
        EACH(u, R *D) sum[u] = (M##_vector){ 0 };                                                            \
        for (ptrdiff_t k = 0; k < depth; k++) {                                                              \
            EACH(i, R) x[i] = VECTOR_AT(M, a + i * step + from[k], 0);                                       \
            if (skip[k] > 0) {                                                                               \
                const M##_mask kept = (M##_mask)VECTOR_AT(M, keep - skip[k], 0);                             \
                EACH(i, R) x[i] = (M##_vector)(kept & (M##_mask)x[i]);                                       \
            }                                                                                                \
            EACH(j, D)                                                                                       \
            {                                                                                                \
                M##_vector y = VECTOR_AT(M, at[j] + offset[k], 0);                                           \
                EACH(i, R) sum[i * D + j] = M##_FUSED(x[i], y, sum[i * D + j]);                              \
            }                                                                                                \
        }                                                                                                    \
        EACH(g, GROUPS)                                                                                      \
        {                                                                                                    \
            SUMS_OF_LANES(M, total, sum + g * LANES, R * D - g * LANES);                                     \
            VECTOR_AT(M, all, g) = total;                                                                    \
        }                                                                                                    \
        EACH(i, R) EACH(j, D) c[i * pitch + j] += all[i * D + j];                                            \
    }

/* By perfect shuffles. Those of AVX2 stay within halves of a vector, which are of two rows. */
#define avx512_PARTS 1
#define avx512_PART(at, other) AT(avx512, at)
#define avx512_LOWER avx512_OF(LOWER)
#define avx512_UPPER avx512_OF(UPPER)
#define generic_PARTS 1
#define generic_PART(at, other) AT(generic, at)
#define generic_LOWER generic_OF(LOWER)
#define generic_UPPER generic_OF(UPPER)
#ifdef PAIRS
#define avx2_PARTS 2
#define avx2_PART(at, other) HALVES(avx2, at, other)
#define avx2_LOWER avx2_OF(LOWER_HALVES)
#define avx2_UPPER avx2_OF(UPPER_HALVES)
#else
#define avx2_PARTS 1
#define avx2_PART(at, other) AT(avx2, at)
#define avx2_LOWER avx2_OF(LOWER)
#define avx2_UPPER avx2_OF(UPPER)
#endif

#define TRANSPOSE(M)                                                                                         \
    M##_TARGET static void M##_transpose(const st_real *a, ptrdiff_t step, st_real *c, ptrdiff_t pitch,      \
                                         const st_real *plus)                                                \
    {                                                                                                        \
        enum { PART = ISA_LANES(M) / M##_PARTS, HALF = PART / 2 };                                           \
        for (int part = 0; part < M##_PARTS; part++, a += PART, c += PART * pitch, plus += PART) {           \
            M##_vector v[PART], w[PART];                                                                     \
            for (int i = 0; i < PART; i++) v[i] = M##_PART(a + i * step, PART * step) + M##_PART(plus, 0);   \
            for (int n = PART; n > 1; n /= 2) {                                                              \
                for (int i = 0; i < HALF; i++) {                                                             \
                    w[2 * i] = SHUFFLE(M, v[i], v[i + HALF], M##_LOWER);                                     \
                    w[2 * i + 1] = SHUFFLE(M, v[i], v[i + HALF], M##_UPPER);                                 \
                }                                                                                            \
                for (int i = 0; i < PART; i++) v[i] = w[i];                                                  \
            }                                                                                                \
            for (int j = 0; j < PART; j++) VECTOR_AT(M, c + j * pitch, 0) = v[j];                            \
        }                                                                                                    \
    }

/* Vectors of `lanes` elements, of which the last one overlaps the previous one. */
#define MOVE_ROWS(VECTOR, lanes)                                                                             \
    for (const ptrdiff_t last = count - (lanes); rows > 0; rows--, from += step, to += pitch) {              \
        for (ptrdiff_t i = 0; i < last; i += (lanes)) *(VECTOR *)(to + i) = *(const VECTOR *)(from + i);     \
        *(VECTOR *)(to + last) = *(const VECTOR *)(from + last);                                             \
    }

#define MOVE(M)                                                                                              \
    M##_TARGET static void M##_move(ptrdiff_t rows, ptrdiff_t count, const st_real *from, ptrdiff_t step,    \
                                    st_real *to, ptrdiff_t pitch)                                            \
    {                                                                                                        \
        if (count >= ISA_LANES(M)) MOVE_ROWS(M##_loose, ISA_LANES(M))                                        \
        else if (count >= ISA_LANES(generic)) MOVE_ROWS(generic_loose, ISA_LANES(generic))                   \
        else if (count > 0) MOVE_ROWS(st_real, 1)                                                            \
    }

/* Nothing is read beyond the last element. */
#define SPLIT_ROWS(M)                                                                                        \
    for (; rows > 0; rows--, from += step, to += pitch)                                                      \
        for (ptrdiff_t i = 0; i < count; i += ISA_LANES(M)) {                                                \
            i = smallest(i, count - ISA_LANES(M));                                                           \
            const M##_vector u = VECTOR_AT(M, from + 2 * i, 0),                                              \
                             v = VECTOR_AT(M, from + 2 * i + ISA_LANES(M) - 1, 0);                           \
            VECTOR_AT(M, to + i, 0) = SHUFFLE(M, u, v, M##_OF(SPLIT));                                       \
        }

#define SPLIT(M)                                                                                             \
    M##_TARGET static void M##_split(ptrdiff_t rows, ptrdiff_t count, const st_real *from, ptrdiff_t step,   \
                                     st_real *to, ptrdiff_t pitch)                                           \
    {                                                                                                        \
        if (count >= ISA_LANES(M)) {                                                                         \
            SPLIT_ROWS(M)                                                                                    \
        } else if (count >= ISA_LANES(generic)) {                                                            \
            SPLIT_ROWS(generic)                                                                              \
        } else {                                                                                             \
            for (ptrdiff_t i = 0; i < rows * count; i++)                                                     \
                to[i / count * pitch + i % count] = from[i / count * step + 2 * (i % count)];                \
        }                                                                                                    \
    }

/* Elements `apart` from each other lie in as many vectors. Where those begin a lane earlier each time that
 * lanes would repeat, the lanes of all differ: they are read into one vector, and put in order. Fewer
 * elements than lanes are the first ones. */
#define PICK(M)                                                                                              \
    M##_TARGET static void M##_pick_out(ptrdiff_t rows, ptrdiff_t count, ptrdiff_t apart,                    \
                                        const st_real *from, ptrdiff_t step, st_real *to, ptrdiff_t pitch)   \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const int lanes = (int)smallest(count, LANES);                                                       \
        int begin[LANES] = { 0 }, keep[LANES] = { 0 }, vectors = 0;                                          \
        M##_mask order = { 0 };                                                                              \
        for (int i = 0, place = 0, earlier = 0; i < lanes; i++, place += (int)apart) {                       \
            earlier += i > 0 && place % LANES == 0;                                                          \
            const int lane = (place + earlier) % LANES, v = (place + earlier) / LANES;                       \
            begin[v] = v * LANES - earlier, keep[v] |= 1 << lane, vectors = v + 1;                           \
            order[i] = lane;                                                                                 \
        }                                                                                                    \
        for (; rows > 0; rows--, from += step, to += pitch)                                                  \
            for (ptrdiff_t i = 0; i < count; i += LANES) {                                                   \
                i = smallest(i, count - lanes);                                                              \
                M##_vector v = { 0 };                                                                        \
                for (int j = 0; j < vectors; j++) v = M##_READ(from + i * apart + begin[j], v, keep[j]);     \
                M##_WRITE(to + i, SHUFFLE_BY(M, v, v, order), (1 << lanes) - 1);                             \
            }                                                                                                \
    }

/* Three phases, of which each vector lies in three that follow each other: they are read once for all. */
#define DEAL(M)                                                                                              \
    M##_TARGET static void M##_deal_out(ptrdiff_t rows, ptrdiff_t count, const st_real *from,                \
                                        ptrdiff_t step, st_real *const to[3], ptrdiff_t pitch)               \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        M##_mask two[3], three[3]; /* the order of lanes of the first two vectors, and with the third one */ \
        for (isa_bits p = 0; p < 3; p++)                                                                     \
            for (isa_bits i = 0; i < LANES; i++) {                                                           \
                const isa_bits at = 3 * i + p;                                                               \
                two[p][i] = at < 2 * LANES ? at : 0;                                                         \
                three[p][i] = at < 2 * LANES ? i : at - LANES;                                               \
            }                                                                                                \
        for (ptrdiff_t r = 0; r < rows; r++, from += step)                                                   \
            for (ptrdiff_t i = 0; i < count; i += LANES) {                                                   \
                i = smallest(i, count - LANES);                                                              \
                const M##_vector u = VECTOR_AT(M, from + 3 * i, 0), v = VECTOR_AT(M, from + 3 * i, 1),       \
                                 w = VECTOR_AT(M, from + 3 * i, 2);                                          \
                _Pragma("GCC unroll 3") for (int p = 0; p < 3; p++) if (to[p])                               \
                    VECTOR_AT(M, to[p] + r * pitch + i, 0) =                                                 \
                        SHUFFLE_BY(M, SHUFFLE_BY(M, u, v, two[p]), w, three[p]);                             \
            }                                                                                                \
    }

#define WEAVE_ROWS(M)                                                                                        \
    for (; rows > 0; rows--, u += step_u, v += step_v, to += pitch)                                          \
        for (ptrdiff_t i = 0; i < count; i += ISA_LANES(M)) {                                                \
            i = smallest(i, count - ISA_LANES(M));                                                           \
            const M##_vector even = VECTOR_AT(M, u + i, 0), odd = VECTOR_AT(M, v + i, 0);                    \
            __builtin_prefetch(to + pitch + 2 * i, 1);                                                       \
            __builtin_prefetch(to + pitch + 2 * i + ISA_LANES(M), 1);                                        \
            VECTOR_AT(M, to + 2 * i, 0) = SHUFFLE(M, even, odd, M##_OF(LOWER));                              \
            VECTOR_AT(M, to + 2 * i, 1) = SHUFFLE(M, even, odd, M##_OF(UPPER));                              \
        }

#define WEAVE(M)                                                                                             \
    M##_TARGET static void M##_weave(ptrdiff_t rows, ptrdiff_t count, const st_real *u, ptrdiff_t step_u,    \
                                     const st_real *v, ptrdiff_t step_v, st_real *to, ptrdiff_t pitch)       \
    {                                                                                                        \
        if (count >= ISA_LANES(M)) {                                                                         \
            WEAVE_ROWS(M)                                                                                    \
        } else if (count >= ISA_LANES(generic)) {                                                            \
            WEAVE_ROWS(generic)                                                                              \
        } else {                                                                                             \
            for (ptrdiff_t row = 0; row < rows; row++)                                                       \
                for (ptrdiff_t i = 0; i < count; i++) {                                                      \
                    to[row * pitch + 2 * i] = u[row * step_u + i];                                           \
                    to[row * pitch + 2 * i + 1] = v[row * step_v + i];                                       \
                }                                                                                            \
        }                                                                                                    \
    }

#define PACK(M)                                                                                              \
    M##_TARGET static void M##_pack(ptrdiff_t depth, const st_real *b, const ptrdiff_t *offset,              \
                                    const st_real *end, ptrdiff_t runs, const ptrdiff_t *from,               \
                                    const ptrdiff_t *length, st_real *to, ptrdiff_t pitch)                   \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        for (ptrdiff_t k = 0; k < depth; k++) {                                                              \
            st_real *next = to + k * pitch;                                                                  \
            for (ptrdiff_t r = 0; r < runs; next += length[r++]) {                                           \
                const st_real *at = b + offset[k] + from[r];                                                 \
                ptrdiff_t i = 0;                                                                             \
                for (; i < length[r] && end - at >= i + LANES; i += LANES)                                   \
                    VECTOR_AT(M, next + i, 0) = VECTOR_AT(M, at + i, 0);                                     \
                for (; i < length[r]; i++) next[i] = at[i];                                                  \
            }                                                                                                \
        }                                                                                                    \
    }

/* Tiles of R rows, up to that wide. The sums of the largest fill the registers, except those that hold a row
 * of b and an element of a. */
#define TO_1(DO, M, R) DO(M, R, 1)
#define TO_2(DO, M, R) DO(M, R, 1) DO(M, R, 2)
#define TO_3(DO, M, R) TO_2(DO, M, R) DO(M, R, 3)
#define TO_4(DO, M, R) TO_3(DO, M, R) DO(M, R, 4)
#define TO_6(DO, M, R) TO_4(DO, M, R) DO(M, R, 5) DO(M, R, 6)
#define TO_8(DO, M, R) TO_6(DO, M, R) DO(M, R, 7) DO(M, R, 8)
#define TO_12(DO, M, R) TO_8(DO, M, R) DO(M, R, 9) DO(M, R, 10) DO(M, R, 11) DO(M, R, 12)

/* clang-format off */
#define TILES_OF_32_REGISTERS(DO, M)                                                                         \
    TO_4(DO, M, 1) TO_4(DO, M, 2) TO_4(DO, M, 3) TO_4(DO, M, 4) TO_4(DO, M, 5) TO_4(DO, M, 6)                \
    TO_2(DO, M, 7) TO_2(DO, M, 8) TO_2(DO, M, 9) TO_2(DO, M, 10) TO_2(DO, M, 11) TO_2(DO, M, 12)
#define DOTS_OF_32_REGISTERS(DO, M)                                                                          \
    TO_4(DO, M, 1) TO_4(DO, M, 2) TO_4(DO, M, 3) TO_4(DO, M, 4) TO_4(DO, M, 5) TO_4(DO, M, 6)
#define SPREADS_OF_32_REGISTERS(DO, M)                                                                       \
    TO_12(DO, M, 1) TO_12(DO, M, 2) TO_8(DO, M, 3) TO_6(DO, M, 4) TO_4(DO, M, 5) TO_4(DO, M, 6)
#define SIZES_OF_32_REGISTERS                                                                                \
    .wide = 4, .tall = { 12, 12, 6, 6 }, .high = 6, .deep = 4, .far = 6, .steep = { 12, 12, 8, 6, 4, 4 }

#define TILES_OF_16_REGISTERS(DO, M)                                                                         \
    TO_3(DO, M, 1) TO_3(DO, M, 2) TO_3(DO, M, 3) TO_3(DO, M, 4) TO_2(DO, M, 5) TO_2(DO, M, 6)                \
    TO_1(DO, M, 7) TO_1(DO, M, 8) TO_1(DO, M, 9) TO_1(DO, M, 10) TO_1(DO, M, 11) TO_1(DO, M, 12)
#define DOTS_OF_16_REGISTERS(DO, M) TO_4(DO, M, 1) TO_4(DO, M, 2) TO_4(DO, M, 3)
#define SPREADS_OF_16_REGISTERS(DO, M) TO_12(DO, M, 1) TO_6(DO, M, 2) TO_4(DO, M, 3)
#define SIZES_OF_16_REGISTERS                                                                                \
    .wide = 3, .tall = { 12, 6, 4 }, .high = 3, .deep = 4, .far = 3, .steep = { 12, 6, 4 }

#define NAME(M, R, W)                                                                                        \
    .tile[R - 1][W - 1] = M##_tile_##R##_##W, .matrix[R - 1][W - 1] = M##_matrix_##R##_##W,
#define SPREAD_NAME(M, W, R) .spread[W - 1][R - 1] = M##_spread_##W##_##R,
#define DOT_NAME(M, R, D) .dot[R - 1][D - 1] = M##_dot_##R##_##D,

#define KERNEL(M, REGISTERS)                                                                                 \
    TILES_OF_##REGISTERS(TILE, M) TILES_OF_##REGISTERS(MATRIX, M)                                            \
    SPREADS_OF_##REGISTERS(SPREAD, M) DOTS_OF_##REGISTERS(DOT, M)                                            \
    TRANSPOSE(M) PACK(M) MOVE(M) SPLIT(M) WEAVE(M)                                                           \
    static const kernel M = {                                                                                \
        .name = #M, .lanes = ISA_LANES(M), SIZES_OF_##REGISTERS, .transpose = M##_transpose,             \
        .pack = M##_pack, .move = M##_move, .split = M##_split, .pick = M##_PICK, .deal = M##_DEAL,          \
        .weave = M##_weave, TILES_OF_##REGISTERS(NAME, M) SPREADS_OF_##REGISTERS(SPREAD_NAME, M)             \
        DOTS_OF_##REGISTERS(DOT_NAME, M)                                                                     \
    };
/* clang-format on */

/* ---- instruction sets ------------------------------------------------------------------------------ */

#ifdef avx2_TARGET
#ifndef __clang__
PICK(avx512)
DEAL(avx512)
#endif
KERNEL(avx512, 32_REGISTERS)
KERNEL(avx2, 16_REGISTERS)
#endif
#ifdef __aarch64__
KERNEL(generic, 32_REGISTERS)
#else
KERNEL(generic, 16_REGISTERS)
#endif

#define ADDRESS(M) &M,
const kernel *const kernel_of_isa[] = { EACH_ISA(ADDRESS) };

/* ---- products of any size -------------------------------------------------------------------------- */

enum {
    PANEL = (1 << 17) / sizeof(st_real), /* elements of b in a panel, which stays in the second cache */
    MOST_LANES = 64 / sizeof(st_real)
};

/* The size of the next tile: divides the rest as evenly as the largest tile allows. */
static ptrdiff_t share(ptrdiff_t left, ptrdiff_t most)
{
    return left > most ? ceil_div(left, ceil_div(left, most)) : left;
}

/* The last columns, fewer than lanes, when c is accumulated: added to in a buffer, with some columns before
 * them. */
static void add_edge(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const st_real *a,
                     const ptrdiff_t *row, const ptrdiff_t *step, const st_real *b, const ptrdiff_t *offset,
                     st_real *c, ptrdiff_t pitch)
{
    st_real aside[KERNEL_TALL * MOST_LANES] = { 0 };
    ptrdiff_t before = k->lanes - columns, tall;
    for (ptrdiff_t i = 0; i < rows; i += tall, c += tall * pitch) {
        tall = share(rows - i, k->tall[0]);
        k->move(tall, columns, c, pitch, aside + before, k->lanes);
        k->tile[tall - 1][0](depth, a, row + i, step, b - before, offset, aside, k->lanes, true);
        k->move(tall, columns, aside + before, k->lanes, c, pitch);
    }
}

/* The next tile, which waits for what it adds to. */
static void prefetch_tile(const kernel *k, ptrdiff_t rows, ptrdiff_t wide, const st_real *c, ptrdiff_t pitch)
{
    for (; rows > 0; rows--, c += pitch) {
        __builtin_prefetch(c, 1);
        __builtin_prefetch(c + wide * k->lanes - 1, 1);
    }
}

/* All rows of a tile's columns; a long sum is divided into panels of b that stay in cache. */
static void column(const kernel *k, ptrdiff_t rows, ptrdiff_t wide, ptrdiff_t depth, const st_real *a,
                   const ptrdiff_t *row, const ptrdiff_t *step, const st_real *b, const ptrdiff_t *offset,
                   st_real *c, ptrdiff_t pitch, bool add)
{
    ptrdiff_t part, tall;
    for (;; step += part, offset += part, add = true) {
        part = share(depth, PANEL / (wide * k->lanes));
        for (ptrdiff_t i = 0; i < rows; i += tall) {
            tall = share(rows - i, k->tall[wide - 1]);
            if (add) prefetch_tile(k, smallest(rows - i - tall, tall), wide, c + (i + tall) * pitch, pitch);
            k->tile[tall - 1][wide - 1](part, a, row + i, step, b, offset, c + i * pitch, pitch, add);
        }
        if ((depth -= part) == 0) return; /* no tables with a depth of 0 */
    }
}

void kernel_product(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const st_real *a,
                    const ptrdiff_t *row, const ptrdiff_t *step, const st_real *b, const ptrdiff_t *offset,
                    st_real *c, ptrdiff_t pitch, bool add)
{
    ptrdiff_t lanes = k->lanes, edge = add ? columns % lanes : 0, wide;
    columns -= edge;
    for (ptrdiff_t j = 0; j < columns; j += wide * lanes) {
        wide = share(ceil_div(columns - j, lanes), k->wide);
        if (j + wide * lanes > columns) { /* the last tile overlaps the previous one */
            if (wide * lanes <= columns) j = columns - wide * lanes;
            else wide = columns / lanes;
        }
        column(k, rows, wide, depth, a, row, step, b + j, offset, c + j, pitch, add);
    }
    if (edge > 0) add_edge(k, rows, edge, depth, a, row, step, b + columns, offset, c + columns, pitch);
}

/* ---- matrices -------------------------------------------------------------------------------------- */

enum {
    NEAR = (1 << 20) / sizeof(st_real), /* elements of b that are in the second cache: */
    REUSED = 64,                        /* rows that pay for a copy; */
    SOME = 12,                          /* or if there are more; */
    FAR = (1 << 24) / sizeof(st_real),  /* elements that are in no cache: */
    SHALLOW = 16,                       /* k at a time for fewer rows, so that whole pages are read; */
    NARROW = 64,                        /* columns of which a block has KERNEL_LONG k, for that reason */
    AHEAD = 512 / sizeof(st_real)       /* elements of c that are fetched before their tile along a row */
};

/* Copies a block of b, [depth, columns], with zeros up to the next vector, to a panel. */
static void copy_columns(const kernel *k, ptrdiff_t columns, ptrdiff_t depth, kernel_view b, st_real *panel)
{
    const ptrdiff_t rest = columns % k->lanes;
    for (ptrdiff_t i = 0; i < depth && rest > 0; i++)
        for (ptrdiff_t j = rest; j < k->lanes; j++) panel[i * KERNEL_PITCH + columns - rest + j] = 0;
    if (b.column == 1) k->move(depth, columns, b.at, b.row, panel, KERNEL_PITCH);
    else kernel_transpose(k, columns, depth, b.at, b.column, panel, KERNEL_PITCH, NULL);
}

/* Copies a block of a, whose rows have a distance of 1, tile by tile. */
static void copy_rows(const kernel *k, ptrdiff_t rows, ptrdiff_t high, ptrdiff_t depth, kernel_view a,
                      st_real *panel)
{
    for (ptrdiff_t i = 0, tall; i < rows; i += tall) {
        tall = share(rows - i, high);
        k->move(depth, tall, a.at + i, a.column, panel + i * depth, tall);
    }
}

/* A block of a, and the most rows of its tiles. */
typedef struct block {
    kernel_view a; /* column 0: copied by copy_rows */
    ptrdiff_t high;
} block;

/* Some columns of c, as many as a tile has; fewer are computed aside. */
static void strip(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const block *a,
                  const st_real *b, ptrdiff_t next, kernel_view begin, st_real *c, ptrdiff_t pitch)
{
    st_real aside[KERNEL_TALL * KERNEL_WIDE * MOST_LANES];
    const ptrdiff_t wide = ceil_div(columns, k->lanes), width = wide * k->lanes;
    for (ptrdiff_t i = 0, tall; i < rows; i += tall, c += tall * pitch) {
        tall = share(rows - i, a->high);
        kernel_matrix_tile *tile = k->matrix[tall - 1][wide - 1];
        const bool copied = a->a.column == 0;
        const ptrdiff_t row = copied ? 1 : a->a.row, step = copied ? tall : a->a.column;
        const st_real *from = a->a.at + i * a->a.row, *sum = begin.at ? begin.at + i * begin.row : NULL;
        if (columns == width) {
            if (sum == c) prefetch_tile(k, smallest(rows - i - tall, tall), wide, c + tall * pitch, pitch);
            tile(depth, from, row, step, b, next, sum, begin.row, c, pitch);
            continue;
        }
        if (sum) k->move(tall, columns, sum, begin.row, aside, width);
        tile(depth, from, row, step, b, next, sum ? aside : NULL, width, aside, width);
        k->move(tall, columns, aside, width, c, pitch);
    }
}

ptrdiff_t kernel_panel(ptrdiff_t rows, ptrdiff_t depth)
{
    return smallest(depth, KERNEL_LONG) * (KERNEL_PITCH + rows);
}

static kernel_view at(kernel_view v, ptrdiff_t row, ptrdiff_t column)
{
    if (v.at) v.at += row * v.row + column * v.column;
    return v;
}

void kernel_matrix(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, kernel_view a,
                   kernel_view b, kernel_view begin, st_real *c, ptrdiff_t pitch, bool along, st_real *panel)
{
    const ptrdiff_t lanes = k->lanes,
                    reused = along                  ? rows + 1
                             : depth * b.row > NEAR ? SOME
                                                    : REUSED,
                    deep = rows < SOME && depth * b.row > FAR  ? SHALLOW
                           : columns <= NARROW && b.column > 1 ? KERNEL_LONG
                                                               : KERNEL_DEPTH;
    ptrdiff_t most = k->wide, part, band, some, wide;
    while (most > 2 && k->tall[most - 1] < rows) most--;
    most = smallest(most, ceil_div(columns, lanes));
    for (ptrdiff_t first = 0; first < depth; first += part, begin = (kernel_view){ c, pitch, 1 }) {
        part = share(depth - first, deep);
        block all = { at(a, 0, first), k->tall[most - 1] };
        if (panel && a.row == 1 && a.column != 1) {
            copy_rows(k, rows, all.high, part, all.a, panel + part * KERNEL_PITCH);
            all.a = (kernel_view){ panel + part * KERNEL_PITCH, part, 0 };
        }
        for (ptrdiff_t row = 0; row < rows; row += band) {
            band = along ? share(rows - row, all.high) : rows;
            const block of = { at(all.a, row, 0), all.high };
            st_real *to = c + row * pitch;
            for (ptrdiff_t left = 0; left < columns; left += some) {
                some = smallest(columns - left, KERNEL_BREADTH);
                kernel_view columns_of = at(b, first, left);
                if (panel && (b.column != 1 || some % lanes || rows >= reused)) {
                    copy_columns(k, some, part, columns_of, panel);
                    columns_of = (kernel_view){ panel, KERNEL_PITCH, 1 };
                }
                for (ptrdiff_t j = 0; j < some; j += wide) {
                    wide = smallest(some - j, lanes * share(ceil_div(some - j, lanes), most));
                    if (along) prefetch_tile(k, band, ceil_div(wide, lanes), to + left + j + AHEAD, pitch);
                    strip(k, band, wide, part, &of, columns_of.at + j, columns_of.row,
                          at(begin, row, left + j), to + left + j, pitch);
                }
            }
        }
    }
}

/* ---- vectors anywhere, and dots -------------------------------------------------------------------- */

void kernel_spread(const kernel *k, ptrdiff_t rows, ptrdiff_t vectors, ptrdiff_t depth, const st_real *a,
                   ptrdiff_t row, const ptrdiff_t *step, const st_real *b, const ptrdiff_t *offset,
                   const ptrdiff_t *from, st_real *c, ptrdiff_t pitch, const ptrdiff_t *to,
                   const st_real *plus, bool add, bool ahead)
{
    /* Few rows are multiplied with many vectors at a time; many with few, which are read from the second
     * cache. */
    ptrdiff_t most = k->far;
    while (most > k->wide && k->steep[most - 1] < rows) most--;
    for (ptrdiff_t v = 0, wide; v < vectors; v += wide) {
        wide = share(vectors - v, most);
        for (ptrdiff_t i = 0, tall; i < rows; i += tall) {
            tall = share(rows - i, k->steep[wide - 1]);
            for (ptrdiff_t next = v + wide; next < smallest(v + 2 * wide, vectors); next++)
                for (ptrdiff_t r = i; r < i + tall; r++) __builtin_prefetch(c + r * pitch + to[next], 1);
            for (ptrdiff_t next = v + 2 * wide; next < smallest(v + 3 * wide, vectors) && ahead; next++)
                for (ptrdiff_t n = depth * i / rows; n < depth * (i + tall) / rows; n++)
                    __builtin_prefetch(b + from[next] + offset[n]);
            k->spread[wide - 1][tall - 1](depth, a + i * row, row, step, b, offset, from + v, c + i * pitch,
                                          pitch, to + v, plus ? plus + i : NULL, add);
        }
    }
}

void kernel_dot(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const st_real *a,
                ptrdiff_t step, const ptrdiff_t *from, const ptrdiff_t *skip, const st_real *b,
                const ptrdiff_t *row, const ptrdiff_t *offset, st_real *c, ptrdiff_t pitch)
{
    isa_bits keep[2 * MOST_LANES]; /* masks: from MOST_LANES on all bits */
    for (int e = 0; e < 2 * MOST_LANES; e++) keep[e] = -(e >= MOST_LANES);
    for (ptrdiff_t i = 0, high; i < rows; i += high) {
        high = share(rows - i, k->high);
        for (ptrdiff_t j = 0, deep; j < columns; j += deep) {
            deep = share(columns - j, k->deep);
            k->dot[high - 1][deep - 1](depth, a + i * step, step, from, (st_real *)(keep + MOST_LANES), skip,
                                       b, row + j, offset, c + i * pitch + j, pitch);
        }
    }
}

/* ---- transposing ----------------------------------------------------------------------------------- */

ptrdiff_t kernel_padded(const kernel *k, ptrdiff_t count)
{
    return ceil_div(count, k->lanes) * k->lanes;
}

const kernel *kernel_narrower(const kernel *k, ptrdiff_t most)
{
    enum { ISAS = sizeof kernel_of_isa / sizeof *kernel_of_isa };
    int i = 0;
    while (kernel_of_isa[i] != k) i++;
    for (; i < ISAS; i++)
        if (kernel_of_isa[i]->lanes <= most) return kernel_of_isa[i];
    return NULL;
}

void kernel_transpose(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, const st_real *from, ptrdiff_t step,
                      st_real *to, ptrdiff_t pitch, const st_real *plus)
{
    enum { LINE = 64 / sizeof(st_real), NEXT = 2 * LINE }; /* prefetched, for images that are not in cache */
    st_real nothing[MOST_LANES];                           /* -0, which changes no number */
    for (int i = 0; i < MOST_LANES; i++) nothing[i] = (st_real)-0.0;
    k = kernel_narrower(k, smallest(rows, columns));
    if (!k) {
        for (ptrdiff_t j = 0; j < columns; j++)
            for (ptrdiff_t i = 0; i < rows; i++)
                to[j * pitch + i] = from[i * step + j] + (plus ? plus[j] : *nothing);
        return;
    }
    const ptrdiff_t lanes = k->lanes;
    bool wide = columns > rows; /* few rows at a time, which hardware prefetching handles */
    for (ptrdiff_t a = 0; a < smallest(rows, columns); a += lanes)
        for (ptrdiff_t b = 0; b < largest(rows, columns); b += lanes) {
            ptrdiff_t row = smallest(wide ? a : b, rows - lanes),
                      column = smallest(wide ? b : a, columns - lanes);
            const st_real *at = from + row * step + column;
            st_real *transposed = to + column * pitch + row;
            for (ptrdiff_t r = 0; r < lanes && b % LINE == 0; r++)
                if (wide) __builtin_prefetch(at + r * step + NEXT);
                else __builtin_prefetch(transposed + r * pitch + NEXT, 1);
            k->transpose(at, step, transposed, pitch, plus ? plus + column : nothing);
        }
}
