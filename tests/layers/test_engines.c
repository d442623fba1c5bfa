/* test_engines.c: every engine comes to the definitions' results, exact on small integers, with the kernel of
 * each instruction set that this machine has. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "layers/pooling/pooling.h"
#include "layers/layers.h"
#include "layers/fast/kernel.h"
#include "nn/check/gradcheck.h"
#include "tensor/engine.h"
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The kernel of the engine in use, which is available. */
static const kernel *kernel_in_use(void)
{
    const int isa = engine_choose();
    assert_true(isa >= 0);
    return kernel_of_isa[isa];
}

/* ---- the kernel -------------------------------------------------------------------------------------- */

/* With every compiler: the table of algorithms replaces an empty one when the library is linked. */
TEST(algorithms_replace_definitions)
{
    auto_layer *l = st_conv2d(.out_channels = 4, .kernel = { 3, 3 });
    st_shape y;
    use_engine("generic");
    assert_int_equal(st_layer_plan(l, ST_SHAPE(1, 2, 20, 20), &y), 0);
    assert_true(l->impl->hooks.forward != l->type->forward);
    use_engine(NULL);
}

TEST(an_engine_that_is_not_known_is_refused)
{
    use_engine("fast");
    assert_int_equal(engine_choose(), -1);
#ifdef __x86_64__
    expect_error("STRIDE_ENGINE=fast: expected reference, generic, avx2 or avx512");
#else
    expect_error("STRIDE_ENGINE=fast: expected reference, generic");
#endif
    st_layer *l = st_relu();
    assert_int_equal(st_layer_plan(l, ST_SHAPE(1, 1), NULL), -1);
    assert_non_null(strstr(st_error(), "STRIDE_ENGINE=fast"));
    st_error_clear();
    assert_int_equal(st_layer_build(l, ST_SHAPE(1, 1), 1), -1);
    assert_non_null(strstr(st_error(), "STRIDE_ENGINE=fast"));
    st_error_clear();
    use_engine("reference");
    assert_true(engine_choose() >= 0 && engine_is_reference());
    use_engine(NULL);
    setenv("STRIDE_WINOGRAD", "0", 1);
    expect_failure(st_layer_build(l, ST_SHAPE(1, 1), 1), "STRIDE_WINOGRAD=0: expected on or off");
    unsetenv("STRIDE_WINOGRAD");
    st_layer_free(l);
}

/* ---- convolution ------------------------------------------------------------------------------------- */

typedef struct results {
    st_tensor y, dx, dw;
} results;

static results run_layer(const char *engine, st_layer *l, st_tensor x, dice d)
{
    use_engine(engine);
    assert_int_equal(st_layer_build(l, x.shape, 1), 0);
    roll_elements(&d, st_layer_parameters(l), -3, 3);
    results r = { .y = st_tensor_new(l->y), .dx = st_tensor_new(x.shape) };
    auto_tensor dy = roll_tensor(&d, l->y, -3, 3);
    roll_elements(&d, st_layer_gradients(l), -3, 3);
    st_layer_spoil_scratch(l);
    st_layer_forward(l, x, r.y);
    st_layer_spoil_scratch(l);
    st_layer_backward(l, x, r.y, dy, r.dx);
    r.dw = st_tensor_clone(st_layer_gradients(l));
    st_layer_free(l);
    return r;
}

static void free_results(results r)
{
    st_tensor_free(r.y), st_tensor_free(r.dx), st_tensor_free(r.dw);
}

static void assert_same_results(const char *engine, const st_layer *l, st_tensor x, dice d, results expected)
{
    about("%s, %s", engine, st_shape_text(x.shape).text);
    results fast = run_layer(engine, st_layer_clone(l), x, d);
    assert_same(fast.y, expected.y);
    assert_same(fast.dx, expected.dx);
    assert_same(fast.dw, expected.dw);
    free_results(fast);
}

/* With one engine, or NULL: with each. */
static void assert_as_the_reference(const char *engine, const st_layer *l, st_shape s)
{
    dice d = { { 1 } };
    auto_tensor x = roll_tensor(&d, s, -1, 1);
    results reference = run_layer("reference", st_layer_clone(l), x, d);
    for (int i = 1; i < ENGINES; i++)
        if (engine ? strcmp(engine, engines[i]) == 0 : choose_engine(engines[i]))
            assert_same_results(engines[i], l, x, d, reference);
    free_results(reference);
}

