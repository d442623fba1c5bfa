/* test_layer_contract.c: what layer.h promises to whoever uses a layer or writes one.
 *
 * Bad options, shapes and calls are refused with the numbers involved, and change nothing; memory is what
 * plan asked for; results do not depend on the number of threads; a type of one's own is like any other. */
#include "tests/layers/layer_claims.h"
#include "tests/support.h"

#include "layers/layer_impl.h"
#include "layers/layers.h"
#include "nn/share/share.h"
#include "tensor/parallel.h"
#include "tensor/threads/threads.h"

#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- helpers --------------------------------------------------------------------------------- */

static void assert_all(st_tensor x, double value)
{
    for (ptrdiff_t k = 0; k < st_numel(x); k++) assert_true((double)*element(x, k) == value);
}

/* How many threads layers that are built from now on run on; returns how many it was. */
static int set_threads(int threads)
{
    int before = st_num_threads();
    st_set_num_threads(threads);
    return before;
}

/* A net with most layers in it: [N, 2, 8, 8] -> [N, 5]. */
static st_layer *small_net(void)
{
    return st_sequence(st_conv2d(.out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 }), st_gelu(),
                       st_maxpool(.kernel = { 2, 2 }), st_sequence(st_dropout(.p = 0.25), st_flatten()),
                       st_dense(.out_features = 5));
}

static const st_shape NET_INPUT = { 4, { 19, 2, 8, 8 } };

/* ---- options --------------------------------------------------------------------------------- */

TEST(options_are_copied)
{
    st_conv2d_options o = { .out_channels = 4, .kernel = { 3, 3 } };
    auto_layer *l = st_conv2d_new(o);
    o.out_channels = 9;
    assert_int_equal(((const st_conv2d_options *)l->options)->out_channels, 4);
    assert_int_equal(((const st_conv2d_options *)l->options)->stride[1], 1); /* the default is filled in */
}

/* The options of a made layer, of which a test reads pairs. */
static const int *pair_of(const st_layer *l, const char *name)
{
    const st_field *f = st_options_field(l->type->fields, name);
    return (const int *)(const void *)((const char *)l->options + f->offset);
}

static void assert_pair(const st_layer *l, const char *name, int height, int width)
{
    const int *pair = pair_of(l, name);
    if (pair[0] != height || pair[1] != width)
        fail_msg("%s: %s is %dx%d, expected %dx%d", l->type->name, name, pair[0], pair[1], height, width);
}

static st_real first_of(const st_window *w)
{
    return w->x[0];
}

static const st_layer_type first = ST_POOLING("first", .value = first_of);

TEST(one_number_of_a_pair_is_square)
{
    st_layer *of[] = {
        st_conv2d(.out_channels = 4, .kernel = { 3 }, .stride = { 2 }, .padding = { 1 }, .dilation = { 2 }),
        st_conv_transpose2d(.out_channels = 4, .kernel = { 3 }, .stride = { 2 }, .padding = { 1 },
                            .dilation = { 2 }, .output_padding = { 1 }),
        st_maxpool(.kernel = { 3 }, .stride = { 2 }, .padding = { 1 }, .dilation = { 2 }),
        st_avgpool(.kernel = { 3 }, .stride = { 2 }, .padding = { 1 }, .dilation = { 2 }),
        st_lppool(.kernel = { 3 }, .stride = { 2 }, .padding = { 1 }, .dilation = { 2 }),
        st_pool(&first, .kernel = { 3 }, .stride = { 2 }, .padding = { 1 }, .dilation = { 2 }),
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_pair(of[i], "kernel", 3, 3), assert_pair(of[i], "stride", 2, 2);
        assert_pair(of[i], "padding", 1, 1), assert_pair(of[i], "dilation", 2, 2);
        if (i == 1) assert_pair(of[i], "output_padding", 1, 1);
        st_layer_free(of[i]);
    }
    auto_layer *same = st_conv2d(.out_channels = 8, .kernel = { 3 }, .padding = { 1 });
    st_shape y;
    assert_int_equal(st_layer_plan(same, ST_SHAPE(1, 3, 28, 28), &y), 0);
    assert_true(st_shape_equal(y, ST_SHAPE(1, 8, 28, 28)));
}

/* Through a clone, too, whose options are not resolved again; and a kernel of a pool, of which 0 is the whole
 * axis. */
TEST(a_zero_that_is_meant_stays_zero)
{
    st_layer *of[] = { st_conv2d(.out_channels = 1, .kernel = { 3, 1 }, .padding = { 1, ST_ZERO_INT }),
                       st_conv2d(.out_channels = 1, .kernel = { 1, 3 }, .padding = { 0, 1 }),
                       st_conv2d(.out_channels = 1, .kernel = { 3 }, .padding = { ST_ZERO_INT, 1 }),
                       st_conv2d(.out_channels = 1, .kernel = { 3 }, .padding = { ST_ZERO_INT }),
                       st_maxpool(.kernel = { 3, ST_ZERO_INT }) };
    static const char *const names[] = { "padding", "padding", "padding", "padding", "kernel" };
    static const int pairs[][2] = { { 1, 0 }, { 0, 1 }, { 0, 1 }, { 0, 0 }, { 3, 0 } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        auto_layer *clone = st_layer_clone(of[i]), *again = st_layer_clone(clone);
        assert_pair(of[i], names[i], pairs[i][0], pairs[i][1]);
        assert_pair(again, names[i], pairs[i][0], pairs[i][1]);
        st_layer_free(of[i]);
    }
    assert_refused(st_conv2d(.out_channels = 1, .kernel = { 3, ST_ZERO_INT }), "kernel is 0");
    assert_refused(st_conv2d(.out_channels = 1, .kernel = { 3 }, .groups = ST_ZERO_INT), "groups is 0");
    assert_refused(st_conv2d(.out_channels = 1, .kernel = { 3 }, .padding = { -1 }), "padding is -1");
}

TEST(a_pool_is_of_a_pooling_with_its_options)
{
    auto_layer *relu = st_relu(), *lppool = st_lppool();
    assert_refused(st_pool(NULL, .kernel = { 2 }), "st_pool: the type is not a pooling");
    assert_refused(st_pool(relu->type, .kernel = { 2 }), "st_pool: relu is not a pooling");
    assert_refused(st_pool(lppool->type, .kernel = { 2 }),
                   "st_pool: lppool is not a pooling with the options");
    assert_refused(st_pool(&first, .kernel = { -1 }), "first: kernel is -1");
}

/* ---- children -------------------------------------------------------------------------------- */

/* That they are freed is the leak sanitizer's to say. */
TEST(a_missing_child_frees_the_others)
{
    assert_refused(st_sequence(st_relu(), NULL, st_dense(3)), "sequence: layer 1 of 3 is NULL");
    assert_refused(st_sequence(NULL), "sequence: layer 0 of 1 is NULL");
    assert_refused(st_sequence(st_relu(), st_conv2d(4, { 3, 3 }), st_sequence(st_tanh(), NULL)),
                   "sequence: layer 1 of 2 is NULL");
}

TEST(layers_are_nested_32_deep_and_no_deeper)
{
    st_layer *l = st_relu();
    for (int depth = 1; depth <= 32; depth++) {
        about("depth %d", depth);
        assert_non_null(l = st_sequence(l));
    }
    assert_refused(st_sequence(l), "sequence: layers are nested deeper than 32");
}

TEST(a_layer_is_held_once)
{
    st_layer *l = st_relu();
    assert_refused(st_sequence(l, st_tanh(), l), "sequence: layer 2 (relu)");
    auto_layer *holder = st_sequence(l = st_relu());
    assert_non_null(holder);
    assert_refused(st_residual(l), "residual: layer 0 (relu)");
}

