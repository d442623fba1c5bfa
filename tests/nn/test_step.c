/* test_step.c: one training step of a small net, then out to a file and back: short enough to run under a
 * checker of memory. */
#include "tests/each_epoch.h"
#include "tests/support.h"

#include <stride.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static st_net *small_net(void)
{
    st_net *n = st_net_new(ST_SHAPE(1, 8, 8),
                           st_conv2d(.out_channels = 3, .kernel = { 3, 3 }, .padding = { 1, 1 }), st_relu(),
                           st_maxpool(.kernel = { 2, 2 }), st_avgpool(.kernel = { 2, 2 }, .stride = { 1, 1 }),
                           st_dropout(.p = 0.25), st_flatten(), st_dense(.out_features = 4));
    assert_non_null(n);
    assert_int_equal(st_net_build(n, 10, 3), 0); /* two chunks, one of them with two images */
    return n;
}

static st_tensor some_images(void)
{
    st_tensor x = st_tensor_new(ST_SHAPE(10, 1, 8, 8));
    st_normal(x, (st_random_key){ 1, 1 }, 0, 1);
    return x;
}

TEST(a_run_takes_its_steps)
{
    auto_net *n = small_net();
    auto_tensor x = some_images(), target = tensor_of(ST_SHAPE(10), 0, 1, 2, 3, 0, 1, 2, 3, 0, 1);
    auto_dataset *d = st_dataset_tensors(x, target);
    auto_optim *o = st_adam();
    st_train_result r;
    assert_int_equal(st_train(n, d, .loss = st_cross_entropy(), .optim = o, .batch = 4, .validation = d,
                              .callbacks = { patient(1) }, .result = &r),
                     0);
    assert_int_equal(r.steps, 3);
}

TEST(gradients_are_right)
{
    auto_layer *l = st_conv2d(.out_channels = 2, .kernel = { 2, 2 });
    st_assert_gradients(l, ST_SHAPE(2, 1, 3, 3));
}

TEST(a_saved_net_comes_back_as_it_was)
{
    const char *folder = getenv("STRIDE_TEST_TMP");
    char path[512];
    snprintf(path, sizeof path, "%s/step.safetensors", folder ? folder : ".");
    auto_net *n = small_net();
    assert_int_equal(st_net_set_metadata(n, "mean", "0.1307"), 0);
    if (st_net_save(n, path)) fail_msg("%s", st_error());
    auto_net *loaded = st_net_load(path, .batch = 10);
    if (!loaded) fail_msg("%s", st_error());
    auto_tensor x = some_images();
    assert_same(st_net_parameters(loaded), st_net_parameters(n));
    assert_same(st_net_forward(loaded, x, ST_EVAL), st_net_forward(n, x, ST_EVAL));
    assert_string_equal(st_net_metadata(loaded, "mean"), "0.1307");
    st_fill(st_net_parameters(n), 0);
    assert_int_equal(st_net_load_tensors(n, path), 0);
    assert_same(st_net_parameters(n), st_net_parameters(loaded));
    remove(path);
}

TEST(what_is_refused_leaves_nothing_behind)
{
    expect_failure(st_net_new(ST_SHAPE(1, 4, 4), st_relu(), st_dropout(.p = 2), st_flatten()),
                   "dropout: p is 2");
    expect_failure(st_net_load("no such file", .batch = 1), "no such file");
}

TEST(the_library_is_of_its_headers_version)
{
    char parts[64];
    snprintf(parts, sizeof parts, "%d.%d.%d", ST_VERSION_MAJOR, ST_VERSION_MINOR, ST_VERSION_PATCH);
    assert_string_equal(st_version(), parts);
    assert_string_equal(st_version(), ST_VERSION);
}
