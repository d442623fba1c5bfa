/* test_layer_contract.c: what layer.h promises to whoever uses a layer or writes one.
 *
 * Bad options, shapes and calls are refused with the numbers involved, and change nothing; memory is what
 * plan asked for; results do not depend on the number of threads; a type of one's own is like any other. */
#include "tests/layers/layer_claims.h"
#include "tests/support.h"

#include "layers/layers.h"
#include "tensor/parallel.h"

#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- helpers --------------------------------------------------------------------------------- */

static void assert_all(st_tensor x, double value)
{
    for (ptrdiff_t k = 0; k < st_numel(x); k++) assert_true((double)*element(x, k) == value);
}

/* Bit for bit, which == would not be for -0 and NaN. */
static void assert_identical(st_tensor a, st_tensor b)
{
    assert_string_equal(st_shape_text(a.shape).text, st_shape_text(b.shape).text);
    assert_memory_equal(st_data(a), st_data(b), (size_t)st_numel(a) * sizeof(st_real));
}

/* How many threads layers that are built from now on run on; returns how many it was. */
static int set_threads(int threads)
{
    int before = st_num_threads();
    st_set_num_threads(threads);
    return before;
}

static st_real mean(const st_real *in, ptrdiff_t n, const void *context)
{
    (void)context;
    st_real sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) sum += in[i];
    return sum / (st_real)n;
}

static const st_pool_function mean_function = { .name = "mean", .value = mean };

/* A net with most layers in it: [N, 2, 8, 8] -> [N, 5]. */
static st_layer *small_net(void)
{
    return st_sequence(st_conv2d(.out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 }), st_gelu(),
                       st_maxpool(.kernel = { 2, 2 }), st_sequence(st_dropout(.p = 0.25), st_flatten()),
                       st_dense(.out_features = 5));
}

static const st_shape NET_INPUT = { 4, { 19, 2, 8, 8 } };

/* ---- options --------------------------------------------------------------------------------- */

#define CONV(...) ((st_conv2d_options){ .out_channels = 4, .kernel = { 3, 3 }, __VA_ARGS__ })

static st_conv2d_options conv(void)
{
    return (st_conv2d_options){ .out_channels = 4, .kernel = { 3, 3 } };
}

TEST(options_are_copied)
{
    st_conv2d_options o = conv();
    st_layer *l = st_conv2d_new(o);
    o.out_channels = 9;
    assert_int_equal(((const st_conv2d_options *)l->options)->out_channels, 4);
    assert_int_equal(((const st_conv2d_options *)l->options)->stride[1], 1); /* the default is filled in */
    st_layer_free(l);
}

/* ---- children -------------------------------------------------------------------------------- */

/* That they are freed is the leak sanitizer's to say. */
TEST(a_missing_child_frees_the_others)
{
    assert_refused(st_sequence(st_relu(), NULL, st_dense(3)), "sequence: layer 1 of 3 is NULL");
    assert_refused(st_sequence(NULL), "sequence: layer 0 of 1 is NULL");
    assert_refused(st_sequence(st_relu(), st_conv2d_new(conv()), st_sequence(st_tanh(), NULL)),
                   "sequence: layer 1 of 2 is NULL");
}

TEST(the_first_failure_of_a_net_is_the_one_that_is_told)
{
    assert_refused(st_sequence(st_relu(), st_dropout(.p = 2), st_sequence(st_dense())),
                   "dropout: p is 2, expected at least 0 and below 1");
}

TEST(a_built_net_is_freed_whole)
{
    st_layer *l = small_net();
    assert_built(l, NET_INPUT);
    st_layer_free(l);
    st_layer_free(NULL);
}

TEST(a_child_is_not_built_apart_and_its_net_still_works)
{
    st_layer *l = small_net();
    assert_built(l, NET_INPUT);
    st_tensor x = full(NET_INPUT, 1), y = full(l->y, 0), again = full(l->y, 0);
    st_layer_forward(l, x, y);
    assert_int_equal(st_layer_build(l->child[0], ST_SHAPE(7, 2, 8, 8), 1), -1);
    expect_error("conv2d: is part of another layer");
    st_layer_forward(l, x, again);
    assert_null(st_error());
    assert_same(again, y);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(again);
    st_layer_free(l);
}

/* ---- building again -------------------------------------------------------------------------- */

TEST(another_batch_size_keeps_the_parameters)
{
    dice d = { { 1 } };
    st_layer *l = small_net();
    assert_built(l, ST_SHAPE(3, 2, 8, 8));
    const st_real *place = st_data(l->child[0]->param[0]);
    roll_elements(&d, st_layer_parameters(l), -9, 9);
    st_tensor before = st_tensor_clone(st_layer_parameters(l));
    for (ptrdiff_t n = 70; n >= 1; n -= 23) {
        assert_int_equal(st_layer_build(l, ST_SHAPE(n, 2, 8, 8), 99), 0);
        assert_same(st_layer_parameters(l), before);
        assert_ptr_equal(st_data(l->child[0]->param[0]), place);
        st_tensor x = full(ST_SHAPE(n, 2, 8, 8), 1), y = full(ST_SHAPE(n, 5), 0);
        st_layer_forward(l, x, y);
        st_layer_backward(l, x, y, y, x);
        assert_null(st_error());
        st_tensor_free(x), st_tensor_free(y);
    }
    st_tensor_free(before);
    st_layer_free(l);
}

