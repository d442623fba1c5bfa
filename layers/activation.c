/* activation.c: one table of functions of one number and their derivatives.
 *
 * `value` is f(x, a); `slope` is f'(x), which may use y = f(x); a is the option of those that have one.
 * Each is stamped into a type of its own, so that the compiler sees the function in the loop. A slope that is
 * told by y alone lets the function run in place; one that is told by x alone lets y be overwritten. */
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
    INLINE real NAME##_value(real x, real a)                                                                 \
    {                                                                                                        \
        UNUSED(x, a);                                                                                        \
        return EXPRESSION;                                                                                   \
    }
#define SLOPE(NAME, EXPRESSION)                                                                              \
    INLINE real NAME##_slope(real x, real y, real a)                                                         \
    {                                                                                                        \
        UNUSED(x, y, a);                                                                                     \
        return EXPRESSION;                                                                                   \
    }

#define SELU_SCALE ((real)1.0507009873554804934193349852946)
#define SELU_ALPHA ((real)1.6732632423543772848170429916717)

/* x, but not -inf; x, but neither infinity: where a limit is 0 times infinity. NaN stays. */
static inline real above(real x)
{
    return x < -REAL_MAX ? -REAL_MAX : x;
}

static inline real within(real x)
{
    return x > REAL_MAX ? REAL_MAX : above(x);
}

/* Of a branch that is computed for all x: x up to 0. */
static inline real below(real x)
{
    return x > 0 ? 0 : x;
}

static inline real at_most(real x, real most)
{
    return most < x ? most : x;
}

static inline real softplus(real x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* tanh(log(1 + e)) = n / (n + 2) with e = exp(x) and n = e (e + 2), and 1 less its square. From 40 on both are at
 * their limits in any precision. */
static inline real odds(real x)
{
    real e = exponential(at_most(x, 40));
    return e * (e + 2);
}

static inline real tanh_softplus(real x)
{
    return odds(x) / (odds(x) + 2);
}

static inline real sech2_softplus(real x)
{
    return 2 / (odds(x) + 2) * (1 + tanh_softplus(x));
}

/* Phi(x) and phi(x): the normal distribution and its density. */
static inline real normal_below(real x)
{
    return erfc(-x * (real)0.70710678118654752440) / 2; /* keeps the digits of the left tail */
}

static inline real normal_density(real x)
{
    return exponential(-x * x / 2) * (real)0.39894228040143267794;
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

VALUE(hardsigmoid, x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + (real)0.5)
SLOPE(hardsigmoid, x > -3 && x <= 3 ? (real)1 / 6 : 0)

VALUE(hardswish, x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6)
SLOPE(hardswish, x <= -3 ? 0 : x > 3 ? 1 : (2 * x + 3) / 6)
/* clang-format on */

/* ---- the hooks ---------------------------------------------------------------------------------- */

typedef struct activation {
    double a;
} activation;

static int plan(layer *l, shape x, shape *y)
{
    (void)l;
    *y = x;
    return 0;
}

/* No element depends on another, also where y is x. */
INLINE void value_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], real a,
                      real (*value)(real, real))
{
    real *y = at[0];
    const real *x = at[1];
    if (stride[0] == 1 && stride[1] == 1) {
        for (ptrdiff_t i = 0; i < n; i++) y[i] = value(x[i], a);
    } else {
        for (ptrdiff_t i = 0; i < n; i++) y[i * stride[0]] = value(x[i * stride[1]], a);
    }
}

INLINE void slope_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], real a,
                      real (*slope)(real, real, real))
{
    real *dx = at[0];
    const real *dy = at[1], *x = at[2], *y = at[3];
    if (stride[0] == 1 && stride[1] == 1 && stride[2] == 1 && stride[3] == 1) {
        for (ptrdiff_t i = 0; i < n; i++) dx[i] = dy[i] * slope(x[i], y[i], a);
    } else {
        for (ptrdiff_t i = 0; i < n; i++)
            dx[i * stride[0]] = dy[i * stride[1]] * slope(x[i * stride[2]], y[i * stride[3]], a);
    }
}

