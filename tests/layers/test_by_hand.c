/* test_by_hand.c: what a gradient check cannot see, since forward and backward share it: which elements have
 * moments in common, what the running ones become, where pixels come from, sums that would overflow.
 *
 * Oracles: definitions in plain loops and in double, and cases small enough to be worked out by hand. */
#include "tests/support.h"

#include "layers/layers.h"

#include <math.h>

static const double limit = sizeof(real) == 4 ? 1e-5 : 1e-12;

static tensor forward(layer *l, tensor x, bool training)
{
    tensor y = tensor_new(l->y);
    layer_mode(l, training, 0, 0);
    layer_forward(l, x, y);
    return y;
}

enum { N = 5, C = 3, L = 21 }; /* more than the lanes of sums, and not a multiple of them */

typedef struct moments {
    double mean, squares; /* sum of (x - mean)² */
} moments;

static moments of_channel(tensor x, int c)
{
    moments m = { 0, 0 };
    for (int n = 0; n < N; n++)
        for (int i = 0; i < L; i++) m.mean += (double)*tensor_at(x, INDEX(n, c, i)) / (N * L);
    for (int n = 0; n < N; n++)
        for (int i = 0; i < L; i++) m.squares += pow((double)*tensor_at(x, INDEX(n, c, i)) - m.mean, 2);
    return m;
}

static tensor normalised(tensor x, int c, double mean, double variance, double epsilon)
{
    tensor y = tensor_new(SHAPE(N, L));
    for (int n = 0; n < N; n++)
        for (int i = 0; i < L; i++)
            *tensor_at(y, INDEX(n, i)) =
                (real)(((double)*tensor_at(x, INDEX(n, c, i)) - mean) / sqrt(variance + epsilon));
    return y;
}

static void batchnorm_is_its_definition_and_follows_with_the_unbiased_variance(void **state)
{
    (void)state;
    dice d = { { 1, 2 }, 0 };
    const double epsilon = 0.01, momentum = 0.3;
    layer *l = layer_batchnorm((batchnorm){ .epsilon = epsilon, .momentum = momentum });
    tensor x = roll_tensor(&d, SHAPE(N, C, L), -9, 9);
    assert_int_equal(layer_build(l, x.shape, 1), 0);
    tensor y = forward(l, x, true), z = forward(l, x, false);
    for (int c = 0; c < C; c++) {
        moments m = of_channel(x, c);
        double mean = momentum * m.mean, variance = 1 - momentum + momentum * m.squares / (N * L - 1);
        tensor training = normalised(x, c, m.mean, m.squares / (N * L), epsilon);
        tensor inference = normalised(x, c, mean, variance, epsilon);
        about("channel %d", c);
        assert_true(fabs((double)*tensor_at(l->state[0], INDEX(c)) - mean) <= limit);
        assert_near(tensor_select(y, 1, c), training, limit);
        assert_near(tensor_select(z, 1, c), inference, 10 * limit);
        tensor_free(training);
        tensor_free(inference);
    }
    tensor_free(x), tensor_free(y), tensor_free(z);
    layer_free(l);
}

static void softmax_of_large_numbers_does_not_overflow(void **state)
{
    (void)state;
    tensor x = tensor_of(SHAPE(2, 3), 1e6, 1e6, -1e6, -1e6, -1e6, -2e6);
    for (int logarithm = 0; logarithm < 2; logarithm++) {
        layer *l = logarithm ? layer_log_softmax(1) : layer_softmax(1);
        assert_int_equal(layer_build(l, x.shape, 1), 0);
        tensor y = forward(l, x, false);
        for (int n = 0; n < 2; n++) {
            double half = (double)*tensor_at(y, INDEX(n, 1)), none = (double)*tensor_at(y, INDEX(n, 2));
            assert_true(fabs(half - (logarithm ? log(0.5) : 0.5)) < 0.1);
            assert_true(logarithm ? none < -9e5 && isfinite(none) : none == 0);
        }
        tensor_free(y);
        layer_free(l);
    }
    tensor_free(x);
}