/* Built alone first; then it and what it learnt are part of a net, whose memory it shares. */
TEST(a_layer_that_was_built_alone_brings_its_parameters_and_states)
{
    dice d = { { 1 } };
    st_layer *l = st_batchnorm(), *alone = st_dense(.out_features = 5);
    assert_built(l, ST_SHAPE(3, 2));
    assert_built(alone, ST_SHAPE(3, 2));
    roll_elements(&d, st_layer_parameters(l), -9, 9);
    roll_elements(&d, st_layer_states(l), 1, 9);
    st_tensor w = st_tensor_clone(st_layer_parameters(l)), s = st_tensor_clone(st_layer_states(l));
    st_tensor v = st_tensor_clone(st_layer_parameters(alone));
    st_layer *whole = st_sequence(l, alone, st_dense(.out_features = 3));
    assert_built(whole, ST_SHAPE(4, 2));
    ptrdiff_t own = st_numel(w), others = st_numel(v);
    assert_same(st_narrow(st_layer_parameters(whole), 0, 0, own), w);
    assert_same(st_narrow(st_layer_parameters(whole), 0, own, others), v);
    assert_same(st_layer_states(whole), s);
    assert_ptr_equal(st_data(l->param[0]), st_data(st_layer_parameters(whole)));
    st_tensor_free(w), st_tensor_free(s), st_tensor_free(v);
    st_layer_free(whole);
}

/* A convolution's parameters do not depend on the image's size. */
TEST(another_image_size_keeps_the_parameters_of_a_convolution)
{
    st_layer *l = st_conv2d_new(conv());
    assert_built(l, ST_SHAPE(2, 3, 8, 8));
    st_tensor before = st_tensor_clone(st_layer_parameters(l));
    assert_built(l, ST_SHAPE(4, 3, 11, 5));
    assert_string_equal(st_shape_text(l->y).text, "[4, 4, 9, 3]");
    assert_same(st_layer_parameters(l), before);
    st_tensor_free(before);
    st_layer_free(l);
}

TEST(a_shape_that_needs_other_parameters_is_refused)
{
    st_layer *l = st_dense(.out_features = 5);
    st_tensor x = full(ST_SHAPE(3, 12), 1), y = full(ST_SHAPE(3, 5), 0), again = full(ST_SHAPE(3, 5), 0);
    assert_built(l, x.shape);
    st_layer_forward(l, x, y);
    assert_int_equal(st_layer_build(l, ST_SHAPE(3, 13), 1), -1);
    expect_error("dense: weight is [5, 12], an input of [3, 13] needs [5, 13]");
    assert_built(l, x.shape);
    st_layer_forward(l, x, again);
    assert_same(again, y);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(again);
    st_layer_free(l);
}

/* Refused by the last layer, when the others were planned for it already. */
TEST(a_net_works_again_after_a_shape_was_refused)
{
    st_layer *l = small_net();
    st_tensor x = full(NET_INPUT, 1), y = full(ST_SHAPE(19, 5), 0), again = full(ST_SHAPE(19, 5), 0);
    assert_built(l, x.shape);
    st_layer_mode(l, false, 1, 1);
    st_layer_forward(l, x, y);
    static const st_shape refused[] = {
        { 4, { 19, 2, 9, 12 } }, { 4, { 19, 3, 8, 8 } }, { 4, { 19, 2, 1, 8 } }, { 2, { 19, 128 } }
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(st_layer_build(l, refused[i], 1), -1);
        expect_error("layer ");
        assert_int_equal(st_layer_build(l, x.shape, 2), 0);
        st_layer_forward(l, x, again);
        assert_same(again, y);
        st_layer_backward(l, x, again, again, x);
        assert_null(st_error());
        st_fill(x, 1);
    }
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(again);
    st_layer_free(l);
}

TEST(a_layer_refused_at_first_can_be_built_later)
{
    st_layer *l = small_net();
    assert_int_equal(st_layer_build(l, ST_SHAPE(2, 2, 1, 1), 1), -1);
    expect_error("layer 2: maxpool: kernel 2×2 does not fit the padded input 1×1");
    assert_true(st_is_null(st_layer_parameters(l)));
    assert_built(l, NET_INPUT);
    st_layer_free(l);
}

/* ---- smaller batches ------------------------------------------------------------------------- */

TEST(larger_batches_are_refused)
{
    st_layer *l = st_relu();
    st_tensor x = full(ST_SHAPE(5, 2), 1), y = full(ST_SHAPE(5, 2), 7);
    assert_built(l, ST_SHAPE(4, 2));
    st_layer_forward(l, x, y);
    expect_error("relu: forward of x [5, 2], built for [4, 2]");
    assert_all(y, 7);
    st_tensor_free(x), st_tensor_free(y);
    st_layer_free(l);
}

/* ---- calls that are refused and write nothing ------------------------------------------------ */

TEST(running_before_building_is_refused)
{
    st_layer *l = st_conv2d_new(conv());
    st_tensor x = full(ST_SHAPE(1, 1, 3, 3), 1), y = full(ST_SHAPE(1, 4, 1, 1), 7), dx = full(x.shape, 7);
    st_layer_forward(l, x, y);
    expect_error("conv2d: forward before st_layer_build");
    st_layer_backward(l, x, y, y, dx);
    expect_error("conv2d: backward before st_layer_build");
    st_shape planned;
    assert_int_equal(st_layer_plan(l, x.shape, &planned), 0); /* a plan alone has no memory */
    st_layer_forward(l, x, y);
    expect_error("conv2d: forward before st_layer_build");
    assert_true(st_is_null(st_layer_parameters(l)));
    assert_true(st_is_null(st_layer_gradients(l)));
    assert_true(st_is_null(st_layer_states(l)));
    st_layer_forward(NULL, x, y);
    expect_error("forward: the layer is NULL");
    st_layer_backward(NULL, x, y, y, dx);
    expect_error("backward: the layer is NULL");
    assert_int_equal(st_layer_build(NULL, x.shape, 1), -1);
    expect_error("the layer is NULL");
    assert_all(y, 7);
    assert_all(dx, 7);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(dx);
    st_layer_free(l);
}

typedef struct passes {
    st_layer *l; /* dense, built for [8, 6] -> [8, 3] */
    st_tensor x, y, dy, dx;
} passes;

static passes passes_of_dense(void)
{
    passes p = { st_dense(.out_features = 3), full(ST_SHAPE(8, 6), 1), full(ST_SHAPE(8, 3), 7),
                 full(ST_SHAPE(8, 3), 1), full(ST_SHAPE(8, 6), 7) };
    assert_built(p.l, p.x.shape);
    st_fill(st_layer_gradients(p.l), 7);
    return p;
}

