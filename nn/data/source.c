/* source.c: files through zlib, and its errors. */
#include "nn/data/source.h"
#include "nn/files/file.h"
#include "tensor/array.h"
#include "tensor/counts.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    LONGEST_STEP = 1 << 30, /* bytes of one gzread, which counts in int */
    LEAST_ROOM = 1 << 16
};

grouped count_text(ptrdiff_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%td", n);
    grouped out = { "" };
    for (int i = 0, at = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) out.text[at++] = ',';
        out.text[at++] = digits[i];
    }
    return out;
}

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

/* zlib's message, without the path before it. */
static const char *zlib_says(source s, int *code)
{
    const char *text = gzerror(s.file, code);
    size_t length = strlen(s.path);
    return strncmp(text, s.path, length) || strncmp(text + length, ": ", 2) ? text : text + length + 2;
}

bool source_whole(source s)
{
    int code;
    zlib_says(s, &code);
    return code != Z_BUF_ERROR;
}

/* After a short read: 0 at the end, also that of a gzip stream cut short. */
static int check_read(source s, int reason)
{
    int code;
    const char *says = zlib_says(s, &code);
    if (code == Z_OK || code == Z_BUF_ERROR) return 0;
    if (code == Z_MEM_ERROR) return st_error_set("%s: no memory to read it", s.name);
    if (code == Z_ERRNO) return st_error_set("%s: %s", s.name, strerror(reason));
    return st_error_set("%s: corrupt gzip stream: %s", s.name, says);
}

ptrdiff_t source_read(source s, unsigned char *to, ptrdiff_t most)
{
    ptrdiff_t got = 0;
    for (int n = 1; got < most && n > 0; got += n > 0 ? n : 0)
        n = gzread(s.file, to + got, (unsigned)(most - got < LONGEST_STEP ? most - got : LONGEST_STEP));
    return got == most || check_read(s, errno) == 0 ? got : -1;
}

int source_check_end(source s)
{
    if (check_read(s, errno)) return -1;
    return source_whole(s) ? 0 : st_error_set("%s: truncated, its gzip stream ends early", s.name);
}

int source_truncated(source s, ptrdiff_t got, ptrdiff_t want, const char *what)
{
    return st_error_set("%s: truncated%s: %s of %s bytes of %s", s.name,
                        source_whole(s) ? "" : ", its gzip stream ends early", count_text(got).text,
                        count_text(want).text, what);
}

int source_fetch(source s, unsigned char *to, ptrdiff_t want, const char *what)
{
    ptrdiff_t got = source_read(s, to, want);
    if (got < 0) return -1;
    return got < want ? source_truncated(s, got, want, what) : 0;
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
