/* test_layers.c: numbers worked out by hand, functions far from zero, masks of dropout, sequences. That layers are
 * their definitions for any options is for test_cases.c.
 *
 * Data are small integers, so sums and products are exact in both precisions and results are compared for equality;
 * where a result cannot be exact, the tolerance stands with its reason. */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include "tests/support.h"

#include "layers/layers.h"
#include "layers/window.h"
#include "tests/layers/naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One image, several, and 19: more than two chunks of 8. */
static ptrdiff_t roll_batch(dice *d)
{
    return chance(d, 25) ? 19 : chance(d, 30) ? 1 : roll(d, 2, 6);
}

/* ---- comparing a layer with what it should make ---------------------------------------------- */

/* NaN, which nothing that is added to it or multiplied with it takes away. */
static st_tensor garbage(st_shape s)
{
    st_tensor x = st_tensor_new(s);
    st_fill(x, (st_real)NAN);
    return x;
}

static void about_layer(const st_layer *l, st_shape x, const char *view)
{
    char text[160];
    st_layer_describe(l, text, sizeof text);
    about("%s of %s %s", text, view, st_shape_text(x).text);
}

static void build(st_layer *l, st_shape x)
{
    assert_non_null(l);
    if (st_layer_build(l, x, 1)) fail_msg("%s", st_error());
    st_layer_mode(l, true, 1, 1);
}

static double dot(st_tensor a, st_tensor b)
{
    double sum = 0;
    assert_string_equal(st_shape_text(a.shape).text, st_shape_text(b.shape).text);
    for (ptrdiff_t k = 0; k < st_numel(a); k++) sum += (double)*element(a, k) * (double)*element(b, k);
    return sum;
}

static void assert_close(double value, double expected, double limit)
{
    if (fabs(value - expected) <= limit) return;
    fail_msg("%.17g, expected %.17g within %g", value, expected, limit);
}

/* ---- convolution ----------------------------------------------------------------------------- */

/* Options, and a shape that they fit: exactly, or with up to 6 rows and columns to spare. */
static st_conv2d_options roll_conv2d(dice *d, st_shape *x)
{
    st_conv2d_options o = { .groups = (int)roll(d, 0, 3), .no_bias = chance(d, 30) };
    int groups = o.groups ? o.groups : 1;
    o.out_channels = groups * (int)roll(d, 1, 3);
    *x = ST_SHAPE(roll_batch(d), groups * roll(d, 1, 3), 0, 0);
    bool point = chance(d, 15); /* 1x1, whose image is its own matrix */
    for (int axis = 0; axis < 2; axis++) {
        o.kernel[axis] = point ? 1 : (int)roll(d, 1, 4);
        o.stride[axis] = point ? 1 : (int)roll(d, axis && o.stride[0] ? 1 : 0, o.kernel[axis] + 2);
        o.dilation[axis] = (int)roll(d, axis && o.dilation[0] ? 1 : 0, 3);
        int reach = (o.dilation[axis] ? o.dilation[axis] : 1) * (o.kernel[axis] - 1) + 1;
        o.padding[axis] = chance(d, 40) ? 0 : (int)roll(d, 0, reach);
        int least = reach - 2 * o.padding[axis];
        x->n[2 + axis] = (least > 1 ? least : 1) + roll(d, 0, 6);
    }
    return o;
}

/* Worked out by hand: the kernel is not mirrored, channels are summed, the bias is added once. */
TEST(conv2d_is_a_cross_correlation)
{
    st_layer *l = st_conv2d(.out_channels = 1, .kernel = { 1, 3 });
    st_tensor x = tensor_of(ST_SHAPE(1, 2, 1, 4), 1, 2, 3, 4, 10, 20, 30, 40),
              y = garbage(ST_SHAPE(1, 1, 1, 2));
    build(l, x.shape);
    st_tensor w = tensor_of(ST_SHAPE(1, 2, 1, 3), 1, 0, -2, 0, 1, 0), b = tensor_of(ST_SHAPE(1), 100);
    st_copy(l->param[0], w);
    st_copy(l->param[1], b);
    st_layer_forward(l, x, y);
    assert_elements(y, 1 - 6 + 20 + 100, 2 - 8 + 30 + 100);
    st_tensor dy = tensor_of(ST_SHAPE(1, 1, 1, 2), 1, 3), dx = garbage(x.shape);
    st_layer_backward(l, x, y, dy, dx);
    assert_elements(dx, 1, 3, -2, -6, 0, 1, 3, 0);
    assert_elements(l->grad[0], 1 + 6, 2 + 9, 3 + 12, 10 + 60, 20 + 90, 30 + 120);
    assert_elements(l->grad[1], 4);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(w), st_tensor_free(b), st_tensor_free(dy),
        st_tensor_free(dx);
    st_layer_free(l);
}

/* ---- the windows themselves ------------------------------------------------------------------ */

static void about_window(const window *w, bool ceil_mode)
{
    about("kernel %dx%d stride %dx%d padding %tdx%td dilation %dx%d %s of %tdx%td", w->kernel[0],
          w->kernel[1], w->stride[0], w->stride[1], w->before[0], w->before[1], w->dilation[0],
          w->dilation[1], ceil_mode ? "ceil" : "floor", w->size[0], w->size[1]);
}