/* The call failed with such a text, and what it would have written is as it was. */
static void assert_nothing_done(passes p, const char *text)
{
    expect_error("%s", text);
    assert_all(p.y, 7);
    assert_all(p.dx, 7);
    assert_all(st_layer_gradients(p.l), 7);
}

static void end_passes(passes p)
{
    st_tensor_free(p.x), st_tensor_free(p.y), st_tensor_free(p.dy), st_tensor_free(p.dx);
    st_layer_free(p.l);
}

TEST(wrong_x_and_y_are_refused)
{
    passes p = passes_of_dense();
    st_tensor null = { 0 }, none = st_narrow(p.x, 0, 0, 0), narrow = st_narrow(p.x, 1, 0, 5);
    st_tensor deep = st_reshape(p.x, ST_SHAPE(8, 3, 2)), wide = full(ST_SHAPE(8, 7), 1);
    st_tensor other = st_narrow(p.y, 0, 0, 7), thin = st_narrow(p.y, 1, 0, 2),
              column = full(ST_SHAPE(3, 8), 7);
    struct {
        st_tensor x, y;
        const char *says;
    } cases[] = {
        { null, p.y, "of x [], built for [8, 6]" },
        { none, st_narrow(p.y, 0, 0, 0), "of x [0, 6], built for [8, 6]" },
        { narrow, p.y, "of x [8, 5], built for [8, 6]" },
        { wide, p.y, "of x [8, 7], built for [8, 6]" },
        { deep, p.y, "of x [8, 3, 2], built for [8, 6]" },
        { p.x, null, "of x [8, 6] into y [], built for [8, 3]" },
        { p.x, other, "of x [8, 6] into y [7, 3], built for [8, 3]" },
        { st_narrow(p.x, 0, 0, 7), p.y, "of x [7, 6] into y [8, 3], built for [8, 3]" },
        { p.x, thin, "of x [8, 6] into y [8, 2], built for [8, 3]" },
        { p.x, column, "of x [8, 6] into y [3, 8], built for [8, 3]" },
        { p.x, st_transpose(column, 0, 1), "into a y that is not contiguous" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("case %d", (int)i);
        st_layer_forward(p.l, cases[i].x, cases[i].y);
        assert_nothing_done(p, cases[i].says);
        st_layer_backward(p.l, cases[i].x, cases[i].y, p.dy, p.dx);
        assert_nothing_done(p, cases[i].says);
        assert_all(column, 7);
    }
    st_tensor_free(wide), st_tensor_free(column);
    end_passes(p);
}

TEST(wrong_dy_and_dx_are_refused)
{
    passes p = passes_of_dense();
    st_tensor null = { 0 }, across = st_transpose(full(ST_SHAPE(3, 8), 1), 0, 1);
    st_tensor columns = full(ST_SHAPE(6, 8), 7), wide = full(ST_SHAPE(8, 7), 7);
    struct {
        st_tensor dy, dx;
        const char *says;
    } cases[] = {
        { null, p.dx, "dense: backward from dy [], expected a contiguous [8, 3]" },
        { st_narrow(p.dy, 0, 0, 7), p.dx, "dense: backward from dy [7, 3], expected a contiguous [8, 3]" },
        { p.x, p.dx, "dense: backward from dy [8, 6], expected a contiguous [8, 3]" },
        { across, p.dx, "dense: backward from dy [8, 3], expected a contiguous [8, 3]" },
        { p.dy, st_narrow(p.dx, 0, 0, 7), "dense: backward into dx [7, 6], expected a contiguous [8, 6]" },
        { p.dy, wide, "dense: backward into dx [8, 7], expected a contiguous [8, 6]" },
        { p.dy, st_transpose(columns, 0, 1), "dense: backward into dx [8, 6], expected a contiguous [8, 6]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("case %d", (int)i);
        st_layer_backward(p.l, p.x, p.y, cases[i].dy, cases[i].dx);
        assert_nothing_done(p, cases[i].says);
        assert_all(wide, 7);
        assert_all(columns, 7);
    }
    st_tensor_free(across), st_tensor_free(columns), st_tensor_free(wide);
    end_passes(p);
}

/* ---- describing, visiting, measuring --------------------------------------------------------- */

static void assert_described(st_layer *l, const char *expected)
{
    char text[256];
    assert_non_null(l);
    assert_int_equal(st_layer_describe(l, text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
    st_layer_free(l);
}

TEST(layers_are_described_by_what_differs_from_the_default)
{
    assert_described(st_conv2d(.out_channels = 32, .kernel = { 3, 5 }),
                     "conv2d(out_channels=32, kernel=3x5)");
    assert_described(
        st_conv2d(8, { 3, 3 }, { 2, 1 }, { 1, 1 }, { 1, 2 }, 4, true),
        "conv2d(out_channels=8, kernel=3x3, stride=2x1, padding=1x1, dilation=1x2, groups=4, no_bias)");
    assert_described(st_conv2d(8, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, false),
                     "conv2d(out_channels=8, kernel=1x1)");
    assert_described(st_maxpool(), "maxpool");
    assert_described(st_maxpool(.kernel = { 2, 2 }, .ceil_mode = true, .pad_value = ST_PAD_ZERO),
                     "maxpool(kernel=2x2, ceil_mode, pad_value=zero)");
    assert_described(st_avgpool(.kernel = { 3, 3 }, .stride = { 2, 2 }, .count_exclude_pad = true),
                     "avgpool(kernel=3x3, stride=2x2, count_exclude_pad)");
    assert_described(st_pool(&mean_function, .kernel = { 2, 2 }), "pool(function=mean, kernel=2x2)");
    assert_described(st_dense(10, true), "dense(out_features=10, no_bias)");
    assert_described(st_dropout(.p = 0.25), "dropout(p=0.25)");
    assert_described(st_leaky_relu(), "leaky_relu");
    assert_described(st_leaky_relu(.slope = 0.2), "leaky_relu(slope=0.2)");
    assert_described(st_elu(.alpha = 1), "elu");
    assert_described(st_elu(.alpha = 0.5), "elu(alpha=0.5)");
    assert_described(st_gelu(), "gelu");
    assert_described(st_flatten(), "flatten");
    assert_described(st_sequence(st_relu()), "sequence");
}

TEST(a_description_is_cut_where_it_does_not_fit)
{
    const char *whole = "conv2d(out_channels=32, kernel=3x3)";
    st_layer *l = st_conv2d(.out_channels = 32, .kernel = { 3, 3 });
    assert_int_equal(st_layer_describe(l, NULL, 0), strlen(whole));
    for (size_t size = 1; size <= strlen(whole) + 1; size++) {
        char text[64];
        memset(text, '#', sizeof text);
        assert_int_equal(st_layer_describe(l, text, size), strlen(whole));
        assert_int_equal(strlen(text), size - 1);
        assert_memory_equal(text, whole, size - 1);
        assert_true(text[size] == '#');
    }
    st_layer_free(l);
}

static void collect_path(st_layer *l, const char *path, void *context)
{
    char *all = context;
    size_t used = strlen(all);
    snprintf(all + used, 512 - used, "%s:%s ", path, l->type->name);
}

static void no_forward(const st_call *c, st_tensor x, st_tensor y)
{
    (void)c, (void)x, (void)y;
}

static void no_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)c, (void)x, (void)y, (void)dy, (void)dx;
}

static int same_shape(st_layer *l, st_shape x, st_shape *y)
{
    (void)l;
    *y = x;
    return 0;
}

static const char *const branch_names[] = { "body", "shortcut", NULL };
static const st_layer_type branches_type = { .name = "branches",
                                             .plan = same_shape,
                                             .forward = no_forward,
                                             .backward = no_backward,
                                             .children = 2,
                                             .child_names = branch_names };

TEST(layers_are_visited_parents_first_with_their_paths)
{
    st_layer *branch[] = { st_sequence(st_relu(), st_tanh()), st_flatten() };
    st_layer *l =
        st_sequence(st_dense(3), st_sequence(st_gelu()), st_layer_new(&branches_type, NULL, 2, branch));
    char paths[512] = "";
    st_layer_visit(l, collect_path, paths);
    assert_string_equal(paths,
                        ":sequence 0:dense 1:sequence 1.0:gelu 2:branches 2.body:sequence 2.body.0:relu "
                        "2.body.1:tanh 2.shortcut:flatten ");
    st_layer_free(l);
}

/* Each piece of memory and scratch may be rounded up to a cache line. */
static void assert_measured(ptrdiff_t value, ptrdiff_t elements, int pieces)
{
    assert_in_range(value, elements, elements + pieces * 64 / (ptrdiff_t)sizeof(st_real));
}

static st_layer_needs planned_needs(st_layer *l, st_shape x)
{
    st_shape y;
    st_layer_needs needs;
    assert_non_null(l);
    assert_int_equal(st_layer_plan(l, x, &y), 0);
    assert_int_equal(st_layer_measure(l, &needs), 0);
    st_layer_free(l);
    return needs;
}

TEST(a_plan_is_measured_before_anything_is_allocated)
{
    use_engine("reference");
    /* conv2d: 4·2·3·3 + 4 parameters, one sum of them for each of 3 chunks; columns and the padded image */
    st_layer_needs n = planned_needs(st_conv2d(.out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 }),
                                     ST_SHAPE(19, 2, 8, 8));
    assert_int_equal(n.parameters, 76);
    assert_int_equal(n.state, 0);
    assert_int_equal(n.memory, 0);
    assert_int_equal(n.partial, 3 * 76);
    assert_measured(n.scratch, 2 * 9 * 64 + 2 * 10 * 10, 2);

    n = planned_needs(st_dropout(.p = 0.5), ST_SHAPE(19, 100)); /* a mask for each image */
    assert_int_equal(n.parameters, 0);
    assert_measured(n.memory, 1900, 1);
    assert_int_equal(n.scratch, 0);
    assert_int_equal(n.partial, 0);

    n = planned_needs(st_conv2d(.out_channels = 300, .kernel = { 1, 1 }),
                      ST_SHAPE(70, 300, 1, 1)); /* four times as wide, too many to be summed apart */
    assert_int_equal(n.parameters, 300 * 300 + 300);
    assert_int_equal(n.partial, 9 * 90300);
    n = planned_needs(st_conv2d(.out_channels = 1200, .kernel = { 1, 1 }), ST_SHAPE(70, 1200, 1, 1));
    assert_int_equal(n.partial, 0);

    /* A sequence: parameters and memory of all; outputs of all but the last, and but those that the next layer
     * overwrites; two gradients between its chains; the scratch of the greediest. */
    n = planned_needs(st_sequence(st_dense(7), st_relu(), st_dense(3)), ST_SHAPE(19, 10));
    assert_int_equal(n.parameters, 77 + 24);
    assert_measured(n.memory, 19 * 7 + 2 * 19 * 7, 3);
    assert_int_equal(n.scratch, 0);
    assert_int_equal(n.partial, 0);

    /* A chain: its gradients on the way are of a chunk, and its chunks' sums of all its parameters. */
    n = planned_needs(st_sequence(st_conv2d(.out_channels = 4, .kernel = { 3, 3 }), st_tanh(),
                                  st_maxpool(.kernel = { 2, 2 }),
                                  st_conv2d(.out_channels = 2, .kernel = { 1, 1 })),
                      ST_SHAPE(19, 2, 8, 8));
    assert_int_equal(n.partial, 3 * (76 + 10));
    assert_measured(n.ping_pong, 8 * 4 * 6 * 6, 1);
    assert_true(n.scratch >= 2 * n.ping_pong + 2 * 9 * 36);
    use_engine(NULL);
}

TEST(flops_are_two_for_each_product)
{
    st_layer *l =
        st_sequence(st_conv2d(.out_channels = 4, .kernel = { 3, 3 }, .groups = 2), st_flatten(), st_dense(5));
    assert_built(l, ST_SHAPE(10, 2, 8, 8));
    assert_true(l->child[0]->flops == 2.0 * 10 * 4 * 36 * 9);
    assert_true(l->child[2]->flops == 2.0 * 10 * 144 * 5);
    assert_true(l->flops == l->child[0]->flops + l->child[2]->flops);
    assert_built(l, ST_SHAPE(20, 2, 8, 8));
    assert_true(l->flops == 2.0 * 20 * (4 * 36 * 9 + 144 * 5));
    st_layer_free(l);
}

/* ---- parameters ------------------------------------------------------------------------------ */

TEST(parameters_and_gradients_are_views_into_one_flat_tensor)
{
    st_layer *l = small_net();
    assert_built(l, NET_INPUT);
    st_tensor all = st_layer_parameters(l), gradients = st_layer_gradients(l);
    assert_shape(all, 4 * 2 * 9 + 4 + 5 * 64 + 5);
    assert_shape(gradients, 4 * 2 * 9 + 4 + 5 * 64 + 5);
    assert_all(gradients, 0);
    const st_layer *holder[] = { l->child[0], l->child[0], l->child[4], l->child[4] };
    static const char *const names[] = { "weight", "bias", "weight", "bias" };
    static const char *const shapes[] = { "[4, 2, 3, 3]", "[4]", "[5, 64]", "[5]" };
    for (ptrdiff_t i = 0, at = 0; i < 4; i++) {
        st_tensor p = holder[i]->param[i % 2], g = holder[i]->grad[i % 2];
        assert_string_equal(holder[i]->param_name[i % 2], names[i]);
        assert_string_equal(st_shape_text(p.shape).text, shapes[i]);
        assert_string_equal(st_shape_text(g.shape).text, shapes[i]);
        assert_ptr_equal(st_data(p), st_data(all) + at);
        assert_ptr_equal(st_data(g), st_data(gradients) + at);
        at += st_numel(p);
    }
    st_layer_free(l);
}

static void assert_uniform(st_tensor x, double bound)
{
    double least = INFINITY, most = -INFINITY;
    for (ptrdiff_t k = 0; k < st_numel(x); k++) {
        least = fmin(least, (double)*element(x, k));
        most = fmax(most, (double)*element(x, k));
    }
    assert_true(least >= -bound && least < -0.5 * bound && most <= bound && most > 0.5 * bound);
}

TEST(parameters_begin_uniform_within_1_over_sqrt_fan_in)
{
    st_layer *l = st_sequence(st_conv2d(.out_channels = 20, .kernel = { 3, 2 }, .groups = 2), st_flatten(),
                              st_dense(30));
    assert_built(l, ST_SHAPE(1, 8, 5, 4));
    for (int i = 0; i < 2; i++) assert_uniform(l->child[0]->param[i], 1 / sqrt(4 * 3 * 2));
    for (int i = 0; i < 2; i++) assert_uniform(l->child[2]->param[i], 1 / sqrt(20 * 3 * 3));
    st_layer_free(l);
}

static ptrdiff_t equal_elements(st_tensor a, st_tensor b)
{
    ptrdiff_t equal = 0;
    for (ptrdiff_t k = 0; k < st_numel(a); k++) equal += *element(a, k) == *element(b, k);
    return equal;
}

TEST(parameters_are_a_function_of_the_seed_and_their_place)
{
    st_layer *a = st_sequence(st_dense(12), st_dense(12));
    st_layer *b = st_sequence(st_dense(12), st_dense(12));
    assert_int_equal(st_layer_build(a, ST_SHAPE(1, 12), 5), 0);
    assert_int_equal(st_layer_build(b, ST_SHAPE(7, 12), 5), 0);
    assert_same(st_layer_parameters(b), st_layer_parameters(a));
    assert_true(equal_elements(a->child[0]->param[0], a->child[1]->param[0]) < 3);
    assert_true(equal_elements(st_narrow(st_reshape(a->child[0]->param[0], ST_SHAPE(144)), 0, 0, 12),
                               a->child[0]->param[1]) < 3);
    st_tensor first = st_tensor_clone(st_layer_parameters(a));
    st_layer_reset(a, 6);
    assert_true(equal_elements(st_layer_parameters(a), first) < 3);
    st_layer_reset(a, 5);
    assert_same(st_layer_parameters(a), first);
    st_tensor_free(first);
    st_layer_free(a), st_layer_free(b);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct results {
    st_tensor y, dx, gradients;
} results;

static results run_with_threads(st_layer *(*make)(void), st_shape s, int threads)
{
    int before = set_threads(threads);
    st_layer *l = make();
    assert_built(l, s);
    st_tensor x = st_tensor_new(s), dy = st_tensor_new(l->y);
    st_normal(x, (st_random_key){ 1, 1 }, 0, 1);
    st_normal(dy, (st_random_key){ 1, 2 }, 0, 1);
    results r = { st_tensor_new(l->y), st_tensor_new(s), { 0 } };
    st_layer_forward(l, x, r.y);
    st_layer_backward(l, x, r.y, dy, r.dx);
    assert_null(st_error());
    r.gradients = st_tensor_clone(st_layer_gradients(l));
    set_threads(before);
    st_tensor_free(x), st_tensor_free(dy);
    st_layer_free(l);
    return r;
}

static void free_results(results r)
{
    st_tensor_free(r.y), st_tensor_free(r.dx), st_tensor_free(r.gradients);
}

/* ---- a type of one's own --------------------------------------------------------------------- */

/* y = scale x + shift for each feature: [N, F] -> [N, F]. Memory keeps x for the gradient; scratch holds the
 * product of one image. */
typedef struct affine {
    double scale; /* at first; 1 */
} affine;

static int affine_plan(st_layer *l, st_shape x, st_shape *y)
{
    if (x.rank != 2)
        return st_layer_refuse(l, "the input is %s, expected [N, features]", st_shape_text(x).text);
    *y = x;
    st_shape features = ST_SHAPE(x.n[1]);
    st_init scale = { .constant = ((const affine *)l->options)->scale };
    return st_layer_parameter(l, "scale", features, scale) ||
           st_layer_parameter(l, "shift", features, (st_init){ 0 }) || st_layer_memory(l, x) ||
           st_layer_scratch(l, features) || st_layer_state(l, "seen", ST_SHAPE(1), 3);
}

static void affine_forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(st_memory(c, 0), x);
    st_copy(y, x);
    st_mul(y, st_expand(c->param[0], y.shape));
    st_add(y, 1, st_expand(c->param[1], y.shape));
}

static void affine_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    st_copy(dx, dy);
    st_mul(dx, st_expand(c->param[0], dx.shape));
}

