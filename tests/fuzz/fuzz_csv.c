/* fuzz_csv.c: st_dataset_csv takes any text with any options, and what it takes is finite.
 *
 * An input: a byte each for the delimiter and whether there is a header, the column of the label, the number
 * of targets and how columns are chosen, the image and the scale; then the table. */
#include "tests/fuzz/fuzz.h"

#include "nn/data/formats.h"
#include "nn/data/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS = 4 };

static st_csv_options options_of(const uint8_t *at)
{
    static const char delimiters[] = { 0, ';', '\t', ' ', '|', ',', '-', '"' };
    static const st_shape images[] = { { 0 },        { 0 },
                                       { 1, { 2 } }, { 3, { 1, 1, 2 } },
                                       { 1, { 0 } }, { 2, { -1, 2 } },
                                       { 9 },        { 2, { PTRDIFF_MAX, 2 } } };
    static const double scales[] = { 0, 0, 0.5, 1e300, -1, NAN, 1.0 / 255, 0 };
    static const char *const features[] = { NULL, NULL, "1", "-1,0", "a*,b", "?", "", "*,zz" };
    static const char *const labels[] = { NULL, NULL, NULL, "a", "-1", "class", "4294967296", "" };
    return (st_csv_options){ .delimiter = delimiters[at[0] % 8],
                             .header = (st_csv_header)(at[0] / 8 % 3),
                             .label = at[1] == 100 ? ST_CSV_FIND_LABEL : (int8_t)at[1],
                             .label_name = labels[at[1] / 8 % 8],
                             .targets = (int8_t)at[2] % 8,
                             .features = features[at[2] / 8 % 8],
                             .missing = (st_csv_missing)(at[0] / 24 % 3),
                             .name_numbers = at[0] / 72 % 2,
                             .image = images[at[3] % 8],
                             .scale = scales[at[3] / 8 % 8] };
}

/* The same table once more, by its own columns and classes. */
static void read_again(const char *path, st_csv_options options, const st_table *t, ptrdiff_t count)
{
    st_dataset *d = st_dataset_csv(path, .delimiter = options.delimiter, .header = options.header,
                                   .scale = options.scale, .missing = options.missing, .like = t);
    fuzz_claim(d && d->count == count, "a table is like itself");
    st_dataset_free(d);
}

static void read_file(const char *path, st_csv_options options)
{
    fuzz_begin();
    st_dataset *d = st_dataset_csv_new(path, options);
    fuzz_claim(!d || d->count > 0, "a table has rows");
    const st_table *t = d ? st_dataset_table(d) : NULL;
    fuzz_claim(!d || (t && t->features > 0 && t->features <= t->columns), "a table has columns");
    for (ptrdiff_t c = 1; t && c < t->classes; c++)
        fuzz_claim(strcmp(t->class_name[c - 1], t->class_name[c]) != 0, "classes differ");
    if (t && options.targets >= 0 && !options.features) read_again(path, options, t, d->count);
    fuzz_took_data(d, 0);
}

static void feed(const uint8_t *at, size_t size)
{
    if (size < OPTIONS) return;
    read_file(fuzz_file("table.csv", at + OPTIONS, size - OPTIONS), options_of(at));
}

static void seed(void)
{
    static const char *const tables[] = {
        "1,2,3\n0,5,6\n",
        "class,\"a \"\"b\"\"\",c\n1,2.5,-3e-2\n\n0, \"4\" ,.5\r\n",
        "\xef\xbb\xbf+0,1.7976931348623157e308,1e-400\n",
        "0,123456789012345678901234567890,0.1e+5",
        "16777216,1,2\n16777217,1,2\n",
        "\"1\n\",2,3\n",
        "a,b,class\n1,NA,u\n?,2,\"v, w\"\n3,4,7.0\n",
        "a,b\n\"r\",1,2\n\"s\",3,16777219\n",
        "a;b;\n1;2;\n3;4;\n",
    };
    char input[256];
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (uint8_t o = 0; o < 5; o++) {
            input[0] = (char)(o + 8 * (i % 3)), input[1] = (char)(o == 1 ? -1 : 0), input[2] = o == 2,
            input[3] = (char)(o == 3);
            size_t length = strlen(tables[i]);
            for (size_t k = 0; k < length; k++)
                input[OPTIONS + k] = tables[i][k] == ',' && o ? ",;\t |"[o] : tables[i][k];
            fuzz_seed(input, OPTIONS + length);
        }
}

/* Its last field is no number. */
static void large(void)
{
    enum { ROWS = 1 << 20 };
    char *table = malloc(4 * ROWS);
    for (int i = 0; i < ROWS; i++) memcpy(table + 4 * i, i < ROWS - 1 ? "1,2\n" : "1,b\n", 4);
    read_file(fuzz_file("table.csv", table, 4 * ROWS), (st_csv_options){ 0 });
    read_file(fuzz_gzip("table.csv", table, 4 * ROWS), (st_csv_options){ 0 });
    memset(table, '1', 4 * ROWS);
    read_file(fuzz_file("table.csv", table, 4 * ROWS), (st_csv_options){ 0 });
    memset(table, ',', 4 * ROWS);
    read_file(fuzz_file("table.csv", table, 4 * ROWS), (st_csv_options){ 0 });
    free(table);
}

static const char *const words[] = {
    "\"\"",  "\",\"", "\r\n",     "\xef\xbb\xbf",     "e308", "e-324", "1e400", "nan", "inf",
    "0x1p3", "-0",    "16777216", "9007199254740993", NULL
};

const fuzzer fuzz = { feed, seed, large, words };
