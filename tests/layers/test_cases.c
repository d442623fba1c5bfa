/* test_cases.c: the table of layers (cases.c) in every mode: exact, adjoint, gradient, threads, batches,
 * refused, exported.
 *
 * STRIDE_CASES is how many random configurations of each row a mode tries. */
#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "nn/files/save.h"
#include "nn/check/gradcheck.h"
#include "nn/onnx/onnx.h"
#include "tests/files.h"
#include "tests/layers/cases.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tries(void)
{
    const char *set = getenv("STRIDE_CASES"), *fast = getenv("STRIDE_FAST");
    return set && *set ? atoi(set) : fast && *fast ? 3 : 20;
}

/* Of what float and double both run: fewer in double, which takes longer. */
static int tries_of_either(void)
{
    return tries() == 20 && sizeof(st_real) > sizeof(float) ? 14 : tries();
}

static void about_case(const char *mode, const layer_case *c, const st_layer *l, st_shape x, const char *more)
{
    char text[160] = "";
    if (l) st_layer_describe(l, text, sizeof text);
    about("%s of %s: %s of %s %s", mode, c->name, text, st_shape_text(x).text, more);
}

/* Each row's configurations: claim(case, dice, layer, its input's shape), which takes the layer over. */
typedef void claim(const layer_case *c, dice *d, st_layer *l, st_shape x);

static void each_of(const layer_case *c, const char *mode, int times, claim *run)
{
    if (c->traits & LARGE) times = 1;
    if (c->traits & OFTEN) times *= 2;
    for (int i = 0; i < times; i++) {
        dice d = { { (uint64_t)i + 1, (uint64_t)(c - layer_cases) } };
        st_shape x;
        st_layer *l = c->roll(&d, &x);
        if (!l) fail_msg("%s: %s", c->name, st_error());
        about_case(mode, c, l, x, "");
        run(c, &d, l, x);
    }
}

static void each_case(const char *mode, int traits, int times, claim *run)
{
    for (const layer_case *c = layer_cases; c->name; c++)
        if ((c->traits & traits) == traits) each_of(c, mode, times, run);
}

static void build(st_layer *l, st_shape x)
{
    if (st_layer_build(l, x, 1)) fail_msg("%s", st_error());
    st_layer_mode(l, true, 1, 1);
}

/* A normal distribution, over whatever places the view has. */
static void roll_normal(dice *d, st_tensor x)
{
    st_random_block bits = st_random_bits(d->key, d->rolls++);
    st_normal(x, (st_random_key){ bits.word[0], bits.word[1] }, 0, 1);
}

static st_tensor outputs(const st_layer *l, ptrdiff_t images, double value)
{
    st_shape s = l->y;
    s.n[0] = images;
    return full(s, value);
}

TEST(every_shipped_type_has_a_row)
{
    for (const st_layer_type *const *type = st_layer_types; *type; type++) {
        bool found = false;
        for (const layer_case *c = layer_cases; c->name; c++) {
            st_shape x;
            auto_layer *l = c->roll(&(dice){ { 1 } }, &x);
            found = found || l->type == *type;
        }
        if (!found) fail_msg("cases.c, or pooling_cases.h, has no row for %s", (*type)->name);
    }
}

/* ---- exact: every engine computes the definition ----------------------------------------------- */

static void assert_as_wanted(const layer_case *c, st_tensor x, st_tensor expected)
{
    const double scale = c->scale > 1 ? c->scale : 0;
    const ptrdiff_t count = st_numel(expected);
    double largest = 1;
    for (ptrdiff_t k = 0; k < count; k++) {
        st_real *wanted = element(expected, k), *got = scale > 0 ? element(x, k) : NULL;
        const double size = fabs((double)*wanted);
        if (isfinite(size)) largest = fmax(largest, size);
        if (got) *wanted = (st_real)(round(scale * (double)*wanted) / scale);
        if (got) *got = (st_real)(round(scale * (double)*got) / scale);
    }
    assert_near(x, expected, c->limit * (double)ST_REAL_EPSILON * largest);
}

/* Leaves NaN wherever a pass leaves something behind. */
static void soil(st_layer *l, st_shape s)
{
    auto_tensor x = full(s, NAN), y = outputs(l, s.n[0], NAN), dx = full(s, NAN);
    auto_tensor states = st_tensor_clone(st_layer_states(l));
    st_layer_forward(l, x, y);
    st_layer_backward(l, x, y, y, dx);
    st_copy(st_layer_states(l), states);
    st_fill(st_layer_gradients(l), 0);
    st_layer_spoil_scratch(l);
}

