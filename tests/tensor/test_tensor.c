/* test_tensor.c: what a tensor is: shapes, storages and their ends, places, identity, errors. */
#include "tests/support.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

static const ptrdiff_t MOST = PTRDIFF_MAX;
static const ptrdiff_t LEAST = PTRDIFF_MIN;

/* ---- shapes ---------------------------------------------------------------------------------- */

static void shapes_are_equal_when_rank_and_sizes_are(void **state)
{
    (void)state;
    assert_true(shape_equal(SHAPE(2, 3), SHAPE(2, 3)));
    assert_false(shape_equal(SHAPE(2, 3), SHAPE(3, 2)));
    assert_false(shape_equal(SHAPE(2, 3), SHAPE(2, 3, 1)));
    assert_true(shape_equal((shape){ 0 }, (shape){ .n = { 7 } })); /* what lies beyond the rank is nothing */
}

static void shapes_print_as_lists(void **state)
{
    (void)state;
    assert_string_equal(shape_text((shape){ 0 }).text, "[]");
    assert_string_equal(shape_text(SHAPE(7)).text, "[7]");
    assert_string_equal(shape_text(SHAPE(64, 1, 28, 28)).text, "[64, 1, 28, 28]");
    assert_string_equal(shape_text((shape){ .rank = 9 }).text, "[0, 0, 0, 0, 0, 0, 0, 0]");
    assert_string_equal(shape_text((shape){ .rank = -1 }).text, "[]");
    shape_string longest = shape_text(SHAPE(LEAST, LEAST, LEAST, LEAST, LEAST, LEAST, LEAST, LEAST));
    assert_int_equal(strlen(longest.text), 8 * strlen("-9223372036854775808") + 7 * strlen(", ") + 2);
}

static void a_count_is_the_product_of_the_sizes(void **state)
{
    (void)state;
    assert_int_equal(shape_count((shape){ 0 }, "count"), 1);
    assert_int_equal(shape_count(SHAPE(2, 3, 4), "count"), 24);
    assert_int_equal(shape_count(SHAPE(2, 0, 4), "count"), 0);
    assert_int_equal(shape_count(SHAPE(1, 1, 1, 1, 1, 1, 1, 5), "count"), 5);
}

/* Oracle: the largest count of elements whose bytes a ptrdiff_t still counts, with a line to align. */
static void shapes_that_cannot_be_are_refused_by_name(void **state)
{
    (void)state;
    const ptrdiff_t two_62 = (ptrdiff_t)1 << 62, two_32 = (ptrdiff_t)1 << 32;
    const ptrdiff_t too_many = MOST / (ptrdiff_t)sizeof(real);
    assert_int_equal(shape_count((shape){ .rank = 9 }, "who"), -1);
    expect_error("who: rank 9, expected 0 to 8");
    assert_int_equal(shape_count((shape){ .rank = -1 }, "who"), -1);
    expect_error("who: rank -1, expected 0 to 8");

    const shape refused[] = { SHAPE(-1),       SHAPE(2, -3, 0),
                              SHAPE(two_62),   SHAPE(two_62, 2),
                              SHAPE(too_many), SHAPE(two_32, two_32),
                              SHAPE(MOST, 2),  SHAPE(two_32, two_32, two_32, two_32, two_32),
                              SHAPE(LEAST),    SHAPE(3, 6148914691236517206) };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(shape_count(refused[i], "who"), -1);
        expect_error("who: ");
        assert_int_equal(shape_count(refused[i], "who"), -1);
        expect_error("%s", shape_text(refused[i]).text);
        assert_true(tensor_is_null(tensor_new(refused[i])));
        expect_error("tensor_new: ");
        assert_true(tensor_is_null(tensor_wrap(&(real){ 0 }, refused[i])));
        expect_error("tensor_wrap: ");
    }
}

