/* test_layers.c: every shipped layer computes its definition, forward, backward and for its parameters.
 *
 * The oracles are the loops of naive.c and numbers worked out by hand. Data are small integers, so sums and
 * products are exact in both precisions and results are compared for equality; where a result cannot be
 * exact, the tolerance stands with its reason. */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include "tests/support.h"

#include "layers/layers.h"
#include "layers/window.h"
#include "tests/layers/naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs that are views in every way ------------------------------------------------------ */

typedef enum view_kind {
    PLAIN,       /* contiguous */
    OFFSET,      /* the middle of something larger */
    NHWC,        /* the second axis is the last in memory */
    FLIPPED,     /* some axes backwards */
    MIXED,       /* with gaps, permuted, stepped and flipped */
    BROADCAST,   /* some axes of stride 0 */
    OVERLAPPING, /* images begin one element apart */
    VIEWS
} view_kind;

static const char *const view_names[VIEWS] = { "plain", "offset",    "nhwc",       "flipped",
                                               "mixed", "broadcast", "overlapping" };

static tensor roll_offset(dice *d, shape s)
{
    shape whole = s;
    for (int i = 0; i < s.rank; i++) whole.n[i] += roll(d, 1, 3);
    tensor x = tensor_new(whole);
    for (int i = 0; i < s.rank; i++) x = tensor_narrow(x, i, roll(d, 0, whole.n[i] - s.n[i]), s.n[i]);
    return x;
}

static tensor roll_flipped(dice *d, shape s)
{
    tensor x = tensor_new(s);
    for (int i = 0; i < s.rank; i++)
        if (chance(d, 60)) x = tensor_flip(x, i);
    return x;
}

static tensor roll_broadcast(dice *d, shape s)
{
    shape one = s;
    for (int i = 0; i < s.rank; i++)
        if (chance(d, 40)) one.n[i] = 1;
    return tensor_expand(tensor_new(one), s);
}

static tensor overlapping(shape s)
{
    tensor whole = tensor_new(s);
    whole.stride[0] = 1;
    return tensor_as_strided(whole, s, whole.stride, 0);
}

/* Half of the places of something larger, the axes in any order, some backwards. */
static tensor roll_mixed(dice *d, shape s)
{
    axes order = { 0 };
    for (; order.count < s.rank; order.count++) {
        int at = (int)roll(d, 0, order.count);
        order.axis[order.count] = order.axis[at];
        order.axis[at] = order.count;
    }
    shape whole = { .rank = s.rank };
    for (int i = 0; i < s.rank; i++) whole.n[order.axis[i]] = s.n[i] + roll(d, 0, 2);
    ptrdiff_t last = whole.n[s.rank - 1];
    whole.n[s.rank - 1] *= 2;
    tensor x = tensor_narrow(tensor_step(tensor_new(whole), -1, 2), -1, 0, last);
    x = tensor_permute(x, order);
    for (int i = 0; i < s.rank; i++) {
        x = tensor_narrow(x, i, roll(d, 0, x.shape.n[i] - s.n[i]), s.n[i]);
        if (chance(d, 50)) x = tensor_flip(x, i);
    }
    return x;
}

/* A view of shape s over integers; tensor_free ends it and what it looks at. */
static tensor roll_kind(dice *d, view_kind kind, shape s, ptrdiff_t low, ptrdiff_t high)
{
    tensor x = kind == OFFSET        ? roll_offset(d, s)
               : kind == NHWC        ? second_axis_last(s)
               : kind == FLIPPED     ? roll_flipped(d, s)
               : kind == MIXED       ? roll_mixed(d, s)
               : kind == BROADCAST   ? roll_broadcast(d, s)
               : kind == OVERLAPPING ? overlapping(s)
                                     : tensor_new(s);
    assert_string_equal(shape_text(x.shape).text, shape_text(s).text);
    roll_elements(d, x, low, high);
    return x;
}

/* One image, several, and 19: more than two chunks of 8. */
static ptrdiff_t roll_batch(dice *d)
{
    return chance(d, 25) ? 19 : chance(d, 30) ? 1 : roll(d, 2, 6);
}

/* ---- comparing a layer with what it should make ---------------------------------------------- */

/* NaN, which nothing that is added to it or multiplied with it takes away. */
static tensor garbage(shape s)
{
    tensor x = tensor_new(s);
    tensor_fill(x, (real)NAN);
    return x;
}

static void about_layer(const layer *l, shape x, const char *view)
{
    char text[160];
    layer_describe(l, text, sizeof text);
    about("%s of %s %s", text, view, shape_text(x).text);
}

static void build(layer *l, shape x)
{
    assert_non_null(l);
    if (layer_build(l, x, 1)) fail_msg("%s", error_text());
    layer_mode(l, true, 1, 1);
}

/* Leaves NaN wherever a pass leaves something behind. */
static void soil(layer *l, shape s)
{
    tensor x = garbage(s), y = garbage(l->y), dx = garbage(s);
    layer_forward(l, x, y);
    layer_backward(l, x, y, y, dx);
    tensor_free(x), tensor_free(y), tensor_free(dx);
}

/* y and dx are overwritten, gradients are added to, and x, y and dy stay as they are. */
static void check_passes(layer *l, tensor x, tensor dy, naive want, double limit)
{
    tensor y = garbage(want.y.shape), dx = garbage(x.shape), x_before = tensor_clone(x),
           dy_before = tensor_clone(dy);
    soil(l, x.shape);
    layer_spoil_scratch(l);
    layer_forward(l, x, y);
    assert_near(y, want.y, limit);
    tensor y_before = tensor_clone(y), gradient[2] = { want.dweight, want.dbias };
    for (int i = 0; i < l->params; i++)
        for (ptrdiff_t k = 0; k < tensor_count(gradient[i]); k++) {
            *element(l->grad[i], k) = (real)(k % 7 - 3);
            *element(gradient[i], k) += (real)(k % 7 - 3);
        }
    layer_spoil_scratch(l);
    layer_backward(l, x, y, dy, dx);
    assert_near(dx, want.dx, limit);
    for (int i = 0; i < l->params; i++) assert_near(l->grad[i], gradient[i], limit);
    assert_same(x, x_before);
    assert_same(y, y_before);
    assert_same(dy, dy_before);
    assert_null(error_text());
    tensor_free(y), tensor_free(dx), tensor_free(x_before), tensor_free(y_before), tensor_free(dy_before);
}

static double dot(tensor a, tensor b)
{
    double sum = 0;
    assert_string_equal(shape_text(a.shape).text, shape_text(b.shape).text);
    for (ptrdiff_t k = 0; k < tensor_count(a); k++) sum += (double)*element(a, k) * (double)*element(b, k);
    return sum;
}

static void assert_close(double value, double expected, double limit)
{
    if (fabs(value - expected) <= limit) return;
    fail_msg("%.17g, expected %.17g within %g", value, expected, limit);
}

/* ---- convolution ----------------------------------------------------------------------------- */

