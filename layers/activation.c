/* activation.c: one table of scalar functions and their derivatives; and prelu, whose slope is a parameter.
 *
 * The functions here call the C library in double, and their results are rounded once; activation_impl.h has
 * those that take a few operations. If the derivative is computed from y, the layer can run in place; if from
 * x, y may be overwritten. layers/fast/activation.c puts in the same functions by vectors. */
#include "layers/activation_impl.h"
#include "layers/types.h"

/* ---- the functions ------------------------------------------------------------------------------ */

static double logistic(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

/* n = exp(2 softplus(x)) - 1 = e (e + 2) with e = exp(x): tanh(softplus(x)) = n / (n + 2), and sech² is 1
 * minus its square. From 40 on both equal their limits in any precision. */
static double expm1_2_softplus(double x)
{
    const double e = exp(x > 40 ? 40 : x);
    return e * (e + 2);
}

static double tanh_softplus(double x)
{
    return expm1_2_softplus(x) / (expm1_2_softplus(x) + 2);
}

static double sech2_softplus(double x)
{
    return 2 / (expm1_2_softplus(x) + 2) * (1 + tanh_softplus(x));
}

/* Phi(x) and phi(x): the normal distribution and its density. */
static double normal_below(double x)
{
    return erfc(-x * 0.70710678118654752440) / 2; /* erfc: accurate in the left tail */
}

static double normal_density(double x)
{
    return exp(-x * x / 2) * 0.39894228040143267794;
}

/* clang-format off */
VALUE(elu, double, x < 0 ? (double)a * expm1(x) : x)
DERIVATIVE(elu, double, x, x > 0 ? 1 : (double)a * exp(x))

VALUE(selu, double, SELU_SCALE * (x < 0 ? SELU_ALPHA * expm1(x) : x))
DERIVATIVE(selu, double, x, SELU_SCALE * (x > 0 ? 1 : SELU_ALPHA * exp(x)))

VALUE(gelu_none, st_real, (double)clamp_low(x) * normal_below((double)x))
DERIVATIVE(gelu_none, st_real, x, normal_below((double)x) + (double)clamp_both(x) * normal_density((double)x))

VALUE(gelu_tanh, st_real, (double)clamp_low(x) * logistic(gelu_u((double)x)))
DERIVATIVE(gelu_tanh, st_real, x, gelu_tanh_slope_of((double)at_25(x), logistic(gelu_u((double)at_25(x)))))

VALUE(silu, st_real, (double)clamp_low(x) * logistic((double)x))
DERIVATIVE(silu, st_real, x, logistic((double)x) * (1 + (double)clamp_both(x) * logistic(-(double)x)))

VALUE(mish, st_real, (double)clamp_low(x) * tanh_softplus((double)x))
DERIVATIVE(mish, st_real, x,
           tanh_softplus((double)x) +
               (double)at_most(clamp_low(x), 40) * logistic((double)x) * sech2_softplus((double)x))

VALUE(sigmoid, double, logistic(x))

VALUE(tanh, double, tanh(x))

VALUE(softplus, double, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)))
DERIVATIVE(softplus, double, x, logistic(x))
/* clang-format on */

/* ---- the hooks ---------------------------------------------------------------------------------- */

/* Adding 0 turns ST_ZERO into 0. */
static int plan_function(st_layer *l, const activation_rows *f, st_shape x, st_shape *y)
{
    const st_field *field = l->type->fields;
    activation_rows *r = st_layer_plan_data(l, sizeof *r);
    if (!r) return -1;
    *r = *f;
    if (field) r->o.a = (st_real)layer_option(l, field[0].name) + 0;
    if (field && field[1].name) r->o.b = (st_real)layer_option(l, field[1].name) + 0;
    *y = x;
    return 0;
}

static void activation_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const activation_rows *r = c->plan;
    constants o = r->o;
    st_walk(2, (st_tensor[]){ y, x }, ST_ANY_ORDER, r->value, &o);
}

static void activation_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const activation_rows *r = c->plan;
    constants o = r->o;
    st_walk(3, (st_tensor[]){ dx, dy, r->from_y ? y : x }, ST_ANY_ORDER, r->derivative, &o);
}

enum { FROM_X, FROM_Y };

#define plain_TARGET
#define FUNCTION(NAME, ...)                                                                                  \
    ROWS(plain, NAME)                                                                                        \
    static const activation_rows NAME##_function = { plain_##NAME##_value_row,                               \
                                                     plain_##NAME##_derivative_row, __VA_ARGS__ };

#define PLAN(NAME)                                                                                           \
    static int NAME##_plan(st_layer *l, st_shape x, st_shape *y)                                             \
    {                                                                                                        \
        return plan_function(l, &NAME##_function, x, y);                                                     \
    }

#define TYPE(NAME, FIELDS, OPTIONS_SIZE)                                                                     \
    const st_layer_type layer_type_##NAME = { .name = #NAME,                                                 \
                                              .options_size = OPTIONS_SIZE,                                  \
                                              .fields = FIELDS,                                              \
                                              .plan = NAME##_plan,                                           \
                                              .forward = activation_forward,                                 \
                                              .backward = activation_backward };

/* A function of FROM_X or FROM_Y, and its constants. */
#define ACTIVATION(NAME, ...)                                                                                \
    FUNCTION(NAME, __VA_ARGS__)                                                                              \
    PLAN(NAME)                                                                                               \
    TYPE(NAME, NULL, 0)                                                                                      \
    PLAIN_CONSTRUCTOR(NAME)

