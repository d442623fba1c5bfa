/* test_sets.c: sets made from others have the samples that they say, in every epoch, and in several threads.
 *
 * Sample i of the sets below is x = i, target i % 3, so that each sample says which one it is. */
#include "tests/support.h"

#include "nn/data/normalize.h"
#include "nn/data/sets.h"
#include "nn/files/metadata.h"
#include "tensor/counts.h"

#include <math.h>
#include <stdlib.h>

/* ---- numbered samples ----------------------------------------------------------------------------- */

static uint64_t last_pass;

static void get_numbered(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    st_fill(x, (st_real)i);
    st_fill(y, (st_real)(i % 3));
}

static void begin_numbered(const st_dataset *d, uint64_t pass)
{
    last_pass = pass;
}

static st_dataset *numbered(ptrdiff_t count, bool classes)
{
    return st_dataset_new((st_dataset){ .count = count,
                                        .x = ST_SHAPE(2),
                                        .target = classes ? (st_shape){ 0 } : ST_SHAPE(1),
                                        .get = get_numbered,
                                        .begin = begin_numbered,
                                        .grain = 4,
                                        .prepared = "numbered" });
}

/* The numbers of all samples of a set, from x; the caller frees them. */
static ptrdiff_t *numbers_of(const st_dataset *d)
{
    ptrdiff_t *numbers = calloc((size_t)d->count, sizeof *numbers);
    st_tensor x = st_tensor_new(st_shape_with_batch(d->x, d->count)),
              y = st_tensor_new(st_shape_with_batch(d->target, d->count));
    assert_int_equal(st_dataset_batch(d, NULL, 0, d->count, x, y), 0);
    for (ptrdiff_t i = 0; i < d->count; i++) {
        numbers[i] = (ptrdiff_t)*st_at(x, ST_INDEX(i, 1));
        assert_true(*element(y, i) == (st_real)(numbers[i] % 3));
    }
    st_tensor_free(x), st_tensor_free(y);
    return numbers;
}

static void samples_are(const st_dataset *d, ptrdiff_t count, const ptrdiff_t expected[])
{
    assert_non_null(d);
    assert_int_equal(d->count, count);
    ptrdiff_t *numbers = numbers_of(d);
    for (ptrdiff_t i = 0; i < count; i++) assert_int_equal(numbers[i], expected[i]);
    free(numbers);
}

/* ---- map ------------------------------------------------------------------------------------------ */

static void add_and_negate(void *context, ptrdiff_t i, st_tensor x, st_tensor y)
{
    st_real *at = st_at(x, ST_INDEX(0));
    *at += (st_real)(*(const double *)context + 100 * (double)i);
    st_scale(y, -1);
}

TEST(a_function_changes_each_sample)
{
    double more = 0.5;
    auto_dataset *of = numbered(50, true), *d = st_dataset_map(of, add_and_negate, &more);
    assert_string_equal(d->prepared, "numbered; map");
    assert_int_equal(d->grain, of->grain);
    auto_tensor x = st_tensor_new(ST_SHAPE(50, 2)), y = st_tensor_new(ST_SHAPE(50));
    assert_int_equal(st_dataset_batch(d, NULL, 0, 50, x, y), 0);
    for (ptrdiff_t i = 0; i < 50; i++) {
        assert_true(*st_at(x, ST_INDEX(i, 0)) == (st_real)(101 * (double)i + 0.5));
        assert_true(*st_at(x, ST_INDEX(i, 1)) == (st_real)i && *element(y, i) == (st_real) - (i % 3));
    }
    st_dataset_begin_epoch(d, 7);
    assert_true(last_pass == 7);
}

/* ---- concat and subset ---------------------------------------------------------------------------- */

TEST(sets_are_joined_and_chosen_from)
{
    auto_dataset *a = numbered(2, true), *b = numbered(1, true), *c = numbered(3, true);
    auto_dataset *all = st_dataset_concat(a, b, c), *twice = st_dataset_concat(all, all);
    samples_are(all, 6, (const ptrdiff_t[]){ 0, 1, 0, 0, 1, 2 });
    samples_are(twice, 12, (const ptrdiff_t[]){ 0, 1, 0, 0, 1, 2, 0, 1, 0, 0, 1, 2 });
    auto_dataset *some = st_dataset_subset(twice, 4, (const ptrdiff_t[]){ 5, 5, 0, 10 });
    samples_are(some, 4, (const ptrdiff_t[]){ 2, 2, 0, 1 });
    ptrdiff_t at = 3;
    assert_ptr_equal(st_dataset_origin(some, &at), twice);
    assert_int_equal(at, 10);
    assert_ptr_equal(st_dataset_origin(twice, &at), twice);
    assert_int_equal(at, 10);
    st_dataset_begin_epoch(some, 9);
    assert_true(last_pass == 9);
}

