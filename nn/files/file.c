/* file.c: names of files and texts of files in messages. */
#include "nn/files/file.h"

#include <string.h>

enum { LONGEST_NAME = 150 }; /* bytes of a path in a message, which may have two */

const char *file_name(const char *path)
{
    size_t length = strlen(path);
    return length > LONGEST_NAME ? path + length - LONGEST_NAME : path;
}

shown show_bytes(const char *at, size_t size)
{
    shown s = { "" };
    const size_t room = sizeof s.text - 1;
    for (size_t i = 0; i < size && i < room; i++) s.text[i] = at[i] >= ' ' && at[i] <= '~' ? at[i] : '?';
    if (size > room) memcpy(s.text + room - 3, "...", 3);
    return s;
}

shown show_text(const char *text)
{
    return show_bytes(text, strlen(text));
}