/* im2col(image), and col2im(columns), by definition. */
static void columns_by_definition(naive_axis h, naive_axis w, st_tensor image, st_tensor columns,
                                  st_tensor want, st_tensor want_sum)
{
    for (ptrdiff_t k = 0; k < st_numel(columns); k++) {
        st_shape at = index_of(columns.shape, k); /* [C, KH, KW, OH, OW] */
        ptrdiff_t row = naive_place(h, at.n[3], at.n[1]), column = naive_place(w, at.n[4], at.n[2]);
        if (row < 0 || row >= h.size || column < 0 || column >= w.size) continue;
        *element(want, k) = *st_at(image, ST_INDEX(at.n[0], row, column));
        *st_at(want_sum, ST_INDEX(at.n[0], row, column)) += *element(columns, k);
    }
}

TEST(im2col_and_col2im_are_their_definitions_and_adjoint)
{
    dice d = { { 4 } };
    st_layer *l = st_relu(); /* only to be named in messages */
    for (int i = 0; i < 200; i++) {
        st_shape s;
        st_conv2d_options o = roll_conv2d(&d, &s);
        naive_axis h = naive_conv2d_axis(o, s, 0), v = naive_conv2d_axis(o, s, 1);
        bool as_pooling =
            h.padding <= h.dilation * (h.kernel - 1) && v.padding <= v.dilation * (v.kernel - 1);
        bool ceil_mode = h.ceil_mode = v.ceil_mode = as_pooling && chance(&d, 50);
        window w;
        int stride[2] = { (int)h.stride, (int)v.stride }, dilation[2] = { (int)h.dilation, (int)v.dilation };
        assert_int_equal(window_plan(&w, l, s, o.kernel, stride, WINDOW_PADDING(&o), dilation, ceil_mode), 0);
        about_window(&w, ceil_mode);
        assert_int_equal(w.out[0], naive_windows(h));
        assert_int_equal(w.out[1], naive_windows(v));

        st_tensor image = roll_tensor(&d, ST_SHAPE(s.n[1], s.n[2], s.n[3]), -9, 9);
        st_shape c = ST_SHAPE(s.n[1], o.kernel[0], o.kernel[1], w.out[0], w.out[1]);
        st_tensor columns = garbage(c), other = roll_tensor(&d, c, -9, 9), sum = garbage(image.shape);
        st_tensor padded = st_tensor_new(window_padded_shape(&w, s.n[1]));
        st_tensor want = st_tensor_new(c), want_sum = st_tensor_new(image.shape);
        columns_by_definition(h, v, image, other, want, want_sum);
        window_im2col(&w, columns, image, padded);
        assert_same(columns, want);
        st_fill(padded, (st_real)NAN); /* scratch holds anything */
        window_col2im(&w, sum, other, padded);
        assert_same(sum, want_sum);
        assert_close(dot(columns, other), dot(image, sum), 0);
        st_tensor_free(image), st_tensor_free(columns), st_tensor_free(other), st_tensor_free(sum);
        st_tensor_free(padded), st_tensor_free(want), st_tensor_free(want_sum);
    }
    st_layer_free(l);
}

/* ---- pooling --------------------------------------------------------------------------------- */

typedef struct pool_geometry {
    int kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode;
} pool_geometry;

#define POOL_OF(type, g, ...)                                                                                \
    ((type){ .kernel = { (g).kernel[0], (g).kernel[1] },                                                     \
             .stride = { (g).stride[0], (g).stride[1] },                                                     \
             .padding = { (g).padding[0], (g).padding[1] },                                                  \
             .dilation = { (g).dilation[0], (g).dilation[1] },                                               \
             .ceil_mode = (g).ceil_mode,                                                                     \
             __VA_ARGS__ })

static double largest(st_tensor x)
{
    double most = 0;
    for (ptrdiff_t k = 0; k < st_numel(x); k++) most = fmax(most, fabs((double)*element(x, k)));
    return most;
}

/* ---- what PyTorch's rules for pooling come to, worked out by hand ---------------------------- */

typedef struct line_case { /* pooling of 1 … `size` in one row */
    pool_geometry g;
    ptrdiff_t size;
    int count;
    double max[5], include[5], exclude[5]; /* outputs of maxpool, and of avgpool with and without padding */
} line_case;

/* The comment shows what windows see: 0 is padding, - what ceil_mode hangs over. */
/* clang-format off */
static const line_case line_cases[] = {
    /* 1 2, 3 4 */
    { { { 1, 2 } }, 5, 2, { 2, 4 }, { 1.5, 3.5 }, { 1.5, 3.5 } },
    /* 1 2, 3 4, 5 - */
    { { { 1, 2 }, .ceil_mode = true }, 5, 3, { 2, 4, 5 }, { 1.5, 3.5, 5 }, { 1.5, 3.5, 5 } },
    /* 0 1, 2 3, 4 5, and none that begins in the right padding */
    { { { 1, 2 }, .padding = { 0, 1 }, .ceil_mode = true }, 5, 3, { 1, 3, 5 }, { 0.5, 2.5, 4.5 },
      { 1, 2.5, 4.5 } },
    /* 0 1 2 3, 4 5 6 0: the right padding counts */
    { { { 1, 4 }, .padding = { 0, 1 } }, 6, 2, { 3, 6 }, { 1.5, 3.75 }, { 2, 5 } },
    /* 0 1 2 3, 4 5 0 -: of two places outside the image one is padding */
    { { { 1, 4 }, .padding = { 0, 1 }, .ceil_mode = true }, 5, 2, { 3, 5 }, { 1.5, 3 }, { 2, 4.5 } },
    /* 1, 4, and none that begins outside the image */
    { { { 1, 1 }, .stride = { 1, 3 }, .ceil_mode = true }, 5, 2, { 1, 4 }, { 1, 4 }, { 1, 4 } },
    /* 1 3 5, 3 5 7 */
    { { { 1, 3 }, .stride = { 1, 2 }, .dilation = { 1, 2 } }, 7, 2, { 5, 7 }, { 3, 5 }, { 3, 5 } },
    /* 1 2 3 4 */
    { { .ceil_mode = false }, 4, 1, { 4 }, { 2.5 }, { 2.5 } },
};
/* clang-format on */

