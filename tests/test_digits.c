/* test_digits.c: drawn digits are the same everywhere and worth learning, MNIST is found where it is, and
 * what is shown in a terminal can be read. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support.h"

#include "examples/download.h"
#include "examples/mnist_data.h"
#include "examples/sha256.h"
#include "examples/sketch.h"
#include "nn/data/digits.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { PIXELS = 28 * 28 };

/* ---- SHA-256 --------------------------------------------------------------------------------- */

/* Oracle: the examples of FIPS 180-4. */
static void sums_are_the_standards(void **state)
{
    static const struct {
        const char *text, *sum;
    } known[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmn"
          "opqrstno"
          "pqrstu",
          "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        sha256 s = sha256_begin();
        sha256_add(&s, known[i].text, strlen(known[i].text));
        assert_string_equal(sha256_end(s).text, known[i].sum);
    }
    sha256 s = sha256_begin();
    char thousand[1000];
    memset(thousand, 'a', sizeof thousand);
    for (int i = 0; i < 1000; i++) sha256_add(&s, thousand, sizeof thousand);
    assert_string_equal(sha256_end(s).text,
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Oracle: Python's hashlib, of 0 … 130 bytes of 'a', all sums one after another, summed in turn. */
static void sums_are_right_at_every_length_of_the_last_block(void **state)
{
    sha256 all = sha256_begin(), s = sha256_begin();
    for (int n = 0; n <= 130; n++) {
        sha256_add(&all, sha256_end(s).text, 64);
        sha256_add(&s, "a", 1); /* an end is of a copy: the stream goes on */
    }
    assert_string_equal(sha256_end(all).text,
                        "5eee4c50e1b5ec4f1a47f34c25ca988850b49da7904f5ab1b3abc5cc0ae66ef9");
}

/* ---- drawn digits ---------------------------------------------------------------------------- */

/* All images [N, 1, 28, 28] and classes [N], which the caller frees. */
static tensor all_of(const data *d, tensor *classes)
{
    tensor x = tensor_new(SHAPE(d->count, 1, 28, 28));
    *classes = tensor_new(SHAPE(d->count));
    assert_int_equal(data_batch(d, NULL, 0, d->count, x, *classes), 0);
    return x;
}

static tensor drawn(ptrdiff_t count, uint64_t seed, tensor *classes)
{
    data *d = digits_new(count, seed);
    assert_non_null(d);
    tensor x = all_of(d, classes);
    data_free(d);
    return x;
}

/* In pixels that differ. */
static ptrdiff_t distance(tensor x, ptrdiff_t i, tensor y, ptrdiff_t j)
{
    const real *a = tensor_data(x) + i * PIXELS, *b = tensor_data(y) + j * PIXELS;
    ptrdiff_t count = 0;
    for (int k = 0; k < PIXELS; k++) count += a[k] != b[k];
    return count;
}

static void digits_are_images_of_0_to_1_with_ink(void **state)
{
    data *d = digits_new(500, 3);
    assert_non_null(d);
    assert_int_equal(d->count, 500);
    assert_string_equal(shape_text(d->x).text, "[1, 28, 28]");
    assert_string_equal(shape_text(d->y).text, "[]");
    tensor y, x = all_of(d, &y);
    for (ptrdiff_t i = 0; i < 500; i++) {
        double sum = 0, most = 0;
        for (int k = 0; k < PIXELS; k++) {
            double value = (double)tensor_data(x)[i * PIXELS + k];
            assert_true(value >= 0 && value <= 1);
            sum += value;
            most = value > most ? value : most;
        }
        about("image %td: %g of the area is ink, the darkest %g", i, sum / PIXELS, most);
        if (sum < 0.02 * PIXELS || sum > 0.4 * PIXELS || most < 0.6) fail_msg("image %td", i);
    }
    tensor_free(x);
    tensor_free(y);
    data_free(d);
}

static void digits_depend_on_seed_and_number_alone(void **state)
{
    tensor few_y, few = drawn(37, 11, &few_y), many_y, many = drawn(1000, 11, &many_y);
    assert_same(few, tensor_narrow(many, 0, 0, 37));
    assert_same(few_y, tensor_narrow(many_y, 0, 0, 37));
    tensor other_y, other = drawn(37, 12, &other_y);
    for (ptrdiff_t i = 0; i < 37; i++) assert_true(distance(few, i, other, i) > 50);
    tensor_free(few);
    tensor_free(few_y);
    tensor_free(many);
    tensor_free(many_y);
    tensor_free(other);
    tensor_free(other_y);
}

/* Not even their noise is: of two images most pixels differ. */
static void no_two_digits_are_the_same(void **state)
{
    tensor y, x = drawn(300, 1, &y);
    double sum = 0;
    for (ptrdiff_t i = 0; i < 300; i++)
        for (ptrdiff_t j = 0; j < i; j++) assert_true(distance(x, i, x, j) > 50);
    for (ptrdiff_t i = 1; i < 300; i++) sum += (double)distance(x, i, x, i - 1);
    if (sum < 299 * 0.6 * PIXELS) fail_msg("%g of the pixels differ", sum / 299 / PIXELS);
    tensor_free(x);
    tensor_free(y);
}

static void digits_do_not_depend_on_threads(void **state)
{
#ifdef _OPENMP
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    tensor alone_y, alone = drawn(301, 5, &alone_y);
    for (int threads = 2; threads <= 7; threads++) {
        omp_set_num_threads(threads);
        tensor y, x = drawn(301, 5, &y);
        assert_same(x, alone);
        assert_same(y, alone_y);
        tensor_free(x);
        tensor_free(y);
    }
    omp_set_num_threads(before);
    tensor_free(alone);
    tensor_free(alone_y);
#else
    skip();
#endif
}

static void every_ten_hold_each_digit_once(void **state)
{
    tensor y, x = drawn(2000, 9, &y);
    int first[10] = { 0 };
    for (ptrdiff_t ten = 0; ten < 200; ten++) {
        int seen = 0;
        for (int i = 0; i < 10; i++) seen |= 1 << (int)tensor_data(y)[10 * ten + i];
        assert_int_equal(seen, 1023);
        first[(int)tensor_data(y)[10 * ten]]++;
    }
    for (int digit = 0; digit < 10; digit++)
        assert_true(first[digit] > 5); /* of 20, in an order of their own */
    tensor_free(x);
    tensor_free(y);
}

static double square_distance(const real *a, const real *b)
{
    double sum = 0;
    for (int k = 0; k < PIXELS; k++) sum += (double)(a[k] - b[k]) * (double)(a[k] - b[k]);
    return sum;
}

/* A nearest neighbour of a few thousand knows most digits, so classes are apart; the nearest mean, a linear
 * rule, is wrong often, so they are not trivially so. */
static void digits_can_be_learnt_and_must_be(void **state)
{
    enum { TRAIN = 3000, TEST = 300 };
    tensor y, x = drawn(TRAIN, 1, &y), test_y, test_x = drawn(TEST, 2, &test_y),
              mean = tensor_new(SHAPE(10, PIXELS));
    for (ptrdiff_t i = 0; i < TRAIN; i++)
        tensor_add(tensor_select(mean, 0, (ptrdiff_t)tensor_data(y)[i]), (real)10 / TRAIN,
                   tensor_reshape(tensor_select(x, 0, i), SHAPE(PIXELS)));
    int by_neighbour = 0, by_mean = 0;
    for (ptrdiff_t i = 0; i < TEST; i++) {
        const real *image = tensor_data(test_x) + i * PIXELS;
        ptrdiff_t nearest = 0, nearest_mean = 0;
        double least = INFINITY, least_mean = INFINITY;
        for (ptrdiff_t j = 0; j < TRAIN; j++) {
            double here = square_distance(image, tensor_data(x) + j * PIXELS);
            if (here < least) least = here, nearest = j;
        }
        for (ptrdiff_t j = 0; j < 10; j++) {
            double here = square_distance(image, tensor_data(mean) + j * PIXELS);
            if (here < least_mean) least_mean = here, nearest_mean = j;
        }
        by_neighbour += tensor_data(y)[nearest] == tensor_data(test_y)[i];
        by_mean += (real)nearest_mean == tensor_data(test_y)[i];
    }
    if (by_neighbour < 240 || by_mean > 240)
        fail_msg("of 300: %d by neighbour, %d by mean", by_neighbour, by_mean);
    tensor_free(x);
    tensor_free(y);
    tensor_free(test_x);
    tensor_free(test_y);
    tensor_free(mean);
}

static void impossible_numbers_of_digits_are_refused(void **state)
{
    static const ptrdiff_t bad[] = { 0, -1, PTRDIFF_MAX, PTRDIFF_MAX / PIXELS + 1 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(digits_new(bad[i], 1));
        expect_error("digits_new: %td images, expected at least one", bad[i]);
    }
}

/* ---- folders and programs -------------------------------------------------------------------- */

static char home[3000], shared[sizeof home + 20]; /* the tests' folder; MNIST, where it is there */

static int enter_folder(void **state)
{
    const char *given = getenv("STRIDE_TEST_TMP");
    char template[] = "/tmp/stride_test_digits_XXXXXX";
    if (!getcwd(home, sizeof home)) return -1;
    snprintf(shared, sizeof shared, "%s/../shared/mnist", home);
    if (access(shared, R_OK)) shared[0] = '\0';
    const char *base = given ? given : mkdtemp(template);
    return base && chdir(base) == 0 && getcwd(home, sizeof home) ? 0 : -1;
}

/* An empty folder of the test's own, in which it runs, and an environment that names no MNIST. */
static int enter_empty(void **state)
{
    static int number;
    char name[32];
    snprintf(name, sizeof name, "work%d/here", number++);
    *strchr(name, '/') = '\0';
    if (chdir(home) || mkdir(name, 0777) || chdir(name) || mkdir("here", 0777) || chdir("here")) return -1;
    unsetenv("MNIST_DIR");
    unsetenv("COLORTERM");
    unsetenv("NO_COLOR");
    setenv("STRIDE_OFFLINE", "1", 1);
    return error_none_yet(state);
}

static void write_file(const char *path, const void *bytes, size_t count, bool zip)
{
    gzFile f = gzopen(path, zip ? "wb" : "wbT");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, bytes, (unsigned)count), count);
    assert_int_equal(gzclose(f), Z_OK);
}

