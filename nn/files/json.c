/* json.c: limits, lists and messages around jansson, which reads and writes numbers alike in any locale. */
#include "nn/files/json.h"
#include "tensor/error.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Counts values: each but the first follows a comma or an opening bracket. */
int json_check(const char *text, size_t size, const char *what)
{
    int values = 1, nested = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (quoted && c == '\\') i++;
        else if (c == '"') quoted = !quoted;
        if (quoted) continue;
        bool opens = c == '{' || c == '[';
        values += opens || c == ',';
        nested += opens - (c == '}' || c == ']');
        if (values > JSON_VALUES) return st_error_set("%s: more than %d values", what, JSON_VALUES);
        if (nested > JSON_NESTED)
            return st_error_set("%s: nested deeper than %d, byte %zu", what, JSON_NESTED, i);
    }
    return 0;
}

json_t *json_read(const char *text, size_t size, const char *what)
{
    json_error_t error = { .position = 0 };
    if (json_check(text, size, what)) return NULL;
    errno = 0;
    json_t *tree = json_loadb(text, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    bool short_of_memory = errno == ENOMEM || !error.text[0];
    if (!tree && short_of_memory) st_error_set("%s: no memory", what);
    else if (!tree) st_error_set("%s: %s, byte %d", what, error.text, error.position);
    return tree;
}

/* Not json_dumps, which loses keys when it runs out of memory. */
char *json_write(const json_t *value)
{
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
    size_t size = json_dumpb(value, NULL, 0, flags);
    char *text = size > 0 ? malloc(size + 1) : NULL;
    if (text && json_dumpb(value, text, size, flags) != size) {
        free(text);
        text = NULL;
    }
    if (text) text[size] = '\0';
    return text;
}

static int append(const char *text, size_t size, void *to)
{
    message_text *s = to;
    size_t used = strlen(s->text), room = sizeof s->text - 1 - used;
    memcpy(s->text + used, text, size < room ? size : room);
    if (size <= room) return 0;
    memcpy(s->text + sizeof s->text - 4, "...", 4);
    return -1;
}

message_text json_show(const json_t *value)
{
    message_text s = { "" };
    json_dump_callback(value, append, &s,
                       JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
    return s;
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_numbers(ptrdiff_t count, const double number[])
{
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < count; i++) json_array_append_new(list, json_number(number[i]));
    if (json_array_size(list) == (size_t)count) return list;
    json_decref(list);
    return NULL;
}

bool json_read_numbers(const json_t *list, ptrdiff_t count, double number[])
{
    bool valid = json_is_array(list) && json_array_size(list) == (size_t)count;
    for (ptrdiff_t i = 0; i < count && valid; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        valid = json_is_null(value) || json_is_number(value);
        number[i] = json_is_null(value) ? (double)NAN : json_number_value(value);
    }
    return valid;
}

json_t *json_sizes(st_shape s)
{
    return json_loads(st_shape_text(s).text, 0, NULL);
}

bool json_shape(const json_t *sizes, st_shape *s)
{
    if (!json_is_array(sizes) || json_array_size(sizes) > ST_MAX_RANK) return false;
    *s = (st_shape){ .rank = (int)json_array_size(sizes) };
    for (int i = 0; i < s->rank; i++) {
        const json_t *size = json_array_get(sizes, (size_t)i);
        long long n = json_integer_value(size);
        if (!json_is_integer(size) || n < 0 || n > PTRDIFF_MAX) return false;
        s->n[i] = (ptrdiff_t)n;
    }
    return true;
}
