/* history.h: the epochs of a run, kept as they end.
 *
 *     if (event == ST_ON_EPOCH) history_keep(&run->report, &h);      // in a callback */
#ifndef STRIDE_EXAMPLES_STRIDE_HISTORY_H
#define STRIDE_EXAMPLES_STRIDE_HISTORY_H

#include "examples/stride/log.h"

typedef struct history {
    st_train_report *epochs;
    int count;
} history;

/* The context is a history. False, with an error latched, where there is no memory. */
bool history_keep(const st_train_report *r, void *context);
void history_free(history *h);

#endif
