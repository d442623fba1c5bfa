/* test_gradcheck.c: the gradient checker passes every correct layer, and names every planted fault.
 *
 * Faults are planted in one small layer, y = W x² + b, which is checked to be right without them. All of
 * them change a derivative by as much as itself or more, so that float, good to two digits, finds them
 * too. */
#include "tests/support.h"

#include "nn/check/gradcheck.h"
#include "nn/share/share.h"
#include "tests/nn/counter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the layer that faults are planted in -------------------------------------------------------- */

/* clang-format off */
typedef enum fault {
    NO_FAULT,
    /* in forward; memory that is filled once */
    WRITES_X, WRITES_W, CHANGES_EACH_TIME, LEAVES_Y, ADDS_TO_Y, NAN_IN_Y, IGNORES_X, IGNORES_W, IGNORES_B,
    READS_FLAT, KEEPS_FIRST_X,
    /* in backward; scratch holds anything on entry */
    FACTOR_IN_ONE_CHANNEL, TRANSPOSED, ADDS_TO_DX, LEAVES_DX, MEMORY_OF_NEIGHBOUR, X_FROM_SCRATCH,
    SIGN_OF_LAST, NAN_IN_DX, ZEROES_DX, BACKWARD_WRITES_X, BACKWARD_WRITES_Y, BACKWARD_WRITES_DY,
    BACKWARD_SCALES_DY, WRONG_IN_INFERENCE, FORGETS_W, BACKWARD_READS_FLAT,
    /* in gradient */
    NO_BIAS_GRADIENT, OVERWRITES_WEIGHT, OVERWRITES_BIAS, FIRST_IMAGE_ONLY, GRADIENT_TRANSPOSED,
    GRADIENT_OF_NEIGHBOUR, GRADIENT_TWICE, NAN_IN_GRADIENT, GRADIENT_WRITES_DY, GRADIENT_WRITES_W,
    GRADIENT_READS_FLAT,
    FAULTS
} fault;
/* clang-format on */

typedef struct planted {
    int fault;
} planted;

enum { FEATURES = 4, WEIGHT = 0, BIAS = 1 };

static bool has(const st_layer *l, fault f)
{
    return ((const planted *)l->options)->fault == (int)f;
}

static st_real *at(st_tensor x, ptrdiff_t row, ptrdiff_t column)
{
    return st_at(x, ST_INDEX(row, column));
}

/* If there is such an image. */
static void put(st_tensor x, ptrdiff_t row, ptrdiff_t column, double value)
{
    if (row < x.shape.n[0]) *at(x, row, column) = (st_real)value;
}

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    const st_init ones = { .constant = 1 }, uniform = { .uniform = 1 };
    if (st_layer_parameter(l, "weight", ST_SHAPE(FEATURES, FEATURES), has(l, FORGETS_W) ? ones : uniform))
        return -1;
    if (st_layer_parameter(l, "bias", ST_SHAPE(FEATURES), (st_init){ .uniform = 1 })) return -1;
    return st_layer_memory(l, x) || st_layer_scratch(l, x);
}

static void remember(const st_call *c, st_tensor x)
{
    st_tensor scratch = st_narrow(st_scratch(c, 0), 0, 0, x.shape.n[0]), memory = st_memory(c, 0);
    st_copy(scratch, x);
    if (!has(c->layer, KEEPS_FIRST_X) || *st_data(memory) == 0) st_copy(memory, x);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    static int calls;
    remember(c, x);
    for (ptrdiff_t n = 0; n < x.shape.n[0]; n++)
        for (ptrdiff_t o = 0; o < FEATURES; o++) {
            st_real sum = has(c->layer, IGNORES_B) ? 0 : *st_at(c->param[BIAS], ST_INDEX(o));
            for (ptrdiff_t i = 0; i < FEATURES && !has(c->layer, IGNORES_X); i++) {
                st_real u = has(c->layer, READS_FLAT) ? st_data(x)[n * FEATURES + i] : *at(x, n, i);
                sum += (has(c->layer, IGNORES_W) ? 1 : *at(c->param[WEIGHT], o, i)) * u * u;
            }
            if (has(c->layer, ADDS_TO_Y)) sum += *at(y, n, o);
            if (has(c->layer, LEAVES_Y) && o == 1) continue;
            *at(y, n, o) = sum;
        }
    if (has(c->layer, WRITES_X)) *at(x, 0, 1) += 1;
    if (has(c->layer, WRITES_W)) *at(c->param[WEIGHT], 2, 1) += 1;
    if (has(c->layer, CHANGES_EACH_TIME)) *at(y, 0, 0) += (st_real)++calls;
    if (has(c->layer, NAN_IN_Y)) put(y, 2, 1, NAN);
}

