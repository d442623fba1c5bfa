/* samples.c: see samples.h. */
#include "tests/onnx/samples.h"

#include "layers/pooling/pooling.h"

#include <stdio.h>
#include <string.h>

/* ---- numbers ------------------------------------------------------------------------------------- */

static void shake(const st_net_tensor *t, void *context)
{
    uint64_t *number = context;
    const bool variance = strstr(t->name, "running_var");
    st_tensor noise = st_tensor_new(t->value.shape);
    st_uniform(noise, (st_random_key){ .seed = 7, .stream = ++*number },
               variance ? (st_real)0.1 : -(st_real)0.3, variance ? 1 : (st_real)0.3);
    st_add(t->value, 1, noise);
    st_tensor_free(noise);
}

st_net *sample_net(st_shape image, st_layer *l)
{
    uint64_t number = 0;
    st_net *n = st_net_new_of(image, 1, (st_layer *const[]){ l });
    if (n && st_net_build(n, SAMPLE_BATCH, 1) == 0) {
        st_net_visit(n, shake, &number);
        return n;
    }
    st_net_free(n);
    return NULL;
}

st_tensor sample_images(st_shape image)
{
    st_tensor x = st_tensor_new(st_shape_with_batch(image, SAMPLE_BATCH));
    const st_real most = image.rank < 3 ? 7 : 1;
    if (!st_is_null(x)) st_uniform(x, (st_random_key){ .seed = 8 }, -most, most);
    return x;
}

/* ---- pools, all ways that their windows can lie ------------------------------------------------- */

#define AS(o)                                                                                                \
    .kernel = { (o).kernel[0], (o).kernel[1] }, .stride = { (o).stride[0], (o).stride[1] },                  \
    .padding = { (o).padding[0], (o).padding[1] }, .dilation = { (o).dilation[0], (o).dilation[1] },         \
    .ceil_mode = (o).ceil_mode, .pad_height = { (o).pad_height[0], (o).pad_height[1] },                      \
    .pad_width = { (o).pad_width[0], (o).pad_width[1] }

static st_layer *max_lowest(st_pool_options o)
{
    return st_maxpool(AS(o));
}

static st_layer *mean_with(st_pool_options o)
{
    return st_avgpool(AS(o));
}

static st_layer *mean_without(st_pool_options o)
{
    return st_avgpool(AS(o), .count_exclude_pad = true);
}

static st_layer *norm_2(st_pool_options o)
{
    return st_lppool(AS(o));
}

static const struct kind {
    const char *name;
    st_layer *(*make)(st_pool_options o);
} kinds[] = {
    { "maxpool", max_lowest },
    { "avgpool", mean_with },
    { "avgpool_exclude", mean_without },
    { "lppool", norm_2 },
};

/* Bits of a way. Images of 9×8 leave part of a window over with either stride. */
enum { PADDED = 1, CEILED = 2, DILATED = 4, WIDE = 8, ONE_SIDED = 16, WAYS = 32 };

static void visit_pools(sample_visit *visit, void *context)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int way = 0; way < WAYS; way++) {
            const int stride = way & WIDE ? 3 : 2, dilation = way & DILATED ? 2 : 1,
                      padding = way & PADDED ? 1 : 0;
            char name[96];
            snprintf(name, sizeof name, "%s stride %d%s%s%s%s", kinds[k].name, stride,
                     way & DILATED ? " dilation 2" : "", way & PADDED ? " padding 1" : "",
                     way & CEILED ? " ceil_mode" : "", way & ONE_SIDED ? " one-sided" : "");
            st_pool_options o = { .kernel = { 3, 2 },
                                  .stride = { stride, stride },
                                  .padding = { padding, padding },
                                  .dilation = { dilation, dilation },
                                  .ceil_mode = way & CEILED,
                                  .pad_height = { 0, way & ONE_SIDED ? 1 : 0 } };
            visit(name, ST_SHAPE(3, 9, 8), kinds[k].make(o), NULL, context);
        }
}