static void pool_line(st_layer *l, st_tensor x, int count, const double *expected)
{
    build(l, x.shape);
    about_layer(l, x.shape, "plain");
    assert_string_equal(st_shape_text(l->y).text, st_shape_text(ST_SHAPE(1, 1, 1, count)).text);
    st_tensor y = garbage(l->y);
    st_layer_forward(l, x, y);
    assert_list_at(y, count, expected, __FILE__, __LINE__);
    st_tensor_free(y);
    st_layer_free(l);
}

TEST(pooling_sizes_and_divisors_follow_pytorch)
{
    for (size_t i = 0; i < sizeof line_cases / sizeof line_cases[0]; i++) {
        line_case c = line_cases[i];
        st_tensor x = st_tensor_new(ST_SHAPE(1, 1, 1, c.size));
        for (ptrdiff_t k = 0; k < c.size; k++) *element(x, k) = (st_real)(k + 1);
        pool_line(st_maxpool_new(POOL_OF(st_maxpool_options, c.g, .pad_value = ST_PAD_LOWEST)), x, c.count,
                  c.max);
        pool_line(st_avgpool_new(POOL_OF(st_avgpool_options, c.g, .count_exclude_pad = false)), x, c.count,
                  c.include);
        pool_line(st_avgpool_new(POOL_OF(st_avgpool_options, c.g, .count_exclude_pad = true)), x, c.count,
                  c.exclude);
        st_tensor_free(x);
    }
}

TEST(small_cases_are_as_worked_out_by_hand)
{
    const st_upsample_options twice = { { 1, 2 }, ST_UPSAMPLE_BILINEAR, false },
                              aligned = { { 1, 2 }, ST_UPSAMPLE_BILINEAR, true };
    /* clang-format off */
    const struct {
        st_layer *l;
        st_shape x, y;
        double in[4], out[8];
    } cases[] = {
        { st_upsample(.scale = { 1, 2 }),
          ST_SHAPE(1, 1, 1, 2), ST_SHAPE(1, 1, 1, 4), { 0, 4 }, { 0, 0, 4, 4 } },
        { st_upsample_new(twice), ST_SHAPE(1, 1, 1, 2), ST_SHAPE(1, 1, 1, 4), { 0, 4 }, { 0, 1, 3, 4 } },
        { st_upsample_new(aligned), ST_SHAPE(1, 1, 1, 2), ST_SHAPE(1, 1, 1, 4), { 0, 3 }, { 0, 1, 2, 3 } },
        { st_pad2d(.width = { 2, 1 }, .mode = ST_PAD_REFLECT),
          ST_SHAPE(1, 1, 1, 3), ST_SHAPE(1, 1, 1, 6), { 1, 2, 3 }, { 3, 2, 1, 2, 3, 2 } },
        { st_pad2d(.width = { 2, 1 }, .mode = ST_PAD_REPLICATE),
          ST_SHAPE(1, 1, 1, 3), ST_SHAPE(1, 1, 1, 6), { 1, 2, 3 }, { 1, 1, 1, 2, 3, 3 } },
        { st_adaptive_avgpool({ 1, 1 }),
          ST_SHAPE(1, 1, 1, 4), ST_SHAPE(1, 1, 1, 1), { 1, 2, 3, 8 }, { 3.5 } },
        { st_adaptive_avgpool({ 1, 2 }),
          ST_SHAPE(1, 1, 1, 3), ST_SHAPE(1, 1, 1, 2), { 1, 2, 3 }, { 1.5, 2.5 } },
        { st_groupnorm(.groups = 2, .epsilon = 1e-14),
          ST_SHAPE(1, 4), ST_SHAPE(1, 4), { 0, 2, 10, 14 }, { -1, 1, -1, 1 } },
        { st_layernorm(.axes = 1, .epsilon = 1e-14),
          ST_SHAPE(1, 2, 2), ST_SHAPE(1, 2, 2), { 0, 2, 10, 14 }, { -1, 1, -1, 1 } },
        { st_conv_transpose2d(1, { 1, 1 }, { 1, 2 }, .output_padding = { 0, 1 }),
          ST_SHAPE(1, 1, 1, 2), ST_SHAPE(1, 1, 1, 4), { 3, 4 }, { 5, 2, 6, 2 } },
        { st_lppool(.kernel = { 1, 2 }, .stride = { 1, 2 }),
          ST_SHAPE(1, 1, 1, 4), ST_SHAPE(1, 1, 1, 2), { 3, -4, 0, 0 }, { 5, 0 } },
        { st_softmax(.axis = 2), ST_SHAPE(1, 2, 2), ST_SHAPE(1, 2, 2), { 0, 0, 3, 3 }, { 0.5, 0.5, 0.5, 0.5 } },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        st_layer *l = cases[i].l;
        about("case %zu", i);
        assert_int_equal(st_layer_build(l, cases[i].x, 1), 0);
        if (l->params == 2 && l->param[0].shape.rank == 4) { /* a convolution: 1 x + 2 */
            st_fill(l->param[0], 1);
            st_fill(l->param[1], 2);
        }
        st_tensor x = tensor_of_list(cases[i].x, st_shape_numel(cases[i].x, "x"), cases[i].in);
        st_tensor expected = tensor_of_list(cases[i].y, st_shape_numel(cases[i].y, "y"), cases[i].out);
        st_tensor y = garbage(cases[i].y);
        st_layer_mode(l, false, 0, 0);
        st_layer_forward(l, x, y);
        assert_near(y, expected, sizeof(st_real) == 4 ? 1e-5 : 1e-12);
        st_tensor_free(x), st_tensor_free(y), st_tensor_free(expected);
        st_layer_free(l);
    }
}

