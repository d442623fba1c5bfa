/* idx.c: IDX files: 00 00, the elements' type, the rank, 32-bit big-endian sizes, elements. */
#include "nn/data/formats.h"
#include "nn/data/bytes.h"
#include "nn/data/source.h"
#include "nn/files/file.h"

#include <stdint.h>
#include <stdlib.h>

enum {
    UNSIGNED_BYTE = 8,
    MAGIC = 4,
    SIZE = 4, /* bytes of one size */
    MAX_RANK = 4
};

typedef struct kind {
    const char *what;
    int least_rank, most_rank;
    const char *expected;
} kind;

static const kind IMAGES = { "images", 3, 4, "3 (images of one channel) or 4" };
static const kind LABELS = { "labels", 1, 1, "1 (labels)" };

static int read_type(source s, const kind *k, int *rank)
{
    unsigned char magic[MAGIC];
    if (source_fetch(s, magic, MAGIC, "the magic number")) return -1;
    if (magic[0] || magic[1])
        return st_error_set("%s: begins with %02x %02x %02x %02x, expected an IDX file's 00 00 08 %02x",
                            s.name, magic[0], magic[1], magic[2], magic[3], k->least_rank);
    if (magic[2] != UNSIGNED_BYTE)
        return st_error_set("%s: elements of IDX type %02x, expected 08 (unsigned byte)", s.name, magic[2]);
    *rank = magic[3];
    if (*rank < k->least_rank || *rank > k->most_rank)
        return st_error_set("%s: rank %d, expected %s", s.name, *rank, k->expected);
    return 0;
}

/* The number of elements; -1 with an error. */
static ptrdiff_t read_sizes(source s, int rank, st_shape *form)
{
    unsigned char sizes[MAX_RANK * SIZE];
    if (source_fetch(s, sizes, rank * SIZE, "sizes")) return -1;
    bool overflow = false, empty = false;
    ptrdiff_t count = 1;
    *form = (st_shape){ .rank = rank };
    for (int i = 0; i < rank; i++) {
        const unsigned char *b = sizes + SIZE * i;
        uint32_t n = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
        overflow |= __builtin_mul_overflow(count, n, &count) || count == PTRDIFF_MAX;
        empty |= n == 0;
        form->n[i] = (ptrdiff_t)n;
    }
    if (empty) return st_error_set("%s: sizes %s, expected at least 1", s.name, st_shape_text(*form).text);
    if (overflow) return st_error_set("%s: sizes %s overflow", s.name, st_shape_text(*form).text);
    return count;
}

/* `want` bytes, to be freed; NULL with an error. Reads one more, since zlib compares the check sum at the
 * end. */
static unsigned char *read_elements(source s, ptrdiff_t want, st_shape form, const char *what)
{
    source_bytes all = { 0 };
    const int status = source_append(s, &all, want + 1);
    if (status == 0 && all.count == want) return all.at;
    if (status == 0 && all.count < want)
        st_error_set("%s: truncated: %td of %td bytes of %s", s.name, all.count, want, what);
    else if (status == 0)
        st_error_set("%s: trailing data: expected to end after %td bytes of %s %s", s.name, want, what,
                     st_shape_text(form).text);
    free(all.at);
    return NULL;
}

/* The file's elements, to be freed; NULL with an error. */
static unsigned char *read_file(const char *path, const kind *k, st_shape *form)
{
    if (!path) {
        st_error_set("st_dataset_idx: the name of the file of %s is NULL", k->what);
        return NULL;
    }
    source s;
    if (source_open(&s, path)) return NULL;
    int rank = 0;
    ptrdiff_t count = read_type(s, k, &rank) ? -1 : read_sizes(s, rank, form);
    unsigned char *bytes = count < 0 ? NULL : read_elements(s, count, *form, k->what);
    source_close(s);
    return bytes;
}

/* ---- the data set ---------------------------------------------------------------------------- */

static int check_counts(const char *images, ptrdiff_t pictures, const char *labels, ptrdiff_t classes)
{
    if (classes == pictures) return 0;
    return st_error_set("%s: %td labels, expected %td, one for each image of %s", file_name(labels), classes,
                        pictures, file_name(images));
}

st_dataset *st_dataset_idx(const char *images, const char *labels)
{
    st_shape form = { 0 }, classes = { 0 }; /* [N, H, W] or [N, C, H, W], and [N] */
    unsigned char *pixels = read_file(images, &IMAGES, &form);
    unsigned char *digits = pixels ? read_file(labels, &LABELS, &classes) : NULL;
    if (!digits || check_counts(images, form.n[0], labels, classes.n[0])) {
        free(pixels);
        free(digits);
        return NULL;
    }
    const ptrdiff_t *n = form.n;
    st_shape image = form.rank == 3 ? ST_SHAPE(1, n[1], n[2]) : ST_SHAPE(n[1], n[2], n[3]);
    return data_bytes(
        n[0], image,
        (byte_images){ pixels, digits, st_shape_numel(image, "st_dataset_idx"), 1, { pixels, digits } });
}
