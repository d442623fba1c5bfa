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

static void assert_all(tensor x, double value)
{
    for (ptrdiff_t k = 0; k < tensor_count(x); k++) assert_true((double)*element(x, k) == value);
}

/* Bit for bit, which == would not be for -0 and NaN. */
static void assert_identical(tensor a, tensor b)
{
    assert_string_equal(shape_text(a.shape).text, shape_text(b.shape).text);
    assert_memory_equal(tensor_data(a), tensor_data(b), (size_t)tensor_count(a) * sizeof(real));
}

/* How many threads layers that are built from now on run on; returns how many it was. */
static int set_threads(int threads)
{
    int before = parallel_threads();
    parallel_set_threads(threads);
    return before;
}

static real mean(const real *in, ptrdiff_t n, const void *context)
{
    (void)context;
    real sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) sum += in[i];
    return sum / (real)n;
}

static const pool_function mean_function = { .name = "mean", .value = mean };

/* A net with most layers in it: [N, 2, 8, 8] -> [N, 5]. */
static layer *small_net(void)
{
    return layer_sequence(
        layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 } }), layer_gelu(),
        layer_maxpool((maxpool){ .kernel = { 2, 2 } }), layer_sequence(layer_dropout(0.25), layer_flatten()),
        layer_dense((dense){ .out_features = 5 }));
}

static const shape NET_INPUT = { 4, { 19, 2, 8, 8 } };

/* ---- options --------------------------------------------------------------------------------- */

#define CONV(...) ((conv2d){ .out_channels = 4, .kernel = { 3, 3 }, __VA_ARGS__ })

static conv2d conv(void)
{
    return (conv2d){ .out_channels = 4, .kernel = { 3, 3 } };
}

static void options_are_copied(void **state)
{
    (void)state;
    conv2d o = conv();
    layer *l = layer_conv2d(o);
    o.out_channels = 9;
    assert_int_equal(((const conv2d *)l->options)->out_channels, 4);
    assert_int_equal(((const conv2d *)l->options)->stride[1], 1); /* the default is filled in */
    layer_free(l);
}

/* ---- children -------------------------------------------------------------------------------- */

/* That they are freed is the leak sanitizer's to say. */
static void a_missing_child_frees_the_others(void **state)
{
    (void)state;
    assert_refused(layer_sequence(layer_relu(), NULL, layer_dense((dense){ 3 })),
                   "sequence: layer 1 of 3 is NULL");
    assert_refused(layer_sequence(NULL), "sequence: layer 0 of 1 is NULL");
    assert_refused(layer_sequence(layer_relu(), layer_conv2d(conv()), layer_sequence(layer_tanh(), NULL)),
                   "sequence: layer 1 of 2 is NULL");
}

static void the_first_failure_of_a_net_is_the_one_that_is_told(void **state)
{
    (void)state;
    assert_refused(layer_sequence(layer_relu(), layer_dropout(2), layer_sequence(layer_dense((dense){ 0 }))),
                   "dropout: p is 2, expected at least 0 and below 1");
}

static void a_built_net_is_freed_whole(void **state)
{
    (void)state;
    layer *l = small_net();
    assert_built(l, NET_INPUT);
    layer_free(l);
    layer_free(NULL);
}

static void a_child_is_not_built_apart_and_its_net_still_works(void **state)
{
    (void)state;
    layer *l = small_net();
    assert_built(l, NET_INPUT);
    tensor x = full(NET_INPUT, 1), y = full(l->y, 0), again = full(l->y, 0);
    layer_forward(l, x, y);
    assert_int_equal(layer_build(l->child[0], SHAPE(7, 2, 8, 8), 1), -1);
    expect_error("conv2d: is part of another layer");
    layer_forward(l, x, again);
    assert_null(error_text());
    assert_same(again, y);
    tensor_free(x), tensor_free(y), tensor_free(again);
    layer_free(l);
}

/* ---- building again -------------------------------------------------------------------------- */

static void another_batch_size_keeps_the_parameters(void **state)
{
    (void)state;
    dice d = { { 1 } };
    layer *l = small_net();
    assert_built(l, SHAPE(3, 2, 8, 8));
    const real *place = tensor_data(l->child[0]->param[0]);
    roll_elements(&d, layer_parameters(l), -9, 9);
    tensor before = tensor_clone(layer_parameters(l));
    for (ptrdiff_t n = 70; n >= 1; n -= 23) {
        assert_int_equal(layer_build(l, SHAPE(n, 2, 8, 8), 99), 0);
        assert_same(layer_parameters(l), before);
        assert_ptr_equal(tensor_data(l->child[0]->param[0]), place);
        tensor x = full(SHAPE(n, 2, 8, 8), 1), y = full(SHAPE(n, 5), 0);
        layer_forward(l, x, y);
        layer_backward(l, x, y, y, x);
        assert_null(error_text());
        tensor_free(x), tensor_free(y);
    }
    tensor_free(before);
    layer_free(l);
}

/* Built alone first; then it and what it learnt are part of a net, whose memory it shares. */
static void a_layer_that_was_built_alone_brings_its_parameters_and_states(void **state)
{
    (void)state;
    dice d = { { 1 } };
    layer *l = layer_batchnorm((batchnorm){ 0 }), *alone = layer_dense((dense){ .out_features = 5 });
    assert_built(l, SHAPE(3, 2));
    assert_built(alone, SHAPE(3, 2));
    roll_elements(&d, layer_parameters(l), -9, 9);
    roll_elements(&d, layer_states(l), 1, 9);
    tensor w = tensor_clone(layer_parameters(l)), s = tensor_clone(layer_states(l));
    tensor v = tensor_clone(layer_parameters(alone));
    layer *whole = layer_sequence(l, alone, layer_dense((dense){ .out_features = 3 }));
    assert_built(whole, SHAPE(4, 2));
    ptrdiff_t own = tensor_count(w), others = tensor_count(v);
    assert_same(tensor_narrow(layer_parameters(whole), 0, 0, own), w);
    assert_same(tensor_narrow(layer_parameters(whole), 0, own, others), v);
    assert_same(layer_states(whole), s);
    assert_ptr_equal(tensor_data(l->param[0]), tensor_data(layer_parameters(whole)));
    tensor_free(w), tensor_free(s), tensor_free(v);
    layer_free(whole);
}