/* ---- maxima: ties, NaN, -inf ----------------------------------------------------------------- */

/* Forward and backward of one row, dy = 1, 2, 3 …; takes the tensors over. */
static void assert_max(st_maxpool_options o, st_tensor x, st_tensor y, st_tensor dx)
{
    st_layer *l = st_maxpool_new(o);
    build(l, x.shape);
    about_layer(l, x.shape, "plain");
    st_tensor out = garbage(y.shape), dy = st_tensor_new(y.shape), dout = garbage(x.shape);
    for (ptrdiff_t k = 0; k < st_numel(dy); k++) *element(dy, k) = (st_real)(k + 1);
    st_layer_forward(l, x, out);
    assert_same(out, y);
    st_layer_backward(l, x, out, dy, dout);
    assert_same(dout, dx);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(dx), st_tensor_free(out), st_tensor_free(dy),
        st_tensor_free(dout);
    st_layer_free(l);
}

static st_tensor row(int count, const double *values)
{
    return tensor_of_list(ST_SHAPE(1, 1, 1, count), count, values);
}

#define ROW(...) row(ST_COUNT(double, __VA_ARGS__), (const double[]){ __VA_ARGS__ })

TEST(of_equal_maxima_the_first_has_the_gradient)
{
    assert_max((st_maxpool_options){ .kernel = { 1, 4 } }, ROW(2, 7, 7, 7), ROW(7), ROW(0, 1, 0, 0));
    assert_max((st_maxpool_options){ .kernel = { 1, 2 }, .stride = { 1, 1 } }, ROW(1, 3, 3), ROW(3, 3),
               ROW(0, 3, 0));
    assert_max((st_maxpool_options){ .kernel = { 2, 2 } }, tensor_of(ST_SHAPE(1, 1, 2, 2), 0, 5, 5, 5),
               tensor_of(ST_SHAPE(1, 1, 1, 1), 5), tensor_of(ST_SHAPE(1, 1, 2, 2), 0, 1, 0, 0));
    assert_max((st_maxpool_options){ .kernel = { 2, 2 } }, tensor_of(ST_SHAPE(1, 1, 2, 2), 0, 1, 5, 5),
               tensor_of(ST_SHAPE(1, 1, 1, 1), 5), tensor_of(ST_SHAPE(1, 1, 2, 2), 0, 0, 1, 0));
}

TEST(windows_that_share_a_maximum_sum_their_gradients)
{
    assert_max((st_maxpool_options){ .kernel = { 1, 3 }, .stride = { 1, 1 } }, ROW(0, 0, 9, 0, 0),
               ROW(9, 9, 9), ROW(0, 0, 6, 0, 0));
}

TEST(nan_is_greater_than_any_number)
{
    const double nan = NAN, inf = INFINITY;
    assert_max((st_maxpool_options){ .kernel = { 1, 4 } }, ROW(1, nan, inf, nan), ROW(nan), ROW(0, 1, 0, 0));
    assert_max((st_maxpool_options){ .kernel = { 1, 4 } }, ROW(nan, 1, nan, inf), ROW(nan), ROW(1, 0, 0, 0));
    assert_max((st_maxpool_options){ .kernel = { 1, 2 } }, ROW(nan, 1, 2, 3), ROW(nan, 3), ROW(1, 0, 0, 2));
}

TEST(padding_is_no_maximum_unless_it_is_zero)
{
    st_maxpool_options o = { .kernel = { 1, 2 }, .padding = { 0, 1 } };
    assert_max(o, ROW(-3, -2), ROW(-3, -2), ROW(1, 2));
    o.pad_value = ST_PAD_LOWEST;
    assert_max(o, ROW(-3, -2), ROW(-3, -2), ROW(1, 2));
    o.pad_value = ST_PAD_ZERO;
    assert_max(o, ROW(-3, -2), ROW(0, 0), ROW(0, 0));
    assert_max(o, ROW(3, 2), ROW(3, 2), ROW(1, 2));
}

