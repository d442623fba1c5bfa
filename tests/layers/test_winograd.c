/* test_winograd.c: Winograd's ways to compute a convolution, whichever conv2d would choose for the case.
 *
 * What they multiply by and divide by at the end is such that small integers are to come out exactly; the oracle
 * is naive.c. Scratch is filled with NaN before each pass. */
#include "tests/support.h"

#include "layers/conv_impl.h"
#include "nn/gradcheck.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "tensor/machine.h"
#include "tests/layers/naive.h"

#include <math.h>

/* ---- a layer that knows one way alone ---------------------------------------------------------------- */

static const layer_algorithm *way;

static int plan(layer *l, shape x, shape *y)
{
    const conv2d *o = l->options;
    int three[2] = { 3, 3 }, one[2] = { 1, 1 };
    window w;
    if (window_plan(&w, l, x, three, one, o->padding, one, false)) return -1;
    *y = SHAPE(x.n[0], o->out_channels, w.out[0], w.out[1]);
    if (layer_parameter(l, "weight", SHAPE(o->out_channels, x.n[1], 3, 3), (layer_init){ .uniform = 1 }))
        return -1;
    conv_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    p->w = w;
    l->y = *y;
    return way->plan(l);
}

static void forward(const st_call *c, tensor x, tensor y)
{
    way->hooks.forward(c, x, y);
}

static void backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    way->hooks.backward(c, x, y, dy, dx);
}

static void gradient(const st_call *c, tensor x, tensor y, tensor dy)
{
    way->hooks.gradient(c, x, y, dy);
}

static const layer_field fields[] = {
    { "out_channels", FIELD_INT, offsetof(conv2d, out_channels), .least = 1 },
    { "padding", FIELD_PAIR, offsetof(conv2d, padding) },
    { 0 },
};

static const layer_type winograd = {
    .name = "winograd",
    .options_size = sizeof(conv2d),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
};

static conv2d options(ptrdiff_t out, int above, int left)
{
    return (conv2d){ .out_channels = (int)out, .kernel = { 3, 3 }, .padding = { above, left } };
}

static layer *built(conv2d o, shape x)
{
    layer *l = layer_new(&winograd, &o, 0, NULL);
    assert_non_null(l);
    if (layer_build(l, x, 1)) fail_msg("%s", error_text());
    layer_mode(l, true, 1, 1);
    return l;
}

/* ---- machines ---------------------------------------------------------------------------------------- */

static const char *const engines[] = { "avx512", "avx2", "generic" };
enum { ENGINES = sizeof engines / sizeof *engines };

/* Chooses engine i; false where this machine cannot run it. */
static bool available(int i)
{
    bool reference;
    int machine;
    use_engine(engines[i]);
    if (machine_choose(&machine, &reference) == 0) return true;
    error_clear();
    return false;
}

static int begin_2(void **state)
{
    way = &conv_winograd_2;
    return error_none_yet(state);
}

static int begin_4(void **state)
{
    way = &conv_winograd_4;
    return error_none_yet(state);
}

static int end_engines(void **state)
{
    use_engine(NULL);
    return error_none_left(state);
}

/* Of both sizes of tiles, and all engines. */
#define CLAIM_OF_2(function)                                                                                 \
    {                                                                                                        \
#function " (2x2)", function, begin_2, end_engines, NULL                                             \
    }
#define CLAIM_OF_4(function)                                                                                 \
    {                                                                                                        \
#function " (4x4)", function, begin_4, end_engines, NULL                                             \
    }
#define CLAIM_OF_WAYS(function) CLAIM_OF_2(function), CLAIM_OF_4(function)
#define CLAIM_OF_ENGINES(function) cmocka_unit_test_setup_teardown(function, error_none_yet, end_engines)

/* ---- passes ------------------------------------------------------------------------------------------ */

static tensor garbage(shape s)
{
    tensor x = tensor_new(s);
    tensor_fill(x, (real)NAN);
    return x;
}

static void run(layer *l, tensor x, tensor dy, tensor y, tensor dx)
{
    layer_spoil_scratch(l);
    layer_forward(l, x, y);
    layer_spoil_scratch(l);
    layer_backward(l, x, y, dy, dx);
}

