/* test_pooling.c: what the table of cases cannot say of layers/pooling/: numbers of PyTorch, how often an
 * element is drawn, what grids are drawn, and what inference makes of them.
 *
 * PyTorch's numbers are those of 2.14: x are (37 k) mod 101, dy are 1, 2, 3, ... */
#include "layers/layer_impl.h"
#include "layers/pooling/pooling.h"
#include "nn/check/gradcheck.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

static void build(st_layer *l, st_shape x, uint64_t step)
{
    if (!l || st_layer_build(l, x, 1)) fail_msg("%s", st_error());
    st_layer_mode(l, true, 1, step);
}

/* ---- a pooling without an adjoint ---------------------------------------------------------------------- */

/* The second element, where the first one is at least 1. */
static st_real gated_second(const st_window *w)
{
    return w->x[0] >= 1 ? w->x[1] : 0;
}

static const st_layer_type gated_by_first = ST_POOLING("gated_by_first", .value = gated_second);

/* Otherwise the second one's difference would be that of a first one below 1. */
TEST(differences_are_taken_with_the_other_elements_as_they_are)
{
    auto_layer *l = st_pool(&gated_by_first, .kernel = { 1, 2 });
    const st_shape s = ST_SHAPE(1, 1, 1, 2);
    build(l, s, 1);
    auto_tensor x = full(s, 1), y = st_tensor_new(l->y), dy = full(l->y, 3), dx = full(s, NAN);
    st_layer_forward(l, x, y);
    st_layer_backward(l, x, y, dy, dx);
    assert_true(*element(y, 0) == 1);
    assert_close((double)*element(dx, 1), 3, 0.01);
}

/* ---- PyTorch's numbers --------------------------------------------------------------------------------- */

typedef struct golden {
    st_shape x;
    const int *y, *dx;
} golden;

static void assert_golden(st_layer *l, golden g)
{
    build(l, g.x, 1);
    auto_tensor x = st_tensor_new(g.x), y = st_tensor_new(l->y), dy = st_tensor_new(l->y),
                dx = full(g.x, NAN);
    for (ptrdiff_t k = 0; k < st_numel(x); k++) *element(x, k) = (st_real)(k * 37 % 101);
    for (ptrdiff_t k = 0; k < st_numel(dy); k++) *element(dy, k) = (st_real)(k + 1);
    st_layer_forward(l, x, y);
    st_layer_backward(l, x, y, dy, dx);
    for (ptrdiff_t k = 0; k < st_numel(y); k++) assert_true(*element(y, k) == (st_real)g.y[k]);
    for (ptrdiff_t k = 0; k < st_numel(dx); k++) assert_true(*element(dx, k) == (st_real)g.dx[k]);
}

TEST(adaptive_maxima_are_pytorchs)
{
    auto_layer *l = st_adaptive_maxpool({ 3, 4 });
    assert_golden(l, (golden){ ST_SHAPE(1, 2, 5, 7),
                               (const int[]){ 94, 94, 84, 84, 94, 94, 97, 97, 70, 100, 80, 90,
                                              83, 93, 93, 66, 96, 89, 99, 79, 89, 89,  99, 92 },
                               (const int[]){ 0,  0, 0,  0,  0, 7,  0, 0, 14, 0, 0, 0,  0, 0, 0, 0, 0,  0, 0,
                                              15, 0, 9,  0,  0, 11, 0, 0, 12, 0, 0, 10, 0, 0, 0, 0, 13, 0, 0,
                                              29, 0, 16, 0,  0, 0,  0, 0, 0,  0, 0, 17, 0, 0, 0, 0, 20, 0, 0,
                                              61, 0, 0,  42, 0, 0,  0, 0, 0,  0, 0, 24, 0 } });
}

