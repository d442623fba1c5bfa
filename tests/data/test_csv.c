/* test_csv.c: tables of numbers as text become samples; errors name line and column. */
#define _POSIX_C_SOURCE 200809L
#include "tests/files.h"
#include "tests/support.h"

#include "nn/data/formats.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

/* The first number of a table, one target for each text. */
static st_real first_number(const char *text)
{
    char line[256];
    int length = snprintf(line, sizeof line, "%s,1\n", text);
    st_dataset *d = st_dataset_csv(written("number.csv", (bytes){ (size_t)length, line }), .targets = 1,
                                   .header = ST_CSV_NO_HEADER);
    st_tensor x = st_tensor_new(ST_SHAPE(1)), y = st_tensor_new(ST_SHAPE(1));
    if (d) d->get(d, 0, x, y);
    st_real value = d ? *st_data(y) : (st_real)NAN;
    st_tensor_free(x), st_tensor_free(y), st_dataset_free(d);
    return value;
}

/* Oracle: the C library's strtod, which rounds to the nearest. */
static void assert_number(const char *text)
{
    st_real value = first_number(text), expected = (st_real)strtod(text, NULL);
    about("%s", text);
    if (isinf(expected)) expect_error("too large");
    else if (memcmp(&value, &expected, sizeof value) != 0)
        fail_msg("%s: %a, expected %a", text, (double)value, (double)expected);
}

SETUP(enter_folder)

TEST(numbers_are_read_to_the_nearest)
{
    /* clang-format off */
    static const char *const texts[] = {
        "0", "-0", "+0", "00012", "1.", ".5", "-.5e1", "0.1", "1E+05", "1e-05", "1e309", "9007199254740993",
        "1.00000000000000011102230246251565404236316680908203125",
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) assert_number(texts[i]);
}

TEST(what_is_no_number_is_refused)
{
    static const char *const texts[] = { "",     "+",     "-",    ".",   "-.",   "e5",   ".e5", "1e",  "1e+",
                                         "1e5.", "0x10",  "nan",  "NaN", "inf",  "-inf", "1f",  "1_0", "--1",
                                         "+-1",  "1.2.3", "1e5e", "1-",  "1e--", "1e 5", "½" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        about("\"%s\"", texts[i]);
        assert_true(isnan(first_number(texts[i])));
        expect_error("number.csv: line 1, column 1: ");
    }
}

TEST(the_locale_does_not_matter)
{
    if (!enter_comma_locale()) skip();
    assert_true(strtod("0,5", NULL) == 0.5);
    st_real plain = first_number("-0.5"), small = first_number("1.25e-30"), comma = first_number("\"0,5\"");
    assert_true(strtod("0,5", NULL) == 0.5); /* the locale is as it was */
    setlocale(LC_ALL, "C");
    assert_true(plain == (st_real)-0.5 && small == (st_real)1.25e-30 && isnan(comma));
    expect_error("0,5");
}

/* ---- tables that are right ------------------------------------------------------------------- */

/* x and y of all samples. */
typedef struct all {
    st_tensor x, y;
} all;

static all read_file(const char *path, st_csv_options options)
{
    st_dataset *d = st_dataset_csv_new(path, options);
    if (!d) fail_msg("%s", st_error());
    all a = { st_tensor_new(st_shape_with_batch(d->x, d->count)),
              st_tensor_new(st_shape_with_batch(d->target, d->count)) };
    assert_int_equal(st_dataset_batch(d, NULL, 0, d->count, a.x, a.y), 0);
    st_dataset_free(d);
    return a;
}

static all read_text(const char *text, st_csv_options options)
{
    return read_file(written("table.csv", (bytes){ strlen(text), text }), options);
}

static void end(all a)
{
    st_tensor_free(a.x), st_tensor_free(a.y);
}

TEST(a_line_is_a_class_and_its_features)
{
    all a = read_text("2,0.5,-1\n0,1e2,+3.25\n", (st_csv_options){ 0 });
    assert_shape(a.x, 2, 2);
    assert_shape(a.y, 2);
    assert_elements(a.x, 0.5, -1, 100, 3.25);
    assert_elements(a.y, 2, 0);
    end(a);
}

