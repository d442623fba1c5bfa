/* plan.c: see plan.h. Fixed before the first run; results that are kept with another plan are not used. */
#include "examples/atlas/plan.h"

/* ---- the poolings, in the pictures and for their speed -------------------------------------------- */

#define WINDOW " 3 stride=2 ceil_mode"

/* clang-format off */
const pooling plan_poolings[] = {
    { "max", "maxpool" WINDOW, "y = max xᵢ", "Ranzato et al. 2007" },
    { "average", "avgpool" WINDOW, "y = (Σ xᵢ) / n", "LeCun et al. 1989" },
    { "Lp", "lppool" WINDOW, "y = (Σ |xᵢ|ᵖ)^(1/p), here p = 2", "Sermanet et al. 2012" },
    { "Lp, p learned", "learned_norm_pool" WINDOW, "y = (Σ |xᵢ|ᵖ / n)^(1/p), p > 1 is learned",
      "Gulcehre et al. 2014" },
    { "generalised mean", "gem_pool" WINDOW, "y = (Σ xᵢᵖ / n)^(1/p), p is learned", "Radenović et al. 2018" },
    { "log-sum-exp", "logsumexp_pool" WINDOW, "y = log(Σ exp(r xᵢ) / n) / r, here r = 5",
      "Pinheiro and Collobert 2015" },
    { "SoftPool", "soft_pool" WINDOW, "y = Σ wᵢ xᵢ, w = softmax(x)", "Stergiou et al. 2021" },
    { "mixed", "mixed_pool" WINDOW, "y = a max x + (1 − a) mean x, a is learned", "Lee et al. 2016" },
    { "gated", "gated_pool" WINDOW, "y = g max x + (1 − g) mean x, g = σ(Σ wᵢ xᵢ), w is learned",
      "Lee et al. 2016" },
    { "stochastic", "stochastic_pool" WINDOW,
      "training: y = xₖ with probability xₖ / Σ xᵢ; inference: y = Σ xᵢ² / Σ xᵢ", "Zeiler and Fergus 2013" },
    { "local importance", "local_importance_pool" WINDOW,
      "y = Σ wᵢ xᵢ, w = softmax(g), g is a learned 1×1 convolution of x", "Gao et al. 2019" },
    { "ordinal", "ordinal_pool" WINDOW, "y = Σ wᵢ x₍ᵢ₎, x₍₁₎ ≥ x₍₂₎ ≥ …, w is learned",
      "Deliège et al. 2019" },
    { "rank", "rank_pool" WINDOW, "y = Σ wᵢ x₍ᵢ₎, x₍₁₎ ≥ x₍₂₎ ≥ …, each wᵢ is half of the one before",
      "Shi et al. 2016" },
    { "median", "median_pool" WINDOW, "y = the median of xᵢ", "Tukey 1977" },
    { "blur", "blur_pool 3 stride=2 padding=1", "y = Σ kᵢ xᵢ, k = (1 2 1)ᵀ (1 2 1) / 16", "Zhang 2019" },
    { "max-blur", "maxpool 2 stride=1, blur_pool 3 stride=2 padding=1", "y = blur(max of 2×2 at every place)",
      "Zhang 2019" },
    { "fractional", "fractional_maxpool 2 output_ratio=0.72",
      "y = max xᵢ, windows begin 1 or 2 apart, at random", "Graham 2014" },
    { "S3", "s3_pool 2", "y = max xᵢ of stride 1, of which rows and columns are drawn, strip by strip",
      "Zhai et al. 2017" },
    { 0 },
};
/* clang-format on */

/* ---- 2: Zeiler and Fergus's table on MNIST -------------------------------------------------------- */

static const candidate zeiler_fergus[] = {
    { "average", "avgpool" WINDOW, 0.83 },
    { "max", "maxpool" WINDOW, 0.55 },
    { "stochastic", "stochastic_pool" WINDOW, 0.47 },
    { 0 },
};

/* ---- 3: Zhang's shifts ---------------------------------------------------------------------------- */

static const candidate zhang[] = {
    { "max", "maxpool 2", 0 },
    { "average", "avgpool 2", 0 },
    { "blur", "blur_pool 3 stride=2 padding=1", 0 },
    { "max-blur", "maxpool 2 stride=1, blur_pool 3 stride=2 padding=1", 0 },
    { 0 },
};

#define ZHANG_NET                                                                                            \
    "input 1x28x28\n"                                                                                        \
    "pad height=2x2 width=2x2\n"                                                                             \
    "conv 8 3x3 padding=1, relu, POOL\n"                                                                     \
    "conv 16 3x3 padding=1, relu, POOL\n"                                                                    \
    "conv 32 3x3 padding=1, relu, POOL\n"                                                                    \
    "global_avgpool, dense 10\n"
#define ZHANG                                                                                                \
    .net = ZHANG_NET, .candidates = zhang,                                                                   \
    .size = { { 12000, 10000, 5, 3 }, { 4000, 10000, 3, 2 }, { 200, 200, 1, 1 } }, .batch = 50, .lr = 0.05,  \
    .weight_decay = 5e-4, .inconsistent = 4

/* ---- 4: poolings that are learned, and others, in one small net ----------------------------------- */

#define SMALL_NET                                                                                            \
    "input 1x28x28\n"                                                                                        \
    "conv 8 5x5 padding=2, relu, POOL\n"                                                                     \
    "conv 16 5x5 padding=2, relu, POOL\n"                                                                    \
    "dense 10\n"