/* A convolution's parameters do not depend on the image's size. */
static void another_image_size_keeps_the_parameters_of_a_convolution(void **state)
{
    (void)state;
    layer *l = layer_conv2d(conv());
    assert_built(l, SHAPE(2, 3, 8, 8));
    tensor before = tensor_clone(layer_parameters(l));
    assert_built(l, SHAPE(4, 3, 11, 5));
    assert_string_equal(shape_text(l->y).text, "[4, 4, 9, 3]");
    assert_same(layer_parameters(l), before);
    tensor_free(before);
    layer_free(l);
}

static void a_shape_that_needs_other_parameters_is_refused(void **state)
{
    (void)state;
    layer *l = layer_dense((dense){ .out_features = 5 });
    tensor x = full(SHAPE(3, 12), 1), y = full(SHAPE(3, 5), 0), again = full(SHAPE(3, 5), 0);
    assert_built(l, x.shape);
    layer_forward(l, x, y);
    assert_int_equal(layer_build(l, SHAPE(3, 13), 1), -1);
    expect_error("dense: weight is [5, 12], an input of [3, 13] needs [5, 13]");
    assert_built(l, x.shape);
    layer_forward(l, x, again);
    assert_same(again, y);
    tensor_free(x), tensor_free(y), tensor_free(again);
    layer_free(l);
}

/* Refused by the last layer, when the others were planned for it already. */
static void a_net_works_again_after_a_shape_was_refused(void **state)
{
    (void)state;
    layer *l = small_net();
    tensor x = full(NET_INPUT, 1), y = full(SHAPE(19, 5), 0), again = full(SHAPE(19, 5), 0);
    assert_built(l, x.shape);
    layer_mode(l, false, 1, 1);
    layer_forward(l, x, y);
    static const shape refused[] = {
        { 4, { 19, 2, 9, 12 } }, { 4, { 19, 3, 8, 8 } }, { 4, { 19, 2, 1, 8 } }, { 2, { 19, 128 } }
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(layer_build(l, refused[i], 1), -1);
        expect_error("layer ");
        assert_int_equal(layer_build(l, x.shape, 2), 0);
        layer_forward(l, x, again);
        assert_same(again, y);
        layer_backward(l, x, again, again, x);
        assert_null(error_text());
        tensor_fill(x, 1);
    }
    tensor_free(x), tensor_free(y), tensor_free(again);
    layer_free(l);
}

static void a_layer_refused_at_first_can_be_built_later(void **state)
{
    (void)state;
    layer *l = small_net();
    assert_int_equal(layer_build(l, SHAPE(2, 2, 1, 1), 1), -1);
    expect_error("layer 2: maxpool: kernel 2×2 does not fit the padded input 1×1");
    assert_true(tensor_is_null(layer_parameters(l)));
    assert_built(l, NET_INPUT);
    layer_free(l);
}

/* ---- smaller batches ------------------------------------------------------------------------- */

static void larger_batches_are_refused(void **state)
{
    (void)state;
    layer *l = layer_relu();
    tensor x = full(SHAPE(5, 2), 1), y = full(SHAPE(5, 2), 7);
    assert_built(l, SHAPE(4, 2));
    layer_forward(l, x, y);
    expect_error("relu: forward of x [5, 2], built for [4, 2]");
    assert_all(y, 7);
    tensor_free(x), tensor_free(y);
    layer_free(l);
}

/* ---- calls that are refused and write nothing ------------------------------------------------ */

static void running_before_building_is_refused(void **state)
{
    (void)state;
    layer *l = layer_conv2d(conv());
    tensor x = full(SHAPE(1, 1, 3, 3), 1), y = full(SHAPE(1, 4, 1, 1), 7), dx = full(x.shape, 7);
    layer_forward(l, x, y);
    expect_error("conv2d: forward before layer_build");
    layer_backward(l, x, y, y, dx);
    expect_error("conv2d: backward before layer_build");
    shape planned;
    assert_int_equal(layer_plan(l, x.shape, &planned), 0); /* a plan alone has no memory */
    layer_forward(l, x, y);
    expect_error("conv2d: forward before layer_build");
    assert_true(tensor_is_null(layer_parameters(l)));
    assert_true(tensor_is_null(layer_gradients(l)));
    assert_true(tensor_is_null(layer_states(l)));
    layer_forward(NULL, x, y);
    expect_error("forward: the layer is NULL");
    layer_backward(NULL, x, y, y, dx);
    expect_error("backward: the layer is NULL");
    assert_int_equal(layer_build(NULL, x.shape, 1), -1);
    expect_error("the layer is NULL");
    assert_all(y, 7);
    assert_all(dx, 7);
    tensor_free(x), tensor_free(y), tensor_free(dx);
    layer_free(l);
}

typedef struct passes {
    layer *l; /* dense, built for [8, 6] -> [8, 3] */
    tensor x, y, dy, dx;
} passes;

static passes passes_of_dense(void)
{
    passes p = { layer_dense((dense){ .out_features = 3 }), full(SHAPE(8, 6), 1), full(SHAPE(8, 3), 7),
                 full(SHAPE(8, 3), 1), full(SHAPE(8, 6), 7) };
    assert_built(p.l, p.x.shape);
    tensor_fill(layer_gradients(p.l), 7);
    return p;
}

/* The call failed with such a text, and what it would have written is as it was. */
static void assert_nothing_done(passes p, const char *text)
{
    expect_error("%s", text);
    assert_all(p.y, 7);
    assert_all(p.dx, 7);
    assert_all(layer_gradients(p.l), 7);
}

static void end_passes(passes p)
{
    tensor_free(p.x), tensor_free(p.y), tensor_free(p.dy), tensor_free(p.dx);
    layer_free(p.l);
}