TEST(a_child_is_not_built_apart_and_its_net_still_works)
{
    auto_layer *l = small_net();
    assert_built(l, NET_INPUT);
    auto_tensor x = full(NET_INPUT, 1), y = full(l->y, 0), again = full(l->y, 0);
    st_layer_forward(l, x, y);
    expect_failure(st_layer_build(l->child[0], ST_SHAPE(7, 2, 8, 8), 1), "conv2d: is part of another layer");
    st_layer_forward(l, x, again);
    assert_null(st_error());
    assert_same(again, y);
}

/* ---- building again -------------------------------------------------------------------------- */

/* Built alone first; then it and what it learnt are part of a net, whose memory it shares. */
TEST(a_layer_that_was_built_alone_is_not_held)
{
    st_layer *alone = st_dense(.out_features = 5); /* freed with the others, as a failure frees all */
    assert_built(alone, ST_SHAPE(3, 2));
    expect_failure(st_sequence(st_relu(), alone), "sequence: layer 1 (dense) is built already");
}

/* Refused by the last layer, when the others were planned for it already. */
TEST(a_net_works_again_after_a_shape_was_refused)
{
    auto_layer *l = small_net();
    auto_tensor x = full(NET_INPUT, 1), y = full(ST_SHAPE(19, 5), 0), again = full(ST_SHAPE(19, 5), 0);
    assert_built(l, x.shape);
    st_layer_mode(l, false, 1, 1);
    st_layer_forward(l, x, y);
    static const st_shape refused[] = {
        { 4, { 19, 2, 9, 12 } }, { 4, { 19, 3, 8, 8 } }, { 4, { 19, 2, 1, 8 } }, { 2, { 19, 128 } }
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        expect_failure(st_layer_build(l, refused[i], 1), "layer ");
        assert_int_equal(st_layer_build(l, x.shape, 2), 0);
        st_layer_forward(l, x, again);
        assert_same(again, y);
        st_layer_backward(l, x, again, again, x);
        assert_null(st_error());
        st_fill(x, 1);
    }
}

/* ---- calls that are refused and write nothing ------------------------------------------------ */

TEST(running_before_building_is_refused)
{
    auto_layer *l = st_conv2d(4, { 3, 3 });
    auto_tensor x = full(ST_SHAPE(1, 1, 3, 3), 1), y = full(ST_SHAPE(1, 4, 1, 1), 7), dx = full(x.shape, 7);
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
    assert_all(y, 7);
    assert_all(dx, 7);
}

/* A dense layer built for [8, 6] -> [8, 3] writes nothing where an argument is wrong. */
TEST(wrong_arguments_are_refused)
{
    auto_layer *l = st_dense(.out_features = 3);
    auto_tensor ones = full(ST_SHAPE(9, 7), 1), sevens = full(ST_SHAPE(9, 8), 7);
    auto_tensor x = full(ST_SHAPE(8, 6), 1), y = full(ST_SHAPE(8, 3), 7), dy = full(ST_SHAPE(8, 3), 1),
                dx = full(ST_SHAPE(8, 6), 7), column = full(ST_SHAPE(3, 8), 7),
                columns = full(ST_SHAPE(6, 8), 7);
    const st_tensor null = { 0 };
    const struct {
        st_tensor x, y, dy, dx;
        const char *says;
    } cases[] = {
        { null, y, dy, dx, "of x [], built for [8, 6]" },
        { st_narrow(x, 0, 0, 0), st_narrow(y, 0, 0, 0), dy, dx, "of x [0, 6]" },
        { st_narrow(ones, 1, 0, 6), y, dy, dx, "of x [9, 6]" },
        { st_narrow(x, 1, 0, 5), y, dy, dx, "of x [8, 5]" },
        { st_narrow(ones, 0, 0, 8), y, dy, dx, "of x [8, 7]" },
        { st_reshape(x, ST_SHAPE(8, 3, 2)), y, dy, dx, "of x [8, 3, 2]" },
        { x, null, dy, dx, "into y [], built for [8, 3]" },
        { x, st_narrow(y, 0, 0, 7), dy, dx, "into y [7, 3]" },
        { st_narrow(x, 0, 0, 7), y, dy, dx, "of x [7, 6] into y [8, 3]" },
        { x, st_narrow(y, 1, 0, 2), dy, dx, "into y [8, 2]" },
        { x, column, dy, dx, "into y [3, 8]" },
        { x, st_transpose(column, 0, 1), dy, dx, "into a y that is not contiguous" },
        { x, y, null, dx, "from dy [], expected a contiguous [8, 3]" },
        { x, y, st_narrow(dy, 0, 0, 7), dx, "from dy [7, 3]" },
        { x, y, x, dx, "from dy [8, 6]" },
        { x, y, st_transpose(column, 0, 1), dx, "from dy [8, 3], expected a contiguous [8, 3]" },
        { x, y, dy, st_narrow(dx, 0, 0, 7), "into dx [7, 6], expected a contiguous [8, 6]" },
        { x, y, dy, st_narrow(sevens, 0, 0, 8), "into dx [8, 8]" },
        { x, y, dy, st_transpose(columns, 0, 1), "into dx [8, 6], expected a contiguous [8, 6]" },
    };
    assert_built(l, x.shape);
    st_fill(st_layer_gradients(l), 7);
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        size_t k = i / 2;
        bool forward = i % 2;
        if (forward && strstr(cases[k].says, " d")) continue; /* forward has no dy and dx */
        about("case %zu", k);
        if (forward) st_layer_forward(l, cases[k].x, cases[k].y);
        else st_layer_backward(l, cases[k].x, cases[k].y, cases[k].dy, cases[k].dx);
        expect_error("%s", cases[k].says);
        const st_tensor kept[] = { y, dx, column, columns, sevens, st_layer_gradients(l) };
        for (int t = 0; t < 6; t++) assert_all(kept[t], 7);
    }
}

/* ---- describing, visiting, measuring --------------------------------------------------------- */

TEST(a_description_is_cut_where_it_does_not_fit)
{
    const char *whole = "conv2d(out_channels=32, kernel=3x3)";
    auto_layer *l = st_conv2d(.out_channels = 32, .kernel = { 3, 3 });
    assert_int_equal(st_layer_describe(l, NULL, 0), strlen(whole));
    for (size_t size = 1; size <= strlen(whole) + 1; size++) {
        char text[64];
        memset(text, '#', sizeof text);
        assert_int_equal(st_layer_describe(l, text, size), strlen(whole));
        assert_int_equal(strlen(text), size - 1);
        assert_memory_equal(text, whole, size - 1);
        assert_true(text[size] == '#');
    }
}

static void collect_path(st_layer *l, const char *path, void *context)
{
    char *all = context;
    size_t used = strlen(all);
    snprintf(all + used, 512 - used, "%s:%s ", path, l->type->name);
}

static void no_forward(const st_call *c, st_tensor x, st_tensor y) {}

static void no_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx) {}

static void no_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy) {}

