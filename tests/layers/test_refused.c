/* test_refused.c: what layers, nets and optimizers refuse, by the one line that says so. */
#include "tests/support.h"

#include "layers/layers.h"
#include "nn/gradcheck.h"
#include "nn/train.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static void a_layer_of_no_type_is_refused(void **state)
{
    assert_null(layer_new(NULL, NULL, 0, NULL));
    expect_error("layer_new: the type is NULL");
}

static void a_type_that_holds_none_holds_none(void **state)
{
    layer *within = layer_relu(), *flatten = layer_flatten();
    assert_null(layer_new(flatten->type, NULL, 1, (layer *[]){ within }));
    expect_error("flatten: holds 1 layers, expected 0");
    layer_free(flatten);
}

static void a_layer_is_held_once(void **state)
{
    layer *l = layer_relu();
    assert_null(layer_sequence(l, layer_tanh(), l));
    expect_error("sequence: layer 2 (relu) is part of a net already");
    layer *holder = layer_sequence(l = layer_relu());
    assert_null(layer_residual(l));
    expect_error("residual: layer 0 (relu) is part of a net already");
    layer_free(holder);
}

/* ---- types of one's own ------------------------------------------------------------------------------ */

static void no_forward(const st_call *c, tensor x, tensor y) {}
static void no_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx) {}
static void no_gradient(const st_call *c, tensor x, tensor y, tensor dy) {}

static int one_for_each_feature(layer *l, shape x, shape *y)
{
    *y = x;
    for (ptrdiff_t i = 0; i < x.n[1]; i++)
        if (layer_parameter(l, "weight", SHAPE(1), (layer_init){ 0 })) return -1;
    return 0;
}
static int batch_only(layer *l, shape x, shape *y)
{
    *y = SHAPE(x.n[0]);
    return 0;
}
static int as_wide_as_can_be(layer *l, shape x, shape *y)
{
    *y = SHAPE(1, PTRDIFF_MAX / (ptrdiff_t)sizeof(real) - 4096);
    return 0;
}

static const layer_field unknown[] = { { "size", (layer_field_kind)9, 0 }, { 0 } };
static const layer_type odd = { "odd", sizeof(int), unknown, 0, batch_only, no_forward, no_backward },
                        counting = { "counting", .plan = one_for_each_feature, .forward = no_forward,
                                     .backward = no_backward, .gradient = no_gradient },
                        flat = { "flat", .plan = batch_only, .forward = no_forward, .backward = no_backward },
                        wide = { "wide", .plan = as_wide_as_can_be, .forward = no_forward,
                                 .backward = no_backward };

static layer *of(const layer_type *type)
{
    return layer_new(type, NULL, 0, NULL);
}

static void a_field_of_an_unknown_kind_is_refused(void **state)
{
    assert_null(of(&odd));
    expect_error("unknown kind 9");
}

static void other_parameters_for_another_input_are_refused(void **state)
{
    layer *l = of(&counting);
    assert_int_equal(layer_build(l, SHAPE(2, 3), 1), 0);
    assert_int_equal(layer_build(l, SHAPE(2, 4), 1), -1);
    expect_error("counting: an input of [2, 4] needs 4 parameters and 0 states, it has 3 and 0");
    layer_free(l);
}

/* ---- inputs that do not fit ---------------------------------------------------------------------------- */

static layer *convolution(int out, int stride)
{
    return layer_conv2d((conv2d){
        .out_channels = out, .kernel = { 3, 3 }, .stride = { stride, stride }, .padding = { 1, 1 } });
}

static layer *transposed(int groups, int padding, int output_padding)
{
    return layer_conv_transpose2d((conv_transpose2d){ .out_channels = 4,
                                                      .kernel = { 2, 2 },
                                                      .stride = { 2, 2 },
                                                      .padding = { padding, 0 },
                                                      .output_padding = { output_padding, 0 },
                                                      .groups = groups });
}

