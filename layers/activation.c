/* activation.c: one table of scalar functions and their derivatives.
 *
 * `value` is f(x, a) and `slope` is f'(x), which may use y = f(x); a is the function's option. A macro makes
 * a type of each, so that the compiler inlines the function into the loop. If the derivative depends on y
 * alone, the layer can run in place; if it depends on x alone, y may be overwritten. */
#include "layers/exponential.h"
#include "layers/lanes.h"
#include "layers/layer_impl.h"
#include "layers/layers.h"
#include "layers/types.h"

#include <math.h>
#include <tgmath.h>

/* ---- the functions ------------------------------------------------------------------------------ */

#define UNUSED(...) (void)sizeof((double[]){ __VA_ARGS__ })
#define VALUE(NAME, EXPRESSION)                                                                              \
    INLINE st_real NAME##_value(st_real x, st_real a)                                                        \
    {                                                                                                        \
        UNUSED(x, a);                                                                                        \
        return EXPRESSION;                                                                                   \
    }
#define SLOPE(NAME, EXPRESSION)                                                                              \
    INLINE st_real NAME##_slope(st_real x, st_real y, st_real a)                                             \
    {                                                                                                        \
        UNUSED(x, y, a);                                                                                     \
        return EXPRESSION;                                                                                   \
    }

#define SELU_SCALE ((st_real)1.0507009873554804934193349852946)
#define SELU_ALPHA ((st_real)1.6732632423543772848170429916717)

/* x clamped to finite numbers, for limits of the form 0 times infinity: below; on both sides. NaN
 * propagates. */
static inline st_real above(st_real x)
{
    return x < -ST_REAL_MAX ? -ST_REAL_MAX : x;
}

static inline st_real within(st_real x)
{
    return x > ST_REAL_MAX ? ST_REAL_MAX : above(x);
}

/* min(x, 0), for a branch that is computed for all x. */
static inline st_real below(st_real x)
{
    return x > 0 ? 0 : x;
}

static inline st_real at_most(st_real x, st_real most)
{
    return most < x ? most : x;
}

static inline st_real softplus(st_real x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* tanh(log(1 + e)) = n / (n + 2) with e = exp(x) and n = e (e + 2), and 1 minus its square. From 40 on both
 * equal their limits in any precision. */
static inline st_real odds(st_real x)
{
    st_real e = exponential(at_most(x, 40));
    return e * (e + 2);
}

static inline st_real tanh_softplus(st_real x)
{
    return odds(x) / (odds(x) + 2);
}

static inline st_real sech2_softplus(st_real x)
{
    return 2 / (odds(x) + 2) * (1 + tanh_softplus(x));
}

/* Phi(x) and phi(x): the normal distribution and its density. */
static inline st_real normal_below(st_real x)
{
    return erfc(-x * (st_real)0.70710678118654752440) / 2; /* erfc: accurate in the left tail */
}

static inline st_real normal_density(st_real x)
{
    return exponential(-x * x / 2) * (st_real)0.39894228040143267794;
}

/* clang-format off */
VALUE(relu, x < 0 ? 0 : x)
SLOPE(relu, y > 0 ? 1 : 0)

VALUE(relu6, at_most(x < 0 ? 0 : x, 6))
SLOPE(relu6, y > 0 && y < 6 ? 1 : 0)

VALUE(leaky_relu, x < 0 ? a * x : x)
SLOPE(leaky_relu, x > 0 ? 1 : a)

VALUE(elu, x < 0 ? a * exponential_less_1(below(x)) : x)
SLOPE(elu, x > 0 ? 1 : y + a)

VALUE(selu, SELU_SCALE * (x < 0 ? SELU_ALPHA * exponential_less_1(below(x)) : x))
SLOPE(selu, y > 0 ? SELU_SCALE : y + SELU_SCALE * SELU_ALPHA)

VALUE(gelu, above(x) * normal_below(x))
SLOPE(gelu, normal_below(x) + within(x) * normal_density(x))

VALUE(silu, above(x) * logistic(x))
SLOPE(silu, logistic(x) * (1 + within(x) * (1 - logistic(x))))

VALUE(mish, above(x) * tanh_softplus(x))
SLOPE(mish, tanh_softplus(x) + at_most(above(x), 40) * logistic(x) * sech2_softplus(x))

VALUE(sigmoid, logistic(x))
SLOPE(sigmoid, y * (1 - y))

VALUE(tanh, hyperbolic_tangent(x))
SLOPE(tanh, 1 - y * y)

VALUE(softplus, softplus(x))
SLOPE(softplus, logistic(x))

VALUE(softsign, within(x) / (1 + fabs(within(x))))
SLOPE(softsign, 1 / ((1 + fabs(x)) * (1 + fabs(x))))

VALUE(hardsigmoid, x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + (st_real)0.5)
SLOPE(hardsigmoid, x > -3 && x <= 3 ? (st_real)1 / 6 : 0)

VALUE(hardswish, x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6)
SLOPE(hardswish, x <= -3 ? 0 : x > 3 ? 1 : (2 * x + 3) / 6)
/* clang-format on */

/* ---- the hooks ---------------------------------------------------------------------------------- */

typedef struct activation {
    double a;
} activation;

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    (void)l;
    *y = x;
    return 0;
}

/* Iterations are independent, also in place. */
INLINE void value_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], st_real a,
                      st_real (*value)(st_real, st_real))
{
    st_real *y = at[0];
    const st_real *x = at[1];
    if (stride[0] == 1 && stride[1] == 1) {
        for (ptrdiff_t i = 0; i < n; i++) y[i] = value(x[i], a);
    } else {
        for (ptrdiff_t i = 0; i < n; i++) y[i * stride[0]] = value(x[i * stride[1]], a);
    }
}

