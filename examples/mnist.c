/* mnist.c: LeNet-5 learns to read digits, is tested and saved: the whole of training in one file to copy. */
#define _POSIX_C_SOURCE 200809L
#include <stride.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: mnist [options]\n\n"
    "Trains LeNet-5 on MNIST (in $MNIST_DIR, data/mnist or ../shared/mnist; else on drawn digits),\n"
    "tests it, and saves it. The last line on stdout is the result; progress goes to stderr.\n\n"
    "  -e, --epochs=N    passes over the training set (2)\n"
    "  -b, --batch=N     images a step (64)\n"
    "  -l, --lr=X        peak learning rate of the one-cycle schedule (0.1)\n"
    "  -s, --seed=N      of the initial weights and the order of images (1)\n"
    "  -o, --save=FILE   where the trained net goes (build/mnist.safetensors)\n"
    "  -q, --quiet       no summary, no progress\n"
    "  -h, --help        this text\n";

typedef struct settings {
    double epochs, batch, lr, seed;
    const char *save;
    bool quiet;
} settings;

static double number(const char *option, double least, double most)
{
    char *end;
    double value = strtod(optarg, &end);
    if (end != optarg && !*end && value >= least && value <= most) return value;
    fprintf(stderr, "mnist: --%s: expected a number from %g to %g, not \"%s\"\n", option, least, most,
            optarg);
    exit(2);
}

static settings parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "epochs", required_argument, NULL, 'e' }, { "batch", required_argument, NULL, 'b' },
        { "lr", required_argument, NULL, 'l' },     { "seed", required_argument, NULL, 's' },
        { "save", required_argument, NULL, 'o' },   { "quiet", no_argument, NULL, 'q' },
        { "help", no_argument, NULL, 'h' },         { 0 },
    };
    settings s = { .epochs = 2, .batch = 64, .lr = 0.1, .seed = 1, .save = "build/mnist.safetensors" };
    for (int c; (c = getopt_long(argc, argv, "e:b:l:s:o:qh", options, NULL)) != -1;) switch (c) {
        case 'e': s.epochs = number("epochs", 1, 10000); break;
        case 'b': s.batch = number("batch", 1, 60000); break;
        case 'l': s.lr = number("lr", 1e-9, 1e3); break;
        case 's': s.seed = number("seed", 0, 0x1p53); break;
        case 'o': s.save = optarg; break;
        case 'q': s.quiet = true; break;
        case 'h': fputs(usage, stdout); exit(fflush(stdout) ? (perror("mnist: stdout"), 1) : 0);
        default: fputs("try: mnist --help\n", stderr); exit(2);
        }
    if (optind == argc) return s;
    fprintf(stderr, "mnist: unexpected %s; try: mnist --help\n", argv[optind]);
    exit(2);
}

/* "train" or "t10k" of a folder, plain or gzipped; NULL, without an error, if it is not there. */
static st_dataset *idx(const char *folder, const char *part)
{
    char images[4096], labels[4096];
    for (int packed = 0; packed < 2; packed++) {
        snprintf(images, sizeof images, "%s/%s-images-idx3-ubyte%s", folder, part, packed ? ".gz" : "");
        snprintf(labels, sizeof labels, "%s/%s-labels-idx1-ubyte%s", folder, part, packed ? ".gz" : "");
        if (access(images, F_OK) == 0) return st_dataset_idx(images, labels);
    }
    return NULL;
}

/* Returns where the digits are from; NULL with an error. */
static const char *open_digits(st_dataset *set[2])
{
    const char *named = getenv("MNIST_DIR"), *folders[] = { named, "data/mnist", "../shared/mnist" };
    for (int i = named ? 0 : 1; i < (named ? 1 : 3) && !st_error(); i++) {
        st_dataset_free(set[0]);
        if ((set[0] = idx(folders[i], "train")) && (set[1] = idx(folders[i], "t10k"))) return folders[i];
    }
    if (named && !st_error()) st_error_set("MNIST_DIR: %s: MNIST's files are not there", named);
    if (st_error()) return NULL;
    st_dataset_free(set[0]);
    fputs("MNIST not found (looked in data/mnist, ../shared/mnist): drawing digits instead\n", stderr);
    set[0] = st_digits(60000, 1);
    set[1] = st_digits(10000, 2);
    return set[0] && set[1] ? "drawn digits" : NULL;
}

/* clang-format off */
static st_net *lenet5(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28),
        st_conv2d(.out_channels = 6, .kernel = { 5, 5 }, .padding = { 2, 2 }),
        st_relu(),
        st_maxpool(.kernel = { 2, 2 }),
        st_conv2d(.out_channels = 16, .kernel = { 5, 5 }),
        st_relu(),
        st_maxpool(.kernel = { 2, 2 }),
        st_flatten(),
        st_dense(.out_features = 120),
        st_relu(),
        st_dense(.out_features = 84),
        st_relu(),
        st_dense(.out_features = 10));
}
/* clang-format on */

static int run(const settings *s, st_net *n, st_optim *o, st_dataset *set[2])
{
    st_train_result result;
    st_metrics score;
    const char *source = n && o ? open_digits(set) : NULL;
    if (!source || st_file_try(s->save, NULL, NULL)) return -1; /* before it trains, not after */
    if (!s->quiet) {
        printf("%td images to train on, %td to test on: %s\n\n", set[0]->count, set[1]->count, source);
        if (st_net_summary(n, (ptrdiff_t)s->batch, stdout) || fflush(stdout)) return -1;
    }
    st_train_options options = { .epochs = (int)s->epochs,
                                 .batch = (int)s->batch,
                                 .loss = st_cross_entropy(.label_smoothing = 0.05),
                                 .optim = o,
                                 .schedule = st_one_cycle_lr(.pct_start = 0.2),
                                 .seed = (uint64_t)s->seed,
                                 .callbacks = { st_progress(s->quiet ? NULL : stderr) } };
    if (st_train_run(n, set[0], options, &result)) return -1;
    if (st_evaluate(n, set[1], st_cross_entropy(), &score)) return -1;
    if (st_net_set_metadata(n, "data", source) || st_net_save(n, s->save)) return -1;
    printf("test accuracy=%.4f loss=%.4f seconds=%.2f images_per_second=%.0f\n", score.accuracy, score.loss,
           result.seconds, result.samples_per_second);
    return fflush(stdout);
}

int main(int argc, char **argv)
{
    settings s = parse(argc, argv);
    st_dataset *set[2] = { NULL, NULL }; /* to train on, to test on */
    st_net *n = lenet5();
    st_optim *o = st_sgd(.lr = s.lr, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4);
    int status = run(&s, n, o, set);
    if (status) fprintf(stderr, "mnist: %s\n", st_error() ? st_error() : strerror(errno));
    st_dataset_free(set[0]);
    st_dataset_free(set[1]);
    st_optim_free(o);
    st_net_free(n);
    return status ? 1 : 0;
}