static void affine_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)x, (void)y;
    for (ptrdiff_t i = 0; i < dy.shape.n[0]; i++) {
        st_copy(st_scratch(c, 0), st_select(dy, 0, i));
        st_mul(st_scratch(c, 0), st_select(st_memory(c, 0), 0, i));
        st_add(st_grad(c, 0), 1, st_scratch(c, 0));
        st_add(st_grad(c, 1), 1, st_select(dy, 0, i));
    }
}

static const st_field affine_fields[] = {
    { "scale", ST_FIELD_REAL, offsetof(affine, scale), .fallback = 1, .least = -8, .below = 8 },
    { 0 },
};

static const st_layer_type affine_type = {
    .name = "affine",
    .options_size = sizeof(affine),
    .fields = affine_fields,
    .chunk = 3,
    .plan = affine_plan,
    .forward = affine_forward,
    .backward = affine_backward,
    .gradient = affine_gradient,
};

static st_layer *layer_affine(double scale)
{
    return st_layer_new(&affine_type, &(affine){ scale }, 0, NULL);
}

TEST(a_type_of_ones_own_has_options_like_any_other)
{
    assert_described(layer_affine(0), "affine");
    assert_described(layer_affine(2.5), "affine(scale=2.5)");
    assert_refused(layer_affine(8), "affine: scale is 8, expected at least -8 and below 8");
    assert_unbuildable(layer_affine(1), ST_SHAPE(2, 3, 4),
                       "affine: the input is [2, 3, 4], expected [N, features]");
}