/* clang-format off */
static const candidate learned[] = {
    { "max", "maxpool" WINDOW, 0 },
    { "average", "avgpool" WINDOW, 0 },
    { "mixed", "mixed_pool" WINDOW, 0 },
    { "gated", "gated_pool" WINDOW, 0 },
    { "Lp, p = 2", "lppool" WINDOW, 0 },
    { "Lp, p learned", "learned_norm_pool" WINDOW, 0 },
    { "generalised mean", "gem_pool" WINDOW, 0 },
    { "log-sum-exp", "logsumexp_pool" WINDOW, 0 },
    { "SoftPool", "soft_pool" WINDOW, 0 },
    { "stochastic", "stochastic_pool" WINDOW, 0 },
    { "local importance", "local_importance_pool" WINDOW, 0 },
    { "ordinal", "ordinal_pool" WINDOW, 0 },
    { "rank", "rank_pool" WINDOW, 0 },
    { "median", "median_pool" WINDOW, 0 },
    { 0 },
};
/* clang-format on */

/* ---- 5: grids that are drawn ---------------------------------------------------------------------- */

static const candidate grids[] = {
    { "max 2×2", "identity; maxpool 2; identity; maxpool 2", 0 },
    { "max 3×3", "identity; maxpool 3 stride=2 ceil_mode; identity; maxpool 3 stride=2 ceil_mode", 0 },
    { "fractional, random", "fractional_maxpool 2 output_ratio=0.72", 0 },
    { "fractional, pseudo-random", "fractional_maxpool 2 output_ratio=0.72 pseudo_random", 0 },
    { "S3", "identity; s3_pool 2; identity; s3_pool 2", 0 },
    { 0 },
};

/* ---- the experiments ------------------------------------------------------------------------------ */

const experiment plan_experiments[] = {
    {
        .key = "zeiler-fergus",
        .title = "2. Stochastic pooling on MNIST",
        .claim = "Zeiler and Fergus 2013: average pooling has 0.83 % errors, max pooling 0.55 %, stochastic "
                 "pooling 0.47 %.",
        .scaled =
            "Three convolutions of 5×5 with pooling of 3×3 and stride 2, as theirs; 16, 16 and 32 feature "
            "maps instead of 64, no response normalisation, and few epochs where they have 280.",
        .net = "input 1x28x28\n"
               "conv 16 5x5 padding=2, relu, POOL\n"
               "conv 16 5x5 padding=2, relu, POOL\n"
               "conv 32 5x5 padding=2, relu, POOL\n"
               "dense 10\n",
        .candidates = zeiler_fergus,
        .size = { { 60000, 10000, 4, 5 }, { 12000, 10000, 2, 2 }, { 500, 200, 8, 1 } },
        .batch = 100,
        .lr = 0.05,
        .weight_decay = 5e-4,
    },
    {
        .key = "zhang",
        .title = "3a. Shifts, without augmentation",
        .claim = "Zhang 2019: a blur before each subsampling makes classes more consistent under shifts, and "
                 "nets no less accurate (VGG16 on ImageNet: consistency from 88.5 to 90.2 %, accuracy from "
                 "71.6 to 72.3 %).",
        .scaled = "A net of 8, 16 and 32 feature maps that ends with a global mean. Consistency is the share "
                  "of test images that have the same class in two shifts of up to ±4 pixels each, the same "
                  "shifts for every net.",
        ZHANG,
    },
    {
        .key = "zhang-augmented",
        .title = "3b. Shifts, with augmentation",
        .claim = "Zhang 2019: augmentation by shifts makes nets more consistent, and a blur still helps.",
        .scaled = "As 3a; training images are shifted by up to ±4 pixels.",
        .shift = 4,
        ZHANG,
    },
    {
        .key = "learned",
        .title = "4. Poolings that learn",
        .claim = "Lee et al. 2016: mixed and gated max-average pooling are better than either; Gulcehre et "
                 "al. 2014: so is Lp with a learned p; Stergiou et al. 2021: so is SoftPool. Their nets are "
                 "larger.",
        .scaled = "One small net, 8 and 16 feature maps, pooling of 3×3 with stride 2.",
        .net = SMALL_NET,
        .candidates = learned,
        .size = { { 6000, 10000, 4, 3 }, { 3000, 10000, 2, 2 }, { 200, 200, 1, 1 } },
        .batch = 50,
        .lr = 0.05,
        .weight_decay = 5e-4,
    },
    {
        .key = "grids",
        .title = "5. Random grids, equal downsampling",
        .claim = "Graham 2014 and Zhai et al. 2017: grids drawn at random keep a net from overfitting, and "
                 "its errors are fewer than with max pooling.",
        .scaled =
            "Four convolutions of 3×3, 8 to 16 feature maps, from 28×28 to 7×7. Fractional pooling "
            "follows each of them by a factor of about √2 (28, 20, 14, 10, 7), the others every "
            "second one by 2. A first plan had PyTorch's initial weights, from which some nets of every "
            "kind did not begin to learn: it was changed once, to Kaiming's.",
        .net = "input 1x28x28\n"
               "conv 8 3x3 padding=1 init=kaiming_normal, relu, POOL\n"
               "conv 8 3x3 padding=1 init=kaiming_normal, relu, POOL\n"
               "conv 16 3x3 padding=1 init=kaiming_normal, relu, POOL\n"
               "conv 16 3x3 padding=1 init=kaiming_normal, relu, POOL\n"
               "dense 10\n",
        .candidates = grids,
        .size = { { 10000, 10000, 6, 3 }, { 4000, 10000, 2, 2 }, { 200, 200, 1, 1 } },
        .batch = 50,
        .lr = 0.05,
        .weight_decay = 5e-4,
    },
    { 0 },
};

/* ---- speed: processor time of one thread ---------------------------------------------------------- */

const char plan_speed_net[] = SMALL_NET;
const char plan_speed_layer[] = "input 16x28x28\nPOOL\n";
