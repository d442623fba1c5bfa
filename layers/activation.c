/* activation.c: one table of scalar functions and their derivatives; and prelu, whose slope is a parameter.
 *
 * `value` is f(x, a, b) and `derivative` is f'(x), from x or from y = f(x); a and b are the function's options. A
 * macro makes a type of each, so that the compiler inlines the function into the loop. If the derivative is
 * computed from y, the layer can run in place; if from x, y may be overwritten. */
#include "layers/exponential.h"
#include "layers/lanes.h"
#include "layers/layer_impl.h"
#include "layers/types.h"

#include <math.h>
#include <tgmath.h>

/* ---- the functions ------------------------------------------------------------------------------ */

#define UNUSED(...) (void)sizeof((double[]){ __VA_ARGS__ })
#define VALUE(NAME, EXPRESSION)                                                                              \
    INLINE st_real NAME##_value(st_real x, st_real a, st_real b)                                             \
    {                                                                                                        \
        UNUSED(x, a, b);                                                                                     \
        return EXPRESSION;                                                                                   \
    }
#define DERIVATIVE(NAME, X_OR_Y, EXPRESSION)                                                                 \
    INLINE st_real NAME##_derivative(st_real X_OR_Y, st_real a, st_real b)                                   \
    {                                                                                                        \
        UNUSED(X_OR_Y, a, b);                                                                                \
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

static inline st_real at_least(st_real x, st_real least)
{
    return x < least ? least : x;
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

/* gelu with approximate = tanh: x (1 + tanh(u/2)) / 2 = x logistic(u), u = 2 sqrt(2/pi) (x + 0.044715 x³). Beyond
 * ±25 the logistic function is 0 or 1 in any precision. */
static inline st_real gelu_u(st_real x)
{
    return (st_real)1.5957691216057307118 * (x + (st_real)0.044715 * x * x * x);
}

static inline st_real gelu_tanh_derivative_within(st_real x)
{
    st_real p = logistic(gelu_u(x));
    return p + x * p * (1 - p) * (st_real)1.5957691216057307118 * (1 + (st_real)0.134145 * x * x);
}

/* clang-format off */
VALUE(relu, x < 0 ? 0 : x)
DERIVATIVE(relu, y, y > 0 ? 1 : 0)

VALUE(relu6, at_most(at_least(x, 0), 6))
DERIVATIVE(relu6, y, y > 0 && y < 6 ? 1 : 0)

VALUE(hardtanh, at_most(at_least(x, a), b))
DERIVATIVE(hardtanh, y, y > a && y < b ? 1 : 0)

VALUE(leaky_relu, x < 0 ? a * x : x)
DERIVATIVE(leaky_relu, x, x > 0 ? 1 : a)

VALUE(elu, x < 0 ? a * exponential_less_1(below(x)) : x)
DERIVATIVE(elu, x, x > 0 ? 1 : a * exponential(below(x)))

VALUE(selu, SELU_SCALE * (x < 0 ? SELU_ALPHA * exponential_less_1(below(x)) : x))
DERIVATIVE(selu, x, SELU_SCALE * (x > 0 ? 1 : SELU_ALPHA * exponential(below(x))))

VALUE(gelu_none, above(x) * normal_below(x))
DERIVATIVE(gelu_none, x, normal_below(x) + within(x) * normal_density(x))

VALUE(gelu_tanh, above(x) * logistic(gelu_u(x)))
DERIVATIVE(gelu_tanh, x, gelu_tanh_derivative_within(at_most(at_least(x, -25), 25)))

VALUE(silu, above(x) * logistic(x))
DERIVATIVE(silu, x, logistic(x) * (1 + within(x) * (1 - logistic(x))))

VALUE(mish, above(x) * tanh_softplus(x))
DERIVATIVE(mish, x, tanh_softplus(x) + at_most(above(x), 40) * logistic(x) * sech2_softplus(x))

VALUE(sigmoid, logistic(x))
DERIVATIVE(sigmoid, y, y * (1 - y))

VALUE(tanh, hyperbolic_tangent(x))
DERIVATIVE(tanh, y, 1 - y * y)

VALUE(softplus, softplus(x))
DERIVATIVE(softplus, x, logistic(x))

VALUE(softsign, within(x) / (1 + fabs(within(x))))
DERIVATIVE(softsign, x, 1 / ((1 + fabs(x)) * (1 + fabs(x))))

VALUE(hardsigmoid, x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + (st_real)0.5)
DERIVATIVE(hardsigmoid, x, x > -3 && x <= 3 ? (st_real)1 / 6 : 0)

VALUE(hardswish, x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6)
DERIVATIVE(hardswish, x, x <= -3 ? 0 : x > 3 ? 1 : (2 * x + 3) / 6)
/* clang-format on */

/* ---- the hooks ---------------------------------------------------------------------------------- */

/* A function's options, in the precision of x. */
typedef struct numbers {
    st_real a, b;
} numbers;

/* A function and its rows for each instruction set; a type's traits are the first member of its function. */
typedef struct function {
    layer_traits traits;
    st_row_function *const *value, *const *derivative;
} function;

/* The plan's data: the rows for the instruction set that was chosen. */
typedef struct rows {
    st_row_function *value, *derivative;
    numbers o;
} rows;

/* Adding 0 turns ST_ZERO into 0. */
static int plan_function(st_layer *l, const function *f, st_shape x, st_shape *y)
{
    const st_field *field = l->type->fields;
    rows *r = st_layer_plan_data(l, sizeof *r);
    if (!r) return -1;
    *r = (rows){ f->value[l->impl->machine], f->derivative[l->impl->machine], { 0 } };
    if (field) r->o.a = (st_real)layer_option(l, field[0].name) + 0;
    if (field && field[1].name) r->o.b = (st_real)layer_option(l, field[1].name) + 0;
    *y = x;
    return 0;
}

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    return plan_function(l, (const function *)(const void *)l->type->traits, x, y);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const rows *r = c->plan;
    numbers o = r->o;
    st_walk(2, (st_tensor[]){ y, x }, ST_ANY_ORDER, r->value, &o);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const rows *r = c->plan;
    numbers o = r->o;
    const st_tensor from = c->layer->type->traits->in_place ? y : x;
    st_walk(3, (st_tensor[]){ dx, dy, from }, ST_ANY_ORDER, r->derivative, &o);
}

/* Iterations are independent, also in place. The compiler makes a loop of vectors for strides of 1 (-O3). */
INLINE void value_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], numbers o,
                      st_real (*value)(st_real, st_real, st_real))
{
    st_real *y = at[0];
    const st_real *x = at[1];
    const ptrdiff_t sy = stride[0], sx = stride[1];
    for (ptrdiff_t i = 0; i < n; i++) y[i * sy] = value(x[i * sx], o.a, o.b);
}