static void add_to(st_tensor gradients, naive want)
{
    const st_tensor wanted[] = { want.dweight, want.dbias };
    for (ptrdiff_t k = 0, i = 0; i < 2; i++)
        for (ptrdiff_t e = 0; e < st_numel(wanted[i]) && k < st_numel(gradients); e++)
            *element(gradients, k++) += *element(wanted[i], e);
}

/* y and dx are overwritten whatever they held, and nothing beyond their images; gradients are added to what
 * is there; x, y and dy stay. So it is without dx, and where the layer was built for a larger batch. */
static void computes(const layer_case *c, st_layer *l, st_tensor x, st_tensor dy, naive want)
{
    st_shape s = x.shape, more = s;
    more.n[0]++;
    auto_tensor y_and_more = outputs(l, more.n[0], 77), dx_and_more = full(more, 77);
    st_tensor y = st_narrow(y_and_more, 0, 0, s.n[0]), dx = st_narrow(dx_and_more, 0, 0, s.n[0]);
    auto_tensor x_before = st_tensor_clone(x), dy_before = st_tensor_clone(dy);
    soil(l, s);
    st_layer_forward(l, x, y);
    st_tensor gradients = st_layer_gradients(l);
    auto_tensor y_before = st_tensor_clone(y);
    for (int without_dx = 0; without_dx < 2; without_dx++) {
        for (ptrdiff_t k = 0; k < st_numel(gradients); k++) *element(gradients, k) = (st_real)(k % 5 - 2);
        auto_tensor expected = st_tensor_clone(gradients);
        add_to(expected, want);
        st_layer_spoil_scratch(l);
        st_layer_backward(l, x, y, dy, without_dx ? (st_tensor){ 0 } : dx);
        assert_as_wanted(c, gradients, expected);
    }
    assert_same(x, x_before);
    assert_same(y, y_before);
    assert_same(dy, dy_before);
    auto_tensor y_wanted = st_tensor_clone(want.y), dx_wanted = st_tensor_clone(want.dx);
    assert_as_wanted(c, y, y_wanted);
    assert_as_wanted(c, dx, dx_wanted);
    const st_tensor beyond[] = { st_narrow(y_and_more, 0, s.n[0], 1), st_narrow(dx_and_more, 0, s.n[0], 1) };
    for (int i = 0; i < 2; i++)
        for (ptrdiff_t k = 0; k < st_numel(beyond[i]); k++) assert_true(*element(beyond[i], k) == 77);
}

/* By every engine that this machine can run, from this one on. */
static int first_engine;

static void is_its_definition(const layer_case *c, dice *d, st_layer *l, st_shape s)
{
    view_kind kind = (view_kind)roll(d, 0, VIEWS - 1);
    auto_tensor x = roll_kind(d, kind, s, -c->most, c->most);
    if (c->traits & EXTREMES && chance(d, 30))
        for (ptrdiff_t k = 0; k < st_numel(x); k++)
            if (chance(d, 20))
                *element(x, k) = (st_real)(chance(d, 50) ? NAN : chance(d, 50) ? INFINITY : -INFINITY);
    st_shape planned = s;
    if (chance(d, 20)) planned.n[0] += roll(d, 1, 9);
    auto_tensor parameters = { 0 }, dy = { 0 };
    naive want = { 0 };
    for (int i = first_engine; i < ENGINES; i++) {
        if (!choose_engine(engines[i])) continue;
        char how[64];
        const bool streams = chance(d, 50);
        write_past_caches(streams);
        snprintf(how, sizeof how, "%s, %s%s", view_names[kind], engines[i],
                 streams ? ", past the caches" : "");
        about_case("exact", c, l, s, how);
        auto_layer *built = st_layer_clone(l);
        build(built, planned);
        if (st_is_null(want.y)) {
            parameters = st_tensor_clone(st_layer_parameters(built));
            roll_elements(d, parameters, -3, 3);
            st_copy(st_layer_parameters(built), parameters);
            auto_tensor y = outputs(built, s.n[0], 0);
            dy = roll_tensor(d, y.shape, -3, 3);
            want = c->want(built, x, dy);
            assert_string_equal(st_shape_text(y.shape).text, st_shape_text(want.y.shape).text);
        }
        st_copy(st_layer_parameters(built), parameters);
        computes(c, built, x, dy, want);
    }
    use_engine(NULL);
    write_past_caches(false);
    naive_free(want), st_layer_free(l);
}

static void if_it_has_a_definition(const layer_case *c, dice *d, st_layer *l, st_shape s)
{
    if (c->want) is_its_definition(c, d, l, s);
    else st_layer_free(l);
}

TEST(layers_are_their_definitions_by_every_engine)
{
    each_case("exact", 0, tries_of_either(), if_it_has_a_definition);
}

/* ---- Winograd's algorithm, wherever it could be chosen ------------------------------------------ */

