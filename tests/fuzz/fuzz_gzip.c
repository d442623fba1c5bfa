/* fuzz_gzip.c: what zlib reads, cut and changed anywhere: as a table and as an IDX file of labels.
 *
 * An input: a byte that says what is done with the rest, which is a gzip stream or is packed into one; the packed one
 * then has a byte changed or loses its end. */
#include "tests/fuzz/fuzz.h"

#include "nn/data/formats.h"

#include <stdlib.h>
#include <string.h>

enum { PACK = 1, CUT = 2, CHANGE = 4, IDX = 8, TWICE = 16 };

static void read_stream(int flags, const uint8_t *at, size_t size)
{
    const char *path = fuzz_file("stream.gz", at, size);
    fuzz_begin();
    fuzz_took_data(flags & IDX ? st_dataset_idx(path, path) : st_dataset_csv_new(path, (st_csv_options){ 0 }),
                   0);
}

static void feed(const uint8_t *at, size_t size)
{
    static uint8_t packed[1 << 17];
    if (size < 3 || size > sizeof packed / 4) return;
    int flags = at[0], place = at[1], change = at[2];
    at += 3, size -= 3;
    if (!(flags & PACK)) {
        read_stream(flags, at, size);
        return;
    }
    size_t whole = fuzz_pack(at, size, packed, sizeof packed / 2);
    if (flags & TWICE) whole += fuzz_pack(at, size, packed + whole, sizeof packed - whole);
    if (flags & CHANGE) packed[(size_t)place % whole] ^= (uint8_t)change;
    if (flags & CUT) whole -= (size_t)change % whole;
    read_stream(flags, packed, whole);
}

static void seed(void)
{
    static const char table[] = "a,b\n1,2.5\n0,-3e2\n";
    uint8_t input[256] = { 0 };
    memcpy(input + 3, table, sizeof table - 1);
    for (int flags = 0; flags < 32; flags++) {
        input[0] = (uint8_t)flags;
        fuzz_seed(input, 3 + sizeof table - 1);
    }
    input[0] = 0;
    fuzz_seed(input, 3 + fuzz_pack((const uint8_t *)table, sizeof table - 1, input + 3, sizeof input - 3));
    memcpy(input, "\11\0\0\0\0\x08\1\0\0\0\2\0\1", 13);
    fuzz_seed(input, 13);
}

static const char *const words[] = { "\x1f\x8b\x08",     "\x1f\x8b\x08\x04", "\x1f\x8b\x08\x08",
                                     "\x1f\x8b\x08\x10", "\x1f\x8b\x08\x02", NULL };

const fuzzer fuzz = { feed, seed, .words = words };
