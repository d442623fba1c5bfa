/* suite_adjoint.c: <f(x), y> = <x, fᵀ(y)> for every layer f that is linear in its input, and in its weights.
 *
 * Both sides are the same sum of products y a x, added in different orders. An element of f(x), a sum of m
 * terms, is off by at most m roundings of the sum of the terms' sizes, whatever the order (Higham, Accuracy
 * and Stability of Numerical Algorithms, section 3.1), and the inner products are taken in double. So
 *
 *     |<f(x), y> - <x, fᵀ(y)>| <= (m + m' + 8) epsilon S,   S = sum of |y| |a| |x|,
 *
 * with m and m' the terms of an element of f(x) and of fᵀ(y): at most the elements of an image, added up over
 * the layers of a chain. S comes from the layer itself, given the sizes of x and of its weights: no other
 * coefficient of these layers is negative. */
#include "tests/conformance/case.h"

#include "layers/window.h"

#include <math.h>

static double dot(tensor a, tensor b)
{
    double sum = 0;
    for (ptrdiff_t k = 0; k < tensor_count(a); k++) sum += (double)*element(a, k) * (double)*element(b, k);
    return sum;
}

static real size_of(real x, void *context)
{
    (void)context;
    return x < 0 ? -x : x;
}

static tensor sizes(tensor x)
{
    tensor y = tensor_new(x.shape);
    tensor_map(y, size_of, NULL, x);
    return y;
}

static void expect_equal(const char *what, double a, double b, double terms, double size)
{
    double bound = (terms + 8) * (double)REAL_EPSILON * size;
    if (fabs(a - b) <= bound) return;
    case_fail("%s: %.17g and %.17g differ by %g, at most %g by rounding", what, a, b, fabs(a - b), bound);
}

static void count_terms(layer *l, const char *path, void *context)
{
    (void)path;
    shape x = l->x, y = l->y;
    *(double *)context += (double)(shape_count(x, "x") / x.n[0] + shape_count(y, "y") / y.n[0]);
}

static ptrdiff_t seed;

/* In x, and in the parameters, whose gradient is the adjoint of the map from them to y. Takes the layer over. */
static void check(layer *l, shape s)
{
    dice d = { { (uint64_t)++seed } };
    view_kind kind = (view_kind)roll(&d, 0, VIEW_KINDS - 1);
    tensor x = view_of(&d, kind, s);
    fill_normal(x, (uint64_t)seed);
    case_layer(l, s, view_names[kind]);
    if (case_build(l, s)) {
        tensor y = tensor_new(l->y), fx = tensor_new(l->y), adjoint = tensor_new(s), size = tensor_new(l->y);
        tensor weights = layer_parameters(l), gradients = layer_gradients(l);
        double terms = 0;
        fill_normal(y, 1000 + (uint64_t)seed);
        fill_normal(weights, 2000 + (uint64_t)seed);
        layer_visit(l, count_terms, &terms);
        case_soil(l, s);
        layer_forward(l, x, fx);
        layer_backward(l, x, fx, y, adjoint);
        tensor before = tensor_clone(weights), absolute = sizes(x), weighed = sizes(y);
        tensor_map(weights, size_of, NULL, before);
        layer_forward(l, absolute, size);
        double most = dot(size, weighed);
        if (most == 0 || dot(fx, y) == 0) case_fail("zero on both sides");
        expect_equal("x", dot(fx, y), dot(x, adjoint), terms, most);
        if (l->params == 1) {
            double places = (double)shape_count(l->y, "y");
            if (dot(before, gradients) == 0) case_fail("a gradient of zero");
            expect_equal("weight", dot(fx, y), dot(before, gradients), terms + places, most);
        }
        tensor_free(y), tensor_free(fx), tensor_free(adjoint), tensor_free(size);
        tensor_free(before), tensor_free(absolute), tensor_free(weighed);
    }
    case_end();
    tensor_free(x);
    layer_free(l);
}

/* ---- convolution ----------------------------------------------------------------------------- */

static shape roll_input(dice *d, ptrdiff_t channels)
{
    return SHAPE(chance(d, 30) ? 19 : roll(d, 1, 5), channels, roll(d, 5, 9), roll(d, 5, 9));
}

