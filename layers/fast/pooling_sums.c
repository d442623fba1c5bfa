/* pooling_sums.c: poolings of layers/pooling/ that are functions of sums over windows: SoftPool, log-sum-exp
 * pooling, generalised means and learned norms. Their definitions are in files of these names.
 *
 * Terms are 2^RAISED exp(r (x - shift)), with shift the greatest x of the channel, and powers likewise: the
 * sum of a window that lies far below the rest of its channel would lose digits, and leaves the channel to
 * the definition. */
#include "layers/fast/windows.h"
#include "layers/fast/functions.h"
#include "layers/pooling/pooling.h"
#include "layers/pooling/family.h"
#include "tensor/counts.h"

#include <math.h>

/* Terms below exp(LEAST_EXPONENT) are as great as that one, which is a normal number; in sums from FEWEST on
 * it is nothing, and so is SOME. */
#ifdef STRIDE_DOUBLE
enum { RAISED = 440 };
#define FEWEST 1e-175
#define SOME 1e-307
#else
enum { RAISED = 58 };
#define FEWEST ((st_real)1e-22)
#define SOME ((st_real)2e-38)
#endif

/* ---- log and powers in st_real ------------------------------------------------------------------------- */

/* log(2^-lower x) of a normal x > 0, to two units in the last place: n log(2) + log(1 + s), s between
 * sqrt(1/2) - 1 and sqrt(2) - 1; log(1 + s) = s - s²/2 + s³ p(s) with the smallest greatest relative error,
 * 2^-27 (Remez's exchange). */
INLINE st_real fast_log(st_real x, int lower)
{
#ifdef STRIDE_DOUBLE
    return wide_log(lower ? x * 0x1p-440 : x);
#else
    uint32_t bits;
    float m;
    memcpy(&bits, &x, sizeof bits);
    const int32_t n = (int32_t)(bits - 0x3f3504f3) >> 23; /* m is from sqrt(1/2) on */
    bits -= (uint32_t)n << 23;
    memcpy(&m, &bits, sizeof m);
    const float s = m - 1, t = s * s;
    float p = -0.0763450290965f;
    p = p * s + 0.127615772781f, p = p * s - 0.131601804663f, p = p * s + 0.14201757998f;
    p = p * s - 0.166233575350f, p = p * s + 0.20001226873f, p = p * s - 0.250008210285f;
    p = p * s + 0.333333317078f;
    return (float)(n - lower) * 0x1.62e430p-1f + (s - (t * 0.5f - t * s * p));
#endif
}

/* 2^RAISED exp(x) of x <= 0, or of x so little above it that the result is in range. */
INLINE st_real raised_exp(st_real x)
{
    const exponent e = exponent_of(x);
    return (1 + e.less_1) * power_of_2(e.biased - BIAS + RAISED);
}

INLINE st_real greatest(ptrdiff_t n, const st_real *x)
{
    lanes most;
    EACH_WINDOW(k) most[k] = x[0];
    ptrdiff_t i = 0;
    for (; i + POOL_LANES <= n; i += POOL_LANES)
        EACH_WINDOW(k) most[k] = x[i + k] > most[k] ? x[i + k] : most[k];
    for (; i < n; i++) most[0] = x[i] > most[0] ? x[i] : most[0];
    for (int k = 1; k < POOL_LANES; k++) most[0] = most[k] > most[0] ? most[k] : most[0];
    return most[0];
}

/* Tests if the sums of all windows with elements are in range, or, with `zeros`, exactly 0. */
INLINE bool in_range(const sums_call *b, bool zeros)
{
    const st_real *s = b->s[0];
    int outside = 0;
    for (ptrdiff_t i = 0; i < b->n; i++)
        outside |= (int)(b->inside[i] > 0) & (int)!(s[i] >= FEWEST) & (int)!(zeros && s[i] == 0);
    return !outside;
}

/* ---- SoftPool: f = exp(x - shift), f (x - shift) ------------------------------------------------------- */

INLINE void soft_terms(sums_call *b)
{
    const st_real shift = greatest(b->n, b->x), *x = b->x;
    st_real *restrict power = b->f[0], *restrict weighted = b->f[1];
    b->shift = (double)shift;
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real z = x[i] - shift, e = raised_exp(z);
        power[i] = e, weighted[i] = e * z;
    }
}