static void wrong_x_and_y_are_refused(void **state)
{
    (void)state;
    passes p = passes_of_dense();
    tensor null = { 0 }, none = tensor_narrow(p.x, 0, 0, 0), narrow = tensor_narrow(p.x, 1, 0, 5);
    tensor deep = tensor_reshape(p.x, SHAPE(8, 3, 2)), wide = full(SHAPE(8, 7), 1);
    tensor other = tensor_narrow(p.y, 0, 0, 7), thin = tensor_narrow(p.y, 1, 0, 2),
           column = full(SHAPE(3, 8), 7);
    struct {
        tensor x, y;
        const char *says;
    } cases[] = {
        { null, p.y, "of x [], built for [8, 6]" },
        { none, tensor_narrow(p.y, 0, 0, 0), "of x [0, 6], built for [8, 6]" },
        { narrow, p.y, "of x [8, 5], built for [8, 6]" },
        { wide, p.y, "of x [8, 7], built for [8, 6]" },
        { deep, p.y, "of x [8, 3, 2], built for [8, 6]" },
        { p.x, null, "of x [8, 6] into y [], built for [8, 3]" },
        { p.x, other, "of x [8, 6] into y [7, 3], built for [8, 3]" },
        { tensor_narrow(p.x, 0, 0, 7), p.y, "of x [7, 6] into y [8, 3], built for [8, 3]" },
        { p.x, thin, "of x [8, 6] into y [8, 2], built for [8, 3]" },
        { p.x, column, "of x [8, 6] into y [3, 8], built for [8, 3]" },
        { p.x, tensor_transpose(column, 0, 1), "into a y that is not contiguous" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("case %d", (int)i);
        layer_forward(p.l, cases[i].x, cases[i].y);
        assert_nothing_done(p, cases[i].says);
        layer_backward(p.l, cases[i].x, cases[i].y, p.dy, p.dx);
        assert_nothing_done(p, cases[i].says);
        assert_all(column, 7);
    }
    tensor_free(wide), tensor_free(column);
    end_passes(p);
}

static void wrong_dy_and_dx_are_refused(void **state)
{
    (void)state;
    passes p = passes_of_dense();
    tensor null = { 0 }, across = tensor_transpose(full(SHAPE(3, 8), 1), 0, 1);
    tensor columns = full(SHAPE(6, 8), 7), wide = full(SHAPE(8, 7), 7);
    struct {
        tensor dy, dx;
        const char *says;
    } cases[] = {
        { null, p.dx, "dense: backward from dy [], expected a contiguous [8, 3]" },
        { tensor_narrow(p.dy, 0, 0, 7), p.dx,
          "dense: backward from dy [7, 3], expected a contiguous [8, 3]" },
        { p.x, p.dx, "dense: backward from dy [8, 6], expected a contiguous [8, 3]" },
        { across, p.dx, "dense: backward from dy [8, 3], expected a contiguous [8, 3]" },
        { p.dy, tensor_narrow(p.dx, 0, 0, 7),
          "dense: backward into dx [7, 6], expected a contiguous [8, 6]" },
        { p.dy, wide, "dense: backward into dx [8, 7], expected a contiguous [8, 6]" },
        { p.dy, tensor_transpose(columns, 0, 1),
          "dense: backward into dx [8, 6], expected a contiguous [8, 6]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("case %d", (int)i);
        layer_backward(p.l, p.x, p.y, cases[i].dy, cases[i].dx);
        assert_nothing_done(p, cases[i].says);
        assert_all(wide, 7);
        assert_all(columns, 7);
    }
    tensor_free(across), tensor_free(columns), tensor_free(wide);
    end_passes(p);
}

/* ---- describing, visiting, measuring --------------------------------------------------------- */

static void assert_described(layer *l, const char *expected)
{
    char text[256];
    assert_non_null(l);
    assert_int_equal(layer_describe(l, text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
    layer_free(l);
}

static void layers_are_described_by_what_differs_from_the_default(void **state)
{
    (void)state;
    assert_described(layer_conv2d((conv2d){ .out_channels = 32, .kernel = { 3, 5 } }),
                     "conv2d(out_channels=32, kernel=3x5)");
    assert_described(
        layer_conv2d((conv2d){ 8, { 3, 3 }, { 2, 1 }, { 1, 1 }, { 1, 2 }, 4, true }),
        "conv2d(out_channels=8, kernel=3x3, stride=2x1, padding=1x1, dilation=1x2, groups=4, no_bias)");
    assert_described(layer_conv2d((conv2d){ 8, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, false }),
                     "conv2d(out_channels=8, kernel=1x1)");
    assert_described(layer_maxpool((maxpool){ 0 }), "maxpool");
    assert_described(layer_maxpool((maxpool){ .kernel = { 2, 2 }, .ceil_mode = true, .pad_value = PAD_ZERO }),
                     "maxpool(kernel=2x2, ceil_mode, pad_value=zero)");
    assert_described(
        layer_avgpool((avgpool){ .kernel = { 3, 3 }, .stride = { 2, 2 }, .count_exclude_pad = true }),
        "avgpool(kernel=3x3, stride=2x2, count_exclude_pad)");
    assert_described(layer_pool((pool){ &mean_function, .kernel = { 2, 2 } }),
                     "pool(function=mean, kernel=2x2)");
    assert_described(layer_dense((dense){ 10, true }), "dense(out_features=10, no_bias)");
    assert_described(layer_dropout(0.25), "dropout(p=0.25)");
    assert_described(layer_leaky_relu(0), "leaky_relu");
    assert_described(layer_leaky_relu(0.2), "leaky_relu(slope=0.2)");
    assert_described(layer_elu(1), "elu");
    assert_described(layer_elu(0.5), "elu(alpha=0.5)");
    assert_described(layer_gelu(), "gelu");
    assert_described(layer_flatten(), "flatten");
    assert_described(layer_sequence(layer_relu()), "sequence");
}

static void a_description_is_cut_where_it_does_not_fit(void **state)
{
    (void)state;
    const char *whole = "conv2d(out_channels=32, kernel=3x3)";
    layer *l = layer_conv2d((conv2d){ .out_channels = 32, .kernel = { 3, 3 } });
    assert_int_equal(layer_describe(l, NULL, 0), strlen(whole));
    for (size_t size = 1; size <= strlen(whole) + 1; size++) {
        char text[64];
        memset(text, '#', sizeof text);
        assert_int_equal(layer_describe(l, text, size), strlen(whole));
        assert_int_equal(strlen(text), size - 1);
        assert_memory_equal(text, whole, size - 1);
        assert_true(text[size] == '#');
    }
    layer_free(l);
}

static void collect_path(layer *l, const char *path, void *context)
{
    char *all = context;
    size_t used = strlen(all);
    snprintf(all + used, 512 - used, "%s:%s ", path, l->type->name);
}

static void no_forward(const st_call *c, tensor x, tensor y)
{
    (void)c, (void)x, (void)y;
}

static void no_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)c, (void)x, (void)y, (void)dy, (void)dx;
}

static int same_shape(layer *l, shape x, shape *y)
{
    (void)l;
    *y = x;
    return 0;
}

static const char *const branch_names[] = { "body", "shortcut", NULL };
static const layer_type branches_type = { .name = "branches",
                                          .plan = same_shape,
                                          .forward = no_forward,
                                          .backward = no_backward,
                                          .children = 2,
                                          .child_names = branch_names };

static void layers_are_visited_parents_first_with_their_paths(void **state)
{
    (void)state;
    layer *branch[] = { layer_sequence(layer_relu(), layer_tanh()), layer_flatten() };
    layer *l = layer_sequence(layer_dense((dense){ 3 }), layer_sequence(layer_gelu()),
                              layer_new(&branches_type, NULL, 2, branch));
    char paths[512] = "";
    layer_visit(l, collect_path, paths);
    assert_string_equal(paths,
                        ":sequence 0:dense 1:sequence 1.0:gelu 2:branches 2.body:sequence 2.body.0:relu "
                        "2.body.1:tanh 2.shortcut:flatten ");
    layer_free(l);
}

/* Each piece of memory and scratch may be rounded up to a cache line. */
static void assert_measured(ptrdiff_t value, ptrdiff_t elements, int pieces)
{
    assert_in_range(value, elements, elements + pieces * 64 / (ptrdiff_t)sizeof(real));
}

static layer_needs planned_needs(layer *l, shape x)
{
    shape y;
    layer_needs needs;
    assert_non_null(l);
    assert_int_equal(layer_plan(l, x, &y), 0);
    assert_int_equal(layer_measure(l, &needs), 0);
    layer_free(l);
    return needs;
}

static void a_plan_is_measured_before_anything_is_allocated(void **state)
{
    use_engine("reference");
    /* conv2d: 4·2·3·3 + 4 parameters, one sum of them for each of 3 chunks; columns and the padded image */
    layer_needs n =
        planned_needs(layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 } }),
                      SHAPE(19, 2, 8, 8));
    assert_int_equal(n.parameters, 76);
    assert_int_equal(n.state, 0);
    assert_int_equal(n.memory, 0);
    assert_int_equal(n.partial, 3 * 76);
    assert_measured(n.scratch, 2 * 9 * 64 + 2 * 10 * 10, 2);

    n = planned_needs(layer_dropout(0.5), SHAPE(19, 100)); /* a mask for each image */
    assert_int_equal(n.parameters, 0);
    assert_measured(n.memory, 1900, 1);
    assert_int_equal(n.scratch, 0);
    assert_int_equal(n.partial, 0);

    n = planned_needs(layer_conv2d((conv2d){ .out_channels = 300, .kernel = { 1, 1 } }),
                      SHAPE(70, 300, 1, 1)); /* four times as wide, too many to be summed apart */
    assert_int_equal(n.parameters, 300 * 300 + 300);
    assert_int_equal(n.partial, 9 * 90300);
    n = planned_needs(layer_conv2d((conv2d){ .out_channels = 1200, .kernel = { 1, 1 } }),
                      SHAPE(70, 1200, 1, 1));
    assert_int_equal(n.partial, 0);

    /* A sequence: parameters and memory of all; outputs of all but the last, and but those that the next layer
     * overwrites; two gradients between its chains; the scratch of the greediest. */
    n = planned_needs(layer_sequence(layer_dense((dense){ 7 }), layer_relu(), layer_dense((dense){ 3 })),
                      SHAPE(19, 10));
    assert_int_equal(n.parameters, 77 + 24);
    assert_measured(n.memory, 19 * 7 + 2 * 19 * 7, 3);
    assert_int_equal(n.scratch, 0);
    assert_int_equal(n.partial, 0);

    /* A chain: its gradients on the way are of a chunk, and its chunks' sums of all its parameters. */
    n = planned_needs(layer_sequence(layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 3, 3 } }),
                                     layer_tanh(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
                                     layer_conv2d((conv2d){ .out_channels = 2, .kernel = { 1, 1 } })),
                      SHAPE(19, 2, 8, 8));
    assert_int_equal(n.partial, 3 * (76 + 10));
    assert_measured(n.ping_pong, 8 * 4 * 6 * 6, 1);
    assert_true(n.scratch >= 2 * n.ping_pong + 2 * 9 * 36);
    use_engine(NULL);
}