static real option(const st_call *c)
{
    return c->options ? (real)((const activation *)c->options)->a : 0;
}

enum told_by { X, Y, BOTH };

/* What is not looked at is not walked over either: it may lie anywhere, or be gone. */
static void walk_slopes(enum told_by by, tensor x, tensor y, tensor dy, tensor dx, tensor_row *row, real a)
{
    tensor_walk(4, (tensor[]){ dx, dy, by == Y ? y : x, by == X ? x : y }, TENSOR_ANY_ORDER, row, &a);
}

#define ROWS(M, NAME)                                                                                        \
    M##_TARGET static void M##_##NAME##_value_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[],   \
                                                  void *a)                                                   \
    {                                                                                                        \
        value_row(n, at, stride, *(const real *)a, NAME##_value);                                            \
    }                                                                                                        \
    M##_TARGET static void M##_##NAME##_slope_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[],   \
                                                  void *a)                                                   \
    {                                                                                                        \
        slope_row(n, at, stride, *(const real *)a, NAME##_slope);                                            \
    }
#define VALUE_ROW(M, NAME) M##_##NAME##_value_row,
#define SLOPE_ROW(M, NAME) M##_##NAME##_slope_row,

/* `...` sets the option's fields, where a function has one. */
#define ACTIVATION(NAME, TOLD_BY, MONOTONE, ...)                                                             \
    EACH_MACHINE_OF(ROWS, NAME)                                                                              \
    static tensor_row *const NAME##_value_rows[] = { EACH_MACHINE_OF(VALUE_ROW, NAME) };                     \
    static tensor_row *const NAME##_slope_rows[] = { EACH_MACHINE_OF(SLOPE_ROW, NAME) };                     \
    static void NAME##_forward(const st_call *c, tensor x, tensor y)                                         \
    {                                                                                                        \
        real a = option(c);                                                                                  \
        tensor_walk(2, (tensor[]){ y, x }, TENSOR_ANY_ORDER, NAME##_value_rows[c->layer->impl->machine],     \
                    &a);                                                                                     \
    }                                                                                                        \
    static void NAME##_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)                  \
    {                                                                                                        \
        walk_slopes(TOLD_BY, x, y, dy, dx, NAME##_slope_rows[c->layer->impl->machine], option(c));           \
    }                                                                                                        \
    const layer_type layer_type_##NAME = { .name = #NAME,                                                    \
                                           .plan = plan,                                                     \
                                           .forward = NAME##_forward,                                        \
                                           .backward = NAME##_backward,                                      \
                                           .traits = &(const layer_traits){ .in_place = TOLD_BY == Y,        \
                                                                            .ignores_y = TOLD_BY == X,       \
                                                                            .monotone = MONOTONE },          \
                                           __VA_ARGS__ };

#define WITH_OPTION(FIELD, DEFAULT)                                                                          \
    .options_size = sizeof(activation), .fields = (const layer_field[])                                      \
    {                                                                                                        \
        { FIELD, FIELD_REAL, offsetof(activation, a), .fallback = DEFAULT, .least = -DBL_MAX },              \
        {                                                                                                    \
            0                                                                                                \
        }                                                                                                    \
    }

#define PLAIN(NAME, TOLD_BY, MONOTONE)                                                                       \
    ACTIVATION(NAME, TOLD_BY, MONOTONE, .fields = NULL)                                                      \
    layer *layer_##NAME(void)                                                                                \
    {                                                                                                        \
        return layer_new(&layer_type_##NAME, NULL, 0, NULL);                                                 \
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

layer *layer_leaky_relu(double slope)
{
    return layer_new(&layer_type_leaky_relu, &(activation){ slope }, 0, NULL);
}

layer *layer_elu(double alpha)
{
    return layer_new(&layer_type_elu, &(activation){ alpha }, 0, NULL);
}
