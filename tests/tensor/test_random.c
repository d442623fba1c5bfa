/* test_random.c: the numbers are the published ones, look random, and depend on nothing but their key
 * and counter.
 *
 * Statistics are of fixed seeds, so a test passes always or never. Limits are five deviations or more
 * of the statistic: a right generator would miss one for about one seed in a million. */
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

enum { DRAWS = 100000 };

static const random_key KEY = { .seed = 0x0123456789abcdef, .stream = 42 };

/* ---- helpers --------------------------------------------------------------------------------- */

static void assert_about(double value, double expected, double limit)
{
    if (fabs(value - expected) <= limit) return;
    fail_msg("%.17g, expected %.17g within %g", value, expected, limit);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The k-th moment of x about c. */
static double moment(const double *x, double c, int k)
{
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) sum += pow(x[i] - c, k);
    return sum / DRAWS;
}

/* Kolmogorov and Smirnov: the largest distance between the samples' distribution and the one that
 * `cumulative` gives, in units of 1/sqrt(DRAWS). Above 2.6 for one right generator in a million. */
static double distance(double *x, double (*cumulative)(double))
{
    qsort(x, DRAWS, sizeof *x, by_value);
    double most = 0;
    for (int i = 0; i < DRAWS; i++) {
        double f = cumulative(x[i]);
        double above = f - (double)i / DRAWS, below = (double)(i + 1) / DRAWS - f;
        if (above > most) most = above; /* no fmax: gcc 12 dies of vectorizing it for Arm */
        if (below > most) most = below;
    }
    return most * sqrt((double)DRAWS);
}

/* Pearson's statistic of counts that should be equal has `cells` - 1 degrees of freedom. */
static void assert_equally_filled(const int *count, int cells)
{
    double total = 0, statistic = 0;
    for (int i = 0; i < cells; i++) total += count[i];
    double expected = total / cells;
    for (int i = 0; i < cells; i++) statistic += (count[i] - expected) * (count[i] - expected) / expected;
    assert_about(statistic, cells - 1, 5 * sqrt(2.0 * (cells - 1)));
}

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

static void bits_are_the_published_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        random_key key = { .seed = join(known[i].key), .stream = join(known[i].counter + 2) };
        random_block block = random_bits(key, join(known[i].counter));
        assert_memory_equal(block.word, known[i].expected, sizeof block.word);
    }
}

/* Oracle: one block at a time; over a carry into the counter's upper half. */
static void words_are_those_of_the_blocks(void **state)
{
    (void)state;
    const uint64_t counters[] = { 0, UINT64_C(0xfffffff0), UINT64_C(0xfffffffffffffff0) };
    for (int c = 0; c < 3; c++)
        for (ptrdiff_t n = 0; n <= 70; n++) {
            uint32_t word[4 * 71];
            memset(word, 0x5a, sizeof word);
            random_words(KEY, counters[c], word, n);
            for (ptrdiff_t i = 0; i < n; i++) {
                random_block block = random_bits(KEY, counters[c] + (uint64_t)i);
                assert_memory_equal(block.word, word + 4 * i, sizeof block.word);
            }
            assert_int_equal(word[4 * n], 0x5a5a5a5a);
        }
}

/* Oracle: the same definitions in Python's integers and floats. A model saved by one version must go on
 * with the same numbers in the next. */
