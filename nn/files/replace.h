/* replace.h: atomic replacement of files. */
#ifndef STRIDE_NN_FILES_REPLACE_H
#define STRIDE_NN_FILES_REPLACE_H

#include "tensor/api.h"

#include <stdbool.h>
#include <stdio.h>

ST_API_BEGIN

/* Writes the contents of a file: 0, or -1 with errno set. */
typedef int st_file_writer(FILE *to, const void *context);

/* Replaces the file by what `write` writes: a temporary file in the same folder is filled, flushed to disk
 * and renamed over the old file, whose permissions it gets. A symbolic link stays one: its target is
 * replaced, and a link that leads nowhere is an error. On failure the temporary file is removed, the old file
 * is unchanged, and -1 is returned with an error that names the file and the reason. The path may only name a
 * regular file, and not this process's standard input or output. Nobody waits: of several writers of one file
 * the last one's is kept.
 *
 * A killed process leaves its temporary file, PATH.PID-N.stride.tmp, which the next call for the same path
 * removes. Files whose writers are alive, and those of other names, stay. */
int st_file_replace(const char *path, st_file_writer *write, const void *context);

/* Tests if st_file_replace can write the file: does the same, but removes the temporary file instead of
 * renaming it. `write` may be NULL: nothing is written. */
int st_file_try(const char *path, st_file_writer *write, const void *context);

/* True if `name` is that of a temporary file of `path`, which may be removed, or of the lock that a run with
 * a checkpoint or a log has on it, PATH.stride.lock. Only the texts are compared. */
bool st_file_is_temporary(const char *name, const char *path);

ST_API_END

#endif
