/* test_refused.c: what layers, nets and optimizers refuse, by the one line that says so. */
#include "tests/support.h"

#include "layers/layers.h"
#include "nn/gradcheck.h"
#include "nn/train.h"

#include <limits.h>
#include <math.h>
#include <string.h>

TEST(a_layer_of_no_type_is_refused)
{
    assert_null(st_layer_new(NULL, NULL, 0, NULL));
    expect_error("st_layer_new: the type is NULL");
}

TEST(a_type_that_holds_none_holds_none)
{
    st_layer *within = st_relu();
    auto_layer *flatten = st_flatten();
    assert_null(st_layer_new(flatten->type, NULL, 1, (st_layer *[]){ within }));
    expect_error("flatten: holds 1 layers, expected 0");
}

TEST(a_layer_is_held_once)
{
    st_layer *l = st_relu();
    assert_null(st_sequence(l, st_tanh(), l));
    expect_error("sequence: layer 2 (relu) is part of a net already");
    auto_layer *holder = st_sequence(l = st_relu());
    assert_non_null(holder);
    assert_null(st_residual(l));
    expect_error("residual: layer 0 (relu) is part of a net already");
}

/* ---- types of one's own ------------------------------------------------------------------------------ */

static void no_forward(const st_call *c, st_tensor x, st_tensor y) {}
static void no_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx) {}
static void no_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy) {}

static int one_for_each_feature(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    for (ptrdiff_t i = 0; i < x.n[1]; i++)
        if (st_layer_parameter(l, "weight", ST_SHAPE(1), (st_init){ 0 })) return -1;
    return 0;
}
static int batch_only(st_layer *l, st_shape x, st_shape *y)
{
    *y = ST_SHAPE(x.n[0]);
    return 0;
}
static int as_wide_as_can_be(st_layer *l, st_shape x, st_shape *y)
{
    *y = ST_SHAPE(1, PTRDIFF_MAX / (ptrdiff_t)sizeof(st_real) - 4096);
    return 0;
}

static const st_field unknown[] = { { "size", (st_field_kind)9, 0 }, { 0 } };
static const st_layer_type odd = { "odd", sizeof(int), unknown, 0, batch_only, no_forward, no_backward },
                           counting = { "counting", .plan = one_for_each_feature, .forward = no_forward,
                                        .backward = no_backward, .gradient = no_gradient },
                           flat = { "flat", .plan = batch_only, .forward = no_forward,
                                    .backward = no_backward },
                           wide = { "wide", .plan = as_wide_as_can_be, .forward = no_forward,
                                    .backward = no_backward };

static st_layer *of(const st_layer_type *type)
{
    return st_layer_new(type, NULL, 0, NULL);
}

TEST(a_field_of_an_unknown_kind_is_refused)
{
    assert_null(of(&odd));
    expect_error("unknown kind 9");
}

TEST(other_parameters_for_another_input_are_refused)
{
    auto_layer *l = of(&counting);
    assert_int_equal(st_layer_build(l, ST_SHAPE(2, 3), 1), 0);
    assert_int_equal(st_layer_build(l, ST_SHAPE(2, 4), 1), -1);
    expect_error("counting: an input of [2, 4] needs 4 parameters and 0 states, it has 3 and 0");
}

/* ---- inputs that do not fit ---------------------------------------------------------------------------- */

static st_layer *convolution(int out, int stride)
{
    return st_conv2d(.out_channels = out, .kernel = { 3, 3 }, .stride = { stride, stride },
                     .padding = { 1, 1 });
}

static st_layer *transposed(int groups, int padding, int output_padding)
{
    return st_conv_transpose2d(.out_channels = 4, .kernel = { 2, 2 }, .stride = { 2, 2 },
                               .padding = { padding, 0 }, .output_padding = { output_padding, 0 },
                               .groups = groups);
}

static st_real value_of(const st_real *in, ptrdiff_t n, const void *context)
{
    return in[0];
}

