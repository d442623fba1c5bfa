/* nearest.h: what somebody may have meant who misspelt a name. */
#ifndef STRIDE_EXAMPLES_STRIDE_NEAREST_H
#define STRIDE_EXAMPLES_STRIDE_NEAREST_H

#include <stddef.h>

/* The search for one word: nearest n = { word, length }, nearest_try for each name there is, and n.name is
 * the best that is near, or NULL. */
typedef struct nearest {
    const char *word;
    size_t length;
    const char *name; /* the best so far */
    int distance;
} nearest;

void nearest_try(nearest *n, const char *name);

/* "; did you mean NAME?", or nothing: for the end of a message. */
typedef struct nearest_string {
    char text[96];
} nearest_string;
nearest_string nearest_text(const nearest *n);

#endif
