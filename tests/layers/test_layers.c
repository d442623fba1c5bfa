/* test_layers.c: functions far from zero, masks of dropout, running statistics, and what plans hold. That
 * layers are their definitions for any options is for test_cases.c. */
#include "tests/layers/cases.h"
#include "tests/layers/layer_claims.h"

#include "layers/fast/functions.h"
#include "layers/pool_impl.h"
#include "layers/separable.h"

#include <math.h>
#include <string.h>

static void assert_about(double value, double expected)
{
    assert_close(value, expected, 8 * (double)ST_REAL_EPSILON * fmax(1, fabs(expected)));
}

/* ---- activations ----------------------------------------------------------------------------- */

static void assert_function(const char *what, double x, st_real value, double expected, double limit)
{
    if ((double)value == expected || fabs((double)value - expected) <= limit) return;
    fail_msg("%s of %.9g is %.9g, expected %.17g within %g", what, x, (double)value, expected, limit);
}

/* Up to 50 in size, erf, tanh and such are rounded to epsilon of 1, and that may be multiplied with x;
 * beyond, all of them have reached their limits and only the last product is rounded. */
static double function_limit(double x, double expected)
{
    return 8 * (double)ST_REAL_EPSILON * fmax(1, fabs(x) <= 50 ? fabs(x) : fabs(expected));
}

/* y = f(x), and the derivative, which is what backward makes of dy = 1. */
static void check_function(const naive_function *f, st_tensor x)
{
    auto_layer *l = f->make();
    assert_built(l, x.shape);
    auto_tensor y = forward(l, x), dy = full(x.shape, 1), slope = backward(l, x, y, dy);
    for (ptrdiff_t k = 0; k < st_numel(x); k++) {
        double at = (double)*element(x, k), near = isinf(at) ? 0 : at;
        double value = isinf(at) ? f->value_at_infinity[at > 0] : f->value(at);
        double derivative = isinf(at) ? f->slope_at_infinity[at > 0] : f->slope(at);
        if (isnan(at)) assert_true(isnan(*element(y, k)));
        else {
            assert_function(f->name, at, *element(y, k), value, function_limit(near, value));
            assert_function("its derivative", at, *element(slope, k), derivative,
                            function_limit(near, derivative));
        }
    }
}

/* Near 0 at odd 128ths, which are no kinks; at kinks the derivative is that of the left side, but 0 at the
 * maximum of hardtanh and relu6. */
TEST(activations_are_their_definitions_from_kinks_to_infinity)
{
    const double most = (double)ST_REAL_MAX / 4;
    auto_tensor far = tensor_of(ST_SHAPE(15), -INFINITY, -most, -1e30, -1e4, -100, -3, -0.0, 0, 3, 6, 100,
                                1e30, most, INFINITY, NAN);
    auto_tensor near = st_tensor_new(ST_SHAPE(19, 61));
    dice d = { { 13 } };
    for (ptrdiff_t k = 0; k < st_numel(near); k++) {
        ptrdiff_t reach = k % 4 ? 10 * 64 : 1200 * 64;
        *element(near, k) = (st_real)(2 * roll(&d, -reach, reach) + 1) / 128;
    }
    for (const naive_function *f = naive_functions; f->name; f++)
        check_function(f, far), check_function(f, near);
}

/* Relative to the derivative, which is as small as 1e-13: from y, which has rounded to its limit, all digits
 * would be lost. */
TEST(derivatives_of_elu_and_selu_keep_their_digits_far_below_0)
{
    auto_tensor x = tensor_of(ST_SHAPE(6), -1, -5, -12, -17.5, -25, -30), dy = full(x.shape, 1);
    for (const naive_function *f = naive_functions; f->name; f++) {
        if (strcmp(f->name, "elu") != 0 && strcmp(f->name, "selu") != 0) continue;
        auto_layer *l = f->make();
        assert_built(l, x.shape);
        auto_tensor y = forward(l, x), slope = backward(l, x, y, dy);
        for (ptrdiff_t k = 0; k < st_numel(x); k++)
            assert_close((double)*element(slope, k) / f->slope((double)*element(x, k)), 1,
                         4 * (double)ST_REAL_EPSILON);
    }
}

TEST(prelu_has_a_parameter_for_each_channel_or_one)
{
    for (int parameters = 0; parameters <= 4; parameters++) {
        auto_layer *l = st_prelu(.num_parameters = parameters);
        const int status = st_layer_plan(l, ST_SHAPE(2, 3, 5), &(st_shape){ 0 });
        assert_int_equal(status, parameters < 2 || parameters == 3 ? 0 : -1);
        if (status) expect_error("num_parameters=%d of an input [2, 3, 5]", parameters);
    }
}