/* An address has 47 or 56 bits, not 58. */
static void memory_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    const ptrdiff_t elements = ((ptrdiff_t)1 << 58) / (ptrdiff_t)sizeof(real);
    assert_true(tensor_is_null(tensor_new(SHAPE(elements))));
    expect_error("tensor_new: no memory for " REAL_NAME " %s", shape_text(SHAPE(elements)).text);
}

/* ---- making and ending ----------------------------------------------------------------------- */

static void the_number_is_of_the_precision_that_is_named(void **state)
{
    (void)state;
    assert_string_equal(REAL_NAME, sizeof(real) == sizeof(float) ? "float32" : "float64");
    assert_true((real)1 + REAL_EPSILON > 1);
    assert_true((real)((real)1 + REAL_EPSILON / 2) == 1);
}

static void a_new_tensor_is_zeros_row_major_and_aligned(void **state)
{
    (void)state;
    dice d = { { 1 } };
    for (int i = 0; i < 200; i++) {
        shape s = roll_shape(&d, 0, 8, 0, 3);
        about("shape %s", shape_text(s).text);
        tensor x = tensor_new(s);
        assert_false(tensor_is_null(x));
        assert_true(shape_equal(x.shape, s));
        assert_int_equal(tensor_count(x), shape_count(s, ""));
        assert_int_equal((uintptr_t)tensor_data(x) % 64, 0);
        for (ptrdiff_t k = 0; k < tensor_count(x); k++) {
            assert_ptr_equal(element(x, k), tensor_data(x) + k);
            assert_true(*element(x, k) == 0);
        }
        tensor_free(x);
    }
}

static void a_wrap_is_the_callers_memory(void **state)
{
    (void)state;
    real data[6] = { 1, 2, 3, 4, 5, 6 };
    tensor x = tensor_wrap(data, SHAPE(2, 3));
    assert_elements(x, 1, 2, 3, 4, 5, 6);
    assert_ptr_equal(tensor_data(x), data);
    *tensor_at(x, INDEX(1, 0)) = 40;
    assert_true(data[3] == 40);
    tensor_free(x);
    assert_true(data[3] == 40);
}

static void a_wrap_of_nothing_holds_nothing(void **state)
{
    (void)state;
    assert_true(tensor_is_null(tensor_wrap(NULL, SHAPE(2, 3))));
    expect_error("tensor_wrap: no data for shape [2, 3]");
    tensor empty = tensor_wrap(NULL, SHAPE(0, 3));
    assert_false(tensor_is_null(empty));
    assert_int_equal(tensor_count(empty), 0);
    tensor_free(empty);
}

static void a_clone_has_the_elements_and_its_own_storage(void **state)
{
    (void)state;
    dice d = { { 2 } };
    for (int i = 0; i < 200; i++) {
        tensor x = roll_view(&d, roll_shape(&d, 0, 4, 0, 4), NULL);
        roll_elements(&d, x, -9, 9);
        tensor y = tensor_clone(x);
        assert_same(y, x);
        assert_true(tensor_is_contiguous(y));
        assert_false(tensor_shares_storage(x, y));
        assert_false(tensor_overlaps(x, y));
        tensor_free(x);
        tensor_free(y);
    }
}

/* Oracle: a leak or a second free is seen by the address sanitizer. */
static void a_storage_ends_through_any_view_of_it(void **state)
{
    (void)state;
    tensor_free(tensor_flip(tensor_select(tensor_new(SHAPE(2, 3)), 0, 1), 0));
    tensor_free((tensor){ 0 });
}

static void empty_tensors_are_tensors(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(3, 0, 2));
    assert_false(tensor_is_null(x));
    assert_int_equal(tensor_count(x), 0);
    assert_true(tensor_is_contiguous(x));
    assert_null(tensor_at(x, INDEX(0, 0, 0)));
    expect_error("tensor_at: index [0, 0, 0] of a tensor [3, 0, 2]");
    tensor y = tensor_clone(x);
    assert_shape(y, 3, 0, 2);
    tensor_free(x);
    tensor_free(y);
}

