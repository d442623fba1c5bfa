/* test_net.c: a net is its layers one after another, in any batch, through any view, on any number of
 * threads.
 *
 * If results of different operations are compared for equality, weights and images are small
 * integers, whose sums and products are exact in both precisions. */
#define _POSIX_C_SOURCE 200809L /* open_memstream, nanosleep */
#include "tests/nn/counter.h"
#include "tests/support.h"

#include "nn/check/summary.h"
#include "nn/files/metadata.h"
#include "nn/losses.h"
#include "nn/net.h"
#include "nn/optimizers.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- nets ---------------------------------------------------------------------------------------- */

/* LeCun et al. 1998, with the layers of today. */
static st_net *lenet(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28),
                      st_conv2d(.out_channels = 6, .kernel = { 5, 5 }, .padding = { 2, 2 }), st_relu(),
                      st_maxpool(.kernel = { 2, 2 }), st_conv2d(.out_channels = 16, .kernel = { 5, 5 }),
                      st_relu(), st_maxpool(.kernel = { 2, 2 }), st_flatten(), st_dense(.out_features = 120),
                      st_relu(), st_dense(.out_features = 84), st_relu(), st_dense(.out_features = 10));
}

static st_net *small(void)
{
    return st_net_new(ST_SHAPE(2, 6, 6), st_conv2d(.out_channels = 3, .kernel = { 3, 3 }), st_relu(),
                      st_maxpool(.kernel = { 2, 2 }), st_flatten(), st_dense(.out_features = 4));
}

static st_net *built(st_net *n, ptrdiff_t batch)
{
    assert_non_null(n);
    if (st_net_build(n, batch, 1)) fail_msg("%s", st_error());
    return n;
}

/* The same, with weights of -2 to 2. */
static st_net *exact(st_net *n, ptrdiff_t batch)
{
    dice d = { { 4 } };
    roll_elements(&d, st_net_parameters(built(n, batch)), -2, 2);
    return n;
}

/* ---- making -------------------------------------------------------------------------------------- */

/* The layer that fails is named by its place; the first that could not be made gives the error, and the
 * others are freed. */
TEST(nets_that_cannot_be_are_refused)
{
    assert_null(st_net_new(ST_SHAPE(1, 8, 8), st_dense(3)));
    assert_non_null(strstr(st_error(), "flatten")); /* what would help */
    expect_error("layer 0: dense: the input is [1, 1, 8, 8]");
    expect_failure(st_net_new(ST_SHAPE(1, 8, 8), st_maxpool(.kernel = { 2 }), st_relu(), st_conv2d(4, { 5 })),
                   "layer 2: conv2d: kernel 5x5");
    expect_failure(st_net_new(ST_SHAPE(3, 8, 8), st_relu(), st_conv2d(4, { 3 }, .groups = 2)),
                   "layer 1: conv2d: groups=2");
    expect_failure(st_net_new(ST_SHAPE(3, 8, 8), st_relu(), st_sequence(st_flatten(), st_avgpool())),
                   "layer 1: layer 1: avgpool: ");
    expect_failure(st_net_new(ST_SHAPE(3, 8, 8), st_relu(), st_conv2d(.kernel = { 3 }), st_dropout(.p = 2)),
                   "conv2d: out_channels is 0");
    expect_failure(st_net_new(ST_SHAPE(3), st_relu(), NULL), "sequence: layer 1 of 2");
    expect_failure(st_net_new_of(ST_SHAPE(3), 0, NULL), "sequence: holds no layers");
    expect_failure(st_net_new(ST_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), st_relu()), "rank 8, expected 0 to 7");
    expect_failure(st_net_new((st_shape){ .rank = -1 }, st_relu()), "rank -1, expected 0 to 7");
    expect_failure(st_net_new(ST_SHAPE(3, 0), st_relu()), "[1, 3, 0]");
    expect_failure(st_net_new(ST_SHAPE(3, -2), st_relu()), "[1, 3, -2]");
    expect_failure(st_net_new(ST_SHAPE(PTRDIFF_MAX, 2), st_relu()), "more bytes than can be addressed");
}

TEST(an_input_may_be_a_single_number)
{
    auto_net *n = built(st_net_new((st_shape){ 0 }, st_relu()), 3);
    auto_tensor x = tensor_of(ST_SHAPE(3), -1, 0, 2);
    assert_elements(st_net_forward(n, x, ST_EVAL), 0, 0, 2);
}

/* ---- building ------------------------------------------------------------------------------------ */

