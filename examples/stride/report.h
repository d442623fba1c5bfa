/* report.h: a run as one page that needs nothing else (page.h), and the logs of runs.
 *
 * Curves of loss, accuracy and learning rate; with classes the confusion matrix and the most confident
 * mistakes on the validation set; the weights of the first convolution; the layers with their parameters
 * and times. */
#ifndef STRIDE_EXAMPLES_STRIDE_REPORT_H
#define STRIDE_EXAMPLES_STRIDE_REPORT_H

#include "examples/stride/layer_times.h"
#include "nn/train.h"

#include <jansson.h>

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

/* ---- logs (nn/callbacks/callbacks.h) ---------------------------------------------------------------- */

/* 0, or -1 with an error: the path does not end in .csv or .jsonl. */
int log_check(const char *path);

/* Epochs of a run. */
typedef struct history {
    st_train_report *epochs;
    int count;
} history;

/* Appends an epoch to a history, the context. False with an error: no memory. */
bool history_keep(const st_train_report *r, void *context);
void history_free(history *h);

/* Appends a log's epochs before `before`; their `seconds` is NaN. 0, or -1 with an error: the file cannot be
 * read, is no log, or has more than a million lines. */
int log_recall(const char *path, int before, history *to);

/* A run with at least one epoch as JSON for a page; `best` is an index, -1: none. */
json_t *report_run(const char *name, const st_train_report *epochs, int count, int best);

#endif
