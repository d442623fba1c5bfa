/* cifar.c: CIFAR-10's binary files, plain or gzipped: records of a class and an image, to the end of each file. */
#include "nn/data/owned.h"
#include "nn/data/source.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHANNELS = 3,
    SIDE = 32,
    PIXELS = CHANNELS * SIDE * SIDE,
    RECORD = 1 + PIXELS,
    CLASSES = 10,
    PART = 16 /* records that are read at a time */
};

typedef struct records {
    source_part *first, **end; /* of whole records */
    ptrdiff_t count;
} records;

/* Of records from the number-th of the file on; whether there are more: 1, 0; -1 on failure. */
static int check_part(source s, const source_part *part, ptrdiff_t number)
{
    const ptrdiff_t whole = part->count / RECORD, rest = part->count % RECORD;
    for (ptrdiff_t i = 0; i < whole; i++)
        if (part->at[i * RECORD] >= CLASSES)
            return error_set("%s: record %td: class %d, expected 0 to %d", s.name, number + i,
                             part->at[i * RECORD], CLASSES - 1);
    if (rest == 0 && source_whole(s)) return whole == PART;
    return error_set("%s: truncated%s: record %td has %td of %d bytes", s.name,
                     source_whole(s) ? "" : ", its gzip stream ends early", number + whole, rest, RECORD);
}

static int read_records(source s, records *r)
{
    int more = 1;
    for (ptrdiff_t number = 0; more > 0; number += PART) {
        source_part *part = source_next_part(s, PART * RECORD);
        if (!part) return -1;
        *r->end = part;
        r->end = &part->next;
        r->count += part->count / RECORD;
        more = check_part(s, part, number);
        if (number == 0 && more == 0 && part->count == 0)
            return error_set("%s: empty, expected records of a class and an image", s.name);
    }
    return more;
}

static int read_file(const char *path, records *r)
{
    source s;
    if (!path) return error_set("data_cifar10: a path is NULL");
    if (source_open(&s, path)) return -1;
    int status = read_records(s, r);
    source_close(s);
    return status;
}

/* Images and classes apart. */
static data *make(const records *r)
{
    unsigned char *images = malloc((size_t)r->count * PIXELS), *labels = malloc((size_t)r->count);
    ptrdiff_t k = 0;
    if (images && labels) {
        for (const source_part *part = r->first; part; part = part->next)
            for (ptrdiff_t i = 0; i < part->count / RECORD; i++, k++) {
                labels[k] = part->at[i * RECORD];
                memcpy(images + k * PIXELS, part->at + i * RECORD + 1, PIXELS);
            }
        return data_bytes(r->count, SHAPE(CHANNELS, SIDE, SIDE), images, labels);
    }
    error_set("data_cifar10: no memory for %td records", r->count);
    free(images);
    free(labels);
    return NULL;
}

data *data_cifar10(const char *const *paths, int count)
{
    records r = { 0 };
    r.end = &r.first;
    int status = paths && count > 0
                     ? 0
                     : error_set("data_cifar10: %d files, expected at least one", paths ? count : 0);
    for (int i = 0; i < count && status == 0; i++) status = read_file(paths[i], &r);
    data *d = status == 0 ? make(&r) : NULL;
    source_free(r.first);
    return d;
}
