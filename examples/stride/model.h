/* model.h: a saved net with all that using it takes: how its input was normalised, what its classes are called. */
#ifndef STRIDE_EXAMPLES_STRIDE_MODEL_H
#define STRIDE_EXAMPLES_STRIDE_MODEL_H

#include "nn/data/classes.h"
#include "nn/loss.h"
#include "nn/data/normalize.h"
#include "nn/files/save.h"

#define MODEL_FILE "model.safetensors" /* where nobody says another */

typedef struct model {
    net *net;
    normalization *scale; /* NULL: none */
    class_names *classes; /* NULL: they have no names */
    loss loss;            /* what it was trained by */
} model;

/* Whether a path is that of a saved net, by its ending. */
bool model_named(const char *path);

int model_open(model *m, const char *path, ptrdiff_t batch);
void model_close(model *m);

/* The name of class k, or its number. */
typedef struct class_text {
    char text[64];
} class_text;
class_text model_class(const model *m, ptrdiff_t k);

/* "cross-entropy|mse|huber|bce", and the loss at a place of it. */
#define LOSSES "cross-entropy|mse|huber|bce"
loss loss_chosen(int place, double label_smoothing);

/* Probabilities [K] of outputs y [K]: the softmax, in double. */
void model_softmax(tensor y, double *p);

#endif
