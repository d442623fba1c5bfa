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

/* Terms below exp(LEAST_EXPONENT), or 2^LEAST_POWER, are as great as that one, which is a normal number; in
 * sums from FEWEST on it is nothing. */
#define LOG2_E (st_real)1.44269504088896340736
#define LN_2 (st_real)0.693147180559945309417
#ifdef STRIDE_DOUBLE
enum { RAISED = 440 };
#define LOWERED 0x1p-440
#define LEAST_NORMAL 0x1p-1022
#define FEWEST 1e-175
#define LEAST_TERM 2.5e-175
#else
enum { RAISED = 58 };
#define LOWERED 0x1p-58f
#define LEAST_NORMAL 0x1p-126f
#define LEAST_POWER ((st_real)-180)
#define FEWEST ((st_real)1e-22)
#define LEAST_TERM ((st_real)1.4e-20)
#endif

/* ---- log and powers in st_real ------------------------------------------------------------------------- */

/* log2(2^-lower x) of a normal x > 0, to two units in the last place: n + log2(1 + s), s between
 * sqrt(1/2) - 1 and sqrt(2) - 1; log2(1 + s) = s p(s) with the smallest greatest relative error, 2^-27
 * (Remez's exchange). */
INLINE st_real fast_log2(st_real x, int lower)
{
#ifdef STRIDE_DOUBLE
    return wide_log(lower ? x * 0x1p-440 : x) * LOG2_E;
#else
    uint32_t bits;
    float m;
    memcpy(&bits, &x, sizeof bits);
    const int32_t n = (int32_t)(bits - 0x3f3504f3) >> 23; /* m is from sqrt(1/2) on */
    bits -= (uint32_t)n << 23;
    memcpy(&m, &bits, sizeof m);
    const float s = m - 1;
    float p = -0.109949225789f;
    p = p * s + 0.186174605084f, p = p * s - 0.191062703923f, p = p * s + 0.204600672281f;
    p = p * s - 0.239617416735f, p = p * s + 0.288567406207f, p = p * s - 0.360696648795f;
    p = p * s + 0.480898241083f, p = p * s - 0.721347351507f, p = p * s + 1.44269504083f;
    return p * s + (float)(n - lower);
#endif
}

/* 2^(x + RAISED), in the range of raised_exp; 2^r = 1 + r p(r), |r| <= 1/2, likewise to 2^-26. */
INLINE st_real raised_exp2(st_real x)
{
#ifdef STRIDE_DOUBLE
    const exponent e = exponent_of(x * LN_2);
    return (1 + e.less_1) * power_of_2(e.biased - BIAS + RAISED);
#else
    const float in = x < LEAST_POWER ? LEAST_POWER : x, round = ROUND, shifted = in + round,
                r = in - (shifted - round);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    float p = 0.000154035175304f;
    p = p * r + 0.00133907354285f, p = p * r + 0.00961823747976f, p = p * r + 0.0555035743383f;
    p = p * r + 0.24022649795f, p = p * r + 0.693147187927f;
    return (1 + r * p) * power_of_2(bits + BIAS + RAISED);
#endif
}

/* 2^RAISED exp(x) of x <= 0, or of x so little above it that the result is in range. */
INLINE st_real raised_exp(st_real x)
{
    const exponent e = exponent_of(x);
    return (1 + e.less_1) * power_of_2(e.biased - BIAS + RAISED);
}

/* The binary logarithm of the mean of a window's f. */
INLINE st_real log_of_mean(st_real s, st_real inside)
{
    return fast_log2(s / inside, RAISED);
}

/* Tests if the sums of all windows with elements are in range, or, with `zeros`, exactly 0. */
INLINE bool in_range(const sums_call *b, st_real fewest, bool zeros)
{
    const st_real *s = b->s[0], *inside = b->inside;
    int outside = 0;
    for (ptrdiff_t i = 0; i < b->n; i++)
        outside |= (int)(inside[i] > 0) & (int)!(s[i] >= fewest) & (int)!(zeros && s[i] == 0);
    return !outside;
}

/* ---- SoftPool: f = exp(x - shift), f (x - shift) ------------------------------------------------------- */

INLINE void soft_terms(sums_call *b)
{
    const st_real shift = b->shift = b->most, *x = b->x;
    st_real *restrict power = b->f[0], *restrict weighted = b->f[1];
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real z = x[i] - shift, e = raised_exp(z);
        power[i] = e, weighted[i] = e * z;
    }
}

INLINE bool soft_values(const sums_call *b)
{
    const st_real *s = b->s[0], *weighted = b->s[1], shift = b->shift;
    st_real *restrict y = b->y;
    for (ptrdiff_t i = 0; i < b->n; i++) y[i] = shift + weighted[i] / s[i];
    return in_range(b, FEWEST, false);
}

/* q = -dy (y - shift) / s, dy / s */
INLINE void weighted_slopes(const sums_call *b, st_real shift)
{
    const st_real *s = b->s[0], *y = b->y, *dy = b->dy;
    st_real *restrict p = b->q[0], *restrict q = b->q[1];
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real share = s[i] > 0 ? dy[i] / s[i] : 0;
        p[i] = share * (shift - y[i]), q[i] = share;
    }
}

