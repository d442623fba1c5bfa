/* mnist.c: looks for MNIST in the usual folders, or draws digits instead. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/mnist.h"
#include "examples/stride/paths.h"

#include "nn/data/digits.h"
#include "nn/data/formats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS, FILES };

static const char *const files[FILES] = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                          "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" };

static const char *const folders[][2] = { { "data/mnist", "MNIST in data/mnist" },
                                          { "../shared/mnist", "MNIST in ../shared/mnist" } };

typedef struct paths {
    char of[FILES][LONGEST_PATH];
} paths;

/* train-images-idx3-ubyte or train-images.idx3-ubyte, each also as .gz. */
static bool find_file(char path[LONGEST_PATH], const char *in, const char *name)
{
    int stem = (int)(strstr(name, "-idx") - name);
    for (int i = 0; i < 4; i++) {
        int length = snprintf(path, LONGEST_PATH, "%s/%.*s%c%s%s", in, stem, name, i & 2 ? '.' : '-',
                              name + stem + 1, i & 1 ? ".gz" : "");
        if (length < LONGEST_PATH && access(path, F_OK) == 0) return true;
    }
    return false;
}

/* The number of files found, up to the first that is missing. */
static int find_files(paths *found, const char *in)
{
    int count = 0;
    while (count < FILES && find_file(found->of[count], in, files[count])) count++;
    return count;
}

bool mnist_in(const char *folder)
{
    paths found;
    return find_files(&found, folder) > 0;
}

static int open_files(mnist *m, st_dataset *train, st_dataset *test, const char *source)
{
    *m = (mnist){ .train = train, .test = test, .source = source };
    if (train && test) return 0;
    mnist_free(m);
    return -1;
}

int mnist_open(mnist *m, const char *in, const char *source)
{
    paths found;
    *m = (mnist){ 0 };
    int count = find_files(&found, in);
    if (count < FILES && access(in, R_OK | X_OK)) return st_error_set("%.150s: %s", in, strerror(errno));
    if (count < FILES) return st_error_set("%.150s: %s not found, plain or as .gz", in, files[count]);
    st_dataset *train = st_dataset_idx(found.of[TRAIN_IMAGES], found.of[TRAIN_LABELS]);
    return open_files(m, train, train ? st_dataset_idx(found.of[TEST_IMAGES], found.of[TEST_LABELS]) : NULL,
                      source);
}

int mnist_find(mnist *m, FILE *messages)
{
    const char *named = getenv("MNIST_DIR");
    if (named && *named)
        return mnist_open(m, named, "MNIST in $MNIST_DIR") ? st_error_within("MNIST_DIR: ") : 0;
    paths found;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (find_files(&found, folders[i][0]) == FILES) return mnist_open(m, folders[i][0], folders[i][1]);
    if (messages)
        fputs("MNIST not found (looked in data/mnist, ../shared/mnist): drawing digits instead; "
              "examples/mnist.sh downloads it\n",
              messages);
    int status = open_files(m, st_digits(60000, 1), st_digits(10000, 2), DRAWN_DIGITS);
    m->drawn = status == 0;
    return status;
}

void mnist_free(mnist *m)
{
    st_dataset_free(m->train);
    st_dataset_free(m->test);
    *m = (mnist){ 0 };
}