TEST(building_again_keeps_parameters_and_states)
{
    const ptrdiff_t batches[] = { 16, 2, 40, 4 };
    auto_net *n =
        built(st_net_new(ST_SHAPE(3), st_dense(.out_features = 5), st_layer_new(&counter, NULL, 0, NULL)), 4);
    auto_tensor x = tensor_of(ST_SHAPE(2, 3), 1, 2, 3, 4, 5, 6),
                first = st_tensor_clone(st_net_forward(n, x, ST_TRAIN));
    auto_tensor parameters = st_tensor_clone(st_net_parameters(n)),
                states = st_tensor_clone(st_net_states(n));
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        assert_int_equal(st_net_build(n, batches[i], 99), 0); /* the seed is that of the first time */
        assert_int_equal(n->batch, batches[i]);
        assert_int_equal(n->seed, 1);
        assert_same(st_net_parameters(n), parameters);
        assert_same(st_net_states(n), states);
        assert_same(st_net_forward(n, x, ST_TRAIN), first);
        *st_data(states) += 1;
    }
}

TEST(a_build_that_fails_can_be_made_up_for)
{
    auto_net *n = built(small(), 4);
    auto_tensor x = st_tensor_new(ST_SHAPE(4, 2, 6, 6)), parameters = st_tensor_clone(st_net_parameters(n));
    const ptrdiff_t impossible[] = { 0, -1, PTRDIFF_MAX, PTRDIFF_MAX / 64 };
    const char *const texts[] = { "a batch of 0 images, expected at least 1", "a batch of -1 images",
                                  "needs more bytes than can be addressed", "no memory for" };
    for (int i = 0; i < 4; i++) expect_failure(st_net_build(n, impossible[i], 1), "%s", texts[i]);
    assert_int_equal(st_net_build(n, 4, 1), 0);
    assert_same(st_net_parameters(n), parameters);
    assert_false(st_is_null(st_net_forward(n, x, ST_EVAL)));
}

TEST(what_there_is_no_memory_for_is_named)
{
    auto_net *n =
        st_net_new(ST_SHAPE(1), st_dense(.out_features = 1 << 27), st_dense(.out_features = 1 << 27));
    expect_failure(st_net_build(n, 1, 1), "parameters: st_tensor_new: no memory for");
}

/* The columns of one thread are half of what can be addressed, or in double all of it; there are 16. */
TEST(scratch_of_all_threads_must_be_addressable)
{
    st_set_num_threads(16);
    auto_net *n = st_net_new(
        ST_SHAPE(1, 1, 1),
        st_conv2d(.out_channels = 1, .kernel = { 1 << 10, 1 << 10 }, .padding = { 1 << 19, 1 << 19 }),
        st_avgpool(.kernel = { 0, 0 }));
    assert_non_null(n);
    expect_failure(st_net_build(n, 16, 1), ST_REAL_NAME);
    st_set_num_threads(4);
}

/* ---- names --------------------------------------------------------------------------------------- */

typedef struct listing {
    char text[512];
    const st_real *next, *gradient; /* where the next parameter and its gradient must begin */
} listing;

static void list(const st_net_tensor *t, void *context)
{
    listing *l = context;
    snprintf(l->text + strlen(l->text), sizeof l->text - strlen(l->text), "%s %s%s\n", t->name,
             st_shape_text(t->value.shape).text, st_is_null(t->gradient) ? " state" : "");
    if (st_is_null(t->gradient)) return;
    assert_true(st_shape_equal(t->gradient.shape, t->value.shape));
    assert_ptr_equal(st_data(t->value), l->next);
    assert_ptr_equal(st_data(t->gradient), l->gradient);
    l->next += st_numel(t->value), l->gradient += st_numel(t->value);
}

static st_net *nested(void)
{
    return st_net_new(ST_SHAPE(2, 4, 4),
                      st_sequence(st_conv2d(.out_channels = 3, .kernel = { 3, 3 }, .no_bias = true),
                                  st_relu(), st_sequence(st_layer_new(&counter, NULL, 0, NULL))),
                      st_dropout(.p = 0.5), st_flatten(), st_dense(.out_features = 10),
                      st_residual_projected(st_sequence(st_dense(.out_features = 2), st_batchnorm()),
                                            st_dense(.out_features = 2, .no_bias = true)),
                      st_concat(st_identity(), st_layernorm()));
}

/* The state_dict() of Sequential(Sequential(Conv2d, ReLU, Sequential(counter)), Dropout, Flatten, Linear),
 * and blocks. */