static st_real kept(const st_call *c, st_tensor x, ptrdiff_t n, ptrdiff_t i)
{
    if (has(c->layer, BACKWARD_READS_FLAT)) return st_data(x)[n * FEATURES + i];
    if (has(c->layer, X_FROM_SCRATCH)) return *at(st_scratch(c, 0), n, i);
    if (has(c->layer, MEMORY_OF_NEIGHBOUR)) n = (n + 1) % x.shape.n[0];
    return *at(st_memory(c, 0), n, i);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    ptrdiff_t images = x.shape.n[0], last = FEATURES - 1;
    for (ptrdiff_t n = 0; n < images; n++)
        for (ptrdiff_t i = 0; i < FEATURES; i++) {
            st_real sum = 0;
            for (ptrdiff_t o = 0; o < FEATURES; o++) {
                st_real w =
                    has(c->layer, TRANSPOSED) ? *at(c->param[WEIGHT], i, o) : *at(c->param[WEIGHT], o, i);
                if (has(c->layer, IGNORES_W) || has(c->layer, FORGETS_W)) w = 1;
                sum += w * 2 * kept(c, x, n, i) * *at(dy, n, o);
            }
            if (has(c->layer, FACTOR_IN_ONE_CHANNEL) && i == 2) sum *= 2;
            if (has(c->layer, SIGN_OF_LAST) && n + 1 == images && i == last) sum = -sum;
            if (has(c->layer, NAN_IN_DX) && n == 1 && i == 2) sum = (st_real)NAN;
            if (has(c->layer, ZEROES_DX) || has(c->layer, IGNORES_X)) sum = 0;
            if (has(c->layer, WRONG_IN_INFERENCE) && !c->training) sum = -sum;
            if (has(c->layer, ADDS_TO_DX)) sum += *at(dx, n, i);
            if (has(c->layer, LEAVES_DX) && i == last) continue;
            *at(dx, n, i) = sum;
        }
    if (has(c->layer, BACKWARD_WRITES_X)) put(x, 0, 3, 0);
    if (has(c->layer, BACKWARD_WRITES_Y)) put(y, 1, 0, 0);
    if (has(c->layer, BACKWARD_WRITES_DY)) put(dy, 1, 2, 0);
    if (has(c->layer, BACKWARD_SCALES_DY)) st_scale(dy, 2);
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    st_tensor dw = st_grad(c, WEIGHT), db = st_grad(c, BIAS);
    ptrdiff_t images = has(c->layer, FIRST_IMAGE_ONLY) ? 1 : x.shape.n[0];
    if (has(c->layer, OVERWRITES_WEIGHT)) st_fill(dw, 0);
    if (has(c->layer, OVERWRITES_BIAS)) st_fill(db, 0);
    for (ptrdiff_t n = 0; n < images; n++)
        for (ptrdiff_t o = 0; o < FEATURES; o++) {
            ptrdiff_t to = has(c->layer, GRADIENT_OF_NEIGHBOUR) ? (o + 1) % FEATURES : o;
            if ((!has(c->layer, NO_BIAS_GRADIENT) || o != 1) && !has(c->layer, IGNORES_B))
                *st_at(db, ST_INDEX(to)) += *at(dy, n, o);
            for (ptrdiff_t i = 0; i < FEATURES && !has(c->layer, IGNORES_W) && !has(c->layer, IGNORES_X);
                 i++) {
                st_real u = has(c->layer, GRADIENT_READS_FLAT) ? st_data(x)[n * FEATURES + i] : *at(x, n, i);
                *(has(c->layer, GRADIENT_TRANSPOSED) ? at(dw, i, o) : at(dw, o, i)) +=
                    (has(c->layer, GRADIENT_TWICE) ? 2 : 1) * *at(dy, n, o) * u * u;
            }
        }
    if (has(c->layer, NAN_IN_GRADIENT)) put(dw, 3, 0, NAN);
    if (has(c->layer, GRADIENT_WRITES_DY)) put(dy, 2, 3, 0);
    if (has(c->layer, GRADIENT_WRITES_W)) *at(c->param[WEIGHT], 2, 1) += 1;
}

static const st_field fields[] = { { "fault", ST_FIELD_INT, offsetof(planted, fault), .below = FAULTS },
                                   { 0 } };
static const st_layer_type faulty = { .name = "faulty",
                                      .options_size = sizeof(planted),
                                      .fields = fields,
                                      .plan = plan,
                                      .forward = forward,
                                      .backward = backward,
                                      .gradient = gradient };

/* Checks it on 3 images: CHECK(l, 0), CHECK(l, .most = 5). */
#define CHECK(l, ...) st_gradcheck_layer(l, ST_SHAPE(3, FEATURES), (st_gradcheck_options){ __VA_ARGS__ })

static st_layer *layer_with(fault f)
{
    st_layer *l = st_layer_new(&faulty, &(planted){ (int)f }, 0, NULL);
    assert_non_null(l);
    return l;
}

TEST(the_layer_without_a_fault_passes)
{
    auto_layer *l = layer_with(NO_FAULT);
    st_gradcheck_result r = CHECK(l, 0);
    assert_string_equal(r.text, "passed");
    assert_true(r.passed && r.worst <= (sizeof(st_real) == 8 ? 1e-6 : 5e-2));
    assert_int_equal(r.checked, 12 + 16 + 4);
    assert_int_equal(r.kinks, 0);
}

/* ---- every planted fault is named ---------------------------------------------------------------- */