static bool always(const st_layer *l)
{
    return true;
}

/* Winograd's tiles are the algorithm of all engines but the reference, which has none. */
static void by_tiles(void (*run)(void))
{
    const layer_algorithm *first = layer_algorithms[0];
    layer_algorithm chosen = conv_winograd;
    chosen.suits = always;
    layer_algorithms[0] = &chosen;
    run();
    layer_algorithms[0] = first;
}

static void tiles_are_exact(void)
{
    const layer_case *c = layer_cases;
    while (strcmp(c->name, "conv2d, 3x3, 5x5") != 0) c++;
    first_engine = 1;
    each_of(c, "tiles of 4x4", tries() < 8 ? 11 : 27, is_its_definition); /* every size at which they end */
    first_engine = 0;
}

/* Factors and divisors are powers of two and small integers, so that small integers come out exactly. */
TEST(winograds_tiles_are_exact_on_integers)
{
    by_tiles(tiles_are_exact);
}

/* The root of the mean square of a - b, relative to that of b. */
static double distance(st_tensor a, st_tensor b)
{
    double error = 0, size = 0;
    for (ptrdiff_t k = 0; k < st_numel(a); k++) {
        error += pow((double)*element(a, k) - (double)*element(b, k), 2);
        size += pow((double)*element(b, k), 2);
    }
    return sqrt(error / size);
}

static void tiles_of_an_engine_err_little(void)
{
    const double limit = 15 * (double)ST_REAL_EPSILON;
    const st_conv2d_options o = {
        .out_channels = 32, .kernel = { 3, 3 }, .padding = { 1, 1 }, .no_bias = true
    };
    auto_layer *l = st_conv2d_new(o);
    auto_tensor x = st_tensor_new(ST_SHAPE(1, 32, 12, 12)), dx = full(x.shape, NAN);
    build(l, x.shape);
    auto_tensor y = full(l->y, NAN), dy = st_tensor_new(l->y);
    st_uniform(x, (st_random_key){ 1, 1 }, -1, 1);
    st_uniform(dy, (st_random_key){ 1, 2 }, -1, 1);
    st_layer_forward(l, x, y);
    st_layer_backward(l, x, y, dy, dx);
    naive want = naive_conv2d(l, x, dy);
    double errors[] = { distance(y, want.y), distance(dx, want.dx), distance(l->grad[0], want.dweight) };
    for (int k = 0; k < 3; k++) assert_true(errors[k] <= limit);
    naive_free(want);
}

static void tiles_err_little(void)
{
    for (int i = 1; i < ENGINES; i++)
        if (choose_engine(engines[i])) tiles_of_an_engine_err_little();
    use_engine(NULL);
}

/* Plain sums of 288 products err by 1 to 2.5 epsilon here; tiles by 8 to 11.4. In double a part of it is the
 * oracle's. */
TEST(the_error_of_winograds_tiles_is_that_of_a_sum)
{
    by_tiles(tiles_err_little);
}

TEST(conv2d_takes_tiles_where_they_pay)
{
    static const struct {
        st_conv2d_options o;
        st_shape x;
        bool takes;
    } cases[] = {
        { { .out_channels = 64 }, { 4, { 64, 32, 26, 26 } }, true },
        { { .out_channels = 64 }, { 4, { 8, 64, 8, 8 } }, true },
        { { .out_channels = 64 }, { 4, { 8, 64, 5, 5 } }, false }, /* much beyond the border */
        { { .out_channels = 64, .padding = { 1, 1 } }, { 4, { 1, 64, 14, 14 } }, true },
        { { .out_channels = 64, .padding = { 1, 1 } }, { 4, { 8, 64, 14, 14 } }, true },
        { { .out_channels = 64, .padding = { 3, 1 } }, { 4, { 8, 64, 14, 14 } }, false },
        { { .out_channels = 64, .stride = { 1, 2 } }, { 4, { 8, 64, 14, 14 } }, false },
        { { .out_channels = 64, .dilation = { 2, 1 } }, { 4, { 8, 64, 14, 14 } }, true },
        { { .out_channels = 64, .dilation = { 5, 5 } },
          { 4, { 8, 64, 14, 14 } },
          false },                                                                        /* few of a phase */
        { { .out_channels = 512, .padding = { 1, 1 } }, { 4, { 8, 512, 4, 4 } }, false }, /* many weights */
        { { .out_channels = 64, .groups = 2 }, { 4, { 8, 64, 14, 14 } }, false },
        { { .out_channels = 64, .kernel = { 3, 5 } }, { 4, { 8, 64, 14, 14 } }, false },
        { { .out_channels = 64 }, { 4, { 8, 3, 32, 32 } }, false }, /* few channels */
        { { .out_channels = 8 }, { 4, { 8, 64, 32, 32 } }, false },
        { { .out_channels = 64 }, { 4, { 1, 64, 7, 7 } }, false }, /* few tiles */
    };
    for (int i = 1; i < ENGINES; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases && choose_engine(engines[i]); k++) {
            st_conv2d_options o = cases[k].o;
            if (!o.kernel[0]) o.kernel[0] = 3;
            auto_layer *l = st_conv2d_new(o);
            st_shape y;
            assert_int_equal(st_layer_plan(l, cases[k].x, &y), 0);
            about("%s, case %zu", kernel_of(l)->name, k);
            assert_int_equal(conv_winograd.suits(l), cases[k].takes);
        }
    use_engine(NULL);
}

