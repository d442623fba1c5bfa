/* suite_sweep.c: every layer's backward pass against central differences, over the crossing of its options,
 * at inputs that are views of every kind.
 *
 * In double, to 1e-6. No case may be VACUOUS, so sets to be normalised have more than one element, and
 * windows see the image. */
#include "tests/conformance/case.h"

#include "nn/gradcheck.h"

#include <string.h>

static uint64_t seed;
static int every = 1; /* of the crossing, so many are left out between two that are tried */

/* Takes the layer over. The kind of view, like the numbers, changes from case to case. */
static void check(layer *l, shape s, bool inference)
{
    seed++;
    if (seed % every != 0) {
        error_clear();
        layer_free(l);
        return;
    }
    dice d = { { seed } };
    view_kind kind = (view_kind)roll(&d, 0, VIEW_KINDS - 1);
    /* All images the same, and each channel a single number: its gradient is zero. */
    bool constant = s.rank == 2 && l && strcmp(l->type->name, "batchnorm") == 0;
    if (constant && kind == VIEW_BROADCAST) kind = VIEW_PLAIN;
    tensor x = view_of(&d, kind, s);
    fill_normal(x, seed);
    case_layer(l, s, view_names[kind]);
    gradcheck_result r = gradcheck_layer_at(l, x, (gradcheck){ .inference = inference, .seed = seed });
    if (!r.passed) case_fail("%s", r.text);
    case_end();
    tensor_free(x);
    layer_free(l);
}

static void train(layer *l, shape s)
{
    check(l, s, false);
}

/* ---- convolution ----------------------------------------------------------------------------- */

static void convolutions(void)
{
    for (int kernel = 1; kernel <= 3; kernel++)
        for (int stride = 1; stride <= 3; stride++)
            for (int padding = 0; padding < kernel; padding++)
                for (int dilation = 1; dilation <= 2; dilation++)
                    for (int groups = 1; groups <= 2; groups++)
                        for (int bias = 0; bias < 2; bias++)
                            train(layer_conv2d((conv2d){ .out_channels = 2 * groups,
                                                         .kernel = { kernel, 4 - kernel },
                                                         .stride = { stride, 4 - stride },
                                                         .padding = { padding, 3 - kernel },
                                                         .dilation = { dilation, 3 - dilation },
                                                         .groups = groups,
                                                         .no_bias = !bias }),
                                  SHAPE(2, 2, 6, 5));
}

static void transposed_convolutions(void)
{
    for (int kernel = 1; kernel <= 3; kernel++)
        for (int stride = 1; stride <= 3; stride++)
            for (int padding = 0; padding < kernel; padding++)
                for (int dilation = 1; dilation <= 2; dilation++)
                    for (int groups = 1; groups <= 2; groups++)
                        for (int more = 0; more < (stride > dilation ? stride : dilation); more++)
                            train(layer_conv_transpose2d((conv_transpose2d){ .out_channels = 2 * groups,
                                                                             .kernel = { kernel, 2 },
                                                                             .stride = { stride, 2 },
                                                                             .padding = { padding, 1 },
                                                                             .output_padding = { more, 1 },
                                                                             .dilation = { dilation, 1 },
                                                                             .groups = groups,
                                                                             .no_bias = more == 1 }),
                                  SHAPE(2, 2, 3, 3));
}

/* ---- pooling --------------------------------------------------------------------------------- */

static real weighed_squares(const real *window, ptrdiff_t n, const void *context)
{
    real sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) sum += window[i] * window[i] * (real)(i + 1);
    return sum * *(const real *)context;
}

static void its_slope(const real *window, ptrdiff_t n, real y, real dy, real *dwindow, const void *context)
{
    (void)y;
    for (ptrdiff_t i = 0; i < n; i++)
        dwindow[i] = 2 * window[i] * (real)(i + 1) * *(const real *)context * dy;
}

#define GEOMETRY                                                                                             \
    .kernel = { kernel, kernel ? 4 - kernel : 0 }, .stride = { stride, stride ? 3 - stride : 0 },            \
    .padding = { padding, kernel == 1 || kernel == 2 ? 1 : 0 }, .dilation = { dilation, 1 },                 \
    .ceil_mode = ceil_mode