/* Writes four small files in one of the ways that MNIST comes in; `way` has bits: dotted names, gzipped. */
static void write_mnist(const char *in, int way)
{
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
    tensor y = tensor_new(SHAPE(2)), x = tensor_new(SHAPE(2, 1, 1, 1));
    assert_int_equal(data_batch(m->train, NULL, 0, 2, x, y), 0);
    assert_elements(x, 0, 1);
    assert_elements(y, 3, 4);
    tensor_free(x);
    tensor_free(y);
    mnist_free(m);
    assert_null(m->train);
}

/* What is written to `to`, a stream opened by this, until `end_text`. */
typedef struct memory {
    char *text;
    size_t size;
} memory;

static FILE *open_text(memory *m)
{
    FILE *to = open_memstream(&m->text, &m->size);
    assert_non_null(to);
    return to;
}

static void write_script(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", text);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0777), 0);
}

/* ---- MNIST found ----------------------------------------------------------------------------- */

static void a_named_folder_is_used_however_its_files_are_called(void **state)
{
    mnist m;
    for (int way = 0; way < 4; way++) {
        char name[] = "way0";
        name[3] = (char)('0' + way);
        mkdir(name, 0777);
        write_mnist(name, way);
        setenv("MNIST_DIR", name, 1);
        assert_int_equal(mnist_find(&m, NULL), 0);
        assert_small_mnist(&m, "MNIST in $MNIST_DIR");
    }
}

