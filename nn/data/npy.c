/* npy.c: the header, a Python dict, is rewritten as JSON, which jansson reads. */
#include "nn/data/formats.h"
#include "nn/files/file.h"
#include "nn/files/json.h"
#include "nn/files/numbers.h"
#include "tensor/array.h"
#include "tensor/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAGIC = 6,
    START = 8,             /* bytes: the magic number and the version */
    MOST_HEADER = 1 << 16, /* bytes */
    ALIGNMENT = 64,        /* of the elements in a file that we write */
    WRITTEN = 384          /* bytes: the longest header that we write, of eight sizes of 20 digits */
};

static const char magic[] = "\x93NUMPY";

/* Kind and bytes, as NumPy names them after the byte order. */
typedef struct dtype {
    const char *name;
    numbers form;
} dtype;

static const dtype dtypes[] = {
    { "f8", { 8, NUMBER_FLOAT } }, { "f4", { 4, NUMBER_FLOAT } }, { "f2", { 2, NUMBER_FLOAT } },
    { "i8", { 8, NUMBER_INT } },   { "i4", { 4, NUMBER_INT } },   { "i2", { 2, NUMBER_INT } },
    { "i1", { 1, NUMBER_INT } },   { "u8", { 8, NUMBER_UINT } },  { "u4", { 4, NUMBER_UINT } },
    { "u2", { 2, NUMBER_UINT } },  { "u1", { 1, NUMBER_UINT } },  { "b1", { 1, NUMBER_BOOL } },
};

typedef struct header {
    const char *name; /* of the file */
    numbers form;
    int fortran;
    st_shape shape;
} header;

/* ---- the header ------------------------------------------------------------------------------ */

/* In place: 'a' becomes "a", (2,) becomes [2 ], True becomes true. */
static void make_json(char *text, size_t size)
{
    char *comma = NULL;
    bool quoted = false;
    for (char *c = text; c < text + size; c++) {
        if (*c == '\'' || *c == '"') {
            quoted = !quoted;
            *c = '"';
        }
        if (quoted || *c == ' ' || *c == '\n') continue;
        const char *from = "()TF", *at = *c ? strchr(from, *c) : NULL;
        if (at) *c = "[]tf"[at - from];
        if (comma && (*c == ']' || *c == '}')) *comma = ' ';
        comma = *c == ',' ? c : NULL;
    }
}

/* '<f4': byte order, kind and bytes. For single bytes the order is ignored. */
static int read_dtype(header *h, const char *given)
{
    const dtype *d = dtypes, *end = dtypes + sizeof dtypes / sizeof *dtypes;
    while (d < end && (!given[0] || strcmp(given + 1, d->name) != 0)) d++;
    if (d == end || !strchr(d->form.size == 1 ? "|<>=" : "<>", given[0]))
        return st_error_set(
            "%s: dtype '%s', expected float16, float32, float64, int8 to int64, uint8 to uint64 or bool",
            h->name, show_text(given).text);
    h->form = d->form;
    h->form.big_endian = given[0] == '>';
    return 0;
}

/* {'descr': ..., 'fortran_order': ..., 'shape': ...}, in any order. */
static int read_dict(header *h, char *text, size_t size)
{
    const char *type;
    json_t *sizes;
    json_error_t error;
    message_text given = show_bytes(text, size);
    make_json(text, size);
    json_t *dict = json_read(text, size, "header");
    if (!dict) return st_error_within("%s: %s: ", h->name, given.text);
    errno = 0;
    int status = json_unpack_ex(dict, &error, JSON_STRICT, "{s:s, s:b, s:o}", "descr", &type, "fortran_order",
                                &h->fortran, "shape", &sizes);
    if (status == 0) status = read_dtype(h, type);
    else if (errno == ENOMEM) st_error_set("%s: header: no memory", h->name);
    else st_error_set("%s: header: %s: %s", h->name, given.text, error.text);
    if (status == 0 && !json_shape(sizes, &h->shape))
        status = st_error_set("%s: header: %s: expected a shape of up to %d sizes", h->name, given.text,
                              ST_MAX_RANK);
    json_decref(dict);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads `count` bytes of the header. */
static int fetch(FILE *from, const char *name, void *to, size_t count)
{
    size_t got = fread(to, 1, count, from);
    if (got == count) return 0;
    if (ferror(from)) return st_error_set("%s: %s", name, strerror(errno));
    return st_error_set("%s: truncated: %zu of %zu bytes of the header", name, got, count);
}

/* The bytes of the header; -1 with an error. */
static long long read_length(FILE *from, const char *name, long long *left)
{
    unsigned char bytes[START + 4];
    if (fetch(from, name, bytes, START)) return -1;
    if (memcmp(bytes, magic, MAGIC) != 0)
        return st_error_set(
            "%s: begins with %02x %02x %02x %02x %02x %02x, expected NumPy's 93 4e 55 4d 50 59", name,
            bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]);
    int major = bytes[6], minor = bytes[7], size = major == 1 ? 2 : 4;
    if (major < 1 || major > 3 || minor != 0)
        return st_error_set("%s: version %d.%d, expected 1.0, 2.0 or 3.0", name, major, minor);
    if (fetch(from, name, bytes + START, (size_t)size)) return -1;
    long long length = (long long)numbers_get(bytes + START, size);
    *left -= START + size;
    if (length > *left)
        return st_error_set("%s: truncated: %lld of %lld bytes of the header", name, *left, length);
    if (length <= MOST_HEADER) return length;
    return st_error_set("%s: a header of %lld bytes, expected at most %d", name, length, MOST_HEADER);
}

