/* fuzz_idx.c: st_dataset_idx takes any two files, plain or gzipped.
 *
 * An input: a byte that says which of the files are gzipped and whether they are good labels for the images, the bytes
 * of the first file in a byte, and both files. */
#include "tests/fuzz/fuzz.h"

#include "nn/data/formats.h"

#include <stdlib.h>
#include <string.h>

enum { GZIP_IMAGES = 1, GZIP_LABELS = 2, MATCH = 4 };

/* Labels 0 for as many images as the other file says, if these are few. */
static size_t matching(const uint8_t *images, size_t size, uint8_t labels[8 + 255])
{
    memcpy(labels, "\0\0\x08\1\0\0\0", 8);
    labels[7] = size > 7 ? images[7] : 0;
    return 8 + (size_t)labels[7];
}

static void read_both(const char *images, const char *labels)
{
    fuzz_begin();
    fuzz_took_data(st_dataset_idx(images, labels), 0);
}

static void feed(const uint8_t *at, size_t size)
{
    uint8_t labels[8 + 255] = { 0 };
    if (size < 2) return;
    int flags = at[0];
    size_t first = flags & MATCH || at[1] > size - 2 ? size - 2 : at[1];
    const char *images = fuzz_either("images", flags & GZIP_IMAGES, at + 2, first);
    if (flags & MATCH)
        read_both(images,
                  fuzz_either("labels", flags & GZIP_LABELS, labels, matching(at + 2, first, labels)));
    else read_both(images, fuzz_either("labels", flags & GZIP_LABELS, at + 2 + first, size - 2 - first));
}

static void seed(void)
{
    static const char images[] = "\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\2\1\2\3\4",
                      colour[] = "\0\0\x08\4\0\0\0\1\0\0\0\3\0\0\0\1\0\0\0\1\1\2\3",
                      labels[] = "\0\0\x08\1\0\0\0\2\0\1";
    for (int flags = 0; flags < 8; flags++) {
        char input[64] = { (char)flags, sizeof images - 1 };
        memcpy(input + 2, images, sizeof images - 1);
        memcpy(input + 1 + sizeof images, labels, sizeof labels - 1);
        fuzz_seed(input, sizeof images + sizeof labels);
        memcpy(input + 2, colour, sizeof colour - 1);
        fuzz_seed(input, sizeof colour + 1);
    }
}

/* So many bytes of images where a header promises 47 MiB, plain and gzipped. */
static void large(void)
{
    static const int held[] = { 1 << 20, (1 << 20) + 1, 16 << 20, (16 << 20) + 5, 33 << 20, 47 << 20 };
    uint8_t *images = calloc((48 << 20), 1);
    memcpy(images, "\0\0\x08\3\0\0\0\x2f\0\0\4\0\0\0\4\0", 16);
    for (int i = 0; i < 12; i++)
        read_both(fuzz_either("images", i % 2, images, (size_t)held[i / 2]), "nowhere");
    free(images);
}

static const char *const words[] = { "\x08\3",           "\x08\4",           "\x08\1",
                                     "\xff\xff\xff\xff", "\x7f\xff\xff\xff", NULL };

const fuzzer fuzz = { feed, seed, large, words };
