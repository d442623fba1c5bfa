/* file.h: opening files for reading, and file names in messages. */
#ifndef STRIDE_NN_FILES_FILE_H
#define STRIDE_NN_FILES_FILE_H

#include "nn/files/replace.h"

#include <stdio.h>

/* The end of a path, short enough for a message with two of them. */
const char *file_name(const char *path);

/* Untrusted text for a message: printable ASCII, "?" for other bytes, "..." if cut off. */
typedef struct shown {
    char text[80];
} shown;
shown show_text(const char *text);
shown show_bytes(const char *at, size_t size);

/* Opens a regular file for reading and gives its size; NULL with an error that names it. */
FILE *file_open(const char *path, long long *size);

#endif
