/* log.h: logs of runs (nn/watch/log.h), read back. */
#ifndef STRIDE_EXAMPLES_STRIDE_LOG_H
#define STRIDE_EXAMPLES_STRIDE_LOG_H

#include "nn/train.h"

/* 0, or -1 with an error: the path is not a log's, which ends in .csv or .jsonl. */
int log_check(const char *path);

/* Epochs of a run, kept. */
typedef struct history {
    st_train_report *epochs;
    int count;
} history;

/* The context is a history. False, with an error latched, if there is no memory. */
bool history_keep(const st_train_report *r, void *context);
void history_free(history *h);

/* Adds the epochs before `before` that a log holds; their `seconds` is NaN. 0, or -1 with an error. */
int log_recall(const char *path, int before, history *to);

#endif
