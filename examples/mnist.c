/* mnist.c: the main job: a small convolutional network learns to read digits. */
#define _POSIX_C_SOURCE 200809L
#include "examples/arguments.h"
#include "examples/mnist_data.h"
#include "examples/stride/log.h"
#include "nn/stride.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>

static const char usage[] =
    "usage: mnist [options]\n"
    "\n"
    "Trains LeNet-5 on MNIST, tests it, and saves it. MNIST is looked for in $MNIST_DIR,\n"
    "data/mnist and ../shared/mnist, else downloaded; without a network, digits are drawn.\n"
    "The last line on stdout is the result; progress goes to stderr.\n"
    "\n"
    "  -e, --epochs=N    times through the training set (2)\n"
    "  -b, --batch=N     images a step (64)\n"
    "  -l, --lr=X        peak learning rate of the one-cycle schedule (0.1)\n"
    "  -s, --seed=N      of initial weights and the order of images (1)\n"
    "  -o, --save=FILE   where the trained net goes (build/mnist.safetensors)\n"
    "  -L, --log=FILE    a line for each epoch, .csv or .jsonl\n"
    "  -q, --quiet       no summary, no progress\n"
    "  -h, --help        this text\n";

typedef struct settings {
    int epochs;
    ptrdiff_t batch;
    double lr;
    uint64_t seed;
    const char *save, *log;
    bool quiet;
} settings;

static settings parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "epochs", required_argument, NULL, 'e' },
        { "batch", required_argument, NULL, 'b' },
        { "lr", required_argument, NULL, 'l' },
        { "seed", required_argument, NULL, 's' },
        { "save", required_argument, NULL, 'o' },
        { "log", required_argument, NULL, 'L' },
        { "quiet", no_argument, NULL, 'q' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    settings s = { .epochs = 2, .batch = 64, .lr = 0.1, .seed = 1, .save = "build/mnist.safetensors" };
    for (int c; (c = getopt_long(argc, argv, "e:b:l:s:o:L:qh", options, NULL)) != -1;) switch (c) {
        case 'e': s.epochs = (int)argument_integer("--epochs", optarg, 1, 10000); break;
        case 'b': s.batch = argument_integer("--batch", optarg, 1, 60000); break;
        case 'l': s.lr = argument_number("--lr", optarg, 1e-9, 1e3); break;
        case 's': s.seed = (uint64_t)argument_integer("--seed", optarg, 0, LONG_MAX); break;
        case 'o': s.save = optarg; break;
        case 'L': s.log = optarg; break;
        case 'q': s.quiet = true; break;
        case 'h': fputs(usage, stdout); exit(finish("mnist", 0));
        default: fputs("try: mnist --help\n", stderr); exit(2);
        }
    if (optind == argc) return s;
    fprintf(stderr, "mnist: \"%s\" is no option; try: mnist --help\n", argv[optind]);
    exit(2);
}

/* clang-format off */
static net *lenet5(void)
{
    return net_new(SHAPE(1, 28, 28),
        layer_conv2d((conv2d){ .out_channels = 6, .kernel = { 5, 5 }, .padding = { 2, 2 } }),
        layer_relu(),
        layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
        layer_conv2d((conv2d){ .out_channels = 16, .kernel = { 5, 5 } }),
        layer_relu(),
        layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
        layer_flatten(),
        layer_dense((dense){ .out_features = 120 }),
        layer_relu(),
        layer_dense((dense){ .out_features = 84 }),
        layer_relu(),
        layer_dense((dense){ .out_features = 10 }));
}
/* clang-format on */

static bool write_line(const train_report *r, void *log)
{
    return !log || log_epoch(log, r) == 0;
}

static int learn(net *n, const mnist *digits, const settings *s, train_result *result)
{
    epoch_log *log = s->log ? log_open(s->log) : NULL;
    if (s->log && !log) return -1;
    optim *o = optim_sgd((sgd){ .lr = s->lr, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4 });
    int status = train_run(n, digits->train,
                           (train){ .epochs = s->epochs,
                                    .batch = s->batch,
                                    .seed = s->seed,
                                    .loss = loss_cross_entropy(0.05),
                                    .optim = o,
                                    .schedule = schedule_one_cycle((one_cycle){ .rise = 0.2 }),
                                    .callback = write_line,
                                    .context = log,
                                    .progress = s->quiet ? NULL : stderr },
                           result);
    optim_free(o);
    return log_close(log) ? -1 : status;
}

int main(int argc, char **argv)
{
    settings s = parse(argc, argv);
    mnist digits = { 0 };
    train_result result;
    train_score score;
    int status = 1;
    net *n = lenet5();
    if (!n || mnist_find(&digits, stderr) || argument_writable(s.save)) goto failed;
    if (!s.quiet) {
        printf("%td images to train on, %td to test on: %s\n\n", digits.train->count, digits.test->count,
               digits.source);
        if (net_summary(n, s.batch, stdout)) goto failed;
        printf("\n");
        fflush(stdout);
    }
    if (learn(n, &digits, &s, &result)) goto failed;
    if (train_evaluate(n, digits.test, loss_cross_entropy(0), &score)) goto failed;
    if (net_set_note(n, "data", digits.drawn ? "drawn digits" : "MNIST") || net_save(n, s.save)) goto failed;
    if (!s.quiet) printf("saved %s\n", s.save);
    printf("test accuracy=%.4f loss=%.4f seconds=%.2f images_per_second=%.0f\n", score.accuracy, score.loss,
           result.seconds, result.images_per_second);
    status = 0;
failed:
    if (status) report_error("mnist");
    mnist_free(&digits);
    net_free(n);
    return finish("mnist", status);
}
