/* layers.h: the layers that come with Stride.
 *
 * Every constructor returns a layer, or NULL with an error. An option that is 0 takes its default, which
 * stands in its comment (ST_ZERO means 0). Options of two numbers are height and width, and { 3 } is 3x3: a
 * kernel, a stride, a padding, a dilation, a size. { 1, ST_ZERO_INT } is 1x0. pad_height and pad_width are
 * two sides of one axis instead: { 1 } is the first side alone. Shapes: N images, C channels, H x W.
 * One-dimensional data are images of one row, [N, C, 1, L], with a kernel of { 1, 3 } and a padding of
 * { 0, 1 }. Output sizes are those of PyTorch:
 *
 *     OH = floor((H + padding of both sides - dilation (kernel - 1) - 1) / stride) + 1
 *
 * with ceil in place of floor in ceil_mode. */
#ifndef STRIDE_LAYERS_LAYERS_H
#define STRIDE_LAYERS_LAYERS_H

#include "layers/layer.h"
#include "layers/pool.h"

ST_API_BEGIN

/* Initial weights by name, as torch.nn.init draws them with its defaults; biases are always uniform in
 * ±1/sqrt(fan_in). A weight [O, I, KH, KW] has fan_in = I KH KW and fan_out = O KH KW. */
typedef enum st_init_name {
    ST_INIT_DEFAULT,         /* uniform in ±1/sqrt(fan_in): PyTorch's Conv2d and Linear */
    ST_INIT_XAVIER_UNIFORM,  /* uniform in ±sqrt(6 / (fan_in + fan_out)): Glorot and Bengio 2010 */
    ST_INIT_XAVIER_NORMAL,   /* deviation sqrt(2 / (fan_in + fan_out)) */
    ST_INIT_KAIMING_UNIFORM, /* uniform in ±sqrt(6 / fan_in): He et al. 2015 */
    ST_INIT_KAIMING_NORMAL   /* deviation sqrt(2 / fan_in) */
} st_init_name;

/* ---- convolution: [N, C, H, W] -> [N, out_channels, OH, OW] ------------------------------------ *
 * y[n, o] = bias[o] + sum over c of the cross-correlation of x[n, c] with weight[o, c].
 * Parameters: weight [out_channels, C/groups, KH, KW], bias [out_channels]; both are initialised uniformly in
 * ±1/sqrt(fan_in), fan_in = C/groups KH KW, as in PyTorch. */
typedef struct st_conv2d_options {
    int out_channels; /* required */
    int kernel[2];    /* required */
    int stride[2];    /* 1 */
    int padding[2];   /* 0: zeros on each side */
    int dilation[2];  /* 1 */
    int groups;       /* 1; divides C and out_channels */
    bool no_bias;
    int pad_height[2], pad_width[2]; /* 0: zeros besides `padding`: top and bottom, left and right */
    st_init_name init;
} st_conv2d_options;
st_layer *st_conv2d_new(st_conv2d_options options);
#define st_conv2d(...) st_conv2d_new(ST_OPTIONS(st_conv2d_options, __VA_ARGS__))

/* ---- transposed convolution: [N, C, H, W] -> [N, out_channels, OH, OW] ---------------------------- *
 * The adjoint of a convolution as a forward pass:
 *     OH = (H - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1
 * Parameters: weight [C, out_channels/groups, KH, KW], bias [out_channels]; both are initialised uniformly in
 * ±1/sqrt(out_channels/groups KH KW), as in PyTorch. */
typedef struct st_conv_transpose2d_options {
    int out_channels;      /* required */
    int kernel[2];         /* required */
    int stride[2];         /* 1 */
    int padding[2];        /* 0: removed from each side of the output */
    int output_padding[2]; /* 0: added at its bottom and right; less than the stride or the dilation */
    int dilation[2];       /* 1 */
    int groups;            /* 1; divides C and out_channels */
    bool no_bias;
    st_init_name init;
} st_conv_transpose2d_options;
st_layer *st_conv_transpose2d_new(st_conv_transpose2d_options options);
#define st_conv_transpose2d(...) st_conv_transpose2d_new(ST_OPTIONS(st_conv_transpose2d_options, __VA_ARGS__))

