/* commands.h: the subcommands, each in a file of its own, and what they share. */
#ifndef STRIDE_EXAMPLES_STRIDE_COMMANDS_H
#define STRIDE_EXAMPLES_STRIDE_COMMANDS_H

#include "examples/stride/options.h"
#include "nn/net.h"

extern const subcommand command_train, command_eval, command_predict, command_summary, command_gradcheck,
    command_export, command_bench_model, command_replay, command_report, command_completion, command_help;

extern const subcommand *const subcommands[]; /* all of them, ended by NULL */

/* Runs the rest of the program with so many threads; 0: one for each processor. */
void use_threads(const subcommand *c, long count);

/* clang-format off */
#define THREADS_OPTION(settings)                                                                             \
    { "threads", 't', OPTION_INTEGER, offsetof(settings, threads), "N", NULL,                                \
      "how many; without it one for each processor", 0, 1024 }
/* clang-format on */

/* Prints the candidates of `stride complete WORDS...`; returns the exit status. */
int complete(int count, char **words);

/* The network that a subcommand is about: an operand, --net or --model, and --input where a text does not say
 * it. */
typedef struct net_options {
    const char *net, *model, *input;
} net_options;

/* clang-format off */
#define NET_OPTIONS(settings, m)                                                                             \
    { "net", 'n', OPTION_FILE, offsetof(settings, m.net), "NET",                                             \
      .help = "a network: a file, or a text such as 'conv 32 3x3, dense 10' (stride help network)" },        \
    { "model", 'm', OPTION_FILE, offsetof(settings, m.model), "FILE", .help = "a saved net" },               \
    { "input", 'i', OPTION_TEXT, offsetof(settings, m.input), "CxHxW",                                       \
      .help = "the shape of an image, unless the network begins with it" }
/* clang-format on */

/* The operand, where there is one, becomes `net` or `model`; 0, or 2 with a message unless exactly one is
 * given. */
int net_operand(const subcommand *c, net_options *o, int count, char **operands);

/* That net, built for the batch. NULL with an error. */
st_net *net_given(const net_options *o, ptrdiff_t batch, uint64_t seed);

/* The description of networks as text, in paragraphs, and an example in lines. */
extern const char network_help[], network_example[];

/* The man page, from the same tables. */
void write_manual(FILE *to);

const char *program_version(void); /* "0.1.0" */

/* How the program was called, quoted for a shell; cut if it is long. */
extern char command_line[];

#endif
