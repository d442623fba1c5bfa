/* activation.c: activation functions by vectors, for each instruction set. Functions of few operations are
 * those of activation_impl.h. */
#include "layers/activation_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/functions.h"
#include "layers/types.h"

/* ---- the functions --------------------------------------------------------------------------------- */

/* tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2), e = exp(x). From 40 on it is 1 in any precision. */
INLINE double mish_value_of(double x, double e)
{
    double n = e * (e + 2);
    return x * (n / (n + 2));
}

INLINE double mish_slope_of(double x, double e)
{
    double n = e * (e + 2), over = 1 / (n + 2);
    return (n + 4 * e * x * (1 + e) * over) * over;
}

#define SELU_BELOW (SELU_SCALE * SELU_ALPHA)

/* clang-format off */
VALUE(fast_elu, st_real, x < 0 ? a * fast_expm1(negative_part(x)) : x)
DERIVATIVE(fast_elu, st_real, x, x > 0 ? 1 : a * fast_exp(negative_part(x)))

VALUE(fast_selu, st_real,
      x < 0 ? (st_real)SELU_BELOW * fast_expm1(negative_part(x)) : (st_real)SELU_SCALE * x)
DERIVATIVE(fast_selu, st_real, x,
           x > 0 ? (st_real)SELU_SCALE : (st_real)SELU_BELOW * fast_exp(negative_part(x)))

VALUE(fast_gelu_none, st_real, fast_normal(x))
DERIVATIVE(fast_gelu_none, st_real, x, fast_normal_slope(x))

VALUE(fast_gelu_tanh, st_real, clamp_low(x) * wide_logistic(gelu_u(x)))
DERIVATIVE(fast_gelu_tanh, st_real, x, gelu_tanh_slope_of(at_25(x), wide_logistic(gelu_u(at_25(x)))))

VALUE(fast_silu, st_real, fast_silu(x))
DERIVATIVE(fast_silu, st_real, x, fast_silu_slope(x))

VALUE(fast_mish, st_real, mish_value_of(clamp_low(x), wide_exp(at_most(x, 40))))
DERIVATIVE(fast_mish, st_real, x, mish_slope_of(at_most(clamp_low(x), 40), wide_exp(at_most(x, 40))))

VALUE(fast_sigmoid, st_real, fast_logistic(x))
DERIVATIVE(fast_sigmoid, st_real, y, sigmoid_derivative(y, a, b))

VALUE(fast_tanh, st_real, wide_tanh(x))
DERIVATIVE(fast_tanh, st_real, y, tanh_derivative(y, a, b))

VALUE(fast_softplus, st_real, (double)at_least(x, 0) + wide_log1p(wide_exp(-fabs(x))))
DERIVATIVE(fast_softplus, st_real, x, fast_logistic(x))
/* clang-format on */

/* ---- prelu ------------------------------------------------------------------------------------------ */

/* Adds up min(x, 0) dy, in a fixed number of lanes: a branch on the sign would be slow. */
static void prelu_sum_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *sum)
{
    enum { LANES = 8 };
    double lane[LANES] = { 0 };
    const st_real *x = at[0], *dy = at[1];
    ptrdiff_t i = 0;
    if (stride[0] == 1 && stride[1] == 1)
        for (; i + LANES <= n; i += LANES)
            EACH(k, LANES) lane[k] += (double)negative_part(x[i + k]) * (double)dy[i + k];
    for (; i < n; i++) lane[0] += (double)negative_part(x[i * stride[0]]) * (double)dy[i * stride[1]];
    double *total = sum;
    EACH(k, LANES) *total += lane[k];
}

static void prelu_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    prelu_add_gradient(c, x, dy, prelu_sum_row);
}

/* ---- the algorithms --------------------------------------------------------------------------------- */

/* `given` with the rows of the layer's instruction set. */
static int plan_with(st_layer *l, const void *given, const activation_rows of_machine[])
{
    activation_rows *r = st_layer_plan_data(l, sizeof *r);
    if (!r) return -1;
    *r = *(const activation_rows *)given;
    r->value = of_machine[l->impl->machine].value;
    r->derivative = of_machine[l->impl->machine].derivative;
    return 0;
}

static bool suits(const st_layer *l)
{
    (void)l;
    return true;
}

static bool is_gelu_none(const st_layer *l)
{
    return !activation_by_tanh(l);
}

#define NAMES(M, NAME) { M##_##NAME##_value_row, M##_##NAME##_derivative_row, false, { 0 } },
#define FUNCTION(NAME)                                                                                       \
    EACH_MACHINE_OF(ROWS, NAME)                                                                              \
    static const activation_rows NAME##_rows[] = { EACH_MACHINE_OF(NAMES, NAME) };
#define ALGORITHM(NAME, ROWS_NAME, TYPE, SUITS, ...)                                                         \
    static int fast_##NAME##_plan(st_layer *l, const void *given)                                            \
    {                                                                                                        \
        return plan_with(l, given, ROWS_NAME##_rows);                                                        \
    }                                                                                                        \
    const layer_algorithm NAME##_vectors = {                                                                 \
        .type = &layer_type_##TYPE, .suits = SUITS, .plan = fast_##NAME##_plan, .hooks = { __VA_ARGS__ }     \
    };
#define ACTIVATION_OF(NAME, FUNCTION_NAME, TYPE, SUITS)                                                      \
    FUNCTION(FUNCTION_NAME)                                                                                  \
    ALGORITHM(NAME, FUNCTION_NAME, TYPE, SUITS, activation_forward, activation_backward)
#define SHORT_ACTIVATION(NAME) ACTIVATION_OF(NAME, NAME, NAME, suits)
#define EXPONENTIAL_ACTIVATION(NAME) ACTIVATION_OF(NAME, fast_##NAME, NAME, suits)

EACH_SHORT_ACTIVATION(SHORT_ACTIVATION)
EACH_EXPONENTIAL_ACTIVATION(EXPONENTIAL_ACTIVATION)
ACTIVATION_OF(gelu_none, fast_gelu_none, gelu, is_gelu_none)
ACTIVATION_OF(gelu_tanh, fast_gelu_tanh, gelu, activation_by_tanh)
ALGORITHM(prelu, leaky_relu, prelu, suits, prelu_forward, prelu_backward, prelu_gradient)
