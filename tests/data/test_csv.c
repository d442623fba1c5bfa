/* test_csv.c: tables of numbers as text become samples; errors name line and column. */
#define _POSIX_C_SOURCE 200809L
#include "tests/files.h"
#include "tests/support.h"

#include "nn/data/formats.h"
#include "nn/data/normalize.h"
#include "nn/data/sets.h"
#include "nn/data/table.h"
#include "nn/files/metadata.h"
#include "nn/files/save.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    if (!enter_comma_locale())
        skip_because("no locale with a decimal comma is installed, nor can localedef make one");
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
    { "3;1;2\n4;5;6\n" }, /* found */
    { "class;a,b;c\n3;1;2\n4;5;6\n" },
    { "3\t1\t2\n4\t5\t6\n" },
    { "class\ta, b; b\tc\n3\t1\t2\n4\t5\t6\n" },
    { "\"a;b;c\",d,e\n3,1,2\n4,5,6\n" },
    { "3,1,2,\n4,5,6,\n" }, /* a delimiter at the end of each line */
    { "class,a,b,\r\n3,1,2,\r\n4,5,6, \r\n" },
    { "\"class\",\"a\",\"b\"\n\"1\",3,1,2\n\"2\",4,5,6\n" }, /* names of rows, as R writes them */
    { "\"class\" \"a\" \"b\"\n\"1\" 3 1 2\n\"2\" 4 5 6\n", { .delimiter = ' ' } },
    { "class,\"a\nb\",c\n3,1,2\n4,5,6\n" },
    { "1,2,class\n1,2,3\n5,6,4\n", { .label = -1, .header = ST_CSV_HEADER } },
    { "a,b,class\n1,2,3\n5,6,4\n", { .label_name = "class" } },
    { "a,b,class\n1,2,3\n5,6,4\n", { .label_name = "-1" } },
    { "class,x,a,b\n3,9,1,2\n4,9,5,6\n", { .features = "a,b" } },
    { "class,x,a1,a2\n3,?,1,2\n4,word,5,6\n", { .features = "a?" } },
    { "3,9,1,2\n4,9,5,6\n", { .features = "2,-1" } },
    { "x,1,class,2\nu,1,3,2\nv,5,4,6\n", { .features = "1,3", .label = 2, .header = ST_CSV_HEADER } },
    { "class,a,b\n3,1,2\n0,,2\n,1,2\n4,5,6\n", { .missing = ST_CSV_DROP } },
    { "3.0,1,2\n4.,5,6\n" },
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
    { STRING("\n1,,3\n3,4,5\n"), { 0 }, ": line 2, column 2: missing value \"\"; " },
    { STRING("1,2,x\n3,4,5\n"), { .header = ST_CSV_NO_HEADER }, ": line 1, column 3: \"x\" is not a number" },
    { STRING("a,b,c\n1,2,3\n"), { .header = ST_CSV_NO_HEADER }, ": line 1, column 2: \"b\" is not a number" },
    { STRING("1,2,3\n4,5\n"), { 0 }, ": line 2: 2" },
    { STRING("1,2,3\n4,5,6,7\n"), { 0 }, ": line 2: 4" },
    { STRING("1,2,3\n4,5,6,\n"), { 0 }, ": line 2: 4" },
    { STRING("a,b\n4,5,6\n"), { 0 }, ": line 2: 3" },
    { STRING("1,2,3\n\n4\n"), { 0 }, ": line 3: 1" },
    { STRING("1,2,3\n4,,6\n"), { 0 }, ": line 2, column 2: missing value \"\"; the missing option " },
    { STRING("1,2,3\n4,5,\n"), { 0 }, ": line 2, column 3: missing value \"\"; the missing option " },
    { STRING("1,2,3\n4,\"\",6\n"), { 0 }, ": line 2, column 2: missing value \"\"; the missing option " },
    { STRING("1,2,3\n4,nan,6\n"), { 0 }, ": line 2, column 2: missing value \"nan\"; " },
    { STRING("1,2,3\n4,1e999,6\n"), { 0 }, ": line 2, column 2: 1e999" },
    { STRING("1,2,3\n4,1e308,6\n"), { .scale = 1e10 }, ": line 2, column 2: 1e308" },
    { STRING("1,2\n3,4 5\n"), { 0 }, ": line 2, column 2: \"4 5\" is not a number" },
    { STRING("1,2\n3,4\0\n"), { 0 }, ": line 2: a zero byte" },
    { STRING("1,2\n3,4\0005\n"), { 0 }, ": line 2: a zero byte" },
    { STRING("1,2\n3,\1\x80\x7fz\n"), { 0 }, ": line 2, column 2: \"???z\" is not a number" },
    { STRING("1,2\n3,größe\xe2\x80\xae\xc3\n"), { 0 },
      ": line 2, column 2: \"größe????\" is not a number" },
    { STRING("1;2\n3;-2,5\n"), { 0 },
      ": line 2, column 2: \"-2,5\" is not a number; numbers have a decimal point" },
    { STRING("\"a\" \"b\"\n1 2\n"), { 0 },
      ": line 1, column 1: text after the closing quote; if blanks separate columns, the" },
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
    { STRING("1\n2\n"), { 0 }, ": no column of features: one column" },
    { STRING("1.5|2.5|u\n2|3|v\n"), { 0 },
      ": no column of features: one column, as the first line has no comma" },
    { STRING("1,2,3\n"), { .image = { 3, { 1, 1, 3 } } },
      ": 2 features, expected 3 for samples [1, 1, 3]" },
    { STRING("1,2\n"), { .image = { 3, { 1, 1, 3 } } },
      ": 1 feature, expected 3 for samples [1, 1, 3]" },
    { STRING("1,2,3\n"), { .image = { 1, { -2 } } }, "image: negative size in shape [-2]" },
    { STRING("1,2\n"), { .delimiter = ';', .header = ST_CSV_NO_HEADER }, ": no column of features" },
    { STRING("1,2\n\xef\xbb\xbf" "3,4\n"), { .targets = 1 }, ": line 2, column 1: \"???3\" is not a number" },
    { STRING("\xef\xbb,1\n"), { .targets = 1 }, ": line 1, column 1: \"??\" is not a number" },
    { STRING("1 2\n3  4 5\n"), { .delimiter = ' ' }, ": line 2: 3" },
    { STRING("1 2\n3 \"4\"5\n"), { .delimiter = ' ' }, ": line 2, column 2: text after the closing quote" },
    { STRING("a,b\n1,2,0\n1,3,1\n"), { .label = -1 }, ": line 2: 3 columns, the header names 2" },
    { STRING("a,b,c,d\n1,2,0\n1,3,1\n"), { .label = -1 }, ": line 2: 3 columns, the header names 4" },
    { STRING("a,b\n\"1\",2,0\n\"2\",3\n"), { .label = -1 }, ": line 3: 2 columns, expected 3" },
    { STRING("a,b\n1,2\n3\n"), { 0 }, ": line 3: 1 column, expected 2" },
    { STRING("y,a,a\n0,1,2\n"), { 0 }, ": columns 2 and 3 are both named a" },
    { STRING("a,y,a\n0,1,2\n"), { .features = "a", .label = 1 }, ": columns 1 and 3 are both named a" },
    { STRING("a,y,a\n0,1,2\n"), { .label_name = "a" }, ": columns 1 and 3 are both named a" },
    { STRING("a,b\n0,1\n"), { .label_name = "x" }, ": no column x; the columns are a, b" },
    { STRING("a,b\n0,1\n"), { .features = "b,bb" }, ": no column bb; the columns are a, b" },
    { STRING("a,b\n0,1\n"), { .features = "*z" }, ": no column *z" },
    { STRING("0,1\n"), { .label_name = "x" },
      ": label: expected a column's number, not \"x\": the table has no header" },
    { STRING("0,1\n"), { .label_name = "4294967296" },
      ": label: column 4294967296, the table has 2 columns" },
    { STRING("0,1\n"), { .features = "2" }, ": features: column 2, the table has 2 columns" },
    { STRING("0,1\n"), { .features = "0" }, ": no column of features" },
    { STRING("0,1\n"), { .features = "0,1", .label = ST_CSV_FIND_LABEL }, ": every column is a feature" },
    { STRING("y,a\n0,1\n,2\n"), { 0 },
      ": line 3, column 1, y: missing value \"\"; the missing option leaves out the row" },
    { STRING("y,a\n0,1\n,2\n"), { .missing = ST_CSV_MEAN }, ": line 3, column 1, y: missing value \"\"" },
    { STRING("y,a\nu,1\nNA,2\n"), { 0 }, ": line 3, column 1, y: missing value \"NA\"" },
    { STRING("0,?\n1,NA\n"), { .missing = ST_CSV_MEAN }, ": feature 0 is missing in every row" },
    { STRING("0,?\n1,NA\n"), { .missing = ST_CSV_DROP }, ": a value is missing in every row" },
    { STRING("0,1,\n1,2,\n1,2,3\n"), { 0 }, ": line 3, column 3: a value, the first row has none" },
    { STRING("0,0x1p3\n"), { 0 }, ": line 1, column 2: \"0x1p3\" is not a number" },
    { STRING("0;1,5\n"), { 0 }, ": line 1, column 2: \"1,5\" is not a number" },
    { STRING("0,\"1,000\"\n"), { 0 }, ": line 1, column 2: \"1,000\" is not a number" },
    { STRING("y,a,b\n\"two\nlines\",1,\"2\n\"\nz,1\n"), { 0 }, ": line 5: 2 columns, expected 3" },
    { STRING("y,a\n\"two\nlines\",x\n"), { 0 }, ": line 2, column 2, a: \"x\" is not a number" },
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