/* ---- places ---------------------------------------------------------------------------------- */

static void negative_indices_count_from_the_end(void **state)
{
    (void)state;
    tensor x = tensor_of(SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    for (ptrdiff_t i = 0; i < 2; i++)
        for (ptrdiff_t j = 0; j < 3; j++) {
            assert_true(*tensor_at(x, INDEX(i, j)) == (real)(3 * i + j));
            assert_ptr_equal(tensor_at(x, INDEX(i - 2, j)), tensor_at(x, INDEX(i, j)));
            assert_ptr_equal(tensor_at(x, INDEX(i, j - 3)), tensor_at(x, INDEX(i, j)));
        }
    tensor_free(x);
}

static void an_index_outside_is_an_error_that_names_it(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(2, 3));
    const shape outside[] = { INDEX(2, 0), INDEX(0, 3),    INDEX(-3, 0),   INDEX(0, -4),    INDEX(0),
                              { 0 },       INDEX(0, 0, 0), INDEX(MOST, 0), INDEX(0, LEAST), { .rank = -1 } };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        assert_null(tensor_at(x, outside[i]));
        expect_error("tensor_at: index %s of a tensor [2, 3]", shape_text(outside[i]).text);
    }
    tensor_free(x);
}

static void an_item_is_the_value_of_the_only_element(void **state)
{
    (void)state;
    tensor x = tensor_of(SHAPE(2, 3), 0, 1, 2, 3, 4, 5), one = tensor_new((shape){ 0 });
    assert_true(tensor_item(tensor_narrow(tensor_select(x, 0, 1), 0, 2, 1)) == 5);
    assert_true(tensor_item(tensor_select(tensor_select(x, 0, 1), 0, 0)) == 3);
    assert_true(tensor_item(one) == 0);
    assert_true(isnan(tensor_item(x)));
    expect_error("tensor_item: one element expected, the tensor is [2, 3]");
    assert_true(isnan(tensor_item(tensor_narrow(x, 0, 0, 0))));
    expect_error("tensor_item: one element expected, the tensor is [0, 3]");
    tensor_free(x);
    tensor_free(one);
}

/* Oracle: element k lies k places after the first. */
static void a_tensor_is_contiguous_when_its_elements_are(void **state)
{
    (void)state;
    dice d = { { 3 } };
    tensor whole = tensor_new(SHAPE(60));
    int contiguous = 0;
    for (int i = 0; i < 20000; i++) {
        shape s = roll_shape(&d, 0, 3, 0, 3);
        tensor x = roll_strided(&d, whole, s);
        if (tensor_is_null(x)) continue;
        bool expected = true;
        for (ptrdiff_t k = 0; k < tensor_count(x); k++)
            if (element(x, k) != tensor_data(x) + k) expected = false;
        assert_int_equal(tensor_is_contiguous(x), expected);
        contiguous += expected && tensor_count(x) > 1;
    }
    assert_true(contiguous > 100);
    tensor_free(whole);
}

/* ---- identity -------------------------------------------------------------------------------- */

static void views_share_a_storage_and_copies_do_not(void **state)
{
    (void)state;
    real data[4] = { 0 };
    tensor x = tensor_new(SHAPE(2, 3)), a = tensor_wrap(data, SHAPE(4)), b = tensor_wrap(data, SHAPE(4));
    tensor left = tensor_narrow(x, 1, 0, 1), right = tensor_narrow(x, 1, 2, 1);
    assert_true(tensor_shares_storage(x, left));
    assert_true(tensor_shares_storage(left, right)); /* one storage, and no place in common */
    assert_false(tensor_overlaps(left, right));
    assert_false(tensor_shares_storage(a, b)); /* two storages of the same memory */
    assert_true(tensor_overlaps(a, b));
    assert_false(tensor_shares_storage((tensor){ 0 }, (tensor){ 0 }));
    assert_false(tensor_overlaps((tensor){ 0 }, (tensor){ 0 }));
    assert_false(tensor_overlaps(x, (tensor){ 0 }));
    tensor_free(x);
    tensor_free(a);
    tensor_free(b);
}