static void small_cases_are_as_worked_out_by_hand(void **state)
{
    (void)state;
    const upsample twice = { { 1, 2 }, UPSAMPLE_BILINEAR, false },
                   aligned = { { 1, 2 }, UPSAMPLE_BILINEAR, true };
    /* clang-format off */
    const struct {
        layer *l;
        shape x, y;
        double in[4], out[8];
    } cases[] = {
        { layer_upsample((upsample){ .scale = { 1, 2 } }), SHAPE(1, 1, 1, 2), SHAPE(1, 1, 1, 4), { 0, 4 }, { 0, 0, 4, 4 } },
        { layer_upsample(twice), SHAPE(1, 1, 1, 2), SHAPE(1, 1, 1, 4), { 0, 4 }, { 0, 1, 3, 4 } },
        { layer_upsample(aligned), SHAPE(1, 1, 1, 2), SHAPE(1, 1, 1, 4), { 0, 3 }, { 0, 1, 2, 3 } },
        { layer_pad2d((pad2d){ .width = { 2, 1 }, .mode = PAD_REFLECT }), SHAPE(1, 1, 1, 3), SHAPE(1, 1, 1, 6), { 1, 2, 3 }, { 3, 2, 1, 2, 3, 2 } },
        { layer_pad2d((pad2d){ .width = { 2, 1 }, .mode = PAD_REPLICATE }), SHAPE(1, 1, 1, 3), SHAPE(1, 1, 1, 6), { 1, 2, 3 }, { 1, 1, 1, 2, 3, 3 } },
        { layer_adaptive_avgpool((adaptive_avgpool){ { 1, 1 } }), SHAPE(1, 1, 1, 4), SHAPE(1, 1, 1, 1), { 1, 2, 3, 8 }, { 3.5 } },
        { layer_adaptive_avgpool((adaptive_avgpool){ { 1, 2 } }), SHAPE(1, 1, 1, 3), SHAPE(1, 1, 1, 2), { 1, 2, 3 }, { 1.5, 2.5 } },
        { layer_groupnorm((groupnorm){ .groups = 2, .epsilon = 1e-14 }), SHAPE(1, 4), SHAPE(1, 4), { 0, 2, 10, 14 }, { -1, 1, -1, 1 } },
        { layer_layernorm((layernorm){ .axes = 1, .epsilon = 1e-14 }), SHAPE(1, 2, 2), SHAPE(1, 2, 2), { 0, 2, 10, 14 }, { -1, 1, -1, 1 } },
        { layer_conv_transpose2d((conv_transpose2d){ 1, { 1, 1 }, { 1, 2 }, .output_padding = { 0, 1 } }), SHAPE(1, 1, 1, 2), SHAPE(1, 1, 1, 4), { 3, 4 }, { 5, 2, 6, 2 } },
        { layer_lppool((lppool){ .kernel = { 1, 2 }, .stride = { 1, 2 } }), SHAPE(1, 1, 1, 4), SHAPE(1, 1, 1, 2), { 3, -4, 0, 0 }, { 5, 0 } },
        { layer_softmax(2), SHAPE(1, 2, 2), SHAPE(1, 2, 2), { 0, 0, 3, 3 }, { 0.5, 0.5, 0.5, 0.5 } },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        layer *l = cases[i].l;
        about("case %zu", i);
        assert_int_equal(layer_build(l, cases[i].x, 1), 0);
        if (l->params == 2 && l->param[0].shape.rank == 4) { /* a convolution: 1 x + 2 */
            tensor_fill(l->param[0], 1);
            tensor_fill(l->param[1], 2);
        }
        tensor x = tensor_of_list(cases[i].x, shape_count(cases[i].x, "x"), cases[i].in);
        tensor expected = tensor_of_list(cases[i].y, shape_count(cases[i].y, "y"), cases[i].out);
        tensor y = forward(l, x, false);
        assert_near(y, expected, limit);
        tensor_free(x), tensor_free(y), tensor_free(expected);
        layer_free(l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(batchnorm_is_its_definition_and_follows_with_the_unbiased_variance),
        CLAIM(small_cases_are_as_worked_out_by_hand),
        CLAIM(softmax_of_large_numbers_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
