/* test_step.c: one training step of a small net, then out to a file and back: short enough to run under a
 * checker of memory. */
#include "tests/each_epoch.h"
#include "tests/support.h"

#include "nn/stride.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static net *small_net(void)
{
    net *n = net_new(SHAPE(1, 8, 8),
                     layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 }, .padding = { 1, 1 } }),
                     layer_relu(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
                     layer_avgpool((avgpool){ .kernel = { 2, 2 }, .stride = { 1, 1 } }), layer_dropout(0.25),
                     layer_flatten(), layer_dense((dense){ .out_features = 4 }));
    assert_non_null(n);
    assert_int_equal(net_build(n, 10, 3), 0); /* two chunks, one of them with two images */
    return n;
}

static tensor some_images(void)
{
    tensor x = tensor_new(SHAPE(10, 1, 8, 8));
    tensor_normal(x, (random_key){ 1, 1 }, 0, 1);
    return x;
}

static double loss_of(net *n, tensor x, tensor target, tensor dy)
{
    n->step = 0; /* the same dropout each time */
    tensor y = net_forward(n, x, NET_TRAIN);
    return loss_value(loss_cross_entropy(0), y, target, dy);
}

/* The loss falls by what its slope, the squared length of the gradient, says of so small a step. */
static void a_step_goes_down_the_gradient(void **state)
{
    net *n = small_net();
    tensor x = some_images(), target = tensor_of(SHAPE(10), 0, 1, 2, 3, 0, 1, 2, 3, 0, 1),
           dy = tensor_new(SHAPE(10, 4));
    optim *o = optim_sgd((sgd){ .lr = 0.01 });
    double before = loss_of(n, x, target, dy);
    assert_int_equal(net_backward(n, dy, (tensor){ 0 }), 0);
    double slope = pow(optim_clip_norm(net_gradients(n), INFINITY), 2);
    assert_int_equal(optim_step(o, o->lr, net_parameters(n), net_gradients(n)), 0);
    double fall = before - loss_of(n, x, target, dy);
    assert_true(slope > 1e-3);
    assert_true(fabs(fall / (o->lr * slope) - 1) < 0.1);
    tensor_free(x), tensor_free(target), tensor_free(dy);
    optim_free(o), net_free(n);
}

static void a_run_takes_its_steps(void **state)
{
    net *n = small_net();
    tensor x = some_images(), target = tensor_of(SHAPE(10), 0, 1, 2, 3, 0, 1, 2, 3, 0, 1);
    data *d = data_tensors(x, target);
    optim *o = optim_adam((adam){ 0 });
    train_result r;
    assert_int_equal(train_run(n, d,
                               (train){ .loss = loss_cross_entropy(0),
                                        .optim = o,
                                        .batch = 4,
                                        .validation = d,
                                        .callbacks = { patient(1) } },
                               &r),
                     0);
    assert_int_equal(r.steps, 3);
    data_free(d), tensor_free(x), tensor_free(target);
    optim_free(o), net_free(n);
}

static void gradients_are_right(void **state)
{
    layer *l = layer_conv2d((conv2d){ .out_channels = 2, .kernel = { 2, 2 } });
    assert_gradients(l, SHAPE(2, 1, 3, 3));
    layer_free(l);
}

static void a_saved_net_comes_back_as_it_was(void **state)
{
    const char *folder = getenv("STRIDE_TEST_TMP");
    char path[512];
    snprintf(path, sizeof path, "%s/step.safetensors", folder ? folder : ".");
    net *n = small_net();
    assert_int_equal(net_set_note(n, "mean", "0.1307"), 0);
    if (net_save(n, path)) fail_msg("%s", error_text());
    net *loaded = net_load(path, 10, (net_known){ 0 });
    if (!loaded) fail_msg("%s", error_text());
    tensor x = some_images();
    assert_same(net_parameters(loaded), net_parameters(n));
    assert_same(net_forward(loaded, x, NET_INFER), net_forward(n, x, NET_INFER));
    assert_string_equal(net_note_text(loaded, "mean"), "0.1307");
    tensor_fill(net_parameters(n), 0);
    assert_int_equal(net_load_tensors(n, path), 0);
    assert_same(net_parameters(n), net_parameters(loaded));
    remove(path);
    tensor_free(x);
    net_free(n), net_free(loaded);
}

static void what_is_refused_leaves_nothing_behind(void **state)
{
    assert_null(net_new(SHAPE(1, 4, 4), layer_relu(), layer_dropout(2), layer_flatten()));
    expect_error("dropout: p is 2");
    assert_null(net_new(SHAPE(1, 4, 4), layer_flatten(), layer_maxpool((maxpool){ .kernel = { 2, 2 } })));
    expect_error("layer 1: maxpool");
    assert_null(net_load("no such file", 1, (net_known){ 0 }));
    expect_error("no such file");
}

static void the_library_is_of_its_headers_version(void **state)
{
    char parts[64];
    snprintf(parts, sizeof parts, "%d.%d.%d", STRIDE_VERSION_MAJOR, STRIDE_VERSION_MINOR,
             STRIDE_VERSION_PATCH);
    assert_string_equal(stride_version(), parts);
    assert_string_equal(stride_version(), STRIDE_VERSION);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        CLAIM(a_step_goes_down_the_gradient),
        CLAIM(a_run_takes_its_steps),
        CLAIM(gradients_are_right),
        CLAIM(a_saved_net_comes_back_as_it_was),
        CLAIM(what_is_refused_leaves_nothing_behind),
        CLAIM(the_library_is_of_its_headers_version),
    };
    return cmocka_run_group_tests(claims, NULL, NULL);
}
