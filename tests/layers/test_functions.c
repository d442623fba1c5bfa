/* test_functions.c: how near the activation functions and their derivatives are to the true ones, in units in
 * the last place, on every engine; and softmax near its limits. The oracle is the C library in a wider type.
 *
 *     STRIDE_ULP=1 build/float/tests/test_functions      prints the table of the worst, over all floats
 *
 * STRIDE_ULP=n takes every n-th float; `make check-ulp` does. */
#include "layers/layers.h"
#include "tests/layers/layer_claims.h"
#include "tests/support.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#ifdef STRIDE_DOUBLE
typedef long double real;
#else
typedef double real; /* 29 more bits than a float */
#endif

static const real PI = (real)3.14159265358979323846264338327950288L;

static real logistic(real x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static real normal_below(real x)
{
    return erfc(-x * sqrt((real)0.5)) / 2;
}

static real normal_density(real x)
{
    return exp(-x * x / 2) / sqrt(2 * PI);
}

static real gelu_u(real x)
{
    return 2 * sqrt(2 / PI) * (x + (real)0.044715L * x * x * x);
}

/* n / (n + 2) with n = e (e + 2), and 1 minus its square. */
static real mish_factor(real x)
{
    real e = exp(fmin(x, (real)100)), n = e * (e + 2);
    return n / (n + 2);
}

static real mish_rest(real x)
{
    real e = exp(fmin(x, (real)100)), n = e * (e + 2);
    return 4 * (n + 1) / (n + 2) / (n + 2);
}

#define SELU_SCALE (real)1.0507009873554804934193349852946L
#define SELU_ALPHA (real)1.6732632423543772848170429916717L

/* clang-format off */
#define FUNCTION(NAME, VALUE, SLOPE)                                                                         \
    static real NAME(real x) { return VALUE; }                                                               \
    static real NAME##_slope(real x) { return SLOPE; }
FUNCTION(elu, x > 0 ? x : expm1(x), x > 0 ? 1 : exp(x))
FUNCTION(selu, SELU_SCALE * (x > 0 ? x : SELU_ALPHA * expm1(x)),
         SELU_SCALE * (x > 0 ? 1 : SELU_ALPHA * exp(x)))
FUNCTION(gelu_none, x * normal_below(x), normal_below(x) + x * normal_density(x))
FUNCTION(gelu_tanh, x * logistic(gelu_u(x)),
         logistic(gelu_u(x)) + x * logistic(gelu_u(x)) * logistic(-gelu_u(x)) *
                               2 * sqrt(2 / PI) * (1 + 3 * (real)0.044715L * x * x))
FUNCTION(silu, x * logistic(x), logistic(x) * (1 + x * logistic(-x)))
FUNCTION(mish, x * mish_factor(x), mish_factor(x) + x * logistic(x) * mish_rest(x))
FUNCTION(sigmoid, logistic(x), logistic(x) * logistic(-x))
FUNCTION(hyperbolic, tanh(x), 1 / (cosh(x) * cosh(x)))
FUNCTION(softplus, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)), logistic(x))
FUNCTION(softsign, x / (1 + fabs(x)), 1 / ((1 + fabs(x)) * (1 + fabs(x))))
FUNCTION(hardsigmoid, x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6, x > -3 && x <= 3 ? (real)1 / 6 : 0)
FUNCTION(hardswish, x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6, x <= -3 ? 0 : x > 3 ? 1 : (2 * x + 3) / 6)
/* clang-format on */

static st_layer *make_elu(void)
{
    return st_elu();
}

static st_layer *make_gelu(void)
{
    return st_gelu();
}

static st_layer *make_gelu_tanh(void)
{
    return st_gelu(.approximate = ST_GELU_TANH);
}

/* The greatest errors that are allowed, in float and in double. A slope that crosses 0 is measured there in
 * units of 1/64, and so is one from y, which has rounded off what a small slope depends on: its error there
 * is at most 64 times that of y. Definitions in double round the
 * argument of exp or erfc, which vectors of gelu do not; both multiply x with numbers below the normal
 * range. */
