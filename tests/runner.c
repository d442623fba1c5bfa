/* runner.c: the program of a room's tests, tests/ROOM/test_*.c, whose tests register themselves.
 *
 *     run                 every file
 *     run test_gemm       that file; so does a link to this program called test_gemm
 *     run test_gemm 'a*'  its claims that match the pattern
 *
 * FILES is the list of the files: FILE(test_gemm) MAIN(test_print) ..., those of a main of their own by MAIN,
 * which is compiled as a function called test_print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tensor/threads/threads.h"

#define FILE(name)
#define MAIN(name) int name(void);
FILES
#undef FILE
#undef MAIN

int tests_run(const char *name); /* support.h */

typedef struct file {
    const char *name;
    int (*main)(void); /* NULL: registered tests */
} file;

#define FILE(name) { #name, NULL },
#define MAIN(name) { #name, name },
static const file files[] = { FILES };

static const file *file_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(files[i].name, name) == 0) return &files[i];
    return NULL;
}

static int run(const file *f)
{
    return f->main ? f->main() : tests_run(f->name);
}

int main(int count, char **arguments)
{
    int failed = 0;
    const file *chosen = file_of(arguments[0]);
    pool_pauses = 50; /* others' tests run on the processors meanwhile */
    if (!chosen && count > 1) {
        chosen = file_of(*++arguments);
        count--;
        if (!chosen) {
            fprintf(stderr, "%s: expected one of", *arguments);
            for (size_t i = 0; i < sizeof files / sizeof *files; i++) fprintf(stderr, " %s", files[i].name);
            fprintf(stderr, "\n");
            return 1;
        }
    }
    if (count > 1) cmocka_set_test_filter(arguments[1]);
    if (chosen) return run(chosen);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) failed |= run(&files[i]);
    return failed;
}
