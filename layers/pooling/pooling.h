/* pooling.h: poolings from the literature: [N, C, H, W] -> [N, C, OH, OW].
 *
 * Each is a file of its own with its formula and paper. Windows lie as those of layers.h; padding is left out
 * of them, and y of padding alone is 0, unless a pooling says otherwise. A pooling that is trained has one
 * number (or set of numbers) for all channels, and with per_channel one for each. Random numbers are a
 * function of the net's seed, the layer, the step and the window: both passes and any number of threads see
 * the same; in inference nothing is random. */
#ifndef STRIDE_LAYERS_POOLING_POOLING_H
#define STRIDE_LAYERS_POOLING_POOLING_H

#include "layers/layers.h"

ST_API_BEGIN

/* In training an element drawn with the probability x / (sum of x), in inference the mean with these weights:
 * Zeiler and Fergus 2013. An element below 0 counts as 0; where none is above 0, all are equally probable. */
typedef struct st_stochastic_pool_options {
    ST_WINDOW_OPTIONS;
    st_pad_value pad_value;
} st_stochastic_pool_options;
st_layer *st_stochastic_pool_new(st_stochastic_pool_options options);
#define st_stochastic_pool(...) st_stochastic_pool_new(ST_OPTIONS(st_stochastic_pool_options, __VA_ARGS__))

/* a max x + (1 - a) mean x: Lee, Gallagher and Tu 2016. Parameter: mix [1] or [C] = 0.5. */
typedef struct st_mixed_pool_options {
    ST_WINDOW_OPTIONS;
    bool per_channel;
} st_mixed_pool_options;
st_layer *st_mixed_pool_new(st_mixed_pool_options options);
#define st_mixed_pool(...) st_mixed_pool_new(ST_OPTIONS(st_mixed_pool_options, __VA_ARGS__))

/* g max x + (1 - g) mean x with g = sigmoid(sum of gate x): Lee, Gallagher and Tu 2016. Padding is zeros.
 * Parameter: gate [1, KH KW] or [C, KH KW], uniform in ±1/sqrt(KH KW). */
typedef struct st_gated_pool_options {
    ST_WINDOW_OPTIONS;
    bool per_channel;
} st_gated_pool_options;
st_layer *st_gated_pool_new(st_gated_pool_options options);
#define st_gated_pool(...) st_gated_pool_new(ST_OPTIONS(st_gated_pool_options, __VA_ARGS__))

/* (mean of |x|^p)^(1/p) with p = 1 + log(1 + exp(rho)): Gulcehre et al. 2014. Where y is 0, so are the
 * gradients. Parameter: rho [1] or [C], such that p begins as the option. */
typedef struct st_learned_norm_pool_options {
    ST_WINDOW_OPTIONS;
    double p; /* 2; more than 1 */
    bool per_channel;
} st_learned_norm_pool_options;
st_layer *st_learned_norm_pool_new(st_learned_norm_pool_options options);
#define st_learned_norm_pool(...)                                                                            \
    st_learned_norm_pool_new(ST_OPTIONS(st_learned_norm_pool_options, __VA_ARGS__))

/* (mean of max(x, epsilon)^p)^(1/p), GeM: Radenović, Tolias and Chum 2018. Parameter: p [1] or [C] = the
 * option. */
typedef struct st_gem_pool_options {
    ST_WINDOW_OPTIONS;
    double p;       /* 3 */
    double epsilon; /* 1e-6 */
    bool per_channel;
} st_gem_pool_options;
st_layer *st_gem_pool_new(st_gem_pool_options options);
#define st_gem_pool(...) st_gem_pool_new(ST_OPTIONS(st_gem_pool_options, __VA_ARGS__))

/* The mean with weights softmax(x), SoftPool: Stergiou, Poppe and Kalliatakis 2021. */
typedef struct st_soft_pool_options {
    ST_WINDOW_OPTIONS;
    st_pad_value pad_value;
} st_soft_pool_options;
st_layer *st_soft_pool_new(st_soft_pool_options options);
#define st_soft_pool(...) st_soft_pool_new(ST_OPTIONS(st_soft_pool_options, __VA_ARGS__))

/* log(mean of exp(r x)) / r: Pinheiro and Collobert 2015. */
typedef struct st_logsumexp_pool_options {
    ST_WINDOW_OPTIONS;
    double r; /* 5 */
} st_logsumexp_pool_options;
st_layer *st_logsumexp_pool_new(st_logsumexp_pool_options options);
#define st_logsumexp_pool(...) st_logsumexp_pool_new(ST_OPTIONS(st_logsumexp_pool_options, __VA_ARGS__))

/* The sum of weight[k] times the k-th greatest element: Deliège et al. 2019. Padding is zeros. Parameter:
 * weight [1, KH KW] or [C, KH KW] = 1 / (KH KW). */
typedef struct st_ordinal_pool_options {
    ST_WINDOW_OPTIONS;
    bool per_channel;
} st_ordinal_pool_options;
st_layer *st_ordinal_pool_new(st_ordinal_pool_options options);
#define st_ordinal_pool(...) st_ordinal_pool_new(ST_OPTIONS(st_ordinal_pool_options, __VA_ARGS__))

/* The mean with weights alpha (1 - alpha)^k, divided by their sum, for the k-th greatest element, from k = 0:
 * Shi, Ye and Wu 2016. With `stochastic`, training draws one element with these probabilities. */
typedef struct st_rank_pool_options {
    ST_WINDOW_OPTIONS;
    double alpha; /* 0.5; at least 0, the mean, and less than 1 */
    bool stochastic;
} st_rank_pool_options;
st_layer *st_rank_pool_new(st_rank_pool_options options);
#define st_rank_pool(...) st_rank_pool_new(ST_OPTIONS(st_rank_pool_options, __VA_ARGS__))

