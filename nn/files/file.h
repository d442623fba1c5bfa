/* file.h: files that are replaced as a whole, and their names in messages. */
#ifndef STRIDE_NN_FILES_FILE_H
#define STRIDE_NN_FILES_FILE_H

#include <stdio.h>

/* The end of a path, short enough for a message with two of them. */
const char *file_name(const char *path);

/* Foreign text for a message: printable ASCII, "?" for any other byte, "..." where it is cut. */
typedef struct shown {
    char text[80];
} shown;
shown show_text(const char *text);
shown show_bytes(const char *at, size_t size);

/* A regular file opened for reading, and its bytes; NULL with an error that names it. */
FILE *file_open(const char *path, long long *size);

/* Writes the contents of a file: 0, or -1 with errno set. */
typedef int file_writer(FILE *to, const void *context);

/* Replaces the file by what `write` writes: a temporary file in the same folder is filled, flushed to disk and renamed
 * over the old file, whose permissions it has. A symbolic link stays one: the file that it names is replaced or
 * made. Where anything fails the temporary file is removed and the old file is unchanged: -1 with an error that names
 * the file and the reason. A temporary file PATH.PROCESS-ATTEMPT.tmp that a killed process left is removed when the
 * same file is written again. Anything but a regular file is refused. */
int file_replace(const char *path, file_writer *write, const void *context);

/* Fails where file_replace would: does all that it does but the renaming, and removes the temporary file. */
int file_try(const char *path, file_writer *write, const void *context);

#endif
