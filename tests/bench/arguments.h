/* arguments.h: numbers from a benchmark's command line, and its exit status. */
#ifndef STRIDE_TESTS_BENCH_ARGUMENTS_H
#define STRIDE_TESTS_BENCH_ARGUMENTS_H

/* The number in a text, from `least` to `most`; otherwise one line on stderr that names the option, and the
 * program exits with status 2. */
long argument_integer(const char *option, const char *text, long least, long most);
double argument_number(const char *option, const char *text, double least, double most);

/* Prints the library's error on stderr and returns the exit status 1. */
int report_error(const char *program);

/* The exit status of a program: `status`, or 1 with a line on stderr if stdout could not be written. */
int finish(const char *program, int status);

#endif
