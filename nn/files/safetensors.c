/* safetensors.c: a reader that believes nothing, and a writer of what it reads. */
#define _XOPEN_SOURCE 700
#include "nn/files/safetensors.h"
#include "nn/files/json.h"
#include "nn/files/sort.h"
#include "tensor/error.h"
#include "nn/files/file.h"
#include "nn/files/numbers.h"

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

typedef struct dtype {
    const char *name;
    numbers form;
} dtype;

static const dtype dtypes[] = { { "F64", { 8, .value = numbers_f64 } },
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

/* Its place in the table; of one that is not there, of the table's end. */
static unsigned char dtype_named(const char *name)
{
    unsigned char i = 0;
    while (dtypes[i].name && strcmp(dtypes[i].name, name) != 0) i++;
    return i;
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
    file->length = (size_t)length;
    file->data = PREFIX + (long long)length;
    file->size -= file->data;
    if (!(file->header = malloc(file->length + 1))) return refuse(file, NULL, "no memory for its header");
    file->header[file->length] = '\0';
    if (fread(file->header, 1, file->length, file->stream) == file->length) return 0;
    return refuse(file, NULL, "header: cannot be read: %s", why_short(file));
}

static int refuse_json(const safetensors *file, const json_walk *w)
{
    return refuse(file, NULL, "header: %s, byte %td", w->why, w->at - file->header);
}

/* A text of the header becomes what it says, where it stands or before that. */
static char *settle(const safetensors *file, json_walk *w, json_piece text, char *to)
{
    if (json_text(w, text, to)) return to;
    refuse_json(file, w);
    return NULL;
}

static char *place_of(const safetensors *file, json_piece text)
{
    return file->header + (text.at - file->header);
}

/* How many members an object of the header has; -1 with an error. */
static ptrdiff_t count_members(const safetensors *file, json_piece object)
{
    ptrdiff_t count = 0;
    json_walk w = json_begin(object, '{');
    while (json_next(&w)) count++;
    return w.why[0] ? refuse_json(file, &w) : count;
}

/* ---- reading: the metadata ----------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_address(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return (x > y) - (x < y);
}

/* Behind each key its text. */
static int read_texts(safetensors *file, json_piece object)
{
    json_walk w = json_begin(object, '{');
    while (json_next(&w)) {
        if (w.value.at[0] != '"')
            return refuse(file, NULL, "__metadata__ holds %s, expected strings", json_show(w.value).text);
        char *key = settle(file, &w, w.name, place_of(file, w.name));
        if (!key || !settle(file, &w, w.value, key + strlen(key) + 1)) return -1;
        file->key[file->keys++] = key;
    }
    return 0;
}

static int read_metadata(safetensors *file, json_piece object)
{
    if (file->key) return refuse(file, NULL, "__metadata__ is there twice");
    if (object.at[0] != '{')
        return refuse(file, NULL, "__metadata__ is %s, expected {...}", json_show(object).text);
    ptrdiff_t count = count_members(file, object);
    if (count < 0) return -1;
    file->key = malloc(((size_t)count + 1) * sizeof *file->key);
    if (!file->key) return refuse(file, NULL, "no memory for its metadata");
    if (read_texts(file, object)) return -1;
    sort_in_place(file->key, (size_t)file->keys, sizeof *file->key, by_key);
    for (int i = 1; i < file->keys; i++)
        if (strcmp(file->key[i - 1], file->key[i]) == 0)
            return refuse(file, NULL, "__metadata__ has %s twice", safetensors_show_name(file->key[i]).text);
    sort_in_place(file->key, (size_t)file->keys, sizeof *file->key, by_address);
    return 0;
}

const char *safetensors_text_of(const char *key)
{
    return key + strlen(key) + 1;
}

const char *safetensors_text(const safetensors *file, const char *key)
{
    for (int i = 0; i < file->keys; i++)
        if (strcmp(file->key[i], key) == 0) return safetensors_text_of(file->key[i]);
    return NULL;
}

/* ---- reading: the tensors ------------------------------------------------------------------------ */

/* -1 where they overflow. */
static long long bytes_of(const dtype *d, shape s)
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
    shape s;
    json_t *sizes;
    json_error_t error;
    errno = 0;
    if (json_unpack_ex(given, &error, JSON_STRICT, "{s:s, s:o, s:[I, I]}", "dtype", &type, "shape", &sizes,
                       "data_offsets", &e->begin, &e->end))
        return refuse(file, name, "%s: %s", safetensors_show(given).text,
                      errno == ENOMEM ? "no memory" : error.text);
    e->dtype = dtype_named(type);
    const dtype *d = &dtypes[e->dtype];
    if (!d->name) return refuse(file, name, "dtype %s is not known", safetensors_show_name(type).text);
    if (!safetensors_shape(sizes, &s))
        return refuse(file, name, "shape %s, expected up to %d sizes", safetensors_show(sizes).text,
                      TENSOR_MAX_RANK);
    long long bytes = bytes_of(d, s);
    if (bytes < 0) return refuse(file, name, "shape %s: its bytes overflow", shape_text(s).text);
    if (e->begin < 0 || e->end < e->begin)
        return refuse(file, name, "offsets %lld..%lld, expected a begin from 0 on and then an end", e->begin,
                      e->end);
    if (e->end - e->begin != bytes)
        return refuse(file, name, "offsets %lld..%lld hold %lld bytes, %s %s needs %lld", e->begin, e->end,
                      e->end - e->begin, d->name, shape_text(s).text, bytes);
    if (e->end <= file->size) return 0;
    return refuse(file, name, "offsets %lld..%lld, the data ends at %lld: truncated", e->begin, e->end,
                  file->size);
}