static bool have_a_common_place(tensor a, tensor b)
{
    for (ptrdiff_t i = 0; i < tensor_count(a); i++)
        for (ptrdiff_t j = 0; j < tensor_count(b); j++)
            if (element(a, i) == element(b, j)) return true;
    return false;
}

/* Oracle: every place of one against every place of the other. The second view is of the same storage,
 * or of another one that wraps a part of the same memory. */
static void overlap_is_a_place_in_common(void **state)
{
    (void)state;
    dice d = { { 4 } };
    real data[40] = { 0 };
    tensor whole = tensor_wrap(data, SHAPE(40)), part = tensor_wrap(data + 13, SHAPE(27));
    int outcomes[2] = { 0 }, within_reach = 0;
    for (int i = 0; i < 60000; i++) {
        int most = i % 2 ? 2 : 3;
        tensor a = roll_strided(&d, whole, roll_shape(&d, 0, most, 0, 4));
        tensor b = roll_strided(&d, chance(&d, 50) ? whole : part, roll_shape(&d, 0, most, 0, 4));
        if (tensor_is_null(a) || tensor_is_null(b)) continue;
        bool expected = have_a_common_place(a, b);
        if (tensor_overlaps(a, b) != expected || tensor_overlaps(b, a) != expected)
            fail_msg("case %d: %s and %s overlap: expected %d", i, shape_text(a.shape).text,
                     shape_text(b.shape).text, expected);
        outcomes[expected]++;
        within_reach += !expected && tensor_count(a) > 3 && tensor_count(b) > 3;
    }
    assert_true(outcomes[0] > 1000 && outcomes[1] > 1000 && within_reach > 500);
    tensor_free(whole);
    tensor_free(part);
}

/* Interleaved views of a large storage: an answer from the strides, not from a million places. */
static void overlap_is_found_among_many_places(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(64, 64, 16, 16)), even = tensor_step(x, 3, 2);
    tensor odd = tensor_step(tensor_narrow(x, 3, 1, 15), 3, 2);
    assert_false(tensor_overlaps(even, odd));
    assert_false(tensor_overlaps(tensor_permute(even, AXES(2, 0, 3, 1)), tensor_flip(odd, 1)));
    assert_true(tensor_overlaps(even, tensor_flip(even, 3)));
    assert_true(tensor_overlaps(tensor_select(x, 1, 63), tensor_select(x, 2, 15)));
    assert_false(tensor_overlaps(tensor_select(x, 2, 14), tensor_select(x, 2, 15)));
    tensor_free(x);
}

/* ---- failure --------------------------------------------------------------------------------- */

static real same(real x, void *context)
{
    (void)context;
    return x;
}

static void nothing(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)n, (void)at, (void)stride, (void)context;
    fail_msg("a row of a null tensor");
}

#define is_refused(view, name)                                                                               \
    do {                                                                                                     \
        assert_true(tensor_is_null(view));                                                                   \
        expect_error(name ": the tensor is null");                                                           \
    } while (0)