/* Options, and a shape that they fit: exactly, or with up to 6 rows and columns to spare. */
static conv2d roll_conv2d(dice *d, shape *x)
{
    conv2d o = { .groups = (int)roll(d, 0, 3), .no_bias = chance(d, 30) };
    int groups = o.groups ? o.groups : 1;
    o.out_channels = groups * (int)roll(d, 1, 3);
    *x = SHAPE(roll_batch(d), groups * roll(d, 1, 3), 0, 0);
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

static void check_conv2d(dice *d, conv2d o, tensor x, const char *view)
{
    layer *l = layer_conv2d(o);
    build(l, x.shape);
    about_layer(l, x.shape, view);
    roll_elements(d, layer_parameters(l), -3, 3);
    assert_string_equal(shape_text(l->y).text, shape_text(naive_conv2d_shape(o, x.shape)).text);
    tensor dy = roll_tensor(d, naive_conv2d_shape(o, x.shape), -3, 3);
    naive want = naive_conv2d(o, x, l->param[0], o.no_bias ? (tensor){ 0 } : l->param[1], dy);
    check_passes(l, x, dy, want, 0);
    naive_free(want);
    tensor_free(dy);
    layer_free(l);
}

static void conv2d_is_its_definition_for_any_options_and_view(void **state)
{
    (void)state;
    dice d = { { 2 } };
    for (int kind = 0; kind < VIEWS; kind++)
        for (int i = 0; i < 60; i++) {
            shape s;
            conv2d o = roll_conv2d(&d, &s);
            tensor x = roll_kind(&d, kind, s, -4, 4);
            check_conv2d(&d, o, x, view_names[kind]);
            tensor_free(x);
        }
}

static void conv2d_is_its_definition_at_the_corners_of_its_options(void **state)
{
    (void)state;
    static const struct {
        conv2d o;
        shape x;
    } cases[] = {
        { { .out_channels = 1, .kernel = { 1, 1 } }, { 4, { 1, 1, 1, 1 } } },
        { { .out_channels = 6, .kernel = { 3, 3 }, .groups = 6 }, { 4, { 19, 6, 5, 5 } } }, /* depthwise */
        { { .out_channels = 4, .kernel = { 1, 1 }, .stride = { 2, 2 } }, { 4, { 3, 3, 5, 4 } } },
        { { .out_channels = 4, .kernel = { 1, 1 }, .padding = { 1, 1 } }, { 4, { 3, 3, 5, 4 } } },
        { { .out_channels = 3, .kernel = { 5, 5 }, .padding = { 4, 4 } }, { 4, { 19, 2, 1, 1 } } },
        { { .out_channels = 3, .kernel = { 5, 4 } }, { 4, { 2, 2, 5, 4 } } }, /* one window */
        { { .out_channels = 3, .kernel = { 1, 7 }, .padding = { 0, 3 } }, { 4, { 2, 2, 3, 9 } } },
        { { .out_channels = 2, .kernel = { 2, 2 }, .stride = { 5, 7 } }, { 4, { 2, 2, 12, 16 } } },
        { { .out_channels = 128, .kernel = { 3, 3 } }, { 4, { 9, 64, 4, 3 } } }, /* 73,856 parameters */
    };
    dice d = { { 3 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tensor x = roll_tensor(&d, cases[i].x, -3, 3);
        check_conv2d(&d, cases[i].o, x, "plain");
        tensor_free(x);
    }
}

/* Worked out by hand: the kernel is not mirrored, channels are summed, the bias is added once. */
static void conv2d_is_a_cross_correlation(void **state)
{
    (void)state;
    layer *l = layer_conv2d((conv2d){ .out_channels = 1, .kernel = { 1, 3 } });
    tensor x = tensor_of(SHAPE(1, 2, 1, 4), 1, 2, 3, 4, 10, 20, 30, 40), y = garbage(SHAPE(1, 1, 1, 2));
    build(l, x.shape);
    tensor w = tensor_of(SHAPE(1, 2, 1, 3), 1, 0, -2, 0, 1, 0), b = tensor_of(SHAPE(1), 100);
    tensor_copy(l->param[0], w);
    tensor_copy(l->param[1], b);
    layer_forward(l, x, y);
    assert_elements(y, 1 - 6 + 20 + 100, 2 - 8 + 30 + 100);
    tensor dy = tensor_of(SHAPE(1, 1, 1, 2), 1, 3), dx = garbage(x.shape);
    layer_backward(l, x, y, dy, dx);
    assert_elements(dx, 1, 3, -2, -6, 0, 1, 3, 0);
    assert_elements(l->grad[0], 1 + 6, 2 + 9, 3 + 12, 10 + 60, 20 + 90, 30 + 120);
    assert_elements(l->grad[1], 4);
    tensor_free(x), tensor_free(y), tensor_free(w), tensor_free(b), tensor_free(dy), tensor_free(dx);
    layer_free(l);
}

/* ---- the windows themselves ------------------------------------------------------------------ */

static void about_window(const window *w, bool ceil_mode)
{
    about("kernel %dx%d stride %dx%d padding %tdx%td dilation %dx%d %s of %tdx%td", w->kernel[0],
          w->kernel[1], w->stride[0], w->stride[1], w->before[0], w->before[1], w->dilation[0],
          w->dilation[1], ceil_mode ? "ceil" : "floor", w->size[0], w->size[1]);
}

/* im2col(image), and col2im(columns), by definition. */
static void columns_by_definition(naive_axis h, naive_axis w, tensor image, tensor columns, tensor want,
                                  tensor want_sum)
{
    for (ptrdiff_t k = 0; k < tensor_count(columns); k++) {
        shape at = index_of(columns.shape, k); /* [C, KH, KW, OH, OW] */
        ptrdiff_t row = naive_place(h, at.n[3], at.n[1]), column = naive_place(w, at.n[4], at.n[2]);
        if (row < 0 || row >= h.size || column < 0 || column >= w.size) continue;
        *element(want, k) = *tensor_at(image, INDEX(at.n[0], row, column));
        *tensor_at(want_sum, INDEX(at.n[0], row, column)) += *element(columns, k);
    }
}

static void im2col_and_col2im_are_their_definitions_and_adjoint(void **state)
{
    (void)state;
    dice d = { { 4 } };
    layer *l = layer_relu(); /* only to be named in messages */
    for (int i = 0; i < 200; i++) {
        shape s;
        conv2d o = roll_conv2d(&d, &s);
        naive_axis h = naive_conv2d_axis(o, s, 0), v = naive_conv2d_axis(o, s, 1);
        bool as_pooling =
            h.padding <= h.dilation * (h.kernel - 1) && v.padding <= v.dilation * (v.kernel - 1);
        bool ceil_mode = h.ceil_mode = v.ceil_mode = as_pooling && chance(&d, 50);
        window w;
        int stride[2] = { (int)h.stride, (int)v.stride }, dilation[2] = { (int)h.dilation, (int)v.dilation };
        assert_int_equal(window_plan(&w, l, s, o.kernel, stride, o.padding, dilation, ceil_mode), 0);
        about_window(&w, ceil_mode);
        assert_int_equal(w.out[0], naive_windows(h));
        assert_int_equal(w.out[1], naive_windows(v));

        tensor image = roll_tensor(&d, SHAPE(s.n[1], s.n[2], s.n[3]), -9, 9);
        shape c = SHAPE(s.n[1], o.kernel[0], o.kernel[1], w.out[0], w.out[1]);
        tensor columns = garbage(c), other = roll_tensor(&d, c, -9, 9), sum = garbage(image.shape);
        tensor padded = tensor_new(window_padded_shape(&w, s.n[1]));
        tensor want = tensor_new(c), want_sum = tensor_new(image.shape);
        columns_by_definition(h, v, image, other, want, want_sum);
        window_im2col(&w, columns, image, padded);
        assert_same(columns, want);
        tensor_fill(padded, (real)NAN); /* scratch holds anything */
        window_col2im(&w, sum, other, padded);
        assert_same(sum, want_sum);
        assert_close(dot(columns, other), dot(image, sum), 0);
        tensor_free(image), tensor_free(columns), tensor_free(other), tensor_free(sum);
        tensor_free(padded), tensor_free(want), tensor_free(want_sum);
    }
    layer_free(l);
}

/* ---- pooling --------------------------------------------------------------------------------- */

typedef struct pool_geometry {
    int kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode;
} pool_geometry;

static pool_geometry roll_pool(dice *d, bool powers_of_two, shape *x)
{
    pool_geometry g = { .ceil_mode = chance(d, 50) };
    *x = SHAPE(roll_batch(d), roll(d, 1, 4), 0, 0);
    for (int axis = 0; axis < 2; axis++) {
        bool global = (axis == 0 || !g.kernel[0]) && chance(d, 10);                    /* { 3, 0 } is 3x3 */
        ptrdiff_t size = axis == 1 && chance(d, 30) ? roll(d, 10, 40) : roll(d, 1, 9); /* or many vectors */
        int kernel = global ? (int)size : powers_of_two ? 1 << roll(d, 0, 2) : (int)roll(d, 1, 5);
        g.kernel[axis] = global ? 0 : kernel;
        g.stride[axis] = (int)roll(d, axis && g.stride[0] ? 1 : 0, kernel + 2);
        g.dilation[axis] = global || chance(d, 60) ? axis && g.dilation[0] : (int)roll(d, 1, 3);
        int reach = (g.dilation[axis] ? g.dilation[axis] : 1) * (kernel - 1) + 1;
        g.padding[axis] = chance(d, 40) ? 0 : (int)roll(d, 0, reach - 1);
        ptrdiff_t least = reach - 2 * g.padding[axis];
        x->n[2 + axis] = global || size >= least ? size : least;
    }
    return g;
}

#define POOL_OF(type, g, ...)                                                                                \
    ((type){ .kernel = { (g).kernel[0], (g).kernel[1] },                                                     \
             .stride = { (g).stride[0], (g).stride[1] },                                                     \
             .padding = { (g).padding[0], (g).padding[1] },                                                  \
             .dilation = { (g).dilation[0], (g).dilation[1] },                                               \
             .ceil_mode = (g).ceil_mode,                                                                     \
             __VA_ARGS__ })

static void check_pool(layer *l, tensor x, tensor dy, naive want, double limit, const char *view)
{
    build(l, x.shape);
    about_layer(l, x.shape, view);
    assert_string_equal(shape_text(l->y).text, shape_text(want.y.shape).text);
    check_passes(l, x, dy, want, limit);
    naive_free(want);
    tensor_free(dy);
    layer_free(l);
}

/* Built for this machine's widest vectors, or for those of any machine. */
static void build_for(layer *l, shape x, bool any_machine)
{
    const char *set = getenv("STRIDE_ENGINE");
    char before[32];
    snprintf(before, sizeof before, "%s", set ? set : "");
    if (any_machine) setenv("STRIDE_ENGINE", "generic", 1);
    build(l, x);
    setenv("STRIDE_ENGINE", before, 1);
}

static void check_maxpool(dice *d, maxpool o, tensor x, const char *view)
{
    tensor dy = roll_tensor(d, naive_maxpool_shape(o, x.shape), -5, 5);
    naive want = naive_maxpool(o, x, dy);
    for (int k = 0; k < 4; k++) {
        layer *l = layer_maxpool(o);
        build_for(l, x.shape, k / 2 == 1);
        layer_mode(l, k % 2 == 1, 1, 1); /* inference finds the places again */
        about_layer(l, x.shape, view);
        check_passes(l, x, dy, want, 0);
        layer_free(l);
    }
    naive_free(want);
    tensor_free(dy);
}

/* Values of -2 … 2 make most windows have several maxima; some inputs have NaN and inf among them. */
static void maxpool_is_its_definition_for_any_options_and_view(void **state)
{
    (void)state;
    dice d = { { 5 } };
    for (int kind = 0; kind < VIEWS; kind++)
        for (int i = 0; i < 60; i++) {
            shape s;
            pool_geometry g = roll_pool(&d, false, &s);
            tensor x = roll_kind(&d, kind, s, -2, 2);
            if (chance(&d, 30))
                for (ptrdiff_t k = 0; k < tensor_count(x); k++)
                    if (chance(&d, 20)) *element(x, k) = chance(&d, 50) ? (real)NAN : (real)INFINITY;
            check_maxpool(&d, POOL_OF(maxpool, g, .pad_value = (pad_value)roll(&d, 0, 2)), x,
                          view_names[kind]);
            tensor_free(x);
        }
}

static double largest(tensor x)
{
    double most = 0;
    for (ptrdiff_t k = 0; k < tensor_count(x); k++) most = fmax(most, fabs((double)*element(x, k)));
    return most;
}

/* Where a divisor n is not a power of two, 1/n and the product with it are rounded, and so are the sums of
 * dy/n. At most 81 windows meet in an element, and their 1/n sum up to no more than 4: an error of
 * (81 + 2) epsilon/2 of 4 max|dy|. */
static void avgpool_is_its_definition_for_any_options_and_view(void **state)
{
    (void)state;
    dice d = { { 6 } };
    int exact = 0, rounded = 0;
    for (int kind = 0; kind < VIEWS; kind++)
        for (int i = 0; i < 60; i++) {
            shape s;
            pool_geometry g = roll_pool(&d, i % 2, &s);
            avgpool o = POOL_OF(avgpool, g, .count_exclude_pad = chance(&d, 50));
            tensor x = roll_kind(&d, kind, s, -9, 9);
            tensor dy = roll_tensor(&d, naive_avgpool_shape(o, s), -9, 9);
            naive want = naive_avgpool(o, x, dy);
            want.exact ? exact++ : rounded++;
            check_pool(layer_avgpool(o), x, dy, want, want.exact ? 0 : 83 * (double)REAL_EPSILON / 2 * 4 * 9,
                       view_names[kind]);
            tensor_free(x);
        }
    assert_true(exact > 100 && rounded > 100);
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

static void pool_line(layer *l, tensor x, int count, const double *expected)
{
    build(l, x.shape);
    about_layer(l, x.shape, "plain");
    assert_string_equal(shape_text(l->y).text, shape_text(SHAPE(1, 1, 1, count)).text);
    tensor y = garbage(l->y);
    layer_forward(l, x, y);
    assert_list_at(y, count, expected, __FILE__, __LINE__);
    tensor_free(y);
    layer_free(l);
}

static void pooling_sizes_and_divisors_follow_pytorch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof line_cases / sizeof line_cases[0]; i++) {
        line_case c = line_cases[i];
        tensor x = tensor_new(SHAPE(1, 1, 1, c.size));
        for (ptrdiff_t k = 0; k < c.size; k++) *element(x, k) = (real)(k + 1);
        pool_line(layer_maxpool(POOL_OF(maxpool, c.g, .pad_value = PAD_LOWEST)), x, c.count, c.max);
        pool_line(layer_avgpool(POOL_OF(avgpool, c.g, .count_exclude_pad = false)), x, c.count, c.include);
        pool_line(layer_avgpool(POOL_OF(avgpool, c.g, .count_exclude_pad = true)), x, c.count, c.exclude);
        tensor_free(x);
    }
}

/* ---- maxima: ties, NaN, -inf ----------------------------------------------------------------- */

/* Forward and backward of one row, dy = 1, 2, 3 …; takes the tensors over. */
static void assert_max(maxpool o, tensor x, tensor y, tensor dx)
{
    layer *l = layer_maxpool(o);
    build(l, x.shape);
    about_layer(l, x.shape, "plain");
    tensor out = garbage(y.shape), dy = tensor_new(y.shape), dout = garbage(x.shape);
    for (ptrdiff_t k = 0; k < tensor_count(dy); k++) *element(dy, k) = (real)(k + 1);
    layer_forward(l, x, out);
    assert_same(out, y);
    layer_backward(l, x, out, dy, dout);
    assert_same(dout, dx);
    tensor_free(x), tensor_free(y), tensor_free(dx), tensor_free(out), tensor_free(dy), tensor_free(dout);
    layer_free(l);
}

static tensor row(int count, const double *values)
{
    return tensor_of_list(SHAPE(1, 1, 1, count), count, values);
}

#define ROW(...) row(TENSOR_COUNT(double, __VA_ARGS__), (const double[]){ __VA_ARGS__ })

static void of_equal_maxima_the_first_has_the_gradient(void **state)
{
    (void)state;
    assert_max((maxpool){ .kernel = { 1, 4 } }, ROW(2, 7, 7, 7), ROW(7), ROW(0, 1, 0, 0));
    assert_max((maxpool){ .kernel = { 1, 2 }, .stride = { 1, 1 } }, ROW(1, 3, 3), ROW(3, 3), ROW(0, 3, 0));
    assert_max((maxpool){ .kernel = { 2, 2 } }, tensor_of(SHAPE(1, 1, 2, 2), 0, 5, 5, 5),
               tensor_of(SHAPE(1, 1, 1, 1), 5), tensor_of(SHAPE(1, 1, 2, 2), 0, 1, 0, 0));
    assert_max((maxpool){ .kernel = { 2, 2 } }, tensor_of(SHAPE(1, 1, 2, 2), 0, 1, 5, 5),
               tensor_of(SHAPE(1, 1, 1, 1), 5), tensor_of(SHAPE(1, 1, 2, 2), 0, 0, 1, 0));
}

static void windows_that_share_a_maximum_sum_their_gradients(void **state)
{
    (void)state;
    assert_max((maxpool){ .kernel = { 1, 3 }, .stride = { 1, 1 } }, ROW(0, 0, 9, 0, 0), ROW(9, 9, 9),
               ROW(0, 0, 6, 0, 0));
}

static void nan_is_greater_than_any_number(void **state)
{
    (void)state;
    const double nan = NAN, inf = INFINITY;
    assert_max((maxpool){ .kernel = { 1, 4 } }, ROW(1, nan, inf, nan), ROW(nan), ROW(0, 1, 0, 0));
    assert_max((maxpool){ .kernel = { 1, 4 } }, ROW(nan, 1, nan, inf), ROW(nan), ROW(1, 0, 0, 0));
    assert_max((maxpool){ .kernel = { 1, 2 } }, ROW(nan, 1, 2, 3), ROW(nan, 3), ROW(1, 0, 0, 2));
}

static void padding_is_no_maximum_unless_it_is_zero(void **state)
{
    (void)state;
    maxpool o = { .kernel = { 1, 2 }, .padding = { 0, 1 } };
    assert_max(o, ROW(-3, -2), ROW(-3, -2), ROW(1, 2));
    o.pad_value = PAD_LOWEST;
    assert_max(o, ROW(-3, -2), ROW(-3, -2), ROW(1, 2));
    o.pad_value = PAD_ZERO;
    assert_max(o, ROW(-3, -2), ROW(0, 0), ROW(0, 0));
    assert_max(o, ROW(3, 2), ROW(3, 2), ROW(1, 2));
}

static void of_minus_infinities_one_in_the_image_has_the_gradient(void **state)
{
    (void)state;
    const double inf = INFINITY;
    assert_max((maxpool){ .kernel = { 1, 2 } }, ROW(-inf, -inf), ROW(-inf), ROW(1, 0));
    assert_max((maxpool){ .kernel = { 1, 2 }, .padding = { 0, 1 } }, ROW(-inf, -inf), ROW(-inf, -inf),
               ROW(1, 2));
}

/* ---- pooling by a function ------------------------------------------------------------------- */

/* The context names the weight of the first place: sum of (weight + i) in[i]². */
static real squares(const real *in, ptrdiff_t n, const void *context)
{
    real sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) sum += (real)(*(const int *)context + i) * in[i] * in[i];
    return sum;
}

