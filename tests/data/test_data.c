/* test_data.c: samples arrive where they belong, and no file, however broken, is taken for another. */
#define _POSIX_C_SOURCE 200809L
#include "tests/files.h"
#include "tests/support.h"

#include "nn/data/sets.h"
#include "nn/data/formats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Two images of 2 x 3 pixels, and the digits 7 and 9. */
#define IMAGES "\0\0\x08\3\0\0\0\2\0\0\0\2\0\0\0\3\0\1\2\3\4\5\xfa\xfb\xfc\xfd\xfe\xff"
#define LABELS "\0\0\x08\1\0\0\0\2\7\x09"

static st_tensor sample_x(const st_dataset *d, ptrdiff_t i, st_real *class)
{
    st_tensor x = st_tensor_new(d->x), y = st_tensor_new(d->target);
    d->get(d, i, x, y);
    *class = st_item(y);
    st_tensor_free(y);
    return x;
}

static void assert_is_the_pair(const st_dataset *d)
{
    assert_non_null(d);
    assert_int_equal(d->count, 2);
    assert_string_equal(st_shape_text(d->x).text, "[1, 2, 3]");
    assert_string_equal(st_shape_text(d->target).text, "[]");
    static const double pixels[2][6] = { { 0, 1, 2, 3, 4, 5 }, { 250, 251, 252, 253, 254, 255 } };
    static const double classes[] = { 7, 9 };
    for (int i = 0; i < 2; i++) {
        st_real class;
        auto_tensor x = sample_x(d, i, &class);
        for (int k = 0; k < 6; k++) assert_true(*element(x, k) == (st_real)pixels[i][k] / 255);
        assert_true(class == (st_real)classes[i]);
    }
}

/* ---- IDX files that are right ---------------------------------------------------------------- */

SETUP(enter_folder)

TEST(idx_files_become_pixels_and_classes)
{
    for (int which = 0; which < 4; which++) { /* either of them gzipped, whatever it is called */
        auto_dataset *d = st_dataset_idx((which & 1 ? zipped : written)("images.gz", BYTES(IMAGES)),
                                         (which & 2 ? zipped : written)("labels", BYTES(LABELS)));
        assert_is_the_pair(d);
    }
}

TEST(images_of_rank_4_have_channels)
{
    auto_dataset *d = st_dataset_idx(
        written("images", BYTES("\0\0\x08\4\0\0\0\2\0\0\0\3\0\0\0\1\0\0\0\2\0\0\0\0\0\0\xff\0\xff\0\xff\0")),
        written("labels", BYTES(LABELS)));
    assert_non_null(d);
    assert_string_equal(st_shape_text(d->x).text, "[3, 1, 2]");
    st_real class;
    auto_tensor x = sample_x(d, 1, &class);
    assert_elements(x, 1, 0, 1, 0, 1, 0);
}

/* More than is read at once, so that memory grows on the way. */
TEST(large_files_arrive_whole)
{
    enum { COUNT = 4100, PIXELS = 28 * 28, HEAD = 16 };
    unsigned char *all = malloc(HEAD + COUNT * PIXELS), classes[8 + COUNT] = "\0\0\x08\1\0\0\x10\x04";
    assert_non_null(all);
    memcpy(all, "\0\0\x08\3\0\0\x10\x04\0\0\0\x1c\0\0\0\x1c", HEAD);
    for (int i = 0; i < COUNT * PIXELS; i++) all[HEAD + i] = (unsigned char)(i * 2654435761u >> 23);
    for (int i = 0; i < COUNT; i++) classes[8 + i] = (unsigned char)(i % 251);
    const bytes images = { HEAD + COUNT * PIXELS, all }, labels = { sizeof classes, classes };
    for (int zip = 0; zip < 2; zip++) {
        auto_dataset *d = st_dataset_idx((zip ? zipped : written)("images", images),
                                         (zip ? zipped : written)("labels", labels));
        assert_non_null(d);
        assert_int_equal(d->count, COUNT);
        for (ptrdiff_t i = 0; i < COUNT; i += 41) {
            st_real class;
            auto_tensor x = sample_x(d, i, &class);
            assert_true(class == (st_real)(i % 251));
            for (ptrdiff_t k = 0; k < PIXELS; k++)
                if (st_data(x)[k] != (st_real)all[HEAD + i * PIXELS + k] / 255)
                    fail_msg("image %td, pixel %td", i, k);
        }
    }
    free(all);
}

