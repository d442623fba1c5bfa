/* safetensors.c: a reader that believes nothing, and a writer of what it reads. */
#define _XOPEN_SOURCE 700
#include "nn/safetensors.h"
#include "tensor/error.h"
#include "tensor/file.h"
#include "tensor/numbers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    PREFIX = 8,              /* bytes of the header's length */
    MOST_HEADER = 100000000, /* bytes: the format's own limit */
    ALIGNMENT = 8            /* of the data in a file we write */
};

/* ---- dtypes -------------------------------------------------------------------------------------- */

struct safetensors_dtype {
    const char *name;
    numbers form;
};

static const safetensors_dtype dtypes[] = { { "F64", { 8, .value = numbers_f64 } },
                                            { "F32", { 4, .value = numbers_f32 } },
                                            { "F16", { 2, .value = numbers_f16 } },
                                            { "BF16", { 2, .value = numbers_bf16 } },
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
                                            { 0 } };

static const safetensors_dtype *dtype_named(const char *name)
{
    const safetensors_dtype *d = dtypes;
    while (name && d->name && strcmp(d->name, name) != 0) d++;
    return name && d->name ? d : NULL;
}

/* ---- messages and JSON --------------------------------------------------------------------------- */

static int append(const char *text, size_t size, void *to)
{
    safetensors_shown *shown = to;
    size_t room = sizeof shown->text - 1 - strlen(shown->text);
    strncat(shown->text, text, size < room ? size : room);
    return size <= room ? 0 : -1;
}

safetensors_shown safetensors_show(const json_t *value)
{
    safetensors_shown shown = { "" };
    if (json_dump_callback(value, append, &shown, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII))
        memcpy(shown.text + sizeof shown.text - 4, "...", 4);
    return shown;
}

safetensors_shown safetensors_show_name(const char *name)
{
    safetensors_shown shown = { "" };
    if (append(name, strlen(name), &shown)) memcpy(shown.text + sizeof shown.text - 4, "...", 4);
    return shown;
}