INLINE bool soft_values(const sums_call *b)
{
    const st_real *s = b->s[0], *weighted = b->s[1], shift = (st_real)b->shift;
    if (!in_range(b, false)) return false;
    for (ptrdiff_t i = 0; i < b->n; i++) b->y[i] = shift + weighted[i] / s[i];
    return true;
}

INLINE bool soft_slopes(const sums_call *b)
{
    const st_real *s = b->s[0], *weighted = b->s[1], *dy = b->dy;
    st_real *restrict p = b->q[0], *restrict q = b->q[1];
    if (!in_range(b, false)) return false;
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real share = dy[i] / s[i];
        p[i] = -share * (weighted[i] / s[i]), q[i] = share;
    }
    return true;
}

INLINE void soft_back(const sums_call *b)
{
    const st_real *f = b->f[0], *x = b->x, *p = b->q[0], *q = b->q[1], shift = (st_real)b->shift;
    st_real *restrict dx = b->dx;
    for (ptrdiff_t i = 0; i < b->n; i++) dx[i] = f[i] * (p[i] + (1 + (x[i] - shift)) * q[i]);
}

/* ---- log-sum-exp: f = exp(r (x - shift)) --------------------------------------------------------------- */

INLINE st_real sharpness(const sums_call *b)
{
    return (st_real)((const st_logsumexp_pool_options *)b->at->options)->r;
}

INLINE void logsumexp_terms(sums_call *b)
{
    const st_real shift = greatest(b->n, b->x), r = sharpness(b), *x = b->x;
    st_real *restrict power = b->f[0];
    b->shift = (double)shift;
    for (ptrdiff_t i = 0; i < b->n; i++) power[i] = raised_exp(r * (x[i] - shift));
}

INLINE bool logsumexp_values(const sums_call *b)
{
    const st_real *s = b->s[0], r = sharpness(b), shift = (st_real)b->shift;
    if (!in_range(b, false)) return false;
    for (ptrdiff_t i = 0; i < b->n; i++) b->y[i] = shift + fast_log(s[i] / b->inside[i], RAISED) / r;
    return true;
}

INLINE bool logsumexp_slopes(const sums_call *b)
{
    const st_real *s = b->s[0], *dy = b->dy;
    st_real *restrict q = b->q[0];
    if (!in_range(b, false)) return false;
    for (ptrdiff_t i = 0; i < b->n; i++) q[i] = dy[i] / s[i];
    return true;
}

INLINE void logsumexp_back(const sums_call *b)
{
    const st_real *f = b->f[0], *q = b->q[0];
    st_real *restrict dx = b->dx;
    for (ptrdiff_t i = 0; i < b->n; i++) dx[i] = f[i] * q[i];
}

/* ---- powers: f = (a / most)^p, log(a / most), (a / most)^(p - 1), with a >= 0, most the greatest ------- */

/* a of an element: |x|, or max(x, epsilon). */
INLINE st_real base(st_real x, bool sizes, st_real epsilon)
{
    return sizes ? fabs(x) : x < epsilon ? epsilon : x;
}

INLINE void power_terms(sums_call *b, bool sizes, st_real epsilon, st_real p)
{
    const st_real *x = b->x;
    st_real *restrict power = b->f[0], *restrict logs = b->f[1], *restrict less = b->f[2];
    for (ptrdiff_t i = 0; i < b->n; i++) logs[i] = base(x[i], sizes, epsilon);
    const st_real most = greatest(b->n, logs), scale = 1 / most;
    b->shift = (double)most;
    if (!(scale <= ST_REAL_MAX)) { /* all are 0, or out of range */
        for (ptrdiff_t i = 0; i < b->n; i++) power[i] = logs[i] > 0 ? SOME : 0, logs[i] = less[i] = 0;
        return;
    }
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real a = logs[i], ratio = a * scale, log = fast_log(ratio, 0), f = raised_exp((p - 1) * log);
        less[i] = a > 0 ? f : 0;
        power[i] = a > 0 ? f * ratio + SOME : 0; /* only the power of 0 is 0 */
        logs[i] = a > 0 ? log : 0;
    }
}

/* The logarithm of the mean of a window's powers, of 1 for 0. */
INLINE st_real log_of_mean(st_real s, st_real inside)
{
    return fast_log(s > 0 ? s / inside : 1, RAISED);
}

