/* report.h: a run as one self-contained page of HTML without scripts.
 *
 * Curves of loss, accuracy and learning rate; with classes the confusion matrix and the most confident
 * mistakes on the validation set; the weights of the first convolution; the layers with their parameters
 * and times. */
#ifndef STRIDE_EXAMPLES_STRIDE_REPORT_H
#define STRIDE_EXAMPLES_STRIDE_REPORT_H

#include "examples/stride/layer_times.h"
#include "nn/train.h"

/* A line of the page's head: { "data", "MNIST in data/mnist" }, options, seed, version, threads, …. */
typedef struct report_fact {
    const char *name, *text;
} report_fact;

typedef struct report {
    const char *title;        /* NULL: "Training run" */
    const char *network;      /* its text; NULL: not shown */
    const report_fact *facts; /* ended by a name of NULL; NULL: none */
    const st_train_report *epochs;
    int count;   /* epochs; 0: no curves */
    st_net *net; /* built; NULL: no layers, no filters, no mistakes */
    st_loss loss;
    const st_dataset *validation; /* NULL: no confusion matrix, no mistakes */
    const char *const *classes;   /* a name for each output; NULL: their numbers */
    const layer_times *times;     /* NULL: layers without times */
    const char *(*path_of)(void *context,
                           ptrdiff_t sample); /* the file of a validation sample, or NULL; NULL: none */
    void *context;
} report;

/* Replaces the file atomically. 0, or -1 with an error. */
int report_write(const char *path, const report *r);

#endif
