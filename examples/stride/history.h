/* history.h: the epochs of a run, kept as they end, and logged.
 *
 *     history h = { .log = log };
 *     train_run(n, d, (train){ ..., .callback = history_note, .context = &h }, &result); */
#ifndef STRIDE_EXAMPLES_STRIDE_HISTORY_H
#define STRIDE_EXAMPLES_STRIDE_HISTORY_H

#include "examples/stride/log.h"

typedef struct history {
    train_report *epochs;
    int count;
    epoch_log *log; /* the caller's; NULL: none */
} history;

/* As train.callback, with a history as context: false, with an error latched, where there is no memory or the log
 * cannot be written. */
bool history_note(const train_report *r, void *context);

/* The same, without logging it: of an epoch that is logged already. */
bool history_keep(const train_report *r, void *context);
void history_free(history *h); /* not the log */

#endif