TEST(names_are_those_of_torch_nn_sequential)
{
    auto_net *n = built(nested(), 2);
    listing l = { "", st_data(st_net_parameters(n)), st_data(st_net_gradients(n)) };
    st_net_visit(n, list, &l);
    assert_string_equal(l.text, "0.0.weight [3, 2, 3, 3]\n"
                                "0.2.0.seen [1] state\n"
                                "3.weight [10, 12]\n"
                                "3.bias [10]\n"
                                "4.body.0.weight [2, 10]\n"
                                "4.body.0.bias [2]\n"
                                "4.body.1.weight [2]\n"
                                "4.body.1.bias [2]\n"
                                "4.body.1.running_mean [2] state\n"
                                "4.body.1.running_var [2] state\n"
                                "4.projection.weight [2, 10]\n"
                                "5.1.weight [2]\n"
                                "5.1.bias [2]\n");
    assert_ptr_equal(l.next, st_data(st_net_parameters(n)) + st_numel(st_net_parameters(n)));
    assert_int_equal(st_numel(st_net_parameters(n)), 3 * 2 * 3 * 3 + 10 * 12 + 10 + 22 + 4 + 20 + 4);
    assert_int_equal(st_numel(st_net_states(n)), 5);
}

TEST(a_tensor_is_found_by_its_name)
{
    auto_net *n = built(nested(), 2);
    assert_shape(st_net_find(n, "3.weight"), 10, 12);
    assert_ptr_equal(st_at(st_net_find(n, "3.bias"), ST_INDEX(9)), st_data(st_net_parameters(n)) + 183);
    assert_ptr_equal(st_data(st_net_find(n, "0.2.0.seen")), st_data(st_net_states(n)));
    assert_true(st_item(st_net_find(n, "0.2.0.seen")) == 0);
    const char *absent[] = { "", "3", "weight", "3.weights", "0.0.bias", "4.weight" };
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        expect_failure(st_net_find(n, absent[i]), "st_net_find: no parameter or state is called %s",
                       absent[i]);
    }
}

TEST(notes_are_copied_replaced_and_removed)
{
    auto_net *n = small();
    char text[] = "0.1307";
    assert_null(st_net_metadata(n, "mean"));
    assert_int_equal(st_net_set_metadata(n, "mean", NULL), 0); /* there is none */
    assert_int_equal(st_net_set_metadata(n, "mean", text), 0);
    assert_int_equal(st_net_set_metadata(n, "deviation", "0.3081"), 0);
    assert_int_equal(st_net_set_metadata(n, "empty", ""), 0);
    memset(text, 'x', sizeof text - 1);
    assert_string_equal(st_net_metadata(n, "mean"), "0.1307");
    assert_int_equal(st_net_set_metadata(n, "mean", "0.5"), 0);
    assert_string_equal(st_net_metadata(n, "mean"), "0.5");
    assert_string_equal(st_net_metadata(n, "deviation"), "0.3081");
    assert_string_equal(st_net_metadata(n, "empty"), "");
    assert_int_equal(st_net_set_metadata(n, "deviation", NULL), 0);
    assert_null(st_net_metadata(n, "deviation"));
    assert_string_equal(st_net_metadata(n, "mean"), "0.5");
    assert_int_equal(st_net_set_metadata(n, "mean", st_net_metadata(n, "mean")), 0); /* of itself */
    assert_string_equal(st_net_metadata(n, "mean"), "0.5");
    int count = 0;
    for (const st_metadata *note = n->metadata; note; note = note->next) count++;
    assert_int_equal(count, 2);
}

/* ---- the summary --------------------------------------------------------------------------------- */

/* The text that st_net_summary prints; the caller frees it. */
static char *summary(st_net *n, ptrdiff_t batch, int status)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    assert_int_equal(st_net_summary(n, batch, to), status);
    fclose(to);
    return text;
}

/* 2 (5 5 6 28 28) = 235,200 and 2 (6 5 5 16 10 10) = 480,000 FLOPs of the convolutions, 2 in out of the dense
 * layers; 5 5 6 + 6 = 156 parameters, and so on. */
