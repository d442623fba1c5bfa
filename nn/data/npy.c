/* npy.c: a magic number, a dict in Python's words, elements: a reader of nothing else, and a writer. */
#include "nn/data/npy.h"
#include "tensor/error.h"
#include "nn/files/file.h"
#include "nn/files/numbers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAGIC = 6,
    START = 8,      /* bytes: the magic number and the version */
    ALIGNMENT = 64, /* of the elements in a file we write */
    WRITTEN = 384   /* bytes: no header that we write is longer, of eight sizes of 20 digits */
};

static const char magic[] = "\x93NUMPY";

/* Kind and bytes, as NumPy names them after the byte order. */
typedef struct dtype {
    const char *name;
    numbers form;
} dtype;

static const dtype dtypes[] = {
    { "f8", { 8, .value = numbers_f64 } },      { "f4", { 4, .value = numbers_f32 } },
    { "f2", { 2, .value = numbers_f16 } },      { "i8", { 8, .value = numbers_i64 } },
    { "i4", { 4, .value = numbers_i32 } },      { "i2", { 2, .value = numbers_i16 } },
    { "i1", { 1, .value = numbers_i8 } },       { "u8", { 8, .value = numbers_unsigned } },
    { "u4", { 4, .value = numbers_unsigned } }, { "u2", { 2, .value = numbers_unsigned } },
    { "u1", { 1, .value = numbers_unsigned } }, { "b1", { 1, .value = numbers_bool } },
};

/* What a header says, and how much of it was understood. */
typedef struct header {
    const char *name; /* of the file */
    const char *text, *at, *end;
    numbers form;
    bool fortran;
    shape shape;
} header;

/* ---- messages -------------------------------------------------------------------------------- */

typedef struct shown {
    char text[32];
} shown;

/* The beginning of some bytes, fit for a message. */
static shown show(const char *from, const char *end)
{
    shown s = { "" };
    size_t i = 0;
    for (; from < end && i < sizeof s.text - 4; from++)
        s.text[i++] = *from < ' ' || *from > '~' ? '?' : *from;
    memcpy(s.text + i, "...", from < end ? 4 : 0);
    return s;
}

static int refuse(const header *h, const char *expected)
{
    return error_set("%s: byte %td of the header: \"%s\", expected %s", h->name, h->at - h->text,
                     show(h->at, h->end).text, expected);
}

/* ---- the header's words ---------------------------------------------------------------------- */

static void skip_blanks(header *h)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n')) h->at++;
}

/* Whether it comes next, blanks apart; then it is passed. */
static bool next(header *h, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(h);
    if ((size_t)(h->end - h->at) < length || memcmp(h->at, word, length) != 0) return false;
    h->at += length;
    return true;
}

/* A string without escapes, in either quotes. */
typedef struct span {
    const char *from, *end;
} span;

static bool next_string(header *h, span *s)
{
    skip_blanks(h);
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"')) return false;
    size_t room = (size_t)(h->end - h->at) - 1;
    const char *from = h->at + 1, *end = memchr(from, *h->at, room);
    if (!end || memchr(from, '\\', (size_t)(end - from))) return false;
    *s = (span){ from, end };
    h->at = end + 1;
    return true;
}

static bool is(span s, const char *text)
{
    size_t length = strlen(text);
    return (size_t)(s.end - s.from) == length && memcmp(s.from, text, length) == 0;
}

/* ---- the header's values --------------------------------------------------------------------- */

static int refuse_dtype(const header *h, span s)
{
    const char *expected = "float16 to float64, int8 to int64, uint8 to uint64 or bool";
    const char *what = s.end - s.from > 1 && s.from[1] == 'O' ? "objects" : "not known";
    return error_set("%s: dtype '%s': %s, expected %s", h->name, show(s.from, s.end).text, what, expected);
}

/* '<f4': byte order, kind and bytes. Of one byte there is no order, and any is taken. */
static int read_dtype(header *h)
{
    span s;
    if (next(h, "[")) return error_set("%s: a structured dtype, expected one of numbers", h->name);
    if (!next_string(h, &s)) return refuse(h, "a dtype in quotes");
    char order = s.from < s.end ? *s.from : 0;
    const dtype *d = dtypes, *end = dtypes + sizeof dtypes / sizeof *dtypes;
    while (d < end && (!order || !is((span){ s.from + 1, s.end }, d->name))) d++;
    if (d == end || !strchr(d->form.size == 1 ? "|<>=" : "<>", order)) return refuse_dtype(h, s);
    h->form = d->form;
    h->form.big_endian = order == '>';
    return 0;
}

