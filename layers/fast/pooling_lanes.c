/* pooling_lanes.c: poolings of layers/pooling/ whose windows are lanes: mixed, gated, ordinal, rank, median
 * and stochastic pooling. Their definitions are in files of these names.
 *
 * Orders are sorting networks on the lanes' elements (Batcher 1968), and the rank of an element the number of
 * those that come before it. Draws repeat the definition's arithmetic, in double: they draw the same
 * elements. */
#include "layers/fast/windows.h"
#include "layers/fast/functions.h"
#include "layers/pooling/pooling.h"
#include "layers/pooling/family.h"

#include <math.h>

/* Element i of each window, and its adjoint. As the compiler is not to know how they depend on i, gcc does
 * not unroll the loop over i before it makes vectors of the one within. */
INLINE const st_real *hidden(const st_real *x)
{
    __asm__ volatile("" : "+r"(x));
    return x;
}
#define ELEMENT(b, i) hidden((b)->x + (b)->offset[i])
#define ADJOINT(b, i) ((st_real *)hidden((b)->dx + (b)->to[i]))

/* Tests if an element is one of the window: padding that is left out is not. */
#define IS_INSIDE(b, x) ((b)->full || (x) > -(st_real)INFINITY)

/* ---- maxima and sums ----------------------------------------------------------------------------------- */

/* The maximum, its element unless `place` is NULL, and the sum of each window. Each has a loop of its own, as
 * gcc would make branches of what one comparison says about another. */
INLINE void maximum_and_sum(const lanes_call *b, bool full, st_real *most, st_real *place, st_real *sum)
{
    const st_real lowest = -(st_real)INFINITY;
    EACH_WINDOW(k) most[k] = lowest;
    EACH_WINDOW(k) sum[k] = 0;
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i), number = (st_real)i;
        if (full) {
            EACH_WINDOW(k) sum[k] += x[k];
        } else {
            EACH_WINDOW(k) sum[k] += x[k] > lowest ? x[k] : 0;
        }
        if (place) {
            EACH_WINDOW(k) place[k] = x[k] > most[k] ? number : place[k];
        }
        EACH_WINDOW(k) most[k] = x[k] > most[k] ? x[k] : most[k];
    }
}

/* Adds v of each window to a parameter's sums. */
INLINE void add_to(const lanes_call *b, ptrdiff_t param, const st_real *v)
{
    st_real *sum = b->sums[param];
    const st_real *inside = b->inside;
    EACH_WINDOW(k) sum[k] += inside[k] > 0 ? v[k] : 0;
}

/* dx[i] = dy of the windows whose place is i, else 0. */
INLINE void to_place(const lanes_call *b, const st_real *place, const st_real *d, ptrdiff_t i)
{
    st_real *restrict dx = ADJOINT(b, i);
    EACH_WINDOW(k)
    {
        const st_real g = d[k];
        dx[k] = place[k] == (st_real)i ? g : 0;
    }
}

INLINE void mixed_values(const lanes_call *b)
{
    const st_real a = b->at->param[0][0];
    lanes most, sum;
    if (b->full) maximum_and_sum(b, true, most, NULL, sum);
    else maximum_and_sum(b, false, most, NULL, sum);
    EACH_WINDOW(k) b->y[k] = a * most[k] + (1 - a) * (sum[k] / b->inside[k]);
}

INLINE void mixed_adjoints(const lanes_call *b)
{
    const st_real a = b->at->param[0][0];
    lanes most, place = { 0 }, sum, share, d;
    if (b->full) maximum_and_sum(b, true, most, place, sum);
    else maximum_and_sum(b, false, most, place, sum);
    EACH_WINDOW(k)
    {
        d[k] = b->dy[k] * a;
        share[k] = b->dy[k] * (1 - a) / b->inside[k];
        most[k] = b->dy[k] * (most[k] - sum[k] / b->inside[k]);
    }
    add_to(b, 0, most);
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        st_real *restrict dx = ADJOINT(b, i);
        EACH_WINDOW(k) dx[k] = share[k] + (place[k] == (st_real)i ? d[k] : 0);
    }
}