static void inputs_that_do_not_fit_are_refused(void **state)
{
    enum { MOST = INT_MAX };
    const ptrdiff_t huge = PTRDIFF_MAX / 8;
    const shape s = SHAPE(2, 3, 4, 4), image = SHAPE(2, 4, 5, 5), tiny = SHAPE(1, 1, 5, 5);
    layer *wides[] = { of(&wide), of(&wide), of(&wide), of(&wide), of(&wide),
                       of(&wide), of(&wide), of(&wide), of(&wide) };
    layer *residual = layer_residual(layer_relu());
    const struct {
        layer *l;
        shape x;
        const char *names; /* stands in the error */
    } cases[] = {
        /* windows */
        { layer_conv2d((conv2d){ 4, { 7, 7 } }), image, "conv2d: kernel 7×7" },
        { layer_conv2d((conv2d){ 4, { 7, 7 }, .padding = { 0, 1 } }), image, "5×7" },
        { layer_conv2d((conv2d){ 4, { 3, 3 }, .dilation = { 3, 3 } }), image, "dilation 3×3" },
        { layer_conv2d((conv2d){ 4, { 3, 3 }, .groups = 2 }), SHAPE(1, 3, 5, 5), "groups=2" },
        { layer_conv2d((conv2d){ 4, { 3, 3 }, .groups = 3 }), SHAPE(1, 3, 5, 5), "groups=3" },
        { layer_maxpool((maxpool){ .kernel = { 6, 1 } }), image, "maxpool: kernel 6×1" },
        { layer_maxpool((maxpool){ .kernel = { 3, 3 }, .padding = { 3, 0 } }), image, "padding 3×0" },
        { layer_avgpool((avgpool){ .kernel = { 1, 8 }, .padding = { 0, 1 } }), image, "kernel 1×8" },
        { layer_avgpool((avgpool){ .kernel = { 2, 3 }, .padding = { 0, 9 }, .dilation = { 1, 4 } }), image,
          "padding 0×9" },
        { layer_lppool((lppool){ .kernel = { 3, 3 } }), SHAPE(1, 1, 2, 4), "lppool: kernel 3×3" },
        { transposed(4, 0, 0), SHAPE(2, 6, 3, 3), "groups=4" },
        { transposed(3, 0, 0), SHAPE(2, 6, 3, 3), "groups=3" },
        { transposed(1, 1, 0), SHAPE(2, 3, 1, 3), "padding 1×0" },
        { transposed(1, 0, 2), SHAPE(2, 3, 3, 3), "output_padding 2×0" },
        /* axes */
        { layer_groupnorm((groupnorm){ .groups = 4 }), SHAPE(2, 6, 3), "groups=4" },
        { layer_layernorm((layernorm){ .axes = 3 }), SHAPE(2, 6, 3), "axes=3" },
        { layer_softmax(2), SHAPE(2, 6), "softmax: axis=2" },
        { layer_log_softmax(1), SHAPE(2), "log_softmax: axis=1" },
        { layer_pad2d((pad2d){ .width = { 0, 3 }, .mode = PAD_REFLECT }), SHAPE(1, 1, 4, 3),
          "pad2d: reflect" },
        { layer_upsample((upsample){ .scale = { 2, 2 }, .align_corners = true }), SHAPE(1, 1, 4, 4),
          "align_corners" },
        /* blocks: which child, and what does not fit */
        { layer_residual(convolution(5, 1)), s, "residual: the body makes [2, 5, 4, 4]" },
        { layer_residual_projected(convolution(5, 2), convolution(5, 1)), s, "[2, 5, 2, 2]" },
        { layer_residual(layer_dense((dense){ .out_features = 3 })), s, "body: dense: " },
        { layer_residual_projected(layer_identity(), layer_softmax(7)), s, "projection: softmax: " },
        { layer_new(residual->type, NULL, 0, NULL), SHAPE(2, 3), "residual: holds 0 layers" },
        { layer_concat(convolution(5, 1), convolution(5, 2)), s, "concat: branch 1 makes [2, 5, 2, 2]" },
        { layer_concat(layer_identity(), layer_flatten()), s, "concat: branch 1 makes [2, 48]" },
        { layer_concat(layer_identity(), layer_softmax(5)), s, "layer 1: softmax: " },
        { layer_concat(layer_relu(), of(&flat)), SHAPE(2, 3), "concat: branch 1 makes [2]" },
        { layer_concat_of(0, NULL), s, "concat: holds no layers" },
        { layer_concat_of(9, wides), SHAPE(1, 3), "concat: too many channels" },
        { layer_sequence_of(0, NULL), s, "sequence: holds no layers" },
        { layer_sequence(layer_relu(), layer_tanh(), layer_sequence(layer_relu(), layer_dense((dense){ 3 }))),
          s, "layer 2: layer 1: dense: " },
        /* sizes near the ends of their types */
        { layer_relu(), SHAPE(huge, 9), "" },
        { layer_relu(), SHAPE(2, -1), "" },
        { layer_flatten(), SHAPE(1 << 20, 1 << 20, 1 << 20, 1 << 20), "" },
        { layer_conv2d((conv2d){ 4, { 3, 3 } }), SHAPE(1, 1, huge, huge), "" },
        { layer_conv2d((conv2d){ MOST, { 1, 1 } }), SHAPE(1, 1, 1 << 20, 1 << 20), "" },
        { layer_conv2d((conv2d){ MOST, { MOST, MOST }, .padding = { MOST, MOST } }), tiny, "" },
        { layer_conv2d((conv2d){ 1, { MOST, MOST }, .dilation = { MOST, MOST } }), tiny, "" },
        { layer_conv2d((conv2d){ 1, { 1, 1 }, .padding = { MOST, MOST } }), tiny, "" },
        { layer_conv2d((conv2d){ 1, { 1, 7 }, .padding = { MOST, 0 } }), tiny, "" },
        { layer_maxpool((maxpool){ .kernel = { MOST, 7 }, .padding = { MOST - 1, 0 } }), tiny, "" },
        { layer_maxpool((maxpool){ .kernel = { MOST, MOST } }), SHAPE(1, 1, MOST / 2, MOST / 4), "kernel" },
        { layer_maxpool((maxpool){ 0 }), SHAPE(1, 1, huge, 1), "" },
        { layer_avgpool((avgpool){ 0 }), SHAPE(1, 1, 1, huge), "" },
        { layer_dense((dense){ MOST }), SHAPE(1, huge), "" },
        { layer_upsample((upsample){ .scale = { 32, 2 } }), SHAPE(1, 1, (ptrdiff_t)1 << 59, 1),
          "scale 32x2" },
        { layer_conv_transpose2d((conv_transpose2d){ 1, { 1, 1 }, .stride = { MOST, 1 } }),
          SHAPE(1, 1, PTRDIFF_MAX / 16, 1), "too large" },
        { layer_conv_transpose2d((conv_transpose2d){ 1, { MOST, 1 }, .dilation = { MOST, 1 } }), tiny,
          "too large" },
        { layer_conv_transpose2d((conv_transpose2d){ MOST, { MOST, 1 } }), SHAPE(1, 64, 1, 1), "weight" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_non_null(cases[i].l);
        about("%s of %s", cases[i].l->type->name, shape_text(cases[i].x).text);
        assert_int_equal(layer_build(cases[i].l, cases[i].x, 1), -1);
        expect_error("%s", cases[i].names);
        layer_free(cases[i].l);
    }
    layer_free(residual);
}

/* The largest kernel and padding that there is room for. */
static void what_just_fits_is_taken(void **state)
{
    layer *fitting[] = { layer_conv2d((conv2d){ 4, { 7, 5 }, .padding = { 1, 0 } }),
                         layer_maxpool((maxpool){ .kernel = { 3, 3 }, .padding = { 2, 2 } }),
                         layer_pad2d((pad2d){ .width = { 4, 4 }, .mode = PAD_REFLECT }) };
    for (size_t i = 0; i < sizeof fitting / sizeof *fitting; i++) {
        assert_int_equal(layer_build(fitting[i], SHAPE(2, 4, 5, 5), 1), 0);
        layer_free(fitting[i]);
    }
}

/* ---- options ----------------------------------------------------------------------------------------- */

/* Below 0 there is no bound; nothing is changed. At 0 all is clipped, at infinity nothing. */
static void a_bound_below_zero_is_refused(void **state)
{
    tensor g = tensor_of(SHAPE(2), 3, -4);
    optim_clip_norm(g, -1);
    expect_error("optim_clip_norm: a norm of -1, expected at least 0");
    optim_clip_norm(g, NAN);
    expect_error("optim_clip_norm: a norm of");
    optim_clip_value(g, -2);
    expect_error("optim_clip_value: a bound of -2, expected at least 0");
    assert_elements(g, 3, -4);
    assert_true(optim_clip_norm(g, INFINITY) == 5);
    assert_elements(g, 3, -4);
    optim_clip_value(g, 0);
    assert_elements(g, 0, 0);
    tensor_free(g);
}

static void sharing_wants_a_clone_and_what_it_is_of(void **state)
{
    layer *built = layer_dense((dense){ .out_features = 2 }), *clone = layer_clone(built);
    const char *expected = "layer_build_shared: expected a clone that is not built, of a tree that is";
    assert_int_equal(layer_build_shared(clone, SHAPE(1, 3), built), -1);
    expect_error("%s", expected);
    assert_int_equal(layer_build(built, SHAPE(1, 3), 1), 0);
    assert_int_equal(layer_build_shared(clone, SHAPE(1, 3), NULL), -1);
    expect_error("%s", expected);
    assert_int_equal(layer_build_shared(clone, SHAPE(2, 3), built), 0);
    assert_ptr_equal(tensor_data(clone->param[0]), tensor_data(built->param[0]));
    assert_int_equal(layer_build_shared(clone, SHAPE(1, 3), built), -1);
    expect_error("%s", expected);
    layer_free(clone), layer_free(built);
}

static void a_clone_for_which_the_parameters_do_not_do_is_refused(void **state)
{
    layer *own[] = { of(&counting), layer_sequence(of(&counting)), layer_dense((dense){ .out_features = 2 }),
                     layer_sequence(layer_dense((dense){ .out_features = 2 })) };
    const char *const expected[] = { "needs 4 parameters", "needs 4 parameters", "weight is [2, 3]",
                                     "weight is [2, 3]" };
    for (int i = 0; i < 4; i++) {
        layer *clone = layer_clone(own[i]);
        assert_int_equal(layer_build(own[i], SHAPE(1, 3), 1), 0);
        assert_int_equal(layer_build_shared(clone, SHAPE(1, 4), own[i]), -1);
        expect_error("%s", expected[i]);
        layer_free(clone), layer_free(own[i]);
    }
}

/* ---- training ---------------------------------------------------------------------------------------- */

static void training_wants_samples_that_leave_an_axis_and_a_validation_that_is_finite(void **state)
{
    net *n = net_new(SHAPE(3), layer_dense((dense){ .out_features = 2 }));
    optim *o = optim_sgd((sgd){ .lr = 0.1 });
    tensor x = tensor_new(SHAPE(4, 3)), y = tensor_new(SHAPE(4, 2)), far = tensor_new(SHAPE(4, 3));
    tensor_fill(far, (real)NAN);
    data *good = data_tensors(x, y), *bad = data_tensors(far, y), deep = *good;
    train options = { .loss = loss_mse(), .optim = o, .epochs = 1, .batch = 2 };
    deep.x.rank = TENSOR_MAX_RANK;
    assert_int_equal(train_run(n, &deep, options, NULL), -1);
    expect_error("of the training set leave no axis for the batch");
    options.validation = bad;
    assert_int_equal(train_run(n, good, options, NULL), -1);
    expect_error("train: the validation loss is");
    data_free(good), data_free(bad), optim_free(o), net_free(n);
    tensor_free(x), tensor_free(y), tensor_free(far);
}

static void a_step_after_an_error_changes_nothing(void **state)
{
    tensor w = tensor_of(SHAPE(2), 3, -4), g = tensor_of(SHAPE(2), 1, 1);
    optim *o = optim_sgd((sgd){ .lr = 1 });
    error_set("a pass that failed");
    assert_int_equal(optim_step(o, 1, w, g), -1);
    expect_error("a pass that failed");
    assert_elements(w, 3, -4);
    assert_int_equal(optim_step(o, 1, w, g), 0);
    assert_elements(w, 2, -5);
    optim_free(o), tensor_free(w), tensor_free(g);
}

static void a_check_of_a_net_wants_its_input(void **state)
{
    net *n = net_new(SHAPE(3), layer_dense((dense){ .out_features = 2 }));
    tensor x = tensor_new(SHAPE(4, 1, 3)), target = tensor_new(SHAPE(4, 2));
    gradcheck_result r = gradcheck_net(n, x, target, loss_mse(), (gradcheck){ 0 });
    assert_false(r.passed);
    assert_non_null(strstr(r.text, "x is [4, 1, 3], the net takes [N, ...] of [3]"));
    tensor_free(x), tensor_free(target), net_free(n);
    error_clear();
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        CLAIM(a_layer_of_no_type_is_refused),
        CLAIM(a_type_that_holds_none_holds_none),
        CLAIM(a_layer_is_held_once),
        CLAIM(a_field_of_an_unknown_kind_is_refused),
        CLAIM(other_parameters_for_another_input_are_refused),
        CLAIM(inputs_that_do_not_fit_are_refused),
        CLAIM(what_just_fits_is_taken),
        CLAIM(a_bound_below_zero_is_refused),
        CLAIM(sharing_wants_a_clone_and_what_it_is_of),
        CLAIM(a_clone_for_which_the_parameters_do_not_do_is_refused),
        CLAIM(training_wants_samples_that_leave_an_axis_and_a_validation_that_is_finite),
        CLAIM(a_step_after_an_error_changes_nothing),
        CLAIM(a_check_of_a_net_wants_its_input),
    };
    return cmocka_run_group_tests(claims, NULL, NULL);
}
