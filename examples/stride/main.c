/* main.c: stride: runs a subcommand, in stride-double if it needs double precision. */
#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE
#include "examples/stride/commands.h"
#include "examples/stride/nearest.h"

#include <stride.h>
#include "tensor/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const subcommand *const subcommands[] = {
    &command_train,
    &command_eval,
    &command_predict,
    &command_summary,
    &command_export,
    &command_bench_model,
    &command_gradcheck,
    &command_report,
    &command_help,
    &command_completion,
    NULL,
};

static const subcommand nothing = { .name = "" }; /* for messages without a subcommand */

const subcommand *subcommand_named(const char *name)
{
    nearest n = { name, strlen(name) };
    for (const subcommand *const *c = subcommands; *c; c++) {
        if (strcmp((*c)->name, name) == 0) return *c;
        nearest_try(&n, (*c)->name);
    }
    subcommand_refuse(&nothing, "there is no subcommand %.200s%s", name, nearest_question(&n, "").text);
    return NULL;
}

/* ---- stride-double ---------------------------------------------------------------------------------- */

/* Runs this program built in double: stride-double in the same folder, or in PATH. */
static int run_twin(const subcommand *c, char **argv)
{
    static const char twin[] = "stride-double";
    char *self = realpath("/proc/self/exe", NULL);
    if (!self) self = realpath(argv[0], NULL);
    char *slash = self ? strrchr(self, '/') : NULL, *path = NULL;
    if (slash && (path = malloc((size_t)(slash - self) + sizeof twin + 1))) {
        memcpy(path, self, (size_t)(slash - self) + 1);
        strcpy(path + (slash - self) + 1, twin);
        execv(path, argv);
    }
    execvp(twin, argv);
    st_error_set("%s: %s (it is built and installed with stride)", path ? path : twin, strerror(errno));
    free(path);
    free(self);
    return subcommand_end(c);
}

/* Opens standard streams that are closed, for the wrong direction, so that no file opened later becomes
 * one. */
static void take_standard_streams(void)
{
    for (int descriptor = 0; descriptor < 3; descriptor++)
        if (fcntl(descriptor, F_GETFD) < 0 &&
            open("/dev/null", descriptor ? O_RDONLY : O_WRONLY) != descriptor)
            _exit(1);
}

/* OpenBLAS's threads, which Stride does not use, start when the program is loaded, and wait forever if
 * there is no memory for their buffers. If memory is limited, the program starts again without them. */
static void leave_blas_threads(char **argv)
{
    static const int limits[] = { RLIMIT_AS, RLIMIT_DATA };
    struct rlimit l;
    for (int i = 0; i < 2 && !getenv("OPENBLAS_NUM_THREADS"); i++)
        if (getrlimit(limits[i], &l) == 0 && l.rlim_cur != RLIM_INFINITY &&
            setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0)
            execv("/proc/self/exe", argv);
}

char command_line[2048];

/* Quotes a word that a shell would split. */
static void put_word(FILE *to, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
    if (word[0] && !word[strspn(word, plain)]) {
        fputs(word, to);
        return;
    }
    fputc('\'', to);
    for (; *word; word++) *word == '\'' ? fputs("'\\''", to) : fputc(*word, to);
    fputc('\'', to);
}

static void note_command_line(int argc, char **argv)
{
    FILE *to = fmemopen(command_line, sizeof command_line - 1, "w");
    for (int i = 0; i < argc && to; i++) {
        const char *slash = i == 0 ? strrchr(argv[0], '/') : NULL;
        if (i > 0) fputc(' ', to);
        put_word(to, slash ? slash + 1 : argv[i]);
    }
    if (to) fclose(to);
}

int main(int argc, char **argv)
{
    take_standard_streams();
    leave_blas_threads(argv);
    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is an error of its writer */
    note_command_line(argc, argv);
    const char *name = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        put_short_help(stderr);
        return 2;
    }
    if (strcmp(name, "--version") == 0) {
        printf("stride %s\n", ST_VERSION);
        return subcommand_end(&nothing);
    }
    if (strcmp(name, "complete") == 0) return complete(argc - 2, argv + 2);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
    else if (name[0] == '-') return subcommand_refuse(&nothing, "unknown option %s", name);
    const subcommand *c = subcommand_named(name);
    if (!c) return 2;
    const bool is_double = sizeof(st_real) == sizeof(double);
    if (c->in_double && !is_double && !subcommand_asks_help(argc - 1, argv + 1)) return run_twin(c, argv);
    return subcommand_run(c, argc - 1, argv + 1);
}