#ifdef __has_feature
#if __has_feature(memory_sanitizer)
#define SEES_SCRATCH /* the sanitizer finds what is read from scratch, and ends the program */
#endif
#endif

/* A fault, how the checker's text begins, and what it contains besides. */
static const struct {
    fault fault;
    const char *begins, *contains;
} faults[] = {
    /* forward */
    { WRITES_X, "forward writes its input: x[0, 1]", "" },
    { WRITES_W, "forward writes a parameter: element [9]", "" },
    { CHANGES_EACH_TIME, "forward leaves some of y, or gives another result each time: y[0, 0]", "" },
    { LEAVES_Y, "forward leaves some of y, or gives another result each time: y[0, 1]", "" },
    { ADDS_TO_Y, "forward leaves some of y, or gives another result each time: y[0, 0]", "" },
    { NAN_IN_Y, "forward gives y[2, 1] as NaN", "" },
    { READS_FLAT, "forward reads an x of other strides wrongly: y[", "" },
    { BACKWARD_READS_FLAT, "backward reads an x of other strides wrongly: dx[", "" },
    { GRADIENT_READS_FLAT, "gradient reads an x of other strides wrongly: element [", "" },
    /* backward; a dy that is written changes the next dx, but is what is named */
    { ADDS_TO_DX, "backward does not overwrite dx: dx[0, 0]", "" },
    { LEAVES_DX, "backward does not overwrite dx: dx[0, 3]", "" },
    { BACKWARD_WRITES_X, "backward or gradient writes x: x[0, 3]", "" },
    { BACKWARD_WRITES_Y, "backward or gradient writes y: y[1, 0]", "" },
    { GRADIENT_WRITES_DY, "backward or gradient writes dy: dy[2, 3]", "" },
    { BACKWARD_WRITES_DY, "backward or gradient writes dy: dy[1, 2]", "" },
    { BACKWARD_SCALES_DY, "backward or gradient writes dy: dy[0, 0]", "" },
    { GRADIENT_WRITES_W, "backward or gradient writes a parameter: element [9]", "" },
    /* dx */
    { FACTOR_IN_ONE_CHANNEL, "x[", ", 2]: analytic " },
    { TRANSPOSED, "x[", "]: analytic " },
    { FORGETS_W, "x[", "]: analytic " }, /* w is 1 before it is moved for the check */
    { SIGN_OF_LAST, "x[2, 3]: analytic ", "relative error 2.0e+00" },
    { ZEROES_DX, "x[", "]: analytic 0, numeric " },
    { NAN_IN_DX, "x[1, 2]: NaN", "" },
    { MEMORY_OF_NEIGHBOUR, "x[", "]: analytic " },
    /* gradients */
    { NO_BIAS_GRADIENT, "bias[1]: analytic 0, numeric ", "relative error 1.0e+00" },
    { FIRST_IMAGE_ONLY, "weight[", "]: analytic " },
    { GRADIENT_TRANSPOSED, "weight[", "]: analytic " },
    { GRADIENT_OF_NEIGHBOUR, "bias[", "]: analytic " },
    { GRADIENT_TWICE, "weight[", "relative error 5.0e-01" },
    { OVERWRITES_WEIGHT, "gradient does not add to what is there, 1: element [0] is", "" },
    { OVERWRITES_BIAS, "gradient does not add to what is there, 1: element [16] is", "" },
    { NAN_IN_GRADIENT, "weight[3, 0]: NaN", "" },
    /* zero on both sides proves nothing */
    { IGNORES_X, "x: VACUOUS", "zero on both sides" },
    { IGNORES_W, "weight: VACUOUS", "" },
    { IGNORES_B, "bias: VACUOUS", "" },
    /* right until another pass has used the memory, or the scratch */
    { KEEPS_FIRST_X, "x[", "]: analytic " },
#ifndef SEES_SCRATCH
    { X_FROM_SCRATCH, "x[", "]: NaN" },
#endif
};

static bool is_named(const st_gradcheck_result *r, const char *begins, const char *contains)
{
    char text[128];
    snprintf(text, sizeof text, "faulty: %s", begins);
    return !r->passed && strncmp(r->text, text, strlen(text)) == 0 && strstr(r->text, contains);
}

TEST(every_fault_is_named)
{
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
        auto_layer *l = layer_with(faults[k].fault);
        st_gradcheck_result r = CHECK(l, 0);
        if (!is_named(&r, faults[k].begins, faults[k].contains))
            fail_msg("fault %d: \"%s\", expected \"faulty: %s … %s\"", (int)faults[k].fault, r.text,
                     faults[k].begins, faults[k].contains);
        assert_null(st_error());
    }
}

/* A layer that holds one, and forgets that it runs backward for the parameters, too. */
static int plan_holder(st_layer *l, st_shape x, st_shape *y)
{
    return st_plan_child(l, 0, x, y);
}
static void forward_holder(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, st_forward_child(c, 0, x));
}
static void backward_holder(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    if (!st_is_null(dx)) st_backward_child(c, 0, x, dy, dx);
}
static const st_layer_type holder = { .name = "holder",
                                      .plan = plan_holder,
                                      .forward = forward_holder,
                                      .backward = backward_holder,
                                      .children = 1 };

