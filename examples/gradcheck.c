/* gradcheck.c: every layer we ship, in several configurations, held against central differences. */
#include "layers/describe/describe.h"
#include "layers/pooling/pooling.h"
#include "nn/check/gradcheck.h"
#include "nn/net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- a user's pooling: the root mean square, with and without its adjoint ------------------------- */

static st_real rms(const st_window *w)
{
    st_real sum = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) sum += w->x[i] * w->x[i];
    return (st_real)sqrt((double)sum / (double)w->n);
}

static void rms_adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    for (ptrdiff_t i = 0; i < w->n; i++) dx[i] = y > 0 ? dy * w->x[i] / (y * (st_real)w->n) : 0;
}

static const st_layer_type with_adjoint = ST_POOLING("rms", .value = rms, .adjoint = rms_adjoint);
static const st_layer_type without_adjoint = ST_POOLING("rms by differences", .value = rms);

/* ---- the table ----------------------------------------------------------------------------------- */

enum { MOST_TYPES = 256 };

typedef struct totals {
    int passed, failed;
    double worst;
    bool has_case[MOST_TYPES]; /* of st_layer_types */
} totals;

static void count(totals *t, st_gradcheck_result r, const char *name)
{
    printf("%-4s %8.1e %6td %5td  %s\n", r.passed ? "ok" : "FAIL", r.worst, r.checked, r.kinks, name);
    if (!r.passed) printf("     %s\n", r.text);
    *(r.passed ? &t->passed : &t->failed) += 1;
    t->worst = fmax(t->worst, r.worst);
    st_error_clear();
}

static void mark(totals *t, const st_layer *l)
{
    for (int i = 0; i < MOST_TYPES && st_layer_types[i]; i++)
        if (st_layer_types[i] == l->type) t->has_case[i] = true;
    for (int i = 0; i < l->children; i++) mark(t, l->child[i]);
}

/* A layer that comes with the library and is checked nowhere. */
static void fail_without_case(totals *t)
{
    for (int i = 0; i < MOST_TYPES && st_layer_types[i]; i++)
        if (!t->has_case[i])
            printf("FAIL gradcheck.c has no case of %s\n", st_layer_types[i]->name), t->failed++;
}

static void check_layer(totals *t, st_layer *l, st_shape x)
{
    char name[256] = "?";
    if (l) st_layer_describe(l, name, sizeof name), mark(t, l);
    count(t, st_gradcheck_layer(l, x, (st_gradcheck_options){ .seed = 7 }), name);
    st_layer_free(l);
}

static void check_net(totals *t)
{
    st_net *n = st_net_new(ST_SHAPE(1, 10, 10), st_conv2d(.out_channels = 3, .kernel = { 3, 3 }), st_tanh(),
                           st_maxpool(.kernel = { 2, 2 }), st_flatten(), st_dense(.out_features = 5));
    st_tensor x = st_tensor_new(ST_SHAPE(4, 1, 10, 10)), target = st_tensor_new(ST_SHAPE(4));
    st_normal(x, (st_random_key){ 1, 1 }, 0, 1);
    for (int i = 0; i < 4; i++) *st_at(target, ST_INDEX(i)) = (st_real)i;
    count(
        t,
        st_gradcheck_net(n, x, target, st_cross_entropy(.label_smoothing = 0.1), (st_gradcheck_options){ 0 }),
        "a net with cross-entropy");
    st_net_free(n);
    st_tensor_free(x);
    st_tensor_free(target);
}