static void flops_are_two_for_each_product(void **state)
{
    (void)state;
    layer *l = layer_sequence(layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 3, 3 }, .groups = 2 }),
                              layer_flatten(), layer_dense((dense){ 5 }));
    assert_built(l, SHAPE(10, 2, 8, 8));
    assert_true(l->child[0]->flops == 2.0 * 10 * 4 * 36 * 9);
    assert_true(l->child[2]->flops == 2.0 * 10 * 144 * 5);
    assert_true(l->flops == l->child[0]->flops + l->child[2]->flops);
    assert_built(l, SHAPE(20, 2, 8, 8));
    assert_true(l->flops == 2.0 * 20 * (4 * 36 * 9 + 144 * 5));
    layer_free(l);
}

/* ---- parameters ------------------------------------------------------------------------------ */

static void parameters_and_gradients_are_views_into_one_flat_tensor(void **state)
{
    (void)state;
    layer *l = small_net();
    assert_built(l, NET_INPUT);
    tensor all = layer_parameters(l), gradients = layer_gradients(l);
    assert_shape(all, 4 * 2 * 9 + 4 + 5 * 64 + 5);
    assert_shape(gradients, 4 * 2 * 9 + 4 + 5 * 64 + 5);
    assert_all(gradients, 0);
    const layer *holder[] = { l->child[0], l->child[0], l->child[4], l->child[4] };
    static const char *const names[] = { "weight", "bias", "weight", "bias" };
    static const char *const shapes[] = { "[4, 2, 3, 3]", "[4]", "[5, 64]", "[5]" };
    for (ptrdiff_t i = 0, at = 0; i < 4; i++) {
        tensor p = holder[i]->param[i % 2], g = holder[i]->grad[i % 2];
        assert_string_equal(holder[i]->param_name[i % 2], names[i]);
        assert_string_equal(shape_text(p.shape).text, shapes[i]);
        assert_string_equal(shape_text(g.shape).text, shapes[i]);
        assert_ptr_equal(tensor_data(p), tensor_data(all) + at);
        assert_ptr_equal(tensor_data(g), tensor_data(gradients) + at);
        at += tensor_count(p);
    }
    layer_free(l);
}

