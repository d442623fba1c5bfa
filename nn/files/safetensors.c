/* safetensors.c: reads files, checking everything in them, and writes them. */
#define _XOPEN_SOURCE 700
#include "nn/files/safetensors.h"
#include "nn/files/file.h"
#include "nn/files/json.h"
#include "nn/files/numbers.h"
#include "tensor/array.h"
#include "tensor/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    PREFIX = 8,             /* bytes of the header's length */
    MOST_HEADER = 16 << 20, /* bytes */
    ALIGNMENT = 8           /* of the data in a file that we write */
};

/* ---- dtypes -------------------------------------------------------------------------------------- */

typedef struct dtype {
    const char *name;
    numbers form;
} dtype;

static const dtype dtypes[] = {
    { "F64", { 8, NUMBER_FLOAT } },
    { "F32", { 4, NUMBER_FLOAT } },
    { "F16", { 2, NUMBER_FLOAT } },
    { "BF16", { 2, NUMBER_BFLOAT } },
    { "I64", { 8 } },
    { "I32", { 4 } },
    { "I16", { 2 } },
    { "I8", { 1 } },
    { "U64", { 8 } },
    { "U32", { 4 } },
    { "U16", { 2 } },
    { "U8", { 1 } },
    { "F8_E4M3", { 1 } },
    { "F8_E5M2", { 1 } },
    { "C64", { 8 } },
    { "BOOL", { 1 } },
};

enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static int dtype_named(const char *name)
{
    int i = 0;
    while (i < DTYPES && strcmp(dtypes[i].name, name) != 0) i++;
    return i;
}

/* ---- messages ----------------------------------------------------------------------------------- */

