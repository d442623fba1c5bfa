/* file.c: a file is the old one or the new one, never half of it. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE /* flock */
#include "nn/files/file.h"
#include "tensor/error.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LONGEST_NAME = 150, /* bytes: two of them leave a message room for the rest */
    ATTEMPTS = 100      /* at a name for the temporary file */
};

const char *file_name(const char *path)
{
    size_t length = strlen(path);
    return length > LONGEST_NAME ? path + length - LONGEST_NAME : path;
}

FILE *file_open(const char *path, long long *size)
{
    struct stat status;
    bool found = stat(path, &status) == 0, regular = found && S_ISREG(status.st_mode);
    FILE *stream = regular ? fopen(path, "rb") : NULL;
    if (found && !regular) error_set("%s: not a regular file", path);
    else if (!stream) error_set("%s: %s", path, strerror(errno));
    else *size = status.st_size;
    return stream;
}

/* ---- temporary files ----------------------------------------------------------------------------- */

/* PATH.PROCESS-ATTEMPT.tmp, locked while it is written: one that nobody has locked is what a writer that was killed left
 * behind, and the next one removes it. Where the file system knows no locks it stays. */

static bool is_temporary(const char *name, const char *file)
{
    static const char digits[] = "0123456789";
    size_t length = strlen(file), process, attempt;
    if (strncmp(name, file, length) != 0 || name[length] != '.') return false;
    name += length + 1;
    process = strspn(name, digits);
    if (process == 0 || name[process] != '-') return false;
    name += process + 1;
    attempt = strspn(name, digits);
    return attempt > 0 && strcmp(name + attempt, ".tmp") == 0;
}

static bool has_name(int descriptor, int folder, const char *name)
{
    struct stat opened, named;
    return fstat(descriptor, &opened) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(opened.st_mode) && opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* Only who holds the lock gives the file another name, so that it is the one which is removed. */
static void remove_unlocked(int folder, const char *name)
{
    int descriptor = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && has_name(descriptor, folder, name))
        unlinkat(folder, name, 0);
    close(descriptor);
}

static void remove_stale(const char *folder, const char *file)
{
    DIR *all = opendir(folder);
    for (const struct dirent *entry; all && (entry = readdir(all));)
        if (is_temporary(entry->d_name, file)) remove_unlocked(dirfd(all), entry->d_name);
    if (all) closedir(all);
}

/* False where another process took the new file, not locked yet, for one that was left behind. */
static bool lock(int descriptor)
{
    struct stat status;
    if (flock(descriptor, LOCK_EX | LOCK_NB)) return errno != EWOULDBLOCK;
    return fstat(descriptor, &status) || status.st_nlink > 0;
}

/* A new file beside `path`, with the permissions that any new file has; -1 with errno set. */
static int open_beside(const char *path, char *name, size_t size)
{
    int descriptor = -1;
    errno = EEXIST;
    for (int attempt = 0; attempt < ATTEMPTS && descriptor < 0 && errno == EEXIST; attempt++) {
        snprintf(name, size, "%s.%ld-%d.tmp", path, (long)getpid(), attempt);
        descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 || lock(descriptor)) continue;
        close(descriptor);
        descriptor = -1;
        errno = EEXIST;
    }
    return descriptor;
}

/* ---- replacing ----------------------------------------------------------------------------------- */

/* So that the new name is on the disk too. The file is in place by then: what goes wrong is no failure. */
static void sync_folder(const char *folder)
{
    int descriptor = open(folder, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    fsync(descriptor);
    close(descriptor);
}

/* 0, or the errno of what failed. The descriptor, and with it the lock, stays. */
static int fill(int descriptor, int (*write)(FILE *to, const void *context), const void *context)
{
    int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    FILE *stream = copy < 0 ? NULL : fdopen(copy, "wb");
    int reason = stream ? 0 : errno;
    if (copy >= 0 && !stream) close(copy);
    errno = ENOMEM; /* unless the stream says something else */
    if (stream && (write(stream, context) || fflush(stream) || ferror(stream) || fsync(descriptor)))
        reason = errno;
    if (stream && fclose(stream) && !reason) reason = errno;
    return reason;
}

/* 0, or the errno of what failed. */
static int replace(const char *path, int (*write)(FILE *to, const void *context), const void *context)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    size_t size = strlen(path) + 64;
    char *name = malloc(2 * size);
    if (!name) return ENOMEM;
    char *folder = name + size;
    snprintf(folder, size, "%.*s", slash ? (int)(file - path) : 1, slash ? path : ".");
    remove_stale(folder, file);
    int descriptor = open_beside(path, name, size);
    int reason = descriptor < 0 ? errno : fill(descriptor, write, context);
    if (!reason && rename(name, path)) reason = errno;
    if (!reason) sync_folder(folder);
    else if (descriptor >= 0) unlink(name);
    if (descriptor >= 0) close(descriptor);
    free(name);
    return reason;
}

int file_replace(const char *path, int (*write)(FILE *to, const void *context), const void *context)
{
    struct stat old;
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode)) return error_set("%s: not a regular file", path);
    char *target = realpath(path, NULL); /* a link stays one */
    int reason = !target && errno != ENOENT ? errno : replace(target ? target : path, write, context);
    free(target);
    return reason ? error_set("%s: cannot be written: %s", path, strerror(reason)) : 0;
}