TEST(children_that_run_backward_for_dx_alone_are_found)
{
    auto_layer *l = st_layer_new(&holder, NULL, 1, (st_layer *[]){ layer_with(NO_FAULT) });
    st_gradcheck_result r = CHECK(l, 0);
    assert_false(r.passed);
    assert_non_null(
        strstr(r.text, "holder: backward with a null dx changes the gradient: 1 + element [0] is 1, "));
}

TEST(a_parameter_is_named_by_its_path)
{
    auto_layer *l = st_sequence(st_tanh(), st_sequence(layer_with(NO_BIAS_GRADIENT), st_tanh()));
    st_gradcheck_result r = CHECK(l, 0);
    assert_false(r.passed);
    assert_non_null(strstr(r.text, "sequence: 1.0.bias[1]: analytic 0, numeric "));
}

/* ---- options ------------------------------------------------------------------------------------- */

TEST(options_are_heeded)
{
    auto_layer *inverse = layer_with(WRONG_IN_INFERENCE), *d = st_dropout(.p = 0.5),
               *forgets = layer_with(FORGETS_W), *twice = layer_with(FACTOR_IN_ONE_CHANNEL),
               *right = layer_with(NO_FAULT);
    assert_true(CHECK(inverse, 0).passed);
    assert_false(CHECK(inverse, .inference = true).passed);
    assert_true(st_gradcheck_layer(d, ST_SHAPE(3, 10), (st_gradcheck_options){ .inference = true }).passed);
    assert_true(CHECK(forgets, .keep_parameters = true).passed);
    assert_true(CHECK(twice, .tolerance = 0.6).passed);
    assert_false(CHECK(twice, .tolerance = 0.4).passed);
    assert_false(CHECK(right, .tolerance = 1e-15).passed);
    assert_string_equal(CHECK(right, .directions = -1).text, "faulty: directions is -1, expected at least 0");
    assert_string_equal(CHECK(right, .most = -1).text, "faulty: most is -1, expected at least 0");
    assert_string_equal(CHECK(right, .kinks = -1).text, "faulty: kinks is -1, expected at least 0");
    assert_string_equal(CHECK(right, .tolerance = -NAN).text,
                        "faulty: tolerance is nan, expected a positive number");
    assert_string_equal(CHECK(right, .step = INFINITY).text,
                        "faulty: step is inf, expected a positive number");
}

/* y = (1 + seen) x², and in training `seen` moves towards the mean of x: another function each time, unless
 * it begins with the same state. Forward passes are counted. */
static int passes;

static int drift_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    if (st_layer_parameter(l, "weight", x, (st_init){ .uniform = 1 })) return -1;
    return st_layer_state(l, "seen", ST_SHAPE(1), 0.5);
}

static void drift_forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_real *seen = st_data(c->layer->state[0]), sum = 0;
    for (ptrdiff_t e = 0; e < st_numel(y); e++) {
        const st_real value = *element(x, e);
        *element(y, e) = (1 + *seen) * value * value + *element(c->param[0], e) * value;
        sum += value;
    }
    if (c->training) *seen += (sum / (st_real)st_numel(y) - *seen) / 4 + 1;
    passes++;
}

static void drift_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const st_real before = (st_real)0.5; /* what `seen` was before the forward pass */
    for (ptrdiff_t e = 0; e < st_numel(y); e++)
        *element(dx, e) = (2 * (1 + before) * *element(x, e) + *element(c->param[0], e)) * *element(dy, e);
}

static void drift_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    for (ptrdiff_t e = 0; e < st_numel(y); e++)
        *element(st_grad(c, 0), e) += *element(x, e) * *element(dy, e);
}

static const st_layer_type drift = { .name = "drift",
                                     .chunk = ST_WHOLE_BATCH,
                                     .plan = drift_plan,
                                     .forward = drift_forward,
                                     .backward = drift_backward,
                                     .gradient = drift_gradient };

TEST(parameters_without_a_gradient_hook_are_refused)
{
    st_layer_type two = faulty, one = drift;
    two.gradient = one.gradient = NULL;
    auto_layer *l = st_layer_new(&two, &(planted){ NO_FAULT }, 0, NULL),
               *m = st_layer_new(&one, NULL, 0, NULL);
    st_shape y;
    expect_failure(st_layer_plan(l, ST_SHAPE(3, FEATURES), &y), "2 parameters and no gradient hook");
    expect_failure(st_layer_plan(m, ST_SHAPE(3, 4), &y), "1 parameters and no gradient hook");
}

