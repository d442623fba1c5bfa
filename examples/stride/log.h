/* log.h: the log of a run: a line for each epoch, to be read by programs.
 *
 * The path's ending says what it is: .csv has a line of names first, .jsonl an object a line. Numbers are
 * written so that they read back exactly; what is no number is an empty field, or null. Each line is on the
 * disk when log_epoch returns. A run of the same seed writes the same bytes: how long an epoch took is not
 * among them (report.h has it). */
#ifndef STRIDE_EXAMPLES_STRIDE_LOG_H
#define STRIDE_EXAMPLES_STRIDE_LOG_H

#include "nn/train.h"

#include <jansson.h>

typedef struct epoch_log epoch_log;

/* Writes a file anew. NULL, with an error that names the path: another ending, or whatever the system says. */
epoch_log *log_open(const char *path);

/* For a run that goes on (nn/train.h: resume). What is there stays up to the first epoch that is logged: the lines of that
 * epoch and of later ones, and one that was cut off, are dropped then. Where there is no file, as log_open. NULL also
 * where what is there is not a log of this kind; it is as it was. */
epoch_log *log_resume(const char *path);

/* Tells `note` what a log holds of the epochs before one; how long they took is not known, NaN. 0, or -1 with an error:
 * where the file cannot be read, or `note` says false. */
int log_recall(const char *path, int before, bool (*note)(const st_train_report *r, void *context),
               void *context);

/* 0, or -1 with an error that names the path. */
int log_epoch(epoch_log *l, const st_train_report *r);
int log_close(epoch_log *l); /* NULL is allowed */

/* 0, or -1 with log_open's error, nothing opened: for the command line. */
int log_check(const char *path);

/* The object of a line, the caller's; NULL with an error. */
json_t *log_json(const st_train_report *r);

#endif
