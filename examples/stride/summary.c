/* summary.c: stride summary: what a net is and what it takes. */
#include "examples/stride/commands.h"
#include "examples/stride/model.h"
#include "examples/stride/network.h"

typedef struct settings {
    const char *input;
    long batch;
    bool as_text;
} settings;

net *net_given(const char *given, const char *input, ptrdiff_t batch, uint64_t seed)
{
    if (model_named(given)) return net_load(given, batch, (net_known){ 0 });
    shape s = { 0 };
    if (input && network_size(input, &s)) {
        error_within("--input: ");
        return NULL;
    }
    net *n = network_read(given, s);
    if (!n || net_build(n, batch, seed) == 0) return n;
    net_free(n);
    return NULL;
}

static int run(const void *settings_, int count, char **operands)
{
    const settings *s = settings_;
    (void)count;
    net *n = net_given(operands[0], s->input, s->batch, 1);
    if (n && s->as_text) network_write(n, stdout);
    else if (n) net_summary(n, s->batch, stdout);
    for (const net_note *note = n && !s->as_text ? n->notes : NULL; note; note = note->next)
        printf("%s%s: %s\n", note == n->notes ? "\n" : "", note->name, note->text);
    net_free(n);
    return subcommand_end(&command_summary);
}

static const option_row options[] = {
    { "input", 'i', OPTION_TEXT, offsetof(settings, input), "CxHxW",
      .help = "the shape of an image, where the network does not begin with it" },
    { "batch", 'b', OPTION_INTEGER, offsetof(settings, batch), "N", "64", "images that memory is counted for",
      1, 65536 },
    { "as-text", 'T', OPTION_FLAG, offsetof(settings, as_text),
      .help = "print it as a network's text (stride help network)" },
    { 0 },
};

const subcommand command_summary = {
    .name = "summary",
    .what =
        "Prints a net's layers with their shapes, parameters and operations, and the memory that it takes.",
    .usage = "MODEL|NET [options]",
    .examples = "  stride summary 'conv 32 3x3, relu, maxpool 2, dense 10' --input 1x28x28\n"
                "  stride summary model.safetensors --as-text\n",
    .least = 1,
    .most = 1,
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