TEST(layers_of_images_take_images_alone)
{
    const st_shape others[] = { ST_SHAPE(2, 3), ST_SHAPE(2, 3, 4), ST_SHAPE(2, 3, 4, 4, 4) };
    st_layer *all[] = { st_conv2d(.out_channels = 2, .kernel = { 1 }),
                        st_conv_transpose2d(.out_channels = 2, .kernel = { 1 }),
                        st_maxpool(.kernel = { 1 }),
                        st_avgpool(.kernel = { 1 }),
                        st_lppool(.kernel = { 1 }),
                        st_adaptive_avgpool({ 1 }),
                        st_upsample(.scale = { 2 }),
                        st_pad2d(.height = { 1 }) };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int k = 0; k < 3; k++) {
            expect_failure(st_layer_plan(all[i], others[k], &(st_shape){ 0 }), "%s: the input is",
                           all[i]->type->name);
        }
        st_layer_free(all[i]);
    }
    auto_layer *conv = st_conv2d(.out_channels = 2, .kernel = { 1 });
    expect_failure(window_plan(&(window){ .stride = { 1, 1 } }, conv, others[0], false),
                   "conv2d: the input is");
}

/* PyTorch does so whatever the factor: 3 pixels are 3 by a factor of 1.25, and 6 by one of 2.25. */
TEST(upsampling_copies_an_axis_that_keeps_its_size_and_repeats_one_that_doubles)
{
    dice d = { { 16 } };
    auto_tensor x = roll_tensor(&d, ST_SHAPE(2, 3, 3, 3), -9, 9);
    for (int i = 0; i < 4; i++) {
        const bool doubles = i == 3;
        auto_layer *l = st_upsample(.scale_factor = doubles ? 2.25 : 1.25, .align_corners = i == 1,
                                    .mode = i < 2 ? ST_UPSAMPLE_BILINEAR : ST_UPSAMPLE_NEAREST);
        assert_built(l, x.shape);
        auto_tensor y = forward(l, x);
        for (int k = 0; doubles && k < 4; k++) { /* pixel k of each square of 4 */
            st_tensor rows = st_narrow(y, 2, k / 2, 6 - k / 2);
            st_tensor both = st_narrow(rows, 3, k % 2, 6 - k % 2);
            assert_same(st_step(st_step(both, 2, 2), 3, 2), x);
        }
        if (!doubles) assert_same(y, x);
    }
}

/* More branches than the rows of a walk, of images that are summed at once and in parts: m x^4 of a channel's
 * mean m. */
TEST(products_of_many_branches_are_exact)
{
    dice d = { { 17 } };
    for (int side = 2; side <= 32; side *= 16) {
        auto_layer *l = st_multiply(st_adaptive_avgpool({ 1, 1 }), st_identity(), st_identity(),
                                    st_identity(), st_identity());
        auto_tensor x = roll_tensor(&d, ST_SHAPE(2, 3, side, side), -2, 2), dx = st_tensor_new(x.shape),
                    dy = roll_tensor(&d, x.shape, -1, 1);
        assert_built(l, x.shape);
        auto_tensor y = forward(l, x);
        st_layer_backward(l, x, y, dy, dx);
        const ptrdiff_t area = (ptrdiff_t)side * side;
        for (ptrdiff_t k = 0; k < st_numel(x); k++) {
            double mean = 0, sum = 0;
            for (ptrdiff_t i = k / area * area; i < k / area * area + area; i++) {
                mean += (double)*element(x, i) / (double)area;
                sum += pow((double)*element(x, i), 4) * (double)*element(dy, i) / (double)area;
            }
            const double v = (double)*element(x, k), slope = 4 * mean * pow(v, 3) * (double)*element(dy, k);
            assert_about((double)*element(y, k), mean * pow(v, 4));
            assert_about((double)*element(dx, k), slope + sum);
        }
    }
}

/* PyTorch's quotient of sizes is a float, 4 / 122, of which 61 are less than 2. A whole scale is exact. */
TEST(the_nearest_pixels_of_a_size_are_those_of_pytorch)
{
    const st_shape x = ST_SHAPE(1, 1, 4, 2);
    auto_layer *sized = st_upsample(.size = { 122, 82 }), *whole = st_upsample(.scale = { 41 });
    tap row[MOST_TAPS];
    for (int i = 0; i < 2; i++) {
        const st_layer *l = i == 0 ? sized : whole;
        st_shape y;
        assert_int_equal(st_layer_plan(i == 0 ? sized : whole, x, &y), 0);
        for (ptrdiff_t k = 0; k < y.n[2]; k++) {
            assert_int_equal(separable_taps(l, 2, k, row), 1);
            assert_int_equal(row[0].from, i == 0 && k == 61 ? 1 : k * 4 / y.n[2]);
        }
        assert_int_equal(separable_taps(l, 3, 41, row), 1);
        assert_int_equal(row[0].from, i);
    }
}