static void numbers_stay_what_they_are(void **state)
{
    (void)state;
    assert_true(random_uniform(KEY, 0) == 0x1.e86a88edddc68p-3);
    assert_true(random_uniform(KEY, 1) == 0x1.faccae2cd2935p-1);
    assert_true(random_uniform(KEY, (uint64_t)1 << 63) == 0x1.74e816b9702c6p-2);
    assert_about(random_normal(KEY, 0), 0.4316097767469713, 1e-14);
    assert_about(random_normal(KEY, 1), 2.997942871978725, 1e-14);
    assert_about(random_normal(KEY, (uint64_t)1 << 63), -0.9400666213967364, 1e-14);
    const uint64_t below_10[] = { 1, 3, 8, 6, 5, 3, 4, 6, 2, 3, 4, 4 };
    for (uint64_t i = 0; i < 12; i++) assert_int_equal(random_below(KEY, i, 10), below_10[i]);
    const uint64_t refusing[] = { 7581163313286664631, 9036005456132811034, 2642709702151314923,
                                  8664868079179131739, 702614545911510078,  6122545358677270842 };
    for (uint64_t i = 0; i < 6; i++)
        assert_true(random_below(KEY, i, ((uint64_t)1 << 63) + 1) == refusing[i]);
    const ptrdiff_t expected[] = { 8, 1, 5, 7, 6, 9, 0, 2, 4, 3 };
    ptrdiff_t order[10];
    random_permutation(order, 10, KEY);
    assert_memory_equal(order, expected, sizeof order);
}

/* Flips one of the 192 bits that go in. */
static random_block bits_with_flip(random_key key, uint64_t counter, int bit)
{
    uint64_t mask = (uint64_t)1 << bit % 64;
    if (bit < 64) key.seed ^= mask;
    else if (bit < 128) key.stream ^= mask;
    else counter ^= mask;
    return random_bits(key, counter);
}

/* 192 · 100 flips of 128 bits: each changes with probability 1/2, so the share's deviation is 0.0003. */
static void every_bit_of_key_and_counter_changes_half_the_bits(void **state)
{
    (void)state;
    long changed = 0;
    for (int flip = 0; flip < 192 * 100; flip++) {
        uint64_t counter = (uint64_t)(flip / 192);
        random_block a = random_bits(KEY, counter), b = bits_with_flip(KEY, counter, flip % 192);
        int of_this = 0;
        for (int w = 0; w < 4; w++)
            for (uint32_t d = a.word[w] ^ b.word[w]; d; d &= d - 1) of_this++;
        assert_in_range(of_this, 30, 98); /* six deviations */
        changed += of_this;
    }
    assert_about((double)changed / (192 * 100 * 128), 0.5, 0.0016);
}

/* ---- uniform --------------------------------------------------------------------------------- */

static double cumulative_uniform(double x)
{
    return x;
}

static void uniform_has_its_moments_and_distribution(void **state)
{
    (void)state;
    double *x = malloc(DRAWS * sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < DRAWS; i++) {
        x[i] = random_uniform(KEY, (uint64_t)i);
        assert_true(x[i] >= 0 && x[i] < 1);
    }
    assert_about(moment(x, 0, 1), 0.5, 5 / sqrt(12.0 * DRAWS));
    assert_about(moment(x, 0.5, 2), 1.0 / 12, 5 / sqrt(180.0 * DRAWS));
    assert_true(distance(x, cumulative_uniform) < 2.6);
    free(x);
}

static void uniform_fills_its_cells_equally(void **state)
{
    (void)state;
    int count[256] = { 0 };
    for (int i = 0; i < DRAWS; i++) count[(int)(256 * random_uniform(KEY, (uint64_t)i))]++;
    assert_equally_filled(count, 256);
}

static void uniform_has_53_bits(void **state)
{
    (void)state;
    int odd[2] = { 0 };
    for (int i = 0; i < DRAWS; i++) {
        double scaled = 0x1p53 * random_uniform(KEY, (uint64_t)i);
        assert_true(scaled == floor(scaled));
        odd[(uint64_t)scaled & 1]++;
    }
    assert_equally_filled(odd, 2);
}

/* The correlation of independent numbers has deviation 1/sqrt(DRAWS). */
static void neighbours_are_not_correlated(void **state)
{
    (void)state;
    double counter = 0, stream = 0, seed = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = random_uniform(KEY, i) - 0.5;
        counter += x * (random_uniform(KEY, i + 1) - 0.5);
        stream += x * (random_uniform((random_key){ KEY.seed, KEY.stream + 1 }, i) - 0.5);
        seed += x * (random_uniform((random_key){ KEY.seed + 1, KEY.stream }, i) - 0.5);
    }
    double limit = 5 / sqrt((double)DRAWS);
    assert_about(12 * counter / DRAWS, 0, limit);
    assert_about(12 * stream / DRAWS, 0, limit);
    assert_about(12 * seed / DRAWS, 0, limit);
}