TEST(each_forward_pass_begins_with_the_same_states)
{
    auto_layer *l = st_layer_new(&drift, NULL, 0, NULL);
    st_gradcheck_result r = st_gradcheck_layer(l, ST_SHAPE(3, 4), (st_gradcheck_options){ 0 });
    assert_string_equal(r.text, "passed");
    assert_true(*st_data(st_layer_states(l)) == (st_real)0.5);
    auto_net *n =
        st_net_new(ST_SHAPE(6), st_dense(.out_features = 4, .no_bias = true), st_batchnorm(.momentum = 0.9));
    auto_tensor x = st_tensor_new(ST_SHAPE(5, 6)), targets = st_tensor_new(ST_SHAPE(5, 4));
    st_normal(x, (st_random_key){ 1, 1 }, 0, 1), st_normal(targets, (st_random_key){ 1, 2 }, 0, 1);
    assert_int_equal(st_net_build(n, 5, 1), 0);
    r = st_gradcheck_net(n, x, targets, st_mse(), (st_gradcheck_options){ 0 });
    assert_string_equal(r.text, "passed");
    assert_true(*st_data(st_net_find(n, "1.running_var")) == 1);
}

/* y = ((3 + x + w1) - w1) + w0 x / 1000: w1 has no effect but rounding, 1e-10 of differences in double, and
 * w0's gradient is small. */
static int cancels_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "weight", ST_SHAPE(2), (st_init){ .uniform = 1 });
}

static void cancels_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const st_real *w = st_data(c->param[0]);
    for (ptrdiff_t e = 0; e < st_numel(y); e++) {
        const st_real value = *element(x, e);
        *element(y, e) = ((3 + value + w[1]) - w[1]) + w[0] * value / 1000;
    }
}

static void cancels_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    st_copy(dx, dy);
    st_scale(dx, 1 + *st_data(c->param[0]) / 1000);
}

static void cancels_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    const double wrong = ((const planted *)c->options)->fault;
    st_real *dw = st_data(st_grad(c, 0));
    for (ptrdiff_t e = 0; e < st_numel(y); e++) dw[0] += *element(x, e) * *element(dy, e) / 1000;
    dw[1] += (st_real)(wrong * 1e-5);
}

TEST(what_rounding_makes_is_no_error)
{
    if (sizeof(st_real) < sizeof(double))
        skip_because("in float a difference quotient is good to two digits");
    const st_layer_type type = { .name = "cancels",
                                 .options_size = sizeof(planted),
                                 .fields = fields,
                                 .plan = cancels_plan,
                                 .forward = cancels_forward,
                                 .backward = cancels_backward,
                                 .gradient = cancels_gradient };
    for (int wrong = 0; wrong < 2; wrong++)
        for (uint64_t seed = 0; seed < 10; seed++) {
            auto_layer *l = st_layer_new(&type, &(planted){ wrong }, 0, NULL);
            const st_gradcheck_result r = st_gradcheck_layer(
                l, ST_SHAPE(3, 200), (st_gradcheck_options){ .seed = seed, .keep_parameters = true });
            if (wrong) assert_non_null(strstr(r.text, "weight[1]: analytic 1e-05"));
            else assert_string_equal(r.text, "passed");
        }
}

/* A batch normalisation takes out the mean, and with it the bias before: what is left of its gradient, and of
 * the differences, is rounding. */
TEST(a_gradient_that_is_0_but_for_rounding_passes)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        about("seed %d", (int)seed);
        auto_net *n = st_net_new(ST_SHAPE(1, 8, 8), st_conv2d(.out_channels = 4, .kernel = { 3 }),
                                 st_batchnorm(), st_sigmoid(), st_conv2d(.out_channels = 4, .kernel = { 3 }),
                                 st_batchnorm(), st_flatten(), st_dense(.out_features = 3));
        auto_tensor x = st_tensor_new(ST_SHAPE(3, 1, 8, 8)), target = tensor_of(ST_SHAPE(3), 0, 1, 2);
        st_normal(x, (st_random_key){ 1, seed }, 0, 1);
        assert_int_equal(st_net_build(n, 3, seed), 0);
        const st_gradcheck_options o = { .seed = seed, .most = 20 };
        assert_string_equal(st_gradcheck_net(n, x, target, st_cross_entropy(), o).text, "passed");
        assert_string_equal(st_gradcheck_layer_at(n->root, x, o).text, "passed");
    }
}

/* 2,000 elements of x and as many parameters: two passes each would be 8,000. */
TEST(a_direction_takes_a_few_passes)
{
    auto_layer *l = st_layer_new(&drift, NULL, 0, NULL);
    passes = 0;
    st_gradcheck_result r =
        st_gradcheck_layer(l, ST_SHAPE(20, 100), (st_gradcheck_options){ .directions = 3 });
    assert_string_equal(r.text, "passed");
    assert_int_equal(r.checked, 3);
    assert_in_range(passes, 6, 40);
}