static int read_entry(safetensors *file, json_walk *w, const char *name)
{
    if (w->value.size > JSON_LEAF)
        return refuse(file, name, "its entry has %zu bytes, expected at most %d", w->value.size, JSON_LEAF);
    json_t *given = json_leaf(w, w->value);
    if (!given) return refuse_json(file, w);
    safetensors_entry *e = &file->entry[file->count++];
    *e = (safetensors_entry){ .name = name, .given = w->value.at, .size = (unsigned short)w->value.size };
    int status = check_entry(file, given, e);
    json_decref(given);
    return status;
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
    const json_piece all = { file->header, file->length };
    if (file->header[0] != '{')
        return refuse(file, NULL, "header: '%s', expected {...}", json_show(all).text);
    ptrdiff_t count = count_members(file, all);
    if (count < 0) return -1;
    if (!(file->entry = malloc(((size_t)count + 1) * sizeof *file->entry)))
        return refuse(file, NULL, "no memory for its list of tensors");
    json_walk w = json_begin(all, '{');
    while (json_next(&w)) {
        const char *name = settle(file, &w, w.name, place_of(file, w.name));
        if (!name) return -1;
        if (strcmp(name, "__metadata__") == 0 ? read_metadata(file, w.value) : read_entry(file, &w, name))
            return -1;
    }
    return 0;
}

/* No holes, no overlaps, nothing after the last. */
static int check_places(const safetensors *file)
{
    long long at = 0;
    sort_in_place(file->entry, (size_t)file->count, sizeof *file->entry, by_place);
    for (const safetensors_entry *e = file->entry; e < file->entry + file->count; at = e++->end)
        if (e->begin != at)
            return refuse(file, e->name, "begins at %lld, expected %lld: %s", e->begin, at,
                          e->begin < at ? "an overlap" : "a hole");
    return at == file->size ? 0 : refuse(file, NULL, "%lld bytes after the last tensor", file->size - at);
}

static int check_names(const safetensors *file)
{
    sort_in_place(file->entry, (size_t)file->count, sizeof *file->entry, by_name);
    for (int i = 1; i < file->count; i++)
        if (by_name(&file->entry[i - 1], &file->entry[i]) == 0)
            return refuse(file, file->entry[i].name, "two have that name");
    return 0;
}

safetensors *safetensors_open(const char *path)
{
    safetensors *file = calloc(1, sizeof *file);
    if (!file) {
        error_set("%s: no memory", path);
        return NULL;
    }
    file->path = path;
    if ((file->stream = file_open(path, &file->size)) && read_header(file) == 0 && read_entries(file) == 0 &&
        check_places(file) == 0 && check_names(file) == 0)
        return file;
    safetensors_close(file);
    return NULL;
}

void safetensors_close(safetensors *file)
{
    if (!file) return;
    if (file->stream) fclose(file->stream);
    free(file->header);
    free(file->entry);
    free(file->key);
    free(file);
}

/* What was checked when the file was opened; -1 where there is no memory for it. */
static int shape_of(const safetensors *file, const safetensors_entry *e, shape *s)
{
    json_t *given = json_loadb(e->given, e->size, 0, NULL);
    int status = given && safetensors_shape(json_object_get(given, "shape"), s) ? 0 : -1;
    json_decref(given);
    return status ? refuse(file, e->name, "no memory for its shape") : 0;
}

safetensors_entry *safetensors_find_any(const safetensors *file, const char *name, shape *found)
{
    const safetensors_entry key = { .name = name };
    safetensors_entry *e = bsearch(&key, file->entry, (size_t)file->count, sizeof key, by_name);
    if (!e) refuse(file, name, "missing");
    else if (!dtypes[e->dtype].form.value)
        refuse(file, name, "%s, expected F64, F32, F16 or BF16", dtypes[e->dtype].name);
    else if (shape_of(file, e, found) == 0) return e;
    return NULL;
}

safetensors_entry *safetensors_find(const safetensors *file, const char *name, shape expected)
{
    shape found;
    safetensors_entry *e = safetensors_find_any(file, name, &found);
    if (!e || shape_equal(found, expected)) return e;
    refuse(file, name, "%s, expected %s", shape_text(found).text, shape_text(expected).text);
    return NULL;
}

int safetensors_read(const safetensors *file, const safetensors_entry *e, tensor to)
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
