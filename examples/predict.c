/* predict.c: a saved net reads a test image, or all of them. */
#define _POSIX_C_SOURCE 200809L
#include "examples/arguments.h"
#include "examples/mnist_data.h"
#include "examples/sketch.h"
#include "nn/stride.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: predict [options] [IMAGE]\n"
    "\n"
    "Draws test image number IMAGE (0) with the probability of each digit that a saved net gives it,\n"
    "and tests the net on all images. The last line on stdout is the result.\n"
    "\n"
    "  -m, --model=FILE  a net saved by mnist (build/mnist.safetensors)\n"
    "  -n, --no-test     the image alone\n"
    "  -h, --help        this text\n";

typedef struct settings {
    const char *model;
    ptrdiff_t image;
    bool test;
} settings;

static settings parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "model", required_argument, NULL, 'm' },
        { "no-test", no_argument, NULL, 'n' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    settings s = { .model = "build/mnist.safetensors", .test = true };
    for (int c; (c = getopt_long(argc, argv, "m:nh", options, NULL)) != -1;) switch (c) {
        case 'm': s.model = optarg; break;
        case 'n': s.test = false; break;
        case 'h': fputs(usage, stdout); exit(finish("predict", 0));
        default: fputs("try: predict --help\n", stderr); exit(2);
        }
    if (optind < argc) s.image = argument_integer("IMAGE", argv[optind++], 0, LONG_MAX);
    if (optind == argc) return s;
    fprintf(stderr, "predict: \"%s\" is one image too many; try: predict --help\n", argv[optind]);
    exit(2);
}

/* Probabilities of the classes: the softmax of the net's output, through its cross-entropy's gradient. */
static int softmax(tensor logits, double *p)
{
    ptrdiff_t classes = tensor_count(logits);
    tensor target = tensor_new(SHAPE(1)), gradient = tensor_new(logits.shape);
    loss_value(loss_cross_entropy(0), logits, target, gradient); /* softmax - onehot(0) */
    for (ptrdiff_t k = 0; k < classes && !error_text(); k++)
        p[k] = (double)*tensor_at(gradient, INDEX(0, k)) + (k == 0);
    tensor_free(target);
    tensor_free(gradient);
    return error_text() ? -1 : 0;
}

static int show(net *n, const data *test, ptrdiff_t image)
{
    static const char *const labels[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" };
    double p[10];
    if (image >= test->count)
        return error_set("image %td of a set of %td; the first is 0", image, test->count);
    if (!shape_equal(n->input, test->x) || !shape_equal(n->output, SHAPE(10)))
        return error_set("the net maps %s to %s, expected %s to [10]", shape_text(n->input).text,
                         shape_text(n->output).text, shape_text(test->x).text);
    tensor x = tensor_new(SHAPE(1, test->x.n[0], test->x.n[1], test->x.n[2])), class = tensor_new(SHAPE(1));
    int status = data_batch(test, NULL, image, 1, x, class);
    tensor y = status ? (tensor){ 0 } : net_forward(n, x, NET_PREDICT);
    if (!tensor_is_null(y) && softmax(y, p) == 0) {
        ptrdiff_t answer;
        tensor_argmax(&answer, y, AXES(1));
        sketch_image(stdout, tensor_select(x, 0, 0), sketch_wants_colour(stdout));
        sketch_bars(stdout, labels, p, 10, 40, (int)answer, sketch_wants_colour(stdout));
        int truth = (int)tensor_item(class);
        printf("image %td is a %d, read as %td%s\n", image, truth, answer, answer == truth ? "" : ": wrong");
    }
    tensor_free(x);
    tensor_free(class);
    return error_text() ? -1 : 0;
}

int main(int argc, char **argv)
{
    settings s = parse(argc, argv);
    mnist digits = { 0 };
    train_score score;
    int status = 1;
    net *n = net_load(s.model, 64, (net_known){ 0 });
    if (!n || mnist_find(&digits, stderr)) goto failed;
    const char *trained_on = net_note_text(n, "data");
    if (trained_on && (strcmp(trained_on, "MNIST") == 0) == digits.drawn)
        fprintf(stderr, "predict: the net was trained on %s, these are %s\n", trained_on, digits.source);
    if (show(n, digits.test, s.image)) goto failed;
    if (s.test && train_evaluate(n, digits.test, loss_cross_entropy(0), &score)) goto failed;
    if (s.test) printf("test accuracy=%.4f loss=%.4f\n", score.accuracy, score.loss);
    status = 0;
failed:
    if (status) report_error("predict");
    mnist_free(&digits);
    net_free(n);
    return finish("predict", status);
}