static void assert_uniform(tensor x, double bound)
{
    double least = INFINITY, most = -INFINITY;
    for (ptrdiff_t k = 0; k < tensor_count(x); k++) {
        least = fmin(least, (double)*element(x, k));
        most = fmax(most, (double)*element(x, k));
    }
    assert_true(least >= -bound && least < -0.5 * bound && most <= bound && most > 0.5 * bound);
}

static void parameters_begin_uniform_within_1_over_sqrt_fan_in(void **state)
{
    (void)state;
    layer *l = layer_sequence(layer_conv2d((conv2d){ .out_channels = 20, .kernel = { 3, 2 }, .groups = 2 }),
                              layer_flatten(), layer_dense((dense){ 30 }));
    assert_built(l, SHAPE(1, 8, 5, 4));
    for (int i = 0; i < 2; i++) assert_uniform(l->child[0]->param[i], 1 / sqrt(4 * 3 * 2));
    for (int i = 0; i < 2; i++) assert_uniform(l->child[2]->param[i], 1 / sqrt(20 * 3 * 3));
    layer_free(l);
}

static ptrdiff_t equal_elements(tensor a, tensor b)
{
    ptrdiff_t equal = 0;
    for (ptrdiff_t k = 0; k < tensor_count(a); k++) equal += *element(a, k) == *element(b, k);
    return equal;
}

static void parameters_are_a_function_of_the_seed_and_their_place(void **state)
{
    (void)state;
    layer *a = layer_sequence(layer_dense((dense){ 12 }), layer_dense((dense){ 12 }));
    layer *b = layer_sequence(layer_dense((dense){ 12 }), layer_dense((dense){ 12 }));
    assert_int_equal(layer_build(a, SHAPE(1, 12), 5), 0);
    assert_int_equal(layer_build(b, SHAPE(7, 12), 5), 0);
    assert_same(layer_parameters(b), layer_parameters(a));
    assert_true(equal_elements(a->child[0]->param[0], a->child[1]->param[0]) < 3);
    assert_true(equal_elements(tensor_narrow(tensor_reshape(a->child[0]->param[0], SHAPE(144)), 0, 0, 12),
                               a->child[0]->param[1]) < 3);
    tensor first = tensor_clone(layer_parameters(a));
    layer_reset(a, 6);
    assert_true(equal_elements(layer_parameters(a), first) < 3);
    layer_reset(a, 5);
    assert_same(layer_parameters(a), first);
    tensor_free(first);
    layer_free(a), layer_free(b);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct results {
    tensor y, dx, gradients;
} results;

static results run_with_threads(layer *(*make)(void), shape s, int threads)
{
    int before = set_threads(threads);
    layer *l = make();
    assert_built(l, s);
    tensor x = tensor_new(s), dy = tensor_new(l->y);
    tensor_normal(x, (random_key){ 1, 1 }, 0, 1);
    tensor_normal(dy, (random_key){ 1, 2 }, 0, 1);
    results r = { tensor_new(l->y), tensor_new(s), { 0 } };
    layer_forward(l, x, r.y);
    layer_backward(l, x, r.y, dy, r.dx);
    assert_null(error_text());
    r.gradients = tensor_clone(layer_gradients(l));
    set_threads(before);
    tensor_free(x), tensor_free(dy);
    layer_free(l);
    return r;
}

static void free_results(results r)
{
    tensor_free(r.y), tensor_free(r.dx), tensor_free(r.gradients);
}

/* ---- a type of one's own --------------------------------------------------------------------- */

/* y = scale x + shift for each feature: [N, F] -> [N, F]. Memory keeps x for the gradient; scratch holds the
 * product of one image. */
typedef struct affine {
    double scale; /* at first; 1 */
} affine;

static int affine_plan(layer *l, shape x, shape *y)
{
    if (x.rank != 2) return layer_refuse(l, "the input is %s, expected [N, features]", shape_text(x).text);
    *y = x;
    shape features = SHAPE(x.n[1]);
    layer_init scale = { .constant = ((const affine *)l->options)->scale };
    return layer_parameter(l, "scale", features, scale) ||
           layer_parameter(l, "shift", features, (layer_init){ 0 }) || layer_memory(l, x) ||
           layer_scratch(l, features) || layer_state(l, "seen", SHAPE(1), 3);
}

static void affine_forward(const st_call *c, tensor x, tensor y)
{
    tensor_copy(st_memory(c, 0), x);
    tensor_copy(y, x);
    tensor_multiply(y, tensor_expand(c->param[0], y.shape));
    tensor_add(y, 1, tensor_expand(c->param[1], y.shape));
}

static void affine_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    tensor_copy(dx, dy);
    tensor_multiply(dx, tensor_expand(c->param[0], dx.shape));
}