static void squares_adjoint(const real *in, ptrdiff_t n, real y, real dy, real *din, const void *context)
{
    (void)y;
    for (ptrdiff_t i = 0; i < n; i++) din[i] = 2 * (real)(*(const int *)context + i) * in[i] * dy;
}

static naive naive_squares(pool_geometry g, int first_weight, tensor x, tensor dy)
{
    maxpool same = POOL_OF(maxpool, g, .pad_value = PAD_ZERO);
    naive_axis h = naive_maxpool_axis(same, x.shape, 0), w = naive_maxpool_axis(same, x.shape, 1);
    naive want = { .y = tensor_new(naive_maxpool_shape(same, x.shape)), .dx = tensor_new(x.shape) };
    for (ptrdiff_t k = 0; k < tensor_count(want.y); k++)
        for (ptrdiff_t i = 0; i < h.kernel * w.kernel; i++) {
            shape at = index_of(want.y.shape, k);
            ptrdiff_t r = naive_place(h, at.n[2], i / w.kernel), c = naive_place(w, at.n[3], i % w.kernel);
            if (r < 0 || r >= h.size || c < 0 || c >= w.size) continue;
            real value = *tensor_at(x, INDEX(at.n[0], at.n[1], r, c)), weight = (real)(first_weight + i);
            *element(want.y, k) += weight * value * value;
            *tensor_at(want.dx, INDEX(at.n[0], at.n[1], r, c)) += 2 * weight * value * *element(dy, k);
        }
    return want;
}

