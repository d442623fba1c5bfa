/* log.h: reads logs of runs (nn/callbacks/callbacks.h). */
#ifndef STRIDE_EXAMPLES_STRIDE_LOG_H
#define STRIDE_EXAMPLES_STRIDE_LOG_H

#include "nn/train.h"

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

/* Appends a log's epochs before `before`; their `seconds` is NaN. 0, or -1 with an error. */
int log_recall(const char *path, int before, history *to);

#endif
