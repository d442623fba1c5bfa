/* test_tensor.c: what a tensor is: shapes, storages and their ends, places, identity, errors. */
#include "tests/support.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

static const ptrdiff_t MOST = PTRDIFF_MAX;
static const ptrdiff_t LEAST = PTRDIFF_MIN;

/* ---- shapes ---------------------------------------------------------------------------------- */

TEST(shapes_are_equal_when_rank_and_sizes_are)
{
    assert_true(st_shape_equal(ST_SHAPE(2, 3), ST_SHAPE(2, 3)));
    assert_false(st_shape_equal(ST_SHAPE(2, 3), ST_SHAPE(3, 2)));
    assert_false(st_shape_equal(ST_SHAPE(2, 3), ST_SHAPE(2, 3, 1)));
    assert_false(st_shape_equal((st_shape){ .rank = 99 }, (st_shape){ .rank = 99 })); /* no shapes */
    assert_true(
        st_shape_equal((st_shape){ 0 }, (st_shape){ .n = { 7 } })); /* what lies beyond the rank is nothing */
}

TEST(shapes_print_as_lists)
{
    assert_string_equal(st_shape_text((st_shape){ 0 }).text, "[]");
    assert_string_equal(st_shape_text(ST_SHAPE(7)).text, "[7]");
    assert_string_equal(st_shape_text(ST_SHAPE(64, 1, 28, 28)).text, "[64, 1, 28, 28]");
    assert_string_equal(st_shape_text((st_shape){ .rank = 9 }).text, "[0, 0, 0, 0, 0, 0, 0, 0]");
    assert_string_equal(st_shape_text((st_shape){ .rank = -1 }).text, "[]");
    st_shape_string longest = st_shape_text(ST_SHAPE(LEAST, LEAST, LEAST, LEAST, LEAST, LEAST, LEAST, LEAST));
    assert_int_equal(strlen(longest.text), 8 * strlen("-9223372036854775808") + 7 * strlen(", ") + 2);
}

/* Oracle: the largest count of elements whose bytes a ptrdiff_t still counts, with a line to align. */
TEST(shapes_that_cannot_be_are_refused_by_name)
{
    const ptrdiff_t two_62 = (ptrdiff_t)1 << 62, two_32 = (ptrdiff_t)1 << 32;
    const ptrdiff_t too_many = MOST / (ptrdiff_t)sizeof(st_real), most = too_many - 64;
    expect_failure(st_shape_numel((st_shape){ .rank = 9 }, "who"), "who: rank 9, expected 0 to 8");
    expect_failure(st_shape_numel((st_shape){ .rank = -1 }, "who"), "who: rank -1, expected 0 to 8");

    const st_shape refused[] = { ST_SHAPE(-1),       ST_SHAPE(2, -3, 0),
                                 ST_SHAPE(two_62),   ST_SHAPE(two_62, 2),
                                 ST_SHAPE(too_many), ST_SHAPE(two_32, two_32),
                                 ST_SHAPE(MOST, 2),  ST_SHAPE(two_32, two_32, two_32, two_32, two_32),
                                 ST_SHAPE(LEAST),    ST_SHAPE(3, 6148914691236517206),
                                 ST_SHAPE(most + 1) };
    assert_int_equal(st_shape_numel(ST_SHAPE(most), "who"), most);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        expect_failure(st_shape_numel(refused[i], "who"), "who: ");
        expect_failure(st_shape_numel(refused[i], "who"), "%s", st_shape_text(refused[i]).text);
        expect_failure(st_tensor_new(refused[i]), "st_tensor_new: ");
        expect_failure(st_tensor_wrap(&(st_real){ 0 }, refused[i]), "st_tensor_wrap: ");
    }
}

TEST(a_batch_has_one_more_axis_if_there_is_room)
{
    const st_shape pair = st_shape_with_batch(ST_SHAPE(3, 4), 2);
    assert_true(st_shape_equal(pair, ST_SHAPE(2, 3, 4)));
    assert_true(st_shape_equal(st_shape_without_batch(pair), ST_SHAPE(3, 4)));
    const st_shape most = st_shape_with_batch(ST_SHAPE(1, 2, 3, 4, 5, 6, 7, 8), 9);
    assert_int_equal(most.rank, 9);
    assert_true(most.n[0] == 9 && most.n[1] == 1 && most.n[7] == 7);
    assert_int_equal(st_shape_without_batch((st_shape){ .rank = 0 }).rank, 0);
    expect_error("st_shape_without_batch: the shape has rank 0, expected 1 to 8");
    assert_int_equal(st_shape_with_batch((st_shape){ .rank = 9 }, 2).rank, 9);
    assert_int_equal(st_shape_with_batch((st_shape){ .rank = -1 }, 2).rank, -1);
}

