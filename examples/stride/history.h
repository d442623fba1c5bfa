/* history.h: the epochs of a run, kept as they end, and logged.
 *
 *     history h = { .log = log };
 *     if (event == ST_ON_EPOCH) history_note(&run->report, &h);      // in a callback */
#ifndef STRIDE_EXAMPLES_STRIDE_HISTORY_H
#define STRIDE_EXAMPLES_STRIDE_HISTORY_H

#include "examples/stride/log.h"

typedef struct history {
    st_train_report *epochs;
    int count;
    epoch_log *log; /* the caller's; NULL: none */
} history;

/* False, with an error latched, where there is no memory or the log cannot be written. The context is a history. */
bool history_note(const st_train_report *r, void *context);

/* The same, without logging it: of an epoch that is logged already. */
bool history_keep(const st_train_report *r, void *context);
void history_free(history *h); /* not the log */

#endif
