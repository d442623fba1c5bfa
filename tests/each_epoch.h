/* each_epoch.h: a callback of a function that sees the report of each epoch, and says whether the run goes on. */
#ifndef STRIDE_TESTS_EACH_EPOCH_H
#define STRIDE_TESTS_EACH_EPOCH_H

#include "nn/callbacks.h"

#include <string.h>

typedef bool epoch_function(const train_report *r, void *context);

static inline void call_each_epoch(callback *self, train_state *run, train_event event)
{
    epoch_function *f;
    memcpy(&f, &self->options, sizeof f);
    if (event == ON_EPOCH && !error_text() && !f(&run->report, self->context)) run->stop = true;
}

static inline callback each_epoch(epoch_function *f, void *context)
{
    callback c = { "each epoch", call_each_epoch, context };
    memcpy(&c.options, &f, sizeof f);
    return c;
}

static inline callback patient(int epochs)
{
    return callback_early_stopping((early_stopping){ .patience = epochs });
}

#endif