/* An address has 47 or 56 bits, not 58. */
TEST(memory_that_is_not_there_is_an_error)
{
    const ptrdiff_t elements = ((ptrdiff_t)1 << 58) / (ptrdiff_t)sizeof(st_real);
    expect_failure(st_tensor_new(ST_SHAPE(elements)), "st_tensor_new: no memory for " ST_REAL_NAME " %s",
                   st_shape_text(ST_SHAPE(elements)).text);
}

/* ---- making and ending ----------------------------------------------------------------------- */

TEST(the_number_is_of_the_precision_that_is_named)
{
    assert_string_equal(ST_REAL_NAME, sizeof(st_real) == sizeof(float) ? "float32" : "float64");
    assert_true((st_real)1 + ST_REAL_EPSILON > 1);
    assert_true((st_real)((st_real)1 + ST_REAL_EPSILON / 2) == 1);
}

TEST(a_new_tensor_is_zeros_row_major_and_aligned)
{
    dice d = { { 1 } };
    for (int i = 0; i < 200; i++) {
        st_shape s = roll_shape(&d, 0, 8, 0, 3);
        about("shape %s", st_shape_text(s).text);
        auto_tensor x = st_tensor_new(s);
        assert_false(st_is_null(x));
        assert_true(st_shape_equal(x.shape, s));
        ptrdiff_t count = 1;
        for (int axis = 0; axis < s.rank; axis++) count *= s.n[axis];
        assert_int_equal(st_numel(x), count);
        assert_int_equal(st_shape_numel(s, ""), count);
        assert_int_equal((uintptr_t)st_data(x) % 64, 0);
        for (ptrdiff_t k = 0; k < st_numel(x); k++) {
            assert_ptr_equal(element(x, k), st_data(x) + k);
            assert_true(*element(x, k) == 0);
        }
    }
}

TEST(a_wrap_is_the_callers_memory)
{
    st_real data[6] = { 1, 2, 3, 4, 5, 6 };
    st_tensor x = st_tensor_wrap(data, ST_SHAPE(2, 3));
    assert_elements(x, 1, 2, 3, 4, 5, 6);
    assert_ptr_equal(st_data(x), data);
    *st_at(x, ST_INDEX(1, 0)) = 40;
    assert_true(data[3] == 40);
    st_tensor_free(x);
    assert_true(data[3] == 40);
}

TEST(a_wrap_of_nothing_holds_nothing)
{
    expect_failure(st_tensor_wrap(NULL, ST_SHAPE(2, 3)), "st_tensor_wrap: no data for shape [2, 3]");
    expect_failure(st_tensor_wrap(NULL, ST_SHAPE(1)), "st_tensor_wrap: no data for shape [1]");
    auto_tensor empty = st_tensor_wrap(NULL, ST_SHAPE(0, 3));
    assert_false(st_is_null(empty));
    assert_int_equal(st_numel(empty), 0);
}

TEST(a_clone_has_the_elements_and_its_own_storage)
{
    dice d = { { 2 } };
    for (int i = 0; i < 200; i++) {
        auto_tensor x = roll_view(&d, roll_shape(&d, 0, 4, 0, 4), NULL);
        roll_elements(&d, x, -9, 9);
        auto_tensor y = st_tensor_clone(x);
        assert_same(y, x);
        assert_true(st_is_contiguous(y));
        assert_false(st_shares_storage(x, y));
        assert_false(st_overlaps(x, y));
    }
}

/* Oracle: a leak or a second free is seen by the address sanitizer. */
TEST(a_storage_ends_through_any_view_of_it)
{
    st_tensor_free(st_flip(st_select(st_tensor_new(ST_SHAPE(2, 3)), 0, 1), 0));
    st_tensor_free((st_tensor){ 0 });
}