static void pooling(void)
{
    static const real factor = (real)0.5;
    static const pool_function function = { "squares", weighed_squares, its_slope, &factor };
    const shape s = SHAPE(2, 2, 7, 5);
    for (int kernel = 0; kernel <= 3; kernel++)
        for (int stride = 0; stride <= 2; stride++)
            for (int padding = 0; padding < (kernel ? kernel : 1); padding++)
                for (int dilation = 1; dilation <= (kernel ? 2 : 1); dilation++)
                    for (int ceil_mode = 0; ceil_mode < 2; ceil_mode++) {
                        for (int value = PAD_DEFAULT; value <= PAD_LOWEST; value++)
                            train(layer_maxpool((maxpool){ GEOMETRY, .pad_value = (pad_value)value }), s);
                        for (int exclude = 0; exclude < 2; exclude++)
                            train(layer_avgpool((avgpool){ GEOMETRY, .count_exclude_pad = exclude }), s);
                        for (int p = 2; p <= 3; p++) train(layer_lppool((lppool){ GEOMETRY, .p = p }), s);
                        train(layer_pool((pool){ &function, GEOMETRY }), s);
                    }
    for (int height = 1; height <= 8; height++)
        for (int width = 1; width <= 6; width++)
            train(layer_adaptive_avgpool((adaptive_avgpool){ { height, width } }), s);
}

/* ---- normalisation, rows ----------------------------------------------------------------------- */

static void normalisation(void)
{
    static const double epsilons[] = { 0, 1e-3, 0.5 };
    static const shape shapes[] = {
        { 2, { 6, 4 } }, { 3, { 4, 4, 5 } }, { 4, { 3, 4, 3, 2 } }, { 4, { 19, 4, 2, 1 } }
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int e = 0; e < 3; e++)
            for (int affine = 0; affine < 2; affine++) {
                const double epsilon = epsilons[e];
                const shape s = shapes[i];
                for (int inference = 0; inference < 2; inference++)
                    check(layer_batchnorm((batchnorm){
                              .epsilon = epsilon, .momentum = inference ? 0.3 : 0, .no_affine = !affine }),
                          s, inference);
                for (int last = 0; last < s.rank; last++)
                    if (last == 0 || s.n[s.rank - 1] > 2)
                        train(layer_layernorm(
                                  (layernorm){ .axes = last, .epsilon = epsilon, .no_affine = !affine }),
                              s);
                for (int groups = 1; groups <= 4; groups *= 2)
                    if (s.n[1] / groups * (s.rank > 2 ? s.n[2] : 1) > 2)
                        train(layer_groupnorm(
                                  (groupnorm){ .groups = groups, .epsilon = epsilon, .no_affine = !affine }),
                              s);
            }
}

static void rows(void)
{
    static const shape shapes[] = {
        { 2, { 5, 7 } }, { 3, { 3, 2, 5 } }, { 4, { 2, 3, 4, 2 } }, { 5, { 2, 3, 2, 2, 3 } }
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int axis = 0; axis < shapes[i].rank; axis++) {
            train(layer_softmax(axis), shapes[i]);
            train(layer_log_softmax(axis), shapes[i]);
        }
}

/* ---- borders, sizes -------------------------------------------------------------------------- */

static void borders(void)
{
    static const int borders[][4] = { { 0, 0, 0, 0 }, { 1, 0, 0, 0 }, { 0, 2, 0, 0 }, { 0, 0, 2, 0 },
                                      { 0, 0, 0, 1 }, { 1, 2, 2, 1 }, { 2, 2, 2, 2 } };
    for (int mode = PAD_CONSTANT; mode <= PAD_REPLICATE; mode++)
        for (size_t i = 0; i < sizeof borders / sizeof borders[0]; i++)
            for (int value = 0; value < 2; value++)
                train(layer_pad2d((pad2d){ .height = { borders[i][0], borders[i][1] },
                                           .width = { borders[i][2], borders[i][3] },
                                           .mode = (pad_mode)mode,
                                           .value = value }),
                      SHAPE(2, 2, 3, 4));
}

