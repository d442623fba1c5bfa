/* pooling_squares.c: poolings of layers/pooling/ whose windows are squares (squares.h): mixed, gated,
 * ordinal, rank, median and stochastic pooling. Other windows are lanes (pooling_lanes.c).
 *
 * This file is compiled with -ffp-contract=fast: multiply-adds are fused where the processor can. */
#include "layers/fast/powers_lanes.h"
#include "layers/fast/squares.h"

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

#define MIXED_AND_ORDERED(M)                                                                                 \
    M##_TARGET INLINE M##_vector M##_logistic(M##_vector x)                                                  \
    {                                                                                                        \
        const M##_vector most = (M##_vector){ 0 } - LEAST_NORMAL_POWER;                                      \
        return 1 / (1 + M##_exp2(BY(M, max, BY(M, min, x * -LOG2_E, most), -most), 0));                      \
    }                                                                                                        \
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
            const M##_test here = (M##_test) ~EXCEEDS(M, zero, left);                                        \
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

EACH_ISA(MIXED_AND_ORDERED)

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

#define EACH_SQUARE_POOLING(DO)                                                                              \
    DO(mixed, no_weights, 1, false, BY_ROWS, .runs = 2)                                                      \
    DO(gated, no_weights, SQUARE, true, BY_ROWS, .runs = 1)                                                  \
    DO(ordinal, no_weights, SQUARE, true, BY_ROWS, .runs = 0)                                                \
    DO(rank, rank_square_weights, 0, false, BY_ROWS, .runs = 1)                                              \
    DO(median, median_weights, 0, false, BY_ROWS, .runs = 1)                                                 \
    DO(drawn_rank, drawn_weights, 0, false, BY_ROWS, .runs = 1)                                              \
    DO(stochastic, no_weights, 0, false, BY_ROWS, .runs = 1)
EACH_SQUARE_POOLING(SQUARE_POOLING)
