/* nearest.h: the name that a misspelt or foreign word stands for.
 *
 *     nearest n = { word, length };
 *     nearest_try(&n, name);                    for every name that is allowed
 *     printf("unknown %s%s", word, nearest_question(&n, "--").text); */
#ifndef STRIDE_EXAMPLES_STRIDE_NEAREST_H
#define STRIDE_EXAMPLES_STRIDE_NEAREST_H

#include <stddef.h>

enum { LONGEST_NAME = 32 };

typedef struct nearest {
    const char *word;
    size_t length;
    char name[LONGEST_NAME + 1]; /* the best so far; "": none */
    int distance;
} nearest;

void nearest_try(nearest *n, const char *name);

/* "; did you mean BEFORE and NAME?" for the end of a message, or "". */
typedef struct nearest_text {
    char text[LONGEST_NAME + 32];
} nearest_text;
nearest_text nearest_question(const nearest *n, const char *before);

#endif
