/* source.c: what zlib reads, and what it says when it cannot. */
#include "nn/data/source.h"
#include "nn/files/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_STEP = 1 << 30 /* bytes of one gzread, which counts in int */ };

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
    return s->file ? 0 : error_set("%s: %s", s->name, strerror(errno ? errno : ENOMEM));
}

int source_rewind(source s)
{
    return gzrewind(s.file) ? error_set("%s: cannot be read twice: %s", s.name, strerror(errno)) : 0;
}

void source_close(source s)
{
    gzclose(s.file);
}

/* What zlib says, without the path that it puts before it. */
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

/* Of a read that came short: 0 at the end, be it of a stream, too early. */
static int check_read(source s, int why)
{
    int code;
    const char *says = zlib_says(s, &code);
    if (code == Z_OK || code == Z_BUF_ERROR) return 0;
    if (code == Z_MEM_ERROR) return error_set("%s: no memory to read it", s.name);
    if (code == Z_ERRNO) return error_set("%s: %s", s.name, strerror(why));
    return error_set("%s: corrupt gzip stream: %s", s.name, says);
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
    return source_whole(s) ? 0 : error_set("%s: truncated, its gzip stream ends early", s.name);
}

int source_truncated(source s, ptrdiff_t got, ptrdiff_t want, const char *what)
{
    return error_set("%s: truncated%s: %s of %s bytes of %s", s.name,
                     source_whole(s) ? "" : ", its gzip stream ends early", count_text(got).text,
                     count_text(want).text, what);
}

int source_fetch(source s, unsigned char *to, ptrdiff_t want, const char *what)
{
    ptrdiff_t got = source_read(s, to, want);
    if (got < 0) return -1;
    return got < want ? source_truncated(s, got, want, what) : 0;
}

source_part *source_next_part(source s, ptrdiff_t most)
{
    source_part *part = malloc(sizeof *part + (size_t)most);
    if (!part) {
        error_set("%s: no memory for %s bytes more", s.name, count_text(most).text);
        return NULL;
    }
    part->next = NULL;
    part->count = source_read(s, part->at, most);
    if (part->count >= 0) return part;
    free(part);
    return NULL;
}

void source_free(source_part *first)
{
    while (first) {
        source_part *next = first->next;
        free(first);
        first = next;
    }
}