/* A fault of a gradient, and the tensor that it is found in. */
TEST(a_direction_finds_what_elements_find)
{
    static const struct {
        fault fault;
        const char *begins;
    } wrong[] = {
        { FACTOR_IN_ONE_CHANNEL, "x: analytic " },
        { TRANSPOSED, "x: analytic " },
        { SIGN_OF_LAST, "x: analytic " },
        { ZEROES_DX, "x: analytic 0, numeric " },
        { NAN_IN_DX, "x: NaN" },
        { MEMORY_OF_NEIGHBOUR, "x: analytic " },
        { NO_BIAS_GRADIENT, "bias: analytic " },
        { FIRST_IMAGE_ONLY, "weight: analytic " },
        { GRADIENT_TRANSPOSED, "weight: " },
        { GRADIENT_TWICE, "weight: analytic " },
        { LEAVES_DX, "backward does not " },
        { OVERWRITES_BIAS, "gradient does not add " },
    };
    const double tolerance =
        sizeof(st_real) == 8 ? 1e-6 : 1e-2; /* of the whole, of which a fault is a part */
    auto_layer *right = layer_with(NO_FAULT);
    for (uint64_t seed = 0; seed < 20; seed++) {
        st_gradcheck_result r = CHECK(right, .directions = 1, .seed = seed, .tolerance = tolerance);
        assert_string_equal(r.text, "passed");
        assert_int_equal(r.checked, 1);
    }
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        auto_layer *l = layer_with(wrong[k].fault);
        st_gradcheck_result r = CHECK(l, .directions = 8, .tolerance = tolerance);
        if (!is_named(&r, wrong[k].begins, "")) fail_msg("fault %d: \"%s\"", (int)wrong[k].fault, r.text);
    }
}

/* Elements of such a view share memory: a row and a column, each repeated. */
TEST(a_direction_of_any_view)
{
    auto_layer *l = layer_with(NO_FAULT);
    auto_tensor row = st_tensor_new(ST_SHAPE(1, FEATURES)), column = st_tensor_new(ST_SHAPE(3, 1));
    st_normal(row, (st_random_key){ 1, 1 }, 0, 1), st_normal(column, (st_random_key){ 1, 2 }, 0, 1);
    const st_tensor views[] = { st_expand(row, ST_SHAPE(3, FEATURES)),
                                st_expand(column, ST_SHAPE(3, FEATURES)),
                                st_flip(st_expand(row, ST_SHAPE(3, FEATURES)), 1) };
    for (int i = 0; i < 3; i++) {
        about("view %d", i);
        st_gradcheck_result r = st_gradcheck_layer_at(l, views[i], (st_gradcheck_options){ .directions = 2 });
        assert_string_equal(r.text, "passed");
    }
}

/* There are 12 elements of x, 16 of the weight and 4 of the bias. One that is wrong among 12 is found by some
 * draws of 4 and not by others: by chance by one in three. */
TEST(most_elements_are_drawn_at_random)
{
    auto_layer *l = layer_with(NO_FAULT), *wrong = layer_with(SIGN_OF_LAST);
    assert_int_equal(CHECK(l, 0).checked, 12 + 16 + 4);
    assert_int_equal(CHECK(l, .most = 5).checked, 5 + 5 + 4);
    assert_int_equal(CHECK(l, .most = 99).checked, 12 + 16 + 4);
    int found = 0;
    for (uint64_t seed = 0; seed < 60; seed++) found += !CHECK(wrong, .most = 4, .seed = seed).passed;
    assert_in_range(found, 5, 40);
}

/* ---- nothing is left changed --------------------------------------------------------------------- */

TEST(parameters_and_states_are_restored)
{
    const fault some[] = { NO_FAULT,  WRITES_X,         LEAVES_DX, OVERWRITES_WEIGHT,
                           NAN_IN_DX, NO_BIAS_GRADIENT, IGNORES_B };
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
        auto_layer *l = st_sequence(layer_with(some[k]), st_layer_new(&counter, NULL, 0, NULL));
        auto_tensor x = st_tensor_new(ST_SHAPE(3, FEATURES));
        st_normal(x, (st_random_key){ 1, 1 }, 0, 1);
        assert_int_equal(st_layer_build(l, x.shape, 9), 0);
        auto_tensor parameters = st_tensor_clone(st_layer_parameters(l)),
                    states = st_tensor_clone(st_layer_states(l)), before = st_tensor_clone(x);
        about("fault %d", (int)some[k]);
        assert_int_equal(st_gradcheck_layer_at(l, x, (st_gradcheck_options){ 0 }).passed,
                         some[k] == NO_FAULT);
        assert_same(st_layer_parameters(l), parameters);
        assert_same(st_layer_states(l), states);
        assert_same(x, before); /* the caller's: a copy is what is moved */
    }
}

TEST(what_cannot_be_built_fails_with_the_reason)
{
    auto_layer *l = st_dense(.out_features = 2);
    st_gradcheck_result r = st_gradcheck_layer(l, ST_SHAPE(3, 2, 2, 1), (st_gradcheck_options){ 0 });
    assert_false(r.passed);
    assert_int_equal(strncmp(r.text, "dense: the input is [3, 2, 2, 1], expected [N, features]", 56), 0);
    expect_error("the input is [3, 2, 2, 1]");
    assert_false(st_gradcheck_layer_at(l, (st_tensor){ 0 }, (st_gradcheck_options){ 0 }).passed);
    expect_error("st_gradcheck_layer: x is null");
    assert_false(st_gradcheck_layer(NULL, ST_SHAPE(3, 2), (st_gradcheck_options){ 0 }).passed);
    expect_error("st_gradcheck_layer: the layer is NULL");
}

