/* test_augment.c: what is drawn is what the options say, depends on nothing else, and is sampled where it
 * should. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "tests/support.h"

#include "nn/data/sets.h"
#include "nn/data/augment.h"
#include "nn/data/data_impl.h"
#include "nn/data/digits.h"
#include "nn/train.h"

#include <math.h>
#include <stdatomic.h>
#include <time.h>
#include <string.h>

/* ---- data ------------------------------------------------------------------------------------ */

static const double DEGREE = 3.14159265358979323846 / 180;

/* Images and classes, and a set of them. */
typedef struct sample_set {
    st_tensor x, y;
    st_dataset *d;
} sample_set;

static sample_set set_of(st_tensor x)
{
    ptrdiff_t n = x.shape.n[0];
    sample_set s = { x, st_tensor_new(ST_SHAPE(n)) };
    for (ptrdiff_t i = 0; i < n; i++) *st_at(s.y, ST_INDEX(i)) = (st_real)(i % 10);
    s.d = st_dataset_tensors(s.x, s.y);
    assert_non_null(s.d);
    return s;
}

static void free_set(sample_set s)
{
    st_dataset_free(s.d), st_tensor_free(s.x), st_tensor_free(s.y);
}

/* All samples of a set, in turn. */
static st_tensor all_of(const st_dataset *d)
{
    st_tensor x = st_tensor_new(st_shape_with_batch(d->x, d->count)),
              y = st_tensor_new(st_shape_with_batch(d->target, d->count));
    assert_int_equal(st_dataset_batch(d, NULL, 0, d->count, x, y), 0);
    for (ptrdiff_t i = 0; i < d->count; i++) assert_true(*st_at(y, ST_INDEX(i)) == (st_real)(i % 10));
    st_tensor_free(y);
    return x;
}

/* x as one pass augments it. */
static st_tensor augmented(st_tensor x, st_augment_options options, uint64_t pass)
{
    sample_set s = set_of(st_tensor_clone(x));
    st_dataset *d = st_dataset_augment_new(s.d, options);
    assert_non_null(d);
    st_dataset_begin_epoch(d, pass);
    st_tensor out = all_of(d);
    st_dataset_free(d), free_set(s);
    return out;
}

static bool same(st_tensor a, st_tensor b)
{
    return memcmp(st_data(a), st_data(b), (size_t)st_numel(a) * sizeof(st_real)) == 0;
}

/* ---- the map --------------------------------------------------------------------------------- */

/* The value at a place between elements, by definition: every element weighs as near as it is. */
static double naive_sample(st_tensor x, ptrdiff_t c, double row, double column)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < x.shape.n[1]; i++)
        for (ptrdiff_t j = 0; j < x.shape.n[2]; j++) {
            double a = 1 - fabs(row - (double)i), b = 1 - fabs(column - (double)j);
            if (a > 0 && b > 0) sum += a * b * (double)*st_at(x, ST_INDEX(c, i, j));
        }
    return sum;
}

static st_tensor naive_warp(st_tensor x, affine m)
{
    st_tensor y = st_tensor_new(x.shape);
    double middle = (double)(x.shape.n[1] - 1) / 2, centre = (double)(x.shape.n[2] - 1) / 2;
    for (ptrdiff_t k = 0; k < st_numel(y); k++) {
        st_shape at = index_of(y.shape, k);
        double i = (double)at.n[1] - middle, j = (double)at.n[2] - centre;
        *element(y, k) = (st_real)naive_sample(x, at.n[0], m.row[0] * i + m.row[1] * j + m.row[2] + middle,
                                               m.column[0] * i + m.column[1] * j + m.column[2] + centre);
    }
    return y;
}

