/* test_net.c: a net is its layers one after another, in any batch, through any view, on any number of
 * threads.
 *
 * Where results are compared for equality without being of the same operations, weights and images are small
 * integers, whose sums and products are exact in both precisions. */
#define _POSIX_C_SOURCE 200809L /* open_memstream, nanosleep */
#include "tests/support.h"

#include "nn/loss.h"
#include "nn/net.h"
#include "nn/optim.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- nets ---------------------------------------------------------------------------------------- */

/* LeCun et al. 1998, with the layers of today. */
static net *lenet(void)
{
    return net_new(SHAPE(1, 28, 28),
                   layer_conv2d((conv2d){ .out_channels = 6, .kernel = { 5, 5 }, .padding = { 2, 2 } }),
                   layer_relu(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
                   layer_conv2d((conv2d){ .out_channels = 16, .kernel = { 5, 5 } }), layer_relu(),
                   layer_maxpool((maxpool){ .kernel = { 2, 2 } }), layer_flatten(),
                   layer_dense((dense){ .out_features = 120 }), layer_relu(),
                   layer_dense((dense){ .out_features = 84 }), layer_relu(),
                   layer_dense((dense){ .out_features = 10 }));
}

static net *small(void)
{
    return net_new(SHAPE(2, 6, 6), layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 } }),
                   layer_relu(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }), layer_flatten(),
                   layer_dense((dense){ .out_features = 4 }));
}

static net *built(net *n, ptrdiff_t batch)
{
    assert_non_null(n);
    if (net_build(n, batch, 1)) fail_msg("%s", error_text());
    return n;
}

static void use_threads(int threads)
{
    parallel_set_threads(threads);
}

/* The same, with weights of -2 to 2. */
static net *exact(net *n, ptrdiff_t batch)
{
    dice d = { { 4 } };
    roll_elements(&d, net_parameters(built(n, batch)), -2, 2);
    return n;
}

/* Adds one to every element that it ever sees, in a state. */
static int plan_counter(layer *l, shape x, shape *y)
{
    *y = x;
    return layer_state(l, "seen", SHAPE(1), 0.5);
}

static void count_forward(const st_call *c, tensor x, tensor y)
{
    tensor_copy(y, x);
    *tensor_data(c->layer->state[0]) += (real)tensor_count(x);
}

static void count_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    tensor_copy(dx, dy);
}

static const layer_type counter = { .name = "counter",
                                    .chunk = LAYER_WHOLE,
                                    .plan = plan_counter,
                                    .forward = count_forward,
                                    .backward = count_backward };

/* ---- making -------------------------------------------------------------------------------------- */

static void refused(net *n, const char *text)
{
    assert_null(n);
    expect_error("%s", text);
}

static void layers_that_do_not_fit_are_named(void **state)
{
    refused(
        net_new(SHAPE(1, 8, 8), layer_dense((dense){ .out_features = 3 })),
        "layer 0: dense: the input is [1, 1, 8, 8], expected [N, features]; a flatten before it makes that");
    refused(net_new(SHAPE(1, 8, 8), layer_maxpool((maxpool){ .kernel = { 2, 2 } }), layer_relu(),
                    layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 5, 5 } })),
            "layer 2: conv2d: kernel 5×5");
    refused(net_new(SHAPE(3, 8, 8), layer_relu(),
                    layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 3, 3 }, .groups = 2 })),
            "layer 1: conv2d: groups=2 must divide the 3 input and 4 output channels");
    refused(net_new(SHAPE(3, 8, 8), layer_relu(),
                    layer_sequence(layer_flatten(), layer_avgpool((avgpool){ .kernel = { 2, 2 } }))),
            "layer 1: layer 1: avgpool: ");
    refused(net_new(SHAPE(10), layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 3, 3 } })),
            "layer 0: conv2d: ");
}

/* What is wrong with a layer is said by the first that fails, and the others are freed. */
static void a_layer_that_could_not_be_made_makes_no_net(void **state)
{
    refused(
        net_new(SHAPE(3, 8, 8), layer_relu(), layer_conv2d((conv2d){ .kernel = { 3, 3 } }), layer_dropout(2)),
        "conv2d: out_channels is 0, expected at least 1");
    refused(net_new(SHAPE(3), layer_relu(), NULL), "sequence: layer 1 of 2 is NULL");
    refused(net_new_of(SHAPE(3), 0, NULL), "sequence: holds no layers");
}

static void inputs_that_cannot_be_are_refused(void **state)
{
    refused(net_new(SHAPE(1, 1, 1, 1, 1, 1, 1, 1), layer_relu()), "has rank 8, expected 0 to 7");
    refused(net_new((shape){ .rank = -1 }, layer_relu()), "has rank -1, expected 0 to 7");
    refused(net_new(SHAPE(3, 0), layer_relu()), "the input is [1, 3, 0], expected a batch");
    refused(net_new(SHAPE(3, -2), layer_relu()), "negative size in shape [1, 3, -2]");
    refused(net_new(SHAPE(PTRDIFF_MAX, 2), layer_relu()), "needs more bytes than can be addressed");
}

static void an_input_may_be_a_single_number(void **state)
{
    net *n = built(net_new((shape){ 0 }, layer_relu()), 3);
    tensor x = tensor_of(SHAPE(3), -1, 0, 2);
    assert_elements(net_forward(n, x, NET_INFER), 0, 0, 2);
    net_free(n), tensor_free(x);
}

