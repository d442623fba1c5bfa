/* test_more_layers.c: what the newer layers refuse and say, keep and name: transposed convolution,
 * normalisation, softmax, borders and sizes, Lp and adaptive pooling, channel dropout, residual and concat.
 *
 * That they compute their definitions, and their gradients, is for the conformance suites; here are numbers
 * worked out by hand, refusals with their texts, and what holds for any batch and number of threads. */
#include "tests/layers/layer_claims.h"
#include "tests/support.h"

#include "layers/layer_impl.h"

#include "layers/exponential.h"
#include "layers/layers.h"
#include "nn/net.h"

#include <math.h>
#include <string.h>

/* ---- helpers --------------------------------------------------------------------------------- */

/* y of x, into a new tensor that held NaN. */
static st_tensor forward(st_layer *l, st_tensor x)
{
    st_shape s = l->y;
    s.n[0] = x.shape.n[0];
    st_tensor y = full(s, NAN);
    st_layer_forward(l, x, y);
    return y;
}

static void assert_about(double value, double expected)
{
    if (fabs(value - expected) <= 8 * (double)ST_REAL_EPSILON * fmax(1, fabs(expected))) return;
    fail_msg("%.17g, expected %.17g", value, expected);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A border as wide as the image is one too many to mirror; one less is not, and an edge repeats for ever. */
TEST(a_mirror_reaches_as_far_as_the_image)
{
    st_layer *mirror = st_pad2d(.width = { 2, 2 }, .mode = ST_PAD_REFLECT);
    st_layer *edge = st_pad2d(.width = { 4, 0 }, .mode = ST_PAD_REPLICATE);
    st_layer *constant = st_pad2d(.height = { 0, 1 }, .width = { 1, 0 }, .value = 7);
    st_tensor x = tensor_of(ST_SHAPE(1, 1, 1, 3), 1, 2, 3);
    assert_built(mirror, x.shape), assert_built(edge, x.shape), assert_built(constant, x.shape);
    st_tensor a = forward(mirror, x), b = forward(edge, x), c = forward(constant, x);
    assert_elements(a, 3, 2, 1, 2, 3, 2, 1);
    assert_elements(b, 1, 1, 1, 1, 1, 2, 3);
    assert_elements(c, 7, 1, 2, 3, 7, 7, 7, 7);
    st_tensor dx = full(x.shape, NAN);
    st_layer_backward(mirror, x, a, a, dx); /* each gets back what its copies hold */
    assert_elements(dx, 1 + 1, 2 + 2 + 2, 3 + 3);
    st_tensor_free(x), st_tensor_free(a), st_tensor_free(b), st_tensor_free(c), st_tensor_free(dx);
    st_layer_free(mirror), st_layer_free(edge), st_layer_free(constant);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static st_layer *convolution(int out, int stride)
{
    return st_conv2d(.out_channels = out, .kernel = { 3, 3 }, .stride = { stride, stride },
                     .padding = { 1, 1 });
}

/* Nothing is asked of the first layer of a net but the gradients below it. */
TEST(a_block_that_comes_first_needs_no_dx)
{
    st_net *n =
        st_net_new(ST_SHAPE(2, 4, 4),
                   st_residual_projected(st_sequence(convolution(3, 1), st_batchnorm()), convolution(3, 1)),
                   st_concat(convolution(2, 2), st_sequence(st_tanh(), convolution(1, 2))));
    st_net *first =
        st_net_new(ST_SHAPE(2, 4, 4),
                   st_concat(convolution(2, 2), st_residual_projected(convolution(4, 2), convolution(4, 2))));
    st_net *nets[] = { n, first };
    for (int i = 0; i < 2; i++) {
        assert_non_null(nets[i]);
        assert_int_equal(st_net_build(nets[i], 9, 1), 0);
        st_tensor x = st_tensor_new(ST_SHAPE(9, 2, 4, 4)), dx = full(x.shape, NAN);
        st_normal(x, (st_random_key){ 1, 1 }, 0, 1);
        st_tensor y = st_net_forward(nets[i], x, ST_TRAIN), dy = st_tensor_clone(y);
        assert_int_equal(st_net_backward(nets[i], dy, (st_tensor){ 0 }), 0);
        st_tensor without = st_tensor_clone(st_net_gradients(nets[i]));
        st_net_zero_gradients(nets[i]);
        assert_int_equal(st_net_backward(nets[i], dy, dx), 0);
        assert_same(st_net_gradients(nets[i]), without);
        for (ptrdiff_t k = 0; k < st_numel(dx); k++) assert_true(isfinite(st_data(dx)[k]));
        st_tensor_free(x), st_tensor_free(dx), st_tensor_free(dy), st_tensor_free(without);
        st_net_free(nets[i]);
    }
}

/* ---- batch normalisation --------------------------------------------------------------------- */

/* Channel 0 holds 1 2 3 6: mean 3, variance 14/4, unbiased 14/3. Channel 1 holds -4 -4 0 0: mean -2,
 * variance 4, unbiased 16/3. */
static st_tensor two_channels(void)
{
    return tensor_of(ST_SHAPE(2, 2, 2), 1, 2, -4, -4, 3, 6, 0, 0);
}

TEST(batchnorm_follows_the_batch_with_its_running_statistics)
{
    st_layer *l = st_batchnorm(.momentum = 0.25, .epsilon = 0.5);
    st_tensor x = two_channels();
    assert_built(l, x.shape);
    assert_elements(l->state[0], 0, 0);
    assert_elements(l->state[1], 1, 1);
    st_tensor y = forward(l, x);
    assert_elements(l->state[0], 0.75, -0.5);
    assert_about((double)*element(l->state[1], 0), 0.75 + 0.25 * 14 / 3);
    assert_about((double)*element(l->state[1], 1), 0.75 + 0.25 * 16 / 3);
    const double expected[] = { -2, -1, -2, -2, 0, 3, 2, 2 }; /* over sqrt(variance + 1/2) */
    for (ptrdiff_t k = 0; k < 8; k++)
        assert_about((double)*element(y, k), expected[k] / sqrt(k / 2 % 2 ? 4.5 : 4));
    st_tensor again = forward(l, x);
    assert_same(again, y);
    assert_about((double)*element(l->state[0], 0), 0.75 * 0.75 + 0.25 * 3);
    assert_about((double)*element(l->state[1], 1), 0.75 * (0.75 + 0.25 * 16 / 3) + 0.25 * 16 / 3);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(again);
    st_layer_free(l);
}

/* A value alone has no variance: y is the bias, and what the running variance moves to is 0. */
TEST(batchnorm_of_a_single_value_a_channel)
{
    st_layer *l = st_batchnorm(.momentum = 0.5);
    st_tensor x = tensor_of(ST_SHAPE(1, 3), 5, -7, 0), dy = full(x.shape, 2), dx = full(x.shape, NAN);
    assert_built(l, x.shape);
    roll_elements(&(dice){ { 1 } }, l->param[1], -3, 3);
    st_tensor y = forward(l, x);
    assert_elements(y, *element(l->param[1], 0), *element(l->param[1], 1), *element(l->param[1], 2));
    assert_elements(l->state[0], 2.5, -3.5, 0);
    assert_elements(l->state[1], 0.5, 0.5, 0.5);
    st_layer_backward(l, x, y, dy, dx);
    assert_elements(dx, 0, 0, 0);
    assert_elements(l->grad[0], 0, 0, 0);
    assert_elements(l->grad[1], 2, 2, 2);
    st_tensor_free(x), st_tensor_free(dy), st_tensor_free(dx), st_tensor_free(y);
    st_layer_free(l);
}

/* Units in the last place of the nearest float; oracle: the library's functions in double. */
static double in_ulps(st_real got, double want)
{
    int power;
    if (fabs(want) > (double)ST_REAL_MAX) return isinf(got) ? 0 : INFINITY;
    frexp(want, &power);
    return fabs((double)got - want) / ldexp(1, (power < -125 ? -125 : power) - 24);
}

TEST(exponentials_are_as_near_as_they_claim)
{
    for (double x = -120; x < 120; x += 0.00137) {
        st_real at = (st_real)x;
        double exact = (double)at;
        about("at %g", exact);
        assert_true(in_ulps(exponential(at), exp(exact)) <= 1);
        assert_true(in_ulps(exponential_less_1(at < 0 ? at : -at), expm1(-fabs(exact))) <= 1);
        assert_true(in_ulps(hyperbolic_tangent(at), tanh(exact)) <= 3);
        if (x > -80) assert_true(in_ulps(logistic(at), 1 / (1 + exp(-exact))) <= 2.5);
    }
    for (double x = 1e-30; x < 1; x *= 1.01) {
        st_real at = (st_real)x;
        assert_true(in_ulps(hyperbolic_tangent(-at), tanh(-(double)at)) <= 3);
        assert_true(in_ulps(exponential_less_1(-at), expm1(-(double)at)) <= 1);
    }
    assert_true(isinf(exponential((st_real)INFINITY)) && exponential(-(st_real)INFINITY) == 0);
    assert_true(isnan(exponential((st_real)NAN)) && isnan(hyperbolic_tangent((st_real)NAN)));
    assert_true(hyperbolic_tangent((st_real)INFINITY) == 1 && logistic(-(st_real)INFINITY) == 0);
}

/* What says it runs in place makes the same of x where y is to be, with x gone when it goes back. */
TEST(in_place_is_as_apart)
{
    dice d = { { 4, 2 }, 0 };
    st_layer *all[] = { st_relu(), st_relu6(),    st_hardtanh(.max_val = 4), st_sigmoid(),
                        st_tanh(), st_identity(), st_dropout(.p = 0.5),      st_channel_dropout(.p = 0.5) };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        st_layer *l = all[i];
        st_tensor x = roll_tensor(&d, ST_SHAPE(3, 2, 19), -9, 9), dy = roll_tensor(&d, x.shape, -9, 9);
        assert_true(l->type->traits->in_place);
        assert_built(l, x.shape);
        st_layer_mode(l, true, 1, 1);
        st_tensor y = st_tensor_new(x.shape), dx = st_tensor_new(x.shape);
        st_layer_forward(l, x, y);
        st_layer_backward(l, x, y, dy, dx);
        st_layer_forward(l, x, x);
        assert_same(x, y);
        st_layer_backward(l, x, x, dy, dy);
        assert_same(dy, dx);
        st_tensor_free(x), st_tensor_free(y), st_tensor_free(dy), st_tensor_free(dx);
        st_layer_free(l);
    }
}

/* Squares of 2^530 overflow in double. y is that of the same numbers without the factor, and dx without it divided by
 * it: a norm's epsilon is 0 here. */
TEST(norms_of_large_numbers_are_those_of_small_ones)
{
    const st_real factor = (st_real)(sizeof(st_real) == 8 ? 0x1p530 : 0x1p60);
    dice d = { { 7 } };
    st_layer *all[] = { st_batchnorm(.epsilon = ST_ZERO), st_layernorm(.epsilon = ST_ZERO),
                        st_rmsnorm(.epsilon = ST_ZERO), st_groupnorm(.groups = 2, .epsilon = ST_ZERO) };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        about("%s", all[i]->type->name);
        st_tensor x = roll_tensor(&d, ST_SHAPE(5, 4, 9), -9, 9), dy = roll_tensor(&d, x.shape, -3, 3);
        st_tensor y[2], dx[2], gradient[2];
        assert_built(all[i], x.shape);
        st_layer_mode(all[i], true, 1, 1);
        for (int large = 0; large < 2; large++) {
            if (large) st_scale(x, factor);
            y[large] = st_tensor_new(x.shape), dx[large] = st_tensor_new(x.shape);
            st_fill(st_layer_gradients(all[i]), 0);
            st_layer_forward(all[i], x, y[large]);
            st_layer_backward(all[i], x, y[large], dy, dx[large]);
            gradient[large] = st_tensor_clone(st_layer_gradients(all[i]));
        }
        st_scale(dx[1], factor);
        assert_near(y[1], y[0], 100 * (double)ST_REAL_EPSILON);
        assert_near(dx[1], dx[0], 100 * (double)ST_REAL_EPSILON);
        assert_near(gradient[1], gradient[0], 1000 * (double)ST_REAL_EPSILON);
        for (int large = 0; large < 2; large++)
            st_tensor_free(y[large]), st_tensor_free(dx[large]), st_tensor_free(gradient[large]);
        st_tensor_free(x), st_tensor_free(dy), st_layer_free(all[i]);
    }
}

