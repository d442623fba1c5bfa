/* pooling_sums.c: poolings of layers/pooling/ that are functions of sums over windows: SoftPool, log-sum-exp
 * and local importance pooling, generalised means and learned norms. Their definitions are in files of
 * these names.
 *
 * Terms are 2^RAISED exp(r (x - shift)), with shift the greatest x of the channel, and powers likewise: the
 * sum of a window that lies far below the rest of its channel would lose digits, and leaves the channel to
 * the definition. Logarithms and divisions are the forward pass's: it keeps what the slopes are made of. */
#include "layers/fast/windows.h"
#include "layers/fast/functions.h"
#include "layers/fast/powers_lanes.h"
#include "layers/pooling/pooling.h"
#include "layers/pooling/family.h"
#include "tensor/counts.h"

#include <math.h>

/* Terms below exp(LEAST_EXPONENT), or 2^LEAST_POWER, are as great as that one, which is a normal number; in
 * sums from FEWEST on it is nothing. */
#define LEAST_LOGIT (st_real)0.0078125
#ifdef STRIDE_DOUBLE
enum { RAISED = 440 };
#define LOWERED 0x1p-440
#define FEWEST 1e-175
#define LEAST_TERM 2.5e-175
#define LEAST_POWER (-1442)
#else
enum { RAISED = 58 };
#define LOWERED 0x1p-58f
#define LEAST_POWER ((st_real)-180)
#define FEWEST ((st_real)1e-22)
#define LEAST_TERM ((st_real)1.4e-20)
#endif

/* ---- powers in st_real --------------------------------------------------------------------------------- */

/* 2^RAISED exp(x) of x <= 0, or of x so little above it that the result is in range. */
INLINE st_real raised_exp(st_real x)
{
    const exponent e = exponent_of(x);
    return (1 + e.less_1) * power_of_2(e.far - FAR + RAISED);
}

/* The binary logarithm of the mean of a window's f. */
INLINE st_real log_of_mean(st_real s, st_real over)
{
    return fast_log2(s * over, RAISED);
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

/* Returns the base of a power: |x|, or max(x, epsilon). */
INLINE st_real base(st_real x, bool sizes, st_real epsilon)
{
    return sizes ? fabs(x) : x < epsilon ? epsilon : x;
}

/* The greatest of a channel. */
INLINE st_real greatest(const sums_call *b, bool sizes, st_real epsilon)
{
    return sizes && -b->least > b->most ? -b->least : base(b->most, sizes, epsilon);
}

/* ---- SoftPool: f = exp(x - shift), f (x - shift) ------------------------------------------------------- */

INLINE void soft_terms(const sums_call *b)
{
    const st_real shift = b->shift, *x = b->x;
    st_real *restrict power = b->f[0], *restrict weighted = b->f[1];
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real z = x[i] - shift, e = raised_exp(z);
        power[i] = e, weighted[i] = e * z;
    }
}

/* Leaves 1 / s and minus the weighted mean; y is `shift` more than that mean. */
INLINE bool weighted_values(const sums_call *b, st_real shift)
{
    const bool usable = in_range(b, FEWEST, false);
    const st_real *inside = b->inside;
    st_real *restrict s = b->s[0], *restrict weighted = b->s[1], *restrict y = b->y;
    int outside = 0;
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real over = inside[i] > 0 ? 1 / s[i] : 0, mean = inside[i] > 0 ? weighted[i] / s[i] : 0;
        outside |= (int)!(fabs(mean) <= ST_REAL_MAX);
        y[i] = shift + mean, s[i] = over, weighted[i] = -mean;
    }
    return usable && !outside;
}

/* q = -dy mean / s, dy / s */
INLINE void weighted_slopes(const sums_call *b)
{
    const st_real *over = b->s[0], *less = b->s[1], *dy = b->dy;
    st_real *restrict p = b->q[0], *restrict q = b->q[1];
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real share = dy[i] * over[i];
        p[i] = share * less[i], q[i] = share;
    }
}

INLINE bool soft_values(const sums_call *b)
{
    return weighted_values(b, b->shift);
}