/* clang-format off */
static const char lenet_table[] =
"layer                                              output                   parameters   FLOPs a sample\n"
"input                                              [64, 1, 28, 28]     \n"
"0 conv2d(out_channels=6, kernel=5x5, padding=2x2)  [64, 6, 28, 28]                 156          235,200\n"
"1 relu                                             [64, 6, 28, 28]                   0                0\n"
"2 maxpool(kernel=2x2)                              [64, 6, 14, 14]                   0                0\n"
"3 conv2d(out_channels=16, kernel=5x5)              [64, 16, 10, 10]              2,416          480,000\n"
"4 relu                                             [64, 16, 10, 10]                  0                0\n"
"5 maxpool(kernel=2x2)                              [64, 16, 5, 5]                    0                0\n"
"6 flatten                                          [64, 400]                         0                0\n"
"7 dense(out_features=120)                          [64, 120]                    48,120           96,000\n"
"8 relu                                             [64, 120]                         0                0\n"
"9 dense(out_features=84)                           [64, 84]                     10,164           20,160\n"
"10 relu                                            [64, 84]                          0                0\n"
"11 dense(out_features=10)                          [64, 10]                        850            1,680\n"
"total                                                                           61,706          833,040\n"
"\n";
/* clang-format on */

/* 2 61,706 numbers of 4 bytes are 482.1 KiB. An image's activations are 2 4704 + 1176 + 2 1600 + 2 400 + 2
 * 120 + 2 84 numbers, and two gradients between layers 2 4704 more: 64 images take 6.0 MiB. In double all is
 * twice that. */
static const char lenet_memory[] = "memory for batches of 64, float32\n"
                                   "  parameters and their gradients        482.1 KiB\n"
                                   "  activations                             6.0 MiB\n"
                                   "  scratch of each thread                 80.6 KiB\n"
                                   "  gradients of chunks                    75.5 KiB\n"
                                   "  a batch of input                      196.0 KiB\n"
                                   "  peak, with 4 threads                    7.0 MiB\n";

/* A layer's scratch depends on the machine, except with the reference engine. */
TEST(the_summary_of_lenet_is_this)
{
    use_engine("reference");
    st_set_num_threads(4);
    auto_net *n = lenet();
    char *text = summary(n, 64, 0), expected[sizeof lenet_table + sizeof lenet_memory];
    snprintf(expected, sizeof expected, "%s%s", lenet_table, lenet_memory);
    use_engine(NULL);
    if (sizeof(st_real) == 4) assert_string_equal(text, expected);
    else assert_memory_equal(text, lenet_table, sizeof lenet_table - 1);
    free(text);
}

/* A net of 4 TiB is described, not made; one that cannot be addressed, though each of its layers can, is
 * refused. */
TEST(the_summary_of_a_huge_net_allocates_nothing_of_it)
{
    st_net *n = st_net_new(ST_SHAPE(1000000), st_dense(.out_features = 1000000));
    char *text = summary(n, 5, 0);
    assert_non_null(strstr(
        text, "\n0 dense(out_features=1000000)  [5, 1000000]         1,000,001,000,000 2,000,000,000,000\n"));
    assert_non_null(strstr(text, "\ntotal                                               1,000,001,000,000 "));
    assert_non_null(strstr(text, sizeof(st_real) == 8 ? " 14.6 TiB\n" : " 7.3 TiB\n"));
    free(text);
    st_net_free(n);

    int half =
        1 << (sizeof(st_real) == 8 ? 28
                                   : 29); /* half (2^31 - 1) elements are just below half of all memory */
    n = st_net_new(ST_SHAPE(half), st_dense(.out_features = 2147483647), st_dense(.out_features = half));
    assert_non_null(n);
    free(summary(n, 1, -1));
    expect_error("can be addressed");
    st_net_free(n);
}

/* Also where it fails: the input of the last batch could be addressed, what a layer makes of it could not. */
TEST(a_summary_leaves_the_net_as_it_is)
{
    const ptrdiff_t batches[] = { 1000, 0, -5, PTRDIFF_MAX, PTRDIFF_MAX / 1024 };
    auto_net *n = exact(st_net_new(ST_SHAPE(1), st_dense(.out_features = 1000)), 4);
    auto_tensor x = tensor_of(ST_SHAPE(2, 1), 3, -1), y = st_tensor_clone(st_net_forward(n, x, ST_EVAL)),
                parameters = st_tensor_clone(st_net_parameters(n));
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        about("a summary for %td images", batches[i]);
        free(summary(n, batches[i], i ? -1 : 0));
        if (i) expect_error(batches[i] < 1 ? "expected at least 1" : "addressed");
        assert_int_equal(n->batch, 4);
        assert_same(st_net_parameters(n), parameters);
        assert_same(st_net_forward(n, x, ST_EVAL), y);
    }
}

TEST(a_summary_that_cannot_be_written_fails)
{
    auto_net *n = small();
    FILE *full = fopen("/dev/full", "w");
    if (!full) skip_because("there is no /dev/full");
    expect_failure(st_net_summary(n, 4, full), "st_net_summary: the stream");
    expect_failure(st_net_summary(n, 4, NULL), "st_net_summary: the file");
    expect_failure(st_net_summary(NULL, 4, full), "st_net_summary: the net");
    fclose(full);
}