/* Padding is zeros. */
INLINE void gates(const lanes_call *b, st_real *g)
{
    EACH_WINDOW(k) g[k] = 0;
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i), weight = b->at->param[0][i];
        EACH_WINDOW(k) g[k] += weight * x[k];
    }
    EACH_WINDOW(k) g[k] = fast_logistic(g[k]);
}

INLINE void gated_values(const lanes_call *b)
{
    const st_real share = 1 / (st_real)b->taps;
    lanes g, most, sum;
    gates(b, g), maximum_and_sum(b, true, most, NULL, sum);
    EACH_WINDOW(k) b->y[k] = g[k] * most[k] + (1 - g[k]) * (share * sum[k]);
}

INLINE void gated_adjoints(const lanes_call *b)
{
    const st_real share = 1 / (st_real)b->taps;
    lanes g, most, place = { 0 }, slope, mean;
    gates(b, g), maximum_and_sum(b, true, most, place, mean);
    EACH_WINDOW(k)
    {
        slope[k] = b->dy[k] * g[k] * (1 - g[k]) * (most[k] - share * mean[k]);
        mean[k] = b->dy[k] * (1 - g[k]) * share;
        most[k] = b->dy[k] * g[k];
    }
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i), weight = b->at->param[0][i];
        st_real *restrict dx = ADJOINT(b, i);
        lanes product;
        EACH_WINDOW(k)
        {
            dx[k] = mean[k] + slope[k] * weight + (place[k] == (st_real)i ? most[k] : 0);
            product[k] = slope[k] * x[k];
        }
        add_to(b, i, product);
    }
}

/* ---- orders -------------------------------------------------------------------------------------------- */

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

INLINE void sorted(const lanes_call *b, lanes *s)
{
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i);
        EACH_WINDOW(k) s[i][k] = x[k];
    }
    sort(b->taps, s);
}

/* rank[i]: how many elements come before element i, the greatest first; equal ones stay in their order. */
INLINE void ranks(const lanes_call *b, lanes *rank)
{
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i), number = (st_real)i;
        lanes passed = { 0 }, is; /* of those before it in the window, the ones that x exceeds */
        for (ptrdiff_t j = 0; j < i; j++) {
            const st_real *before = ELEMENT(b, j);
            st_real *other = rank[j];
            EACH_WINDOW(k) is[k] = x[k] > before[k] ? 1 : 0;
            EACH_WINDOW(k) passed[k] += is[k];
            EACH_WINDOW(k) other[k] += is[k];
        }
        EACH_WINDOW(k) rank[i][k] = number - passed[k];
    }
}

/* dx[i] = d weight[rank]. */
INLINE void by_rank(const lanes_call *b, const st_real *rank, const st_real *weight, const st_real *d,
                    ptrdiff_t i)
{
    enum { FEW = 32 }; /* weights that are selected faster than they are fetched */
    st_real *restrict dx = ADJOINT(b, i);
    if (b->taps > FEW) {
        EACH_WINDOW(k) dx[k] = d[k] * weight[(int)rank[k]];
        return;
    }
    lanes own = { 0 };
    for (ptrdiff_t r = 0; r < b->taps; r++) {
        const st_real w = *hidden(weight + r);
        EACH_WINDOW(k) own[k] = rank[k] == (st_real)r ? w : own[k];
    }
    EACH_WINDOW(k) dx[k] = d[k] * own[k];
}

INLINE void ordinal_values(const lanes_call *b)
{
    lanes *s = b->room, sum = { 0 };
    sorted(b, s);
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = hidden(s[i]), weight = b->at->param[0][i];
        EACH_WINDOW(k) sum[k] += weight * x[k];
    }
    EACH_WINDOW(k) b->y[k] = sum[k];
}