TEST(empty_tensors_are_tensors)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(3, 0, 2));
    assert_false(st_is_null(x));
    assert_int_equal(st_numel(x), 0);
    assert_true(st_is_contiguous(x));
    expect_failure(st_at(x, ST_INDEX(0, 0, 0)), "st_at: index [0, 0, 0] of a tensor [3, 0, 2]");
    auto_tensor y = st_tensor_clone(x);
    assert_shape(y, 3, 0, 2);
}

/* ---- places ---------------------------------------------------------------------------------- */

TEST(negative_indices_count_from_the_end)
{
    auto_tensor x = tensor_of(ST_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    for (ptrdiff_t i = 0; i < 2; i++)
        for (ptrdiff_t j = 0; j < 3; j++) {
            assert_true(*st_at(x, ST_INDEX(i, j)) == (st_real)(3 * i + j));
            assert_ptr_equal(st_at(x, ST_INDEX(i - 2, j)), st_at(x, ST_INDEX(i, j)));
            assert_ptr_equal(st_at(x, ST_INDEX(i, j - 3)), st_at(x, ST_INDEX(i, j)));
        }
}

TEST(an_index_outside_is_an_error_that_names_it)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 3));
    const st_shape outside[] = { ST_INDEX(2, 0),     ST_INDEX(0, 3), ST_INDEX(-3, 0),   ST_INDEX(0, -4),
                                 ST_INDEX(0),        { 0 },          ST_INDEX(0, 0, 0), ST_INDEX(MOST, 0),
                                 ST_INDEX(0, LEAST), { .rank = -1 } };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        expect_failure(st_at(x, outside[i]), "st_at: index %s of a tensor [2, 3]",
                       st_shape_text(outside[i]).text);
    }
}

TEST(an_item_is_the_value_of_the_only_element)
{
    auto_tensor x = tensor_of(ST_SHAPE(2, 3), 0, 1, 2, 3, 4, 5), one = st_tensor_new((st_shape){ 0 });
    assert_true(st_item(st_narrow(st_select(x, 0, 1), 0, 2, 1)) == 5);
    assert_true(st_item(st_select(st_select(x, 0, 1), 0, 0)) == 3);
    assert_true(st_item(one) == 0);
    assert_true(isnan(st_item(x)));
    expect_error("st_item: one element expected, the tensor is [2, 3]");
    assert_true(isnan(st_item(st_narrow(x, 0, 0, 0))));
    expect_error("st_item: one element expected, the tensor is [0, 3]");
}

/* Oracle: element k lies k places after the first. */
TEST(a_tensor_is_contiguous_when_its_elements_are)
{
    dice d = { { 3 } };
    auto_tensor whole = st_tensor_new(ST_SHAPE(60));
    int contiguous = 0;
    for (int i = 0; i < 20000; i++) {
        st_shape s = roll_shape(&d, 0, 3, 0, 3);
        st_tensor x = roll_strided(&d, whole, s);
        if (st_is_null(x)) continue;
        bool expected = true;
        for (ptrdiff_t k = 0; k < st_numel(x); k++)
            if (element(x, k) != st_data(x) + k) expected = false;
        assert_int_equal(st_is_contiguous(x), expected);
        contiguous += expected && st_numel(x) > 1;
    }
    assert_true(contiguous > 100);
}

/* ---- identity -------------------------------------------------------------------------------- */

TEST(views_share_a_storage_and_copies_do_not)
{
    st_real data[4] = { 0 };
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 3)), a = st_tensor_wrap(data, ST_SHAPE(4)),
                b = st_tensor_wrap(data, ST_SHAPE(4));
    st_tensor left = st_narrow(x, 1, 0, 1), right = st_narrow(x, 1, 2, 1);
    assert_true(st_shares_storage(x, left));
    assert_true(st_shares_storage(left, right)); /* one storage, and no place in common */
    assert_false(st_overlaps(left, right));
    assert_false(st_shares_storage(a, b)); /* two storages of the same memory */
    assert_true(st_overlaps(a, b));
    assert_false(st_shares_storage((st_tensor){ 0 }, (st_tensor){ 0 }));
    assert_false(st_overlaps((st_tensor){ 0 }, (st_tensor){ 0 }));
    assert_false(st_overlaps(x, (st_tensor){ 0 }));
}

