/* summary.c: stride summary: a net's layers, memory and metadata. */
#include "examples/stride/commands.h"
#include "examples/stride/model.h"
#include "examples/stride/network.h"
#include "examples/stride/text.h"
#include "nn/check/summary.h"

typedef struct settings {
    net_options subject;
    long batch;
    bool as_text;
} settings;

static int run(void *settings_, int count, char **operands)
{
    (void)count, (void)operands;
    settings *s = settings_;
    if (net_check(&command_summary, &s->subject)) return 2;
    st_net *n = net_given(&s->subject, 0, 0);
    if (n && s->as_text) network_write(n, stdout);
    else if (n) st_net_summary(n, s->batch, stdout);
    for (const st_metadata *note = n && !s->as_text ? n->metadata : NULL; note; note = note->next) {
        text_put_in(stdout, note == n->metadata ? "\n" : "", note->name, ": ");
        text_put_in(stdout, "", note->text, "\n");
    }
    st_net_free(n);
    return 0;
}

static const option_row options[] = {
    NET_OPTIONS,
    { "batch", 'b', OPTION_INTEGER, AT(batch), "N", "64", "samples per batch, for the memory", 1, 65536 },
    { "as-text", 'T', OPTION_FLAG, AT(as_text), .help = "print the network as text (stride help network)" },
    { 0 },
};

const subcommand command_summary = {
    .name = "summary",
    .what =
        "Prints a net's layers with their shapes, parameters and operations, its memory and its metadata.",
    .usage = "MODEL|NET [options]",
    .examples = "  stride summary 'conv 32 3x3, relu, maxpool 2, dense 10' --input 1x28x28\n"
                "  stride summary model.safetensors\n"
                "  stride summary model.safetensors --as-text >layers.net\n",
    .operands = { "model", "net" },
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