/* Whole pixels, mirrors and quarter turns are exact. */
TEST(a_map_is_sampled_as_defined)
{
    dice d = { { 11 } };
    for (int k = 0; k < 400; k++) {
        about("map %d", k);
        const bool whole = k % 2;
        st_shape s = ST_SHAPE(roll(&d, 1, 3), roll(&d, 1, 9), roll(&d, 1, 9));
        if (whole) s.n[2] = s.n[1]; /* so that a turned image has whole places */
        auto_tensor from = roll_view(&d, s, NULL), to = roll_view(&d, s, NULL);
        roll_elements(&d, from, -9, 9);
        st_fill(to, (st_real)NAN);
        double m[6];
        for (int e = 0; e < 6; e++)
            m[e] = whole ? (double)roll(&d, e % 3 < 2 ? -1 : -9, e % 3 < 2 ? 1 : 9)
                         : (double)roll(&d, -200, 200) / 64;
        if (whole && roll(&d, 0, 1)) m[1] = m[3] = 0;
        else if (whole) m[0] = m[4] = 0;
        affine map = { { m[0], m[1], m[2] }, { m[3], m[4], m[5] } };
        auto_tensor framed = data_framed(s);
        st_copy(data_inside(framed), from);
        data_warp(to, framed, map);
        auto_tensor expected = naive_warp(from, map);
        assert_near(to, expected, whole ? 0 : 2e-4);
    }
}

/* ---- what is drawn --------------------------------------------------------------------------- */

TEST(without_options_nothing_changes)
{
    dice d = { { 14 } };
    auto_tensor x = roll_tensor(&d, ST_SHAPE(7, 2, 5, 4), -99, 99),
                y = augmented(x, (st_augment_options){ .seed = 5 }, 3);
    assert_same(y, x);
}

typedef struct matrix {
    double m[2][2];
} matrix;

static matrix times(matrix a, matrix b)
{
    matrix c;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) c.m[i][j] = a.m[i][0] * b.m[0][j] + a.m[i][1] * b.m[1][j];
    return c;
}

/* A pixel at p, from the centre, moves to turn lean mirror p + shift; the map goes back. The numbers have the
 * counters that augment.h names. */
static affine expected_map(const st_augment_options *o, uint64_t pass, uint64_t i)
{
    const st_random_key key = { o->seed, (UINT64_C(3) << 62) + pass };
    double u[6];
    for (uint64_t k = 0; k < 6; k++) u[k] = st_random_uniform(key, 8 * i + k);
    const double mirror = u[0] < o->flip ? -1 : 1, slant = tan(o->shear * (2 * u[1] - 1) * DEGREE),
                 angle = o->rotation * (2 * u[2] - 1) * DEGREE, z = 1 + o->scale * (2 * u[3] - 1),
                 down = o->shift * (2 * u[4] - 1), right = o->shift * (2 * u[5] - 1);
    const matrix lean = { { { 1, 0 }, { slant, 1 } } }, flip = { { { 1, 0 }, { 0, mirror } } };
    const matrix turn = { { { z * cos(angle), -z * sin(angle) }, { z * sin(angle), z * cos(angle) } } };
    const matrix w = times(turn, times(lean, flip));
    const double det = w.m[0][0] * w.m[1][1] - w.m[0][1] * w.m[1][0];
    affine back = { { w.m[1][1] / det, -w.m[0][1] / det }, { -w.m[1][0] / det, w.m[0][0] / det } };
    back.row[2] = -(back.row[0] * down + back.row[1] * right);
    back.column[2] = -(back.column[0] * down + back.column[1] * right);
    return back;
}

TEST(images_are_moved_by_the_numbers_that_are_promised)
{
    static const st_augment_options ways[] = {
        { .flip = 0.5 },   { .flip = 1 },  { .shear = 20 },          { .rotation = 30 },
        { .scale = 0.25 }, { .shift = 5 }, { 0.5, 20, 30, 0.25, 5 },
    };
    dice d = { { 15 } };
    auto_tensor x = roll_tensor(&d, ST_SHAPE(50, 2, 9, 8), -9, 9);
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
        for (uint64_t pass = 0; pass < 4; pass += 3) {
            st_augment_options o = ways[k];
            o.seed = 7;
            auto_tensor y = augmented(x, o, pass);
            for (ptrdiff_t i = 0; i < 50; i++) {
                about("way %zu, pass %d, image %td", k, (int)pass, i);
                auto_tensor expected = naive_warp(st_select(x, 0, i), expected_map(&o, pass, (uint64_t)i));
                assert_near(st_select(y, 0, i), expected, 2e-4);
            }
        }
}

