/* test_digits.c: drawn digits are the same everywhere and worth learning; MNIST is found where it is. */
#define _POSIX_C_SOURCE 200809L
#include "tests/files.h"
#include "tests/support.h"

#include "examples/stride/mnist.h"
#include "examples/stride/sketch.h"
#include "nn/data/digits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { PIXELS = 28 * 28 };

/* ---- drawn digits ---------------------------------------------------------------------------- */

/* All images [N, 1, 28, 28] and classes [N], which the caller frees. */
static st_tensor all_of(const st_dataset *d, st_tensor *classes)
{
    st_tensor x = st_tensor_new(ST_SHAPE(d->count, 1, 28, 28));
    *classes = st_tensor_new(ST_SHAPE(d->count));
    assert_int_equal(st_dataset_batch(d, NULL, 0, d->count, x, *classes), 0);
    return x;
}

static st_tensor drawn(ptrdiff_t count, uint64_t seed, st_tensor *classes)
{
    st_dataset *d = st_digits(count, seed);
    assert_non_null(d);
    st_tensor x = all_of(d, classes);
    st_dataset_free(d);
    return x;
}

/* In pixels that differ. */
static ptrdiff_t distance(st_tensor x, ptrdiff_t i, st_tensor y, ptrdiff_t j)
{
    const st_real *a = st_data(x) + i * PIXELS, *b = st_data(y) + j * PIXELS;
    ptrdiff_t count = 0;
    for (int k = 0; k < PIXELS; k++) count += a[k] != b[k];
    return count;
}

TEST(digits_are_images_of_0_to_1_with_ink)
{
    st_dataset *d = st_digits(500, 3);
    assert_non_null(d);
    assert_int_equal(d->count, 500);
    assert_string_equal(st_shape_text(d->x).text, "[1, 28, 28]");
    assert_string_equal(st_shape_text(d->target).text, "[]");
    st_tensor y, x = all_of(d, &y);
    for (ptrdiff_t i = 0; i < 500; i++) {
        double sum = 0, most = 0;
        for (int k = 0; k < PIXELS; k++) {
            double value = (double)st_data(x)[i * PIXELS + k];
            assert_true(value >= 0 && value <= 1);
            sum += value;
            most = value > most ? value : most;
        }
        about("image %td: %g of the area is ink, the darkest %g", i, sum / PIXELS, most);
        if (sum < 0.02 * PIXELS || sum > 0.4 * PIXELS || most < 0.6) fail_msg("image %td", i);
    }
    st_tensor_free(x), st_tensor_free(y), st_dataset_free(d);
}

TEST(digits_depend_on_seed_and_number_alone)
{
    st_tensor few_y, few = drawn(37, 11, &few_y), many_y, many = drawn(1000, 11, &many_y);
    assert_same(few, st_narrow(many, 0, 0, 37));
    assert_same(few_y, st_narrow(many_y, 0, 0, 37));
    st_tensor other_y, other = drawn(37, 12, &other_y);
    for (ptrdiff_t i = 0; i < 37; i++) assert_true(distance(few, i, other, i) > 50);
    st_tensor_free(few), st_tensor_free(few_y), st_tensor_free(many), st_tensor_free(many_y);
    st_tensor_free(other), st_tensor_free(other_y);
}

/* Not even their noise is: of two images most pixels differ. */
TEST(no_two_digits_are_the_same)
{
    st_tensor y, x = drawn(300, 1, &y);
    double sum = 0;
    for (ptrdiff_t i = 0; i < 300; i++)
        for (ptrdiff_t j = 0; j < i; j++) assert_true(distance(x, i, x, j) > 50);
    for (ptrdiff_t i = 1; i < 300; i++) sum += (double)distance(x, i, x, i - 1);
    if (sum < 299 * 0.6 * PIXELS) fail_msg("%g of the pixels differ", sum / 299 / PIXELS);
    st_tensor_free(x), st_tensor_free(y);
}

TEST(digits_do_not_depend_on_threads)
{
    int before = st_num_threads();
    st_set_num_threads(1);
    st_tensor alone_y, alone = drawn(301, 5, &alone_y);
    for (int threads = 2; threads <= 7; threads++) {
        st_set_num_threads(threads);
        st_tensor y, x = drawn(301, 5, &y);
        assert_same(x, alone);
        assert_same(y, alone_y);
        st_tensor_free(x), st_tensor_free(y);
    }
    st_set_num_threads(before);
    st_tensor_free(alone), st_tensor_free(alone_y);
}