TEST(a_type_of_ones_own_runs_like_any_other)
{
    dice d = { { 3 } };
    st_layer *l = st_sequence(st_relu(), layer_affine(2)), *own = l->child[1];
    st_tensor x = roll_tensor(&d, ST_SHAPE(19, 4), 1, 9), dy = roll_tensor(&d, x.shape, -9, 9);
    st_tensor y = full(x.shape, NAN), dx = full(x.shape, NAN);
    st_tensor scales = full(ST_SHAPE(4), 0), shifts = full(ST_SHAPE(4), 0);
    assert_built(l, x.shape);
    assert_all(own->param[0], 2);
    assert_all(own->param[1], 0);
    assert_all(st_layer_states(l), 3);
    roll_elements(&d, st_layer_parameters(l), -5, 5);
    st_layer_forward(l, x, y);
    st_layer_backward(l, x, y, dy, dx);
    for (ptrdiff_t k = 0; k < 19 * 4; k++) {
        st_real scale = *element(own->param[0], k % 4), shift = *element(own->param[1], k % 4);
        assert_true(*element(y, k) == scale * *element(x, k) + shift);
        assert_true(*element(dx, k) == scale * *element(dy, k));
        *element(scales, k % 4) += *element(dy, k) * *element(x, k);
        *element(shifts, k % 4) += *element(dy, k);
    }
    assert_same(own->grad[0], scales);
    assert_same(own->grad[1], shifts);
    st_layer_reset(l, 1);
    assert_all(own->param[0], 2);
    st_tensor_free(x), st_tensor_free(dy), st_tensor_free(y), st_tensor_free(dx);
    st_tensor_free(scales), st_tensor_free(shifts);
    st_layer_free(l);
}