static void null_is_refused_everywhere(void **state)
{
    tensor x = tensor_new(SHAPE(1));
    assert_int_equal(net_build(NULL, 1, 1), -1);
    expect_error("net_build: the net is NULL");
    assert_true(tensor_is_null(net_forward(NULL, x, NET_INFER)));
    expect_error("net_forward before net_build");
    assert_int_equal(net_backward(NULL, x, x), -1);
    expect_error("net_backward before net_forward");
    assert_int_equal(net_predict(NULL, x, x), -1);
    expect_error("net_predict before net_build");
    assert_int_equal(net_summary(NULL, 1, stdout), -1);
    expect_error("net_summary: the net is NULL");
    assert_true(tensor_is_null(net_find(NULL, "0.weight")));
    expect_error("net_find before net_build");
    assert_true(tensor_is_null(net_parameters(NULL)) && tensor_is_null(net_gradients(NULL)));
    assert_true(tensor_is_null(net_states(NULL)));
    net_free(NULL);
    tensor_free(x);
}

/* ---- building ------------------------------------------------------------------------------------ */

static void building_again_keeps_parameters_and_states(void **state)
{
    const ptrdiff_t batches[] = { 16, 2, 40, 4 };
    net *n = built(
        net_new(SHAPE(3), layer_dense((dense){ .out_features = 5 }), layer_new(&counter, NULL, 0, NULL)), 4);
    tensor x = tensor_of(SHAPE(2, 3), 1, 2, 3, 4, 5, 6), first = tensor_clone(net_forward(n, x, NET_TRAIN));
    tensor parameters = tensor_clone(net_parameters(n)), states = tensor_clone(net_states(n));
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        assert_int_equal(net_build(n, batches[i], 99), 0); /* the seed is that of the first time */
        assert_int_equal(n->batch, batches[i]);
        assert_int_equal(n->seed, 1);
        assert_same(net_parameters(n), parameters);
        assert_same(net_states(n), states);
        assert_same(net_forward(n, x, NET_TRAIN), first);
        *tensor_data(states) += (real)tensor_count(first);
    }
    tensor_free(x), tensor_free(first), tensor_free(parameters), tensor_free(states);
    net_free(n);
}

static void a_build_that_fails_can_be_made_up_for(void **state)
{
    net *n = built(small(), 4);
    tensor x = tensor_new(SHAPE(4, 2, 6, 6)), parameters = tensor_clone(net_parameters(n));
    const ptrdiff_t impossible[] = { 0, -1, PTRDIFF_MAX, PTRDIFF_MAX / 64 };
    const char *const texts[] = { "a batch of 0 images, expected at least 1", "a batch of -1 images",
                                  "needs more bytes than can be addressed", "no memory for" };
    for (int i = 0; i < 4; i++) {
        assert_int_equal(net_build(n, impossible[i], 1), -1);
        expect_error("%s", texts[i]);
    }
    assert_int_equal(net_build(n, 4, 1), 0);
    assert_same(net_parameters(n), parameters);
    assert_false(tensor_is_null(net_forward(n, x, NET_INFER)));
    tensor_free(x), tensor_free(parameters);
    net_free(n);
}

/* The columns of one thread are half of what can be addressed, or in double all of it; there are 16. */
static void scratch_of_all_threads_must_be_addressable(void **state)
{
    use_threads(16);
    net *n =
        net_new(SHAPE(1, 1, 1),
                layer_conv2d((conv2d){
                    .out_channels = 1, .kernel = { 1 << 10, 1 << 10 }, .padding = { 1 << 19, 1 << 19 } }),
                layer_avgpool((avgpool){ .kernel = { 0, 0 } }));
    assert_non_null(n);
    assert_int_equal(net_build(n, 16, 1), -1);
    expect_error(REAL_NAME);
    use_threads(4);
    net_free(n);
}

static void one_seed_is_one_net(void **state)
{
    net *a = lenet(), *b = lenet(), *c = lenet();
    assert_int_equal(net_build(a, 1, 7), 0);
    assert_int_equal(net_build(b, 64, 7), 0);
    assert_int_equal(net_build(c, 1, 8), 0);
    assert_same(net_parameters(a), net_parameters(b));
    ptrdiff_t same = 0, count = tensor_count(net_parameters(a));
    for (ptrdiff_t e = 0; e < count; e++)
        same += tensor_data(net_parameters(a))[e] == tensor_data(net_parameters(c))[e];
    assert_int_equal(count, 61706);
    assert_true(same < 10); /* by chance: one in 10 million */
    net_free(a), net_free(b), net_free(c);
}

/* Of a uniform distribution in ±bound the deviation is bound/sqrt(3); the mean of n draws strays by that over
 * sqrt(n), and five times as far once in two million. Both ends are nearly reached. */
static void is_uniform(net *n, const char *name, double bound)
{
    tensor w = net_find(n, name);
    double count = (double)tensor_count(w), sum = 0, squares = 0, low = 0, high = 0;
    for (ptrdiff_t e = 0; e < tensor_count(w); e++) {
        double x = (double)*element(w, e);
        sum += x, squares += x * x;
        low = fmin(low, x), high = fmax(high, x);
    }
    about("%s", name);
    double end = bound * (1 + (double)REAL_EPSILON), near_end = bound * fmax(0, 1 - 20 / count);
    if (low < -end || high > end) fail_msg("%s: from %g to %g, expected within ±%g", name, low, high, bound);
    if (low > -near_end || high < near_end) fail_msg("%s: only from %g to %g of ±%g", name, low, high, bound);
    if (fabs(sum / count) > 5 * bound / sqrt(3 * count)) fail_msg("%s: a mean of %g", name, sum / count);
    if (fabs(squares / count * 3 / (bound * bound) - 1) > 5 / sqrt(count))
        fail_msg("%s: a mean square of %g", name, squares / count);
}

