/* replace.h: atomic replacement of files. */
#ifndef STRIDE_NN_FILES_REPLACE_H
#define STRIDE_NN_FILES_REPLACE_H

#include "tensor/api.h"

#include <stdio.h>

ST_API_BEGIN

/* Writes the contents of a file: 0, or -1 with errno set. */
typedef int st_file_writer(FILE *to, const void *context);

/* Replaces the file by what `write` writes: a temporary file in the same folder is filled, flushed to disk and renamed
 * over the old file, whose permissions it has. A symbolic link stays one: the file that it names is replaced or
 * made. Where anything fails the temporary file is removed and the old file is unchanged: -1 with an error that names
 * the file and the reason. Anything but a regular file is refused.
 *
 * A killed process leaves at most one temporary file per path, PATH.PROCESS-ATTEMPT.tmp, which the next call for the
 * same path removes. */
int st_file_replace(const char *path, st_file_writer *write, const void *context);

/* Fails where st_file_replace would: does all that it does but the renaming, and removes the temporary file. */
int st_file_try(const char *path, st_file_writer *write, const void *context);

ST_API_END

#endif
