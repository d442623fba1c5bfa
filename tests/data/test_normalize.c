/* test_normalize.c: what is measured is the mean and the deviation, what is normalised has 0 and 1, and both travel with
 * the net, as the names of its classes do. */
#define _POSIX_C_SOURCE 200809L
#include "tests/files.h"
#include "tests/support.h"

#include "nn/data/augment.h"
#include "nn/data/classes.h"
#include "nn/data/normalize.h"
#include "nn/files/save.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- measuring ------------------------------------------------------------------------------- */

static data *set_of(tensor x)
{
    static tensor y; /* as many zeros */
    tensor_free(y);
    y = tensor_new(SHAPE(x.shape.n[0]));
    data *d = data_tensors(x, y);
    assert_non_null(d);
    return d;
}

static normalization *measure(tensor x)
{
    data *d = set_of(x);
    normalization *n = normalize_measure(d);
    data_free(d);
    return n;
}

static void assert_about(double value, double expected, double relative)
{
    if (!(fabs(value - expected) <= relative * fabs(expected)))
        fail_msg("%.17g, expected %.17g", value, expected);
}

static void small_numbers_give_the_mean_and_the_deviation(void **state)
{
    /* Channel 0: 1 2 3 4, 5 6 7 8; channel 1: -1 -1 -1 -1, 3 3 3 3. */
    tensor x = tensor_of(SHAPE(2, 2, 2, 2), 1, 2, 3, 4, -1, -1, -1, -1, 5, 6, 7, 8, 3, 3, 3, 3);
    normalization *n = measure(x);
    assert_int_equal(n->channels, 2);
    assert_about(n->mean[0], 4.5, 1e-15);
    assert_about(n->deviation[0], sqrt(5.25), 1e-15);
    assert_about(n->mean[1], 1, 1e-15);
    assert_about(n->deviation[1], 2, 1e-15);
    normalize_free(n);
    tensor_free(x);
}

/* Oracle: two passes in long double. Far from 0, so that the difference of large squares would show. */
static void the_numbers_are_good_to_the_last_digits(void **state)
{
    enum { N = 777, C = 3, AREA = 35 };
    static const double offset[] = { 0, 1e4, -1e6 };
    tensor x = tensor_new(SHAPE(N, C, 5, 7));
    tensor_normal(x, (random_key){ 4 }, 0, 1);
    tensor_fill(tensor_select(x, 0, 0), 1000); /* the first are far from the rest */
    for (int c = 0; c < C; c++) {
        tensor channel = tensor_select(x, 1, c);
        for (ptrdiff_t k = 0; k < N * AREA; k++) *element(channel, k) += (real)offset[c];
    }
    normalization *n = measure(x);
    for (int c = 0; c < C; c++) {
        tensor channel = tensor_select(x, 1, c);
        long double mean = 0, squares = 0;
        for (ptrdiff_t k = 0; k < N * AREA; k++) mean += *element(channel, k);
        mean /= N * AREA;
        for (ptrdiff_t k = 0; k < N * AREA; k++)
            squares += (*element(channel, k) - mean) * (*element(channel, k) - mean);
        about("channel %d", c);
        assert_about(n->mean[c], (double)mean, 1e-13);
        assert_about(n->deviation[c], (double)sqrtl(squares / (N * AREA)), 1e-12);
    }
    normalize_free(n);
    tensor_free(x);
}

/* 0.1 is no float: a sum of many, divided by how many, is another number. */
static void a_constant_channel_has_deviation_0_exactly(void **state)
{
    tensor x = tensor_new(SHAPE(1001, 2, 3, 3));
    tensor_fill(x, (real)0.1);
    *tensor_at(x, INDEX(1000, 1, 2, 2)) = (real)0.2;
    normalization *n = measure(x);
    assert_true(n->deviation[0] == 0 && n->mean[0] == (double)(real)0.1);
    assert_true(n->deviation[1] > 0);
    assert_int_equal(normalize_apply(n, x), 0);
    tensor constant = tensor_select(x, 1, 0);
    for (ptrdiff_t k = 0; k < tensor_count(constant); k++) assert_true(*element(constant, k) == 0);
    tensor_fill(constant, (real)0.1 + 3);
    assert_int_equal(normalize_apply(n, x), 0); /* not divided */
    assert_true(fabs((double)*element(constant, 5) - 3) < 1e-6);
    normalize_free(n);
    tensor_free(x);
}

