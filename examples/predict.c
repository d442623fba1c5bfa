/* predict.c: a saved net reads an image: how a program of your own uses what was trained. */
#define _POSIX_C_SOURCE 200809L
#include <stride.h>

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

static st_dataset *test_set(void)
{
    const char *named = getenv("MNIST_DIR"), *folders[] = { named, "data/mnist", "../shared/mnist" };
    char images[4096], labels[4096];
    for (int i = named ? 0 : 1; i < (named ? 1 : 3); i++)
        for (int packed = 0; packed < 2; packed++) {
            snprintf(images, sizeof images, "%s/t10k-images-idx3-ubyte%s", folders[i], packed ? ".gz" : "");
            snprintf(labels, sizeof labels, "%s/t10k-labels-idx1-ubyte%s", folders[i], packed ? ".gz" : "");
            if (access(images, F_OK) == 0 || (named && packed)) return st_dataset_idx(images, labels);
        }
    return st_digits(10000, 2);
}

/* The softmax of logits [1, K], into p. */
static void softmax(st_tensor y, double *p)
{
    const st_real *logit = st_data(y);
    double most = -INFINITY, sum = 0;
    for (ptrdiff_t k = 0; k < st_numel(y); k++) most = fmax(most, (double)logit[k]);
    for (ptrdiff_t k = 0; k < st_numel(y); k++) sum += p[k] = exp((double)logit[k] - most);
    for (ptrdiff_t k = 0; k < st_numel(y); k++) p[k] /= sum;
}

static int show(st_net *n, const st_dataset *digits, ptrdiff_t number)
{
    double p[10];
    ptrdiff_t answer;
    if (!st_shape_equal(n->input, digits->x) || !st_shape_equal(n->output, ST_SHAPE(10)))
        return st_error_set("the net maps %s to %s, expected %s to [10]", st_shape_text(n->input).text,
                            st_shape_text(n->output).text, st_shape_text(digits->x).text);
    if (number >= digits->count)
        return st_error_set("digit %td of %td; the first is 0", number, digits->count);
    st_tensor x = st_tensor_new(ST_SHAPE(1, 1, 28, 28)), truth = st_tensor_new(ST_SHAPE(1)), y = { 0 };
    if (st_dataset_batch(digits, NULL, number, 1, x, truth) == 0) y = st_net_forward(n, x, ST_PREDICT);
    if (!st_error()) {
        softmax(y, p);
        st_argmax(&answer, y, ST_AXES(1));
        for (int k = 0; k < 10; k++) printf("%d %5.1f %%%s\n", k, 100 * p[k], k == answer ? " <" : "");
        printf("digit %td is a %g, read as %td\n", number, (double)st_item(truth), answer);
    }
    st_tensor_free(x);
    st_tensor_free(truth);
    return st_error() ? -1 : 0;
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
    st_metrics score;
    st_net *n = st_net_load(argc > 1 ? argv[1] : "build/mnist.safetensors");
    st_dataset *digits = n ? test_set() : NULL;
    int status = digits ? show(n, digits, number) : -1;
    if (status == 0) status = st_evaluate(n, digits, st_cross_entropy(), &score);
    if (status == 0) printf("test accuracy=%.4f loss=%.4f\n", score.accuracy, score.loss);
    if (status == 0) status = fflush(stdout);
    if (status)
        fprintf(stderr, "predict: %s%s\n", st_error() ? st_error() : strerror(errno),
                argc == 1 && !n ? "; make mnist saves it" : "");
    st_dataset_free(digits);
    st_net_free(n);
    return status ? 1 : 0;
}
