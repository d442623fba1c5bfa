/* text.h: text from files, paths and command lines: made safe to print, and examined. */
#ifndef STRIDE_EXAMPLES_STRIDE_TEXT_H
#define STRIDE_EXAMPLES_STRIDE_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Bytes of the printable UTF-8 character at the beginning (RFC 3629); 0 for a control character, C0, C1 or of
 * the direction of text, or a byte that is not UTF-8. */
int text_character(const char *text);

/* Prints text, and bytes that belong to no printable character as \x1b. */
void text_put(FILE *to, const char *text);

/* The same between two texts that are printed as they are. */
void text_put_in(FILE *to, const char *before, const char *text, const char *after);

/* The text that text_put prints, in new memory; NULL with an error: no memory. */
char *text_clean(const char *text);

/* Prints JSON and a line end; control characters that JSON allows are escaped, too. -1 with an error. */
int text_put_json(FILE *to, const json_t *value);

/* Reads a whole number greater than INT_MIN; the text after it. NULL: there is none before `end`. */
const char *text_int(const char *text, const char *end, int *to);

/* Printed columns, one for each character of UTF-8. */
int text_width(const char *text);

/* Appends a short text to the error, if there is one. Always returns -1. */
int text_append_error(const char *more);

/* True if a name ends like that, as "net.onnx" in ".onnx"; with or without ".gz" behind it. */
bool text_ends(const char *name, const char *ending);
bool text_ends_or_gz(const char *name, const char *ending);

#endif
