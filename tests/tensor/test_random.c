/* test_random.c: the numbers are the published ones, and depend on nothing but their key and counter. */
#include "tests/support.h"

#include "tensor/counts.h"
#include "tensor/random_impl.h"

#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

static const st_random_key KEY = { .seed = 0x0123456789abcdef, .stream = 42 };

/* ---- the generator --------------------------------------------------------------------------- */

typedef struct known_answer {
    uint32_t counter[4], key[2], expected[4];
} known_answer;

/* Oracle: the vectors that Random123 publishes for philox4x32-10. */
static const known_answer known[] = {
    { { 0x00000000, 0x00000000, 0x00000000, 0x00000000 },
      { 0x00000000, 0x00000000 },
      { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
      { 0xffffffff, 0xffffffff },
      { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, /* the digits of pi */
      { 0xa4093822, 0x299f31d0 },
      { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
};

static uint64_t join(const uint32_t word[2])
{
    return (uint64_t)word[1] << 32 | word[0];
}

TEST(bits_are_the_published_ones)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        st_random_key key = { .seed = join(known[i].key), .stream = join(known[i].counter + 2) };
        st_random_block block = st_random_bits(key, join(known[i].counter));
        assert_memory_equal(block.word, known[i].expected, sizeof block.word);
    }
}

/* Oracle: one block at a time; over a carry into the counter's upper half. */
TEST(words_are_those_of_the_blocks)
{
    const uint64_t counters[] = { 0, UINT64_C(0xfffffff0), UINT64_C(0xfffffffffffffff0) };
    for (int c = 0; c < 3; c++)
        for (ptrdiff_t n = 0; n <= 70; n++) {
            uint32_t word[4 * 71];
            memset(word, 0x5a, sizeof word);
            st_random_words(KEY, counters[c], word, n);
            for (ptrdiff_t i = 0; i < n; i++) {
                st_random_block block = st_random_bits(KEY, counters[c] + (uint64_t)i);
                assert_memory_equal(block.word, word + 4 * i, sizeof block.word);
            }
            assert_int_equal(word[4 * n], 0x5a5a5a5a);
        }
    st_random_words(KEY, 0, NULL, 0);
    assert_null(st_error());
    st_random_words(KEY, 0, NULL, 1);
    expect_error("st_random_words: the words are NULL");
}

/* Oracle: the same definitions in Python's integers and floats. A model saved by one version must go on
 * with the same numbers in the next. */
TEST(numbers_stay_what_they_are)
{
    assert_true(st_random_uniform(KEY, 0) == 0x1.e86a88edddc68p-3);
    assert_true(st_random_uniform(KEY, 1) == 0x1.faccae2cd2935p-1);
    assert_true(st_random_uniform(KEY, (uint64_t)1 << 63) == 0x1.74e816b9702c6p-2);
    assert_close(st_random_normal(KEY, 0), 0.4316097767469713, 1e-14);
    assert_close(st_random_normal(KEY, 1), 2.997942871978725, 1e-14);
    assert_close(st_random_normal(KEY, (uint64_t)1 << 63), -0.9400666213967364, 1e-14);
    const uint64_t below_10[] = { 1, 3, 8, 6, 5, 3, 4, 6, 2, 3, 4, 4 };
    for (uint64_t i = 0; i < 12; i++) assert_int_equal(st_random_below(KEY, i, 10), below_10[i]);
    const uint64_t refusing[] = { 7581163313286664631, 9036005456132811034, 2642709702151314923,
                                  8664868079179131739, 702614545911510078,  6122545358677270842 };
    for (uint64_t i = 0; i < 6; i++)
        assert_true(st_random_below(KEY, i, ((uint64_t)1 << 63) + 1) == refusing[i]);
    const ptrdiff_t expected[] = { 8, 1, 5, 7, 6, 9, 0, 2, 4, 3 };
    ptrdiff_t order[10];
    st_random_permutation(order, 10, KEY);
    assert_memory_equal(order, expected, sizeof order);
}

/* ---- below ----------------------------------------------------------------------------------- */

TEST(below_0_and_1_is_0)
{
    assert_int_equal(st_random_below(KEY, 3, 0), 0);
    assert_int_equal(st_random_below(KEY, 3, 1), 0);
}

/* 2^64 mod bound is 0 for 8, and 2^63 - 1 for 2^63 + 1: numbers below it are in excess, and refused. */
TEST(below_refuses_as_many_numbers_as_are_in_excess)
{
    const uint64_t half = (uint64_t)1 << 63;
    const st_random_block zero = { { 0, 0, 5, 0 } }, least = { { 0xffffffff, 0x7fffffff, 5, 0x80000000 } },
                          excess = { { 0xfffffffe, 0x7fffffff, 5, 0x80000000 } };
    assert_true(random_below(zero, 0, 8) == 0);
    assert_true(random_below(least, 0, half + 1) == half - 1);
    assert_true(random_below(excess, 0, half + 1) == 4); /* the second one, 2^63 + 5 */
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Element e of a tensor holds number e of the key's stream, wherever it lies; what is outside of a view
 * stays. Rows have few elements, or more than the 64 blocks that are drawn at once. */
TEST(element_e_takes_counter_e_in_any_view)
{
    dice d = { { 1 } };
    for (int i = 0; i < 200; i++) {
        st_shape s = i % 4 ? roll_shape(&d, 0, 4, 0, 5) : roll_shape(&d, 1, 2, 0, 150);
        st_tensor whole, x = roll_view(&d, s, &whole);
        st_fill(whole, 77);
        st_uniform(x, KEY, -1, 2);
        for (ptrdiff_t e = 0; e < st_numel(x); e++)
            assert_close((double)*element(x, e), -1 + 3 * st_random_uniform(KEY, (uint64_t)e),
                         4 * (double)ST_REAL_EPSILON);
        st_normal(x, KEY, 1, 2);
        for (ptrdiff_t e = 0; e < st_numel(x); e++)
            assert_close((double)*element(x, e), 1 + 2 * st_random_normal(KEY, (uint64_t)e),
                         16 * (double)ST_REAL_EPSILON);
        st_fill(x, 77);
        for (ptrdiff_t e = 0; e < st_numel(whole); e++) assert_true(*element(whole, e) == 77);
        st_tensor_free(whole);
    }
}

/* [1, next after 1) holds 1 alone, though every u above 1/2 rounds to its end. */
TEST(uniform_never_is_high)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(1000));
    const st_real low[] = { 1, -1, 0, -ST_REAL_MAX, 3, -ST_REAL_MAX };
    const st_real high[] = { nextafter((st_real)1, (st_real)2), nextafter((st_real)-1, (st_real)0),
                             nextafter((st_real)0, (st_real)1), nextafter(-ST_REAL_MAX, (st_real)0),
                             3 + 4 * ST_REAL_EPSILON,           ST_REAL_MAX };
    for (int i = 0; i < 6; i++) {
        st_uniform(x, KEY, low[i], high[i]);
        for (int e = 0; e < 1000; e++) {
            assert_true(st_data(x)[e] >= low[i]);
            assert_true(st_data(x)[e] < high[i]);
        }
    }
}

TEST(no_interval_is_its_end_and_a_reversed_one_an_error)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(100));
    for (int i = 20; i >= 0; i--) {
        st_real end = (st_real)i / 7 - 1;
        st_uniform(x, KEY, end, end);
        for (int e = 0; e < 100; e++) assert_true(st_data(x)[e] == end);
    }
    assert_null(st_error());
    const st_real low[] = { 2, (st_real)-NAN, 0, -(st_real)INFINITY },
                  high[] = { 1, 1, (st_real)INFINITY, 0 };
    for (int i = 0; i < 4; i++) {
        st_uniform(x, KEY, low[i], high[i]);
        expect_error("st_uniform: from %g to %g, expected", printable((double)low[i]), (double)high[i]);
        for (int e = 0; e < 100; e++) assert_true(st_data(x)[e] == -1);
    }
}

