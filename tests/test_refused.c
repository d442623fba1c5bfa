/* test_refused.c: what layers, nets and optimizers refuse, by the one line that says so. */
#include "tests/support.h"

#include "layers/layers.h"
#include "nn/gradcheck.h"
#include "nn/loss.h"
#include "nn/net.h"
#include "nn/optim.h"

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

static void align_corners_is_for_what_is_interpolated(void **state)
{
    upsample o = { .scale = { 2, 2 }, .mode = UPSAMPLE_NEAREST, .align_corners = true };
    assert_null(net_new(SHAPE(1, 4, 4), layer_upsample(o)));
    expect_error("align_corners is for mode=bilinear only");
    o.mode = UPSAMPLE_BILINEAR;
    net *n = net_new(SHAPE(1, 4, 4), layer_upsample(o));
    assert_non_null(n);
    net_free(n);
}

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
        CLAIM(align_corners_is_for_what_is_interpolated),
        CLAIM(a_bound_below_zero_is_refused),
        CLAIM(a_check_of_a_net_wants_its_input),
    };
    return cmocka_run_group_tests(claims, NULL, NULL);
}
