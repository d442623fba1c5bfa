/* file.c: opening files, and replacing them atomically. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE /* flock, S_ISVTX */
#define _DARWIN_C_SOURCE
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
    LONGEST_NAME = 150,  /* bytes of a path in a message, which may have two */
    ATTEMPTS = 100,      /* at a name for the temporary file */
    LONGEST_STEM = 200,  /* bytes of the file's name in that of the temporary file: names end at 255 */
    LONGEST_LINK = 4096, /* bytes of a symbolic link's target */
    MOST_LINKS = 40      /* from one to the next */
};

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

/* ---- the file's folder ---------------------------------------------------------------------------- */

typedef struct place {
    char *path, *folder; /* links followed; owned */
    const char *file;    /* the end of the path */
    bool exists;
    struct stat old;
} place;

/* "folder/" of "folder/file", followed by `rest`; NULL: no memory. */
static char *beside(const char *path, const char *rest)
{
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash + 1 - path) : 0;
    size_t size = (size_t)length + strlen(rest) + 1;
    char *joined = malloc(size);
    if (joined) snprintf(joined, size, "%.*s%s", length, path, rest);
    return joined;
}

/* The path that a symbolic link names; NULL with errno set. */
static char *follow(const char *link)
{
    char *target = malloc(LONGEST_LINK), *path = NULL;
    ssize_t length = target ? readlink(link, target, LONGEST_LINK - 1) : -1;
    if (length >= 0) {
        target[length] = '\0';
        path = target[0] == '/' ? strdup(target) : beside(link, target);
    }
    free(target);
    return path;
}

/* The end of a chain of links, which, other than for realpath, need not exist. NULL with errno set. */
static char *resolve(const char *path)
{
    struct stat status;
    char *at = strdup(path);
    for (int links = 0; at && lstat(at, &status) == 0 && S_ISLNK(status.st_mode); links++) {
        char *next = links < MOST_LINKS ? follow(at) : NULL;
        if (links == MOST_LINKS) errno = ELOOP;
        free(at);
        at = next;
    }
    return at;
}

static void release(place *p)
{
    free(p->path);
    free(p->folder);
}

/* In a sticky folder only the owner of the file or of the folder, or root, may replace a file. */
static bool may_replace(const place *p)
{
    struct stat folder;
    uid_t me = geteuid();
    return !p->exists || me == 0 || stat(p->folder, &folder) || !(folder.st_mode & S_ISVTX) ||
           folder.st_uid == me || p->old.st_uid == me;
}

/* 0, or -1 with an error. */
static int find_place(const char *path, place *p)
{
    *p = (place){ .path = resolve(path) };
    p->folder = p->path ? beside(p->path, strchr(p->path, '/') ? "" : ".") : NULL;
    if (!p->folder) return st_error_set("%s: cannot be written: %s", file_name(path), strerror(errno));
    const char *slash = strrchr(p->path, '/');
    p->file = slash ? slash + 1 : p->path;
    p->exists = lstat(p->path, &p->old) == 0;
    if (!p->exists && errno != ENOENT)
        return st_error_set("%s: cannot be written: %s", file_name(path), strerror(errno));
    if (p->exists && !S_ISREG(p->old.st_mode)) return st_error_set("%s: not a regular file", file_name(path));
    if (!*p->file) return st_error_set("%s: cannot be written: %s", file_name(path), strerror(ENOENT));
    if (may_replace(p)) return 0;
    return st_error_set("%s: cannot be written: another user's file in a sticky folder", file_name(path));
}

/* ---- temporary files ----------------------------------------------------------------------------- */

/* PATH.PROCESS-ATTEMPT.tmp, locked while it is written: an unlocked one was left by a killed process. On a
 * file system without locks none is removed. A long name is cut off. */

static int stem_of(const char *file)
{
    size_t length = strlen(file);
    return length < LONGEST_STEM ? (int)length : LONGEST_STEM;
}

static bool is_temporary(const char *name, const char *file)
{
    static const char digits[] = "0123456789";
    size_t length = (size_t)stem_of(file), process, attempt;
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

/* Only the holder of the lock renames the file, so no other one is removed. */
static void remove_unlocked(int folder, const char *name)
{
    int descriptor = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && has_name(descriptor, folder, name))
        unlinkat(folder, name, 0);
    close(descriptor);
}

static void remove_stale(const place *p)
{
    DIR *all = opendir(p->folder);
    for (const struct dirent *entry; all && (entry = readdir(all));)
        if (is_temporary(entry->d_name, p->file)) remove_unlocked(dirfd(all), entry->d_name);
    if (all) closedir(all);
}

/* False if another process removed the new file, not yet locked, as a stale one. */
static bool lock(int descriptor)
{
    struct stat status;
    if (flock(descriptor, LOCK_EX | LOCK_NB)) return errno != EWOULDBLOCK;
    return fstat(descriptor, &status) || status.st_nlink > 0;
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

/* A new file beside the old one; -1 with errno set. */
static int open_beside(const place *p, char *name, size_t size)
{
    int descriptor = -1;
    errno = EEXIST;
    for (int attempt = 0; attempt < ATTEMPTS && descriptor < 0 && errno == EEXIST; attempt++) {
        int folder = (int)(p->file - p->path);
        snprintf(name, size, "%.*s%.*s.%ld-%d.tmp", folder, p->path, stem_of(p->file), p->file,
                 (long)getpid(), attempt);
        descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, p->exists ? 0600 : 0666);
        if (descriptor < 0 || lock(descriptor)) continue;
        close(descriptor);
        descriptor = -1;
        errno = EEXIST;
    }
    if (descriptor >= 0 && p->exists) keep_permissions(descriptor, &p->old);
    return descriptor;
}

/* ---- replacing ----------------------------------------------------------------------------------- */

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

/* 0, or an errno. */
static int replace(const place *p, st_file_writer *write, const void *context, bool only_try)
{
    size_t size = strlen(p->path) + 64;
    char *name = malloc(size);
    if (!name) return ENOMEM;
    remove_stale(p);
    int descriptor = open_beside(p, name, size);
    int reason = descriptor < 0 ? errno : fill(descriptor, write, context);
    bool renamed = !reason && !only_try && rename(name, p->path) == 0;
    if (!reason && !only_try && !renamed) reason = errno;
    if (descriptor >= 0 && !renamed) unlink(name);
    if (renamed) sync_folder(p->folder);
    if (descriptor >= 0) close(descriptor);
    free(name);
    return reason;
}

static int run(const char *path, st_file_writer *write, const void *context, bool only_try)
{
    place p;
    int reason = 0, status = find_place(path, &p);
    if (status == 0) reason = replace(&p, write, context, only_try);
    release(&p);
    return reason ? st_error_set("%s: cannot be written: %s", file_name(path), strerror(reason)) : status;
}

int st_file_replace(const char *path, st_file_writer *write, const void *context)
{
    if (!path || !write) return st_error_set("st_file_replace: the %s is NULL", path ? "writer" : "path");
    return run(path, write, context, false);
}

int st_file_try(const char *path, st_file_writer *write, const void *context)
{
    if (!path || !write) return st_error_set("st_file_try: the %s is NULL", path ? "writer" : "path");
    return run(path, write, context, true);
}
