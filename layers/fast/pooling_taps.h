/* pooling_taps.h: functions of the elements of POOL_LANES windows, for each instruction set: maxima and sums,
 * sorted elements, ranks, and what random numbers reach. M_taps has those of M.
 *
 * Sorted elements are those of a sorting network (Batcher 1968), the greatest first, and the rank of an
 * element is the number of those that come before it. */
#ifndef STRIDE_LAYERS_FAST_POOLING_TAPS_H
#define STRIDE_LAYERS_FAST_POOLING_TAPS_H

#include "layers/fast/pooling_lanes.h"

#include <math.h>

typedef isa_bits lane_numbers[POOL_LANES];

/* Functions of the elements of each window. */
typedef struct taps_functions {
    /* The maximum, its element, the sum, and with weights the sum of products. */
    void (*maximum)(const lanes_call *b, const st_real *weight, st_real *most, st_real *place, st_real *sum,
                    st_real *products);
    /* dx[i] = share, for the element `place` share + d; with weights slope weight[i] more, and
     * sums[i] += slope x[i]. */
    void (*spread)(const lanes_call *b, const st_real *share, const st_real *place, const st_real *d,
                   const st_real *weight, const st_real *slope);
    /* dx = d for element `number`, and for `other`, which may be the same one. */
    void (*give)(const lanes_call *b, const st_real *number, const st_real *other, const st_real *d);
    /* sum: of weight[i] times element i in order, the greatest first; or, without, sums[i] += d times it. */
    void (*sorted)(const lanes_call *b, const st_real *weight, const st_real *d, st_real *sum);
    /* The numbers and the mean of the elements that `rank` and `other` others come before, the greatest
     * first; equal ones keep their order. If both are the same array, `number` is the element's place. */
    void (*chosen)(const lanes_call *b, const isa_bits *rank, const isa_bits *other, st_real *number,
                   st_real *other_number, st_real *mean);
    /* For FEW_TAPS: the sum of weight[rank] times each element; keeps what by_rank takes. */
    void (*ranked)(const lanes_call *b, const st_real *weight, st_real *sum);
    /* dx = d weight[rank]; weight has POOL_LANES elements, or more. */
    void (*by_rank)(const lanes_call *b, const st_real *weight, const st_real *d);
    /* The sum of the elements above 0, and where `uniform` of it is reached: the element and its place.
     * `open`: rounding could decide where. */
    void (*reached)(const lanes_call *b, const st_real *uniform, st_real *sums, bool *open);
    /* Element `wanted` of those that are not left out, unless it is -1, and its place. */
    void (*counted)(const lanes_call *b, const st_real *wanted);
} taps_functions;

/* The pairs of Floyd's sorting network of nine elements. */
static const exchange of_9[] = { { 0, 1 }, { 3, 4 }, { 6, 7 }, { 1, 2 }, { 4, 5 }, { 7, 8 }, { 0, 1 },
                                 { 3, 4 }, { 6, 7 }, { 0, 3 }, { 3, 6 }, { 0, 3 }, { 1, 4 }, { 4, 7 },
                                 { 1, 4 }, { 2, 5 }, { 5, 8 }, { 2, 5 }, { 1, 3 }, { 5, 7 }, { 2, 6 },
                                 { 4, 6 }, { 2, 4 }, { 2, 3 }, { 5, 6 } };
enum { EXCHANGES_OF_9 = 25 };

/* Batcher's merge exchange: the greatest first. */
INLINE void sort(ptrdiff_t n, lanes *s)
{
    ptrdiff_t top = 1;
    while (2 * top < n) top *= 2;
    for (ptrdiff_t p = n > 1 ? top : 0; p > 0; p /= 2)
        for (ptrdiff_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
            for (ptrdiff_t i = 0; i < n - d; i++) {
                if ((i & p) != r) continue;
                st_real *a = s[i], *b = s[i + d];
                EACH_WINDOW(k)
                {
                    const st_real high = a[k] > b[k] ? a[k] : b[k], low = a[k] > b[k] ? b[k] : a[k];
                    a[k] = high, b[k] = low;
                }
            }
            if (q == p) break;
        }
}

