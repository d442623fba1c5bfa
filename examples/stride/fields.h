/* fields.h: tables of options, of layers and of kinds: values from text, and what messages and help show of
 * them. */
#ifndef STRIDE_EXAMPLES_STRIDE_FIELDS_H
#define STRIDE_EXAMPLES_STRIDE_FIELDS_H

#include "layers/options.h"

#include <stdio.h>

/* The end of a message about a word that names no option: "; did you mean NAME?", "; it has a, b" or
 * ", which has none". */
typedef struct fields_hint {
    char text[256];
} fields_hint;
fields_hint fields_near(const st_field *fields, const char *word, size_t length);

/* Reads "4", "3x5" ("3" is 3x3), "0.5", "true" or a choice as the value of that option; a 0 is the number,
 * not the default. -1 with an error: `WHO: NAME is "TEXT", expected …`. Ranges are checked when the options
 * are used. */
int field_read(const char *who, const st_field *f, const char *text, size_t length, void *options);

/* The same for a number, a flag or the index of a choice; and for a pair. */
void field_set(const st_field *f, double value, void *options);
void field_set_pair(const st_field *f, int first, int second, void *options);

/* Prints " [name=value]", " [flag]" or " [name=choice|choice]". */
void field_put(FILE *to, const st_field *f, double value);

#endif