static void conv2d_case(dice *d)
{
    int groups = (int)roll(d, 1, 3);
    conv2d o = { .out_channels = groups * (int)roll(d, 1, 3), .groups = groups, .no_bias = true };
    for (int axis = 0; axis < 2; axis++) {
        o.kernel[axis] = (int)roll(d, 1, 3);
        o.dilation[axis] = (int)roll(d, 1, 2);
        o.stride[axis] = (int)roll(d, 1, 4);
        o.padding[axis] = (int)roll(d, 0, o.kernel[axis] - 1);
    }
    check(layer_conv2d(o), roll_input(d, groups * roll(d, 1, 3)));
}

static void conv_transpose2d_case(dice *d)
{
    int groups = (int)roll(d, 1, 3);
    conv_transpose2d o = { .out_channels = groups * (int)roll(d, 1, 3), .groups = groups, .no_bias = true };
    for (int axis = 0; axis < 2; axis++) {
        o.kernel[axis] = (int)roll(d, 1, 3);
        o.dilation[axis] = (int)roll(d, 1, 2);
        o.stride[axis] = (int)roll(d, 1, 4);
        o.padding[axis] = (int)roll(d, 0, o.kernel[axis] - 1);
        o.output_padding[axis] = (int)roll(d, 0, o.stride[axis] - 1);
    }
    check(layer_conv_transpose2d(o), roll_input(d, groups * roll(d, 1, 3)));
}

static void dense_case(dice *d)
{
    check(layer_dense((dense){ .out_features = (int)roll(d, 1, 30), .no_bias = true }),
          SHAPE(roll(d, 1, 19), roll(d, 1, 60)));
}

/* ---- pooling, borders, sizes ------------------------------------------------------------------- */

static void avgpool_case(dice *d)
{
    avgpool o = { .ceil_mode = chance(d, 50), .count_exclude_pad = chance(d, 50) };
    for (int axis = 0; axis < 2; axis++) {
        bool global = (axis == 0 || !o.kernel[0]) && chance(d, 10); /* { 3, 0 } is 3x3 */
        o.kernel[axis] = global ? 0 : (int)roll(d, 1, 3);
        o.stride[axis] = (int)roll(d, axis && o.stride[0] ? 1 : 0, 4);
        o.dilation[axis] = global ? 0 : (int)roll(d, 0, 2);
        o.padding[axis] = global ? 0 : (int)roll(d, 0, o.kernel[axis] - 1);
    }
    check(layer_avgpool(o), roll_input(d, roll(d, 1, 4)));
}

static void adaptive_avgpool_case(dice *d)
{
    check(layer_adaptive_avgpool((adaptive_avgpool){ { (int)roll(d, 1, 11), (int)roll(d, 1, 11) } }),
          roll_input(d, roll(d, 1, 4)));
}

static void pad2d_case(dice *d)
{
    check(layer_pad2d((pad2d){ .height = { (int)roll(d, 0, 4), (int)roll(d, 0, 4) },
                               .width = { (int)roll(d, 0, 4), (int)roll(d, 0, 4) },
                               .mode = (pad_mode)roll(d, 0, 2) }),
          roll_input(d, roll(d, 1, 4)));
}

static void upsample_case(dice *d)
{
    bool bilinear = chance(d, 70);
    check(layer_upsample((upsample){ .scale = { (int)roll(d, 1, 4), (int)roll(d, 1, 4) },
                                     .mode = bilinear ? UPSAMPLE_BILINEAR : UPSAMPLE_NEAREST,
                                     .align_corners = bilinear && chance(d, 50) }),
          roll_input(d, roll(d, 1, 4)));
}