static int same_shape(st_layer *l, st_shape x, st_shape *y)
{
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

/* Whether the gradient of each chunk is summed apart, as in the second case, or not. */
TEST(the_gradient_of_a_frozen_parameter_is_0)
{
    for (int e = 0; e < ENGINES; e++) {
        if (!choose_engine(engines[e])) continue;
        for (ptrdiff_t images = 4; images <= 40; images += 36) {
            auto_layer *l = st_conv2d(.out_channels = 2, .kernel = { 1 });
            auto_tensor x = full(ST_SHAPE(images, 3, 2, 2), 1), y = full(ST_SHAPE(images, 2, 2, 2), 1),
                        dy = st_tensor_clone(y);
            assert_built(l, x.shape);
            for (int pass = 1; pass <= 2; pass++) {
                about("%s, %td images, pass %d", engines[e], images, pass);
                st_layer_forward(l, x, y);
                st_layer_backward(l, x, y, dy, (st_tensor){ 0 });
                for (ptrdiff_t i = 0; i < 6; i++)
                    assert_true(*element(l->grad[0], i) == (pass == 1 ? (st_real)(4 * images) : 0));
                assert_true(*element(l->grad[1], 0) == (st_real)(4 * images * pass));
                assert_int_equal(st_layer_freeze(l, 0, true), 0);
            }
        }
    }
    use_engine(NULL);
}

TEST(layers_are_visited_parents_first_with_their_paths)
{
    st_layer *branch[] = { st_sequence(st_relu(), st_tanh()), st_flatten() };
    auto_layer *l =
        st_sequence(st_dense(3), st_sequence(st_gelu()), st_layer_new(&branches_type, NULL, 2, branch));
    char paths[512] = "";
    st_layer_visit(l, collect_path, paths);
    assert_string_equal(paths,
                        ":sequence 0:dense 1:sequence 1.0:gelu 2:branches 2.body:sequence 2.body.0:relu "
                        "2.body.1:tanh 2.shortcut:flatten ");
    assert_int_equal(layer_count(l), 9);
    assert_int_equal(layer_count(NULL), 0);
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
    /* conv2d: 4·2·3·3 + 4 parameters, one sum of them for each of 3 chunks; columns and the padded
     * image */
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

    /* A sequence: parameters of all, outputs of all but the last, and two gradients between them. */
    n = planned_needs(st_sequence(st_dense(7), st_relu(), st_dense(3)), ST_SHAPE(19, 10));
    assert_int_equal(n.parameters, 77 + 24);
    assert_measured(n.memory, 2 * 19 * 7 + 2 * 19 * 7, 4);
    assert_int_equal(n.scratch, 0);
    assert_int_equal(n.partial, 0);
    const struct {
        const char *engine;
        ptrdiff_t outputs, partial;
    } cases[] = { { "reference", 19 * (576 + 576 + 144), 3 * 76 },
                  { "generic", 19 * (576 + 144), 3 * (76 + 10) } };
    for (int i = 0; i < 2;
         i++) { /* a fused run overwrites tanh's input, and sums all its gradients together */
        use_engine(cases[i].engine);
        n = planned_needs(st_sequence(st_conv2d(.out_channels = 4, .kernel = { 3, 3 }), st_tanh(),
                                      st_maxpool(.kernel = { 2, 2 }),
                                      st_conv2d(.out_channels = 2, .kernel = { 1, 1 })),
                          ST_SHAPE(19, 2, 14, 14));
        assert_int_equal(n.partial, cases[i].partial);
        assert_in_range(n.memory, cases[i].outputs, cases[i].outputs + 19 * 576 * 3);
    }
    use_engine(NULL);
}

TEST(flops_are_two_for_each_product)
{
    auto_layer *l =
        st_sequence(st_conv2d(.out_channels = 4, .kernel = { 3, 3 }, .groups = 2), st_flatten(), st_dense(5));
    assert_built(l, ST_SHAPE(10, 2, 8, 8));
    assert_true(l->child[0]->flops == 2.0 * 10 * 4 * 36 * 9);
    assert_true(l->child[2]->flops == 2.0 * 10 * 144 * 5);
    assert_true(l->flops == l->child[0]->flops + l->child[2]->flops);
    assert_built(l, ST_SHAPE(20, 2, 8, 8));
    assert_true(l->flops == 2.0 * 20 * (4 * 36 * 9 + 144 * 5));
}

/* The second request replaces the first. */
static int data_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    if (!st_layer_plan_data(l, 100)) return -1;
    return st_layer_plan_data(l, (size_t)x.n[1]) ? 0 : -1;
}

static const st_layer_type with_data = {
    .name = "with_data", .plan = data_plan, .forward = no_forward, .backward = no_backward
};

TEST(plan_data_are_counted_in_cache_lines)
{
    const struct {
        ptrdiff_t bytes, lines;
    } cases[] = { { 1, 1 }, { 64, 1 }, { 65, 2 }, { 1000, 16 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_layer *l = st_layer_new(&with_data, NULL, 0, NULL);
        st_layer_needs needs;
        st_shape y;
        assert_int_equal(st_layer_plan(l, ST_SHAPE(1, cases[i].bytes), &y), 0);
        assert_int_equal(st_layer_measure(l, &needs), 0);
        assert_int_equal(needs.data, cases[i].lines * 64 / (ptrdiff_t)sizeof(st_real));
    }
}

TEST(flops_are_counted_of_sums_and_factors_too)
{
    const struct {
        st_layer *l;
        st_shape x;
        double flops;
    } cases[] = {
        { st_avgpool(.kernel = { 2, 3 }), ST_SHAPE(2, 3, 4, 6), 2 * 3 * 2 * 2 * 6 },
        { st_conv_transpose2d(5, { 3, 2 }), ST_SHAPE(2, 4, 3, 3), 2.0 * 2 * 4 * 9 * 5 * 6 },
        { st_conv2d(5, { 3, 2 }), ST_SHAPE(2, 4, 3, 3), 2.0 * 2 * 4 * 2 * 5 * 6 },
        { st_residual(st_identity()), ST_SHAPE(2, 3), 6 },
        { st_multiply(st_identity(), st_identity(), st_identity()), ST_SHAPE(2, 3), 2 * 6 },
        { st_multiply(st_identity(), st_identity()), ST_SHAPE(2, 3), 6 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        st_shape y;
        about("%s of %s", cases[i].l->type->name, st_shape_text(cases[i].x).text);
        assert_int_equal(st_layer_plan(cases[i].l, cases[i].x, &y), 0);
        assert_true(cases[i].l->flops == cases[i].flops);
        st_layer_free(cases[i].l);
    }
}

/* ---- parameters ------------------------------------------------------------------------------ */

static ptrdiff_t equal_elements(st_tensor a, st_tensor b)
{
    ptrdiff_t equal = 0;
    for (ptrdiff_t k = 0; k < st_numel(a); k++) equal += *element(a, k) == *element(b, k);
    return equal;
}

TEST(parameters_are_a_function_of_the_seed_and_their_place)
{
    auto_layer *a = st_sequence(st_dense(12), st_dense(12));
    auto_layer *b = st_sequence(st_dense(12), st_dense(12));
    assert_int_equal(st_layer_build(a, ST_SHAPE(1, 12), 5), 0);
    assert_int_equal(st_layer_build(b, ST_SHAPE(7, 12), 5), 0);
    assert_same(st_layer_parameters(b), st_layer_parameters(a));
    assert_true(equal_elements(a->child[0]->param[0], a->child[1]->param[0]) < 3);
    assert_true(equal_elements(st_narrow(st_reshape(a->child[0]->param[0], ST_SHAPE(144)), 0, 0, 12),
                               a->child[0]->param[1]) < 3);
    auto_layer *other = st_layer_clone(a);
    assert_int_equal(st_layer_build(other, ST_SHAPE(1, 12), 6), 0);
    assert_true(equal_elements(st_layer_parameters(other), st_layer_parameters(a)) < 3);
}

/* ---- what hooks are given -------------------------------------------------------------------- */

enum { SEEN_FORWARD, SEEN_BACKWARD, SEEN_GRADIENT, SEEN_HOOKS };

/* For each image and hook: how often it was seen, in pieces of how many images, and whether memory and
 * scratch were as promised. In one row for each hook; every image belongs to one piece, so no two threads
 * meet. */
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
    st_copy(dx, dy);
    note(c, SEEN_BACKWARD, dy.shape.n[0]);
}

static void noting_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    note(c, SEEN_GRADIENT, dy.shape.n[0]);
}

#define NOTING(CHUNK)                                                                                        \
    {                                                                                                        \
        .name = "noting", .chunk = CHUNK, .plan = noting_plan, .forward = noting_forward,                    \
        .backward = noting_backward, .gradient = noting_gradient                                             \
    }