/* ---- running ------------------------------------------------------------------------------------- */

/* A net for 5 takes 1 to 5 images, and each comes out as it does alone. */
TEST(batches_up_to_the_built_size_are_taken)
{
    dice d = { { 6 } };
    auto_net *n = exact(small(), 5), *single = exact(small(), 1);
    auto_tensor x = roll_tensor(&d, ST_SHAPE(6, 2, 6, 6), -3, 3), alone = st_tensor_new(ST_SHAPE(6, 4));
    for (ptrdiff_t i = 0; i < 6; i++)
        st_copy(st_narrow(alone, 0, i, 1), st_net_forward(single, st_narrow(x, 0, i, 1), ST_EVAL));
    for (ptrdiff_t count = 1; count <= 5; count++)
        assert_same(st_net_forward(n, st_narrow(x, 0, 6 - count, count), ST_EVAL),
                    st_narrow(alone, 0, 6 - count, count));
    expect_failure(st_net_forward(n, x, ST_EVAL),
                   "st_net_forward: a batch of 6 images, the net is built for 5");
}

TEST(another_mode_is_refused)
{
    auto_net *n = built(small(), 1);
    auto_tensor x = full(ST_SHAPE(1, 2, 6, 6), 1);
    for (int mode = -1; mode <= ST_PREDICT + 1; mode += ST_PREDICT + 2) {
        expect_failure(st_net_forward(n, x, (st_net_mode)mode),
                       "st_net_forward: the mode is %d, expected ST_EVAL, ST_TRAIN or ST_PREDICT", mode);
    }
}

TEST(inputs_of_another_shape_are_refused)
{
    const st_shape wrong[] = {
        ST_SHAPE(3, 2, 6, 5),   ST_SHAPE(2, 6, 6), ST_SHAPE(3, 72), ST_SHAPE(0, 2, 6, 6), { 0 },
        ST_SHAPE(3, 2, 6, 6, 1)
    };
    auto_net *n = built(small(), 4);
    auto_tensor y = st_tensor_new(ST_SHAPE(3, 4));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        auto_tensor x = st_tensor_new(wrong[i]);
        about("x %s", st_shape_text(wrong[i]).text);
        expect_failure(st_net_forward(n, x, ST_EVAL),
                       "st_net_forward of x %s, expected [N, ...] of images [2, 6, 6]",
                       st_shape_text(wrong[i]).text);
        expect_failure(st_net_predict(n, x, y), "st_net_predict of x %s", st_shape_text(wrong[i]).text);
    }
    expect_failure(st_net_forward(n, (st_tensor){ 0 }, ST_EVAL), "st_net_forward of x ");
}

TEST(nothing_runs_before_it_is_built)
{
    auto_net *n = small();
    auto_tensor x = st_tensor_new(ST_SHAPE(1, 2, 6, 6)), y = st_tensor_new(ST_SHAPE(1, 4));
    expect_failure(st_net_forward(n, x, ST_TRAIN), "st_net_forward before st_net_build");
    expect_failure(st_net_find(n, "0.weight"), "st_net_find before st_net_build");
    expect_failure(st_net_predict(n, x, y), "st_net_predict before st_net_build");
    st_net_zero_gradients(n);
    expect_error("st_net_zero_gradients: the net is not built");
    expect_failure(st_net_backward(n, y, (st_tensor){ 0 }), "st_net_backward before st_net_forward");
    built(n, 2);
    expect_failure(st_net_backward(n, y, (st_tensor){ 0 }), "st_net_backward before st_net_forward");
    st_net_forward(n, x, ST_TRAIN);
    built(n, 3);
    expect_failure(st_net_backward(n, y, (st_tensor){ 0 }), "st_net_backward before st_net_forward");
}

TEST(nothing_runs_backward_after_an_error)
{
    auto_net *n = built(small(), 2);
    auto_tensor x = full(ST_SHAPE(2, 2, 6, 6), 1), dy = full(ST_SHAPE(2, 4), 1);
    st_net_forward(n, x, ST_TRAIN);
    st_error_set("earlier");
    assert_int_equal(st_net_backward(n, dy, (st_tensor){ 0 }), -1);
    expect_error("earlier");
}

static int plan_for_few(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return x.n[0] > 4 ? st_layer_refuse(l, "a batch of %td", x.n[0]) : 0;
}
static void copied(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
}
static void copied_back(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    st_copy(dx, dy);
}