TEST(unpooled_maxima_are_pytorchs)
{
    auto_layer *l = st_max_unpool(st_maxpool(.kernel = { 2 }), st_multiply(st_identity(), st_identity()));
    assert_golden(
        l,
        (golden){ ST_SHAPE(1, 2, 4, 6),
                  (const int[]){ 0,    0, 0, 0,    0, 7056, 0,    3249, 8836, 0, 0, 0,    0, 0, 0,     0,
                                 7569, 0, 0, 9409, 0, 4900, 0,    0,    0,    0, 0, 8100, 0, 0, 10000, 0,
                                 0,    0, 0, 6889, 0, 0,    8649, 0,    0,    0, 0, 5776, 0, 0, 7396,  0 },
                  (const int[]){ 0,    0, 0, 0,    0, 1008, 0,    912, 1692, 0, 0, 0,    0, 0, 0,    0,
                                 2958, 0, 0, 3880, 0, 3080, 0,    0,   0,    0, 0, 5040, 0, 0, 6200, 0,
                                 0,    0, 0, 5976, 0, 0,    7254, 0,   0,    0, 0, 6688, 0, 0, 8084, 0 } });
}

/* With PyTorch's _random_samples, those that the key has for the axes of two channels. */
TEST(fractional_maxima_are_pytorchs_for_the_same_samples)
{
    static const double samples[] = { 0.41717726568281976, 0.7984788578824481, 0.23131944042016461,
                                      0.15118714790482313 };
    auto_layer *l = st_fractional_maxpool(.kernel = { 2, 3 }, .output_size = { 4, 5 }, .pseudo_random = true);
    build(l, ST_SHAPE(1, 2, 7, 9), 1);
    const st_random_key key = st_call_random(&(st_call){ .layer = l });
    for (uint64_t i = 0; i < 4; i++) assert_close(st_random_uniform(key, i << 32), samples[i], 1e-16);
    assert_golden(l, (golden){ ST_SHAPE(1, 2, 7, 9),
                               (const int[]){ 74, 74, 84, 84, 94, 97, 100, 100, 80, 83, 93, 93, 96, 96,
                                              76, 86, 89, 96, 99, 99, 82,  82,  92, 92, 95, 98, 78, 81,
                                              88, 91, 98, 71, 81, 81, 91,  94,  97, 97, 77, 80 },
                               (const int[]){ 0,  0, 3, 0,  0, 7,  0,  0, 5,  0, 0, 0,  0, 0, 0,  0, 0,  0, 0,
                                              6,  0, 0, 0,  0, 9,  0,  0, 0,  0, 0, 15, 0, 0, 0,  0, 10, 0, 0,
                                              23, 0, 0, 0,  0, 15, 0,  0, 16, 0, 0, 45, 0, 0, 0,  0, 0,  0, 0,
                                              17, 0, 0, 39, 0, 0,  0,  0, 43, 0, 0, 47, 0, 0, 0,  0, 0,  0, 0,
                                              0,  0, 0, 25, 0, 0,  0,  0, 27, 0, 0, 29, 0, 0, 57, 0, 32, 0, 0,
                                              95, 0, 0, 65, 0, 0,  0,  0, 0,  0, 0, 0,  0, 0, 36, 0, 0,  0, 0,
                                              39, 0, 0, 0,  0, 0,  75, 0, 0,  0, 0, 40 } });
}

/* Every window's maximum is a zero of the padding, of which the body makes 1/2. */
TEST(a_maximum_in_the_padding_leads_nowhere)
{
    auto_layer *l = st_max_unpool(st_maxpool(.kernel = { 2 }, .padding = { 1 }, .pad_value = ST_PAD_ZERO),
                                  st_hardsigmoid());
    build(l, ST_SHAPE(1, 1, 2, 2), 1);
    auto_tensor x = full(l->x, -1), y = full(l->y, NAN);
    st_layer_forward(l, x, y);
    assert_elements(y, 0, 0, 0, 0);
}

/* ---- how often an element is drawn ------------------------------------------------------------------- */

