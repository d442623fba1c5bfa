/* squares.h: vectors of windows that are squares, 2 x 2 elements that are apart (squares_call in windows.h),
 * and passes over a channel of them.
 *
 * A vector of windows is read from two rows of x to registers, and y, what is kept, and dx are written once.
 * A pooling is, for each instruction set,
 *
 *     M_NAME_square       y of a vector of windows from their elements; writes what is kept
 *     M_NAME_square_back  their adjoint from dy and what is kept; adds to a parameter's sums in `own` lanes
 *
 * of weights w [POOL_LANES]; SQUARE_POOLING makes its form. Lanes that a vector of windows has before the
 * next one, and after the last one, are left out. */
#ifndef STRIDE_LAYERS_FAST_SQUARES_H
#define STRIDE_LAYERS_FAST_SQUARES_H

#include "layers/fast/pooling_lanes.h"

#include <string.h>

enum { SQUARE = 4 };

/* The numbers of lanes. */
static const lanes number_of_lane = { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                      16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31 };

INLINE void part_of(const st_real *from, const st_real *end, ptrdiff_t n, st_real *to)
{
    const ptrdiff_t some = end - from < n ? end - from : n;
    memset(to, 0, (size_t)n * sizeof *to);
    if (some > 0) memcpy(to, from, (size_t)some * sizeof *to);
}

INLINE void put_part(const st_real *from, ptrdiff_t n, st_real *to, const st_real *end)
{
    const ptrdiff_t some = end - to < n ? end - to : n;
    if (some > 0) memcpy(to, from, (size_t)some * sizeof *to);
}

/* Each vector of windows from column i on, of a row's `columns`: the last one ends with the last window. */
#define EACH_SQUARES(M, i, last, columns)                                                                    \
    for (ptrdiff_t next = 0, i = 0, last = 0; last = next + ISA_LANES(M) >= (columns),                       \
                   i = last && (columns) > ISA_LANES(M) ? (columns)-ISA_LANES(M) : next, next < (columns);   \
         next += ISA_LANES(M))

