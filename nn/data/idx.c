/* idx.c: IDX files: 00 00, the elements' type, the rank, 32-bit big-endian sizes, elements. */
#include "nn/data/formats.h"
#include "nn/data/data_impl.h"
#include "nn/files/file.h"
#include "tensor/array.h"

#include <stdlib.h>
#include <string.h>

enum {
    UNSIGNED_BYTE = 8,
    MAGIC = 4,
    SIZE = 4 /* bytes of one size */
};

typedef struct kind {
    const char *what;
    int least_rank, most_rank;
    const char *expected;
} kind;

static const kind IMAGES = { "images", 3, 4, "3 (images of one channel) or 4" };
static const kind LABELS = { "labels", 1, 1, "1 (labels)" };

static int refuse_end(const char *name, ptrdiff_t given, ptrdiff_t wanted, const char *what)
{
    if (given < wanted)
        return st_error_set("%s: truncated: %td of %td bytes of %s", name, given, wanted, what);
    return st_error_set("%s: trailing data: expected to end after %td bytes of %s", name, wanted, what);
}

/* Checks the file, and gives its sizes. */
static int check(const char *name, const unsigned char *at, ptrdiff_t size, const kind *k, st_shape *form)
{
    if (size < MAGIC) return refuse_end(name, size, MAGIC, "the magic number");
    if (at[0] || at[1])
        return st_error_set("%s: begins with %02x %02x %02x %02x, expected an IDX file's 00 00 08 %02x", name,
                            at[0], at[1], at[2], at[3], k->least_rank);
    if (at[2] != UNSIGNED_BYTE)
        return st_error_set("%s: elements of IDX type %02x, expected 08 (unsigned byte)", name, at[2]);
    *form = (st_shape){ .rank = at[3] };
    if (form->rank < k->least_rank || form->rank > k->most_rank)
        return st_error_set("%s: rank %d, expected %s", name, form->rank, k->expected);
    size -= MAGIC;
    if (size < form->rank * SIZE) return refuse_end(name, size, form->rank * SIZE, "sizes");
    bool empty = false;
    for (int i = 0; i < form->rank; i++) {
        const unsigned char *n = at + MAGIC + i * SIZE;
        form->n[i] = (ptrdiff_t)((uint32_t)n[0] << 24 | (uint32_t)n[1] << 16 | (uint32_t)n[2] << 8 | n[3]);
        empty = empty || form->n[i] == 0;
    }
    if (empty) return st_error_set("%s: sizes %s, expected at least 1", name, st_shape_text(*form).text);
    const ptrdiff_t count = st_shape_numel(*form, name);
    size -= form->rank * SIZE;
    if (count < 0) return -1;
    return count == size ? 0 : refuse_end(name, size, count, k->what);
}

/* The file's elements, to be freed; NULL with an error. */
static unsigned char *read_elements(const char *path, const kind *k, st_shape *form)
{
    ptrdiff_t size;
    char *bytes = data_read("st_dataset_idx", path, &size);
    if (bytes && check(file_name(path), (unsigned char *)bytes, size, k, form) == 0) {
        const ptrdiff_t head = MAGIC + form->rank * SIZE;
        return memmove(bytes, bytes + head, (size_t)(size - head));
    }
    free(bytes);
    return NULL;
}

st_dataset *st_dataset_idx(const char *images, const char *labels)
{
    st_shape form, classes; /* [N, H, W] or [N, C, H, W], and [N] */
    unsigned char *pixels = read_elements(images, &IMAGES, &form), *both = NULL;
    unsigned char *digits = pixels ? read_elements(labels, &LABELS, &classes) : NULL;
    const ptrdiff_t *n = form.n, size = pixels ? st_shape_numel(form, "st_dataset_idx") : 0;
    if (digits && classes.n[0] != n[0])
        st_error_set("%s: %td labels, expected %td, one for each image of %s", file_name(labels),
                     classes.n[0], n[0], file_name(images));
    else if (digits && (both = array_grow("st_dataset_idx", pixels, size + n[0], 1)))
        memcpy(both + size, digits, (size_t)n[0]);
    free(digits);
    if (!both) free(pixels);
    if (!both) return NULL;
    st_shape image = form.rank == 3 ? ST_SHAPE(1, n[1], n[2]) : ST_SHAPE(n[1], n[2], n[3]);
    return data_bytes(n[0], image, (byte_images){ both, both + size, size / n[0], 1, both });
}