TEST(of_minus_infinities_one_in_the_image_has_the_gradient)
{
    const double inf = INFINITY;
    assert_max((st_maxpool_options){ .kernel = { 1, 2 } }, ROW(-inf, -inf), ROW(-inf), ROW(1, 0));
    assert_max((st_maxpool_options){ .kernel = { 1, 2 }, .padding = { 0, 1 } }, ROW(-inf, -inf),
               ROW(-inf, -inf), ROW(1, 2));
}

/* ---- activations ----------------------------------------------------------------------------- */

/* Of any view x, y = f(x), and the derivatives, which is what backward makes of dy = 1. */
static void run_function(const naive_function *f, st_tensor x, st_tensor y, st_tensor slope)
{
    st_layer *l = f->make();
    build(l, x.shape);
    st_tensor dy = st_tensor_new(x.shape);
    st_fill(dy, 1);
    st_layer_forward(l, x, y);
    st_layer_backward(l, x, y, dy, slope);
    st_tensor_free(dy);
    st_layer_free(l);
}

static void assert_function(const char *what, double x, st_real value, double expected, double limit)
{
    if ((double)value == expected || fabs((double)value - expected) <= limit) return;
    fail_msg("%s of %.9g is %.9g, expected %.17g within %g", what, x, (double)value, expected, limit);
}

/* Up to 50 in size, erf, tanh and such are rounded to epsilon of 1, and that may be multiplied with x;
 * beyond, all of them have reached their limits and only the last product is rounded. */
static double function_limit(double x, double expected)
{
    return 8 * (double)ST_REAL_EPSILON * fmax(1, fabs(x) <= 50 ? fabs(x) : fabs(expected));
}

static void check_function(const naive_function *f, st_tensor x)
{
    st_tensor y = garbage(x.shape), slope = garbage(x.shape);
    run_function(f, x, y, slope);
    for (ptrdiff_t k = 0; k < st_numel(x); k++) {
        double at = (double)*element(x, k), value = f->value(at), derivative = f->slope(at);
        char what[64];
        assert_function(f->name, at, *element(y, k), value, function_limit(at, value));
        snprintf(what, sizeof what, "derivative of %s", f->name);
        assert_function(what, at, *element(slope, k), derivative, function_limit(at, derivative));
    }
    st_tensor_free(y), st_tensor_free(slope);
}

TEST(activations_are_their_definitions)
{
    dice d = { { 13 } };
    for (const naive_function *f = naive_functions; f->name; f++)
        for (int kind = 0; kind < VIEWS; kind++) {
            st_tensor x = roll_kind(&d, kind, ST_SHAPE(19, 3, 4, 5), 0, 0);
            for (ptrdiff_t k = 0; k < st_numel(x); k++) { /* odd 128ths: never in a kink */
                ptrdiff_t reach = k % 4 ? 10 * 64 : 1200 * 64;
                *element(x, k) = (st_real)(2 * roll(&d, -reach, reach) + 1) / 128;
            }
            check_function(f, x);
            st_tensor_free(x);
        }
}

TEST(activations_do_not_overflow)
{
    const double most = (double)ST_REAL_MAX / 4;
    st_tensor x = tensor_of(ST_SHAPE(8), -most, -1e30, -1e4, -100, 100, 1e4, 1e30, most);
    for (const naive_function *f = naive_functions; f->name; f++) check_function(f, x);
    st_tensor_free(x);
}

TEST(at_a_kink_the_derivative_is_that_of_the_left_side)
{
    st_tensor x = tensor_of(ST_SHAPE(5), -3, -0.0, 0.0, 3, 6);
    for (const naive_function *f = naive_functions; f->name; f++) check_function(f, x);
    st_tensor_free(x);
}

TEST(at_infinity_activations_have_their_limits)
{
    st_tensor x = tensor_of(ST_SHAPE(2), -(double)INFINITY, (double)INFINITY), y = garbage(x.shape),
              slope = garbage(x.shape);
    for (const naive_function *f = naive_functions; f->name; f++) {
        run_function(f, x, y, slope);
        for (int side = 0; side < 2; side++) {
            double at = side ? INFINITY : -INFINITY, value = f->value_at_infinity[side];
            char what[64];
            assert_function(f->name, at, *element(y, side), value, function_limit(0, value));
            snprintf(what, sizeof what, "derivative of %s", f->name);
            assert_function(what, at, *element(slope, side), f->slope_at_infinity[side],
                            function_limit(0, 1));
        }
    }
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(slope);
}

TEST(nan_stays_nan)
{
    st_tensor x = tensor_of(ST_SHAPE(3), 1, (double)NAN, -1), y = st_tensor_new(x.shape),
              slope = st_tensor_new(x.shape);
    for (const naive_function *f = naive_functions; f->name; f++) {
        run_function(f, x, y, slope);
        if (isnan(*element(y, 0)) || !isnan(*element(y, 1)) || isnan(*element(y, 2)))
            fail_msg("%s of 1, NaN, -1 is %g, %g, %g", f->name, (double)*element(y, 0),
                     (double)*element(y, 1), (double)*element(y, 2));
    }
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(slope);
}

/* The oracle's own oracle: in double, with step h, the error is of order h² + 1e-16/h. */
TEST(derivatives_of_the_definitions_agree_with_their_differences)
{
    const double h = 1e-5;
    for (const naive_function *f = naive_functions; f->name; f++)
        for (int k = -1000; k < 1000; k++) {
            double x = (k + 0.5) / 64; /* no kink is nearer than 1/128 */
            assert_close(f->slope(x), (f->value(x + h) - f->value(x - h)) / (2 * h), 1e-8);
        }
}

