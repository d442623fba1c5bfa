/* test_normalize.c: what is measured is the mean and the deviation, what is normalised has 0 and 1, and both
 * travel with the net, as the names of its classes do. */
#define _POSIX_C_SOURCE 200809L
#include "tests/files.h"
#include "tests/support.h"

#include "nn/data/augment.h"
#include "nn/data/classes.h"
#include "nn/data/normalize.h"
#include "nn/files/metadata.h"
#include "nn/files/save.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- measuring ------------------------------------------------------------------------------- */

static st_dataset *set_of(st_tensor x)
{
    static st_tensor y; /* as many zeros */
    st_tensor_free(y);
    y = st_tensor_new(ST_SHAPE(x.shape.n[0]));
    st_dataset *d = st_dataset_tensors(x, y);
    assert_non_null(d);
    return d;
}

static st_normalization *measure(st_tensor x)
{
    st_dataset *d = set_of(x);
    st_normalization *n = st_normalization_measure(d);
    st_dataset_free(d);
    return n;
}

static void assert_about(double value, double expected, double relative)
{
    if (!(fabs(value - expected) <= relative * fabs(expected)))
        fail_msg("%.17g, expected %.17g", value, expected);
}

SETUP(enter_folder)

TEST(small_numbers_give_the_mean_and_the_deviation)
{
    /* Channel 0: 1 2 3 4, 5 6 7 8; channel 1: -1 -1 -1 -1, 3 3 3 3. */
    auto_tensor x = tensor_of(ST_SHAPE(2, 2, 2, 2), 1, 2, 3, 4, -1, -1, -1, -1, 5, 6, 7, 8, 3, 3, 3, 3);
    st_normalization *n = measure(x);
    assert_int_equal(n->channels, 2);
    assert_about(n->mean[0], 4.5, 1e-15);
    assert_about(n->deviation[0], sqrt(5.25), 1e-15);
    assert_about(n->mean[1], 1, 1e-15);
    assert_about(n->deviation[1], 2, 1e-15);
    st_normalization_free(n);
}

/* Oracle: two passes in long double. Far from 0, so that the difference of large squares would show. */
TEST(the_numbers_are_good_to_the_last_digits)
{
    enum { N = 777, C = 3, AREA = 35 };
    static const double offset[] = { 0, 1e4, -1e6 };
    auto_tensor x = st_tensor_new(ST_SHAPE(N, C, 5, 7));
    st_normal(x, (st_random_key){ 4 }, 0, 1);
    st_fill(st_select(x, 0, 0), 1000); /* the first are far from the rest */
    for (int c = 0; c < C; c++) {
        st_tensor channel = st_select(x, 1, c);
        for (ptrdiff_t k = 0; k < N * AREA; k++) *element(channel, k) += (st_real)offset[c];
    }
    st_normalization *n = measure(x);
    for (int c = 0; c < C; c++) {
        st_tensor channel = st_select(x, 1, c);
        long double mean = 0, squares = 0;
        for (ptrdiff_t k = 0; k < N * AREA; k++) mean += *element(channel, k);
        mean /= N * AREA;
        for (ptrdiff_t k = 0; k < N * AREA; k++)
            squares += (*element(channel, k) - mean) * (*element(channel, k) - mean);
        about("channel %d", c);
        assert_about(n->mean[c], (double)mean, 1e-13);
        assert_about(n->deviation[c], (double)sqrtl(squares / (N * AREA)), 1e-12);
    }
    st_normalization_free(n);
}