TEST(noise_is_normal)
{
    enum { COUNT = 40, PIXELS = 400 };
    auto_tensor x = st_tensor_new(ST_SHAPE(COUNT, 1, 20, 20));
    st_fill(x, 3);
    auto_tensor y = augmented(x, (st_augment_options){ .noise = 0.5, .seed = 3 }, 0);
    double sum = 0, squares = 0, beyond = 0, n = COUNT * PIXELS;
    for (ptrdiff_t k = 0; k < COUNT * PIXELS; k++) {
        double u = ((double)*element(y, k) - 3) / 0.5;
        sum += u, squares += u * u, beyond += fabs(u) > 2;
    }
    assert_true(fabs(sum / n) < 4.5 / sqrt(n));
    assert_true(fabs(squares / n - 1) < 4.5 * sqrt(2 / n));
    assert_true(fabs(beyond / n - 0.0455) < 4.5 * sqrt(0.0455 / n));
    assert_false(same(st_select(y, 0, 0), st_select(y, 0, 1)));
}

TEST(a_square_is_cut_out)
{
    enum { COUNT = 500, CUT = 3, H = 5, W = 6 };
    auto_tensor x = st_tensor_new(ST_SHAPE(COUNT, 2, H, W));
    st_fill(x, 1);
    auto_tensor y = augmented(x, (st_augment_options){ .cutout = CUT, .seed = 4 }, 0);
    int seen[H - CUT + 1][W - CUT + 1] = { { 0 } };
    for (ptrdiff_t n = 0; n < COUNT; n++) {
        ptrdiff_t first = 0;
        while (*element(st_select(y, 0, n), first) != 0) first++;
        ptrdiff_t row = first / W, column = first % W;
        auto_tensor expected = st_tensor_clone(st_select(x, 0, n));
        assert_true(row <= H - CUT && column <= W - CUT);
        st_fill(st_narrow(st_narrow(expected, 1, row, CUT), 2, column, CUT), 0);
        assert_same(st_select(y, 0, n), expected);
        seen[row][column]++;
    }
    for (int i = 0; i <= H - CUT; i++)
        for (int j = 0; j <= W - CUT; j++) assert_in_range(seen[i][j], 15, 75); /* 42 expected */
}

/* ---- of what it is a function ---------------------------------------------------------------- */

static const st_augment_options everything = {
    .flip = 0.5, .shear = 10, .rotation = 20, .scale = 0.2, .shift = 3, .noise = 0.1, .cutout = 4, .seed = 9
};

TEST(seed_pass_and_number_decide)
{
    auto_dataset *digits = st_digits(64, 1), *d = st_dataset_augment_new(digits, everything),
                 *again = st_dataset_augment_new(digits, everything);
    st_augment_options other = everything;
    other.seed++;
    auto_dataset *seeded = st_dataset_augment_new(digits, other);
    auto_tensor first = st_tensor_new(ST_SHAPE(64, 1, 28, 28)), x = st_tensor_new(first.shape),
                y = st_tensor_new(ST_SHAPE(64));
    assert_int_equal(st_dataset_batch(d, NULL, 0, 64, first, y), 0);

    assert_int_equal(st_dataset_batch(again, NULL, 0, 64, x, y), 0);
    assert_true(same(x, first));
    assert_int_equal(st_dataset_batch(seeded, NULL, 0, 64, x, y), 0);
    assert_false(same(x, first));

    for (uint64_t pass = 1; pass <= UINT64_C(1) << 40; pass <<= 20) {
        about("pass %llu", (unsigned long long)pass);
        st_dataset_begin_epoch(d, pass);
        assert_int_equal(st_dataset_batch(d, NULL, 0, 64, x, y), 0);
        for (ptrdiff_t i = 0; i < 64; i++) assert_false(same(st_select(x, 0, i), st_select(first, 0, i)));
    }
    st_dataset_begin_epoch(d, 0);
    for (ptrdiff_t i = 63; i >= 0; i--) /* one at a time, from the end */
        assert_int_equal(st_dataset_batch(d, NULL, i, 1, st_narrow(x, 0, i, 1), st_narrow(y, 0, i, 1)), 0);
    assert_true(same(x, first));
}

