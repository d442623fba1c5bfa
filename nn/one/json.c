/* json.c: JSON values, read and written, as jansson does it. */
#include "nn/one/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 512 }; /* nesting of values that are read */

/* ---- values ---------------------------------------------------------------------------------- */

static json_t json_constants[] = { { .type = JSON_TRUE }, { .type = JSON_FALSE }, { .type = JSON_NULL } };

static json_t *json_boolean(bool value)
{
    return &json_constants[value ? 0 : 1];
}

static json_t *json_null(void)
{
    return &json_constants[2];
}

static json_t *json_new(json_type type)
{
    json_t *value = calloc(1, sizeof *value);
    if (value) value->type = type, value->references = 1;
    return value;
}

static json_t *json_object(void)
{
    return json_new(JSON_OBJECT);
}

static json_t *json_array(void)
{
    return json_new(JSON_ARRAY);
}

static json_t *json_integer(json_int_t integer)
{
    json_t *value = json_new(JSON_INTEGER);
    if (value) value->is.integer = integer;
    return value;
}

static json_t *json_real(double real)
{
    json_t *value = isfinite(real) ? json_new(JSON_REAL) : NULL;
    if (value) value->is.real = real;
    return value;
}

static json_t *json_incref(json_t *value)
{
    if (value && value->references > 0) value->references++;
    return value;
}

static void json_decref(json_t *value)
{
    if (!value || value->references == 0 || --value->references > 0) return;
    const bool list = value->type == JSON_OBJECT || value->type == JSON_ARRAY;
    for (size_t i = 0; list && i < value->count; i++) {
        json_decref(value->is.value[i]);
        if (value->key) free(value->key[i]);
    }
    if (list) free(value->is.value);
    if (value->type == JSON_STRING) free(value->is.text);
    free(value->key);
    free(value->slot);
    free(value);
}

/* The bytes of the UTF-8 character that begins a text of n bytes, and its code; 0: there is none. */
static size_t json_utf8(const char *text, size_t n, unsigned long *code)
{
    const unsigned char *at = (const unsigned char *)text;
    const size_t bytes = at[0] < 0x80       ? 1
                         : at[0] >> 5 == 6  ? 2
                         : at[0] >> 4 == 14 ? 3
                         : at[0] >> 3 == 30 ? 4
                                            : 0;
    if (bytes == 0 || bytes > n) return 0;
    *code = bytes == 1 ? at[0] : at[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if (at[i] >> 6 != 2) return 0;
        *code = *code << 6 | (at[i] & 0x3f);
    }
    static const unsigned long least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    return *code < least[bytes] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : bytes;
}

static bool json_is_utf8(const char *text, size_t n)
{
    unsigned long code;
    for (size_t i = 0, bytes; i < n; i += bytes)
        if (!(bytes = json_utf8(text + i, n - i, &code))) return false;
    return true;
}

static char *json_copy(const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (copy) memcpy(copy, text, n), copy[n] = '\0';
    return copy;
}

static json_t *json_stringn(const char *text, size_t n)
{
    json_t *value = text && json_is_utf8(text, n) ? json_new(JSON_STRING) : NULL;
    if (!value) return NULL;
    value->count = n;
    if ((value->is.text = json_copy(text, n))) return value;
    free(value);
    return NULL;
}

static json_t *json_string(const char *text)
{
    return text ? json_stringn(text, strlen(text)) : NULL;
}

static json_t *json_sprintf(const char *format, ...) ST_PRINTF(1, 2);
static json_t *json_sprintf(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return length >= 0 && (size_t)length < sizeof text ? json_string(text) : NULL;
}

static const char *json_string_value(const json_t *value)
{
    return json_is_string(value) ? value->is.text : NULL;
}

static json_int_t json_integer_value(const json_t *value)
{
    return json_is_integer(value) ? value->is.integer : 0;
}

