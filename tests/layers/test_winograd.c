/* test_winograd.c: Winograd's ways to compute a convolution, whichever conv2d would choose for the case.
 *
 * Their factors and divisors are powers of two and small integers, so that small integers come out exactly; the oracle
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

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_conv2d_options *o = l->options;
    int three[2] = { 3, 3 }, one[2] = { 1, 1 };
    window w;
    if (window_plan(&w, l, x, three, one, WINDOW_PADDING(o), one, false)) return -1;
    *y = ST_SHAPE(x.n[0], o->out_channels, w.out[0], w.out[1]);
    if (st_layer_parameter(l, "weight", ST_SHAPE(o->out_channels, x.n[1], 3, 3), (st_init){ .uniform = 1 }))
        return -1;
    l->y = *y;
    return way->plan(l, &(conv_plan){ w });
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    way->hooks.forward(c, x, y);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    way->hooks.backward(c, x, y, dy, dx);
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    way->hooks.gradient(c, x, y, dy);
}

static const st_field fields[] = {
    { "out_channels", ST_FIELD_INT, offsetof(st_conv2d_options, out_channels), .least = 1 },
    { "padding", ST_FIELD_PAIR, offsetof(st_conv2d_options, padding) },
    { 0 },
};

static const st_layer_type winograd = {
    .name = "winograd",
    .options_size = sizeof(st_conv2d_options),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
};

static st_conv2d_options options(ptrdiff_t out, int above, int left)
{
    return (st_conv2d_options){ .out_channels = (int)out, .kernel = { 3, 3 }, .padding = { above, left } };
}

static st_layer *built(st_conv2d_options o, st_shape x)
{
    st_layer *l = st_layer_new(&winograd, &o, 0, NULL);
    assert_non_null(l);
    if (st_layer_build(l, x, 1)) fail_msg("%s", st_error());
    st_layer_mode(l, true, 1, 1);
    return l;
}

/* For tiles of 2x2 and of 4x4. */
static void each_way(void (*claim)(void))
{
    static const layer_algorithm *const ways[] = { &conv_winograd_2, &conv_winograd_4 };
    for (int i = 0; i < 2; i++) {
        way = ways[i];
        claim();
    }
    use_engine(NULL);
}

/* ---- passes ------------------------------------------------------------------------------------------ */

static void run(st_layer *l, st_tensor x, st_tensor dy, st_tensor y, st_tensor dx)
{
    st_layer_spoil_scratch(l);
    st_layer_forward(l, x, y);
    st_layer_spoil_scratch(l);
    st_layer_backward(l, x, y, dy, dx);
}

static void check_engine(st_conv2d_options o, st_tensor x, st_tensor weight, st_tensor dy, naive want)
{
    auto_layer *l = built(o, x.shape);
    about("%s: padding %dx%d of %s to %s", kernel_of(l)->name, o.padding[0], o.padding[1],
          st_shape_text(x.shape).text, st_shape_text(l->y).text);
    auto_tensor y = full(l->y, NAN), dx = full(x.shape, NAN), gradient = st_tensor_clone(want.dweight);
    st_copy(l->param[0], weight);
    st_copy(l->grad[0], weight);
    st_add(gradient, 1, weight);
    run(l, x, dy, y, dx);
    assert_same(y, want.y);
    assert_same(dx, want.dx);
    assert_same(l->grad[0], gradient);
    assert_null(st_error());
}

static void check(dice *d, st_conv2d_options o, st_tensor x)
{
    auto_tensor weight = roll_tensor(d, ST_SHAPE(o.out_channels, x.shape.n[1], 3, 3), -3, 3);
    auto_tensor dy = roll_tensor(d, naive_conv2d_shape(o, x.shape), -3, 3);
    naive want = naive_conv2d(o, x, weight, (st_tensor){ 0 }, dy);
    for (int i = 1; i < ENGINES; i++)
        if (choose_engine(engines[i])) check_engine(o, x, weight, dy, want);
    naive_free(want);
}

static void any_shape_and_view(void)
{
    dice d = { { 1 } };
    for (int i = 0; i < 100; i++) {
        int above = (int)roll(&d, 0, 2), left = (int)roll(&d, 0, 2);
        ptrdiff_t n = chance(&d, 10) ? 17 : roll(&d, 1, 4); /* 17: more than two chunks */
        bool one_sided = chance(&d, 50); /* what is padded at the top is not at the bottom */
        st_shape s = ST_SHAPE(n, roll(&d, 1, 20), roll(&d, above && !one_sided ? 1 : 3, 9),
                              roll(&d, left && !one_sided ? 1 : 3, 9));
        st_conv2d_options o = options((int)roll(&d, 1, 20), one_sided ? 0 : above, one_sided ? 0 : left);
        if (one_sided)
            o.pad_height[0] = above, o.pad_height[1] = 2 - above, o.pad_width[chance(&d, 50)] = left;
        st_tensor whole, x = roll_view(&d, s, &whole);
        if (chance(&d, 50)) {
            st_tensor_free(whole);
            x = whole = st_tensor_new(s);
        }
        roll_elements(&d, x, -4, 4);
        check(&d, o, x);
        st_tensor_free(whole);
    }
}