static void hear(void *heard, const char *name, ptrdiff_t columns, const char *const *names)
{
    snprintf(heard, 40, "%s of %td: %s, %s", name, columns, names[0], names[columns - 1]);
}

TEST(a_name_that_no_column_has_is_told_with_those_that_there_are)
{
    char heard[40] = "";
    const char *path = written("named.csv", BYTES("a,b,c\n0,1,2\n"));
    expect_failure(st_dataset_csv(path, .label_name = "bb", .no_column = hear, .context = heard),
                   "named.csv: no column bb; the columns are a, b, c");
    assert_string_equal(heard, "bb of 3: a, c");
    expect_failure(st_dataset_csv(path, .features = "*d", .no_column = hear, .context = heard),
                   "no column *d");
    assert_string_equal(heard, "*d of 3: a, c");
    auto_dataset *d = st_dataset_csv(path, .label_name = "b", .no_column = NULL);
    assert_int_equal(d->count, 1);
    unlink(path);
}

/* A terabyte of zeros, at its first bytes. */
TEST(a_table_without_an_end_is_refused)
{
    const char *path = written("endless.csv", BYTES("1,2\n"));
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    expect_failure(st_dataset_csv(path), "endless.csv: line 2: a zero byte, expected text in UTF-8");
    unlink(path);
}