TEST(a_net_that_cannot_be_built_again_is_not_built)
{
    static const st_layer_type few = { "few", .plan = plan_for_few, .forward = copied,
                                       .backward = copied_back };
    auto_net *n = built(st_net_new(ST_SHAPE(3), st_layer_new(&few, NULL, 0, NULL)), 4);
    auto_tensor x = st_tensor_new(ST_SHAPE(4, 3));
    expect_failure(st_net_build(n, 5, 1), "a batch of 5");
    expect_failure(st_net_forward(n, x, ST_EVAL), "st_net_forward before st_net_build");
    built(n, 4);
    assert_same(st_net_forward(n, x, ST_EVAL), x);
}

TEST(ten_images_in_batches_of_four_are_predicted_as_one_by_one)
{
    dice d = { { 7 } };
    auto_net *n = exact(small(), 4);
    auto_tensor x = roll_tensor(&d, ST_SHAPE(10, 2, 6, 6), -3, 3), y = st_tensor_new(ST_SHAPE(10, 4));
    st_fill(y, 77);
    assert_int_equal(st_net_predict(n, x, y), 0);
    for (ptrdiff_t i = 0; i < 10; i++)
        assert_same(st_narrow(y, 0, i, 1), st_net_forward(n, st_narrow(x, 0, i, 1), ST_EVAL));
    auto_tensor by_class = st_tensor_new(ST_SHAPE(4, 10));
    st_tensor rows = st_transpose(by_class, 0, 1); /* y may be any view */
    assert_int_equal(st_net_predict(n, st_flip(x, 0), st_flip(rows, 0)), 0);
    assert_same(rows, y);
    auto_tensor wrong = st_tensor_new(ST_SHAPE(9, 4));
    expect_failure(st_net_predict(n, x, wrong), "st_net_predict: y is [9, 4], expected [10, 4]");
    expect_failure(st_net_predict(n, x, (st_tensor){ 0 }), "st_net_predict: y is ");
}

/* Dropout of one half is 0 or twice the input in training, in other places at each step, and nothing in
 * inference. */
TEST(modes_and_steps_reach_the_layers)
{
    auto_net *n = built(st_net_new(ST_SHAPE(400), st_dropout(.p = 0.5)), 20);
    auto_tensor ones = full(ST_SHAPE(20, 400), 1);
    assert_same(st_net_forward(n, ones, ST_EVAL), ones);
    auto_tensor first = st_tensor_clone(st_net_forward(n, ones, ST_TRAIN));
    assert_same(st_net_forward(n, ones, ST_TRAIN), first);
    n->step++;
    st_tensor second = st_net_forward(n, ones, ST_TRAIN);
    ptrdiff_t dropped = 0, other = 0;
    for (ptrdiff_t e = 0; e < 8000; e++) {
        assert_true(*element(first, e) == 0 || *element(first, e) == 2);
        dropped += *element(first, e) == 0, other += *element(first, e) != *element(second, e);
    }
    assert_in_range(dropped, 3776, 4224); /* five deviations */
    assert_in_range(other, 3776, 4224);
    n->step--;
    assert_same(st_net_forward(n, ones, ST_TRAIN), first);
}

/* y = w x + b by hand: dw = dy x, db = dy, dx = w dy; gradients are summed until they are zeroed. */
TEST(backward_adds_to_gradients_and_overwrites_dx)
{
    auto_net *n = built(st_net_new(ST_SHAPE(2), st_dense(.out_features = 1)), 2);
    auto_tensor w = tensor_of(ST_SHAPE(3), 5, -7, 1), x = tensor_of(ST_SHAPE(2, 2), 1, 2, 3, 4),
                dy = tensor_of(ST_SHAPE(2, 1), 10, 100);
    auto_tensor dx = st_tensor_new(x.shape);
    st_tensor none = { 0 };
    st_copy(st_net_parameters(n), w);
    assert_elements(st_net_forward(n, x, ST_TRAIN), 5 - 14 + 1, 15 - 28 + 1);
    st_fill(dx, (st_real)NAN);
    assert_int_equal(st_net_backward(n, dy, dx), 0);
    assert_elements(st_net_gradients(n), 310, 420, 110);
    assert_elements(dx, 50, -70, 500, -700);
    assert_int_equal(st_net_backward(n, dy, none), 0);
    assert_elements(st_net_gradients(n), 620, 840, 220);
    st_net_zero_gradients(n);
    assert_elements(st_net_gradients(n), 0, 0, 0);
}