static void check_pieces(const st_layer_type *type, ptrdiff_t built, ptrdiff_t n, ptrdiff_t piece)
{
    auto_layer *l = st_layer_new(type, NULL, 0, NULL);
    auto_tensor x = full(ST_SHAPE(n, 2), 1), y = full(x.shape, 0);
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
}

/* Pieces of `chunk` images; of 8 where it is not given, or more where there would be more than 32 pieces. */
TEST(every_hook_sees_every_image_once_in_pieces_of_a_fixed_size)
{
    static const st_layer_type five = NOTING(5), usual = NOTING(0), whole = NOTING(ST_WHOLE_BATCH);
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
    check_pieces(&whole, 64, 64, 64);
    check_pieces(&whole, 1, 1, 1);
    check_pieces(&whole, 64, 19, 19);
}

/* ---- the order of hooks ------------------------------------------------------------------------- */

/* A recurrent layer of x [N, T]: y_t = w y_(t-1) + x_t. Its gradient and its backward need d_t = dy_t + w
 * d_(t+1), which gradient keeps; backward computes it only where gradient did not run. */
enum { DELTA, MARK };
enum { BY_NOBODY, BY_GRADIENT };

typedef struct recurrent_options {
    int weights; /* as many, of which the first one is used */
} recurrent_options;

static _Atomic int computed_again;

static int recurrent_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    const recurrent_options *o = l->options;
    return st_layer_parameter(l, "weight", ST_SHAPE(o->weights), (st_init){ .constant = 2 }) ||
           st_layer_memory(l, x) || st_layer_memory(l, ST_SHAPE(x.n[0]));
}

static void recurrent_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const st_real w = *st_data(c->param[0]);
    for (ptrdiff_t n = 0; n < x.shape.n[0]; n++)
        for (ptrdiff_t t = 0; t < x.shape.n[1]; t++)
            *st_at(y, ST_INDEX(n, t)) =
                *st_at(x, ST_INDEX(n, t)) + (t > 0 ? w * *st_at(y, ST_INDEX(n, t - 1)) : 0);
    st_fill(st_memory(c, MARK), BY_NOBODY);
}

static void keep_delta(const st_call *c, st_tensor dy)
{
    const st_real w = *st_data(c->param[0]);
    const ptrdiff_t steps = dy.shape.n[1];
    st_tensor delta = st_memory(c, DELTA);
    st_copy(delta, dy);
    for (ptrdiff_t n = 0; n < dy.shape.n[0]; n++)
        for (ptrdiff_t t = steps - 2; t >= 0; t--)
            *st_at(delta, ST_INDEX(n, t)) += w * *st_at(delta, ST_INDEX(n, t + 1));
}

static void recurrent_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    keep_delta(c, dy);
    st_fill(st_memory(c, MARK), BY_GRADIENT);
    for (ptrdiff_t n = 0; n < dy.shape.n[0]; n++)
        for (ptrdiff_t t = 1; t < dy.shape.n[1]; t++)
            *st_data(st_grad(c, 0)) +=
                *st_at(st_memory(c, DELTA), ST_INDEX(n, t)) * *st_at(y, ST_INDEX(n, t - 1));
}

static void recurrent_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    if (*st_data(st_memory(c, MARK)) == BY_NOBODY) keep_delta(c, dy), computed_again++;
    st_copy(dx, st_memory(c, DELTA));
}

#define RECURRENT(CHUNK)                                                                                     \
    {                                                                                                        \
        .name = "recurrent", .options_size = sizeof(recurrent_options), .chunk = CHUNK,                      \
        .plan = recurrent_plan, .forward = recurrent_forward, .backward = recurrent_backward,                \
        .gradient = recurrent_gradient                                                                       \
    }

/* The gradients of a net with it, whose parameters but the first dense layer's are frozen or not. */
static void check_order(const st_layer_type *type, int weights, ptrdiff_t images, int threads, bool frozen)
{
    const int before = set_threads(threads);
    const recurrent_options o = { weights };
    auto_layer *l = st_sequence(st_dense(.out_features = 4, .no_bias = true), st_relu(),
                                st_layer_new(type, &o, 0, NULL), st_relu());
    dice d = { { 5 } };
    auto_tensor x = roll_tensor(&d, ST_SHAPE(images, 3), -2, 2),
                dy = roll_tensor(&d, ST_SHAPE(images, 4), -2, 2), y = st_tensor_new(dy.shape),
                dx = st_tensor_new(x.shape), delta = st_tensor_clone(dy);
    assert_built(l, x.shape);
    roll_elements(&d, l->child[0]->param[0], -2, 2);
    if (frozen) assert_int_equal(st_layer_freeze(l->child[2], 0, true), 0);
    st_layer_mode(l, true, 1, 1);
    st_layer_forward(l, x, y);
    st_fill(st_layer_gradients(l), 0);
    computed_again = 0;
    st_layer_backward(l, x, y, dy, dx);
    auto_tensor hidden = st_tensor_new(dy.shape), step = st_tensor_new(dy.shape),
                want = st_tensor_new(x.shape);
    const st_tensor w = l->child[0]->param[0];
    double dw = 0;
    st_gemm(hidden, 1, x, st_transpose(w, 0, 1), 0);
    for (ptrdiff_t n = 0; n < images; n++)
        for (ptrdiff_t t = 0; t < 4; t++) {
            const st_real in = *st_at(hidden, ST_INDEX(n, t)),
                          last = t ? *st_at(step, ST_INDEX(n, t - 1)) : 0;
            *st_at(step, ST_INDEX(n, t)) = (in > 0 ? in : 0) + 2 * last;
        }
    for (ptrdiff_t n = 0; n < images; n++)
        for (ptrdiff_t t = 3; t >= 0; t--) {
            st_real *at = st_at(delta, ST_INDEX(n, t));
            if (!(*st_at(step, ST_INDEX(n, t)) > 0)) *at = 0;
            if (t < 3) *at += 2 * *st_at(delta, ST_INDEX(n, t + 1));
            if (t > 0) dw += (double)*at * (double)*st_at(step, ST_INDEX(n, t - 1));
        }
    for (ptrdiff_t n = 0; n < images; n++)
        for (ptrdiff_t t = 0; t < 4; t++)
            if (!(*st_at(hidden, ST_INDEX(n, t)) > 0)) *st_at(delta, ST_INDEX(n, t)) = 0;
    st_gemm(want, 1, delta, w, 0);
    about("%d weights, %td images in pieces of %td, %d threads%s", weights, images, type->chunk, threads,
          frozen ? ", frozen" : "");
    assert_same(dx, want);
    assert_true((double)*st_data(l->child[2]->grad[0]) == (frozen ? 0 : dw));
    assert_true(frozen ? computed_again > 0 : computed_again == 0);
    set_threads(before);
}

/* Also where there are too many weights for the gradients of each chunk. */
TEST(gradient_runs_before_backward)
{
    static const st_layer_type one = RECURRENT(1), usual = RECURRENT(0), whole = RECURRENT(ST_WHOLE_BATCH);
    const st_layer_type *const types[] = { &one, &usual, &whole };
    for (int i = 0; i < 12; i++) { /* with fused runs, and without */
        const st_layer_type *type = types[i % 3];
        const bool frozen = i / 3 % 2;
        use_engine(i < 6 ? NULL : "reference");
        for (int threads = 1; threads <= 4; threads += 3) {
            check_order(type, 1, 1, threads, frozen);
            check_order(type, 3, 33, threads, frozen);
            check_order(type, 1 << 20, 33, threads, frozen);
        }
    }
    use_engine(NULL);
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
    many_forward(c, dy, dx);
}
static void many_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
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
    auto_layer *l = st_layer_new(&many, NULL, 0, NULL);
    auto_tensor x = roll_tensor(&d, ST_SHAPE(16, 1), -9, 9), dy = roll_tensor(&d, x.shape, -9, 9);
    auto_tensor y = full(x.shape, 0), dx = full(x.shape, 0), twice = st_tensor_clone(dy);
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
    st_copy(dx, dy);
    spring(SEEN_BACKWARD, c);
}

