/* log.h: logs of runs (nn/watch/log.h), read back. */
#ifndef STRIDE_EXAMPLES_STRIDE_LOG_H
#define STRIDE_EXAMPLES_STRIDE_LOG_H

#include "nn/train.h"

#include <jansson.h>

/* 0, or -1 with an error: the path is not a log's, which ends in .csv or .jsonl. */
int log_check(const char *path);

/* Calls `note` for each epoch before `before` in a log; `seconds` is NaN. 0, or -1 with an error: the file cannot be
 * read, or `note` returned false. */
int log_recall(const char *path, int before, bool (*note)(const st_train_report *r, void *context),
               void *context);

/* An epoch as an object with the names of a log's columns, the caller's; NULL with an error. */
json_t *log_json(const st_train_report *r);

#endif