static bool have_a_common_place(st_tensor a, st_tensor b)
{
    for (ptrdiff_t i = 0; i < st_numel(a); i++)
        for (ptrdiff_t j = 0; j < st_numel(b); j++)
            if (element(a, i) == element(b, j)) return true;
    return false;
}

/* Oracle: every place of one against every place of the other. The second view is of the same storage,
 * or of another one that wraps a part of the same memory. Of random views without a place in common that
 * could interleave, some are taken for overlapping: fewer than a third. */
TEST(views_that_do_not_overlap_have_no_place_in_common)
{
    dice d = { { 4 } };
    st_real data[40] = { 0 };
    auto_tensor whole = st_tensor_wrap(data, ST_SHAPE(40)), part = st_tensor_wrap(data + 13, ST_SHAPE(27));
    int outcomes[2] = { 0 }, within_reach = 0, in_vain = 0;
    for (int i = 0; i < 60000; i++) {
        int most = i % 2 ? 2 : 3;
        st_tensor a = roll_strided(&d, whole, roll_shape(&d, 0, most, 0, 4));
        st_tensor b = roll_strided(&d, chance(&d, 50) ? whole : part, roll_shape(&d, 0, most, 0, 4));
        if (st_is_null(a) || st_is_null(b)) continue;
        bool common = have_a_common_place(a, b), overlap = st_overlaps(a, b);
        if ((common && !overlap) || st_overlaps(b, a) != overlap)
            fail_msg("case %d: %s and %s overlap: expected %d", i, st_shape_text(a.shape).text,
                     st_shape_text(b.shape).text, common);
        outcomes[common]++;
        within_reach += !common && st_numel(a) > 3 && st_numel(b) > 3;
        in_vain += !common && overlap;
    }
    assert_true(outcomes[0] > 1000 && outcomes[1] > 1000 && within_reach > 500);
    assert_true(in_vain < within_reach / 3);
}

/* Interleaved views of a large storage: an answer from the strides, not from a million places. */
TEST(overlap_is_found_among_many_places)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(64, 64, 16, 16));
    st_tensor even = st_step(x, 3, 2);
    st_tensor odd = st_step(st_narrow(x, 3, 1, 15), 3, 2);
    assert_false(st_overlaps(even, odd));
    assert_false(st_overlaps(st_permute(even, ST_AXES(2, 0, 3, 1)), st_flip(odd, 1)));
    assert_true(st_overlaps(even, st_flip(even, 3)));
    assert_true(st_overlaps(st_select(x, 1, 63), st_select(x, 2, 15)));
    assert_false(st_overlaps(st_select(x, 3, 14), st_select(x, 3, 15)));
}

/* ---- failure --------------------------------------------------------------------------------- */

static st_real same(st_real x, void *context)
{
    return x;
}

static void nothing(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    fail_msg("a row of a null tensor");
}

#define is_refused(view, name)                                                                               \
    do {                                                                                                     \
        assert_true(st_is_null(view));                                                                       \
        expect_error(name ": the tensor is null");                                                           \
    } while (0)

TEST(nothing_moves_to_or_from_the_null_tensor)
{
    const st_tensor null = { 0 };
    auto_tensor x = tensor_of(ST_SHAPE(1, 1), 7);
    ptrdiff_t index[2] = { 0 };
    st_fill(null, 1), expect_error("st_fill: the tensor is null");
    st_scale(null, 2), expect_error("st_scale: the tensor is null");
    st_uniform(null, (st_random_key){ 0 }, 0, 1), expect_error("the tensor is null");
    st_normal(null, (st_random_key){ 0 }, 0, 1), expect_error("the tensor is null");
    st_argmax(index, null, ST_AXES(0)), expect_error("st_argmax: the tensor is null");
    st_walk(1, &null, ST_ANY_ORDER, nothing, NULL), expect_error("st_walk: the tensor is null");
    for (int side = 0; side < 2; side++) {
        st_tensor y = side ? x : null, z = side ? null : x;
        st_copy(y, z), expect_error("st_copy: the tensor is null");
        st_add(y, 1, z), expect_error("st_add: the tensor is null");
        st_mul(y, z), expect_error("st_mul: the tensor is null");
        st_map(y, same, NULL, z), expect_error("st_map: the tensor is null");
        st_sum(y, z, (st_axes){ 0 }), expect_error("st_sum: the tensor is null");
        st_mean(y, z, (st_axes){ 0 }), expect_error("st_mean: the tensor is null");
        st_max(y, z, (st_axes){ 0 }), expect_error("st_max: the tensor is null");
        st_scatter_add(y, index, z), expect_error("st_scatter_add: the tensor is null");
        st_gemm(y, 1, z, x, 0), expect_error("st_gemm: the tensor is null");
        st_gemm(y, 1, x, z, 0), expect_error("st_gemm: the tensor is null");
    }
    assert_elements(x, 7);
}

