/* report.h: a run as one page of HTML, with all it shows inside: it needs no network and no script.
 *
 * Curves of loss, accuracy and learning rate; on a validation set with classes, which of them are taken for
 * which, and the most confident mistakes; the weights of the first convolution; the layers, with what each
 * costs. */
#ifndef STRIDE_EXAMPLES_STRIDE_REPORT_H
#define STRIDE_EXAMPLES_STRIDE_REPORT_H

#include "examples/stride/layer_times.h"
#include "nn/train.h"

/* A line of the page's head: { "data", "MNIST in data/mnist" }, options, seed, version, threads, …. */
typedef struct report_fact {
    const char *name, *text;
} report_fact;

typedef struct report {
    const char *title;             /* NULL: "Training run" */
    const char *network;           /* as it was asked for, in lines or in one; NULL: not shown */
    const report_fact *facts;      /* ended by a name of NULL; NULL: none */
    const st_train_report *epochs; /* history.h */
    int count;                     /* of them; 0: no curves */
    st_net *net;                   /* built; NULL: no layers, no filters, no mistakes */
    st_loss loss;                  /* what it was trained by */
    const st_dataset *validation;  /* what the net is tried on; NULL: nothing */
    const char *const *classes;    /* a name for each output; NULL: their numbers */
    const layer_times *times;      /* NULL: layers without times */
    const char *(*path_of)(void *context,
                           ptrdiff_t sample); /* the file of a validation sample, or NULL; NULL: none */
    void *context;
} report;

/* Writes a temporary file beside `path` and renames it over. 0, or -1 with an error. */
int report_write(const char *path, const report *r);

#endif