/* Rows that begin and end anywhere in a line of memory, in several pieces, on one thread and on three. */
TEST(what_is_written_past_the_caches_is_the_same)
{
    st_layer *const layer[] = { st_relu(),      st_gelu(),       st_tanh(),
                                st_batchnorm(), st_groupnorm(1), st_layernorm(.axes = 2) };
    enum { LAYERS = sizeof layer / sizeof *layer };
    for (int i = 1; i < ENGINES; i++)
        for (int k = 0; k < 2 * LAYERS && choose_engine(engines[i]); k++) {
            const st_layer *l = layer[k / 2];
            dice d = { { 1 } };
            auto_tensor x = roll_tensor(&d, ST_SHAPE(k % 2 ? 17 : 3, 4, 7, 331), -3, 3);
            about("%s, %s", engines[i], l->type->name);
            st_set_num_threads(k % 2 ? 3 : 1);
            results cached = run_layer(engines[i], st_layer_clone(l), x, d);
            write_past_caches(true);
            results streamed = run_layer(engines[i], st_layer_clone(l), x, d);
            write_past_caches(false);
            assert_same(streamed.y, cached.y);
            assert_same(streamed.dx, cached.dx);
            assert_same(streamed.dw, cached.dw);
            free_results(cached), free_results(streamed);
        }
    for (int k = 0; k < LAYERS; k++) st_layer_free(layer[k]);
    use_engine(NULL);
    st_set_num_threads(0);
}

/* More vectors of positions than rows of weights or of a block: the table of them must have room, or it runs
 * into dy, which in a chain lies behind it. So many channels that a block has the fewest rows, and rows so
 * short that what they lack counts; and a block of fewer windows than lanes at the end of an image, beyond
 * which nothing may be read (a sanitizer sees it). Several blocks of rows where lanes are channels, with a
 * stride and without, and with rows that no tap reads. More windows in a row than the planes have columns,
 * and more vectors in dy's planes than in x's. */
TEST(large_and_narrow_images_are_convolved_as_by_the_reference)
{
    auto_layer *points = st_sequence(st_conv2d(1, { 1 }), st_conv2d(1, { 1 }), st_relu()),
               *many = st_conv2d(20000, { 3 }, .padding = { 1, 1 }), *wide = st_conv2d(4096, { 5 }),
               *channels = st_conv2d(64, { 1 }),
               *strided = st_conv2d(64, { 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }),
               *ending = st_conv2d(32, { 3 }, .stride = { 2, 2 }),
               *apart = st_conv_transpose2d(133, { 2, 3 }, .stride = { 3, 2 }, .padding = { 0, 1 },
                                            .dilation = { 1, 2 }),
               *framed = st_conv2d(3, { 1 }, .padding = { 1, 1 }),
               *tall = st_conv2d(1, { 20, 1 }, .padding = { 0, 2 });
    for (int i = 1; i < ENGINES; i++) {
        if (!choose_engine(engines[i])) continue;
        const ptrdiff_t lanes = kernel_in_use()->lanes;
        assert_as_the_reference(engines[i], many, ST_SHAPE(1, 1, 7, lanes > 2 ? lanes / 2 - 1 : 1));
    }
    assert_as_the_reference(NULL, points, ST_SHAPE(1, 1, 200, 300));
    assert_as_the_reference(NULL, wide, ST_SHAPE(1, 1, 8, 8));
    assert_as_the_reference(NULL, channels, ST_SHAPE(1, 64, 50, 47));
    assert_as_the_reference(NULL, strided, ST_SHAPE(1, 64, 99, 93));
    assert_as_the_reference(NULL, ending, ST_SHAPE(8, 16, 50, 50));
    assert_as_the_reference(NULL, apart, ST_SHAPE(3, 52, 13, 19));
    assert_as_the_reference(NULL, tall, ST_SHAPE(1, 1, 20, 1));
    for (ptrdiff_t h = 1; h < 9; h++) {
        assert_as_the_reference(NULL, framed, ST_SHAPE(1, 1, h, 1));
        assert_as_the_reference(NULL, framed, ST_SHAPE(2, 1, 2, h));
    }
    use_engine(NULL);
}