static void affine_gradient(const st_call *c, tensor x, tensor y, tensor dy)
{
    (void)x, (void)y;
    for (ptrdiff_t i = 0; i < dy.shape.n[0]; i++) {
        tensor_copy(st_scratch(c, 0), tensor_select(dy, 0, i));
        tensor_multiply(st_scratch(c, 0), tensor_select(st_memory(c, 0), 0, i));
        tensor_add(st_grad(c, 0), 1, st_scratch(c, 0));
        tensor_add(st_grad(c, 1), 1, tensor_select(dy, 0, i));
    }
}

static const layer_field affine_fields[] = {
    { "scale", FIELD_REAL, offsetof(affine, scale), .fallback = 1, .least = -8, .below = 8 },
    { 0 },
};

static const layer_type affine_type = {
    .name = "affine",
    .options_size = sizeof(affine),
    .fields = affine_fields,
    .chunk = 3,
    .plan = affine_plan,
    .forward = affine_forward,
    .backward = affine_backward,
    .gradient = affine_gradient,
};

static layer *layer_affine(double scale)
{
    return layer_new(&affine_type, &(affine){ scale }, 0, NULL);
}

static void a_type_of_ones_own_has_options_like_any_other(void **state)
{
    (void)state;
    assert_described(layer_affine(0), "affine");
    assert_described(layer_affine(2.5), "affine(scale=2.5)");
    assert_refused(layer_affine(8), "affine: scale is 8, expected at least -8 and below 8");
    assert_unbuildable(layer_affine(1), SHAPE(2, 3, 4),
                       "affine: the input is [2, 3, 4], expected [N, features]");
}

static void a_type_of_ones_own_runs_like_any_other(void **state)
{
    (void)state;
    dice d = { { 3 } };
    layer *l = layer_sequence(layer_relu(), layer_affine(2)), *own = l->child[1];
    tensor x = roll_tensor(&d, SHAPE(19, 4), 1, 9), dy = roll_tensor(&d, x.shape, -9, 9);
    tensor y = full(x.shape, NAN), dx = full(x.shape, NAN);
    tensor scales = full(SHAPE(4), 0), shifts = full(SHAPE(4), 0);
    assert_built(l, x.shape);
    assert_all(own->param[0], 2);
    assert_all(own->param[1], 0);
    assert_all(layer_states(l), 3);
    roll_elements(&d, layer_parameters(l), -5, 5);
    layer_forward(l, x, y);
    layer_backward(l, x, y, dy, dx);
    for (ptrdiff_t k = 0; k < 19 * 4; k++) {
        real scale = *element(own->param[0], k % 4), shift = *element(own->param[1], k % 4);
        assert_true(*element(y, k) == scale * *element(x, k) + shift);
        assert_true(*element(dx, k) == scale * *element(dy, k));
        *element(scales, k % 4) += *element(dy, k) * *element(x, k);
        *element(shifts, k % 4) += *element(dy, k);
    }
    assert_same(own->grad[0], scales);
    assert_same(own->grad[1], shifts);
    layer_reset(l, 1);
    assert_all(own->param[0], 2);
    tensor_free(x), tensor_free(dy), tensor_free(y), tensor_free(dx);
    tensor_free(scales), tensor_free(shifts);
    layer_free(l);
}

static layer *affine_net(void)
{
    return layer_sequence(layer_flatten(), layer_affine(0), layer_affine(3));
}

static void a_type_of_ones_own_gives_the_same_for_any_number_of_threads(void **state)
{
    (void)state;
    results one = run_with_threads(affine_net, SHAPE(64, 5), 1);
    results many = run_with_threads(affine_net, SHAPE(64, 5), 3);
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
    tensor memory = st_memory(c, 0);
    bool own = memory.shape.n[0] == count && tensor_count(st_scratch(c, 0)) == 7;
    if (own && hook == SEEN_FORWARD) /* memory lasts until backward, and only this piece writes it */
        for (ptrdiff_t i = 0; i < count; i++) *element(memory, i) = (real)(c->first + i);
    for (ptrdiff_t i = 0; i < count && c->first + i < 512; i++) {
        struct seen *s = &seen[hook][c->first + i];
        s->times++;
        s->piece = count;
        s->as_promised = own && *element(memory, i) == (real)(c->first + i);
    }
}

static int noting_plan(layer *l, shape x, shape *y)
{
    *y = x;
    return layer_parameter(l, "unused", SHAPE(1), (layer_init){ 0 }) || layer_memory(l, SHAPE(x.n[0])) ||
           layer_scratch(l, SHAPE(7));
}

static void noting_forward(const st_call *c, tensor x, tensor y)
{
    tensor_copy(y, x);
    note(c, SEEN_FORWARD, x.shape.n[0]);
}

static void noting_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    tensor_copy(dx, dy);
    note(c, SEEN_BACKWARD, dy.shape.n[0]);
}

static void noting_gradient(const st_call *c, tensor x, tensor y, tensor dy)
{
    (void)x, (void)y;
    note(c, SEEN_GRADIENT, dy.shape.n[0]);
}

#define NOTING(CHUNK)                                                                                        \
    {                                                                                                        \
        .name = "noting", .chunk = CHUNK, .plan = noting_plan, .forward = noting_forward,                    \
        .backward = noting_backward, .gradient = noting_gradient                                             \
    }

static void check_pieces(const layer_type *type, ptrdiff_t built, ptrdiff_t n, ptrdiff_t piece)
{
    layer *l = layer_new(type, NULL, 0, NULL);
    tensor x = full(SHAPE(n, 2), 1), y = full(x.shape, 0);
    memset(seen, 0, sizeof seen);
    assert_built(l, SHAPE(built, 2));
    layer_forward(l, x, y);
    layer_backward(l, x, y, x, y);
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
    tensor_free(x), tensor_free(y);
    layer_free(l);
}