INLINE void ordinal_adjoints(const lanes_call *b)
{
    const st_real *weight = b->at->param[0];
    lanes *s = b->room;
    sorted(b, s);
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        EACH_WINDOW(k) s[i][k] *= b->dy[k];
        add_to(b, i, s[i]);
    }
    ranks(b, s);
    for (ptrdiff_t i = 0; i < b->taps; i++) by_rank(b, s[i], weight, b->dy, i);
}

/* The two elements in the middle, of n in order: (n - 1) / 2 and n / 2. */
INLINE void middles(const lanes_call *b, st_real *low, st_real *high)
{
    EACH_WINDOW(k)
    {
        const int n = (int)b->inside[k], most = n > 0 ? n - 1 : 0;
        low[k] = (st_real)(most / 2), high[k] = (st_real)(n / 2);
    }
}

INLINE void median_values(const lanes_call *b)
{
    lanes *s = b->room, low, high, sum = { 0 };
    sorted(b, s);
    if (b->full) {
        const st_real *x = s[(b->taps - 1) / 2], *y = s[b->taps / 2];
        EACH_WINDOW(k) b->y[k] = (x[k] + y[k]) / 2;
        return;
    }
    middles(b, low, high);
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = hidden(s[i]), number = (st_real)i;
        EACH_WINDOW(k) sum[k] += low[k] == number ? x[k] : 0;
        EACH_WINDOW(k) sum[k] += high[k] == number ? x[k] : 0;
    }
    EACH_WINDOW(k) b->y[k] = sum[k] / 2;
}

INLINE void median_adjoints(const lanes_call *b)
{
    lanes *rank = b->room, low, high;
    ranks(b, rank);
    middles(b, low, high);
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        st_real *restrict dx = ADJOINT(b, i);
        EACH_WINDOW(k)
        {
            const st_real half = b->dy[k] / 2;
            dx[k] = (low[k] == rank[i][k] ? half : 0) + (high[k] == rank[i][k] ? half : 0);
        }
    }
}

/* The weight of the greatest element of a window with n elements, as the definition has it; weight[k] times
 * that is the one of the k-th. */
static void rank_weights(const void *options, ptrdiff_t taps, double *first, st_real *weight)
{
    const double alpha = ((const st_rank_pool_options *)options)->alpha;
    double power = 1;
    first[0] = 0;
    for (ptrdiff_t n = 1; n <= taps; n++)
        first[n] = alpha < 1 ? alpha / -expm1((double)n * log1p(-alpha)) : 1;
    for (ptrdiff_t k = 0; k < taps; k++, power *= 1 - alpha) weight[k] = (st_real)power;
}

/* The rank that is drawn: a draw in double, as the definition's. */
INLINE void drawn_rank(const lanes_call *b, st_real *rank)
{
    const double rest = 1 - ((const st_rank_pool_options *)b->at->options)->alpha;
    const double *first = b->first;
    double left[POOL_LANES], p[POOL_LANES], last[POOL_LANES];
    EACH_WINDOW(k) left[k] = b->uniform[k];
    EACH_WINDOW(k) p[k] = first[k];
    EACH_WINDOW(k) last[k] = (double)b->inside[k] - 1;
    EACH_WINDOW(k) rank[k] = 0;
    for (ptrdiff_t i = 0; i < b->taps - 1; i++) {
        const double number = (double)i;
        EACH_WINDOW(k) p[k] = number < last[k] ? p[k] : INFINITY; /* the last rank is not passed */
        EACH_WINDOW(k) rank[k] += left[k] >= p[k] ? 1 : 0;
        EACH_WINDOW(k) left[k] = left[k] >= p[k] ? left[k] - p[k] : -1;
        EACH_WINDOW(k) p[k] *= rest;
    }
}

INLINE void first_weights(const lanes_call *b, st_real *p)
{
    EACH_WINDOW(k) p[k] = (st_real)b->first[k];
}