static double json_number_value(const json_t *value)
{
    return json_is_integer(value)      ? (double)value->is.integer
           : json_is(value, JSON_REAL) ? value->is.real
                                       : 0;
}

/* ---- lists and objects ----------------------------------------------------------------------- */

static size_t json_array_size(const json_t *list)
{
    return json_is_array(list) ? list->count : 0;
}

static json_t *json_array_get(const json_t *list, size_t i)
{
    return i < json_array_size(list) ? list->is.value[i] : NULL;
}

static size_t json_object_size(const json_t *object)
{
    return json_is_object(object) ? object->count : 0;
}

static bool json_pair(const json_t *object, size_t i, const char **name, json_t **value)
{
    if (i >= json_object_size(object)) return false;
    *name = object->key[i], *value = object->is.value[i];
    return true;
}

/* Makes room for one more value. */
static bool json_grow(json_t *list)
{
    if (list->count < list->room) return true;
    const size_t room = list->room ? 2 * list->room : 8;
    json_t **values = realloc(list->is.value, room * sizeof *values);
    if (values) list->is.value = values;
    char **keys = list->type == JSON_OBJECT && values ? realloc(list->key, room * sizeof *keys) : NULL;
    if (keys) list->key = keys;
    if (!values || (list->type == JSON_OBJECT && !keys)) return false;
    list->room = room;
    return true;
}

static int json_array_append_new(json_t *list, json_t *value)
{
    if (value && json_is_array(list) && json_grow(list)) {
        list->is.value[list->count++] = value;
        return 0;
    }
    json_decref(value);
    return -1;
}

/* FNV-1a. */
static size_t json_hash(const char *name)
{
    unsigned long long hash = 14695981039346656037u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return (size_t)(hash ^ hash >> 32);
}

/* The slot of a name: its own, or a free one. */
static size_t *json_slot(const json_t *object, const char *name)
{
    size_t i = json_hash(name) & (object->slots - 1);
    while (object->slot[i] && strcmp(object->key[object->slot[i] - 1], name) != 0)
        i = (i + 1) & (object->slots - 1);
    return &object->slot[i];
}

/* Slots are at most half full, so that a free one is always found. */
static bool json_index(json_t *object)
{
    if (2 * (object->count + 1) <= object->slots) return true;
    const size_t slots = object->slots ? 2 * object->slots : 16;
    size_t *slot = calloc(slots, sizeof *slot);
    if (!slot) return false;
    free(object->slot);
    object->slot = slot, object->slots = slots;
    for (size_t i = 0; i < object->count; i++) *json_slot(object, object->key[i]) = i + 1;
    return true;
}

static json_t *json_object_get(const json_t *object, const char *name)
{
    if (json_object_size(object) == 0 || !name) return NULL;
    const size_t at = *json_slot(object, name);
    return at ? object->is.value[at - 1] : NULL;
}

static int json_object_set_new(json_t *object, const char *name, json_t *value)
{
    char *key = NULL;
    if (!value || !name || !json_is_object(object) || !json_is_utf8(name, strlen(name))) goto failed;
    if (object->count > 0) {
        const size_t at = *json_slot(object, name);
        if (at) {
            json_decref(object->is.value[at - 1]);
            object->is.value[at - 1] = value;
            return 0;
        }
    }
    if (!json_grow(object) || !json_index(object) || !(key = json_copy(name, strlen(name)))) goto failed;
    object->key[object->count] = key;
    object->is.value[object->count] = value;
    *json_slot(object, name) = ++object->count;
    return 0;
failed:
    json_decref(value);
    return -1;
}

static int json_object_del(json_t *object, const char *name)
{
    const size_t at = json_object_size(object) ? *json_slot(object, name) : 0;
    if (at == 0) return -1;
    free(object->key[at - 1]);
    json_decref(object->is.value[at - 1]);
    object->count--;
    for (size_t i = at - 1; i < object->count; i++) {
        object->key[i] = object->key[i + 1];
        object->is.value[i] = object->is.value[i + 1];
    }
    memset(object->slot, 0, object->slots * sizeof *object->slot);
    for (size_t i = 0; i < object->count; i++) *json_slot(object, object->key[i]) = i + 1;
    return 0;
}

