/* gradcheck.c: every layer we ship, in several configurations, held against central differences. */
#include "nn/gradcheck.h"
#include "examples/arguments.h"
#include "nn/net.h"

#include <math.h>

/* ---- a user's window function: the root mean square, with and without its adjoint ---------------- */

static real rms(const real *window, ptrdiff_t n, const void *context)
{
    (void)context;
    real sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) sum += window[i] * window[i];
    return (real)sqrt((double)sum / (double)n);
}

static void rms_adjoint(const real *window, ptrdiff_t n, real y, real dy, real *dwindow, const void *context)
{
    (void)context;
    for (ptrdiff_t i = 0; i < n; i++) dwindow[i] = y > 0 ? dy * window[i] / (y * (real)n) : 0;
}

static const pool_function with_adjoint = { .name = "rms", .value = rms, .adjoint = rms_adjoint };
static const pool_function without_adjoint = { .name = "rms by differences", .value = rms };

/* ---- the table ----------------------------------------------------------------------------------- */

static layer *dropped(void)
{
    return layer_dropout(0.4);
}
static layer *channels_dropped(void)
{
    return layer_channel_dropout(0.4);
}
static layer *softmax(void)
{
    return layer_softmax(0);
}
static layer *log_softmax(void)
{
    return layer_log_softmax(3);
}
static layer *leaky(void)
{
    return layer_leaky_relu(0.2);
}
static layer *elu(void)
{
    return layer_elu(0.7);
}

typedef struct subject {
    layer *(*plain)(void);
    layer *l;
    shape x;
} subject;

#define IMAGES SHAPE(2, 4, 7, 6)
#define ROWS SHAPE(3, 10)

static int run(subject s, int *failed, double *worst)
{
    layer *l = s.plain ? s.plain() : s.l;
    char name[256] = "?";
    if (l) layer_describe(l, name, sizeof name);
    gradcheck_result r = gradcheck_layer(l, s.x, (gradcheck){ .seed = 7 });
    printf("%-4s %8.1e %6td %5td  %s\n", r.passed ? "ok" : "FAIL", r.worst, r.checked, r.kinks, name);
    if (!r.passed) printf("     %s\n", r.text);
    *failed += !r.passed;
    if (r.worst > *worst) *worst = r.worst;
    layer_free(l);
    error_clear();
    return 1;
}

static int check_net(int *failed, double *worst)
{
    net *n = net_new(SHAPE(1, 10, 10), layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 } }),
                     layer_tanh(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }), layer_flatten(),
                     layer_dense((dense){ .out_features = 5 }));
    tensor x = tensor_new(SHAPE(4, 1, 10, 10)), target = tensor_new(SHAPE(4));
    tensor_normal(x, (random_key){ 1, 1 }, 0, 1);
    for (int i = 0; i < 4; i++) *tensor_at(target, INDEX(i)) = (real)i;
    gradcheck_result r = gradcheck_net(n, x, target, loss_cross_entropy(0.1), (gradcheck){ 0 });
    printf("%-4s %8.1e %6td %5td  a net with cross-entropy\n", r.passed ? "ok" : "FAIL", r.worst, r.checked,
           r.kinks);
    if (!r.passed) printf("     %s\n", r.text);
    *failed += !r.passed;
    if (r.worst > *worst) *worst = r.worst;
    net_free(n);
    tensor_free(x);
    tensor_free(target);
    return 1;
}

