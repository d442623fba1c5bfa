/* mnist_best.c: how far it goes in ten minutes: a wider net, distorted images, and as many epochs as fit. */
#define _POSIX_C_SOURCE 200809L
#include "examples/arguments.h"
#include "examples/curve.h"
#include "examples/mnist_data.h"
#include "examples/stride/history.h"
#include "nn/stride.h"

#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

static const char usage[] =
    "usage: mnist_best [options]\n"
    "\n"
    "Trains a wider net than mnist does, on images that are turned, scaled, sheared and shifted\n"
    "anew in each epoch, for a number of epochs that fits the time; tests it, and saves the epoch\n"
    "that did best on images held out from training. MNIST is looked for as mnist does; where\n"
    "there is none, digits are drawn. The last line on stdout is the result.\n"
    "\n"
    "  -m, --minutes=X   how long, at the speed of the first steps (10)\n"
    "  -e, --epochs=N    times through the training set, whatever the time\n"
    "  -b, --batch=N     images a step (64)\n"
    "  -l, --lr=X        peak learning rate of the one-cycle schedule (0.1)\n"
    "  -w, --width=N     channels of the first two convolutions (32)\n"
    "  -k, --held-out=N  training images that choose the epoch instead (2000)\n"
    "  -s, --seed=N      of initial weights, the order of images and their distortion (1)\n"
    "  -o, --save=FILE   where the best net goes (build/mnist_best.safetensors)\n"
    "  -L, --log=FILE    a line for each epoch, .csv or .jsonl (build/mnist_best.csv)\n"
    "  -g, --svg=FILE    the curves of loss and error (build/mnist_best.svg)\n"
    "  -q, --quiet       no summary, no progress\n"
    "  -h, --help        this text\n";

enum {
    MOST_EPOCHS = 1000,
    TRIAL_STEPS = 24 /* that the speed is measured on, after as many that warm up */
};

typedef struct settings {
    double minutes, lr;
    int epochs, width; /* epochs 0: what fits */
    ptrdiff_t batch, held_out;
    uint64_t seed;
    const char *save, *log, *svg;
    bool quiet;
} settings;

static settings parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "minutes", required_argument, NULL, 'm' },
        { "epochs", required_argument, NULL, 'e' },
        { "batch", required_argument, NULL, 'b' },
        { "lr", required_argument, NULL, 'l' },
        { "width", required_argument, NULL, 'w' },
        { "held-out", required_argument, NULL, 'k' },
        { "seed", required_argument, NULL, 's' },
        { "save", required_argument, NULL, 'o' },
        { "log", required_argument, NULL, 'L' },
        { "svg", required_argument, NULL, 'g' },
        { "quiet", no_argument, NULL, 'q' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    settings s = { .minutes = 10,
                   .lr = 0.1,
                   .width = 32,
                   .batch = 64,
                   .held_out = 2000,
                   .seed = 1,
                   .save = "build/mnist_best.safetensors",
                   .log = "build/mnist_best.csv",
                   .svg = "build/mnist_best.svg" };
    for (int c; (c = getopt_long(argc, argv, "m:e:b:l:w:k:s:o:L:g:qh", options, NULL)) != -1;) switch (c) {
        case 'm': s.minutes = argument_number("--minutes", optarg, 0.01, 1e5); break;
        case 'e': s.epochs = (int)argument_integer("--epochs", optarg, 1, MOST_EPOCHS); break;
        case 'b': s.batch = argument_integer("--batch", optarg, 2, 60000); break;
        case 'l': s.lr = argument_number("--lr", optarg, 1e-9, 1e3); break;
        case 'w': s.width = (int)argument_integer("--width", optarg, 1, 512); break;
        case 'k': s.held_out = argument_integer("--held-out", optarg, 1, 59000); break;
        case 's': s.seed = (uint64_t)argument_integer("--seed", optarg, 0, LONG_MAX); break;
        case 'o': s.save = optarg; break;
        case 'L': s.log = optarg; break;
        case 'g': s.svg = optarg; break;
        case 'q': s.quiet = true; break;
        case 'h': fputs(usage, stdout); exit(finish("mnist_best", 0));
        default: fputs("try: mnist_best --help\n", stderr); exit(2);
        }
    if (optind == argc) return s;
    fprintf(stderr, "mnist_best: \"%s\" is no option; try: mnist_best --help\n", argv[optind]);
    exit(2);
}