/* ---- adjoint: <f(x), dy> = <x, fT(dy)> ---------------------------------------------------------- */

static double dot(st_tensor a, st_tensor b)
{
    double sum = 0;
    for (ptrdiff_t k = 0; k < st_numel(a); k++) sum += (double)*element(a, k) * (double)*element(b, k);
    return sum;
}

/* Sums of less than 1000 terms each, of numbers that are not integers: both sides are rounded. A bias, which
 * is not linear, is 0. */
static void backward_is_its_adjoint(const layer_case *c, dice *d, st_layer *l, st_shape s)
{
    view_kind kind = (view_kind)roll(d, 0, VIEWS - 1);
    about_case("adjoint", c, l, s, view_names[kind]);
    build(l, s);
    auto_tensor x = roll_kind(d, kind, s, 0, 0), y = outputs(l, s.n[0], 0), dy = st_tensor_clone(y),
                dx = full(s, NAN);
    roll_normal(d, x), roll_normal(d, dy), roll_normal(d, st_layer_parameters(l));
    for (int i = 1; i < l->params; i++) st_fill(l->param[i], 0);
    st_layer_forward(l, x, y);
    st_layer_backward(l, x, y, dy, dx);
    double product = dot(y, dy), limit = 1000 * (double)ST_REAL_EPSILON * (1 + sqrt(dot(y, y) * dot(dy, dy)));
    double other = dot(x, dx), weighed = l->params ? dot(l->param[0], l->grad[0]) : product;
    if (fabs(product - other) > limit || fabs(product - weighed) > limit)
        fail_msg("<f(x), dy> is %.17g, <x, fT(dy)> %.17g, <w, dw> %.17g", product, other, weighed);
    st_layer_free(l);
}

TEST(linear_layers_go_backward_by_their_adjoint)
{
    each_case("adjoint", LINEAR, tries(), backward_is_its_adjoint);
}

/* ---- gradient: backward against central differences ---------------------------------------------- */

static bool is_finite(st_tensor x)
{
    for (ptrdiff_t k = 0; k < st_numel(x); k++)
        if (!isfinite(*element(x, k))) return false;
    return true;
}

static int vacuous, checked;

/* Windows of nothing but padding make -inf, or zeros with gradients of zeros, which prove nothing: less than
 * half may be such. */
static void gradients_are_differences(const layer_case *c, dice *d, st_layer *l, st_shape s)
{
    view_kind kind = (view_kind)roll(d, 0, MIXED);
    s.n[0] = c->traits & WHOLE ? 4 : chance(d, 10) ? 9 : 2;
    auto_tensor x = roll_kind(d, kind, s, 0, 0);
    roll_normal(d, x);
    about_case("gradient", c, l, s, view_names[kind]);
    build(l, s);
    auto_tensor y = outputs(l, s.n[0], 0);
    st_layer_forward(l, x, y);
    checked++;
    if (is_finite(y) && st_numel(x) + st_numel(st_layer_parameters(l)) < 8000) {
        st_gradcheck_options options = {
            .most = 24, .inference = chance(d, 20), .seed = d->rolls, .kinks = 0.3
        };
        st_gradcheck_result r = st_gradcheck_layer_at(l, x, options);
        if (!r.passed && strstr(r.text, "VACUOUS")) vacuous++;
        else if (!r.passed) fail_msg("%s", r.text);
        st_error_clear();
    } else vacuous++;
    st_layer_free(l);
}

TEST(gradients_are_central_differences)
{
    if (sizeof(st_real) < sizeof(double))
        skip_because("in float a difference quotient is good to two digits");
    int threads = st_num_threads();
    st_set_num_threads(1); /* which come to the same bits, below; small layers run faster by one */
    for (const layer_case *c = layer_cases; c->name; c++) {
        vacuous = checked = 0;
        for (int i = 0; i < (c->traits & LARGE ? 0 : tries()); i++) {
            dice d = { { (uint64_t)i + 101, (uint64_t)(c - layer_cases) } };
            st_shape x;
            st_layer *l = c->roll(&d, &x);
            gradients_are_differences(c, &d, l, x);
        }
        if (checked >= 10 && 2 * vacuous > checked)
            fail_msg("%s: %d of %d prove nothing", c->name, vacuous, checked);
    }
    st_set_num_threads(threads);
}

