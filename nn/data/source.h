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
int source_rewind(source s);
void source_close(source s);

/* Reads `most` bytes, or fewer at the file's end: how many; -1 where the file cannot be read. */
ptrdiff_t source_read(source s, unsigned char *to, ptrdiff_t most);

/* The next byte, or -1: the end, or an error, which source_check_end tells apart. */
static inline int source_next(source s)
{
    return gzgetc(s.file);
}

/* After the end was met: an error where it came too early, or was none. */
int source_check_end(source s);

/* Whether a gzip stream's end was not missing; of a file that was read to its end. */
bool source_whole(source s);

/* `want` bytes, or an error: "truncated: 3 of 4 bytes of ...". */
int source_fetch(source s, unsigned char *to, ptrdiff_t want, const char *what);
int source_truncated(source s, ptrdiff_t got, ptrdiff_t want, const char *what);

/* What is read of a file that is not yet known to be what it says: memory grows as data arrives, without what growing
 * one block of memory takes: the old one and the new one at once. */
typedef struct source_part {
    struct source_part *next;
    ptrdiff_t count; /* bytes */
    unsigned char at[];
} source_part;

/* A part of `most` bytes, or fewer at the file's end; NULL with an error. */
source_part *source_next_part(source s, ptrdiff_t most);
void source_free(source_part *first); /* and all after it; NULL is allowed */

/* "7,840,000", for messages. */
typedef struct grouped {
    char text[32];
} grouped;
grouped count_text(ptrdiff_t n);

#endif