/* For each instruction set, the elements of windows, and y or dx of them. */
#define SQUARES(M)                                                                                           \
    M##_TARGET INLINE M##_mask M##_own_lanes(ptrdiff_t columns)                                              \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const ptrdiff_t skip = columns > LANES ? (LANES - columns % LANES) % LANES : 0;                      \
        isa_bits own[LANES];                                                                                 \
        for (int l = 0; l < LANES; l++) own[l] = l >= skip && l < columns ? -1 : 0;                          \
        return (M##_mask)AT(M, own);                                                                         \
    }                                                                                                        \
    /* Tests if a lane of the windows is not 0. */                                                           \
    M##_TARGET INLINE bool M##_any_other(M##_vector zero, ptrdiff_t columns)                                 \
    {                                                                                                        \
        const M##_mask other =                                                                               \
            (zero != 0) & (columns < ISA_LANES(M) ? M##_own_lanes(columns) : ~(M##_mask){ 0 });              \
        isa_bits any = 0;                                                                                    \
        EACH(l, ISA_LANES(M)) any |= other[l];                                                               \
        return any != 0;                                                                                     \
    }                                                                                                        \
    M##_TARGET INLINE M##_vector M##_get(const st_real *from, const st_real *end)                            \
    {                                                                                                        \
        st_real room[ISA_LANES(M)];                                                                          \
        if (end - from >= ISA_LANES(M)) return AT(M, from);                                                  \
        part_of(from, end, ISA_LANES(M), room);                                                              \
        return AT(M, room);                                                                                  \
    }                                                                                                        \
    M##_TARGET INLINE void M##_put(M##_vector v, st_real *to, const st_real *end)                            \
    {                                                                                                        \
        st_real room[ISA_LANES(M)];                                                                          \
        if (end - to >= ISA_LANES(M)) AT(M, to) = v;                                                         \
        else AT(M, room) = v, put_part(room, ISA_LANES(M), to, end);                                         \
    }                                                                                                        \
    M##_TARGET INLINE void M##_get_rows(const squares_call *b, const st_real *top, M##_vector *u,            \
                                        M##_vector *v)                                                       \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        if (b->x_end - top >= b->wide + 2 * LANES)                                                           \
            EACH(r, 2) u[r] = AT(M, top + r * b->wide), v[r] = AT(M, top + r * b->wide + LANES);             \
        else EACH(r, 2)                                                                                      \
        u[r] = M##_get(top + r * b->wide, b->x_end), v[r] = M##_get(top + r * b->wide + LANES, b->x_end);    \
    }                                                                                                        \
    /* The elements of windows, from vectors of two rows. */                                                 \
    M##_TARGET INLINE void M##_split_rows(const M##_vector *u, const M##_vector *v, M##_vector *t)           \
    {                                                                                                        \
        EACH(r, 2)                                                                                           \
        t[2 * r] = SHUFFLE(M, u[r], v[r], M##_OF(EVEN)), t[2 * r + 1] = SHUFFLE(M, u[r], v[r], M##_OF(ODD)); \
    }                                                                                                        \
    M##_TARGET INLINE void M##_get_square(const squares_call *b, const st_real *top, M##_vector *t)          \
    {                                                                                                        \
        M##_vector u[2], v[2];                                                                               \
        M##_get_rows(b, top, u, v);                                                                          \
        M##_split_rows(u, v, t);                                                                             \
    }                                                                                                        \
    M##_TARGET INLINE void M##_put_square(const squares_call *b, st_real *top, const M##_vector *t)          \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        M##_vector u[2], v[2];                                                                               \
        EACH(r, 2)                                                                                           \
        u[r] = SHUFFLE(M, t[2 * r], t[2 * r + 1], M##_OF(LOWER)),                                            \
        v[r] = SHUFFLE(M, t[2 * r], t[2 * r + 1], M##_OF(UPPER));                                            \
        if (b->dx_end - top >= b->wide + 2 * LANES)                                                          \
            EACH(r, 2) AT(M, top + r * b->wide) = u[r], AT(M, top + r * b->wide + LANES) = v[r];             \
        else EACH(r, 2)                                                                                      \
        M##_put(u[r], top + r * b->wide, b->dx_end), M##_put(v[r], top + r * b->wide + LANES, b->dx_end);    \
    }                                                                                                        \
                                                                                                             \
    /* The elements of windows at, at + 1, ... of a channel, row after row: those of the next row of \
     * windows are as far from the first one's as if they were beside them, but for `next` more. */       \
    M##_TARGET INLINE void M##_get_dense(const squares_call *b, ptrdiff_t at, M##_vector *t)                 \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const ptrdiff_t row = (ptrdiff_t)((uint32_t)at / (uint32_t)b->columns),                              \
                        next = 2 * (b->wide - b->columns);                                                   \
        const st_real *top = b->x + 2 * at + row * next;                                                     \
        M##_vector u[2], v[2], beside[2], beyond[2];                                                         \
        M##_get_rows(b, top, u, v);                                                                          \
        for (ptrdiff_t n = (row + 1) * b->columns; n < at + LANES && n < b->rows * b->columns;               \
             n += b->columns) {                                                                              \
            const M##_vector number = AT(M, number_of_lane),                                                 \
                             end = (M##_vector){ 0 } + (st_real)(2 * (n - at));                              \
            const M##_test here = EXCEEDS(M, end, number), there = EXCEEDS(M, end, number + LANES);          \
            M##_get_rows(b, top += next, beside, beyond);                                                    \
            EACH(r, 2) u[r] = CHOOSE(M, here, u[r], beside[r]), v[r] = CHOOSE(M, there, v[r], beyond[r]);    \
        }                                                                                                    \
        M##_split_rows(u, v, t);                                                                             \
    }                                                                                                        \
    M##_TARGET INLINE void M##_keep_run(const squares_call *b, int j, ptrdiff_t at, M##_vector v)            \
    {                                                                                                        \
        if (b->kept) AT(M, b->kept + j * b->run + at) = v;                                                   \
    }                                                                                                        \
    M##_TARGET INLINE M##_vector M##_most_of(const M##_vector *t)                                            \
    {                                                                                                        \
        return BY(M, max, BY(M, max, t[3], t[2]), BY(M, max, t[1], t[0]));                                   \
    }                                                                                                        \
    M##_TARGET INLINE M##_vector M##_sum_of(const M##_vector *t)                                             \
    {                                                                                                        \
        return ((t[0] + t[1]) + t[2]) + t[3];                                                                \
    }                                                                                                        \
    /* The number of the first maximum, and the maximum. */                                                  \
    M##_TARGET INLINE M##_vector M##_peak_of(const M##_vector *t, M##_vector *most)                          \
    {                                                                                                        \
        M##_vector m = t[0], at = { 0 };                                                                     \
        _Pragma("GCC unroll 3") for (int i = 1; i < SQUARE; i++)                                             \
        {                                                                                                    \
            at = CHOOSE(M, EXCEEDS(M, t[i], m), (M##_vector){ 0 } + (st_real)i, at);                         \
            m = BY(M, max, t[i], m);                                                                         \
        }                                                                                                    \
        *most = m;                                                                                           \
        return at;                                                                                           \
    }                                                                                                        \
    M##_TARGET INLINE void M##_order(M##_vector *s)                                                          \
    {                                                                                                        \
        _Pragma("GCC unroll 5") for (int i = 0; i < EXCHANGES_OF_4; i++)                                     \
        {                                                                                                    \
            const M##_vector high = s[exchanges_of_4[i][0]], low = s[exchanges_of_4[i][1]];                  \
            s[exchanges_of_4[i][0]] = BY(M, max, high, low),                                                 \
            s[exchanges_of_4[i][1]] = BY(M, min, low, high);                                                 \
        }                                                                                                    \
    }
EACH_ISA(SQUARES)

/* Those of a parameter of n elements. */
INLINE void own_weights(const squares_call *b, ptrdiff_t n, st_real *w)
{
    for (ptrdiff_t i = 0; i < n; i++) w[i] = b->at->param[0][i];
}

INLINE void no_weights(const squares_call *b, st_real *w)
{
    (void)b, (void)w;
}

/* The values of each vector of windows: of rows, or, DENSELY, of a channel. */
#define SQUARE_VALUES(M, NAME, b, w, DENSE)                                                                  \
    const ptrdiff_t rows = (DENSE) ? 1 : (b)->rows,                                                          \
                    columns = (DENSE) ? (b)->rows * (b)->columns : (b)->columns;                             \
    M##_vector zero = { 0 }; /* NaN of what is not finite */                                                 \
    for (ptrdiff_t row = 0; row < rows; row++) EACH_SQUARES(M, i, last, columns)                             \
        {                                                                                                    \
            M##_vector t[SQUARE];                                                                            \
            const ptrdiff_t at = row * columns + i;                                                          \
            if (DENSE) M##_get_dense(b, at, t);                                                              \
            else M##_get_square(b, (b)->x + 2 * row * (b)->wide + 2 * i, t);                                 \
            const M##_vector y = M##_##NAME##_square(b, at, w, t);                                           \
            zero += (M##_sum_of(t) + y) * 0;                                                                 \
            M##_put(y, (b)->y + at, (b)->y_end);                                                             \
        }                                                                                                    \
    return !M##_any_other(zero, columns);
#define BY_ROWS(M, NAME, b, w) SQUARE_VALUES(M, NAME, b, w, false)
#define DENSELY(M, NAME, b, w) SQUARE_VALUES(M, NAME, b, w, true)

#define SQUARES_OF(M, NAME, WEIGHTS, PARAMS, READS, VALUES)                                                  \
    M##_TARGET static bool M##_##NAME##_squares(const squares_call *b)                                       \
    {                                                                                                        \
        lanes w = { 0 };                                                                                     \
        if (PARAMS > 0 && !b->order) own_weights(b, PARAMS, w);                                              \
        WEIGHTS(b, w);                                                                                       \
        VALUES(M, NAME, b, w)                                                                                \
    }                                                                                                        \
    M##_TARGET static void M##_##NAME##_squares_back(const squares_call *b)                                  \
    {                                                                                                        \
        lanes w = { 0 };                                                                                     \
        if (PARAMS > 0 && !b->order) own_weights(b, PARAMS, w);                                              \
        WEIGHTS(b, w);                                                                                       \
        const ptrdiff_t columns = b->columns, used = 2 * columns;                                            \
        const M##_mask ones = ~(M##_mask){ 0 };                                                              \
        const M##_test all = SAME(M, ones, ones), own = SAME(M, M##_own_lanes(columns), ones);               \
        M##_vector sum[SQUARE] = { { 0 } };                                                                  \
        for (ptrdiff_t row = 0; row < b->rows; row++) {                                                      \
            st_real *dx = b->dx ? b->dx + 2 * row * b->wide : NULL;                                          \
            EACH_SQUARES(M, i, last, columns)                                                                \
            {                                                                                                \
                M##_vector t[SQUARE];                                                                        \
                const ptrdiff_t at = row * columns + i;                                                      \
                if (READS) M##_get_square(b, b->x + 2 * row * b->wide + 2 * i, t);                           \
                M##_##NAME##_square_back(b, at, w, M##_get(b->dy + at, b->dy_end), last ? own : all, t,      \
                                         sum);                                                               \
                if (dx) M##_put_square(b, dx + 2 * i, t);                                                    \
            }                                                                                                \
            if (dx && used < b->wide) dx[used] = dx[used + b->wide] = 0;                                     \
        }                                                                                                    \
        EACH(i, PARAMS) AT(M, b->sums[i]) += sum[i];                                                         \
    }

#define FUNCTIONS_OF_SQUARES(M, NAME) { M##_##NAME##_squares, M##_##NAME##_squares_back },
#if defined(__x86_64__) && !defined(STRIDE_GENERIC)
#define EACH_ISA_WITH(DO, ...) DO(avx512, __VA_ARGS__) DO(avx2, __VA_ARGS__) DO(generic, __VA_ARGS__)
#else
#define EACH_ISA_WITH(DO, ...) DO(generic, __VA_ARGS__)
#endif
#define SQUARE_POOLING(NAME, WEIGHTS, PARAMS, READS, VALUES, ...)                                            \
    EACH_ISA_WITH(SQUARES_OF, NAME, WEIGHTS, PARAMS, READS, VALUES)                                          \
    static const squares_functions NAME##_squares_functions[] = { EACH_ISA_OF(FUNCTIONS_OF_SQUARES, NAME) }; \
    const squares_form NAME##_squares_form = { NAME##_squares_functions, .reads = READS, __VA_ARGS__ };

#endif
