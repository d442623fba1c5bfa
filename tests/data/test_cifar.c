/* test_cifar.c: records of CIFAR-10's files become images and classes; no file, however broken, is taken for
 * them. */
#define _XOPEN_SOURCE 700 /* truncate */
#include "tests/files.h"
#include "tests/support.h"

#include "nn/data/formats.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIXELS = 3 * 32 * 32, RECORD = 1 + PIXELS, MOST = 3000 };

static unsigned char records[MOST * RECORD + 1];

/* Byte k of image i. */
static int pixel(int i, int k)
{
    return (int)(((unsigned)i * PIXELS + (unsigned)k) * 2654435761u >> 24);
}

/* Records `first` to `first + count`, of class i mod 10. */
static bytes records_of(int first, int count)
{
    for (int i = 0; i < count; i++) {
        records[i * RECORD] = (unsigned char)((first + i) % 10);
        for (int k = 0; k < PIXELS; k++) records[i * RECORD + 1 + k] = (unsigned char)pixel(first + i, k);
    }
    return (bytes){ (size_t)(count * RECORD), records };
}

static void assert_are_the_records(st_dataset *d, int count)
{
    if (!d) fail_msg("%s", st_error());
    assert_int_equal(d->count, count);
    assert_string_equal(st_shape_text(d->x).text, "[3, 32, 32]");
    assert_string_equal(st_shape_text(d->target).text, "[]");
    auto_tensor x = st_tensor_new(d->x), y = st_tensor_new(d->target);
    for (int i = 0; i < count; i += 1 + count / 50) { /* red, green and blue, rows after rows */
        d->get(d, i, x, y);
        assert_true(st_item(y) == (st_real)(i % 10));
        for (int k = 0; k < PIXELS; k++)
            if (st_data(x)[k] != (st_real)pixel(i, k) / 255) fail_msg("image %d, byte %d", i, k);
    }
    st_dataset_free(d);
}

SETUP(enter_folder)

TEST(records_become_images_and_classes)
{
    for (int zip = 0; zip < 2; zip++) {
        const char *path = (zip ? zipped : written)("batch.bin", records_of(0, 13));
        assert_are_the_records(st_dataset_cifar10(&path, 1), 13);
    }
}

/* More than memory begins with. */
TEST(files_follow_one_another)
{
    const char *paths[] = { written("data_batch_1.bin", records_of(0, 1)),
                            zipped("data_batch_2.bin.gz", records_of(1, MOST)),
                            written("data_batch_3.bin", records_of(1 + MOST, 257)) };
    assert_are_the_records(st_dataset_cifar10(paths, 3), 1 + MOST + 257);
}

TEST(every_class_is_one_of_ten)
{
    for (int class = 0; class < 256; class ++) {
        about("class %d", class);
        bytes b = records_of(0, 3);
        records[2 * RECORD] = (unsigned char)class;
        const char *path = written("batch.bin", b);
        auto_dataset *d = st_dataset_cifar10(&path, 1);
        if (class > 9) expect_refused(d, path, "record 2: class ");
        else assert_non_null(d);
    }
}

/* Zeros are records; a terabyte of them is refused before it is read. */
TEST(a_file_without_an_end_is_refused)
{
    const char *path = written("endless.bin", BYTES("0"));
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    expect_refused(st_dataset_cifar10(&path, 1), path, ": more than 4294967294 bytes");
    unlink(path);
}

TEST(what_is_no_set_of_files_is_refused)
{
    const char *paths[] = { written("batch.bin", records_of(0, 1)), path_of("none.bin") };
    expect_refused(st_dataset_cifar10(paths, 2), paths[1], ": No such file or directory");
    paths[1] = path_of(".");
    expect_refused(st_dataset_cifar10(paths, 2), paths[1], ": Is a directory");
    for (int count = -1; count <= 1; count++)
        expect_failure(st_dataset_cifar10(count == 1 ? NULL : paths, count), "st_dataset_cifar10: %d files",
                       count == 1 ? 0 : count);
}
