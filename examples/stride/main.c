/* main.c: stride: runs a subcommand, in stride-double if it needs double precision. */
#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE
#include "examples/stride/commands.h"

#include "examples/stride/nearest.h"
#include "examples/stride/network.h"
#include "examples/stride/text.h"
#include <stride.h>
#include "tensor/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const subcommand *const subcommands[] = { &command_train,
                                          &command_eval,
                                          &command_predict,
                                          &command_summary,
                                          &command_export,
                                          &command_bench_model,
                                          &command_gradcheck,
                                          &command_report,
                                          &command_help,
                                          &command_completion,
                                          NULL };

static const subcommand nothing = { .name = "" }; /* for messages without a subcommand */

const char *program_version(void)
{
    return ST_VERSION;
}

/* ---- help -------------------------------------------------------------------------------------- */

#define USAGE "usage: stride SUBCOMMAND [options]\n\n"

static const char examples[] =
    "  stride train 'conv 16 3x3, relu, maxpool 2, dense 2' --data pictures --size 32x32 --split 0.2\n"
    "  stride eval pictures               loss, accuracy, confusion matrix\n"
    "  stride predict cat.jpg             classes and their probabilities\n"
    "  stride predict new --output n.csv  the same for a folder, as a table\n"
    "  stride summary model.safetensors   layers, parameters, operations\n"
    "  stride export model.onnx           the net for other programs\n";

static void print_usage(FILE *to)
{
    fputs(USAGE "Trains, evaluates and uses small neural networks.\n\n", to);
    for (const subcommand *const *c = subcommands; *c; c++) {
        fprintf(to, "  %-12s ", (*c)->name);
        put_wrapped(to, (*c)->what, 15);
    }
    fprintf(
        to,
        "\nstride SUBCOMMAND --help lists its options; stride help network explains how to write networks."
        "\n\nexamples, for `pictures`, which holds a folder of PNG or JPEG files for each of two "
        "classes:\n%s",
        examples);
}

const char network_help[] =
    "A network is a list of layers, separated by commas or line ends. It is given as the name of a file, or "
    "as the text itself.\n\n"
    "A layer is a name, values and options: conv 32 3x3 stride=2 no_bias. A single number stands for both of "
    "a pair. # begins a comment. conv, conv_transpose, pad and linear stand for conv2d, conv_transpose2d, "
    "pad2d and dense.\n\n"
    "input 1x28x28 may come first: the shape of an image, channels, height and width. It must agree with the "
    "data.\n\n"
    "padding=same keeps the size; it needs a stride of 1. For an even kernel the bottom and the right have "
    "one more zero than the top and the left.\n\n"
    "3x(conv 32 3x3, relu) repeats the layers three times.\n\n"
    "residual(conv 16 3x3 padding=1, relu) adds its input to the output of the layers inside; residual(body "
    "| projection) adds the output of the projection instead. concat(a | b) concatenates the channels of "
    "both. These may be nested.\n\n"
    "A pool without a kernel (0) has the whole image as its window; its stride is the kernel by default.\n\n"
    "A flatten is inserted before a dense whose input has channels, height and width.\n";

const char network_example[] = "  input 1x28x28\n"
                               "  2x(conv 32 3x3 padding=same no_bias, batchnorm, relu)\n"
                               "  maxpool 2                    # [32, 14, 14]\n"
                               "  residual(conv 32 3x3 padding=1, relu)\n"
                               "  dropout 0.25, dense 10\n";

static void print_network_help(FILE *to)
{
    put_wrapped(to, network_help, 0);
    fprintf(to, "For example:\n\n%s\nThe layers, with required values and [options with their defaults]:\n\n",
            network_example);
    network_layers(to);
}

static const subcommand *subcommand_named(const char *name)
{
    nearest n = { name, strlen(name) };
    for (const subcommand *const *c = subcommands; *c; c++) {
        if (strcmp((*c)->name, name) == 0) return *c;
        nearest_try(&n, (*c)->name);
    }
    subcommand_refuse(&nothing, "there is no subcommand %s%s", name, nearest_text(&n).text);
    return NULL;
}

static int run_help(void *settings, int count, char **operands)
{
    (void)settings;
    if (count == 0) print_usage(stdout);
    else if (strcmp(operands[0], "network") == 0) print_network_help(stdout);
    else if (strcmp(operands[0], "man") == 0) write_manual(stdout);
    else {
        const subcommand *c = subcommand_named(operands[0]);
        if (!c) return 2;
        subcommand_help(c, stdout);
    }
    return 0;
}

const subcommand command_help = {
    .name = "help",
    .what = "Explains a subcommand, or how to write networks.",
    .usage = "[SUBCOMMAND|network|man]",
    .details = "man: the manual page, for man -l.",
    .examples = "  stride help network\n"
                "  stride help man | man -l -\n",
    .words = "train|eval|predict|summary|export|bench-model|gradcheck|report|network|man",
    .most = 1,
    .run = run_help,
};

/* ---- stride-double ---------------------------------------------------------------------------------- */

/* Runs this program built in double: stride-double in the same folder, or in PATH. */
static int run_twin(const subcommand *c, char **argv)
{
    static const char twin[] = "stride-double";
    char *self = realpath("/proc/self/exe", NULL);
    if (!self && strchr(argv[0], '/')) self = realpath(argv[0], NULL);
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

/* Quotes words that a shell would split. */
static void note_command_line(int argc, char **argv)
{
    size_t used = 0;
    for (int i = 0; i < argc && used < sizeof command_line - 8; i++) {
        bool plain =
            argv[i][0] && !argv[i][strspn(argv[i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                   "0123456789_-+=./,:@%")];
        const char *slash = i == 0 ? strrchr(argv[0], '/') : NULL;
        used += (size_t)snprintf(command_line + used, sizeof command_line - used, plain ? "%s%s" : "%s'%s'",
                                 i ? " " : "", slash ? slash + 1 : argv[i]);
    }
}

int main(int argc, char **argv)
{
    take_standard_streams();
    leave_blas_threads(argv);
    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is an error of its writer */
    note_command_line(argc, argv);
    const char *name = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        fprintf(stderr, "%s%s\n%s", USAGE, examples,
                "stride --help lists all subcommands, stride train --help the options of one.\n");
        return 2;
    }
    if (strcmp(name, "--version") == 0) {
        printf("stride %s\n", program_version());
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
