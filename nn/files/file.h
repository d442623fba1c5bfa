/* file.h: opening files for reading, holding files, texts in messages, and the C locale. */
#ifndef STRIDE_NN_FILES_FILE_H
#define STRIDE_NN_FILES_FILE_H

#include "nn/files/replace.h"

#include <stdio.h>

/* The end of a path, short enough for a message with two of them; two quotation marks for an empty one. */
const char *file_name(const char *path);

/* Untrusted text for a message: visible characters of UTF-8, "?" for other bytes, "..." if cut off. */
typedef struct message_text {
    char text[160];
} message_text;
message_text show_text(const char *text);
message_text show_bytes(const char *at, size_t size);

/* Opens a regular file for reading and gives its size; NULL with an error that names it. */
FILE *file_open(const char *path, long long *size);

/* Makes this run the only one that writes the file, until file_release. NULL at once with an error that names
 * the process if another run has the file. */
typedef struct file_lock file_lock;
file_lock *file_hold(const char *path);
void file_release(file_lock *l); /* NULL is allowed */

/* Sets this thread's locale to C, so that numbers have a decimal point; leave restores the one that enter
 * returned. */
void *c_locale_enter(void);
void c_locale_leave(void *before);

#endif
