/* test_formats.c: every format of data sets reads the samples that a file holds, in one thread or several,
 * and refuses a file that is missing or ends early, by its name. */
#include "tests/declared.h"

#include "nn/data/formats.h"

#include <stdlib.h>

SETUP(enter_folder)

/* ---- the table ----------------------------------------------------------------------------------------- */

enum { SAMPLES = 3, PIXELS = 3 * 32 * 32, RECORD = 1 + PIXELS };

/* Number k of x of sample i. */
static int pixel(int i, int k)
{
    return (7 * i + k) % 256;
}

static bytes images_of_idx(void)
{
    static unsigned char file[16 + SAMPLES * 4] = { 0, 0, 8, 3, 0, 0, 0, SAMPLES, 0, 0, 0, 2, 0, 0, 0, 2 };
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < 4; k++) file[16 + 4 * i + k] = (unsigned char)pixel(i, k);
    return (bytes){ sizeof file, file };
}

static bytes labels_of_idx(void)
{
    static const unsigned char file[] = { 0, 0, 8, 1, 0, 0, 0, SAMPLES, 0, 1, 2 };
    return (bytes){ sizeof file, file };
}

static st_dataset *idx(const char *x, const char *y)
{
    return st_dataset_idx(x, y);
}

static bytes records_of_cifar10(void)
{
    static unsigned char file[SAMPLES * RECORD];
    for (int i = 0; i < SAMPLES; i++) {
        file[i * RECORD] = (unsigned char)i;
        for (int k = 0; k < PIXELS; k++) file[i * RECORD + 1 + k] = (unsigned char)pixel(i, k);
    }
    return (bytes){ sizeof file, file };
}

static st_dataset *cifar10(const char *x, const char *y)
{
    return st_dataset_cifar10(&x, 1);
}

static bytes lines_of_csv(void)
{
    static char file[SAMPLES * 40];
    size_t used = 0;
    for (int i = 0; i < SAMPLES; i++)
        used += (size_t)snprintf(file + used, sizeof file - used, "%d,%d,%d,%d,%d\n", i, pixel(i, 0),
                                 pixel(i, 1), pixel(i, 2), pixel(i, 3));
    return (bytes){ used, file };
}

static st_dataset *csv(const char *x, const char *y)
{
    return st_dataset_csv(x, .image = ST_SHAPE(1, 2, 2), .scale = 1.0 / 255);
}