static st_real first_of(const st_window *w)
{
    return w->x[0];
}

static const st_layer_type first = ST_POOLING("first", .value = first_of);

static void visit_more_pools(sample_visit *visit, void *context)
{
    const st_shape image = ST_SHAPE(4, 9, 8);
#define VISIT(name, l) visit(name, image, l, NULL, context)
    VISIT("maxpool 2x2", st_maxpool(.kernel = { 2, 2 }));
    VISIT("maxpool global", st_maxpool());
    VISIT("maxpool padding beyond kernel",
          st_maxpool(.kernel = { 2, 2 }, .stride = { 1, 1 }, .padding = { 3, 2 }, .dilation = { 4, 4 }));
    VISIT("avgpool global", st_avgpool());
    VISIT("avgpool of columns", st_avgpool(.kernel = { 0, 1 }));
    VISIT("lppool global", st_lppool(.p = 3));
    VISIT("lppool p=1", st_lppool(.kernel = { 2, 2 }, .p = 1));
    VISIT("adaptive_avgpool 1x1", st_adaptive_avgpool());
    VISIT("adaptive_avgpool 3x4", st_adaptive_avgpool({ 3, 4 }));
    VISIT("maxpool zero", st_maxpool(.kernel = { 2, 2 }, .pad_value = ST_PAD_ZERO));
    VISIT("maxpool zero padded",
          st_maxpool(.kernel = { 2, 2 }, .padding = { 1, ST_ZERO_INT }, .pad_value = ST_PAD_ZERO));
    VISIT("maxpool zero ceil_mode", st_maxpool(.kernel = { 3 }, .stride = { 2 }, .padding = { 1 },
                                               .ceil_mode = true, .pad_value = ST_PAD_ZERO));
    VISIT("maxpool zero dilated", st_maxpool(.kernel = { 2 }, .stride = { 1 }, .padding = { 3 },
                                             .dilation = { 4 }, .pad_value = ST_PAD_ZERO));
    VISIT("adaptive_avgpool 3x3", st_adaptive_avgpool({ 3, 3 }));
    VISIT("adaptive_avgpool 11x5", st_adaptive_avgpool({ 11, 5 }));
    VISIT("lppool p=2.5", st_lppool(.p = 2.5));
    VISIT("lppool p=1.5 padded", st_lppool(.kernel = { 3 }, .stride = { 2 }, .padding = { 1 }, .p = 1.5));
    VISIT("lppool p=1 dilated", st_lppool(.kernel = { 2 }, .dilation = { 2 }, .p = 1));
    VISIT("avgpool of padding dilated", st_avgpool(.kernel = { 2 }, .stride = { 1 }, .padding = { 9, 8 },
                                                   .dilation = { 9, 8 }, .count_exclude_pad = true));
    visit("pool", image, st_pool(&first, .kernel = { 2, 2 }), "layer 0: first: a layer of your own", context);
    visit("maxpool of padding", ST_SHAPE(1, 1, 1),
          st_maxpool(.kernel = { 2, 2 }, .padding = { 2, 2 }, .dilation = { 4, 4 }),
          "layer 0: maxpool: a window contains only padding", context);
}