/* ---- normal ---------------------------------------------------------------------------------- */

static double cumulative_normal(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

static void normal_has_its_moments_and_distribution(void **state)
{
    (void)state;
    double *x = malloc(DRAWS * sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < DRAWS; i++) {
        x[i] = random_normal(KEY, (uint64_t)i);
        assert_true(isfinite(x[i]));
    }
    assert_about(moment(x, 0, 1), 0, 5 / sqrt((double)DRAWS));
    assert_about(moment(x, 0, 2), 1, 5 * sqrt(2.0 / DRAWS));
    assert_about(moment(x, 0, 3), 0, 5 * sqrt(15.0 / DRAWS));
    assert_about(moment(x, 0, 4), 3, 5 * sqrt(96.0 / DRAWS));
    assert_true(distance(x, cumulative_normal) < 2.6);
    free(x);
}

static void normal_neighbours_are_not_correlated(void **state)
{
    (void)state;
    double sum = 0;
    for (uint64_t i = 0; i < DRAWS; i++) sum += random_normal(KEY, i) * random_normal(KEY, i + 1);
    assert_about(sum / DRAWS, 0, 5 / sqrt((double)DRAWS));
}

/* ---- below ----------------------------------------------------------------------------------- */

static void below_0_and_1_is_0(void **state)
{
    (void)state;
    assert_int_equal(random_below(KEY, 3, 0), 0);
    assert_int_equal(random_below(KEY, 3, 1), 0);
}

static void below_fills_small_bounds_equally(void **state)
{
    (void)state;
    for (int bound = 2; bound <= 17; bound += 5) {
        int count[17] = { 0 };
        for (int i = 0; i < DRAWS; i++) {
            uint64_t value = random_below(KEY, (uint64_t)i, (uint64_t)bound);
            assert_true(value < (uint64_t)bound);
            count[value]++;
        }
        assert_equally_filled(count, bound);
    }
}

/* Folding 2^64 values onto 3/4 of them would hit the lowest third twice as often. */
static void below_has_no_bias_where_folding_has_most(void **state)
{
    (void)state;
    const uint64_t third = (uint64_t)1 << 62;
    int count[3] = { 0 };
    for (int i = 0; i < DRAWS; i++) count[random_below(KEY, (uint64_t)i, 3 * third) / third]++;
    assert_equally_filled(count, 3);
}

/* Nearly half of all draws are refused, a quarter of all blocks: their successors must be no other
 * counter's numbers, and as equally spread. */
static void below_does_not_borrow_from_another_counter(void **state)
{
    (void)state;
    const uint64_t bound = ((uint64_t)1 << 63) + 1;
    double *x = malloc(DRAWS * sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < DRAWS; i++) x[i] = (double)random_below(KEY, (uint64_t)i, bound) / (double)bound;
    assert_true(distance(x, cumulative_uniform) < 2.6);
    for (int i = 1; i < DRAWS; i++) assert_true(x[i - 1] < x[i]); /* sorted by now: no value comes twice */
    free(x);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The element's place in row-major order as an index of every axis. */
static shape index_at(ptrdiff_t element, shape s)
{
    shape index = { .rank = s.rank };
    for (int i = s.rank - 1; i >= 0; i--) {
        index.n[i] = element % s.n[i];
        element /= s.n[i];
    }
    return index;
}

/* Element e of x holds number e of the key's stream. */
static void assert_uniform(tensor x, random_key key, real low, real high)
{
    for (ptrdiff_t e = 0; e < tensor_count(x); e++) {
        shape index = index_at(e, x.shape);
        double expected = (double)low + ((double)high - (double)low) * random_uniform(key, (uint64_t)e);
        assert_about((double)*tensor_at(x, index), expected, 4 * (double)REAL_EPSILON);
    }
}

static void element_e_takes_counter_e(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(4, 5, 6)), one = tensor_new((shape){ .rank = 0 });
    tensor_uniform(x, KEY, -1, 2);
    assert_uniform(x, KEY, -1, 2);
    tensor_normal(x, KEY, 1, 2);
    for (ptrdiff_t e = 0; e < tensor_count(x); e++)
        assert_about((double)tensor_data(x)[e], 1 + 2 * random_normal(KEY, (uint64_t)e),
                     16 * (double)REAL_EPSILON);
    tensor_uniform(one, KEY, -1, 2);
    assert_uniform(one, KEY, -1, 2);
    tensor_free(x);
    tensor_free(one);
}

static void element_e_takes_counter_e_in_any_view(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(4, 6, 5));
    const tensor views[] = {
        tensor_permute(x, AXES(2, 0, 1)),
        tensor_transpose(x, 0, 2),
        tensor_flip(tensor_flip(x, 0), 2),
        tensor_step(x, 1, -2),
        tensor_narrow(tensor_transpose(x, 1, 2), 2, 1, 3),
        tensor_select(x, 2, 3),
        tensor_split(tensor_flip(x, 1), 1, 3),
    };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        tensor_uniform(views[i], KEY, 0, 1);
        assert_uniform(views[i], KEY, 0, 1);
    }
    tensor_normal(views[0], KEY, 0, 1);
    tensor same = tensor_new(views[0].shape);
    tensor_normal(same, KEY, 0, 1);
    for (ptrdiff_t e = 0; e < tensor_count(same); e++) {
        shape index = index_at(e, same.shape);
        assert_true(*tensor_at(views[0], index) == tensor_data(same)[e]);
    }
    tensor_free(x);
    tensor_free(same);
}