/* If the output padding is not less than the stride, more windows fit into the output than that. */
TEST(a_transposed_convolution_has_a_window_for_each_pixel_of_its_input)
{
    auto_layer *lower = st_conv_transpose2d(2, { 2, 2 }, .dilation = { 2, 2 },
                                            .output_padding = { 1, ST_ZERO_INT }),
               *wider = st_conv_transpose2d(2, { 2, 2 }, .dilation = { 2, 2 },
                                            .output_padding = { ST_ZERO_INT, 1 });
    assert_as_the_reference(NULL, lower, ST_SHAPE(2, 3, 3, 4));
    assert_as_the_reference(NULL, wider, ST_SHAPE(2, 3, 3, 4));
    use_engine(NULL);
}

/* ---- pooling ----------------------------------------------------------------------------------------- */

/* Windows of -inf alone, whose gradients go to their first element in the image; equal maxima; images so
 * narrow that the windows of a row and of the next one have columns in common, so large that they are left to
 * the definition, or so large that their rows are computed in blocks. */
TEST(maxima_and_their_gradients_are_those_of_the_reference)
{
    st_layer *all[] = { st_maxpool({ 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }),
                        st_maxpool({ 3, 3 }, .stride = { 1, 1 }, .padding = { 1, 1 }),
                        st_maxpool({ 3, 2 }, .stride = { 1, 2 }, .padding = { 2, 1 }),
                        st_maxpool({ 5, 2 }, .stride = { 1, 1 }, .padding = { 2, 1 }), st_maxpool({ 2, 2 }) };
    const st_shape shapes[] = { ST_SHAPE(3, 5, 7, 9), ST_SHAPE(2, 3, 5, 2), ST_SHAPE(2, 3, 2, 4098),
                                ST_SHAPE(1, 2, 4200, 3), ST_SHAPE(1, 1, 521, 517) };
    for (int m = 0; m < 5 * 5; m++) {
        st_layer *l = all[m % 5];
        assert_as_the_reference(NULL, l, shapes[m / 5]);
        auto_tensor x = full(shapes[m / 5], -INFINITY);
        results reference = run_layer("reference", st_layer_clone(l), x, (dice){ { 1 } });
        for (int i = 1; i < ENGINES; i++) {
            if (!choose_engine(engines[i])) continue;
            results fast = run_layer(engines[i], st_layer_clone(l), x, (dice){ { 1 } });
            assert_same(fast.dx, reference.dx);
            free_results(fast);
        }
        free_results(reference);
    }
    for (int i = 0; i < 5; i++) st_layer_free(all[i]);
    use_engine(NULL);
}

/* Both elements of the only window lie in the padding, along one axis or along both. */
TEST(the_maximum_of_padding_is_minus_infinity)
{
    for (int i = 0; i < 3 * ENGINES; i++) {
        if (!choose_engine(engines[i / 3])) continue;
        about("%s, case %d", engines[i / 3], i % 3);
        const bool down = i % 3 != 1, right = i % 3 != 0;
        st_layer *l = st_maxpool(.kernel = { 1 + down, 1 + right }, .dilation = { 2 },
                                 .padding = { down ? 1 : ST_ZERO_INT, right ? 1 : ST_ZERO_INT });
        auto_tensor x = full(ST_SHAPE(2, 3, 1, 1), 5), zeros = st_tensor_new(x.shape),
                    lowest = full(x.shape, -INFINITY);
        results r = run_layer(engines[i / 3], l, x, (dice){ { 1 } });
        assert_same(r.y, lowest);
        assert_same(r.dx, zeros);
        free_results(r);
    }
    use_engine(NULL);
}

/* dx of numbers from -1 to 1, by each engine; `same`: y is the same, too. */
static void assert_dx_near_the_reference(const st_layer *l, st_shape shape, bool same, double limit)
{
    dice d = { { 1 } };
    auto_tensor x = roll_tensor(&d, shape, -1, 1);
    results reference = run_layer("reference", st_layer_clone(l), x, d);
    for (int i = 1; i < ENGINES; i++) {
        if (!choose_engine(engines[i])) continue;
        about("%s", engines[i]);
        results fast = run_layer(engines[i], st_layer_clone(l), x, d);
        if (same) assert_same(fast.y, reference.y);
        assert_near(fast.dx, reference.dx, limit);
        free_results(fast);
    }
    free_results(reference);
    use_engine(NULL);
}