static void trap_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    spring(SEEN_GRADIENT, c);
}

static const st_layer_type trap_type = { .name = "trap",
                                         .plan = trap_plan,
                                         .forward = trap_forward,
                                         .backward = trap_backward,
                                         .gradient = trap_gradient };

/* Errors name the layers and the hooks in which they were set. */
static void assert_errors_of_hooks(bool nested)
{
    const char *const hooks[] = { "forward", "backward", "gradient" };
    const char *const outer[] = { "sequence: forward: ", "sequence: backward: ", "sequence: backward: " };
    auto_layer *l = st_layer_new(&trap_type, NULL, 0, NULL);
    if (nested) l = st_sequence(st_relu(), l);
    auto_tensor x = full(ST_SHAPE(64, 2), 1), y = full(x.shape, 0);
    assert_built(l, x.shape);
    for (int hook = 0; hook < SEEN_HOOKS; hook++) {
        trap.failing = hook;
        trap.failed = 0;
        st_layer_forward(l, x, y);
        if (hook != SEEN_FORWARD) st_layer_backward(l, x, y, x, y);
        assert_true(trap.failed > 0);
        expect_error("%strap: %s: trap: image", nested ? outer[hook] : "", hooks[hook]);
        trap.failing = -1; /* and stays in no worker */
        trap.stale = 0;
        st_layer_forward(l, x, y);
        st_layer_backward(l, x, y, x, y);
        assert_null(st_error());
        assert_int_equal(trap.stale, 0);
    }
}

TEST(errors_of_hooks_in_any_thread_come_to_the_caller)
{
    for (int threads = 1; threads <= 4; threads++)
        for (int nested = 0; nested < 2; nested++) {
            int before = set_threads(threads);
            assert_errors_of_hooks(nested);
            set_threads(before);
        }
}

TEST(errors_of_hooks_in_the_reference_engine_come_to_the_caller)
{
    const int before = set_threads(1);
    use_engine("reference");
    for (int nested = 0; nested < 2; nested++) assert_errors_of_hooks(nested);
    use_engine(NULL);
    set_threads(before);
}

/* A hook that asks for a slot that was not requested. */
static struct {
    st_tensor (*slot)(const st_call *c, int i);
    int number;
} asked;

static int asking_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "unused", ST_SHAPE(1), (st_init){ 0 }) || st_layer_memory(l, x) ||
                   st_layer_scratch(l, ST_SHAPE(1)) || st_layer_scratch(l, ST_SHAPE(2))
               ? -1
               : 0;
}

static void asking_forward(const st_call *c, st_tensor x, st_tensor y)
{
    asked.slot(c, asked.number);
}

static const st_layer_type asking = { .name = "asking",
                                      .plan = asking_plan,
                                      .forward = asking_forward,
                                      .backward = trap_backward,
                                      .gradient = trap_gradient };

TEST(a_slot_that_was_not_requested_is_an_error)
{
    const struct {
        st_tensor (*slot)(const st_call *c, int i);
        int number;
        const char *error;
    } cases[] = {
        { st_memory, 1, "asking: forward: asking: st_memory: slot 1 of 1" },
        { st_memory, -1, "st_memory: slot -1 of 1" },
        { st_scratch, 2, "st_scratch: slot 2 of 2" },
        { st_grad, 1, "st_grad: slot 1 of 1" },
        { st_child_output, 0, "st_child_output: slot 0 of 0" },
    };
    auto_layer *l = st_layer_new(&asking, NULL, 0, NULL);
    auto_tensor x = full(ST_SHAPE(2, 3), 1), y = full(x.shape, 0);
    assert_built(l, x.shape);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        asked.slot = cases[i].slot, asked.number = cases[i].number;
        st_layer_forward(l, x, y);
        expect_error("%s", cases[i].error);
    }
    asked.slot = st_scratch, asked.number = 1;
    st_layer_forward(l, x, y);
    assert_null(st_error());
}

static int silent_plan(st_layer *l, st_shape x, st_shape *y)
{
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

/* One chunk has the whole batch, but only as it is small. */
static int shared_memory_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_memory(l, ST_SHAPE(1, 5));
}

static int scalar_memory_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_memory(l, (st_shape){ .n = { x.n[0] } }); /* of rank 0 */
}

static int careless_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    st_layer_memory(l, ST_SHAPE(3));
    return 0;
}

static int batch_changing_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = ST_SHAPE(x.n[0] + 1);
    return 0;
}

static int overflowing_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_scratch(l, ST_SHAPE(PTRDIFF_MAX / 2, 3));
}

static int boundless_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = ST_SHAPE(x.n[0], PTRDIFF_MAX);
    return 0;
}

static int childless_plan(st_layer *l, st_shape x, st_shape *y)
{
    return st_plan_child(l, 0, x, y);
}

static int child_without_shape_plan(st_layer *l, st_shape x, st_shape *y)
{
    return st_plan_child(l, 0, x, NULL);
}

static int nameless_parameter_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, NULL, ST_SHAPE(2), (st_init){ 0 });
}

static int endless_parameter_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "scale", ST_SHAPE(2), (st_init){ .uniform = INFINITY, .normal = -NAN });
}

static int large_parameter_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "scale", ST_SHAPE(2), (st_init){ .constant = 2 * (double)ST_REAL_MAX });
}

static int negative_uniform_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "scale", ST_SHAPE(2), (st_init){ .uniform = -1 });
}

static int negative_normal_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "scale", ST_SHAPE(2), (st_init){ .normal = -1, .constant = 3 });
}

static int nameless_state_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_state(l, NULL, ST_SHAPE(2), 0);
}

static int two_of_a_name_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "scale", ST_SHAPE(2), (st_init){ 0 }) ||
           st_layer_state(l, "mean", ST_SHAPE(2), 0) || st_layer_state(l, "mean", ST_SHAPE(2), 0);
}

static int parameter_and_state_of_a_name_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "scale", ST_SHAPE(2), (st_init){ 0 }) ||
           st_layer_state(l, "scale", ST_SHAPE(2), 0);
}

static void forward_by_a_child(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, st_forward_child(c, 0, x));
}

TEST(a_child_that_is_not_planned_is_named)
{
    const st_layer_type type = { "odd", .plan = same_shape, .forward = forward_by_a_child,
                                 .backward = no_backward, .children = 1 };
    auto_layer *l = st_layer_new(&type, NULL, 1, (st_layer *[]){ st_relu() });
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 2)), y = st_tensor_new(ST_SHAPE(2, 2));
    assert_int_equal(st_layer_build(l, ST_SHAPE(2, 2), 1), 0);
    st_layer_forward(l, x, y);
    expect_error("odd: plan did not call st_plan_child for child 0");
}