/* 0.1 is no float: a sum of many, divided by how many, is another number. */
TEST(a_constant_channel_has_deviation_0_exactly)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(1001, 2, 3, 3));
    st_fill(x, (st_real)0.1);
    *st_at(x, ST_INDEX(1000, 1, 2, 2)) = (st_real)0.2;
    st_normalization *n = measure(x);
    assert_true(n->deviation[0] == 0 && n->mean[0] == (double)(st_real)0.1);
    assert_true(n->deviation[1] > 0);
    assert_int_equal(st_normalization_apply(n, x), 0);
    st_tensor constant = st_select(x, 1, 0);
    for (ptrdiff_t k = 0; k < st_numel(constant); k++) assert_true(*element(constant, k) == 0);
    st_fill(constant, (st_real)0.1 + 3);
    assert_int_equal(st_normalization_apply(n, x), 0); /* not divided */
    assert_true(fabs((double)*element(constant, 5) - 3) < 1e-6);
    st_normalization_free(n);
}

/* Its mean may come from a file of doubles, and the elements are that number, rounded. */
TEST(a_constant_that_is_rounded_is_0)
{
    st_normalization *n = st_normalization_new(1, (double[]){ 0.1 }, (double[]){ 0 });
    auto_tensor x = st_tensor_new(ST_SHAPE(1, 1));
    st_fill(x, (st_real)0.1);
    assert_int_equal(st_normalization_apply(n, x), 0);
    assert_true(st_item(x) == 0);
    st_normalization_free(n);
}

TEST(features_are_channels_and_so_is_a_number)
{
    st_tensor x = tensor_of(ST_SHAPE(3, 2), 1, 10, 2, 10, 3, 40);
    st_normalization *n = measure(x);
    assert_int_equal(n->channels, 2);
    assert_about(n->mean[0], 2, 1e-15);
    assert_about(n->mean[1], 20, 1e-15);
    assert_int_equal(st_normalization_apply(n, x), 0);
    st_tensor expected = tensor_of(ST_SHAPE(3, 2), -sqrt(1.5), -sqrt(0.5), 0, -sqrt(0.5), sqrt(1.5), sqrt(2));
    assert_near(x, expected, 4 * ST_REAL_EPSILON);
    st_tensor_free(expected), st_normalization_free(n), st_tensor_free(x);

    x = tensor_of(ST_SHAPE(4), 1, 1, 3, 3);
    n = measure(x);
    assert_int_equal(n->channels, 1);
    assert_int_equal(st_normalization_apply(n, x), 0);
    assert_elements(x, -1, -1, 1, 1);
    st_normalization_free(n), st_tensor_free(x);
}

static void get_hashed(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    st_normal(x, (st_random_key){ 9, (uint64_t)i }, 3, 2);
    st_fill(y, 0);
}

TEST(threads_do_not_matter)
{
    auto_dataset *d = st_dataset_new(
        (st_dataset){ .count = 3001, .x = ST_SHAPE(3, 16, 15), .get = get_hashed, .grain = 1 });
    st_normalization *first = NULL;
    for (int threads = 1; threads <= 5; threads += 2) {
        st_set_num_threads(threads);
        st_normalization *n = st_normalization_measure(d);
        assert_non_null(n);
        if (!first) first = n;
        assert_memory_equal(n->mean, first->mean, 3 * sizeof(double));
        assert_memory_equal(n->deviation, first->deviation, 3 * sizeof(double));
        if (n != first) st_normalization_free(n);
    }
    st_set_num_threads(0);
    st_normalization_free(first);
}

TEST(what_is_not_finite_is_refused)
{
    static const double strange[] = { NAN, INFINITY, -INFINITY };
    for (int i = 0; i < 3; i++) {
        auto_tensor x = st_tensor_new(ST_SHAPE(40, 3, 2, 2));
        *st_at(x, ST_INDEX(20 + i, 1, 1, 0)) = (st_real)strange[i];
        char expected[80];
        snprintf(expected, sizeof expected, "st_normalization_measure: sample %d has elements in channel 1",
                 20 + i);
        expect_failure(measure(x), "%s", expected);
    }
    auto_tensor x = st_tensor_new(ST_SHAPE(4, 3, 0));
    expect_failure(measure(x), "st_normalization_measure: samples [3, 0] ");
}