/* The share of windows { a[0], ..., a[3] } in which y is a[i], within five standard deviations. */
static void assert_drawn(st_layer *l, const double *a, const double *share)
{
    enum { WINDOWS_OF = 4, SIDE = 100 };
    build(l, ST_SHAPE(2, 1, 2 * SIDE, 2 * SIDE), 1);
    auto_tensor x = st_tensor_new(l->x), y = st_tensor_new(l->y), other = st_tensor_new(l->y);
    for (ptrdiff_t k = 0; k < st_numel(x); k++) {
        const st_shape at = index_of(x.shape, k);
        *element(x, k) = (st_real)a[at.n[2] % 2 * 2 + at.n[3] % 2];
    }
    st_layer_forward(l, x, y);
    const double windows = (double)st_numel(y);
    for (int i = 0; i < WINDOWS_OF; i++) {
        ptrdiff_t count = 0;
        for (ptrdiff_t k = 0; k < st_numel(y); k++) count += *element(y, k) == (st_real)a[i];
        assert_close((double)count / windows, share[i], 5 * sqrt(share[i] * (1 - share[i]) / windows));
    }
    st_layer_mode(l, true, 1, 2);
    st_layer_forward(l, x, other);
    ptrdiff_t alike = 0;
    for (ptrdiff_t k = 0; k < st_numel(y); k++) alike += *element(y, k) == *element(other, k);
    assert_in_range(alike, 1, st_numel(y) - 1); /* another step draws anew */
    st_layer_mode(l, false, 1, 2);
    st_layer_forward(l, x, other);
    double mean = 0;
    for (int i = 0; i < WINDOWS_OF; i++) mean += share[i] * a[i];
    for (ptrdiff_t k = 0; k < st_numel(y); k++)
        assert_close((double)*element(other, k), mean, 4 * (double)ST_REAL_EPSILON * 8);
}

TEST(stochastic_pooling_draws_in_proportion_and_infers_the_mean)
{
    auto_layer *l = st_stochastic_pool(.kernel = { 2 });
    assert_drawn(l, (const double[]){ 1, 0, 4, 3 }, (const double[]){ 0.125, 0, 0.5, 0.375 });
}

TEST(stochastic_pooling_draws_equally_where_nothing_is_positive)
{
    auto_layer *l = st_stochastic_pool(.kernel = { 2 });
    assert_drawn(l, (const double[]){ -1, -2, -3, -4 }, (const double[]){ 0.25, 0.25, 0.25, 0.25 });
}

TEST(rank_pooling_draws_by_rank_and_infers_the_mean)
{
    auto_layer *l = st_rank_pool(.kernel = { 2 }, .stochastic = true);
    assert_drawn(l, (const double[]){ 1, 4, 2, 3 }, (const double[]){ 1 / 15., 8 / 15., 2 / 15., 4 / 15. });
}

/* So many that float rounds some draws to another element: a few of these windows. */
TEST(many_windows_draw_as_by_the_definition)
{
    auto_layer *l = st_stochastic_pool(.kernel = { 9 }, .stride = { 1 });
    auto_tensor x = st_tensor_new(ST_SHAPE(1, 8, 208, 208));
    st_uniform(x, (st_random_key){ 1, 1 }, 0, 1);
    auto_layer *defined = st_layer_clone(l);
    use_engine("reference");
    build(defined, x.shape, 1);
    auto_tensor want = st_tensor_new(defined->y), y = st_tensor_new(defined->y);
    st_layer_forward(defined, x, want);
    for (int i = 1; i < ENGINES; i++) {
        if (!choose_engine(engines[i])) continue;
        auto_layer *fast = st_layer_clone(l);
        build(fast, x.shape, 1);
        st_layer_forward(fast, x, y);
        for (ptrdiff_t k = 0; k < st_numel(y); k++) assert_true(*element(y, k) == *element(want, k));
    }
    use_engine(NULL);
}

/* ---- grids that are drawn --------------------------------------------------------------------------- */

/* The last rows of windows: maxima of an image of row numbers. */
static st_tensor last_rows(st_layer *l)
{
    st_tensor x = st_tensor_new(l->x), y = st_tensor_new(l->y);
    for (ptrdiff_t k = 0; k < st_numel(x); k++) *element(x, k) = (st_real)index_of(x.shape, k).n[2];
    st_layer_forward(l, x, y);
    st_tensor_free(x);
    return y;
}

static ptrdiff_t row_of(st_tensor rows, ptrdiff_t image, ptrdiff_t channel, ptrdiff_t i)
{
    return (ptrdiff_t)*st_at(rows, ST_INDEX(image, channel, i, 0));
}