static void every_view_of_the_null_tensor_is_null_and_says_so(void **state)
{
    (void)state;
    const tensor null = { 0 };
    const ptrdiff_t stride[1] = { 1 };
    is_refused(tensor_clone(null), "tensor_clone");
    is_refused(tensor_select(null, 0, 0), "tensor_select");
    is_refused(tensor_narrow(null, 0, 0, 0), "tensor_narrow");
    is_refused(tensor_step(null, 0, 1), "tensor_step");
    is_refused(tensor_flip(null, 0), "tensor_step");
    is_refused(tensor_permute(null, (axes){ 0 }), "tensor_permute");
    is_refused(tensor_transpose(null, 0, 0), "tensor_transpose");
    is_refused(tensor_expand(null, SHAPE(1)), "tensor_expand");
    is_refused(tensor_window(null, 0, 1, 1, 1), "tensor_window");
    is_refused(tensor_split(null, 0, 1), "tensor_split");
    is_refused(tensor_merge(null, 0), "tensor_merge");
    is_refused(tensor_reshape(null, SHAPE(1)), "tensor_reshape");
    is_refused(tensor_as_strided(null, SHAPE(1), stride, 0), "tensor_as_strided");
}

static void nothing_moves_to_or_from_the_null_tensor(void **state)
{
    (void)state;
    const tensor null = { 0 };
    tensor x = tensor_of(SHAPE(1, 1), 7);
    ptrdiff_t index[2] = { 0 };
    tensor_fill(null, 1), expect_error("tensor_fill: the tensor is null");
    tensor_scale(null, 2), expect_error("tensor_scale: the tensor is null");
    tensor_argmax(index, null, AXES(0)), expect_error("tensor_argmax: the tensor is null");
    tensor_walk(1, &null, TENSOR_ANY_ORDER, nothing, NULL), expect_error("tensor_walk: the tensor is null");
    for (int side = 0; side < 2; side++) {
        tensor y = side ? x : null, z = side ? null : x;
        tensor_copy(y, z), expect_error("tensor_copy: the tensor is null");
        tensor_add(y, 1, z), expect_error("tensor_add: the tensor is null");
        tensor_multiply(y, z), expect_error("tensor_multiply: the tensor is null");
        tensor_map(y, same, NULL, z), expect_error("tensor_map: the tensor is null");
        tensor_sum(y, z, (axes){ 0 }), expect_error("tensor_sum: the tensor is null");
        tensor_mean(y, z, (axes){ 0 }), expect_error("tensor_mean: the tensor is null");
        tensor_max(y, z, (axes){ 0 }), expect_error("tensor_max: the tensor is null");
        tensor_scatter_add(y, index, z), expect_error("tensor_scatter_add: the tensor is null");
        tensor_gemm(y, 1, z, x, 0), expect_error("tensor_gemm: the tensor is null");
        tensor_gemm(y, 1, x, z, 0), expect_error("tensor_gemm: the tensor is null");
    }
    assert_elements(x, 7);
    tensor_free(x);
}

static void asking_about_the_null_tensor_is_no_failure(void **state)
{
    (void)state;
    const tensor null = { 0 };
    assert_true(tensor_is_null(null));
    assert_int_equal(tensor_count(null), 0);
    assert_null(tensor_data(null));
    assert_false(tensor_is_contiguous(null));
    assert_null(error_text());
    assert_null(tensor_at(null, INDEX(0)));
    expect_error("tensor_at: the tensor is null");
    assert_true(isnan(tensor_item(null)));
    expect_error("tensor_item: the tensor is null");
}

static void the_first_failure_of_a_chain_is_the_one_told(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(2, 3));
    tensor bad = tensor_expand(tensor_flip(tensor_select(x, 1, 3), 5), SHAPE(-1));
    assert_true(tensor_is_null(bad));
    tensor_add(x, 1, bad);
    tensor_gemm(bad, 1, x, x, 0);
    assert_string_equal(error_text(), "tensor_select: index 3 of axis 1 of [2, 3]");
    error_clear();
    assert_null(error_text());
    tensor_free(x);
}

static void an_error_stays_until_it_is_cleared(void **state)
{
    (void)state;
    assert_null(error_text());
    assert_int_equal(error_set("first %d", 1), -1);
    assert_int_equal(error_set("second"), -1);
    assert_string_equal(error_text(), "first 1");
    error_clear();
    assert_null(error_text());
    assert_int_equal(error_set("third"), -1);
    assert_string_equal(error_text(), "third");
    error_clear();
}