/* One image of several values a channel is a batch like any other. */
TEST(batchnorm_of_one_image)
{
    st_layer *l = st_batchnorm(.momentum = 1, .epsilon = 0.25);
    st_tensor x = tensor_of(ST_SHAPE(1, 2, 3), 1, 2, 6, 4, 4, 4);
    assert_built(l, x.shape);
    st_tensor y = forward(l, x);
    assert_elements(l->state[0], 3, 4);
    assert_elements(l->state[1], 7, 0); /* 14 / 2: unbiased */
    for (ptrdiff_t k = 0; k < 3; k++)
        assert_about((double)*element(y, k), ((double)*element(x, k) - 3) / sqrt(14.0 / 3 + 0.25));
    for (ptrdiff_t k = 3; k < 6; k++) assert_true(*element(y, k) == 0);
    st_tensor_free(x), st_tensor_free(y);
    st_layer_free(l);
}

TEST(batchnorm_in_inference_takes_the_running_statistics_as_they_are)
{
    st_layer *l = st_batchnorm(.epsilon = 0.5);
    st_tensor x = two_channels(), dy = full(x.shape, 3), dx = full(x.shape, NAN);
    assert_built(l, ST_SHAPE(5, 2, 2));
    st_tensor mean = tensor_of(ST_SHAPE(2), 2, -1), variance = tensor_of(ST_SHAPE(2), 3.5, 0.5),
              weight = tensor_of(ST_SHAPE(2), 3, 5), bias = tensor_of(ST_SHAPE(2), 10, 20);
    st_copy(l->state[0], mean), st_copy(l->state[1], variance);
    st_copy(l->param[0], weight), st_copy(l->param[1], bias);
    st_layer_mode(l, false, 1, 1);
    st_tensor y = forward(l, x); /* deviations 2 and 1 */
    assert_elements(y, 8.5, 10, 5, 5, 11.5, 16, 25, 25);
    assert_same(l->state[0], mean);
    assert_same(l->state[1], variance);
    st_layer_backward(l, x, y, dy, dx);
    assert_elements(dx, 4.5, 4.5, 15, 15, 4.5, 4.5, 15, 15);
    assert_elements(l->grad[0], 3 * (-0.5 + 0 + 0.5 + 2), 3 * (-3 - 3 + 1 + 1));
    assert_elements(l->grad[1], 12, 12);
    st_tensor_free(x), st_tensor_free(dy), st_tensor_free(dx), st_tensor_free(mean), st_tensor_free(variance);
    st_tensor_free(weight), st_tensor_free(bias), st_tensor_free(y);
    st_layer_free(l);
}