/* ---- batches and threads: the same bits ----------------------------------------------------------- */

typedef struct results {
    st_tensor y, dx, gradients, states, inferred;
} results;

/* Two steps on the first `images` of one batch, then inference, by a layer built for `planned` images. */
static results run(st_layer *l, st_shape s, ptrdiff_t planned, ptrdiff_t images)
{
    s.n[0] = planned;
    build(l, s);
    s.n[0] = images;
    auto_tensor x = st_tensor_new(s), dy = outputs(l, images, 0);
    dice inputs = { { 5 } }, others = { { 6 } };
    roll_normal(&inputs, x), roll_normal(&others, dy);
    results r = { outputs(l, images, NAN), full(s, NAN), .inferred = outputs(l, images, NAN) };
    for (uint64_t step = 1; step <= 2; step++) {
        st_layer_mode(l, true, 3, step);
        st_layer_spoil_scratch(l);
        st_layer_forward(l, x, r.y);
        st_layer_backward(l, x, r.y, dy, r.dx);
    }
    r.gradients = st_tensor_clone(st_layer_gradients(l)), r.states = st_tensor_clone(st_layer_states(l));
    st_layer_mode(l, false, 3, 2);
    st_layer_inference_only(l, true);
    st_layer_forward(l, x, r.inferred);
    st_layer_inference_only(l, false);
    return r;
}

static void assert_same_bits(results a, results b)
{
    const st_tensor of_a[] = { a.y, a.dx, a.gradients, a.states, a.inferred },
                    of_b[] = { b.y, b.dx, b.gradients, b.states, b.inferred };
    for (int i = 0; i < 5; i++) {
        assert_int_equal(st_numel(of_a[i]), st_numel(of_b[i]));
        assert_memory_equal(st_data(of_a[i]), st_data(of_b[i]), (size_t)st_numel(of_a[i]) * sizeof(st_real));
    }
}

static void results_free(results r)
{
    st_tensor_free(r.y), st_tensor_free(r.dx), st_tensor_free(r.gradients), st_tensor_free(r.states);
    st_tensor_free(r.inferred);
}

static void threads_change_nothing_of(st_layer *l, st_shape s, ptrdiff_t planned, ptrdiff_t images,
                                      int threads)
{
    int before = st_num_threads();
    auto_layer *first = st_layer_clone(l), *other = st_layer_clone(l);
    st_set_num_threads(1);
    results one = run(first, s, planned, images);
    st_set_num_threads(threads);
    results many = run(other, s, planned, images);
    assert_same_bits(many, one);
    st_set_num_threads(before);
    results_free(one), results_free(many);
}

/* Batches of several chunks, of one, whose images threads share, and of a large and a small one; each by a
 * number of threads that is drawn. */
static void threads_change_nothing(const layer_case *c, dice *d, st_layer *l, st_shape s)
{
    const ptrdiff_t few = roll(d, 1, 8), more = roll(d, 9, 24);
    threads_change_nothing_of(l, s, 37, 37, (int)roll(d, 2, 6));
    threads_change_nothing_of(l, s, few, few, (int)roll(d, 2, 6));
    threads_change_nothing_of(l, s, 37, roll(d, 1, 8), (int)roll(d, 2, 6));
    threads_change_nothing_of(l, s, more, more, (int)roll(d, 2, 6));
    st_layer_free(l);
}

/* Rows that are large are so for algorithms, of which the reference engine has none. */
TEST(any_number_of_threads_comes_to_the_same_bits)
{
    each_case("threads", 0, 1 + tries() / 10, threads_change_nothing);
    use_engine("reference");
    for (const layer_case *c = layer_cases; c->name; c++)
        if (!(c->traits & LARGE)) each_of(c, "threads of the reference engine", 1, threads_change_nothing);
    use_engine(NULL);
}

/* Tiles overlap in dx, also where the threads' bands of an image meet, and where parts of a gradient do. */
TEST(threads_that_share_bands_of_tiles_come_to_the_same_bits)
{
    for (int size = 3; size <= 5; size += 2)
        for (int images = 1; images <= 3; images += 2) {
            auto_layer *l = st_conv2d(.out_channels = 16, .kernel = { size, size }, .padding = { 1, 2 });
            for (int threads = 2; threads <= 6; threads += threads - 1) /* 2, 3, 5 */
                threads_change_nothing_of(l, ST_SHAPE(images, 16, 65, 90), images, images, threads);
        }
}