INLINE void derivative_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], numbers o,
                           st_real (*derivative)(st_real, st_real, st_real))
{
    st_real *dx = at[0];
    const st_real *dy = at[1], *from = at[2];
    const ptrdiff_t sx = stride[0], sy = stride[1], sf = stride[2];
    for (ptrdiff_t i = 0; i < n; i++) dx[i * sx] = dy[i * sy] * derivative(from[i * sf], o.a, o.b);
}

#define ROWS(M, NAME)                                                                                        \
    M##_TARGET static void M##_##NAME##_value_row(ptrdiff_t n, st_real *const at[],                          \
                                                  const ptrdiff_t stride[], void *o)                         \
    {                                                                                                        \
        value_row(n, at, stride, *(const numbers *)o, NAME##_value);                                         \
    }                                                                                                        \
    M##_TARGET static void M##_##NAME##_derivative_row(ptrdiff_t n, st_real *const at[],                     \
                                                       const ptrdiff_t stride[], void *o)                    \
    {                                                                                                        \
        derivative_row(n, at, stride, *(const numbers *)o, NAME##_derivative);                               \
    }
#define VALUE_ROW(M, NAME) M##_##NAME##_value_row,
#define DERIVATIVE_ROW(M, NAME) M##_##NAME##_derivative_row,

/* What a derivative is computed from. From y, it can be computed in place; from x, y may be overwritten. */
enum { FROM_X, FROM_Y, FROM_MONOTONE_Y };

#define FUNCTION(NAME, FROM)                                                                                 \
    EACH_MACHINE_OF(ROWS, NAME)                                                                              \
    static st_row_function *const NAME##_value_rows[] = { EACH_MACHINE_OF(VALUE_ROW, NAME) };                \
    static st_row_function *const NAME##_derivative_rows[] = { EACH_MACHINE_OF(DERIVATIVE_ROW, NAME) };      \
    static const function NAME##_function = {                                                                \
        { .in_place = FROM != FROM_X, .ignores_y = FROM == FROM_X, .monotone = FROM == FROM_MONOTONE_Y },    \
        NAME##_value_rows,                                                                                   \
        NAME##_derivative_rows                                                                               \
    };