/* ---- IDX files that are wrong ---------------------------------------------------------------- */

/* clang-format off */
static const bad_file bad_images[] = {
    { "empty", STRING(""), "truncated: 0 of 4 bytes of the magic number" },
    { "a text", STRING("P5\n28 28\n255\n"), "begins with 50 35 0a 32" },
    { "first byte", STRING("\1\0\x08\3\0\0\0\1\0\0\0\1\0\0\0\1\0"), "begins with 01 00 08 03" },
    { "second byte", STRING("\0\1\x08\3\0\0\0\1\0\0\0\1\0\0\0\1\0"), "begins with 00 01 08 03" },
    { "no type", STRING("\0\0\0\3\0\0\0\1\0\0\0\1\0\0\0\1\0"), "IDX type 00" },
    { "signed bytes", STRING("\0\0\x09\3\0\0\0\1\0\0\0\1\0\0\0\1\0"), "IDX type 09" },
    { "rank 0", STRING("\0\0\x08\0\0"), "rank 0" },
    { "labels", STRING(LABELS), "rank 1" },
    { "rank 2", STRING("\0\0\x08\2\0\0\0\2\0\0\0\2\0\0\0\0"), "rank 2" },
    { "rank 255", STRING("\0\0\x08\xff\0\0\0\1"), "rank 255" },
    { "no image", STRING("\0\0\x08\3\0\0\0\0\0\0\0\2\0\0\0\3"), "sizes [0, 2, 3]" },
    { "no column", STRING("\0\0\x08\3\0\0\0\2\0\0\0\3\0\0\0\0"), "sizes [2, 3, 0]" },
    { "no image, and overflow", STRING("\0\0\x08\4\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"),
      "expected at least 1" },
    { "overflow", STRING("\0\0\x08\4\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
      "[4294967295, 4294967295, 4294967295, 4294967295] of " },
    { "overflow to zero", STRING("\0\0\x08\4\x80\0\0\0\x80\0\0\0\0\0\0\4\0\0\0\1"), "can be addressed" },
    { "overflow of signed", STRING("\0\0\x08\3\x80\0\0\0\x80\0\0\0\0\0\0\2"), "can be addressed" },
    { "an empty promise", STRING("\0\0\x08\3\x80\0\0\0\4\0\0\0\0\0\0\2\1\2\3"),
      "truncated: 3 of 288230376151711744 bytes of images" },
    { "sizes from the other end",
      STRING("\0\0\x08\3\2\0\0\0\2\0\0\0\3\0\0\0\0\1\2\3\4\5\6\7\x08\x09\x0a\x0b"),
      "can be addressed" },
    { "an image too many", STRING("\0\0\x08\3\0\0\0\2\0\0\0\2\0\0\0\3\0\1\2\3\4\5\6\7\1\2\3\4\5\6\7\1\2\3"),
      "trailing data" },
    { "a byte too many", STRING(IMAGES "\0"), "trailing data" },
    { "gzip of another method", STRING("\x1f\x8b\x07\0\0\0\0\0\0\3\0\0\0\0\0\0\0\0"),
      "corrupt gzip stream: " },
};
/* clang-format on */

/* clang-format off */
static const bad_file bad_labels[] = {
    { "a text", STRING("7\n9\n"), "begins with 37 0a 39 0a" },
    { "integers", STRING("\0\0\x0c\1\0\0\0\2\0\0\0\1\0\0\0\2"), "IDX type 0c" },
    { "images", STRING(IMAGES), "rank 3" },
    { "no label", STRING("\0\0\x08\1\0\0\0\0"), "sizes [0]" },
    { "a label too many", STRING(LABELS "\1"), "trailing data" },
    { "fewer", STRING("\0\0\x08\1\0\0\0\1\7"), "labels: 1 labels" },
    { "more", STRING("\0\0\x08\1\0\0\0\3\7\1\2"), "labels: 3 labels" },
};
/* clang-format on */

TEST(broken_images_are_refused)
{
    const char *labels = written("labels", BYTES(LABELS));
    for (size_t i = 0; i < sizeof bad_images / sizeof *bad_images; i++)
        for (int zip = 0; zip < 2; zip++) {
            about("images: %s, gzipped: %d", bad_images[i].what, zip);
            if (zip && strstr(bad_images[i].what, "gzip")) continue;
            const char *images = (zip ? zipped : written)("images", bad_images[i].file);
            expect_refused(st_dataset_idx(images, labels), images, bad_images[i].expected);
        }
}

TEST(broken_labels_are_refused)
{
    const char *images = written("images", BYTES(IMAGES));
    for (size_t i = 0; i < sizeof bad_labels / sizeof *bad_labels; i++) {
        about("labels: %s", bad_labels[i].what);
        const char *labels = written("labels", bad_labels[i].file);
        expect_refused(st_dataset_idx(images, labels), labels, bad_labels[i].expected);
    }
}

/* Some bits of a gzip header have no effect (the time, say); a change of any other bit is refused. */
TEST(no_wrong_bit_of_a_gzip_stream_changes_a_pixel)
{
    bytes whole = contents(zipped("whole.gz", BYTES(IMAGES)));
    unsigned char *at = (unsigned char *)whole.at;
    int refused = 0;
    for (size_t bit = 0; bit < 8 * whole.count; bit++) {
        about("bit %zu", bit);
        at[bit / 8] ^= (unsigned char)(1 << bit % 8);
        auto_dataset *d = st_dataset_idx(written("images", whole), written("labels", BYTES(LABELS)));
        at[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (d) assert_is_the_pair(d);
        else expect_refused(d, path_of("images"), "");
        refused += d == NULL;
    }
    assert_true(refused > (int)(8 * (whole.count - 10)));
}

/* Oracle: no machine has the memory that the header asks for, so asking for it would be another error. */
TEST(memory_grows_with_what_has_arrived)
{
    enum { HEAD = 16, ARRIVED = (1 << 21) + 5 };
    unsigned char *all = calloc(1, HEAD + ARRIVED);
    assert_non_null(all);
    memcpy(all, "\0\0\x08\3\x80\0\0\0\4\0\0\0\0\0\0\2", HEAD);
    const bytes images = { HEAD + ARRIVED, all };
    for (int zip = 0; zip < 2; zip++) {
        st_dataset *d =
            st_dataset_idx((zip ? zipped : written)("images", images), written("labels", BYTES(LABELS)));
        expect_refused(d, path_of("images"), "truncated: 2097157 of 288230376151711744 bytes of images");
    }
    free(all);
}

/* ---- data sets of the user's own ------------------------------------------------------------- */

/* Sample i is x = [i, -i], y = 10 i. `own` counts the releases. */
static void get_number(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    *st_at(x, ST_INDEX(0)) = (st_real)i;
    *st_at(x, ST_INDEX(1)) = (st_real)-i;
    st_fill(y, (st_real)(10 * i));
}

static void count_release(st_dataset *d)
{
    ++*(int *)d->own;
}

static st_dataset numbers(ptrdiff_t count, int *released)
{
    return (st_dataset){
        .count = count, .x = ST_SHAPE(2), .get = get_number, .release = count_release, .own = released
    };
}

TEST(a_set_of_your_own_is_asked_and_released_once)
{
    int released = 0;
    st_dataset *d = st_dataset_new(numbers(5, &released));
    assert_non_null(d);
    auto_tensor x = st_tensor_new(ST_SHAPE(3, 2)), y = st_tensor_new(ST_SHAPE(3));
    assert_int_equal(st_dataset_batch(d, NULL, 2, 3, x, y), 0);
    assert_elements(x, 2, -2, 3, -3, 4, -4);
    assert_elements(y, 20, 30, 40);
    assert_int_equal(released, 0);
    st_dataset_free(d);
    assert_int_equal(released, 1);
}

TEST(what_no_set_can_be_is_refused_and_released)
{
    int released = 0;
    st_dataset kind = numbers(1, &released);
    kind.get = NULL;
    expect_failure(st_dataset_new(kind), "st_dataset_new: get is NULL");
    for (int count = -3; count <= 0; count += 3)
        expect_failure(st_dataset_new(numbers(count, &released)), "st_dataset_new: %d samples", count);
    kind = numbers(1, &released);
    kind.x = ST_SHAPE(2, -1);
    expect_failure(st_dataset_new(kind), "st_dataset_new: x: negative size in shape [2, -1]");
    kind.x = ST_SHAPE(1, 1, 1, 1, 1, 1, 1, 1);
    expect_failure(st_dataset_new(kind), "st_dataset_new: x: samples of rank 8, expected at most 7");
    kind.x = ST_SHAPE(2);
    kind.target = ST_SHAPE(PTRDIFF_MAX, 2);
    expect_failure(st_dataset_new(kind), "st_dataset_new: target: shape");
    assert_int_equal(released, 6);
    kind = numbers(1, NULL), kind.release = NULL;
    st_dataset_free(st_dataset_new(kind)), st_dataset_free(NULL);
}

/* ---- of tensors ------------------------------------------------------------------------------ */

TEST(tensors_are_a_data_set)
{
    auto_tensor x = tensor_of(ST_SHAPE(3, 2), 1, 2, 3, 4, 5, 6), y = tensor_of(ST_SHAPE(3), 7, 8, 9);
    st_dataset *d = st_dataset_tensors(st_flip(x, 1), y); /* a view is as good */
    assert_non_null(d);
    assert_int_equal(d->count, 3);
    auto_tensor bx = st_tensor_new(ST_SHAPE(2, 2)), by = st_tensor_new(ST_SHAPE(2));
    assert_int_equal(st_dataset_batch(d, (ptrdiff_t[]){ 2, 0 }, 0, 2, bx, by), 0);
    assert_elements(bx, 6, 5, 2, 1);
    assert_elements(by, 9, 7);
    *st_at(x, ST_INDEX(0, 0)) = 100; /* no copy was made */
    assert_int_equal(st_dataset_batch(d, NULL, 0, 2, bx, by), 0);
    assert_elements(bx, 2, 100, 4, 3);
    st_dataset_free(d);
}

TEST(tensors_that_do_not_agree_are_refused)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(3, 2)), y = st_tensor_new(ST_SHAPE(2));
    expect_failure(st_dataset_tensors(x, y),
                   "st_dataset_tensors: x [3, 2] and y [2], expected [N, ...] and [N, ...] with one N");
    expect_failure(st_dataset_tensors(x, st_select(y, 0, 0)),
                   "st_dataset_tensors: x [3, 2] and y [], expected [N, ...]");
    expect_failure(st_dataset_tensors(st_select(y, 0, 0), y),
                   "st_dataset_tensors: x [] and y [2], expected [N, ...]");
    expect_failure(st_dataset_tensors((st_tensor){ 0 }, y), "st_dataset_tensors: x [] and y [2], expected");
    expect_failure(st_dataset_tensors(x, (st_tensor){ 0 }),
                   "st_dataset_tensors: x [3, 2] and y [], expected");
    expect_failure(st_dataset_tensors(st_narrow(x, 0, 0, 0), st_narrow(y, 0, 0, 0)),
                   "st_dataset_new: 0 samples");
    expect_failure(st_dataset_tensors(st_narrow(x, 0, 0, 2), st_select(y, 0, 0)),
                   "st_dataset_tensors: x [2, 2] and y [], expected [N, ...]");
}

