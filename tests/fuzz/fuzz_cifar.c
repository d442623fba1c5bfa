/* fuzz_cifar.c: st_dataset_cifar10 takes any files, plain or gzipped.
 *
 * An input is short: a byte that says what is gzipped and how many records follow of which the input says the first
 * bytes, and the rest is the end of the file as it stands. */
#include "tests/fuzz/fuzz.h"

#include "nn/data/formats.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD = 1 + 3072, MOST = 3, GZIP = 4, TWICE = 8 };

static void read_files(const char *const *paths, int count)
{
    fuzz_begin();
    fuzz_took_data(st_dataset_cifar10(paths, count), 10);
}

static void feed(const uint8_t *at, size_t size)
{
    static uint8_t file[MOST * RECORD + (1 << 13)];
    size_t used = 0;
    if (size < 1 || size > 1 << 13) return;
    int flags = *at++, records = flags % 4;
    for (size--; records > 0 && size > 0; records--, used += RECORD, at++, size--) file[used] = *at;
    memcpy(file + used, at, size);
    used += size;
    const char *first = fuzz_either("batch.bin", flags & GZIP, file, used), *paths[] = { first, first };
    read_files(paths, flags & TWICE ? 2 : 1);
}

static void seed(void)
{
    for (int flags = 0; flags < 16; flags++) {
        uint8_t input[] = { (uint8_t)flags, 0, 9, 5, 10 };
        fuzz_seed(input, 1 + (size_t)flags % 4);
        fuzz_seed(input, sizeof input);
    }
    uint8_t whole[1 + RECORD] = { 0 };
    fuzz_seed(whole, sizeof whole);
    fuzz_seed(whole, sizeof whole - 1);
}

/* So many records and one of no class: just after memory grew, and elsewhere. */
static void large(void)
{
    enum { RECORDS = 8000 };
    uint8_t *file = calloc(RECORDS + 1, RECORD);
    for (int n = 1000; n <= RECORDS; n += 250) {
        file[n * RECORD] = 10;
        const char *path = fuzz_file("batch.bin", file, (size_t)(n + 1) * RECORD);
        read_files(&path, 1);
        file[n * RECORD] = 0;
    }
    const char *path = fuzz_gzip("batch.bin", file, (size_t)RECORDS * RECORD + 1);
    read_files(&path, 1);
    free(file);
}

const fuzzer fuzz = { feed, seed, large };