#define TYPE(NAME, FUNCTION_NAME, PLAN, FIELDS, OPTIONS_SIZE)                                                \
    const st_layer_type layer_type_##NAME = { .name = #NAME,                                                 \
                                              .options_size = OPTIONS_SIZE,                                  \
                                              .fields = FIELDS,                                              \
                                              .plan = PLAN,                                                  \
                                              .forward = forward,                                            \
                                              .backward = backward,                                          \
                                              .traits = &FUNCTION_NAME##_function.traits };

#define ACTIVATION(NAME, FROM)                                                                               \
    FUNCTION(NAME, FROM)                                                                                     \
    TYPE(NAME, NAME, plan, NULL, 0)                                                                          \
    PLAIN_CONSTRUCTOR(NAME)

ACTIVATION(relu, FROM_MONOTONE_Y)
ACTIVATION(relu6, FROM_Y)
ACTIVATION(selu, FROM_X)
ACTIVATION(silu, FROM_X)
ACTIVATION(mish, FROM_X)
ACTIVATION(sigmoid, FROM_Y)
ACTIVATION(tanh, FROM_Y)
ACTIVATION(softplus, FROM_X)
ACTIVATION(softsign, FROM_X)
ACTIVATION(hardsigmoid, FROM_X)
ACTIVATION(hardswish, FROM_X)

/* ---- functions with options ----------------------------------------------------------------------- */

#define ANY_NUMBER(OPTIONS, NAME) #NAME, ST_FIELD_REAL, offsetof(OPTIONS, NAME), .least = -DBL_MAX

/* A function with its fields. */
#define ACTIVATION_OF(NAME, FROM, PLAN, ...)                                                                 \
    static const st_field NAME##_fields[] = { __VA_ARGS__, { 0 } };                                          \
    FUNCTION(NAME, FROM)                                                                                     \
    TYPE(NAME, NAME, PLAN, NAME##_fields, sizeof(st_##NAME##_options))                                       \
    CONSTRUCTOR(NAME, st_##NAME##_options)

static int hardtanh_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_hardtanh_options *o = l->options;
    if (o->min_val >= o->max_val)
        return st_layer_refuse(l, "min_val is %g, expected less than max_val, %g", o->min_val, o->max_val);
    return plan(l, x, y);
}

ACTIVATION_OF(leaky_relu, FROM_X, plan, { ANY_NUMBER(st_leaky_relu_options, slope), .fallback = 0.01 })
ACTIVATION_OF(elu, FROM_X, plan, { ANY_NUMBER(st_elu_options, alpha), .fallback = 1 })
ACTIVATION_OF(hardtanh, FROM_Y, hardtanh_plan, { ANY_NUMBER(st_hardtanh_options, min_val), .fallback = -1 },
              { ANY_NUMBER(st_hardtanh_options, max_val), .fallback = 1 })

/* gelu is one of two functions. */
FUNCTION(gelu_none, FROM_X)
FUNCTION(gelu_tanh, FROM_X)

static int gelu_plan(st_layer *l, st_shape x, st_shape *y)
{
    const bool by_tanh = ((const st_gelu_options *)l->options)->approximate == ST_GELU_TANH;
    return plan_function(l, by_tanh ? &gelu_tanh_function : &gelu_none_function, x, y);
}

static const char *const gelu_approximations[] = { "none", "tanh", NULL };

static const st_field gelu_fields[] = {
    { "approximate", ST_FIELD_CHOICE, offsetof(st_gelu_options, approximate),
      .choices = gelu_approximations },
    { 0 },
};

TYPE(gelu, gelu_none, gelu_plan, gelu_fields, sizeof(st_gelu_options))
CONSTRUCTOR(gelu, st_gelu_options)

/* ---- prelu: y = x, or weight x below 0: He et al. 2015 ---------------------------------------------- */

enum { WEIGHT };

static int prelu_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_prelu_options *o = l->options;
    if (o->num_parameters > 1 && (x.rank < 2 || x.n[1] != o->num_parameters))
        return st_layer_refuse(l, "num_parameters=%d of an input %s, expected 1 or its channels",
                               o->num_parameters, st_shape_text(x).text);
    *y = x;
    return st_layer_parameter(l, "weight", ST_SHAPE(o->num_parameters), (st_init){ .constant = o->init });
}

