/* pooling_lanes.c: poolings of layers/pooling/ whose windows are lanes: mixed, gated, ordinal, rank, median
 * and stochastic pooling. Their definitions are in files of these names.
 *
 * They are made of functions of the elements of a window (pooling_taps.h). Draws repeat the definition's
 * arithmetic, in double, where rounding could decide: they draw the same elements.
 *
 * This file is compiled with -ffp-contract=fast: multiply-adds are fused where the processor can. */
#include "layers/fast/lanes.h"
#include "layers/fast/pooling_taps.h"
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

/* Adds v of each window to a parameter's sums. */
INLINE void add_to(const lanes_call *b, ptrdiff_t param, const st_real *v)
{
    st_real *sum = b->sums[param];
    const st_real *inside = b->inside;
    EACH_WINDOW(k) sum[k] += inside[k] > 0 ? v[k] : 0;
}

/* Kept: the maximum's number, and how far it is above the mean. */
INLINE void mixed_values(const lanes_call *b, const taps_functions *by)
{
    const st_real a = b->at->param[0][0];
    lanes most, mean;
    by->maximum(b, NULL, most, b->kept[0], mean, NULL);
    EACH_WINDOW(k) mean[k] *= b->over[k];
    EACH_WINDOW(k) b->y[k] = a * most[k] + (1 - a) * mean[k];
    EACH_WINDOW(k) b->kept[1][k] = most[k] - mean[k];
}

INLINE void mixed_adjoints(const lanes_call *b, const taps_functions *by)
{
    const st_real a = b->at->param[0][0], *above = b->kept[1];
    lanes slope, share, d;
    EACH_WINDOW(k)
    {
        d[k] = b->dy[k] * a;
        share[k] = b->dy[k] * (1 - a) * b->over[k];
        slope[k] = b->dy[k] * above[k];
    }
    add_to(b, 0, slope);
    by->spread(b, share, b->kept[0], d, NULL, NULL);
}

/* Padding is zeros. Kept: the gate. */
INLINE void gated_values(const lanes_call *b, const taps_functions *by)
{
    const st_real share = 1 / (st_real)b->taps;
    lanes g, most, place, sum;
    by->maximum(b, b->at->param[0], most, place, sum, g);
    EACH_WINDOW(k) g[k] = fast_logistic(g[k]);
    if (b->keeps) memcpy(b->kept[0], g, sizeof g);
    EACH_WINDOW(k) b->y[k] = g[k] * most[k] + (1 - g[k]) * (share * sum[k]);
}

INLINE void gated_adjoints(const lanes_call *b, const taps_functions *by)
{
    const st_real *weight = b->at->param[0], *g = b->kept[0], share = 1 / (st_real)b->taps;
    lanes most, place, slope, mean;
    by->maximum(b, NULL, most, place, mean, NULL);
    EACH_WINDOW(k)
    {
        slope[k] = b->dy[k] * g[k] * (1 - g[k]) * (most[k] - share * mean[k]);
        mean[k] = b->dy[k] * (1 - g[k]) * share;
        most[k] = b->dy[k] * g[k];
    }
    by->spread(b, mean, place, most, weight, slope);
}

/* ---- orders -------------------------------------------------------------------------------------------- */

/* dx[i] = d weight[rank]. */
INLINE void by_ranks(const lanes_call *b, const taps_functions *by, const st_real *weight, const st_real *d)
{
    lanes few = { 0 };
    if (b->taps <= POOL_LANES) {
        for (ptrdiff_t i = 0; i < b->taps; i++) few[i] = weight[i];
        weight = few;
    }
    by->by_rank(b, weight, d);
}

/* Padding is zeros. */
INLINE void ordinal_values(const lanes_call *b, const taps_functions *by)
{
    by->sorted(b, b->at->param[0], NULL, b->y);
}

INLINE void ordinal_adjoints(const lanes_call *b, const taps_functions *by)
{
    by->sorted(b, NULL, b->dy, b->y);
    by_ranks(b, by, b->at->param[0], b->dy);
}

/* The mean of the two elements in the middle, of n in order: (n - 1) / 2 and n / 2. Kept: their numbers. */
INLINE void median_values(const lanes_call *b, const taps_functions *by)
{
    lane_numbers low, high;
    EACH_WINDOW(k)
    {
        const int n = (int)b->inside[k], most = n > 0 ? n - 1 : 0;
        low[k] = most / 2, high[k] = n / 2;
    }
    by->chosen(b, low, high, b->kept[0], b->kept[1], b->y);
}

INLINE void median_adjoints(const lanes_call *b, const taps_functions *by)
{
    lanes half;
    EACH_WINDOW(k) half[k] = b->dy[k] / 2;
    by->give(b, b->kept[0], b->kept[1], half);
}