/* ---- applying -------------------------------------------------------------------------------- */

TEST(what_is_normalised_has_mean_0_and_deviation_1)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(500, 3, 4, 4));
    st_normal(x, (st_random_key){ 6 }, 7, 3);
    st_normalization *n = measure(x);
    auto_dataset *raw = set_of(x), *normal = st_dataset_normalize(raw, n);
    assert_non_null(normal);
    assert_int_equal(normal->count, 500);
    st_normalization *after = st_normalization_measure(normal);
    for (int c = 0; c < 3; c++) {
        assert_true(fabs(after->mean[c]) < 10 * (double)ST_REAL_EPSILON);
        assert_true(fabs(after->deviation[c] - 1) < 10 * (double)ST_REAL_EPSILON);
    }
    st_normalization_free(after);
    st_normalization_free(n); /* the set has a copy */
    auto_tensor batch = st_tensor_new(ST_SHAPE(500, 3, 4, 4)), y = st_tensor_new(ST_SHAPE(500));
    assert_int_equal(st_dataset_batch(normal, NULL, 0, 500, batch, y), 0);
    n = measure(x);
    assert_int_equal(st_normalization_apply(n, x), 0);
    assert_same(batch, x);
    st_normalization_free(n);
}

TEST(any_view_is_normalised_and_nothing_else)
{
    dice d = { { 13 } };
    const double mean[] = { 1, -2, 3 }, deviation[] = { 2, 0.5, 0 };
    st_normalization *n = st_normalization_new(3, mean, deviation);
    assert_non_null(n);
    for (int i = 0; i < 100; i++) {
        about("view %d", i);
        int rank = (int)roll(&d, 2, 5);
        st_shape s = roll_shape(&d, rank, rank, 1, 4);
        s.n[1] = 3;
        st_tensor whole, x = roll_view(&d, s, &whole), expected;
        roll_elements(&d, whole, -9, 9);
        auto_tensor before = st_tensor_clone(whole);
        expected = st_tensor_clone(x);
        for (ptrdiff_t k = 0; k < st_numel(x); k++) {
            ptrdiff_t c = index_of(s, k).n[1];
            *element(expected, k) = (st_real)((*element(x, k) - mean[c]) / (c == 2 ? 1 : deviation[c]));
        }
        assert_int_equal(st_normalization_apply(n, x), 0);
        assert_same(x, expected);
        st_fill(x, 0); /* what is outside the view is as it was */
        st_tensor inside = x;
        inside.storage = before.storage;
        st_fill(inside, 0);
        assert_same(whole, before);
        st_tensor_free(whole), st_tensor_free(expected);
    }
    st_normalization_free(n);
}

/* Each pass still draws other numbers, and pixels from outside the image are black. */
TEST(an_augmented_set_is_normalised)
{
    auto_tensor x = full(ST_SHAPE(20, 1, 6, 6), 3);
    auto_dataset *raw = set_of(x), *moved = st_dataset_augment(raw, .shift = 3, .seed = 2);
    st_normalization *n = st_normalization_new(1, (const double[]){ 1 }, (const double[]){ 2 });
    auto_dataset *normal = st_dataset_normalize(moved, n);
    auto_tensor a = st_tensor_new(x.shape), b = st_tensor_clone(a), before = st_tensor_clone(a),
                y = st_tensor_new(ST_SHAPE(20));
    for (uint64_t pass = 0; pass < 3; pass++) {
        st_dataset_begin_epoch(normal, pass);
        assert_int_equal(st_dataset_batch(normal, NULL, 0, 20, a, y), 0);
        assert_int_equal(st_dataset_batch(moved, NULL, 0, 20, b, y), 0);
        double least = 3;
        for (ptrdiff_t k = 0; k < st_numel(b); k++) least = fmin(least, (double)*element(b, k));
        assert_true(least == 0);
        assert_int_equal(st_normalization_apply(n, b), 0);
        assert_same(a, b);
        assert_int_not_equal(memcmp(st_data(a), st_data(before), (size_t)st_numel(a) * sizeof(st_real)), 0);
        st_copy(before, a);
    }
    st_normalization_free(n);
}