static void collect_name(const st_net_tensor *t, void *context)
{
    char *all = context;
    strcat(all, t->name);
    strcat(all, st_is_null(t->gradient) ? "* " : " ");
}

/* A state, which has no gradient, is marked with a star. */
TEST(states_and_parameters_of_blocks_have_names)
{
    st_net *n = st_net_new(
        ST_SHAPE(2, 4, 4), st_batchnorm(.no_affine = true),
        st_residual_projected(
            st_sequence(st_conv2d(.out_channels = 2, .kernel = { 1, 1 }, .no_bias = true), st_batchnorm()),
            st_groupnorm(.groups = 2)),
        st_concat(st_identity(), st_layernorm()));
    char names[512] = "";
    assert_non_null(n);
    assert_int_equal(st_net_build(n, 2, 1), 0);
    st_net_visit(n, collect_name, names);
    assert_string_equal(names, "0.running_mean* 0.running_var* 1.body.0.weight 1.body.1.weight 1.body.1.bias "
                               "1.body.1.running_mean* 1.body.1.running_var* 1.projection.weight "
                               "1.projection.bias 2.1.weight 2.1.bias ");
    assert_shape(st_net_find(n, "2.1.weight"), 2, 4, 4);
    assert_shape(st_net_find(n, "1.body.1.running_var"), 2);
    assert_int_equal(st_numel(st_net_states(n)), 8);
    st_net_free(n);
}

