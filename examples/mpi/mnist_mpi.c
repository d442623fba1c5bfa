/* mnist_mpi.c: a network learns to read digits at several ranks, which mpirun starts. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/arguments.h"
#include "examples/stride/mnist.h"
#include "examples/stride/network.h"
#include "nn/ranks/mpi.h"
#include <stride.h>

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>

static const char lenet5[] = "conv 6 5x5 padding=2, relu, maxpool 2, conv 16 5x5, relu, maxpool 2,"
                             "dense 120, relu, dense 84, relu, dense 10";

static const char usage[] =
    "usage: mpirun -n RANKS mnist_mpi [options]\n"
    "\n"
    "Trains a network on MNIST, each rank on its part of every batch, tests it, and saves it.\n"
    "MNIST is looked for as by mnist. Rank 0 alone writes; the last line on stdout is the\n"
    "result. Weights depend on the micro-batches, and not on the ranks that divide them.\n"
    "\n"
    "  -n, --net=NET          a file or a text, as stride takes it (LeNet-5)\n"
    "  -e, --epochs=N         times through the training set (2)\n"
    "  -b, --batch=N          images a step, of all ranks (64)\n"
    "  -m, --micro-batches=N  that a batch is cut into; a multiple of the ranks (as many)\n"
    "  -l, --lr=X             peak learning rate of the one-cycle schedule (0.1)\n"
    "  -s, --seed=N           of initial weights and the order of images (1)\n"
    "  -u, --unordered        gradients are added up by MPI's own sum\n"
    "  -o, --save=FILE        where the trained net goes (build/mnist_mpi.safetensors)\n"
    "  -c, --checkpoint=FILE  written every 100 steps; a run goes on from it, if it is there\n"
    "  -q, --quiet            no progress\n"
    "  -h, --help             this text\n";

typedef struct settings {
    int epochs, micro_batches;
    ptrdiff_t batch;
    double lr;
    uint64_t seed;
    const char *net, *save, *checkpoint;
    bool unordered, quiet;
} settings;

static settings parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "net", required_argument, NULL, 'n' },
        { "epochs", required_argument, NULL, 'e' },
        { "batch", required_argument, NULL, 'b' },
        { "micro-batches", required_argument, NULL, 'm' },
        { "lr", required_argument, NULL, 'l' },
        { "seed", required_argument, NULL, 's' },
        { "unordered", no_argument, NULL, 'u' },
        { "save", required_argument, NULL, 'o' },
        { "checkpoint", required_argument, NULL, 'c' },
        { "quiet", no_argument, NULL, 'q' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    settings s = {
        .net = lenet5, .epochs = 2, .batch = 64, .lr = 0.1, .seed = 1, .save = "build/mnist_mpi.safetensors"
    };
    for (int c; (c = getopt_long(argc, argv, "n:e:b:m:l:s:uo:c:qh", options, NULL)) != -1;) switch (c) {
        case 'n': s.net = optarg; break;
        case 'e': s.epochs = (int)argument_integer("--epochs", optarg, 1, 10000); break;
        case 'b': s.batch = argument_integer("--batch", optarg, 1, 60000); break;
        case 'm': s.micro_batches = (int)argument_integer("--micro-batches", optarg, 1, 60000); break;
        case 'l': s.lr = argument_number("--lr", optarg, 1e-9, 1e3); break;
        case 's': s.seed = (uint64_t)argument_integer("--seed", optarg, 0, LONG_MAX); break;
        case 'u': s.unordered = true; break;
        case 'o': s.save = optarg; break;
        case 'c': s.checkpoint = optarg; break;
        case 'q': s.quiet = true; break;
        case 'h': fputs(usage, stdout); exit(finish("mnist_mpi", 0));
        default: fputs("try: mnist_mpi --help\n", stderr); exit(2);
        }
    if (optind == argc) return s;
    fprintf(stderr, "mnist_mpi: \"%s\" is no option; try: mnist_mpi --help\n", argv[optind]);
    exit(2);
}

static int learn(st_net *n, const mnist *digits, const settings *s, const st_comm *all,
                 st_train_result *result)
{
    st_optim *o = st_sgd(.lr = s->lr, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4);
    st_callback kept = { 0 };
    if (s->checkpoint) kept = st_checkpoint(.path = s->checkpoint, .every = 100, .resume = true);
    int status = st_train(n, digits->train, .epochs = s->epochs, .batch = (int)s->batch,
                          .loss = st_cross_entropy(.label_smoothing = 0.05), .optim = o,
                          .schedule = st_one_cycle_lr(.pct_start = 0.2), .seed = s->seed,
                          .micro_batches = s->micro_batches, .group = st_group_of(all, s->unordered),
                          .callbacks = { st_progress(s->quiet ? NULL : stderr), kept }, .result = result);
    st_optim_free(o);
    return status;
}

/* Rank 0 finds or downloads the images first; the others then find them, too. */
static int find(mnist *digits, const settings *s, const st_comm *all)
{
    if (all->rank == 0 && mnist_find(digits, s->quiet ? NULL : stderr) == 0) argument_writable(s->save);
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
    if (st_net_set_metadata(n, "data", digits->drawn ? "drawn digits" : "MNIST") || st_net_save(n, s->save))
        return -1;
    if (!s->quiet) printf("saved %s\n", s->save);
    printf("test accuracy=%.4f loss=%.4f seconds=%.2f images_per_second=%.0f ranks=%d\n", score.accuracy,
           score.loss, result->seconds, result->samples_per_second, all->ranks);
    return 0;
}

int main(int argc, char **argv)
{
    settings s = parse(argc, argv);
    mnist digits = { 0 };
    st_train_result result;
    st_net *n = network_read(s.net, ST_SHAPE(1, 28, 28));
    const st_comm *all = st_mpi_begin();
    int status = all && find(&digits, &s, all) == 0 && learn(n, &digits, &s, all, &result) == 0 ? 0 : 1;
    if (status == 0 && all->rank == 0) status = tell(n, &digits, &s, all, &result) ? 1 : 0;
    if (status && (!all || all->rank == 0)) report_error("mnist_mpi");
    mnist_free(&digits);
    st_net_free(n);
    st_mpi_end(all);
    return finish("mnist_mpi", status);
}
