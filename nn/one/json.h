/* json.h: JSON values, read and written; what nn/files/ calls of jansson, for the one file.
 *
 * The functions are named and behave as jansson's, of which docs/one-file.md says why it is not linked. A
 * value has a count of references; true, false and null have none. Objects keep the order of their keys.
 * Strings are UTF-8 and are checked. */
#ifndef STRIDE_NN_ONE_JSON_H
#define STRIDE_NN_ONE_JSON_H

#include "tensor/api.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef long long json_int_t;

typedef enum json_type {
    JSON_OBJECT,
    JSON_ARRAY,
    JSON_STRING,
    JSON_INTEGER,
    JSON_REAL,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL
} json_type;

typedef struct json_t json_t;

/* A string, or a list of values; of an object with their keys, which `slot` finds by their hashes. */
struct json_t {
    json_type type;
    size_t references;
    size_t count, room; /* bytes of a string; values */
    union {
        char *text;
        json_t **value;
        json_int_t integer;
        double real;
    } is;
    char **key;
    size_t *slot, slots; /* index of a value + 1, or 0; a power of two */
};

typedef struct json_error_t {
    int position; /* bytes read */
    char text[160];
} json_error_t;

enum {
    JSON_COMPACT = 1,
    JSON_ENCODE_ANY = 2,
    JSON_ENSURE_ASCII = 4,
    JSON_DECODE_ANY = 8,
    JSON_REJECT_DUPLICATES = 16,
    JSON_STRICT = 32
};
#define JSON_REAL_PRECISION(digits) ((size_t)(digits) << 16)

static bool json_is(const json_t *value, json_type type)
{
    return value && value->type == type;
}
#define json_is_object(value) json_is(value, JSON_OBJECT)
#define json_is_array(value) json_is(value, JSON_ARRAY)
#define json_is_string(value) json_is(value, JSON_STRING)
#define json_is_integer(value) json_is(value, JSON_INTEGER)
#define json_is_number(value) (json_is(value, JSON_INTEGER) || json_is(value, JSON_REAL))
#define json_is_true(value) json_is(value, JSON_TRUE)
#define json_is_boolean(value) (json_is(value, JSON_TRUE) || json_is(value, JSON_FALSE))
#define json_is_null(value) json_is(value, JSON_NULL)

#define json_object_foreach(object, name, item)                                                              \
    for (size_t at_##item = 0; json_pair(object, at_##item, &(name), &(item)); at_##item++)
#define json_array_foreach(list, index, item)                                                                \
    for ((index) = 0; (index) < json_array_size(list) && ((item) = json_array_get(list, index)); (index)++)

#endif