TEST(options_are_refused)
{
    const char *path = written("table.csv", BYTES("1,2\n"));
    static const char delimiters[] = "+-.0123456789eE\"\r\n";
    for (const char *c = delimiters; *c; c++)
        expect_failure(st_dataset_csv(path, .delimiter = *c),
                       "st_dataset_csv: delimiter '%c' can be part of a number, quotes or the end of a line",
                       *c < ' ' ? '?' : *c);
    expect_failure(st_dataset_csv(path, .targets = -2), "st_dataset_csv: -2 targets, expected at least 0");
    expect_failure(st_dataset_csv(path, .scale = INFINITY),
                   "st_dataset_csv: scale is inf, expected a finite number");
    expect_failure(st_dataset_csv(path, .image = { .rank = 8 }), "st_dataset_csv: an image of rank 8");
    expect_failure(st_dataset_csv(path, .missing = (st_csv_missing)3),
                   "st_dataset_csv: missing is 3, expected 0 to 2");
    expect_failure(st_dataset_csv(path, .header = (st_csv_header)-1),
                   "st_dataset_csv: header is -1, expected 0 to 2");
    expect_failure(st_dataset_csv(path, .like = &(st_table){ .features = 1 }, .features = "1"),
                   "like and features");
}

/* ---- classes by name --------------------------------------------------------------------------- */

