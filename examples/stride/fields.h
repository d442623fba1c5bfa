/* fields.h: tables of options, of layers and of kinds, as messages and help show them. */
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

/* Prints " [name=value]", " [flag]" or " [name=choice|choice]". */
void field_put(FILE *to, const st_field *f, double value);

#endif
