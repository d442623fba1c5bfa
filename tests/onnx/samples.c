/* samples.c: see samples.h. */
#include "tests/onnx/samples.h"

#include <stdio.h>
#include <string.h>

/* ---- numbers ------------------------------------------------------------------------------------- */

static void shake(const net_tensor *t, void *context)
{
    uint64_t *number = context;
    const bool variance = strstr(t->name, "running_var");
    tensor noise = tensor_new(t->value.shape);
    tensor_uniform(noise, (random_key){ .seed = 7, .stream = ++*number }, variance ? (real)0.1 : -(real)0.3,
                   variance ? 1 : (real)0.3);
    tensor_add(t->value, 1, noise);
    tensor_free(noise);
}

net *sample_net(shape image, layer *l)
{
    uint64_t number = 0;
    net *n = net_new_of(image, 1, (layer *const[]){ l });
    if (n && net_build(n, SAMPLE_BATCH, 1) == 0) {
        net_visit(n, shake, &number);
        return n;
    }
    net_free(n);
    return NULL;
}

tensor sample_images(shape image)
{
    tensor x = tensor_new(shape_with_batch(image, SAMPLE_BATCH));
    const real most = image.rank < 3 ? 7 : 1;
    if (!tensor_is_null(x)) tensor_uniform(x, (random_key){ .seed = 8 }, -most, most);
    return x;
}

/* ---- pools, all ways that their windows can lie ------------------------------------------------- */

#define AS(o)                                                                                                \
    .kernel = { (o).kernel[0], (o).kernel[1] }, .stride = { (o).stride[0], (o).stride[1] },                  \
    .padding = { (o).padding[0], (o).padding[1] }, .dilation = { (o).dilation[0], (o).dilation[1] },         \
    .ceil_mode = (o).ceil_mode

static layer *max_lowest(pool o)
{
    return layer_maxpool((maxpool){ AS(o) });
}

static layer *max_zero(pool o)
{
    return layer_maxpool((maxpool){ AS(o), .pad_value = PAD_ZERO });
}

static layer *mean_with(pool o)
{
    return layer_avgpool((avgpool){ AS(o) });
}

static layer *mean_without(pool o)
{
    return layer_avgpool((avgpool){ AS(o), .count_exclude_pad = true });
}

static layer *norm_2(pool o)
{
    return layer_lppool((lppool){ AS(o) });
}

static layer *norm_2_5(pool o)
{
    return layer_lppool((lppool){ AS(o), .p = 2.5 });
}

static const struct kind {
    const char *name;
    layer *(*make)(pool o);
} kinds[] = { { "maxpool", max_lowest },           { "maxpool_zero", max_zero }, { "avgpool", mean_with },
              { "avgpool_exclude", mean_without }, { "lppool", norm_2 },         { "lppool_2.5", norm_2_5 } };

/* Bits of a way. Images of 9×8 leave part of a window over with either stride. */
enum { PADDED = 1, CEILED = 2, DILATED = 4, WIDE = 8, WAYS = 16 };

static void visit_pools(sample_visit *visit, void *context)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int way = 0; way < WAYS; way++) {
            const int stride = way & WIDE ? 3 : 2, dilation = way & DILATED ? 2 : 1,
                      padding = way & PADDED ? 1 : 0;
            char name[96];
            snprintf(name, sizeof name, "%s stride %d%s%s%s", kinds[k].name, stride,
                     way & DILATED ? " dilation 2" : "", way & PADDED ? " padding 1" : "",
                     way & CEILED ? " ceil_mode" : "");
            pool o = { .kernel = { 3, 2 },
                       .stride = { stride, stride },
                       .padding = { padding, padding },
                       .dilation = { dilation, dilation },
                       .ceil_mode = way & CEILED };
            visit(name, SHAPE(3, 9, 8), kinds[k].make(o), NULL, context);
        }
}

static real first_of(const real *window, ptrdiff_t n, const void *context)
{
    (void)n, (void)context;
    return window[0];
}