static const struct function {
    const char *name;
    st_layer *(*make)(void);
    real (*value)(real x), (*slope)(real x);
    double limit[2], slope_limit[2], definition_in_double;
    bool coarse;
} functions[] = {
    { "elu", make_elu, elu, elu_slope, { 1.1, 2 }, { 1, 2 }, 2 },
    { "selu", st_selu, selu, selu_slope, { 1.8, 4 }, { 1.8, 4 }, 4 },
    { "gelu", make_gelu, gelu_none, gelu_none_slope, { 4, 40 }, { 32, 64 }, 2000, true },
    { "gelu by tanh", make_gelu_tanh, gelu_tanh, gelu_tanh_slope, { 0.6, 2000 }, { 0.75, 64 }, 2000, true },
    { "silu", st_silu, silu, silu_slope, { 2.5, 4 }, { 9, 64 }, 400, true },
    { "mish", st_mish, mish, mish_slope, { 0.6, 400 }, { 0.75, 64 }, 400, true },
    { "sigmoid", st_sigmoid, sigmoid, sigmoid_slope, { 2.3, 4 }, { 49, 256 }, 4, true },
    { "tanh", st_tanh, hyperbolic, hyperbolic_slope, { 0.75, 4 }, { 33, 256 }, 4, true },
    { "softplus", st_softplus, softplus, softplus_slope, { 0.6, 4 }, { 2.3, 4 }, 4 },
    { "softsign", st_softsign, softsign, softsign_slope, { 1.5, 1.5 }, { 4, 4 }, 1.5 },
    { "hardsigmoid", st_hardsigmoid, hardsigmoid, hardsigmoid_slope, { 1.5, 1.5 }, { 1, 1 }, 1.5 },
    { "hardswish", st_hardswish, hardswish, hardswish_slope, { 2.5, 2.5 }, { 1.5, 1.5 }, 2.5, true },
};

enum { FUNCTIONS = sizeof functions / sizeof *functions, IN_DOUBLE = sizeof(st_real) == 8 };

/* ---- errors ------------------------------------------------------------------------------------------- */

static double in_ulps(st_real got, real want, real least)
{
    int power;
    const real size = fmax(fabs(want), least), most = (real)ST_REAL_MAX;
    if (!isfinite((double)got)) return fabs(want) >= most ? 0 : INFINITY;
    frexp(size, &power);
    const int digits = IN_DOUBLE ? 53 : 24, smallest = IN_DOUBLE ? -1021 : -125;
    return (double)(fabs((real)got - want) / ldexp((real)1, (power < smallest ? smallest : power) - digits));
}

typedef struct worst {
    double ulps, at;
} worst;

static void take(worst *w, double ulps, st_real x)
{
    if (!(ulps <= w->ulps)) *w = (worst){ ulps, (double)x };
}

/* The k-th of `count` numbers that cover the bits of all finite ones, of doubles those of 2^-60 to 2^12 in
 * size. */
static st_real number(uint64_t k, uint64_t count)
{
    st_real x;
    if (IN_DOUBLE) {
        const uint64_t low = (1023 - 60), high = 1023 + 12, span = (high - low) << 52;
        uint64_t bits = (low << 52) + (span / count) * (k / 2) * 2 + k * 0x9e3779b97f4a7c15 % (span / count);
        bits = (bits & ~((uint64_t)1 << 63)) | (k % 2) << 63;
        memcpy(&x, &bits, sizeof x);
    } else {
        const uint64_t bits = ((uint64_t)1 << 32) / count * k;
        const uint32_t low = (uint32_t)bits;
        memcpy(&x, &low, sizeof x);
    }
    return x;
}

/* The worst of a function, of its derivative, and of that in units of 1/64 where it is smaller. */
typedef struct errors {
    worst value, slope, coarse;
} errors;

static errors measure(const struct function *f, uint64_t count)
{
    enum { BLOCK = 8191 }; /* no multiple of lanes */
    auto_layer *l = f->make();
    auto_tensor x = st_tensor_new(ST_SHAPE(1, BLOCK)), y = st_tensor_new(x.shape),
                dx = st_tensor_new(x.shape), dy = full(x.shape, 1);
    assert_built(l, x.shape);
    errors e = { 0 };
    for (uint64_t done = 0; done < count; done += BLOCK) {
        for (int k = 0; k < BLOCK; k++) {
            const st_real at = number((done + k) % count, count);
            st_data(x)[k] = isfinite((double)at) ? at : 1;
        }
        st_layer_forward(l, x, y);
        st_layer_backward(l, x, y, dy, dx);
        for (int k = 0; k < BLOCK; k++) {
            const st_real at = st_data(x)[k];
            const real slope = f->slope(at);
            take(&e.value, in_ulps(st_data(y)[k], f->value(at), 0), at);
            take(&e.slope, in_ulps(st_data(dx)[k], slope, 0), at);
            take(&e.coarse, in_ulps(st_data(dx)[k], slope, (real)1 / 64), at);
        }
    }
    return e;
}

