/* predict.c: a saved net reads an image: how a program of your own uses what was trained. */
#define _POSIX_C_SOURCE 200809L
#include "nn/stride.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: predict [MODEL [DIGIT]]\n"
    "\n"
    "Prints how probable a saved net (build/mnist.safetensors) finds each class of test image DIGIT (0),\n"
    "and tests the net on all of them. The images are found as mnist finds them.\n";

static data *test_set(void)
{
    const char *named = getenv("MNIST_DIR"), *folders[] = { named, "data/mnist", "../shared/mnist" };
    char images[4096], labels[4096];
    for (int i = named ? 0 : 1; i < (named ? 1 : 3); i++)
        for (int packed = 0; packed < 2; packed++) {
            snprintf(images, sizeof images, "%s/t10k-images-idx3-ubyte%s", folders[i], packed ? ".gz" : "");
            snprintf(labels, sizeof labels, "%s/t10k-labels-idx1-ubyte%s", folders[i], packed ? ".gz" : "");
            if (access(images, F_OK) == 0 || (named && packed)) return data_idx(images, labels);
        }
    return digits_new(10000, 2);
}

/* The softmax of logits [1, K], into p. */
static void softmax(tensor y, double *p)
{
    const real *logit = tensor_data(y);
    double most = -INFINITY, sum = 0;
    for (ptrdiff_t k = 0; k < tensor_count(y); k++) most = fmax(most, (double)logit[k]);
    for (ptrdiff_t k = 0; k < tensor_count(y); k++) sum += p[k] = exp((double)logit[k] - most);
    for (ptrdiff_t k = 0; k < tensor_count(y); k++) p[k] /= sum;
}

static int show(net *n, const data *digits, ptrdiff_t number)
{
    double p[10];
    ptrdiff_t answer;
    if (!shape_equal(n->input, digits->x) || !shape_equal(n->output, SHAPE(10)))
        return error_set("the net maps %s to %s, expected %s to [10]", shape_text(n->input).text,
                         shape_text(n->output).text, shape_text(digits->x).text);
    if (number >= digits->count) return error_set("digit %td of %td; the first is 0", number, digits->count);
    tensor x = tensor_new(SHAPE(1, 1, 28, 28)), truth = tensor_new(SHAPE(1)), y = { 0 };
    if (data_batch(digits, NULL, number, 1, x, truth) == 0) y = net_forward(n, x, NET_PREDICT);
    if (!error_text()) {
        softmax(y, p);
        tensor_argmax(&answer, y, AXES(1));
        for (int k = 0; k < 10; k++) printf("%d %5.1f %%%s\n", k, 100 * p[k], k == answer ? " <" : "");
        printf("digit %td is a %g, read as %td\n", number, (double)tensor_item(truth), answer);
    }
    tensor_free(x);
    tensor_free(truth);
    return error_text() ? -1 : 0;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    long number = argc > 2 ? strtol(argv[2], &end, 10) : 0;
    if (argc > 3 || (end && (*end || end == argv[2])) || number < 0 || (argc > 1 && argv[1][0] == '-')) {
        bool help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
        fputs(usage, help ? stdout : stderr);
        if (!help) return 2;
        return fflush(stdout) ? (perror("predict: stdout"), 1) : 0;
    }
    train_score score;
    net *n = net_load(argc > 1 ? argv[1] : "build/mnist.safetensors", 64, (net_known){ 0 });
    data *digits = n ? test_set() : NULL;
    int status = digits ? show(n, digits, number) : -1;
    if (status == 0) status = train_evaluate(n, digits, loss_cross_entropy(0), &score);
    if (status == 0) printf("test accuracy=%.4f loss=%.4f\n", score.accuracy, score.loss);
    if (status == 0) status = fflush(stdout);
    if (status) fprintf(stderr, "predict: %s\n", error_text() ? error_text() : strerror(errno));
    data_free(digits);
    net_free(n);
    return status ? 1 : 0;
}
