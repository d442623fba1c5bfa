/* layers.h: the layers that come with Stride.
 *
 * Every constructor returns a layer, or NULL with an error. Options are structs in which 0 means the
 * default; pairs are height, width. Shapes: N images, C channels, H x W. Sizes follow PyTorch:
 *
 *     OH = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1      (ceil in ceil_mode) */
#ifndef STRIDE_LAYERS_LAYERS_H
#define STRIDE_LAYERS_LAYERS_H

#include "layers/layer.h"

#pragma GCC visibility push(default)

/* ---- convolution: [N, C, H, W] -> [N, out_channels, OH, OW] ------------------------------------ *
 * y[n, o] = bias[o] + sum over c of the cross-correlation of x[n, c] with weight[o, c].
 * Parameters: weight [out_channels, C/groups, KH, KW], bias [out_channels]; both begin uniform in
 * ±1/sqrt(fan_in), fan_in = C/groups KH KW, as in PyTorch. */
typedef struct conv2d {
    int out_channels; /* required */
    int kernel[2];    /* required */
    int stride[2];    /* 1 */
    int padding[2];   /* 0: zeros on each side */
    int dilation[2];  /* 1 */
    int groups;       /* 1; divides C and out_channels */
    bool no_bias;
} conv2d;
layer *layer_conv2d(conv2d options);

/* ---- transposed convolution: [N, C, H, W] -> [N, out_channels, OH, OW] ---------------------------- *
 * The adjoint of a convolution as a forward pass:
 *     OH = (H - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1
 * Parameters: weight [C, out_channels/groups, KH, KW], bias [out_channels]; both begin uniform in
 * ±1/sqrt(out_channels/groups KH KW), as in PyTorch. */
typedef struct conv_transpose2d {
    int out_channels;      /* required */
    int kernel[2];         /* required */
    int stride[2];         /* 1 */
    int padding[2];        /* 0: taken off each side of the output */
    int output_padding[2]; /* 0: added at its bottom and right; less than the stride or the dilation */
    int dilation[2];       /* 1 */
    int groups;            /* 1; divides C and out_channels */
    bool no_bias;
} conv_transpose2d;
layer *layer_conv_transpose2d(conv_transpose2d options);

/* ---- pooling: [N, C, H, W] -> [N, C, OH, OW] ---------------------------------------------------- *
 * A kernel of 0 is the whole extent of its axis: maxpool{0} is global pooling. The stride is the
 * kernel unless given. padding must be less than the dilated kernel. ceil_mode also counts a last
 * window that begins inside the image or its left padding and hangs over the right edge. */

/* What windows see in the padding. */
typedef enum pad_value {
    PAD_DEFAULT, /* lowest for maxpool, zero for pool */
    PAD_ZERO,
    PAD_LOWEST /* -inf: never the maximum of a window that sees the image */
} pad_value;

/* The maximum of each window. The first maximum in row-major order gets the gradient; NaN is greater
 * than any number, so a window with a NaN is NaN and its first NaN gets the gradient. */
typedef struct maxpool {
    int kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode;
    pad_value pad_value;
} maxpool;
layer *layer_maxpool(maxpool options);

/* The mean of each window. The padding counts as zeros, unless count_exclude_pad (PyTorch:
 * count_include_pad=False) divides by the number of image elements only; what ceil_mode hangs over the
 * padding is never counted. A window that sees nothing countable is 0. */
typedef struct avgpool {
    int kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode;
    bool count_exclude_pad;
} avgpool;
layer *layer_avgpool(avgpool options);

/* The p-norm of each window, (sum of |x|^p)^(1/p), padding zeros; where it is 0 so is its gradient. */
typedef struct lppool {
    int kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode;
    double p; /* 2; at least 1 */
} lppool;
layer *layer_lppool(lppool options);

/* The image cut into OH x OW parts that may overlap by a row, rows floor(i H / OH) to
 * ceil((i + 1) H / OH), and the mean of each. */
typedef struct adaptive_avgpool {
    int output_size[2]; /* 1 */
} adaptive_avgpool;
layer *layer_adaptive_avgpool(adaptive_avgpool options);

/* Any function of one window: `window` holds its n = KH KW elements in row-major order, zeros (or -inf)
 * where it sees padding. `adjoint` writes all of dwindow[i] = dy * (derivative of value by window[i]);
 * where it is NULL the derivative is computed numerically, by central differences: for prototyping.
 * Both must be pure: they are called from several threads. */
typedef struct pool_function {
    const char *name; /* what a saved net knows it by */
    real (*value)(const real *window, ptrdiff_t n, const void *context);
    void (*adjoint)(const real *window, ptrdiff_t n, real y, real dy, real *dwindow, const void *context);
    const void *context;
} pool_function;

/* Such a function of each window. */
typedef struct pool {
    const pool_function *function; /* required; borrowed for the layer's life */
    int kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode;
    pad_value pad_value;
} pool;
layer *layer_pool(pool options);

/* ---- dense: [N, in] -> [N, out_features] --------------------------------------------------------- *
 * y = x weightᵀ + bias. Parameters: weight [out_features, in], bias [out_features], both uniform in
 * ±1/sqrt(in). */
typedef struct dense {
    int out_features; /* required */
    bool no_bias;
} dense;
layer *layer_dense(dense options);

/* ---- activations: any shape, element by element --------------------------------------------------- *
 * NaN stays NaN. The derivative of a kink is that of its left side: relu'(0) = 0. */