static void check_all(totals *t)
{
    /* clang-format off */
    st_layer *const of_images[] = {
        st_conv2d(.out_channels = 3, .kernel = { 3, 2 }, .stride = { 2, 1 },
            .padding = { 1, 1 }),
        st_conv2d(.out_channels = 2, .kernel = { 2, 3 }, .padding = { 1, 2 },
            .dilation = { 3, 2 }),
        st_conv2d(.out_channels = 6, .kernel = { 3, 3 }, .groups = 2),
        st_conv_transpose2d(.out_channels = 6, .kernel = { 3, 3 },
            .stride = { 2, 3 }, .padding = { 1, 2 }, .groups = 2),
        st_conv_transpose2d(.out_channels = 2, .kernel = { 2, 3 },
            .dilation = { 3, 2 }, .output_padding = { 2, 1 }),
        st_maxpool(.kernel = { 3, 3 }, .stride = { 2, 1 }, .padding = { 1, 1 }),
        st_maxpool(.kernel = { 3, 2 }, .ceil_mode = true, .dilation = { 1, 2 }),
        st_maxpool(.kernel = { 3, 3 }, .padding = { 1, 1 }, .pad_value = ST_PAD_ZERO),
        st_avgpool(.kernel = { 2, 3 }, .stride = { 1, 1 }, .dilation = { 2, 1 }),
        st_avgpool(.kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 },
            .ceil_mode = true, .count_exclude_pad = true),
        st_avgpool(),
        st_lppool(.kernel = { 2, 2 }, .p = 3),
        st_adaptive_avgpool(.output_size = { 3, 4 }),
        st_pool(&with_adjoint, .kernel = { 3, 2 }, .stride = { 2, 1 }),
        st_pool(&without_adjoint, .kernel = { 2, 2 }),
        st_stochastic_pool(.kernel = { 2 }),
        st_mixed_pool(.kernel = { 3 }, .stride = { 2 }, .padding = { 1 }),
        st_gated_pool(.kernel = { 2, 3 }, .per_channel = true),
        st_learned_norm_pool(.kernel = { 2 }, .p = 3), st_gem_pool(.kernel = { 2 }, .epsilon = 0.1),
        st_soft_pool(.kernel = { 3, 2 }), st_logsumexp_pool(.kernel = { 2 }),
        st_ordinal_pool(.kernel = { 2, 3 }), st_rank_pool(.kernel = { 3 }), st_median_pool(.kernel = { 3 }),
        st_adaptive_maxpool(.output_size = { 3, 4 }), st_blur_pool(.padding = { 1 }),
        st_fractional_maxpool(.output_size = { 4 }), st_s3_pool(.kernel = { 2 }),
        st_local_importance_pool(.kernel = { 3 }, .stride = { 2 }), st_spatial_pyramid_pool(3),
        st_max_unpool(st_maxpool(.kernel = { 2 }), st_tanh()),
        st_relu(), st_relu6(), st_leaky_relu(.slope = 0.2), st_elu(.alpha = 0.7), st_selu(), st_gelu(),
        st_gelu(.approximate = ST_GELU_TANH), st_hardtanh(), st_prelu(), st_rmsnorm(),
        st_silu(), st_mish(), st_sigmoid(), st_tanh(), st_softplus(), st_softsign(),
        st_hardsigmoid(), st_hardswish(), st_dropout(.p = 0.4), st_flatten(), st_identity(),
        st_unflatten(.channels = 2, .size = { 12, 7 }),
        st_channel_dropout(.p = 0.4), st_softmax(), st_log_softmax(.axis = 3),
        st_batchnorm(), st_layernorm(.axes = 1),
        st_groupnorm(.groups = 2),
        st_pad2d(.height = { 1, 2 }, .width = { 3, 0 }, .value = 0.5),
        st_pad2d(.height = { 6, 2 }, .width = { 3, 5 }, .mode = ST_PAD_REFLECT),
        st_upsample(.scale = { 2, 3 }),
        st_upsample(.scale = { 3, 2 }, .mode = ST_UPSAMPLE_BILINEAR),
        st_residual_projected(st_conv2d(.out_channels = 3, .kernel = { 3, 3 }),
            st_conv2d(.out_channels = 3, .kernel = { 3, 3 })),
        st_concat(st_conv2d(.out_channels = 3, .kernel = { 1, 1 }), st_identity()),
        st_multiply(st_identity(), st_sequence(st_global_avgpool(), st_conv2d(4, { 1 }), st_sigmoid())),
        st_sequence(st_conv2d(.out_channels = 3, .kernel = { 3, 3 }),
            st_silu(), st_flatten(), st_dense(.out_features = 4)),
    };
    st_layer *const of_rows[] = {
        st_dense(.out_features = 7), st_softmax(),
        st_batchnorm(.epsilon = 0.1, .no_affine = true),
    };
    /* clang-format on */
    printf("%-4s %8s %6s %5s  layer (%s, tolerance 1e-6 in double)\n", "", "worst", "checks", "kinks",
           ST_REAL_NAME);
    for (size_t i = 0; i < sizeof of_images / sizeof *of_images; i++)
        check_layer(t, of_images[i], ST_SHAPE(2, 4, 7, 6));
    for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++) check_layer(t, of_rows[i], ST_SHAPE(3, 10));
    check_net(t);
    fail_without_case(t);
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