static void pool_applies_its_function_to_windows_in_row_major_order(void **state)
{
    (void)state;
    dice d = { { 7 } };
    int first_weight = 3;
    const pool_function f = { "squares", squares, squares_adjoint, &first_weight };
    for (int i = 0; i < 150; i++) {
        shape s;
        view_kind kind = (view_kind)(i % VIEWS);
        pool_geometry g = roll_pool(&d, false, &s);
        tensor x = roll_kind(&d, kind, s, -3, 3);
        maxpool same = POOL_OF(maxpool, g, .pad_value = PAD_ZERO);
        tensor dy = roll_tensor(&d, naive_maxpool_shape(same, s), -3, 3);
        layer *l = layer_pool(POOL_OF(pool, g, .function = &f, .pad_value = i % 2 ? PAD_ZERO : PAD_DEFAULT));
        check_pool(l, x, dy, naive_squares(g, first_weight, x, dy), 0, view_names[kind]);
        tensor_free(x);
    }
}

static ptrdiff_t first_maximum(const real *in, ptrdiff_t n)
{
    ptrdiff_t best = 0;
    for (ptrdiff_t i = 1; i < n; i++)
        if (in[i] > in[best]) best = i;
    return best;
}

static real maximum(const real *in, ptrdiff_t n, const void *context)
{
    (void)context;
    return in[first_maximum(in, n)];
}

static void maximum_adjoint(const real *in, ptrdiff_t n, real y, real dy, real *din, const void *context)
{
    (void)y, (void)context;
    for (ptrdiff_t i = 0; i < n; i++) din[i] = 0;
    din[first_maximum(in, n)] = dy;
}

static void pool_of_maximum_is_maxpool(void **state)
{
    (void)state;
    dice d = { { 8 } };
    const pool_function f = { "maximum", maximum, maximum_adjoint, NULL };
    for (int i = 0; i < 90; i++) {
        shape s;
        view_kind kind = (view_kind)(i % VIEWS);
        pool_geometry g = roll_pool(&d, false, &s);
        pad_value value = i % 2 ? PAD_ZERO : PAD_LOWEST;
        tensor x = roll_kind(&d, kind, s, -3, 3);
        maxpool o = POOL_OF(maxpool, g, .pad_value = value);
        tensor dy = roll_tensor(&d, naive_maxpool_shape(o, s), -3, 3);
        check_pool(layer_pool(POOL_OF(pool, g, .function = &f, .pad_value = value)), x, dy,
                   naive_maxpool(o, x, dy), 0, view_names[kind]);
        tensor_free(x);
    }
}