TEST(any_column_may_be_the_class)
{
    static const double x[][4] = { { 2, 3, 5, 6 }, { 1, 3, 4, 6 }, { 1, 2, 4, 5 } };
    static const double y[][2] = { { 1, 4 }, { 2, 5 }, { 3, 6 } };
    for (int column = -3; column < 3; column++) {
        about("column %d", column);
        all a = read_text("1,2,3\n4,5,6\n", (st_csv_options){ .label = column });
        st_tensor xs = tensor_of_list(ST_SHAPE(2, 2), 4, x[(column + 3) % 3]);
        st_tensor ys = tensor_of_list(ST_SHAPE(2), 2, y[(column + 3) % 3]);
        assert_same(a.x, xs);
        assert_same(a.y, ys);
        st_tensor_free(xs), st_tensor_free(ys), end(a);
    }
}

TEST(targets_are_columns_too)
{
    all a = read_text("1.5,2,3,4\n-5,6,7,8\n", (st_csv_options){ .targets = 1 });
    assert_shape(a.y, 2, 1);
    assert_elements(a.y, 1.5, -5);
    assert_elements(a.x, 2, 3, 4, 6, 7, 8);
    end(a);
    a = read_text("1.5,2,3,4\n-5,6,7,8\n", (st_csv_options){ .label = -2, .targets = 2, .scale = 10 });
    assert_shape(a.y, 2, 2);
    assert_elements(a.y, 3, 4, 7, 8);
    assert_elements(a.x, 15, 20, -50, 60);
    end(a);
    a = read_text("1.5,2,3,4\n-5,6,7,8\n", (st_csv_options){ .label = 1, .targets = 2 });
    assert_elements(a.y, 2, 3, 6, 7);
    assert_elements(a.x, 1.5, 4, -5, 8);
    end(a);
    a = read_text("1.5,2\n-5,6\n", (st_csv_options){ .targets = ST_CSV_UNLABELLED });
    assert_shape(a.y, 2);
    assert_elements(a.y, 0, 0);
    assert_elements(a.x, 1.5, 2, -5, 6);
    end(a);
}

TEST(features_may_be_images)
{
    all a = read_text("label,1x1,1x2,1x3,2x1,2x2,2x3\n7,0,51,102,153,204,255\n1,255,0,0,0,0,0\n",
                      (st_csv_options){ .image = ST_SHAPE(1, 2, 3), .scale = 1.0 / 255 });
    assert_shape(a.x, 2, 1, 2, 3);
    st_tensor expected = tensor_of(ST_SHAPE(2, 1, 2, 3), 0, 0.2, 0.4, 0.6, 0.8, 1, 1, 0, 0, 0, 0, 0);
    assert_near(a.x, expected, ST_REAL_EPSILON);
    assert_elements(a.y, 7, 1);
    st_tensor_free(expected), end(a);
}

typedef struct form {
    const char *text;
    st_csv_options options;
} form;

/* All of one table: classes 3 and 4, features 1, 2 and 5, 6. */
static const form forms[] = {
    { "3,1,2\n4,5,6\n" },
    { "3,1,2\n4,5,6" },
    { "3,1,2\r\n4,5,6\r\n" },
    { "3,1,2\r\n4,5,6\r" },
    { "\xef\xbb\xbf"
      "3,1,2\n4,5,6\n" },
    { "\n\n3,1,2\n\n\r\n4,5,6\n\n \n" },
    { " 3 , 1\t,2 \n\t4,5 , 6\n" },
    { "\"3\",\"1\",\"2\"\n\"4\",5,\"6\"\n" },
    { " \"3\" ,1, \"2\"\r\n4,5,6" },
    { "class,a,b\n3,1,2\n4,5,6\n" },
    { "\xef\xbb\xbf\"class, \"\"or so\"\"\",\"a b\",\"\"\n3,1,2\n4,5,6\n" },
    { "class,,\n3,1,2\n4,5,6\n" },
    { "class,a,b\n3,1,2\n4,5,6\n", { .header = ST_CSV_HEADER } },
    { "0,1,2\n3,1,2\n4,5,6\n", { .header = ST_CSV_HEADER } },
    { "class,1,b\n3,1,2\n4,5,6\n", { .header = ST_CSV_HEADER } },
    { "3,1,2\n4,5,6\n", { .header = ST_CSV_NO_HEADER } },
    { "3;1;2\n4;5;6\n", { .delimiter = ';' } },
    { "3\t1\t2\r\n4\t 5\t6\n", { .delimiter = '\t' } },
    { "c\ta b\tb\n3\t1\t2\n4\t5 \t6\n", { .delimiter = '\t' } },
    { "3 1 2\n4 5 6\n", { .delimiter = ' ' } },
    { "  3   1\t 2  \r\n\n   \n4 5 6 ", { .delimiter = ' ' } },
    { "c \"a b\" d\n3 \"1\"  2\n4 5 6", { .delimiter = ' ' } },
    { "3|1|2\n4|5|6\n", { .delimiter = '|' } },
    { "3\xff"
      "1\xff"
      "2\n4\xff"
      "5\xff"
      "6\n",
      { .delimiter = '\xff' } },
};

