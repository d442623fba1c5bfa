/* test_identity.c: products, and four networks of the usual kinds, come to the same bits on any number of
 * threads.
 *
 * A network takes 50 steps on 1, 2, 3 and 8 threads, on batches whose last chunk is smaller than the others,
 * then infers a batch that is smaller still. What is compared is bytes: two zeros of different signs differ.
 * STRIDE_FAST takes 5 steps, for processors that are emulated. */
#include "tests/support.h"

#include "nn/loss.h"
#include "nn/net.h"
#include "nn/optim.h"

#include <stdlib.h>
#include <string.h>

enum { CLASSES = 10 };

static uint64_t steps;

/* ---- networks ------------------------------------------------------------------------------------ */

/* LeCun et al. 1998, with the layers of today; in its own size. */
static net *lenet5(void)
{
    return net_new(SHAPE(1, 28, 28),
                   layer_conv2d((conv2d){ .out_channels = 6, .kernel = { 5, 5 }, .padding = { 2, 2 } }),
                   layer_relu(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
                   layer_conv2d((conv2d){ .out_channels = 16, .kernel = { 5, 5 } }), layer_relu(),
                   layer_maxpool((maxpool){ .kernel = { 2, 2 } }), layer_flatten(),
                   layer_dense((dense){ .out_features = 120 }), layer_relu(),
                   layer_dense((dense){ .out_features = 84 }), layer_relu(),
                   layer_dense((dense){ .out_features = CLASSES }));
}

/* PyTorch's MNIST example, on images of 8×8. */
static net *example(void)
{
    return net_new(SHAPE(1, 8, 8), layer_conv2d((conv2d){ .out_channels = 32, .kernel = { 3, 3 } }),
                   layer_relu(), layer_conv2d((conv2d){ .out_channels = 64, .kernel = { 3, 3 } }),
                   layer_relu(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }), layer_dropout(0.25),
                   layer_flatten(), layer_dense((dense){ .out_features = 128 }), layer_relu(),
                   layer_dropout(0.5), layer_dense((dense){ .out_features = CLASSES }));
}

static layer *convolution(int channels)
{
    return layer_conv2d(
        (conv2d){ .out_channels = channels, .kernel = { 3, 3 }, .padding = { 1, 1 }, .no_bias = true });
}

/* Pairs of convolutions, each followed by batch normalisation, on images of 6×6. */
static net *bnnet(void)
{
    return net_new(SHAPE(1, 6, 6), convolution(32), layer_batchnorm((batchnorm){ 0 }), layer_relu(),
                   convolution(32), layer_batchnorm((batchnorm){ 0 }), layer_relu(),
                   layer_maxpool((maxpool){ .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 } }),
                   convolution(64), layer_batchnorm((batchnorm){ 0 }), layer_relu(), convolution(64),
                   layer_batchnorm((batchnorm){ 0 }), layer_relu(),
                   layer_adaptive_avgpool((adaptive_avgpool){ 0 }), layer_flatten(),
                   layer_dense((dense){ .out_features = CLASSES }));
}

static net *mlp(void)
{
    return net_new(SHAPE(784), layer_dense((dense){ .out_features = 256 }), layer_relu(),
                   layer_dense((dense){ .out_features = 256 }), layer_relu(),
                   layer_dense((dense){ .out_features = CLASSES }));
}

/* ---- bits ---------------------------------------------------------------------------------------- */

/* What a net comes to: its parameters and states, and what it infers with them. */
typedef struct outcome {
    tensor parameters, states, outputs;
} outcome;

static tensor images(const net *n, ptrdiff_t count, uint64_t number)
{
    shape s = { .rank = n->input.rank + 1, .n = { count } };
    memcpy(s.n + 1, n->input.n, (size_t)n->input.rank * sizeof *s.n);
    tensor x = tensor_new(s);
    tensor_normal(x, (random_key){ 9, number }, 0, 1);
    return x;
}

static void train(net *n, ptrdiff_t batch)
{
    optim *o = optim_sgd((sgd){ .lr = 0.02, .momentum = 0.9 });
    tensor target = tensor_new(SHAPE(batch)), dy = tensor_new(SHAPE(batch, CLASSES));
    for (uint64_t step = 0; step < steps; step++) {
        tensor x = images(n, batch, step);
        dice d = { { 8, step } };
        roll_elements(&d, target, 0, CLASSES - 1);
        net_zero_gradients(n);
        loss_value(loss_cross_entropy(0), net_forward(n, x, NET_TRAIN), target, dy);
        assert_int_equal(net_backward(n, dy, (tensor){ 0 }), 0);
        assert_int_equal(optim_step(o, o->lr, net_parameters(n), net_gradients(n)), 0);
        tensor_free(x);
    }
    tensor_free(target), tensor_free(dy);
    optim_free(o);
}

static void use_threads(int threads)
{
    parallel_set_threads(threads);
}

static outcome outcome_of(net *make(void), ptrdiff_t batch, int threads)
{
    use_threads(threads);
    net *n = make();
    assert_non_null(n);
    assert_int_equal(net_build(n, batch, 1), 0);
    train(n, batch);
    tensor x = images(n, batch - 5, steps);
    outcome o = { tensor_clone(net_parameters(n)), tensor_clone(net_states(n)),
                  tensor_clone(net_forward(n, x, NET_INFER)) };
    tensor_free(x);
    net_free(n);
    return o;
}

