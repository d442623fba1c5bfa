/* test_print.c: what is printed is what NumPy prints.
 *
 * Oracle: NumPy 1.24.2. Every text expected here is str() of the array that stands beside it, made with
 * the dtype of this build, but for the two kinds of numbers where a comment says how NumPy's differs. */
#include "tests/support.h"
#include "tensor/print/print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef STRIDE_DOUBLE
#define BY_PRECISION(single, twice) twice
#else
#define BY_PRECISION(single, twice) single
#endif

/* ---- helpers --------------------------------------------------------------------------------- */

static char *format(st_tensor x)
{
    size_t length = st_format(NULL, 0, x);
    char *text = malloc(length + 1);
    assert_non_null(text);
    assert_int_equal(st_format(text, length + 1, x), length);
    assert_int_equal(strlen(text), length);
    return text;
}

static void prints(st_tensor x, const char *expected)
{
    char *text = format(x);
    assert_string_equal(text, expected);
    free(text);
    assert_null(st_error());
}

/* Checks what `prints` checks, and frees the storage. */
static void prints_and_ends(st_tensor x, const char *expected)
{
    prints(x, expected);
    st_tensor_free(x);
}

/* 0, 1, 2, … over `by`: np.arange(n) / by */
static st_tensor arange(st_shape s, st_real by)
{
    st_tensor x = st_tensor_new(s);
    for (ptrdiff_t i = 0; i < st_numel(x); i++) st_data(x)[i] = (st_real)i / by;
    return x;
}

static st_tensor number(st_real value)
{
    st_tensor x = st_tensor_new((st_shape){ .rank = 0 });
    st_fill(x, value);
    return x;
}

/* ---- rows of numbers ------------------------------------------------------------------------- */

typedef struct row_case {
    const char *claim;
    int n;
    st_real value[6];
    const char *expected;
} row_case;

static const row_case rows[] = {
    { "whole numbers end in a point", 3, { 1, 2, 3 }, "[1. 2. 3.]" },
    { "points stand under each other", 4, { 1, 2.5, 3.25, 100 }, "[  1.     2.5    3.25 100.  ]" },
    { "a sign widens the column", 3, { -1, 2, 3 }, "[-1.  2.  3.]" },
    { "and only where the widest number has it", 2, { -1, 20 }, "[-1. 20.]" },
    { "zero has a sign", 2, { 0, -0.0 }, "[ 0. -0.]" },
    { "shortest digits that read back", 3, { (st_real)0.1, (st_real)0.2, (st_real)0.3 }, "[0.1 0.2 0.3]" },
    { "shortest digits differ by precision",
      3,
      { (st_real)(1.0 / 3), (st_real)(2.0 / 3), 1 },
      BY_PRECISION("[0.33333334 0.6666667  1.        ]", "[0.33333333 0.66666667 1.        ]") },
    { "eight digits after the point, rounded", 2, { (st_real)0.123456789012, 1 }, "[0.12345679 1.        ]" },
    { "rounding may reach the whole part", 2, { (st_real)0.999999999999, 2.5 }, "[1.  2.5]" },
    { "rounding may lengthen the whole part", 2, { (st_real)9.9999999999, 2.5 }, "[10.   2.5]" },
    { "zeros that rounding leaves are cut", 2, { (st_real)0.12300000001, 1 }, "[0.123 1.   ]" },
    { "all whole digits, wanted or not", 2, { 33554436, 99999992 }, "[33554436. 99999992.]" },
    { "just below 1e8", 1, { 99999992 }, "[99999992.]" },
    { "1e8 is written with an exponent", 1, { (st_real)1e8 }, "[1.e+08]" },
    { "1e-4 is below 0.0001 as a float", 1, { (st_real)1e-4 }, BY_PRECISION("[1.e-04]", "[0.0001]") },
    { "below 1e-4", 2, { (st_real)9.9e-5, (st_real)0.01 }, "[9.9e-05 1.0e-02]" },
    { "zero is no reason for an exponent", 3, { 0, 0.5, 100 }, "[  0.    0.5 100. ]" },
    { "a ratio of 1000 has none", 2, { 1, 1000 }, "[   1. 1000.]" },
    { "a ratio above 1000 has one", 2, { 1, 1001 }, "[1.000e+00 1.001e+03]" },
    { "the ratio is one of sizes", 2, { -1001, 1 }, "[-1.001e+03  1.000e+00]" },
    { "mixed exponents", 3, { (st_real)1e-10, 1, (st_real)1e10 }, "[1.e-10 1.e+00 1.e+10]" },
    { "mantissas are as long as the longest",
      3,
      { 1, (st_real)1.5e-7, (st_real)123456789 },
      BY_PRECISION("[1.0000000e+00 1.5000001e-07 1.2345679e+08]",
                   "[1.00000000e+00 1.50000000e-07 1.23456789e+08]") },
    { "a longer mantissa shows digits that a short one hid",
      2,
      { (st_real)0.1, (st_real)1.2345678e-9 },
      "[1.0000000e-01 1.2345678e-09]" },
    { "mantissas stop at eight digits",
      2,
      { (st_real)1.2345678949e-9, 1 },
      BY_PRECISION("[1.2345679e-09 1.0000000e+00]", "[1.23456789e-09 1.00000000e+00]") },
    { "a mantissa may round to the next power", 2, { (st_real)9.99999999999e10, 1 }, "[1.e+11 1.e+00]" },
    { "exponent form with signs",
      3,
      { (st_real)(-1e10), (st_real)2.5e10, -0.0 },
      "[-1.0e+10  2.5e+10 -0.0e+00]" },
    { "nan takes a column", 2, { NAN, 1 }, "[nan  1.]" },
    { "infinities take a column", 3, { INFINITY, -INFINITY, 1.5 }, "[ inf -inf  1.5]" },
    { "a sign of infinity takes one more", 2, { -INFINITY, 1 }, "[-inf   1.]" },
    { "nan with an exponent beside it", 3, { NAN, (st_real)1e10, -INFINITY }, "[   nan 1.e+10   -inf]" },
    { "nothing finite", 2, { NAN, NAN }, "[nan nan]" },
    { "nothing finite, one sign", 3, { INFINITY, -INFINITY, NAN }, "[ inf -inf  nan]" },
    /* NumPy rounds a power of two up where that has a digit less and reads back: 1.2621775e-29. */
    { "digits are those of the nearest decimal", 2, { 0x1p-96, 0x1p87 }, "[1.26217745e-29 1.54742505e+26]" },
    /* NumPy writes 1.e+000 beside three digits. */
    { "three digits of exponent, where it needs them",
      3,
      { (st_real)BY_PRECISION(1e-45, 1e-300), (st_real)BY_PRECISION(3.4028235e+38, 1e+300), 1 },
      BY_PRECISION("[1.4012985e-45 3.4028235e+38 1.0000000e+00]", "[1.e-300 1.e+300  1.e+00]") },
    { "the ratio may overflow",
      2,
      { (st_real)BY_PRECISION(1e-38, 1e-300), (st_real)BY_PRECISION(1e+38, 1e+300) },
      BY_PRECISION("[1.e-38 1.e+38]", "[1.e-300 1.e+300]") },
};