static void parameters_begin_uniform_in_one_over_the_root_of_fan_in(void **state)
{
    net *n = built(net_new(SHAPE(8, 3, 3),
                           layer_conv2d((conv2d){ .out_channels = 64, .kernel = { 3, 3 }, .groups = 2 }),
                           layer_flatten(), layer_dense((dense){ .out_features = 500 })),
                   1);
    is_uniform(n, "0.weight", 1 / sqrt(4 * 3 * 3));
    is_uniform(n, "0.bias", 1 / sqrt(4 * 3 * 3));
    is_uniform(n, "2.weight", 1 / sqrt(64));
    is_uniform(n, "2.bias", 1 / sqrt(64));
    net_free(n);
}

/* ---- names --------------------------------------------------------------------------------------- */

typedef struct listing {
    char text[512];
    const real *next; /* where the next parameter must begin */
} listing;

static void list(const net_tensor *t, void *context)
{
    listing *l = context;
    snprintf(l->text + strlen(l->text), sizeof l->text - strlen(l->text), "%s %s%s\n", t->name,
             shape_text(t->value.shape).text, tensor_is_null(t->gradient) ? " state" : "");
    if (tensor_is_null(t->gradient)) return;
    assert_true(shape_equal(t->gradient.shape, t->value.shape));
    assert_ptr_equal(tensor_data(t->value), l->next);
    l->next += tensor_count(t->value);
}

static net *nested(void)
{
    return net_new(
        SHAPE(2, 4, 4),
        layer_sequence(layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 }, .no_bias = true }),
                       layer_relu(), layer_sequence(layer_new(&counter, NULL, 0, NULL))),
        layer_dropout(0.5), layer_flatten(), layer_dense((dense){ .out_features = 10 }));
}

/* The state_dict() of Sequential(Sequential(Conv2d, ReLU, Sequential(counter)), Dropout, Flatten, Linear). */
static void names_are_those_of_torch_nn_sequential(void **state)
{
    net *n = built(nested(), 2);
    listing l = { "", tensor_data(net_parameters(n)) };
    net_visit(n, list, &l);
    assert_string_equal(l.text, "0.0.weight [3, 2, 3, 3]\n"
                                "0.2.0.seen [1] state\n"
                                "3.weight [10, 12]\n"
                                "3.bias [10]\n");
    assert_ptr_equal(l.next, tensor_data(net_parameters(n)) + 3 * 2 * 3 * 3 + 10 * 12 + 10);
    net_free(n);
}

static void a_tensor_is_found_by_its_name(void **state)
{
    net *n = built(nested(), 2);
    assert_shape(net_find(n, "3.weight"), 10, 12);
    assert_ptr_equal(tensor_at(net_find(n, "3.bias"), INDEX(9)), tensor_data(net_parameters(n)) + 183);
    assert_ptr_equal(tensor_data(net_find(n, "0.2.0.seen")), tensor_data(net_states(n)));
    assert_true(tensor_item(net_find(n, "0.2.0.seen")) == (real)0.5);
    const char *absent[] = { "", "3", "weight", "3.weights", "0.0.bias", "4.weight" };
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        assert_true(tensor_is_null(net_find(n, absent[i])));
        expect_error("net_find: no parameter or state is called %s", absent[i]);
    }
    net_free(n);
}

static void nothing_is_found_before_it_is_built(void **state)
{
    net *n = nested();
    assert_true(tensor_is_null(net_find(n, "3.weight")));
    expect_error("net_find before net_build");
    net_free(n);
}

static void notes_are_copied_replaced_and_removed(void **state)
{
    net *n = small();
    char text[] = "0.1307";
    assert_null(net_note_text(n, "mean"));
    assert_int_equal(net_set_note(n, "mean", NULL), 0); /* there is none */
    assert_int_equal(net_set_note(n, "mean", text), 0);
    assert_int_equal(net_set_note(n, "deviation", "0.3081"), 0);
    assert_int_equal(net_set_note(n, "empty", ""), 0);
    memset(text, 'x', sizeof text - 1);
    assert_string_equal(net_note_text(n, "mean"), "0.1307");
    assert_int_equal(net_set_note(n, "mean", "0.5"), 0);
    assert_string_equal(net_note_text(n, "mean"), "0.5");
    assert_string_equal(net_note_text(n, "deviation"), "0.3081");
    assert_string_equal(net_note_text(n, "empty"), "");
    assert_int_equal(net_set_note(n, "deviation", NULL), 0);
    assert_null(net_note_text(n, "deviation"));
    assert_string_equal(net_note_text(n, "mean"), "0.5");
    assert_int_equal(net_set_note(n, "mean", net_note_text(n, "mean")), 0); /* of itself */
    assert_string_equal(net_note_text(n, "mean"), "0.5");
    int count = 0;
    for (const net_note *note = n->notes; note; note = note->next) count++;
    assert_int_equal(count, 2);
    net_free(n);
}

/* ---- the summary --------------------------------------------------------------------------------- */

/* What net_summary prints: free() ends it. */
static char *summary(net *n, ptrdiff_t batch, int status)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    assert_int_equal(net_summary(n, batch, to), status);
    fclose(to);
    return text;
}

/* 2 (5 5 6 28 28) = 235,200 and 2 (6 5 5 16 10 10) = 480,000 FLOPs of the convolutions, 2 in out of the dense
 * layers; 5 5 6 + 6 = 156 parameters, and so on. */
/* clang-format off */
static const char lenet_table[] =
"layer                                              output                   parameters   FLOPs an image\n"
"input                                              [64, 1, 28, 28]     \n"
"0 conv2d(out_channels=6, kernel=5x5, padding=2x2)  [64, 6, 28, 28]                 156          235,200\n"
"1 relu                                             [64, 6, 14, 14]                   0                0\n"
"2 maxpool(kernel=2x2)                              [64, 6, 14, 14]                   0                0\n"
"3 conv2d(out_channels=16, kernel=5x5)              [64, 16, 10, 10]              2,416          480,000\n"
"4 relu                                             [64, 16, 5, 5]                    0                0\n"
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

