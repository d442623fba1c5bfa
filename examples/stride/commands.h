/* commands.h: the subcommands, each in a file of its own, and what they share. */
#ifndef STRIDE_EXAMPLES_STRIDE_COMMANDS_H
#define STRIDE_EXAMPLES_STRIDE_COMMANDS_H

#include "examples/stride/options.h"
#include "nn/net.h"

extern const subcommand command_train, command_eval, command_predict, command_summary, command_gradcheck,
    command_export, command_bench_model, command_replay, command_completion, command_help;

extern const subcommand *const subcommands[]; /* all of them, ended by NULL */

/* Runs the rest of the program with so many threads; 0: as many as there are. */
void use_threads(long count);

/* A saved net, or one of a text (network.h), built for the batch either way. `input` is CxHxW, or NULL where the
 * text says it. NULL with an error. */
net *net_given(const char *given, const char *input, ptrdiff_t batch, uint64_t seed);

/* What there is to say about networks as text, in paragraphs, and an example in lines. */
extern const char network_help[], network_example[];

/* The man page, from the same tables. */
void write_manual(FILE *to);

const char *program_version(void); /* "0.1.0" */

#endif
