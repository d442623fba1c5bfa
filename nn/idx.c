/* idx.c: IDX files, plain or gzipped: 00 00, the elements' type, the rank, sizes of 32 bits, elements.
 *
 * A header may promise what its file does not hold, so memory grows with what has been read. */
#include "nn/bytes.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    UNSIGNED_BYTE = 8,
    MAGIC = 4,
    SIZE = 4, /* bytes of one size, the first the most significant */
    MAX_RANK = 4,
    FIRST_MEMORY = 1 << 20, /* bytes */
    LONGEST_STEP = 1 << 30, /* of one gzread, which counts in int */
    LONGEST_NAME = 150      /* of a file in a message: two of them must leave room for the rest */
};

typedef struct kind {
    const char *what;
    int least_rank, most_rank;
    const char *expected;
} kind;

static const kind IMAGES = { "images", 3, 4, "3 (images of one channel) or 4" };
static const kind LABELS = { "labels", 1, 1, "1 (labels)" };

/* An open file; `name` is the end of its path. */
typedef struct source {
    gzFile file;
    const char *path, *name;
} source;

static const char *name_of(const char *path)
{
    size_t length = strlen(path);
    return length > LONGEST_NAME ? path + length - LONGEST_NAME : path;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* "7,840,000" */
typedef struct grouped {
    char text[32];
} grouped;

static grouped count_text(ptrdiff_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%td", n);
    grouped out = { "" };
    for (int i = 0, at = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) out.text[at++] = ',';
        out.text[at++] = digits[i];
    }
    return out;
}

/* What zlib says, without the path that it puts before it. */
static const char *zlib_says(source s, int *code)
{
    const char *text = gzerror(s.file, code);
    size_t length = strlen(s.path);
    return strncmp(text, s.path, length) || strncmp(text + length, ": ", 2) ? text : text + length + 2;
}

