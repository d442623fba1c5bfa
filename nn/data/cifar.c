/* cifar.c: CIFAR-10's binary files, which consist of records of a class and an image. */
#include "nn/data/formats.h"
#include "nn/data/bytes.h"
#include "nn/data/source.h"

#include <stdlib.h>

enum {
    CHANNELS = 3,
    SIDE = 32,
    RECORD = 1 + CHANNELS * SIDE * SIDE, /* bytes */
    CLASSES = 10,
    MOST_RECORDS = 1 << 20 /* of all files, since a small gzip stream may unpack to any number */
};

/* Checks the records of one file of `size` bytes. */
static int check_records(source s, const unsigned char *at, ptrdiff_t size)
{
    const ptrdiff_t whole = size / RECORD, rest = size % RECORD;
    for (ptrdiff_t i = 0; i < whole; i++)
        if (at[i * RECORD] >= CLASSES)
            return st_error_set("%s: record %td: class %d, expected 0 to %d", s.name, i, at[i * RECORD],
                                CLASSES - 1);
    if (rest > 0)
        return st_error_set("%s: truncated: record %td has %td of %d bytes", s.name, whole, rest, RECORD);
    return size > 0 ? 0 : st_error_set("%s: empty, expected records of a class and an image", s.name);
}

static int read_records(source s, source_bytes *all)
{
    const ptrdiff_t before = all->count, most = (ptrdiff_t)MOST_RECORDS * RECORD - before;
    if (source_append(s, all, most + 1)) return -1;
    if (all->count - before > most) return st_error_set("%s: more than %d records", s.name, MOST_RECORDS);
    return check_records(s, all->at + before, all->count - before);
}

static int read_file(const char *path, source_bytes *all)
{
    source s;
    if (!path) return st_error_set("st_dataset_cifar10: a path is NULL");
    if (source_open(&s, path)) return -1;
    int status = read_records(s, all);
    source_close(s);
    return status;
}

st_dataset *st_dataset_cifar10(const char *const *paths, int count)
{
    source_bytes all = { 0 };
    int status = paths && count > 0
                     ? 0
                     : st_error_set("st_dataset_cifar10: %d files, expected at least one", paths ? count : 0);
    for (int i = 0; i < count && status == 0; i++) status = read_file(paths[i], &all);
    if (status == 0)
        return data_bytes(all.count / RECORD, ST_SHAPE(CHANNELS, SIDE, SIDE),
                          (byte_images){ all.at + 1, all.at, RECORD, RECORD, { all.at } });
    free(all.at);
    return NULL;
}