/* In float the last of 5 * 2^22 pixels would come from the one behind the last. */
TEST(the_last_pixel_of_a_long_axis_is_the_last_one)
{
    const ptrdiff_t length = (ptrdiff_t)1 << 23;
    auto_layer *l = st_upsample(.scale_factor = 2.5);
    st_shape y;
    tap row[MOST_TAPS];
    assert_int_equal(st_layer_plan(l, ST_SHAPE(1, 1, 1, length), &y), 0);
    assert_int_equal(y.n[3], length / 2 * 5);
    assert_int_equal(((const separable *)l->plan)->row(l->options, 3, y.n[3] - 1, length, y.n[3], row), 1);
    assert_int_equal(row[0].from, length - 1);
}

/* PyTorch's regions of 5 rows for 3 means: they overlap. */
TEST(taps_of_an_adaptive_mean_are_its_regions)
{
    const ptrdiff_t first[] = { 0, 1, 3 }, count[] = { 2, 3, 2 };
    auto_layer *l = st_adaptive_avgpool({ 3 });
    assert_int_equal(st_layer_plan(l, ST_SHAPE(1, 1, 5, 5), &(st_shape){ 0 }), 0);
    for (int i = 0; i < 3; i++) {
        tap row[5 + MOST_TAPS] = { { 0 } };
        assert_int_equal(separable_taps(l, 2, i, row), count[i]);
        for (ptrdiff_t k = 0; k < count[i]; k++) {
            assert_int_equal(row[k].from, first[i] + k);
            assert_true(row[k].weight == 1 / (st_real)count[i]);
        }
    }
}

/* Windows of ceil_mode may end behind the padding. */
TEST(what_a_window_has_behind_the_image_is_planned)
{
    const struct {
        bool ceil_mode;
        ptrdiff_t height, width, rows, columns;
    } cases[] = { { false, 5, 7, 1, 1 }, { true, 5, 7, 1, 1 }, { true, 6, 8, 2, 2 }, { true, 6, 7, 2, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_layer *l =
            st_maxpool(.kernel = { 3 }, .stride = { 2 }, .padding = { 1 }, .ceil_mode = cases[i].ceil_mode);
        assert_int_equal(st_layer_plan(l, ST_SHAPE(1, 1, cases[i].height, cases[i].width), NULL), 0);
        const window *w = &((const pool_plan *)l->plan)->w;
        assert_int_equal(w->after[0], cases[i].rows);
        assert_int_equal(w->after[1], cases[i].columns);
    }
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
        assert_true(in_ulps(fast_exp(at), exp(exact)) <= 1);
        assert_true(in_ulps(fast_expm1(at < 0 ? at : -at), expm1(-fabs(exact))) <= 1);
        assert_true(in_ulps((st_real)wide_tanh(at), tanh(exact)) <= 3);
        if (x > -80) assert_true(in_ulps(fast_logistic(at), 1 / (1 + exp(-exact))) <= 2.3);
    }
    for (double x = 1e-30; x < 1; x *= 1.01) {
        st_real at = (st_real)x;
        assert_true(in_ulps((st_real)wide_tanh(-at), tanh(-(double)at)) <= 3);
        assert_true(in_ulps(fast_expm1(-at), expm1(-(double)at)) <= 1);
    }
    assert_true(isinf(fast_exp((st_real)INFINITY)) && fast_exp(-(st_real)INFINITY) == 0);
    assert_true(isnan(fast_exp((st_real)NAN)) && isnan((st_real)wide_tanh((st_real)NAN)));
    assert_true((st_real)wide_tanh((st_real)INFINITY) == 1 && fast_logistic(-(st_real)INFINITY) == 0);
}

/* ---- dropout --------------------------------------------------------------------------------- */

enum { DROP_IMAGES = 64, DROP_SIZE = 1003 }; /* no multiple of the four draws of one counter */

static const double DROP_P = 0.3;
static const st_shape DROP_BATCH = { 2, { DROP_IMAGES, DROP_SIZE } };

/* Limits are five deviations of a count of so many independent draws: a right layer misses one for about one
 * seed in a million, and seeds are fixed. */
static double five_deviations(double p, double count)
{
    return 5 * sqrt(p * (1 - p) / count);
}

/* The output of a dropout, or of a net with one, built for a batch, for its first images, where all are
 * ones. */