int main(int argc, char **argv)
{
    int status = without_arguments(
        "gradcheck", "usage: gradcheck\n\nChecks the gradients of every layer that comes with Stride.\n",
        argc, argv);
    if (status >= 0) return status;
    /* clang-format off */
    const subject subjects[] = {
        { .l = layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 } }), .x = IMAGES },
        { .l = layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 1, 1 } }), .x = IMAGES },
        { .l = layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 1 } }), .x = IMAGES },
        { .l = layer_conv2d((conv2d){ .out_channels = 2, .kernel = { 2, 3 }, .padding = { 1, 2 }, .dilation = { 3, 2 } }), .x = IMAGES },
        { .l = layer_conv2d((conv2d){ .out_channels = 6, .kernel = { 3, 3 }, .groups = 2, .no_bias = true }), .x = IMAGES },
        { .l = layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 3, 3 }, .groups = 4, .stride = { 3, 3 } }), .x = IMAGES },
        { .l = layer_maxpool((maxpool){ .kernel = { 2, 2 } }), .x = IMAGES },
        { .l = layer_maxpool((maxpool){ .kernel = { 3, 3 }, .stride = { 2, 1 }, .padding = { 1, 1 } }), .x = IMAGES },
        { .l = layer_maxpool((maxpool){ .kernel = { 3, 2 }, .stride = { 2, 2 }, .ceil_mode = true, .dilation = { 1, 2 } }), .x = IMAGES },
        { .l = layer_maxpool((maxpool){ .kernel = { 3, 3 }, .stride = { 1, 1 }, .padding = { 1, 1 }, .pad_value = PAD_ZERO }), .x = IMAGES },
        { .l = layer_maxpool((maxpool){ 0 }), .x = IMAGES },
        { .l = layer_avgpool((avgpool){ .kernel = { 2, 2 } }), .x = IMAGES },
        { .l = layer_avgpool((avgpool){ .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 } }), .x = IMAGES },
        { .l = layer_avgpool((avgpool){ .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }, .ceil_mode = true, .count_exclude_pad = true }), .x = IMAGES },
        { .l = layer_avgpool((avgpool){ .kernel = { 2, 3 }, .stride = { 1, 1 }, .dilation = { 2, 1 } }), .x = IMAGES },
        { .l = layer_avgpool((avgpool){ 0 }), .x = IMAGES },
        { .l = layer_pool((pool){ .function = &with_adjoint, .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 1 } }), .x = IMAGES },
        { .l = layer_pool((pool){ .function = &without_adjoint, .kernel = { 2, 2 } }), .x = IMAGES },
        { .l = layer_dense((dense){ .out_features = 7 }), .x = ROWS },
        { .l = layer_dense((dense){ .out_features = 4, .no_bias = true }), .x = ROWS },
        { .plain = layer_relu, .x = IMAGES },
        { .plain = layer_relu6, .x = IMAGES },
        { .plain = leaky, .x = IMAGES },
        { .plain = elu, .x = IMAGES },
        { .plain = layer_selu, .x = IMAGES },
        { .plain = layer_gelu, .x = IMAGES },
        { .plain = layer_silu, .x = IMAGES },
        { .plain = layer_mish, .x = IMAGES },
        { .plain = layer_sigmoid, .x = IMAGES },
        { .plain = layer_tanh, .x = IMAGES },
        { .plain = layer_softplus, .x = IMAGES },
        { .plain = layer_softsign, .x = IMAGES },
        { .plain = layer_hardsigmoid, .x = IMAGES },
        { .plain = layer_hardswish, .x = IMAGES },
        { .plain = dropped, .x = IMAGES },
        { .plain = layer_flatten, .x = IMAGES },
        { .plain = layer_identity, .x = IMAGES },
        { .plain = channels_dropped, .x = IMAGES },
        { .plain = softmax, .x = ROWS },
        { .plain = softmax, .x = IMAGES },
        { .plain = log_softmax, .x = IMAGES },
        { .l = layer_conv_transpose2d((conv_transpose2d){ .out_channels = 3, .kernel = { 3, 2 } }), .x = IMAGES },
        { .l = layer_conv_transpose2d((conv_transpose2d){ .out_channels = 6, .kernel = { 3, 3 }, .stride = { 2, 3 }, .padding = { 1, 2 },
                                                          .output_padding = { 1, 1 }, .groups = 2 }), .x = IMAGES },
        { .l = layer_conv_transpose2d((conv_transpose2d){ .out_channels = 2, .kernel = { 2, 3 }, .dilation = { 3, 2 },
                                                          .output_padding = { 2, 1 }, .no_bias = true }), .x = IMAGES },
        { .l = layer_lppool((lppool){ .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 1 } }), .x = IMAGES },
        { .l = layer_lppool((lppool){ .kernel = { 2, 2 }, .p = 3, .ceil_mode = true }), .x = IMAGES },
        { .l = layer_adaptive_avgpool((adaptive_avgpool){ .output_size = { 3, 4 } }), .x = IMAGES },
        { .l = layer_adaptive_avgpool((adaptive_avgpool){ 0 }), .x = IMAGES },
        { .l = layer_batchnorm((batchnorm){ 0 }), .x = IMAGES },
        { .l = layer_batchnorm((batchnorm){ .epsilon = 0.1, .no_affine = true }), .x = ROWS },
        { .l = layer_layernorm((layernorm){ 0 }), .x = IMAGES },
        { .l = layer_layernorm((layernorm){ .axes = 1 }), .x = IMAGES },
        { .l = layer_groupnorm((groupnorm){ .groups = 2 }), .x = IMAGES },
        { .l = layer_groupnorm((groupnorm){ .groups = 4, .no_affine = true }), .x = IMAGES },
        { .l = layer_pad2d((pad2d){ .height = { 1, 2 }, .width = { 3, 0 }, .value = 0.5 }), .x = IMAGES },
        { .l = layer_pad2d((pad2d){ .height = { 6, 2 }, .width = { 3, 5 }, .mode = PAD_REFLECT }), .x = IMAGES },
        { .l = layer_pad2d((pad2d){ .height = { 0, 2 }, .width = { 7, 1 }, .mode = PAD_REPLICATE }), .x = IMAGES },
        { .l = layer_upsample((upsample){ .scale = { 2, 3 } }), .x = IMAGES },
        { .l = layer_upsample((upsample){ .scale = { 3, 2 }, .mode = UPSAMPLE_BILINEAR }), .x = IMAGES },
        { .l = layer_upsample((upsample){ .scale = { 2, 2 }, .mode = UPSAMPLE_BILINEAR, .align_corners = true }), .x = IMAGES },
        { .l = layer_residual(layer_sequence(layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 }, .no_bias = true }),
                                             layer_batchnorm((batchnorm){ 0 }), layer_tanh())), .x = IMAGES },
        { .l = layer_residual_projected(layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 } }),
                                        layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 1, 1 }, .stride = { 2, 2 } })), .x = IMAGES },
        { .l = layer_concat(layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 1, 1 } }), layer_identity(),
                            layer_maxpool((maxpool){ .kernel = { 3, 3 }, .stride = { 1, 1 }, .padding = { 1, 1 } })), .x = IMAGES },
        { .l = layer_sequence(layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 } }),
                              layer_sequence(layer_silu(), layer_avgpool((avgpool){ .kernel = { 2, 2 } })),
                              layer_flatten(), layer_dense((dense){ .out_features = 4 })), .x = IMAGES },
    };
    /* clang-format on */
    const int count = sizeof subjects / sizeof subjects[0];
    int checks = 0, failed = 0;
    double worst = 0;
    printf("%-4s %8s %6s %5s  layer (%s, tolerance 1e-6 in double)\n", "", "worst", "checks", "kinks",
           REAL_NAME);
    for (int i = 0; i < count; i++) checks += run(subjects[i], &failed, &worst);
    checks += check_net(&failed, &worst);
    printf("%d passed, %d failed; largest relative error %.1e\n", checks - failed, failed, worst);
    return finish("gradcheck", failed > 0);
}