TEST(a_table_may_be_written_in_many_ways)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        about("table %zu: %s", i, forms[i].text);
        const bytes text = { strlen(forms[i].text), forms[i].text };
        for (int zip = 0; zip < 2; zip++) {
            all a = read_file((zip ? zipped : written)("table.csv", text), forms[i].options);
            assert_shape(a.x, 2, 2);
            assert_elements(a.x, 1, 2, 5, 6);
            assert_elements(a.y, 3, 4);
            end(a);
        }
    }
}

/* Oracle: the numbers that were written. More than zlib reads at once. */
TEST(a_long_table_arrives_whole)
{
    enum { ROWS = 700, COLUMNS = 101 };
    char *text = malloc(ROWS * COLUMNS * 30);
    size_t used = 0;
    assert_non_null(text);
    auto_tensor x = st_tensor_new(ST_SHAPE(ROWS, COLUMNS - 1));
    st_normal(x, (st_random_key){ 8 }, 0, 100);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLUMNS - 1; j++)
            used += (size_t)sprintf(text + used, "%.17g,", (double)*st_at(x, ST_INDEX(i, j)));
        used += (size_t)sprintf(text + used, "%d\n", i % 10);
    }
    for (int zip = 0; zip < 2; zip++) {
        all a = read_file((zip ? zipped : written)("long.csv", (bytes){ used, text }),
                          (st_csv_options){ .label = -1 });
        assert_same(a.x, x);
        for (int i = 0; i < ROWS; i++) assert_true(st_data(a.y)[i] == (st_real)(i % 10));
        end(a);
    }
    free(text);
}

/* ---- tables that are wrong ------------------------------------------------------------------- */

typedef struct bad_table {
    bytes text;
    st_csv_options options;
    const char *expected;
} bad_table;

#define HUNDRED(x) TEN(TEN(x))
#define TEN(x) x x x x x x x x x x