static st_tensor ones_through(st_layer *l, st_shape batch, ptrdiff_t images, uint64_t seed, uint64_t step)
{
    auto_tensor x = full(ST_SHAPE(images, batch.n[1]), 1);
    assert_built(l, batch);
    st_layer_mode(l, true, seed, step);
    st_tensor y = forward(l, x);
    st_layer_free(l);
    return y;
}

/* With one value a channel, channel_dropout drops elements as dropout does. */
static st_layer *dropout(int kind)
{
    return kind ? st_channel_dropout(.p = DROP_P) : st_dropout(.p = DROP_P);
}

static st_tensor mask(int kind, uint64_t seed, uint64_t step)
{
    return ones_through(dropout(kind), DROP_BATCH, DROP_IMAGES, seed, step);
}

static double rate_of_zeros(st_tensor y)
{
    double zeros = 0;
    for (ptrdiff_t k = 0; k < st_numel(y); k++) zeros += *element(y, k) == 0;
    return zeros / (double)st_numel(y);
}

/* Independent masks are equal in p² + (1-p)² of their elements, the same mask in all. */
static void assert_independent(st_tensor a, st_tensor b)
{
    double equal = 0, count = (double)st_numel(a), p = DROP_P * DROP_P + (1 - DROP_P) * (1 - DROP_P);
    for (ptrdiff_t k = 0; k < st_numel(a); k++) equal += *element(a, k) == *element(b, k);
    assert_close(equal / count, p, five_deviations(p, count));
}

TEST(dropout_zeroes_at_its_rate_and_scales_the_rest)
{
    static const double rates[] = { 0, 0.1, 0.3, 0.5, 0.9 };
    for (int i = 0; i < 5; i++) {
        double p = rates[i];
        auto_tensor y = ones_through(st_dropout(.p = p), DROP_BATCH, DROP_IMAGES, 1, 1);
        assert_close(rate_of_zeros(y), p, five_deviations(p, (double)st_numel(y)));
        for (ptrdiff_t k = 0; k < st_numel(y); k++)
            assert_true(*element(y, k) == 0 || *element(y, k) == (st_real)(1 / (1 - p)));
    }
}

/* Numbers of 32 bits, of which p 2^32 are dropped: the first one that is not is kept. */
TEST(an_element_is_dropped_below_p)
{
    const st_random_key key = { 3, UINT64_C(1) << 63 | 5 };
    const double number = st_random_bits(key, 0).word[0];
    for (int more = 0; more < 2; more++) {
        auto_layer *l = st_dropout(.p = ldexp(number + more, -32));
        assert_built(l, ST_SHAPE(1, 1));
        st_layer_mode(l, true, key.seed, 5);
        auto_tensor x = full(l->x, 1), y = st_tensor_new(l->y);
        st_layer_forward(l, x, y);
        assert_true((*element(y, 0) == 0) == (more == 1));
    }
}

/* p = 1/2: elements are kept, doubled, or dropped, channel_dropout's by channels; backward alike. */
TEST(dropouts_have_the_same_mask_backward_and_none_in_inference)
{
    dice d = { { 15 } };
    for (int kind = 0; kind < 2 * VIEWS; kind++) {
        bool channels = kind >= VIEWS;
        auto_layer *l = channels ? st_channel_dropout(.p = 0.5) : st_dropout(.p = 0.5);
        auto_tensor x = roll_kind(&d, kind % VIEWS, ST_SHAPE(19, 15, 5), 1, 9),
                    dy = roll_tensor(&d, x.shape, 1, 9);
        assert_built(l, x.shape);
        auto_tensor y = forward(l, x), dx = backward(l, x, y, dy);
        int kept = 0;
        for (ptrdiff_t k = 0; k < st_numel(x); k++) {
            ptrdiff_t decides = channels ? k / 5 * 5 : k;
            st_real scale = *element(y, decides) == 0 ? 0 : 2;
            kept += scale != 0;
            assert_true(*element(y, k) == scale * *element(x, k));
            assert_true(*element(dx, k) == scale * *element(dy, k));
        }
        assert_in_range(kept, channels ? 505 : 600, channels ? 920 : 825); /* of 1,425 */
        st_layer_mode(l, false, 1, 2);
        auto_tensor same = forward(l, x), back = backward(l, x, same, dy);
        assert_same(same, x);
        assert_same(back, dy);
    }
}