static void check_engine(conv2d o, tensor x, tensor weight, tensor dy, naive want)
{
    layer *l = built(o, x.shape);
    about("%s: padding %dx%d of %s to %s", kernel_of(l)->name, o.padding[0], o.padding[1],
          shape_text(x.shape).text, shape_text(l->y).text);
    tensor y = garbage(l->y), dx = garbage(x.shape), gradient = tensor_clone(want.dweight);
    tensor_copy(l->param[0], weight);
    tensor_copy(l->grad[0], weight);
    tensor_add(gradient, 1, weight);
    run(l, x, dy, y, dx);
    assert_same(y, want.y);
    assert_same(dx, want.dx);
    assert_same(l->grad[0], gradient);
    assert_null(error_text());
    tensor_free(y), tensor_free(dx), tensor_free(gradient);
    layer_free(l);
}

static void check(dice *d, conv2d o, tensor x)
{
    tensor weight = roll_tensor(d, SHAPE(o.out_channels, x.shape.n[1], 3, 3), -3, 3);
    tensor dy = roll_tensor(d, naive_conv2d_shape(o, x.shape), -3, 3);
    naive want = naive_conv2d(o, x, weight, (tensor){ 0 }, dy);
    for (int i = 0; i < ENGINES; i++)
        if (available(i)) check_engine(o, x, weight, dy, want);
    naive_free(want);
    tensor_free(weight), tensor_free(dy);
}

static void integers_are_exact_for_any_shape_and_view(void **state)
{
    (void)state;
    dice d = { { 1 } };
    for (int i = 0; i < 100; i++) {
        int above = (int)roll(&d, 0, 2), left = (int)roll(&d, 0, 2);
        ptrdiff_t n = chance(&d, 10) ? 17 : roll(&d, 1, 4); /* 17: more than two chunks */
        shape s = SHAPE(n, roll(&d, 1, 20), roll(&d, above ? 1 : 3, 9), roll(&d, left ? 1 : 3, 9));
        tensor whole, x = roll_view(&d, s, &whole);
        if (chance(&d, 50)) {
            tensor_free(whole);
            x = whole = tensor_new(s);
        }
        roll_elements(&d, x, -4, 4);
        check(&d, options(roll(&d, 1, 20), above, left), x);
        tensor_free(whole);
    }
}

