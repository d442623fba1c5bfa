/* safetensors.c: reads files, checking everything in them, and writes them. */
#define _XOPEN_SOURCE 700
#include "nn/files/safetensors.h"
#include "nn/files/file.h"
#include "nn/files/json.h"
#include "nn/files/numbers.h"
#include "tensor/array.h"
#include "tensor/error.h"

#include <errno.h>
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

/* ---- reading ------------------------------------------------------------------------------------- */

static const char *why_short(const safetensors *file)
{
    return feof(file->stream) ? "the file ends early" : strerror(errno);
}

/* The bytes of the header; -1 with an error. */
static long long read_length(safetensors *file)
{
    unsigned char bytes[PREFIX];
    if (file->size < PREFIX) return st_error_set("not a safetensors file: %lld bytes", file->size);
    if (fread(bytes, 1, PREFIX, file->stream) != PREFIX)
        return st_error_set("cannot be read: %s", why_short(file));
    unsigned long long length = numbers_get(bytes, PREFIX);
    if (length > (unsigned long long)file->size - PREFIX)
        return st_error_set("truncated, or not a safetensors file: a header of %llu bytes, the file has %lld",
                            length, file->size - PREFIX);
    if (length <= MOST_HEADER) return (long long)length;
    return st_error_set("a header of %llu bytes, expected at most %d", length, MOST_HEADER);
}

static int read_header(safetensors *file)
{
    long long length = read_length(file);
    char *text = length < 0 ? NULL : array_new("header", length, 1);
    if (!text) return -1;
    if (fread(text, 1, (size_t)length, file->stream) != (size_t)length)
        st_error_set("header: cannot be read: %s", why_short(file));
    else if (text[0] != '{') st_error_set("header: expected {...}");
    else file->header = json_read(text, (size_t)length, "header");
    free(text);
    file->data = PREFIX + length;
    file->size -= file->data;
    return file->header ? 0 : -1;
}

static int check_metadata(json_t *metadata)
{
    const char *key;
    json_t *text;
    bool strings = json_is_object(metadata);
    json_object_foreach(metadata, key, text) strings = strings && json_is_string(text);
    return strings ? 0 : st_error_set("__metadata__ is %s, expected strings", json_show(metadata).text);
}

static int check_entry(const safetensors *file, json_t *given, safetensors_entry *e)
{
    const char *type;
    json_t *sizes;
    json_error_t error;
    long long bytes;
    errno = 0;
    if (json_unpack_ex(given, &error, JSON_STRICT, "{s:s, s:o, s:[I, I]}", "dtype", &type, "shape", &sizes,
                       "data_offsets", &e->begin, &e->end))
        return st_error_set("%s: %s", json_show(given).text, errno == ENOMEM ? "no memory" : error.text);
    e->dtype = dtype_named(type);
    if (e->dtype == DTYPES) return st_error_set("dtype %s is not known", show_text(type).text);
    if (!json_shape(sizes, &e->shape))
        return st_error_set("shape %s, expected up to %d sizes", json_show(sizes).text, ST_MAX_RANK);
    const ptrdiff_t count = st_shape_numel(e->shape, "header");
    const dtype *d = &dtypes[e->dtype];
    if (count < 0) return -1;
    if (__builtin_mul_overflow((long long)count, d->form.size, &bytes))
        return st_error_set("shape %s: its bytes overflow", st_shape_text(e->shape).text);
    if (e->begin >= 0 && e->begin <= e->end && e->end <= file->size && e->end - e->begin == bytes) return 0;
    return st_error_set("offsets %lld..%lld, expected the %lld bytes of %s %s within the file's %lld%s",
                        e->begin, e->end, bytes, d->name, st_shape_text(e->shape).text, file->size,
                        e->end > file->size ? ": truncated" : "");
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
    file->entry = array_new("header", (ptrdiff_t)json_object_size(file->header), sizeof *file->entry);
    if (!file->entry) return -1;
    json_object_foreach(file->header, name, given)
    {
        safetensors_entry *e = &file->entry[file->count];
        if (strcmp(name, "__metadata__") == 0) {
            file->metadata = given;
            if (check_metadata(given)) return -1;
            continue;
        }
        e->name = name;
        if (check_entry(file, given, e)) return st_error_within("tensor %s: ", show_text(name).text);
        file->count++;
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
            return st_error_set("tensor %s: begins at %lld, expected %lld: %s", show_text(e->name).text,
                                e->begin, at, e->begin < at ? "an overlap" : "a hole");
    qsort(file->entry, (size_t)file->count, sizeof *file->entry, by_name);
    return at == file->size ? 0 : st_error_set("%lld bytes after the last tensor", file->size - at);
}

safetensors *safetensors_open(const char *path)
{
    safetensors *file = array_new(path, 1, sizeof *file);
    if (!file) return NULL;
    file->path = path;
    file->stream = file_open(path, &file->size);
    if (file->stream && (read_header(file) || read_entries(file) || check_places(file)))
        st_error_within("%s: ", path);
    else if (file->stream) return file;
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

bool safetensors_fits(const safetensors_entry *e, st_shape expected)
{
    return dtypes[e->dtype].form.kind != NUMBER_UNREAD && st_shape_equal(e->shape, expected);
}

safetensors_entry *safetensors_find(const safetensors *file, const char *name, st_shape expected)
{
    safetensors_entry *e = safetensors_named(file, name);
    if (e && safetensors_fits(e, expected)) return e;
    if (!e) st_error_set("%s: tensor %s: missing", file->path, show_text(name).text);
    else
        st_error_set("%s: tensor %s: %s %s, expected F64, F32, F16 or BF16 %s", file->path,
                     show_text(name).text, dtypes[e->dtype].name, st_shape_text(e->shape).text,
                     st_shape_text(expected).text);
    return NULL;
}

int safetensors_read(const safetensors *file, const safetensors_entry *e, st_tensor to)
{
    if (fseeko(file->stream, (off_t)(file->data + e->begin), SEEK_SET) == 0 &&
        numbers_read(file->stream, dtypes[e->dtype].form, to) == 0)
        return 0;
    return st_error_set("%s: tensor %s: cannot be read: %s", file->path, show_text(e->name).text,
                        why_short(file));
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

int safetensors_write(const char *path, int count, const safetensors_item items[], json_t *metadata)
{
    char *header = header_text(path, count, items, metadata);
    int status = header ? st_file_replace(path, write_contents, &(contents){ header, count, items }) : -1;
    free(header);
    return status;
}