/* Rows of dy are joined; the last ones of a channel are fewer, and vectors of their shares pass their end. */
TEST(gradients_of_adaptive_means_are_those_of_the_reference)
{
    auto_layer *l = st_adaptive_avgpool({ 7, 5 });
    const double limit = 8 * ST_REAL_EPSILON; /* a sum of four shares, each below 1/264 */
    assert_dx_near_the_reference(l, ST_SHAPE(1, 2, 171, 57), false, limit);
}

/* Reflected columns are more than three vectors, whole ones on one side and in part on the other. */
TEST(gradients_of_wide_reflected_borders_are_those_of_the_reference)
{
    auto_layer *l = st_pad2d(.height = { 20, 27 }, .width = { 64, 53 }, .mode = ST_PAD_REFLECT);
    const double limit = 32 * ST_REAL_EPSILON; /* nine elements at most */
    assert_dx_near_the_reference(l, ST_SHAPE(1, 2, 89, 71), true, limit);
}

/* Columns of a dilated window that the border cuts begin to the right of those of the next one. */
TEST(places_of_maxima_in_dilated_windows_are_those_of_the_reference)
{
    auto_layer *l = st_max_unpool(
        st_maxpool(.kernel = { 3 }, .stride = { 1 }, .padding = { 1 }, .dilation = { 2 }), st_relu());
    assert_as_the_reference(NULL, l, ST_SHAPE(1, 2, 16, 16));
    use_engine(NULL);
}

/* More windows in a row than a vector has, and less; the last row and the last column are in none. */
TEST(unpooled_maxima_of_windows_that_are_apart_are_those_of_the_reference)
{
    auto_layer *l = st_max_unpool(st_maxpool({ 2, 2 }), st_relu());
    assert_as_the_reference(NULL, l, ST_SHAPE(2, 3, 7, 75));
    assert_as_the_reference(NULL, l, ST_SHAPE(2, 3, 9, 14));
    use_engine(NULL);
}

/* Positions that max pooling keeps are those of its places; where no backward pass follows, it keeps none. */
TEST(unpooled_maxima_of_windows_that_overlap_are_those_of_the_reference)
{
    const st_shape s = ST_SHAPE(2, 3, 11, 37);
    static const int windows[][3] = { { 3, 1, 1 }, { 3, 2, 1 }, { 3, 2, 0 }, { 2, 1, 0 } };
    for (int k = 0; k < 4; k++) {
        const int wide = windows[k][0], stride = windows[k][1], padding = windows[k][2];
        auto_layer *l = st_max_unpool(st_maxpool(.kernel = { wide }, .stride = { stride },
                                                 .padding = { padding > 0 ? padding : ST_ZERO_INT }),
                                      st_relu());
        about("%d, %d apart", wide, stride);
        assert_as_the_reference(NULL, l, s);
        dice d = { { 1 } };
        auto_tensor x = roll_tensor(&d, s, -1, 1);
        results reference = run_layer("reference", st_layer_clone(l), x, d);
        for (int i = 1; i < ENGINES; i++) {
            if (!choose_engine(engines[i])) continue;
            auto_layer *fast = st_layer_clone(l);
            auto_tensor y = st_tensor_new(reference.y.shape);
            assert_int_equal(st_layer_build(fast, s, 1), 0);
            st_layer_inference_only(fast, true);
            st_layer_forward(fast, x, y);
            assert_same(y, reference.y);
        }
        free_results(reference);
    }
    use_engine(NULL);
}

/* A zero to the right of an element comes before an equal maximum of the next row. */
TEST(zeros_beside_one_column_come_before_maxima_of_the_next_rows)
{
    auto_layer *l =
        st_maxpool(.kernel = { 3, 2 }, .stride = { 1, 1 }, .pad_width = { 0, 1 }, .pad_value = ST_PAD_ZERO);
    assert_as_the_reference(NULL, l, ST_SHAPE(2, 3, 12, 1));
    use_engine(NULL);
}

/* Windows are two rows high, of which the border leaves one, which is also the row of y. */
TEST(places_of_maxima_that_the_border_cuts_to_a_row_are_those_of_the_reference)
{
    auto_layer *l = st_maxpool(.kernel = { 2, 17 }, .stride = { 2, 2 }, .padding = { 1, 7 });
    assert_as_the_reference(NULL, l, ST_SHAPE(2, 3, 2, 17));
    use_engine(NULL);
}