/* sort_few, ranks_few: n is a constant, so that elements of a vector of windows are in registers. */
#define TAP(M, b, i, k) AT(M, (b)->x + (b)->offset[i] + (k))
#define EACH_VECTOR(M, k) for (int k = 0; k < POOL_LANES; k += ISA_LANES(M))
INLINE ptrdiff_t taps_of(const lanes_call *b, ptrdiff_t n)
{
    return n > 0 ? n : b->taps;
}
#define EACH_TAP(i, n) _Pragma("GCC unroll 9") for (ptrdiff_t i = 0; i < taps_of(b, n); i++)

/* OF(b, n, ...): n is a constant, 4 or 9; 0: any number of elements. M##_NAME does M##_NAME_of, of a copy of
 * the call: what is written to windows could be a member otherwise, which would be read again each time. */
#define BY_TAPS(OF, b, ...)                                                                                  \
    ((b)->taps == 4 ? OF(b, 4, __VA_ARGS__) : (b)->taps == 9 ? OF(b, 9, __VA_ARGS__) : OF(b, 0, __VA_ARGS__))
#define OF_TAPS(M, NAME, PARAMETERS, ...)                                                                    \
    M##_TARGET static void M##_##NAME PARAMETERS                                                             \
    {                                                                                                        \
        const lanes_call call = *b;                                                                          \
        b = &call;                                                                                           \
        BY_TAPS(M##_##NAME##_of, __VA_ARGS__);                                                               \
    }
#define TAPS(M)                                                                                              \
    M##_TARGET INLINE void M##_maximum_of(const lanes_call *b, ptrdiff_t n, bool full,                       \
                                          const st_real *weight, st_real *most, st_real *place,              \
                                          st_real *sum, st_real *products)                                   \
    {                                                                                                        \
        const M##_vector zero = { 0 }, lowest = zero - (st_real)INFINITY;                                    \
        EACH_VECTOR(M, k)                                                                                    \
        {                                                                                                    \
            M##_vector m = lowest, at = zero, s = zero, product = zero;                                      \
            EACH_TAP(i, n)                                                                                   \
            {                                                                                                \
                const M##_vector x = TAP(M, b, i, k);                                                        \
                s += full ? x : (M##_vector)((x > lowest) & (M##_mask)x);                                    \
                at = CHOOSE(M, EXCEEDS(M, x, m), zero + (st_real)i, at);                                     \
                m = BY(M, max, x, m);                                                                        \
                if (products) product += weight[i] * x;                                                      \
            }                                                                                                \
            AT(M, most + k) = m, AT(M, place + k) = at, AT(M, sum + k) = s;                                  \
            if (products) AT(M, products + k) = product;                                                     \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET INLINE void M##_maximum(const lanes_call *b, const st_real *weight, st_real *most,            \
                                       st_real *place, st_real *sum, st_real *products)                      \
    {                                                                                                        \
        if (b->full) BY_TAPS(M##_maximum_of, b, true, weight, most, place, sum, products);                   \
        else BY_TAPS(M##_maximum_of, b, false, weight, most, place, sum, products);                          \
    }                                                                                                        \
                                                                                                             \
    /* Pairs of vectors are added up before they are added to b->sums. */                                    \
    M##_TARGET INLINE void M##_spread_of(const lanes_call *b, ptrdiff_t n, const st_real *share,             \
                                         const st_real *place, const st_real *d, const st_real *weight,      \
                                         const st_real *slope)                                               \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        for (int k = 0; k < POOL_LANES; k += 2 * LANES) {                                                    \
            M##_vector each[2], at[2], more[2], by[2];                                                       \
            M##_mask is[2];                                                                                  \
            EACH(v, 2)                                                                                       \
            {                                                                                                \
                const int l = k + v * LANES;                                                                 \
                each[v] = AT(M, share + l), at[v] = AT(M, place + l), more[v] = AT(M, d + l);                \
                if (!slope) continue;                                                                        \
                is[v] = AT(M, b->inside + l) > 0;                                                            \
                each[v] = (M##_vector)(is[v] & (M##_mask)each[v]);                                           \
                more[v] = (M##_vector)(is[v] & (M##_mask)more[v]);                                           \
                by[v] = (M##_vector)(is[v] & (M##_mask)AT(M, slope + l));                                    \
            }                                                                                                \
            EACH_TAP(i, n)                                                                                   \
            {                                                                                                \
                M##_vector sum = { 0 };                                                                      \
                EACH(v, 2)                                                                                   \
                {                                                                                            \
                    M##_vector to = each[v] + (M##_vector)((at[v] == (st_real)i) & (M##_mask)more[v]);       \
                    if (slope) to += by[v] * weight[i], sum += by[v] * TAP(M, b, i, k + v * LANES);          \
                    AT(M, b->dx + b->to[i] + k + v * LANES) = to;                                            \
                }                                                                                            \
                if (slope) AT(M, b->sums[i] + k) += sum;                                                     \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    OF_TAPS(M, spread,                                                                                       \
            (const lanes_call *b, const st_real *share, const st_real *place, const st_real *d,              \
             const st_real *weight, const st_real *slope),                                                   \
            b, share, place, d, weight, slope)                                                               \
                                                                                                             \
    M##_TARGET INLINE void M##_give_of(const lanes_call *b, ptrdiff_t n, const st_real *number,              \
                                       const st_real *other, const st_real *d)                               \
    {                                                                                                        \
        EACH_VECTOR(M, k)                                                                                    \
        {                                                                                                    \
            const M##_vector each = AT(M, d + k), at = AT(M, number + k), too = AT(M, other + k);            \
            EACH_TAP(i, n)                                                                                   \
            AT(M, b->dx + b->to[i] + k) = (M##_vector)((at == (st_real)i) & (M##_mask)each) +                \
                                          (M##_vector)((too == (st_real)i) & (M##_mask)each);                \
        }                                                                                                    \
    }                                                                                                        \
    OF_TAPS(M, give, (const lanes_call *b, const st_real *number, const st_real *other, const st_real *d),   \
            b, number, other, d)                                                                             \
    M##_TARGET INLINE void M##_sort_few(const lanes_call *b, int n, const exchange *pair, int count, int k,  \
                                        M##_vector *s)                                                       \
    {                                                                                                        \
        EACH(i, n) s[i] = TAP(M, b, i, k);                                                                   \
        _Pragma("GCC unroll 25") for (int i = 0; i < count; i++)                                             \
        {                                                                                                    \
            const M##_vector high = s[pair[i][0]], low = s[pair[i][1]];                                      \
            s[pair[i][0]] = BY(M, max, high, low), s[pair[i][1]] = BY(M, min, low, high);                    \
        }                                                                                                    \
    }                                                                                                        \
    /* Element i in order, of windows that are `inside`. */                                                  \
    M##_TARGET INLINE void M##_add_sorted(const lanes_call *b, ptrdiff_t i, int k, M##_vector x,             \
                                          M##_test inside, M##_vector d, const st_real *weight,              \
                                          M##_vector *total)                                                 \
    {                                                                                                        \
        const M##_mask is = x > (M##_vector){ 0 } - (st_real)INFINITY;                                       \
        if (weight) *total += weight[i] * (b->full ? x : (M##_vector)(is & (M##_mask)x));                    \
        else                                                                                                 \
            AT(M, b->sums[i] + k) = CHOOSE(M, inside, AT(M, b->sums[i] + k) + d * x, AT(M, b->sums[i] + k)); \
    }                                                                                                        \
    M##_TARGET INLINE void M##_sorted_of(const lanes_call *b, int n, const exchange *pair, int count,        \
                                         const st_real *weight, const st_real *d, st_real *sum)              \
    {                                                                                                        \
        EACH_VECTOR(M, k)                                                                                    \
        {                                                                                                    \
            const M##_test inside = EXCEEDS(M, AT(M, b->inside + k), (M##_vector){ 0 });                     \
            M##_vector s[FEW_RANKED], total = { 0 }, each = { 0 };                                           \
            if (d) each = AT(M, d + k);                                                                      \
            if (n > 0) M##_sort_few(b, n, pair, count, k, s);                                                \
            EACH(i, n) M##_add_sorted(b, i, k, s[i], inside, each, weight, &total);                          \
            for (ptrdiff_t i = 0; n == 0 && i < b->taps; i++)                                                \
                M##_add_sorted(b, i, k, AT(M, b->room[i] + k), inside, each, weight, &total);                \
            if (!d) AT(M, sum + k) = total;                                                                  \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET static void M##_sorted(const lanes_call *b, const st_real *weight, const st_real *d,          \
                                      st_real *sum)                                                          \
    {                                                                                                        \
        if (b->taps == 4) M##_sorted_of(b, 4, exchanges_of_4, EXCHANGES_OF_4, weight, d, sum);               \
        else if (b->taps == 9) M##_sorted_of(b, 9, of_9, EXCHANGES_OF_9, weight, d, sum);                    \
        else {                                                                                               \
            for (ptrdiff_t i = 0; i < b->taps; i++)                                                          \
                memcpy(b->room[i], b->x + b->offset[i], sizeof b->room[i]);                                  \
            sort(b->taps, b->room);                                                                          \
            M##_sorted_of(b, 0, NULL, 0, weight, d, sum);                                                    \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE M##_mask M##_packed_ranks(const lanes_call *b, int n, int k)                           \
    {                                                                                                        \
        M##_vector x[FEW_RANKED];                                                                            \
        const isa_bits(*over)[PACKED_RANKS] = overs;                                                         \
        __asm__("" : "+r"(over)); /* gcc would make each of them by two instructions */                      \
        EACH(i, n) x[i] = TAP(M, b, i, k);                                                                   \
        return M##_ranks_of(n, x, over);                                                                     \
    }                                                                                                        \
    /* The ranks of any number of elements: as bits, in b->room. */                                          \
    M##_TARGET INLINE void M##_ranks(const lanes_call *b, int k)                                             \
    {                                                                                                        \
        for (ptrdiff_t i = 0; i < b->taps; i++) {                                                            \
            const M##_vector here = TAP(M, b, i, k);                                                         \
            M##_mask own = (M##_mask){ 0 } + (isa_bits)i;                                                    \
            for (ptrdiff_t j = 0; j < i; j++) {                                                              \
                const M##_test more = EXCEEDS(M, here, TAP(M, b, j, k));                                     \
                own = PLUS(M, more, own, -1);                                                                \
                AT(M, b->room[j] + k) = (M##_vector)PLUS(M, more, (M##_mask)AT(M, b->room[j] + k), 1);       \
            }                                                                                                \
            AT(M, b->room[i] + k) = (M##_vector)own;                                                         \
        }                                                                                                    \
    }                                                                                                        \
    typedef struct M##_choice {                                                                              \
        M##_vector number, x;                                                                                \
    } M##_choice;                                                                                            \
    /* `here` is one element of each window. */                                                              \
    M##_TARGET INLINE void M##_choose(M##_choice *c, M##_test here, M##_vector i, M##_vector x)              \
    {                                                                                                        \
        c->number = CHOOSE(M, here, i, c->number), c->x = CHOOSE(M, here, x, c->x);                          \
    }                                                                                                        \
    M##_TARGET INLINE void M##_choose_one(const lanes_call *b, M##_mask rank, M##_mask first,                \
                                          M##_mask second, bool place, ptrdiff_t i, int k, M##_choice *u,    \
                                          M##_choice *v)                                                     \
    {                                                                                                        \
        const M##_vector x = TAP(M, b, i, k);                                                                \
        M##_vector number = (M##_vector){ 0 } + (st_real)i;                                                  \
        if (place) number = AT(M, b->places + b->offset[i] + k);                                             \
        M##_choose(u, SAME(M, rank, first), number, x);                                                      \
        if (!place) M##_choose(v, SAME(M, rank, second), number, x);                                         \
    }                                                                                                        \
    M##_TARGET INLINE void M##_chosen_of(const lanes_call *b, int n, const isa_bits *wanted,                 \
                                         const isa_bits *other, st_real *number, st_real *other_number,      \
                                         st_real *mean)                                                      \
    {                                                                                                        \
        EACH_VECTOR(M, k)                                                                                    \
        {                                                                                                    \
            const M##_mask first = (M##_mask)AT(M, wanted + k), second = (M##_mask)AT(M, other + k);         \
            const ptrdiff_t last = taps_of(b, n) - 1; /* unless it is another one */                         \
            M##_choice u, v;                                                                                 \
            M##_mask ranks = { 0 };                                                                          \
            if (n > 0) ranks = M##_packed_ranks(b, n, k);                                                    \
            else M##_ranks(b, k);                                                                            \
            const bool place = other == wanted;                                                              \
            u.x = TAP(M, b, last, k), u.number = (M##_vector){ 0 } + (st_real)last;                          \
            if (place) u.number = AT(M, b->places + b->offset[last] + k);                                    \
            v = u;                                                                                           \
            for (ptrdiff_t i = 0; n == 0 && i < last; i++) {                                                 \
                const M##_mask own = (M##_mask)AT(M, b->room[i] + k);                                        \
                M##_choose_one(b, own, first, second, place, i, k, &u, &v);                                  \
            }                                                                                                \
            EACH(i, n - 1)                                                                                   \
            M##_choose_one(b, M##_rank_in(ranks, i) & 15, first, second, place, i, k, &u, &v);               \
            AT(M, number + k) = u.number, AT(M, mean + k) = place ? u.x : (u.x + v.x) / 2;                   \
            if (!place) AT(M, other_number + k) = v.number;                                                  \
        }                                                                                                    \
    }                                                                                                        \
    OF_TAPS(M, chosen,                                                                                       \
            (const lanes_call *b, const isa_bits *rank, const isa_bits *other, st_real *number,              \
             st_real *other_number, st_real *mean),                                                          \
            b, rank, other, number, other_number, mean)                                                      \
                                                                                                             \
    /* The sum of each element times the weight of its rank; keeps the ranks. */                             \
    M##_TARGET INLINE void M##_ranked_of(const lanes_call *b, int n, const st_real *weight, st_real *sum)    \
    {                                                                                                        \
        const M##_vector lowest = (M##_vector){ 0 } - (st_real)INFINITY;                                     \
        EACH_VECTOR(M, k)                                                                                    \
        {                                                                                                    \
            const M##_mask ranks = M##_packed_ranks(b, n, k);                                                \
            M##_vector total = { 0 };                                                                        \
            EACH(i, n)                                                                                       \
            {                                                                                                \
                const M##_vector x = TAP(M, b, i, k), own = M##_weights_in(n, ranks, i, weight);             \
                total += own * (b->full ? x : (M##_vector)((x > lowest) & (M##_mask)x));                     \
            }                                                                                                \
            AT(M, sum + k) = total, AT(M, b->kept[0] + k) = (M##_vector)ranks;                               \
        }                                                                                                    \
    }                                                                                                        \
    OF_TAPS(M, ranked, (const lanes_call *b, const st_real *weight, st_real *sum), b, weight, sum)           \
    M##_TARGET INLINE void M##_by_rank_of(const lanes_call *b, int n, const st_real *weight,                 \
                                          const st_real *d)                                                  \
    {                                                                                                        \
        EACH_VECTOR(M, k)                                                                                    \
        {                                                                                                    \
            M##_mask ranks = { 0 };                                                                          \
            if (n == 0) M##_ranks(b, k);                                                                     \
            else if (b->keeps) ranks = (M##_mask)AT(M, b->kept[0] + k);                                      \
            else ranks = M##_packed_ranks(b, n, k);                                                          \
            EACH(i, n)                                                                                       \
            AT(M, b->dx + b->to[i] + k) = AT(M, d + k) * M##_weights_in(n, ranks, i, weight);                \
            for (ptrdiff_t i = 0; n == 0 && i < b->taps; i++)                                                \
                AT(M, b->dx + b->to[i] + k) =                                                                \
                    AT(M, d + k) * M##_weights_of(b->taps, (M##_mask)AT(M, b->room[i] + k), weight);         \
        }                                                                                                    \
    }                                                                                                        \
    OF_TAPS(M, by_rank, (const lanes_call *b, const st_real *weight, const st_real *d), b, weight, d)        \
    M##_TARGET INLINE void M##_reached_of(const lanes_call *b, ptrdiff_t n, const st_real *uniform,          \
                                          st_real *sums, bool *open)                                         \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const M##_vector zero = { 0 };                                                                       \
        const st_real error =                                                                                \
            sizeof(st_real) == sizeof(double) ? 0 : (st_real)(b->taps + 2) * ST_REAL_EPSILON;                \
        const M##_mask size = ~(M##_mask) - zero; /* all bits but the sign */                                \
        lane_numbers unsure;                                                                                 \
        for (int k = 0; k < POOL_LANES; k += 2 * LANES) {                                                    \
            M##_vector sum[2] = { { 0 } }, at[2] = { { 0 } }, value[2] = { { 0 } }, nearest[2], left[2];     \
            EACH_TAP(t, n) EACH(v, 2)                                                                        \
            {                                                                                                \
                const M##_vector x = TAP(M, b, t, k + v * LANES);                                            \
                sum[v] += BY(M, max, x, zero);                                                               \
            }                                                                                                \
            EACH(v, 2) left[v] = AT(M, uniform + k + v * LANES) * sum[v], nearest[v] = sum[v];               \
            EACH_TAP(t, n) EACH(v, 2)                                                                        \
            {                                                                                                \
                const M##_vector x = TAP(M, b, t, k + v * LANES),                                            \
                                 away = (M##_vector)((M##_mask)left[v] & size);                              \
                const M##_test here = EXCEEDS(M, x, zero) & ~EXCEEDS(M, zero, left[v]);                      \
                nearest[v] = BY(M, min, away, nearest[v]);                                                   \
                at[v] = CHOOSE(M, here, AT(M, b->places + b->offset[t] + k + v * LANES), at[v]);             \
                value[v] = CHOOSE(M, here, x, value[v]);                                                     \
                left[v] -= BY(M, max, x, zero);                                                              \
            }                                                                                                \
            EACH(v, 2)                                                                                       \
            {                                                                                                \
                const M##_mask sure =                                                                        \
                    (sum[v] >= LEAST_SUM) & (sum[v] <= MOST_SUM) & (nearest[v] >= error * sum[v]);           \
                const M##_mask is = (AT(M, b->inside + k + v * LANES) > 0) & (sum[v] != 0);                  \
                AT(M, unsure + k + v * LANES) = (M##_vector)(is & ~sure);                                    \
                AT(M, sums + k + v * LANES) = sum[v];                                                        \
                AT(M, b->place + k + v * LANES) = at[v], AT(M, b->y + k + v * LANES) = value[v];             \
            }                                                                                                \
        }                                                                                                    \
        isa_bits any = 0;                                                                                    \
        EACH_WINDOW(k) any |= unsure[k];                                                                     \
        *open = any != 0;                                                                                    \
    }                                                                                                        \
    OF_TAPS(M, reached, (const lanes_call *b, const st_real *uniform, st_real *sums, bool *open), b,         \
            uniform, sums, open)                                                                             \
    M##_TARGET INLINE void M##_counted_of(const lanes_call *b, ptrdiff_t n, const st_real *wanted)           \
    {                                                                                                        \
        const M##_vector zero = { 0 }, lowest = zero - (st_real)INFINITY;                                    \
        EACH_VECTOR(M, k)                                                                                    \
        {                                                                                                    \
            M##_vector at = AT(M, b->place + k), value = AT(M, b->y + k), count = zero;                      \
            EACH_TAP(t, n)                                                                                   \
            {                                                                                                \
                const M##_vector x = TAP(M, b, t, k);                                                        \
                const M##_mask here = (x > lowest) & (count == AT(M, wanted + k));                           \
                at = ISA_PICK(M, here, AT(M, b->places + b->offset[t] + k), at);                             \
                value = ISA_PICK(M, here, x, value);                                                         \
                count += (M##_vector)((x > lowest) & (M##_mask)(zero + 1));                                  \
            }                                                                                                \
            AT(M, b->place + k) = at, AT(M, b->y + k) = value;                                               \
        }                                                                                                    \
    }                                                                                                        \
    OF_TAPS(M, counted, (const lanes_call *b, const st_real *wanted), b, wanted)                             \
    static const taps_functions M##_taps = { M##_maximum, M##_spread,  M##_give,    M##_sorted, M##_chosen,  \
                                             M##_ranked,  M##_by_rank, M##_reached, M##_counted };

EACH_ISA(TAPS)

#endif