TEST(rows_are_printed_as_numpy_does)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        auto_tensor x = st_tensor_new(ST_SHAPE(rows[i].n));
        memcpy(st_data(x), rows[i].value, (size_t)rows[i].n * sizeof(st_real));
        char *text = format(x);
        if (strcmp(text, rows[i].expected) != 0) {
            print_error("%s: \"%s\", expected \"%s\"\n", rows[i].claim, text, rows[i].expected);
            wrong++;
        }
        free(text);
    }
    assert_int_equal(wrong, 0);
}

/* ---- rank 0: a number as Python prints it ------------------------------------------------------ */

typedef struct number_case {
    st_real value;
    const char *expected;
} number_case;

static const number_case numbers[] = {
    { 0, "0.0" },
    { -0.0, "-0.0" },
    { 1, "1.0" },
    { -2.5, "-2.5" },
    { (st_real)0.1, "0.1" },
    { (st_real)(1.0 / 3), BY_PRECISION("0.33333334", "0.3333333333333333") },
    { 100000000, "100000000.0" },
    { (st_real)1e-4, BY_PRECISION("1e-04", "0.0001") },
    { (st_real)9.5e-5, "9.5e-05" },
    { (st_real)1e-5, "1e-05" },
    { (st_real)(-1.25e-7), "-1.25e-07" },
    { (st_real)1.5e16, "1.5e+16" },
    { (st_real)1e16, "1e+16" },
    { (st_real)1234567948959744, BY_PRECISION("1234568000000000.0", "1234567948959744.0") },
    { (st_real)9.9999e15, "9999900000000000.0" },
    { NAN, "nan" },
    { INFINITY, "inf" },
    { -INFINITY, "-inf" },
    /* NumPy: 1.2621775e-29, 8.209073602596753e-289 */
    { (st_real)BY_PRECISION(0x1p-96, 0x1p-957), BY_PRECISION("1.26217745e-29", "8.2090736025967525e-289") },
    { ST_REAL_MAX, BY_PRECISION("3.4028235e+38", "1.7976931348623157e+308") },
    { (st_real)BY_PRECISION(1e-45, 5e-324), BY_PRECISION("1e-45", "5e-324") },
};