/* ---- pooling: [N, C, H, W] -> [N, C, OH, OW] ---------------------------------------------------- *
 * pool.h describes windows, and poolings of your own: st_pool. */

/* The maximum of each window, whose padding is left out unless pad_value is ST_PAD_ZERO. The gradient goes to
 * the first maximum in row-major order. NaN propagates: it counts as greater than any number, and the first
 * NaN of a window gets its gradient. The maximum of padding alone is -inf. */
typedef struct st_maxpool_options {
    ST_WINDOW_OPTIONS;
    st_pad_value pad_value;
} st_maxpool_options;
st_layer *st_maxpool_new(st_maxpool_options options);
#define st_maxpool(...) st_maxpool_new(ST_OPTIONS(st_maxpool_options, __VA_ARGS__))

/* The mean of each window. Padding counts as zeros; with count_exclude_pad (PyTorch: count_include_pad=False)
 * the sum is divided by the number of image elements only. Elements beyond the padding, in ceil_mode, are
 * never counted. The mean of no elements is 0. */
typedef struct st_avgpool_options {
    ST_WINDOW_OPTIONS;
    bool count_exclude_pad;
} st_avgpool_options;
st_layer *st_avgpool_new(st_avgpool_options options);
#define st_avgpool(...) st_avgpool_new(ST_OPTIONS(st_avgpool_options, __VA_ARGS__))

/* The maximum and the mean of each channel: [N, C, 1, 1]. */
#define st_global_maxpool() st_maxpool()
#define st_global_avgpool() st_avgpool()

/* The p-norm of each window, (sum of |x|^p)^(1/p), with zero padding; where it is 0, so is its gradient. */
typedef struct st_lppool_options {
    ST_WINDOW_OPTIONS;
    double p; /* 2; at least 1 */
} st_lppool_options;
st_layer *st_lppool_new(st_lppool_options options);
#define st_lppool(...) st_lppool_new(ST_OPTIONS(st_lppool_options, __VA_ARGS__))

/* The mean of each of OH x OW parts of the image: part i has rows floor(i H / OH) to ceil((i + 1) H / OH), so
 * that parts may overlap by a row. */
typedef struct st_adaptive_avgpool_options {
    int output_size[2]; /* 1 */
} st_adaptive_avgpool_options;
st_layer *st_adaptive_avgpool_new(st_adaptive_avgpool_options options);
#define st_adaptive_avgpool(...) st_adaptive_avgpool_new(ST_OPTIONS(st_adaptive_avgpool_options, __VA_ARGS__))

/* ---- dense: [N, in] -> [N, out_features], [N, T, in] -> [N, T, out_features] ---------------------- *
 * y = x weightᵀ + bias of the last axis, as PyTorch's Linear; images are flattened before it. Parameters:
 * weight [out_features, in], bias [out_features], both initialised uniformly in ±1/sqrt(in). */
typedef struct st_dense_options {
    int out_features; /* required */
    bool no_bias;
    st_init_name init;
} st_dense_options;
st_layer *st_dense_new(st_dense_options options);
#define st_dense(...) st_dense_new(ST_OPTIONS(st_dense_options, __VA_ARGS__))

/* ---- activations: any shape, element by element --------------------------------------------------- *
 * NaN propagates. The derivative at a kink is the left one, relu'(0) = 0; at hardtanh's maximum it is 0. */
typedef struct st_leaky_relu_options {
    double slope; /* 0.01 */
} st_leaky_relu_options;
typedef struct st_elu_options {
    double alpha; /* 1 */
} st_elu_options;
typedef struct st_hardtanh_options {
    double min_val; /* -1 */
    double max_val; /* 1; greater than min_val; DBL_MAX: no maximum */
} st_hardtanh_options;
typedef enum st_gelu_approximation { ST_GELU_NONE, ST_GELU_TANH } st_gelu_approximation;
typedef struct st_gelu_options {
    st_gelu_approximation approximate; /* ST_GELU_NONE: exact */
} st_gelu_options;