TEST(asking_about_the_null_tensor_is_no_failure)
{
    const st_tensor null = { 0 };
    assert_true(st_is_null(null));
    assert_int_equal(st_numel(null), 0);
    assert_null(st_data(null));
    assert_false(st_is_contiguous(null));
    assert_null(st_error());
    expect_failure(st_at(null, ST_INDEX(0)), "st_at: the tensor is null");
    assert_true(isnan(st_item(null)));
    expect_error("st_item: the tensor is null");
}

TEST(the_first_failure_of_a_chain_is_the_one_told)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 3));
    st_tensor bad = st_expand(st_flip(st_select(x, 1, 3), 5), ST_SHAPE(-1));
    assert_true(st_is_null(bad));
    st_add(x, 1, bad);
    st_gemm(bad, 1, x, x, 0);
    assert_string_equal(st_error(), "st_select: index 3 of axis 1 of [2, 3]");
    st_error_clear();
    assert_null(st_error());
}

TEST(an_error_stays_until_it_is_cleared)
{
    assert_int_equal(st_error_set("first %d", 1), -1);
    assert_int_equal(st_error_set("second"), -1);
    assert_string_equal(st_error(), "first 1");
    st_error_clear();
    assert_null(st_error());
}

TEST(where_it_happened_comes_before_what)
{
    assert_int_equal(st_error_within("layer %d: ", 3), -1);
    assert_null(st_error());
    st_error_set("no room");
    assert_int_equal(st_error_within("layer %d: ", 3), -1);
    assert_int_equal(st_error_within("net: "), -1);
    assert_string_equal(st_error(), "net: layer 3: no room");
    st_error_clear();
}

TEST(long_errors_are_cut)
{
    char text[2 * ST_ERROR_SIZE];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    st_error_set("%s", text);
    assert_int_equal(strlen(st_error()), ST_ERROR_SIZE - 1);
    st_error_within("within: ");
    assert_int_equal(strlen(st_error()), ST_ERROR_SIZE - 1);
    assert_memory_equal(st_error(), "within: xxx", strlen("within: xxx"));
    st_error_within("%s", text);
    assert_int_equal(strlen(st_error()), ST_ERROR_SIZE - 1);
    st_error_clear();
}

TEST(an_error_is_one_line)
{
    st_error_set("a\nb\t%s: é", "\x1b[2J\x7f");
    assert_string_equal(st_error(), "a?b??[2J?: é");
    st_error_within("%s", "");
    assert_string_equal(st_error(), "a?b??[2J?: é");
    st_error_within("%s: ", "a\rpath");
    assert_string_equal(st_error(), "a?path: a?b??[2J?: é");
    st_error_clear();
}

TEST(an_error_without_a_text_says_so)
{
    const char *const none[] = { NULL, "" };
    int (*const set)(const char *, ...) =
        st_error_set; /* without the check of formats that are no constants */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(set(none[i]), -1);
        assert_string_equal(st_error(), "error without a message");
        st_error_clear();
    }
    st_error_set("%s", "");
    assert_string_equal(st_error(), "error without a message");
    st_error_clear();
}

/* Leaves in `told` what went wrong: claims are made by the main thread alone. */
static void *fails_elsewhere(void *told)
{
    if (st_error()) return NULL;
    st_fill((st_tensor){ 0 }, 1);
    if (st_error()) strcpy(told, st_error());
    return NULL;
}

TEST(each_thread_has_its_own_error)
{
    enum { THREADS = 4 };
    char told[THREADS][ST_ERROR_SIZE] = { "" };
    pthread_t thread[THREADS];
    st_error_set("mine");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fails_elsewhere, told[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_string_equal(told[i], "st_fill: the tensor is null");
    }
    assert_string_equal(st_error(), "mine");
    st_error_clear();
}