/* An image of more channels than a thread takes at a time. */
TEST(channels_are_dropped_as_elements_are)
{
    enum { CHANNELS = 2000, EACH = 7 };
    auto_layer *whole = st_channel_dropout(.p = 0.5), *single = st_dropout(.p = 0.5);
    auto_tensor x = full(ST_SHAPE(1, CHANNELS, EACH), 1), ones = full(ST_SHAPE(1, CHANNELS), 1);
    assert_built(whole, x.shape);
    assert_built(single, ones.shape);
    auto_tensor y = forward(whole, x), mask = forward(single, ones);
    for (ptrdiff_t k = 0; k < st_numel(y); k++) assert_true(*element(y, k) == *element(mask, k / EACH));
}

TEST(a_mask_is_a_function_of_seed_and_step)
{
    for (int kind = 0; kind < 2; kind++) {
        auto_tensor a = mask(kind, 1, 1), again = mask(kind, 1, 1), seed = mask(kind, 2, 1),
                    step = mask(kind, 1, 2), both = mask(kind, 2, 2);
        assert_same(a, again);
        assert_independent(a, seed), assert_independent(a, step);
        assert_independent(seed, step), assert_independent(a, both);
    }
}

TEST(elements_of_a_mask_are_independent)
{
    auto_tensor y = mask(0, 3, 1);
    for (ptrdiff_t far = 1; far <= 8; far++) {
        assert_independent(st_narrow(y, 0, 0, DROP_IMAGES - far), st_narrow(y, 0, far, DROP_IMAGES - far));
        assert_independent(st_narrow(y, 1, 0, DROP_SIZE - far), st_narrow(y, 1, far, DROP_SIZE - far));
    }
}

/* Images of 1 to 9 elements share no draws, whether they fill the four of a counter or not. */
TEST(small_images_have_masks_of_their_own)
{
    const ptrdiff_t images = 20000;
    for (ptrdiff_t size = 1; size <= 9; size++) {
        auto_tensor y = ones_through(st_dropout(.p = DROP_P), ST_SHAPE(images, size), images, 1, 1);
        for (ptrdiff_t k = 0; k < size; k++)
            for (ptrdiff_t other = 0; other < size; other++)
                assert_independent(st_narrow(st_select(y, 1, k), 0, 0, images - 1),
                                   st_narrow(st_select(y, 1, other), 0, 1, images - 1));
    }
}

/* Two dropouts in a row with masks of their own both keep an element with (1-p)²; were the masks the
 * same, with 1-p. */
TEST(layers_of_a_net_have_masks_of_their_own)
{
    st_layer *two = st_sequence(st_dropout(.p = DROP_P), st_dropout(.p = DROP_P));
    auto_tensor y = ones_through(two, DROP_BATCH, DROP_IMAGES, 1, 1);
    double p = 1 - (1 - DROP_P) * (1 - DROP_P);
    assert_close(rate_of_zeros(y), p, five_deviations(p, (double)st_numel(y)));
}

/* 64 images are cut into chunks of 8, 500 into chunks of 16. */
TEST(a_mask_does_not_depend_on_the_batch_and_its_chunks)
{
    for (int kind = 0; kind < 2; kind++) {
        auto_tensor y = mask(kind, 1, 1), part = ones_through(dropout(kind), DROP_BATCH, 19, 1, 1);
        auto_tensor alone = ones_through(dropout(kind), ST_SHAPE(1, DROP_SIZE), 1, 1, 1);
        auto_tensor large = ones_through(dropout(kind), ST_SHAPE(500, DROP_SIZE), 500, 1, 1);
        assert_same(part, st_narrow(y, 0, 0, 19));
        assert_same(alone, st_narrow(y, 0, 0, 1));
        assert_same(st_narrow(large, 0, 0, DROP_IMAGES), y);
    }
}

/* ---- batch normalisation --------------------------------------------------------------------- */

/* Oracle: the definitions, in double, by the library's algorithm and by its definition in turns. Two batches
 * in training, a single image and a single value a channel among them, whose variance is 0; then inference,
 * where y and gradients are those of a fixed scale and shift. */