/* ---- the net --------------------------------------------------------------------------------- */

static layer *convolution(int channels, int padding)
{
    return layer_sequence(
        layer_conv2d((conv2d){
            .out_channels = channels, .kernel = { 3, 3 }, .padding = { padding, padding }, .no_bias = true }),
        layer_batchnorm((batchnorm){ 0 }), layer_relu());
}

/* clang-format off */
static net *wide(int width)
{
    return net_new(SHAPE(1, 28, 28),
        convolution(width, 0),                                   /* [w, 26, 26] */
        convolution(width, 0),                                   /* [w, 24, 24] */
        layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
        convolution(2 * width, 1),                               /* [2w, 12, 12] */
        convolution(2 * width, 1),
        layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
        convolution(4 * width, 1),                               /* [4w, 6, 6] */
        layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
        layer_flatten(),                                         /* [36w] */
        layer_dropout(0.3),
        layer_dense((dense){ .out_features = 10 }));
}
/* clang-format on */

/* ---- the time -------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What is held back for measuring, testing and a machine that is slower at times. */
static const double reserve = 0.05;

/* Images a second, of a net of its own, which it leaves nothing behind of. */
static double speed(const data *training, const settings *s)
{
    ptrdiff_t count = TRIAL_STEPS * s->batch < training->count ? TRIAL_STEPS * s->batch : training->count;
    net *n = wide(s->width);
    data *few = data_slice(training, 0, count);
    optim *o = optim_sgd((sgd){ .lr = 1e-4, .momentum = 0.9, .nesterov = true });
    train_result r = { 0 };
    for (int k = 0; k < 2 && few; k++)
        train_run(n, few, (train){ .batch = s->batch, .loss = loss_cross_entropy(0), .optim = o }, &r);
    optim_free(o), data_free(few), net_free(n);
    return r.images_per_second;
}

/* How much of a training set fits: all of it some times, or a part of it once. */
typedef struct plan {
    int epochs;
    ptrdiff_t count;
} plan;

static plan what_fits(const data *training, const settings *s, double began)
{
    if (s->epochs > 0) return (plan){ s->epochs, training->count };
    double images_per_second = speed(training, s);
    double left = (1 - reserve) * 60 * s->minutes - (now() - began);
    double images = fmax(left * images_per_second, (double)s->batch),
           epochs = images / (double)training->count;
    if (epochs < 1) return (plan){ 1, (ptrdiff_t)images };
    return (plan){ epochs < MOST_EPOCHS ? (int)epochs : MOST_EPOCHS, training->count };
}

/* ---- learning -------------------------------------------------------------------------------- */

/* When the time is up; the epoch that sees it is the last. */
typedef struct watched {
    history history;
    double ends;
} watched;

static bool note(const train_report *r, void *context)
{
    watched *w = context;
    return history_note(r, &w->history) && now() < w->ends;
}

static int learn(net *n, const data *training, const data *held_out, int epochs, const settings *s,
                 watched *w, train_result *result)
{
    optim *o = optim_sgd((sgd){ .lr = s->lr, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4 });
    int status = train_run(n, training,
                           (train){ .epochs = epochs,
                                    .batch = s->batch,
                                    .seed = s->seed,
                                    .loss = loss_cross_entropy(0.05),
                                    .optim = o,
                                    .schedule = schedule_one_cycle((one_cycle){ .rise = 0.2 }),
                                    .validation = held_out,
                                    .patience = epochs, /* never stops, ends with the best */
                                    .callback = note,
                                    .context = w,
                                    .progress = s->quiet ? NULL : stderr },
                           result);
    optim_free(o);
    return status;
}