TEST(what_does_not_fit_is_refused)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(4, 2, 3));
    auto_dataset *d = set_of(x);
    const double good[] = { 1, 1, 1 }, negative[] = { 1, -1, 1 }, strange[] = { 1, -NAN, 1 };
    st_normalization *n = st_normalization_new(3, good, good);
    expect_failure(st_dataset_normalize(d, n), "st_dataset_normalize: samples [2, 3]");
    expect_failure(st_normalization_apply(n, x), "st_normalization_apply: samples [2, 3]");
    expect_failure(st_normalization_apply(n, st_select(st_select(st_select(x, 0, 0), 0, 0), 0, 0)),
                   "st_normalization_apply: a single number");
    expect_failure(st_normalization_new(0, good, good), "st_normalization_new: 0 channels");
    expect_failure(st_normalization_new(3, good, negative),
                   "st_normalization_new: the deviation of channel 1 is -1");
    expect_failure(st_normalization_new(3, good, strange),
                   "st_normalization_new: the deviation of channel 1 is nan");
    expect_failure(st_normalization_new(3, strange, good),
                   "st_normalization_new: the mean of channel 1 is nan");
    st_normalization_free(n), st_normalization_free(NULL);
}

/* ---- notes ----------------------------------------------------------------------------------- */

static st_net *small_net(void)
{
    st_net *n = st_net_new(ST_SHAPE(2, 3, 3), st_flatten(), st_dense(.out_features = 3));
    assert_int_equal(st_net_build(n, 1, 0), 0);
    return n;
}

/* Bit for bit, through a file. */
TEST(numbers_and_names_travel_with_the_net)
{
    static const char *const names[] = { "cat", "\"dog\", black", "größer ≥ 0\n" };
    const double mean[] = { 0.1, -1e-310 }, deviation[] = { 0x1.fffffffffffffp-3, 0 };
    st_normalization *n = st_normalization_new(2, mean, deviation);
    auto_net *saved = small_net();
    assert_null(st_net_normalization(saved));
    assert_null(st_net_classes(saved));
    assert_int_equal(st_net_set_normalization(saved, n) | st_net_set_classes(saved, 3, names), 0);
    assert_int_equal(st_net_save(saved, path_of("net")), 0);
    auto_net *loaded = st_net_load(path_of("net"), .batch = 1);
    assert_non_null(loaded);
    st_normalization *found = st_net_normalization(loaded);
    st_class_names *classes = st_net_classes(loaded);
    assert_true(found && classes && found->channels == 2 && classes->count == 3);
    assert_memory_equal(found->mean, mean, sizeof mean);
    assert_memory_equal(found->deviation, deviation, sizeof deviation);
    for (int i = 0; i < 3; i++) assert_string_equal(classes->name[i], names[i]);
    st_normalization_free(found), st_normalization_free(n), st_class_names_free(classes);
}

TEST(the_note_is_json)
{
    auto_net *n = small_net();
    st_normalization *given = st_normalization_new(2, (const double[]){ 0.5, -1 }, (const double[]){ 2, 0 });
    assert_int_equal(st_net_set_normalization(n, given), 0);
    assert_string_equal(st_net_metadata(n, "normalization"), "{\"mean\":[0.5,-1.0],\"deviation\":[2.0,0.0]}");
    assert_int_equal(st_net_set_metadata(n, "normalization", "{ \"deviation\": [1, 2], \"mean\": [3, 4e1] }"),
                     0);
    st_normalization *found = st_net_normalization(n);
    assert_non_null(found);
    assert_true(found->mean[1] == 40 && found->deviation[1] == 2);
    st_normalization_free(found), st_normalization_free(given);
}