static void features_are_channels_and_so_is_a_number(void **state)
{
    tensor x = tensor_of(SHAPE(3, 2), 1, 10, 2, 10, 3, 40);
    normalization *n = measure(x);
    assert_int_equal(n->channels, 2);
    assert_about(n->mean[0], 2, 1e-15);
    assert_about(n->mean[1], 20, 1e-15);
    assert_int_equal(normalize_apply(n, x), 0);
    tensor expected = tensor_of(SHAPE(3, 2), -sqrt(1.5), -sqrt(0.5), 0, -sqrt(0.5), sqrt(1.5), sqrt(2));
    assert_near(x, expected, 4 * REAL_EPSILON);
    tensor_free(expected);
    normalize_free(n);
    tensor_free(x);

    x = tensor_of(SHAPE(4), 1, 1, 3, 3);
    n = measure(x);
    assert_int_equal(n->channels, 1);
    assert_int_equal(normalize_apply(n, x), 0);
    assert_elements(x, -1, -1, 1, 1);
    normalize_free(n);
    tensor_free(x);
}

static void get_hashed(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    tensor_normal(x, (random_key){ 9, (uint64_t)i }, 3, 2);
    tensor_fill(y, 0);
}

static void threads_do_not_matter(void **state)
{
    data *d = data_new((data){ .count = 3001, .x = SHAPE(3, 16, 15), .get = get_hashed, .grain = 1 });
    normalization *first = NULL;
    for (int threads = 1; threads <= 5; threads += 2) {
        parallel_set_threads(threads);
        normalization *n = normalize_measure(d);
        assert_non_null(n);
        if (!first) first = n;
        assert_memory_equal(n->mean, first->mean, 3 * sizeof(double));
        assert_memory_equal(n->deviation, first->deviation, 3 * sizeof(double));
        if (n != first) normalize_free(n);
    }
    parallel_set_threads(0);
    normalize_free(first);
    data_free(d);
}

static void what_is_not_finite_is_refused(void **state)
{
    static const double strange[] = { NAN, INFINITY, -INFINITY };
    for (int i = 0; i < 3; i++) {
        tensor x = tensor_new(SHAPE(40, 3, 2, 2));
        *tensor_at(x, INDEX(20 + i, 1, 1, 0)) = (real)strange[i];
        assert_null(measure(x));
        expect_error("normalize_measure: channel 1 has elements that are not finite, or too large");
        tensor_free(x);
    }
    assert_null(normalize_measure(NULL));
    expect_error("normalize_measure: the data set is NULL");
    tensor x = tensor_new(SHAPE(4, 3, 0));
    assert_null(measure(x));
    expect_error("normalize_measure: samples [3, 0] have no elements");
    tensor_free(x);
}

static void get_broken(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    if (i == 3) error_set("no such picture");
}

static void a_sample_that_fails_is_named(void **state)
{
    data *d = data_new((data){ .count = 5, .x = SHAPE(2), .get = get_broken });
    assert_null(normalize_measure(d));
    expect_error("sample 3: no such picture");
    data_free(d);
}

/* ---- applying -------------------------------------------------------------------------------- */

static void what_is_normalised_has_mean_0_and_deviation_1(void **state)
{
    tensor x = tensor_new(SHAPE(500, 3, 4, 4));
    tensor_normal(x, (random_key){ 6 }, 7, 3);
    normalization *n = measure(x);
    data *raw = set_of(x), *normal = data_normalize(raw, n);
    assert_non_null(normal);
    assert_int_equal(normal->count, 500);
    normalization *after = normalize_measure(normal);
    for (int c = 0; c < 3; c++) {
        assert_true(fabs(after->mean[c]) < 10 * (double)REAL_EPSILON);
        assert_true(fabs(after->deviation[c] - 1) < 10 * (double)REAL_EPSILON);
    }
    normalize_free(after);
    normalize_free(n); /* the set has a copy */
    tensor batch = tensor_new(SHAPE(500, 3, 4, 4)), y = tensor_new(SHAPE(500));
    assert_int_equal(data_batch(normal, NULL, 0, 500, batch, y), 0);
    n = measure(x);
    assert_int_equal(normalize_apply(n, x), 0);
    assert_same(batch, x);
    data_free(normal);
    data_free(raw);
    normalize_free(n);
    tensor_free(batch);
    tensor_free(y);
    tensor_free(x);
}