INLINE bool power_values(const sums_call *b, st_real p)
{
    const st_real *s = b->s[0], most = (st_real)b->shift;
    if (!in_range(b, true)) return false;
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real y = most * fast_exp(log_of_mean(s[i], b->inside[i]) / p);
        b->y[i] = s[i] > 0 ? y : 0;
    }
    return true;
}

/* Writes q = dy (y / most) / s, and adds dy y log(mean) to *sum. */
INLINE bool power_slopes(const sums_call *b, double *sum)
{
    const st_real *s = b->s[0], *dy = b->dy, *y = b->y, scale = b->shift > 0 ? (st_real)(1 / b->shift) : 0;
    st_real *restrict q = b->q[0];
    double sums[POOL_LANES] = { 0 };
    if (!in_range(b, true)) return false;
    for (ptrdiff_t i = 0; i < b->n; i += POOL_LANES) EACH_WINDOW(k)
        {
            const st_real slope = dy[i + k] * (y[i + k] * scale);
            const bool is = ((int)(b->inside[i + k] > 0) & (int)(s[i + k] > 0)) != 0;
            q[i + k] = is ? slope / s[i + k] : 0;
            sums[k] += is ? (double)(slope * log_of_mean(s[i + k], b->inside[i + k])) : 0;
        }
    for (int k = 0; k < POOL_LANES; k++) *sum += sums[k] * b->shift;
    return true;
}

/* dx = q (a / most)^(p - 1), with the sign of x, or 0 up to epsilon; returns the sum of
 * most q f log(a / most). */
INLINE double power_back(const sums_call *b, bool sizes, st_real epsilon)
{
    const st_real *f = b->f[0], *logs = b->f[1], *less = b->f[2], *q = b->q[0], *x = b->x;
    st_real *restrict dx = b->dx;
    double sums[POOL_LANES] = { 0 };
    ptrdiff_t i = 0;
    for (ptrdiff_t k = 0; k < b->n; k++) {
        const st_real share = less[k] * q[k];
        dx[k] = sizes ? copysign((st_real)1, x[k]) * share : x[k] > epsilon ? share : 0;
    }
    for (; i + POOL_LANES <= b->n; i += POOL_LANES)
        EACH_WINDOW(k) sums[k] += (double)(f[i + k] * q[i + k] * logs[i + k]);
    for (; i < b->n; i++) sums[0] += (double)(f[i] * q[i] * logs[i]);
    for (int k = 1; k < POOL_LANES; k++) sums[0] += sums[k];
    return sums[0] * b->shift;
}

/* ---- generalised means --------------------------------------------------------------------------------- */

INLINE st_real gem_epsilon(const sums_call *b)
{
    return (st_real)((const st_gem_pool_options *)b->at->options)->epsilon;
}

INLINE void gem_terms(sums_call *b)
{
    power_terms(b, false, gem_epsilon(b), b->at->param[0][0]);
}

/* Near p = 0, dy/dp is a difference of numbers that grow as 1 / p². */
INLINE bool gem_values(const sums_call *b)
{
    const st_real p = b->at->param[0][0];
    return p > (st_real)0.5 && power_values(b, p);
}

INLINE bool gem_slopes(const sums_call *b)
{
    const st_real p = b->at->param[0][0];
    double sum = 0;
    if (!(p > (st_real)0.5) || !power_slopes(b, &sum)) return false;
    b->at->dparam[0][0] -= sum / ((double)p * (double)p);
    return true;
}

INLINE void gem_back(const sums_call *b)
{
    b->at->dparam[0][0] += power_back(b, false, gem_epsilon(b)) / (double)b->at->param[0][0];
}

/* ---- learned norms ------------------------------------------------------------------------------------- */

INLINE double order(const sums_call *b)
{
    const double rho = (double)b->at->param[0][0];
    return 1 + (rho > 0 ? rho + log1p(exp(-rho)) : log1p(exp(rho)));
}

/* dp/drho */
INLINE double order_slope(const sums_call *b)
{
    return 1 / (1 + exp(-(double)b->at->param[0][0]));
}

INLINE void learned_norm_terms(sums_call *b)
{
    power_terms(b, true, 0, (st_real)order(b));
}

INLINE bool learned_norm_values(const sums_call *b)
{
    return power_values(b, (st_real)order(b));
}