TEST(threads_do_not_matter)
{
    auto_dataset *digits = st_digits(128, 1), *d = st_dataset_augment_new(digits, everything);
    assert_true(d->grain > 0 && d->grain <= 64); /* by several threads indeed */
    auto_tensor one = st_tensor_new(ST_SHAPE(128, 1, 28, 28)), x = st_tensor_new(one.shape),
                y = st_tensor_new(ST_SHAPE(128));
    int before = st_num_threads();
    st_set_num_threads(1);
    assert_int_equal(st_dataset_batch(d, NULL, 0, 128, one, y), 0);
    for (int threads = 2; threads <= 5; threads++) {
        st_set_num_threads(threads);
        st_fill(x, (st_real)NAN);
        assert_int_equal(st_dataset_batch(d, NULL, 0, 128, x, y), 0);
        assert_true(same(x, one));
    }
    st_set_num_threads(before);
}

static atomic_int workers; /* samples got by threads other than the first, which waits for one */
static bool awaits;

static void get_thread(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    (void)d;
    workers += in_a_worker();
    for (int k = 0; k < 1000 && awaits && workers == 0; k++)
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    st_fill(x, (st_real)in_a_worker());
    st_fill(y, (st_real)i);
}

/* By two threads only what allows it, and only where there is work enough. */
TEST(a_batch_is_fetched_by_threads)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(16)), y = st_tensor_new(ST_SHAPE(16));
    int before = st_num_threads();
    st_set_num_threads(2);
    for (ptrdiff_t grain = 0; grain <= 9; grain++) {
        about("grain %td", grain);
        auto_dataset *d = st_dataset_new((st_dataset){ .count = 16, .get = get_thread, .grain = grain });
        awaits = grain > 0 && grain <= 8;
        workers = 0;
        assert_int_equal(st_dataset_batch(d, NULL, 0, 16, x, y), 0);
        assert_true(awaits == (workers > 0));
        for (ptrdiff_t i = 0; i < 16; i++) {
            assert_true(*element(x, i) == 0 || (awaits && *element(x, i) == 1));
            assert_true(*element(y, i) == (st_real)i);
        }
    }
    st_set_num_threads(before);
}

TEST(a_part_and_a_second_layer_hear_of_the_pass)
{
    auto_dataset *digits = st_digits(20, 1), *d = st_dataset_augment_new(digits, everything),
                 *part = st_dataset_slice(d, 5, 10), *twice = st_dataset_augment(part, .shift = 1, .seed = 1);
    auto_tensor whole = st_tensor_new(ST_SHAPE(20, 1, 28, 28)), x = st_tensor_new(ST_SHAPE(10, 1, 28, 28)),
                y = st_tensor_new(ST_SHAPE(20));
    st_dataset_begin_epoch(d, 6);
    assert_int_equal(st_dataset_batch(d, NULL, 0, 20, whole, y), 0);
    st_dataset_begin_epoch(d, 0);
    st_dataset_begin_epoch(twice, 6);
    assert_int_equal(st_dataset_batch(part, NULL, 0, 10, x, st_narrow(y, 0, 0, 10)), 0);
    assert_same(x, st_narrow(whole, 0, 5, 10));
    st_dataset_begin_epoch(digits, 1); /* which has nothing to hear */
    st_dataset_begin_epoch(NULL, 1);
}

/* Two epochs in one run, and in two that follow each other, without a schedule: the same weights. And the
 * second epoch is not the first again. */
TEST(the_trainer_begins_a_pass_with_each_epoch)
{
    auto_dataset *digits = st_digits(96, 1), *d = st_dataset_augment_new(digits, everything);
    st_tensor weights[3];
    for (int k = 0; k < 3; k++) {
        auto_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_flatten(), st_dense(.out_features = 10));
        auto_optim *o = st_sgd(.lr = 0.1);
        st_train_options options = {
            .epochs = k == 0 ? 2 : 1, .batch = 32, .loss = st_cross_entropy(), .optim = o
        };
        options.keep_order = true;
        for (int run = 0; run < (k == 0 ? 1 : 2); run++) {
            if (k == 2 && run == 1) n->step = 0; /* not resumed: the first pass again */
            assert_int_equal(st_train_run(n, d, options, NULL), 0);
        }
        weights[k] = st_tensor_clone(st_net_parameters(n));
    }
    assert_true(same(weights[0], weights[1]));
    assert_false(same(weights[0], weights[2]));
    for (int k = 0; k < 3; k++) st_tensor_free(weights[k]);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void get_or_refuse(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    st_fill(x, 0);
    st_fill(y, 0);
    if (i % 7 == 6) st_error_set("number %td is missing", i);
}