/* Of the engine with the longest vectors, and of others as their vectors are a part of those. */
static void integers_are_exact_where_vectors_bands_and_blocks_end(void **state)
{
    (void)state;
    static const struct {
        int out, padding[2];
        shape x;
    } cases[] = {
        { 16, { 1, 1 }, { 4, { 8, 16, 14, 14 } } }, /* vectors are full */
        { 33, { 1, 0 }, { 4, { 3, 17, 9, 8 } } },   /* one channel more */
        { 15, { 0, 2 }, { 4, { 8, 31, 7, 10 } } },  /* one less */
        { 3, { 1, 1 }, { 4, { 2, 70, 33, 33 } } },  /* several bands of x */
        { 70, { 2, 1 }, { 4, { 2, 3, 32, 30 } } },  /* several bands of y */
        { 2, { 1, 1 }, { 4, { 2, 2, 3, 2500 } } },  /* a row of an image is more than a band */
        { 130, { 1, 1 }, { 4, { 3, 129, 7, 9 } } }, /* the smallest block */
        { 1, { 2, 2 }, { 4, { 1, 1, 1, 1 } } },     /* a pixel, and windows that see it in their corners */
        { 4, { 0, 0 }, { 4, { 1, 4, 3, 3 } } },     /* one window */
    };
    dice d = { { 2 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        conv2d o = options(cases[i].out, cases[i].padding[0], cases[i].padding[1]);
        tensor x = roll_tensor(&d, cases[i].x, -3, 3), whole, view = roll_view(&d, cases[i].x, &whole);
        check(&d, o, x);
        tensor_copy(view, x);
        check(&d, o, view);
        tensor_free(x), tensor_free(whole);
    }
}

/* ---- numbers that are no integers -------------------------------------------------------------------- */

static double dot(tensor a, tensor b)
{
    double sum = 0;
    for (ptrdiff_t k = 0; k < tensor_count(a); k++) sum += (double)*element(a, k) * (double)*element(b, k);
    return sum;
}

static void assert_close(double value, double expected, double limit)
{
    if (fabs(value - expected) > limit) fail_msg("%.17g, expected %.17g within %g", value, expected, limit);
}

/* <f(x), dy> = <x, fᵀ(dy)> = <weight, gradient>: the derivatives, of a function that is linear in both. */
static void backward_and_gradient_are_adjoint_to_forward(void **state)
{
    (void)state;
    for (int i = 0; i < ENGINES; i++)
        for (int padding = 0; padding < 3; padding++) {
            shape s = SHAPE(9, 18, 7, 10);
            if (!available(i)) continue;
            layer *l = built(options(20, padding, 2 - padding), s);
            tensor x = tensor_new(s), y = garbage(l->y), dx = garbage(s), dy = tensor_new(l->y);
            tensor_uniform(x, (random_key){ 1, 1 }, -1, 1);
            tensor_uniform(dy, (random_key){ 1, 2 }, -1, 1);
            run(l, x, dy, y, dx);
            double product = dot(y, dy), limit = 4 * (double)REAL_EPSILON * sqrt(dot(y, y) * dot(dy, dy));
            assert_close(dot(x, dx), product, limit);
            assert_close(dot(l->param[0], l->grad[0]), product, limit);
            tensor_free(x), tensor_free(y), tensor_free(dx), tensor_free(dy);
            layer_free(l);
        }
}

/* The root of the mean square of a - b, relative to that of b. */
static double distance(tensor a, tensor b)
{
    double error = 0;
    for (ptrdiff_t k = 0; k < tensor_count(a); k++) {
        double difference = (double)*element(a, k) - (double)*element(b, k);
        error += difference * difference;
    }
    return sqrt(error / dot(b, b));
}

/* Plain sums of 288 products err by 1 to 2.5 epsilon here; tiles of 2x2 by 1.7 to 3.4, of 4x4 by 8 to 11.4. In double
 * a part of it is the oracle's. */
static void the_error_is_that_of_a_sum(void **state)
{
    (void)state;
    const int limit = way == &conv_winograd_4 ? 15 : 5;
    for (int i = 0; i < ENGINES; i++) {
        shape s = SHAPE(2, 32, 12, 12);
        conv2d o = options(32, 1, 1);
        if (!available(i)) continue;
        layer *l = built(o, s);
        tensor x = tensor_new(s), y = garbage(l->y), dx = garbage(s), dy = tensor_new(l->y);
        tensor_uniform(x, (random_key){ 1, 1 }, -1, 1);
        tensor_uniform(dy, (random_key){ 1, 2 }, -1, 1);
        run(l, x, dy, y, dx);
        naive want = naive_conv2d(o, x, l->param[0], (tensor){ 0 }, dy);
        double errors[] = { distance(y, want.y), distance(dx, want.dx), distance(l->grad[0], want.dweight) };
        for (int k = 0; k < 3; k++) assert_close(errors[k], 0, limit * (double)REAL_EPSILON);
        naive_free(want);
        tensor_free(x), tensor_free(y), tensor_free(dx), tensor_free(dy);
        layer_free(l);
    }
}

static void its_gradients_are_those_of_differences(void **state)
{
    (void)state;
    for (int i = 0; i < ENGINES; i++) {
        conv2d o = options(5, 1, 0);
        if (!available(i)) continue;
        layer *l = layer_new(&winograd, &o, 0, NULL);
        gradcheck_result r = gradcheck_layer(l, SHAPE(9, 3, 5, 6), (gradcheck){ .most = 40 });
        if (!r.passed) fail_msg("%s", r.text);
        layer_free(l);
    }
}

/* ---- where it is chosen ------------------------------------------------------------------------------ */

static void conv2d_takes_it_where_it_pays(void **state)
{
    (void)state;
    static const struct {
        conv2d o;
        shape x;
        int size; /* of the tiles; 0: it is not taken */
    } cases[] = {
        { { .out_channels = 64, .kernel = { 3, 3 } }, { 4, { 64, 32, 26, 26 } }, 4 },
        { { .out_channels = 64, .kernel = { 3, 3 } },
          { 4, { 8, 64, 8, 8 } },
          2 }, /* much beyond the border */
        { { .out_channels = 64, .kernel = { 3, 3 }, .padding = { 1, 1 } }, { 4, { 1, 64, 14, 14 } }, 2 },
        { { .out_channels = 64, .kernel = { 3, 3 }, .padding = { 1, 1 } }, { 4, { 8, 64, 14, 14 } }, 4 },
        { { .out_channels = 64, .kernel = { 3, 3 }, .padding = { 3, 1 } }, { 4, { 8, 64, 14, 14 } }, 0 },
        { { .out_channels = 64, .kernel = { 3, 3 }, .stride = { 1, 2 } }, { 4, { 8, 64, 14, 14 } }, 0 },
        { { .out_channels = 64, .kernel = { 3, 3 }, .dilation = { 2, 1 } }, { 4, { 8, 64, 14, 14 } }, 0 },
        { { .out_channels = 64, .kernel = { 3, 3 }, .groups = 2 }, { 4, { 8, 64, 14, 14 } }, 0 },
        { { .out_channels = 64, .kernel = { 3, 5 } }, { 4, { 8, 64, 14, 14 } }, 0 },
        { { .out_channels = 64, .kernel = { 3, 3 } }, { 4, { 8, 3, 32, 32 } }, 0 }, /* few channels */
        { { .out_channels = 8, .kernel = { 3, 3 } }, { 4, { 8, 64, 32, 32 } }, 0 },
        { { .out_channels = 64, .kernel = { 3, 3 } }, { 4, { 1, 64, 7, 7 } }, 0 }, /* few tiles */
    };
    for (int i = 0; i < ENGINES; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases && available(i); k++) {
            layer *l = layer_conv2d(cases[k].o);
            shape y;
            assert_int_equal(layer_plan(l, cases[k].x, &y), 0);
            about("%s, case %zu", kernel_of(l)->name, k);
            assert_int_equal(conv_winograd_2.suits(l), cases[k].size == 2);
            assert_int_equal(conv_winograd_4.suits(l), cases[k].size == 4);
            layer_free(l);
        }
}

/* Through conv2d, with its bias, images of a batch in several chunks; of a size that it cuts into tiles of 2x2, or
 * into those of 4x4, in several blocks. */
static void conv2d_is_exact(ptrdiff_t height, ptrdiff_t width)
{
    dice d = { { 3 } };
    conv2d o = options(24, 1, 1);
    tensor x = roll_tensor(&d, SHAPE(17, 16, height, width), -3, 3),
           weight = roll_tensor(&d, SHAPE(24, 16, 3, 3), -3, 3);
    tensor bias = roll_tensor(&d, SHAPE(24), -9, 9),
           dy = roll_tensor(&d, SHAPE(17, 24, height, width), -3, 3);
    naive want = naive_conv2d(o, x, weight, bias, dy);
    for (int i = 0; i < ENGINES; i++) {
        if (!available(i)) continue;
        layer *l = layer_conv2d(o);
        assert_int_equal(layer_build(l, x.shape, 1), 0);
        layer_mode(l, true, 1, 1);
        tensor y = garbage(l->y), dx = garbage(x.shape);
        tensor_copy(l->param[0], weight);
        tensor_copy(l->param[1], bias);
        run(l, x, dy, y, dx);
        assert_same(y, want.y);
        assert_same(dx, want.dx);
        assert_same(l->grad[0], want.dweight);
        assert_same(l->grad[1], want.dbias);
        tensor_free(y), tensor_free(dx);
        layer_free(l);
    }
    naive_free(want);
    tensor_free(x), tensor_free(weight), tensor_free(bias), tensor_free(dy);
}

static void conv2d_is_exact_where_it_takes_it(void **state)
{
    (void)state;
    conv2d_is_exact(6, 5);
    conv2d_is_exact(16, 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM_OF_WAYS(integers_are_exact_for_any_shape_and_view),
        CLAIM_OF_WAYS(integers_are_exact_where_vectors_bands_and_blocks_end),
        CLAIM_OF_WAYS(backward_and_gradient_are_adjoint_to_forward),
        CLAIM_OF_WAYS(its_gradients_are_those_of_differences),
        CLAIM_OF_WAYS(the_error_is_that_of_a_sum),
        CLAIM_OF_ENGINES(conv2d_takes_it_where_it_pays),
        CLAIM_OF_ENGINES(conv2d_is_exact_where_it_takes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
