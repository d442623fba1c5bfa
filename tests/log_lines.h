/* log_lines.h: the callback that logs, called as a run calls it. */
#ifndef STRIDE_TESTS_LOG_LINES_H
#define STRIDE_TESTS_LOG_LINES_H

#include "nn/callbacks/callbacks.h"
#include "tensor/error.h"

typedef struct log_lines {
    st_callback c;
    st_run run;
    bool began;
} log_lines;

/* A log that a run starts, or continues. -1 with an error latched, here and below. */
static inline int log_begin(log_lines *l, const char *path, bool resumed)
{
    *l = (log_lines){ .c = st_log(path), .run = { .step = resumed } };
    l->c.call(&l->c, &l->run, ST_ON_BEGIN);
    return st_error() ? -1 : 0;
}

static inline int log_report(log_lines *l, const st_train_report *r)
{
    l->run.report = *r;
    l->run.epoch = r->epoch;
    if (!l->began) l->c.call(&l->c, &l->run, ST_ON_EPOCH_BEGIN);
    l->began = true;
    l->c.call(&l->c, &l->run, ST_ON_EPOCH);
    return st_error() ? -1 : 0;
}

static inline int log_end(log_lines *l)
{
    l->c.call(&l->c, &l->run, ST_ON_END);
    return st_error() ? -1 : 0;
}

#endif
