/* fuzz_bytes.c: st_dataset_idx and st_dataset_cifar10 take any files, plain or gzipped, and zlib any stream.
 *
 * An input: a byte of flags; what it says, below; the rest is one file, or two. */
#include "tests/fuzz/fuzz.h"

#include "nn/data/formats.h"

#include <stdlib.h>
#include <string.h>

enum {
    IDX, /* images and labels; a byte more says where the second file begins */
    CIFAR,
    STREAM,      /* a gzip stream, for all readers; two bytes more say what is changed in it */
    ZIP = 4,     /* the first file is gzipped; of a stream: the rest is packed into one */
    ZIP_TOO = 8, /* the second file */
    MATCH =
        16, /* labels are good ones; an input of CIFAR's is the first byte of each record; twice the stream */
    CUT = 32,    /* the stream loses its end */
    CHANGE = 64, /* and a byte of it is changed */
    RECORD = 1 + 3072,
    MOST = 1 << 13
};

/* Labels 0 for as many images as the other file says, if these are few. */
static size_t matching(const uint8_t *images, size_t size, uint8_t labels[8 + 255])
{
    memcpy(labels, "\0\0\x08\1\0\0\0", 8);
    labels[7] = size > 7 ? images[7] : 0;
    return 8 + (size_t)labels[7];
}

static void read_idx(const char *images, const char *labels)
{
    fuzz_begin();
    fuzz_took_data(st_dataset_idx(images, labels), 0);
}

static void read_cifar(const char *first, const char *second)
{
    const char *paths[] = { first, second };
    fuzz_begin();
    fuzz_took_data(st_dataset_cifar10(paths, second ? 2 : 1), 10);
}

static void feed_idx(int flags, const uint8_t *at, size_t size)
{
    uint8_t labels[8 + 255] = { 0 };
    if (size < 1) return;
    const size_t first = flags & MATCH || at[0] > size - 1 ? size - 1 : at[0];
    const char *images = fuzz_either("images", flags & ZIP, at + 1, first);
    const size_t good = matching(at + 1, first, labels);
    read_idx(images, flags & MATCH
                         ? fuzz_either("labels", flags & ZIP_TOO, labels, good)
                         : fuzz_either("labels", flags & ZIP_TOO, at + 1 + first, size - 1 - first));
}

static void feed_cifar(int flags, const uint8_t *at, size_t size)
{
    static uint8_t file[4 * RECORD + MOST];
    size_t used = 0;
    for (; flags & MATCH && used < 4 * RECORD && size > 0; used += RECORD, at++, size--) file[used] = *at;
    memcpy(file + used, at, size);
    const char *first = fuzz_either("batch.bin", flags & ZIP, file, used + size);
    read_cifar(first, flags & ZIP_TOO ? first : NULL);
}

static void feed_stream(int flags, const uint8_t *at, size_t size)
{
    static uint8_t packed[8 * MOST];
    if (size < 2) return;
    const int place = at[0], change = at[1];
    at += 2, size -= 2;
    if (flags & ZIP) {
        size_t whole = fuzz_pack(at, size, packed, sizeof packed / 2);
        if (flags & MATCH) whole += fuzz_pack(at, size, packed + whole, sizeof packed - whole);
        if (flags & CHANGE) packed[(size_t)place % whole] ^= (uint8_t)change;
        if (flags & CUT) whole -= (size_t)change % whole;
        at = packed, size = whole;
    }
    const char *path = fuzz_file("stream.gz", at, size);
    read_idx(path, path);
    fuzz_file("stream.gz", at, size);
    fuzz_begin();
    fuzz_took_data(st_dataset_csv_new(path, (st_csv_options){ 0 }), 0);
}

static void feed(const uint8_t *at, size_t size)
{
    if (size < 1 || size > MOST) return;
    if (at[0] % 4 == IDX) feed_idx(at[0], at + 1, size - 1);
    if (at[0] % 4 == CIFAR) feed_cifar(at[0], at + 1, size - 1);
    if (at[0] % 4 == STREAM) feed_stream(at[0], at + 1, size - 1);
}

/* The bytes behind the flags, with all of them in turn. */
static void seed_all(int reader, const char *bytes, size_t size)
{
    uint8_t input[128];
    memcpy(input + 1, bytes, size);
    for (int flags = 0; flags < 128; flags += 4) {
        input[0] = (uint8_t)(flags + reader);
        fuzz_seed(input, 1 + size);
    }
}

static void seed(void)
{
    static const char pair[] = "\x14\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\2\1\2\3\4\0\0\x08\1\0\0\0\2\0\1",
                      colour[] = "\x14\0\0\x08\4\0\0\0\1\0\0\0\3\0\0\0\1\0\0\0\1\1\2\3",
                      classes[] = "\0\x09\5\x0a", table[] = "\3\5a,b\n1,2.5\n0,-3e2\n",
                      labels[] = "\3\5\0\0\x08\1\0\0\0\2\0\1";
    const char plain[2 * RECORD] = { CIFAR };
    seed_all(IDX, pair, sizeof pair - 1), seed_all(IDX, colour, sizeof colour - 1);
    seed_all(CIFAR, classes, sizeof classes - 1);
    seed_all(STREAM, table, sizeof table - 1), seed_all(STREAM, labels, sizeof labels - 1);
    fuzz_seed(plain, 1 + RECORD), fuzz_seed(plain, 1 + RECORD - 1);
}

/* So many bytes of images where a header promises 47 MiB; so many records and one of no class. */
static void large(void)
{
    static const int held[] = { 1 << 20, (1 << 20) + 1, 16 << 20, (16 << 20) + 5, 33 << 20, 47 << 20 };
    uint8_t *file = calloc(48 << 20, 1);
    memcpy(file, "\0\0\x08\3\0\0\0\x2f\0\0\4\0\0\0\4\0", 16);
    for (int i = 0; i < 12; i++) read_idx(fuzz_either("images", i % 2, file, (size_t)held[i / 2]), "nowhere");
    memset(file, 0, 16);
    for (int n = 1000; n <= 8000; n += 250) {
        file[n * RECORD] = 10;
        read_cifar(fuzz_file("batch.bin", file, (size_t)(n + 1) * RECORD), NULL);
        file[n * RECORD] = 0;
    }
    read_cifar(fuzz_gzip("batch.bin", file, (size_t)8000 * RECORD + 1), NULL);
    free(file);
}

static const char *const words[] = { "\x08\3",           "\x08\4",           "\x08\1",
                                     "\xff\xff\xff\xff", "\x7f\xff\xff\xff", "\x1f\x8b\x08",
                                     "\x1f\x8b\x08\x04", "\x1f\x8b\x08\x10", NULL };

const fuzzer fuzz = { feed, seed, large, words };