/* Bands of one image overlap in what they read, and the last one also in what it makes, phase by phase. */
TEST(threads_that_share_bands_of_an_image_come_to_the_same_bits)
{
    for (int stride = 1; stride <= 3; stride++)
        for (int channels = 3; channels <= 30; channels *= 10) {
            auto_layer *l = st_conv2d(.out_channels = channels, .kernel = { 3, 3 },
                                      .stride = { stride, stride }, .padding = { 1, 0 });
            for (int threads = 2; threads <= 3; threads++)
                threads_change_nothing_of(l, ST_SHAPE(1, 5, 151, 150), 1, 1, threads);
        }
}

/* Each thread has as many full chunks, and those that are left are divided. */
TEST(threads_that_share_the_rest_of_a_batch_come_to_the_same_bits)
{
    auto_layer *alone = st_conv2d(.out_channels = 32, .kernel = { 3, 3 }),
               *run = st_sequence(st_conv2d(.out_channels = 32, .kernel = { 3, 3 }), st_relu());
    for (int images = 17; images <= 30; images += 13)
        for (int threads = 2; threads <= 3; threads++) {
            threads_change_nothing_of(alone, ST_SHAPE(1, 16, 12, 12), images, images, threads);
            threads_change_nothing_of(run, ST_SHAPE(1, 16, 12, 12), images, images, threads);
        }
}

/* If a layer can run in place, y overwrites x and dx overwrites dy, to the same bits. */
static void in_place_is_as_apart(const layer_case *c, dice *d, st_layer *l, st_shape s)
{
    build(l, s);
    if (traits_of(l)->in_place && st_shape_equal(l->y, s)) {
        auto_tensor x = roll_tensor(d, s, -9, 9), dy = roll_tensor(d, s, -9, 9), y = st_tensor_new(s),
                    dx = st_tensor_new(s);
        st_layer_forward(l, x, y);
        st_layer_backward(l, x, y, dy, dx);
        st_layer_forward(l, x, x);
        assert_same(x, y);
        st_layer_backward(l, x, x, dy, dy);
        assert_same(dy, dx);
    }
    st_layer_free(l);
}

TEST(a_layer_in_place_is_as_it_is_apart)
{
    each_case("in place", 0, tries(), in_place_is_as_apart);
}

/* Nothing is left of a larger batch before it. */
static void a_smaller_batch_is_its_own(const layer_case *c, dice *d, st_layer *l, st_shape s)
{
    auto_layer *large = st_layer_clone(l);
    ptrdiff_t images = roll(d, 3, 19);
    s.n[0] = 20;
    build(large, s);
    auto_tensor states = st_tensor_clone(st_layer_states(large));
    results fitting = run(l, s, images, images), before = run(large, s, 20, 20);
    st_copy(st_layer_states(large), states);
    st_fill(st_layer_gradients(large), 0);
    results smaller = run(large, s, 20, images);
    assert_same_bits(smaller, fitting);
    results_free(fitting), results_free(before), results_free(smaller);
    st_layer_free(l);
}

TEST(a_smaller_batch_is_as_if_built_for_it)
{
    each_case("batches", 0, 1 + tries() / 10, a_smaller_batch_is_its_own);
}

/* ---- refused: values out of range, by type and field ----------------------------------------------- */

static void assert_names(const char *type, const char *field)
{
    const char *text = st_error();
    if (!text || !strstr(text, type) || !strstr(text, field))
        fail_msg("the error is \"%s\", expected one that names %s and %s", text ? text : "", type, field);
    st_error_clear();
}

static size_t bytes_of(const st_field *f)
{
    return f->kind == ST_FIELD_INT    ? sizeof(int)
           : f->kind == ST_FIELD_PAIR ? 2 * sizeof(int)
           : f->kind == ST_FIELD_REAL ? sizeof(double)
           : f->kind == ST_FIELD_BOOL ? sizeof(bool)
                                      : sizeof(void *);
}

static void assert_field(const st_layer *l, const st_field *f, const void *value, size_t size, size_t at,
                         bool good)
{
    char options[256];
    assert_true(l->type->options_size <= sizeof options);
    memcpy(options, l->options, l->type->options_size);
    memcpy(options + f->offset + at, value, size);
    auto_layer *other = st_layer_new(l->type, options, 0, NULL);
    if (good && !other) fail_msg("%s: %s", f->name, st_error());
    if (!good && other) fail_msg("%s: a value out of range is taken", f->name);
    if (!good) assert_names(l->type->name, f->name);
}