typedef struct bad_note {
    const char *text, *expected;
} bad_note;

#define NO_LISTS "metadata normalization: "
static const bad_note bad_notes[] = {
    { "", NO_LISTS },
    { "[]", NO_LISTS },
    { "{}", NO_LISTS },
    { "0.5 0.25", NO_LISTS },
    { "{\"mean\": [1, 2]}", NO_LISTS },
    { "{\"mean\": [1, 2], \"deviation\": [1]}", NO_LISTS },
    { "{\"mean\": [], \"deviation\": []}", NO_LISTS },
    { "{\"mean\": 1, \"deviation\": 2}", NO_LISTS },
    { "{\"mean\": [1, \"2\"], \"deviation\": [1, 2]}", NO_LISTS },
    { "{\"mean\": [1, 2], \"deviation\": [1, null]}", NO_LISTS },
    { "{\"mean\": [1, 2], \"deviation\": [1, 2], \"mean\": [1, 2]}", NO_LISTS },
    { "{\"mean\": [1, 2], \"deviation\": [1, 2], \"scale\": 3}", NO_LISTS },
    { "{\"mean\": [1, 2], \"deviation\": [1, 1e999]}",
      "metadata normalization: real number overflow near '1e999'" },
    { "{\"mean\": [1, 2], \"deviation\": [1, -2]}",
      "metadata normalization: the deviation of channel 1 is -2, expected at least 0" },
    { "{\"mean\": [1, 2, 3], \"deviation\": [1, 2, 3]}",
      "metadata normalization: samples [2, 3, 3], expected 3 channels" },
};

TEST(other_notes_are_refused)
{
    auto_net *n = small_net();
    for (size_t i = 0; i < sizeof bad_notes / sizeof *bad_notes; i++) {
        about("%s", bad_notes[i].text);
        assert_int_equal(st_net_set_metadata(n, "normalization", bad_notes[i].text), 0);
        expect_failure(st_net_normalization(n), "%s", bad_notes[i].expected);
    }
    st_normalization *three =
        st_normalization_new(3, (const double[]){ 1, 1, 1 }, (const double[]){ 1, 1, 1 });
    expect_failure(st_net_set_normalization(n, three), "st_net_set_normalization: samples [2, 3, 3]");
    st_normalization_free(three);
}

/* ---- class names ----------------------------------------------------------------------------- */

TEST(other_names_are_refused)
{
    auto_net *n = small_net();
    const char *names[] = { "a", "b", "c", "d" };
    expect_failure(st_net_set_classes(n, 3, NULL), "st_net_set_classes: the list of names is NULL");
    expect_failure(st_net_set_classes(n, 4, names), "st_net_set_classes: 4 names, the net's output is [3]");
    names[1] = "caf\xe9"; /* in Latin-1 */
    expect_failure(st_net_set_classes(n, 3, names), "st_net_set_classes: name 1, \"caf?\", is not UTF-8");
    names[1] = NULL;
    expect_failure(st_net_set_classes(n, 3, names), "name 1 is NULL");
    names[1] = "b", names[2] = "a";
    expect_failure(st_net_set_classes(n, 3, names), "st_net_set_classes: names 0 and 2 are both \"a\"");
    assert_null(st_net_metadata(n, "classes"));
    static const char *const texts[] = { "", "{}", "[]", "cat", "[\"a\", \"b\", 3]", "\"abc\"", "[\"a\"" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        about("%s", texts[i]);
        assert_int_equal(st_net_set_metadata(n, "classes", texts[i]), 0);
        expect_failure(st_net_classes(n), "metadata classes: ");
    }
    assert_int_equal(st_net_set_metadata(n, "classes", "[\"a\", \"b\"]"), 0);
    expect_failure(st_net_classes(n), "metadata classes: 2 names, the net's output is [3]");
    st_class_names_free(NULL);
}