/* Relative to the derivative, which is as small as 1e-13: from y, which has rounded to its limit, all digits would
 * be lost. */
TEST(derivatives_of_elu_and_selu_keep_their_digits_far_below_0)
{
    st_tensor x = tensor_of(ST_SHAPE(6), -1, -5, -12, -17.5, -25, -30), y = garbage(x.shape),
              slope = garbage(x.shape);
    for (const naive_function *f = naive_functions; f->name; f++) {
        if (strcmp(f->name, "elu") != 0 && strcmp(f->name, "selu") != 0) continue;
        run_function(f, x, y, slope);
        for (ptrdiff_t k = 0; k < st_numel(x); k++)
            assert_close((double)*element(slope, k) / f->slope((double)*element(x, k)), 1,
                         4 * (double)ST_REAL_EPSILON);
    }
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(slope);
}

TEST(slopes_of_0_are_the_defaults)
{
    struct {
        st_layer *l;
        double at_minus_1;
    } cases[] = { { st_leaky_relu(), -0.01 }, { st_elu(), expm1(-1) } };
    st_tensor x = tensor_of(ST_SHAPE(1), -1), y = garbage(ST_SHAPE(1));
    for (int i = 0; i < 2; i++) {
        build(cases[i].l, x.shape);
        st_layer_forward(cases[i].l, x, y);
        assert_close((double)*element(y, 0), cases[i].at_minus_1, (double)ST_REAL_EPSILON);
        st_layer_free(cases[i].l);
    }
    st_tensor_free(x), st_tensor_free(y);
}

/* ---- dropout --------------------------------------------------------------------------------- */

enum { DROP_IMAGES = 64, DROP_SIZE = 1003 }; /* no multiple of the four draws of one counter */

static const double DROP_P = 0.3;
static const st_shape DROP_BATCH = { 2, { DROP_IMAGES, DROP_SIZE } };

/* Limits are five deviations of a count of so many independent draws: a right layer misses one for about one
 * seed in a million, and seeds are fixed. */
static double five_deviations(double p, double count)
{
    return 5 * sqrt(p * (1 - p) / count);
}

/* What a dropout, or a net with one, built for a batch makes of its first images where all are ones. */
static st_tensor ones_through(st_layer *l, st_shape batch, ptrdiff_t images, uint64_t seed, uint64_t step)
{
    st_tensor x = st_tensor_new(ST_SHAPE(images, batch.n[1])), y = garbage(x.shape);
    st_fill(x, 1);
    build(l, batch);
    st_layer_mode(l, true, seed, step);
    st_layer_forward(l, x, y);
    st_tensor_free(x);
    st_layer_free(l);
    return y;
}

static st_tensor mask(uint64_t seed, uint64_t step)
{
    return ones_through(st_dropout(.p = DROP_P), DROP_BATCH, DROP_IMAGES, seed, step);
}

static double rate_of_zeros(st_tensor y)
{
    double zeros = 0;
    for (ptrdiff_t k = 0; k < st_numel(y); k++) zeros += *element(y, k) == 0;
    return zeros / (double)st_numel(y);
}

/* Independent masks are equal in p² + (1-p)² of their elements, the same mask in all. */
static void assert_independent(st_tensor a, st_tensor b)
{
    double equal = 0, count = (double)st_numel(a), p = DROP_P * DROP_P + (1 - DROP_P) * (1 - DROP_P);
    for (ptrdiff_t k = 0; k < st_numel(a); k++) equal += *element(a, k) == *element(b, k);
    assert_close(equal / count, p, five_deviations(p, count));
}

TEST(dropout_zeroes_at_its_rate_and_scales_the_rest)
{
    static const double rates[] = { 0.1, 0.3, 0.5, 0.9 };
    for (int i = 0; i < 4; i++) {
        double p = rates[i];
        st_tensor y = ones_through(st_dropout(.p = p), DROP_BATCH, DROP_IMAGES, 1, 1);
        assert_close(rate_of_zeros(y), p, five_deviations(p, (double)st_numel(y)));
        for (ptrdiff_t k = 0; k < st_numel(y); k++)
            assert_true(*element(y, k) == 0 || *element(y, k) == (st_real)(1 / (1 - p)));
        st_tensor_free(y);
    }
}

TEST(dropout_of_rate_0_is_the_identity)
{
    st_tensor y = ones_through(st_dropout(.p = 0), DROP_BATCH, DROP_IMAGES, 1, 1);
    for (ptrdiff_t k = 0; k < st_numel(y); k++) assert_true(*element(y, k) == 1);
    st_tensor_free(y);
}

/* p = 1/2: kept elements are doubled, exactly. */
TEST(dropout_has_the_same_mask_backward)
{
    dice d = { { 15 } };
    for (int kind = 0; kind < VIEWS; kind++) {
        st_layer *l = st_dropout(.p = 0.5);
        st_tensor x = roll_kind(&d, kind, ST_SHAPE(19, 3, 5, 5), 1, 9), dy = roll_tensor(&d, x.shape, 1, 9);
        st_tensor y = garbage(x.shape), dx = garbage(x.shape);
        int kept = 0;
        build(l, x.shape);
        st_layer_forward(l, x, y);
        st_layer_backward(l, x, y, dy, dx);
        for (ptrdiff_t k = 0; k < st_numel(x); k++) {
            st_real scale = *element(y, k) == 0 ? 0 : 2;
            kept += scale != 0;
            assert_true(*element(y, k) == scale * *element(x, k));
            assert_true(*element(dx, k) == scale * *element(dy, k));
        }
        assert_in_range(kept, 600, 825); /* of 1,425 */
        st_tensor_free(x), st_tensor_free(y), st_tensor_free(dy), st_tensor_free(dx);
        st_layer_free(l);
    }
}

