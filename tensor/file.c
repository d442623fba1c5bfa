/* file.c: a file is the old one or the new one, never half of it. */
#define _XOPEN_SOURCE 700
#include "tensor/file.h"
#include "tensor/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
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

/* A new file beside `path`, with the permissions that any new file has. */
static FILE *open_beside(const char *path, char *name, size_t size)
{
    int descriptor = -1;
    errno = EEXIST;
    for (int attempt = 0; attempt < ATTEMPTS && descriptor < 0 && errno == EEXIST; attempt++) {
        snprintf(name, size, "%s.%ld-%d.tmp", path, (long)getpid(), attempt);
        descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    FILE *stream = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (stream || descriptor < 0) return stream;
    close(descriptor);
    unlink(name);
    return NULL;
}

/* So that the new name is on the disk too. The file is in place by then: what goes wrong is no failure. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int descriptor = folder ? open(folder, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor >= 0) {
        fsync(descriptor);
        close(descriptor);
    }
    free(folder);
}

/* 0, or the errno of what failed. */
static int replace(const char *path, int (*write)(FILE *to, const void *context), const void *context)
{
    size_t size = strlen(path) + 64;
    char *name = malloc(size);
    FILE *stream = name ? open_beside(path, name, size) : NULL;
    if (stream) errno = ENOMEM; /* unless the stream says something else */
    bool written = stream && write(stream, context) == 0 && fflush(stream) == 0 && fsync(fileno(stream)) == 0;
    int reason = written ? 0 : errno;
    if (stream && fclose(stream) && !reason) reason = errno;
    if (!reason && rename(name, path)) reason = errno;
    if (!reason) sync_folder(path);
    else if (stream) unlink(name);
    free(name);
    return reason;
}

int file_replace(const char *path, int (*write)(FILE *to, const void *context), const void *context)
{
    struct stat old;
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode)) return error_set("%s: not a regular file", path);
    char *target = realpath(path, NULL); /* a link stays one; NULL where there is no file yet */
    int reason = replace(target ? target : path, write, context);
    free(target);
    return reason ? error_set("%s: cannot be written: %s", path, strerror(reason)) : 0;
}
