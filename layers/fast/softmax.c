/* softmax.c: softmax and its logarithm by vectors, for each instruction set. Sums are in a fixed order, so
 * that every instruction set gives the same bits. */
#include "layers/softmax_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/functions.h"
#include "layers/types.h"
#include "tensor/counts.h"

#include <string.h>

enum { LANES = 16, BESIDE = 64 }; /* elements side by side; the most rows that are computed side by side */
enum { DEEP = 96 };               /* elements of a row of which half as many are */
enum { NEAR = 1 << 12 };          /* elements of adjacent rows that stay in the first cache */

/* Without it gcc unrolls such a loop before it could make vectors of it. An exponential has a loop of its
 * own: gcc would make a branch of what is known of a clamped argument. */
#define EACH_LANE(k, lanes) _Pragma("GCC unroll 1") for (int k = 0; k < (lanes); k++)

INLINE st_real greatest_of(ptrdiff_t n, const st_real *x)
{
    enum { FEW = 2 };
    st_real lane[FEW * LANES];
    for (int k = 0; k < FEW * LANES; k++) lane[k] = -(st_real)INFINITY;
    ptrdiff_t i = 0;
    for (; i + FEW * LANES <= n; i += FEW * LANES)
        for (int k = 0; k < FEW * LANES; k++) lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    for (int k = 0; i < n; i++, k++) lane[k] = x[i] > lane[k] ? x[i] : lane[k];
    for (int half = FEW * LANES / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) lane[k] = lane[k + half] > lane[k] ? lane[k + half] : lane[k];
    return lane[0];
}

/* Sums of exp(x - greatest) but for the maxima's ones, and the number of those. */
typedef struct shifted_sums {
    double rest[LANES];
    st_real maxima[LANES];
} shifted_sums;

/* With `logarithm`, to = x - greatest, otherwise its exponential; lanes first ... end - 1 are added. */
INLINE void shift_lanes(shifted_sums *sums, const st_real *x, st_real *to, int first, int end,
                        st_real greatest, bool logarithm)
{
    st_real shifted[LANES], power[LANES];
    EACH_LANE(k, LANES)
    {
        shifted[k] = x[k] - greatest;
        power[k] = not_below_least(shifted[k]);
    }
    EACH_LANE(k, LANES) power[k] = fast_exp_within(power[k]);
    EACH_LANE(k, LANES)
    {
        const st_real added = (st_real)((k >= first) & (k < end)), below = (st_real)(shifted[k] < 0) * added;
        sums->maxima[k] += added - below;
        sums->rest[k] += (double)(power[k] * below);
        to[k] = logarithm ? shifted[k] : power[k];
    }
}

/* The sum of exp(x - greatest) less 1. The last lanes end with the row, and their elements are read before y
 * is written, which may be x. A row that is shorter is a copy. */
INLINE double shift_row(ptrdiff_t n, const st_real *x, st_real *y, st_real greatest, bool logarithm)
{
    shifted_sums sums = { { 0 }, { 0 } };
    st_real last[LANES];
    const ptrdiff_t rest = n % LANES;
    if (n < LANES) {
        for (int k = 0; k < LANES; k++) last[k] = -(st_real)INFINITY;
        memcpy(last, x, (size_t)n * sizeof *last);
        shift_lanes(&sums, last, last, 0, (int)n, greatest, logarithm);
        memcpy(y, last, (size_t)n * sizeof *last);
    } else {
        memcpy(last, x + n - LANES, sizeof last);
        for (ptrdiff_t i = 0; i + LANES <= n; i += LANES)
            shift_lanes(&sums, x + i, y + i, 0, LANES, greatest, logarithm);
        if (rest > 0) shift_lanes(&sums, last, y + n - LANES, LANES - (int)rest, LANES, greatest, logarithm);
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) {
            sums.rest[k] += sums.rest[k + half];
            sums.maxima[k] += sums.maxima[k + half];
        }
    return sums.rest[0] + ((double)sums.maxima[0] - 1);
}

INLINE void forward_row(ptrdiff_t n, const st_real *x, st_real *y, bool logarithm)
{
    const double rest = shift_row(n, x, y, greatest_of(n, x), logarithm);
    const st_real log_sum = (st_real)(logarithm ? log1p(rest) : 0), over = (st_real)(1 / (1 + rest));
    for (ptrdiff_t i = 0; i < n; i++) y[i] = logarithm ? y[i] - log_sum : y[i] * over;
}