static bool json_equal(const json_t *a, const json_t *b)
{
    if (!a || !b || a->type != b->type) return false;
    if (a->type == JSON_INTEGER) return a->is.integer == b->is.integer;
    if (a->type == JSON_REAL) return a->is.real >= b->is.real && a->is.real <= b->is.real;
    if (a->type > JSON_REAL) return true;
    if (a->count != b->count) return false;
    if (a->type == JSON_STRING) return memcmp(a->is.text, b->is.text, a->count) == 0;
    for (size_t i = 0; i < a->count; i++)
        if (!json_equal(a->is.value[i], a->key ? json_object_get(b, a->key[i]) : b->is.value[i]))
            return false;
    return true;
}

/* ---- packing and unpacking: formats of s, i, I, o, O, [..] and {s:.., ..} -------------------- */

static json_t *json_pack_value(const char **format, va_list *arguments)
{
    const char kind = *(*format)++;
    if (kind == 's') return json_string(va_arg(*arguments, const char *));
    if (kind == 'i') return json_integer(va_arg(*arguments, int));
    if (kind == 'I') return json_integer(va_arg(*arguments, json_int_t));
    if (kind == 'o') return va_arg(*arguments, json_t *);
    if (kind == 'O') return json_incref(va_arg(*arguments, json_t *));
    json_t *all = kind == '{' ? json_object() : json_array();
    const char end = kind == '{' ? '}' : ']';
    int status = all ? 0 : -1;
    while (**format != end) {
        const char *name = NULL;
        if (kind == '{') name = va_arg(*arguments, const char *), *format += 2; /* "s:" */
        json_t *value = json_pack_value(format, arguments);
        if (kind == '{' ? json_object_set_new(all, name, value) : json_array_append_new(all, value))
            status = -1;
        while (**format == ',' || **format == ' ') ++*format;
    }
    ++*format;
    if (status == 0) return all;
    json_decref(all);
    return NULL;
}

/* NULL also if a value is; references that "o" takes are released then. */
static json_t *json_pack(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_t *value = json_pack_value(&format, &arguments);
    va_end(arguments);
    return value;
}

static int json_unpack_value(const json_t *value, json_error_t *error, const char **format,
                             va_list *arguments)
{
    const char kind = *(*format)++;
    if (kind == 's' && json_is_string(value)) *va_arg(*arguments, const char **) = value->is.text;
    else if (kind == 'I' && json_is_integer(value)) *va_arg(*arguments, json_int_t *) = value->is.integer;
    else if (kind == 'o' && value) *va_arg(*arguments, const json_t **) = value;
    else if ((kind == '{' && json_is_object(value)) || (kind == '[' && json_is_array(value))) {
        size_t count = 0;
        for (; **format != '}' && **format != ']'; count++) {
            const json_t *item;
            if (kind == '{') {
                const char *name = va_arg(*arguments, const char *);
                *format += 2; /* "s:" */
                if (!(item = json_object_get(value, name))) {
                    snprintf(error->text, sizeof error->text, "there is no %.60s", name);
                    return -1;
                }
            } else item = json_array_get(value, count);
            if (json_unpack_value(item, error, format, arguments)) return -1;
            while (**format == ',' || **format == ' ') ++*format;
        }
        ++*format;
        if (count == value->count) return 0;
        snprintf(error->text, sizeof error->text, "%zu items, expected %zu", value->count, count);
        return -1;
    } else {
        snprintf(error->text, sizeof error->text, "a value of another type is expected");
        return -1;
    }
    return 0;
}