/* Central differences of a square have no truncation error. Each quotient has the rounding of two values of
 * up to (1 + … + 9) 3² = 405 over twice the step, cbrt(epsilon) at least; at most 9 windows with |dy| <= 3
 * meet. */
static void pool_without_an_adjoint_is_differentiated_numerically(void **state)
{
    (void)state;
    dice d = { { 9 } };
    int first_weight = 1;
    const pool_function f = { "squares", squares, NULL, &first_weight };
    pool_geometry g = { .kernel = { 3, 3 }, .stride = { 1, 1 }, .padding = { 1, 1 } };
    tensor x = roll_tensor(&d, SHAPE(9, 2, 4, 4), -3, 3), dy = roll_tensor(&d, SHAPE(9, 2, 4, 4), -3, 3);
    naive want = naive_squares(g, first_weight, x, dy);
    layer *l = layer_pool(POOL_OF(pool, g, .function = &f));
    build(l, x.shape);
    tensor y = garbage(x.shape), dx = garbage(x.shape);
    layer_forward(l, x, y);
    layer_backward(l, x, y, dy, dx);
    assert_same(y, want.y);
    assert_near(dx, want.dx, 9 * 3 * 405 * (double)REAL_EPSILON / cbrt((double)REAL_EPSILON));
    naive_free(want);
    tensor_free(x), tensor_free(y), tensor_free(dy), tensor_free(dx);
    layer_free(l);
}

/* ---- dense ----------------------------------------------------------------------------------- */

static void check_dense(dice *d, dense o, tensor x, const char *view)
{
    layer *l = layer_dense(o);
    build(l, x.shape);
    about_layer(l, x.shape, view);
    roll_elements(d, layer_parameters(l), -3, 3);
    tensor dy = roll_tensor(d, SHAPE(x.shape.n[0], o.out_features), -3, 3);
    naive want = naive_dense(x, l->param[0], o.no_bias ? (tensor){ 0 } : l->param[1], dy);
    check_passes(l, x, dy, want, 0);
    naive_free(want);
    tensor_free(dy);
    layer_free(l);
}

static void dense_is_its_definition_for_any_size_and_view(void **state)
{
    (void)state;
    static const ptrdiff_t batches[] = { 1, 2, 19, 32, 33, 70 }; /* in chunks of 32 */
    dice d = { { 10 } };
    for (int kind = 0; kind < VIEWS; kind++)
        for (int i = 0; i < 12; i++) {
            dense o = { .out_features = (int)roll(&d, 1, 17), .no_bias = chance(&d, 30) };
            tensor x = roll_kind(&d, kind, SHAPE(batches[i % 6], roll(&d, 1, 30)), -4, 4);
            check_dense(&d, o, x, view_names[kind]);
            tensor_free(x);
        }
}

static void dense_is_its_definition_where_its_gradient_is_made_in_one_piece(void **state)
{
    (void)state;
    dice d = { { 11 } };
    tensor x = roll_tensor(&d, SHAPE(70, 300), -3, 3);
    check_dense(&d, (dense){ .out_features = 250 }, x, "plain"); /* 75,250 parameters */
    tensor_free(x);
}

/* ---- linear layers and their adjoints -------------------------------------------------------- */

/* <f(x), dy> = <x, fT(dy)>, and for a layer that is linear in its weight too, = <weight, gradient>. */
static void check_adjoint(dice *d, layer *l, shape s, double limit)
{
    build(l, s);
    about_layer(l, s, "plain");
    roll_elements(d, layer_parameters(l), -3, 3);
    tensor x = roll_tensor(d, s, -4, 4), y = garbage(l->y), dy = roll_tensor(d, l->y, -4, 4), dx = garbage(s);
    layer_forward(l, x, y);
    layer_backward(l, x, y, dy, dx);
    double product = dot(y, dy), scale = sqrt(dot(y, y) * dot(dy, dy));
    assert_close(dot(x, dx), product, limit * scale);
    if (l->params) assert_close(dot(l->param[0], l->grad[0]), product, limit * scale);
    tensor_free(x), tensor_free(y), tensor_free(dy), tensor_free(dx);
    layer_free(l);
}

/* Integers: both sides are exact. Of avgpool both are rounded, by up to epsilon a term and element. */
static void backward_is_the_adjoint_of_forward(void **state)
{
    (void)state;
    dice d = { { 12 } };
    for (int i = 0; i < 60; i++) {
        shape s;
        conv2d o = roll_conv2d(&d, &s);
        o.no_bias = true;
        check_adjoint(&d, layer_conv2d(o), s, 0);
        pool_geometry g = roll_pool(&d, false, &s);
        avgpool a = POOL_OF(avgpool, g, .count_exclude_pad = chance(&d, 50));
        check_adjoint(&d, layer_avgpool(a), s, 100 * (double)REAL_EPSILON);
        check_adjoint(&d, layer_dense((dense){ .out_features = (int)roll(&d, 1, 9), .no_bias = true }),
                      SHAPE(roll(&d, 1, 70), roll(&d, 1, 9)), 0);
        check_adjoint(&d, layer_flatten(), roll_shape(&d, 1, 5, 1, 4), 0);
    }
}

/* ---- activations ----------------------------------------------------------------------------- */

/* Of any view x, y = f(x), and the derivatives, which is what backward makes of dy = 1. */
static void run_function(const naive_function *f, tensor x, tensor y, tensor slope)
{
    layer *l = f->make();
    build(l, x.shape);
    tensor dy = tensor_new(x.shape);
    tensor_fill(dy, 1);
    layer_forward(l, x, y);
    layer_backward(l, x, y, dy, slope);
    tensor_free(dy);
    layer_free(l);
}

static void assert_function(const char *what, double x, real value, double expected, double limit)
{
    if ((double)value == expected || fabs((double)value - expected) <= limit) return;
    fail_msg("%s of %.9g is %.9g, expected %.17g within %g", what, x, (double)value, expected, limit);
}

/* Up to 50 in size, erf, tanh and such are rounded to epsilon of 1, and that may be multiplied with x;
 * beyond, all of them have reached their limits and only the last product is rounded. */
static double function_limit(double x, double expected)
{
    return 8 * (double)REAL_EPSILON * fmax(1, fabs(x) <= 50 ? fabs(x) : fabs(expected));
}

static void check_function(const naive_function *f, tensor x)
{
    tensor y = garbage(x.shape), slope = garbage(x.shape);
    run_function(f, x, y, slope);
    for (ptrdiff_t k = 0; k < tensor_count(x); k++) {
        double at = (double)*element(x, k), value = f->value(at), derivative = f->slope(at);
        char what[64];
        assert_function(f->name, at, *element(y, k), value, function_limit(at, value));
        snprintf(what, sizeof what, "derivative of %s", f->name);
        assert_function(what, at, *element(slope, k), derivative, function_limit(at, derivative));
    }
    tensor_free(y), tensor_free(slope);
}

static void activations_are_their_definitions(void **state)
{
    (void)state;
    dice d = { { 13 } };
    for (const naive_function *f = naive_functions; f->name; f++)
        for (int kind = 0; kind < VIEWS; kind++) {
            tensor x = roll_kind(&d, kind, SHAPE(19, 3, 4, 5), 0, 0);
            for (ptrdiff_t k = 0; k < tensor_count(x); k++) { /* odd 128ths: never in a kink */
                ptrdiff_t reach = k % 4 ? 10 * 64 : 1200 * 64;
                *element(x, k) = (real)(2 * roll(&d, -reach, reach) + 1) / 128;
            }
            check_function(f, x);
            tensor_free(x);
        }
}