static int read_order(header *h)
{
    h->fortran = next(h, "True");
    return h->fortran || next(h, "False") ? 0 : refuse(h, "True or False");
}

static int read_size(header *h, ptrdiff_t *n)
{
    if (h->at < h->end && *h->at == '-') return refuse(h, "sizes from 0 on");
    if (h->at == h->end || *h->at < '0' || *h->at > '9') return refuse(h, "a size or \")\"");
    for (*n = 0; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
        if (__builtin_mul_overflow(*n, 10, n) || __builtin_add_overflow(*n, *h->at - '0', n))
            return error_set("%s: a size of the shape overflows", h->name);
    return 0;
}

/* (), (3,), (2, 3) or (2, 3,). */
static int read_shape(header *h)
{
    shape s = { 0 };
    if (!next(h, "(")) return refuse(h, "a shape in parentheses");
    for (bool comma = true; !next(h, ")"); comma = next(h, ",")) {
        if (!comma) return refuse(h, "\",\" or \")\"");
        if (s.rank == TENSOR_MAX_RANK)
            return error_set("%s: more than %d sizes in its shape", h->name, TENSOR_MAX_RANK);
        if (read_size(h, &s.n[s.rank++])) return -1;
        skip_blanks(h);
        if (s.rank == 1 && h->at < h->end && *h->at == ')') return refuse(h, "\",\" after the only size");
    }
    h->shape = s;
    return 0;
}

typedef struct key {
    const char *name;
    int (*read)(header *h);
} key;

static const key keys[] = { { "descr", read_dtype },
                            { "fortran_order", read_order },
                            { "shape", read_shape } };
enum { KEYS = sizeof keys / sizeof *keys };

/* {'descr': ..., 'fortran_order': ..., 'shape': ...}, in any order. */
static int read_dict(header *h)
{
    bool met[KEYS] = { false };
    if (!next(h, "{")) return refuse(h, "\"{\"");
    for (bool comma = true; !next(h, "}"); comma = next(h, ",")) {
        span s;
        int k = 0;
        const char *before = h->at;
        if (!comma) return refuse(h, "\",\" or \"}\"");
        if (!next_string(h, &s)) return refuse(h, "a key in quotes");
        while (k < KEYS && !is(s, keys[k].name)) k++;
        if (k == KEYS || met[k]) h->at = before;
        if (k == KEYS) return refuse(h, "'descr', 'fortran_order' or 'shape'");
        if (met[k]) return refuse(h, "each key once");
        met[k] = true;
        if (!next(h, ":")) return refuse(h, "\":\"");
        if (keys[k].read(h)) return -1;
    }
    for (int k = 0; k < KEYS; k++)
        if (!met[k]) return error_set("%s: its header has no '%s'", h->name, keys[k].name);
    skip_blanks(h);
    return h->at == h->end ? 0 : refuse(h, "no more than blanks");
}

/* ---- reading --------------------------------------------------------------------------------- */

/* So many bytes, or an error. */
static int fetch(FILE *from, const char *name, unsigned char *to, size_t count)
{
    size_t got = fread(to, 1, count, from);
    if (got == count) return 0;
    if (ferror(from)) return error_set("%s: %s", name, strerror(errno));
    return error_set("%s: truncated: %zu of %zu bytes of its beginning", name, got, count);
}

/* The bytes of the header; -1 on failure. */
static long long read_length(FILE *from, const char *name, long long *left)
{
    unsigned char bytes[START + 4];
    if (fetch(from, name, bytes, START)) return -1;
    if (memcmp(bytes, magic, MAGIC) != 0)
        return error_set("%s: begins with %02x %02x %02x %02x %02x %02x, expected NumPy's 93 4e 55 4d 50 59",
                         name, bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]);
    int major = bytes[6], minor = bytes[7], size = major == 1 ? 2 : 4;
    if (major < 1 || major > 3 || minor != 0)
        return error_set("%s: version %d.%d, expected 1.0, 2.0 or 3.0", name, major, minor);
    if (fetch(from, name, bytes + START, (size_t)size)) return -1;
    long long length = (long long)numbers_get(bytes + START, size);
    *left -= START + size;
    if (length <= *left) return length;
    return error_set("%s: truncated: %lld of %lld bytes of its header", name, *left, length);
}