layer *layer_relu(void);               /* max(x, 0) */
layer *layer_relu6(void);              /* min(max(x, 0), 6) */
layer *layer_leaky_relu(double slope); /* x, or slope x below 0; slope 0: 0.01 */
layer *layer_elu(double alpha);        /* x, or alpha (exp(x) - 1) below 0; alpha 0: 1 */
layer *layer_selu(void);               /* Klambauer et al. 2017 */
layer *layer_gelu(void);               /* x Phi(x), exact: Hendrycks and Gimpel 2016 */
layer *layer_silu(void);               /* x sigmoid(x), also known as swish */
layer *layer_mish(void);               /* x tanh(softplus(x)): Misra 2019 */
layer *layer_sigmoid(void);            /* 1 / (1 + exp(-x)) */
layer *layer_tanh(void);
layer *layer_softplus(void);    /* log(1 + exp(x)), without overflow */
layer *layer_softsign(void);    /* x / (1 + |x|) */
layer *layer_hardsigmoid(void); /* min(max(x/6 + 1/2, 0), 1) */
layer *layer_hardswish(void);   /* x hardsigmoid(x) */

/* ---- normalisation: any shape [N, C, ...], unchanged ----------------------------------------------- *
 * y = weight (x - mean) / sqrt(variance + epsilon) + bias, with the biased variance. */

/* Over the batch, channel by channel: Ioffe and Szegedy 2015. Parameters: weight [C] = 1, bias [C] = 0.
 * States: running_mean [C] = 0, running_var [C] = 1. Training normalises with the batch's moments, and
 * running = (1 - momentum) running + momentum batch (the unbiased variance; of a single value per channel
 * the biased one, 0); inference normalises with the running ones. */
typedef struct batchnorm {
    double epsilon;  /* 1e-5 */
    double momentum; /* 0.1 */
    bool no_affine;  /* no weight and bias */
} batchnorm;
layer *layer_batchnorm(batchnorm options);

/* Over the last axes of each image: Ba, Kiros and Hinton 2016. Parameters of those axes' shape. */
typedef struct layernorm {
    int axes;       /* how many; 0: all but the batch */
    double epsilon; /* 1e-5 */
    bool no_affine;
} layernorm;
layer *layer_layernorm(layernorm options);

/* Over each image's channels in groups: Wu and He 2018; with as many groups as channels, instance
 * normalisation. Parameters: weight [C], bias [C]. */
typedef struct groupnorm {
    int groups;     /* required; divides C */
    double epsilon; /* 1e-5 */
    bool no_affine;
} groupnorm;
layer *layer_groupnorm(groupnorm options);

/* ---- along an axis: softmax of each row along it, and its logarithm --------------------------------- *
 * axis 0 is the default, 1: the channels, or the classes of [N, K]. For a loss on classes leave it out:
 * loss_cross_entropy takes logits. */
layer *layer_softmax(int axis);
layer *layer_log_softmax(int axis);

/* ---- size: [N, C, H, W] -> [N, C, OH, OW] ------------------------------------------------------------ */

/* What a border is made of. */
typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_REPLICATE } pad_mode;

/* A border: of `value`, of the image mirrored about its edge (which is not repeated), or of its edge. */
typedef struct pad2d {
    int height[2], width[2]; /* top and bottom, left and right */
    pad_mode mode;
    double value;
} pad2d;
layer *layer_pad2d(pad2d options);

/* The pixel that lies there, or a mean of the four around, by distance. */
typedef enum upsample_mode { UPSAMPLE_NEAREST, UPSAMPLE_BILINEAR } upsample_mode;

/* The image `scale` times as high and wide. align_corners (bilinear only) puts the corner pixels of both on
 * each other, else their outer edges. */
typedef struct upsample {
    int scale[2]; /* required */
    upsample_mode mode;
    bool align_corners;
} upsample;
layer *layer_upsample(upsample options);

/* ---- the rest -------------------------------------------------------------------------------------- */

/* In training zeroes each element with probability p and scales the rest by 1/(1-p); nothing in
 * inference. Which, is a function of the net's seed, the layer, the step and the element. 0 <= p < 1. */
layer *layer_dropout(double p);

/* The same for whole channels of [N, C, ...]: Tompson et al. 2015. */
layer *layer_channel_dropout(double p);

layer *layer_identity(void); /* y = x: a branch that is left alone */
layer *layer_flatten(void);  /* [N, a, b, ...] -> [N, a b ...] */

/* A chain of layers is a layer. layer_sequence(a, b, c) takes them over. */
layer *layer_sequence_of(int count, layer *const layers[]);
#define layer_sequence(...)                                                                                  \
    layer_sequence_of(TENSOR_COUNT(layer *, __VA_ARGS__), (layer *const[]){ __VA_ARGS__ })

/* y = body(x) + x, or + projection(x) where the body changes the shape: He et al. 2016. Parameters are
 * named body.… and projection.… */
layer *layer_residual(layer *body);
layer *layer_residual_projected(layer *body, layer *projection);

/* Branches of the same x, their channels one after another: [N, C0 + C1 + ..., ...]. */
layer *layer_concat_of(int count, layer *const branches[]);
#define layer_concat(...) layer_concat_of(TENSOR_COUNT(layer *, __VA_ARGS__), (layer *const[]){ __VA_ARGS__ })

/* Every type above, ended by NULL: what a saved net's names are looked up in. */
extern const layer_type *const layer_types[];

#pragma GCC visibility pop

#endif