/* 7 regions of 10 rows: 3 of them have two rows, anywhere; each order is met, and as often as others. */
TEST(fractional_regions_have_every_order_of_steps)
{
    enum { IMAGES = 50, CHANNELS = 70, REGIONS = 7, LONGER = 3 };
    auto_layer *l = st_fractional_maxpool(.output_size = { REGIONS, 1 });
    build(l, ST_SHAPE(IMAGES, CHANNELS, 10, 1), 1);
    auto_tensor rows = last_rows(l);
    ptrdiff_t met[1 << REGIONS] = { 0 }, orders = 0;
    for (ptrdiff_t plane = 0; plane < IMAGES * CHANNELS; plane++) {
        ptrdiff_t order = 0, last = -1;
        for (ptrdiff_t i = 0; i < REGIONS; i++) {
            const ptrdiff_t row = row_of(rows, plane / CHANNELS, plane % CHANNELS, i);
            assert_in_range(row - last, 1, 2);
            order = 2 * order + (row - last == 2);
            last = row;
        }
        assert_int_equal(last, 9);
        met[order]++;
    }
    for (int i = 0; i < 1 << REGIONS; i++) orders += met[i] > 0;
    assert_int_equal(orders, 35); /* 7 choose 3 */
    for (int i = 0; i < 1 << REGIONS; i++)
        if (met[i]) assert_in_range(met[i], 100 - 50, 100 + 50); /* five standard deviations */
}

TEST(pseudo_random_regions_are_those_of_their_formula)
{
    auto_layer *l = st_fractional_maxpool(.output_size = { 7, 1 }, .pseudo_random = true);
    build(l, ST_SHAPE(3, 4, 10, 1), 1);
    auto_tensor rows = last_rows(l);
    const st_random_key key = st_call_random(&(st_call){ .layer = l });
    const double alpha = 10 / 7.;
    for (ptrdiff_t plane = 0; plane < 12; plane++)
        for (ptrdiff_t i = 0; i < 7; i++) {
            const double u = st_random_uniform(key, (uint64_t)plane * 2 << 32);
            const double next = i == 6 ? 10 : floor(alpha * ((double)i + 1 + u)) - floor(alpha * u);
            assert_int_equal(row_of(rows, plane / 4, plane % 4, i), (ptrdiff_t)next - 1);
        }
    st_layer_mode(l, false, 1, 1); /* the mean of these, rounded */
    auto_tensor regular = last_rows(l);
    for (ptrdiff_t plane = 0; plane < 12; plane++)
        for (ptrdiff_t i = 0; i < 6; i++)
            assert_int_equal(row_of(regular, plane / 4, plane % 4, i),
                             (ptrdiff_t)floor(alpha * ((double)i + 1) + 0.5) - 1);
}

/* Each strip of 6 rows keeps 3; the last one, of 4 rows, 2; the same for all channels of an image. */
TEST(s3_draws_rows_strip_by_strip)
{
    auto_layer *l = st_s3_pool(.kernel = { 1 }, .stride = { 2, 1 }, .grid = { 6, 1 });
    build(l, ST_SHAPE(40, 3, 16, 1), 1);
    auto_tensor rows = last_rows(l);
    assert_int_equal(l->y.n[2], 8);
    bool met[16] = { false };
    for (ptrdiff_t image = 0; image < 40; image++)
        for (ptrdiff_t i = 0; i < 8; i++) {
            const ptrdiff_t row = row_of(rows, image, 0, i);
            met[row] = true;
            assert_int_equal(row / 6, i / 3);
            if (i > 0) assert_true(row > row_of(rows, image, 0, i - 1));
            for (ptrdiff_t channel = 1; channel < 3; channel++)
                assert_int_equal(row_of(rows, image, channel, i), row);
        }
    for (int row = 0; row < 16; row++) assert_true(met[row]);
}

/* Windows end at the image's edge, as those of a maxpool that is padded behind it. */
TEST(s3_infers_means_of_maxima)
{
    auto_layer *l = st_s3_pool(.kernel = { 3, 2 }, .stride = { 2, 4 }, .grid = { 4 });
    auto_layer *parts = st_sequence(
        st_maxpool(.kernel = { 3, 2 }, .stride = { 1 }, .pad_height = { 0, 2 }, .pad_width = { 0, 1 }),
        st_avgpool(.kernel = { 2, 4 }));
    const st_shape s = ST_SHAPE(3, 2, 9, 13);
    build(l, s, 1), build(parts, s, 1);
    st_layer_mode(l, false, 1, 1);
    dice d = { { 1 } };
    auto_tensor x = roll_tensor(&d, s, -9, 9), y = full(l->y, NAN), expected = full(parts->y, NAN),
                dy = roll_tensor(&d, l->y, -9, 9), dx = full(s, NAN), expected_dx = full(s, NAN);
    st_layer_forward(l, x, y), st_layer_forward(parts, x, expected);
    assert_same(y, expected);
    st_layer_backward(l, x, y, dy, dx), st_layer_backward(parts, x, expected, dy, expected_dx);
    assert_same(dx, expected_dx);
}

