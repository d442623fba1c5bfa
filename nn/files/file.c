/* file.c: opening files for reading; names of files and texts of files in messages. */
#define _XOPEN_SOURCE 700
#include "nn/files/file.h"
#include "tensor/error.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

enum { LONGEST_NAME = 150 }; /* bytes of a path in a message, which may have two */

const char *file_name(const char *path)
{
    size_t length = strlen(path);
    if (length == 0) return "\"\"";
    return length > LONGEST_NAME ? path + length - LONGEST_NAME : path;
}

FILE *file_open(const char *path, long long *size)
{
    struct stat status;
    const bool found = stat(path, &status) == 0, regular = found && (status.st_mode & S_IFMT) == S_IFREG;
    FILE *stream = regular ? fopen(path, "rb") : NULL;
    if (found && !regular) st_error_set("%s: not a regular file", file_name(path));
    else if (!stream) st_error_set("%s: %s", file_name(path), strerror(errno));
    else *size = status.st_size;
    return stream;
}

/* Controls, and characters that are invisible or turn the direction of others. */
static bool is_hidden(unsigned code)
{
    static const unsigned ranges[][2] = { { 0, 0x1f },        { 0x7f, 0x9f },     { 0x61c, 0x61c },
                                          { 0x200b, 0x200f }, { 0x2028, 0x202f }, { 0x2060, 0x206f },
                                          { 0xd800, 0xdfff }, { 0xfeff, 0xfeff }, { 0xe0000, 0xe0fff },
                                          { 0x110000, ~0u } };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1]) return true;
    return false;
}

/* Bytes of the visible UTF-8 character at the beginning (RFC 3629); 0 for anything else. */
static size_t visible(const char *at, size_t size)
{
    const unsigned char *s = (const unsigned char *)at;
    static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const size_t length = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    unsigned code = length == 1 ? s[0] : s[0] & 0x7fu >> length;
    if (length > size || (length > 1 && s[0] < 0xc0) || s[0] > 0xf7) return 0;
    for (size_t i = 1; i < length; code = code << 6 | (s[i++] & 0x3f))
        if ((s[i] & 0xc0) != 0x80) return 0;
    return code < least[length] || is_hidden(code) ? 0 : length;
}

message_text show_bytes(const char *at, size_t size)
{
    message_text s = { "" };
    const size_t room = sizeof s.text - 4; /* and the dots */
    size_t from = 0, to = 0;
    while (from < size) {
        const size_t length = visible(at + from, size - from), step = length > 0 ? length : 1;
        if (to + step > room) break;
        if (length > 0) memcpy(s.text + to, at + from, step);
        else s.text[to] = '?';
        from += step, to += step;
    }
    if (from < size) memcpy(s.text + to, "...", 4);
    return s;
}

message_text show_text(const char *text)
{
    return show_bytes(text, strlen(text));
}