/* ---- slices ---------------------------------------------------------------------------------- */

TEST(a_slice_is_a_part)
{
    int released = 0;
    st_dataset *whole = st_dataset_new(numbers(10, &released)), *part = st_dataset_slice(whole, 3, 5),
               *inner = st_dataset_slice(part, 1, 4);
    assert_non_null(inner);
    assert_int_equal(part->count, 5);
    assert_int_equal(inner->count, 4);
    assert_string_equal(st_shape_text(part->x).text, "[2]");
    auto_tensor x = st_tensor_new(ST_SHAPE(4, 2)), y = st_tensor_new(ST_SHAPE(4));
    assert_int_equal(st_dataset_batch(part, NULL, 1, 4, x, y), 0);
    assert_elements(y, 40, 50, 60, 70);
    assert_int_equal(st_dataset_batch(inner, (ptrdiff_t[]){ 3, 3, 0, 1 }, 0, 4, x, y), 0);
    assert_elements(y, 70, 70, 40, 50);
    st_dataset_free(inner), st_dataset_free(part);
    assert_int_equal(released, 0);
    st_dataset_free(whole);
    assert_int_equal(released, 1);
}

TEST(a_slice_may_be_the_whole_and_no_more)
{
    int released = 0;
    st_dataset *whole = st_dataset_new(numbers(10, &released)), *part = st_dataset_slice(whole, 0, 10);
    assert_non_null(part);
    st_dataset_free(part);
    part = st_dataset_slice(whole, 9, 1);
    assert_non_null(part);
    st_dataset_free(part);
    static const ptrdiff_t bad[][2] = {
        { -1, 3 }, { 0, 0 },  { 0, -1 },          { 0, 11 },          { 1, 10 },
        { 10, 1 }, { 11, 1 }, { PTRDIFF_MAX, 2 }, { 2, PTRDIFF_MAX },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_failure(st_dataset_slice(whole, bad[i][0], bad[i][1]),
                       "st_dataset_slice: %td samples from %td on", bad[i][1], bad[i][0]);
    st_dataset_free(whole);
}

/* ---- batches --------------------------------------------------------------------------------- */

TEST(a_batch_goes_into_any_view_and_nowhere_else)
{
    auto_dataset *d = st_dataset_idx(written("images", BYTES(IMAGES)), written("labels", BYTES(LABELS)));
    assert_non_null(d);
    const ptrdiff_t order[] = { 1, 0, 1, 1 };
    auto_tensor plain_x = st_tensor_new(ST_SHAPE(4, 1, 2, 3)), plain_y = st_tensor_new(ST_SHAPE(4));
    assert_int_equal(st_dataset_batch(d, order, 0, 4, plain_x, plain_y), 0);
    assert_elements(plain_y, 9, 7, 9, 9);
    dice rolls = { { 5 } };
    for (int i = 0; i < 200; i++) {
        about("view %d", i);
        st_tensor whole_x, whole_y;
        st_tensor x = roll_view(&rolls, plain_x.shape, &whole_x),
                  y = roll_view(&rolls, plain_y.shape, &whole_y);
        st_fill(whole_x, -1);
        st_fill(whole_y, -1);
        assert_int_equal(st_dataset_batch(d, order, 0, 4, x, y), 0);
        assert_same(x, plain_x);
        assert_same(y, plain_y);
        st_fill(x, -1);
        st_fill(y, -1);
        for (ptrdiff_t k = 0; k < st_numel(whole_x); k++) assert_true(*element(whole_x, k) == -1);
        for (ptrdiff_t k = 0; k < st_numel(whole_y); k++) assert_true(*element(whole_y, k) == -1);
        st_tensor_free(whole_x), st_tensor_free(whole_y);
    }
}

TEST(a_batch_of_other_shapes_is_refused)
{
    auto_dataset *d = st_dataset_idx(written("images", BYTES(IMAGES)), written("labels", BYTES(LABELS)));
    assert_non_null(d);
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 1, 2, 3)), y = st_tensor_new(ST_SHAPE(2));
    expect_failure(st_dataset_batch(d, NULL, 0, 2, st_select(x, 1, 0), y),
                   "st_dataset_batch: x is [2, 2, 3]");
    expect_failure(st_dataset_batch(d, NULL, 0, 1, x, y), "st_dataset_batch: x is [2, 1, 2, 3]");
    expect_failure(st_dataset_batch(d, NULL, 0, 2, x, st_reshape(y, ST_SHAPE(2, 1))),
                   "st_dataset_batch: y is [2, 1]");
    expect_failure(st_dataset_batch(d, NULL, 0, 2, (st_tensor){ 0 }, y), "st_dataset_batch: x is the null");
    expect_failure(st_dataset_batch(d, NULL, 0, 2, x, (st_tensor){ 0 }), "st_dataset_batch: y is the null");
    expect_failure(st_dataset_batch(d, NULL, 0, -1, x, y), "st_dataset_batch: -1 samples");
}