TEST(gradients_of_another_shape_are_refused)
{
    auto_net *n = built(small(), 4);
    auto_tensor x = st_tensor_new(ST_SHAPE(3, 2, 6, 6)), dy = st_tensor_new(ST_SHAPE(3, 4)),
                wrong = st_tensor_new(ST_SHAPE(4, 4));
    auto_tensor dx = st_tensor_new(ST_SHAPE(3, 2, 6, 6)), wide = st_tensor_new(ST_SHAPE(3, 8));
    st_tensor none = { 0 };
    st_net_forward(n, x, ST_TRAIN);
    expect_failure(st_net_backward(n, wrong, none), "backward from dy [4, 4], expected a contiguous [3, 4]");
    expect_failure(st_net_backward(n, none, none), "backward from dy ");
    expect_failure(st_net_backward(n, dy, wrong), "[4, 4], expected a contiguous [3, 2, 6, 6]");
    expect_failure(st_net_backward(n, dy, st_flip(dx, 0)),
                   "[3, 2, 6, 6], expected a contiguous [3, 2, 6, 6]");
    expect_failure(st_net_backward(n, st_step(wide, 1, 2), none), "[3, 4], expected a contiguous [3, 4]");
    assert_int_equal(st_net_backward(n, dy, dx), 0);
}

/* Maxima of neighbours read what the pass has written, and softmax's derivative reads y. */
TEST(tensors_of_a_pass_that_overlap_are_refused)
{
    auto_net *n =
        built(st_net_new(ST_SHAPE(1, 6, 6), st_maxpool(.kernel = { 3 }, .stride = { 1 }, .padding = { 1 }),
                         st_softmax(.axis = 3)),
              4);
    auto_tensor x = st_tensor_new(ST_SHAPE(4, 1, 6, 6)), dy = st_tensor_new(ST_SHAPE(4, 1, 6, 6));
    st_tensor y = st_net_forward(n, x, ST_TRAIN), none = { 0 };
    expect_failure(st_net_backward(n, dy, dy), "dx overlaps dy, x or y");
    expect_failure(st_net_backward(n, dy, x), "dx overlaps dy, x or y");
    expect_failure(st_net_backward(n, dy, y), "dx overlaps dy, x or y");
    expect_failure(st_net_backward(n, y, none), "dy overlaps the net's y");
    assert_int_equal(st_net_backward(n, dy, none), 0);
    expect_failure(st_net_forward(n, y, ST_EVAL), "x is the net's own output; clone it");
    expect_failure(st_net_forward(n, st_flip(y, 0), ST_PREDICT), "x is the net's own output; clone it");
    assert_false(
        st_is_null(st_net_forward(n, st_narrow(y, 0, 2, 2), ST_EVAL))); /* writes the first two alone */
}

/* Four convolutions of batches large enough for each thread to have its own place between the layers, and
 * batchnorm first, last, between them, beside a layer that runs after the next one, and of features. */
TEST(predictions_are_inference_without_a_way_back)
{
    const int threads[] = { 1, 2, 3 };
    dice d = { { 21 } };
    auto_tensor x = roll_tensor(&d, ST_SHAPE(50, 1, 12, 12), -3, 3), other = roll_tensor(&d, x.shape, -3, 3);
    for (int i = 0; i < 3; i++) {
        st_set_num_threads(threads[i]);
        auto_net *n = st_net_new(
            ST_SHAPE(1, 12, 12), st_batchnorm(),
            st_conv2d(.out_channels = 3, .kernel = { 3, 3 }, .padding = { 1, 1 }), st_batchnorm(), st_relu(),
            st_maxpool(.kernel = { 2, 2 }),
            st_residual(st_sequence(st_conv2d(.out_channels = 3, .kernel = { 3, 3 }, .padding = { 1, 1 }),
                                    st_batchnorm(), st_tanh(), st_batchnorm(.no_affine = true))),
            st_conv2d(.out_channels = 2, .kernel = { 3, 3 }), st_gelu(), st_batchnorm(), st_sigmoid(),
            st_flatten(), st_batchnorm(), st_dense(.out_features = 3), st_batchnorm());
        assert_int_equal(st_net_build(n, 50, 1), 0);
        st_net_forward(n, x, ST_TRAIN);
        auto_tensor y = st_tensor_clone(st_net_forward(n, x, ST_EVAL)), dy = st_tensor_new(y.shape);
        st_net_forward(n, other, ST_EVAL); /* so that nothing of it is left */
        assert_same(st_net_forward(n, x, ST_PREDICT), y);
        expect_failure(st_net_backward(n, dy, (st_tensor){ 0 }),
                       "st_net_backward after a st_net_forward with ST_PREDICT, which keeps nothing");
        assert_false(st_is_null(st_net_forward(n, x, ST_EVAL)));
        assert_int_equal(st_net_backward(n, dy, (st_tensor){ 0 }), 0);
    }
    st_set_num_threads(4);
}