static void visit_more_pools(sample_visit *visit, void *context)
{
    static const pool_function first = { .name = "first", .value = first_of };
    const shape image = SHAPE(4, 9, 8);
#define VISIT(name, l) visit(name, image, l, NULL, context)
    VISIT("maxpool 2x2", layer_maxpool((maxpool){ .kernel = { 2, 2 } }));
    VISIT("maxpool global", layer_maxpool((maxpool){ 0 }));
    VISIT("maxpool padding beyond kernel",
          layer_maxpool((maxpool){
              .kernel = { 2, 2 }, .stride = { 1, 1 }, .padding = { 3, 2 }, .dilation = { 4, 4 } }));
    VISIT("avgpool global", layer_avgpool((avgpool){ 0 }));
    VISIT("avgpool of columns", layer_avgpool((avgpool){ .kernel = { 0, 1 } }));
    VISIT("lppool global", layer_lppool((lppool){ .p = 3 }));
    VISIT("lppool p=1", layer_lppool((lppool){ .kernel = { 2, 2 }, .p = 1 }));
    VISIT("adaptive_avgpool 1x1", layer_adaptive_avgpool((adaptive_avgpool){ 0 }));
    VISIT("adaptive_avgpool 3x4", layer_adaptive_avgpool((adaptive_avgpool){ { 3, 4 } }));
    VISIT("adaptive_avgpool 4x3", layer_adaptive_avgpool((adaptive_avgpool){ { 4, 3 } }));
    VISIT("adaptive_avgpool 11x20", layer_adaptive_avgpool((adaptive_avgpool){ { 11, 20 } }));
    VISIT("maxpool_zero of padding", layer_maxpool((maxpool){ .kernel = { 2, 2 },
                                                              .stride = { 1, 1 },
                                                              .padding = { 3, 2 },
                                                              .dilation = { 4, 4 },
                                                              .pad_value = PAD_ZERO }));
    visit("pool", image, layer_pool((pool){ .function = &first, .kernel = { 2, 2 } }),
          "layer 0: pool: its function first is C", context);
    visit("maxpool of padding", SHAPE(1, 1, 1),
          layer_maxpool((maxpool){ .kernel = { 2, 2 }, .padding = { 2, 2 }, .dilation = { 4, 4 } }),
          "layer 0: maxpool: a window sees padding only", context);
}

/* ---- the others ---------------------------------------------------------------------------------- */

static void visit_convolutions(sample_visit *visit, void *context)
{
    const shape image = SHAPE(6, 9, 8);
    VISIT("conv2d", layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 3, 3 } }));
    VISIT("conv2d 1x1", layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 1, 1 } }));
    VISIT("conv2d depthwise",
          layer_conv2d((conv2d){ .out_channels = 12, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 6 }));
    VISIT("conv2d uneven", layer_conv2d((conv2d){ .out_channels = 6,
                                                  .kernel = { 3, 2 },
                                                  .stride = { 2, 1 },
                                                  .padding = { 1, 2 },
                                                  .dilation = { 2, 3 },
                                                  .groups = 3,
                                                  .no_bias = true }));
    VISIT("conv_transpose2d",
          layer_conv_transpose2d((conv_transpose2d){ .out_channels = 4, .kernel = { 3, 3 } }));
    VISIT("conv_transpose2d output_padding",
          layer_conv_transpose2d((conv_transpose2d){ .out_channels = 4,
                                                     .kernel = { 3, 3 },
                                                     .stride = { 2, 3 },
                                                     .padding = { 1, 0 },
                                                     .output_padding = { 1, 2 } }));
    VISIT("conv_transpose2d uneven", layer_conv_transpose2d((conv_transpose2d){ .out_channels = 9,
                                                                                .kernel = { 3, 2 },
                                                                                .stride = { 1, 2 },
                                                                                .padding = { 1, 2 },
                                                                                .output_padding = { 1, 0 },
                                                                                .dilation = { 2, 3 },
                                                                                .groups = 3,
                                                                                .no_bias = true }));
    visit("conv_transpose2d beyond", image,
          layer_conv_transpose2d((conv_transpose2d){
              .out_channels = 4, .kernel = { 3, 3 }, .output_padding = { 0, 2 }, .dilation = { 3, 3 } }),
          "layer 0: conv_transpose2d: output_padding 0x2 of stride 1x1", context);
    VISIT("pad2d", layer_pad2d((pad2d){ .height = { 1, 2 }, .width = { 0, 3 }, .value = -0.5 }));
    VISIT("pad2d reflect",
          layer_pad2d((pad2d){ .height = { 1, 8 }, .width = { 0, 3 }, .mode = PAD_REFLECT }));
    VISIT("pad2d replicate",
          layer_pad2d((pad2d){ .height = { 1, 2 }, .width = { 4, 3 }, .mode = PAD_REPLICATE }));
    VISIT("upsample", layer_upsample((upsample){ .scale = { 2, 3 } }));
    VISIT("upsample bilinear", layer_upsample((upsample){ .scale = { 2, 3 }, .mode = UPSAMPLE_BILINEAR }));
    VISIT("upsample align_corners",
          layer_upsample((upsample){ .scale = { 3, 2 }, .mode = UPSAMPLE_BILINEAR, .align_corners = true }));
    visit("upsample of a pixel", SHAPE(2, 1, 1),
          layer_upsample((upsample){ .scale = { 2, 1 }, .mode = UPSAMPLE_BILINEAR, .align_corners = true }),
          NULL, context);
}