static void activations_do_not_overflow(void **state)
{
    (void)state;
    const double most = (double)REAL_MAX / 4;
    tensor x = tensor_of(SHAPE(8), -most, -1e30, -1e4, -100, 100, 1e4, 1e30, most);
    for (const naive_function *f = naive_functions; f->name; f++) check_function(f, x);
    tensor_free(x);
}

static void at_a_kink_the_derivative_is_that_of_the_left_side(void **state)
{
    (void)state;
    tensor x = tensor_of(SHAPE(5), -3, -0.0, 0.0, 3, 6);
    for (const naive_function *f = naive_functions; f->name; f++) check_function(f, x);
    tensor_free(x);
}

static void at_infinity_activations_have_their_limits(void **state)
{
    (void)state;
    tensor x = tensor_of(SHAPE(2), -(double)INFINITY, (double)INFINITY), y = garbage(x.shape),
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
    tensor_free(x), tensor_free(y), tensor_free(slope);
}

static void nan_stays_nan(void **state)
{
    (void)state;
    tensor x = tensor_of(SHAPE(3), 1, (double)NAN, -1), y = tensor_new(x.shape), slope = tensor_new(x.shape);
    for (const naive_function *f = naive_functions; f->name; f++) {
        run_function(f, x, y, slope);
        if (isnan(*element(y, 0)) || !isnan(*element(y, 1)) || isnan(*element(y, 2)))
            fail_msg("%s of 1, NaN, -1 is %g, %g, %g", f->name, (double)*element(y, 0),
                     (double)*element(y, 1), (double)*element(y, 2));
    }
    tensor_free(x), tensor_free(y), tensor_free(slope);
}

static void backward_multiplies_the_derivative_with_dy(void **state)
{
    (void)state;
    dice d = { { 14 } };
    for (const naive_function *f = naive_functions; f->name; f++) {
        layer *l = f->make();
        tensor x = roll_kind(&d, MIXED, SHAPE(19, 7), -5, 5), slope = garbage(x.shape), y = garbage(x.shape);
        tensor dy = roll_tensor(&d, x.shape, -5, 5), dx = garbage(x.shape);
        run_function(f, x, y, slope);
        build(l, x.shape);
        layer_backward(l, x, y, dy, dx);
        tensor_multiply(slope, dy);
        about("%s", f->name);
        assert_same(dx, slope);
        tensor_free(x), tensor_free(y), tensor_free(slope), tensor_free(dy), tensor_free(dx);
        layer_free(l);
    }
}

/* The oracle's own oracle: in double, with step h, the error is of order h² + 1e-16/h. */
static void derivatives_of_the_definitions_agree_with_their_differences(void **state)
{
    (void)state;
    const double h = 1e-5;
    for (const naive_function *f = naive_functions; f->name; f++)
        for (int k = -1000; k < 1000; k++) {
            double x = (k + 0.5) / 64; /* no kink is nearer than 1/128 */
            assert_close(f->slope(x), (f->value(x + h) - f->value(x - h)) / (2 * h), 1e-8);
        }
}

static void slopes_of_0_are_the_defaults(void **state)
{
    (void)state;
    struct {
        layer *l;
        double at_minus_1;
    } cases[] = { { layer_leaky_relu(0), -0.01 }, { layer_elu(0), expm1(-1) } };
    tensor x = tensor_of(SHAPE(1), -1), y = garbage(SHAPE(1));
    for (int i = 0; i < 2; i++) {
        build(cases[i].l, x.shape);
        layer_forward(cases[i].l, x, y);
        assert_close((double)*element(y, 0), cases[i].at_minus_1, (double)REAL_EPSILON);
        layer_free(cases[i].l);
    }
    tensor_free(x), tensor_free(y);
}

/* ---- dropout --------------------------------------------------------------------------------- */

enum { DROP_IMAGES = 64, DROP_SIZE = 1003 }; /* no multiple of the four draws of one counter */

static const double DROP_P = 0.3;
static const shape DROP_BATCH = { 2, { DROP_IMAGES, DROP_SIZE } };

/* Limits are five deviations of a count of so many independent draws: a right layer misses one for about one
 * seed in a million, and seeds are fixed. */
static double five_deviations(double p, double count)
{
    return 5 * sqrt(p * (1 - p) / count);
}

/* What a dropout, or a net with one, built for a batch makes of its first images where all are ones. */
static tensor ones_through(layer *l, shape batch, ptrdiff_t images, uint64_t seed, uint64_t step)
{
    tensor x = tensor_new(SHAPE(images, batch.n[1])), y = garbage(x.shape);
    tensor_fill(x, 1);
    build(l, batch);
    layer_mode(l, true, seed, step);
    layer_forward(l, x, y);
    tensor_free(x);
    layer_free(l);
    return y;
}

static tensor mask(uint64_t seed, uint64_t step)
{
    return ones_through(layer_dropout(DROP_P), DROP_BATCH, DROP_IMAGES, seed, step);
}

static double rate_of_zeros(tensor y)
{
    double zeros = 0;
    for (ptrdiff_t k = 0; k < tensor_count(y); k++) zeros += *element(y, k) == 0;
    return zeros / (double)tensor_count(y);
}

/* Independent masks are equal in p² + (1-p)² of their elements, the same mask in all. */
static void assert_independent(tensor a, tensor b)
{
    double equal = 0, count = (double)tensor_count(a), p = DROP_P * DROP_P + (1 - DROP_P) * (1 - DROP_P);
    for (ptrdiff_t k = 0; k < tensor_count(a); k++) equal += *element(a, k) == *element(b, k);
    assert_close(equal / count, p, five_deviations(p, count));
}

static void dropout_zeroes_at_its_rate_and_scales_the_rest(void **state)
{
    (void)state;
    static const double rates[] = { 0.1, 0.3, 0.5, 0.9 };
    for (int i = 0; i < 4; i++) {
        double p = rates[i];
        tensor y = ones_through(layer_dropout(p), DROP_BATCH, DROP_IMAGES, 1, 1);
        assert_close(rate_of_zeros(y), p, five_deviations(p, (double)tensor_count(y)));
        for (ptrdiff_t k = 0; k < tensor_count(y); k++)
            assert_true(*element(y, k) == 0 || *element(y, k) == (real)(1 / (1 - p)));
        tensor_free(y);
    }
}

static void dropout_of_rate_0_is_the_identity(void **state)
{
    (void)state;
    tensor y = ones_through(layer_dropout(0), DROP_BATCH, DROP_IMAGES, 1, 1);
    for (ptrdiff_t k = 0; k < tensor_count(y); k++) assert_true(*element(y, k) == 1);
    tensor_free(y);
}

/* p = 1/2: kept elements are doubled, exactly. */
static void dropout_has_the_same_mask_backward(void **state)
{
    (void)state;
    dice d = { { 15 } };
    for (int kind = 0; kind < VIEWS; kind++) {
        layer *l = layer_dropout(0.5);
        tensor x = roll_kind(&d, kind, SHAPE(19, 3, 5, 5), 1, 9), dy = roll_tensor(&d, x.shape, 1, 9);
        tensor y = garbage(x.shape), dx = garbage(x.shape);
        int kept = 0;
        build(l, x.shape);
        layer_forward(l, x, y);
        layer_backward(l, x, y, dy, dx);
        for (ptrdiff_t k = 0; k < tensor_count(x); k++) {
            real scale = *element(y, k) == 0 ? 0 : 2;
            kept += scale != 0;
            assert_true(*element(y, k) == scale * *element(x, k));
            assert_true(*element(dx, k) == scale * *element(dy, k));
        }
        assert_in_range(kept, 600, 825); /* of 1,425 */
        tensor_free(x), tensor_free(y), tensor_free(dy), tensor_free(dx);
        layer_free(l);
    }
}