static int truncated(source s, ptrdiff_t got, ptrdiff_t want, const char *what)
{
    int code;
    zlib_says(s, &code);
    return error_set("%s: truncated%s: %s of %s bytes of %s", s.name,
                     code == Z_BUF_ERROR ? ", its gzip stream ends early" : "", count_text(got).text,
                     count_text(want).text, what);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads `most` bytes, or fewer at the file's end: how many; -1 where the file cannot be read. */
static ptrdiff_t fetch(source s, unsigned char *to, ptrdiff_t most)
{
    ptrdiff_t got = 0;
    for (int n = 1; got < most && n > 0; got += n > 0 ? n : 0)
        n = gzread(s.file, to + got, (unsigned)(most - got < LONGEST_STEP ? most - got : LONGEST_STEP));
    if (got == most) return got;
    int why = errno, code;
    const char *says = zlib_says(s, &code);
    if (code == Z_OK || code == Z_BUF_ERROR) return got; /* the end; of a stream, too early */
    if (code == Z_ERRNO) return error_set("%s: %s", s.name, strerror(why));
    return error_set("%s: corrupt gzip stream: %s", s.name, says);
}

static int fetch_all(source s, unsigned char *to, ptrdiff_t want, const char *what)
{
    ptrdiff_t got = fetch(s, to, want);
    if (got < 0) return -1;
    return got < want ? truncated(s, got, want, what) : 0;
}

static int read_type(source s, const kind *k, int *rank)
{
    unsigned char magic[MAGIC];
    if (fetch_all(s, magic, MAGIC, "the magic number")) return -1;
    if (magic[0] || magic[1])
        return error_set("%s: begins with %02x %02x %02x %02x, expected an IDX file's 00 00 08 %02x", s.name,
                         magic[0], magic[1], magic[2], magic[3], k->least_rank);
    if (magic[2] != UNSIGNED_BYTE)
        return error_set("%s: elements of IDX type %02x, expected 08 (unsigned byte)", s.name, magic[2]);
    *rank = magic[3];
    if (*rank < k->least_rank || *rank > k->most_rank)
        return error_set("%s: rank %d, expected %s", s.name, *rank, k->expected);
    return 0;
}

/* The number of elements; -1 on failure. */
static ptrdiff_t read_sizes(source s, int rank, shape *form)
{
    unsigned char sizes[MAX_RANK * SIZE];
    if (fetch_all(s, sizes, rank * SIZE, "sizes")) return -1;
    bool overflow = false, empty = false;
    ptrdiff_t count = 1;
    *form = (shape){ .rank = rank };
    for (int i = 0; i < rank; i++) {
        const unsigned char *b = sizes + SIZE * i;
        uint32_t n = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
        overflow |= __builtin_mul_overflow(count, n, &count);
        empty |= n == 0;
        form->n[i] = (ptrdiff_t)n;
    }
    if (empty) return error_set("%s: sizes %s, expected none to be zero", s.name, shape_text(*form).text);
    if (overflow)
        return error_set("%s: sizes %s are more than can be addressed", s.name, shape_text(*form).text);
    return count;
}

/* Whether a file that was read one byte too far ended where it should: -1 where it did not. A gzip stream is known
 * to be whole only by such a read: its check sum is compared at its end. */
static int check_end(source s, ptrdiff_t got, ptrdiff_t want, shape form, const char *what)
{
    int code;
    zlib_says(s, &code);
    if (got > want)
        return error_set("%s: trailing data: expected to end after %s bytes of %s %s", s.name,
                         count_text(want).text, what, shape_text(form).text);
    return got < want || code == Z_BUF_ERROR ? truncated(s, got, want, what) : 0;
}

/* `want` bytes, to be freed; NULL on failure. Memory grows as data arrives: a header may promise anything. */
static unsigned char *read_elements(source s, ptrdiff_t want, shape form, const char *what)
{
    unsigned char *bytes = NULL;
    ptrdiff_t held = 0, room = FIRST_MEMORY, got = 0;
    do {
        if (room > want) room = want + 1;
        unsigned char *larger = realloc(bytes, (size_t)room);
        if (larger) bytes = larger;
        else error_set("%s: no memory for %s bytes of %s", s.name, count_text(want).text, what);
        got = larger ? fetch(s, bytes + held, room - held) : -1;
        if (got > 0) held += got;
        if (held == room) room = want / 2 < room ? want + 1 : 2 * room;
        else break;
    } while (held <= want);
    if (got >= 0 && check_end(s, held, want, form, what) == 0) return bytes;
    free(bytes);
    return NULL;
}

/* The whole file's elements, to be freed; NULL on failure. */
static unsigned char *read_file(const char *path, const kind *k, shape *form)
{
    if (!path) {
        error_set("data_idx: the name of the file of %s is NULL", k->what);
        return NULL;
    }
    errno = 0;
    source s = { .file = gzopen(path, "rb"), .path = path, .name = name_of(path) };
    if (!s.file) {
        error_set("%s: %s", s.name, strerror(errno ? errno : ENOMEM));
        return NULL;
    }
    int rank = 0;
    ptrdiff_t count = read_type(s, k, &rank) ? -1 : read_sizes(s, rank, form);
    unsigned char *bytes = count < 0 ? NULL : read_elements(s, count, *form, k->what);
    gzclose(s.file);
    return bytes;
}

/* ---- the data set ---------------------------------------------------------------------------- */

static int check_counts(const char *images, ptrdiff_t pictures, const char *labels, ptrdiff_t classes)
{
    if (classes == pictures) return 0;
    return error_set("%s: %s labels, expected %s, one for each image of %s", name_of(labels),
                     count_text(classes).text, count_text(pictures).text, name_of(images));
}

data *data_idx(const char *images, const char *labels)
{
    shape form = { 0 }, classes = { 0 }; /* [N, H, W] or [N, C, H, W], and [N] */
    unsigned char *pixels = read_file(images, &IMAGES, &form);
    unsigned char *digits = pixels ? read_file(labels, &LABELS, &classes) : NULL;
    if (!digits || check_counts(images, form.n[0], labels, classes.n[0])) {
        free(pixels);
        free(digits);
        return NULL;
    }
    const ptrdiff_t *n = form.n;
    return data_bytes(n[0], form.rank == 3 ? SHAPE(1, n[1], n[2]) : SHAPE(n[1], n[2], n[3]), pixels, digits);
}