ACTIVATION(relu, FROM_Y)
ACTIVATION(relu6, FROM_Y, { 0, 6 })
ACTIVATION(selu, FROM_X)
ACTIVATION(silu, FROM_X)
ACTIVATION(mish, FROM_X)
ACTIVATION(sigmoid, FROM_Y)
ACTIVATION(tanh, FROM_Y)
ACTIVATION(softplus, FROM_X)
ACTIVATION(softsign, FROM_X)
ACTIVATION(hardsigmoid, FROM_X, { -3, 3 })
ACTIVATION(hardswish, FROM_X, { -3, 3 })

/* ---- functions with options ----------------------------------------------------------------------- */

#define ANY_NUMBER(OPTIONS, NAME) ST_FIELD(REAL, OPTIONS, NAME), .least = -DBL_MAX

/* A function with its fields. */
#define ACTIVATION_OF(NAME, ...)                                                                             \
    static const st_field NAME##_fields[] = { __VA_ARGS__, { 0 } };                                          \
    TYPE(NAME, NAME##_fields, sizeof(st_##NAME##_options))                                                   \
    CONSTRUCTOR(NAME, st_##NAME##_options)

FUNCTION(leaky_relu, FROM_X)
PLAN(leaky_relu)
ACTIVATION_OF(leaky_relu, { ANY_NUMBER(st_leaky_relu_options, slope), .fallback = 0.01 })

FUNCTION(elu, FROM_X)
PLAN(elu)
ACTIVATION_OF(elu, { ANY_NUMBER(st_elu_options, alpha), .fallback = 1 })

FUNCTION(hardtanh, FROM_Y)
static int hardtanh_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_hardtanh_options *o = l->options;
    if (o->min_val >= o->max_val)
        return st_layer_refuse(l, "min_val is %g, expected less than max_val, %g", o->min_val + 0,
                               o->max_val + 0);
    return plan_function(l, &hardtanh_function, x, y);
}

ACTIVATION_OF(hardtanh, { ANY_NUMBER(st_hardtanh_options, min_val), .fallback = -1 },
              { ANY_NUMBER(st_hardtanh_options, max_val), .fallback = 1 })

/* gelu is one of two functions. */
FUNCTION(gelu_none, FROM_X)
FUNCTION(gelu_tanh, FROM_X)

bool activation_by_tanh(const st_layer *l)
{
    return ((const st_gelu_options *)l->options)->approximate == ST_GELU_TANH;
}

static int gelu_plan(st_layer *l, st_shape x, st_shape *y)
{
    return plan_function(l, activation_by_tanh(l) ? &gelu_tanh_function : &gelu_none_function, x, y);
}

static const char *const gelu_approximations[] = { "none", "tanh", NULL };

static const st_field gelu_fields[] = {
    { ST_FIELD(CHOICE, st_gelu_options, approximate), .choices = gelu_approximations },
    { 0 },
};

TYPE(gelu, gelu_fields, sizeof(st_gelu_options))
CONSTRUCTOR(gelu, st_gelu_options)

/* ---- prelu: y = x, or weight x below 0: He et al. 2015 ---------------------------------------------- */

enum { WEIGHT };

static int prelu_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_prelu_options *o = l->options;
    if (o->num_parameters > 1 && (x.rank < 2 || x.n[1] != o->num_parameters))
        return st_layer_refuse(l, "num_parameters=%d of an input %s, expected 1 or its channels",
                               o->num_parameters, st_shape_text(x).text);
    if (plan_function(l, &leaky_relu_function, x, y)) return -1;
    return st_layer_parameter(l, "weight", ST_SHAPE(o->num_parameters), (st_init){ .constant = o->init });
}

/* Runs rows of leaky_relu over the views, with a weight as the slope of each channel, or of all elements. */
static void prelu_walk(const st_call *c, int count, const st_tensor views[], st_row_function *row)
{
    const ptrdiff_t weights = c->param[WEIGHT].shape.n[0];
    for (ptrdiff_t k = 0; k < weights; k++) {
        st_tensor channel[ST_MAX_VIEWS];
        for (int v = 0; v < count; v++) channel[v] = weights > 1 ? st_select(views[v], 1, k) : views[v];
        constants slope = { st_data(c->param[WEIGHT])[k], 0 };
        st_walk(count, channel, ST_ANY_ORDER, row, &slope);
    }
}

static void prelu_forward(const st_call *c, st_tensor x, st_tensor y)
{
    prelu_walk(c, 2, (st_tensor[]){ y, x }, ((const activation_rows *)c->plan)->value);
}

static void prelu_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    prelu_walk(c, 3, (st_tensor[]){ dx, dy, x }, ((const activation_rows *)c->plan)->derivative);
}

/* Adds up min(x, 0) dy. */
static void prelu_sum_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *sum)
{
    for (ptrdiff_t i = 0; i < n; i++)
        *(double *)sum += (double)negative_part(at[0][i * stride[0]]) * (double)at[1][i * stride[1]];
}

void prelu_add_gradient(const st_call *c, st_tensor x, st_tensor dy, st_row_function *sum_row)
{
    const ptrdiff_t weights = c->param[WEIGHT].shape.n[0];
    for (ptrdiff_t k = 0; k < weights; k++) {
        double sum = 0;
        st_tensor both[] = { weights > 1 ? st_select(x, 1, k) : x, weights > 1 ? st_select(dy, 1, k) : dy };
        st_walk(2, both, ST_ROW_MAJOR, sum_row, &sum);
        st_data(st_grad(c, WEIGHT))[k] += (st_real)sum;
    }
}

static void prelu_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    prelu_add_gradient(c, x, dy, prelu_sum_row);
}

static const st_field prelu_fields[] = {
    { ST_FIELD(INT, st_prelu_options, num_parameters), .fallback = 1, .least = 1 },
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
};

CONSTRUCTOR(prelu, st_prelu_options)