TEST(batchnorm_follows_the_batch_with_its_running_statistics)
{
    dice d = { { 1 } };
    for (int i = 0; i < 100; i++) {
        const double momentum = 0.25 * (double)roll(&d, 1, 4), epsilon = 0.5,
                     limit = 8 * (double)ST_REAL_EPSILON;
        const ptrdiff_t images = roll(&d, 1, 4), channels = roll(&d, 1, 3), area = roll(&d, 1, 4),
                        n = images * area;
        use_engine(i % 2 ? "reference" : NULL);
        auto_layer *l = st_batchnorm(.momentum = momentum, .epsilon = epsilon);
        const st_shape s = ST_SHAPE(images, channels, area);
        double mean[3] = { 0 }, variance[3] = { 1, 1, 1 };
        about("case %d, %s", i, st_shape_text(s).text);
        assert_built(l, ST_SHAPE(images + 1, channels, area));
        roll_elements(&d, l->param[0], 1, 5), roll_elements(&d, l->param[1], -9, 9);
        for (int step = 0; step < 3; step++) {
            bool training = step < 2;
            auto_tensor x = roll_tensor(&d, s, -4, 9), dy = roll_tensor(&d, s, -3, 3);
            st_layer_mode(l, training, 1, 1);
            st_fill(st_layer_gradients(l), 0);
            auto_tensor y = forward(l, x), dx = backward(l, x, y, dy);
            for (ptrdiff_t c = 0; c < channels; c++) {
                st_tensor of = st_select(x, 1, c), to = st_select(y, 1, c), slopes = st_select(dy, 1, c);
                double m = 0, v = 0, by_weight = 0, by_bias = 0;
                for (ptrdiff_t k = 0; k < n; k++) m += (double)*element(of, k) / (double)n;
                for (ptrdiff_t k = 0; k < n; k++) v += pow((double)*element(of, k) - m, 2) / (double)n;
                if (training) mean[c] += momentum * (m - mean[c]);
                if (training)
                    variance[c] +=
                        momentum * (n > 1 ? v * (double)n / (double)(n - 1) : 0) - momentum * variance[c];
                if (!training) m = mean[c], v = variance[c];
                const double weight = (double)*element(l->param[0], c),
                             bias = (double)*element(l->param[1], c);
                for (ptrdiff_t k = 0; k < n; k++) {
                    double hat = ((double)*element(of, k) - m) / sqrt(v + epsilon),
                           slope = (double)*element(slopes, k);
                    assert_close((double)*element(to, k), weight * hat + bias,
                                 limit * (fabs(weight * hat) + 9));
                    by_weight += slope * hat, by_bias += slope;
                    if (!training)
                        assert_about((double)*element(st_select(dx, 1, c), k),
                                     slope * weight / sqrt(v + epsilon));
                }
                assert_about((double)*element(l->state[0], c), mean[c]);
                assert_about((double)*element(l->state[1], c), variance[c]);
                assert_about((double)*element(l->grad[1], c), by_bias);
                assert_close((double)*element(l->grad[0], c), by_weight, 16 * limit);
                if (training && n == 1)
                    assert_true(*element(to, 0) == (st_real)bias && *element(st_select(dx, 1, c), 0) == 0);
            }
        }
    }
    use_engine(NULL);
}

/* The second of the three channels has an infinity and the third a NaN. */
TEST(batchnorm_keeps_its_running_statistics_on_values_that_are_not_finite)
{
    auto_layer *l = st_batchnorm(.momentum = 0.5);
    auto_tensor x = tensor_of(ST_SHAPE(2, 3), 1, 2, 3, 5, INFINITY, NAN);
    assert_built(l, x.shape);
    auto_tensor mean = tensor_of(ST_SHAPE(3), 7, -3, 2), variance = tensor_of(ST_SHAPE(3), 4, 0.5, 6);
    st_copy(l->state[0], mean), st_copy(l->state[1], variance);
    auto_tensor y = forward(l, x);
    assert_elements(l->state[0], 5, -3, 2);
    assert_elements(l->state[1], 6, 0.5, 6); /* (4 + 8) / 2 */
    for (ptrdiff_t k = 0; k < 6; k++) assert_true(isfinite(*element(y, k)) == (k % 3 == 0));
}

/* In double: the mean of 2^600 and -2^600 is 0, and their variance overflows. */
TEST(batchnorm_keeps_its_running_mean_where_the_variance_overflows)
{
    const double large = sizeof(st_real) == 8 ? 0x1p600 : INFINITY;
    for (int i = 0; i < 2; i++) {
        use_engine(i ? "reference" : NULL);
        auto_layer *l = st_batchnorm();
        auto_tensor x = tensor_of(ST_SHAPE(2, 1), large, -large), number = full(ST_SHAPE(1), 7);
        assert_built(l, x.shape);
        st_copy(l->state[0], number), st_copy(l->state[1], number);
        auto_tensor y = forward(l, x);
        assert_shape(y, 2, 1);
        assert_elements(l->state[0], 7);
        assert_elements(l->state[1], 7);
    }
    use_engine(NULL);
}

static void check_even(st_layer *l, st_shape s, double value)
{
    about("%s, %s of %g", l->type->name, st_shape_text(s).text, value);
    auto_tensor x = full(s, value), dx = full(s, NAN), dy = full(s, 3), zeros = st_tensor_new(s);
    assert_built(l, s);
    st_layer_mode(l, true, 1, 1);
    auto_tensor y = forward(l, x);
    assert_same(y, zeros);
    st_layer_backward(l, x, y, dy, dx);
    assert_same(dx, zeros);
    st_layer_free(l);
}