static bytes array_of_npy(const char *shape, int count, double (*number)(int i))
{
    static char file[2][256];
    static int turn;
    char *to = file[turn = !turn];
    memset(to, ' ', 128);
    memcpy(to, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int used = snprintf(to + 10, 118, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
    to[10 + used] = ' ', to[127] = '\n';
    for (int i = 0; i < count; i++) {
        const float x = (float)number(i);
        memcpy(to + 128 + 4 * i, &x, sizeof x);
    }
    return (bytes){ 128 + 4 * (size_t)count, to };
}

static double fraction(int i)
{
    return pixel(i / 4, i % 4) / 255.0;
}
static double self(int i)
{
    return i;
}
static bytes x_of_npy(void)
{
    return array_of_npy("(3, 2, 2)", 12, fraction);
}
static bytes y_of_npy(void)
{
    return array_of_npy("(3,)", 3, self);
}
static st_dataset *npy(const char *x, const char *y)
{
    return st_dataset_npy(x, y);
}

/* A format with files of the three samples above: x and, if there is one, y. */
static const struct row {
    const char *name;
    bytes (*x)(void), (*y)(void);
    st_dataset *(*open)(const char *x, const char *y);
    bool plain_only, text; /* not gzipped; a line that ends early may be one of fewer samples or numbers */
    size_t record; /* bytes of a sample: a file of fewer is one of fewer samples; 0: that is an error */
} rows[] = {
    { "dataset_idx", images_of_idx, labels_of_idx, idx },
    { "dataset_cifar10", records_of_cifar10, NULL, cifar10, .record = RECORD },
    { "dataset_csv", lines_of_csv, NULL, csv, .text = true },
    { "dataset_npy", x_of_npy, y_of_npy, npy, .plain_only = true },
};
enum { ROWS = sizeof rows / sizeof *rows };

static void look_up(const char *name)
{
    int i = 0;
    while (i < ROWS && strcmp(rows[i].name, name) != 0) i++;
    if (i == ROWS) fail_msg("test_formats.c has no row for st_%s", name);
}

TEST(every_format_has_a_row)
{
    assert_int_equal(each_declared("nn/data/formats.h", "st_dataset *", look_up), ROWS);
}

TEST(every_format_is_in_a_campaign)
{
    each_is_called("nn/data/formats.h", "st_dataset *", "tests/campaigns/oom.c");
}

/* ---- claims -------------------------------------------------------------------------------------------- */

static void assert_samples(const st_dataset *d)
{
    const double near = 2e-7; /* numbers of files are floats */
    if (!d) fail_msg("%s", st_error());
    assert_int_equal(d->count, SAMPLES);
    const ptrdiff_t size = d->x.n[0] * d->x.n[1] * d->x.n[2];
    for (int threads = 1; threads <= 3; threads += 2) {
        const int before = st_num_threads();
        auto_tensor x = st_tensor_new(st_shape_with_batch(d->x, SAMPLES)),
                    y = st_tensor_new(ST_SHAPE(SAMPLES));
        st_set_num_threads(threads);
        assert_int_equal(st_dataset_batch(d, NULL, 0, SAMPLES, x, y), 0);
        st_set_num_threads(before);
        for (int i = 0; i < SAMPLES; i++) {
            assert_true((double)*element(y, i) == i);
            for (int k = 0; k < size; k++)
                assert_close((double)*element(x, i * size + k), pixel(i, k) / 255.0, near);
        }
    }
}

TEST(samples_are_what_their_files_hold)
{
    for (const struct row *r = rows; r < rows + ROWS; r++)
        for (int packed = 0; packed < 2 - r->plain_only; packed++) {
            const char *(*write)(const char *name, bytes b) = packed ? zipped : written;
            char x[256], y[256] = "";
            about("%s, %s", r->name, packed ? "gzipped" : "plain");
            snprintf(x, sizeof x, "%s", write("samples", r->x()));
            if (r->y) snprintf(y, sizeof y, "%s", write("targets", r->y()));
            auto_dataset *d = r->open(x, y);
            assert_samples(d);
        }
}

/* Cuts the file of x, then that of y; large ones at every 61st byte. */
TEST(a_file_that_ends_early_is_refused)
{
    for (const struct row *r = rows; r < rows + ROWS; r++)
        for (int which = 0; which < 1 + (r->y != NULL); which++) {
            const bytes x = r->x(), y = r->y ? r->y() : (bytes){ 0 }, cut = which ? y : x;
            char paths[2][256];
            for (int i = 0; i < 1 + (r->y != NULL); i++)
                snprintf(paths[i], sizeof paths[i], "%s", written(i ? "targets" : "samples", i ? y : x));
            for (size_t end = 0; end<cut.count; end += cut.count> 1000 ? 61 : 1) {
                about("%s: %zu bytes", r->name, end);
                written(which ? "targets" : "samples", (bytes){ end, cut.at });
                auto_dataset *d = r->open(paths[0], paths[1]);
                if (d && (r->text || (r->record > 0 && end > 0 && end % r->record == 0))) continue;
                if (d) fail_msg("%s: a file of %zu of %zu bytes was taken", r->name, end, cut.count);
                expect_refused(false, which ? "targets" : "samples", "");
            }
        }
}

TEST(a_file_that_is_missing_is_refused)
{
    for (const struct row *r = rows; r < rows + ROWS; r++) {
        char y[256] = "";
        about("%s", r->name);
        if (r->y) snprintf(y, sizeof y, "%s", written("targets", r->y()));
        expect_refused(r->open("/no such folder/samples", y) != NULL, "/no such folder/samples", "");
        expect_refused(r->open(path_of("."), y) != NULL, path_of("."), "");
    }
}