static void visit_normalisations(sample_visit *visit, void *context)
{
    const shape image = SHAPE(6, 5, 4);
    VISIT("batchnorm", layer_batchnorm((batchnorm){ .epsilon = 1e-3 }));
    VISIT("batchnorm no_affine", layer_batchnorm((batchnorm){ .no_affine = true }));
    VISIT("layernorm", layer_layernorm((layernorm){ 0 }));
    VISIT("layernorm of two axes", layer_layernorm((layernorm){ .axes = 2, .epsilon = 1e-2 }));
    VISIT("layernorm no_affine", layer_layernorm((layernorm){ .axes = 1, .no_affine = true }));
    VISIT("groupnorm", layer_groupnorm((groupnorm){ .groups = 3, .epsilon = 1e-2 }));
    VISIT("groupnorm of channels", layer_groupnorm((groupnorm){ .groups = 6 }));
    VISIT("groupnorm no_affine", layer_groupnorm((groupnorm){ .groups = 2, .no_affine = true }));
    VISIT("softmax", layer_softmax(0));
    VISIT("softmax of rows", layer_softmax(3));
    VISIT("log_softmax", layer_log_softmax(0));
    VISIT("log_softmax of columns", layer_log_softmax(2));
    VISIT("flatten", layer_flatten());
}

static void visit_vectors(sample_visit *visit, void *context)
{
    const shape image = SHAPE(40);
    VISIT("dense", layer_dense((dense){ .out_features = 7 }));
    VISIT("dense no_bias", layer_dense((dense){ .out_features = 7, .no_bias = true }));
    VISIT("batchnorm of features", layer_batchnorm((batchnorm){ 0 }));
    VISIT("layernorm of features", layer_layernorm((layernorm){ 0 }));
    VISIT("groupnorm of features", layer_groupnorm((groupnorm){ .groups = 8 }));
    VISIT("softmax of classes", layer_softmax(0));
    VISIT("log_softmax of classes", layer_log_softmax(0));
    VISIT("relu", layer_relu());
    VISIT("relu6", layer_relu6());
    VISIT("leaky_relu", layer_leaky_relu(0));
    VISIT("leaky_relu 0.2", layer_leaky_relu(0.2));
    VISIT("elu", layer_elu(0));
    VISIT("elu 0.5", layer_elu(0.5));
    VISIT("selu", layer_selu());
    VISIT("gelu", layer_gelu());
    VISIT("silu", layer_silu());
    VISIT("mish", layer_mish());
    VISIT("sigmoid", layer_sigmoid());
    VISIT("tanh", layer_tanh());
    VISIT("softplus", layer_softplus());
    VISIT("softsign", layer_softsign());
    VISIT("hardsigmoid", layer_hardsigmoid());
    VISIT("hardswish", layer_hardswish());
    VISIT("flatten of vectors", layer_flatten());
    VISIT("dropout", layer_dropout(0.5));
    VISIT("identity", layer_identity());
}

static layer *convolution(int channels)
{
    return layer_conv2d(
        (conv2d){ .out_channels = channels, .kernel = { 3, 3 }, .padding = { 1, 1 }, .no_bias = true });
}

static layer *block(int channels)
{
    return layer_sequence(convolution(channels), layer_batchnorm((batchnorm){ 0 }), layer_silu(),
                          layer_channel_dropout(0.2), convolution(channels),
                          layer_batchnorm((batchnorm){ 0 }));
}

static void visit_nests(sample_visit *visit, void *context)
{
    const shape image = SHAPE(6, 9, 8);
    VISIT("channel_dropout", layer_channel_dropout(0.5));
    VISIT("sequence",
          layer_sequence(layer_relu(), layer_sequence(layer_dropout(0.1), layer_tanh()), layer_identity()));
    VISIT("residual", layer_residual(block(6)));
    VISIT(
        "residual projected",
        layer_residual_projected(block(4), layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 1, 1 } })));
    VISIT("concat", layer_concat(layer_identity(), convolution(2), layer_residual(layer_gelu())));
    VISIT("relu before a pool",
          layer_sequence(convolution(4), layer_relu(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
                         layer_flatten(), layer_dense((dense){ .out_features = 5 })));
    VISIT("nest",
          layer_sequence(block(4), layer_residual(layer_sequence(layer_mish(), layer_residual(block(4)))),
                         layer_concat(layer_concat(layer_relu(), layer_gelu()), layer_gelu()),
                         layer_flatten(), layer_dense((dense){ .out_features = 10 })));
}

void samples_visit(sample_visit *visit, void *context)
{
    visit_pools(visit, context);
    visit_more_pools(visit, context);
    visit_convolutions(visit, context);
    visit_normalisations(visit, context);
    visit_vectors(visit, context);
    visit_nests(visit, context);
}