/* ---- kinks --------------------------------------------------------------------------------------- */

static st_tensor numbers(st_shape s)
{
    st_tensor x = st_tensor_new(s);
    for (ptrdiff_t e = 0; e < st_numel(x); e++)
        *element(x, e) = (st_real)((e % 2 ? -1 : 1) * (1 + (double)e / 8));
    return x;
}

/* At 0 relu has the derivatives 0 from the left and 1 from the right. */
TEST(kinks_are_skipped_and_counted_up_to_a_limit)
{
    const struct {
        int zeros;
        double kinks;
        const char *text;
    } cases[] = {
        { 2, 0, "passed" },
        { 4, 0, "relu: x: 4 of 30 elements are kinks, at most 10 % may be" },
        { 4, 0.12, "relu: x: 4 of 30 elements are kinks, at most 12 % may be" },
        { 1, ST_ZERO, "relu: x: 1 of 30 elements are kinks, at most 0 % may be" },
        { 4, 0.14, "passed" },
    };
    auto_layer *l = st_relu();
    for (int i = 0; i < 4; i++) {
        auto_tensor x = numbers(ST_SHAPE(3, 10));
        for (int e = 0; e < cases[i].zeros; e++) *element(x, 7 * e) = 0;
        st_gradcheck_result r =
            st_gradcheck_layer_at(l, x, (st_gradcheck_options){ .kinks = cases[i].kinks });
        assert_string_equal(r.text, cases[i].text);
        assert_int_equal(r.passed, r.text[0] == 'p');
        assert_true(r.checked == 30 && r.kinks == cases[i].zeros);
    }
}

/* Just beside 0 a smaller step stays on one side. */
TEST(a_kink_that_a_smaller_step_avoids_is_none)
{
    auto_layer *l = st_relu();
    auto_tensor x = numbers(ST_SHAPE(3, 10));
    double step = cbrt((double)ST_REAL_EPSILON);
    *element(x, 7) = (st_real)(step / 2), *element(x, 8) = (st_real)(-step / 2),
                *element(x, 9) = (st_real)(step / 20);
    st_gradcheck_result r = st_gradcheck_layer_at(l, x, (st_gradcheck_options){ 0 });
    assert_string_equal(r.text, "passed");
    assert_int_equal(r.kinks, 0);
}

/* relu whose derivative at 0 is 2: outside what either side has. */
static void steep_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    for (ptrdiff_t e = 0; e < st_numel(x); e++)
        *element(dx, e) = *element(dy, e) * (*element(x, e) > 0 ? 1 : *element(x, e) < 0 ? 0 : 2);
}

TEST(a_kink_excuses_nothing_beyond_its_two_sides)
{
    auto_layer *right = st_relu();
    st_layer_type type = *right->type;
    type.backward = steep_backward;
    auto_layer *l = st_layer_new(&type, NULL, 0, NULL);
    auto_tensor x = numbers(ST_SHAPE(3, 10));
    assert_true(st_gradcheck_layer_at(l, x, (st_gradcheck_options){ 0 }).passed);
    *element(x, 7) = 0;
    st_gradcheck_result r = st_gradcheck_layer_at(l, x, (st_gradcheck_options){ 0 });
    assert_false(r.passed);
    assert_non_null(strstr(r.text, "relu: x[0, 7]: analytic "));
}

/* ---- views --------------------------------------------------------------------------------------- */

/* The layer without a fault passes at x, one with a fault does not; frees x. */
static void is_judged_right(st_tensor x, const char *what)
{
    auto_layer *right = layer_with(NO_FAULT), *wrong = layer_with(FACTOR_IN_ONE_CHANNEL);
    about("%s", what);
    st_gradcheck_result r = st_gradcheck_layer_at(right, x, (st_gradcheck_options){ 0 });
    if (!r.passed) fail_msg("%s: %s", what, r.text);
    assert_int_equal(r.checked, 12 + 16 + 4);
    r = st_gradcheck_layer_at(wrong, x, (st_gradcheck_options){ 0 });
    if (!is_named(&r, "x[", "]: analytic ")) fail_msg("%s: %s", what, r.text);
    st_tensor_free(x);
}

TEST(any_view_is_an_input)
{
    is_judged_right(numbers(ST_SHAPE(3, FEATURES)), "contiguous");
    is_judged_right(st_transpose(numbers(ST_SHAPE(FEATURES, 3)), 0, 1), "transposed");
    is_judged_right(st_flip(st_flip(numbers(ST_SHAPE(3, FEATURES)), 0), 1), "flipped");
    is_judged_right(st_step(st_narrow(numbers(ST_SHAPE(7, FEATURES + 2)), 1, 1, FEATURES), 0, -3),
                    "with gaps");
    is_judged_right(st_expand(numbers(ST_SHAPE(1, FEATURES)), ST_SHAPE(3, FEATURES)),
                    "broadcast over images");
    is_judged_right(st_expand(numbers(ST_SHAPE(3, 1)), ST_SHAPE(3, FEATURES)), "broadcast over features");
    is_judged_right(st_unfold(numbers(ST_SHAPE(6)), 0, FEATURES, 1, 1), "overlapping windows");
    auto_layer *l = layer_with(READS_FLAT);
    auto_tensor view = st_transpose(numbers(ST_SHAPE(FEATURES, 3)), 0, 1);
    assert_false(st_gradcheck_layer_at(l, view, (st_gradcheck_options){ 0 }).passed);
}

