/* help.c: stride help: explains subcommands and networks; the manual page in roff, from the same text;
 * completion. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/commands.h"

#include "examples/stride/kinds.h"
#include "examples/stride/network.h"
#include <stride.h>

#include <stdlib.h>
#include <string.h>

#define USAGE "usage: stride SUBCOMMAND [options]\n\n"

static const char examples[] =
    "  stride train 'conv 16 3x3, relu, maxpool 2, dense 2' --data pictures --size 32x32 --split 0.2\n"
    "  stride eval pictures               loss, accuracy, confusion matrix\n"
    "  stride predict cat.jpg             classes and their probabilities\n"
    "  stride predict new --output n.csv  the same for a folder, as a table\n"
    "  stride summary model.safetensors   layers, parameters, operations\n"
    "  stride export model.onnx           the net for other programs\n";

void put_short_help(FILE *to)
{
    fprintf(to, "%s%s\n%s", USAGE, examples,
            "stride --help lists all subcommands, stride train --help the options of one.\n");
}

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

static const char network_help[] =
    "A network is a list of layers, separated by commas or line ends. It is given as the name of a file, or "
    "as the text itself.\n\n"
    "A layer is a name, values and options: conv 32 3x3 stride=2 no_bias. A single number stands for both of "
    "a pair. # begins a comment. conv, conv_transpose, pad and linear stand for conv2d, conv_transpose2d, "
    "pad2d and dense, global_maxpool and global_avgpool for these poolings of the whole image.\n\n"
    "input 1x28x28 may come first: the shape of an image, channels, height and width. It must agree with the "
    "data.\n\n"
    "padding=same keeps the size; it needs a stride of 1. For an even kernel the bottom and the right have "
    "one more zero than the top and the left.\n\n"
    "3x(conv 32 3x3, relu) repeats the layers three times.\n\n"
    "residual(conv 16 3x3 padding=1, relu) adds its input to the output of the layers inside; residual(body "
    "| projection) adds the output of the projection instead. concat(a | b) concatenates the channels of "
    "both; multiply(a | b) multiplies their elements and repeats axes of size 1: multiply(identity | "
    "global_avgpool, conv 4 1, relu, conv 32 1, sigmoid) is squeeze-and-excitation. These may be nested.\n\n"
    "A pool without a kernel (0) has the whole image as its window; its stride is the kernel by default.\n\n"
    "A flatten is inserted before a dense whose input has channels, height and width.\n";

static const char network_example[] = "  input 1x28x28\n"
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

static const char kinds_help[] = "A loss, an optimizer and a schedule are given by name; options follow the "
                                 "name: --optim 'adam beta2=0.99', "
                                 "--loss 'huber delta=2', --schedule 'step step_size=3 gamma=0.5'. Some have "
                                 "an option of stride train, too, "
                                 "such as --lr and --weight-decay. The names may be shortened.\n\n"
                                 "Their [options with their defaults]:\n";

static void print_kinds_help(FILE *to)
{
    put_wrapped(to, kinds_help, 0);
    kinds_put(to);
}

/* ---- the manual page ----------------------------------------------------------------------------- */

/* Escapes text for roff: dots and quotes at the beginning of lines, backslashes, minus signs. */
static void put_roff(FILE *to, const char *text)
{
    for (const char *at = text; *at; at++) {
        if ((at == text || at[-1] == '\n') && (*at == '.' || *at == '\'')) fputs("\\&", to);
        if (*at == '\\') fputs("\\e", to);
        else if (*at == '-') fputs("\\-", to);
        else if (*at == '\n' && at[1] == '\n') fputs("\n.PP", to);
        else fputc(*at, to);
    }
    if (text[0] && text[strlen(text) - 1] != '\n') fputc('\n', to);
}

static void put_verbatim(FILE *to, const char *text)
{
    fputs(".nf\n", to);
    put_roff(to, text);
    fputs(".fi\n", to);
}

static void put_subcommand(FILE *to, const subcommand *c)
{
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    if (memory) subcommand_help(c, memory);
    if (memory) fclose(memory);
    fprintf(to, ".SH \"STRIDE %s\"\n", c->name);
    if (text) put_verbatim(to, text);
    free(text);
}