/* Runs rows of leaky_relu over the views, with a weight as the slope of each channel, or of all elements. */
static void prelu_walk(const st_call *c, int count, const st_tensor views[], st_row_function *row)
{
    const ptrdiff_t weights = c->param[WEIGHT].shape.n[0];
    for (ptrdiff_t k = 0; k < weights; k++) {
        st_tensor channel[ST_MAX_VIEWS];
        for (int v = 0; v < count; v++) channel[v] = weights > 1 ? st_select(views[v], 1, k) : views[v];
        numbers slope = { st_data(c->param[WEIGHT])[k], 0 };
        st_walk(count, channel, ST_ANY_ORDER, row, &slope);
    }
}

static void prelu_forward(const st_call *c, st_tensor x, st_tensor y)
{
    prelu_walk(c, 2, (st_tensor[]){ y, x }, leaky_relu_value_rows[c->layer->impl->machine]);
}

static void prelu_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    prelu_walk(c, 3, (st_tensor[]){ dx, dy, x }, leaky_relu_derivative_rows[c->layer->impl->machine]);
}

/* Adds up min(x, 0) dy, in a fixed number of lanes: a branch on the sign would be slow. */
static void prelu_sum_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *sum)
{
    enum { LANES = 8 };
    double lane[LANES] = { 0 };
    const st_real *x = at[0], *dy = at[1];
    ptrdiff_t i = 0;
    if (stride[0] == 1 && stride[1] == 1)
        for (; i + LANES <= n; i += LANES)
            EACH(k, LANES) lane[k] += (double)below(x[i + k]) * (double)dy[i + k];
    for (; i < n; i++) lane[0] += (double)below(x[i * stride[0]]) * (double)dy[i * stride[1]];
    double *total = sum;
    EACH(k, LANES) *total += lane[k];
}

static void prelu_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    const ptrdiff_t weights = c->param[WEIGHT].shape.n[0];
    for (ptrdiff_t k = 0; k < weights; k++) {
        double sum = 0;
        st_tensor both[] = { weights > 1 ? st_select(x, 1, k) : x, weights > 1 ? st_select(dy, 1, k) : dy };
        st_walk(2, both, ST_ROW_MAJOR, prelu_sum_row, &sum);
        st_data(st_grad(c, WEIGHT))[k] += (st_real)sum;
    }
}

static const st_field prelu_fields[] = {
    { "num_parameters", ST_FIELD_INT, offsetof(st_prelu_options, num_parameters), .fallback = 1, .least = 1 },
    { ANY_NUMBER(st_prelu_options, init), .fallback = 0.25 },
    { 0 },
};

const st_layer_type layer_type_prelu = {
    .name = "prelu",
    .options_size = sizeof(st_prelu_options),
    .fields = prelu_fields,
    .plan = prelu_plan,
    .forward = prelu_forward,
    .backward = prelu_backward,
    .gradient = prelu_gradient,
    .traits = &(const layer_traits){ .ignores_y = true },
};

CONSTRUCTOR(prelu, st_prelu_options)