/* ---- nets with a loss ---------------------------------------------------------------------------- */

static st_net *some_net(void)
{
    st_net *n = st_net_new(ST_SHAPE(1, 4, 4), st_conv2d(.out_channels = 2, .kernel = { 3, 3 }), st_tanh(),
                           st_dropout(.p = 0.2), st_flatten(), st_dense(.out_features = 3));
    assert_non_null(n);
    return n;
}

static st_tensor some_images(void)
{
    st_tensor x = st_tensor_new(ST_SHAPE(5, 1, 4, 4));
    st_normal(x, (st_random_key){ 3, 1 }, 0, 1);
    return x;
}

TEST(every_loss_passes_with_a_net)
{
    const st_loss all[] = { st_cross_entropy(), st_cross_entropy(.label_smoothing = 0.2), st_mse(),
                            st_huber(.delta = 0.3), st_bce_with_logits() };
    auto_tensor x = some_images(), classes = tensor_of(ST_SHAPE(5), 0, 2, 1, 1, 0),
                targets = st_tensor_new(ST_SHAPE(5, 3));
    st_uniform(targets, (st_random_key){ 3, 2 }, 0, 1);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        auto_net *n = some_net();
        st_gradcheck_result r = st_gradcheck_net(n, x, all[i].kind->classes ? classes : targets, all[i],
                                                 (st_gradcheck_options){ 0 });
        if (!r.passed) fail_msg("%s: %s", all[i].kind->name, r.text);
        assert_true(r.worst > 0);
        assert_int_equal(r.checked, 5 * 16 + 2 * 9 + 2 + 3 * 8 + 3);
    }
}

/* Half of the squared error's derivative. */
static double half_way(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    double value = st_loss_value(st_mse(), y, target, dy);
    if (!st_is_null(dy)) st_scale(dy, (st_real)0.5);
    return value;
}

static const st_loss_kind half_way_kind = { .name = "half_way", .value = half_way };

TEST(a_wrong_loss_is_told)
{
    auto_net *n = some_net();
    auto_tensor x = some_images(), targets = st_tensor_new(ST_SHAPE(5, 3));
    st_gradcheck_result r =
        st_gradcheck_net(n, x, targets, st_loss_new(&half_way_kind, NULL), (st_gradcheck_options){ 0 });
    assert_false(r.passed);
    assert_non_null(strstr(r.text, "sequence: x["));
    assert_true(fabs(r.worst - 0.5) < 0.1);
}

/* Checks the net with its present parameters, which are kept; it is built for the larger of two batches. */
TEST(a_net_is_as_before)
{
    auto_net *n = some_net();
    auto_tensor x = some_images(), classes = tensor_of(ST_SHAPE(5), 0, 2, 1, 1, 0);
    assert_int_equal(st_net_build(n, 2, 6), 0);
    auto_tensor parameters = st_tensor_clone(st_net_parameters(n));
    st_tensor two = st_narrow(x, 0, 0, 2);
    auto_tensor y = st_tensor_clone(st_net_forward(n, two, ST_EVAL));
    assert_true(st_gradcheck_net(n, x, classes, st_cross_entropy(), (st_gradcheck_options){ 0 }).passed);
    assert_same(st_net_parameters(n), parameters);
    assert_int_equal(n->batch, 5);
    assert_same(st_net_forward(n, two, ST_EVAL), y);
}

TEST(what_a_net_does_not_take_fails_with_the_reason)
{
    auto_net *n = some_net();
    auto_tensor x = st_tensor_new(ST_SHAPE(5, 16)), classes = st_tensor_new(ST_SHAPE(5));
    const st_gradcheck_options o = { 0 };
    assert_false(st_gradcheck_net(n, x, classes, st_cross_entropy(), o).passed);
    expect_error("st_net_forward of x [5, 16], expected [N, ...] of images [1, 4, 4]");
    assert_false(st_gradcheck_net(n, (st_tensor){ 0 }, classes, st_cross_entropy(), o).passed);
    expect_error("st_net_forward of x ");
    assert_false(st_gradcheck_net(NULL, x, classes, st_cross_entropy(), o).passed);
    expect_error("st_net_forward before st_net_build");
    auto_tensor fits = st_tensor_new(ST_SHAPE(5, 1, 4, 4));
    auto_net *twin = st_net_share(n, 5);
    st_gradcheck_result r = st_gradcheck_net(twin, fits, classes, st_cross_entropy(), o);
    assert_false(r.passed);
    assert_string_equal(r.text, "sequence: it shares parameters with another, and has no gradients");
    r = st_gradcheck_layer_at(twin->root, fits, o);
    assert_string_equal(r.text, "sequence: it shares parameters with another, and has no gradients");
}