/* The weight of the greatest element of a window with n elements, as the definition has it, or for draws the
 * sum of weights; weight[k] times the former is the one of the k-th. */
static void rank_weights(const void *options, bool draws, ptrdiff_t taps, st_real *first, st_real *weight)
{
    const double alpha = ((const st_rank_pool_options *)options)->alpha;
    double power = 1;
    for (ptrdiff_t k = 0; k < taps; k++, power *= 1 - alpha) weight[k] = (st_real)power;
    first[0] = 0;
    for (ptrdiff_t n = 1; n <= taps; n++) {
        if (draws) first[n] = first[n - 1] + weight[n - 1];
        else first[n] = (st_real)rank_weight(alpha, n);
    }
}

/* The rank that is drawn, by the definition's arithmetic. */
INLINE void drawn_rank(const lanes_call *b, isa_bits *rank)
{
    const st_real *inside = b->inside;
    st_real sum = 0;
    lanes part, passed = { 0 };
    EACH_WINDOW(k) part[k] = b->uniform[k] * b->first[k];
    for (ptrdiff_t i = 0; i < b->taps - 1; i++) {
        sum += b->weight[i];
        EACH_WINDOW(k) passed[k] += part[k] >= sum ? 1 : 0;
    }
    EACH_WINDOW(k) rank[k] = (isa_bits)(passed[k] < inside[k] ? passed[k] : inside[k] - 1);
}

INLINE void rank_values(const lanes_call *b, const taps_functions *by)
{
    lanes sum;
    if (b->uniform) {
        lane_numbers rank;
        drawn_rank(b, rank);
        by->chosen(b, rank, rank, b->place, b->place, b->y);
        return;
    }
    if (b->keeps) by->ranked(b, b->weight, sum);
    else by->sorted(b, b->weight, NULL, sum);
    EACH_WINDOW(k) b->y[k] = b->first[k] * sum[k];
}

INLINE void rank_adjoints(const lanes_call *b, const taps_functions *by)
{
    lanes d;
    EACH_WINDOW(k) d[k] = b->first[k] * b->dy[k];
    by_ranks(b, by, b->weight, d);
}

static bool rank_draws(const void *options)
{
    return ((const st_rank_pool_options *)options)->stochastic;
}

/* ---- stochastic pooling -------------------------------------------------------------------------------- */

/* Draws element floor(n uniform) of those in the image where no element is above 0. */
INLINE void draw_equally(const lanes_call *b, const taps_functions *by, const st_real *sum)
{
    lanes wanted;
    EACH_WINDOW(k) wanted[k] = (st_real)(int)((double)b->uniform[k] * (double)b->inside[k]);
    EACH_WINDOW(k) wanted[k] = sum[k] == 0 ? wanted[k] : -1;
    by->counted(b, wanted);
}

/* By the definition's arithmetic. */
INLINE void draw_exactly(const lanes_call *b)
{
    st_real *restrict number = b->place, *restrict y = b->y;
    double sum[POOL_LANES] = { 0 }, left[POOL_LANES];
    EACH_WINDOW(k) number[k] = y[k] = 0;
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i);
        EACH_WINDOW(k) sum[k] += (double)chance(x[k]);
    }
    EACH_WINDOW(k) left[k] = (double)b->uniform[k] * sum[k];
    KEEP_APART(left);
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i), *place = hidden(b->places + b->offset[i]);
        lanes part;
        EACH_WINDOW(k)
        {
            const double share = (double)chance(x[k]);
            part[k] = left[k] >= 0 ? (st_real)share : 0;
            left[k] -= share;
        }
        EACH_WINDOW(k)
        {
            number[k] = part[k] > 0 ? place[k] : number[k];
            y[k] = part[k] > 0 ? part[k] : y[k];
        }
    }
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

INLINE void stochastic_values(const lanes_call *b, const taps_functions *by)
{
    lanes sum, squares, all;
    if (b->uniform) {
        bool open;
        by->reached(b, b->uniform, sum, &open);
        if (open) draw_exactly(b);
        int zeros = 0;
        EACH_WINDOW(k) zeros |= (int)(sum[k] == 0) & (int)(b->inside[k] > 0);
        if (zeros) draw_equally(b, by, sum);
        return;
    }
    chances(b, sum, squares, all);
    EACH_WINDOW(k) b->y[k] = sum[k] > 0 ? squares[k] / sum[k] : all[k] * b->over[k];
}

