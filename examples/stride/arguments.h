/* arguments.h: numbers from a command line, checked. */
#ifndef STRIDE_EXAMPLES_STRIDE_ARGUMENTS_H
#define STRIDE_EXAMPLES_STRIDE_ARGUMENTS_H

#include <stdbool.h>
#include <stdio.h>

/* The whole text as a number in least … most; otherwise one line on stderr that names the option, and
 * the program ends with status 2. */
long argument_integer(const char *option, const char *text, long least, long most);
double argument_number(const char *option, const char *text, double least, double most);

/* Tries to replace a file, before the work: 0, or -1 with an error. Nothing is made or
 * removed. */
int argument_writable(const char *path);

/* True if two paths, which may be NULL, lead to one file, there or not yet, however they are spelled. */
bool argument_same_file(const char *a, const char *b);

/* Ends a program: the error latched by the library, on stderr, and status 1. */
int report_error(const char *program);

/* Ends a program: what it wrote must have arrived (a full disk behind stdout is a failure). */
int finish(const char *program, int status);

/* For a program that takes none: -1 where it was given none, else the status to end with: the usage has been
 * printed, asked for or not. */
int without_arguments(const char *program, const char *usage, int argc, char **argv);

#endif
