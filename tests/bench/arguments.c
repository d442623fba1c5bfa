/* arguments.c: see arguments.h. */
#include "tests/bench/arguments.h"
#include "tensor/error.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refuse(const char *option, const char *text, const char *kind, double least, double most)
{
    fprintf(stderr, "%s: \"%s\" is not %s from %g to %g\n", option, text, kind, least, most);
    exit(2);
}

long argument_integer(const char *option, const char *text, long least, long most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most)
        refuse(option, text, "a whole number", (double)least, (double)most);
    return value;
}

double argument_number(const char *option, const char *text, double least, double most)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < least || value > most)
        refuse(option, text, "a number", least, most);
    return value;
}

int report_error(const char *program)
{
    fprintf(stderr, "%s: %s\n", program, st_error() ? st_error() : "failed");
    return 1;
}

int finish(const char *program, int status)
{
    if (status || (fflush(stdout) == 0 && !ferror(stdout))) return status;
    fprintf(stderr, "%s: writing the output: %s\n", program, strerror(errno));
    return 1;
}
