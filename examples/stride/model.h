/* model.h: a saved net with its normalisation, class names and loss. */
#ifndef STRIDE_EXAMPLES_STRIDE_MODEL_H
#define STRIDE_EXAMPLES_STRIDE_MODEL_H

#include "nn/data/classes.h"
#include "nn/losses.h"
#include "nn/data/normalize.h"
#include "nn/files/save.h"

#define MODEL_FILE "model.safetensors" /* the default of --model and --save */

typedef struct model {
    st_net *net;
    st_normalization *scale, *target_scale; /* of inputs and targets; NULL: none */
    st_class_names *classes;                /* NULL: none */
    st_loss loss;                           /* of the training */
    bool one_hot;                           /* which was one of numbers, on classes */
    char **name, **shown; /* of each output, or its number; shown: with control characters escaped */
} model;

/* st_net_load. A file of tensors alone, such as PyTorch's, is an error that says how to use it. */
st_net *model_load(const char *path, st_net_load_options o);

/* -1 with an error, also for an unknown loss in the file. */
int model_open(model *m, const char *path, ptrdiff_t batch);
void model_close(model *m);

#endif