/* "file: tensor name: …"; the name may be NULL. */
static int refuse(const safetensors *file, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(const safetensors *file, const char *name, const char *format, ...)
{
    char text[ST_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!name) return st_error_set("%s: %s", file->path, text);
    return st_error_set("%s: tensor %s: %s", file->path, show_text(name).text, text);
}

/* ---- reading ------------------------------------------------------------------------------------- */

static const char *why_short(const safetensors *file)
{
    return feof(file->stream) ? "the file ends early" : strerror(errno);
}

/* The bytes of the header; -1 with an error. */
static long long read_length(safetensors *file)
{
    unsigned char bytes[PREFIX];
    if (file->size < PREFIX) return refuse(file, NULL, "not a safetensors file: %lld bytes", file->size);
    if (fread(bytes, 1, PREFIX, file->stream) != PREFIX)
        return refuse(file, NULL, "cannot be read: %s", why_short(file));
    unsigned long long length = numbers_get(bytes, PREFIX);
    if (length > (unsigned long long)file->size - PREFIX)
        return refuse(file, NULL,
                      "truncated, or not a safetensors file: a header of %llu bytes, the file has %lld",
                      length, file->size - PREFIX);
    if (length <= MOST_HEADER) return (long long)length;
    return refuse(file, NULL, "a header of %llu bytes, expected at most %d", length, MOST_HEADER);
}

static int read_header(safetensors *file)
{
    long long length = read_length(file);
    char *text = length < 0 ? NULL : array_new(file->path, length, 1);
    if (!text) return -1;
    if (fread(text, 1, (size_t)length, file->stream) != (size_t)length)
        refuse(file, NULL, "header: cannot be read: %s", why_short(file));
    else if (text[0] != '{') refuse(file, NULL, "header: expected {...}");
    else if (!(file->header = json_read(text, (size_t)length, "header"))) st_error_within("%s: ", file->path);
    free(text);
    file->data = PREFIX + length;
    file->size -= file->data;
    return file->header ? 0 : -1;
}

static int check_metadata(const safetensors *file)
{
    const char *key;
    json_t *text;
    if (!json_is_object(file->metadata))
        return refuse(file, NULL, "__metadata__ is %s, expected {...}", json_show(file->metadata).text);
    json_object_foreach((json_t *)file->metadata, key, text)
    {
        if (!json_is_string(text))
            return refuse(file, NULL, "__metadata__ holds %s, expected strings", json_show(text).text);
    }
    return 0;
}

/* -1 if they overflow. */
static long long bytes_of(const dtype *d, st_shape s)
{
    long long bytes = d->form.size;
    bool empty = false;
    for (int i = 0; i < s.rank; i++) {
        if (s.n[i] == 0) empty = true;
        else if (__builtin_mul_overflow(bytes, s.n[i], &bytes)) return -1;
    }
    return empty ? 0 : bytes;
}

static int check_entry(const safetensors *file, json_t *given, safetensors_entry *e)
{
    const char *name = e->name, *type;
    json_t *sizes;
    json_error_t error;
    errno = 0;
    if (json_unpack_ex(given, &error, JSON_STRICT, "{s:s, s:o, s:[I, I]}", "dtype", &type, "shape", &sizes,
                       "data_offsets", &e->begin, &e->end))
        return refuse(file, name, "%s: %s", json_show(given).text,
                      errno == ENOMEM ? "no memory" : error.text);
    e->dtype = dtype_named(type);
    if (e->dtype == DTYPES) return refuse(file, name, "dtype %s is not known", show_text(type).text);
    if (!json_shape(sizes, &e->shape))
        return refuse(file, name, "shape %s, expected up to %d sizes", json_show(sizes).text, ST_MAX_RANK);
    const dtype *d = &dtypes[e->dtype];
    long long bytes = bytes_of(d, e->shape);
    if (bytes < 0) return refuse(file, name, "shape %s: its bytes overflow", st_shape_text(e->shape).text);
    if (e->begin < 0 || e->end < e->begin)
        return refuse(file, name, "offsets %lld..%lld, expected 0 <= begin <= end", e->begin, e->end);
    if (e->end - e->begin != bytes)
        return refuse(file, name, "offsets %lld..%lld are %lld bytes, %s %s needs %lld", e->begin, e->end,
                      e->end - e->begin, d->name, st_shape_text(e->shape).text, bytes);
    if (e->end <= file->size) return 0;
    return refuse(file, name, "offsets %lld..%lld, the data ends at %lld: truncated", e->begin, e->end,
                  file->size);
}

static int by_place(const void *a, const void *b)
{
    const safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    const safetensors_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int read_entries(safetensors *file)
{
    const char *name;
    json_t *given;
    file->entry = array_new(file->path, (ptrdiff_t)json_object_size(file->header), sizeof *file->entry);
    if (!file->entry) return -1;
    json_object_foreach(file->header, name, given)
    {
        bool metadata = strcmp(name, "__metadata__") == 0;
        if (metadata) file->metadata = given;
        else file->entry[file->count].name = name;
        if (metadata ? check_metadata(file) : check_entry(file, given, &file->entry[file->count++]))
            return -1;
    }
    return 0;
}

/* The tensors fill the data without holes and overlaps. Leaves the entries sorted by name. */
static int check_places(const safetensors *file)
{
    long long at = 0;
    qsort(file->entry, (size_t)file->count, sizeof *file->entry, by_place);
    for (const safetensors_entry *e = file->entry; e < file->entry + file->count; at = e++->end)
        if (e->begin != at)
            return refuse(file, e->name, "begins at %lld, expected %lld: %s", e->begin, at,
                          e->begin < at ? "an overlap" : "a hole");
    qsort(file->entry, (size_t)file->count, sizeof *file->entry, by_name);
    return at == file->size ? 0 : refuse(file, NULL, "%lld bytes after the last tensor", file->size - at);
}

safetensors *safetensors_open(const char *path)
{
    safetensors *file = array_new(path, 1, sizeof *file);
    if (!file) return NULL;
    file->path = path;
    if ((file->stream = file_open(path, &file->size)) && read_header(file) == 0 && read_entries(file) == 0 &&
        check_places(file) == 0)
        return file;
    safetensors_close(file);
    return NULL;
}

void safetensors_close(safetensors *file)
{
    if (!file) return;
    if (file->stream) fclose(file->stream);
    json_decref(file->header);
    free(file->entry);
    free(file);
}

const char *safetensors_text(const safetensors *file, const char *key)
{
    return json_string_value(json_object_get(file->metadata, key));
}

safetensors_entry *safetensors_named(const safetensors *file, const char *name)
{
    const safetensors_entry key = { .name = name };
    return bsearch(&key, file->entry, (size_t)file->count, sizeof key, by_name);
}

static bool is_read(const safetensors_entry *e)
{
    return dtypes[e->dtype].form.kind != NUMBER_UNREAD;
}

bool safetensors_fits(const safetensors_entry *e, st_shape expected)
{
    return is_read(e) && st_shape_equal(e->shape, expected);
}

safetensors_entry *safetensors_find_any(const safetensors *file, const char *name, st_shape *found)
{
    safetensors_entry *e = safetensors_named(file, name);
    if (!e) refuse(file, name, "missing");
    else if (!is_read(e)) refuse(file, name, "%s, expected F64, F32, F16 or BF16", dtypes[e->dtype].name);
    if (!e || !is_read(e)) return NULL;
    *found = e->shape;
    return e;
}

safetensors_entry *safetensors_find(const safetensors *file, const char *name, st_shape expected)
{
    st_shape found;
    safetensors_entry *e = safetensors_find_any(file, name, &found);
    if (!e || st_shape_equal(found, expected)) return e;
    refuse(file, name, "%s, expected %s", st_shape_text(found).text, st_shape_text(expected).text);
    return NULL;
}

int safetensors_read(const safetensors *file, const safetensors_entry *e, st_tensor to)
{
    if (fseeko(file->stream, (off_t)(file->data + e->begin), SEEK_SET) == 0 &&
        numbers_read(file->stream, dtypes[e->dtype].form, to) == 0)
        return 0;
    return refuse(file, e->name, "cannot be read: %s", why_short(file));
}

/* ---- writing ------------------------------------------------------------------------------------- */

static json_t *header_of(const char *path, int count, const safetensors_item items[], json_t *metadata)
{
    long long begin = 0, end;
    json_t *header = json_pack("{s:O}", "__metadata__", metadata);
    int status = header ? 0 : st_error_set("%s: no memory for its header", path);
    for (int i = 0; i < count && status == 0; i++, begin = end) {
        const char *name = items[i].name;
        end = begin + (long long)st_numel(items[i].value) * (long long)sizeof(st_real);
        json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", sizeof(st_real) == 8 ? "F64" : "F32",
                                  "shape", json_sizes(items[i].value.shape), "data_offsets", begin, end);
        bool twice = json_object_get(header, name) != NULL;
        if (json_object_set_new(header, name, entry) || twice)
            status = st_error_set("%s: tensor %s: %s", path, name,
                                  twice ? "its name is used twice" : "no memory, or its name is not UTF-8");
    }
    if (status == 0) return header;
    json_decref(header);
    return NULL;
}

/* The header as text, within the limits of json_read, to be freed; NULL with an error. */
static char *header_text(const char *path, int count, const safetensors_item items[], json_t *metadata)
{
    json_t *header = header_of(path, count, items, metadata);
    if (!header) return NULL;
    char *text = json_write(header);
    json_decref(header);
    if (!text) st_error_set("%s: no memory for its header", path);
    else if (strlen(text) > MOST_HEADER)
        st_error_set("%s: a header of %zu bytes, expected at most %d", path, strlen(text), MOST_HEADER);
    else if (json_check(text, strlen(text), "its header")) st_error_within("%s: ", path);
    else return text;
    free(text);
    return NULL;
}

typedef struct contents {
    const char *header;
    int count;
    const safetensors_item *item;
} contents;

static int write_contents(FILE *to, const void *context)
{
    const contents *c = context;
    unsigned char length[PREFIX];
    size_t size = strlen(c->header), padding = -size % ALIGNMENT;
    numbers_put(length, PREFIX, size + padding);
    int status =
        fwrite(length, PREFIX, 1, to) == 1 && fprintf(to, "%s%*s", c->header, (int)padding, "") >= 0 ? 0 : -1;
    for (int i = 0; i < c->count && status == 0; i++) status = numbers_write(to, c->item[i].value);
    return status;
}

int safetensors_write(const char *path, int count, const safetensors_item items[], json_t *metadata,
                      safetensors_replacer *replace)
{
    char *header = header_text(path, count, items, metadata);
    int status = header ? replace(path, write_contents, &(contents){ header, count, items }) : -1;
    free(header);
    return status;
}
