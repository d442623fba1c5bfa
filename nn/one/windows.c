/* windows.c: replacing files on Windows, for the one file; nn/files/replace.c is for POSIX systems.
 *
 * A file is written under another name and then takes the old one's place at once. Nobody else is kept
 * from writing it: file_hold holds nothing. */
#include "nn/files/file.h"
#include "tensor/error.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ENDING ".stride.tmp"

__declspec(dllimport) int __stdcall MoveFileExA(const char *from, const char *to, unsigned long flags);
enum { REPLACE_EXISTING = 1, WRITE_THROUGH = 8 };

void *c_locale_enter(void)
{
    _configthreadlocale(_ENABLE_PER_THREAD_LOCALE);
    char *before = _strdup(setlocale(LC_ALL, NULL));
    setlocale(LC_ALL, "C");
    return before;
}

void c_locale_leave(void *before)
{
    if (before) setlocale(LC_ALL, before);
    free(before);
}

file_lock *file_hold(const char *path)
{
    (void)path;
    static char held;
    return (file_lock *)&held;
}

void file_release(file_lock *l)
{
    (void)l;
}

bool st_file_is_temporary(const char *name, const char *path)
{
    const size_t length = name && path ? strlen(path) : 0;
    return length > 0 && strncmp(name, path, length) == 0 && strcmp(name + length, ENDING) == 0;
}

static int run(const char *who, const char *path, st_file_writer *write, const void *context, bool only_try)
{
    if (!path || (!write && !only_try))
        return st_error_set("%s: the %s is NULL", who, path ? "function" : "path");
    char *name = malloc(strlen(path) + sizeof ENDING);
    if (!name) return st_error_set("%s: no memory", path);
    strcat(strcpy(name, path), ENDING);
    errno = 0;
    FILE *to = fopen(name, "wb");
    int status = to && write ? write(to, context) : to ? 0 : -1;
    if (to && fclose(to)) status = -1;
    const int reason = errno;
    if (status == 0 && !only_try) status = MoveFileExA(name, path, REPLACE_EXISTING | WRITE_THROUGH) ? 0 : -1;
    if (to && (status || only_try)) remove(name);
    free(name);
    if (status == 0) return 0;
    return st_error_set("%s: cannot be written: %s", path,
                        reason ? strerror(reason) : "it cannot be replaced");
}

int st_file_replace(const char *path, st_file_writer *write, const void *context)
{
    return run("st_file_replace", path, write, context, false);
}

int st_file_try(const char *path, st_file_writer *write, const void *context)
{
    return run("st_file_try", path, write, context, true);
}