static void dropout_is_the_identity_in_inference(void **state)
{
    (void)state;
    dice d = { { 16 } };
    layer *l = layer_dropout(0.5);
    tensor x = roll_kind(&d, MIXED, SHAPE(19, 4, 3), -9, 9), dy = roll_tensor(&d, x.shape, -9, 9);
    tensor y = garbage(x.shape), dx = garbage(x.shape);
    build(l, x.shape);
    layer_forward(l, x, y); /* leaves a mask behind */
    layer_mode(l, false, 1, 2);
    layer_forward(l, x, y);
    layer_backward(l, x, y, dy, dx);
    assert_same(y, x);
    assert_same(dx, dy);
    tensor_free(x), tensor_free(y), tensor_free(dy), tensor_free(dx);
    layer_free(l);
}

static void a_mask_is_a_function_of_seed_and_step(void **state)
{
    (void)state;
    tensor a = mask(1, 1), again = mask(1, 1), seed = mask(2, 1), step = mask(1, 2), both = mask(2, 2);
    assert_same(a, again);
    assert_independent(a, seed);
    assert_independent(a, step);
    assert_independent(seed, step);
    assert_independent(a, both);
    tensor_free(a), tensor_free(again), tensor_free(seed), tensor_free(step), tensor_free(both);
}

static void elements_of_a_mask_are_independent(void **state)
{
    (void)state;
    tensor y = mask(3, 1);
    for (ptrdiff_t far = 1; far <= 8; far++) {
        assert_independent(tensor_narrow(y, 0, 0, DROP_IMAGES - far),
                           tensor_narrow(y, 0, far, DROP_IMAGES - far));
        assert_independent(tensor_narrow(y, 1, 0, DROP_SIZE - far),
                           tensor_narrow(y, 1, far, DROP_SIZE - far));
    }
    tensor_free(y);
}

/* Images of 1 to 9 elements share no draws, whether they fill the four of a counter or not. */
static void small_images_have_masks_of_their_own(void **state)
{
    (void)state;
    const ptrdiff_t images = 20000;
    for (ptrdiff_t size = 1; size <= 9; size++) {
        tensor y = ones_through(layer_dropout(DROP_P), SHAPE(images, size), images, 1, 1);
        for (ptrdiff_t k = 0; k < size; k++)
            for (ptrdiff_t other = 0; other < size; other++)
                assert_independent(tensor_narrow(tensor_select(y, 1, k), 0, 0, images - 1),
                                   tensor_narrow(tensor_select(y, 1, other), 0, 1, images - 1));
        tensor_free(y);
    }
}

/* Of two dropouts in a row with masks of their own an element is kept by both with (1-p)²; were the masks the
 * same, with 1-p. */
static void layers_of_a_net_have_masks_of_their_own(void **state)
{
    (void)state;
    layer *two = layer_sequence(layer_dropout(DROP_P), layer_dropout(DROP_P));
    tensor y = ones_through(two, DROP_BATCH, DROP_IMAGES, 1, 1);
    double p = 1 - (1 - DROP_P) * (1 - DROP_P);
    assert_close(rate_of_zeros(y), p, five_deviations(p, (double)tensor_count(y)));
    tensor_free(y);
}

/* 64 images are cut into chunks of 8, 500 into chunks of 16. */
static void a_mask_does_not_depend_on_the_batch_and_its_chunks(void **state)
{
    (void)state;
    tensor y = mask(1, 1);
    tensor part = ones_through(layer_dropout(DROP_P), DROP_BATCH, 19, 1, 1);
    tensor alone = ones_through(layer_dropout(DROP_P), SHAPE(1, DROP_SIZE), 1, 1, 1);
    tensor large = ones_through(layer_dropout(DROP_P), SHAPE(500, DROP_SIZE), 500, 1, 1);
    assert_same(part, tensor_narrow(y, 0, 0, 19));
    assert_same(alone, tensor_narrow(y, 0, 0, 1));
    assert_same(tensor_narrow(large, 0, 0, DROP_IMAGES), y);
    tensor_free(y), tensor_free(part), tensor_free(alone), tensor_free(large);
}

/* ---- flatten --------------------------------------------------------------------------------- */

static void flatten_has_the_elements_of_each_image_in_row_major_order(void **state)
{
    (void)state;
    dice d = { { 17 } };
    for (int kind = 0; kind < VIEWS; kind++)
        for (int i = 0; i < 10; i++) {
            shape s = roll_shape(&d, 2, 5, 1, 5);
            if (i == 0) s.n[0] = 19;
            tensor x = roll_kind(&d, kind, s, -99, 99);
            layer *l = layer_flatten();
            build(l, s);
            about_layer(l, s, view_names[kind]);
            ptrdiff_t size = tensor_count(x) / s.n[0];
            assert_string_equal(shape_text(l->y).text, shape_text(SHAPE(s.n[0], size)).text);
            naive want = { .y = tensor_new(SHAPE(s.n[0], size)), .dx = tensor_new(s) };
            tensor dy = roll_tensor(&d, want.y.shape, -99, 99);
            for (ptrdiff_t k = 0; k < tensor_count(x); k++) {
                *element(want.y, k) = *element(x, k);
                *element(want.dx, k) = *element(dy, k);
            }
            check_passes(l, x, dy, want, 0);
            naive_free(want);
            tensor_free(x), tensor_free(dy);
            layer_free(l);
        }
    layer *l = layer_flatten();
    build(l, SHAPE(4));
    assert_string_equal(shape_text(l->y).text, "[4, 1]");
    layer_free(l);
}

/* ---- sequences ------------------------------------------------------------------------------- */

enum { MEMBERS = 7 };

static layer *member(int i)
{
    switch (i) {
    case 0: return layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 } });
    case 1: return layer_relu();
    case 2: return layer_maxpool((maxpool){ .kernel = { 2, 2 } });
    case 3: return layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 2, 2 } });
    case 4: return layer_dropout(0.5);
    case 5: return layer_flatten();
    default: return layer_dense((dense){ .out_features = 5 });
    }
}

static layer *first_members(int count)
{
    layer *parts[MEMBERS];
    for (int i = 0; i < count; i++) parts[i] = member(i);
    return layer_sequence_of(count, parts);
}

/* In inference, in which a dropout does not draw: alone it has other numbers than in a net. */
static void build_on(layer *l, shape s)
{
    build(l, s);
    layer_mode(l, false, 0, 0);
}