st_layer *st_relu(void);                                    /* max(x, 0) */
st_layer *st_relu6(void);                                   /* min(max(x, 0), 6) */
st_layer *st_leaky_relu_new(st_leaky_relu_options options); /* x, or slope x below 0 */
st_layer *st_elu_new(st_elu_options options);               /* x, or alpha (exp(x) - 1) below 0 */
st_layer *st_selu(void);                                    /* Klambauer et al. 2017 */
st_layer *st_hardtanh_new(st_hardtanh_options options);     /* min(max(x, min_val), max_val): clamp */
st_layer *st_gelu_new(st_gelu_options options);             /* x Phi(x): Hendrycks and Gimpel 2016; or its
                   approximation x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))) / 2 */
st_layer *st_silu(void);                                    /* x sigmoid(x), also known as swish */
st_layer *st_mish(void);                                    /* x tanh(softplus(x)): Misra 2019 */
st_layer *st_sigmoid(void);                                 /* 1 / (1 + exp(-x)) */
st_layer *st_tanh(void);                                    /* hyperbolic tangent */
st_layer *st_softplus(void);                                /* log(1 + exp(x)), without overflow */
st_layer *st_softsign(void);                                /* x / (1 + |x|) */
st_layer *st_hardsigmoid(void);                             /* min(max(x/6 + 1/2, 0), 1) */
st_layer *st_hardswish(void);                               /* x hardsigmoid(x) */
/* With named options: st_elu(.alpha = 0.5). */
#define st_leaky_relu(...) st_leaky_relu_new(ST_OPTIONS(st_leaky_relu_options, __VA_ARGS__))
#define st_elu(...) st_elu_new(ST_OPTIONS(st_elu_options, __VA_ARGS__))
#define st_hardtanh(...) st_hardtanh_new(ST_OPTIONS(st_hardtanh_options, __VA_ARGS__))
#define st_gelu(...) st_gelu_new(ST_OPTIONS(st_gelu_options, __VA_ARGS__))

/* x, or weight x below 0: He et al. 2015. One weight for all elements of [N, ...], or for each channel of
 * [N, C, ...]. Parameter: weight [num_parameters] = init. */
typedef struct st_prelu_options {
    int num_parameters; /* 1; or C */
    double init;        /* 0.25 */
} st_prelu_options;
st_layer *st_prelu_new(st_prelu_options options);
#define st_prelu(...) st_prelu_new(ST_OPTIONS(st_prelu_options, __VA_ARGS__))

/* ---- normalisation: any shape [N, C, ...], unchanged ----------------------------------------------- *
 * y = weight (x - mean) / sqrt(variance + epsilon) + bias, with the biased variance. */

/* Over the batch, for each channel: Ioffe and Szegedy 2015. Parameters: weight [C] = 1, bias [C] = 0. States:
 * running_mean [C] = 0, running_var [C] = 1. Training uses the batch's mean and variance, and updates running
 * = (1 - momentum) running + momentum batch (with the unbiased variance; 0 for a single value per channel).
 * Inference uses the running ones. A channel whose batch mean or variance is not finite keeps its running
 * mean and variance (PyTorch's become NaN); its y and gradients are NaN. */
typedef struct st_batchnorm_options {
    double epsilon;  /* 1e-5 */
    double momentum; /* 0.1 */
    bool no_affine;  /* no weight and bias */
} st_batchnorm_options;
st_layer *st_batchnorm_new(st_batchnorm_options options);
#define st_batchnorm(...) st_batchnorm_new(ST_OPTIONS(st_batchnorm_options, __VA_ARGS__))