TEST(bad_types_are_refused)
{
    const st_layer_type good = { "odd", .plan = same_shape, .forward = no_forward, .backward = no_backward };
    st_layer_type type = good;
    const struct {
        int (*plan)(st_layer *l, st_shape x, st_shape *y);
        const char *says;
    } plans[] = { { silent_plan, "odd: plan failed without an error" },
                  { nameless_parameter_plan, "odd: requests a parameter or a state without a name" },
                  { endless_parameter_plan, "odd: scale begins with uniform inf, normal nan, constant 0, "
                                            "expected finite numbers, the first two at least 0" },
                  { large_parameter_plan, "odd: scale begins with uniform 0, normal 0, constant " },
                  { negative_uniform_plan, "odd: scale begins with uniform -1, normal 0, constant 0" },
                  { negative_normal_plan, "odd: scale begins with uniform 0, normal -1, constant 3" },
                  { nameless_state_plan, "odd: requests a parameter or a state without a name" },
                  { two_of_a_name_plan, "odd: requests two parameters or states called mean" },
                  { parameter_and_state_of_a_name_plan,
                    "odd: requests two parameters or states called scale" },
                  { greedy_plan, "odd: requests memory, but 8 slots of its kind are taken" },
                  { misshapen_plan, "odd: requests memory [3], expected [2, ...]" },
                  { shared_memory_plan, "odd: requests memory [1, 5], expected [2, ...]" },
                  { scalar_memory_plan, "odd: requests memory [], expected [2, ...]" },
                  { careless_plan, "odd: plan ignored a failed request: odd: requests memory [3]" },
                  { batch_changing_plan, "odd: plan made [3] of a batch [2, 2], expected [2, ...]" },
                  { childless_plan, "odd: plans child 0 of 0" },
                  { child_without_shape_plan, "odd: plans child 0 of 0 into a shape that is NULL" },
                  { boundless_plan, "odd: shape [2, 9223372036854775807] of " ST_REAL_NAME },
                  { overflowing_plan, "odd: scratch: shape [4611686018427387903, 3] of " ST_REAL_NAME } };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        type.plan = plans[i].plan;
        auto_layer *l = st_layer_new(&type, NULL, 0, NULL);
        assert_int_equal(st_layer_plan(l, ST_SHAPE(2, 2), NULL), -1);
        st_error_clear();
        assert_int_equal(st_layer_build(l, ST_SHAPE(2, 2), 1), -1);
        if (strncmp(st_error(), plans[i].says, strlen(plans[i].says)) != 0) /* with nothing before it */
            fail_msg("%s: expected %s", st_error(), plans[i].says);
        st_error_clear();
    }
    type = good, type.name = NULL;
    assert_refused(st_layer_new(&type, NULL, 0, NULL), "type ? lacks a name");
    type = good, type.plan = NULL;
    assert_refused(st_layer_new(&type, NULL, 0, NULL), "type odd lacks plan");
    type = good, type.forward = NULL;
    assert_refused(st_layer_new(&type, NULL, 0, NULL), "type odd lacks forward");
    type = good, type.backward = NULL;
    assert_refused(st_layer_new(&type, NULL, 0, NULL), "type odd lacks backward");
    const st_field fields[] = { { "rate", ST_FIELD_REAL, .offset = 8 }, { 0 } };
    type = good, type.fields = fields, type.options_size = 8;
    assert_refused(st_layer_new(&type, NULL, 0, NULL),
                   "odd: option rate lies outside of the options, whose options_size is 8");
}

static int empty_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = ST_SHAPE(x.n[0], 0);
    return 0;
}

static const st_layer_type empty = {
    .name = "empty", .plan = empty_plan, .forward = no_forward, .backward = no_backward
};

/* The layer after it refuses an input without elements. */
TEST(a_layer_may_make_nothing)
{
    auto_layer *l = st_layer_new(&empty, NULL, 0, NULL);
    st_shape y;
    assert_int_equal(st_layer_plan(l, ST_SHAPE(2, 2), &y), 0);
    assert_true(st_shape_equal(y, ST_SHAPE(2, 0)));
    auto_layer *both = st_sequence(st_layer_new(&empty, NULL, 0, NULL), st_relu());
    expect_failure(st_layer_plan(both, ST_SHAPE(2, 2), &y),
                   "layer 1: relu: the input is [2, 0], expected a batch [N, ...] of at least one");
}

TEST(a_type_that_is_missing_or_holds_no_layers_is_refused)
{
    st_layer *within = st_relu();
    auto_layer *flatten = st_flatten();
    assert_refused(st_layer_new(NULL, NULL, 0, NULL), "st_layer_new: the type");
    assert_refused(st_layer_new(flatten->type, NULL, 1, &within), "flatten: holds 1 layer, expected 0");
    st_layer_type named = branches_type;
    named.children = ST_LAYER_ANY;
    st_layer *three[] = { st_relu(), st_relu(), st_relu() };
    assert_refused(st_layer_new(&named, NULL, 3, three), "branches: holds 3 layers, expected at most 2");
    assert_refused(st_layer_new(&named, NULL, 1, NULL), "branches: the list of layers is NULL");
    assert_refused(st_layer_new(&named, NULL, -1, NULL), "branches: holds -1 layers, expected at least 0");
}

/* ---- inputs and clones that do not fit -------------------------------------------------------- */

static int one_for_each_feature(st_layer *l, st_shape x, st_shape *y)
{
    static const char *const names[ST_LAYER_SLOTS + 1] = { "a", "b", "c", "d", "e", "f", "g", "h", "weight" };
    *y = x;
    for (ptrdiff_t i = 0; i < x.n[1]; i++)
        if (st_layer_parameter(l, names[i], ST_SHAPE(i + 1), (st_init){ 0 })) return -1;
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

static const st_field unknown_fields[] = { { "size", (st_field_kind)9, 0 }, { 0 } };
static const st_layer_type
    odd = { "odd", sizeof(int), unknown_fields, 0, batch_only, no_forward, no_backward },
    counting = { "counting", .plan = one_for_each_feature, .forward = no_forward, .backward = no_backward,
                 .gradient = no_gradient },
    flat = { "flat", .plan = batch_only, .forward = no_forward, .backward = no_backward },
    wide = { "wide", .plan = as_wide_as_can_be, .forward = no_forward, .backward = no_backward };

static st_layer *of(const st_layer_type *type)
{
    return st_layer_new(type, NULL, 0, NULL);
}

TEST(a_range_is_named_with_its_upper_bound_if_there_is_one)
{
    assert_null(st_dense(.out_features = -2));
    assert_string_equal(st_error(), "dense: out_features is -2, expected at least 1");
    st_error_clear();
    assert_null(st_dropout(.p = 2));
    assert_string_equal(st_error(), "dropout: p is 2, expected at least 0 and below 1");
    st_error_clear();
    assert_null(st_dropout(.p = -NAN));
    assert_string_equal(st_error(), "dropout: p is nan, expected at least 0 and below 1");
    st_error_clear();
    assert_null(st_elu(.alpha = INFINITY));
    assert_non_null(strstr(st_error(), "elu: alpha is inf, expected a finite number of at least "));
    st_error_clear();
    assert_null(st_dense(.out_features = -2147483647)); /* all of its digits */
    assert_string_equal(st_error(), "dense: out_features is -2147483647, expected at least 1");
    st_error_clear();
}

TEST(names_of_choices_are_cut_where_a_message_ends)
{
    static const char *const names[] = { "a choice with a name of fifty letters, or a few more",
                                         "b choice with a name of fifty letters, or a few more",
                                         "c choice with a name of fifty letters, or a few more",
                                         "d choice with a name of fifty letters, or a few more",
                                         "e choice with a name of fifty letters, or a few more",
                                         "f choice with a name of fifty letters, or a few more",
                                         "g choice with a name of fifty letters, or a few more",
                                         "h choice with a name of fifty letters, or a few more",
                                         "i choice with a name of fifty letters, or a few more",
                                         NULL };
    static const st_field fields[] = { { "which", ST_FIELD_CHOICE, 0, .choices = names }, { 0 } };
    assert_int_equal(st_options_resolve("long", fields, &(int){ 9 }), -1);
    expect_failure(strstr(st_error(), "f choice"), "long: which is 9, expected 0 (a choice");
    assert_int_equal(st_options_resolve("long", fields, &(int){ 8 }), 0);
}

TEST(an_option_that_points_to_something_must_be_given)
{
    static const st_field fields[] = { { "curve", ST_FIELD_NAMED, 0 }, { 0 } };
    static const char *const sine = "sine";
    const void *given = &sine, *missing = NULL;
    assert_int_equal(st_options_resolve("blend", fields, &given), 0);
    expect_failure(st_options_resolve("blend", fields, &missing), "blend: curve is missing");
}

TEST(odd_fields_and_other_parameters_are_refused)
{
    assert_refused(of(&odd), "unknown kind 9");
    auto_layer *l = of(&counting);
    assert_int_equal(st_layer_build(l, ST_SHAPE(2, 3), 1), 0);
    expect_failure(st_layer_build(l, ST_SHAPE(2, 4), 1), "counting: an input of [2, 4] needs 4 parameters");
    auto_layer *full = of(&counting);
    assert_int_equal(st_layer_build(full, ST_SHAPE(2, 8), 1), 0);
    expect_failure(st_layer_build(full, ST_SHAPE(2, 9), 1),
                   "counting: requests weight, but 8 slots of its kind are taken");
}

static st_layer *convolution(int out, int stride)
{
    return st_conv2d(.out_channels = out, .kernel = { 3, 3 }, .stride = { stride, stride },
                     .padding = { 1, 1 });
}

static st_layer *transposed(int groups, int padding, int output_padding)
{
    return st_conv_transpose2d(.out_channels = 4, .kernel = { 2, 2 }, .stride = { 2, 2 },
                               .padding = { padding, ST_ZERO_INT },
                               .output_padding = { output_padding, ST_ZERO_INT }, .groups = groups);
}

static int plan_three(st_layer *l, ptrdiff_t channels, ptrdiff_t n)
{
    return st_layer_parameter(l, "threes", ST_SHAPE(3), (st_init){ 0 });
}

static int plan_one(st_layer *l, ptrdiff_t channels, ptrdiff_t n)
{
    return st_layer_parameter(l, "one", ST_SHAPE(1, n), (st_init){ 0 });
}

static void no_adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    for (ptrdiff_t i = 0; i < w->n; i++) dx[i] = 0;
}

