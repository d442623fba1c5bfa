/* cifar.c: CIFAR-10's binary files, which consist of records of a class and an image. */
#include "nn/data/formats.h"
#include "nn/data/data_impl.h"
#include "nn/files/file.h"
#include "tensor/array.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHANNELS = 3,
    SIDE = 32,
    RECORD = 1 + CHANNELS * SIDE * SIDE, /* bytes */
    CLASSES = 10
};

/* The records of all files. */
typedef struct records {
    unsigned char *at;
    ptrdiff_t bytes;
} records;

/* Checks the records of one file. */
static int check(const char *name, const unsigned char *at, ptrdiff_t size)
{
    const ptrdiff_t whole = size / RECORD, rest = size % RECORD;
    for (ptrdiff_t i = 0; i < whole; i++)
        if (at[i * RECORD] >= CLASSES)
            return st_error_set("%s: record %td: class %d, expected 0 to %d", name, i, at[i * RECORD],
                                CLASSES - 1);
    if (rest > 0)
        return st_error_set("%s: truncated: record %td has %td of %d bytes", name, whole, rest, RECORD);
    return size > 0 ? 0 : st_error_set("%s: empty, expected records of a class and an image", name);
}

static int append(records *all, const char *path)
{
    ptrdiff_t size;
    char *bytes = data_read("st_dataset_cifar10", path, &size);
    int status = bytes ? check(file_name(path), (unsigned char *)bytes, size) : -1;
    unsigned char *grown = status ? NULL : array_grow(file_name(path), all->at, all->bytes + size, 1);
    if (grown) {
        all->at = grown;
        memcpy(all->at + all->bytes, bytes, (size_t)size);
        all->bytes += size;
    }
    free(bytes);
    return grown ? 0 : -1;
}

st_dataset *st_dataset_cifar10(const char *const *paths, int count)
{
    records all = { 0 };
    int status = paths && count > 0
                     ? 0
                     : st_error_set("st_dataset_cifar10: %d files, expected at least one", paths ? count : 0);
    for (int i = 0; i < count && status == 0; i++) status = append(&all, paths[i]);
    if (status == 0)
        return data_bytes(all.bytes / RECORD, ST_SHAPE(CHANNELS, SIDE, SIDE),
                          (byte_images){ all.at + 1, all.at, RECORD, RECORD, all.at });
    free(all.at);
    return NULL;
}