/* Of `chunk` images; of 8 where it is not given, or more where there would be more than 32 pieces. */
static void every_hook_sees_every_image_once_in_pieces_of_a_fixed_size(void **state)
{
    (void)state;
    static const layer_type five = NOTING(5), usual = NOTING(0);
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

static int many_plan(layer *l, shape x, shape *y)
{
    *y = x;
    return layer_parameter(l, "weight", SHAPE(MANY_WEIGHTS), (layer_init){ .constant = 2 });
}
static void many_forward(const st_call *c, tensor x, tensor y)
{
    tensor_copy(y, x);
    tensor_multiply(y, tensor_expand(tensor_narrow(c->param[0], 0, 0, 1), y.shape));
}
static void many_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    many_forward(c, dy, dx);
}
static void many_gradient(const st_call *c, tensor x, tensor y, tensor dy)
{
    (void)y;
    real sum = *element(x, 0) * *element(dy, 0), *grad = tensor_data(st_grad(c, 0));
    for (ptrdiff_t i = 0; i < MANY_WEIGHTS; i++) grad[i] += sum;
}

static void gradients_too_large_for_each_chunk_are_added_one_after_another(void **state)
{
    (void)state;
    static const layer_type many = { "many",
                                     .chunk = 1,
                                     .plan = many_plan,
                                     .forward = many_forward,
                                     .backward = many_backward,
                                     .gradient = many_gradient };
    dice d = { { 4 } };
    layer *l = layer_new(&many, NULL, 0, NULL);
    tensor x = roll_tensor(&d, SHAPE(16, 1), -9, 9), dy = roll_tensor(&d, x.shape, -9, 9);
    tensor y = full(x.shape, 0), dx = full(x.shape, 0), twice = tensor_clone(dy);
    double sum = 0;
    for (ptrdiff_t i = 0; i < 16; i++) sum += (double)(*element(x, i) * *element(dy, i));
    tensor_scale(twice, 2);
    assert_built(l, x.shape);
    layer_forward(l, x, y);
    layer_backward(l, x, y, dy, dx);
    assert_all(layer_gradients(l), sum);
    assert_same(dx, twice);
    layer_backward(l, x, y, dy, (tensor){ 0 });
    assert_all(layer_gradients(l), 2 * sum);
    tensor_free(x), tensor_free(y), tensor_free(dy), tensor_free(dx), tensor_free(twice);
    layer_free(l);
}

static void hooks_of_a_whole_batch_see_it_at_once(void **state)
{
    (void)state;
    static const layer_type whole = NOTING(LAYER_WHOLE);
    check_pieces(&whole, 64, 64, 64);
    check_pieces(&whole, 1, 1, 1);
}

static void hooks_of_a_whole_batch_have_the_memory_of_the_images_at_hand(void **state)
{
    (void)state;
    static const layer_type whole = NOTING(LAYER_WHOLE);
    check_pieces(&whole, 64, 19, 19);
}

/* ---- errors in hooks and plans --------------------------------------------------------------- */

/* No other thread runs a hook at the same time. */
static bool alone(void)
{
    return threads_wanted() == 1 || parallel_threads() > 1;
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
    if (error_text() && !alone()) trap.stale += in_a_worker();
    if (hook != trap.failing) return;
    if (in_a_worker() || alone()) {
        error_set("trap: image %td in hook %d", c->first, hook);
        trap.failed++;
    }
    while (trap.failed == 0) continue;
}

static int trap_plan(layer *l, shape x, shape *y)
{
    *y = x;
    return layer_parameter(l, "unused", SHAPE(1), (layer_init){ 0 });
}

static void trap_forward(const st_call *c, tensor x, tensor y)
{
    tensor_copy(y, x);
    spring(SEEN_FORWARD, c);
}

static void trap_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    tensor_copy(dx, dy);
    spring(SEEN_BACKWARD, c);
}

static void trap_gradient(const st_call *c, tensor x, tensor y, tensor dy)
{
    (void)x, (void)y, (void)dy;
    spring(SEEN_GRADIENT, c);
}

static const layer_type trap_type = { .name = "trap",
                                      .plan = trap_plan,
                                      .forward = trap_forward,
                                      .backward = trap_backward,
                                      .gradient = trap_gradient };

static void errors_of_hooks_in_any_thread_come_to_the_caller(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++)
        for (int nested = 0; nested < 2; nested++) {
            int before = set_threads(threads);
            layer *l = layer_new(&trap_type, NULL, 0, NULL);
            if (nested) l = layer_sequence(layer_relu(), l);
            tensor x = full(SHAPE(64, 2), 1), y = full(x.shape, 0);
            assert_built(l, x.shape);
            for (int hook = 0; hook < SEEN_HOOKS; hook++) {
                trap.failing = hook;
                trap.failed = 0;
                layer_forward(l, x, y);
                if (hook != SEEN_FORWARD) layer_backward(l, x, y, x, y);
                assert_true(trap.failed > 0);
                expect_error("trap: image");
                trap.failing = -1; /* and stays in no worker */
                trap.stale = 0;
                layer_forward(l, x, y);
                layer_backward(l, x, y, x, y);
                assert_null(error_text());
                assert_int_equal(trap.stale, 0);
            }
            tensor_free(x), tensor_free(y);
            layer_free(l);
            set_threads(before);
        }
}

static int silent_plan(layer *l, shape x, shape *y)
{
    (void)l, (void)x, (void)y;
    return -1;
}

static int greedy_plan(layer *l, shape x, shape *y)
{
    *y = x;
    for (int i = 0; i <= LAYER_SLOTS; i++)
        if (layer_memory(l, x)) return -1;
    return 0;
}

static int misshapen_plan(layer *l, shape x, shape *y)
{
    *y = x;
    return layer_memory(l, SHAPE(3));
}

static int batch_changing_plan(layer *l, shape x, shape *y)
{
    (void)l;
    *y = SHAPE(x.n[0] + 1);
    return 0;
}

static int overflowing_plan(layer *l, shape x, shape *y)
{
    *y = x;
    return layer_scratch(l, SHAPE(PTRDIFF_MAX / 2, 3));
}