static const st_layer_type valueless = ST_POOLING("nothing", .adjoint = no_adjoint),
                           without = ST_POOLING("without", .plan = plan_one, .value = first_of),
                           threes = ST_POOLING("threes", .plan = plan_three, .value = first_of,
                                               .adjoint = no_adjoint);

TEST(inputs_that_do_not_fit_are_refused)
{
    enum { MOST = INT_MAX };
    const ptrdiff_t huge = PTRDIFF_MAX / 8;
    const st_shape s = ST_SHAPE(2, 3, 4, 4), image = ST_SHAPE(2, 4, 5, 5), tiny = ST_SHAPE(1, 1, 5, 5);
    st_layer *wides[] = { of(&wide), of(&wide), of(&wide), of(&wide), of(&wide),
                          of(&wide), of(&wide), of(&wide), of(&wide) };
    auto_layer *residual = st_residual(st_relu());
    const struct {
        st_layer *l;
        st_shape x;
        const char *names; /* stands in the error */
    } cases[] = {
        /* windows */
        { st_conv2d(4, { 7, 7 }), image, "conv2d: kernel 7x7 does not fit the padded input" },
        { st_conv2d(4, { 7, 7 }, .padding = { 0, 1 }), image, "5x7" },
        { st_conv2d(4, { 3, 3 }, .dilation = { 3, 3 }), image, "dilation 3x3" },
        { st_conv2d(4, { 4, 3 }, .dilation = { 2, 1 }), image, "dilation 2x1" },
        { st_conv2d(4, { 3, 4 }, .dilation = { 1, 2 }), image, "dilation 1x2" },
        { st_conv2d(4, { 3, 3 }, .groups = 2), ST_SHAPE(1, 3, 5, 5),
          "groups=2 must divide the 3 input and 4 output channels" },
        { st_conv2d(4, { 3, 3 }, .groups = 3), ST_SHAPE(1, 3, 5, 5), "groups=3" },
        { st_maxpool(.kernel = { 6, 1 }), image, "maxpool: kernel 6x1" },
        { st_maxpool(.kernel = { 3, 3 }, .padding = { 3, ST_ZERO_INT }), image, "padding 3x0" },
        { st_maxpool(.kernel = { 2, 5 }, .padding = { 2, ST_ZERO_INT }), image, "padding 2x0" },
        { st_maxpool(.kernel = { 5, 2 }, .padding = { ST_ZERO_INT, 2 }), image, "padding 0x2" },
        { st_avgpool(.kernel = { 1, 8 }, .padding = { 0, 1 }), image, "kernel 1x8" },
        { st_avgpool(.kernel = { 2, 3 }, .padding = { 0, 9 }, .dilation = { 1, 4 }), image, "padding 0x9" },
        { st_avgpool(.kernel = { 3, 3 }), ST_SHAPE(1, 1, 2, 4), "avgpool: kernel 3x3" },
        { st_maxpool(.padding = { 1, 1 }), ST_SHAPE(1, 3, 8),
          "the input is [1, 3, 8], expected [N, C, H, W]" },
        { st_pool(&valueless, .kernel = { 2, 2 }), image, "nothing: is not a pooling with a value" },
        { st_pool(&without, .kernel = { 2, 2 }), image, "without: has parameters but no adjoint" },
        { st_pool(&threes, .kernel = { 2 }), image,
          "parameter threes is [3], expected [1, ...] or [4, ...]" },
        { transposed(4, 0, 0), ST_SHAPE(2, 6, 3, 3), "groups=4" },
        { transposed(3, 0, 0), ST_SHAPE(2, 6, 3, 3), "groups=3" },
        { transposed(1, 1, 0), ST_SHAPE(2, 3, 1, 3), "padding 1x0" },
        { transposed(1, 0, 2), ST_SHAPE(2, 3, 3, 3), "output_padding 2x0" },
        { st_conv_transpose2d(4, { 2, 2 }, .padding = { ST_ZERO_INT, 1 }), ST_SHAPE(2, 3, 3, 1),
          "padding 0x1 leaves nothing" },
        { st_conv_transpose2d(4, { 2, 2 }, .output_padding = { ST_ZERO_INT, 2 }), ST_SHAPE(2, 3, 3, 3),
          "output_padding 0x2, expected" },
        /* axes */
        { st_groupnorm(.groups = 4), ST_SHAPE(2, 6, 3), "groups=4 must divide the 6 channels" },
        { st_hardtanh(.min_val = 1), s, "min_val is 1, expected less than max_val, 1" },
        { st_hardtanh(.min_val = 1, .max_val = ST_ZERO), s, "expected less than max_val, 0" },
        { st_prelu(.num_parameters = 4), s, "num_parameters=4" },
        { st_prelu(.num_parameters = 4), { .rank = 1, .n = { 4, 4 } }, "num_parameters=4" },
        { st_layernorm(.axes = 3), ST_SHAPE(2, 6, 3), "axes=3" },
        { st_softmax(.axis = 2), ST_SHAPE(2, 6), "softmax: axis=2" },
        { st_log_softmax(.axis = 1), ST_SHAPE(2), "log_softmax: axis=1" },
        { st_pad2d(.width = { 0, 3 }, .mode = ST_PAD_REFLECT), ST_SHAPE(1, 1, 4, 3), "pad2d: reflect" },
        { st_pad2d(.width = { 1, 1 }, .mode = ST_PAD_REPLICATE, .value = 3), s,
          "value is 3, expected 0 with the mode replicate" },
        { st_upsample(.scale = { 2, 2 }, .size = { 2, 2 }), s, "one of scale, size and scale_factor" },
        { st_upsample(.mode = ST_UPSAMPLE_BILINEAR), s, "one of scale, size and scale_factor" },
        { st_upsample(.scale = { 2, ST_ZERO_INT }), s, "scale 2x0: expected at least 1" },
        { st_upsample(.scale = { ST_ZERO_INT, 2 }), s, "one of scale, size and scale_factor" },
        { st_upsample(.size = { 2, ST_ZERO_INT }), s, "size 2x0, scale 0x0: expected at least 1" },
        { st_upsample(.size = { ST_ZERO_INT, 2 }), s, "one of scale, size and scale_factor" },
        { st_upsample(.scale_factor = 0.1), s, "scale_factor 0.1" },
        { st_upsample(.scale_factor = 1e300), s, "scale_factor 1e+300" },
        { st_unflatten(.channels = 5), s,
          "unflatten: channels=5 and size=0x0, expected the 48 elements of an image of [2, 3, 4, 4]" },
        { st_unflatten(.channels = 3, .size = { 4, 5 }), s, "size=4x5" },
        { st_unflatten(.channels = 3, .size = { INT_MAX, INT_MAX }), s, "channels=3" },
        { st_unflatten(.channels = 3, .size = { 1, ST_ZERO_INT }), s, "size=1x0" },
        { st_unflatten(.channels = 3, .size = { ST_ZERO_INT, 1 }), s, "size=0x1" },
        { st_upsample(.scale = { 2, 2 }, .align_corners = true), ST_SHAPE(1, 1, 4, 4), "align_corners" },
        /* blocks: which child, and what does not fit */
        { st_residual(convolution(5, 1)), s, "residual: the body makes [2, 5, 4, 4]" },
        { st_residual_projected(convolution(5, 2), convolution(5, 1)), s, "[2, 5, 2, 2]" },
        { st_residual(st_dense(.out_features = 3)), s, "body: dense: " },
        { st_residual_projected(st_identity(), st_softmax(.axis = 7)), s, "projection: softmax: " },
        { st_layer_new(residual->type, NULL, 0, NULL), ST_SHAPE(2, 3), "residual: holds 0 layers" },
        { st_concat(convolution(5, 1), convolution(5, 2)), s, "concat: branch 1 makes [2, 5, 2, 2]" },
        { st_concat(st_identity(), st_flatten()), s,
          "concat: branch 1 makes [2, 48], branch 0 [2, 3, 4, 4]: they may differ in channels only" },
        { st_concat(st_identity(), st_softmax(.axis = 5)), s,
          "layer 1: softmax: axis=5 of an input [2, 3, 4, 4], expected less than 4" },
        { st_concat(st_relu(), of(&flat)), ST_SHAPE(2, 3), "concat: branch 1 makes [2], expected [N, C" },
        { st_concat_of(0, NULL), s, "concat: holds no layers" },
        { st_concat_of(9, wides), ST_SHAPE(1, 3), "concat: too many channels" },
        { st_multiply_of(0, NULL), s, "multiply: holds no layers" },
        { st_multiply(st_identity(), convolution(5, 1)), s,
          "multiply: branch 1 makes [2, 5, 4, 4], to be multiplied with [2, 3, 4, 4]" },
        { st_multiply(st_identity(), st_flatten()), s, "multiply: branch 1 makes [2, 48]" },
        { st_multiply(st_identity(), st_softmax(.axis = 5)), s, "layer 1: softmax: " },
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
        { st_conv2d(1, { 1, 7 }, .padding = { MOST, ST_ZERO_INT }), tiny, "" },
        { st_maxpool(.kernel = { MOST, 7 }, .padding = { MOST - 1, ST_ZERO_INT }), tiny, "" },
        { st_maxpool(.kernel = { MOST, MOST }), ST_SHAPE(1, 1, MOST / 2, MOST / 4), "kernel" },
        { st_maxpool(), ST_SHAPE(1, 1, huge, 1), "" },
        { st_adaptive_avgpool(), ST_SHAPE(1, 1, 1, (ptrdiff_t)MOST + 1),
          "adaptive_avgpool: the input [1, 1, 1, 2147483648] is too large" },
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
        assert_null(strstr(st_error(), "ignored")); /* plan says that it failed */
        expect_error("%s", cases[i].names);
        st_layer_free(cases[i].l);
    }
}