/* What comes after the header is all its shape's elements, and no more. */
static int check_size(const header *h, long long left)
{
    ptrdiff_t count = shape_count(h->shape, h->name), bytes;
    if (count < 0) return -1;
    if (__builtin_mul_overflow(count, (ptrdiff_t)h->form.size, &bytes))
        return error_set("%s: shape %s: its bytes overflow", h->name, shape_text(h->shape).text);
    if (bytes == left) return 0;
    return error_set("%s: %s: %lld bytes of elements, shape %s has %td", h->name,
                     left < bytes ? "truncated" : "trailing data", left, shape_text(h->shape).text, bytes);
}

static int read_header(FILE *from, header *h, long long left)
{
    long long length = read_length(from, h->name, &left);
    if (length < 0) return -1;
    char *text = malloc((size_t)length + 1);
    if (!text) return error_set("%s: no memory for its header", h->name);
    int status = fetch(from, h->name, (unsigned char *)text, (size_t)length);
    h->text = h->at = text;
    h->end = text + length;
    if (status == 0) status = read_dict(h);
    if (status == 0) status = check_size(h, left - length);
    free(text);
    return status;
}

static shape reversed(shape s)
{
    shape r = { .rank = s.rank };
    for (int i = 0; i < s.rank; i++) r.n[i] = s.n[s.rank - 1 - i];
    return r;
}

/* In Fortran's order the first index runs fastest: a tensor with its axes the other way round. */
static tensor read_elements(FILE *from, const header *h)
{
    tensor x = tensor_new(h->fortran ? reversed(h->shape) : h->shape);
    if (tensor_is_null(x)) {
        error_within("%s: ", h->name);
        return x;
    }
    if (numbers_read(from, h->form, x)) {
        error_set("%s: cannot be read: %s", h->name, feof(from) ? "the file ends early" : strerror(errno));
        tensor_free(x);
        return (tensor){ 0 };
    }
    axes order = { .count = x.shape.rank };
    for (int i = 0; i < order.count; i++) order.axis[i] = order.count - 1 - i;
    return h->fortran ? tensor_permute(x, order) : x;
}

tensor npy_read(const char *path)
{
    tensor x = { 0 };
    long long size = 0;
    if (!path) error_set("npy_read: the path is NULL");
    FILE *from = path ? file_open(path, &size) : NULL;
    if (!from) return x;
    header h = { .name = file_name(path) };
    if (read_header(from, &h, size) == 0) x = read_elements(from, &h);
    fclose(from);
    return x;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Version 1.0, blanks up to where the elements begin. */
static int write_header(FILE *to, shape s)
{
    char text[WRITTEN];
    int used = snprintf(text, sizeof text, "{'descr': '<f%d', 'fortran_order': False, 'shape': (",
                        (int)sizeof(real));
    for (int i = 0; i < s.rank; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, i ? " %td," : "%td,", s.n[i]);
    if (s.rank > 1) used--; /* only a single size needs its comma */
    used += snprintf(text + used, sizeof text - (size_t)used, "), }");
    unsigned char start[START + 2] = { 0, 0, 0, 0, 0, 0, 1, 0 };
    int whole = (START + 2 + used + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, length = whole - START - 2;
    memcpy(start, magic, MAGIC);
    numbers_put(start + START, 2, (uint64_t)length);
    if (fwrite(start, sizeof start, 1, to) != 1) return -1;
    return fprintf(to, "%-*s\n", length - 1, text) < 0 ? -1 : 0;
}

static int write_array(FILE *to, const void *context)
{
    const tensor *x = context;
    return write_header(to, x->shape) || numbers_write(to, *x) ? -1 : 0;
}

int npy_write(const char *path, tensor x)
{
    if (!path) return error_set("npy_write: the path is NULL");
    if (tensor_is_null(x)) return error_set("%s: npy_write of the null tensor", path);
    return file_replace(path, write_array, &x);
}