/* 2 61,706 numbers of 4 bytes are 482.1 KiB, or of 8 bytes 964.2 KiB. */
#ifdef STRIDE_DOUBLE
static const char lenet_memory[] = "memory for batches of 64, float64\n"
                                   "  parameters and their gradients        964.2 KiB\n"
                                   "  activations                             4.5 MiB\n"
                                   "  scratch of each thread                749.1 KiB\n"
                                   "  gradients of chunks                   160.8 KiB\n"
                                   "  a batch of input                      392.0 KiB\n"
                                   "  peak, with 4 threads                    8.9 MiB\n";
#else
static const char lenet_memory[] = "memory for batches of 64, float32\n"
                                   "  parameters and their gradients        482.1 KiB\n"
                                   "  activations                             2.3 MiB\n"
                                   "  scratch of each thread                374.6 KiB\n"
                                   "  gradients of chunks                    80.4 KiB\n"
                                   "  a batch of input                      196.0 KiB\n"
                                   "  peak, with 4 threads                    4.5 MiB\n";
#endif

/* What scratch a layer takes depends on the machine, but for the reference. */
static void the_summary_of_lenet_is_this(void **state)
{
    use_engine("reference");
    use_threads(4);
    net *n = lenet();
    char *text = summary(n, 64, 0), expected[sizeof lenet_table + sizeof lenet_memory];
    snprintf(expected, sizeof expected, "%s%s", lenet_table, lenet_memory);
    use_engine(NULL);
    assert_string_equal(text, expected);
    free(text);
    net_free(n);
}

/* A net of 4 TiB is described, not made; one that cannot be addressed, though each of its layers can, is
 * refused. */
static void the_summary_of_a_huge_net_allocates_nothing_of_it(void **state)
{
    net *n = net_new(SHAPE(1000000), layer_dense((dense){ .out_features = 1000000 }));
    char *text = summary(n, 5, 0);
    assert_non_null(strstr(
        text, "\n0 dense(out_features=1000000)  [5, 1000000]         1,000,001,000,000 2,000,000,000,000\n"));
    assert_non_null(strstr(text, "\ntotal                                               1,000,001,000,000 "));
    assert_non_null(strstr(text, sizeof(real) == 8 ? " 14.6 TiB\n" : " 7.3 TiB\n"));
    free(text);
    net_free(n);

    int half =
        1 << (sizeof(real) == 8 ? 28 : 29); /* half (2^31 - 1) elements are just below half of all memory */
    n = net_new(SHAPE(half), layer_dense((dense){ .out_features = 2147483647 }),
                layer_dense((dense){ .out_features = half }));
    assert_non_null(n);
    free(summary(n, 1, -1));
    expect_error("dense: the net needs more memory than can be addressed");
    net_free(n);
}

static void a_summary_leaves_the_net_as_it_is(void **state)
{
    net *n = exact(small(), 4);
    dice d = { { 5 } };
    tensor x = roll_tensor(&d, SHAPE(4, 2, 6, 6), -3, 3), y = tensor_clone(net_forward(n, x, NET_INFER));
    tensor parameters = tensor_clone(net_parameters(n));
    free(summary(n, 1000, 0));
    assert_int_equal(n->batch, 4);
    assert_same(net_parameters(n), parameters);
    assert_same(net_forward(n, x, NET_INFER), y);
    tensor_free(x), tensor_free(y), tensor_free(parameters);
    net_free(n);
}

/* The input of such a batch could be addressed, what a layer makes of it could not. */
static void a_summary_that_fails_leaves_the_net_as_it_is(void **state)
{
    const ptrdiff_t impossible[] = { 0, -5, PTRDIFF_MAX, PTRDIFF_MAX / 1024 };
    net *n = exact(net_new(SHAPE(1), layer_dense((dense){ .out_features = 1000 })), 4);
    tensor x = tensor_of(SHAPE(2, 1), 3, -1), y = tensor_clone(net_forward(n, x, NET_INFER));
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
        about("a summary for %td images", impossible[i]);
        free(summary(n, impossible[i], -1));
        expect_error(impossible[i] < 1 ? "expected at least 1" : "addressed");
        assert_same(net_forward(n, x, NET_INFER), y);
    }
    tensor_free(x), tensor_free(y);
    net_free(n);
}

static void a_summary_that_cannot_be_written_fails(void **state)
{
    net *n = small();
    FILE *full = fopen("/dev/full", "w");
    if (!full) skip();
    assert_int_equal(net_summary(n, 4, full), -1);
    expect_error("net_summary: the stream cannot be written");
    fclose(full);
    net_free(n);
}

/* ---- running ------------------------------------------------------------------------------------- */

/* A net for 5 takes 1 to 5 images, and each comes out as it does alone. */
static void batches_up_to_the_built_size_are_taken(void **state)
{
    dice d = { { 6 } };
    net *n = exact(small(), 5), *single = exact(small(), 1);
    tensor x = roll_tensor(&d, SHAPE(6, 2, 6, 6), -3, 3), alone = tensor_new(SHAPE(6, 4));
    for (ptrdiff_t i = 0; i < 6; i++)
        tensor_copy(tensor_narrow(alone, 0, i, 1), net_forward(single, tensor_narrow(x, 0, i, 1), NET_INFER));
    for (ptrdiff_t count = 1; count <= 5; count++)
        assert_same(net_forward(n, tensor_narrow(x, 0, 6 - count, count), NET_INFER),
                    tensor_narrow(alone, 0, 6 - count, count));
    assert_true(tensor_is_null(net_forward(n, x, NET_INFER)));
    expect_error("net_forward: a batch of 6 images, the net is built for 5");
    tensor_free(x), tensor_free(alone);
    net_free(n), net_free(single);
}