INLINE void slope_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], st_real a,
                      st_real (*slope)(st_real, st_real, st_real))
{
    st_real *dx = at[0];
    const st_real *dy = at[1], *x = at[2], *y = at[3];
    if (stride[0] == 1 && stride[1] == 1 && stride[2] == 1 && stride[3] == 1) {
        for (ptrdiff_t i = 0; i < n; i++) dx[i] = dy[i] * slope(x[i], y[i], a);
    } else {
        for (ptrdiff_t i = 0; i < n; i++)
            dx[i * stride[0]] = dy[i * stride[1]] * slope(x[i * stride[2]], y[i * stride[3]], a);
    }
}

static st_real option(const st_call *c)
{
    return c->options ? (st_real)((const activation *)c->options)->a : 0;
}

enum told_by { X, Y, BOTH };

/* Reads only what the derivative needs: the other tensor may have been overwritten. */
static void walk_slopes(enum told_by by, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx,
                        st_row_function *row, st_real a)
{
    st_walk(4, (st_tensor[]){ dx, dy, by == Y ? y : x, by == X ? x : y }, ST_ANY_ORDER, row, &a);
}

#define ROWS(M, NAME)                                                                                        \
    M##_TARGET static void M##_##NAME##_value_row(ptrdiff_t n, st_real *const at[],                          \
                                                  const ptrdiff_t stride[], void *a)                         \
    {                                                                                                        \
        value_row(n, at, stride, *(const st_real *)a, NAME##_value);                                         \
    }                                                                                                        \
    M##_TARGET static void M##_##NAME##_slope_row(ptrdiff_t n, st_real *const at[],                          \
                                                  const ptrdiff_t stride[], void *a)                         \
    {                                                                                                        \
        slope_row(n, at, stride, *(const st_real *)a, NAME##_slope);                                         \
    }
#define VALUE_ROW(M, NAME) M##_##NAME##_value_row,
#define SLOPE_ROW(M, NAME) M##_##NAME##_slope_row,

/* `...` sets options_size and fields of a function with an option. */
#define ACTIVATION(NAME, TOLD_BY, MONOTONE, ...)                                                             \
    EACH_MACHINE_OF(ROWS, NAME)                                                                              \
    static st_row_function *const NAME##_value_rows[] = { EACH_MACHINE_OF(VALUE_ROW, NAME) };                \
    static st_row_function *const NAME##_slope_rows[] = { EACH_MACHINE_OF(SLOPE_ROW, NAME) };                \
    static void NAME##_forward(const st_call *c, st_tensor x, st_tensor y)                                   \
    {                                                                                                        \
        st_real a = option(c);                                                                               \
        st_walk(2, (st_tensor[]){ y, x }, ST_ANY_ORDER, NAME##_value_rows[c->layer->impl->machine], &a);     \
    }                                                                                                        \
    static void NAME##_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)      \
    {                                                                                                        \
        walk_slopes(TOLD_BY, x, y, dy, dx, NAME##_slope_rows[c->layer->impl->machine], option(c));           \
    }                                                                                                        \
    const st_layer_type layer_type_##NAME = { .name = #NAME,                                                 \
                                              .plan = plan,                                                  \
                                              .forward = NAME##_forward,                                     \
                                              .backward = NAME##_backward,                                   \
                                              .traits = &(const layer_traits){ .in_place = TOLD_BY == Y,     \
                                                                               .ignores_y = TOLD_BY == X,    \
                                                                               .monotone = MONOTONE },       \
                                              __VA_ARGS__ };

#define WITH_OPTION(FIELD, DEFAULT)                                                                          \
    .options_size = sizeof(activation), .fields = (const st_field[])                                         \
    {                                                                                                        \
        { FIELD, ST_FIELD_REAL, offsetof(activation, a), .fallback = DEFAULT, .least = -DBL_MAX },           \
        {                                                                                                    \
            0                                                                                                \
        }                                                                                                    \
    }

#define PLAIN(NAME, TOLD_BY, MONOTONE)                                                                       \
    ACTIVATION(NAME, TOLD_BY, MONOTONE, .fields = NULL)                                                      \
    st_layer *st_##NAME(void)                                                                                \
    {                                                                                                        \
        return st_layer_new(&layer_type_##NAME, NULL, 0, NULL);                                              \
    }

PLAIN(relu, Y, true)
PLAIN(relu6, Y, false)
PLAIN(selu, Y, false)
PLAIN(gelu, X, false)
PLAIN(silu, X, false)
PLAIN(mish, X, false)
PLAIN(sigmoid, Y, false)
PLAIN(tanh, Y, false)
PLAIN(softplus, X, false)
PLAIN(softsign, X, false)
PLAIN(hardsigmoid, X, false)
PLAIN(hardswish, X, false)
ACTIVATION(leaky_relu, X, false, WITH_OPTION("slope", 0.01))
ACTIVATION(elu, BOTH, false, WITH_OPTION("alpha", 1))

st_layer *st_leaky_relu_new(st_leaky_relu_options options)
{
    return st_layer_new(&layer_type_leaky_relu, &(activation){ options.slope }, 0, NULL);
}

st_layer *st_elu_new(st_elu_options options)
{
    return st_layer_new(&layer_type_elu, &(activation){ options.alpha }, 0, NULL);
}