static void outcome_free(outcome o)
{
    tensor_free(o.parameters), tensor_free(o.states), tensor_free(o.outputs);
}

static void same_bits(const char *what, int threads, tensor x, tensor one)
{
    ptrdiff_t count = tensor_count(one);
    assert_int_equal(tensor_count(x), count);
    if (count == 0 || memcmp(tensor_data(x), tensor_data(one), (size_t)count * sizeof(real)) == 0) return;
    ptrdiff_t e = 0, other = 0, first = -1;
    for (; e < count; e++) {
        if (memcmp(tensor_data(x) + e, tensor_data(one) + e, sizeof(real)) == 0) continue;
        if (first < 0) first = e;
        other++;
    }
    fail_msg("%s: %td of %td differ between %d threads and one, the first is number %td: %.17g and %.17g",
             what, other, count, threads, first, (double)tensor_data(x)[first],
             (double)tensor_data(one)[first]);
}

/* Comparing NaN with NaN, or weights that never moved, would prove nothing. */
static void is_trained(outcome o, net *make(void), ptrdiff_t batch)
{
    net *n = make();
    assert_int_equal(net_build(n, batch, 1), 0);
    ptrdiff_t count = tensor_count(o.parameters), moved = 0;
    for (ptrdiff_t e = 0; e < count; e++) {
        assert_true(tensor_data(o.parameters)[e] - tensor_data(o.parameters)[e] == 0); /* is finite */
        moved += tensor_data(o.parameters)[e] != tensor_data(net_parameters(n))[e];
    }
    if (moved < count / 2) fail_msg("only %td of %td parameters moved", moved, count);
    net_free(n);
}

static void trains_to_the_same_bits(net *make(void), ptrdiff_t batch)
{
    const int threads[] = { 2, 3, 8 };
    outcome one = outcome_of(make, batch, 1);
    is_trained(one, make, batch);
    for (int i = 0; i < 3; i++) {
        outcome many = outcome_of(make, batch, threads[i]);
        same_bits("parameters", threads[i], many.parameters, one.parameters);
        same_bits("states", threads[i], many.states, one.states);
        same_bits("outputs", threads[i], many.outputs, one.outputs);
        outcome_free(many);
    }
    outcome_free(one);
}

/* ---- products ------------------------------------------------------------------------------------ */

/* Only where BLAS brings an OpenMP of its own. */
#if !defined(__APPLE__)
extern void omp_set_num_threads(int threads) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));
#else
static void (*const omp_set_num_threads)(int threads) = NULL;
static int (*const omp_get_max_threads)(void) = NULL;
#endif

/* With so many threads for BLAS, if it asks OpenMP. */
static tensor product(int threads)
{
    if (omp_set_num_threads) omp_set_num_threads(threads);
    tensor a = tensor_new(SHAPE(120, 210)), b = tensor_new(SHAPE(210, 90)), c = tensor_new(SHAPE(120, 90));
    tensor_normal(a, (random_key){ 7, 1 }, 0, 1), tensor_normal(b, (random_key){ 7, 2 }, 0, 1);
    tensor_gemm(c, 1, a, b, 0);
    tensor_free(a), tensor_free(b);
    return c;
}

/* The first to call BLAS, which some make an occasion to change the caller's number of threads. */
static void products_take_one_thread_and_leave_the_number_of_others_alone(void **state)
{
    tensor many = product(7);
    if (omp_get_max_threads) assert_int_equal(omp_get_max_threads(), 7);
    tensor one = product(1);
    if (omp_get_max_threads) assert_int_equal(omp_get_max_threads(), 1);
    same_bits("products", 7, many, one);
    tensor_free(one), tensor_free(many);
}

/* ---- claims -------------------------------------------------------------------------------------- */

/* Chunks are of 8 images, a dense layer's of 32, and the last one is smaller. Each kind makes three chunks or
 * more in one of the nets: of two gradients the sum is the same in either order. */

static void lenet5_is_the_same_on_any_number_of_threads(void **state)
{
    trains_to_the_same_bits(lenet5, 37);
}

static void example_is_the_same_on_any_number_of_threads(void **state)
{
    trains_to_the_same_bits(example, 37);
}

static void bnnet_is_the_same_on_any_number_of_threads(void **state)
{
    trains_to_the_same_bits(bnnet, 21);
}

static void mlp_is_the_same_on_any_number_of_threads(void **state)
{
    trains_to_the_same_bits(mlp, 69);
}

int main(void)
{
    share_all_work();
    const char *fast = getenv("STRIDE_FAST");
    steps = fast && *fast ? 5 : 50;
    const struct CMUnitTest tests[] = {
        CLAIM(products_take_one_thread_and_leave_the_number_of_others_alone),
        CLAIM(lenet5_is_the_same_on_any_number_of_threads),
        CLAIM(example_is_the_same_on_any_number_of_threads),
        CLAIM(bnnet_is_the_same_on_any_number_of_threads),
        CLAIM(mlp_is_the_same_on_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