TEST(samples_that_are_not_there_are_refused_before_anything_is_written)
{
    int released = 0;
    auto_dataset *d = st_dataset_new(numbers(5, &released));
    auto_tensor x = st_tensor_new(ST_SHAPE(3, 2)), y = st_tensor_new(ST_SHAPE(3));
    expect_failure(st_dataset_batch(d, (ptrdiff_t[]){ 1, 4, 5 }, 0, 3, x, y),
                   "st_dataset_batch: sample 5 (order[2]), the set has 5");
    expect_failure(st_dataset_batch(d, (ptrdiff_t[]){ 1, -1, 2 }, 0, 3, x, y),
                   "st_dataset_batch: sample -1 (order[1]), the set has 5");
    static const ptrdiff_t bad[] = { -1, 3, 5, 6, PTRDIFF_MAX };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_failure(st_dataset_batch(d, NULL, bad[i], 3, x, y),
                       "st_dataset_batch: 3 samples from %td on, the set has 5", bad[i]);
    assert_elements(x, 0, 0, 0, 0, 0, 0);
    assert_elements(y, 0, 0, 0);
}

TEST(a_batch_may_be_empty)
{
    int released = 0;
    auto_dataset *d = st_dataset_new(numbers(5, &released));
    auto_tensor x = st_tensor_new(ST_SHAPE(0, 2)), y = st_tensor_new(ST_SHAPE(0));
    assert_int_equal(st_dataset_batch(d, NULL, 5, 0, x, y), 0);
}

static void get_broken(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    if (i == 3) st_error_set("no such picture");
}

TEST(a_get_that_fails_is_named)
{
    auto_dataset *d = st_dataset_new((st_dataset){ .count = 5, .get = get_broken });
    auto_tensor x = st_tensor_new(ST_SHAPE(4)), y = st_tensor_new(ST_SHAPE(4));
    expect_failure(st_dataset_batch(d, NULL, 0, 3, x, st_narrow(y, 0, 0, 3)), "st_dataset_batch: x is [4]");
    expect_failure(st_dataset_batch(d, NULL, 1, 4, x, y), "sample 3: no such picture");
}

TEST(an_older_error_is_not_the_samples)
{
    int released = 0;
    auto_dataset *d = st_dataset_new(numbers(5, &released));
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 2)), y = st_tensor_new(ST_SHAPE(2));
    st_error_set("older");
    assert_int_equal(st_dataset_batch(d, NULL, 0, 2, x, y), 0);
    assert_string_equal(st_error(), "older");
    expect_error("older");
}
