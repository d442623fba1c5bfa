/* streams.h: open files and terminals, as the operating system knows them; private to the library.
 *
 * A file that includes this one includes it first. */
#ifndef STRIDE_NN_FILES_STREAMS_H
#define STRIDE_NN_FILES_STREAMS_H

#define _DEFAULT_SOURCE /* struct winsize */
#include "tensor/system.h"

#include <errno.h>
#include <stdio.h>
#ifdef _WIN32
#include <io.h>
#else
#include <sys/ioctl.h>
#include <unistd.h>
#endif

static inline int system_is_terminal(FILE *stream)
{
#ifdef _WIN32
    return _isatty(_fileno(stream));
#else
    return isatty(fileno(stream));
#endif
}

/* The columns of a terminal, which may change; 0: not known. */
static inline int system_columns(FILE *terminal)
{
#ifdef _WIN32
    (void)terminal;
    return 0;
#else
    struct winsize size;
    return ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
#endif
}

/* Tests if there is a file of that name; -1 with errno if that cannot be known. */
static inline int system_exists(const char *path)
{
#ifdef _WIN32
    if (_access(path, 0) == 0) return 1;
#else
    if (access(path, F_OK) == 0) return 1;
#endif
    return errno == ENOENT ? 0 : -1;
}

/* Sends what was written to the disk; 0 on success. */
static inline int system_flush(FILE *stream)
{
    if (fflush(stream) || ferror(stream)) return -1;
#ifdef _WIN32
    return _commit(_fileno(stream));
#else
    return fsync(fileno(stream));
#endif
}

#endif