/* "numbered" once if all are, otherwise how each is prepared. */
TEST(a_joined_set_tells_how_each_part_is_prepared)
{
    double more = 0.5;
    auto_dataset *a = numbered(2, true), *b = numbered(1, true),
                 *changed = st_dataset_map(b, add_and_negate, &more);
    st_dataset plain = *b;
    plain.prepared = NULL;
    auto_dataset *alike = st_dataset_concat(a, b), *two = st_dataset_concat(a, changed),
                 *three = st_dataset_concat(&plain, a, changed), *none = st_dataset_concat(&plain, &plain);
    assert_string_equal(alike->prepared, "numbered");
    assert_string_equal(two->prepared, "numbered | numbered; map");
    assert_string_equal(three->prepared, "none | numbered | numbered; map");
    assert_null(none->prepared);
}

/* ---- split ---------------------------------------------------------------------------------------- */

/* 100 samples have 34, 33 and 33 of each class: a fifth is 7, 7 and 7, rounded. */
TEST(a_split_has_the_same_part_of_each_class)
{
    st_dataset *of = numbered(100, true), *part, *rest, *again, *other;
    assert_int_equal(st_dataset_split(of, 0.2, 5, &part, &rest), 0);
    ptrdiff_t *in_part = numbers_of(part), *in_rest = numbers_of(rest), classes[3] = { 0 };
    bool seen[100] = { 0 };
    for (ptrdiff_t i = 0; i < part->count; i++) classes[in_part[i] % 3]++, seen[in_part[i]] = true;
    for (ptrdiff_t i = 0; i < rest->count; i++) {
        assert_false(seen[in_rest[i]]);
        seen[in_rest[i]] = true;
    }
    for (int i = 0; i < 100; i++) assert_true(seen[i]);
    for (int k = 0; k < 3; k++) assert_int_equal(classes[k], 7);
    st_dataset_free(part), st_dataset_free(rest);
    assert_int_equal(st_dataset_split(of, 0.2, 5, &part, &rest), 0);
    samples_are(part, 21, in_part);
    assert_int_equal(st_dataset_split(of, 0.2, 6, &again, &other), 0);
    ptrdiff_t *by_other_seed = numbers_of(again), same = 0;
    for (int i = 0; i < 21; i++) same += by_other_seed[i] == in_part[i];
    assert_true(same < 21);
    free(in_part), free(in_rest), free(by_other_seed);
    st_dataset_free(part), st_dataset_free(rest), st_dataset_free(again), st_dataset_free(other);
    st_dataset_free(of);
}

TEST(a_split_of_numbers_is_of_the_whole)
{
    st_dataset *of = numbered(10, false), *part, *rest;
    assert_int_equal(st_dataset_split(of, 0.25, 1, &part, &rest), 0);
    assert_int_equal(part->count, 3); /* 2.5, rounded */
    assert_int_equal(rest->count, 7);
    st_dataset_free(part), st_dataset_free(rest), st_dataset_free(of);
}

/* ---- weighted ------------------------------------------------------------------------------------- */

/* Five standard deviations of 8000 draws with p = 1/8, 3/8 and 1/2 are at most 224. */
TEST(samples_are_drawn_by_weight_in_each_epoch)
{
    enum { DRAWN = 8000 };
    const double weight[5] = { 0, 0.25, 0.75, 1, 0 }, expected[5] = { 0, 1000, 3000, 4000, 0 };
    auto_dataset *of = numbered(5, true), *d = st_dataset_weighted(of, DRAWN, weight, 3);
    st_dataset_begin_epoch(d, 1);
    ptrdiff_t *first = numbers_of(d), *again = numbers_of(d), counts[5] = { 0 }, same = 0;
    st_dataset_begin_epoch(d, 2);
    ptrdiff_t *next = numbers_of(d);
    assert_memory_equal(first, again, DRAWN * sizeof *first);
    for (int i = 0; i < DRAWN; i++) counts[first[i]]++, same += first[i] == next[i];
    for (int k = 0; k < 5; k++)
        if (fabs((double)counts[k] - expected[k]) > (expected[k] > 0 ? 224 : 0))
            fail_msg("sample %d was drawn %td times, expected about %g", k, counts[k], expected[k]);
    assert_true(same < DRAWN / 2); /* 1/64 + 9/64 + 16/64 */
    free(first), free(again), free(next);
}