/* Also bit for bit, weights of any kind, since a batch is cut the same way whatever the net is built for. */
static void what_a_net_is_built_for_does_not_change_its_results(void **state)
{
    net *a = built(lenet(), 20), *b = built(lenet(), 100);
    tensor x = tensor_new(SHAPE(20, 1, 28, 28)), dy = tensor_new(SHAPE(20, 10));
    tensor_normal(x, (random_key){ 1, 1 }, 0, 1);
    tensor_normal(dy, (random_key){ 1, 2 }, 0, 1);
    assert_same(net_forward(a, x, NET_TRAIN), net_forward(b, x, NET_TRAIN));
    assert_int_equal(net_backward(a, dy, (tensor){ 0 }), 0);
    assert_int_equal(net_backward(b, dy, (tensor){ 0 }), 0);
    assert_same(net_gradients(a), net_gradients(b));
    tensor_free(x), tensor_free(dy);
    net_free(a), net_free(b);
}

static void inputs_of_another_shape_are_refused(void **state)
{
    const shape wrong[] = { SHAPE(3, 2, 6, 5), SHAPE(2, 6, 6), SHAPE(3, 72),
                            SHAPE(0, 2, 6, 6), { 0 },          SHAPE(3, 2, 6, 6, 1) };
    net *n = built(small(), 4);
    tensor y = tensor_new(SHAPE(3, 4));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tensor x = tensor_new(wrong[i]);
        about("x %s", shape_text(wrong[i]).text);
        assert_true(tensor_is_null(net_forward(n, x, NET_INFER)));
        expect_error("net_forward of x %s, expected [N, ...] of images [2, 6, 6]", shape_text(wrong[i]).text);
        assert_int_equal(net_predict(n, x, y), -1);
        expect_error("net_predict of x %s", shape_text(wrong[i]).text);
        tensor_free(x);
    }
    assert_true(tensor_is_null(net_forward(n, (tensor){ 0 }, NET_INFER)));
    expect_error("net_forward of x ");
    tensor_free(y);
    net_free(n);
}

static void nothing_runs_before_it_is_built(void **state)
{
    net *n = small();
    tensor x = tensor_new(SHAPE(1, 2, 6, 6)), y = tensor_new(SHAPE(1, 4));
    assert_true(tensor_is_null(net_forward(n, x, NET_TRAIN)));
    expect_error("net_forward before net_build");
    assert_int_equal(net_predict(n, x, y), -1);
    expect_error("net_predict before net_build");
    assert_int_equal(net_backward(n, y, (tensor){ 0 }), -1);
    expect_error("net_backward before net_forward");
    built(n, 2);
    assert_int_equal(net_backward(n, y, (tensor){ 0 }), -1);
    expect_error("net_backward before net_forward");
    net_forward(n, x, NET_TRAIN);
    built(n, 3);
    assert_int_equal(net_backward(n, y, (tensor){ 0 }), -1);
    expect_error("net_backward before net_forward");
    tensor_free(x), tensor_free(y);
    net_free(n);
}

static void ten_images_in_batches_of_four_are_predicted_as_one_by_one(void **state)
{
    dice d = { { 7 } };
    net *n = exact(small(), 4);
    tensor x = roll_tensor(&d, SHAPE(10, 2, 6, 6), -3, 3), y = tensor_new(SHAPE(10, 4));
    tensor_fill(y, 77);
    assert_int_equal(net_predict(n, x, y), 0);
    for (ptrdiff_t i = 0; i < 10; i++)
        assert_same(tensor_narrow(y, 0, i, 1), net_forward(n, tensor_narrow(x, 0, i, 1), NET_INFER));
    tensor by_class = tensor_new(SHAPE(4, 10)),
           rows = tensor_transpose(by_class, 0, 1); /* y may be any view */
    assert_int_equal(net_predict(n, tensor_flip(x, 0), tensor_flip(rows, 0)), 0);
    assert_same(rows, y);
    tensor wrong = tensor_new(SHAPE(9, 4));
    assert_int_equal(net_predict(n, x, wrong), -1);
    expect_error("net_predict: y is [9, 4], expected [10, 4]");
    assert_int_equal(net_predict(n, x, (tensor){ 0 }), -1);
    expect_error("net_predict: y is ");
    tensor_free(x), tensor_free(y), tensor_free(by_class), tensor_free(wrong);
    net_free(n);
}

static ptrdiff_t differing(tensor a, tensor b)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t e = 0; e < tensor_count(a); e++) count += *element(a, e) != *element(b, e);
    return count;
}

/* Dropout of one half is 0 or twice the input in training, and nothing in inference. Of 400 draws of one half about 200 are as they are; five deviations of 10 are allowed for. */
static void modes_and_steps_reach_the_layers(void **state)
{
    net *n = built(net_new(SHAPE(400), layer_dropout(0.5)), 20);
    tensor ones = tensor_new(SHAPE(20, 400)), twos = tensor_new(SHAPE(20, 400));
    tensor_fill(ones, 1);
    tensor_fill(twos, 2);
    assert_same(net_forward(n, ones, NET_INFER), ones);
    tensor first = tensor_clone(net_forward(n, ones, NET_TRAIN));
    for (ptrdiff_t e = 0; e < tensor_count(first); e++)
        assert_true(*element(first, e) == 0 || *element(first, e) == 2);
    assert_same(net_forward(n, ones, NET_TRAIN), first);
    n->step++;
    tensor second = net_forward(n, ones, NET_TRAIN);
    for (ptrdiff_t i = 0; i < 20; i++) {
        tensor mask = tensor_select(first, 0, i);
        assert_in_range(differing(mask, tensor_select(twos, 0, i)), 150, 250);
        assert_in_range(differing(mask, tensor_select(second, 0, i)), 150, 250);
        for (ptrdiff_t other = 0; other < i; other++) /* each image has numbers of its own */
            assert_in_range(differing(mask, tensor_select(first, 0, other)), 150, 250);
    }
    n->step--;
    assert_same(net_forward(n, ones, NET_TRAIN), first);
    tensor_free(ones), tensor_free(twos), tensor_free(first);
    net_free(n);
}