TEST(rank_0_is_printed_as_a_number)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        prints_and_ends(number(numbers[i].value), numbers[i].expected);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

TEST(no_elements_are_a_pair_of_brackets)
{
    prints_and_ends(st_tensor_new(ST_SHAPE(0)), "[]");       /* np.zeros(0) */
    prints_and_ends(st_tensor_new(ST_SHAPE(3, 0, 2)), "[]"); /* np.zeros((3, 0, 2)) */
}

TEST(the_null_tensor_is_null)
{
    prints((st_tensor){ 0 }, "null");
}

TEST(rows_of_a_matrix_stand_under_each_other)
{
    /* np.arange(6).reshape(2, 3) / 2 */
    prints_and_ends(arange(ST_SHAPE(2, 3), 2), "[[0.  0.5 1. ]\n [1.5 2.  2.5]]");
    /* np.arange(2).reshape(2, 1) / -1 */
    prints_and_ends(arange(ST_SHAPE(2, 1), -1), "[[-0.]\n [-1.]]");
}

TEST(blocks_are_apart_by_one_line_an_axis)
{
    /* np.arange(8).reshape(2, 2, 2) */
    prints_and_ends(arange(ST_SHAPE(2, 2, 2), 1), "[[[0. 1.]\n  [2. 3.]]\n\n [[4. 5.]\n  [6. 7.]]]");
    /* np.zeros((1, 1, 1, 1, 1, 1, 1, 2)) */
    prints_and_ends(st_tensor_new(ST_SHAPE(1, 1, 1, 1, 1, 1, 1, 2)), "[[[[[[[[0. 0.]]]]]]]]");
}

/* ---- views ----------------------------------------------------------------------------------- */

TEST(views_are_printed_as_they_are_seen)
{
    auto_tensor x = arange(ST_SHAPE(3, 4), 4);    /* x = np.arange(12).reshape(3, 4) / 4 */
    auto_tensor y = arange(ST_SHAPE(2, 3, 4), 1); /* y = np.arange(24).reshape(2, 3, 4) */
    /* x.T */
    prints(st_transpose(x, 0, 1), "[[0.   1.   2.  ]\n"
                                  " [0.25 1.25 2.25]\n"
                                  " [0.5  1.5  2.5 ]\n"
                                  " [0.75 1.75 2.75]]");
    /* y.transpose(2, 0, 1) */
    prints(st_permute(y, ST_AXES(2, 0, 1)), "[[[ 0.  4.  8.]\n"
                                            "  [12. 16. 20.]]\n\n"
                                            " [[ 1.  5.  9.]\n"
                                            "  [13. 17. 21.]]\n\n"
                                            " [[ 2.  6. 10.]\n"
                                            "  [14. 18. 22.]]\n\n"
                                            " [[ 3.  7. 11.]\n"
                                            "  [15. 19. 23.]]]");
}

/* ---- lines ----------------------------------------------------------------------------------- */

TEST(long_rows_go_on_in_the_next_line)
{
    /* np.arange(30) */
    prints_and_ends(arange(ST_SHAPE(30), 1),
                    "[ 0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11. 12. 13. 14. 15. 16. 17.\n"
                    " 18. 19. 20. 21. 22. 23. 24. 25. 26. 27. 28. 29.]");
    /* np.arange(20) / 7 */
    prints_and_ends(arange(ST_SHAPE(20), 7),
                    BY_PRECISION("[0.         0.14285715 0.2857143  0.42857143 0.5714286  0.71428573\n"
                                 " 0.85714287 1.         1.1428572  1.2857143  1.4285715  1.5714285\n"
                                 " 1.7142857  1.8571428  2.         2.142857   2.2857144  2.4285715\n"
                                 " 2.5714285  2.7142856 ]",
                                 "[0.         0.14285714 0.28571429 0.42857143 0.57142857 0.71428571\n"
                                 " 0.85714286 1.         1.14285714 1.28571429 1.42857143 1.57142857\n"
                                 " 1.71428571 1.85714286 2.         2.14285714 2.28571429 2.42857143\n"
                                 " 2.57142857 2.71428571]"));
    /* np.arange(60).reshape(2, 1, 30) */
    prints_and_ends(arange(ST_SHAPE(2, 1, 30), 1),
                    "[[[ 0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11. 12. 13. 14. 15. 16.\n"
                    "   17. 18. 19. 20. 21. 22. 23. 24. 25. 26. 27. 28. 29.]]\n\n"
                    " [[30. 31. 32. 33. 34. 35. 36. 37. 38. 39. 40. 41. 42. 43. 44. 45. 46.\n"
                    "   47. 48. 49. 50. 51. 52. 53. 54. 55. 56. 57. 58. 59.]]]");
}

/* ---- summaries ------------------------------------------------------------------------------- */