/* The same for `width` adjacent rows, whose elements are `step` apart. */
INLINE void forward_rows_beside(ptrdiff_t n, ptrdiff_t step, int width, const st_real *x, st_real *y,
                                bool logarithm)
{
    st_real greatest[BESIDE], maxima[BESIDE] = { 0 }, last[BESIDE];
    double rest[BESIDE] = { 0 };
    for (int k = 0; k < width; k++) greatest[k] = -(st_real)INFINITY;
    for (ptrdiff_t i = 0; i < n * step; i += step)
        EACH_LANE(k, width) greatest[k] = x[i + k] > greatest[k] ? x[i + k] : greatest[k];
    for (ptrdiff_t i = 0; i < n * step; i += step) {
        st_real shifted[BESIDE], power[BESIDE];
        EACH_LANE(k, width)
        {
            shifted[k] = x[i + k] - greatest[k];
            power[k] = not_below_least(shifted[k]);
        }
        EACH_LANE(k, width) power[k] = fast_exp_within(power[k]);
        EACH_LANE(k, width)
        {
            const st_real below = (st_real)(shifted[k] < 0);
            maxima[k] += 1 - below;
            rest[k] += (double)(power[k] * below);
            y[i + k] = logarithm ? shifted[k] : power[k];
        }
    }
    EACH_LANE(k, width)
    {
        const double sum = rest[k] + ((double)maxima[k] - 1);
        last[k] = (st_real)(logarithm ? wide_log_of_1_and(sum) : 1 / (1 + sum));
    }
    for (ptrdiff_t i = 0; i < n * step; i += step)
        EACH_LANE(k, width) y[i + k] = logarithm ? y[i + k] - last[k] : y[i + k] * last[k];
}

/* DO(width) for rows k, k + 1, ... of `step` adjacent ones, at most `most` at once. With `vectors` the rest
 * of them are vectors, too, if they fill one: the last one ends with the step, and some rows are computed
 * again. */
#define EACH_BESIDE(k, step, most, vectors, DO)                                                              \
    for (ptrdiff_t all = step, begin = 0, some; begin < all; begin += some) {                                \
        const bool rest = all - begin < (most);                                                              \
        some = !rest ? (most) : (vectors) ? smallest(all, LANES) : all - begin;                              \
        const ptrdiff_t k = smallest(begin, all - some);                                                     \
        if (some == BESIDE) DO(BESIDE);                                                                      \
        else if (some == BESIDE / 2) DO(BESIDE / 2);                                                         \
        else if (some == LANES) DO(LANES);                                                                   \
        else DO((int)some);                                                                                  \
    }

INLINE void forward_rows(const st_call *c, st_tensor x, st_tensor y, bool logarithm)
{
    const softmax_plan r = *(const softmax_plan *)c->plan;
    const int most = r.length > DEEP ? BESIDE / 2 : BESIDE;
    const bool direct = st_is_contiguous(x);
    if (!direct) st_copy(y, x);
    for (ptrdiff_t line = 0; line < c->images * r.lines; line += r.step) {
        const ptrdiff_t at = softmax_line(&r, line);
        const st_real *from = st_data(direct ? x : y) + at;
        st_real *to = st_data(y) + at;
#define FORWARD(width) forward_rows_beside(r.length, r.step, width, from + k, to + k, logarithm)
        if (r.step == 1) forward_row(r.length, from, to, logarithm);
        else EACH_BESIDE(k, r.step, most, direct, FORWARD)
#undef FORWARD
    }
}

INLINE void backward_row(ptrdiff_t n, const st_real *p, const st_real *g, st_real *out, bool logarithm)
{
    enum { FEW = 2 };
    st_real lane[FEW * LANES] = { 0 }, sum;
    ptrdiff_t i = 0;
    for (; i + FEW * LANES <= n; i += FEW * LANES)
        for (int k = 0; k < FEW * LANES; k++) lane[k] += logarithm ? g[i + k] : p[i + k] * g[i + k];
    for (int k = 0; i < n; i++, k++) lane[k] += logarithm ? g[i] : p[i] * g[i];
    for (int half = FEW * LANES / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) lane[k] += lane[k + half];
    sum = lane[0];
    for (i = 0; i < n; i++)
        out[i] = logarithm ? g[i] - fast_exp_within(not_below_least(p[i])) * sum : p[i] * (g[i] - sum);
}

