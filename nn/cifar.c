/* cifar.c: CIFAR-10's binary files, plain or gzipped: records of a class and an image, to the end of each file. */
#include "nn/owned.h"
#include "nn/source.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHANNELS = 3,
    SIDE = 32,
    PIXELS = CHANNELS * SIDE * SIDE,
    CLASSES = 10,
    FIRST_ROOM = 256 /* records */
};

typedef struct records {
    unsigned char *images, *labels;
    ptrdiff_t count, room;
} records;

/* For one more; memory grows as data arrives. */
static int make_room(records *r)
{
    if (r->count < r->room) return 0;
    ptrdiff_t room = r->room ? r->room + r->room / 2 : FIRST_ROOM;
    unsigned char *images = realloc(r->images, (size_t)room * PIXELS);
    if (images) r->images = images;
    unsigned char *labels = realloc(r->labels, (size_t)room);
    if (labels) r->labels = labels;
    if (!images || !labels) return error_set("no memory for %td records", room);
    r->room = room;
    return 0;
}

/* 1; 0 at the file's end; -1 on failure. */
static int read_record(source s, records *r, ptrdiff_t number)
{
    unsigned char record[1 + PIXELS];
    ptrdiff_t got = source_read(s, record, sizeof record);
    if (got == 0 && source_whole(s)) return 0;
    if (got < 0) return -1;
    if (got < (ptrdiff_t)sizeof record)
        return error_set("%s: truncated%s: record %td has %td of %zu bytes", s.name,
                         source_whole(s) ? "" : ", its gzip stream ends early", number, got, sizeof record);
    if (record[0] >= CLASSES)
        return error_set("%s: record %td: class %d, expected 0 to %d", s.name, number, record[0],
                         CLASSES - 1);
    if (make_room(r)) return error_within("%s: ", s.name);
    r->labels[r->count] = record[0];
    memcpy(r->images + r->count++ * PIXELS, record + 1, PIXELS);
    return 1;
}

static int read_file(const char *path, records *r)
{
    source s;
    if (!path) return error_set("data_cifar10: a path is NULL");
    if (source_open(&s, path)) return -1;
    ptrdiff_t number = 0;
    int status = 1;
    while (status > 0) status = read_record(s, r, number++);
    if (status == 0 && number == 1)
        status = error_set("%s: empty, expected records of a class and an image", s.name);
    source_close(s);
    return status;
}

data *data_cifar10(const char *const *paths, int count)
{
    records r = { 0 };
    int status = paths && count > 0
                     ? 0
                     : error_set("data_cifar10: %d files, expected at least one", paths ? count : 0);
    for (int i = 0; i < count && status == 0; i++) status = read_file(paths[i], &r);
    if (status == 0) return data_bytes(r.count, SHAPE(CHANNELS, SIDE, SIDE), r.images, r.labels);
    free(r.images);
    free(r.labels);
    return NULL;
}