static void bad_types_are_refused(void **state)
{
    (void)state;
    layer_type type = { .name = "odd", .plan = silent_plan, .forward = no_forward, .backward = no_backward };
    assert_unbuildable(layer_new(&type, NULL, 0, NULL), SHAPE(2, 2), "odd: plan failed without an error");
    type.plan = greedy_plan;
    assert_unbuildable(layer_new(&type, NULL, 0, NULL), SHAPE(2, 2),
                       "odd: requests more than 8 slots of memory");
    type.plan = misshapen_plan;
    assert_unbuildable(layer_new(&type, NULL, 0, NULL), SHAPE(2, 2),
                       "odd: requests memory [3], expected [2, ...]");
    type.plan = batch_changing_plan;
    assert_unbuildable(layer_new(&type, NULL, 0, NULL), SHAPE(2, 2),
                       "odd: plan made [3] of a batch [2, 2], expected [2, ...]");
    type.plan = overflowing_plan;
    layer *l = layer_new(&type, NULL, 0, NULL);
    assert_int_equal(layer_build(l, SHAPE(2, 2), 1), -1);
    expect_error("odd: scratch: shape [4611686018427387903, 3] of %s needs more bytes", REAL_NAME);
    layer_free(l);

    layer_type whole = { .name = "odd", .plan = same_shape, .forward = no_forward, .backward = no_backward },
               bad = whole;
    bad.name = NULL;
    assert_refused(layer_new(&bad, NULL, 0, NULL),
                   "layer_new: type ? lacks a name");
    bad = whole, bad.plan = NULL;
    assert_refused(layer_new(&bad, NULL, 0, NULL),
                   "layer_new: type odd lacks plan");
    bad = whole, bad.forward = NULL;
    assert_refused(layer_new(&bad, NULL, 0, NULL),
                   "layer_new: type odd lacks forward");
    bad = whole, bad.backward = NULL;
    assert_refused(layer_new(&bad, NULL, 0, NULL),
                   "layer_new: type odd lacks backward");
}

static void a_window_function_needs_a_name_and_a_value(void **state)
{
    (void)state;
    const pool_function nameless = { .value = mean }, valueless = { .name = "nothing" };
    assert_unbuildable(layer_pool((pool){ &nameless, .kernel = { 2, 2 } }), SHAPE(1, 1, 4, 4),
                       "pool: the window function ? has no name");
    assert_unbuildable(layer_pool((pool){ &valueless, .kernel = { 2, 2 } }), SHAPE(1, 1, 4, 4),
                       "pool: the window function nothing has no value");
}

static void every_shipped_type_is_listed_once_under_its_name(void **state)
{
    (void)state;
    int count = 0;
    for (; layer_types[count]; count++)
        for (int k = 0; k < count; k++)
            assert_string_not_equal(layer_types[count]->name, layer_types[k]->name);
    layer *made[] = { layer_conv2d(conv()),
                      layer_maxpool((maxpool){ 0 }),
                      layer_avgpool((avgpool){ 0 }),
                      layer_pool((pool){ &mean_function }),
                      layer_dense((dense){ 1 }),
                      layer_relu(),
                      layer_relu6(),
                      layer_leaky_relu(0),
                      layer_elu(0),
                      layer_selu(),
                      layer_gelu(),
                      layer_silu(),
                      layer_mish(),
                      layer_sigmoid(),
                      layer_tanh(),
                      layer_softplus(),
                      layer_softsign(),
                      layer_hardsigmoid(),
                      layer_hardswish(),
                      layer_dropout(0.5),
                      layer_flatten(),
                      layer_sequence(layer_relu()) };
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        bool listed = false;
        for (int k = 0; k < count; k++) listed = listed || layer_types[k] == made[i]->type;
        if (!listed) fail_msg("%s is not listed", made[i]->type->name);
        layer_free(made[i]);
    }
}

int main(void)
{
    share_all_work();
    const struct CMUnitTest tests[] = {
        CLAIM(options_are_copied),
        CLAIM(a_missing_child_frees_the_others),
        CLAIM(the_first_failure_of_a_net_is_the_one_that_is_told),
        CLAIM(a_built_net_is_freed_whole),
        CLAIM(a_child_is_not_built_apart_and_its_net_still_works),
        CLAIM(another_batch_size_keeps_the_parameters),
        CLAIM(a_layer_that_was_built_alone_brings_its_parameters_and_states),
        CLAIM(another_image_size_keeps_the_parameters_of_a_convolution),
        CLAIM(a_shape_that_needs_other_parameters_is_refused),
        CLAIM(a_net_works_again_after_a_shape_was_refused),
        CLAIM(a_layer_refused_at_first_can_be_built_later),
        CLAIM(larger_batches_are_refused),
        CLAIM(running_before_building_is_refused),
        CLAIM(wrong_x_and_y_are_refused),
        CLAIM(wrong_dy_and_dx_are_refused),
        CLAIM(layers_are_described_by_what_differs_from_the_default),
        CLAIM(a_description_is_cut_where_it_does_not_fit),
        CLAIM(layers_are_visited_parents_first_with_their_paths),
        CLAIM(a_plan_is_measured_before_anything_is_allocated),
        CLAIM(flops_are_two_for_each_product),
        CLAIM(parameters_and_gradients_are_views_into_one_flat_tensor),
        CLAIM(parameters_begin_uniform_within_1_over_sqrt_fan_in),
        CLAIM(parameters_are_a_function_of_the_seed_and_their_place),
        CLAIM(a_type_of_ones_own_has_options_like_any_other),
        CLAIM(a_type_of_ones_own_runs_like_any_other),
        CLAIM(a_type_of_ones_own_gives_the_same_for_any_number_of_threads),
        CLAIM(every_hook_sees_every_image_once_in_pieces_of_a_fixed_size),
        CLAIM(gradients_too_large_for_each_chunk_are_added_one_after_another),
        CLAIM(hooks_of_a_whole_batch_see_it_at_once),
        CLAIM(hooks_of_a_whole_batch_have_the_memory_of_the_images_at_hand),
        CLAIM(errors_of_hooks_in_any_thread_come_to_the_caller),
        CLAIM(bad_types_are_refused),
        CLAIM(a_window_function_needs_a_name_and_a_value),
        CLAIM(every_shipped_type_is_listed_once_under_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