static void any_view_is_normalised_and_nothing_else(void **state)
{
    dice d = { { 13 } };
    const double mean[] = { 1, -2, 3 }, deviation[] = { 2, 0.5, 0 };
    normalization *n = normalize_new(3, mean, deviation);
    assert_non_null(n);
    for (int i = 0; i < 100; i++) {
        about("view %d", i);
        int rank = (int)roll(&d, 2, 5);
        shape s = roll_shape(&d, rank, rank, 1, 4);
        s.n[1] = 3;
        tensor whole, x = roll_view(&d, s, &whole), expected;
        roll_elements(&d, whole, -9, 9);
        tensor before = tensor_clone(whole);
        expected = tensor_clone(x);
        for (ptrdiff_t k = 0; k < tensor_count(x); k++) {
            ptrdiff_t c = index_of(s, k).n[1];
            *element(expected, k) = (real)((*element(x, k) - mean[c]) / (c == 2 ? 1 : deviation[c]));
        }
        assert_int_equal(normalize_apply(n, x), 0);
        assert_same(x, expected);
        tensor_fill(x, 0); /* what is outside the view is as it was */
        tensor inside = x;
        inside.storage = before.storage;
        tensor_fill(inside, 0);
        assert_same(whole, before);
        tensor_free(whole);
        tensor_free(before);
        tensor_free(expected);
    }
    normalize_free(n);
}

/* What is made up otherwise in another pass still is, and what came in from outside the image is black. */
static void an_augmented_set_is_normalised(void **state)
{
    tensor x = tensor_new(SHAPE(20, 1, 6, 6));
    tensor_fill(x, 3);
    data *raw = set_of(x), *moved = data_augment(raw, (augment){ .shift = 3, .seed = 2 });
    normalization *n = normalize_new(1, (const double[]){ 1 }, (const double[]){ 2 });
    data *normal = data_normalize(moved, n);
    tensor a = tensor_new(SHAPE(20, 1, 6, 6)), b = tensor_clone(a), y = tensor_new(SHAPE(20));
    for (uint64_t pass = 0; pass < 3; pass++) {
        data_begin(normal, pass);
        assert_int_equal(data_batch(normal, NULL, 0, 20, a, y), 0);
        assert_int_equal(data_batch(moved, NULL, 0, 20, b, y), 0);
        assert_int_equal(normalize_apply(n, b), 0);
        assert_same(a, b);
        real least[1];
        tensor least_of = tensor_wrap(least, (shape){ 0 });
        tensor_scale(b, -1);
        tensor_max(least_of, b, (axes){ 0 });
        assert_true(least[0] == (real)0.5); /* (0 - 1) / 2 */
        tensor_free(least_of);
    }
    data_begin(normal, 1);
    assert_int_equal(data_batch(normal, NULL, 0, 20, a, y), 0);
    data_begin(normal, 2);
    assert_int_equal(data_batch(normal, NULL, 0, 20, b, y), 0);
    tensor_add(a, -1, b);
    tensor_multiply(a, a);
    tensor difference = tensor_new((shape){ 0 });
    tensor_sum(difference, a, (axes){ 0 });
    assert_true(tensor_item(difference) > 1);
    tensor_free(difference);
    tensor_free(a);
    tensor_free(b);
    tensor_free(y);
    normalize_free(n);
    data_free(normal);
    data_free(moved);
    data_free(raw);
    tensor_free(x);
}

