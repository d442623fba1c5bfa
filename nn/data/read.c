/* read.c: the bytes of a file, plain or gzipped. */
#include "nn/data/data_impl.h"
#include "nn/files/file.h"
#include "tensor/array.h"
#include "tensor/counts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum {
    LEAST_ROOM = 1 << 16,
    MOST_READ = 1 << 30 /* bytes of one gzread, which counts in int */
};

/* A small gzip stream may unpack to any number of bytes. */
static const ptrdiff_t MOST_BYTES = PTRDIFF_MAX / 2 < UINT32_MAX ? PTRDIFF_MAX / 2 : UINT32_MAX;

/* Reports zlib's error, whose message names the path. */
static int check(gzFile file, const char *path)
{
    int code, reason = errno;
    const char *message = gzerror(file, &code), *name = file_name(path), *colon = strrchr(message, ':');
    switch (code) {
    case Z_OK: return 0;
    case Z_BUF_ERROR: return st_error_set("%s: truncated: its gzip stream ends early", name);
    case Z_MEM_ERROR: return st_error_set("%s: no memory to read it", name);
    case Z_ERRNO: return st_error_set("%s: %s", name, strerror(reason));
    default: return st_error_set("%s: corrupt gzip stream%s", name, colon ? colon : "");
    }
}

/* Zero bytes are no text: a file without an end often begins with one. */
static int check_text(const char *bytes, ptrdiff_t from, ptrdiff_t size, const char *path)
{
    const char *zero = memchr(bytes + from, 0, (size_t)(size - from));
    ptrdiff_t line = 1;
    for (const char *c = bytes; zero && c < zero; c++) line += *c == '\n';
    return zero ? st_error_set("%s: line %td: a zero byte, expected text in UTF-8", file_name(path), line)
                : 0;
}

/* The size of a plain file is known. */
static bool is_too_large(gzFile file, const char *path)
{
    struct stat status;
    return gzdirect(file) && stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_size >= MOST_BYTES;
}

static char *read_all(gzFile file, const char *path, bool text, ptrdiff_t *size)
{
    char *bytes = NULL;
    ptrdiff_t room = 0;
    *size = 0;
    for (int got = 1; got > 0; *size += got) {
        if (*size + 1 >= room) { /* a byte more for the zero */
            const bool full = room == MOST_BYTES || (room > 0 && is_too_large(file, path));
            room = smallest(largest(LEAST_ROOM, 2 * room), MOST_BYTES);
            char *grown = full ? NULL : array_grow(file_name(path), bytes, room, 1);
            if (full) st_error_set("%s: more than %td bytes", file_name(path), MOST_BYTES - 1);
            if (!grown) free(bytes);
            if (!grown) return NULL;
            bytes = grown;
        }
        got = (int)largest(0, gzread(file, bytes + *size, (unsigned)smallest(room - *size - 1, MOST_READ)));
        if (text && check_text(bytes, *size, *size + got, path)) {
            free(bytes);
            return NULL;
        }
    }
    bytes[*size] = '\0';
    if (check(file, path) == 0) return bytes;
    free(bytes);
    return NULL;
}

static char *read_file(const char *who, const char *path, bool text, ptrdiff_t *size)
{
    if (!path) st_error_set("%s: the path of a file is NULL", who);
    errno = 0;
    gzFile file = path ? gzopen(path, "rb") : NULL;
    if (path && !file) st_error_set("%s: %s", file_name(path), strerror(errno ? errno : ENOMEM));
    char *bytes = file ? read_all(file, path, text, size) : NULL;
    if (file) gzclose(file);
    return bytes;
}

char *data_read(const char *who, const char *path, ptrdiff_t *size)
{
    return read_file(who, path, false, size);
}

char *data_read_text(const char *who, const char *path, ptrdiff_t *size)
{
    return read_file(who, path, true, size);
}