static void upsampling(void)
{
    for (int height = 1; height <= 3; height++)
        for (int width = 1; width <= 3; width++)
            for (int mode = 0; mode < 3; mode++)
                for (int size = 1; size <= 4; size += 3)
                    train(layer_upsample((upsample){ .scale = { height, width },
                                                     .mode = mode ? UPSAMPLE_BILINEAR : UPSAMPLE_NEAREST,
                                                     .align_corners = mode == 2 }),
                          SHAPE(2, 2, size, 3));
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void dense_layers(void)
{
    for (int in = 1; in <= 9; in += 2)
        for (int out = 1; out <= 7; out += 3)
            for (int images = 1; images <= 19; images += 9)
                for (int bias = 0; bias < 2; bias++)
                    train(layer_dense((dense){ .out_features = out, .no_bias = !bias }), SHAPE(images, in));
}

static layer *leaky_relu(void)
{
    return layer_leaky_relu(0.25);
}

static layer *elu(void)
{
    return layer_elu(0.5);
}

static void activations(void)
{
    static layer *(*const make[])(void) = {
        layer_relu,      layer_relu6,       leaky_relu,     elu,           layer_selu,     layer_gelu,
        layer_silu,      layer_mish,        layer_tanh,     layer_sigmoid, layer_softplus, layer_softsign,
        layer_hardswish, layer_hardsigmoid, layer_identity, layer_flatten,
    };
    for (size_t i = 0; i < sizeof make / sizeof make[0]; i++) {
        train(make[i](), SHAPE(9, 7));
        train(make[i](), SHAPE(2, 3, 5));
        train(make[i](), SHAPE(2, 2, 4, 4));
        check(make[i](), SHAPE(10, 2, 3, 1), true);
    }
}

static void dropouts(void)
{
    for (int tenths = 0; tenths <= 8; tenths += 2)
        for (int inference = 0; inference < 2; inference++) {
            check(layer_dropout(tenths / 10.0), SHAPE(10, 13), inference);
            check(layer_dropout(tenths / 10.0), SHAPE(3, 3, 4, 2), inference);
            check(layer_channel_dropout(tenths / 10.0), SHAPE(10, 13), inference);
            check(layer_channel_dropout(tenths / 10.0), SHAPE(3, 8, 2, 2), inference);
        }
}

/* ---- nested ---------------------------------------------------------------------------------- */

static layer *convolution(int out, int stride, bool bias)
{
    return layer_conv2d((conv2d){ .out_channels = out,
                                  .kernel = { 3, 3 },
                                  .stride = { stride, stride },
                                  .padding = { 1, 1 },
                                  .no_bias = !bias });
}

static layer *smooth(int kind)
{
    return kind == 0 ? layer_tanh() : kind == 1 ? layer_gelu() : layer_silu();
}

static layer *normaliser(int kind)
{
    return kind == 0   ? layer_batchnorm((batchnorm){ .momentum = 0.2 })
           : kind == 1 ? layer_groupnorm((groupnorm){ .groups = 2 })
                       : layer_layernorm((layernorm){ 0 });
}

/* A bias before batchnorm would have no gradient: there is none. */
static layer *block(int norm, int function, int stride, bool projected)
{
    layer *body = layer_sequence(convolution(4, stride, false), normaliser(norm), smooth(function),
                                 convolution(4, 1, false), normaliser(norm));
    return projected ? layer_residual_projected(body, convolution(4, stride, false)) : layer_residual(body);
}

static void nested(void)
{
    const shape s = SHAPE(3, 4, 4, 3);
    for (int norm = 0; norm < 3; norm++)
        for (int function = 0; function < 3; function++)
            for (int inference = 0; inference < 2; inference++) {
                check(block(norm, function, 1, false), s, inference);
                check(block(norm, function, 1, true), s, inference);
                check(block(norm, function, 2, true), s, inference);
                check(layer_concat(convolution(2, 1, true),
                                   layer_sequence(normaliser(norm), smooth(function)), layer_identity()),
                      s, inference);
                check(layer_concat(
                          block(norm, function, 1, false),
                          layer_residual(layer_concat(convolution(1, 1, true), convolution(3, 1, false)))),
                      s, inference);
                check(layer_sequence(block(norm, function, 1, false), layer_dropout(0.25),
                                     block(norm, function, 2, true), layer_flatten(),
                                     layer_dense((dense){ .out_features = 3 }), layer_log_softmax(0)),
                      s, inference);
                check(layer_residual(layer_residual(layer_sequence(normaliser(norm), smooth(function)))), s,
                      inference);
            }
}

int main(void)
{
    if (sizeof(real) < sizeof(double)) {
        case_skip("sweep", "a difference quotient of floats is good to two digits; run in double");
        return case_status();
    }
    every = case_count(1, 41);
    convolutions();
    transposed_convolutions();
    pooling();
    normalisation();
    rows();
    borders();
    upsampling();
    dense_layers();
    activations();
    dropouts();
    nested();
    return case_status();
}
