/* activation_impl.h: functions of one element, and the rows that apply them: activation.c has the
 * definitions, layers/fast/activation.c the same by vectors.
 *
 * `value` is f(x, a, b) and `derivative` is f'(x), from x or from y = f(x); a and b are the function's
 * options. Parameters of type double are for functions that are computed in double in either precision, so
 * that float results are rounded once. */
#ifndef STRIDE_LAYERS_ACTIVATION_IMPL_H
#define STRIDE_LAYERS_ACTIVATION_IMPL_H

#include "layers/layer_impl.h"
#include "tensor/inline.h"

#include <math.h>
#include <tgmath.h>

/* A function's options or limits, in the precision of x. */
typedef struct constants {
    st_real a, b;
} constants;

/* The plan's data of an activation, its function by rows. */
typedef struct activation_rows {
    st_row_function *value, *derivative;
    bool from_y; /* the derivative is computed from y; otherwise from x */
    constants o;
} activation_rows;

/* Adds to the gradient of each weight the sum, a double, that sum_row makes of min(x, 0) dy. */
void prelu_add_gradient(const st_call *c, st_tensor x, st_tensor dy, st_row_function *sum_row);

/* Tests if a gelu is the one by tanh. */
bool activation_by_tanh(const st_layer *l);

/* ---- a function ----------------------------------------------------------------------------------- */

#define UNUSED(...) (void)sizeof((double[]){ __VA_ARGS__ })
#define VALUE(NAME, TYPE, EXPRESSION)                                                                        \
    INLINE st_real NAME##_value(TYPE x, st_real a, st_real b)                                                \
    {                                                                                                        \
        UNUSED(x, a, b);                                                                                     \
        return (st_real)(EXPRESSION);                                                                        \
    }
#define DERIVATIVE(NAME, TYPE, X_OR_Y, EXPRESSION)                                                           \
    INLINE st_real NAME##_derivative(TYPE X_OR_Y, st_real a, st_real b)                                      \
    {                                                                                                        \
        UNUSED(X_OR_Y, a, b);                                                                                \
        return (st_real)(EXPRESSION);                                                                        \
    }

/* ---- its rows ------------------------------------------------------------------------------------- */

/* M_NAME_value_row and M_NAME_derivative_row for instruction set M. A macro makes a row of each function, so
 * that the compiler inlines it into the loop, of which it makes vectors for strides of 1 (-O3). Iterations
 * are independent, also in place. */
#define ROWS(M, NAME)                                                                                        \
    M##_TARGET static void M##_##NAME##_value_row(ptrdiff_t n, st_real *const at[],                          \
                                                  const ptrdiff_t stride[], void *options)                   \
    {                                                                                                        \
        const constants o = *(const constants *)options;                                                     \
        st_real *y = at[0];                                                                                  \
        const st_real *x = at[1];                                                                            \
        const ptrdiff_t sy = stride[0], sx = stride[1];                                                      \
        const ptrdiff_t together = sy == 1 && sx == 1 ? n : 0;                                               \
        INDEPENDENT                                                                                          \
        for (ptrdiff_t i = 0; i < together; i++) y[i] = NAME##_value(x[i], o.a, o.b);                        \
        for (ptrdiff_t i = together; i < n; i++) y[i * sy] = NAME##_value(x[i * sx], o.a, o.b);              \
    }                                                                                                        \
    M##_TARGET static void M##_##NAME##_derivative_row(ptrdiff_t n, st_real *const at[],                     \
                                                       const ptrdiff_t stride[], void *options)              \
    {                                                                                                        \
        const constants o = *(const constants *)options;                                                     \
        st_real *dx = at[0];                                                                                 \
        const st_real *dy = at[1], *from = at[2];                                                            \
        const ptrdiff_t sx = stride[0], sy = stride[1], sf = stride[2];                                      \
        const ptrdiff_t together = sx == 1 && sy == 1 && sf == 1 ? n : 0;                                    \
        INDEPENDENT                                                                                          \
        for (ptrdiff_t i = 0; i < together; i++) dx[i] = dy[i] * NAME##_derivative(from[i], o.a, o.b);       \
        for (ptrdiff_t i = together; i < n; i++)                                                             \
            dx[i * sx] = dy[i * sy] * NAME##_derivative(from[i * sf], o.a, o.b);                             \
    }

/* ---- functions of few operations, which compilers make vectors of as they are ------------------------- */

/* x clamped to finite numbers, for limits of the form 0 times infinity: below; on both sides. NaN
 * propagates. */
INLINE st_real clamp_low(st_real x)
{
    return x < -ST_REAL_MAX ? -ST_REAL_MAX : x;
}

INLINE st_real clamp_both(st_real x)
{
    return x > ST_REAL_MAX ? ST_REAL_MAX : clamp_low(x);
}

/* min(x, 0), for a branch that is computed for all x. */
INLINE st_real negative_part(st_real x)
{
    return x > 0 ? 0 : x;
}

INLINE st_real at_most(st_real x, st_real most)
{
    return most < x ? most : x;
}

INLINE st_real at_least(st_real x, st_real least)
{
    return x < least ? least : x;
}

INLINE st_real square(st_real x)
{
    return x * x;
}

/* gelu with approximate = tanh: x (1 + tanh(u/2)) / 2 = x logistic(u), u = 2 sqrt(2/pi) (x + 0.044715 x³),
 * and its derivative with p = logistic(u). Beyond ±25 the logistic function is 0 or 1 in any precision. */
INLINE double gelu_u(double x)
{
    return 1.5957691216057307118 * (x + 0.044715 * x * x * x);
}

INLINE double gelu_tanh_slope_of(double x, double p)
{
    return p + x * p * (1 - p) * 1.5957691216057307118 * (1 + 0.134145 * x * x);
}

INLINE st_real at_25(st_real x)
{
    return at_most(at_least(x, -25), 25);
}

#define SELU_SCALE 1.0507009873554805
#define SELU_ALPHA 1.6732632423543772

/* clang-format off */
VALUE(relu, st_real, x < 0 ? 0 : x)
DERIVATIVE(relu, st_real, y, y > 0 ? 1 : 0)

VALUE(hardtanh, st_real, at_most(at_least(x, a), b))
DERIVATIVE(hardtanh, st_real, y, y > a && y < b ? 1 : 0)

VALUE(relu6, st_real, hardtanh_value(x, a, b))
DERIVATIVE(relu6, st_real, y, hardtanh_derivative(y, a, b))

VALUE(leaky_relu, st_real, x < 0 ? a * x : x)
DERIVATIVE(leaky_relu, st_real, x, x > 0 ? 1 : a)

VALUE(softsign, st_real, clamp_both(x) / (1 + fabs(clamp_both(x))))
DERIVATIVE(softsign, st_real, x, square(1 / (1 + fabs(x))))

VALUE(hardsigmoid, st_real, x <= a ? 0 : x >= b ? 1 : (x + 3) / 6)
DERIVATIVE(hardsigmoid, st_real, x, x > a && x <= b ? (st_real)1 / 6 : 0)

VALUE(hardswish, st_real, x <= a ? 0 : x >= b ? x : x * (x + 3) / 6)
DERIVATIVE(hardswish, st_real, x, x <= a ? 0 : x > b ? 1 : (2 * x + 3) / 6)

/* From y, as in PyTorch: digits that rounding y has lost are missing here. 1 - y y would lose half of the
 * others. */
DERIVATIVE(sigmoid, st_real, y, y * (1 - y))
DERIVATIVE(tanh, st_real, y, (1 - y) * (1 + y))
/* clang-format on */

#endif