/* The median; of an even number of elements, the mean of the two in the middle. */
typedef struct st_median_pool_options {
    ST_WINDOW_OPTIONS;
    st_pad_value pad_value;
} st_median_pool_options;
st_layer *st_median_pool_new(st_median_pool_options options);
#define st_median_pool(...) st_median_pool_new(ST_OPTIONS(st_median_pool_options, __VA_ARGS__))

/* The maximum of each of OH x OW parts of the image, which lie as those of adaptive_avgpool. */
typedef struct st_adaptive_maxpool_options {
    int output_size[2]; /* 1 */
} st_adaptive_maxpool_options;
st_layer *st_adaptive_maxpool_new(st_adaptive_maxpool_options options);
#define st_adaptive_maxpool(...) st_adaptive_maxpool_new(ST_OPTIONS(st_adaptive_maxpool_options, __VA_ARGS__))

/* How an image continues beyond its edge. */
typedef enum st_blur_edge { ST_BLUR_REFLECT, ST_BLUR_REPLICATE, ST_BLUR_ZEROS } st_blur_edge;

/* The mean with binomial weights (kernel 3: 1 2 1 over 4, along both axes): Zhang 2019. Max-blur pooling is
 * st_sequence(st_maxpool(.kernel = { 2 }, .stride = { 1 }), st_blur_pool(.padding = { 1 })). */
typedef struct st_blur_pool_options {
    int kernel[2];                   /* 3; at most 16 */
    int stride[2];                   /* 2 */
    int padding[2];                  /* 0: on each side; less than the kernel */
    int pad_height[2], pad_width[2]; /* 0: besides, top and bottom, left and right */
    st_blur_edge edge;
} st_blur_pool_options;
st_layer *st_blur_pool_new(st_blur_pool_options options);
#define st_blur_pool(...) st_blur_pool_new(ST_OPTIONS(st_blur_pool_options, __VA_ARGS__))

/* The maximum of windows that begin a fraction of a row apart, on average: Graham 2014. Each channel of each
 * image has rows and columns of its own. In inference steps are as regular as they can be. */
typedef struct st_fractional_maxpool_options {
    int kernel[2];       /* 0: windows end where the next one begins */
    int output_size[2];  /* OH, OW: this, */
    double output_ratio; /* or OH / H, below 1: one of them is required */
    bool pseudo_random;  /* the steps are floor(alpha (i + u)), u at random; else they are in any order */
    bool overlapping;    /* without a kernel: windows have the first row of the next one, too */
} st_fractional_maxpool_options;
st_layer *st_fractional_maxpool_new(st_fractional_maxpool_options options);
#define st_fractional_maxpool(...)                                                                           \
    st_fractional_maxpool_new(ST_OPTIONS(st_fractional_maxpool_options, __VA_ARGS__))

/* Maxima of stride 1, of which rows and columns are drawn at random, S3Pool: Zhai et al. 2017. In inference
 * the mean of stride x stride maxima. OH = floor(H / stride). Windows end at the image's edge. */
typedef struct st_s3_pool_options {
    int kernel[2]; /* 2 */
    int stride[2]; /* the kernel */
    int grid[2];   /* the stride: of every `grid` rows, grid / stride are drawn; columns likewise */
} st_s3_pool_options;
st_layer *st_s3_pool_new(st_s3_pool_options options);
#define st_s3_pool(...) st_s3_pool_new(ST_OPTIONS(st_s3_pool_options, __VA_ARGS__))

/* The mean with weights softmax(g), g = weight x, a 1x1 convolution: Gao, Wang and Wu 2019. Parameter: weight
 * [C, C] = 0. */
typedef struct st_local_importance_pool_options {
    ST_WINDOW_OPTIONS;
} st_local_importance_pool_options;
st_layer *st_local_importance_pool_new(st_local_importance_pool_options options);
#define st_local_importance_pool(...)                                                                        \
    st_local_importance_pool_new(ST_OPTIONS(st_local_importance_pool_options, __VA_ARGS__))

/* The maxima of 1 x 1, 2 x 2, ... parts of the image, level after level: [N, C, H, W] -> [N, C (1 + 4 + 9 +
 * ...)], whatever H and W: He et al. 2014. */
typedef struct st_spatial_pyramid_pool_options {
    int levels; /* 4 */
} st_spatial_pyramid_pool_options;
st_layer *st_spatial_pyramid_pool_new(st_spatial_pyramid_pool_options options);
#define st_spatial_pyramid_pool(...)                                                                         \
    st_spatial_pyramid_pool_new(ST_OPTIONS(st_spatial_pyramid_pool_options, __VA_ARGS__))

/* Each number of body(pool(x)) at the place of its window's maximum in x, and zeros elsewhere: Zeiler, Taylor
 * and Fergus 2011; numbers that go to one place are added. `pool` is a maximum: maxpool, adaptive_maxpool,
 * fractional_maxpool. The body keeps the shape. Parameters are named body.... */
st_layer *st_max_unpool(st_layer *pool, st_layer *body);

/* Every type above, by its name in saved nets and in texts. */
/* clang-format off */
#define ST_EACH_POOLING_TYPE(DO)                                                                             \
    DO(stochastic_pool) DO(mixed_pool) DO(gated_pool) DO(learned_norm_pool) DO(gem_pool) DO(soft_pool)       \
    DO(logsumexp_pool) DO(ordinal_pool) DO(rank_pool) DO(median_pool) DO(adaptive_maxpool)       \
    DO(blur_pool) DO(fractional_maxpool) DO(s3_pool) DO(local_importance_pool)                          \
    DO(spatial_pyramid_pool) DO(max_unpool)
/* clang-format on */

ST_API_END

#endif
