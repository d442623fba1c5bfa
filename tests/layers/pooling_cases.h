/* pooling_cases.h: the rows of the table of layers (cases.h) for layers/pooling/. */
#ifndef STRIDE_TESTS_POOLING_CASES_H
#define STRIDE_TESTS_POOLING_CASES_H

#include "tests/layers/cases.h"

/* The definition of any of them: see pooling_cases.c. */
naive_layer want_pooling, want_blur, want_local_importance, want_pyramid, want_unpooled;

#define POOLING_ROLLS(DO)                                                                                    \
    DO(stochastic)                                                                                           \
    DO(mixed)                                                                                                \
    DO(gated)                                                                                                \
    DO(learned_norm)                                                                                         \
    DO(gem)                                                                                                  \
    DO(soft)                                                                                                 \
    DO(logsumexp)                                                                                            \
    DO(ordinal)                                                                                              \
    DO(rank)                                                                                                 \
    DO(median)                                                                                               \
    DO(adaptive_max)                                                                                         \
    DO(blur)                                                                                                 \
    DO(fractional_max)                                                                                       \
    DO(s3)                                                                                                   \
    DO(local_importance) DO(pyramid) DO(un) DO(fractional_un) DO(many_gated) DO(apart_gated) DO(many_soft)
#define DECLARE_ROLL(NAME) st_layer *roll_##NAME##_pool(dice *d, st_shape *x);
POOLING_ROLLS(DECLARE_ROLL)

/* clang-format off */
#define POOLING_CASES                                                                                        \
    { "stochastic_pool",     roll_stochastic_pool,     want_pooling, 3, 1,    0,   0 },                      \
    { "mixed_pool",          roll_mixed_pool,          want_pooling, 3, 3600, 0,   0 },                      \
    { "gated_pool",          roll_gated_pool,          want_pooling, 1, 0,    200, 0 },                      \
    { "learned_norm_pool",   roll_learned_norm_pool,   want_pooling, 3, 0,    200, 0 },                      \
    { "gem_pool",            roll_gem_pool,            want_pooling, 3, 0,    200, 0 },                      \
    { "soft_pool",           roll_soft_pool,           want_pooling, 3, 0,    200, 0 },                      \
    { "logsumexp_pool",      roll_logsumexp_pool,      want_pooling, 3, 0,    200, 0 },                      \
    { "ordinal_pool",        roll_ordinal_pool,        want_pooling, 3, 1,    0,   0 },                      \
    { "rank_pool",           roll_rank_pool,           want_pooling, 3, 0,    200, 0 },                      \
    { "median_pool",         roll_median_pool,         want_pooling, 3, 2,    0,   0 },                      \
    { "adaptive_maxpool",    roll_adaptive_max_pool,   want_pooling, 3, 1,    0,   0 },                      \
    { "blur_pool",           roll_blur_pool,           want_blur,    4, 1,    0,   LINEAR },                 \
    { "fractional_maxpool",  roll_fractional_max_pool, want_pooling, 3, 1,    0,   0 },                      \
    { "s3_pool",             roll_s3_pool,             want_pooling, 3, 1,    0,   0 },                      \
    { "local_importance_pool", roll_local_importance_pool, want_local_importance, 2, 0, 200, 0 },            \
    { "spatial_pyramid_pool", roll_pyramid_pool, want_pyramid, 3, 1, 0, 0 },                                 \
    { "gated_pool, large", roll_many_gated_pool, want_pooling, 1, 0, 200, LARGE },                           \
    { "gated_pool, apart", roll_apart_gated_pool, want_pooling, 1, 0, 200, 0 },                              \
    { "soft_pool, large", roll_many_soft_pool, want_pooling, 3, 0, 200, LARGE },                             \
    { "max_unpool", roll_un_pool, want_unpooled, 3, 2, 0, 0 },                                               \
    { "max_unpool, fractional", roll_fractional_un_pool, NULL, 3, 0, 0, 0 },
/* clang-format on */

#endif