static void fields_out_of_range_are_refused(const layer_case *c, dice *d, st_layer *l, st_shape s)
{
    for (const st_field *f = l->type->fields; f && f->name; f++) {
        about("%s of %s, %zu bytes", f->name, c->name, bytes_of(f));
        bool whole = f->kind == ST_FIELD_INT || f->kind == ST_FIELD_PAIR;
        for (size_t i = 0; whole && i < (f->kind == ST_FIELD_PAIR ? 2 : 1); i++) {
            const int bad[] = { INT_MIN + 1, (int)f->least - (f->least == 1 && f->fallback != 0 ? 2 : 1) };
            const int ends[] = { (int)f->least, f->below > 0 ? (int)f->below - 1 : (int)f->least };
            for (int k = 0; k < 2; k++) {
                if (!(bad[k] == 0 && f->fallback != 0) && !(bad[k] == 0 && i == 1 && f->square))
                    assert_field(l, f, &bad[k], sizeof bad[k], i * sizeof(int), false);
                assert_field(l, f, &ends[k], sizeof ends[k], i * sizeof(int), true);
            }
            const int above = (int)f->below;
            if (above > 0) assert_field(l, f, &above, sizeof above, i * sizeof(int), false);
        }
        if (f->kind == ST_FIELD_REAL) {
            const double bad[] = { NAN, INFINITY, -INFINITY, f->least - 0.5, f->below };
            for (int k = 0; k < (f->below > 0 ? 5 : 4); k++) {
                if (f->least < -1e300 && k == 3) continue; /* any number is in range */
                assert_field(l, f, &bad[k], sizeof bad[k], 0, false);
            }
        }
        if (f->kind == ST_FIELD_CHOICE) {
            int choices = 0;
            while (f->choices[choices]) choices++;
            const int bad[] = { -1, choices };
            for (int k = 0; k < 2; k++) assert_field(l, f, &bad[k], sizeof bad[k], 0, false);
        }
        if (f->kind == ST_FIELD_NAMED) {
            const void *none = NULL;
            assert_field(l, f, &none, sizeof none, 0, false);
        }
    }
    st_layer_free(l);
}

TEST(options_out_of_range_are_refused_by_type_and_field)
{
    each_case("refused", 0, 1, fields_out_of_range_are_refused);
}

/* The ranks of inputs that each type takes; an option can ask for more. */
enum { ANY = ST_MAX_RANK };

static const struct ranks {
    const char *type;
    int least, most;
} ranks[] = {
    { "conv2d", 4, 4 },
    { "conv_transpose2d", 4, 4 },
    { "pad2d", 4, 4 },
    { "upsample", 4, 4 },
    { "local_importance_pool", 4, 4 },
    { "spatial_pyramid_pool", 4, 4 },
    { "max_unpool", 4, 4 },
    { "blur_pool", 4, 4 },
    { "dense", 2, 3 },
    { "batchnorm", 2, ANY },
    { "layernorm", 2, ANY },
    { "rmsnorm", 2, ANY },
    { "groupnorm", 2, ANY },
    { "softmax", 1, ANY },
    { "log_softmax", 1, ANY },
    { "relu", 1, ANY },
    { "relu6", 1, ANY },
    { "hardtanh", 1, ANY },
    { "leaky_relu", 1, ANY },
    { "prelu", 1, ANY },
    { "elu", 1, ANY },
    { "selu", 1, ANY },
    { "gelu", 1, ANY },
    { "silu", 1, ANY },
    { "mish", 1, ANY },
    { "sigmoid", 1, ANY },
    { "tanh", 1, ANY },
    { "softplus", 1, ANY },
    { "softsign", 1, ANY },
    { "hardsigmoid", 1, ANY },
    { "hardswish", 1, ANY },
    { "dropout", 1, ANY },
    { "channel_dropout", 2, ANY },
    { "flatten", 1, ANY },
    { "unflatten", 1, ANY },
    { "identity", 1, ANY },
    { "sequence", 1, ANY },
    { "residual", 1, ANY },
    { "concat", 2, ANY },
    { "multiply", 1, ANY },
};