/* Over the last axes of each image: Ba, Kiros and Hinton 2016. Parameters of those axes' shape. */
typedef struct st_layernorm_options {
    int axes;       /* their number; 0: all but the batch */
    double epsilon; /* 1e-5 */
    bool no_affine;
} st_layernorm_options;
st_layer *st_layernorm_new(st_layernorm_options options);
#define st_layernorm(...) st_layernorm_new(ST_OPTIONS(st_layernorm_options, __VA_ARGS__))

/* y = weight x / sqrt(mean of x² + epsilon) over the last axes of each image: Zhang and Sennrich 2019. There
 * is no bias. Epsilon's default is ST_REAL_EPSILON, as in PyTorch. */
st_layer *st_rmsnorm_new(st_layernorm_options options);
#define st_rmsnorm(...) st_rmsnorm_new(ST_OPTIONS(st_layernorm_options, __VA_ARGS__))

/* Over groups of each image's channels: Wu and He 2018. With C groups it is instance normalisation.
 * Parameters: weight [C], bias [C]. */
typedef struct st_groupnorm_options {
    int groups;     /* required; divides C */
    double epsilon; /* 1e-5 */
    bool no_affine;
} st_groupnorm_options;
st_layer *st_groupnorm_new(st_groupnorm_options options);
#define st_groupnorm(...) st_groupnorm_new(ST_OPTIONS(st_groupnorm_options, __VA_ARGS__))

/* ---- softmax along an axis, and its logarithm -------------------------------------------------------- *
 * The default axis is 1: the channels, or the classes of [N, K]. Not needed before st_cross_entropy, which
 * takes logits. */
typedef struct st_softmax_options {
    int axis;
} st_softmax_options;
st_layer *st_softmax_new(st_softmax_options options);
#define st_softmax(...) st_softmax_new(ST_OPTIONS(st_softmax_options, __VA_ARGS__))
st_layer *st_log_softmax_new(st_softmax_options options);
#define st_log_softmax(...) st_log_softmax_new(ST_OPTIONS(st_softmax_options, __VA_ARGS__))

/* ---- size: [N, C, H, W] -> [N, C, OH, OW] ------------------------------------------------------------ */

/* How a border is filled. */
typedef enum st_pad_mode { ST_PAD_CONSTANT, ST_PAD_REFLECT, ST_PAD_REPLICATE } st_pad_mode;

/* A border filled with `value`, with the image reflected about its edge (which is not repeated), or with its
 * edge. */
typedef struct st_pad2d_options {
    int height[2], width[2]; /* top and bottom, left and right: { 1 } is the first side alone */
    st_pad_mode mode;
    double value;
} st_pad2d_options;
st_layer *st_pad2d_new(st_pad2d_options options);
#define st_pad2d(...) st_pad2d_new(ST_OPTIONS(st_pad2d_options, __VA_ARGS__))

/* How pixels are interpolated. */
typedef enum st_upsample_mode { ST_UPSAMPLE_NEAREST, ST_UPSAMPLE_BILINEAR } st_upsample_mode;

/* Resizes the image by a whole `scale` or a `scale_factor` (PyTorch's, which may be fractional or less than
 * 1: OH = floor(H scale_factor)), or to `size`: one of the three is required. align_corners (bilinear only)
 * aligns the centres of the corner pixels, otherwise their outer edges are aligned. Bilinear interpolates
 * between two pixels, also where the image shrinks: pixels between them do not count. An axis that keeps its
 * size is copied; one that doubles has each pixel twice in the nearest mode, whatever the scale_factor. The
 * nearest pixel of a size or a scale_factor is PyTorch's, found in float: row 61 of 122, from 4, is row 1. */
typedef struct st_upsample_options {
    int scale[2];
    st_upsample_mode mode;
    bool align_corners;
    int size[2];         /* OH, OW */
    double scale_factor; /* of both axes */
} st_upsample_options;
st_layer *st_upsample_new(st_upsample_options options);
#define st_upsample(...) st_upsample_new(ST_OPTIONS(st_upsample_options, __VA_ARGS__))

/* ---- the rest -------------------------------------------------------------------------------------- */

