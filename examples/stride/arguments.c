/* arguments.c: see arguments.h. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/arguments.h"
#include "tensor/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

int argument_writable(const char *path)
{
    bool there = access(path, F_OK) == 0;
    FILE *f = fopen(path, "ab");
    if (!f) return error_set("%s: cannot be written: %s", path, strerror(errno));
    fclose(f);
    return there || remove(path) == 0 ? 0 : error_set("%s: %s", path, strerror(errno));
}

bool argument_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    if (!a || !b) return false;
    if (strcmp(a, b) == 0) return true;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

int report_error(const char *program)
{
    fprintf(stderr, "%s: %s\n", program, error_text() ? error_text() : "failed without a word");
    return 1;
}

int finish(const char *program, int status)
{
    if (status || (fflush(stdout) == 0 && !ferror(stdout)))
        return status; /* one line of complaint is enough */
    fprintf(stderr, "%s: writing the output: %s\n", program, strerror(errno));
    return 1;
}

int without_arguments(const char *program, const char *usage, int argc, char **argv)
{
    if (argc == 1) return -1;
    bool help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
    fputs(usage, help ? stdout : stderr);
    return help ? finish(program, 0) : 2;
}