/* The caller gets the first error, whichever thread it occurs in, and no thread keeps one. */
TEST(the_first_sample_that_fails_is_named)
{
    st_dataset *bad =
        st_dataset_new((st_dataset){ .count = 64, .x = ST_SHAPE(1, 4, 4), .get = get_or_refuse, .grain = 1 });
    st_dataset *d = st_dataset_augment(bad, .shift = 1);
    st_tensor x = st_tensor_new(ST_SHAPE(64, 1, 4, 4)), y = st_tensor_new(ST_SHAPE(64));
    for (int k = 0; k < 20; k++) {
        expect_failure(st_dataset_batch(d, NULL, 0, 64, x, y), "sample 6: number 6 is missing");
        ptrdiff_t order[] = { 0, 1, 2, 3, 4, 41, 7, 13 };
        expect_failure(st_dataset_batch(d, order, 0, 8, st_narrow(x, 0, 0, 8), st_narrow(y, 0, 0, 8)),
                       "sample 41: number 41 is missing");
        assert_int_equal(st_dataset_batch(d, NULL, 0, 6, st_narrow(x, 0, 0, 6), st_narrow(y, 0, 0, 6)), 0);
    }
    st_tensor_free(x), st_tensor_free(y), st_dataset_free(d), st_dataset_free(bad);
    expect_failure(
        st_dataset_new((st_dataset){ .count = 1, .x = ST_SHAPE(1), .get = get_or_refuse, .grain = -1 }),
        "st_dataset_new: grain is -1");
}

typedef struct refusal {
    st_augment_options options;
    const char *text;
} refusal;

TEST(options_are_refused)
{
    const refusal refusals[] = {
        { { .flip = 1.5 },
          "st_dataset_augment: flip is 1.5, expected at least 0 and at most 1, of samples [1, 3, 4]" },
        { { .flip = -0.5 }, "flip is -0.5" },
        { { .shear = 90 }, "shear is 90, expected at least 0 and below 90" },
        { { .rotation = 181 }, "rotation is 181, expected at least 0 and at most 180" },
        { { .rotation = -NAN }, "rotation is nan" },
        { { .rotation = -1 }, "rotation is -1" },
        { { .scale = 1 }, "scale is 1, expected at least 0 and below 1" },
        { { .scale = -NAN }, "scale is nan" },
        { { .shift = 3.5 }, "shift is 3.5, expected at least 0 and at most 3" },
        { { .shift = INFINITY }, "shift is inf" },
        { { .noise = INFINITY }, "noise is inf" },
        { { .noise = -1 }, "noise is -1" },
        { { .cutout = 4 }, "cutout is 4, expected at least 0 and at most 3" },
        { { .cutout = -1 }, "cutout is -1" },
    };
    st_tensor x = st_tensor_new(ST_SHAPE(2, 1, 3, 4)), flat = st_tensor_new(ST_SHAPE(2, 12));
    sample_set s = set_of(x), of_rank_1 = set_of(flat);
    for (size_t k = 0; k < sizeof refusals / sizeof *refusals; k++) {
        about("%s", refusals[k].text);
        expect_failure(st_dataset_augment_new(s.d, refusals[k].options), "%s", refusals[k].text);
    }
    st_dataset *most = st_dataset_augment(s.d, .flip = 1, .rotation = 180, .shift = 3, .cutout = 3);
    assert_non_null(most);
    st_dataset_free(most);
    expect_failure(st_dataset_augment_new(of_rank_1.d, (st_augment_options){ 0 }),
                   "st_dataset_augment: samples [12]");
    free_set(s), free_set(of_rank_1);
}