static st_layer *affine_net(void)
{
    return st_sequence(st_flatten(), layer_affine(0), layer_affine(3));
}

TEST(a_type_of_ones_own_gives_the_same_for_any_number_of_threads)
{
    results one = run_with_threads(affine_net, ST_SHAPE(64, 5), 1);
    results many = run_with_threads(affine_net, ST_SHAPE(64, 5), 3);
    assert_identical(many.y, one.y);
    assert_identical(many.dx, one.dx);
    assert_identical(many.gradients, one.gradients);
    free_results(one), free_results(many);
}

/* ---- what hooks are given -------------------------------------------------------------------- */

enum { SEEN_FORWARD, SEEN_BACKWARD, SEEN_GRADIENT, SEEN_HOOKS };

/* Of each image and hook: how often it was seen, in pieces of how many images, and whether memory and scratch
 * were as promised. In one row for each hook; every image belongs to one piece, so no two threads meet. */
static struct seen {
    int times;
    ptrdiff_t piece;
    bool as_promised;
} seen[SEEN_HOOKS][512];

static void note(const st_call *c, int hook, ptrdiff_t count)
{
    st_tensor memory = st_memory(c, 0);
    bool own = memory.shape.n[0] == count && st_numel(st_scratch(c, 0)) == 7;
    if (own && hook == SEEN_FORWARD) /* memory lasts until backward, and only this piece writes it */
        for (ptrdiff_t i = 0; i < count; i++) *element(memory, i) = (st_real)(c->first + i);
    for (ptrdiff_t i = 0; i < count && c->first + i < 512; i++) {
        struct seen *s = &seen[hook][c->first + i];
        s->times++;
        s->piece = count;
        s->as_promised = own && *element(memory, i) == (st_real)(c->first + i);
    }
}

static int noting_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "unused", ST_SHAPE(1), (st_init){ 0 }) ||
           st_layer_memory(l, ST_SHAPE(x.n[0])) || st_layer_scratch(l, ST_SHAPE(7));
}

static void noting_forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
    note(c, SEEN_FORWARD, x.shape.n[0]);
}

static void noting_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    st_copy(dx, dy);
    note(c, SEEN_BACKWARD, dy.shape.n[0]);
}