static void what_is_outside_the_view_stays(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(4, 6));
    tensor_fill(x, 7);
    tensor_uniform(tensor_step(tensor_narrow(x, 0, 1, 2), 1, 2), KEY, 0, 1);
    for (ptrdiff_t e = 0; e < 24; e++) {
        ptrdiff_t row = e / 6, column = e % 6;
        bool inside = (row == 1 || row == 2) && column % 2 == 0;
        assert_true(inside ? tensor_data(x)[e] < 1 : tensor_data(x)[e] == 7);
    }
    tensor_free(x);
}

/* [1, next after 1) holds 1 alone, though every u above 1/2 rounds to its end. */
static void uniform_never_is_high(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(1000));
    const real low[] = { 1, -1, 0, -REAL_MAX, 3 };
    const real high[] = { nextafter((real)1, (real)2), nextafter((real)-1, (real)0),
                          nextafter((real)0, (real)1), nextafter(-REAL_MAX, (real)0), 3 + 4 * REAL_EPSILON };
    for (int i = 0; i < 5; i++) {
        tensor_uniform(x, KEY, low[i], high[i]);
        for (int e = 0; e < 1000; e++) {
            assert_true(tensor_data(x)[e] >= low[i]);
            assert_true(tensor_data(x)[e] < high[i]);
        }
    }
    tensor_free(x);
}

static void uniform_reaches_over_the_whole_range(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(1000));
    tensor_uniform(x, KEY, -REAL_MAX, REAL_MAX);
    int count[2] = { 0 };
    for (int e = 0; e < 1000; e++) {
        assert_true(isfinite(tensor_data(x)[e]));
        count[tensor_data(x)[e] > 0]++;
    }
    assert_equally_filled(count, 2);
    tensor_free(x);
}

static void no_interval_is_its_end_and_a_reversed_one_an_error(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(100));
    for (int i = 20; i >= 0; i--) {
        real end = (real)i / 7 - 1;
        tensor_uniform(x, KEY, end, end);
        for (int e = 0; e < 100; e++) assert_true(tensor_data(x)[e] == end);
    }
    assert_null(error_text());
    const real low[] = { 2, (real)NAN, 0, -(real)INFINITY }, high[] = { 1, 1, (real)INFINITY, 0 };
    for (int i = 0; i < 4; i++) {
        tensor_uniform(x, KEY, low[i], high[i]);
        expect_error("tensor_uniform: from %g to %g, expected", (double)low[i], (double)high[i]);
        for (int e = 0; e < 100; e++) assert_true(tensor_data(x)[e] == -1);
    }
    tensor_free(x);
}

