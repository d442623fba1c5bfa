/* replay.c: stride replay: repeats the step at which a run ended. */
#include "examples/stride/commands.h"
#include "examples/stride/model.h"
#include "nn/watch/anomaly.h"

#include <stddef.h>

typedef struct settings {
    long threads;
} settings;

static int run(const void *settings_, int count, char **operands)
{
    const settings *s = settings_;
    model m;
    (void)count;
    use_threads(&command_replay, s->threads);
    if (model_open(&m, operands[0], 1) == 0) {
        if (st_train_replay(operands[0], m.loss, (st_net_known){ 0 }) == 0)
            printf("%s: repeated, the step is finite\n", operands[0]);
        model_close(&m);
    }
    return subcommand_end(&command_replay);
}

static const option_row options[] = {
    THREADS_OPTION(settings),
    { 0 },
};

const subcommand command_replay = {
    .name = "replay",
    .what = "Repeats the step that produced a NaN or an infinity, and names the layer.",
    .usage = "FILE",
    .details = "FILE is written by stride train --anomaly. The exit status is 1 if the step produces a NaN "
               "or an infinity again.",
    .examples = "  stride replay anomaly.safetensors\n"
                "  stride replay anomaly.safetensors --threads 1\n",
    .least = 1,
    .most = 1,
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