/* layers/pooling/: most have no counterpart. */
static void visit_refused_pools(sample_visit *visit, void *context)
{
    const st_shape image = ST_SHAPE(4, 9, 8);
    VISIT("blur_pool", st_blur_pool(.padding = { 1 }));
    VISIT("blur_pool replicate",
          st_blur_pool(.kernel = { 4, 2 }, .stride = { 1, 3 }, .padding = { 1 }, .edge = ST_BLUR_REPLICATE));
    VISIT("blur_pool zeros", st_blur_pool(.kernel = { 5 }, .pad_height = { 1, 2 }, .edge = ST_BLUR_ZEROS));
    VISIT("adaptive_maxpool 1x1", st_adaptive_maxpool());
    VISIT("adaptive_maxpool 3x4", st_adaptive_maxpool({ 3, 4 }));
#define REFUSED(name, ...)                                                                                   \
    visit(#name, image, st_##name(__VA_ARGS__), "layer 0: " #name ": ONNX has no such layer", context)
    REFUSED(stochastic_pool, .kernel = { 2 });
    REFUSED(mixed_pool, .kernel = { 2 });
    REFUSED(gated_pool, .kernel = { 2 });
    REFUSED(learned_norm_pool, .kernel = { 2 });
    REFUSED(gem_pool, .kernel = { 2 });
    REFUSED(soft_pool, .kernel = { 2 });
    REFUSED(logsumexp_pool, .kernel = { 2 });
    REFUSED(ordinal_pool, .kernel = { 2 });
    REFUSED(rank_pool, .kernel = { 2 });
    REFUSED(median_pool, .kernel = { 2 });
    REFUSED(fractional_maxpool, .output_size = { 5 });
    REFUSED(s3_pool, .kernel = { 2 });
    REFUSED(local_importance_pool, .kernel = { 2 });
    REFUSED(spatial_pyramid_pool, 2);
    REFUSED(max_unpool, st_maxpool(.kernel = { 2 }), st_relu());
    visit("adaptive_maxpool of unequal parts", image, st_adaptive_maxpool({ 2, 4 }),
          "layer 0: adaptive_maxpool: parts of an image that differ", context);
}

/* ---- the others ---------------------------------------------------------------------------------- */

static void visit_convolutions(sample_visit *visit, void *context)
{
    const st_shape image = ST_SHAPE(6, 9, 8);
    VISIT("conv2d", st_conv2d(.out_channels = 4, .kernel = { 3, 3 }));
    VISIT("conv2d one-sided", st_conv2d(.out_channels = 4, .kernel = { 3, 2 }, .stride = { 2, 1 },
                                        .padding = { 0, 1 }, .pad_height = { 0, 1 }, .pad_width = { 2, 0 }));
    VISIT("conv2d 1x1", st_conv2d(.out_channels = 4, .kernel = { 1, 1 }));
    VISIT("conv2d depthwise",
          st_conv2d(.out_channels = 12, .kernel = { 3, 3 }, .padding = { 1, 1 }, .groups = 6));
    VISIT("conv2d uneven",
          st_conv2d(.out_channels = 6, .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 2 },
                    .dilation = { 2, 3 }, .groups = 3, .no_bias = true));
    VISIT("conv_transpose2d", st_conv_transpose2d(.out_channels = 4, .kernel = { 3, 3 }));
    VISIT("conv_transpose2d output_padding",
          st_conv_transpose2d(.out_channels = 4, .kernel = { 3, 3 }, .stride = { 2, 3 },
                              .padding = { 1, ST_ZERO_INT }, .output_padding = { 1, 2 }));
    VISIT("conv_transpose2d uneven",
          st_conv_transpose2d(.out_channels = 9, .kernel = { 3, 2 }, .stride = { 1, 2 }, .padding = { 1, 2 },
                              .output_padding = { 1, ST_ZERO_INT }, .dilation = { 2, 3 }, .groups = 3,
                              .no_bias = true));
    visit("conv_transpose2d beyond", image,
          st_conv_transpose2d(.out_channels = 4, .kernel = { 3, 3 }, .output_padding = { 0, 2 },
                              .dilation = { 3, 3 }),
          "layer 0: conv_transpose2d: output_padding 0x2 with stride 1x1", context);
    VISIT("pad2d", st_pad2d(.height = { 1, 2 }, .width = { 0, 3 }, .value = -0.5));
    VISIT("pad2d reflect", st_pad2d(.height = { 1, 8 }, .width = { 0, 3 }, .mode = ST_PAD_REFLECT));
    VISIT("pad2d replicate", st_pad2d(.height = { 1, 2 }, .width = { 4, 3 }, .mode = ST_PAD_REPLICATE));
    VISIT("upsample", st_upsample(.scale = { 2, 3 }));
    VISIT("upsample bilinear", st_upsample(.scale = { 2, 3 }, .mode = ST_UPSAMPLE_BILINEAR));
    VISIT("upsample bilinear to a size", st_upsample(.size = { 13, 5 }, .mode = ST_UPSAMPLE_BILINEAR));
    VISIT("upsample bilinear down", st_upsample(.scale_factor = 0.5, .mode = ST_UPSAMPLE_BILINEAR));
    VISIT("unflatten", st_unflatten(.channels = 2, .size = { 12, 18 }));
    VISIT("unflatten rows", st_unflatten(.channels = 12));
    VISIT("upsample align_corners",
          st_upsample(.scale = { 3, 2 }, .mode = ST_UPSAMPLE_BILINEAR, .align_corners = true));
    visit("upsample of a pixel", ST_SHAPE(2, 1, 1),
          st_upsample(.scale = { 2, 1 }, .mode = ST_UPSAMPLE_BILINEAR, .align_corners = true), NULL, context);
    visit("upsample to a size that rounds", ST_SHAPE(1, 2, 1), st_upsample(.size = { 82, 1 }), NULL, context);
    VISIT("upsample to a size", st_upsample(.size = { 13, 5 }));
}

