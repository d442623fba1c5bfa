/* each_epoch.h: a callback of a function that sees the report of each epoch, and says whether the run goes
 * on. */
#ifndef STRIDE_TESTS_EACH_EPOCH_H
#define STRIDE_TESTS_EACH_EPOCH_H

#include "nn/callbacks/callbacks.h"

#include <string.h>

typedef bool epoch_function(const st_train_report *r, void *context);

static inline void call_each_epoch(st_callback *self, st_run *run, st_event event)
{
    epoch_function *f;
    memcpy(&f, &self->options, sizeof f);
    if (event == ST_ON_EPOCH && !st_error() && !f(&run->report, self->context)) run->stop = true;
}

static inline st_callback each_epoch(epoch_function *f, void *context)
{
    st_callback c = { "each epoch", call_each_epoch, context };
    memcpy(&c.options, &f, sizeof f);
    return c;
}

static inline st_callback patient(int epochs)
{
    return st_early_stopping(.patience = epochs);
}

#endif
