/* gradcheck.c: every layer we ship, in several configurations, held against central differences. */
#include "nn/gradcheck.h"
#include "nn/net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

typedef struct totals {
    int passed, failed;
    double worst;
} totals;

static void count(totals *t, gradcheck_result r, const char *name)
{
    printf("%-4s %8.1e %6td %5td  %s\n", r.passed ? "ok" : "FAIL", r.worst, r.checked, r.kinks, name);
    if (!r.passed) printf("     %s\n", r.text);
    *(r.passed ? &t->passed : &t->failed) += 1;
    t->worst = fmax(t->worst, r.worst);
    error_clear();
}

static void check_layer(totals *t, layer *l, shape x)
{
    char name[256] = "?";
    if (l) layer_describe(l, name, sizeof name);
    count(t, gradcheck_layer(l, x, (gradcheck){ .seed = 7 }), name);
    layer_free(l);
}

static void check_net(totals *t)
{
    net *n = net_new(SHAPE(1, 10, 10), layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 } }),
                     layer_tanh(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }), layer_flatten(),
                     layer_dense((dense){ .out_features = 5 }));
    tensor x = tensor_new(SHAPE(4, 1, 10, 10)), target = tensor_new(SHAPE(4));
    tensor_normal(x, (random_key){ 1, 1 }, 0, 1);
    for (int i = 0; i < 4; i++) *tensor_at(target, INDEX(i)) = (real)i;
    count(t, gradcheck_net(n, x, target, loss_cross_entropy(0.1), (gradcheck){ 0 }),
          "a net with cross-entropy");
    net_free(n);
    tensor_free(x);
    tensor_free(target);
}

static void check_all(totals *t)
{
    /* clang-format off */
    layer *const of_images[] = {
        layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 2 }, .stride = { 2, 1 },
                               .padding = { 1, 1 } }),
        layer_conv2d((conv2d){ .out_channels = 2, .kernel = { 2, 3 }, .padding = { 1, 2 },
                               .dilation = { 3, 2 } }),
        layer_conv2d((conv2d){ .out_channels = 6, .kernel = { 3, 3 }, .groups = 2 }),
        layer_conv_transpose2d((conv_transpose2d){ .out_channels = 6, .kernel = { 3, 3 },
                                                   .stride = { 2, 3 }, .padding = { 1, 2 }, .groups = 2 }),
        layer_conv_transpose2d((conv_transpose2d){ .out_channels = 2, .kernel = { 2, 3 },
                                                   .dilation = { 3, 2 }, .output_padding = { 2, 1 } }),
        layer_maxpool((maxpool){ .kernel = { 3, 3 }, .stride = { 2, 1 }, .padding = { 1, 1 } }),
        layer_maxpool((maxpool){ .kernel = { 3, 2 }, .ceil_mode = true, .dilation = { 1, 2 } }),
        layer_maxpool((maxpool){ .kernel = { 3, 3 }, .padding = { 1, 1 }, .pad_value = PAD_ZERO }),
        layer_avgpool((avgpool){ .kernel = { 2, 3 }, .stride = { 1, 1 }, .dilation = { 2, 1 } }),
        layer_avgpool((avgpool){ .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 },
                                 .ceil_mode = true, .count_exclude_pad = true }),
        layer_avgpool((avgpool){ 0 }),
        layer_lppool((lppool){ .kernel = { 2, 2 }, .p = 3 }),
        layer_adaptive_avgpool((adaptive_avgpool){ .output_size = { 3, 4 } }),
        layer_pool((pool){ .function = &with_adjoint, .kernel = { 3, 2 }, .stride = { 2, 1 } }),
        layer_pool((pool){ .function = &without_adjoint, .kernel = { 2, 2 } }),
        layer_relu(), layer_relu6(), layer_leaky_relu(0.2), layer_elu(0.7), layer_selu(), layer_gelu(),
        layer_silu(), layer_mish(), layer_sigmoid(), layer_tanh(), layer_softplus(), layer_softsign(),
        layer_hardsigmoid(), layer_hardswish(), layer_dropout(0.4), layer_flatten(), layer_identity(),
        layer_channel_dropout(0.4), layer_softmax(0), layer_log_softmax(3),
        layer_batchnorm((batchnorm){ 0 }), layer_layernorm((layernorm){ .axes = 1 }),
        layer_groupnorm((groupnorm){ .groups = 2 }),
        layer_pad2d((pad2d){ .height = { 1, 2 }, .width = { 3, 0 }, .value = 0.5 }),
        layer_pad2d((pad2d){ .height = { 6, 2 }, .width = { 3, 5 }, .mode = PAD_REFLECT }),
        layer_upsample((upsample){ .scale = { 2, 3 } }),
        layer_upsample((upsample){ .scale = { 3, 2 }, .mode = UPSAMPLE_BILINEAR }),
        layer_residual_projected(layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 } }),
                                 layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 } })),
        layer_concat(layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 1, 1 } }), layer_identity()),
        layer_sequence(layer_conv2d((conv2d){ .out_channels = 3, .kernel = { 3, 3 } }),
                       layer_silu(), layer_flatten(), layer_dense((dense){ .out_features = 4 })),
    };
    layer *const of_rows[] = {
        layer_dense((dense){ .out_features = 7 }), layer_softmax(0),
        layer_batchnorm((batchnorm){ .epsilon = 0.1, .no_affine = true }),
    };
    /* clang-format on */
    printf("%-4s %8s %6s %5s  layer (%s, tolerance 1e-6 in double)\n", "", "worst", "checks", "kinks",
           REAL_NAME);
    for (size_t i = 0; i < sizeof of_images / sizeof *of_images; i++)
        check_layer(t, of_images[i], SHAPE(2, 4, 7, 6));
    for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++) check_layer(t, of_rows[i], SHAPE(3, 10));
    check_net(t);
    printf("%d passed, %d failed; largest relative error %.1e\n", t->passed, t->failed, t->worst);
}

int main(int argc, char **argv)
{
    totals t = { 0 };
    if (argc > 1) {
        bool help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
        fputs("usage: gradcheck\n\nChecks the gradients of every layer that comes with Stride.\n",
              help ? stdout : stderr);
        if (!help) return 2;
    } else check_all(&t);
    if (fflush(stdout)) perror("gradcheck: stdout");
    return t.failed || ferror(stdout) ? 1 : 0;
}