INLINE void soft_slopes(const sums_call *b)
{
    weighted_slopes(b, b->shift);
}

INLINE void soft_back(const sums_call *b)
{
    const st_real *x = b->x, *p = b->q[0], *q = b->q[1], shift = b->shift;
    st_real *restrict dx = b->dx;
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real z = x[i] - shift;
        dx[i] = raised_exp(z) * (p[i] + (1 + z) * q[i]);
    }
}

/* ---- log-sum-exp: f = exp(r (x - shift)) --------------------------------------------------------------- */

INLINE st_real sharpness(const sums_call *b)
{
    return (st_real)((const st_logsumexp_pool_options *)b->at->options)->r;
}

INLINE void logsumexp_terms(sums_call *b)
{
    const st_real shift = b->shift = b->most, r = sharpness(b), *x = b->x;
    st_real *restrict power = b->f[0];
    for (ptrdiff_t i = 0; i < b->n; i++) power[i] = raised_exp(r * (x[i] - shift));
}

INLINE bool logsumexp_values(const sums_call *b)
{
    const st_real *s = b->s[0], *inside = b->inside, r = sharpness(b), over = LN_2 / r, shift = b->shift;
    st_real *restrict y = b->y;
    for (ptrdiff_t i = 0; i < b->n; i++) y[i] = shift + log_of_mean(s[i], inside[i]) * over;
    return r > 0 && in_range(b, FEWEST, false);
}

INLINE void logsumexp_slopes(const sums_call *b)
{
    const st_real *s = b->s[0], *dy = b->dy;
    st_real *restrict q = b->q[0];
    for (ptrdiff_t i = 0; i < b->n; i++) q[i] = s[i] > 0 ? dy[i] / s[i] : 0;
}

INLINE void logsumexp_back(const sums_call *b)
{
    const st_real *x = b->x, *q = b->q[0], shift = b->shift, r = sharpness(b);
    st_real *restrict dx = b->dx;
    for (ptrdiff_t i = 0; i < b->n; i++) dx[i] = raised_exp(r * (x[i] - shift)) * q[i];
}

/* ---- powers: f = (a / shift)^p, with a >= 0, shift the greatest ---------------------------------------- */

/* a of an element: |x|, or max(x, epsilon). */
INLINE st_real base(st_real x, bool sizes, st_real epsilon)
{
    return sizes ? fabs(x) : x < epsilon ? epsilon : x;
}

/* 1 / shift, or 0 where that is out of range. */
INLINE st_real scale_of(const sums_call *b)
{
    const st_real scale = 1 / b->shift;
    return scale <= ST_REAL_MAX ? scale : 0;
}

INLINE void power_terms(sums_call *b, bool sizes, st_real epsilon, st_real p)
{
    const st_real *x = b->x;
    st_real *restrict power = b->f[0];
    b->shift = sizes && -b->least > b->most ? -b->least : base(b->most, sizes, epsilon);
    const st_real scale = scale_of(b);
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real a = base(x[i], sizes, epsilon), f = raised_exp2(p * fast_log2(a * scale, 0));
        power[i] = a > 0 ? f : 0; /* only the power of 0 is 0 */
    }
}

/* Below LEAST_NORMAL, logarithms are not right: sums of such powers are out of range. */
INLINE bool power_values(const sums_call *b, st_real p)
{
    const st_real *s = b->s[0], *inside = b->inside, over = 1 / p, most = b->shift;
    st_real *restrict to = b->y;
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real y = raised_exp2(log_of_mean(s[i], inside[i]) * over) * LOWERED * most;
        to[i] = s[i] > 0 ? y : 0;
    }
    return (most == 0 || scale_of(b) > 0) && in_range(b, (st_real)b->taps * LEAST_TERM, true);
}

/* Writes q = dy (y / shift) / s, and adds dy y log(mean of f) to *sum. */
INLINE void power_slopes(const sums_call *b, double *sum)
{
    const st_real *s = b->s[0], *dy = b->dy, *y = b->y, *inside = b->inside, scale = scale_of(b);
    st_real *restrict q = b->q[0];
    double sums[POOL_LANES] = { 0 };
    for (ptrdiff_t i = 0; i < b->n; i += POOL_LANES) {
        lanes part;
        EACH_WINDOW(k)
        {
            const st_real slope = dy[i + k] * (y[i + k] * scale), in = inside[i + k] > 0 ? s[i + k] : 0,
                          log = log_of_mean(in, inside[i + k]);
            q[i + k] = in > 0 ? slope / in : 0;
            part[k] = in > 0 ? slope * log : 0;
        }
        EACH_WINDOW(k) sums[k] += (double)part[k];
    }
    for (int k = 1; k < POOL_LANES; k++) sums[0] += sums[k];
    *sum += sums[0] * (double)(b->shift * LN_2);
}

/* dx = q (a / shift)^(p - 1), with the sign of x, or 0 up to epsilon; returns the sum of
 * shift q f log(a / shift). */