/* y = w x + b by hand: dw = dy x, db = dy, dx = w dy; gradients are summed until they are zeroed. */
static void backward_adds_to_gradients_and_overwrites_dx(void **state)
{
    net *n = built(net_new(SHAPE(2), layer_dense((dense){ .out_features = 1 })), 2);
    tensor w = tensor_of(SHAPE(3), 5, -7, 1), x = tensor_of(SHAPE(2, 2), 1, 2, 3, 4),
           dy = tensor_of(SHAPE(2, 1), 10, 100);
    tensor dx = tensor_new(x.shape), none = { 0 };
    tensor_copy(net_parameters(n), w);
    assert_elements(net_forward(n, x, NET_TRAIN), 5 - 14 + 1, 15 - 28 + 1);
    tensor_fill(dx, (real)NAN);
    assert_int_equal(net_backward(n, dy, dx), 0);
    assert_elements(net_gradients(n), 310, 420, 110);
    assert_elements(dx, 50, -70, 500, -700);
    assert_int_equal(net_backward(n, dy, none), 0);
    assert_elements(net_gradients(n), 620, 840, 220);
    net_zero_gradients(n);
    assert_elements(net_gradients(n), 0, 0, 0);
    tensor_free(w), tensor_free(x), tensor_free(dy), tensor_free(dx);
    net_free(n);
}

static void gradients_of_another_shape_are_refused(void **state)
{
    net *n = built(small(), 4);
    tensor x = tensor_new(SHAPE(3, 2, 6, 6)), dy = tensor_new(SHAPE(3, 4)), wrong = tensor_new(SHAPE(4, 4));
    tensor dx = tensor_new(SHAPE(3, 2, 6, 6)), wide = tensor_new(SHAPE(3, 8)), none = { 0 };
    net_forward(n, x, NET_TRAIN);
    assert_int_equal(net_backward(n, wrong, none), -1);
    expect_error("net_backward: dy is [4, 4], y was [3, 4]");
    assert_int_equal(net_backward(n, none, none), -1);
    expect_error("net_backward: dy is ");
    assert_int_equal(net_backward(n, dy, wrong), -1);
    expect_error("[4, 4], expected a contiguous [3, 2, 6, 6]");
    assert_int_equal(net_backward(n, dy, tensor_flip(dx, 0)), -1);
    expect_error("[3, 2, 6, 6], expected a contiguous [3, 2, 6, 6]");
    assert_int_equal(net_backward(n, tensor_step(wide, 1, 2), none), -1);
    expect_error("[3, 4], expected a contiguous [3, 4]");
    assert_int_equal(net_backward(n, dy, dx), 0);
    tensor_free(x), tensor_free(dy), tensor_free(wrong), tensor_free(dx), tensor_free(wide);
    net_free(n);
}

/* Images with channels last, as a camera's are: a permuted view, and backwards. */
static void strided_input_gives_the_same_bits(void **state)
{
    for (int first = 0; first < 6; first++) {
        layer *all[] = { layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 } }),
                         layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 1, 1 } }),
                         layer_maxpool((maxpool){ .kernel = { 2, 2 }, .padding = { 1, 1 } }),
                         layer_gelu(),
                         layer_dropout(0.3),
                         layer_flatten() };
        char name[128];
        layer_describe(all[first], name, sizeof name);
        about("%s first", name);
        net *n = built(
            net_new(SHAPE(3, 8, 10), all[first], layer_flatten(), layer_dense((dense){ .out_features = 5 })),
            19);
        for (int i = 0; i < 6; i++)
            if (i != first) layer_free(all[i]);
        tensor x = tensor_new(SHAPE(19, 3, 8, 10)), last = tensor_new(SHAPE(19, 8, 10, 3)),
               dy = tensor_new(SHAPE(19, 5));
        tensor view = tensor_flip(tensor_permute(last, AXES(0, 3, 1, 2)), 2), dx[2], gradients[2], y[2];
        tensor_normal(x, (random_key){ 1, 3 }, 0, 1);
        tensor_normal(dy, (random_key){ 1, 4 }, 0, 1);
        tensor_copy(view, x);
        for (int strided = 0; strided < 2; strided++) {
            dx[strided] = tensor_new(x.shape);
            net_zero_gradients(n);
            n->step = 0; /* the same dropout */
            y[strided] = tensor_clone(net_forward(n, strided ? view : x, NET_TRAIN));
            assert_int_equal(net_backward(n, dy, dx[strided]), 0);
            gradients[strided] = tensor_clone(net_gradients(n));
        }
        assert_same(y[1], y[0]);
        assert_same(dx[1], dx[0]);
        assert_same(gradients[1], gradients[0]);
        for (int i = 0; i < 2; i++) tensor_free(dx[i]), tensor_free(gradients[i]), tensor_free(y[i]);
        tensor_free(x), tensor_free(last), tensor_free(dy);
        net_free(n);
    }
}