static void a_sequence_is_its_layers_one_after_another(void **state)
{
    (void)state;
    dice d = { { 18 } };
    for (int count = 1; count <= MEMBERS; count++) {
        about("%d layers", count);
        layer *l = first_members(count), *own[MEMBERS];
        tensor x = roll_kind(&d, MIXED, SHAPE(19, 2, 8, 8), -3, 3), at[MEMBERS + 1] = { x };
        build_on(l, x.shape);
        roll_elements(&d, layer_parameters(l), -2, 2);
        for (int i = 0; i < count; i++) {
            own[i] = member(i);
            build_on(own[i], at[i].shape);
            for (int k = 0; k < own[i]->params; k++) tensor_copy(own[i]->param[k], l->child[i]->param[k]);
            at[i + 1] = garbage(own[i]->y);
            layer_forward(own[i], at[i], at[i + 1]);
        }
        tensor y = garbage(l->y), dx = garbage(x.shape), dy = roll_tensor(&d, l->y, -3, 3),
               back = tensor_clone(dy);
        layer_forward(l, x, y);
        assert_same(y, at[count]);
        layer_backward(l, x, y, dy, dx);
        for (int i = count - 1; i >= 0; i--) {
            tensor next = garbage(at[i].shape);
            layer_backward(own[i], at[i], at[i + 1], back, next);
            tensor_free(back);
            back = next;
        }
        assert_same(dx, back);
        for (int i = 0; i < count; i++)
            for (int k = 0; k < own[i]->params; k++) {
                assert_true(largest(own[i]->grad[k]) > 0);
                assert_same(l->child[i]->grad[k], own[i]->grad[k]);
            }
        for (int i = 0; i < count; i++) layer_free(own[i]);
        for (int i = 0; i <= count; i++) tensor_free(at[i]);
        tensor_free(y), tensor_free(dx), tensor_free(dy), tensor_free(back);
        layer_free(l);
    }
}

static layer *nested(int form)
{
    layer *m[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) m[i] = member(i);
    switch (form) {
    case 0: return layer_sequence(layer_sequence_of(MEMBERS, m));
    case 1: return layer_sequence(m[0], layer_sequence(m[1], m[2], m[3]), m[4], layer_sequence(m[5], m[6]));
    case 2:
        return layer_sequence(layer_sequence(m[0], layer_sequence(m[1], layer_sequence_of(4, m + 2))), m[6]);
    default: return layer_sequence(layer_sequence(m[0], m[1]), layer_sequence_of(5, m + 2));
    }
}

static void nested_sequences_are_the_flat_one(void **state)
{
    (void)state;
    dice d = { { 19 } };
    layer *flat = first_members(MEMBERS);
    tensor x = roll_tensor(&d, SHAPE(19, 2, 8, 8), -3, 3), dy = roll_tensor(&d, SHAPE(19, 5), -3, 3);
    build_on(flat, x.shape);
    roll_elements(&d, layer_parameters(flat), -2, 2);
    tensor y = garbage(flat->y), dx = garbage(x.shape);
    layer_forward(flat, x, y);
    layer_backward(flat, x, y, dy, dx);
    for (int form = 0; form < 4; form++) {
        about("form %d", form);
        layer *l = nested(form);
        build_on(l, x.shape);
        tensor_copy(layer_parameters(l), layer_parameters(flat));
        tensor out = garbage(flat->y), dout = garbage(x.shape);
        layer_forward(l, x, out);
        layer_backward(l, x, out, dy, dout);
        assert_same(out, y);
        assert_same(dout, dx);
        assert_same(layer_gradients(l), layer_gradients(flat));
        tensor_free(out), tensor_free(dout);
        layer_free(l);
    }
    tensor_free(x), tensor_free(dy), tensor_free(y), tensor_free(dx);
    layer_free(flat);
}

static void without_dx_gradients_are_the_same(void **state)
{
    (void)state;
    dice d = { { 20 } };
    tensor x = roll_tensor(&d, SHAPE(19, 2, 8, 8), -3, 3);
    for (int form = -2; form < 4; form++) { /* one layer, the flat sequence, and nested ones */
        about("form %d", form);
        layer *l = form == -2 ? member(0) : form == -1 ? first_members(MEMBERS) : nested(form);
        build_on(l, x.shape);
        roll_elements(&d, layer_parameters(l), -2, 2);
        tensor y = garbage(l->y), dx = garbage(x.shape), dy = roll_tensor(&d, l->y, -3, 3);
        layer_forward(l, x, y);
        layer_backward(l, x, y, dy, dx);
        tensor with = tensor_clone(layer_gradients(l));
        assert_true(largest(with) > 0);
        tensor_fill(layer_gradients(l), 0);
        layer_backward(l, x, y, dy, (tensor){ 0 });
        assert_same(layer_gradients(l), with);
        tensor_free(y), tensor_free(dx), tensor_free(dy), tensor_free(with);
        layer_free(l);
    }
    tensor_free(x);
}

/* In training a sequence's dropout has one mask for both passes. */
static void dropout_in_a_sequence_has_the_same_mask_backward(void **state)
{
    (void)state;
    layer *l = layer_sequence(layer_leaky_relu(0.5), layer_sequence(layer_dropout(0.5), layer_flatten()));
    dice d = { { 21 } };
    tensor x = roll_tensor(&d, SHAPE(19, 4, 4), 1, 9), y = garbage(SHAPE(19, 16)), dx = garbage(x.shape);
    build(l, x.shape);
    layer_forward(l, x, y);
    layer_backward(l, x, y, y, dx);
    for (ptrdiff_t k = 0; k < tensor_count(x); k++) assert_true(*element(dx, k) == 2 * *element(y, k));
    assert_close(rate_of_zeros(y), 0.5, five_deviations(0.5, 19 * 16));
    tensor_free(x), tensor_free(y), tensor_free(dx);
    layer_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(conv2d_is_its_definition_for_any_options_and_view),
        CLAIM(conv2d_is_its_definition_at_the_corners_of_its_options),
        CLAIM(conv2d_is_a_cross_correlation),
        CLAIM(im2col_and_col2im_are_their_definitions_and_adjoint),
        CLAIM(maxpool_is_its_definition_for_any_options_and_view),
        CLAIM(avgpool_is_its_definition_for_any_options_and_view),
        CLAIM(pooling_sizes_and_divisors_follow_pytorch),
        CLAIM(of_equal_maxima_the_first_has_the_gradient),
        CLAIM(windows_that_share_a_maximum_sum_their_gradients),
        CLAIM(nan_is_greater_than_any_number),
        CLAIM(padding_is_no_maximum_unless_it_is_zero),
        CLAIM(of_minus_infinities_one_in_the_image_has_the_gradient),
        CLAIM(pool_applies_its_function_to_windows_in_row_major_order),
        CLAIM(pool_of_maximum_is_maxpool),
        CLAIM(pool_without_an_adjoint_is_differentiated_numerically),
        CLAIM(dense_is_its_definition_for_any_size_and_view),
        CLAIM(dense_is_its_definition_where_its_gradient_is_made_in_one_piece),
        CLAIM(backward_is_the_adjoint_of_forward),
        CLAIM(activations_are_their_definitions),
        CLAIM(activations_do_not_overflow),
        CLAIM(at_a_kink_the_derivative_is_that_of_the_left_side),
        CLAIM(at_infinity_activations_have_their_limits),
        CLAIM(nan_stays_nan),
        CLAIM(backward_multiplies_the_derivative_with_dy),
        CLAIM(derivatives_of_the_definitions_agree_with_their_differences),
        CLAIM(slopes_of_0_are_the_defaults),
        CLAIM(dropout_zeroes_at_its_rate_and_scales_the_rest),
        CLAIM(dropout_of_rate_0_is_the_identity),
        CLAIM(dropout_has_the_same_mask_backward),
        CLAIM(dropout_is_the_identity_in_inference),
        CLAIM(a_mask_is_a_function_of_seed_and_step),
        CLAIM(elements_of_a_mask_are_independent),
        CLAIM(small_images_have_masks_of_their_own),
        CLAIM(layers_of_a_net_have_masks_of_their_own),
        CLAIM(a_mask_does_not_depend_on_the_batch_and_its_chunks),
        CLAIM(flatten_has_the_elements_of_each_image_in_row_major_order),
        CLAIM(a_sequence_is_its_layers_one_after_another),
        CLAIM(nested_sequences_are_the_flat_one),
        CLAIM(without_dx_gradients_are_the_same),
        CLAIM(dropout_in_a_sequence_has_the_same_mask_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