static void where_it_happened_comes_before_what(void **state)
{
    (void)state;
    assert_int_equal(error_within("layer %d: ", 3), -1);
    assert_null(error_text());
    error_set("no room");
    assert_int_equal(error_within("layer %d: ", 3), -1);
    assert_int_equal(error_within("net: "), -1);
    assert_string_equal(error_text(), "net: layer 3: no room");
    error_clear();
}

static void long_errors_are_cut(void **state)
{
    (void)state;
    char text[2 * ERROR_SIZE];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set("%s", text);
    assert_int_equal(strlen(error_text()), ERROR_SIZE - 1);
    error_within("within: ");
    assert_int_equal(strlen(error_text()), ERROR_SIZE - 1);
    assert_memory_equal(error_text(), "within: xxx", strlen("within: xxx"));
    error_within("%s", text);
    assert_int_equal(strlen(error_text()), ERROR_SIZE - 1);
    error_clear();
}

static void an_error_is_one_line(void **state)
{
    (void)state;
    error_set("a\nb\t%s: é", "\x1b[2J\x7f");
    assert_string_equal(error_text(), "a?b??[2J?: é");
    error_within("%s: ", "a\rpath");
    assert_string_equal(error_text(), "a?path: a?b??[2J?: é");
    error_clear();
}

/* Leaves in `told` what went wrong: claims are made by the main thread alone. */
static void *fails_elsewhere(void *told)
{
    if (error_text()) return NULL;
    tensor_fill((tensor){ 0 }, 1);
    if (error_text()) strcpy(told, error_text());
    return NULL;
}

static void each_thread_has_its_own_error(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    char told[THREADS][ERROR_SIZE] = { "" };
    pthread_t thread[THREADS];
    error_set("mine");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fails_elsewhere, told[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_string_equal(told[i], "tensor_fill: the tensor is null");
    }
    assert_string_equal(error_text(), "mine");
    error_clear();
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        CLAIM(shapes_are_equal_when_rank_and_sizes_are),
        CLAIM(shapes_print_as_lists),
        CLAIM(a_count_is_the_product_of_the_sizes),
        CLAIM(shapes_that_cannot_be_are_refused_by_name),
        CLAIM(memory_that_is_not_there_is_an_error),
        CLAIM(the_number_is_of_the_precision_that_is_named),
        CLAIM(a_new_tensor_is_zeros_row_major_and_aligned),
        CLAIM(a_wrap_is_the_callers_memory),
        CLAIM(a_wrap_of_nothing_holds_nothing),
        CLAIM(a_clone_has_the_elements_and_its_own_storage),
        CLAIM(a_storage_ends_through_any_view_of_it),
        CLAIM(empty_tensors_are_tensors),
        CLAIM(negative_indices_count_from_the_end),
        CLAIM(an_index_outside_is_an_error_that_names_it),
        CLAIM(an_item_is_the_value_of_the_only_element),
        CLAIM(a_tensor_is_contiguous_when_its_elements_are),
        CLAIM(views_share_a_storage_and_copies_do_not),
        CLAIM(overlap_is_a_place_in_common),
        CLAIM(overlap_is_found_among_many_places),
        CLAIM(every_view_of_the_null_tensor_is_null_and_says_so),
        CLAIM(nothing_moves_to_or_from_the_null_tensor),
        CLAIM(asking_about_the_null_tensor_is_no_failure),
        CLAIM(the_first_failure_of_a_chain_is_the_one_told),
        CLAIM(an_error_stays_until_it_is_cleared),
        CLAIM(where_it_happened_comes_before_what),
        CLAIM(long_errors_are_cut),
        CLAIM(an_error_is_one_line),
        CLAIM(each_thread_has_its_own_error),
    };
    return cmocka_run_group_tests(claims, NULL, NULL);
}