TEST(dropout_is_the_identity_in_inference)
{
    dice d = { { 16 } };
    st_layer *l = st_dropout(.p = 0.5);
    st_tensor x = roll_kind(&d, MIXED, ST_SHAPE(19, 4, 3), -9, 9), dy = roll_tensor(&d, x.shape, -9, 9);
    st_tensor y = garbage(x.shape), dx = garbage(x.shape);
    build(l, x.shape);
    st_layer_forward(l, x, y); /* leaves a mask behind */
    st_layer_mode(l, false, 1, 2);
    st_layer_forward(l, x, y);
    st_layer_backward(l, x, y, dy, dx);
    assert_same(y, x);
    assert_same(dx, dy);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(dy), st_tensor_free(dx);
    st_layer_free(l);
}

TEST(a_mask_is_a_function_of_seed_and_step)
{
    st_tensor a = mask(1, 1), again = mask(1, 1), seed = mask(2, 1), step = mask(1, 2), both = mask(2, 2);
    assert_same(a, again);
    assert_independent(a, seed);
    assert_independent(a, step);
    assert_independent(seed, step);
    assert_independent(a, both);
    st_tensor_free(a), st_tensor_free(again), st_tensor_free(seed), st_tensor_free(step),
        st_tensor_free(both);
}

TEST(elements_of_a_mask_are_independent)
{
    st_tensor y = mask(3, 1);
    for (ptrdiff_t far = 1; far <= 8; far++) {
        assert_independent(st_narrow(y, 0, 0, DROP_IMAGES - far), st_narrow(y, 0, far, DROP_IMAGES - far));
        assert_independent(st_narrow(y, 1, 0, DROP_SIZE - far), st_narrow(y, 1, far, DROP_SIZE - far));
    }
    st_tensor_free(y);
}

/* Images of 1 to 9 elements share no draws, whether they fill the four of a counter or not. */
TEST(small_images_have_masks_of_their_own)
{
    const ptrdiff_t images = 20000;
    for (ptrdiff_t size = 1; size <= 9; size++) {
        st_tensor y = ones_through(st_dropout(.p = DROP_P), ST_SHAPE(images, size), images, 1, 1);
        for (ptrdiff_t k = 0; k < size; k++)
            for (ptrdiff_t other = 0; other < size; other++)
                assert_independent(st_narrow(st_select(y, 1, k), 0, 0, images - 1),
                                   st_narrow(st_select(y, 1, other), 0, 1, images - 1));
        st_tensor_free(y);
    }
}

/* Of two dropouts in a row with masks of their own an element is kept by both with (1-p)²; were the masks the
 * same, with 1-p. */
TEST(layers_of_a_net_have_masks_of_their_own)
{
    st_layer *two = st_sequence(st_dropout(.p = DROP_P), st_dropout(.p = DROP_P));
    st_tensor y = ones_through(two, DROP_BATCH, DROP_IMAGES, 1, 1);
    double p = 1 - (1 - DROP_P) * (1 - DROP_P);
    assert_close(rate_of_zeros(y), p, five_deviations(p, (double)st_numel(y)));
    st_tensor_free(y);
}

/* 64 images are cut into chunks of 8, 500 into chunks of 16. */
TEST(a_mask_does_not_depend_on_the_batch_and_its_chunks)
{
    st_tensor y = mask(1, 1);
    st_tensor part = ones_through(st_dropout(.p = DROP_P), DROP_BATCH, 19, 1, 1);
    st_tensor alone = ones_through(st_dropout(.p = DROP_P), ST_SHAPE(1, DROP_SIZE), 1, 1, 1);
    st_tensor large = ones_through(st_dropout(.p = DROP_P), ST_SHAPE(500, DROP_SIZE), 500, 1, 1);
    assert_same(part, st_narrow(y, 0, 0, 19));
    assert_same(alone, st_narrow(y, 0, 0, 1));
    assert_same(st_narrow(large, 0, 0, DROP_IMAGES), y);
    st_tensor_free(y), st_tensor_free(part), st_tensor_free(alone), st_tensor_free(large);
}

/* ---- sequences ------------------------------------------------------------------------------- */

enum { MEMBERS = 7 };

static st_layer *member(int i)
{
    switch (i) {
    case 0: return st_conv2d(.out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 });
    case 1: return st_relu();
    case 2: return st_maxpool(.kernel = { 2, 2 });
    case 3: return st_conv2d(.out_channels = 3, .kernel = { 2, 2 });
    case 4: return st_dropout(.p = 0.5);
    case 5: return st_flatten();
    default: return st_dense(.out_features = 5);
    }
}

static st_layer *first_members(int count)
{
    st_layer *parts[MEMBERS];
    for (int i = 0; i < count; i++) parts[i] = member(i);
    return st_sequence_of(count, parts);
}

