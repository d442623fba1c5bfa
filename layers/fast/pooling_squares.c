/* pooling_squares.c: poolings of layers/pooling/ whose windows are squares, 2 x 2 elements that are apart:
 * all of them, and max-unpooling. Their definitions are in files of these names.
 *
 * A vector of windows is read from two rows of x to registers, and y, what is kept, and dx are written once.
 *
 * This file is compiled with -ffp-contract=fast: multiply-adds are fused where the processor can. */
#include "layers/fast/pooling_lanes.h"
#include "layers/fast/powers_lanes.h"
#include "layers/pooling/family.h"

#include <math.h>
#include <string.h>

/* The numbers of lanes. */
static const lanes numbers = { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                               16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31 };

/* Lanes that a vector of windows has before the next one, and after the last one, are left out. For each type
 * and instruction set there are
 *
 *     M_NAME_square       y of a vector of windows from their elements; writes what is kept
 *     M_NAME_square_back  their adjoint from dy and what is kept; adds to a parameter's sums in `own` lanes
 *
 * of weights w [POOL_LANES], which NAME_weights fills. */
enum { SQUARE = 4, POWERS_AT_ONCE = 4 };

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

/* The number of the element that stochastic pooling draws of a square, whose elements are `apart`. */
static int drawn_element(st_real uniform, const st_real *x, ptrdiff_t apart)
{
    double sum = 0;
    int number = 0;
    for (int i = 0; i < SQUARE; i++) sum += (double)chance(x[i * apart]);
    double left = (double)uniform * sum;
    KEEP_APART(&left);
    for (int i = 0; i < SQUARE; i++) {
        if (left >= 0 && x[i * apart] > 0) number = i;
        left -= (double)chance(x[i * apart]);
    }
    return sum > 0 ? number : (int)((double)uniform * SQUARE);
}

/* 2 to the power of LEAST_NORMAL_POWER is a normal number, and beside 1 it is nothing. */
#ifdef STRIDE_DOUBLE
#define LEAST_NORMAL_POWER (-1010)
#define EXPONENT_BITS 0x7ff0000000000000
#else
#define LEAST_NORMAL_POWER (-124)
#define EXPONENT_BITS 0x7f800000
#endif

/* The greatest power that is taken of numbers below 2: logarithms of up to 1 cost it digits. */
#define MOST_SCALED 4

/* Each vector of windows from column i on, of a row's `columns`: the last one ends with the last window. */
#define EACH_SQUARES(M, i, last, columns)                                                                    \
    for (ptrdiff_t next = 0, i = 0, last = 0; last = next + ISA_LANES(M) >= (columns),                       \
                   i = last && (columns) > ISA_LANES(M) ? (columns)-ISA_LANES(M) : next, next < (columns);   \
         next += ISA_LANES(M))

/* Powers, of a, |t| or max(t, epsilon): y = scale (mean of ratio^p)^(1/p), ratio = a / scale, which is in
 * range. Kept: dy/da times the derivative of a, and dy/dp. w: p, p - 1, 1 / p, dp by the parameter, epsilon.
 * A NaN leaves the channel to the definition. As roots wait for powers, and powers for logarithms, so that
 * the processor would wait, too, each step is one of some vectors of windows. */
