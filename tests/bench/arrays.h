/* arrays.h: arrays in files, in which programs say what is computed from what.
 *
 * A file is a line of shapes, "64x10 512x784 512", then all numbers one after the other: floats, each
 * array row-major. `given` has what a subject is computed from: x, dy, then all parameters and all states;
 * `result` has what a program made of it. They lie in the folder that the environment calls BENCH_FOLDER. */
#ifndef STRIDE_TESTS_BENCH_ARRAYS_H
#define STRIDE_TESTS_BENCH_ARRAYS_H

#include "layers/layer.h"

#include <stddef.h>

enum { ARRAYS_MOST = 1024 };

typedef struct arrays {
    int count;
    st_tensor array[ARRAYS_MOST]; /* contiguous */
} arrays;

void arrays_add(arrays *to, st_tensor array); /* one too many sets the error */

/* Gives the parameters and states of a built tree of layers random values that keep numbers as large as
 * they are. */
void arrays_fill(st_layer *root);

/* Adds those, or the parameters' gradients, of all layers of the tree, parents first. */
typedef enum array_kind { PARAMETERS, GRADIENTS, STATES } array_kind;
void arrays_add_all(arrays *to, st_layer *root, array_kind kind);

/* Exchanges the probabilities of all dropouts for these: masks are everyone's own, so that results are
 * compared without any. */
void arrays_exchange_dropout(st_layer *root, double p[ARRAYS_MOST]);

/* -1 with an error. */
int arrays_write(const arrays *from, const char *name);

/* Two files' shapes are the same, and each array of `theirs` differs from that of `own` by at most
 * `limit`, in root mean squares. `why` receives what is not so. */
bool arrays_agree(const char *own, const char *theirs, double limit, char *why, size_t room);

#endif