INLINE void soft_slopes(const sums_call *b)
{
    weighted_slopes(b);
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

INLINE void logsumexp_terms(const sums_call *b)
{
    const st_real shift = b->shift, r = sharpness(b), *x = b->x;
    st_real *restrict power = b->f[0];
    for (ptrdiff_t i = 0; i < b->n; i++) power[i] = raised_exp(r * (x[i] - shift));
}

/* Leaves 1 / s. Sums are rounded relative to 1, and their logarithms are divided by r: if r x is small, that
 * leaves few digits. */
INLINE bool logsumexp_values(const sums_call *b)
{
    const st_real r = sharpness(b), size = greatest(b, true, 0);
    const bool usable = (size > 0 ? r * size : r) >= LEAST_LOGIT && in_range(b, FEWEST, false);
    const st_real *inside = b->inside, *each = b->over, over = LN_2 / r, shift = b->shift;
    st_real *restrict s = b->s[0], *restrict y = b->y;
    for (ptrdiff_t i = 0; i < b->n; i++) {
        y[i] = shift + log_of_mean(s[i], each[i]) * over;
        s[i] = inside[i] > 0 ? 1 / s[i] : 0;
    }
    return usable;
}

INLINE void logsumexp_slopes(const sums_call *b)
{
    const st_real *over = b->s[0], *dy = b->dy;
    st_real *restrict q = b->q[0];
    for (ptrdiff_t i = 0; i < b->n; i++) q[i] = dy[i] * over[i];
}

INLINE void logsumexp_back(const sums_call *b)
{
    const st_real *x = b->x, *q = b->q[0], shift = b->shift, r = sharpness(b);
    st_real *restrict dx = b->dx;
    for (ptrdiff_t i = 0; i < b->n; i++) dx[i] = raised_exp(r * (x[i] - shift)) * q[i];
}

/* ---- powers: f = (a / shift)^p, f log2(a / shift), with a >= 0, shift the greatest --------------------- */

/* 1 / the greatest a, or 0 where that is out of range. */
INLINE st_real scale_of(st_real most)
{
    const st_real scale = 1 / most;
    return scale <= ST_REAL_MAX ? scale : 0;
}

/* Keeps da/dx (a / shift)^(p - 1). The power of 0 is 0. Logarithms of other numbers below LEAST_NORMAL are
 * not right: powers p - 1 of those are nothing from p = 2 on; otherwise a NaN leaves the channel to the
 * definition. */
#define POWERS(M)                                                                                            \
    /* 2^(v + RAISED), in the range of raised_exp. */                                                        \
    M##_TARGET INLINE M##_vector M##_raised_exp2(M##_vector v)                                               \
    {                                                                                                        \
        return M##_exp2(BY(M, max, v, (M##_vector){ 0 } + LEAST_POWER), RAISED);                             \
    }                                                                                                        \
    M##_TARGET INLINE void M##_power_terms(const sums_call *b, bool sizes, st_real epsilon, st_real p)       \
    {                                                                                                        \
        const st_real scale = scale_of(greatest(b, sizes, epsilon)), less_1 = p - 1;                         \
        const M##_vector zero = { 0 }, lost = zero + (p < 2 ? (st_real)NAN : 0);                             \
        for (ptrdiff_t i = 0; i < b->n; i += ISA_LANES(M)) {                                                 \
            const M##_vector x = AT(M, b->x + i), a = M##_base(x, sizes, epsilon), ratio = a * scale;        \
            const M##_test some = EXCEEDS(M, ratio, zero),                                                   \
                           other = EXCEEDS(M, a, zero) & EXCEEDS(M, zero + LEAST_NORMAL, ratio);             \
            const M##_vector log = M##_log2(some, ratio),                                                    \
                             slope = CHOOSE(M, some, M##_raised_exp2(less_1 * log), zero),                   \
                             f = slope * ratio + CHOOSE(M, other, lost, zero);                               \
            AT(M, b->f[0] + i) = f, AT(M, b->f[1] + i) = f * log;                                            \
            AT(M, b->kept + i) = M##_base_slope(x, sizes, epsilon, slope);                                   \
        }                                                                                                    \
    }                                                                                                        \
    /* Leaves (y / shift) / s and dy/dp. */                                                                  \
    M##_TARGET INLINE bool M##_power_values(const sums_call *b, bool sizes, st_real epsilon, st_real p)      \
    {                                                                                                        \
        const st_real over = 1 / p, most = greatest(b, sizes, epsilon);                                      \
        const bool usable =                                                                                  \
            (most == 0 || scale_of(most) > 0) && in_range(b, (st_real)b->taps * LEAST_TERM, true);           \
        const M##_vector zero = { 0 };                                                                       \
        for (ptrdiff_t i = 0; i < b->n; i += ISA_LANES(M)) {                                                 \
            const M##_vector sum = AT(M, b->s[0] + i);                                                       \
            const M##_test some = EXCEEDS(M, AT(M, b->inside + i), zero) & EXCEEDS(M, sum, zero);            \
            const M##_vector share = CHOOSE(M, some, 1 / sum, zero),                                         \
                             mean = sum * AT(M, b->over + i) * LOWERED, log = M##_log2(some, mean) * over,   \
                             ratio = CHOOSE(M, some, M##_raised_exp2(log), zero) * LOWERED,                  \
                             slope = (AT(M, b->s[1] + i) * share - log) * over;                              \
            AT(M, b->y + i) = ratio * most, AT(M, b->s[0] + i) = ratio * share;                              \
            AT(M, b->s[1] + i) = CHOOSE(M, some, ratio * most * LN_2 * slope, zero);                         \
        }                                                                                                    \
        return usable;                                                                                       \
    }
EACH_ISA(POWERS)

/* q = dy (y / shift) / s; returns dL/dp. */
INLINE double power_slopes(const sums_call *b)
{
    const st_real *share = b->s[0], *slope = b->s[1], *dy = b->dy;
    st_real *restrict q = b->q[0];
    double sums[POOL_LANES] = { 0 };
    for (ptrdiff_t i = 0; i < b->n; i += POOL_LANES) {
        EACH_WINDOW(k) q[i + k] = dy[i + k] * share[i + k];
        EACH_WINDOW(k) sums[k] += (double)(dy[i + k] * slope[i + k]);
    }
    for (int k = 1; k < POOL_LANES; k++) sums[0] += sums[k];
    return sums[0];
}

INLINE void power_back(const sums_call *b)
{
    const st_real *slope = b->kept, *q = b->q[0];
    st_real *restrict dx = b->dx;
    for (ptrdiff_t i = 0; i < b->n; i++) dx[i] = slope[i] * q[i];
}

/* ---- generalised means --------------------------------------------------------------------------------- */

INLINE st_real gem_epsilon(const sums_call *b)
{
    return (st_real)((const st_gem_pool_options *)b->at->options)->epsilon;
}

/* Near p = 0, dy/dp is a difference of numbers that grow as 1 / p². */
#define GEM_OF(M)                                                                                            \
    M##_TARGET static void M##_gem_terms(const sums_call *b)                                                 \
    {                                                                                                        \
        M##_power_terms(b, false, gem_epsilon(b), b->at->param[0][0]);                                       \
    }                                                                                                        \
    M##_TARGET static bool M##_gem_values(const sums_call *b)                                                \
    {                                                                                                        \
        const st_real p = b->at->param[0][0];                                                                \
        return M##_power_values(b, false, gem_epsilon(b), p) && p > (st_real)0.5;                            \
    }
EACH_ISA(GEM_OF)

INLINE void gem_slopes(const sums_call *b)
{
    b->at->dparam[0][0] += power_slopes(b);
}

INLINE void gem_back(const sums_call *b)
{
    power_back(b);
}

/* ---- learned norms ------------------------------------------------------------------------------------- */

static double learned_norm_order(const st_window *at)
{
    const double rho = (double)at->param[0][0];
    return 1 + (rho > 0 ? rho + log1p(exp(-rho)) : log1p(exp(rho)));
}

#define LEARNED_NORM_OF(M)                                                                                   \
    M##_TARGET static void M##_learned_norm_terms(const sums_call *b)                                        \
    {                                                                                                        \
        M##_power_terms(b, true, 0, b->order);                                                               \
    }                                                                                                        \
    M##_TARGET static bool M##_learned_norm_values(const sums_call *b)                                       \
    {                                                                                                        \
        return M##_power_values(b, true, 0, b->order);                                                       \
    }
EACH_ISA(LEARNED_NORM_OF)

/* dp/drho is the logistic function. */
INLINE void learned_norm_slopes(const sums_call *b)
{
    b->at->dparam[0][0] += power_slopes(b) / (1 + exp(-(double)b->at->param[0][0]));
}

INLINE void learned_norm_back(const sums_call *b)
{
    power_back(b);
}

/* ---- local importance: f = exp(logit), exp(logit) x; logits are a function of all channels ------------- */

INLINE void local_importance_terms(const sums_call *b)
{
    const st_real shift = b->shift, *x = b->x, *logits = b->logits;
    st_real *restrict power = b->f[0], *restrict weighted = b->f[1], *restrict kept = b->kept;
    for (ptrdiff_t i = 0; i < b->n; i++) {
        const st_real e = raised_exp(logits[i] - shift);
        power[i] = kept[i] = e, weighted[i] = e * x[i];
    }
}

/* A product that is out of range leaves no finite mean. */
INLINE bool local_importance_values(const sums_call *b)
{
    return weighted_values(b, 0);
}

INLINE void local_importance_slopes(const sums_call *b)
{
    weighted_slopes(b);
}

INLINE void local_importance_back(const sums_call *b)
{
    const st_real *x = b->x, *power = b->kept, *p = b->q[0], *q = b->q[1];
    st_real *restrict dx = b->dx, *restrict dlogits = b->dlogits;
    for (ptrdiff_t i = 0; i < b->n; i++) {
        dx[i] = power[i] * q[i];
        dlogits[i] = power[i] * (p[i] + x[i] * q[i]);
    }
}

static void logits_of(const st_call *c, st_tensor x, st_tensor logits)
{
    st_gemm(logits, 1, c->param[0], x, 0);
}

static void logits_back(const st_call *c, bool gradient, st_tensor x, st_tensor dlogits, st_tensor dx)
{
    if (!st_is_null(dx)) st_gemm(dx, 1, st_transpose(c->param[0], 0, 1), dlogits, 1);
    if (gradient) st_gemm(st_grad(c, 0), 1, dlogits, st_transpose(x, 0, 1), 1);
}

const logits_form importances = { .logits = logits_of, .end = logits_back };

/* ---- the algorithms ------------------------------------------------------------------------------------ */

#define STAMP_FORWARD(M, NAME)                                                                               \
    M##_TARGET static void M##_##NAME##_terms(const sums_call *b)                                            \
    {                                                                                                        \
        NAME##_terms(b);                                                                                     \
    }                                                                                                        \
    M##_TARGET static bool M##_##NAME##_values(const sums_call *b)                                           \
    {                                                                                                        \
        return NAME##_values(b);                                                                             \
    }
#define STAMP_BACK(M, NAME)                                                                                  \
    M##_TARGET static void M##_##NAME##_slopes(const sums_call *b)                                           \
    {                                                                                                        \
        NAME##_slopes(b);                                                                                    \
    }                                                                                                        \
    M##_TARGET static void M##_##NAME##_back(const sums_call *b)                                             \
    {                                                                                                        \
        NAME##_back(b);                                                                                      \
    }
#define FORM_OF(M, NAME) { M##_##NAME##_terms, M##_##NAME##_values, M##_##NAME##_slopes, M##_##NAME##_back },

#define STAMP(M, NAME) STAMP_FORWARD(M, NAME) STAMP_BACK(M, NAME)

#define ALGORITHM(NAME, SUMS, STAMPS, ...)                                                                   \
    EACH_ISA_OF(STAMPS, NAME)                                                                                \
    static const sums_functions NAME##_functions[] = { EACH_ISA_OF(FORM_OF, NAME) };                         \
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
ALGORITHM(soft, 2, STAMP, .slopes = 2)
ALGORITHM(logsumexp, 1, STAMP, .slopes = 1)
ALGORITHM(gem, 2, STAMP_BACK, .slopes = 1, .keeps_elements = true)
ALGORITHM(learned_norm, 2, STAMP_BACK, .slopes = 1, .order = learned_norm_order, .keeps_elements = true)
ALGORITHM(local_importance, 2, STAMP, .slopes = 2, .keeps_elements = true, .logits = &importances)