/* Errors in percent. */
static int show(const history *h, const settings *s)
{
    static double training_loss[MOST_EPOCHS], held_out_loss[MOST_EPOCHS];
    static double training_error[MOST_EPOCHS], held_out_error[MOST_EPOCHS];
    for (int i = 0; i < h->count; i++) {
        const train_report *r = &h->epochs[i];
        training_loss[i] = r->training.loss;
        held_out_loss[i] = r->validation.loss;
        training_error[i] = 100 * (1 - r->training.accuracy);
        held_out_error[i] = 100 * (1 - r->validation.accuracy);
    }
    const curve curves[] = {
        { "training", training_error, h->count },
        { "held-out", held_out_error, h->count },
    };
    const curve losses[] = {
        { "training loss", training_loss, h->count },
        { "held-out loss", held_out_loss, h->count },
        { "training error, %", training_error, h->count },
        { "held-out error, %", held_out_error, h->count },
    };
    if (!s->quiet) curve_sketch(stdout, "\nerror, %", curves, 2, 60, 12);
    return curve_svg(s->svg, "Training on distorted images, and images held out", losses, 4);
}

/* Parts of the training images: seen distorted, and held out. */
typedef struct parts {
    data *plain, *distorted, *fitting, *held_out; /* fitting: the part of `distorted` there is time for */
} parts;

static int divide(parts *p, const data *images, const settings *s)
{
    const augment options = { .shear = 8, .rotation = 10, .scale = 0.1, .shift = 2, .seed = s->seed };
    ptrdiff_t count = images->count - s->held_out;
    if (count < s->batch)
        return error_set("%td images, %td of them held out, leave no batch of %td", images->count,
                         s->held_out, s->batch);
    p->plain = data_slice(images, 0, count);
    if (p->plain) p->held_out = data_slice(images, count, s->held_out);
    if (p->held_out) p->distorted = data_augment(p->plain, options);
    return p->distorted ? 0 : -1;
}

static void free_parts(parts *p)
{
    data_free(p->fitting), data_free(p->held_out), data_free(p->distorted), data_free(p->plain);
}

static void begin(net *n, const mnist *digits, const parts *p, const settings *s)
{
    printf("%td images to train on, %td held out, %td to test on: %s\n\n", p->distorted->count, s->held_out,
           digits->test->count, digits->source);
    net_summary(n, s->batch, stdout);
    fflush(stdout);
}

static int end(net *n, const mnist *digits, const train_result *result, const settings *s)
{
    train_score score;
    if (train_evaluate(n, digits->test, loss_cross_entropy(0), &score)) return -1;
    if (net_set_note(n, "data", digits->drawn ? "drawn digits" : "MNIST") || net_save(n, s->save)) return -1;
    if (!s->quiet)
        printf("\nepoch %d is the best; saved %s, %s, %s\n", result->best_epoch, s->save, s->log, s->svg);
    printf("test accuracy=%.4f loss=%.4f seconds=%.2f images_per_second=%.0f\n", score.accuracy, score.loss,
           result->seconds, result->images_per_second);
    return 0;
}

static int run(net *n, const mnist *digits, parts *p, const settings *s, double began)
{
    if (divide(p, digits->train, s)) return -1;
    if (!s->quiet) begin(n, digits, p, s);
    plan fits = what_fits(p->distorted, s, began);
    if (!error_text()) p->fitting = data_slice(p->distorted, 0, fits.count);
    if (error_text()) return -1;
    if (!s->quiet) printf("\nepochs of %td images: %d\n\n", fits.count, fits.epochs);
    fflush(stdout);

    watched w = { .ends = s->epochs ? INFINITY : began + 60 * s->minutes };
    train_result result;
    int status = -1;
    w.history.log = log_open(s->log);
    if (w.history.log && learn(n, p->fitting, p->held_out, fits.epochs, s, &w, &result) == 0)
        status = show(&w.history, s) || end(n, digits, &result, s) ? -1 : 0;
    if (log_close(w.history.log)) status = -1;
    history_free(&w.history);
    return status;
}

int main(int argc, char **argv)
{
    double began = now();
    settings s = parse(argc, argv);
    mnist digits = { 0 };
    parts p = { 0 };
    net *n = wide(s.width);
    bool failed = !n || mnist_find(&digits, stderr) || argument_writable(s.save) ||
                  argument_writable(s.svg) || run(n, &digits, &p, &s, began);
    if (failed) report_error("mnist_best");
    free_parts(&p);
    mnist_free(&digits);
    net_free(n);
    return finish("mnist_best", failed);
}