#define SQUARES(M)                                                                                           \
    BY_EACH_LANE(M, exp2_rest, (M##_vector v), exp2_rest(x))                                                 \
    BY_EACH_LANE(M, exp2_power, (M##_vector v), exp2_power(x, 0))                                            \
    BY_EACH_LANE(M, log2_of_1_and, (M##_vector v), fast_log2_of_1_and(x))                                    \
    M##_TARGET INLINE M##_vector M##_logistic(M##_vector x)                                                  \
    {                                                                                                        \
        const M##_vector most = (M##_vector){ 0 } - LEAST_NORMAL_POWER;                                      \
        return 1 / (1 + M##_exp2(BY(M, max, BY(M, min, x * -LOG2_E, most), -most), 0));                      \
    }                                                                                                        \
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
            const M##_vector number = AT(M, numbers), end = (M##_vector){ 0 } + (st_real)(2 * (n - at));     \
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
    }                                                                                                        \
                                                                                                             \
    /* By the definition's arithmetic. */                                                                    \
    M##_TARGET static void M##_draw_squares(const st_real *uniform, const M##_vector *t, M##_vector *to)     \
    {                                                                                                        \
        st_real x[SQUARE][ISA_LANES(M)], drawn[2][ISA_LANES(M)];                                             \
        memcpy(x, t, sizeof x);                                                                              \
        for (int l = 0; l < ISA_LANES(M); l++) {                                                             \
            const int k = drawn_element(uniform[l], &x[0][l], ISA_LANES(M));                                 \
            drawn[0][l] = (st_real)k, drawn[1][l] = x[k][l];                                                 \
        }                                                                                                    \
        memcpy(to, drawn, sizeof drawn);                                                                     \
    }                                                                                                        \
    /* Kept: the maximum's number, and how far it is above the mean. */                                      \
    M##_TARGET INLINE M##_vector M##_mixed_square(const squares_call *b, ptrdiff_t at, const st_real *w,     \
                                                  const M##_vector *t)                                       \
    {                                                                                                        \
        M##_vector most;                                                                                     \
        const M##_vector mean = M##_sum_of(t) * (st_real)0.25, number = M##_peak_of(t, &most);               \
        M##_keep_run(b, 0, at, number), M##_keep_run(b, 1, at, most - mean);                                 \
        return w[0] * most + (1 - w[0]) * mean;                                                              \
    }                                                                                                        \
    M##_TARGET INLINE void M##_mixed_square_back(const squares_call *b, ptrdiff_t at, const st_real *w,      \
                                                 M##_vector dy, M##_test own, M##_vector *t,                 \
                                                 M##_vector *sum)                                            \
    {                                                                                                        \
        const M##_vector share = dy * ((1 - w[0]) * (st_real)0.25), more = share + dy * w[0],                \
                         number = AT(M, b->kept + at);                                                       \
        EACH(i, SQUARE)                                                                                      \
        t[i] =                                                                                               \
            CHOOSE(M, SAME(M, (M##_mask)number, (M##_mask)((M##_vector){ 0 } + (st_real)i)), more, share);   \
        sum[0] = CHOOSE(M, own, sum[0] + dy * AT(M, b->kept + b->run + at), sum[0]);                         \
    }                                                                                                        \
                                                                                                             \
    /* Kept: the gate. */                                                                                    \
    M##_TARGET INLINE M##_vector M##_gated_square(const squares_call *b, ptrdiff_t at, const st_real *w,     \
                                                  const M##_vector *t)                                       \
    {                                                                                                        \
        M##_vector products = w[0] * t[0];                                                                   \
        _Pragma("GCC unroll 3") for (int i = 1; i < SQUARE; i++) products += w[i] * t[i];                    \
        const M##_vector g = M##_logistic(products);                                                         \
        M##_keep_run(b, 0, at, g);                                                                           \
        const M##_vector mean = M##_sum_of(t) * (st_real)0.25;                                               \
        return g * M##_most_of(t) + (mean - g * mean);                                                       \
    }                                                                                                        \
    M##_TARGET INLINE void M##_gated_square_back(const squares_call *b, ptrdiff_t at, const st_real *w,      \
                                                 M##_vector dy, M##_test own, M##_vector *t,                 \
                                                 M##_vector *sum)                                            \
    {                                                                                                        \
        const M##_vector g = AT(M, b->kept + at), mean = M##_sum_of(t) * (st_real)0.25, to_most = dy * g,    \
                         to_mean = dy - to_most, share = to_mean * (st_real)0.25;                            \
        M##_vector most = t[0], left = share + to_most, to[SQUARE];                                          \
        M##_test exceeds[SQUARE];                                                                            \
        _Pragma("GCC unroll 3") for (int i = 1; i < SQUARE; i++)                                             \
        {                                                                                                    \
            exceeds[i] = EXCEEDS(M, t[i], most);                                                             \
            most = BY(M, max, t[i], most);                                                                   \
        }                                                                                                    \
        const M##_vector slope = to_mean * g * (most - mean);                                                \
        _Pragma("GCC unroll 3") for (int i = SQUARE - 1; i > 0; i--) /* the last one that exceeds others */  \
        {                                                                                                    \
            to[i] = CHOOSE(M, exceeds[i], left, share);                                                      \
            left = CHOOSE(M, exceeds[i], share, left);                                                       \
        }                                                                                                    \
        to[0] = left;                                                                                        \
        EACH(i, SQUARE)                                                                                      \
        {                                                                                                    \
            sum[i] = CHOOSE(M, own, sum[i] + slope * t[i], sum[i]);                                          \
            t[i] = to[i] + slope * w[i];                                                                     \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE M##_vector M##_ordinal_square(const squares_call *b, ptrdiff_t at, const st_real *w,   \
                                                    const M##_vector *t)                                     \
    {                                                                                                        \
        (void)b, (void)at;                                                                                   \
        M##_vector s[SQUARE], sum;                                                                           \
        EACH(i, SQUARE) s[i] = t[i];                                                                         \
        M##_order(s);                                                                                        \
        sum = w[0] * s[0];                                                                                   \
        _Pragma("GCC unroll 3") for (int i = 1; i < SQUARE; i++) sum += w[i] * s[i];                         \
        return sum;                                                                                          \
    }                                                                                                        \
    M##_TARGET INLINE void M##_ordinal_square_back(const squares_call *b, ptrdiff_t at, const st_real *w,    \
                                                   M##_vector dy, M##_test own, M##_vector *t,               \
                                                   M##_vector *sum)                                          \
    {                                                                                                        \
        (void)b, (void)at;                                                                                   \
        const M##_mask ranks = M##_ranks_of(SQUARE, t, overs);                                               \
        M##_order(t);                                                                                        \
        EACH(i, SQUARE)                                                                                      \
        {                                                                                                    \
            sum[i] = CHOOSE(M, own, sum[i] + dy * t[i], sum[i]);                                             \
            t[i] = dy * M##_weights_in(SQUARE, ranks, i, w);                                                 \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* Kept: the ranks. */                                                                                   \
    M##_TARGET INLINE M##_vector M##_rank_square(const squares_call *b, ptrdiff_t at, const st_real *w,      \
                                                 const M##_vector *t)                                        \
    {                                                                                                        \
        if (b->kept) M##_keep_run(b, 0, at, (M##_vector)M##_ranks_of(SQUARE, t, overs));                     \
        return M##_ordinal_square(b, at, w, t);                                                              \
    }                                                                                                        \
    M##_TARGET INLINE void M##_rank_square_back(const squares_call *b, ptrdiff_t at, const st_real *w,       \
                                                M##_vector dy, M##_test own, M##_vector *t, M##_vector *sum) \
    {                                                                                                        \
        (void)own, (void)sum;                                                                                \
        const M##_mask ranks = (M##_mask)AT(M, b->kept + at);                                                \
        EACH(i, SQUARE) t[i] = dy * M##_weights_in(SQUARE, ranks, i, w);                                     \
    }                                                                                                        \
    M##_TARGET INLINE M##_vector M##_median_square(const squares_call *b, ptrdiff_t at, const st_real *w,    \
                                                   const M##_vector *t)                                      \
    {                                                                                                        \
        (void)w;                                                                                             \
        M##_vector s[SQUARE];                                                                                \
        if (b->kept) M##_keep_run(b, 0, at, (M##_vector)M##_ranks_of(SQUARE, t, overs));                     \
        EACH(i, SQUARE) s[i] = t[i];                                                                         \
        M##_order(s);                                                                                        \
        return (s[1] + s[2]) / 2;                                                                            \
    }                                                                                                        \
    M##_TARGET INLINE void M##_median_square_back(const squares_call *b, ptrdiff_t at, const st_real *w,     \
                                                  M##_vector dy, M##_test own, M##_vector *t,                \
                                                  M##_vector *sum)                                           \
    {                                                                                                        \
        M##_rank_square_back(b, at, w, dy, own, t, sum);                                                     \
    }                                                                                                        \
                                                                                                             \
    /* Kept: dy/dx of each element, with e = exp(x - max x): e (1 + x - y) / sum of e. */                    \
    M##_TARGET INLINE M##_vector M##_soft_square(const squares_call *b, ptrdiff_t at, const st_real *w,      \
                                                 const M##_vector *t)                                        \
    {                                                                                                        \
        (void)w;                                                                                             \
        const M##_vector most = M##_most_of(t),                                                              \
                         least = (M##_vector){ 0 } + (st_real)LEAST_NORMAL_POWER * LN_2;                     \
        M##_vector z[SQUARE], e[SQUARE], sum = { 0 }, weighted = { 0 };                                      \
        EACH(i, SQUARE)                                                                                      \
        {                                                                                                    \
            z[i] = BY(M, max, t[i] - most, least), e[i] = M##_exp2(z[i] * LOG2_E, 0);                        \
            sum += e[i], weighted += e[i] * z[i];                                                            \
        }                                                                                                    \
        const M##_vector over = 1 / sum, mean = weighted * over, from = 1 - mean;                            \
        EACH(i, SQUARE) M##_keep_run(b, i, at, e[i] * over * (z[i] + from));                                 \
        return most + mean;                                                                                  \
    }                                                                                                        \
    M##_TARGET INLINE void M##_soft_square_back(const squares_call *b, ptrdiff_t at, const st_real *w,       \
                                                M##_vector dy, M##_test own, M##_vector *t, M##_vector *sum) \
    {                                                                                                        \
        (void)w, (void)own, (void)sum;                                                                       \
        EACH(i, SQUARE) t[i] = dy * AT(M, b->kept + i * b->run + at);                                        \
    }                                                                                                        \
    /* Kept: dy/dx of each element, with e = exp(r (x - max x)): e / sum of e. The sum of e - 1 has \
     * all digits where r is small, too. w: r / log(2), log(2) / r. */        \
    M##_TARGET INLINE M##_vector M##_logsumexp_square(const squares_call *b, ptrdiff_t at, const st_real *w, \
                                                      const M##_vector *t)                                   \
    {                                                                                                        \
        const M##_vector most = M##_most_of(t), least = (M##_vector){ 0 } + LEAST_NORMAL_POWER;              \
        M##_vector e[SQUARE], less = { 0 };                                                                  \
        EACH(i, SQUARE)                                                                                      \
        {                                                                                                    \
            const M##_vector z = BY(M, max, (t[i] - most) * w[0], least), power = M##_exp2_power(z),         \
                             rest = power * M##_exp2_rest(z);                                                \
            e[i] = rest + power, less += rest + (power - 1);                                                 \
        }                                                                                                    \
        less *= (st_real)0.25;                                                                               \
        const M##_vector over = (st_real)0.25 / (1 + less);                                                  \
        EACH(i, SQUARE) M##_keep_run(b, i, at, e[i] * over);                                                 \
        return most + M##_log2_of_1_and(less) * w[1];                                                        \
    }                                                                                                        \
    M##_TARGET INLINE void M##_logsumexp_square_back(const squares_call *b, ptrdiff_t at, const st_real *w,  \
                                                     M##_vector dy, M##_test own, M##_vector *t,             \
                                                     M##_vector *sum)                                        \
    {                                                                                                        \
        M##_soft_square_back(b, at, w, dy, own, t, sum);                                                     \
    }                                                                                                        \
    /* A number near `most`, exactly or the power of 2, and 1 divided by it. */                              \
    M##_TARGET INLINE M##_vector M##_inverse_scale(M##_vector most, bool exactly, M##_vector *scale)         \
    {                                                                                                        \
        const M##_vector zero = { 0 };                                                                       \
        *scale = most;                                                                                       \
        if (exactly) return CHOOSE(M, EXCEEDS(M, most, zero), 1 / most, zero);                               \
        *scale = BY(M, max, BY(M, min, most, zero + 1 / LEAST_NORMAL), zero + LEAST_NORMAL);                 \
        const M##_mask bits = (M##_mask) * scale & EXPONENT_BITS;                                            \
        *scale = (M##_vector)bits;                                                                           \
        return (M##_vector)(2 * (M##_mask)(zero + 1) - bits);                                                \
    }                                                                                                        \
    typedef struct M##_power {                                                                               \
        M##_vector t[SQUARE], slope[SQUARE], inverse, sum, weighted, scale, not_finite;                      \
        ptrdiff_t at;                                                                                        \
    } M##_power;                                                                                             \
    M##_TARGET INLINE void M##_scale_powers(const st_real *w, bool sizes, M##_power *of)                     \
    {                                                                                                        \
        M##_vector a[SQUARE];                                                                                \
        EACH(i, SQUARE) a[i] = M##_base(of->t[i], sizes, w[4]);                                              \
        of->inverse = M##_inverse_scale(M##_most_of(a), !(w[0] <= MOST_SCALED), &of->scale);                 \
    }                                                                                                        \
    M##_TARGET INLINE void M##_sum_powers(const st_real *w, bool sizes, M##_power *of)                       \
    {                                                                                                        \
        const M##_vector zero = { 0 }, inverse = of->inverse, *t = of->t;                                    \
        M##_vector a[SQUARE], f[SQUARE], log[SQUARE], lost = zero;                                           \
        EACH(i, SQUARE) a[i] = M##_base(t[i], sizes, w[4]);                                                  \
        EACH(i, SQUARE)                                                                                      \
        {                                                                                                    \
            const M##_vector ratio = a[i] * inverse;                                                         \
            const M##_test some = EXCEEDS(M, ratio, zero);                                                   \
            log[i] = M##_log2(some, ratio);                                                                  \
            M##_vector slope = M##_exp2(BY(M, max, log[i] * w[1], zero + LEAST_NORMAL_POWER), 0);            \
            slope = CHOOSE(M, some, slope, zero);                                                            \
            f[i] = slope * ratio;                                                                            \
            of->slope[i] = M##_base_slope(t[i], sizes, w[4], slope);                                         \
            if (w[0] < 2)                                                                                    \
                lost = CHOOSE(M, some & EXCEEDS(M, zero + LEAST_NORMAL, ratio), zero + (st_real)NAN, lost);  \
        }                                                                                                    \
        of->sum = (f[0] + f[1]) + (f[2] + f[3]);                                                             \
        of->weighted = (f[0] * log[0] + f[1] * log[1]) + (f[2] * log[2] + f[3] * log[3]);                    \
        of->not_finite = lost + M##_sum_of(t) * 0;                                                           \
    }                                                                                                        \
    M##_TARGET INLINE M##_vector M##_power_root(const squares_call *b, const st_real *w,                     \
                                                const M##_power *of)                                         \
    {                                                                                                        \
        const M##_vector zero = { 0 }, sum = of->sum;                                                        \
        const M##_test some = EXCEEDS(M, sum, zero);                                                         \
        const M##_vector over = CHOOSE(M, some, 1 / sum, zero),                                              \
                         mean = M##_log2(some, sum * (st_real)0.25) * w[2],                                  \
                         root = M##_exp2(BY(M, max, mean, zero + LEAST_NORMAL_POWER), 0),                    \
                         share = root * over, y = CHOOSE(M, some, root * of->scale, zero);                   \
        if (b->kept) {                                                                                       \
            st_real *kept = b->kept + of->at;                                                                \
            EACH(i, SQUARE) AT(M, kept + i * b->run) = of->slope[i] * share;                                 \
            AT(M, kept + SQUARE * b->run) = y * (of->weighted * over - mean) * (w[2] * LN_2);                \
        }                                                                                                    \
        M##_put(y, b->y + of->at, b->y_end);                                                                 \
        return y * 0 + of->not_finite;                                                                       \
    }                                                                                                        \
    M##_TARGET INLINE bool M##_power_squares(const squares_call *b, const st_real *w, bool sizes)            \
    {                                                                                                        \
        const ptrdiff_t columns = b->rows * b->columns;                                                      \
        M##_vector zero = { 0 }; /* NaN of what is not finite */                                             \
        M##_power of[POWERS_AT_ONCE];                                                                        \
        int held = 0;                                                                                        \
        EACH_SQUARES(M, i, last, columns)                                                                    \
        {                                                                                                    \
            M##_get_dense(b, of[held].at = i, of[held].t);                                                   \
            M##_scale_powers(w, sizes, &of[held]);                                                           \
            if (++held < POWERS_AT_ONCE && !last) continue;                                                  \
            for (int k = 0; k < held; k++) M##_sum_powers(w, sizes, &of[k]);                                 \
            for (int k = 0; k < held; k++) zero += M##_power_root(b, w, &of[k]);                             \
            held = 0;                                                                                        \
        }                                                                                                    \
        return !M##_any_other(zero, columns) && w[0] > 0;                                                    \
    }                                                                                                        \
    M##_TARGET INLINE void M##_power_square_back(const squares_call *b, ptrdiff_t at, const st_real *w,      \
                                                 M##_vector dy, M##_test own, M##_vector *t,                 \
                                                 M##_vector *sum)                                            \
    {                                                                                                        \
        M##_soft_square_back(b, at, w, dy, own, t, sum);                                                     \
        sum[0] = CHOOSE(M, own, sum[0] + dy * AT(M, b->kept + SQUARE * b->run + at) * w[3], sum[0]);         \
    }                                                                                                        \
    M##_TARGET INLINE void M##_gem_square_back(const squares_call *b, ptrdiff_t at, const st_real *w,        \
                                               M##_vector dy, M##_test own, M##_vector *t, M##_vector *sum)  \
    {                                                                                                        \
        M##_power_square_back(b, at, w, dy, own, t, sum);                                                    \
    }                                                                                                        \
    M##_TARGET INLINE void M##_learned_norm_square_back(const squares_call *b, ptrdiff_t at,                 \
                                                        const st_real *w, M##_vector dy, M##_test own,       \
                                                        M##_vector *t, M##_vector *sum)                      \
    {                                                                                                        \
        M##_power_square_back(b, at, w, dy, own, t, sum);                                                    \
    }                                                                                                        \
                                                                                                             \
    /* Kept, where an element is drawn: its number. */                                                       \
    M##_TARGET INLINE void M##_drawn_rank_square_back(const squares_call *b, ptrdiff_t at, const st_real *w, \
                                                      M##_vector dy, M##_test own, M##_vector *t,            \
                                                      M##_vector *sum)                                       \
    {                                                                                                        \
        (void)w, (void)own, (void)sum;                                                                       \
        const M##_vector number = AT(M, b->kept + at);                                                       \
        EACH(i, SQUARE) t[i] = (M##_vector)((number == (st_real)i) & (M##_mask)dy);                          \
    }                                                                                                        \
    M##_TARGET INLINE void M##_stochastic_square_back(const squares_call *b, ptrdiff_t at, const st_real *w, \
                                                      M##_vector dy, M##_test own, M##_vector *t,            \
                                                      M##_vector *sum)                                       \
    {                                                                                                        \
        M##_drawn_rank_square_back(b, at, w, dy, own, t, sum);                                               \
    }                                                                                                        \
    /* As drawn_rank. */                                                                                     \
    M##_TARGET INLINE M##_vector M##_drawn_rank_square(const squares_call *b, ptrdiff_t at,                  \
                                                       const st_real *w, const M##_vector *t)                \
    {                                                                                                        \
        const M##_vector part = AT(M, b->uniform + at) * b->first[SQUARE];                                   \
        const M##_mask ranks = M##_ranks_of(SQUARE, t, overs);                                               \
        M##_mask passed = { 0 };                                                                             \
        M##_vector number = { 0 }, y = t[0];                                                                 \
        EACH(i, SQUARE - 1) passed = PLUS(M, EXCEEDS(M, (M##_vector){ 0 } + w[i], part), passed, 1);         \
        passed = (SQUARE - 1) - passed;                                                                      \
        _Pragma("GCC unroll 3") for (int i = 1; i < SQUARE; i++)                                             \
        {                                                                                                    \
            const M##_test here = SAME(M, M##_rank_in(ranks, i) & 15, passed);                               \
            number = CHOOSE(M, here, (M##_vector){ 0 } + (st_real)i, number);                                \
            y = CHOOSE(M, here, t[i], y);                                                                    \
        }                                                                                                    \
        M##_keep_run(b, 0, at, number);                                                                      \
        return y;                                                                                            \
    }                                                                                                        \
    /* As stochastic_values. */                                                                              \
    M##_TARGET INLINE M##_vector M##_stochastic_square(const squares_call *b, ptrdiff_t at,                  \
                                                       const st_real *w, const M##_vector *t)                \
    {                                                                                                        \
        (void)w;                                                                                             \
        const M##_vector zero = { 0 };                                                                       \
        const M##_mask size = ~(M##_mask) - zero; /* all bits but the sign */                                \
        /* where none is above 0, all are equally probable */                                                \
        const M##_test some = EXCEEDS(M, M##_most_of(t), zero);                                              \
        const M##_vector least = CHOOSE(M, some, zero, zero + 1);                                            \
        M##_vector part[SQUARE], number = zero, y = t[0];                                                    \
        EACH(i, SQUARE) part[i] = BY(M, max, t[i], least);                                                   \
        const M##_vector all = M##_sum_of(part);                                                             \
        M##_vector left = AT(M, b->uniform + at) * all, nearest = all;                                       \
        _Pragma("GCC unroll 3") for (int i = 1; i < SQUARE; i++)                                             \
        {                                                                                                    \
            left -= part[i - 1];                                                                             \
            const M##_test here = ~EXCEEDS(M, zero, left);                                                   \
            number = CHOOSE(M, here, zero + (st_real)i, number), y = CHOOSE(M, here, t[i], y);               \
            nearest = BY(M, min, (M##_vector)((M##_mask)left & size), nearest);                              \
        }                                                                                                    \
        /* also of sums that are too small, or not finite */                                                 \
        const M##_test unsure =                                                                              \
            some & ~EXCEEDS(M, nearest, BY(M, max, (SQUARE + 2) * ST_REAL_EPSILON * all, zero + LEAST_SUM)); \
        if (ANY(M, unsure)) {                                                                                \
            M##_vector copy[SQUARE], drawn[2];                                                               \
            EACH(i, SQUARE) copy[i] = t[i];                                                                  \
            M##_draw_squares(b->uniform + at, copy, drawn);                                                  \
            number = drawn[0], y = drawn[1];                                                                 \
        }                                                                                                    \
        M##_keep_run(b, 0, at, number);                                                                      \
        return y;                                                                                            \
    }

EACH_ISA(SQUARES)

/* Those of a parameter of n elements. */
INLINE void own_weights(const squares_call *b, ptrdiff_t n, st_real *w)
{
    for (ptrdiff_t i = 0; i < n; i++) w[i] = b->at->param[0][i];
}

INLINE void rank_square_weights(const squares_call *b, st_real *w)
{
    for (int i = 0; i < SQUARE; i++) w[i] = b->first[SQUARE] * b->weight[i];
}

/* Sums of weights. */
INLINE void drawn_weights(const squares_call *b, st_real *w)
{
    st_real sum = 0;
    for (int i = 0; i < SQUARE; i++) w[i] = sum += b->weight[i];
}

INLINE void median_weights(const squares_call *b, st_real *w)
{
    (void)b;
    w[1] = w[2] = (st_real)0.5;
}

INLINE void no_weights(const squares_call *b, st_real *w)
{
    (void)b, (void)w;
}

/* Of a power p that must be more than 0.5: near 0, dy/dp is a difference of numbers that grow as 1 / p². */
INLINE void power_weights(const squares_call *b, st_real *w)
{
    const st_real p = b->order[0] > (st_real)0.5 ? b->order[0] : (st_real)NAN;
    w[0] = p, w[1] = p - 1, w[2] = 1 / p, w[3] = b->order[1];
}

INLINE void gem_weights(const squares_call *b, st_real *w)
{
    power_weights(b, w);
    w[4] = (st_real)((const st_gem_pool_options *)b->at->options)->epsilon;
}

INLINE void logsumexp_weights(const squares_call *b, st_real *w)
{
    const double r = ((const st_logsumexp_pool_options *)b->at->options)->r;
    w[0] = (st_real)(r * (double)LOG2_E), w[1] = (st_real)((double)LN_2 / r);
}

static void gem_order(const st_window *at, st_real to[2])
{
    to[0] = at->param[0][0], to[1] = 1;
}

/* p = 1 + log(1 + exp(rho)), whose derivative is the logistic function. */
static void norm_order(const st_window *at, st_real to[2])
{
    const double rho = (double)at->param[0][0];
    to[0] = (st_real)(1 + (rho > 0 ? rho + log1p(exp(-rho)) : log1p(exp(rho))));
    to[1] = (st_real)(1 / (1 + exp(-rho)));
}

/* The values of each vector of windows: of rows, or, DENSELY, of a channel. */
#define VALUES_OF(M, NAME, b, w, DENSE)                                                                      \
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
#define BY_ROWS(M, NAME, b, w) VALUES_OF(M, NAME, b, w, false)
#define DENSELY(M, NAME, b, w) VALUES_OF(M, NAME, b, w, true)
#define POWERS_OF_SIZES(M, NAME, b, w) return M##_power_squares(b, w, true);
#define POWERS_FROM_EPSILON(M, NAME, b, w) return M##_power_squares(b, w, false);

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

#define EACH_SQUARE_POOLING(DO)                                                                              \
    DO(mixed, no_weights, 1, false, BY_ROWS, .runs = 2)                                                      \
    DO(gated, no_weights, SQUARE, true, BY_ROWS, .runs = 1)                                                  \
    DO(ordinal, no_weights, SQUARE, true, BY_ROWS, .runs = 0)                                                \
    DO(rank, rank_square_weights, 0, false, BY_ROWS, .runs = 1)                                              \
    DO(median, median_weights, 0, false, BY_ROWS, .runs = 1)                                                 \
    DO(soft, no_weights, 0, false, DENSELY, .runs = SQUARE)                                                  \
    DO(logsumexp, logsumexp_weights, 0, false, DENSELY, .runs = SQUARE)                                      \
    DO(gem, gem_weights, 1, false, POWERS_FROM_EPSILON, .runs = SQUARE + 1, .order = gem_order)              \
    DO(learned_norm, power_weights, 1, false, POWERS_OF_SIZES, .runs = SQUARE + 1, .order = norm_order)      \
    DO(drawn_rank, drawn_weights, 0, false, BY_ROWS, .runs = 1)                                              \
    DO(stochastic, no_weights, 0, false, BY_ROWS, .runs = 1)
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
EACH_SQUARE_POOLING(SQUARE_POOLING)

/* Kept: the share of each element, e / sum of e, with e = exp(logit - max logit). */
#define IMPORTANCES(M)                                                                                       \
    M##_TARGET static bool M##_local_importance_squares(const squares_call *b)                               \
    {                                                                                                        \
        const ptrdiff_t columns = b->rows * b->columns;                                                      \
        const M##_vector least = (M##_vector){ 0 } + LEAST_NORMAL_POWER;                                     \
        M##_vector zero = { 0 }; /* NaN of what is not finite */                                             \
        squares_call logits = *b;                                                                            \
        logits.x = b->logits, logits.x_end = b->logits_end;                                                  \
        EACH_SQUARES(M, i, last, columns)                                                                    \
        {                                                                                                    \
            M##_vector t[SQUARE], e[SQUARE];                                                                 \
            M##_get_dense(b, i, t), M##_get_dense(&logits, i, e);                                            \
            const M##_vector most = M##_most_of(e);                                                          \
            zero += (M##_sum_of(t) + M##_sum_of(e)) * 0;                                                     \
            EACH(k, SQUARE) e[k] = M##_exp2(BY(M, max, (e[k] - most) * LOG2_E, least), 0);                   \
            const M##_vector over = 1 / M##_sum_of(e);                                                       \
            EACH(k, SQUARE) e[k] *= over;                                                                    \
            const M##_vector y = (e[0] * t[0] + e[1] * t[1]) + (e[2] * t[2] + e[3] * t[3]);                  \
            EACH(k, SQUARE) M##_keep_run(b, k, i, e[k]);                                                     \
            zero += y * 0;                                                                                   \
            M##_put(y, b->y + i, b->y_end);                                                                  \
        }                                                                                                    \
        return !M##_any_other(zero, columns);                                                                \
    }                                                                                                        \
    M##_TARGET static void M##_local_importance_squares_back(const squares_call *b)                          \
    {                                                                                                        \
        const ptrdiff_t columns = b->columns;                                                                \
        squares_call logits = *b;                                                                            \
        logits.dx = b->dlogits, logits.dx_end = b->dlogits_end;                                              \
        for (ptrdiff_t row = 0; row < b->rows; row++) {                                                      \
            const ptrdiff_t first = 2 * row * b->wide, used = first + 2 * columns;                           \
            EACH_SQUARES(M, i, last, columns)                                                                \
            {                                                                                                \
                M##_vector t[SQUARE], share[SQUARE];                                                         \
                const ptrdiff_t at = row * columns + i;                                                      \
                M##_get_square(b, b->x + first + 2 * i, t);                                                  \
                EACH(k, SQUARE) share[k] = AT(M, b->kept + k * b->run + at);                                 \
                const M##_vector dy = M##_get(b->dy + at, b->dy_end),                                        \
                                 y = (share[0] * t[0] + share[1] * t[1]) +                                   \
                                     (share[2] * t[2] + share[3] * t[3]);                                    \
                EACH(k, SQUARE) share[k] *= dy, t[k] = share[k] * (t[k] - y);                                \
                if (b->dx) M##_put_square(b, b->dx + first + 2 * i, share);                                  \
                M##_put_square(&logits, b->dlogits + first + 2 * i, t);                                      \
            }                                                                                                \
            if (b->dx && 2 * columns < b->wide) b->dx[used] = b->dx[used + b->wide] = 0;                     \
            if (2 * columns < b->wide) b->dlogits[used] = b->dlogits[used + b->wide] = 0;                    \
        }                                                                                                    \
    }

EACH_ISA(IMPORTANCES)
static const squares_functions local_importance_squares_functions[] = { EACH_ISA_OF(FUNCTIONS_OF_SQUARES,
                                                                                    local_importance) };
static const squares_form local_importance_squares_form = { local_importance_squares_functions,
                                                            .runs = SQUARE, .reads = true };

/* ---- types whose other windows have other algorithms --------------------------------------------------- */

/* Where r is in range. */
static bool logsumexp_suits(const st_layer *l)
{
    const double r = ((const st_logsumexp_pool_options *)l->options)->r;
    return r > 1e-30 && r < 1e30 && windows_are_squares(l);
}

static bool gem_suits(const st_layer *l)
{
    return ((const st_gem_pool_options *)l->options)->epsilon >= 0 && windows_are_squares(l);
}

#define ALGORITHM_OF_SQUARES(NAME, SUITS, LOGITS)                                                            \
    static int NAME##_squares_plan(st_layer *l, const void *given)                                           \
    {                                                                                                        \
        static const lanes_form form = { .squares = &NAME##_squares_form, .logits = LOGITS };                \
        return windows_plan_for(l, given, &form, NULL);                                                      \
    }                                                                                                        \
    const layer_algorithm NAME##_pool_lanes = { .type = &layer_type_##NAME##_pool,                           \
                                                .suits = SUITS,                                              \
                                                .plan = NAME##_squares_plan,                                 \
                                                .fill = windows_fill,                                        \
                                                .hooks = WINDOWS_HOOKS };
ALGORITHM_OF_SQUARES(soft, windows_are_squares, NULL)
ALGORITHM_OF_SQUARES(logsumexp, logsumexp_suits, NULL)
ALGORITHM_OF_SQUARES(gem, gem_suits, NULL)
ALGORITHM_OF_SQUARES(learned_norm, windows_are_squares, NULL)
ALGORITHM_OF_SQUARES(local_importance, windows_are_squares, &importances)

/* ---- max-unpooling ------------------------------------------------------------------------------------- */

/* Kept: the number of each window's first maximum, or of its first NaN. */
#define UNPOOL(M)                                                                                            \
    M##_TARGET static void M##_unpool(const squares_call *b)                                                 \
    {                                                                                                        \
        const ptrdiff_t columns = b->columns;                                                                \
        for (ptrdiff_t row = 0; row < b->rows; row++) {                                                      \
            st_real *dx = b->dx + 2 * row * b->wide;                                                         \
            EACH_SQUARES(M, i, last, columns)                                                                \
            {                                                                                                \
                M##_vector t[SQUARE], most, number = { 0 };                                                  \
                const ptrdiff_t at = row * columns + i;                                                      \
                M##_get_square(b, b->x + 2 * row * b->wide + 2 * i, t);                                      \
                most = t[0];                                                                                 \
                _Pragma("GCC unroll 3") for (int k = 1; k < SQUARE; k++)                                     \
                {                                                                                            \
                    const M##_mask exceeds = ~(t[k] <= most) & (most == most);                               \
                    most = ISA_PICK(M, exceeds, t[k], most);                                                 \
                    number = ISA_PICK(M, exceeds, (M##_vector){ 0 } + (st_real)k, number);                   \
                }                                                                                            \
                M##_keep_run(b, 0, at, number);                                                              \
                const M##_vector from = M##_get(b->dy + at, b->dy_end);                                      \
                EACH(k, SQUARE) t[k] = (M##_vector)((number == (st_real)k) & (M##_mask)from);                \
                M##_put_square(b, dx + 2 * i, t);                                                            \
            }                                                                                                \
            for (ptrdiff_t i = 2 * columns; i < b->wide; i++) dx[i] = dx[i + b->wide] = 0;                   \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET static void M##_unpool_back(const squares_call *b)                                            \
    {                                                                                                        \
        const ptrdiff_t columns = b->columns;                                                                \
        for (ptrdiff_t row = 0; row < b->rows; row++) EACH_SQUARES(M, i, last, columns)                      \
            {                                                                                                \
                M##_vector t[SQUARE];                                                                        \
                const ptrdiff_t at = row * columns + i;                                                      \
                M##_get_square(b, b->x + 2 * row * b->wide + 2 * i, t);                                      \
                const M##_vector number = AT(M, b->kept + at);                                               \
                _Pragma("GCC unroll 3") for (int k = 1; k < SQUARE; k++) t[0] = CHOOSE(                      \
                    M, SAME(M, (M##_mask)number, (M##_mask)((M##_vector){ 0 } + (st_real)k)), t[k], t[0]);   \
                M##_put(t[0], b->y + at, b->y_end);                                                          \
            }                                                                                                \
    }

#define UNPOOLS_OF(M) { M##_unpool, M##_unpool_back },
EACH_ISA(UNPOOL)
static const struct {
    void (*forward)(const squares_call *b), (*backward)(const squares_call *b);
} unpools[] = { EACH_ISA(UNPOOLS_OF) };

enum { POOL, BODY };          /* children */
enum { DBODY, DPOOL, IMAGE }; /* scratch */

static bool unpool_suits(const st_layer *l)
{
    return ((const pool_plan *)l->plan)->grid == &st_regular_grid && windows_are_squares(l);
}

/* What is kept of a channel. */
static ptrdiff_t numbers_of(const window *w)
{
    return w->out[0] * w->out[1] + POOL_LANES;
}

static int plan_unpool(st_layer *l, const void *given)
{
    const st_shape x = l->x, pooled = l->child[POOL]->y;
    pool_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    *p = *(const pool_plan *)given;
    if (st_layer_memory(l, ST_SHAPE(x.n[0], x.n[1], numbers_of(&p->w)))) return -1;
    if (st_layer_scratch(l, pooled) || st_layer_scratch(l, pooled)) return -1;
    return st_layer_scratch(l, ST_SHAPE(x.n[1], x.n[2], x.n[3]));
}

static void unpool_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const window *w = &((const pool_plan *)c->plan)->w;
    const st_tensor body = st_forward_child(c, BODY, st_forward_child(c, POOL, x));
    const ptrdiff_t area = w->size[0] * w->size[1], count = w->out[0] * w->out[1], channels = x.shape.n[1],
                    used = 2 * w->out[0] * w->size[1];
    squares_call b = { .rows = w->out[0], .columns = w->out[1], .wide = w->size[1] };
    b.dy = st_data(body), b.dy_end = b.dy + st_numel(body), b.dx = st_data(y), b.dx_end = b.dx + st_numel(y);
    b.kept = st_data(st_memory(c, 0));
    for (ptrdiff_t i = 0; i < x.shape.n[0] * channels; i++) {
        if (i % channels == 0) {
            st_tensor image = st_select(x, 0, i / channels);
            if (!st_is_contiguous(x)) {
                const st_tensor copy = st_reshape(st_scratch(c, IMAGE), image.shape);
                st_copy(copy, image);
                image = copy;
            }
            b.x = st_data(image), b.x_end = b.x + channels * area;
        }
        unpools[c->layer->impl->isa].forward(&b);
        memset(b.dx + used, 0, (size_t)(area - used) * sizeof *b.dx);
        b.x += area, b.dx += area, b.dy += count, b.kept += numbers_of(w);
    }
}

static void unpool_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const window *w = &((const pool_plan *)c->plan)->w;
    const st_tensor dbody = st_narrow(st_scratch(c, DBODY), 0, 0, c->images),
                    dpool = st_narrow(st_scratch(c, DPOOL), 0, 0, c->images);
    squares_call b = { .rows = w->out[0], .columns = w->out[1], .wide = w->size[1] };
    b.x = st_data(dy), b.x_end = b.x + st_numel(dy), b.y = st_data(dbody), b.y_end = b.y + st_numel(dbody);
    b.kept = st_data(st_memory(c, 0));
    for (ptrdiff_t i = 0; i < x.shape.n[0] * x.shape.n[1]; i++) {
        unpools[c->layer->impl->isa].backward(&b);
        b.x += w->size[0] * w->size[1], b.y += w->out[0] * w->out[1], b.kept += numbers_of(w);
    }
    st_backward_child(c, BODY, st_child_output(c, POOL), dbody, st_is_null(dx) ? dx : dpool);
    if (!st_is_null(dx)) st_backward_child(c, POOL, x, dpool, dx);
}

const layer_algorithm max_unpool_lanes = { .type = &layer_type_max_unpool,
                                           .suits = unpool_suits,
                                           .plan = plan_unpool,
                                           .hooks = { .forward = unpool_forward,
                                                      .backward = unpool_backward } };