static void null_and_empty_tensors_do_nothing(void **state)
{
    (void)state;
    tensor empty = tensor_new(SHAPE(3, 0));
    tensor_uniform(empty, KEY, 0, 1);
    tensor_normal(empty, KEY, 0, 1);
    assert_null(error_text());
    tensor_free(empty);
    tensor_uniform((tensor){ 0 }, KEY, 0, 1);
    expect_error("the tensor is null");
    tensor_normal((tensor){ 0 }, KEY, 0, 1);
    expect_error("the tensor is null");
}

/* ---- orders ---------------------------------------------------------------------------------- */

static void a_permutation_has_every_number_once(void **state)
{
    (void)state;
    enum { MOST = 1000 };
    ptrdiff_t order[MOST];
    for (ptrdiff_t n = 0; n <= MOST; n += n < 10 ? 1 : 99) {
        bool seen[MOST] = { 0 };
        random_permutation(order, n, KEY);
        for (ptrdiff_t i = 0; i < n; i++) {
            assert_in_range(order[i], 0, n - 1);
            assert_false(seen[order[i]]);
            seen[order[i]] = true;
        }
    }
}

static void nothing_is_permuted_where_there_is_nothing(void **state)
{
    (void)state;
    ptrdiff_t guard = 7;
    random_permutation(&guard, 0, KEY);
    random_permutation(&guard, -5, KEY);
    random_permutation(NULL, 0, KEY);
    assert_int_equal(guard, 7);
}

/* Fisher and Yates' usual mistake, a partner from the whole range, gives some orders 1.5 times as often
 * as others. */
static void all_orders_are_equally_likely(void **state)
{
    (void)state;
    int count[24] = { 0 };
    for (uint64_t stream = 0; stream < 48000; stream++) {
        ptrdiff_t order[4];
        random_permutation(order, 4, (random_key){ KEY.seed, stream });
        int rank = 0; /* among the 24 in lexicographic order */
        for (int i = 0; i < 4; i++) {
            int smaller = 0;
            for (int j = i + 1; j < 4; j++) smaller += order[j] < order[i];
            rank = rank * (4 - i) + smaller;
        }
        count[rank]++;
    }
    assert_equally_filled(count, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(bits_are_the_published_ones),
        CLAIM(words_are_those_of_the_blocks),
        CLAIM(numbers_stay_what_they_are),
        CLAIM(every_bit_of_key_and_counter_changes_half_the_bits),
        CLAIM(uniform_has_its_moments_and_distribution),
        CLAIM(uniform_fills_its_cells_equally),
        CLAIM(uniform_has_53_bits),
        CLAIM(neighbours_are_not_correlated),
        CLAIM(normal_has_its_moments_and_distribution),
        CLAIM(normal_neighbours_are_not_correlated),
        CLAIM(below_0_and_1_is_0),
        CLAIM(below_fills_small_bounds_equally),
        CLAIM(below_has_no_bias_where_folding_has_most),
        CLAIM(below_does_not_borrow_from_another_counter),
        CLAIM(element_e_takes_counter_e),
        CLAIM(element_e_takes_counter_e_in_any_view),
        CLAIM(what_is_outside_the_view_stays),
        CLAIM(uniform_never_is_high),
        CLAIM(uniform_reaches_over_the_whole_range),
        CLAIM(no_interval_is_its_end_and_a_reversed_one_an_error),
        CLAIM(null_and_empty_tensors_do_nothing),
        CLAIM(a_permutation_has_every_number_once),
        CLAIM(nothing_is_permuted_where_there_is_nothing),
        CLAIM(all_orders_are_equally_likely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