/* Four convolutions of batches large enough for each thread to have its own place between the layers. */
static void predictions_are_inference_without_a_way_back(void **state)
{
    const int threads[] = { 1, 2, 3 };
    dice d = { { 21 } };
    tensor x = roll_tensor(&d, SHAPE(50, 1, 12, 12), -3, 3), other = roll_tensor(&d, x.shape, -3, 3);
    for (int i = 0; i < 3; i++) {
        use_threads(threads[i]);
        net *n =
            net_new(SHAPE(1, 12, 12),
                    layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 }, .padding = { 1, 1 } }),
                    layer_relu(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
                    layer_residual(layer_sequence(
                        layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 }, .padding = { 1, 1 } }),
                        layer_tanh())),
                    layer_conv2d((conv2d){ .out_channels = 2, .kernel = { 3, 3 } }), layer_sigmoid(),
                    layer_flatten(), layer_dense((dense){ .out_features = 3 }));
        assert_int_equal(net_build(n, 50, 1), 0);
        tensor y = tensor_clone(net_forward(n, x, NET_INFER)), dy = tensor_new(y.shape);
        net_forward(n, other, NET_INFER); /* so that nothing of it is left */
        assert_same(net_forward(n, x, NET_PREDICT), y);
        assert_int_equal(net_backward(n, dy, (tensor){ 0 }), -1);
        expect_error("net_backward after a net_forward with NET_PREDICT, which keeps nothing");
        assert_false(tensor_is_null(net_forward(n, x, NET_INFER)));
        assert_int_equal(net_backward(n, dy, (tensor){ 0 }), 0);
        tensor_free(y), tensor_free(dy);
        net_free(n);
    }
    use_threads(4);
    tensor_free(x), tensor_free(other);
}

/* A relu runs after the pooling but where a window may see nothing but padding. */
static void a_relu_before_a_max_pooling_changes_nothing(void **state)
{
    tensor x = tensor_new(SHAPE(1, 1, 2, 2));
    tensor_fill(x, 1);
    for (int dilation = 1; dilation <= 3; dilation += 2) {
        maxpool o = { .kernel = { 2, 2 },
                      .stride = { 1, 1 },
                      .padding = { dilation, dilation },
                      .dilation = { dilation, dilation } };
        net *both = net_new(SHAPE(1, 2, 2), layer_relu(), layer_maxpool(o));
        net *pooling = net_new(SHAPE(1, 2, 2), layer_maxpool(o));
        assert_int_equal(net_build(both, 1, 1) || net_build(pooling, 1, 1), 0);
        assert_same(net_forward(both, x, NET_TRAIN), net_forward(pooling, x, NET_TRAIN));
        net_free(both), net_free(pooling);
    }
    tensor_free(x);
}

/* ---- threads ------------------------------------------------------------------------------------- */

/* Weights after 20 steps on 37 images at a time, several chunks of which the last is smaller; with dropout,
 * and with a dense layer of so many weights that its gradient is made in one piece. */
static tensor trained(int threads)
{
    use_threads(threads);
    net *n =
        built(net_new(SHAPE(1, 12, 12),
                      layer_conv2d((conv2d){ .out_channels = 8, .kernel = { 3, 3 }, .padding = { 1, 1 } }),
                      layer_relu(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }), layer_dropout(0.3),
                      layer_conv2d((conv2d){ .out_channels = 16, .kernel = { 3, 3 } }), layer_silu(),
                      layer_avgpool((avgpool){ .kernel = { 2, 2 }, .stride = { 1, 1 } }), layer_flatten(),
                      layer_dense((dense){ .out_features = 500 }), layer_tanh(), layer_dropout(0.5),
                      layer_dense((dense){ .out_features = 10 })),
              37);
    tensor x = tensor_new(SHAPE(37, 1, 12, 12)), target = tensor_new(SHAPE(37)),
           dy = tensor_new(SHAPE(37, 10));
    optim *o = optim_sgd((sgd){ .lr = 0.05, .momentum = 0.9 });
    assert_true(tensor_count(net_find(n, "8.weight")) > 65536);
    for (int step = 0; step < 20; step++) {
        dice d = { { 8, (uint64_t)step } };
        tensor_normal(x, (random_key){ 9, (uint64_t)step }, 0, 1);
        roll_elements(&d, target, 0, 9);
        n->step = (uint64_t)step;
        net_zero_gradients(n);
        loss_value(loss_cross_entropy(0), net_forward(n, x, NET_TRAIN), target, dy);
        net_backward(n, dy, (tensor){ 0 });
        assert_int_equal(optim_step(o, 0.05, net_parameters(n), net_gradients(n)), 0);
    }
    tensor parameters = tensor_clone(net_parameters(n));
    tensor_free(x), tensor_free(target), tensor_free(dy);
    optim_free(o), net_free(n);
    return parameters;
}

static void any_number_of_threads_trains_the_same_bits(void **state)
{
    const int threads[] = { 2, 3, 8 };
    tensor one = trained(1);
    for (int i = 0; i < 3; i++) {
        about("%d threads", threads[i]);
        tensor many = trained(threads[i]);
        assert_same(many, one);
        tensor_free(many);
    }
    tensor_free(one);
}

/* Fails on image 29, and, while its weight is 2, in every thread but the first. */
static int plan_failing(layer *l, shape x, shape *y)
{
    *y = x;
    return layer_parameter(l, "weight", SHAPE(1), (layer_init){ .constant = 1 });
}

static atomic_int workers; /* calls in threads other than the first */

/* The first thread waits for another to come. */
static bool met_a_worker(void)
{
    if (in_a_worker()) return ++workers > 0;
    for (int k = 0; k < 1000 && workers == 0; k++) nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    return false;
}