/* ---- norms of what does not vary ---------------------------------------------------------------- */

static void check_even(st_layer *l, st_shape s, double value)
{
    about("%s, %s of %g", l->type->name, st_shape_text(s).text, value);
    st_tensor x = full(s, value), dx = full(s, NAN), dy = full(s, 3), zeros = st_tensor_new(s);
    assert_built(l, s);
    st_layer_mode(l, true, 1, 1);
    st_tensor y = forward(l, x);
    assert_same(y, zeros);
    st_layer_backward(l, x, y, dy, dx);
    assert_same(dx, zeros);
    st_layer_free(l);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(dx), st_tensor_free(dy), st_tensor_free(zeros);
}

/* The mean of equal numbers is the number, exactly, and epsilon is what is divided by: 0, also of a single one. */
TEST(norms_of_equal_numbers_are_zero)
{
    const double values[] = {
        0, (double)(st_real)0.1, -1e4, (double)(st_real)1e30, (double)ST_REAL_MAX / 64, 1e-40
    };
    const st_shape shapes[] = { ST_SHAPE(1, 4), ST_SHAPE(3, 4), ST_SHAPE(1, 4, 1, 1), ST_SHAPE(2, 4, 3, 5),
                                ST_SHAPE(2, 4, 16, 16) };
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            check_even(st_batchnorm(), shapes[k], values[v]);
            check_even(st_layernorm(), shapes[k], values[v]);
            check_even(st_layernorm(.axes = 1), shapes[k], values[v]);
            check_even(st_groupnorm(.groups = 2), shapes[k], values[v]);
            check_even(st_groupnorm(.groups = 4), shapes[k], values[v]);
        }
}

