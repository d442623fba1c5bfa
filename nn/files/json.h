/* json.h: JSON in files: its size is bounded before a tree is made of it, and its numbers do not depend on the locale. */
#ifndef STRIDE_NN_FILES_JSON_H
#define STRIDE_NN_FILES_JSON_H

#include "nn/files/file.h"
#include "tensor/tensor.h"

#include <jansson.h>

enum {
    JSON_VALUES = 1 << 19, /* in one text: jansson's tree of them takes 160 MiB at most, and their text */
    JSON_NESTED = 160      /* lists and objects within each other */
};

/* A text that may be handed to json_read: within the limits above. Else -1, with an error that begins with `what`. */
int json_check(const char *text, size_t size, const char *what);

/* The tree of a text, checked by json_check, in which no name comes twice. NULL with an error that begins with `what`
 * and names the byte. */
json_t *json_read(const char *text, size_t size, const char *what);

/* The text of a tree, without blanks and with every digit of its numbers, to be freed; NULL without memory. */
char *json_write(const json_t *value);

/* A value as JSON for a message. */
shown json_show(const json_t *value);

/* A shape as a list of sizes; and back, false where it is not one of at most ST_MAX_RANK. */
json_t *json_sizes(st_shape s);
bool json_shape(const json_t *sizes, st_shape *s);

#endif