static double greatest_size(st_tensor x)
{
    double most = 0;
    for (ptrdiff_t k = 0; k < st_numel(x); k++) most = fmax(most, fabs((double)*element(x, k)));
    return most;
}

/* y and dx of a fast engine, within `error` of the reference's greatest. */
static void assert_close_to_the_reference(const char *engine, const st_layer *l, st_tensor x, double error)
{
    results reference = run_layer("reference", st_layer_clone(l), x, (dice){ { 1 } }),
            fast = run_layer(engine, st_layer_clone(l), x, (dice){ { 1 } });
    assert_near(fast.y, reference.y, error * greatest_size(reference.y));
    assert_near(fast.dx, reference.dx, error); /* shares are at most 1 */
    free_results(reference), free_results(fast);
}

/* A window whose terms are so small beside another window's that their sum is hardly a normal number, and one
 * element of which is far above the others. */
TEST(sums_of_exponentials_are_those_of_the_reference_in_windows_far_below)
{
    st_layer *all[] = { st_logsumexp_pool(.kernel = { 2, 30 }), st_soft_pool(.kernel = { 2, 30 }) };
    for (int i = 1; i < ENGINES; i++) /* By one where the exponentials of float and of double end. */
        for (int below = 60; below < 760 && choose_engine(engines[i]);
             below += below > 130 && below < 690 ? 7 : 1)
            for (int alone = 0; alone < 2; alone++) {
                auto_tensor x = full(ST_SHAPE(1, 1, 2, 60), 0);
                st_fill(st_narrow(x, 3, 30, 30), (st_real)(alone ? -below - 200 : -below));
                *st_at(x, ST_SHAPE(0, 0, 1, 40)) = (st_real)-below;
                about("%s, %d, alone %d", engines[i], below, alone);
                for (int k = 0; k < 2; k++)
                    assert_close_to_the_reference(engines[i], all[k], x, 4 * below * (double)ST_REAL_EPSILON);
            }
    for (int k = 0; k < 2; k++) st_layer_free(all[k]);
    use_engine(NULL);
}

/* Windows of numbers whose powers are below every number, beside a window of `most`. */
TEST(norms_of_small_numbers_are_those_of_the_reference)
{
    auto_layer *l = st_learned_norm_pool(.kernel = { 3 }, .p = 4);
    const double small[] = { 1e-3, 1e-9, 1e-20, 5e-31, 1e-37, 0 };
    for (int i = 1; i < ENGINES; i++)
        for (int k = 0; k < 36 && choose_engine(engines[i]); k++) {
            auto_tensor x = full(ST_SHAPE(1, 1, 3, 6), (st_real)small[k % 6]);
            st_fill(st_narrow(x, 3, 3, 3), (st_real)(k < 6 ? 1 : small[k / 6]));
            about("%s, %g beside %g", engines[i], small[k % 6], k < 6 ? 1 : small[k / 6]);
            results reference = run_layer("reference", st_layer_clone(l), x, (dice){ { 1 } }),
                    fast = run_layer(engines[i], st_layer_clone(l), x, (dice){ { 1 } });
            for (int j = 0; j < 2; j++) {
                const double y = (double)*element(reference.y, j);
                about("%s, %g beside %g, window %d", engines[i], small[k % 6], k < 6 ? 1 : small[k / 6], j);
                assert_near(st_narrow(fast.y, 3, j, 1), st_narrow(reference.y, 3, j, 1),
                            256 * (double)ST_REAL_EPSILON * y);
            }
            assert_near(fast.dx, reference.dx, 256 * (double)ST_REAL_EPSILON);
            free_results(reference), free_results(fast);
        }
    use_engine(NULL);
}

/* Beside elements of 1, others whose power p - 1 is much greater than they are, down to the least number: the
 * slope of t is t^(p - 1) m^(1/p - 1) / 4, m = (1 + t^p) / 2. */