/* ---- options at and beside 0 --------------------------------------------------------------------------- */

/* y of the window { 1, 2, 4, 8 }. */
static double of_four_powers(st_layer *given)
{
    auto_layer *l = given;
    build(l, ST_SHAPE(1, 1, 2, 2), 1);
    auto_tensor x = full(l->x, 1), y = st_tensor_new(l->y);
    for (int i = 1; i < 4; i++) *element(x, i) = 2 * *element(x, i - 1);
    st_layer_forward(l, x, y);
    return (double)*element(y, 0);
}

TEST(means_of_small_powers_are_near_the_limit)
{
    const double small[] = { ST_ZERO, 1e-300, 1e-16, 1e-12, 1e-9, 1e-6 };
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        about("%g", small[i]);
        assert_close(of_four_powers(st_gem_pool(.kernel = { 2 }, .p = small[i])), 2 * sqrt(2), 1e-5);
        assert_close(of_four_powers(st_logsumexp_pool(.kernel = { 2 }, .r = small[i])), 3.75, 1e-5);
        assert_close(of_four_powers(st_rank_pool(.kernel = { 2 }, .alpha = small[i])), 3.75, 1e-5);
    }
}

TEST(gradients_of_small_powers_are_those_of_values)
{
    const double small[] = { ST_ZERO, 1e-16, 1e-12, 1e-9, 2e-7, 1e-6, 1e-3 };
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        about("%g", small[i]);
        auto_layer *gem = st_gem_pool(.kernel = { 2 }, .p = small[i], .epsilon = 0.1);
        st_assert_gradients(gem, ST_SHAPE(2, 3, 4, 4));
        auto_layer *sums = st_logsumexp_pool(.kernel = { 2 }, .r = small[i]);
        st_assert_gradients(sums, ST_SHAPE(2, 3, 4, 4));
    }
}

/* ---- NaN, and options that do not fit ----------------------------------------------------------------- */

TEST(nan_reaches_y_of_its_window)
{
    st_layer *all[] = {
        st_stochastic_pool(.kernel = { 2 }), st_mixed_pool(.kernel = { 2 }),
        st_gated_pool(.kernel = { 2 }),      st_learned_norm_pool(.kernel = { 2 }),
        st_gem_pool(.kernel = { 2 }),        st_soft_pool(.kernel = { 2 }),
        st_logsumexp_pool(.kernel = { 2 }),  st_ordinal_pool(.kernel = { 2 }),
        st_rank_pool(.kernel = { 2 }),       st_adaptive_maxpool({ 2 }),
        st_blur_pool(.kernel = { 2 }),       st_fractional_maxpool(.kernel = { 2 }, .output_size = { 2 }),
        st_s3_pool(.kernel = { 2 }),         st_local_importance_pool(.kernel = { 2 }),
        st_spatial_pyramid_pool(2)
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        auto_layer *l = all[i];
        about("%s", l->type->name);
        build(l, ST_SHAPE(1, 1, 4, 12), 1); /* lanes, too */
        auto_tensor x = full(l->x, 1), y = st_tensor_new(l->y);
        *element(x, 13) = (st_real)NAN; /* the last one of the first window */
        for (int training = 0; training < 2; training++) {
            st_layer_mode(l, training, 1, 1);
            st_layer_forward(l, x, y);
            assert_true(isnan(*element(y, 0)));
        }
    }
}

static void assert_refused(st_layer *given, st_shape x, const char *expected)
{
    auto_layer *l = given;
    st_shape y;
    assert_non_null(l);
    expect_failure(st_layer_plan(l, x, &y), "%s", expected);
}

