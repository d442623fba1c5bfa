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

int net_check(const subcommand *c, const net_options *o)
{
    if (o->net && o->model) return subcommand_refuse(c, "a network is given more than once");
    if (o->net || o->model) return 0;
    return subcommand_refuse(c, "no network: a saved net, a file, or a text such as 'dense 10'");
}

st_net *net_given(const net_options *o, ptrdiff_t batch, uint64_t seed)
{
    const st_net_load_options options = { .batch = batch, .plan_only = batch == 0 };
    if (o->model) return model_load(o->model, options);
    st_shape s = { 0 };
    if (o->input && network_size(o->input, &s)) {
        st_error_within("--input: ");
        return NULL;
    }
    st_net *n = network_read(o->net, s);
    if (!n || batch == 0 || st_net_build(n, batch, seed) == 0) return n;
    st_net_free(n);
    return NULL;
}

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