static st_dataset *table_of(const char *text, st_csv_options options)
{
    st_dataset *d = st_dataset_csv_new(written("table.csv", (bytes){ strlen(text), text }), options);
    if (!d) fail_msg("%s", st_error());
    return d;
}

/* The classes of a set, as names in a line. */
static const char *names_of(const st_dataset *d)
{
    static char text[256];
    const st_table *t = st_dataset_table(d);
    int used = 0;
    text[0] = '\0';
    for (ptrdiff_t c = 0; c < t->classes; c++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s", c ? "|" : "", t->class_name[c]);
    return text;
}

static void assert_classes(const char *text, st_csv_options options, const char *names, int count,
                           const int *class)
{
    st_dataset *d = table_of(text, options);
    about("%s", text);
    assert_string_equal(names_of(d), names);
    assert_int_equal(d->count, count);
    for (int i = 0; i < count; i++) {
        st_tensor x = st_tensor_new(d->x), y = st_tensor_new(d->target);
        d->get(d, i, x, y);
        assert_true(st_item(y) == (st_real) class[i]);
        st_tensor_free(x), st_tensor_free(y);
    }
    st_dataset_free(d);
}

TEST(classes_may_be_words)
{
    const st_csv_options numbers = { .name_numbers = true };
    assert_classes("b,1\na b,2\n\"a, b\",3\nb,4\n", (st_csv_options){ 0 }, "a b|a, b|b", 4,
                   (int[]){ 2, 0, 1, 2 });
    assert_classes("10,1\n9,2\nx,3\n", (st_csv_options){ 0 }, "10|9|x", 3, (int[]){ 0, 1, 2 });
    assert_classes("2,1\n0,2\n", (st_csv_options){ 0 }, "", 2, (int[]){ 2, 0 });
    assert_classes("1,1\n0,2\n", numbers, "", 2, (int[]){ 1, 0 });
    assert_classes("10,1\n9,2\n9.0,3\n", numbers, "9|10", 3, (int[]){ 1, 0, 0 });
    assert_classes("1,1\n-1,2\n", numbers, "-1|1", 2, (int[]){ 1, 0 });
    assert_classes("16777217,1\n16777218,2\n", numbers, "16777217|16777218", 2, (int[]){ 0, 1 });
    assert_classes("7,1\n7,2\n", numbers, "7", 2, (int[]){ 0, 0 });
}

/* ---- the column of the label -------------------------------------------------------------------- */

TEST(the_label_is_found)
{
    static const struct {
        const char *text, *features;
        int label;
    } cases[] = {
        { "0,1,0\n1,5,7\n", NULL, 0 },     { "0.5,1,0\n1,5,1\n", NULL, 2 }, { "5,1,0\n5,2,1\n", NULL, 2 },
        { "a,1,u\nb,5,v\n", "1", 2 },      { "u,1,2\nv,5,7\n", NULL, 0 },   { "u,1,0\nv,5,1\n", "1", 2 },
        { "2,1,7\n3,5,8\n", NULL, 0 },     { "0.5,1,7\n3,5,8\n", NULL, 2 }, { "9,8,3\n7,6,2\n", "0,2", 1 },
        { "1,0,2.5\n2,1,3\n", "-1,0", 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        about("%s", cases[i].text);
        st_dataset *d = table_of(
            cases[i].text, (st_csv_options){ .label = ST_CSV_FIND_LABEL, .features = cases[i].features });
        assert_int_equal(st_dataset_table(d)->label, cases[i].label);
        st_dataset_free(d);
    }
}

/* 600 rows of each class: a class of more than 255 rows is one class. */
TEST(classes_have_any_number_of_rows)
{
    enum { ROWS = 1200, LONGEST = 16 };
    char text[ROWS * LONGEST] = "";
    int length = 0;
    for (int i = 0; i < ROWS; i++) length += snprintf(text + length, LONGEST, "%d,%d\n", 5 * (i % 7), i % 2);
    auto_dataset *d = table_of(text, (st_csv_options){ .label = ST_CSV_FIND_LABEL, .name_numbers = true });
    assert_int_equal(st_dataset_table(d)->label, 1);
    assert_int_equal(st_dataset_table(d)->classes, 0);
}

/* ---- missing values ------------------------------------------------------------------------------- */

TEST(missing_values_are_means)
{
    static const char text[] = "y,a,b\n0,1,10\n1,NA,20\n2,4, ?\n3,n/a,\"\"\n4,NaN,null\n";
    st_dataset *d = table_of(text, (st_csv_options){ .missing = ST_CSV_MEAN, .scale = 2 });
    const st_table *t = st_dataset_table(d);
    assert_true(t->filled == 6 && t->dropped == 0 && t->fill[0] == 2.5 && t->fill[1] == 15);
    all a = read_text(text, (st_csv_options){ .missing = ST_CSV_MEAN, .scale = 2 });
    assert_elements(a.x, 2, 20, 5, 40, 8, 30, 5, 30, 5, 30);
    end(a);
    a = read_text("b,a\n,1\n3,\n", (st_csv_options){ .like = t, .targets = ST_CSV_UNLABELLED });
    assert_elements(a.x, 1, 15, 2.5, 3); /* the means of the table that was learnt from */
    end(a), st_dataset_free(d);
    d = table_of(text, (st_csv_options){ .missing = ST_CSV_DROP });
    assert_true(st_dataset_table(d)->dropped == 4 && d->count == 1 && !st_dataset_table(d)->fill);
    st_dataset_free(d);
}

/* In double: another column has digits that float does not hold. */
TEST(the_mean_of_a_constant_is_exact)
{
    static const char text[] =
        "0,.1,1700000001\n1,.1,1700000002\n2,.1,1700000003\n3,.1,4\n4,.1,5\n5,.1,6\n6,?,7\n";
    auto_dataset *d = table_of(text, (st_csv_options){ .missing = ST_CSV_MEAN });
    st_normalization *n = st_normalization_measure(d);
    assert_true(st_dataset_table(d)->fill[0] == 0.1 && n->deviation[0] == 0);
    st_normalization_free(n);
}

/* ---- large numbers ------------------------------------------------------------------------------- */

/* Oracle: the mean of 1700000000 to 1700000004 is 1700000002, the deviation the root of 2. */
TEST(large_numbers_keep_their_digits)
{
    static const char text[] =
        "0,1700000000,1\n1,1700000001,1\n0,1700000002,1\n1,1700000003,1\n0,1700000004,1\n";
    auto_dataset *d = table_of(text, (st_csv_options){ 0 }), *part = st_dataset_slice(d, 0, 5);
    st_normalization *n = st_normalization_measure(part);
    assert_true(n->mean[0] == 1700000002 && fabs(n->deviation[0] - sqrt(2)) < 1e-15);
    auto_dataset *normal = st_dataset_normalize(part, n);
    auto_tensor x = st_tensor_new(ST_SHAPE(5, 2)), y = st_tensor_new(ST_SHAPE(5));
    assert_int_equal(st_dataset_batch(normal, NULL, 0, 5, x, y), 0);
    for (int i = 0; i < 5; i++)
        assert_true(*st_at(x, ST_INDEX(i, 0)) == (st_real)((i - 2) / n->deviation[0]));
    st_normalization_free(n);
}

/* ---- another table ------------------------------------------------------------------------------- */

TEST(tables_are_read_like_another)
{
    st_dataset *d = table_of("label,a,b,z\nno,1,2,0\nyes,3,4,1\n",
                             (st_csv_options){ .features = "a,b", .label_name = "label" });
    const st_table *t = st_dataset_table(d);
    assert_true(t->columns == 4 && t->features == 2 && t->classes == 2 && t->column[1] == 2 &&
                t->targets == 0);
    assert_string_equal(t->label_name, "label");
    assert_string_equal(t->feature[1], "b");
    st_dataset *part = st_dataset_slice(d, 1, 1);
    assert_ptr_equal(st_dataset_table(part), t);
    st_dataset *again = st_dataset_slice(part, 0, 1);
    assert_ptr_equal(st_dataset_table(again), t);
    assert_null(st_dataset_table(NULL));
    assert_string_equal(part->prepared, "columns a, b to label");
    st_dataset_free(again), st_dataset_free(part);
    all a = read_text("z,b,extra,a,label\n0,4,x,3,yes\n", (st_csv_options){ .like = t });
    assert_elements(a.x, 3, 4);
    assert_elements(a.y, 1);
    end(a);
    a = read_text("b,a\n4,3\n", (st_csv_options){ .like = t, .targets = ST_CSV_UNLABELLED });
    assert_elements(a.x, 3, 4);
    end(a);
    const struct {
        const char *text, *expected;
        st_csv_options o;
    } bad[] = {
        { "b,label\n4,yes\n", "no column a; the columns are b, label", { 0 } },
        { "a,b\n4,3\n", "no column label", { 0 } },
        { "a,b,label\n4,3,maybe\n",
          "line 2, column 3, label: class maybe, expected one of the net's",
          { 0 } },
        { "a,b,label\n4,3,yes\n", "label: a is a feature of the net", { .label_name = "a" } },
        { "a,b,a,label\n4,3,2,yes\n", "columns 1 and 3 are both named a", { 0 } },
        { "1,2,3\n", "3 columns, the net's table has 4, of which 2 are features", { 0 } },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        st_csv_options o = bad[i].o;
        o.like = t;
        expect_failure(st_dataset_csv_new(written("t.csv", (bytes){ strlen(bad[i].text), bad[i].text }), o),
                       "%s", bad[i].expected);
    }
    st_dataset_free(d);
}

/* A net that was saved and loaded reads tables as it was trained. */
static st_table *loaded(const st_table *t, st_net **net, ptrdiff_t outputs)
{
    st_net *n = st_net_new(ST_SHAPE(t->features), st_dense(.out_features = (int)outputs));
    assert_int_equal(st_net_set_table(n, t), 0);
    assert_int_equal(st_net_build(n, 1, 1), 0);
    assert_int_equal(st_net_save(n, path_of("table.safetensors")), 0);
    st_net_free(n);
    *net = st_net_load(path_of("table.safetensors"));
    st_table *read = st_net_table(*net);
    if (!read) fail_msg("%s", st_error());
    return read;
}

/* A table that is refused: the net keeps what it has, and gets nothing. */
static void assert_changes_nothing(st_net *n, st_table t)
{
    static const char *const keys[] = { "label", "table", "targets", "columns", "missing", "classes" };
    static const ptrdiff_t column[] = { 0, 2 };
    t.column = column;
    for (int had = 0; had < 2; had++) {
        for (int i = 0; i < 6; i++) st_net_set_metadata(n, keys[i], had ? keys[i] : NULL);
        assert_int_equal(st_net_set_table(n, &t), -1);
        st_error_clear();
        for (int i = 0; i < 6; i++) {
            const char *now = st_net_metadata(n, keys[i]);
            about("%s: %s", keys[i], now ? now : "NULL");
            assert_true(had ? now && strcmp(now, keys[i]) == 0 : !now);
        }
    }
    for (int i = 0; i < 6; i++) st_net_set_metadata(n, keys[i], NULL);
}

/* A column without a name, and the delimiter at the end of each line, which is no column. */
TEST(a_nameless_column_is_found_again)
{
    static const char text[] = "a,,\n1,2,\n3,4,\n";
    st_dataset *d = table_of(text, (st_csv_options){ .label = -1 });
    all a = read_text(text, (st_csv_options){ .like = st_dataset_table(d) });
    assert_elements(a.y, 2, 4);
    end(a), st_dataset_free(d);
}

TEST(a_net_keeps_its_table)
{
    static const struct {
        const char *text, *other;
        st_csv_options o;
        int features, classes;
        double x[3], y;
    } cases[] = {
        { "a,b,kind\n1,2,u\n3,,v\n",
          "kind,b,a\nv,7,\n",
          { .label = -1, .missing = ST_CSV_MEAN },
          2,
          2,
          { 2, 7 },
          1 },
        { "0,1,2,5\n1,2,3,5\n", "1,2,4,5\n", { .label = 0 }, 3, 0, { 2, 4, 5 }, 1 },
        { "9,1,2,0\n9,2,3,1\n", "9,2,4,1\n", { .label = -1, .features = "1,2" }, 2, 0, { 2, 4 }, 1 },
        { "9.5,1,2\n9,2,3\n", "9,2,4\n", { .label = 1, .targets = 2 }, 1, 0, { 9 }, 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        st_net *n;
        st_dataset *d = table_of(cases[i].text, cases[i].o);
        st_table *t = loaded(st_dataset_table(d), &n, 2);
        about("case %zu", i);
        assert_true(t->features == cases[i].features && t->classes == cases[i].classes);
        all a = read_text(cases[i].other, (st_csv_options){ .like = t });
        for (int k = 0; k < cases[i].features; k++) assert_true(st_data(a.x)[k] == (st_real)cases[i].x[k]);
        assert_true(st_data(a.y)[0] == (st_real)cases[i].y);
        end(a), st_table_free(t), st_net_free(n), st_dataset_free(d);
    }
}

TEST(a_net_refuses_what_is_no_table)
{
    st_net *n = st_net_new(ST_SHAPE(2), st_dense(.out_features = 2));
    static const char *const bad[][3] = {
        { "columns", "[\"a\"]", "metadata columns: expected a list of 2 names" },
        { "columns", "[1,2]", "metadata columns: expected a list of 2 names" },
        { "columns", "[", "metadata columns: " },
        { "table", "{}", "metadata table: expected the numbers columns and label" },
        { "table", "{\"columns\":1,\"label\":0}", "metadata table: its columns do not fit" },
        { "table", "{\"columns\":3,\"label\":3}", "metadata table: its columns do not fit" },
        { "table", "{\"columns\":4,\"label\":0}", "metadata table: its columns do not fit" },
        { "table", "{\"columns\":3,\"label\":9223372036854775807}",
          "metadata table: its columns do not fit" },
        { "table", "{\"columns\":4,\"label\":0,\"features\":[1,4]}",
          "metadata table: expected the numbers of columns" },
        { "table", "{\"columns\":4,\"label\":0,\"features\":[1,\"2\"]}",
          "metadata table: expected the numbers of" },
        { "missing", "[1,null]", "metadata missing: expected a list of 2 numbers" },
        { "targets", "x", "metadata targets: expected a number of columns, not \"x\"" },
        { "targets", "-1", "metadata targets: expected a number of columns" },
    };
    assert_null(st_net_table(n));
    assert_null(st_error());
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        st_net_set_metadata(n, "columns", "[\"a\",\"b\"]");
        st_net_set_metadata(n, bad[i][0], bad[i][1]);
        about("%s: %s", bad[i][0], bad[i][1]);
        expect_failure(st_net_table(n), "%s", bad[i][2]);
        st_net_set_metadata(n, bad[i][0], NULL);
    }
    expect_failure(st_net_table(NULL), "st_net_table: the net is NULL");
    expect_failure(st_net_set_table(n, NULL), "st_net_set_table: the table is NULL");
    expect_failure(st_net_set_table(n, &(st_table){ .features = 3 }),
                   "st_net_set_table: 3 features, the net's input is [2]");
    assert_changes_nothing(n, (st_table){ .features = 2, .columns = 3, .classes = 3 });
    assert_changes_nothing(
        n, (st_table){
               .features = 2, .columns = 3, .label = -1, .feature = (const char *const[]){ "a", "\xff" } });
    const char *const latin[] = { "a", "caf\xe9" };
    expect_failure(
        st_net_set_table(n, &(st_table){ .features = 2, .columns = 2, .label = -1, .feature = latin }),
        "st_net_set_table: the column \"caf?\" has a name that is not UTF-8");
    const char *const three[] = { "x", "y", "z" };
    assert_changes_nothing(n, (st_table){ .features = 2, .columns = 3, .classes = 3, .class_name = three });
    /* A file of names alone does not say which column is the class. */
    st_net_set_metadata(n, "columns", "[\"a\",\"b\"]");
    st_table *t = st_net_table(n);
    expect_failure(st_dataset_csv(written("t.csv", BYTES("a,b,y,z\n1,2,0,1\n")), .like = t),
                   "the net does not say which column is the class: set the label option");
    all a = read_text("a,b,y,z\n1,2,0,1\n", (st_csv_options){ .like = t, .label_name = "y" });
    assert_elements(a.y, 0);
    end(a), st_table_free(t), st_net_free(n);
}