INLINE bool learned_norm_slopes(const sums_call *b)
{
    const double p = order(b);
    double sum = 0;
    if (!power_slopes(b, &sum)) return false;
    b->at->dparam[0][0] -= order_slope(b) * sum / (p * p);
    return true;
}

INLINE void learned_norm_back(const sums_call *b)
{
    b->at->dparam[0][0] += order_slope(b) * power_back(b, true, 0) / order(b);
}

/* ---- local importance: f = exp(g), exp(g) x, whose g are a function of all channels -------------------- */

INLINE void local_importance_terms(sums_call *b)
{
    const st_real shift = greatest(b->n, b->g), *x = b->x, *g = b->g;
    st_real *restrict power = b->f[0], *restrict weighted = b->f[1];
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real e = raised_exp(g[i] - shift);
        power[i] = e, weighted[i] = e * x[i];
    }
}

INLINE bool local_importance_values(const sums_call *b)
{
    const st_real *s = b->s[0], *weighted = b->s[1];
    if (!in_range(b, false)) return false;
    for (ptrdiff_t i = 0; i < b->n; i++) b->y[i] = weighted[i] / s[i];
    return true;
}

INLINE bool local_importance_slopes(const sums_call *b)
{
    return soft_slopes(b);
}

INLINE void local_importance_back(const sums_call *b)
{
    const st_real *f = b->f[0], *x = b->x, *p = b->q[0], *q = b->q[1];
    st_real *restrict dx = b->dx, *restrict dg = b->dg;
    for (ptrdiff_t i = 0; i < b->n; i++) {
        dx[i] = f[i] * q[i];
        dg[i] = f[i] * (p[i] + x[i] * q[i]);
    }
}

static void importances(const st_call *c, st_tensor x, st_tensor g)
{
    st_gemm(g, 1, c->param[0], x, 0);
}

static void importances_back(const st_call *c, bool gradient, st_tensor x, st_tensor dg, st_tensor dx)
{
    if (!st_is_null(dx)) st_gemm(dx, 1, st_transpose(c->param[0], 0, 1), dg, 1);
    if (gradient) st_gemm(st_grad(c, 0), 1, dg, st_transpose(x, 0, 1), 1);
}

/* ---- the algorithms ------------------------------------------------------------------------------------ */

#define STAMP(M, NAME)                                                                                       \
    M##_TARGET static void M##_##NAME##_terms(sums_call *b)                                                  \
    {                                                                                                        \
        NAME##_terms(b);                                                                                     \
    }                                                                                                        \
    M##_TARGET static bool M##_##NAME##_values(const sums_call *b)                                           \
    {                                                                                                        \
        return NAME##_values(b);                                                                             \
    }                                                                                                        \
    M##_TARGET static bool M##_##NAME##_slopes(const sums_call *b)                                           \
    {                                                                                                        \
        return NAME##_slopes(b);                                                                             \
    }                                                                                                        \
    M##_TARGET static void M##_##NAME##_back(const sums_call *b)                                             \
    {                                                                                                        \
        NAME##_back(b);                                                                                      \
    }
#define FORM_OF(M, NAME) { M##_##NAME##_terms, M##_##NAME##_values, M##_##NAME##_slopes, M##_##NAME##_back },

#define ALGORITHM(NAME, TERMS, SUMS, ...)                                                                    \
    EACH_MACHINE_OF(STAMP, NAME)                                                                             \
    static const sums_functions NAME##_functions[] = { EACH_MACHINE_OF(FORM_OF, NAME) };                     \
    static int NAME##_plan(st_layer *l, const void *given)                                                   \
    {                                                                                                        \
        static const sums_form form = { TERMS, SUMS, NAME##_functions, __VA_ARGS__ };                        \
        return windows_plan_for(l, given, NULL, &form);                                                      \
    }                                                                                                        \
    const layer_algorithm NAME##_pool_sums = { .type = &layer_type_##NAME##_pool,                            \
                                               .suits = windows_suit,                                        \
                                               .plan = NAME##_plan,                                          \
                                               .fill = windows_fill,                                         \
                                               .hooks = WINDOWS_HOOKS };
ALGORITHM(soft, 2, 2, .reads_y = false)
ALGORITHM(logsumexp, 1, 1, .reads_y = false)
ALGORITHM(gem, 3, 1, .reads_y = true)
ALGORITHM(learned_norm, 3, 1, .reads_y = true)
ALGORITHM(local_importance, 2, 2, .logits = importances, .end = importances_back)