/* dx[i] = dy of the windows that drew its rank, else 0. */
INLINE void at_rank(const lanes_call *b, const st_real *rank, ptrdiff_t i)
{
    const st_real *place = b->place, *dy = b->dy;
    st_real *restrict dx = ADJOINT(b, i);
    EACH_WINDOW(k)
    {
        const st_real g = dy[k];
        dx[k] = rank[k] == place[k] ? g : 0;
    }
}

INLINE void rank_values(const lanes_call *b)
{
    lanes *s = b->room, p, rank, sum = { 0 };
    sorted(b, s);
    if (b->uniform) {
        drawn_rank(b, rank);
        EACH_WINDOW(k) b->place[k] = rank[k];
    } else first_weights(b, p);
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = hidden(s[i]), number = (st_real)i, weight = b->weight[i];
        if (b->uniform) {
            EACH_WINDOW(k) sum[k] += rank[k] == number ? x[k] : 0;
        } else {
            EACH_WINDOW(k) sum[k] += x[k] > -(st_real)INFINITY ? p[k] * weight * x[k] : 0;
        }
    }
    EACH_WINDOW(k) b->y[k] = sum[k];
}

INLINE void rank_adjoints(const lanes_call *b)
{
    lanes *rank = b->room, d;
    ranks(b, rank);
    if (!b->uniform) first_weights(b, d);
    EACH_WINDOW(k) d[k] = b->uniform ? 0 : b->dy[k] * d[k];
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        if (!b->uniform) by_rank(b, rank[i], b->weight, d, i);
        else at_rank(b, rank[i], i);
    }
}

static bool rank_draws(const void *options)
{
    return ((const st_rank_pool_options *)options)->stochastic;
}

/* ---- stochastic pooling -------------------------------------------------------------------------------- */

INLINE st_real chance(st_real x)
{
    return x > 0 ? x : 0;
}

/* Where no element is above 0, element floor(n uniform) of those in the image. */
INLINE void draw_equally(const lanes_call *b, const double *sum, st_real *place, st_real *y)
{
    lanes wanted, count = { 0 };
    EACH_WINDOW(k) wanted[k] = (st_real)(int)(b->uniform[k] * (double)b->inside[k]);
    EACH_WINDOW(k) wanted[k] = sum[k] == 0 ? wanted[k] : -1;
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i);
        EACH_WINDOW(k)
        {
            const st_real v = x[k], is = v > -(st_real)INFINITY ? 1 : 0, number = is > 0 ? count[k] : -2;
            place[k] = number == wanted[k] ? (st_real)i : place[k];
            y[k] = number == wanted[k] ? v : y[k];
            count[k] += is;
        }
    }
}

INLINE void draw(const lanes_call *b)
{
    double sum[POOL_LANES] = { 0 }, left[POOL_LANES];
    lanes place = { 0 }, y = { 0 };
    int zeros = 0;
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i);
        EACH_WINDOW(k) sum[k] += (double)chance(x[k]);
    }
    EACH_WINDOW(k) left[k] = b->uniform[k] * sum[k];
    EACH_WINDOW(k) zeros |= sum[k] == 0;
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i);
        lanes part;
        EACH_WINDOW(k)
        {
            const double share = (double)chance(x[k]);
            part[k] = left[k] >= 0 ? (st_real)share : 0;
            left[k] -= share;
        }
        EACH_WINDOW(k)
        {
            place[k] = part[k] > 0 ? (st_real)i : place[k];
            y[k] = part[k] > 0 ? part[k] : y[k];
        }
    }
    if (zeros) draw_equally(b, sum, place, y);
    EACH_WINDOW(k) b->place[k] = place[k];
    EACH_WINDOW(k) b->y[k] = y[k];
}

/* The sum of the elements above 0, and of all; of squares of the former. */
INLINE void chances(const lanes_call *b, st_real *sum, st_real *squares, st_real *all)
{
    EACH_WINDOW(k) sum[k] = squares[k] = all[k] = 0;
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i);
        EACH_WINDOW(k)
        {
            const st_real share = chance(x[k]);
            sum[k] += share, squares[k] += share * share;
            all[k] += IS_INSIDE(b, x[k]) ? x[k] : 0;
        }
    }
}