/* The batch is one chunk, for which layers have the scratch of one thread. */
TEST(predictions_of_two_threads_are_those_of_one)
{
    dice d = { { 22 } };
    auto_tensor x = roll_tensor(&d, ST_SHAPE(8, 3, 48, 48), -3, 3), one = { 0 };
    for (int threads = 1; threads <= 2; threads++) {
        st_set_num_threads(threads);
        auto_net *n =
            st_net_new(ST_SHAPE(3, 48, 48),
                       st_conv2d(.out_channels = 16, .kernel = { 9, 9 }, .padding = { 4, 4 }), st_relu());
        assert_int_equal(st_net_build(n, 8, 1), 0);
        if (threads == 1) one = st_tensor_clone(st_net_forward(n, x, ST_PREDICT));
        for (int i = 0; i < 20; i++) assert_same(st_net_forward(n, x, ST_PREDICT), one);
    }
    st_set_num_threads(4);
}

/* ---- threads ------------------------------------------------------------------------------------- */

/* Fails on image 29; while its weight is 2, counts the calls in threads other than the first. */
static int plan_failing(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "weight", ST_SHAPE(1), (st_init){ .constant = 1 });
}

static atomic_int workers;

static void forward_failing(const st_call *c, st_tensor x, st_tensor y)
{
    st_real weight = *st_data(c->param[0]);
    st_copy(y, x);
    for (ptrdiff_t i = 0; i < x.shape.n[0] && weight == 1; i++)
        if (c->first + i == 29) st_layer_refuse(c->layer, "image 29 is not to its taste");
    if (weight == 2) workers += in_a_worker();
    for (int k = 0; k < 1000 && weight == 2 && c->first == 0 && workers == 0; k++) /* for one to come */
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
}

static void backward_failing(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    st_copy(dx, dy);
}

static void no_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy) {}

static const st_layer_type failing = { .name = "failing",
                                       .plan = plan_failing,
                                       .forward = forward_failing,
                                       .backward = backward_failing,
                                       .gradient = no_gradient };

TEST(a_grain_or_a_cache_that_is_no_number_is_refused)
{
    static const char *const bad[] = { "many", "-1", "nan", "1e3x" };
    for (int i = 0; i < 4; i++) {
        auto_net *n = small();
        setenv("STRIDE_GRAIN", bad[i], 1);
        expect_failure(st_net_build(n, 4, 1), "STRIDE_GRAIN=%s: expected a number of elements, at least 0",
                       bad[i]);
        share_all_work();
        setenv("STRIDE_CACHE", bad[i], 1);
        expect_failure(st_net_build(n, 4, 1), "STRIDE_CACHE=%s: expected a number of bytes, at least 0",
                       bad[i]);
        setenv("STRIDE_CACHE", "", 1);
        assert_int_equal(st_net_build(n, 4, 1), 0);
    }
}

/* Less work than the grain is done by the caller, whatever the threads. */
TEST(little_work_is_not_shared)
{
    st_set_num_threads(4);
    auto_layer *l = st_layer_new(&failing, NULL, 0, NULL);
    auto_tensor x = st_tensor_new(ST_SHAPE(256, 2)), y = st_tensor_new(ST_SHAPE(256, 2));
    setenv("STRIDE_GRAIN", "1025", 1);
    assert_int_equal(st_layer_build(l, x.shape, 1), 0);
    st_fill(st_layer_parameters(l), 2);
    workers = 0;
    st_layer_forward(l, x, y);
    assert_null(st_error());
    assert_int_equal(workers, 0);
    share_all_work();
    assert_int_equal(st_layer_build(l, x.shape, 1), 0);
    st_layer_forward(l, x, y);
    assert_true(workers > 0);
}

TEST(a_prediction_that_fails_says_so)
{
    auto_net *n = built(st_net_new(ST_SHAPE(2), st_layer_new(&failing, NULL, 0, NULL)), 32);
    auto_tensor x = st_tensor_new(ST_SHAPE(40, 2)), y = st_tensor_new(ST_SHAPE(40, 2));
    expect_failure(st_net_predict(n, x, y), "failing: image 29 is not to its taste");
}

SETUP(all_work_is_shared)
