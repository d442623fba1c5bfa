/* mnist.h: MNIST from wherever it is: a folder, or drawn. */
#ifndef STRIDE_EXAMPLES_STRIDE_MNIST_H
#define STRIDE_EXAMPLES_STRIDE_MNIST_H

#include "nn/data.h"

#include <stdbool.h>
#include <stdio.h>

typedef struct mnist {
    st_dataset *train, *test;
    const char *source; /* "MNIST in data/mnist", "drawn digits" */
    bool drawn;         /* not MNIST, but as many of nn/data/digits.h */
} mnist;

/* The four IDX files, plain or gzipped, of $MNIST_DIR if that is set (and then nowhere else), or of
 * data/mnist or ../shared/mnist. Without them digits are drawn, which a line in `messages` (NULL: none) says.
 * -1 with an error if files are there but cannot be used. */
int mnist_find(mnist *m, FILE *messages);

/* The four files of one folder. -1 with an error if one is missing. */
int mnist_open(mnist *m, const char *in, const char *source);
void mnist_free(mnist *m);

#endif
