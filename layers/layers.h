/* layers.h: the layers that come with Stride.
 *
 * Every constructor returns a layer, or NULL with an error. Options are structs in which 0 means the
 * default; pairs are height, width. Shapes: N images, C channels, H x W. Sizes follow PyTorch:
 *
 *     OH = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1      (ceil in ceil_mode) */
#ifndef STRIDE_LAYERS_LAYERS_H
#define STRIDE_LAYERS_LAYERS_H

#include "layers/layer.h"

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

/* ---- the rest -------------------------------------------------------------------------------------- */

/* In training zeroes each element with probability p and scales the rest by 1/(1-p); nothing in
 * inference. Which, is a function of the net's seed, the layer, the step and the element. 0 <= p < 1. */
layer *layer_dropout(double p);

layer *layer_flatten(void); /* [N, a, b, ...] -> [N, a b ...] */

/* A chain of layers is a layer. layer_sequence(a, b, c) takes them over. */
layer *layer_sequence_of(int count, layer *const layers[]);
#define layer_sequence(...)                                                                                  \
    layer_sequence_of(TENSOR_COUNT(layer *, __VA_ARGS__), (layer *const[]){ __VA_ARGS__ })

/* Every type above, ended by NULL: what a saved net's names are looked up in. */
extern const layer_type *const layer_types[];

#endif
