/* mnist.h: MNIST from a folder, or drawn digits instead. */
#ifndef STRIDE_EXAMPLES_STRIDE_MNIST_H
#define STRIDE_EXAMPLES_STRIDE_MNIST_H

#include "nn/data.h"

#include <stdbool.h>
#include <stdio.h>

#define DRAWN_DIGITS "drawn digits" /* in a net's metadata "data", too */

typedef struct mnist {
    st_dataset *train, *test;
    const char *source; /* "MNIST in data/mnist", or DRAWN_DIGITS */
    bool drawn;         /* digits of nn/data/digits.h instead of MNIST */
} mnist;

/* Reads the four IDX files, plain or gzipped, in $MNIST_DIR if that is set, otherwise in data/mnist or
 * ../shared/mnist. Without them digits are drawn, with a line in `messages` (NULL: none). -1 with an error
 * if files exist but cannot be used. */
int mnist_find(mnist *m, FILE *messages);

/* True if the folder has MNIST's first file. */
bool mnist_in(const char *folder);

/* The four files of one folder. -1 with an error if one is missing. */
int mnist_open(mnist *m, const char *in, const char *source);
void mnist_free(mnist *m);

#endif