/* The same for `width` adjacent rows. */
INLINE void backward_rows_beside(ptrdiff_t n, ptrdiff_t step, int width, const st_real *p, const st_real *g,
                                 st_real *out, bool logarithm)
{
    st_real sum[BESIDE] = { 0 };
    for (ptrdiff_t i = 0; i < n * step; i += step)
        EACH_LANE(k, width) sum[k] += logarithm ? g[i + k] : p[i + k] * g[i + k];
    for (ptrdiff_t i = 0; i < n * step; i += step) EACH_LANE(k, width)
    out[i + k] = logarithm ? g[i + k] - fast_exp_within(not_below_least(p[i + k])) * sum[k]
                           : p[i + k] * (g[i + k] - sum[k]);
}

INLINE void backward_rows(const st_call *c, st_tensor y, st_tensor dy, st_tensor dx, bool logarithm)
{
    const softmax_plan r = *(const softmax_plan *)c->plan;
    const bool few = r.length * r.step <= NEAR;
    for (ptrdiff_t line = 0; line < c->images * r.lines; line += r.step) {
        const ptrdiff_t at = softmax_line(&r, line);
        const st_real *p = st_data(y) + at, *g = st_data(dy) + at;
        st_real *out = st_data(dx) + at;
#define BACKWARD(width) backward_rows_beside(r.length, r.step, width, p + k, g + k, out + k, logarithm)
        if (r.step == 1) backward_row(r.length, p, g, out, logarithm);
        else EACH_BESIDE(k, r.step, BESIDE, few, BACKWARD)
#undef BACKWARD
    }
}

/* ---- the algorithms --------------------------------------------------------------------------------- */

/* The plan's data: the definition's, and the functions of an instruction set. */
typedef struct softmax_by {
    softmax_plan lines;
    void (*forward)(const st_call *c, st_tensor x, st_tensor y);
    void (*backward)(const st_call *c, st_tensor y, st_tensor dy, st_tensor dx);
} softmax_by;

static bool suits(const st_layer *l)
{
    (void)l;
    return true;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    ((const softmax_by *)c->plan)->forward(c, x, y);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x;
    ((const softmax_by *)c->plan)->backward(c, y, dy, dx);
}

#define SOFTMAX_BY(M, NAME)                                                                                  \
    M##_TARGET static void M##_##NAME##_forward(const st_call *c, st_tensor x, st_tensor y)                  \
    {                                                                                                        \
        forward_rows(c, x, y, NAME##_LOGARITHM);                                                             \
    }                                                                                                        \
    M##_TARGET static void M##_##NAME##_backward(const st_call *c, st_tensor y, st_tensor dy, st_tensor dx)  \
    {                                                                                                        \
        backward_rows(c, y, dy, dx, NAME##_LOGARITHM);                                                       \
    }
#define NAMES(M, NAME) { { 0 }, M##_##NAME##_forward, M##_##NAME##_backward },

#define SOFTMAX(NAME)                                                                                        \
    EACH_MACHINE_OF(SOFTMAX_BY, NAME)                                                                        \
    static const softmax_by NAME##_of_machine[] = { EACH_MACHINE_OF(NAMES, NAME) };                          \
    static int plan_##NAME(st_layer *l, const void *given)                                                   \
    {                                                                                                        \
        softmax_by *p = st_layer_plan_data(l, sizeof *p);                                                    \
        if (!p) return -1;                                                                                   \
        *p = NAME##_of_machine[l->impl->machine];                                                            \
        p->lines = *(const softmax_plan *)given;                                                             \
        return 0;                                                                                            \
    }                                                                                                        \
    const layer_algorithm NAME##_vectors = {                                                                 \
        .type = &layer_type_##NAME, .suits = suits, .plan = plan_##NAME, .hooks = { forward, backward }      \
    };

enum { softmax_LOGARITHM = false, log_softmax_LOGARITHM = true };
SOFTMAX(softmax)
SOFTMAX(log_softmax)