TEST(more_than_a_thousand_are_summarised)
{
    st_tensor x = st_tensor_new(ST_SHAPE(1000));
    char *text = format(x);
    assert_null(strstr(text, "..."));
    free(text);
    st_tensor_free(x);
    /* np.arange(1001) */
    prints_and_ends(arange(ST_SHAPE(1001), 1), "[   0.    1.    2. ...  998.  999. 1000.]");
}

TEST(each_long_axis_shows_three_at_either_end)
{
    /* np.arange(1200).reshape(30, 40) / 8 */
    prints_and_ends(arange(ST_SHAPE(30, 40), 8),
                    "[[0.00000e+00 1.25000e-01 2.50000e-01 ... 4.62500e+00 4.75000e+00\n"
                    "  4.87500e+00]\n"
                    " [5.00000e+00 5.12500e+00 5.25000e+00 ... 9.62500e+00 9.75000e+00\n"
                    "  9.87500e+00]\n"
                    " [1.00000e+01 1.01250e+01 1.02500e+01 ... 1.46250e+01 1.47500e+01\n"
                    "  1.48750e+01]\n"
                    " ...\n"
                    " [1.35000e+02 1.35125e+02 1.35250e+02 ... 1.39625e+02 1.39750e+02\n"
                    "  1.39875e+02]\n"
                    " [1.40000e+02 1.40125e+02 1.40250e+02 ... 1.44625e+02 1.44750e+02\n"
                    "  1.44875e+02]\n"
                    " [1.45000e+02 1.45125e+02 1.45250e+02 ... 1.49625e+02 1.49750e+02\n"
                    "  1.49875e+02]]");
    /* np.arange(2400).reshape(2, 2, 600): the short axes whole */
    prints_and_ends(arange(ST_SHAPE(2, 2, 600), 1),
                    "[[[0.000e+00 1.000e+00 2.000e+00 ... 5.970e+02 5.980e+02 5.990e+02]\n"
                    "  [6.000e+02 6.010e+02 6.020e+02 ... 1.197e+03 1.198e+03 1.199e+03]]\n\n"
                    " [[1.200e+03 1.201e+03 1.202e+03 ... 1.797e+03 1.798e+03 1.799e+03]\n"
                    "  [1.800e+03 1.801e+03 1.802e+03 ... 2.397e+03 2.398e+03 2.399e+03]]]");
}

TEST(a_summary_reads_what_it_shows)
{
    /* np.broadcast_to(0.5, (1000000, 1000)): elements that are not shown are not read: this takes no time */
    auto_tensor y = number((st_real)0.5);
    prints(st_expand(y, ST_SHAPE(1000000, 1000)), "[[0.5 0.5 0.5 ... 0.5 0.5 0.5]\n"
                                                  " [0.5 0.5 0.5 ... 0.5 0.5 0.5]\n"
                                                  " [0.5 0.5 0.5 ... 0.5 0.5 0.5]\n"
                                                  " ...\n"
                                                  " [0.5 0.5 0.5 ... 0.5 0.5 0.5]\n"
                                                  " [0.5 0.5 0.5 ... 0.5 0.5 0.5]\n"
                                                  " [0.5 0.5 0.5 ... 0.5 0.5 0.5]]");
}

/* ---- where it goes --------------------------------------------------------------------------- */

TEST(format_cuts_as_snprintf_does)
{
    char text[16];
    auto_tensor x = arange(ST_SHAPE(3), 1); /* [0. 1. 2.], 10 characters */
    for (size_t size = 0; size <= 12; size++) {
        memset(text, '#', sizeof text);
        assert_int_equal(st_format(text, size, x), 10);
        size_t kept = size == 0 ? 0 : size <= 10 ? size - 1 : 10;
        assert_memory_equal(text, "[0. 1. 2.]", kept);
        if (size > 0) assert_int_equal(text[kept], '\0');
        assert_int_equal(text[size > 0 ? kept + 1 : 0], '#');
    }
}

TEST(print_writes_the_same_to_a_file)
{
    auto_tensor x = arange(ST_SHAPE(2, 2, 30), 7);
    char *expected = format(x);
    size_t length = strlen(expected);
    FILE *file = tmpfile();
    assert_non_null(file);
    st_print(file, x);
    assert_null(st_error());
    rewind(file);
    char *text = calloc(length + 2, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, length + 1, file), length);
    assert_string_equal(text, expected);
    fclose(file);
    free(text);
    free(expected);
}

TEST(a_file_that_refuses_is_an_error)
{
    FILE *file = fopen("/dev/null", "r");
    assert_non_null(file);
    st_print(file, (st_tensor){ 0 });
    expect_error("st_print: the file could not be written");
    fclose(file);
}