TEST(inputs_that_do_not_fit_are_refused)
{
    enum { MOST = INT_MAX };
    const ptrdiff_t huge = PTRDIFF_MAX / 8;
    const st_shape s = ST_SHAPE(2, 3, 4, 4), image = ST_SHAPE(2, 4, 5, 5), tiny = ST_SHAPE(1, 1, 5, 5);
    st_layer *wides[] = { of(&wide), of(&wide), of(&wide), of(&wide), of(&wide),
                          of(&wide), of(&wide), of(&wide), of(&wide) };
    const st_pool_function nameless = { .value = value_of }, valueless = { .name = "nothing" };
    auto_layer *residual = st_residual(st_relu());
    const struct {
        st_layer *l;
        st_shape x;
        const char *names; /* stands in the error */
    } cases[] = {
        /* windows */
        { st_conv2d(4, { 7, 7 }), image, "conv2d: kernel 7×7" },
        { st_conv2d(4, { 7, 7 }, .padding = { 0, 1 }), image, "5×7" },
        { st_conv2d(4, { 3, 3 }, .dilation = { 3, 3 }), image, "dilation 3×3" },
        { st_conv2d(4, { 3, 3 }, .groups = 2), ST_SHAPE(1, 3, 5, 5), "groups=2" },
        { st_conv2d(4, { 3, 3 }, .groups = 3), ST_SHAPE(1, 3, 5, 5), "groups=3" },
        { st_maxpool(.kernel = { 6, 1 }), image, "maxpool: kernel 6×1" },
        { st_maxpool(.kernel = { 3, 3 }, .padding = { 3, 0 }), image, "padding 3×0" },
        { st_avgpool(.kernel = { 1, 8 }, .padding = { 0, 1 }), image, "kernel 1×8" },
        { st_avgpool(.kernel = { 2, 3 }, .padding = { 0, 9 }, .dilation = { 1, 4 }), image, "padding 0×9" },
        { st_lppool(.kernel = { 3, 3 }), ST_SHAPE(1, 1, 2, 4), "lppool: kernel 3×3" },
        { st_pool(&nameless, .kernel = { 2, 2 }), image, "function ? has no name" },
        { st_pool(&valueless, .kernel = { 2, 2 }), image, "function nothing has no value" },
        { transposed(4, 0, 0), ST_SHAPE(2, 6, 3, 3), "groups=4" },
        { transposed(3, 0, 0), ST_SHAPE(2, 6, 3, 3), "groups=3" },
        { transposed(1, 1, 0), ST_SHAPE(2, 3, 1, 3), "padding 1×0" },
        { transposed(1, 0, 2), ST_SHAPE(2, 3, 3, 3), "output_padding 2×0" },
        /* axes */
        { st_groupnorm(.groups = 4), ST_SHAPE(2, 6, 3), "groups=4" },
        { st_hardtanh(.min_val = 1), s, "min_val is 1, expected less than max_val, 1" },
        { st_prelu(.num_parameters = 4), s, "num_parameters=4" },
        { st_prelu(.num_parameters = 4), ST_SHAPE(4), "num_parameters=4" },
        { st_layernorm(.axes = 3), ST_SHAPE(2, 6, 3), "axes=3" },
        { st_softmax(.axis = 2), ST_SHAPE(2, 6), "softmax: axis=2" },
        { st_log_softmax(.axis = 1), ST_SHAPE(2), "log_softmax: axis=1" },
        { st_pad2d(.width = { 0, 3 }, .mode = ST_PAD_REFLECT), ST_SHAPE(1, 1, 4, 3), "pad2d: reflect" },
        { st_upsample(.scale = { 2, 2 }, .size = { 2, 2 }), s, "one of scale, size and scale_factor" },
        { st_upsample(.mode = ST_UPSAMPLE_BILINEAR), s, "one of scale, size and scale_factor" },
        { st_upsample(.scale_factor = 0.1), s, "scale_factor 0.1" },
        { st_upsample(.scale_factor = 1e300), s, "scale_factor 1e+300" },
        { st_unflatten(.channels = 5), s, "channels=5" },
        { st_unflatten(.channels = 3, .size = { 4, 5 }), s, "size=4x5" },
        { st_unflatten(.channels = 3, .size = { INT_MAX, INT_MAX }), s, "channels=3" },
        { st_upsample(.scale = { 2, 2 }, .align_corners = true), ST_SHAPE(1, 1, 4, 4), "align_corners" },
        /* blocks: which child, and what does not fit */
        { st_residual(convolution(5, 1)), s, "residual: the body makes [2, 5, 4, 4]" },
        { st_residual_projected(convolution(5, 2), convolution(5, 1)), s, "[2, 5, 2, 2]" },
        { st_residual(st_dense(.out_features = 3)), s, "body: dense: " },
        { st_residual_projected(st_identity(), st_softmax(.axis = 7)), s, "projection: softmax: " },
        { st_layer_new(residual->type, NULL, 0, NULL), ST_SHAPE(2, 3), "residual: holds 0 layers" },
        { st_concat(convolution(5, 1), convolution(5, 2)), s, "concat: branch 1 makes [2, 5, 2, 2]" },
        { st_concat(st_identity(), st_flatten()), s, "concat: branch 1 makes [2, 48]" },
        { st_concat(st_identity(), st_softmax(.axis = 5)), s, "layer 1: softmax: " },
        { st_concat(st_relu(), of(&flat)), ST_SHAPE(2, 3), "concat: branch 1 makes [2]" },
        { st_concat_of(0, NULL), s, "concat: holds no layers" },
        { st_concat_of(9, wides), ST_SHAPE(1, 3), "concat: too many channels" },
        { st_sequence_of(0, NULL), s, "sequence: holds no layers" },
        { st_sequence(st_relu(), st_tanh(), st_sequence(st_relu(), st_dense(3))), s,
          "layer 2: layer 1: dense: " },
        /* sizes near the ends of their types */
        { st_relu(), ST_SHAPE(huge, 9), "" },
        { st_relu(), ST_SHAPE(2, -1), "" },
        { st_flatten(), ST_SHAPE(1 << 20, 1 << 20, 1 << 20, 1 << 20), "" },
        { st_conv2d(4, { 3, 3 }), ST_SHAPE(1, 1, huge, huge), "" },
        { st_conv2d(MOST, { 1, 1 }), ST_SHAPE(1, 1, 1 << 20, 1 << 20), "" },
        { st_conv2d(MOST, { MOST, MOST }, .padding = { MOST, MOST }), tiny, "" },
        { st_conv2d(1, { MOST, MOST }, .dilation = { MOST, MOST }), tiny, "" },
        { st_conv2d(1, { 1, 1 }, .padding = { MOST, MOST }), tiny, "" },
        { st_conv2d(1, { 1, 7 }, .padding = { MOST, 0 }), tiny, "" },
        { st_maxpool(.kernel = { MOST, 7 }, .padding = { MOST - 1, 0 }), tiny, "" },
        { st_maxpool(.kernel = { MOST, MOST }), ST_SHAPE(1, 1, MOST / 2, MOST / 4), "kernel" },
        { st_maxpool(), ST_SHAPE(1, 1, huge, 1), "" },
        { st_avgpool(), ST_SHAPE(1, 1, 1, huge), "" },
        { st_dense(MOST), ST_SHAPE(1, huge), "" },
        { st_upsample(.scale = { 32, 2 }), ST_SHAPE(1, 1, (ptrdiff_t)1 << 59, 1), "scale 32x2" },
        { st_conv_transpose2d(1, { 1, 1 }, .stride = { MOST, 1 }), ST_SHAPE(1, 1, PTRDIFF_MAX / 16, 1),
          "too large" },
        { st_conv_transpose2d(1, { MOST, 1 }, .dilation = { MOST, 1 }), tiny, "too large" },
        { st_conv_transpose2d(MOST, { MOST, 1 }), ST_SHAPE(1, 64, 1, 1), "weight" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_non_null(cases[i].l);
        about("%s of %s", cases[i].l->type->name, st_shape_text(cases[i].x).text);
        assert_int_equal(st_layer_build(cases[i].l, cases[i].x, 1), -1);
        expect_error("%s", cases[i].names);
        st_layer_free(cases[i].l);
    }
}

/* The largest kernel and padding that there is room for. */
TEST(what_just_fits_is_taken)
{
    st_layer *fitting[] = { st_conv2d(4, { 7, 5 }, .padding = { 1, 0 }),
                            st_maxpool(.kernel = { 3, 3 }, .padding = { 2, 2 }),
                            st_pad2d(.width = { 4, 4 }, .mode = ST_PAD_REFLECT) };
    for (size_t i = 0; i < sizeof fitting / sizeof *fitting; i++) {
        assert_int_equal(st_layer_build(fitting[i], ST_SHAPE(2, 4, 5, 5), 1), 0);
        st_layer_free(fitting[i]);
    }
}

/* ---- options ----------------------------------------------------------------------------------------- */

/* Below 0 there is no bound; nothing is changed. At 0 all is clipped, at infinity nothing. */
TEST(a_bound_below_zero_is_refused)
{
    auto_tensor g = tensor_of(ST_SHAPE(2), 3, -4);
    st_clip_grad_norm(g, -1);
    expect_error("st_clip_grad_norm: a norm of -1, expected at least 0");
    st_clip_grad_norm(g, NAN);
    expect_error("st_clip_grad_norm: a norm of");
    st_clip_grad_value(g, -2);
    expect_error("st_clip_grad_value: a bound of -2, expected at least 0");
    assert_elements(g, 3, -4);
    assert_true(st_clip_grad_norm(g, INFINITY) == 5);
    assert_elements(g, 3, -4);
    st_clip_grad_value(g, 0);
    assert_elements(g, 0, 0);
}

TEST(sharing_wants_a_clone_and_what_it_is_of)
{
    auto_layer *built = st_dense(.out_features = 2), *clone = st_layer_clone(built);
    const char *expected = "st_layer_build_shared: expected a clone that is not built, of a tree that is";
    assert_int_equal(st_layer_build_shared(clone, ST_SHAPE(1, 3), built), -1);
    expect_error("%s", expected);
    assert_int_equal(st_layer_build(built, ST_SHAPE(1, 3), 1), 0);
    assert_int_equal(st_layer_build_shared(clone, ST_SHAPE(1, 3), NULL), -1);
    expect_error("st_layer_build_shared: ");
    assert_int_equal(st_layer_build_shared(clone, ST_SHAPE(2, 3), built), 0);
    assert_ptr_equal(st_data(clone->param[0]), st_data(built->param[0]));
    assert_int_equal(st_layer_build_shared(clone, ST_SHAPE(1, 3), built), -1);
    expect_error("%s", expected);
}

TEST(a_clone_for_which_the_parameters_do_not_do_is_refused)
{
    st_layer *own[] = { of(&counting), st_sequence(of(&counting)), st_dense(.out_features = 2),
                        st_sequence(st_dense(.out_features = 2)) };
    const char *const expected[] = { "needs 4 parameters", "needs 4 parameters", "weight is [2, 3]",
                                     "weight is [2, 3]" };
    for (int i = 0; i < 4; i++) {
        st_layer *clone = st_layer_clone(own[i]);
        assert_int_equal(st_layer_build(own[i], ST_SHAPE(1, 3), 1), 0);
        assert_int_equal(st_layer_build_shared(clone, ST_SHAPE(1, 4), own[i]), -1);
        expect_error("%s", expected[i]);
        st_layer_free(clone), st_layer_free(own[i]);
    }
}

/* ---- training ---------------------------------------------------------------------------------------- */

TEST(training_wants_samples_that_leave_an_axis_and_a_validation_that_is_finite)
{
    auto_net *n = st_net_new(ST_SHAPE(3), st_dense(.out_features = 2));
    auto_optim *o = st_sgd(.lr = 0.1);
    auto_tensor x = st_tensor_new(ST_SHAPE(4, 3)), y = st_tensor_new(ST_SHAPE(4, 2)),
                far = st_tensor_new(ST_SHAPE(4, 3));
    st_fill(far, (st_real)NAN);
    auto_dataset *good = st_dataset_tensors(x, y), *bad = st_dataset_tensors(far, y);
    st_dataset deep = *good;
    st_train_options options = { .loss = st_mse(), .optim = o, .epochs = 1, .batch = 2 };
    deep.x.rank = ST_MAX_RANK;
    assert_int_equal(st_train_run(n, &deep, options, NULL), -1);
    expect_error("of the training set leave no axis for the batch");
    options.validation = bad;
    assert_int_equal(st_train_run(n, good, options, NULL), -1);
    expect_error("train: the validation loss is");
}

TEST(a_step_after_an_error_changes_nothing)
{
    auto_tensor w = tensor_of(ST_SHAPE(2), 3, -4), g = tensor_of(ST_SHAPE(2), 1, 1);
    auto_optim *o = st_sgd(.lr = 1);
    st_error_set("a pass that failed");
    assert_int_equal(st_optim_step(o, 1, w, g), -1);
    expect_error("a pass that failed");
    assert_elements(w, 3, -4);
    assert_int_equal(st_optim_step(o, 1, w, g), 0);
    assert_elements(w, 2, -5);
}

TEST(a_check_of_a_net_wants_its_input)
{
    st_net *n = st_net_new(ST_SHAPE(3), st_dense(.out_features = 2));
    st_tensor x = st_tensor_new(ST_SHAPE(4, 1, 3)), target = st_tensor_new(ST_SHAPE(4, 2));
    st_gradcheck_result r = st_gradcheck_net(n, x, target, st_mse(), (st_gradcheck_options){ 0 });
    assert_false(r.passed);
    assert_non_null(strstr(r.text, "x is [4, 1, 3], the net takes [N, ...] of [3]"));
    st_tensor_free(x), st_tensor_free(target), st_net_free(n);
    st_error_clear();
}