static void visit_normalisations(sample_visit *visit, void *context)
{
    const st_shape image = ST_SHAPE(6, 5, 4);
    VISIT("batchnorm", st_batchnorm(.epsilon = 1e-3));
    VISIT("batchnorm no_affine", st_batchnorm(.no_affine = true));
    VISIT("layernorm", st_layernorm());
    VISIT("layernorm of two axes", st_layernorm(.axes = 2, .epsilon = 1e-2));
    VISIT("layernorm no_affine", st_layernorm(.axes = 1, .no_affine = true));
    visit("layernorm of one element", ST_SHAPE(3, 2, 1), st_layernorm(.axes = 1), NULL, context);
    visit("layernorm of one, no_affine", ST_SHAPE(1), st_layernorm(.no_affine = true), NULL, context);
    VISIT("rmsnorm", st_rmsnorm());
    VISIT("rmsnorm of two axes", st_rmsnorm(.axes = 2, .epsilon = 1e-2));
    VISIT("rmsnorm no_affine", st_rmsnorm(.no_affine = true));
    VISIT("groupnorm", st_groupnorm(.groups = 3, .epsilon = 1e-2));
    VISIT("groupnorm of channels", st_groupnorm(.groups = 6));
    VISIT("groupnorm no_affine", st_groupnorm(.groups = 2, .no_affine = true));
    VISIT("softmax", st_softmax());
    VISIT("softmax of rows", st_softmax(.axis = 3));
    VISIT("log_softmax", st_log_softmax());
    VISIT("log_softmax of columns", st_log_softmax(.axis = 2));
    VISIT("flatten", st_flatten());
    VISIT("prelu of channels", st_prelu(.num_parameters = 6));
}

static void visit_vectors(sample_visit *visit, void *context)
{
    const st_shape image = ST_SHAPE(40);
    VISIT("dense", st_dense(.out_features = 7));
    VISIT("dense no_bias", st_dense(.out_features = 7, .no_bias = true));
    VISIT("batchnorm of features", st_batchnorm());
    VISIT("layernorm of features", st_layernorm());
    VISIT("groupnorm of features", st_groupnorm(.groups = 8));
    VISIT("softmax of classes", st_softmax());
    VISIT("log_softmax of classes", st_log_softmax());
    VISIT("relu", st_relu());
    VISIT("relu6", st_relu6());
    VISIT("leaky_relu", st_leaky_relu());
    VISIT("leaky_relu 0.2", st_leaky_relu(.slope = 0.2));
    VISIT("elu", st_elu());
    VISIT("elu 0.5", st_elu(.alpha = 0.5));
    VISIT("selu", st_selu());
    VISIT("gelu", st_gelu());
    VISIT("gelu tanh", st_gelu(.approximate = ST_GELU_TANH));
    VISIT("hardtanh", st_hardtanh());
    VISIT("hardtanh from 0", st_hardtanh(.min_val = ST_ZERO, .max_val = DBL_MAX));
    VISIT("prelu", st_prelu());
    VISIT("prelu of features", st_prelu(.num_parameters = 40));
    VISIT("silu", st_silu());
    VISIT("mish", st_mish());
    VISIT("sigmoid", st_sigmoid());
    VISIT("tanh", st_tanh());
    VISIT("softplus", st_softplus());
    VISIT("softsign", st_softsign());
    VISIT("hardsigmoid", st_hardsigmoid());
    VISIT("hardswish", st_hardswish());
    VISIT("flatten of vectors", st_flatten());
    VISIT("dropout", st_dropout(.p = 0.5));
    VISIT("identity", st_identity());
}