/* That of a pooling may be called by another type's. */
TEST(a_plan_that_fails_says_so_by_minus_1)
{
    auto_layer *pool = st_pool(&threes, .kernel = { 2 });
    expect_failure(st_pool_plan(pool, ST_SHAPE(2, 4, 5, 5), &(st_shape){ 0 }), "parameter threes is [3]");
}

static int untidy_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    y->n[x.rank] = 7;
    return 0;
}

static const st_layer_type untidy = { "untidy", .plan = untidy_plan, .forward = no_forward,
                                      .backward = no_backward };

TEST(what_lies_beyond_the_rank_of_a_branch_is_nothing)
{
    auto_layer *l = st_multiply(st_identity(), of(&untidy));
    st_shape y;
    assert_int_equal(st_layer_plan(l, ST_SHAPE(2, 3), &y), 0);
    assert_true(st_shape_equal(y, ST_SHAPE(2, 3)));
}

TEST(layers_that_are_null_or_built_otherwise_are_refused)
{
    auto_layer *l = st_upsample(.scale = { 1, 1 }), *sized = st_upsample(.size = { 1, 1 }),
               *half = st_upsample(.scale_factor = 0.5), *mean = st_adaptive_avgpool();
    auto_tensor x = st_tensor_new(ST_SHAPE(1, 1, 2, 2)), y = st_tensor_new(x.shape);
    st_shape planned;
    assert_int_equal(st_layer_plan(l, x.shape, &planned), 0);
    assert_int_equal(st_layer_plan(sized, x.shape, &planned), 0);
    assert_int_equal(st_layer_plan(half, x.shape, &planned), 0);
    assert_int_equal(st_layer_plan(mean, ST_SHAPE(1, 1, 1, INT_MAX), &planned), 0);
    st_layer_forward(NULL, x, y);
    expect_error("forward: the layer is NULL");
    st_layer_backward(NULL, x, y, y, x);
    expect_error("backward: the layer is NULL");
    expect_failure(st_plan_child(NULL, 0, x.shape, &planned), "st_plan_child: the layer is NULL");
    expect_failure(st_pool_plan(NULL, x.shape, &planned), "st_pool_plan: the layer is NULL");
    expect_failure(st_layer_parameter(NULL, "weight", x.shape, (st_init){ 0 }),
                   "st_layer_parameter: the layer is NULL");
    expect_failure(st_layer_state(NULL, "state", x.shape, 0), "st_layer_state: the layer is NULL");
    expect_failure(st_layer_memory(NULL, x.shape), "st_layer_memory: the layer is NULL");
    expect_failure(st_layer_scratch(NULL, x.shape), "st_layer_scratch: the layer is NULL");
    expect_failure(st_layer_measure(NULL, &(st_layer_needs){ 0 }), "st_layer_measure: the layer is NULL");
    expect_failure(st_layer_build(NULL, x.shape, 1), "st_layer_build: the layer is NULL");
    assert_refused(st_maxpool(.kernel = { 2 }, .pad_value = 7),
                   "pad_value is 7, expected 0 (default), 1 (zero), 2 (lowest)");
}

TEST(sharing_wants_a_clone_and_what_it_is_of)
{
    auto_layer *built = st_dense(.out_features = 2), *clone = st_layer_clone(built);
    expect_failure(st_layer_build_shared(clone, ST_SHAPE(1, 3), built), "st_layer_build_shared: ");
    assert_int_equal(st_layer_build(built, ST_SHAPE(1, 3), 1), 0);
    expect_failure(st_layer_build_shared(clone, ST_SHAPE(1, 3), NULL), "st_layer_build_shared: ");
    assert_int_equal(st_layer_build_shared(clone, ST_SHAPE(2, 3), built), 0);
    assert_ptr_equal(st_data(clone->param[0]), st_data(built->param[0]));
    expect_failure(st_layer_build_shared(clone, ST_SHAPE(1, 3), built), "st_layer_build_shared: ");
    auto_tensor x = full(ST_SHAPE(2, 3), 1), y = full(ST_SHAPE(2, 2), 0), dx = full(ST_SHAPE(2, 3), 0);
    st_layer_forward(clone, x, y);
    assert_null(st_error());
    st_layer_backward(clone, x, y, y, dx);
    expect_error("dense: it shares parameters with another, and has no gradients");
}

SETUP(all_work_is_shared)