INLINE void stochastic_adjoints(const lanes_call *b, const taps_functions *by)
{
    (void)by;
    const st_real *inside = b->inside;
    lanes sum, y, all;
    chances(b, sum, y, all);
    EACH_WINDOW(k)
    {
        all[k] = sum[k] > 0 ? b->dy[k] / sum[k] : b->dy[k] * b->over[k];
        y[k] = y[k] / sum[k];
    }
    for (ptrdiff_t i = 0; i < b->taps; i++) {
        const st_real *x = ELEMENT(b, i);
        st_real *restrict dx = ADJOINT(b, i);
        EACH_WINDOW(k)
        {
            const st_real slope = x[k] > 0 ? 2 * x[k] - y[k] : 0;
            dx[k] = inside[k] > 0 ? all[k] * (sum[k] > 0 ? slope : 1) : 0;
        }
    }
}

static bool always_draws(const void *options)
{
    (void)options;
    return true;
}

/* ---- the algorithms ------------------------------------------------------------------------------------ */

/* Each element of a window is compared with all others, by median pooling in the forward pass, by ordinal and
 * rank pooling in the backward pass. The definition takes less time for windows with more elements than these
 * numbers times the windows that are compared at once: of one in a channel, all lanes but one are empty. */
enum { CHOSEN = 32, RANKED = 64 };

static bool suit(const st_layer *l, int most)
{
    const window *w = &((const pool_plan *)l->plan)->w;
    return windows_suit(l) && (ptrdiff_t)w->kernel[0] * w->kernel[1] <= most * windows_at_once(l);
}

static bool median_suits(const st_layer *l)
{
    return suit(l, CHOSEN);
}

static bool ranks_suit(const st_layer *l)
{
    return suit(l, RANKED);
}

#define EACH_POOLING(DO)                                                                                     \
    DO(mixed, windows_suit, .runs = 2, .squares = &mixed_squares_form)                                       \
    DO(gated, windows_suit, .runs = 1, .reads = true, .squares = &gated_squares_form)                        \
    DO(ordinal, ranks_suit, .runs = 0, .squares = &ordinal_squares_form)                                     \
    DO(median, median_suits, .runs = 2, .squares = &median_squares_form)                                     \
    DO(rank, ranks_suit, .few = 1, .draws = rank_draws, .prepare = rank_weights,                             \
       .squares = &rank_squares_form, .drawn = &drawn_rank_squares_form)                                     \
    DO(stochastic, windows_suit, .draws = always_draws, .drawn = &stochastic_squares_form)

/* Goes on to the next POOL_LANES windows. */
INLINE void advance(lanes_call *b)
{
    b->x += POOL_LANES, b->inside += POOL_LANES, b->over += POOL_LANES, b->y += POOL_LANES,
        b->place += POOL_LANES;
    b->dy += POOL_LANES, b->dx += POOL_LANES, b->first += POOL_LANES;
    b->places += POOL_LANES;
    if (b->uniform) b->uniform += POOL_LANES;
    for (int j = 0; j < MOST_RUNS; j++) b->kept[j] += POOL_LANES;
    if (!b->next) return;
    FETCH_LINES(b->next, b->lines * CACHE_LINE, 0, 3);
    b->next += b->lines * CACHE_LINE;
}

#define LOOP(M, NAME, WHAT)                                                                                  \
    M##_TARGET static void M##_##NAME##_##WHAT(lanes_call *b, ptrdiff_t count)                               \
    {                                                                                                        \
        for (; count > 0; count -= POOL_LANES, advance(b)) NAME##_##WHAT(b, &M##_taps);                      \
    }
#define STAMP(M, NAME) LOOP(M, NAME, values) LOOP(M, NAME, adjoints)
#define VALUES_OF(M, NAME) M##_##NAME##_values,
#define ADJOINTS_OF(M, NAME) M##_##NAME##_adjoints,

#define ALGORITHM(NAME, SUITS, ...)                                                                          \
    EACH_ISA_OF(STAMP, NAME)                                                                                 \
    static lanes_function *const NAME##_values_of[] = { EACH_ISA_OF(VALUES_OF, NAME) };                      \
    static lanes_function *const NAME##_adjoints_of[] = { EACH_ISA_OF(ADJOINTS_OF, NAME) };                  \
    static int NAME##_plan(st_layer *l, const void *given)                                                   \
    {                                                                                                        \
        static const lanes_form form = { .values = NAME##_values_of,                                         \
                                         .adjoints = NAME##_adjoints_of,                                     \
                                         __VA_ARGS__ };                                                      \
        return windows_plan_for(l, given, &form, NULL);                                                      \
    }                                                                                                        \
    const layer_algorithm NAME##_pool_lanes = { .type = &layer_type_##NAME##_pool,                           \
                                                .suits = SUITS,                                              \
                                                .plan = NAME##_plan,                                         \
                                                .fill = windows_fill,                                        \
                                                .hooks = WINDOWS_HOOKS };
EACH_POOLING(ALGORITHM)