TEST(functions_are_within_a_few_ulps_on_every_engine)
{
    const uint64_t count = 65536 - 15;
    for (int e = 0; e < ENGINES; e++) {
        if (!choose_engine(engines[e])) continue;
        for (int i = 0; i < FUNCTIONS; i++) {
            const struct function *f = &functions[i];
            about("%s, %s", f->name, engines[e]);
            const errors all = measure(f, count);
            const worst value = all.value, slope = f->coarse ? all.coarse : all.slope;
            const double limit = e == 0 && IN_DOUBLE ? f->definition_in_double : f->limit[IN_DOUBLE];
            if (!(value.ulps <= limit))
                fail_msg("%s of %.9g: %.3g ulp, expected %g", f->name, value.at, value.ulps, limit);
            if (!(slope.ulps <= f->slope_limit[IN_DOUBLE]))
                fail_msg("the derivative of %s at %.9g: %.3g ulp, expected %g", f->name, slope.at, slope.ulps,
                         f->slope_limit[IN_DOUBLE]);
        }
    }
    use_engine(NULL);
}

/* The table of docs/conformance.md. */
TEST(the_worst_of_each_function)
{
    const char *step = getenv("STRIDE_ULP");
    if (!step) skip_because("STRIDE_ULP is not set (make check-ulp)");
    const uint64_t count = ((uint64_t)1 << 32) / strtoull(step, NULL, 10);
    printf("| function | worst, ulp | at x | derivative, ulp | at x | derivative, ulp of 1/64 or more |\n");
    printf("|---|---|---|---|---|---|\n");
    for (int i = 0; i < FUNCTIONS; i++) {
        const errors e = measure(&functions[i], count);
        printf("| %s | %.2f | %.6g | %.3g | %.6g | %.2f |\n", functions[i].name, e.value.ulps, e.value.at,
               e.slope.ulps, e.slope.at, e.coarse.ulps);
        fflush(stdout);
    }
}

/* ---- softmax ------------------------------------------------------------------------------------------ */

/* log(1 + exp(-d)) near 0, along rows and beside each other. */
TEST(log_softmax_of_the_largest_logit_keeps_what_floats_hold)
{
    for (int e = 0; e < ENGINES; e++) {
        if (!choose_engine(engines[e])) continue;
        for (int beside = 0; beside < 2; beside++) {
            auto_layer *l = st_log_softmax();
            auto_tensor x = st_tensor_new(beside ? ST_SHAPE(1, 3, 5) : ST_SHAPE(5, 3));
            for (int k = 0; k < 15; k++) {
                const int row = beside ? k % 5 : k / 3, i = beside ? k / 5 : k % 3;
                st_data(x)[k] = (st_real)(i == 1 ? 0 : -20 * (row + 1));
            }
            assert_built(l, x.shape);
            auto_tensor y = forward(l, x);
            for (int row = 0; row < 5; row++) {
                const st_real got = st_data(y)[beside ? 5 + row : 3 * row + 1];
                about("%s, %d", engines[e], row);
                assert_true(in_ulps(got, -log1p(2 * exp((real)-20 * (row + 1))), 0) <= 4);
            }
        }
    }
    use_engine(NULL);
}

/* Columns beside each other, of blocks of every length, have the results of rows. */
TEST(softmax_of_columns_is_that_of_rows)
{
    static const ptrdiff_t columns[] = { 2, 3, 8, 12, 17, 24, 35, 51 };
    static const ptrdiff_t lengths[] = { 7, 61, 150, 601 };
    for (int e = 0; e < ENGINES; e++) {
        if (!choose_engine(engines[e])) continue;
        for (int i = 0; i < 64; i++) {
            const ptrdiff_t step = columns[i / 8], n = lengths[i / 2 % 4];
            auto_layer *l = i % 2 ? st_log_softmax() : st_softmax();
            auto_layer *of_rows = i % 2 ? st_log_softmax() : st_softmax();
            dice d = { { (uint64_t)i } };
            about("%s, %td columns of %td", engines[e], step, n);
            auto_tensor x = roll_tensor(&d, ST_SHAPE(2, n, step), -9, 9),
                        dy = roll_tensor(&d, x.shape, -9, 9), dx = full(x.shape, NAN);
            auto_tensor rows = st_tensor_new(ST_SHAPE(2 * step, n)), dy_rows = st_tensor_new(rows.shape),
                        dx_rows = full(rows.shape, NAN);
            const st_shape each = ST_SHAPE(2, step, n);
            st_copy(st_reshape(rows, each), st_transpose(x, 1, 2));
            st_copy(st_reshape(dy_rows, each), st_transpose(dy, 1, 2));
            assert_built(l, x.shape), assert_built(of_rows, rows.shape);
            auto_tensor y = forward(l, x), y_rows = forward(of_rows, rows);
            st_layer_backward(l, x, y, dy, dx);
            st_layer_backward(of_rows, rows, y_rows, dy_rows, dx_rows);
            const double limit = IN_DOUBLE ? 1e-12 : 2e-5;
            assert_near(st_transpose(y, 1, 2), st_reshape(y_rows, each), limit);
            assert_near(st_transpose(dx, 1, 2), st_reshape(dx_rows, each), limit);
        }
    }
    use_engine(NULL);
}