/* ---- softmax --------------------------------------------------------------------------------- */

TEST(softmax_of_huge_logits_does_not_overflow)
{
    const double huge = (double)ST_REAL_MAX / 4;
    st_layer *l = st_softmax(), *logarithm = st_log_softmax();
    st_tensor x = tensor_of(ST_SHAPE(3, 3), huge, -huge, 0, 1000, 1000, -1000, -huge, -huge, -huge);
    assert_built(l, x.shape), assert_built(logarithm, x.shape);
    st_tensor y = forward(l, x), z = forward(logarithm, x);
    assert_elements(st_narrow(y, 0, 0, 2), 1, 0, 0, 0.5, 0.5, 0);
    for (ptrdiff_t k = 6; k < 9; k++) assert_about((double)*element(y, k), 1.0 / 3);
    assert_elements(st_narrow(z, 0, 0, 1), 0, -2 * huge, -huge);
    assert_about((double)*element(z, 3), -log(2)); /* however large what the row begins with */
    for (ptrdiff_t k = 6; k < 9; k++) assert_about((double)*element(z, k), -log(3));
    assert_true(*element(z, 5) < -2000 && *element(z, 5) > -2001);
    st_tensor dy = full(x.shape, 1), dx = full(x.shape, NAN);
    st_layer_backward(l, x, y, dy, dx); /* rows of the same dy: nothing changes */
    for (ptrdiff_t k = 0; k < 9; k++) assert_about((double)*element(dx, k) + 1, 1);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(z), st_tensor_free(dy), st_tensor_free(dx);
    st_layer_free(l), st_layer_free(logarithm);
}