/* In inference, in which a dropout does not draw: alone it has other numbers than in a net. */
static void build_on(st_layer *l, st_shape s)
{
    build(l, s);
    st_layer_mode(l, false, 0, 0);
}

TEST(a_sequence_is_its_layers_one_after_another)
{
    dice d = { { 18 } };
    for (int count = 1; count <= MEMBERS; count++) {
        about("%d layers", count);
        st_layer *l = first_members(count), *own[MEMBERS];
        st_tensor x = roll_kind(&d, MIXED, ST_SHAPE(19, 2, 8, 8), -3, 3), at[MEMBERS + 1] = { x };
        build_on(l, x.shape);
        roll_elements(&d, st_layer_parameters(l), -2, 2);
        for (int i = 0; i < count; i++) {
            own[i] = member(i);
            build_on(own[i], at[i].shape);
            for (int k = 0; k < own[i]->params; k++) st_copy(own[i]->param[k], l->child[i]->param[k]);
            at[i + 1] = garbage(own[i]->y);
            st_layer_forward(own[i], at[i], at[i + 1]);
        }
        st_tensor y = garbage(l->y), dx = garbage(x.shape), dy = roll_tensor(&d, l->y, -3, 3),
                  back = st_tensor_clone(dy);
        st_layer_forward(l, x, y);
        assert_same(y, at[count]);
        st_layer_backward(l, x, y, dy, dx);
        for (int i = count - 1; i >= 0; i--) {
            st_tensor next = garbage(at[i].shape);
            st_layer_backward(own[i], at[i], at[i + 1], back, next);
            st_tensor_free(back);
            back = next;
        }
        assert_same(dx, back);
        for (int i = 0; i < count; i++)
            for (int k = 0; k < own[i]->params; k++) {
                assert_true(largest(own[i]->grad[k]) > 0);
                assert_same(l->child[i]->grad[k], own[i]->grad[k]);
            }
        for (int i = 0; i < count; i++) st_layer_free(own[i]);
        for (int i = 0; i <= count; i++) st_tensor_free(at[i]);
        st_tensor_free(y), st_tensor_free(dx), st_tensor_free(dy), st_tensor_free(back);
        st_layer_free(l);
    }
}

static st_layer *nested(int form)
{
    st_layer *m[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) m[i] = member(i);
    switch (form) {
    case 0: return st_sequence(st_sequence_of(MEMBERS, m));
    case 1: return st_sequence(m[0], st_sequence(m[1], m[2], m[3]), m[4], st_sequence(m[5], m[6]));
    case 2: return st_sequence(st_sequence(m[0], st_sequence(m[1], st_sequence_of(4, m + 2))), m[6]);
    default: return st_sequence(st_sequence(m[0], m[1]), st_sequence_of(5, m + 2));
    }
}

TEST(nested_sequences_are_the_flat_one)
{
    dice d = { { 19 } };
    st_layer *flat = first_members(MEMBERS);
    st_tensor x = roll_tensor(&d, ST_SHAPE(19, 2, 8, 8), -3, 3), dy = roll_tensor(&d, ST_SHAPE(19, 5), -3, 3);
    build_on(flat, x.shape);
    roll_elements(&d, st_layer_parameters(flat), -2, 2);
    st_tensor y = garbage(flat->y), dx = garbage(x.shape);
    st_layer_forward(flat, x, y);
    st_layer_backward(flat, x, y, dy, dx);
    for (int form = 0; form < 4; form++) {
        about("form %d", form);
        st_layer *l = nested(form);
        build_on(l, x.shape);
        st_copy(st_layer_parameters(l), st_layer_parameters(flat));
        st_tensor out = garbage(flat->y), dout = garbage(x.shape);
        st_layer_forward(l, x, out);
        st_layer_backward(l, x, out, dy, dout);
        assert_same(out, y);
        assert_same(dout, dx);
        assert_same(st_layer_gradients(l), st_layer_gradients(flat));
        st_tensor_free(out), st_tensor_free(dout);
        st_layer_free(l);
    }
    st_tensor_free(x), st_tensor_free(dy), st_tensor_free(y), st_tensor_free(dx);
    st_layer_free(flat);
}

TEST(without_dx_gradients_are_the_same)
{
    dice d = { { 20 } };
    st_tensor x = roll_tensor(&d, ST_SHAPE(19, 2, 8, 8), -3, 3);
    for (int form = -2; form < 4; form++) { /* one layer, the flat sequence, and nested ones */
        about("form %d", form);
        st_layer *l = form == -2 ? member(0) : form == -1 ? first_members(MEMBERS) : nested(form);
        build_on(l, x.shape);
        roll_elements(&d, st_layer_parameters(l), -2, 2);
        st_tensor y = garbage(l->y), dx = garbage(x.shape), dy = roll_tensor(&d, l->y, -3, 3);
        st_layer_forward(l, x, y);
        st_layer_backward(l, x, y, dy, dx);
        st_tensor with = st_tensor_clone(st_layer_gradients(l));
        assert_true(largest(with) > 0);
        st_fill(st_layer_gradients(l), 0);
        st_layer_backward(l, x, y, dy, (st_tensor){ 0 });
        assert_same(st_layer_gradients(l), with);
        st_tensor_free(y), st_tensor_free(dx), st_tensor_free(dy), st_tensor_free(with);
        st_layer_free(l);
    }
    st_tensor_free(x);
}