/* "file: tensor name: …"; the name may be NULL. */
static int refuse(const safetensors *file, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(const safetensors *file, const char *name, const char *format, ...)
{
    char text[ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!name) return error_set("%s: %s", file->path, text);
    return error_set("%s: tensor %s: %s", file->path, safetensors_show_name(name).text, text);
}

json_t *safetensors_sizes(shape s)
{
    return json_loads(shape_text(s).text, 0, NULL);
}

bool safetensors_shape(const json_t *sizes, shape *s)
{
    if (!json_is_array(sizes) || json_array_size(sizes) > TENSOR_MAX_RANK) return false;
    *s = (shape){ .rank = (int)json_array_size(sizes) };
    for (int i = 0; i < s->rank; i++) {
        const json_t *size = json_array_get(sizes, (size_t)i);
        long long n = json_integer_value(size);
        if (!json_is_integer(size) || n < 0 || n > PTRDIFF_MAX) return false;
        s->n[i] = (ptrdiff_t)n;
    }
    return true;
}

/* ---- reading: the header ------------------------------------------------------------------------- */

/* Of a read that failed. */
static const char *why_short(const safetensors *file)
{
    return feof(file->stream) ? "the file ends early" : strerror(errno);
}

static int parse_header(safetensors *file, size_t length)
{
    json_error_t error = { .position = 0 };
    char *text = malloc(length + 1);
    if (text && fread(text, 1, length, file->stream) != length) {
        free(text);
        return refuse(file, NULL, "header: cannot be read: %s", why_short(file));
    }
    errno = 0;
    if (text) file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    const char *reason = text && error.text[0] && errno != ENOMEM ? error.text : "no memory";
    if (file->header) reason = text[0] == '{' ? NULL : "expected {...}";
    free(text);
    return reason ? refuse(file, NULL, "header: %s, byte %d", reason, error.position) : 0;
}

static int read_header(safetensors *file)
{
    unsigned char bytes[PREFIX];
    if (file->size < PREFIX) return refuse(file, NULL, "%lld bytes are no safetensors file", file->size);
    if (fread(bytes, 1, PREFIX, file->stream) != PREFIX)
        return refuse(file, NULL, "cannot be read: %s", why_short(file));
    unsigned long long length = numbers_get(bytes, PREFIX);
    if (length > (unsigned long long)file->size - PREFIX)
        return refuse(file, NULL, "truncated, or no safetensors file: a header of %llu bytes, %lld are there",
                      length, file->size - PREFIX);
    if (length > MOST_HEADER)
        return refuse(file, NULL, "a header of %llu bytes, expected at most %d", length, MOST_HEADER);
    file->data = PREFIX + (long long)length;
    file->size -= file->data;
    return parse_header(file, (size_t)length);
}

static int read_metadata(safetensors *file)
{
    const char *key;
    json_t *text;
    file->metadata = json_object_get(file->header, "__metadata__");
    if (file->metadata && !json_is_object(file->metadata))
        return refuse(file, NULL, "__metadata__ is %s, expected {...}",
                      safetensors_show(file->metadata).text);
    json_object_foreach(file->metadata, key, text)
    {
        if (!json_is_string(text))
            return refuse(file, NULL, "__metadata__ holds %s, expected strings", safetensors_show(text).text);
    }
    return 0;
}

/* ---- reading: the tensors ------------------------------------------------------------------------ */

/* -1 where they overflow. */
static long long bytes_of(const safetensors_entry *e)
{
    long long bytes = e->dtype->form.size;
    bool empty = false;
    for (int i = 0; i < e->shape.rank; i++) {
        if (e->shape.n[i] == 0) empty = true;
        else if (__builtin_mul_overflow(bytes, e->shape.n[i], &bytes)) return -1;
    }
    return empty ? 0 : bytes;
}

static int read_entry(const safetensors *file, const char *name, json_t *given, safetensors_entry *e)
{
    const char *dtype;
    json_t *sizes;
    json_error_t error;
    *e = (safetensors_entry){ .name = name };
    errno = 0;
    if (json_unpack_ex(given, &error, JSON_STRICT, "{s:s, s:o, s:[I, I]}", "dtype", &dtype, "shape", &sizes,
                       "data_offsets", &e->begin, &e->end))
        return refuse(file, name, "%s: %s", safetensors_show(given).text,
                      errno == ENOMEM ? "no memory" : error.text);
    if (!(e->dtype = dtype_named(dtype)))
        return refuse(file, name, "dtype %s is not known", safetensors_show_name(dtype).text);
    if (!safetensors_shape(sizes, &e->shape))
        return refuse(file, name, "shape %s, expected up to %d sizes", safetensors_show(sizes).text,
                      TENSOR_MAX_RANK);
    long long bytes = bytes_of(e);
    if (bytes < 0) return refuse(file, name, "shape %s: its bytes overflow", shape_text(e->shape).text);
    if (e->begin < 0 || e->end < e->begin)
        return refuse(file, name, "offsets %lld..%lld, expected a begin from 0 on and then an end", e->begin,
                      e->end);
    if (e->end - e->begin != bytes)
        return refuse(file, name, "offsets %lld..%lld hold %lld bytes, %s %s needs %lld", e->begin, e->end,
                      e->end - e->begin, e->dtype->name, shape_text(e->shape).text, bytes);
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

static int read_entries(safetensors *file)
{
    const char *name;
    json_t *given;
    file->entry = calloc(json_object_size(file->header) + 1, sizeof *file->entry);
    if (!file->entry) return refuse(file, NULL, "no memory for its list of tensors");
    json_object_foreach(file->header, name, given)
    {
        if (given == file->metadata) continue;
        if (read_entry(file, name, given, &file->entry[file->count++])) return -1;
    }
    qsort(file->entry, (size_t)file->count, sizeof *file->entry, by_place);
    return 0;
}

/* No holes, no overlaps, nothing after the last. */
static int check_places(const safetensors *file)
{
    long long at = 0;
    for (const safetensors_entry *e = file->entry; e < file->entry + file->count; at = e++->end)
        if (e->begin != at)
            return refuse(file, e->name, "begins at %lld, expected %lld: %s", e->begin, at,
                          e->begin < at ? "an overlap" : "a hole");
    return at == file->size ? 0 : refuse(file, NULL, "%lld bytes after the last tensor", file->size - at);
}

safetensors *safetensors_open(const char *path)
{
    safetensors *file = calloc(1, sizeof *file);
    if (!file) {
        error_set("%s: no memory", path);
        return NULL;
    }
    file->path = path;
    if ((file->stream = file_open(path, &file->size)) && read_header(file) == 0 && read_metadata(file) == 0 &&
        read_entries(file) == 0 && check_places(file) == 0)
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

safetensors_entry *safetensors_find(const safetensors *file, const char *name, shape expected)
{
    safetensors_entry *e = file->entry, *end = e + file->count;
    while (e < end && strcmp(e->name, name) != 0) e++;
    if (e == end) refuse(file, name, "missing");
    else if (!shape_equal(e->shape, expected))
        refuse(file, name, "%s, expected %s", shape_text(e->shape).text, shape_text(expected).text);
    else if (!e->dtype->form.value) refuse(file, name, "%s, expected F64, F32, F16 or BF16", e->dtype->name);
    else return e;
    return NULL;
}

int safetensors_read(const safetensors *file, const safetensors_entry *e, tensor to)
{
    if (fseeko(file->stream, (off_t)(file->data + e->begin), SEEK_SET) == 0 &&
        numbers_read(file->stream, e->dtype->form, to) == 0)
        return 0;
    return refuse(file, e->name, "cannot be read: %s", why_short(file));
}

/* ---- writing ------------------------------------------------------------------------------------- */

static json_t *header_of(const char *path, int count, const safetensors_item items[], json_t *metadata)
{
    long long begin = 0, end;
    json_t *header = json_pack("{s:O}", "__metadata__", metadata);
    int status = header ? 0 : error_set("%s: no memory for its header", path);
    for (int i = 0; i < count && status == 0; i++, begin = end) {
        const char *name = items[i].name;
        end = begin + (long long)tensor_count(items[i].value) * (long long)sizeof(real);
        json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", sizeof(real) == 8 ? "F64" : "F32", "shape",
                                  safetensors_sizes(items[i].value.shape), "data_offsets", begin, end);
        bool twice = json_object_get(header, name) != NULL;
        if (json_object_set_new(header, name, entry) || twice)
            status = error_set("%s: tensor %s: %s", path, name,
                               twice ? "two have that name" : "no memory, or its name is not UTF-8");
    }
    if (status == 0) return header;
    json_decref(header);
    return NULL;
}

static int write_header(FILE *stream, const json_t *header)
{
    unsigned char length[PREFIX];
    size_t size = json_dumpb(header, NULL, 0, JSON_COMPACT), padding = -(PREFIX + size) % ALIGNMENT;
    numbers_put(length, PREFIX, size + padding);
    if (size == 0 || fwrite(length, PREFIX, 1, stream) != 1) return -1;
    return json_dumpf(header, stream, JSON_COMPACT) || fprintf(stream, "%*s", (int)padding, "") < 0 ? -1 : 0;
}

typedef struct contents {
    const json_t *header;
    int count;
    const safetensors_item *item;
} contents;

static int write_contents(FILE *to, const void *context)
{
    const contents *c = context;
    int status = write_header(to, c->header);
    for (int i = 0; i < c->count && status == 0; i++) status = numbers_write(to, c->item[i].value);
    return status;
}

int safetensors_write(const char *path, int count, const safetensors_item items[], json_t *metadata)
{
    json_t *header = header_of(path, count, items, metadata);
    if (!header) return -1;
    int status = file_replace(path, write_contents, &(contents){ header, count, items });
    json_decref(header);
    return status;
}