/* In training, zeroes each element with probability p and scales the others by 1/(1-p); in inference, the
 * identity. The mask is a function of the net's seed, the layer, the step and the element. 0 <= p < 1. */
typedef struct st_dropout_options {
    double p;
} st_dropout_options;
st_layer *st_dropout_new(st_dropout_options options);
#define st_dropout(...) st_dropout_new(ST_OPTIONS(st_dropout_options, __VA_ARGS__))

/* The same for whole channels of [N, C, ...]: Tompson et al. 2015. */
st_layer *st_channel_dropout_new(st_dropout_options options);
#define st_channel_dropout(...) st_channel_dropout_new(ST_OPTIONS(st_dropout_options, __VA_ARGS__))

st_layer *st_identity(void); /* y = x: an empty branch */
st_layer *st_flatten(void);  /* [N, a, b, ...] -> [N, a b ...] */

/* [N, ...] -> [N, channels, H, W], or [N, channels, the rest] without a size: nn.Unflatten. */
typedef struct st_unflatten_options {
    int channels; /* required */
    int size[2];  /* H, W */
} st_unflatten_options;
st_layer *st_unflatten_new(st_unflatten_options options);
#define st_unflatten(...) st_unflatten_new(ST_OPTIONS(st_unflatten_options, __VA_ARGS__))

/* Layers one after another, as one layer. st_sequence(a, b, c) takes ownership of them. */
st_layer *st_sequence_of(int count, st_layer *const layers[]);
#define st_sequence(...) st_sequence_of(ST_COUNT(st_layer *, __VA_ARGS__), ST_LIST(st_layer *, __VA_ARGS__))

/* y = body(x) + x, or + projection(x) where the body changes the shape: He et al. 2016. Parameters are
 * named body.... and projection.... */
st_layer *st_residual(st_layer *body);
st_layer *st_residual_projected(st_layer *body, st_layer *projection);

/* Runs branches on the same x and concatenates their channels: [N, C0 + C1 + ..., ...]. */
st_layer *st_concat_of(int count, st_layer *const branches[]);
#define st_concat(...) st_concat_of(ST_COUNT(st_layer *, __VA_ARGS__), ST_LIST(st_layer *, __VA_ARGS__))

/* Runs branches on the same x and multiplies their outputs, element by element. An axis of size 1 is
 * repeated: [N, C, H, W] times [N, C, 1, 1] is squeeze-and-excitation, Hu et al. 2018:
 *
 *     st_multiply(st_identity(), st_sequence(st_global_avgpool(), st_conv2d(C / 16, { 1 }), st_relu(),
 *                                            st_conv2d(C, { 1 }), st_sigmoid())) */
st_layer *st_multiply_of(int count, st_layer *const branches[]);
#define st_multiply(...) st_multiply_of(ST_COUNT(st_layer *, __VA_ARGS__), ST_LIST(st_layer *, __VA_ARGS__))

/* Every type above, by its name in saved nets; and the table of them, which ends with NULL. */
/* clang-format off */
#define ST_EACH_LAYER_TYPE(DO)                                                                               \
    DO(conv2d) DO(conv_transpose2d) DO(maxpool) DO(avgpool) DO(lppool) DO(adaptive_avgpool)                  \
    DO(dense) DO(batchnorm) DO(layernorm) DO(rmsnorm) DO(groupnorm)                                          \
    DO(relu) DO(relu6) DO(hardtanh) DO(leaky_relu) DO(prelu) DO(elu) DO(selu) DO(gelu) DO(silu) DO(mish)     \
    DO(sigmoid) DO(tanh) DO(softplus) DO(softsign) DO(hardsigmoid) DO(hardswish)                             \
    DO(softmax) DO(log_softmax) DO(dropout) DO(channel_dropout) DO(pad2d) DO(upsample) DO(flatten)           \
    DO(unflatten) DO(identity) DO(sequence) DO(residual) DO(concat) DO(multiply)
/* clang-format on */
extern const st_layer_type *const st_layer_types[];

ST_API_END

#endif