/* ---- channel dropout ------------------------------------------------------------------------- */

/* Each channel is all zeros, or all twice what it was; returns how many were dropped. */
static int dropped(st_tensor x, st_tensor y)
{
    int count = 0;
    for (ptrdiff_t i = 0; i < y.shape.n[0]; i++)
        for (ptrdiff_t c = 0; c < y.shape.n[1]; c++) {
            st_tensor from = st_select(st_select(x, 0, i), 0, c), to = st_select(st_select(y, 0, i), 0, c);
            double factor = (double)(*element(to, 0) / *element(from, 0));
            assert_true(factor == 0 || factor == 2);
            count += factor == 0;
            for (ptrdiff_t k = 0; k < st_numel(to); k++)
                assert_true((double)*element(to, k) == factor * (double)*element(from, k));
        }
    return count;
}

TEST(channel_dropout_drops_whole_channels)
{
    st_layer *l = st_channel_dropout(.p = 0.5);
    st_tensor x = full(ST_SHAPE(20, 30, 3, 2), 3), dx = full(x.shape, NAN);
    assert_built(l, x.shape);
    st_tensor y = forward(l, x);
    int count = dropped(x, y);
    assert_true(count > 220 && count < 380); /* of 600: 6.5 deviations to either side */
    st_layer_backward(l, x, y, x, dx);
    assert_same(dx, y); /* linear and diagonal: the same mask */
    st_layer_mode(l, false, 1, 1);
    st_tensor_free(y);
    y = forward(l, x);
    assert_same(y, x);
    st_layer_backward(l, x, y, x, dx);
    assert_same(dx, x);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(dx);
    st_layer_free(l);
}

static bool differ(st_tensor a, st_tensor b)
{
    for (ptrdiff_t k = 0; k < st_numel(a); k++)
        if (*element(a, k) != *element(b, k)) return true;
    return false;
}

static st_tensor dropout_at(st_layer *l, st_tensor x, uint64_t seed, uint64_t step)
{
    st_layer_mode(l, true, seed, step);
    return forward(l, x);
}

TEST(channel_dropout_is_a_function_of_seed_and_step)
{
    st_layer *l = st_channel_dropout(.p = 0.5);
    st_tensor x = full(ST_SHAPE(19, 8, 2, 2), 1);
    assert_built(l, x.shape);
    st_tensor a = dropout_at(l, x, 1, 1), b = dropout_at(l, x, 1, 2), c = dropout_at(l, x, 2, 1);
    st_tensor again = dropout_at(l, x, 1, 1), fewer = dropout_at(l, st_narrow(x, 0, 0, 11), 1, 1);
    assert_same(again, a);
    assert_true(differ(a, b) && differ(a, c) && differ(b, c));
    assert_true(differ(st_narrow(a, 0, 0, 8), st_narrow(a, 0, 8, 8))); /* images differ too */
    assert_same(fewer, st_narrow(a, 0, 0, 11));
    st_tensor_free(x), st_tensor_free(a), st_tensor_free(b), st_tensor_free(c), st_tensor_free(again),
        st_tensor_free(fewer);
    st_layer_free(l);
}

/* ---- any batch, any number of threads ------------------------------------------------------------ */

typedef struct results {
    st_tensor y, dx, gradients, states;
} results;