INLINE void stochastic_values(const lanes_call *b)
{
    lanes sum, squares, all;
    if (b->uniform) {
        draw(b);
        return;
    }
    chances(b, sum, squares, all);
    EACH_WINDOW(k) b->y[k] = sum[k] > 0 ? squares[k] / sum[k] : all[k] / b->inside[k];
}

INLINE void stochastic_adjoints(const lanes_call *b)
{
    lanes sum, y, all;
    if (!b->uniform) {
        chances(b, sum, y, all);
        EACH_WINDOW(k)
        {
            all[k] = b->dy[k] / (sum[k] > 0 ? sum[k] : b->inside[k]);
            y[k] = y[k] / sum[k];
        }
    }
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i);
        st_real *restrict dx = ADJOINT(b, i);
        if (b->uniform) to_place(b, b->place, b->dy, i);
        else EACH_WINDOW(k)
            {
                const st_real slope = x[k] > 0 ? 2 * x[k] - y[k] : 0;
                dx[k] = all[k] * (sum[k] > 0 ? slope : 1);
            }
    }
}

static bool always_draws(const void *options)
{
    (void)options;
    return true;
}

/* ---- the algorithms ------------------------------------------------------------------------------------ */

#define EACH_POOLING(DO)                                                                                     \
    DO(mixed, NULL, NULL)                                                                                    \
    DO(gated, NULL, NULL)                                                                                    \
    DO(ordinal, NULL, NULL)                                                                                  \
    DO(median, NULL, NULL) DO(rank, rank_draws, rank_weights) DO(stochastic, always_draws, NULL)

/* The windows after the first POOL_LANES. */
INLINE lanes_call after(const lanes_call *b)
{
    lanes_call next = *b;
    next.x += POOL_LANES, next.inside += POOL_LANES, next.y += POOL_LANES, next.place += POOL_LANES;
    next.dy += POOL_LANES, next.dx += POOL_LANES, next.first += POOL_LANES;
    if (b->uniform) next.uniform += POOL_LANES;
    return next;
}

#define LOOP(M, NAME, WHAT)                                                                                  \
    M##_TARGET static void M##_##NAME##_##WHAT(const lanes_call *b, ptrdiff_t count)                         \
    {                                                                                                        \
        lanes_call at = *b;                                                                                  \
        for (; count > 0; count -= POOL_LANES, at = after(&at)) NAME##_##WHAT(&at);                          \
    }
#define STAMP(M, NAME) LOOP(M, NAME, values) LOOP(M, NAME, adjoints)
#define VALUES_OF(M, NAME) M##_##NAME##_values,
#define ADJOINTS_OF(M, NAME) M##_##NAME##_adjoints,

#define ALGORITHM(NAME, DRAWS, PREPARE)                                                                      \
    EACH_MACHINE_OF(STAMP, NAME)                                                                             \
    static lanes_function *const NAME##_values_of[] = { EACH_MACHINE_OF(VALUES_OF, NAME) };                  \
    static lanes_function *const NAME##_adjoints_of[] = { EACH_MACHINE_OF(ADJOINTS_OF, NAME) };              \
    static int NAME##_plan(st_layer *l, const void *given)                                                   \
    {                                                                                                        \
        static const lanes_form form = { DRAWS, PREPARE, NAME##_values_of, NAME##_adjoints_of };             \
        return windows_plan_for(l, given, &form, NULL);                                                      \
    }                                                                                                        \
    const layer_algorithm NAME##_pool_lanes = { .type = &layer_type_##NAME##_pool,                           \
                                                .suits = windows_suit,                                       \
                                                .plan = NAME##_plan,                                         \
                                                .fill = windows_fill,                                        \
                                                .hooks = WINDOWS_HOOKS };
EACH_POOLING(ALGORITHM)