static st_real first_value(const st_window *w)
{
    return w->x[0];
}

static const st_layer_type named = ST_POOLING("maxpool", .value = first_value);

TEST(a_pooling_of_ones_own_has_a_name_of_its_own)
{
    expect_failure(st_pool(&named, .kernel = { 2 }),
                   "st_pool: the library has a type maxpool: expected another name");
}

/* The adjoint adds to both gradients in one pass, but for the reference engine. */
static int passes;

static int plan_factor(st_layer *l, ptrdiff_t channels, ptrdiff_t n)
{
    (void)channels, (void)n;
    return st_layer_parameter(l, "factor", ST_SHAPE(1), (st_init){ .constant = 2 });
}

static st_real scaled_value(const st_window *w)
{
    return w->param[0][0] * w->x[0];
}

static void scaled_adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    passes++;
    for (ptrdiff_t i = 0; i < w->n; i++) dx[i] = i == 0 ? dy * w->param[0][0] : 0;
    w->dparam[0][0] += (double)dy * (double)w->x[0];
}

static const st_layer_type scaled =
    ST_POOLING("scaled", .plan = plan_factor, .value = scaled_value, .adjoint = scaled_adjoint);

TEST(an_adjoint_runs_once_for_each_window)
{
    auto_layer *l = st_pool(&scaled, .kernel = { 2 });
    build(l, ST_SHAPE(1, 1, 4, 4), 1);
    auto_tensor x = full(l->x, 3), y = full(l->y, NAN), dy = full(l->y, 1), dx = full(l->x, NAN);
    st_layer_forward(l, x, y);
    passes = 0;
    st_layer_backward(l, x, y, dy, dx);
    assert_elements(dx, 2, 0, 2, 0, 0, 0, 0, 0, 2, 0, 2, 0, 0, 0, 0, 0);
    assert_elements(st_layer_gradients(l), 12);
    assert_int_equal(passes, l->impl->run->executor ? 4 : 8);
}

TEST(what_does_not_fit_is_refused_in_one_line)
{
    const st_shape x = ST_SHAPE(2, 3, 8, 8);
    assert_refused(st_learned_norm_pool(.kernel = { 2 }, .p = 1), x,
                   "learned_norm_pool: p is 1, expected more than 1");
    assert_refused(st_fractional_maxpool(.kernel = { 2 }), x,
                   "fractional_maxpool: expected either output_size or output_ratio");
    assert_refused(st_fractional_maxpool(.output_ratio = 1), x,
                   "fractional_maxpool: output_ratio is 1, expected less than 1");
    assert_refused(st_fractional_maxpool(.kernel = { 2 }, .output_size = { 8 }), x,
                   "fractional_maxpool: 8 windows of an axis, expected 1 to 7 of an input [2, 3, 8, 8]");
    assert_refused(st_fractional_maxpool(.output_size = { 9 }), x,
                   "fractional_maxpool: 9 windows of an axis, expected 1 to 8 of an input [2, 3, 8, 8]");
    assert_refused(st_fractional_maxpool(.kernel = { 3, 9 }, .output_size = { 1 }), x,
                   "fractional_maxpool: kernel 3x9 does not fit into an input [2, 3, 8, 8]");
    assert_refused(st_s3_pool(.kernel = { 2 }, .grid = { 3 }), x,
                   "s3_pool: grid is 3x3, expected multiples of the stride");
    assert_refused(st_s3_pool(.kernel = { 9 }), x,
                   "s3_pool: an input [2, 3, 8, 8] is smaller than the stride");
    assert_refused(st_blur_pool(.kernel = { 9 }), x,
                   "blur_pool: kernel 9x9 does not fit into an input [2, 3, 8, 8]");
    assert_refused(st_blur_pool(.padding = { 3 }), x,
                   "blur_pool: padding of 3 and 3, expected less than the kernel 3x3");
    assert_refused(st_max_unpool(st_avgpool(.kernel = { 2 }), st_relu()), x,
                   "max_unpool: its first layer is avgpool, expected maxpool or another maximum of windows");
    assert_refused(st_max_unpool(st_maxpool(.kernel = { 2 }), st_flatten()), x,
                   "max_unpool: the body makes [2, 48] of [2, 3, 4, 4], expected the same shape");
}