static void what_does_not_fit_is_refused(void **state)
{
    tensor x = tensor_new(SHAPE(4, 2, 3));
    data *d = set_of(x);
    const double good[] = { 1, 1, 1 }, negative[] = { 1, -1, 1 }, strange[] = { 1, NAN, 1 };
    normalization *n = normalize_new(3, good, good);
    assert_null(data_normalize(d, n));
    expect_error("data_normalize: samples [2, 3], expected 3 channels");
    assert_int_equal(normalize_apply(n, x), -1);
    expect_error("normalize_apply: samples [2, 3], expected 3 channels");
    assert_int_equal(normalize_apply(n, (tensor){ 0 }), -1);
    expect_error("normalize_apply: the null tensor, expected a batch of samples");
    assert_int_equal(normalize_apply(n, tensor_select(tensor_select(tensor_select(x, 0, 0), 0, 0), 0, 0)),
                     -1);
    expect_error("normalize_apply: a single number, expected a batch of samples");
    assert_int_equal(normalize_apply(NULL, x), -1);
    expect_error("normalize_apply: the normalization is NULL");
    assert_null(data_normalize(NULL, n));
    expect_error("data_normalize: the data set is NULL");
    assert_null(data_normalize(d, NULL));
    expect_error("data_normalize: the normalization is NULL");
    assert_null(normalize_new(0, good, good));
    expect_error("normalize_new: 0 channels, expected at least one");
    assert_null(normalize_new(3, good, negative));
    expect_error("normalize_new: the deviation of channel 1 is -1, expected at least 0");
    assert_null(normalize_new(3, good, strange));
    expect_error("normalize_new: the deviation of channel 1 is nan, expected at least 0");
    assert_null(normalize_new(3, strange, good));
    expect_error("normalize_new: the mean of channel 1 is nan");
    normalize_free(n);
    normalize_free(NULL);
    data_free(d);
    tensor_free(x);
}

/* ---- notes ----------------------------------------------------------------------------------- */

static net *small_net(void)
{
    net *n = net_new(SHAPE(2, 3, 3), layer_flatten(), layer_dense((dense){ .out_features = 3 }));
    assert_int_equal(net_build(n, 1, 0), 0);
    return n;
}

/* Bit for bit, through a file. */
static void numbers_travel_with_the_net(void **state)
{
    const double mean[] = { 0.1, -1e-310 }, deviation[] = { 0x1.fffffffffffffp-3, 0 };
    normalization *n = normalize_new(2, mean, deviation);
    net *saved = small_net();
    assert_null(normalize_of(saved));
    assert_int_equal(normalize_note(saved, n), 0);
    assert_int_equal(net_save(saved, path_of("net")), 0);
    net *loaded = net_load(path_of("net"), 1, (net_known){ 0 });
    assert_non_null(loaded);
    normalization *found = normalize_of(loaded);
    assert_non_null(found);
    assert_int_equal(found->channels, 2);
    assert_memory_equal(found->mean, mean, sizeof mean);
    assert_memory_equal(found->deviation, deviation, sizeof deviation);
    normalize_free(found);
    normalize_free(n);
    net_free(saved);
    net_free(loaded);
}

static void the_note_is_json(void **state)
{
    net *n = small_net();
    normalization *given = normalize_new(2, (const double[]){ 0.5, -1 }, (const double[]){ 2, 0 });
    assert_int_equal(normalize_note(n, given), 0);
    assert_string_equal(net_note_text(n, "normalization"), "{\"mean\":[0.5,-1.0],\"deviation\":[2.0,0.0]}");
    assert_int_equal(net_set_note(n, "normalization", "{ \"deviation\": [1, 2], \"mean\": [3, 4e1] }"), 0);
    normalization *found = normalize_of(n);
    assert_non_null(found);
    assert_true(found->mean[1] == 40 && found->deviation[1] == 2);
    normalize_free(found);
    normalize_free(given);
    net_free(n);
}

typedef struct bad_note {
    const char *text, *expected;
} bad_note;

#define NO_LISTS "note normalization: "
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
      "note normalization: real number overflow near '1e999'" },
    { "{\"mean\": [1, 2], \"deviation\": [1, -2]}",
      "note normalization: the deviation of channel 1 is -2, expected at least 0" },
    { "{\"mean\": [1, 2, 3], \"deviation\": [1, 2, 3]}",
      "note normalization: samples [2, 3, 3], expected 3 channels" },
};

