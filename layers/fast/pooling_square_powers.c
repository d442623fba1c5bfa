/* pooling_square_powers.c: poolings of layers/pooling/ by powers whose windows are squares (squares.h):
 * SoftPool, log-sum-exp, generalised means, learned norms and local importance. Other windows are sums
 * (pooling_sums.c).
 *
 * This file is compiled with -ffp-contract=fast: multiply-adds are fused where the processor can. */
#include "layers/fast/powers_lanes.h"
#include "layers/fast/squares.h"
#include "layers/pooling/family.h"

#include <math.h>

enum { POWERS_AT_ONCE = 4 };

#ifdef STRIDE_DOUBLE
#define EXPONENT_BITS 0x7ff0000000000000
#else
#define EXPONENT_BITS 0x7f800000
#endif

/* The greatest power that is taken of numbers below 2: logarithms of up to 1 cost it digits. */
#define MOST_SCALED 4

/* Powers, of a, |t| or max(t, epsilon): y = scale (mean of ratio^p)^(1/p), ratio = a / scale, which is in
 * range. Kept: dy/da times the derivative of a, and dy/dp. w: p, p - 1, 1 / p, dp by the parameter, epsilon.
 * A NaN leaves the channel to the definition. As roots wait for powers, and powers for logarithms, so that
 * the processor would wait, too, each step is one of some vectors of windows. */
#define POWERS(M)                                                                                            \
    BY_EACH_LANE(M, exp2_rest, (M##_vector v), exp2_rest(x))                                                 \
    BY_EACH_LANE(M, exp2_power, (M##_vector v), exp2_power(x, 0))                                            \
    BY_EACH_LANE(M, log2_of_1_and, (M##_vector v), fast_log2_of_1_and(x))                                    \
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
    }

EACH_ISA(POWERS)

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

#define POWERS_OF_SIZES(M, NAME, b, w) return M##_power_squares(b, w, true);
#define POWERS_FROM_EPSILON(M, NAME, b, w) return M##_power_squares(b, w, false);

#define EACH_SQUARE_POOLING(DO)                                                                              \
    DO(soft, no_weights, 0, false, DENSELY, .runs = SQUARE)                                                  \
    DO(logsumexp, logsumexp_weights, 0, false, DENSELY, .runs = SQUARE)                                      \
    DO(gem, gem_weights, 1, false, POWERS_FROM_EPSILON, .runs = SQUARE + 1, .order = gem_order)              \
    DO(learned_norm, power_weights, 1, false, POWERS_OF_SIZES, .runs = SQUARE + 1, .order = norm_order)
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
