/* log_lines.h: the callback that logs, called as a run calls it. */
#ifndef STRIDE_TESTS_LOG_LINES_H
#define STRIDE_TESTS_LOG_LINES_H

#include "nn/callbacks/callbacks.h"
#include "tensor/error.h"

typedef struct log_lines {
    st_callback c;
    bool resumed, began;
} log_lines;

static inline int log_tell(log_lines *l, st_event event, st_train_report r)
{
    st_run run = { .report = r };
    if (event == ST_ON_EPOCH_BEGIN) run.report.step = l->resumed;
    l->c.call(&l->c, &run, event);
    return st_error() ? -1 : 0;
}

/* A log that a run starts, or continues. -1 with an error latched, here and below. */
static inline int log_begin(log_lines *l, const char *path, bool resumed)
{
    *l = (log_lines){ st_log(path), resumed, false };
    return log_tell(l, ST_ON_BEGIN, (st_train_report){ 0 });
}

static inline int log_report(log_lines *l, const st_train_report *r)
{
    if (!l->began) log_tell(l, ST_ON_EPOCH_BEGIN, *r);
    l->began = true;
    return log_tell(l, ST_ON_EPOCH, *r);
}

static inline int log_end(log_lines *l)
{
    return log_tell(l, ST_ON_END, (st_train_report){ 0 });
}

#endif