static void print_manual(FILE *to)
{
    fprintf(to,
            ".TH STRIDE 1 \"\" \"stride %s\"\n.SH NAME\nstride \\- train, evaluate and use small neural "
            "networks\n",
            ST_VERSION);
    fputs(
        ".SH SYNOPSIS\n.B stride\n.I subcommand\n.RI [ options ]\n.br\n.B stride help\n.RI [ subcommand ]\n",
        to);
    for (const subcommand *const *c = subcommands; *c; c++) put_subcommand(to, *c);
    fputs(".SH NETWORKS\n", to);
    put_roff(to, network_help);
    fputs(".PP\n", to);
    put_verbatim(to, network_example);
    fputs(".SH \"EXIT STATUS\"\n0: success. 1: failure, with an error message on standard error. 2: wrong "
          "command line.\n",
          to);
}

/* ---- the subcommand ---------------------------------------------------------------------------- */

static int run_help(void *settings, int count, char **operands)
{
    (void)settings;
    if (count == 0) print_usage(stdout);
    else if (strcmp(operands[0], "network") == 0) print_network_help(stdout);
    else if (strcmp(operands[0], "training") == 0) print_kinds_help(stdout);
    else if (strcmp(operands[0], "man") == 0) print_manual(stdout);
    else if (choice_of(command_help.words, operands[0]) < 0)
        return subcommand_refuse_word(&command_help, operands[0]);
    else subcommand_help(subcommand_named(operands[0]), stdout);
    return 0;
}

const subcommand command_help = {
    .name = "help",
    .what = "Explains a subcommand, how to write networks, or losses, optimizers and schedules.",
    .usage = "[SUBCOMMAND|network|training|man]",
    .details = "man: the manual page, for man -l.",
    .examples = "  stride help network\n"
                "  stride help man | man -l -\n",
    .words =
        "train|eval|predict|summary|export|bench-model|gradcheck|report|completion|help|network|training|man",
    .most = 1,
    .run = run_help,
};

/* ---- completion -------------------------------------------------------------------------------- */

/* Scripts, which ask `stride complete` for candidates. */
static const struct {
    const char *shell, *text;
} shells[] = {
    { "bash",
      "# source <(stride completion bash)\n"
      "_stride() { local IFS=$'\\n'; COMPREPLY=($(\"$1\" complete \"${COMP_WORDS[@]:1:COMP_CWORD}\")); }\n"
      "complete -o default -F _stride stride\n" },
    { "zsh", "#compdef stride\n"
             "_stride() { local -a c; c=(${(f)\"$(${words[1]} complete ${words[2,CURRENT]})\"}); "
             "(( $#c )) && compadd -a c || _files }\n"
             "if [ \"$funcstack[1]\" = _stride ]; then _stride \"$@\"; else compdef _stride stride; fi\n" },
    { "fish", "# stride completion fish | source\n"
              "complete -c stride -a '(stride complete (commandline -opc)[2..] (commandline -ct))'\n" },
};

static int run_completion(void *settings, int count, char **operands)
{
    (void)settings, (void)count;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].shell, operands[0]) == 0) {
            fputs(shells[i].text, stdout);
            return 0;
        }
    return subcommand_refuse_word(&command_completion, operands[0]);
}

/* Bash splits --name=value into three words; the = is removed. */
int complete(int count, char **words)
{
    int kept = 0;
    const char *name = count > 0 ? words[0] : "";
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], "=") != 0 || i + 1 == count) words[kept++] = words[i];
    if (kept > 0 && strcmp(words[kept - 1], "=") == 0) words[kept - 1] += 1; /* "" */
    for (const subcommand *const *c = subcommands; *c; c++)
        if (kept > 1 && strcmp((*c)->name, name) == 0) subcommand_complete(*c, kept - 1, words + 1, stdout);
        else if (kept < 2 && strncmp((*c)->name, name, strlen(name)) == 0) printf("%s\n", (*c)->name);
    if (kept < 2) put_choices(stdout, "--help|--version", name);
    return subcommand_end(&command_completion);
}

const subcommand command_completion = {
    .name = "completion",
    .what = "Prints a script that makes a shell complete subcommands, options and their values.",
    .usage = "bash|zsh|fish",
    .examples = "  source <(stride completion bash)\n"
                "  stride completion fish >~/.config/fish/completions/stride.fish\n",
    .words = "bash|zsh|fish",
    .least = 1,
    .most = 1,
    .run = run_completion,
};
