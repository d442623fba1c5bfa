/* arguments.h: numbers from a command line, checked. */
#ifndef STRIDE_EXAMPLES_STRIDE_ARGUMENTS_H
#define STRIDE_EXAMPLES_STRIDE_ARGUMENTS_H

#include <stdbool.h>
#include <stdio.h>

/* The number in a text, from `least` to `most`; otherwise one line on stderr that names the option, and the
 * program exits with status 2. */
long argument_integer(const char *option, const char *text, long least, long most);
double argument_number(const char *option, const char *text, double least, double most);

/* -1 with an error if the path names a FIFO, a device or a folder, which reading could wait for, or never end
 * with. */
int argument_readable(const char *path);

/* A file of at most `most` bytes, with a 0 behind them; to be freed. With an error it is cut short, or NULL. */
char *argument_contents(const char *path, size_t most, size_t *size);

/* Tests if a file could be replaced, without changing it: 0, or -1 with an error. */
int argument_writable(const char *path);

/* True if two paths, which may be NULL, name the same file, whether it exists or not. */
bool argument_same_file(const char *a, const char *b);

/* Prints the library's error on stderr and returns the exit status 1. */
int report_error(const char *program);

/* The exit status of a program: `status`, or 1 with a line on stderr if stdout could not be written. */
int finish(const char *program, int status);

#endif