INLINE double power_back(const sums_call *b, bool sizes, st_real epsilon, st_real p)
{
    const st_real scale = scale_of(b), less_1 = p - 1;
    double sums[POOL_LANES] = { 0 };
    for (ptrdiff_t i = 0; i < b->n; i += POOL_LANES) {
        const st_real *x = b->x + i, *q = b->q[0] + i;
        st_real *restrict dx = b->dx + i;
        lanes part;
        EACH_WINDOW(k)
        {
            const st_real a = base(x[k], sizes, epsilon), ratio = a * scale, log = fast_log2(ratio, 0);
            const st_real less = raised_exp2(less_1 * log), share = a > 0 ? less * q[k] : 0;
            dx[k] = sizes ? (x[k] < 0 ? -share : share) : x[k] > epsilon ? share : 0;
            part[k] = share * ratio * log;
        }
        EACH_WINDOW(k) sums[k] += (double)part[k];
    }
    for (int k = 1; k < POOL_LANES; k++) sums[0] += sums[k];
    return sums[0] * (double)(b->shift * LN_2);
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
    const st_real p = b->at->param[0][0], least = base(b->least, false, gem_epsilon(b)) * scale_of(b);
    return p > (st_real)0.5 && (p >= 1 || least >= LEAST_NORMAL) && power_values(b, p);
}

INLINE void gem_slopes(const sums_call *b)
{
    double sum = 0;
    power_slopes(b, &sum);
    const double p = (double)b->at->param[0][0];
    b->at->dparam[0][0] -= sum / (p * p);
}

INLINE void gem_back(const sums_call *b)
{
    const st_real p = b->at->param[0][0];
    b->at->dparam[0][0] += power_back(b, false, gem_epsilon(b), p) / (double)p;
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

INLINE void learned_norm_slopes(const sums_call *b)
{
    double sum = 0;
    power_slopes(b, &sum);
    b->at->dparam[0][0] -= order_slope(b) * sum / (order(b) * order(b));
}

INLINE void learned_norm_back(const sums_call *b)
{
    const double p = order(b);
    b->at->dparam[0][0] += order_slope(b) * power_back(b, true, 0, (st_real)p) / p;
}

/* ---- local importance: f = exp(g), exp(g) x, whose g are a function of all channels -------------------- */

INLINE void local_importance_terms(sums_call *b)
{
    const st_real shift = b->shift = b->most, *x = b->x, *g = b->g;
    st_real *restrict power = b->f[0], *restrict weighted = b->f[1];
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real e = raised_exp(g[i] - shift);
        power[i] = e, weighted[i] = e * x[i];
    }
}

INLINE bool local_importance_values(const sums_call *b)
{
    const st_real *s = b->s[0], *weighted = b->s[1];
    st_real *restrict y = b->y;
    for (ptrdiff_t i = 0; i < b->n; i++) y[i] = weighted[i] / s[i];
    return in_range(b, FEWEST, false);
}

INLINE void local_importance_slopes(const sums_call *b)
{
    weighted_slopes(b, 0);
}

INLINE void local_importance_back(const sums_call *b)
{
    const st_real *x = b->x, *g = b->g, *p = b->q[0], *q = b->q[1], shift = b->shift;
    st_real *restrict dx = b->dx, *restrict dg = b->dg;
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real e = raised_exp(g[i] - shift);
        dx[i] = e * q[i];
        dg[i] = e * (p[i] + x[i] * q[i]);
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
    M##_TARGET static void M##_##NAME##_slopes(const sums_call *b)                                           \
    {                                                                                                        \
        NAME##_slopes(b);                                                                                    \
    }                                                                                                        \
    M##_TARGET static void M##_##NAME##_back(const sums_call *b)                                             \
    {                                                                                                        \
        NAME##_back(b);                                                                                      \
    }
#define FORM_OF(M, NAME) { M##_##NAME##_terms, M##_##NAME##_values, M##_##NAME##_slopes, M##_##NAME##_back },

#define ALGORITHM(NAME, SUMS, ...)                                                                           \
    EACH_MACHINE_OF(STAMP, NAME)                                                                             \
    static const sums_functions NAME##_functions[] = { EACH_MACHINE_OF(FORM_OF, NAME) };                     \
    static int NAME##_plan(st_layer *l, const void *given)                                                   \
    {                                                                                                        \
        static const sums_form form = { SUMS, NAME##_functions, __VA_ARGS__ };                               \
        return windows_plan_for(l, given, NULL, &form);                                                      \
    }                                                                                                        \
    const layer_algorithm NAME##_pool_sums = { .type = &layer_type_##NAME##_pool,                            \
                                               .suits = windows_suit,                                        \
                                               .plan = NAME##_plan,                                          \
                                               .fill = windows_fill,                                         \
                                               .hooks = WINDOWS_HOOKS };
ALGORITHM(soft, 2, .reads_y = true)
ALGORITHM(logsumexp, 1, .reads_y = false)
ALGORITHM(gem, 1, .reads_y = true)
ALGORITHM(learned_norm, 1, .reads_y = true)
ALGORITHM(local_importance, 2, .reads_y = true, .logits = importances, .end = importances_back)