TEST(integers_are_exact_for_any_shape_and_view)
{
    each_way(any_shape_and_view);
}

/* Sizes are those of the longest vectors; shorter ones end there too. */
static void ends_of_vectors(void)
{
    static const struct {
        int out, padding[2];
        st_shape x;
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
        st_conv2d_options o = options(cases[i].out, cases[i].padding[0], cases[i].padding[1]);
        auto_tensor x = roll_tensor(&d, cases[i].x, -3, 3), whole;
        st_tensor view = roll_view(&d, cases[i].x, &whole);
        check(&d, o, x);
        st_copy(view, x);
        check(&d, o, view);
    }
}

TEST(integers_are_exact_where_vectors_bands_and_blocks_end)
{
    each_way(ends_of_vectors);
}

/* ---- numbers that are no integers -------------------------------------------------------------------- */

/* The root of the mean square of a - b, relative to that of b. */
static double distance(st_tensor a, st_tensor b)
{
    double error = 0, squares = 0;
    for (ptrdiff_t k = 0; k < st_numel(a); k++) {
        error += pow((double)*element(a, k) - (double)*element(b, k), 2);
        squares += pow((double)*element(b, k), 2);
    }
    return sqrt(error / squares);
}

/* Plain sums of 288 products err by 1 to 2.5 epsilon here; tiles of 2x2 by 1.7 to 3.4, of 4x4 by 8 to 11.4. In double
 * a part of it is the oracle's. */
static void errors(void)
{
    const int limit = way == &conv_winograd_4 ? 15 : 5;
    for (int i = 1; i < ENGINES; i++) {
        st_shape s = ST_SHAPE(2, 32, 12, 12);
        st_conv2d_options o = options(32, 1, 1);
        if (!choose_engine(engines[i])) continue;
        auto_layer *l = built(o, s);
        auto_tensor x = st_tensor_new(s), y = full(l->y, NAN), dx = full(s, NAN), dy = st_tensor_new(l->y);
        st_uniform(x, (st_random_key){ 1, 1 }, -1, 1);
        st_uniform(dy, (st_random_key){ 1, 2 }, -1, 1);
        run(l, x, dy, y, dx);
        naive want = naive_conv2d(o, x, l->param[0], (st_tensor){ 0 }, dy);
        double errors[] = { distance(y, want.y), distance(dx, want.dx), distance(l->grad[0], want.dweight) };
        for (int k = 0; k < 3; k++) assert_true(errors[k] <= limit * (double)ST_REAL_EPSILON);
        naive_free(want);
    }
}

TEST(the_error_is_that_of_a_sum)
{
    each_way(errors);
}

/* ---- where it is chosen ------------------------------------------------------------------------------ */

TEST(conv2d_takes_it_where_it_pays)
{
    static const struct {
        st_conv2d_options o;
        st_shape x;
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
    for (int i = 1; i < ENGINES; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases && choose_engine(engines[i]); k++) {
            auto_layer *l = st_conv2d_new(cases[k].o);
            st_shape y;
            assert_int_equal(st_layer_plan(l, cases[k].x, &y), 0);
            about("%s, case %zu", kernel_of(l)->name, k);
            assert_int_equal(conv_winograd_2.suits(l), cases[k].size == 2);
            assert_int_equal(conv_winograd_4.suits(l), cases[k].size == 4);
        }
    use_engine(NULL);
}

/* Through conv2d, with its bias, images of a batch in several chunks; of a size that it cuts into tiles of 2x2, or
 * into those of 4x4, in several blocks. */
static void conv2d_is_exact(ptrdiff_t height, ptrdiff_t width)
{
    dice d = { { 3 } };
    st_conv2d_options o = options(24, 1, 1);
    auto_tensor x = roll_tensor(&d, ST_SHAPE(17, 16, height, width), -3, 3),
                weight = roll_tensor(&d, ST_SHAPE(24, 16, 3, 3), -3, 3);
    auto_tensor bias = roll_tensor(&d, ST_SHAPE(24), -9, 9),
                dy = roll_tensor(&d, ST_SHAPE(17, 24, height, width), -3, 3);
    naive want = naive_conv2d(o, x, weight, bias, dy);
    for (int i = 1; i < ENGINES; i++) {
        if (!choose_engine(engines[i])) continue;
        auto_layer *l = st_conv2d_new(o);
        assert_int_equal(st_layer_build(l, x.shape, 1), 0);
        st_layer_mode(l, true, 1, 1);
        auto_tensor y = full(l->y, NAN), dx = full(x.shape, NAN);
        st_copy(l->param[0], weight);
        st_copy(l->param[1], bias);
        run(l, x, dy, y, dx);
        assert_same(y, want.y);
        assert_same(dx, want.dx);
        assert_same(l->grad[0], want.dweight);
        assert_same(l->grad[1], want.dbias);
    }
    naive_free(want);
}

TEST(conv2d_is_exact_where_it_takes_it)
{
    conv2d_is_exact(6, 5);
    conv2d_is_exact(16, 15);
    use_engine(NULL);
}