static void the_usual_folders_are_searched_in_turn(void **state)
{
    mnist m;
    mkdir("../shared", 0777);
    mkdir("../shared/mnist", 0777);
    write_mnist("../shared/mnist", 0);
    assert_int_equal(mnist_find(&m, NULL), 0);
    assert_small_mnist(&m, "MNIST in ../shared/mnist");
    mkdir("data", 0777);
    mkdir("data/mnist", 0777);
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

static void a_named_folder_that_is_unusable_is_not_replaced(void **state)
{
    mnist m;
    mkdir("data", 0777);
    mkdir("data/mnist", 0777);
    write_mnist("data/mnist", 0);
    setenv("MNIST_DIR", "nowhere", 1);
    assert_int_equal(mnist_find(&m, NULL), -1);
    expect_error("MNIST_DIR: nowhere: No such file or directory");
    mkdir("partly", 0777);
    write_mnist("partly", 0);
    assert_int_equal(unlink("partly/t10k-images-idx3-ubyte"), 0);
    setenv("MNIST_DIR", "partly", 1);
    assert_int_equal(mnist_find(&m, NULL), -1);
    expect_error("MNIST_DIR: partly: t10k-images-idx3-ubyte is not there, plain or as .gz");
    write_file("partly/t10k-images-idx3-ubyte", "\0\0\x08\3", 4, false);
    assert_int_equal(mnist_find(&m, NULL), -1);
    expect_error("MNIST_DIR: partly/t10k-images-idx3-ubyte: truncated: 0 of 12 bytes of sizes");
    assert_null(m.train);
    assert_null(m.test);
    mnist_free(&m);
}

static void broken_files_in_a_usual_folder_are_an_error(void **state)
{
    mnist m;
    mkdir("data", 0777);
    mkdir("data/mnist", 0777);
    write_mnist("data/mnist", 0);
    write_file("data/mnist/train-labels-idx1-ubyte", "\0\0\x08\1\0\0\0\1\1", 9, false);
    assert_int_equal(mnist_find(&m, NULL), -1);
    expect_error("data/mnist/train-labels-idx1-ubyte: 1 labels, expected 2");
    mnist_free(&m);
}

static void without_mnist_digits_are_drawn_and_it_is_said(void **state)
{
    mnist m;
    memory said;
    FILE *messages = open_text(&said);
    assert_int_equal(mnist_find(&m, messages), 0);
    assert_int_equal(fclose(messages), 0);
    assert_string_equal(said.text, "MNIST not found (looked in data/mnist, ../shared/mnist) and could not be "
                                   "downloaded (STRIDE_OFFLINE is set): drawing digits instead\n");
    free(said.text);
    assert_true(m.drawn);
    assert_string_equal(m.source, "drawn digits");
    assert_int_equal(m.train->count, 60000);
    assert_int_equal(m.test->count, 10000);
    assert_int_equal(access("data", F_OK), -1);
    tensor y, x = drawn(3, 2, &y), test_x = tensor_new(x.shape), test_y = tensor_new(y.shape);
    assert_int_equal(data_batch(m.test, NULL, 0, 3, test_x, test_y), 0);
    assert_same(test_x, x);
    assert_same(test_y, y);
    tensor_free(x);
    tensor_free(y);
    tensor_free(test_x);
    tensor_free(test_y);
    mnist_free(&m);
}

/* ---- MNIST downloaded ------------------------------------------------------------------------ *
 * By programs of the tests' own in the place of curl and wget: none of this needs a network. */

static char usual_path[4096];

static void use_programs_in(const char *path)
{
    if (!usual_path[0]) snprintf(usual_path, sizeof usual_path, "%s", getenv("PATH"));
    mkdir(path, 0777);
    setenv("PATH", path, 1);
}

static int restore_path(void **state)
{
    if (usual_path[0]) setenv("PATH", usual_path, 1);
    return error_none_left(state);
}

/* Downloads to the file "got". */
static bool got(reason *why)
{
    int to = open("got", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(to >= 0);
    bool done = download("http://example.org/x", to, why);
    assert_int_equal(close(to), 0);
    return done;
}

static void assert_got(const char *expected)
{
    char text[200] = "";
    FILE *f = fopen("got", "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    assert_int_equal(fclose(f), 0);
    assert_string_equal(text, expected);
}

static void what_curl_writes_is_the_file(void **state)
{
    reason why;
    use_programs_in("bin");
    write_script("bin/curl", "for last; do :; done\necho \"from $last\"\necho noise >&2");
    write_script("bin/wget", "echo wget");
    assert_true(got(&why));
    assert_got("from http://example.org/x\n");
}

static void wget_is_used_where_there_is_no_curl(void **state)
{
    reason why;
    use_programs_in("bin");
    write_script("bin/wget", "for last; do :; done\necho \"wget $last\"");
    assert_true(got(&why));
    assert_got("wget http://example.org/x\n");
}

static void a_download_that_fails_says_why(void **state)
{
    static const struct {
        const char *script, *expected;
    } cases[] = {
        { "echo 'curl: (6) Could not resolve host' >&2; exit 6", "curl: (6) Could not resolve host" },
        { "printf 'first\\nlast' >&2; exit 1", "last" },
        { "printf 'first\\n\\nlast\\n\\n' >&2; exit 1", "last" },
        { "exit 22", "curl ended with status 22" },
        { "echo part of it; kill -9 $$", "curl ended with status -1" },
        { "exec >&- 2>&-; exit 3", "curl ended with status 3" },
    };
    use_programs_in("bin");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reason why;
        write_script("bin/curl", cases[i].script);
        assert_false(got(&why));
        assert_string_equal(why.text, cases[i].expected);
    }
    reason why;
    write_script("bin/curl",
                 "i=0; while [ $i -lt 1000 ]; do printf 'much to say ' >&2; i=$((i + 1)); done; exit 1");
    assert_false(got(&why));
    assert_int_equal(strlen(why.text), sizeof why.text - 1);
}

static void without_curl_and_wget_that_is_the_reason(void **state)
{
    reason why;
    use_programs_in("bin");
    assert_false(got(&why));
    assert_string_equal(why.text, "neither curl nor wget is installed");
}

/* Nothing that is not MNIST stays, and no empty folder either. */
static void a_download_of_something_else_is_not_used(void **state)
{
    mnist m;
    memory said;
    setenv("STRIDE_OFFLINE", "0", 1);
    use_programs_in("bin");
    write_script("bin/curl", "for last; do :; done\necho \"$last\" >>asked\necho 'please log in'");
    FILE *messages = open_text(&said);
    assert_int_equal(mnist_find(&m, messages), 0);
    assert_int_equal(fclose(messages), 0);
    assert_string_equal(
        said.text, "MNIST not found (looked in data/mnist, ../shared/mnist): downloading it to data/mnist\n"
                   "MNIST not found (looked in data/mnist, ../shared/mnist) and could not be downloaded "
                   "(train-images-idx3-ubyte: SHA-256 846d5e4e9d791ea8..., expected ba891046e6505d7a...): "
                   "drawing digits instead\n");
    free(said.text);
    assert_true(m.drawn);
    mnist_free(&m);
    assert_int_equal(access("data", F_OK), -1);
    assert_int_equal(rename("asked", "got"), 0);
    assert_got("https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz\n"
               "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz\n");
}

/* The first copy knows only labels, the second all; one file is there already. Needs the true files. */
static void a_download_of_mnist_is_used(void **state)
{
    mnist m;
    if (!shared[0]) skip();
    setenv("STRIDE_OFFLINE", "", 1);
    setenv("MNIST_TRUE", shared, 1);
    mkdir("data", 0777);
    mkdir("data/mnist", 0777);
    write_file("data/mnist/t10k-labels-idx1-ubyte", "\0\0\x08\1\0\0\0\1\5", 9, false);
    use_programs_in("bin");
    write_script("bin/curl", "for last; do :; done\n"
                             "case $last in *amazonaws*images*) echo 'not here' >&2; exit 22;; esac\n"
                             "exec /bin/cat \"$MNIST_TRUE/${last##*/}\"");
    assert_int_equal(mnist_find(&m, NULL), -1);
    expect_error(
        "data/mnist/t10k-labels-idx1-ubyte: 1 labels, expected 10,000"); /* of the user's own, unchecked */
    assert_int_equal(unlink("data/mnist/t10k-labels-idx1-ubyte"), 0);
    assert_int_equal(mnist_find(&m, NULL), 0);
    assert_false(m.drawn);
    assert_string_equal(m.source, "MNIST in data/mnist");
    assert_int_equal(m.train->count, 60000);
    assert_int_equal(m.test->count, 10000);
    mnist_free(&m);
}

/* ---- sketches -------------------------------------------------------------------------------- */

static void assert_image(tensor image, bool colour, const char *expected)
{
    memory drawing;
    FILE *to = open_text(&drawing);
    sketch_image(to, image, colour);
    assert_int_equal(fclose(to), 0);
    assert_string_equal(drawing.text, expected);
    free(drawing.text);
}

static void a_sketch_of_ascii_has_a_character_for_two_pixels(void **state)
{
    tensor x = tensor_of(SHAPE(1, 3, 4), 0, 1, 0, 0.5, 0, 1, 1, 0.25, 1, 0, -9, 9);
    assert_image(x, false, " @+-\n+  +\n"); /* below the last row it is dark */
    assert_image(tensor_select(x, 0, 0), false, " @+-\n+  +\n");
    *tensor_at(x, INDEX(0, 0, 0)) = (real)NAN;
    assert_image(tensor_narrow(tensor_narrow(x, 1, 0, 1), 2, 0, 2), false, " +\n");
    tensor_free(x);
}

static void a_sketch_in_colour_has_a_grey_for_each_pixel(void **state)
{
    tensor x = tensor_of(SHAPE(2, 2), 0, 1, 0.2, 0.6);
    assert_image(x, true, "\033[38;5;16m\033[48;5;236m▀\033[38;5;231m\033[48;5;246m▀\033[0m\n");
    setenv("COLORTERM", "truecolor", 1);
    assert_image(
        x, true,
        "\033[38;2;0;0;0m\033[48;2;51;51;51m▀\033[38;2;255;255;255m\033[48;2;153;153;153m▀\033[0m\n");
    tensor_free(x);
}

static void what_is_no_image_is_not_sketched(void **state)
{
    tensor x = tensor_new(SHAPE(3, 2, 2)), none = { 0 };
    assert_image(x, false, "");
    expect_error("sketch_image: the image is [3, 2, 2], expected [1, H, W] or [H, W]");
    assert_image(none, false, "");
    expect_error("sketch_image: the tensor is null");
    tensor_free(x);
}

static void assert_bars(const double *values, int highlight, bool colour, const char *expected)
{
    static const char *const labels[] = { "7", "zwölf" };
    memory drawing;
    FILE *to = open_text(&drawing);
    sketch_bars(to, labels, values, 2, 4, highlight, colour);
    assert_int_equal(fclose(to), 0);
    assert_string_equal(drawing.text, expected);
    free(drawing.text);
}

static void bars_are_as_long_as_their_share(void **state)
{
    assert_bars((double[]){ 0.25, 0.75 }, 1, false, "    7 #     25.0 %\nzwölf ###   75.0 % <\n");
    assert_bars((double[]){ 0, 1 }, -1, false, "    7        0.0 %\nzwölf #### 100.0 %\n");
    assert_bars((double[]){ -1, 2 }, -1, false, "    7      -100.0 %\nzwölf #### 200.0 %\n");
    assert_bars((double[]){ 0.5, 0.28125 }, 0, true,
                "\033[1;32m    7 ██    50.0 %\033[0m\n\033[2mzwölf █▏    28.1 %\033[0m\n");
}

static void colour_is_for_terminals_that_want_it(void **state)
{
    FILE *to = fopen("plain", "w");
    assert_non_null(to);
    setenv("TERM", "xterm", 1);
    assert_false(sketch_wants_colour(to));
    assert_int_equal(fclose(to), 0);
}

#define PLACED(function) cmocka_unit_test_setup_teardown(function, enter_empty, restore_path)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(sums_are_the_standards),
        CLAIM(sums_are_right_at_every_length_of_the_last_block),
        CLAIM(digits_are_images_of_0_to_1_with_ink),
        CLAIM(digits_depend_on_seed_and_number_alone),
        CLAIM(no_two_digits_are_the_same),
        CLAIM(digits_do_not_depend_on_threads),
        CLAIM(every_ten_hold_each_digit_once),
        CLAIM(digits_can_be_learnt_and_must_be),
        CLAIM(impossible_numbers_of_digits_are_refused),
        PLACED(a_named_folder_is_used_however_its_files_are_called),
        PLACED(the_usual_folders_are_searched_in_turn),
        PLACED(a_named_folder_that_is_unusable_is_not_replaced),
        PLACED(broken_files_in_a_usual_folder_are_an_error),
        PLACED(without_mnist_digits_are_drawn_and_it_is_said),
        PLACED(what_curl_writes_is_the_file),
        PLACED(wget_is_used_where_there_is_no_curl),
        PLACED(a_download_that_fails_says_why),
        PLACED(without_curl_and_wget_that_is_the_reason),
        PLACED(a_download_of_something_else_is_not_used),
        PLACED(a_download_of_mnist_is_used),
        PLACED(a_sketch_of_ascii_has_a_character_for_two_pixels),
        PLACED(a_sketch_in_colour_has_a_grey_for_each_pixel),
        PLACED(what_is_no_image_is_not_sketched),
        PLACED(bars_are_as_long_as_their_share),
        PLACED(colour_is_for_terminals_that_want_it),
    };
    return cmocka_run_group_tests(tests, enter_folder, NULL);
}