/* ---- targets -------------------------------------------------------------------------------------- */

/* Targets 0 and 4, and 5 twice: means 2 and 5, deviations 2 and 0. */
TEST(targets_are_normalised_and_back)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 3)), y = tensor_of(ST_SHAPE(2, 2), 0, 5, 4, 5),
                out = st_tensor_new(ST_SHAPE(2, 2)), same = st_tensor_new(ST_SHAPE(2, 3));
    st_fill(x, 7);
    auto_dataset *of = st_dataset_tensors(x, y);
    st_normalization *n = st_normalization_measure_targets(of);
    assert_true(n->channels == 2 && n->mean[0] == 2 && n->mean[1] == 5 && n->deviation[0] == 2 &&
                n->deviation[1] == 0);
    auto_dataset *d = st_dataset_normalize(of, n);
    assert_string_equal(d->prepared, "normalize targets mean 2 5 deviation 2 0");
    assert_int_equal(st_dataset_batch(d, NULL, 0, 2, same, out), 0);
    assert_elements(out, -1, 0, 1, 0);
    assert_same(same, x);
    assert_int_equal(st_normalization_undo(n, out), 0);
    assert_same(out, y);
    auto_net *net = st_net_new(ST_SHAPE(3), st_dense(.out_features = 2));
    assert_int_equal(st_net_set_normalization(net, n), 0);
    st_normalization *found = st_net_target_normalization(net);
    assert_true(found->channels == 2 && found->mean[1] == 5 && found->deviation[0] == 2);
    assert_null(st_net_normalization(net));
    n->of_targets = false;
    expect_failure(st_net_set_normalization(net, n), "st_net_set_normalization: samples [3]");
    st_net_set_metadata(net, "target_normalization", "{\"mean\": [1, 2], \"deviation\": [1]}");
    expect_failure(st_net_target_normalization(net), "metadata target_normalization: expected");
    st_normalization_free(n), st_normalization_free(found);
}

/* ---- refusals ------------------------------------------------------------------------------------- */

static void get_wrong(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    st_fill(x, 0);
    st_fill(y, (st_real)0.5);
}

TEST(what_cannot_be_made_is_refused)
{
    st_dataset *d = numbered(4, true), *other = numbered(4, false), *part, *rest;
    st_dataset wrong = *d;
    wrong.get = get_wrong;
    const double negative[] = { 1, -1, 1, 1 }, zeros[4] = { 0 }, huge[] = { 1e308, 1e308, 1, 1 };
    expect_failure(st_dataset_map(d, NULL, NULL), "st_dataset_map: the function is NULL");
    expect_failure(st_dataset_concat(d, other),
                   "st_dataset_concat: samples [2] and [1] of set 1, [2] and [] of the first");
    expect_failure(st_dataset_concat(d, NULL), "st_dataset_concat: the data set is NULL");
    expect_failure(st_dataset_subset(d, 2, (const ptrdiff_t[]){ 0, 4 }),
                   "st_dataset_subset: index[1] is 4, the set has 4 samples");
    expect_failure(st_dataset_subset(d, 0, (const ptrdiff_t[]){ 0 }), "st_dataset_subset: 0 samples");
    const double fractions[] = { 0, 1, -1, -NAN };
    for (int i = 0; i < 4; i++)
        expect_failure(st_dataset_split(d, fractions[i], 1, &part, &rest), "st_dataset_split: fraction %g, ",
                       printable(fractions[i]));
    expect_failure(st_dataset_split(d, 0.01, 1, &part, &rest),
                   "fraction 0.01 of 4 samples leaves a part empty");
    assert_true(part == NULL && rest == NULL);
    expect_failure(st_dataset_split(&wrong, 0.5, 1, &part, &rest), "sample 0 has target 0.5");
    assert_int_equal(st_dataset_split(d, 0.5, 1, &part, &rest), 0);
    expect_failure(st_dataset_origin(part, &(ptrdiff_t){ 4 }), "st_dataset_origin: sample 4, the set has ");
    st_dataset_free(part), st_dataset_free(rest);
    expect_failure(st_dataset_weighted(d, 4, negative, 1), "weight[1] is -1");
    expect_failure(st_dataset_weighted(d, 4, huge, 1), "weight[1] is 1e+308");
    expect_failure(st_dataset_weighted(d, 4, zeros, 1), "every weight is 0");
    expect_failure(st_dataset_weighted(d, 0, huge, 1), "st_dataset_weighted: 0 samples");
    st_dataset_free(d), st_dataset_free(other);
}
