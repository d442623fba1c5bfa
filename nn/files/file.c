/* file.c: opening files, the C locale, and replacing files atomically. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE /* flock */
#define _DARWIN_C_SOURCE
#include "nn/files/file.h"
#include "tensor/error.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

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

FILE *file_open(const char *path, long long *size)
{
    struct stat status;
    bool found = stat(path, &status) == 0, regular = found && S_ISREG(status.st_mode);
    FILE *stream = regular ? fopen(path, "rb") : NULL;
    if (found && !regular) st_error_set("%s: not a regular file", path);
    else if (!stream) st_error_set("%s: %s", path, strerror(errno));
    else *size = status.st_size;
    return stream;
}

/* ---- the C locale -------------------------------------------------------------------------------- */

void *c_locale_enter(void)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return c ? uselocale(c) : NULL;
}

void c_locale_leave(void *before)
{
    if (before) freelocale(uselocale((locale_t)before));
}

/* ---- replacing ----------------------------------------------------------------------------------- */

#define ENDING ".stride.tmp" /* of the temporary file, which is beside the file */

/* The path without symbolic links, to be freed; of a new file the path as it is. NULL with errno set, also if
 * a link leads nowhere. */
static char *resolve(const char *path)
{
    struct stat status;
    char *real = realpath(path, NULL);
    return !real && errno == ENOENT && lstat(path, &status) ? strdup(path) : real;
}

/* The folder, locked, so that writers of a file wait for each other; -1 if it cannot be opened. Some file
 * systems have no locks: two writers of one file at a time are then not supported. */
static int lock_folder(const char *folder)
{
    const int descriptor = open(folder, O_RDONLY | O_CLOEXEC);
    while (descriptor >= 0 && flock(descriptor, LOCK_EX) && errno == EINTR) {
    }
    return descriptor;
}

/* The old file's owner, group and permissions, as far as the system allows, and never more: if the group
 * cannot be kept, the new one gets the permissions that both the old group and everyone had. */
static void keep_permissions(int descriptor, const struct stat *old)
{
    mode_t mode = old->st_mode & 0777;
    if (fchown(descriptor, old->st_uid, old->st_gid) && fchown(descriptor, (uid_t)-1, old->st_gid))
        mode &= (mode_t)0707 | (mode << 3 & 070);
    (void)!fchmod(descriptor, mode);
}

/* Closes the descriptor. 0, or an errno. */
static int fill(int descriptor, st_file_writer *write, const void *context)
{
    FILE *stream = fdopen(descriptor, "wb");
    int reason = stream ? 0 : errno;
    if (!stream) close(descriptor);
    errno = ENOMEM; /* if the writer sets none */
    if (stream && (write(stream, context) || fflush(stream) || ferror(stream) || fsync(descriptor)))
        reason = errno;
    if (stream && fclose(stream) && !reason) reason = errno;
    return reason;
}

enum { NOT_REGULAR = -1 };

/* 0, an errno or NOT_REGULAR. `name` has room for the path and the ending. */
static int replace(const char *path, char *name, st_file_writer *write, const void *context, bool only_try)
{
    struct stat old;
    const bool exists = stat(path, &old) == 0;
    const char *slash = strrchr(path, '/');
    if (exists && !S_ISREG(old.st_mode)) return NOT_REGULAR;
    if (slash && !slash[1]) return ENOENT;
    snprintf(name, strlen(path) + 1, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    const int folder = lock_folder(name);
    strcat(strcpy(name, path), ENDING);
    unlink(name); /* a killed writer's */
    const int descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, exists ? 0600 : 0666);
    if (descriptor >= 0 && exists) keep_permissions(descriptor, &old);
    int reason = descriptor < 0 ? errno : fill(descriptor, write, context);
    if (!reason && !only_try && rename(name, path)) reason = errno;
    if (descriptor >= 0 && (reason || only_try)) unlink(name);
    if (folder >= 0) {
        fsync(folder); /* flushes the new name; the file is in place, so a failure is not reported */
        close(folder);
    }
    return reason;
}

static int run(const char *who, const char *path, st_file_writer *write, const void *context, bool only_try)
{
    if (!path || !write) return st_error_set("%s: the %s is NULL", who, path ? "writer" : "path");
    char *at = resolve(path), *name = at ? malloc(strlen(at) + sizeof ENDING) : NULL;
    int reason = name ? replace(at, name, write, context, only_try) : errno;
    free(at);
    free(name);
    if (!reason) return 0;
    if (reason == NOT_REGULAR) return st_error_set("%s: not a regular file", file_name(path));
    return st_error_set("%s: cannot be written: %s", file_name(path), strerror(reason));
}

int st_file_replace(const char *path, st_file_writer *write, const void *context)
{
    return run("st_file_replace", path, write, context, false);
}

int st_file_try(const char *path, st_file_writer *write, const void *context)
{
    return run("st_file_try", path, write, context, true);
}