static void noting_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)x, (void)y;
    note(c, SEEN_GRADIENT, dy.shape.n[0]);
}

#define NOTING(CHUNK)                                                                                        \
    {                                                                                                        \
        .name = "noting", .chunk = CHUNK, .plan = noting_plan, .forward = noting_forward,                    \
        .backward = noting_backward, .gradient = noting_gradient                                             \
    }

static void check_pieces(const st_layer_type *type, ptrdiff_t built, ptrdiff_t n, ptrdiff_t piece)
{
    st_layer *l = st_layer_new(type, NULL, 0, NULL);
    st_tensor x = full(ST_SHAPE(n, 2), 1), y = full(x.shape, 0);
    memset(seen, 0, sizeof seen);
    assert_built(l, ST_SHAPE(built, 2));
    st_layer_forward(l, x, y);
    st_layer_backward(l, x, y, x, y);
    for (int hook = 0; hook < SEEN_HOOKS; hook++)
        for (ptrdiff_t i = 0; i < 512; i++) {
            struct seen s = seen[hook][i];
            bool last = i >= n / piece * piece;
            if (s.times != (i < n) || (i < n && (!s.as_promised || s.piece != (last ? n % piece : piece))))
                fail_msg(
                    "batch %td of %td in pieces of %td: hook %d saw image %td %d times in a piece of %td%s",
                    n, built, piece, hook, i, s.times, s.piece,
                    s.as_promised ? "" : ", memory or scratch wrong");
        }
    st_tensor_free(x), st_tensor_free(y);
    st_layer_free(l);
}

/* Of `chunk` images; of 8 where it is not given, or more where there would be more than 32 pieces. */
TEST(every_hook_sees_every_image_once_in_pieces_of_a_fixed_size)
{
    static const st_layer_type five = NOTING(5), usual = NOTING(0);
    check_pieces(&usual, 1, 1, 8);
    check_pieces(&usual, 8, 8, 8);
    check_pieces(&usual, 19, 19, 8);
    check_pieces(&usual, 64, 19, 8);
    check_pieces(&usual, 256, 256, 8);
    check_pieces(&usual, 300, 300, 10);
    check_pieces(&usual, 300, 90, 8);
    check_pieces(&five, 64, 64, 5);
    check_pieces(&five, 64, 11, 5);
    check_pieces(&five, 512, 500, 5);
}

/* y = w_0 x, and the gradient of every w is the sum of dy x, of which each image is a chunk. */
enum { MANY_WEIGHTS = (1 << 22) / 16 + 1 }; /* more than 16 chunks may have gradients of their own for */

static int many_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "weight", ST_SHAPE(MANY_WEIGHTS), (st_init){ .constant = 2 });
}
static void many_forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
    st_mul(y, st_expand(st_narrow(c->param[0], 0, 0, 1), y.shape));
}
static void many_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    many_forward(c, dy, dx);
}
static void many_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    st_real sum = *element(x, 0) * *element(dy, 0), *grad = st_data(st_grad(c, 0));
    for (ptrdiff_t i = 0; i < MANY_WEIGHTS; i++) grad[i] += sum;
}

TEST(gradients_too_large_for_each_chunk_are_added_one_after_another)
{
    static const st_layer_type many = { "many",
                                        .chunk = 1,
                                        .plan = many_plan,
                                        .forward = many_forward,
                                        .backward = many_backward,
                                        .gradient = many_gradient };
    dice d = { { 4 } };
    st_layer *l = st_layer_new(&many, NULL, 0, NULL);
    st_tensor x = roll_tensor(&d, ST_SHAPE(16, 1), -9, 9), dy = roll_tensor(&d, x.shape, -9, 9);
    st_tensor y = full(x.shape, 0), dx = full(x.shape, 0), twice = st_tensor_clone(dy);
    double sum = 0;
    for (ptrdiff_t i = 0; i < 16; i++) sum += (double)(*element(x, i) * *element(dy, i));
    st_scale(twice, 2);
    assert_built(l, x.shape);
    st_layer_forward(l, x, y);
    st_layer_backward(l, x, y, dy, dx);
    assert_all(st_layer_gradients(l), sum);
    assert_same(dx, twice);
    st_layer_backward(l, x, y, dy, (st_tensor){ 0 });
    assert_all(st_layer_gradients(l), 2 * sum);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(dy), st_tensor_free(dx), st_tensor_free(twice);
    st_layer_free(l);
}

TEST(hooks_of_a_whole_batch_see_it_at_once)
{
    static const st_layer_type whole = NOTING(ST_WHOLE_BATCH);
    check_pieces(&whole, 64, 64, 64);
    check_pieces(&whole, 1, 1, 1);
}

TEST(hooks_of_a_whole_batch_have_the_memory_of_the_images_at_hand)
{
    static const st_layer_type whole = NOTING(ST_WHOLE_BATCH);
    check_pieces(&whole, 64, 19, 19);
}

/* ---- errors in hooks and plans --------------------------------------------------------------- */

/* No other thread runs a hook at the same time. */
static bool alone(void)
{
    return threads_wanted() == 1 || st_num_threads() > 1;
}

static struct {
    int failing;       /* the hook that fails */
    atomic_int failed; /* how often it has */
    atomic_int stale;  /* hooks in workers that began with an error already there */
} trap;

/* Fails in workers only, and the calling thread waits until one has: that the error comes to the caller is
 * not luck of scheduling. */
static void spring(int hook, const st_call *c)
{
    if (st_error() && !alone()) trap.stale += in_a_worker();
    if (hook != trap.failing) return;
    if (in_a_worker() || alone()) {
        st_error_set("trap: image %td in hook %d", c->first, hook);
        trap.failed++;
    }
    while (trap.failed == 0) continue;
}

static int trap_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "unused", ST_SHAPE(1), (st_init){ 0 });
}

static void trap_forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
    spring(SEEN_FORWARD, c);
}

static void trap_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    st_copy(dx, dy);
    spring(SEEN_BACKWARD, c);
}

