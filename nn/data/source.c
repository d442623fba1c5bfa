/* source.c: reading through zlib, and its errors. */
#include "nn/data/source.h"
#include "nn/files/file.h"
#include "tensor/array.h"
#include "tensor/counts.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_READ = 1 << 30, /* bytes of one gzread, which counts in int */
    LEAST_ROOM = 1 << 16
};

int source_open(source *s, const char *path)
{
    errno = 0;
    *s = (source){ .file = gzopen(path, "rb"), .path = path, .name = file_name(path) };
    return s->file ? 0 : st_error_set("%s: %s", s->name, strerror(errno ? errno : ENOMEM));
}

void source_close(source s)
{
    gzclose(s.file);
}

/* zlib's message begins with the path. */
int source_check(source s)
{
    int code, reason = errno;
    const char *message = gzerror(s.file, &code);
    const size_t length = strlen(s.path);
    if (strncmp(message, s.path, length) == 0 && strncmp(message + length, ": ", 2) == 0)
        message += length + 2;
    switch (code) {
    case Z_OK: return 0;
    case Z_BUF_ERROR: return st_error_set("%s: truncated: its gzip stream ends early", s.name);
    case Z_MEM_ERROR: return st_error_set("%s: no memory to read it", s.name);
    case Z_ERRNO: return st_error_set("%s: %s", s.name, strerror(reason));
    default: return st_error_set("%s: corrupt gzip stream: %s", s.name, message);
    }
}

ptrdiff_t source_read(source s, unsigned char *to, ptrdiff_t most)
{
    ptrdiff_t got = 0;
    for (int n = 1; got < most && n > 0; got += n > 0 ? n : 0)
        n = gzread(s.file, to + got, (unsigned)smallest(most - got, MOST_READ));
    return got == most || source_check(s) == 0 ? got : -1;
}

int source_fetch(source s, unsigned char *to, ptrdiff_t want, const char *what)
{
    ptrdiff_t got = source_read(s, to, want);
    if (got < 0 || got == want) return got < 0 ? -1 : 0;
    return st_error_set("%s: truncated: %td of %td bytes of %s", s.name, got, want, what);
}

int source_append(source s, source_bytes *to, ptrdiff_t most)
{
    const ptrdiff_t end = most < PTRDIFF_MAX - to->count ? to->count + most : PTRDIFF_MAX;
    ptrdiff_t got = 1;
    while (got > 0 && to->count < end) {
        if (to->count == to->room) {
            ptrdiff_t room = smallest(end, largest(LEAST_ROOM, 2 * to->room));
            unsigned char *grown = array_grow(s.name, to->at, room, 1);
            if (!grown) return -1;
            to->at = grown;
            to->room = room;
        }
        got = source_read(s, to->at + to->count, to->room - to->count);
        to->count += got;
    }
    return got < 0 ? -1 : 0;
}