/* The mean of equal numbers is the number, exactly, and epsilon is what is divided by: 0, also of a single
 * one. */
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

/* Squares of 2^530 overflow in double, those of 2^-530 underflow. y is that of the same numbers without the
 * factor, and dx without it divided by it: a norm's epsilon is 0 here. A factor of dy, with which dy x
 * overflows in float, is one of dx and of gradients. */
TEST(norms_of_large_and_small_numbers_are_those_of_others)
{
    const bool is_double = sizeof(st_real) == 8;
    const double factors[] = { is_double ? 0x1p530 : 0x1p60, is_double ? 0x1p-530 : 0x1p-70 };
    const double steepness[] = { is_double ? 1 : 0x1p62, 1 };
    dice d = { { 7 } };
    st_layer *all[] = { st_batchnorm(.epsilon = ST_ZERO), st_layernorm(.epsilon = ST_ZERO),
                        st_rmsnorm(.epsilon = ST_ZERO), st_groupnorm(.groups = 2, .epsilon = ST_ZERO) };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int k = 0; k < 2; k++) {
            auto_layer *l = k == 0 ? st_layer_clone(all[i]) : all[i];
            const st_real factor = (st_real)factors[k], steep = (st_real)steepness[k];
            about("%s, %g", l->type->name, factors[k]);
            auto_tensor x = roll_tensor(&d, ST_SHAPE(5, 4, 37), -9, 9), dy = roll_tensor(&d, x.shape, -3, 3);
            assert_built(l, x.shape);
            auto_tensor y = forward(l, x), dx = backward(l, x, y, dy),
                        gradient = st_tensor_clone(st_layer_gradients(l));
            st_scale(x, factor);
            st_scale(dy, steep);
            st_fill(st_layer_gradients(l), 0);
            auto_tensor scaled_y = forward(l, x), scaled_dx = backward(l, x, scaled_y, dy);
            st_scale(scaled_dx, factor);
            st_scale(scaled_dx, 1 / steep);
            st_scale(st_layer_gradients(l), 1 / steep);
            assert_near(scaled_y, y, 100 * (double)ST_REAL_EPSILON);
            assert_near(scaled_dx, dx, 100 * (double)ST_REAL_EPSILON);
            assert_near(st_layer_gradients(l), gradient, 1000 * (double)ST_REAL_EPSILON);
        }
}

/* In memory the last element of an image is followed by the first one of the next image. */
TEST(norms_of_an_image_do_not_depend_on_the_next_one)
{
    for (int i = 0; i < ENGINES; i++) {
        if (!choose_engine(engines[i])) continue;
        about("%s", engines[i]);
        auto_layer *l = st_layernorm(.epsilon = ST_ZERO);
        auto_tensor x = tensor_of(ST_SHAPE(2, 4), 1, 2, 4, 5, INFINITY, 0, 0, 0);
        assert_built(l, x.shape);
        auto_tensor y = forward(l, x);
        const double deviation = sqrt(2.5);
        for (ptrdiff_t k = 0; k < 4; k++)
            assert_about((double)*element(y, k), ((double)*element(x, k) - 3) / deviation);
    }
    use_engine(NULL);
}

/* By the definition, sums are as if they were rounded once: that of dy is 1, where h is 0, sqrt(2), 0,
 * -sqrt(2) and the mean of h dy sqrt(2) / 4. */
TEST(norms_sum_gradients_that_cancel)
{
    use_engine("reference");
    auto_layer *l = st_layernorm(.epsilon = ST_ZERO);
    auto_tensor x = tensor_of(ST_SHAPE(1, 4), 0, 1, 0, -1), dy = tensor_of(x.shape, 0x1p60, 1, -0x1p60, 0);
    assert_built(l, x.shape);
    auto_tensor y = forward(l, x), dx = backward(l, x, y, dy);
    assert_about((double)*element(dx, 1), sqrt(2) * (1 - 0.25 - 0.5));
    assert_about((double)*element(dx, 3), sqrt(2) * (0 - 0.25 + 0.5));
    use_engine(NULL);
}