TEST(every_ten_hold_each_digit_once)
{
    st_tensor y, x = drawn(2000, 9, &y);
    int first[10] = { 0 };
    for (ptrdiff_t ten = 0; ten < 200; ten++) {
        int seen = 0;
        for (int i = 0; i < 10; i++) seen |= 1 << (int)st_data(y)[10 * ten + i];
        assert_int_equal(seen, 1023);
        first[(int)st_data(y)[10 * ten]]++;
    }
    for (int digit = 0; digit < 10; digit++)
        assert_true(first[digit] > 5); /* of 20, in an order of their own */
    st_tensor_free(x), st_tensor_free(y);
}

static double square_distance(const st_real *a, const st_real *b)
{
    double sum = 0;
    for (int k = 0; k < PIXELS; k++) sum += (double)(a[k] - b[k]) * (double)(a[k] - b[k]);
    return sum;
}

/* A nearest neighbour of a few thousand knows most digits, so classes are apart; the nearest mean, a linear
 * rule, is wrong often, so they are not trivially so. */
TEST(digits_can_be_learnt_and_must_be)
{
    enum { TRAIN = 3000, TEST = 300 };
    st_tensor y, x = drawn(TRAIN, 1, &y), test_y, test_x = drawn(TEST, 2, &test_y),
                 mean = st_tensor_new(ST_SHAPE(10, PIXELS));
    for (ptrdiff_t i = 0; i < TRAIN; i++)
        st_add(st_select(mean, 0, (ptrdiff_t)st_data(y)[i]), (st_real)10 / TRAIN,
               st_reshape(st_select(x, 0, i), ST_SHAPE(PIXELS)));
    int by_neighbour = 0, by_mean = 0;
    for (ptrdiff_t i = 0; i < TEST; i++) {
        const st_real *image = st_data(test_x) + i * PIXELS;
        ptrdiff_t nearest = 0, nearest_mean = 0;
        double least = INFINITY, least_mean = INFINITY;
        for (ptrdiff_t j = 0; j < TRAIN; j++) {
            double here = square_distance(image, st_data(x) + j * PIXELS);
            if (here < least) least = here, nearest = j;
        }
        for (ptrdiff_t j = 0; j < 10; j++) {
            double here = square_distance(image, st_data(mean) + j * PIXELS);
            if (here < least_mean) least_mean = here, nearest_mean = j;
        }
        by_neighbour += st_data(y)[nearest] == st_data(test_y)[i];
        by_mean += (st_real)nearest_mean == st_data(test_y)[i];
    }
    if (by_neighbour < 240 || by_mean > 240)
        fail_msg("of 300: %d by neighbour, %d by mean", by_neighbour, by_mean);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(test_x), st_tensor_free(test_y);
    st_tensor_free(mean);
}

TEST(impossible_numbers_of_digits_are_refused)
{
    static const ptrdiff_t bad[] = { 0, -1, PTRDIFF_MAX, PTRDIFF_MAX / PIXELS + 1 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_failure(st_digits(bad[i], 1), "st_digits: %td ", bad[i]);
    }
}

/* ---- folders and programs -------------------------------------------------------------------- */

SETUP(enter_folder)

/* Goes to an empty folder of the test's own, in an environment that names no MNIST. */
static void enter_empty(void)
{
    static int number;
    char name[32];
    snprintf(name, sizeof name, "work%d", number++);
    assert_int_equal(mkdir(path_of(name), 0777) | chdir(path_of(name)) | mkdir("here", 0777) | chdir("here"),
                     0);
    unsetenv("MNIST_DIR"), unsetenv("COLORTERM"), unsetenv("NO_COLOR");
    setenv("STRIDE_OFFLINE", "1", 1);
}

static void write_file(const char *path, const void *at, size_t count, bool zip)
{
    gzFile f = gzopen(path, zip ? "wb" : "wbT");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, at, (unsigned)count), count);
    assert_int_equal(gzclose(f), Z_OK);
}

