/* replace.c: the C locale, replacing files atomically, and holding them, on POSIX systems. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE /* flock */
#define _DARWIN_C_SOURCE
#include "nn/files/file.h"
#include "tensor/error.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

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

/* ---- paths and locks ----------------------------------------------------------------------------- */

/* The path without symbolic links, to be freed; of a new file the path as it is. NULL with errno set, also if
 * a link leads nowhere. */
static char *resolve(const char *path)
{
    struct stat status;
    char *real = realpath(path, NULL);
    return !real && errno == ENOENT && lstat(path, &status) ? strdup(path) : real;
}

/* The offset of a path's last name. */
static size_t base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static bool same_object(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Locks the file for writing, without waiting. False if another has it locked, or it has lost its name. File
 * systems without locks let all writers pass. */
static bool lock(int descriptor, const char *name)
{
    struct stat opened, named;
    if (flock(descriptor, LOCK_EX | LOCK_NB)) return errno != EWOULDBLOCK;
    return fstat(descriptor, &opened) == 0 && lstat(name, &named) == 0 && same_object(&opened, &named);
}

/* ---- temporary files -------------------------------------------------------------------------------
 *
 * A file NAME is written as NAME.PID-N.stride.tmp beside it. The writer, process PID, has that file locked
 * until it is renamed or removed. If there is neither lock nor process, the writer was killed. Nobody waits
 * for a lock. */

#define ENDING ".stride.tmp"
#define HELD ".stride.lock" /* see file_hold */

enum { SUFFIX = 48, MOST_TEMPORARIES = 1000, SHORTEST_LIMIT = 100 };

/* The bytes of a path that the names of its temporary files begin with: a long last name is cut, between two
 * characters of UTF-8. */
static size_t stem_of(const char *path, const char *folder)
{
    const size_t length = strlen(path), base = base_of(path);
    const long limit = pathconf(folder, _PC_NAME_MAX);
    size_t most = base + (size_t)(limit < SHORTEST_LIMIT ? SHORTEST_LIMIT : limit) - SUFFIX;
    if (length <= most) return length;
    while (((unsigned char)path[most] & 0xc0) == 0x80) most--;
    return most;
}

static const char *digits(const char *at)
{
    const char *end = at + strspn(at, "0123456789");
    return end > at ? end : NULL;
}

/* The PID of the end of a temporary file's name, ".PID-N.stride.tmp"; 0 for other texts. */
static long owner_of(const char *suffix)
{
    const char *at = *suffix == '.' ? digits(suffix + 1) : NULL;
    at = at && *at == '-' ? digits(at + 1) : NULL;
    return at && strcmp(at, ENDING) == 0 ? atol(suffix + 1) : 0;
}

/* True if there is no such process but perhaps this one, which may have a killed one's number. */
static bool is_dead(long process)
{
    return process > 0 && (process == (long)getpid() || (kill((pid_t)process, 0) && errno == ESRCH));
}

bool st_file_is_temporary(const char *name, const char *path)
{
    const size_t length = name && path ? strlen(path) : 0;
    if (length == 0 || strncmp(name, path, length) != 0) return false;
    return owner_of(name + length) > 0 || strcmp(name + length, HELD) == 0;
}

/* Removes the temporary files of killed writers; their names begin with the base's first bytes. */
static void remove_abandoned(const char *folder, const char *base, size_t count)
{
    DIR *all = opendir(folder);
    for (const struct dirent *e; all && (e = readdir(all));) {
        struct stat status;
        char name[PATH_MAX];
        if (strncmp(e->d_name, base, count) != 0 || !is_dead(owner_of(e->d_name + count))) continue;
        if (snprintf(name, sizeof name, "%s/%s", folder, e->d_name) >= PATH_MAX) continue;
        const int descriptor = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (descriptor < 0) continue;
        const bool regular = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
        if (regular && flock(descriptor, LOCK_SH | LOCK_NB) == 0) unlink(name);
        close(descriptor);
    }
    if (all) closedir(all);
}

/* Completes the name, of which `stem` bytes are given; -1 with errno set. */
static int open_temporary(char *name, size_t stem, mode_t mode)
{
    for (int n = 0; n < MOST_TEMPORARIES; n++) {
        snprintf(name + stem, SUFFIX, ".%ld-%d" ENDING, (long)getpid(), n);
        const int descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (descriptor < 0 && errno == EEXIST) continue;
        if (descriptor < 0 || lock(descriptor, name)) return descriptor;
        close(descriptor); /* it was removed as a killed writer's */
    }
    errno = EEXIST;
    return -1;
}

/* ---- replacing ----------------------------------------------------------------------------------- */

/* The old file's owner, group and permissions, as far as the system allows, and never more: if the group
 * cannot be kept, the new one gets the permissions that both the old group and everyone had. */
static void keep_permissions(int descriptor, const struct stat *old)
{
    mode_t mode = old->st_mode & 0777;
    if (fchown(descriptor, old->st_uid, old->st_gid) && fchown(descriptor, (uid_t)-1, old->st_gid))
        mode &= (mode_t)0707 | (mode << 3 & 070);
    (void)!fchmod(descriptor, mode);
}

/* Writes, unless there is no writer, and closes the file; another descriptor, where there can be one, keeps
 * its lock. 0, or an errno. */
static int fill(int descriptor, int *locked, st_file_writer *write, const void *context)
{
    *locked = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    FILE *stream = fdopen(descriptor, "wb");
    int reason = stream ? 0 : errno;
    if (!stream) close(descriptor);
    errno = ENOMEM; /* if the writer sets none */
    if (stream &&
        ((write && write(stream, context)) || fflush(stream) || ferror(stream) || fsync(descriptor)))
        reason = errno ? errno : EIO; /* a writer may have set it to 0 */
    if (stream && fclose(stream) && !reason) reason = errno ? errno : EIO;
    return reason;
}

/* Replaced, such a file would lose what the process or its shell goes on writing to it. */
static bool is_standard_stream(const struct stat *file)
{
    struct stat stream;
    for (int descriptor = 0; descriptor < 3; descriptor++)
        if (fstat(descriptor, &stream) == 0 && same_object(&stream, file)) return true;
    return false;
}

/* The name of a descriptor, which would go on with the old file. */
static bool is_descriptor(const char *path)
{
    return strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/self/fd/", 14) == 0;
}

enum { NOT_REGULAR = -1, A_STREAM = -2 };

/* 0, an errno or one of the above. `name` has room for the path and a suffix. */
static int replace(const char *path, char *name, st_file_writer *write, const void *context, bool only_try)
{
    struct stat old;
    const bool exists = stat(path, &old) == 0;
    const size_t base = base_of(path);
    if (exists && !S_ISREG(old.st_mode)) return NOT_REGULAR;
    if (exists && is_standard_stream(&old)) return A_STREAM;
    if (!path[base]) return ENOENT;
    snprintf(name, base + 2, "%.*s", base ? (int)base : 1, base ? path : ".");
    const int folder = open(name, O_RDONLY | O_CLOEXEC);
    const size_t stem = stem_of(path, name);
    remove_abandoned(name, path + base, stem - base);
    memcpy(name, path, stem);
    const int descriptor = open_temporary(name, stem, exists ? 0600 : 0666);
    if (descriptor >= 0 && exists) keep_permissions(descriptor, &old);
    int locked = -1, reason = descriptor < 0 ? errno : fill(descriptor, &locked, write, context);
    if (!reason && !only_try && rename(name, path)) reason = errno;
    if (descriptor >= 0 && (reason || only_try)) unlink(name);
    if (folder >= 0) {
        fsync(folder); /* flushes the new name; the file is in place, so a failure is not reported */
        close(folder);
    }
    if (locked >= 0) close(locked);
    return reason;
}

/* A thread that is cancelled replaces the file first, so that nothing of it is left. */
static int run(const char *who, const char *path, st_file_writer *write, const void *context, bool only_try)
{
    int cancelled;
    if (!path || (!write && !only_try))
        return st_error_set("%s: the %s is NULL", who, path ? "writer" : "path");
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    char *at = resolve(path), *name = at ? malloc(strlen(at) + SUFFIX + 2) : NULL;
    int reason = !name ? errno : is_descriptor(path) ? A_STREAM : replace(at, name, write, context, only_try);
    free(at);
    free(name);
    pthread_setcancelstate(cancelled, &cancelled);
    if (!reason) return 0;
    if (reason == NOT_REGULAR) return st_error_set("%s: not a regular file", file_name(path));
    if (reason == A_STREAM)
        return st_error_set(
            "%s: cannot be replaced: it is open in this process, as standard output or the like",
            file_name(path));
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

/* ---- holding ---------------------------------------------------------------------------------------
 *
 * A run that writes NAME again and again has NAME.stride.lock locked, a file with the number of its
 * process. */

#define HOLDER "process "

struct file_lock {
    int descriptor;
    char name[];
};

/* The process that has the file; 0: none yet, -1: it is not such a file. */
static long holder_of(int descriptor)
{
    char text[64];
    const ssize_t size = pread(descriptor, text, sizeof text - 1, 0);
    if (size <= 0) return size < 0 ? -1 : 0;
    text[size] = '\0';
    return strncmp(text, HOLDER, strlen(HOLDER)) == 0 ? atol(text + strlen(HOLDER)) : -1;
}

/* All texts have the same length. A full disk has no room for one. */
static void put_holder(int descriptor)
{
    char text[64];
    const int length = snprintf(text, sizeof text, HOLDER "%-20ld\n", (long)getpid());
    (void)!pwrite(descriptor, text, (size_t)length, 0);
}

static int open_lock(const char *name, const char *path)
{
    enum { TRIES = 10 }; /* its holder may be removing it */
    const char *named = file_name(path);
    long holder = 0;
    for (int i = 0; i < TRIES && holder >= 0; i++) {
        if (i > 0) nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
        const int descriptor = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (descriptor < 0) return st_error_set("%s: cannot be written: %s", named, strerror(errno));
        const bool locked = lock(descriptor, name);
        holder = holder_of(descriptor);
        if (locked && holder >= 0) return descriptor;
        close(descriptor);
    }
    if (holder < 0) return st_error_set("%s" HELD ": not the lock of a run", named);
    return st_error_set("%s: process %ld is writing it, and has locked %s" HELD, named, holder, named);
}

file_lock *file_hold(const char *path)
{
    char *at = resolve(path);
    file_lock *l = at ? malloc(sizeof *l + strlen(at) + sizeof HELD) : NULL;
    if (!l) st_error_set("%s: cannot be written: %s", file_name(path), strerror(errno));
    else strcat(strcpy(l->name, at), HELD);
    free(at);
    if (l && (l->descriptor = open_lock(l->name, path)) >= 0) {
        put_holder(l->descriptor);
        return l;
    }
    free(l);
    return NULL;
}

void file_release(file_lock *l)
{
    if (!l) return;
    if (lock(l->descriptor, l->name)) unlink(l->name);
    flock(l->descriptor, LOCK_UN); /* a child of fork() may have the descriptor, too */
    close(l->descriptor);
    free(l);
}
