/* source.h: a file read from its beginning, plain or gzipped. */
#ifndef STRIDE_NN_DATA_SOURCE_H
#define STRIDE_NN_DATA_SOURCE_H

#include "tensor/error.h"

#include <stddef.h>
#include <zlib.h>

typedef struct source {
    gzFile file;
    const char *path, *name; /* borrowed; name: the end of the path, for messages */
} source;

/* All functions report errors that name the file; a truncated or corrupt gzip stream is an error. */
int source_open(source *s, const char *path);
void source_close(source s);

/* Reads up to `most` bytes, fewer only at the file's end. Returns their number, or -1 with an error. */
ptrdiff_t source_read(source s, unsigned char *to, ptrdiff_t most);

/* The next byte; -1 at the end or after an error, which source_check reports. */
static inline int source_next(source s)
{
    return gzgetc(s.file);
}

int source_check(source s);

/* Reads `want` bytes, or fails: "truncated: 3 of 4 bytes of ...". */
int source_fetch(source s, unsigned char *to, ptrdiff_t want, const char *what);

/* The bytes read from a file: memory grows with the data, not with what a header promises. */
typedef struct source_bytes {
    unsigned char *at; /* to be freed */
    ptrdiff_t count, room;
} source_bytes;

/* Appends the rest of the file, at most `most` bytes. */
int source_append(source s, source_bytes *to, ptrdiff_t most);

#endif
