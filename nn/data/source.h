/* source.h: a file read from its beginning, plain or gzipped. */
#ifndef STRIDE_NN_DATA_SOURCE_H
#define STRIDE_NN_DATA_SOURCE_H

#include "tensor/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <zlib.h>

typedef struct source {
    gzFile file;
    const char *path, *name; /* borrowed; the name is the end of the path, for messages */
} source;

/* Errors name the file. What is open is to be closed. */
int source_open(source *s, const char *path);
void source_close(source s);

/* Reads `most` bytes, or fewer at the file's end: how many; -1 where the file cannot be read. */
ptrdiff_t source_read(source s, unsigned char *to, ptrdiff_t most);

/* The next byte, or -1: the end, or an error, which source_check_end tells apart. */
static inline int source_next(source s)
{
    return gzgetc(s.file);
}

/* After the end was met: an error where the file could not be read, or a gzip stream ends early. */
int source_check_end(source s);

/* After the whole file was read: false if its gzip stream ends early. */
bool source_whole(source s);

/* `want` bytes, or an error: "truncated: 3 of 4 bytes of ...". */
int source_fetch(source s, unsigned char *to, ptrdiff_t want, const char *what);
int source_truncated(source s, ptrdiff_t got, ptrdiff_t want, const char *what);

/* The bytes read from a file: memory grows with the data, not with what a header promises. */
typedef struct source_bytes {
    unsigned char *at; /* to be freed */
    ptrdiff_t count, room;
} source_bytes;

/* Appends what is left of the file, at most `most` bytes. */
int source_append(source s, source_bytes *to, ptrdiff_t most);

/* "7,840,000", for messages. */
typedef struct grouped {
    char text[32];
} grouped;
grouped count_text(ptrdiff_t n);

#endif