/* Writes four small files in one of the ways that MNIST comes in; `way` has bits: dotted names, gzipped. */
static void write_mnist(const char *in, int way)
{
    char command[200];
    snprintf(command, sizeof command, "mkdir -p '%s'", in);
    assert_int_equal(system(command), 0);
    static const struct {
        const char *name, *bytes;
        size_t count;
    } parts[] = {
        { "train-images?idx3-ubyte", "\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\1\0\xff", 18 },
        { "train-labels?idx1-ubyte", "\0\0\x08\1\0\0\0\2\3\4", 10 },
        { "t10k-images?idx3-ubyte", "\0\0\x08\3\0\0\0\1\0\0\0\1\0\0\0\1\xff", 17 },
        { "t10k-labels?idx1-ubyte", "\0\0\x08\1\0\0\0\1\5", 9 },
    };
    for (int i = 0; i < 4; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s%s", in, parts[i].name, way & 2 ? ".gz" : "");
        *strchr(path, '?') = way & 1 ? '.' : '-';
        write_file(path, parts[i].bytes, parts[i].count, way & 2);
    }
}

static void assert_small_mnist(mnist *m, const char *source)
{
    assert_false(m->drawn);
    assert_string_equal(m->source, source);
    assert_int_equal(m->train->count, 2);
    assert_int_equal(m->test->count, 1);
    st_tensor y = st_tensor_new(ST_SHAPE(2)), x = st_tensor_new(ST_SHAPE(2, 1, 1, 1));
    assert_int_equal(st_dataset_batch(m->train, NULL, 0, 2, x, y), 0);
    assert_elements(x, 0, 1);
    assert_elements(y, 3, 4);
    st_tensor_free(x), st_tensor_free(y), mnist_free(m);
    assert_null(m->train);
}

/* ---- MNIST found ----------------------------------------------------------------------------- */

TEST(a_named_folder_is_used_however_its_files_are_called)
{
    enter_empty();
    mnist m;
    for (int way = 0; way < 4; way++) {
        char name[] = "way0";
        name[3] = (char)('0' + way);
        write_mnist(name, way);
        setenv("MNIST_DIR", name, 1);
        assert_int_equal(mnist_find(&m, NULL), 0);
        assert_small_mnist(&m, "MNIST in $MNIST_DIR");
    }
}

TEST(the_usual_folders_are_searched_in_turn)
{
    enter_empty();
    mnist m;
    write_mnist("../shared/mnist", 0);
    assert_int_equal(mnist_find(&m, NULL), 0);
    assert_small_mnist(&m, "MNIST in ../shared/mnist");
    write_mnist("data/mnist", 3);
    assert_int_equal(unlink("data/mnist/t10k-labels.idx1-ubyte.gz"), 0); /* not all of it is none of it */
    assert_int_equal(mnist_find(&m, NULL), 0);
    assert_small_mnist(&m, "MNIST in ../shared/mnist");
    write_mnist("data/mnist", 2);
    assert_int_equal(mnist_find(&m, NULL), 0);
    assert_small_mnist(&m, "MNIST in data/mnist");
    setenv("MNIST_DIR", "", 1); /* as good as unset */
    assert_int_equal(mnist_find(&m, NULL), 0);
    assert_small_mnist(&m, "MNIST in data/mnist");
}

TEST(a_named_folder_that_is_unusable_is_not_replaced)
{
    enter_empty();
    mnist m;
    write_mnist("data/mnist", 0);
    setenv("MNIST_DIR", "nowhere", 1);
    expect_failure(mnist_find(&m, NULL), "MNIST_DIR: nowhere: No such file or directory");
    write_mnist("partly", 0);
    assert_int_equal(unlink("partly/t10k-images-idx3-ubyte"), 0);
    setenv("MNIST_DIR", "partly", 1);
    expect_failure(mnist_find(&m, NULL),
                   "MNIST_DIR: partly: t10k-images-idx3-ubyte not found, plain or as .gz");
    write_file("partly/t10k-images-idx3-ubyte", "\0\0\x08\3", 4, false);
    expect_failure(mnist_find(&m, NULL), "MNIST_DIR: partly/t10k-images-idx3-ubyte: truncated");
    setenv("MNIST_DIR", "", 1);
    write_file("data/mnist/train-labels-idx1-ubyte", "\0\0\x08\1\0\0\0\1\1", 9, false);
    expect_failure(mnist_find(&m, NULL), "data/mnist/train-labels-idx1-ubyte: 1 labels, expected 2");
    assert_null(m.train);
    assert_null(m.test);
    mnist_free(&m);
}