TEST(slopes_of_norms_near_1_are_right_for_the_least_numbers)
{
    const double p = 1.01;
    for (int i = 0; i < ENGINES; i++)
        for (int bits = 0; bits < 40 && choose_engine(engines[i]); bits++) {
            const double t = ldexp(1, bits - (sizeof(st_real) == 4 ? 149 : 1074)),
                         slope = pow(t, p - 1) * pow((1 + pow(t, p)) / 2, 1 / p - 1) / 4;
            auto_layer *l = st_learned_norm_pool(.kernel = { 2 }, .p = p);
            auto_tensor x = full(ST_SHAPE(1, 1, 2, 8), t), y = st_tensor_new(ST_SHAPE(1, 1, 1, 4)),
                        dy = full(y.shape, 1), dx = st_tensor_new(x.shape),
                        want = full(ST_SHAPE(1, 1, 1, 8), slope);
            st_fill(st_narrow(x, 2, 0, 1), 1);
            assert_int_equal(st_layer_build(l, x.shape, 1), 0);
            st_layer_forward(l, x, y);
            st_layer_backward(l, x, y, dy, dx);
            about("%s, bit %d", engines[i], bits);
            assert_near(st_narrow(dx, 2, 1, 1), want, 64 * (double)ST_REAL_EPSILON);
        }
    use_engine(NULL);
}

/* Terms are nearly 1, and their logarithm is divided by r: errors are 128 times as great. */
TEST(means_of_exponentials_near_1_are_those_of_the_reference)
{
    const double sharpness[] = { 1e-9, 1e-4, 1e-2, 1, 5 };
    for (int i = 1; i < ENGINES; i++)
        for (int k = 0; k < 15 && choose_engine(engines[i]); k++) {
            auto_layer *l = st_logsumexp_pool(.kernel = { 3 }, .r = sharpness[k / 3]);
            dice d = { { 1 } };
            auto_tensor x = roll_tensor(&d, ST_SHAPE(2, 3, 9, 9), -1, 1);
            st_scale(x, (st_real)(k % 3 == 0 ? 1 : k % 3 == 1 ? 1e-3 : 1e-20));
            about("%s, r = %g, numbers %d", engines[i], sharpness[k / 3], k % 3);
            assert_close_to_the_reference(engines[i], l, x, 1024 * (double)ST_REAL_EPSILON);
        }
    use_engine(NULL);
}

/* ---- elements ---------------------------------------------------------------------------------------- */

/* The least number above 0, of which 1 / 2^(bits of the mantissa) is left, and the least that has them
 * all. */
static const double least = sizeof(st_real) == 4 ? 0x1p-149 : 0x1p-1074;
static const double normal = sizeof(st_real) == 4 ? 0x1p-126 : 0x1p-1022;

/* Zeros of both signs, numbers beside the ends of what there is and of exp, and what is none. */
static void put_extremes(st_tensor x)
{
    const double most = (double)ST_REAL_MAX;
    const double extremes[] = { 0,   least, 3 * least, normal / 2, normal, 1e-30,    16,       88.7, 103.9,
                                1e4, 1e15,  1e30,      most / 4,   most,   most / 2, INFINITY, NAN };
    enum { EXTREMES = sizeof extremes / sizeof *extremes };
    for (ptrdiff_t k = 0; k < st_numel(x); k++)
        *element(x, k) = (st_real)(k % 3 == 0 ? -extremes[k / 3 % EXTREMES] : extremes[k / 3 % EXTREMES]);
}

static void assert_near_parts(const results *fast, const results *reference)
{
    const st_tensor of[] = { fast->y, fast->dx, fast->dw },
                    as[] = { reference->y, reference->dx, reference->dw };
    for (int k = 0; k < 3; k++) /* sums of 33,000 in other orders */
        assert_near(of[k], as[k], 200 * (double)ST_REAL_EPSILON * fmax(1, greatest_size(as[k])));
}

/* By each engine; `number` says which of a test's layers it is. */
static void assert_parts_near_the_reference(const st_layer *l, size_t number, st_tensor x, dice d)
{
    results reference = run_layer("reference", st_layer_clone(l), x, d);
    for (int i = 1; i < ENGINES; i++) {
        if (!choose_engine(engines[i])) continue;
        about("%s, layer %zu, %s, %s", engines[i], number, l->type->name, st_shape_text(x.shape).text);
        results fast = run_layer(engines[i], st_layer_clone(l), x, d);
        assert_near_parts(&fast, &reference);
        free_results(fast);
    }
    free_results(reference);
}

