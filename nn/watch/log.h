/* log.h: a log with a line per epoch, as CSV or JSON. */
#ifndef STRIDE_NN_WATCH_LOG_H
#define STRIDE_NN_WATCH_LOG_H

#include "nn/train.h"

ST_API_BEGIN

/* Appends a line after each epoch: to FILE.csv after a line of column names, or to FILE.jsonl, a JSON object
 * per line. The fields are epoch, step, lr, loss, accuracy, validation_loss, validation_accuracy, best.
 * Numbers read back exactly; one that is not finite is an empty field, or null. Each line is flushed to disk.
 * The same seed writes the same bytes.
 *
 * A new run overwrites the file. A resumed run removes the lines of epochs that it repeats, and an incomplete
 * line; the file must be such a log. List it before the checkpoint. NULL: no log. */
st_callback st_log(const char *path);

ST_API_END

#endif
