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

/* The path, or what its symbolic links lead to, whether that exists or not; to be freed; NULL with errno set. */
static char *resolve(const char *path)
{
    enum { MOST_LINKS = 40, LONGEST = 4096 };
    struct stat status;
    char target[LONGEST], *to = strdup(path);
    for (int links = 1; to && lstat(to, &status) == 0 && S_ISLNK(status.st_mode); links++) {
        const ssize_t length = readlink(to, target, LONGEST);
        const char *slash = length > 0 && target[0] != '/' ? strrchr(to, '/') : NULL;
        const size_t folder = slash ? (size_t)(slash - to) + 1 : 0;
        const bool fits = length > 0 && length < LONGEST && links <= MOST_LINKS;
        char *next = fits ? malloc(folder + (size_t)length + 1) : NULL;
        if (!fits && length >= 0) errno = ELOOP;
        if (next) memcpy(next, to, folder), memcpy(next + folder, target, (size_t)length);
        if (next) next[folder + (size_t)length] = '\0';
        free(to);
        to = next;
    }
    return to;
}

static bool has_name(int descriptor, const char *name)
{
    struct stat opened, named;
    return fstat(descriptor, &opened) == 0 && lstat(name, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* A new file; -1 with errno set. It is locked while it is written, and only the holder of the lock may rename
 * or remove it: another writer is waited for, and a file that a killed one left is removed. */
static int open_temporary(const char *name, mode_t mode)
{
    for (;;) {
        const int made = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (made < 0 && errno != EEXIST) return -1;
        const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
        int other = made < 0 ? open(name, O_WRONLY | flags) : made; /* NFS locks only what may be written */
        if (other < 0 && errno == EACCES) other = open(name, O_RDONLY | flags);
        if (other < 0 && errno == ENOENT) continue;
        if (other < 0) return -1;
        const bool locked = flock(other, LOCK_EX) == 0, named = has_name(other, name);
        if (made >= 0 && named) return made; /* also on a file system without locks */
        const bool stuck = made < 0 && (!locked || (named && unlink(name)));
        const int reason = errno;
        close(other);
        errno = reason;
        if (stuck) return -1;
    }
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

/* Flushes the new name to disk. The file is already in place, so failures are not reported. */
static void sync_folder(const char *folder)
{
    int descriptor = open(folder, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    fsync(descriptor);
    close(descriptor);
}

/* 0, or an errno. The descriptor stays open, and with it the lock. */
static int fill(int descriptor, st_file_writer *write, const void *context)
{
    int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    FILE *stream = copy < 0 ? NULL : fdopen(copy, "wb");
    int reason = stream ? 0 : errno;
    if (copy >= 0 && !stream) close(copy);
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
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    if (exists && !S_ISREG(old.st_mode)) return NOT_REGULAR;
    if (!*file) return ENOENT;
    strcat(strcpy(name, path), ENDING);
    const int descriptor = open_temporary(name, exists ? 0600 : 0666);
    if (descriptor < 0) return errno;
    if (exists) keep_permissions(descriptor, &old);
    int reason = fill(descriptor, write, context);
    if (!reason && !only_try && rename(name, path)) reason = errno;
    if (reason || only_try) unlink(name);
    else {
        name[file - path] = '\0';
        sync_folder(slash ? name : ".");
    }
    close(descriptor);
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