TEST(without_mnist_digits_are_drawn_and_it_is_said)
{
    enter_empty();
    mnist m;
    char said[200] = "";
    FILE *to = fmemopen(said, sizeof said, "w");
    assert_int_equal(mnist_find(&m, to), 0);
    assert_int_equal(fclose(to), 0);
    assert_string_equal(said, "MNIST not found (looked in data/mnist, ../shared/mnist): drawing digits "
                              "instead; examples/mnist.sh downloads it\n");
    assert_true(m.drawn);
    assert_string_equal(m.source, "drawn digits");
    assert_int_equal(m.train->count, 60000);
    assert_int_equal(m.test->count, 10000);
    assert_int_equal(access("data", F_OK), -1);
    st_tensor y, x = drawn(3, 2, &y), test_x = st_tensor_new(x.shape), test_y = st_tensor_new(y.shape);
    assert_int_equal(st_dataset_batch(m.test, NULL, 0, 3, test_x, test_y), 0);
    assert_same(test_x, x);
    assert_same(test_y, y);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(test_x), st_tensor_free(test_y), mnist_free(&m);
}

/* ---- sketches -------------------------------------------------------------------------------- */

typedef struct memory {
    FILE *stream;
    char text[500];
} memory;

static FILE *open_text(memory *m)
{
    memset(m->text, 0, sizeof m->text);
    assert_non_null(m->stream = fmemopen(m->text, sizeof m->text - 1, "w"));
    return m->stream;
}

static void assert_text(memory *m, const char *expected)
{
    assert_int_equal(fclose(m->stream), 0);
    assert_string_equal(m->text, expected);
}

TEST(a_sketch_has_a_colour_for_each_pixel)
{
    static const char two[] = "\033[38;5;16m\033[48;5;236m▀\033[38;5;231m\033[48;5;246m▀\033[0m\n";
    auto_tensor x = tensor_of(ST_SHAPE(1, 2, 2), 0, 1, 0.2, 0.6);
    memory drawing;
    sketch_image(open_text(&drawing), x);
    assert_text(&drawing, two);
    auto_tensor odd = tensor_of(ST_SHAPE(1, 1, 2), NAN, 9); /* out of range; below the last row it is dark */
    sketch_image(open_text(&drawing), odd);
    assert_text(&drawing, "\033[38;5;16m\033[48;5;16m▀\033[38;5;231m\033[48;5;16m▀\033[0m\n");
    auto_tensor colour = tensor_of(ST_SHAPE(3, 1, 1), 1, 0.4, 0);
    sketch_image(open_text(&drawing), colour);
    assert_text(&drawing, "\033[38;5;208m\033[48;5;16m▀\033[0m\n");
}

TEST(bars_are_as_long_as_their_share)
{
    static const char *const labels[] = { "7", "zwölf", "9" };
    memory drawing;
    sketch_bars(open_text(&drawing), true, labels, (double[]){ 0.5, 0.28125, 2 }, 3, 4);
    assert_text(&drawing, "\033[1;32m    7 ██    50.0 %\033[0m\n\033[2mzwölf █▏    28.1 %\033[0m\n"
                          "\033[2m    9 ████ 200.0 %\033[0m\n");
    sketch_bars(open_text(&drawing), false, labels, (double[]){ 0.5 }, 1, 4);
    assert_text(&drawing, "7 ██    50.0 %\n");
}

TEST(a_file_is_no_terminal)
{
    enter_empty();
    FILE *to = fopen("plain", "w");
    assert_non_null(to);
    setenv("TERM", "xterm", 1);
    assert_false(sketch_on_terminal(to) || sketch_in_colour(to) || sketch_on_terminal(NULL));
    assert_int_equal(fclose(to), 0);
}

/* Steps at 0, 12, 12 and 24 seconds: a line every ten. */
TEST(progress_in_a_file_is_a_line_now_and_then)
{
    memory said;
    sketch_progress p = sketch_begin(open_text(&said), "samples");
    sketch_step(&p, 1, 100);
    p.begun -= 12;
    sketch_step(&p, 50, 100);
    sketch_step(&p, 51, 100);
    p.begun -= 12;
    sketch_step(&p, 99, 0);
    sketch_erase(&p);
    assert_text(&said, "samples: 50 of 100\nsamples: 99\n");
    p = sketch_begin(NULL, "nothing");
    p.begun -= 12;
    sketch_step(&p, 1, 2);
    sketch_erase(&p);
}
