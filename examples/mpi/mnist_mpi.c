/* mnist_mpi.c: a network learns to read digits at several ranks, which mpirun starts. */
#include "examples/stride/mnist.h"
#include "examples/stride/network.h"
#include "examples/stride/options.h"
#include "examples/stride/paths.h"
#include "nn/ranks/mpi.h"
#include <stride.h>

#define LENET5                                                                                               \
    "conv 6 5x5 padding=2, relu, maxpool 2, conv 16 5x5, relu, maxpool 2, dense 120, relu, dense 84, relu, " \
    "dense 10"

typedef struct settings {
    long epochs, batch, micro_batches, seed;
    double lr;
    const char *net, *save, *checkpoint;
    bool unordered, quiet;
} settings;

static int learn(st_net *n, const mnist *digits, const settings *s, const st_comm *all,
                 st_train_result *result)
{
    st_optim *o = st_sgd(.lr = s->lr, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4);
    st_callback kept = { 0 };
    if (s->checkpoint) kept = st_checkpoint(.path = s->checkpoint, .every = 100, .resume = true);
    int status = st_train(n, digits->train, .epochs = (int)s->epochs, .batch = (int)s->batch,
                          .loss = st_cross_entropy(.label_smoothing = 0.05), .optim = o,
                          .schedule = st_one_cycle_lr(.pct_start = 0.2), .seed = (uint64_t)s->seed,
                          .micro_batches = (int)s->micro_batches, .ranks = all, .unordered = s->unordered,
                          .callbacks = { st_progress(s->quiet ? NULL : stderr), kept }, .result = result);
    st_optim_free(o);
    return status;
}

/* Rank 0 finds or downloads the images first; the others then find them, too. */
static int find(mnist *digits, const settings *s, const st_comm *all)
{
    if (all->rank == 0 && mnist_find(digits, s->quiet ? NULL : stderr) == 0) path_writable(s->save);
    if (st_comm_agree(all)) return -1;
    if (all->rank > 0) mnist_find(digits, NULL);
    return st_comm_agree(all);
}

/* Done once, by rank 0. */
static int tell(st_net *n, const mnist *digits, const settings *s, const st_comm *all,
                const st_train_result *result)
{
    st_metrics score;
    if (st_evaluate(n, digits->test, st_cross_entropy(), &score)) return -1;
    if (st_net_set_metadata(n, "data", digits->drawn ? DRAWN_DIGITS : "MNIST") || st_net_save(n, s->save))
        return -1;
    if (!s->quiet) printf("saved %s\n", s->save);
    printf("test accuracy=%.4f loss=%.4f seconds=%.2f images_per_second=%.0f ranks=%d\n", score.accuracy,
           score.loss, result->seconds, result->samples_per_second, all->ranks);
    return 0;
}

static int run(void *settings_, int count, char **operands)
{
    (void)count, (void)operands;
    const settings *s = settings_;
    mnist digits = { 0 };
    st_train_result result;
    st_net *n = network_read(s->net, ST_SHAPE(1, 28, 28));
    const st_comm *all = st_mpi_begin();
    int status = all && find(&digits, s, all) == 0 && learn(n, &digits, s, all, &result) == 0 ? 0 : 1;
    if (status == 0 && all->rank == 0) status = tell(n, &digits, s, all, &result) ? 1 : 0;
    if (st_error() && (!all || all->rank == 0)) status = 0; /* the caller reports it */
    mnist_free(&digits);
    st_net_free(n);
    st_mpi_end(all);
    return status;
}

static const option_row options[] = {
    { "net", 'n', OPTION_TEXT, AT(net), "NET", LENET5, "a file or a text, as stride takes it" },
    { "epochs", 'e', OPTION_INTEGER, AT(epochs), "N", "2", "passes over the training set", 1, 10000 },
    { "batch", 'b', OPTION_INTEGER, AT(batch), "N", "64", "images per step, of all ranks", 1, 60000 },
    { "micro-batches", 'm', OPTION_INTEGER, AT(micro_batches), "N", NULL,
      "per batch, a multiple of the ranks; default: as many", 1, 60000 },
    { "lr", 'l', OPTION_NUMBER, AT(lr), "X", "0.1", "peak learning rate of the one-cycle schedule", 1e-9,
      1e3 },
    { "seed", 's', OPTION_INTEGER, AT(seed), "N", "1", "seed of parameters and the order of images", 0,
      1e15 },
    { "unordered", 'u', OPTION_FLAG, AT(unordered), .help = "gradients are added up by MPI's own sum" },
    { "save", 'o', OPTION_TEXT, AT(save), "FILE", "build/mnist_mpi.safetensors", "the trained net" },
    { "checkpoint", 'c', OPTION_TEXT, AT(checkpoint), "FILE",
      .help = "written every 100 steps; a run resumes from it, if it exists" },
    { "quiet", 'q', OPTION_FLAG, AT(quiet), .help = "print the result only" },
    { 0 },
};

static const subcommand command = {
    .program = "mnist_mpi",
    .name = "",
    .what = "Trains a network on MNIST, each rank on its part of every batch, tests it, and saves it.",
    .usage = "[options]",
    .details =
        "MNIST is looked for as by stride. Rank 0 alone writes; the last line on stdout is the result. "
        "Weights depend on the micro-batches, but not on the number of ranks that divides them.",
    .examples = "  mpirun -n 2 mnist_mpi --epochs 1\n",
    .options = options,
    .size = sizeof(settings),
    .run = run,
};

int main(int argc, char **argv)
{
    return subcommand_run(&command, argc, argv);
}