TEST(a_mean_and_a_deviation_are_finite)
{
    const st_real mean[] = { 1, (st_real)-NAN, 0, INFINITY }, deviation[] = { -1, 1, INFINITY, 0 };
    auto_tensor x = st_tensor_new(ST_SHAPE(10));
    for (int i = 0; i < 4; i++) {
        st_normal(x, KEY, mean[i], deviation[i]);
        expect_error("st_normal: mean %g and deviation %g, expected finite", printable((double)mean[i]),
                     (double)deviation[i]);
        for (int e = 0; e < 10; e++) assert_true(st_data(x)[e] == 0);
    }
    st_normal(x, KEY, 3, 0);
    for (int e = 0; e < 10; e++) assert_true(st_data(x)[e] == 3);
}

/* ---- orders ---------------------------------------------------------------------------------- */

TEST(a_permutation_has_every_number_once)
{
    enum { MOST = 1000 };
    ptrdiff_t order[MOST];
    for (ptrdiff_t n = 0; n <= MOST; n += n < 10 ? 1 : 99) {
        bool seen[MOST] = { 0 };
        st_random_permutation(order, n, KEY);
        for (ptrdiff_t i = 0; i < n; i++) {
            assert_in_range(order[i], 0, n - 1);
            assert_false(seen[order[i]]);
            seen[order[i]] = true;
        }
    }
}

TEST(nothing_is_permuted_where_there_is_nothing)
{
    ptrdiff_t guard = 7;
    st_random_permutation(&guard, 0, KEY);
    st_random_permutation(&guard, -5, KEY);
    st_random_permutation(NULL, 0, KEY);
    assert_null(st_error());
    st_random_permutation(NULL, 2, KEY);
    expect_error("st_random_permutation: the order is NULL");
    assert_int_equal(guard, 7);
}
