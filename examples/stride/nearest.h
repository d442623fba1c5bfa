/* nearest.h: the correct spelling of a misspelt name. */
#ifndef STRIDE_EXAMPLES_STRIDE_NEAREST_H
#define STRIDE_EXAMPLES_STRIDE_NEAREST_H

#include <stddef.h>

/* Usage: nearest n = { word, length }; nearest_try for each candidate; then n.name is the nearest one, or
 * NULL. */
typedef struct nearest {
    const char *word;
    size_t length;
    const char *name; /* the best so far */
    int distance;
} nearest;

void nearest_try(nearest *n, const char *name);

/* "; did you mean NAME?" for the end of a message, or "". */
typedef struct nearest_string {
    char text[96];
} nearest_string;
nearest_string nearest_text(const nearest *n);

#endif