static void trap_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)x, (void)y, (void)dy;
    spring(SEEN_GRADIENT, c);
}

static const st_layer_type trap_type = { .name = "trap",
                                         .plan = trap_plan,
                                         .forward = trap_forward,
                                         .backward = trap_backward,
                                         .gradient = trap_gradient };

TEST(errors_of_hooks_in_any_thread_come_to_the_caller)
{
    for (int threads = 1; threads <= 4; threads++)
        for (int nested = 0; nested < 2; nested++) {
            int before = set_threads(threads);
            st_layer *l = st_layer_new(&trap_type, NULL, 0, NULL);
            if (nested) l = st_sequence(st_relu(), l);
            st_tensor x = full(ST_SHAPE(64, 2), 1), y = full(x.shape, 0);
            assert_built(l, x.shape);
            for (int hook = 0; hook < SEEN_HOOKS; hook++) {
                trap.failing = hook;
                trap.failed = 0;
                st_layer_forward(l, x, y);
                if (hook != SEEN_FORWARD) st_layer_backward(l, x, y, x, y);
                assert_true(trap.failed > 0);
                expect_error("trap: image");
                trap.failing = -1; /* and stays in no worker */
                trap.stale = 0;
                st_layer_forward(l, x, y);
                st_layer_backward(l, x, y, x, y);
                assert_null(st_error());
                assert_int_equal(trap.stale, 0);
            }
            st_tensor_free(x), st_tensor_free(y);
            st_layer_free(l);
            set_threads(before);
        }
}

static int silent_plan(st_layer *l, st_shape x, st_shape *y)
{
    (void)l, (void)x, (void)y;
    return -1;
}

static int greedy_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    for (int i = 0; i <= ST_LAYER_SLOTS; i++)
        if (st_layer_memory(l, x)) return -1;
    return 0;
}

static int misshapen_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_memory(l, ST_SHAPE(3));
}

static int batch_changing_plan(st_layer *l, st_shape x, st_shape *y)
{
    (void)l;
    *y = ST_SHAPE(x.n[0] + 1);
    return 0;
}

static int overflowing_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_scratch(l, ST_SHAPE(PTRDIFF_MAX / 2, 3));
}

TEST(bad_types_are_refused)
{
    st_layer_type type = {
        .name = "odd", .plan = silent_plan, .forward = no_forward, .backward = no_backward
    };
    assert_unbuildable(st_layer_new(&type, NULL, 0, NULL), ST_SHAPE(2, 2),
                       "odd: plan failed without an error");
    type.plan = greedy_plan;
    assert_unbuildable(st_layer_new(&type, NULL, 0, NULL), ST_SHAPE(2, 2),
                       "odd: requests more than 8 slots of memory");
    type.plan = misshapen_plan;
    assert_unbuildable(st_layer_new(&type, NULL, 0, NULL), ST_SHAPE(2, 2),
                       "odd: requests memory [3], expected [2, ...]");
    type.plan = batch_changing_plan;
    assert_unbuildable(st_layer_new(&type, NULL, 0, NULL), ST_SHAPE(2, 2),
                       "odd: plan made [3] of a batch [2, 2], expected [2, ...]");
    type.plan = overflowing_plan;
    st_layer *l = st_layer_new(&type, NULL, 0, NULL);
    assert_int_equal(st_layer_build(l, ST_SHAPE(2, 2), 1), -1);
    expect_error("odd: scratch: shape [4611686018427387903, 3] of %s needs more bytes", ST_REAL_NAME);
    st_layer_free(l);

    st_layer_type whole = { .name = "odd",
                            .plan = same_shape,
                            .forward = no_forward,
                            .backward = no_backward },
                  bad = whole;
    bad.name = NULL;
    assert_refused(st_layer_new(&bad, NULL, 0, NULL), "st_layer_new: type ? lacks a name");
    bad = whole, bad.plan = NULL;
    assert_refused(st_layer_new(&bad, NULL, 0, NULL), "st_layer_new: type odd lacks plan");
    bad = whole, bad.forward = NULL;
    assert_refused(st_layer_new(&bad, NULL, 0, NULL), "st_layer_new: type odd lacks forward");
    bad = whole, bad.backward = NULL;
    assert_refused(st_layer_new(&bad, NULL, 0, NULL), "st_layer_new: type odd lacks backward");
}

TEST(a_window_function_needs_a_name_and_a_value)
{
    const st_pool_function nameless = { .value = mean }, valueless = { .name = "nothing" };
    assert_unbuildable(st_pool(&nameless, .kernel = { 2, 2 }), ST_SHAPE(1, 1, 4, 4),
                       "pool: the window function ? has no name");
    assert_unbuildable(st_pool(&valueless, .kernel = { 2, 2 }), ST_SHAPE(1, 1, 4, 4),
                       "pool: the window function nothing has no value");
}

TEST(every_shipped_type_is_listed_once_under_its_name)
{
    int count = 0;
    for (; st_layer_types[count]; count++)
        for (int k = 0; k < count; k++)
            assert_string_not_equal(st_layer_types[count]->name, st_layer_types[k]->name);
    st_layer *made[] = { st_conv2d_new(conv()),
                         st_maxpool(),
                         st_avgpool(),
                         st_pool(&mean_function),
                         st_dense(1),
                         st_relu(),
                         st_relu6(),
                         st_leaky_relu(),
                         st_elu(),
                         st_selu(),
                         st_gelu(),
                         st_silu(),
                         st_mish(),
                         st_sigmoid(),
                         st_tanh(),
                         st_softplus(),
                         st_softsign(),
                         st_hardsigmoid(),
                         st_hardswish(),
                         st_dropout(.p = 0.5),
                         st_flatten(),
                         st_sequence(st_relu()) };
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        bool listed = false;
        for (int k = 0; k < count; k++) listed = listed || st_layer_types[k] == made[i]->type;
        if (!listed) fail_msg("%s is not listed", made[i]->type->name);
        st_layer_free(made[i]);
    }
}

SETUP(all_work_is_shared)