static void other_notes_are_refused(void **state)
{
    net *n = small_net();
    for (size_t i = 0; i < sizeof bad_notes / sizeof *bad_notes; i++) {
        about("%s", bad_notes[i].text);
        assert_int_equal(net_set_note(n, "normalization", bad_notes[i].text), 0);
        assert_null(normalize_of(n));
        expect_error("%s", bad_notes[i].expected);
    }
    normalization *three = normalize_new(3, (const double[]){ 1, 1, 1 }, (const double[]){ 1, 1, 1 });
    assert_int_equal(normalize_note(n, three), -1);
    expect_error("normalize_note: samples [2, 3, 3], expected 3 channels");
    assert_int_equal(normalize_note(NULL, three), -1);
    expect_error("normalize_note: the net is NULL");
    assert_int_equal(normalize_note(n, NULL), -1);
    expect_error("normalize_note: the normalization is NULL");
    normalize_free(three);
    net_free(n);
}

/* ---- class names ----------------------------------------------------------------------------- */

static void names_travel_with_the_net(void **state)
{
    static const char *const names[] = { "cat", "\"dog\", black", "größer ≥ 0\n" };
    net *saved = small_net();
    assert_null(classes_of(saved));
    assert_int_equal(classes_note(saved, 3, names), 0);
    assert_int_equal(net_save(saved, path_of("net")), 0);
    net *loaded = net_load(path_of("net"), 1, (net_known){ 0 });
    assert_non_null(loaded);
    class_names *found = classes_of(loaded);
    assert_non_null(found);
    assert_int_equal(found->count, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(found->name[i], names[i]);
    classes_free(found);
    net_free(saved);
    net_free(loaded);
}

static void other_names_are_refused(void **state)
{
    net *n = small_net();
    const char *names[] = { "a", "b", "c", "d" };
    assert_int_equal(classes_note(n, 4, names), -1);
    expect_error("classes_note: 4 names, the net's output is [3]");
    names[1] = "\xff";
    assert_int_equal(classes_note(n, 3, names), -1);
    expect_error("classes_note: name 1 is not UTF-8");
    names[1] = NULL;
    assert_int_equal(classes_note(n, 3, names), -1);
    expect_error("classes_note: name 1 is NULL");
    assert_int_equal(classes_note(NULL, 3, names), -1);
    expect_error("classes_note: the net is NULL");
    assert_null(net_note_text(n, "classes"));
    static const char *const texts[] = { "", "{}", "[]", "cat", "[\"a\", \"b\", 3]", "\"abc\"", "[\"a\"" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        about("%s", texts[i]);
        assert_int_equal(net_set_note(n, "classes", texts[i]), 0);
        assert_null(classes_of(n));
        expect_error("note classes: ");
    }
    assert_int_equal(net_set_note(n, "classes", "[\"a\", \"b\"]"), 0);
    assert_null(classes_of(n));
    expect_error("note classes: 2 names, the net's output is [3]");
    classes_free(NULL);
    net_free(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(small_numbers_give_the_mean_and_the_deviation),
        CLAIM(the_numbers_are_good_to_the_last_digits),
        CLAIM(a_constant_channel_has_deviation_0_exactly),
        CLAIM(features_are_channels_and_so_is_a_number),
        CLAIM(threads_do_not_matter),
        CLAIM(what_is_not_finite_is_refused),
        CLAIM(a_sample_that_fails_is_named),
        CLAIM(what_is_normalised_has_mean_0_and_deviation_1),
        CLAIM(any_view_is_normalised_and_nothing_else),
        CLAIM(an_augmented_set_is_normalised),
        CLAIM(what_does_not_fit_is_refused),
        CLAIM(numbers_travel_with_the_net),
        CLAIM(the_note_is_json),
        CLAIM(other_notes_are_refused),
        CLAIM(names_travel_with_the_net),
        CLAIM(other_names_are_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, NULL);
}