/* More windows in a row than a vector has, and less, in a channel, too; rows and columns in no window. */
TEST(powers_of_windows_that_are_apart_are_those_of_the_reference)
{
    st_layer *all[] = { st_soft_pool({ 2, 2 }),
                        st_logsumexp_pool({ 2, 2 }),
                        st_logsumexp_pool({ 2, 2 }, .r = 0.1),
                        st_gem_pool({ 2, 2 }, .epsilon = 0.1, .per_channel = true),
                        st_learned_norm_pool({ 2, 2 }),
                        st_learned_norm_pool({ 2, 2 }, .per_channel = true) };
    const st_shape shapes[] = { ST_SHAPE(2, 3, 7, 75), ST_SHAPE(2, 3, 9, 14), ST_SHAPE(2, 3, 51, 2),
                                ST_SHAPE(2, 3, 24, 24), ST_SHAPE(1, 2, 3, 7) };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        auto_layer *l = all[k];
        for (size_t m = 0; m < sizeof shapes / sizeof *shapes; m++) {
            dice d = { { 1 } };
            auto_tensor x = roll_tensor(&d, shapes[m], -3, 3);
            assert_parts_near_the_reference(l, k, x, d);
        }
    }
    use_engine(NULL);
}

/* Sets longer than those that stay in the cache: with a weight for each element, for each channel, and for
 * the whole set; for one image and two. */
TEST(norms_of_long_sets_are_those_of_the_reference)
{
    st_layer *all[] = { st_layernorm(), st_rmsnorm(), st_groupnorm(.groups = 1), st_groupnorm(.groups = 3),
                        st_groupnorm(.groups = 3, .no_affine = true) };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (int images = 1; images < 3; images++) {
            dice d = { { 5 } };
            auto_tensor x = roll_tensor(&d, ST_SHAPE(images, 3, 182, 183), -3, 3);
            assert_parts_near_the_reference(all[k], k, x, d);
        }
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) st_layer_free(all[k]);
    use_engine(NULL);
}

/* No sum in another order, no product that is not rounded, but in the exponential functions, of all engines
 * that can; of extremes those that are taken element by element. gelu in float has a polynomial of its own
 * with AVX-512. */
TEST(every_engine_rounds_alike)
{
    enum { FUSED = 9 };
    const bool own = sizeof(st_real) == sizeof(float) && choose_engine("avx512");
    st_layer *all[] = { st_gelu(),
                        st_gelu(.approximate = ST_GELU_TANH),
                        st_silu(),
                        st_mish(),
                        st_tanh(),
                        st_sigmoid(),
                        st_softplus(),
                        st_selu(),
                        st_elu(.alpha = 0.5),
                        st_relu(),
                        st_relu6(),
                        st_hardtanh(),
                        st_hardswish(),
                        st_softsign(),
                        st_hardsigmoid(),
                        st_leaky_relu(.slope = 0.25),
                        st_avgpool(.kernel = { 0, 0 }),
                        st_adaptive_avgpool(),
                        st_avgpool(.kernel = { 2, 2 }) };
    if (own) st_layer_free(all[0]);
    for (size_t m = own ? 2 : 0; m < 2 * sizeof all / sizeof *all; m++) {
        dice d = { { 3 } };
        auto_tensor x = st_tensor_new(ST_SHAPE(2, 3, 13, 17));
        st_uniform(x, (st_random_key){ 1, 1 }, -4, 4);
        if (m % 2) put_extremes(x);
        const bool fused = m / 2 < FUSED && choose_engine("avx2");
        results plain = run_layer(fused ? "avx2" : "generic", st_layer_clone(all[m / 2]), x, d);
        for (int i = 1; i < ENGINES; i++) {
            if (!choose_engine(engines[i]) || (fused && strcmp(engines[i], "generic") == 0)) continue;
            about("%s, layer %d, %s", engines[i], (int)m / 2, m % 2 ? "extremes" : "small");
            results r = run_layer(engines[i], st_layer_clone(all[m / 2]), x, d);
            assert_same(r.y, plain.y);
            assert_same(r.dx, plain.dx);
            free_results(r);
        }
        free_results(plain);
        if (m % 2) st_layer_free(all[m / 2]);
    }
    use_engine(NULL);
}

/* Gradients of weights that fill no cache are made row by row: of whole tiles and of parts of them. */
TEST(large_weights_of_dense_layers_have_the_gradients_of_the_reference)
{
    auto_layer *l = st_dense(.out_features = 1031);
    assert_as_the_reference(NULL, l, ST_SHAPE(3, 1029));
    use_engine(NULL);
}

/* ---- denormal numbers ---------------------------------------------------------------------------------- */

