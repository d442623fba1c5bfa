/* json.h: JSON in files, bounded before it is parsed. */
#ifndef STRIDE_NN_FILES_JSON_H
#define STRIDE_NN_FILES_JSON_H

#include "nn/files/file.h"
#include "tensor/tensor.h"

#include <jansson.h>

enum {
    JSON_VALUES = 1 << 19, /* in one text: jansson's tree takes at most 160 MiB besides the strings */
    JSON_NESTED = 160      /* nesting of lists and objects */
};

/* Checks the limits above. -1 with an error that begins with `what`. */
int json_check(const char *text, size_t size, const char *what);

/* Parses a text within the limits; duplicate names are errors. NULL with an error that begins with `what`
 * and names the byte. */
json_t *json_read(const char *text, size_t size, const char *what);

/* The text of a tree, compact and with all digits, to be freed; NULL: no memory. */
char *json_write(const json_t *value);

/* A value as JSON for a message. */
message_text json_show(const json_t *value);

/* A number, null unless it is finite. NULL: no memory. */
json_t *json_number(double value);

/* A list of numbers, NULL: no memory; and back, NaN for null, false unless it is a list of that length. */
json_t *json_numbers(ptrdiff_t count, const double number[]);
bool json_read_numbers(const json_t *list, ptrdiff_t count, double number[]);

/* A shape as a list of sizes; and back, false unless it is a list of at most ST_MAX_RANK sizes. */
json_t *json_sizes(st_shape s);
bool json_shape(const json_t *sizes, st_shape *s);

#endif