static void forward_failing(const st_call *c, tensor x, tensor y)
{
    real weight = *tensor_data(c->param[0]);
    tensor_copy(y, x);
    for (ptrdiff_t i = 0; i < x.shape.n[0] && weight == 1; i++)
        if (c->first + i == 29) layer_refuse(c->layer, "image 29 is not to its taste");
    if (weight != 1 && met_a_worker() && weight == 2) layer_refuse(c->layer, "it does not like this thread");
}

static void no_gradient(const st_call *c, tensor x, tensor y, tensor dy)
{
    (void)c, (void)x, (void)y, (void)dy;
}

static const layer_type failing = { .name = "failing",
                                    .plan = plan_failing,
                                    .forward = forward_failing,
                                    .backward = count_backward,
                                    .gradient = no_gradient };

static void an_error_in_a_thread_reaches_the_caller_once(void **state)
{
    use_threads(4);
    layer *l = layer_new(&failing, NULL, 0, NULL);
    tensor x = tensor_new(SHAPE(256, 2)), y = tensor_new(SHAPE(256, 2));
    assert_int_equal(layer_build(l, x.shape, 1), 0);
    for (int i = 0; i < 10; i++) {
        tensor_fill(layer_parameters(l), 2);
        workers = 0;
        layer_forward(l, x, y);
        expect_error("failing: it does not like this thread");
        tensor_fill(layer_parameters(l), 0);
        workers = 0;
        layer_forward(l, x, y); /* no thread has kept it */
        assert_null(error_text());
    }
    tensor_free(x), tensor_free(y);
    layer_free(l);
}

static void a_grain_that_is_no_number_is_refused(void **state)
{
    static const char *const bad[] = { "many", "-1", "nan", "1e3x" };
    for (int i = 0; i < 4; i++) {
        net *n = small();
        setenv("STRIDE_GRAIN", bad[i], 1);
        assert_int_equal(net_build(n, 4, 1), -1);
        expect_error("STRIDE_GRAIN=%s: expected a number of elements, at least 0", bad[i]);
        share_all_work();
        assert_int_equal(net_build(n, 4, 1), 0);
        net_free(n);
    }
}

/* Less work than the grain is done by the caller, whatever the threads. */
static void little_work_is_not_shared(void **state)
{
    use_threads(4);
    layer *l = layer_new(&failing, NULL, 0, NULL);
    tensor x = tensor_new(SHAPE(256, 2)), y = tensor_new(SHAPE(256, 2));
    setenv("STRIDE_GRAIN", "1025", 1);
    assert_int_equal(layer_build(l, x.shape, 1), 0);
    tensor_fill(layer_parameters(l), 2);
    workers = 0;
    layer_forward(l, x, y);
    assert_null(error_text());
    assert_int_equal(workers, 0);
    share_all_work();
    tensor_free(x), tensor_free(y);
    layer_free(l);
}

static void a_prediction_that_fails_says_so(void **state)
{
    net *n = built(net_new(SHAPE(2), layer_new(&failing, NULL, 0, NULL)), 32);
    tensor x = tensor_new(SHAPE(40, 2)), y = tensor_new(SHAPE(40, 2));
    assert_int_equal(net_predict(n, x, y), -1);
    expect_error("failing: image 29 is not to its taste");
    tensor_free(x), tensor_free(y);
    net_free(n);
}

int main(void)
{
    share_all_work();
    const struct CMUnitTest claims[] = {
        CLAIM(layers_that_do_not_fit_are_named),
        CLAIM(a_layer_that_could_not_be_made_makes_no_net),
        CLAIM(inputs_that_cannot_be_are_refused),
        CLAIM(an_input_may_be_a_single_number),
        CLAIM(null_is_refused_everywhere),
        CLAIM(building_again_keeps_parameters_and_states),
        CLAIM(a_build_that_fails_can_be_made_up_for),
        CLAIM(scratch_of_all_threads_must_be_addressable),
        CLAIM(one_seed_is_one_net),
        CLAIM(parameters_begin_uniform_in_one_over_the_root_of_fan_in),
        CLAIM(names_are_those_of_torch_nn_sequential),
        CLAIM(a_tensor_is_found_by_its_name),
        CLAIM(nothing_is_found_before_it_is_built),
        CLAIM(notes_are_copied_replaced_and_removed),
        CLAIM(the_summary_of_lenet_is_this),
        CLAIM(the_summary_of_a_huge_net_allocates_nothing_of_it),
        CLAIM(a_summary_leaves_the_net_as_it_is),
        CLAIM(a_summary_that_fails_leaves_the_net_as_it_is),
        CLAIM(a_summary_that_cannot_be_written_fails),
        CLAIM(batches_up_to_the_built_size_are_taken),
        CLAIM(what_a_net_is_built_for_does_not_change_its_results),
        CLAIM(inputs_of_another_shape_are_refused),
        CLAIM(nothing_runs_before_it_is_built),
        CLAIM(ten_images_in_batches_of_four_are_predicted_as_one_by_one),
        CLAIM(modes_and_steps_reach_the_layers),
        CLAIM(predictions_are_inference_without_a_way_back),
        CLAIM(a_relu_before_a_max_pooling_changes_nothing),
        CLAIM(backward_adds_to_gradients_and_overwrites_dx),
        CLAIM(gradients_of_another_shape_are_refused),
        CLAIM(strided_input_gives_the_same_bits),
        CLAIM(any_number_of_threads_trains_the_same_bits),
        CLAIM(an_error_in_a_thread_reaches_the_caller_once),
        CLAIM(a_grain_that_is_no_number_is_refused),
        CLAIM(little_work_is_not_shared),
        CLAIM(a_prediction_that_fails_says_so),
    };
    return cmocka_run_group_tests(claims, NULL, NULL);
}
