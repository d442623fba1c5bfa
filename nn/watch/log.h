/* log.h: a line for each epoch, to be read by programs. */
#ifndef STRIDE_NN_WATCH_LOG_H
#define STRIDE_NN_WATCH_LOG_H

#include "nn/train.h"

ST_API_BEGIN

/* Appends a line after each epoch: to FILE.csv under a line of names, or to FILE.jsonl, an object a line: epoch, step, lr,
 * loss, accuracy, validation_loss, validation_accuracy, best. Numbers read back exactly; one that is not finite is an
 * empty field, or null. Each line is on the disk when training goes on. The same seed writes the same bytes.
 *
 * A run that begins anew overwrites the file. One that is resumed drops the lines of the epochs that it runs again, and
 * one that was cut off; what is there must be a log of this kind. List it before the checkpoint. NULL: no log. */
st_callback st_log(const char *path);

ST_API_END

#endif