/* y of x, and dx and dw of dy; both times `unit`. */
static results in_units(st_layer *l, st_tensor x, st_real unit)
{
    dice d = { { 2 } };
    assert_int_equal(st_layer_build(l, x.shape, 1), 0);
    roll_elements(&d, st_layer_parameters(l), -3, 3);
    auto_tensor small = st_tensor_clone(x), dy = roll_tensor(&d, l->y, -3, 3);
    results r = { .y = st_tensor_new(l->y), .dx = st_tensor_new(x.shape) };
    st_scale(small, unit);
    st_scale(dy, unit);
    st_layer_forward(l, small, r.y);
    auto_tensor y = st_tensor_new(l->y);
    st_layer_forward(l, x, y);
    st_layer_backward(l, x, y, dy, r.dx);
    r.dw = st_tensor_clone(st_layer_gradients(l));
    st_layer_free(l);
    return r;
}

TEST(gelu_of_nan_has_a_derivative_of_nan)
{
    auto_layer *l = st_gelu();
    for (int i = 0; i < ENGINES; i++) {
        if (!choose_engine(engines[i])) continue;
        auto_tensor x = full(ST_SHAPE(1, 40), NAN);
        results r = run_layer(engines[i], st_layer_clone(l), x, (dice){ { 1 } });
        assert_true(isnan(*element(r.y, 39)) && isnan(*element(r.dx, 39)));
        free_results(r);
    }
    use_engine(NULL);
}

static void assert_tiny(const char *engine, const st_layer *l, st_tensor x)
{
    about("%s, %s", engine, st_shape_text(x.shape).text);
    use_engine(engine);
    results one = in_units(st_layer_clone(l), x, 1), tiny = in_units(st_layer_clone(l), x, (st_real)least);
    const st_tensor large[] = { one.y, one.dx, one.dw }, small[] = { tiny.y, tiny.dx, tiny.dw };
    for (int i = 0; i < 3; i++) {
        st_scale(large[i], (st_real)least);
        assert_same(small[i], large[i]);
    }
    volatile st_real unit = (st_real)least; /* nor did anybody tell the processor to */
    assert_true(unit * 3 > unit);
    free_results(one), free_results(tiny);
}

/* Multiples of the least number there is, times integers: as exact as integers, where nothing is taken for 0.
 * (By Winograd's way, which divides, they are not.) */
TEST(no_engine_takes_denormal_numbers_for_zero)
{
    auto_layer *dense = st_dense(.out_features = 100, .no_bias = true),
               *convolution =
                   st_conv2d(.out_channels = 18, .kernel = { 5, 5 }, .padding = { 2, 2 }, .no_bias = true);
    dice d = { { 1 } };
    auto_tensor rows = roll_tensor(&d, ST_SHAPE(70, 300), -3, 3),
                images = roll_tensor(&d, ST_SHAPE(2, 9, 13, 17), -3, 3);
    for (int i = 0; i < ENGINES; i++) {
        if (!choose_engine(engines[i])) continue;
        assert_tiny(engines[i], dense, rows);
        assert_tiny(engines[i], convolution, images);
    }
    use_engine(NULL);
}

/* Winograd's transforms add numbers that a product does not have: its errors are several times as large. */
TEST(winograd_can_be_turned_off)
{
    const st_shape x = ST_SHAPE(2, 32, 16, 16);
    void *hook[2];
    for (int off = 0; off < 2; off++) {
        if (off) setenv("STRIDE_WINOGRAD", "off", 1);
        st_layer *l = st_conv2d(.out_channels = 32, .kernel = { 3 }, .padding = { 1 });
        assert_int_equal(st_layer_plan(l, x, NULL), 0);
        memcpy(&hook[off], &l->impl->hooks.forward, sizeof hook[off]);
        st_layer_free(l);
        unsetenv("STRIDE_WINOGRAD");
    }
    use_engine("reference");
    auto_layer *l = st_conv2d(.out_channels = 32, .kernel = { 3 }, .padding = { 1 });
    assert_int_equal(st_layer_plan(l, x, NULL), 0);
    use_engine(NULL);
    void *definition;
    memcpy(&definition, &l->impl->hooks.forward, sizeof definition);
    assert_ptr_not_equal(hook[0], hook[1]);
    assert_ptr_not_equal(hook[1], definition);
}