/* [N, T, features] */
static void visit_rows(sample_visit *visit, void *context)
{
    const st_shape image = ST_SHAPE(5, 12);
    VISIT("dense of rows", st_dense(.out_features = 7));
    VISIT("dense of rows no_bias", st_dense(.out_features = 5, .no_bias = true));
    VISIT("dense of rows batchnorm relu",
          st_sequence(st_dense(.out_features = 5), st_batchnorm(), st_relu()));
    VISIT("dense of rows flatten batchnorm", st_sequence(st_dense(.out_features = 1), st_flatten(),
                                                         st_batchnorm(), st_dense(.out_features = 3)));
}

static st_layer *convolution(int channels)
{
    return st_conv2d(.out_channels = channels, .kernel = { 3, 3 }, .padding = { 1, 1 }, .no_bias = true);
}

static st_layer *block(int channels)
{
    return st_sequence(convolution(channels), st_batchnorm(), st_silu(), st_channel_dropout(.p = 0.2),
                       convolution(channels), st_batchnorm());
}

static void visit_nests(sample_visit *visit, void *context)
{
    const st_shape image = ST_SHAPE(6, 9, 8);
    VISIT("channel_dropout", st_channel_dropout(.p = 0.5));
    VISIT("sequence", st_sequence(st_relu(), st_sequence(st_dropout(.p = 0.1), st_tanh()), st_identity()));
    VISIT("residual", st_residual(block(6)));
    VISIT("residual projected",
          st_residual_projected(block(4), st_conv2d(.out_channels = 4, .kernel = { 1, 1 })));
    VISIT("concat", st_concat(st_identity(), convolution(2), st_residual(st_gelu())));
    VISIT("multiply", st_multiply(st_identity(), convolution(6)));
    VISIT("multiply squeeze-and-excitation",
          st_sequence(convolution(6),
                      st_multiply(st_identity(), st_sequence(st_global_avgpool(), convolution(2), st_relu(),
                                                             convolution(6), st_sigmoid()))));
    VISIT("multiply axes, relu",
          st_sequence(st_multiply(st_avgpool(.kernel = { 0, 1 }), convolution(1),
                                  st_avgpool(.kernel = { 1, ST_ZERO_INT }), st_global_maxpool()),
                      st_relu(), st_multiply(st_tanh()), st_relu()));
    VISIT("relu before a pool", st_sequence(convolution(4), st_relu(), st_maxpool(.kernel = { 2, 2 }),
                                            st_flatten(), st_dense(.out_features = 5)));
    VISIT("nest", st_sequence(block(4), st_residual(st_sequence(st_mish(), st_residual(block(4)))),
                              st_concat(st_concat(st_relu(), st_gelu()), st_gelu()), st_flatten(),
                              st_dense(.out_features = 10)));
}

void samples_visit(sample_visit *visit, void *context)
{
    visit_pools(visit, context);
    visit_more_pools(visit, context);
    visit_refused_pools(visit, context);
    visit_convolutions(visit, context);
    visit_normalisations(visit, context);
    visit_vectors(visit, context);
    visit_rows(visit, context);
    visit_nests(visit, context);
}