/* The first element is far from the others, so that differences from it would lose digits. */
TEST(batchnorm_does_not_depend_on_its_first_element)
{
    enum { IMAGES = 50, AREA = 1000 };
    const double count = (double)IMAGES * AREA;
    dice d = { { 3 } };
    auto_layer *l = st_batchnorm(.epsilon = 1e-9);
    auto_tensor x = roll_tensor(&d, ST_SHAPE(IMAGES, 1, AREA), 0, 1);
    for (ptrdiff_t k = 0; k < IMAGES * AREA; k++) *element(x, k) = k == 0 ? -9000 : 1000 + *element(x, k) / 3;
    assert_built(l, x.shape);
    auto_tensor y = forward(l, x);
    double mean = 0, variance = 0; /* mean: less 1000 */
    for (ptrdiff_t k = IMAGES * AREA; k-- > 0;) mean += ((double)*element(x, k) - 1000) / count;
    for (ptrdiff_t k = IMAGES * AREA; k-- > 0;)
        variance += pow((double)*element(x, k) - 1000 - mean, 2) / count;
    for (ptrdiff_t k = 0; k < IMAGES * AREA; k++) {
        const double want = ((double)*element(x, k) - 1000 - mean) / sqrt(variance + 1e-9);
        assert_close((double)*element(y, k), want, 512 * (double)ST_REAL_EPSILON * (fabs(want) + 1));
    }
}

/* 150,000 weights of [300, 500]: their root mean square, and the largest where they are uniform. */
TEST(weights_begin_as_their_name_says)
{
    const double sum = 300 + 500, in = 500;
    const struct {
        st_init_name name;
        double square; /* the expected variance */
        bool uniform;
    } cases[] = { { ST_INIT_DEFAULT, 1 / in / 3, true },
                  { ST_INIT_XAVIER_UNIFORM, 2 / sum, true },
                  { ST_INIT_XAVIER_NORMAL, 2 / sum, false },
                  { ST_INIT_KAIMING_UNIFORM, 2 / in, true },
                  { ST_INIT_KAIMING_NORMAL, 2 / in, false } };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const bool convolves = i % 2; /* 12 channels of 5x5 = 300 and 20 of 5x5 = 500 */
        about("init %d, %s", (int)cases[i / 2].name, convolves ? "conv2d" : "dense");
        st_layer *l = convolves ? st_conv2d(.out_channels = 12, .kernel = { 5, 5 }, .init = cases[i / 2].name)
                                : st_dense(.out_features = 300, .init = cases[i / 2].name);
        assert_built(l, convolves ? ST_SHAPE(1, 20, 5, 5) : ST_SHAPE(1, 500));
        double square_sum = 0, most = 0, bias = 0, n = (double)st_numel(l->param[0]);
        for (ptrdiff_t k = 0; k < st_numel(l->param[0]); k++) {
            double w = (double)*element(l->param[0], k);
            square_sum += w * w;
            most = fmax(most, fabs(w));
        }
        for (ptrdiff_t k = 0; k < st_numel(l->param[1]); k++)
            bias = fmax(bias, fabs((double)*element(l->param[1], k)));
        double ratio = square_sum / n / cases[i / 2].square, bound = sqrt(3 * cases[i / 2].square);
        assert_true(fabs(ratio - 1) < 8 / sqrt(n)); /* the deviation is at most sqrt(2 / n) */
        assert_true(cases[i / 2].uniform ? most <= bound && most > 0.99 * bound : most > 1.5 * bound);
        assert_true(bias <= 1 / sqrt(in));
        st_layer_free(l);
    }
}

TEST(softmax_of_huge_logits_does_not_overflow)
{
    const double huge = (double)ST_REAL_MAX / 4;
    auto_layer *l = st_softmax(), *logarithm = st_log_softmax();
    auto_tensor x = tensor_of(ST_SHAPE(3, 3), huge, -huge, 0, 1000, 1000, -1000, -huge, -huge, -huge);
    assert_built(l, x.shape), assert_built(logarithm, x.shape);
    auto_tensor y = forward(l, x), z = forward(logarithm, x);
    assert_elements(st_narrow(y, 0, 0, 2), 1, 0, 0, 0.5, 0.5, 0);
    for (ptrdiff_t k = 6; k < 9; k++) assert_about((double)*element(y, k), 1.0 / 3);
    assert_elements(st_narrow(z, 0, 0, 1), 0, -2 * huge, -huge);
    assert_about((double)*element(z, 3), -log(2)); /* however large what the row begins with */
    for (ptrdiff_t k = 6; k < 9; k++) assert_about((double)*element(z, k), -log(3));
    assert_true(*element(z, 5) < -2000 && *element(z, 5) > -2001);
    auto_tensor dy = full(x.shape, 1), dx = full(x.shape, NAN);
    st_layer_backward(l, x, y, dy, dx); /* rows of the same dy: nothing changes */
    for (ptrdiff_t k = 0; k < 9; k++) assert_about((double)*element(dx, k) + 1, 1);
}