/* Strict: objects and lists have no other items. */
static int json_unpack_ex(const json_t *value, json_error_t *error, size_t flags, const char *format, ...)
{
    va_list arguments;
    (void)flags;
    va_start(arguments, format);
    int status = json_unpack_value(value, error, &format, &arguments);
    va_end(arguments);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef int json_dump_callback_t(const char *text, size_t size, void *data);

typedef struct json_writer {
    json_dump_callback_t *put;
    void *data;
    size_t flags;
} json_writer;

static int json_put(const json_writer *w, const char *text)
{
    return w->put(text, strlen(text), w->data);
}

/* Writes \u and the code of UTF-16; two of them above 0xFFFF. */
static int json_put_escaped(const json_writer *w, unsigned long code)
{
    char text[24];
    if (code < 0x10000) snprintf(text, sizeof text, "\\u%04lX", code);
    else snprintf(text, sizeof text, "\\u%04lX\\u%04lX", 0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
    return json_put(w, text);
}

static int json_put_string(const json_writer *w, const char *text, size_t n)
{
    static const char escaped[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    int status = json_put(w, "\"");
    unsigned long code;
    for (size_t i = 0, bytes; i < n && status == 0; i += bytes) {
        bytes = json_utf8(text + i, n - i, &code);
        const char *found = text[i] ? strchr(escaped, text[i]) : NULL;
        if (found) status = w->put((char[]){ '\\', letter[found - escaped] }, 2, w->data);
        else if ((unsigned char)text[i] < ' ' || (bytes > 1 && w->flags & JSON_ENSURE_ASCII))
            status = json_put_escaped(w, code);
        else status = w->put(text + i, bytes, w->data);
    }
    return status ? status : json_put(w, "\"");
}

/* With a point in any locale, and a sign that it is no integer. */
static int json_put_real(const json_writer *w, double real)
{
    char text[48];
    snprintf(text, sizeof text - 2, "%.*g", (int)(w->flags >> 16), real);
    for (char *c = text; *c; c++)
        if (!strchr("+-0123456789e", *c)) *c = '.';
    if (!strpbrk(text, ".e")) strcat(text, ".0");
    return json_put(w, text);
}

static int json_put_value(const json_writer *w, const json_t *value)
{
    char text[32];
    switch (value->type) {
    case JSON_STRING: return json_put_string(w, value->is.text, value->count);
    case JSON_REAL: return json_put_real(w, value->is.real);
    case JSON_TRUE: return json_put(w, "true");
    case JSON_FALSE: return json_put(w, "false");
    case JSON_NULL: return json_put(w, "null");
    case JSON_INTEGER: snprintf(text, sizeof text, "%lld", value->is.integer); return json_put(w, text);
    default: break;
    }
    const bool object = value->type == JSON_OBJECT;
    int status = json_put(w, object ? "{" : "[");
    for (size_t i = 0; i < value->count && status == 0; i++) {
        if (i > 0) status = json_put(w, ",");
        if (object && status == 0)
            status = json_put_string(w, value->key[i], strlen(value->key[i])) || json_put(w, ":");
        if (status == 0) status = json_put_value(w, value->is.value[i]);
    }
    return status ? status : json_put(w, object ? "}" : "]");
}

static int json_dump_callback(const json_t *value, json_dump_callback_t *put, void *data, size_t flags)
{
    return value ? json_put_value(&(json_writer){ put, data, flags }, value) : -1;
}

typedef struct json_buffer {
    char *text;
    size_t used, size;
} json_buffer;

static int json_put_in_buffer(const char *text, size_t size, void *data)
{
    json_buffer *b = data;
    if (b->used + size <= b->size) memcpy(b->text + b->used, text, size);
    b->used += size;
    return 0;
}

/* The length of the text; it is written if it fits. */
static size_t json_dumpb(const json_t *value, char *to, size_t size, size_t flags)
{
    json_buffer b = { to, 0, size };
    return json_dump_callback(value, json_put_in_buffer, &b, flags) ? 0 : b.used;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct json_reader {
    const char *text;
    size_t at, size;
    int deep;
    json_error_t *error;
} json_reader;

static json_t *json_wrong(json_reader *r, const char *what)
{
    if (!r->error->text[0]) snprintf(r->error->text, sizeof r->error->text, "%s", what);
    r->error->position = (int)r->at;
    return NULL;
}

static int json_peek(json_reader *r)
{
    while (r->at < r->size && r->text[r->at] && strchr(" \t\r\n", r->text[r->at])) r->at++;
    return r->at < r->size ? (unsigned char)r->text[r->at] : -1;
}

/* Four hexadecimal digits; -1: there are none. */
static long json_hex(json_reader *r)
{
    long code = 0;
    if (r->size - r->at < 4) return -1;
    for (int i = 0; i < 4; i++, r->at++) {
        const char *digits = "0123456789abcdefABCDEF",
                   *d = r->text[r->at] ? strchr(digits, r->text[r->at]) : NULL;
        if (!d) return -1;
        code = code * 16 + (d - digits < 16 ? d - digits : d - digits - 6);
    }
    return code;
}

static size_t json_encode(unsigned long code, char *to)
{
    if (code < 0x80) return to[0] = (char)code, 1;
    const size_t bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = bytes; i-- > 1; code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)((0xf00 >> bytes & 0xff) | code);
    return bytes;
}

/* The bytes that an escape stands for, after its backslash; 0: it is invalid. A zero is, as strings end
 * with it. */
static size_t json_unescape(json_reader *r, char *to)
{
    static const char letter[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char c = r->at < r->size ? r->text[r->at++] : '\0', *found = c ? strchr(letter, c) : NULL;
    if (found) return to[0] = meant[found - letter], 1;
    long code = c == 'u' ? json_hex(r) : -1;
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->size - r->at < 6 || r->text[r->at] != '\\' || r->text[r->at + 1] != 'u') return 0;
        r->at += 2;
        const long low = json_hex(r);
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : -1;
    } else if (code >= 0xdc00 && code < 0xe000) code = -1;
    return code > 0 ? json_encode((unsigned long)code, to) : 0;
}

/* A string's characters, to be freed, of *length bytes. */
static char *json_read_string(json_reader *r, size_t *length)
{
    size_t end = ++r->at;
    while (end < r->size && r->text[end] != '"') end += r->text[end] == '\\' ? 2 : 1;
    if (end >= r->size) return (char *)json_wrong(r, "a string that does not end");
    char *text = malloc(end - r->at + 1);
    *length = 0;
    if (!text) return NULL;
    while (r->at < end) {
        const char c = r->text[r->at];
        unsigned long code;
        size_t bytes = 1;
        if (c == '\\') {
            r->at++;
            bytes = json_unescape(r, text + *length);
        } else if ((unsigned char)c < ' ' || !(bytes = json_utf8(r->text + r->at, end - r->at, &code))) {
            bytes = 0;
        } else {
            memcpy(text + *length, r->text + r->at, bytes);
            r->at += bytes;
        }
        if (bytes == 0) {
            free(text);
            return (char *)json_wrong(r, "an invalid character or escape in a string");
        }
        *length += bytes;
    }
    r->at++;
    text[*length] = '\0';
    return text;
}

static size_t json_digits(const json_reader *r, size_t at)
{
    size_t n = 0;
    while (at + n < r->size && r->text[at + n] >= '0' && r->text[at + n] <= '9') n++;
    return n;
}

/* strtod reads the point of the locale. */
static double json_to_double(const char *text)
{
    char copy[96], point[8], *end;
    snprintf(point, sizeof point, "%.1f", 0.5);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *c = copy; *c; c++)
        if (*c == '.') *c = point[1];
    return strtod(copy, &end);
}

static json_t *json_read_number(json_reader *r)
{
    const size_t begin = r->at;
    size_t at = begin + (r->text[begin] == '-'), digits = json_digits(r, at);
    bool real = false, valid = digits > 0 && (digits == 1 || r->text[at] != '0');
    at += digits;
    if (at < r->size && r->text[at] == '.') {
        real = true, digits = json_digits(r, ++at);
        valid &= digits > 0, at += digits;
    }
    if (at < r->size && (r->text[at] == 'e' || r->text[at] == 'E')) {
        real = true, at++;
        if (at < r->size && (r->text[at] == '-' || r->text[at] == '+')) at++;
        digits = json_digits(r, at);
        valid &= digits > 0, at += digits;
    }
    char text[96];
    if (!valid || at - begin >= sizeof text) return json_wrong(r, "an invalid number");
    memcpy(text, r->text + begin, at - begin);
    text[at - begin] = '\0';
    r->at = at;
    errno = 0;
    const json_int_t integer = real ? 0 : strtoll(text, NULL, 10);
    if (errno == ERANGE) return json_wrong(r, "an integer that is too large");
    if (!real) return json_integer(integer);
    const double number = json_to_double(text);
    return isfinite(number) ? json_real(number) : json_wrong(r, "a number that is too large");
}

static json_t *json_read_value(json_reader *r);

static json_t *json_read_items(json_reader *r, bool object)
{
    const char end = object ? '}' : ']';
    json_t *all = object ? json_object() : json_array();
    r->at++;
    if (json_peek(r) == end) return r->at++, all;
    while (all) {
        size_t length;
        char *name = NULL;
        if (object && (json_peek(r) != '"' || !(name = json_read_string(r, &length)))) {
            json_wrong(r, "a string is expected");
            break;
        }
        if (object &&
            (strlen(name) != length || json_object_get(all, name) || json_peek(r) != ':' || !++r->at)) {
            json_wrong(r, json_object_get(all, name) ? "a duplicate name" : "a colon is expected");
            free(name);
            break;
        }
        json_t *value = json_read_value(r);
        int status = !value   ? -1
                     : object ? json_object_set_new(all, name, value)
                              : json_array_append_new(all, value);
        free(name);
        if (status) break;
        const int next = json_peek(r);
        r->at += next == ',' || next == end;
        if (next == end) return all;
        if (next == ',') continue;
        json_wrong(r, "a comma or the end of a list is expected");
        break;
    }
    json_decref(all);
    return NULL;
}

static json_t *json_read_value(json_reader *r)
{
    static const char *const words[] = { "true", "false", "null" };
    const int c = json_peek(r);
    json_t *value = NULL;
    if (c == '{' || c == '[') {
        if (++r->deep > DEEPEST) return json_wrong(r, "too deeply nested");
        value = json_read_items(r, c == '{');
        r->deep--;
        return value;
    }
    if (c == '"') {
        size_t length;
        char *text = json_read_string(r, &length);
        if (text) value = json_stringn(text, length);
        free(text);
        return value;
    }
    if (c == '-' || (c >= '0' && c <= '9')) return json_read_number(r);
    for (int i = 0; i < 3 && c >= 0; i++) {
        const size_t length = strlen(words[i]);
        if (r->size - r->at < length || memcmp(r->text + r->at, words[i], length) != 0) continue;
        r->at += length;
        return &json_constants[i];
    }
    return json_wrong(r, c < 0 ? "the end of the text is not expected" : "a value is expected");
}

/* Any value, without duplicate names. */
static json_t *json_loadb(const char *text, size_t size, size_t flags, json_error_t *error)
{
    json_reader r = { text, 0, size, 0, error };
    (void)flags;
    error->text[0] = '\0';
    json_t *value = json_read_value(&r);
    if (!value || json_peek(&r) < 0) return value;
    json_decref(value);
    return json_wrong(&r, "the end of the text is expected");
}

static json_t *json_loads(const char *text, size_t flags, json_error_t *error)
{
    json_error_t ignored;
    return json_loadb(text, strlen(text), flags, error ? error : &ignored);
}