/* clang-format off */
static const bad_table bad_tables[] = {
    { STRING(""), { 0 }, ": no numbers" },
    { STRING("\n\r\n  \n"), { 0 }, ": no numbers" },
    { STRING("a,b,c\n"), { 0 }, ": no numbers after the header" },
    { STRING("1,2,3\n"), { .header = ST_CSV_HEADER }, ": no numbers after the header" },
    { STRING("1,2,x\n3,4,5\n"), { 0 }, ": line 1, column 3: \"x\" is not a number" },
    { STRING("\n1,,3\n3,4,5\n"), { 0 }, ": line 2, column 2: \"\" is not a number" },
    { STRING("1,2,x\n3,4,5\n"), { .header = ST_CSV_NO_HEADER }, ": line 1, column 3: \"x\" is not a number" },
    { STRING("a,b,c\n1,2,3\n"), { .header = ST_CSV_NO_HEADER }, ": line 1, column 1: \"a\" is not a number" },
    { STRING("1,2,3\n4,5\n"), { 0 }, ": line 2: 2" },
    { STRING("1,2,3\n4,5,6,7\n"), { 0 }, ": line 2: 4" },
    { STRING("1,2,3\n4,5,6,\n"), { 0 }, ": line 2: 4" },
    { STRING("a,b\n4,5,6\n"), { 0 }, ": line 2: 3" },
    { STRING("1,2,3\n\n4\n"), { 0 }, ": line 3: 1" },
    { STRING("1,2,3\n4,,6\n"), { 0 }, ": line 2, column 2: empty" },
    { STRING("1,2,3\n4,5,\n"), { 0 }, ": line 2, column 3: empty" },
    { STRING("1,2,3\n4,\"\",6\n"), { 0 }, ": line 2, column 2: empty" },
    { STRING("1,2,3\n4,nan,6\n"), { 0 }, ": line 2, column 2: \"nan\" is not a number" },
    { STRING("1,2,3\n4,1e999,6\n"), { 0 }, ": line 2, column 2: 1e999" },
    { STRING("1,2,3\n4,1e308,6\n"), { .scale = 1e10 }, ": line 2, column 2: 1e308" },
    { STRING("1,2\n3,4 5\n"), { 0 }, ": line 2, column 2: \"4 5\" is not a number" },
    { STRING("1,2\n3,4\0\n"), { 0 }, ": line 2, column 2: \"4?\" is not a number" },
    { STRING("1,2\n3,4\0005\n"), { 0 }, ": line 2, column 2: \"4?5\" is not a number" },
    { STRING("1,2\n3,\1\x80\x7fz\n"), { 0 }, ": line 2, column 2: \"???z\" is not a number" },
    { STRING("1,2\n3,abcdefghijklmnopqrstuvwxyzabcdef\n"), { 0 },
      "\"abcdefghijklmnopqrstuvwxyzabcdef\" is not a number" },
    { STRING("1,2\n3," HUNDRED("1x") "\n"), { 0 }, "1x..." },
    { STRING("1,2\n3,4\"5\"\n"), { 0 }, ": line 2, column 2: \"4\"5\"\" is not a number" },
    { STRING("1,2\n3,\"4\"5\n"), { 0 }, ": line 2, column 2: text after the closing quote" },
    { STRING("1,2\n3,\"4\n5,6\n"), { 0 }, ": line 2, column 2: missing closing quote" },
    { STRING("1,2\n3,\"4"), { 0 }, ": line 2, column 2: missing closing quote" },
    { STRING("1,2\n-3,4\n"), { 0 }, ": line 2, column 1: class -3, " },
    { STRING("1,2\n1.5,4\n"), { 0 }, ": line 2, column 1: class 1.5" },
    { STRING("1,2\n3,16777217\n"), { .label = -1 }, ": line 2, column 2: class 16777217" },
    { STRING("1,2\n3,4\n"), { .label = 2 }, "column 2" },
    { STRING("1,2\n3,4\n"), { .label = -3 }, "column -3" },
    { STRING("1,2\n3,4\n"), { .label = 1, .targets = 2 }, "column 1" },
    { STRING("1,2\n3,4\n"), { .targets = 2 }, ": no column of features" },
    { STRING("1\n2\n"), { 0 }, ": no column of features" },
    { STRING("1,2,3\n"), { .image = { 3, { 1, 1, 3 } } },
      "[1, 1, 3]" },
    { STRING("1,2,3\n"), { .image = { 1, { -2 } } }, "image: negative size in shape [-2]" },
    { STRING("1,2\n"), { .delimiter = ';' }, ": no column of features" },
    { STRING("1,2\n\xef\xbb\xbf" "3,4\n"), { 0 }, ": line 2, column 1: \"???3\" is not a number" },
    { STRING("\xef\xbb,1\n"), { 0 }, ": line 1, column 1: \"??\" is not a number" },
    { STRING("1 2\n3  4 5\n"), { .delimiter = ' ' }, ": line 2: 3" },
    { STRING("1 2\n3 \"4\"5\n"), { .delimiter = ' ' }, ": line 2, column 2: text after the closing quote" },
};
/* clang-format on */

TEST(broken_tables_are_refused)
{
    for (size_t i = 0; i < sizeof bad_tables / sizeof *bad_tables; i++) {
        const bad_table *b = &bad_tables[i];
        for (int zip = 0; zip < 2; zip++) {
            about("table %zu: %s", i, (const char *)b->text.at);
            st_dataset *d = st_dataset_csv_new((zip ? zipped : written)("bad.csv", b->text), b->options);
            if (b->options.image.rank == 1) expect_refused(d, "st_dataset_csv", b->expected);
            else expect_refused(d, path_of("bad.csv"), b->expected);
        }
    }
}

TEST(options_are_refused)
{
    const char *path = written("table.csv", BYTES("1,2\n"));
    static const char delimiters[] = "+-.0123456789eE\"\r\n";
    for (const char *c = delimiters; *c; c++)
        expect_null(st_dataset_csv(path, .delimiter = *c),
                    "st_dataset_csv: delimiter '%c' can be part of a number, quotes or the end of a line",
                    *c < ' ' ? '?' : *c);
    expect_null(st_dataset_csv(path, .targets = -2), "st_dataset_csv: -2 targets");
    expect_null(st_dataset_csv(path, .scale = INFINITY), "st_dataset_csv: the scale is not finite");
    expect_null(st_dataset_csv(path, .image = { .rank = 8 }), "st_dataset_csv: an image of rank 8");
}
