/* commands.h: the subcommands, each in its own file, and what they share. */
#ifndef STRIDE_EXAMPLES_STRIDE_COMMANDS_H
#define STRIDE_EXAMPLES_STRIDE_COMMANDS_H

#include "examples/stride/options.h"
#include "nn/net.h"

extern const subcommand command_train, command_eval, command_predict, command_summary, command_gradcheck,
    command_export, command_bench_model, command_report, command_completion, command_help;

extern const subcommand *const subcommands[]; /* all of them, ended by NULL */

/* NULL with a message if there is none of that name. */
const subcommand *subcommand_named(const char *name);

/* Rows for tables of options; settings have the members `threads`, `model`, and a net_options `subject`. */
/* clang-format off */
#define THREADS_OPTION                                                                                       \
    { "threads", 't', OPTION_THREADS, AT(threads), "N", NULL,                                                \
      "number of threads; default: one per processor", 0, 1024 }
#define MODEL_OPTION                                                                                         \
    { "model", 'm', OPTION_TEXT, AT(model), "FILE", MODEL_FILE, "a saved net" }
#define NET_OPTIONS                                                                                          \
    { "net", 'n', OPTION_TEXT, AT(subject.net), "NET",                                                       \
      .help = "a network: a file, or a text such as 'conv 32 3x3, dense 10' (stride help network)" },        \
    { "model", 'm', OPTION_TEXT, AT(subject.model), "FILE", .help = "a saved net" },                         \
    { "input", 'i', OPTION_TEXT, AT(subject.input), "CxHxW",                                                 \
      .help = "the shape of an image, if the network does not begin with it" }
/* clang-format on */

/* Prints the candidates of `stride complete WORDS...`; returns the exit status. */
int complete(int count, char **words);

/* The network given to a subcommand: an operand, --net or --model; --input if the network's text has no
 * shape. */
typedef struct net_options {
    const char *net, *model, *input;
} net_options;

/* 0, or 2 with a message unless exactly one network is given. */
int net_check(const subcommand *c, const net_options *o);

/* Reads that net and builds it for the batch; of 0 samples: only plans it. NULL with an error. */
st_net *net_given(const net_options *o, ptrdiff_t batch, uint64_t seed);

/* Usage and examples, for a command line without a subcommand. */
void put_short_help(FILE *to);

/* The command line, quoted for a shell; cut off if it is long. */
extern char command_line[];

#endif