/* The rest of the file must be the elements. */
static int check_size(const header *h, long long left)
{
    ptrdiff_t count = st_shape_numel(h->shape, h->name), bytes;
    if (count < 0) return -1;
    if (__builtin_mul_overflow(count, (ptrdiff_t)h->form.size, &bytes))
        return st_error_set("%s: shape %s: its bytes overflow", h->name, st_shape_text(h->shape).text);
    if (bytes == left) return 0;
    return st_error_set("%s: %s: %lld bytes of elements, expected %td for shape %s", h->name,
                        left < bytes ? "truncated" : "trailing data", left, bytes,
                        st_shape_text(h->shape).text);
}

static int read_header(FILE *from, header *h, long long left)
{
    long long length = read_length(from, h->name, &left);
    char *text = length < 0 ? NULL : array_new(h->name, length, 1);
    if (!text) return -1;
    int status = fetch(from, h->name, text, (size_t)length);
    if (status == 0) status = read_dict(h, text, (size_t)length);
    if (status == 0) status = check_size(h, left - length);
    free(text);
    return status;
}

static st_shape reversed(st_shape s)
{
    st_shape r = { .rank = s.rank };
    for (int i = 0; i < s.rank; i++) r.n[i] = s.n[s.rank - 1 - i];
    return r;
}

/* In Fortran order the first index runs fastest: a C-ordered tensor with its axes reversed. */
static st_tensor read_elements(FILE *from, const header *h)
{
    st_tensor x = st_tensor_new(h->fortran ? reversed(h->shape) : h->shape);
    if (st_is_null(x)) {
        st_error_within("%s: ", h->name);
        return x;
    }
    if (numbers_read(from, h->form, x)) {
        st_error_set("%s: cannot be read: %s", h->name, feof(from) ? "the file ends early" : strerror(errno));
        st_tensor_free(x);
        return (st_tensor){ 0 };
    }
    st_axes order = { .count = x.shape.rank };
    for (int i = 0; i < order.count; i++) order.axis[i] = order.count - 1 - i;
    return h->fortran ? st_permute(x, order) : x;
}

st_tensor st_npy_load(const char *path)
{
    st_tensor x = { 0 };
    long long size = 0;
    if (!path) st_error_set("st_npy_load: the path is NULL");
    FILE *from = path ? file_open(path, &size) : NULL;
    if (!from) return x;
    header h = { .name = file_name(path) };
    if (read_header(from, &h, size) == 0) x = read_elements(from, &h);
    fclose(from);
    return x;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Version 1.0, padded with blanks. */
static int write_header(FILE *to, st_shape s)
{
    char text[WRITTEN];
    int used = snprintf(text, sizeof text, "{'descr': '<f%d', 'fortran_order': False, 'shape': (",
                        (int)sizeof(st_real));
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
    const st_tensor *x = context;
    return write_header(to, x->shape) || numbers_write(to, *x) ? -1 : 0;
}

int st_npy_save(const char *path, st_tensor x)
{
    if (!path) return st_error_set("st_npy_save: the path is NULL");
    if (st_is_null(x)) return st_error_set("%s: st_npy_save of the null tensor", path);
    return st_file_replace(path, write_array, &x);
}

/* ---- the data set ---------------------------------------------------------------------------- */

/* Images as [N, C, H, W]; null with an error. */
static st_tensor as_images(st_tensor x, st_npy_layout layout)
{
    const ptrdiff_t *n = x.shape.n;
    if (x.shape.rank == 3) return st_split_axis(x, 0, 1); /* [N, 1, H, W] */
    if (layout == ST_NPY_NHWC && x.shape.rank == 4) return st_permute(x, ST_AXES(0, 3, 1, 2));
    if (layout == ST_NPY_NHWC)
        st_error_set("layout NHWC, but x is %s, expected four axes", st_shape_text(x.shape).text);
    else if (layout == ST_NPY_DETECT && x.shape.rank == 4 && n[3] <= 4 && n[1] > 4)
        st_error_set("x %s looks like images with their channels last: set the layout option, NHWC for "
                     "samples %s, NCHW for %td channels of %tdx%td",
                     st_shape_text(x.shape).text, st_shape_text(ST_SHAPE(n[3], n[1], n[2])).text, n[1], n[2],
                     n[3]);
    else return x;
    return (st_tensor){ 0 };
}

static st_dataset *pair(st_tensor x, st_tensor y, st_npy_options o)
{
    st_tensor images = as_images(x, o.layout);
    if (st_is_null(images)) {
        st_tensor_free(x), st_tensor_free(y);
        return NULL;
    }
    if (o.classes && y.shape.rank == 2 && y.shape.n[1] == 1) y = st_select(y, 1, 0); /* [N] */
    return st_dataset_owned(images, y);
}

st_dataset *st_dataset_npy_new(const char *x, const char *y, st_npy_options options)
{
    if ((unsigned)options.layout > ST_NPY_NHWC) {
        st_error_set("st_dataset_npy: layout is %d, expected 0 to %d", (int)options.layout, ST_NPY_NHWC);
        return NULL;
    }
    st_tensor inputs = st_npy_load(x), targets = st_is_null(inputs) ? inputs : st_npy_load(y);
    if (st_is_null(targets)) {
        st_tensor_free(inputs);
        return NULL;
    }
    st_dataset *d = pair(inputs, targets, options);
    if (!d) st_error_within("%s, %s: ", file_name(x), file_name(y));
    return d;
}