/* Tests if an input of that rank is expected to be planned; a sequence asks its first layer. */
static bool takes_rank(const st_layer *l, st_shape x)
{
    const char *type = l->type->name;
    size_t i = 0;
    if (l->type->pooling) return x.rank == 4;
    while (i < sizeof ranks / sizeof *ranks && strcmp(ranks[i].type, type) != 0) i++;
    if (i == sizeof ranks / sizeof *ranks) fail_msg("the ranks that %s takes are not in the table", type);
    int least = ranks[i].least;
    if (strstr(type, "softmax")) least = OPTIONS(st_softmax_options).axis + 1;
    if (strcmp(type, "prelu") == 0 && OPTIONS(st_prelu_options).num_parameters > 1) least = 2;
    const bool of_axes = strcmp(type, "layernorm") == 0 || strcmp(type, "rmsnorm") == 0;
    if (of_axes && OPTIONS(st_layernorm_options).axes >= least)
        least = OPTIONS(st_layernorm_options).axes + 1;
    bool takes = x.rank >= least && x.rank <= ranks[i].most;
    if (strcmp(type, "unflatten") == 0) { /* as many elements as its sizes have */
        const st_unflatten_options o = OPTIONS(st_unflatten_options);
        ptrdiff_t elements = 1;
        for (int axis = 1; axis < x.rank; axis++) elements *= x.n[axis];
        takes = takes && (o.size[0] ? elements == (ptrdiff_t)o.channels * o.size[0] * o.size[1]
                                    : elements % o.channels == 0);
    }
    const int asked = strcmp(type, "sequence") == 0 ? 1 : l->children;
    for (int child = 0; child < asked; child++) takes = takes && takes_rank(l->child[child], x);
    return takes;
}

/* An input is planned if its rank is the type's, or else refused by its type; a batch or an image without
 * elements always is. */
static void inputs_are_planned_or_refused(const layer_case *c, dice *d, st_layer *l, st_shape s)
{
    for (int rank = 0; rank <= ST_MAX_RANK; rank++) {
        st_shape x = { .rank = rank }, y;
        for (int i = 0; i < rank; i++) x.n[i] = i < s.rank ? s.n[i] : 1;
        about_case("inputs", c, l, x, "");
        const bool planned = st_layer_plan(l, x, &y) == 0, takes = takes_rank(l, x);
        if (planned != takes)
            fail_msg("%s: rank %d is %s, expected %s", c->name, rank, planned ? "planned" : st_error(),
                     takes ? "planned" : "refused");
        if (planned) assert_int_equal(y.n[0], x.n[0]);
        else assert_names(l->children ? "" : l->type->name, ": "); /* a container names its child */
    }
    for (int axis = 0; axis < s.rank; axis++) {
        st_shape x = s, y;
        x.n[axis] = 0;
        assert_int_equal(st_layer_plan(l, x, &y), -1);
        assert_non_null(st_error());
        st_error_clear();
    }
    st_layer_free(l);
}

TEST(inputs_of_other_ranks_are_refused)
{
    each_case("inputs", 0, 5, inputs_are_planned_or_refused);
}

/* ---- described, cloned, exported -------------------------------------------------------------------- */

static st_net *net_of(st_layer *l, st_shape s)
{
    st_net *n = st_net_new_of(st_shape_without_batch(s), 1, (st_layer *const[]){ l });
    if (!n || st_net_build(n, s.n[0], 1)) fail_msg("%s", st_error());
    dice numbers = { { 4 } };
    roll_elements(&numbers, st_net_parameters(n), -3, 3);
    roll_elements(&numbers, st_net_states(n), 1, 3);
    return n;
}

static void clone_is_described_alike(const layer_case *c, dice *d, st_layer *l, st_shape s)
{
    char text[2][512];
    auto_layer *other = st_layer_clone(l);
    assert_non_null(other);
    assert_true(st_layer_describe(l, text[0], sizeof text[0]) < sizeof text[0]);
    st_layer_describe(other, text[1], sizeof text[1]);
    assert_string_equal(text[0], text[1]);
    for (const st_field *f = l->type->fields; f && f->name; f++)
        if (f->kind == ST_FIELD_BOOL)
            assert_true(*((const bool *)l->options + f->offset) == (strstr(text[0], f->name) != NULL));
    st_layer_free(l);
}

TEST(a_clone_is_described_alike)
{
    each_case("cloned", 0, tries(), clone_is_described_alike);
}

/* The file is read elsewhere (tests/onnx, make onnx-check); what cannot be said in ONNX is refused by its
 * type. */
static void is_exported_or_refused(const layer_case *c, dice *d, st_layer *l, st_shape s)
{
    const char *path = path_of("net.onnx"), *type = l->type->name;
    auto_net *n = net_of(l, s);
    if (st_net_export_onnx(n, path)) {
        if (!strstr(st_error(), type)) fail_msg("%s: %s", c->name, st_error());
        st_error_clear();
    } else assert_int_equal(remove(path), 0);
}

TEST(every_layer_is_exported_or_refused)
{
    st_net *n = net_of(st_relu(), ST_SHAPE(1, 1));
    bool without = st_net_export_onnx(n, path_of("net.onnx")) && strstr(st_error(), "built without ONNX");
    st_error_clear();
    st_net_free(n);
    if (without) skip_because("this library was built without ONNX (protobuf-c, onnx.proto)");
    each_case("exported", 0, 1 + tries() / 5, is_exported_or_refused);
}

static int prepare(void **state)
{
    share_all_work();
    return enter_folder(state);
}

SETUP(prepare)
