/* model.h: a saved net with all that using it takes: how its input was normalised, what its classes are
 * called. */
#ifndef STRIDE_EXAMPLES_STRIDE_MODEL_H
#define STRIDE_EXAMPLES_STRIDE_MODEL_H

#include "nn/data/classes.h"
#include "nn/loss.h"
#include "nn/data/normalize.h"
#include "nn/files/save.h"

#define MODEL_FILE "model.safetensors" /* the default of --model and --save */

typedef struct model {
    st_net *net;
    st_normalization *scale; /* NULL: none */
    st_class_names *classes; /* NULL: they have no names */
    st_loss loss;            /* what it was trained by */
    char **name, **shown; /* of each output, or its number: in UTF-8; with control characters made visible */
} model;

/* -1 with an error; also if a loss that is not known is in the file. */
int model_open(model *m, const char *path, ptrdiff_t batch);
void model_close(model *m);

/* "cross-entropy|mse|huber|bce", and the loss at an index of it. */
#define LOSSES "cross-entropy|mse|huber|bce"
st_loss loss_chosen(int index, double label_smoothing);

/* Probabilities [K] of outputs y [K]: the softmax, in double. */
void model_softmax(st_tensor y, double *p);

#endif
