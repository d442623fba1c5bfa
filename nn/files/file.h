/* file.h: files that replace others whole, and their names in messages. */
#ifndef STRIDE_NN_FILES_FILE_H
#define STRIDE_NN_FILES_FILE_H

#include <stdio.h>

/* The end of a path, so short that a message has room for two. */
const char *file_name(const char *path);

/* A regular file opened for reading, and its bytes; NULL with an error that names it. */
FILE *file_open(const char *path, long long *size);

/* What `write` writes (0, or -1 with errno set) becomes the file: a temporary file in the same folder is flushed to disk
 * and renamed over what `path` names; where anything fails it is removed and the old file is as it was. A link stays
 * one. -1 with an error that names the file and the reason. What a process that was killed here left behind,
 * PATH.PROCESS-ATTEMPT.tmp, is removed when the same file is written the next time. */
int file_replace(const char *path, int (*write)(FILE *to, const void *context), const void *context);

#endif