static void elementwise_case(dice *d)
{
    shape s = roll_shape(d, 2, 5, 1, 5);
    s.n[1] = roll(d, 8, 12); /* all dropped: once in 2^40 */
    int kind = (int)roll(d, 0, 3);
    check(kind == 0   ? layer_flatten()
          : kind == 1 ? layer_identity()
          : kind == 2 ? layer_dropout(0.1 * (double)roll(d, 0, 5))
                      : layer_channel_dropout(0.1 * (double)roll(d, 0, 5)),
          s);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static layer *convolution(int channels)
{
    return layer_conv2d(
        (conv2d){ .out_channels = channels, .kernel = { 3, 3 }, .padding = { 1, 1 }, .no_bias = true });
}

/* A linear map that keeps the image's size and makes of 3 channels 3. */
static layer *roll_linear(dice *d, int depth)
{
    switch (roll(d, 0, depth > 0 ? 7 : 4)) {
    case 0: return convolution(3);
    case 1: return layer_identity();
    case 2: return layer_dropout(0.3);
    case 3:
        return layer_sequence(
            layer_pad2d((pad2d){ .height = { 1, 1 }, .width = { 2, 0 }, .mode = PAD_REFLECT }),
            layer_avgpool((avgpool){ .kernel = { 3, 3 }, .stride = { 1, 1 } }));
    case 4:
        return layer_sequence(layer_upsample((upsample){ .scale = { 2, 3 }, .mode = UPSAMPLE_BILINEAR }),
                              layer_avgpool((avgpool){ .kernel = { 2, 3 } }));
    case 5: return layer_residual(roll_linear(d, depth - 1));
    case 6: return layer_residual_projected(roll_linear(d, depth - 1), roll_linear(d, depth - 1));
    default:
        return layer_sequence(
            layer_concat(roll_linear(d, depth - 1), convolution(2), roll_linear(d, depth - 1)),
            convolution(3));
    }
}

static void block_case(dice *d)
{
    check(layer_residual(layer_sequence(roll_linear(d, 2), roll_linear(d, 2))), roll_input(d, 3));
}

/* ---- im2col and col2im themselves ---------------------------------------------------------------- */

static void window_case(dice *d)
{
    shape s = roll_input(d, roll(d, 1, 4));
    int kernel[2], stride[2], padding[2], dilation[2];
    for (int axis = 0; axis < 2; axis++) {
        kernel[axis] = (int)roll(d, 1, 3);
        stride[axis] = (int)roll(d, 1, 4);
        dilation[axis] = (int)roll(d, 1, 2);
        padding[axis] = (int)roll(d, 0, kernel[axis] - 1);
    }
    bool ceil_mode = chance(d, 50);
    layer *named = layer_identity();
    window w;
    case_begin("windows %td kernel %dx%d stride %dx%d padding %dx%d dilation %dx%d %s of %tdx%td", ++seed,
               kernel[0], kernel[1], stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1],
               ceil_mode ? "ceil" : "floor", s.n[2], s.n[3]);
    if (window_plan(&w, named, s, kernel, stride, padding, dilation, ceil_mode) == 0) {
        tensor image = tensor_new(SHAPE(s.n[1], s.n[2], s.n[3]));
        tensor columns = tensor_new(SHAPE(s.n[1], kernel[0], kernel[1], w.out[0], w.out[1]));
        tensor other = tensor_new(columns.shape), sum = filled(image.shape, NAN);
        tensor padded = tensor_new(window_padded_shape(&w, s.n[1]));
        fill_normal(image, (uint64_t)seed);
        fill_normal(other, 1000 + (uint64_t)seed);
        window_im2col(&w, columns, image, padded);
        tensor_fill(padded, (real)NAN);
        window_col2im(&w, sum, other, padded);
        tensor a = sizes(columns), b = sizes(other);
        if (dot(columns, other) == 0) case_fail("zero on both sides");
        expect_equal("columns", dot(columns, other), dot(image, sum), kernel[0] * kernel[1], dot(a, b));
        tensor_free(image), tensor_free(columns), tensor_free(other), tensor_free(sum), tensor_free(padded);
        tensor_free(a), tensor_free(b);
    }
    case_end();
    layer_free(named);
}

int main(void)
{
    static const struct {
        void (*run)(dice *d);
        int all, fast;
    } kinds[] = {
        { conv2d_case, 200, 15 },   { conv_transpose2d_case, 200, 15 }, { dense_case, 60, 5 },
        { avgpool_case, 150, 10 },  { adaptive_avgpool_case, 80, 5 },   { pad2d_case, 120, 10 },
        { upsample_case, 100, 10 }, { elementwise_case, 100, 10 },      { block_case, 120, 10 },
        { window_case, 200, 15 },
    };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        dice d = { { 500 + k } };
        for (int i = 0; i < case_count(kinds[k].all, kinds[k].fast); i++) kinds[k].run(&d);
    }
    return case_status();
}
