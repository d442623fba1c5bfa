/* nearest.c: names that differ in a few letters, and names that other frameworks use. */
#include "examples/stride/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Words of other frameworks, without capitals, - and _; a word may stand for several names. */
static const char *const synonyms[][2] = {
    /* options */
    { "batchsize", "batch" },
    { "bs", "batch" },
    { "learningrate", "lr" },
    { "eta", "lr" },
    { "optimizer", "optim" },
    { "optimiser", "optim" },
    { "solver", "optim" },
    { "color", "colour" },
    { "colormode", "colour" },
    { "lrscheduler", "schedule" },
    { "lrschedule", "schedule" },
    { "lrpolicy", "schedule" },
    { "stepsize", "every" },
    { "lrdecay", "gamma" },
    { "wd", "weight-decay" },
    { "l2", "weight-decay" },
    { "criterion", "loss" },
    { "objective", "loss" },
    { "workers", "threads" },
    { "numworkers", "threads" },
    { "jobs", "threads" },
    { "dataset", "data" },
    { "traindata", "data" },
    { "imagesize", "size" },
    { "imgsize", "size" },
    { "imgsz", "size" },
    { "numepochs", "epochs" },
    { "maxepochs", "epochs" },
    { "randomseed", "seed" },
    { "randomstate", "seed" },
    { "validationsplit", "split" },
    { "valsplit", "split" },
    { "testsize", "split" },
    { "testsplit", "split" },
    { "validationdata", "validation" },
    { "valdata", "validation" },
    { "pretrained", "from" },
    { "weights", "from" },
    { "weights", "model" },
    { "net", "model" },
    { "earlystopping", "patience" },
    { "gradclip", "clip" },
    { "clipnorm", "clip" },
    { "maxgradnorm", "clip" },
    { "gradientclipval", "clip" },
    { "output", "save" },
    { "out", "save" },
    { "logfile", "log" },
    { "logdir", "log" },
    { "csv", "log" },
    { "silent", "quiet" },
    { "target", "label" },
    { "targetcolumn", "label" },
    { "inputshape", "input" },
    { "inputsize", "input" },
    { "horizontalflip", "flip" },
    { "hflip", "flip" },
    { "translate", "shift" },
    { "degrees", "rotation" },
    { "randomerasing", "cutout" },
    { "quantize", "int8" },
    { "topk", "top" },
    { "architecture", "net" },
    /* layers */
    { "convolution", "conv" },
    { "convolution2d", "conv2d" },
    { "conv2dtranspose", "conv_transpose2d" },
    { "deconv", "conv_transpose2d" },
    { "deconvolution", "conv_transpose2d" },
    { "fc", "dense" },
    { "fullyconnected", "dense" },
    { "innerproduct", "dense" },
    { "bn", "batchnorm" },
    { "batchnorm2d", "batchnorm" },
    { "batchnorm1d", "batchnorm" },
    { "batchnormalization", "batchnorm" },
    { "layernormalization", "layernorm" },
    { "groupnormalization", "groupnorm" },
    { "maxpool2d", "maxpool" },
    { "maxpooling2d", "maxpool" },
    { "avgpool2d", "avgpool" },
    { "averagepool", "avgpool" },
    { "averagepooling2d", "avgpool" },
    { "meanpool", "avgpool" },
    { "adaptiveavgpool2d", "global_avgpool" },
    { "globalaveragepooling2d", "global_avgpool" },
    { "gap", "global_avgpool" },
    { "globalmaxpooling2d", "global_maxpool" },
    { "swish", "silu" },
    { "leaky", "leaky_relu" },
    { "spatialdropout2d", "dropout2d" },
    { "zeropad2d", "pad" },
    { "zeropadding2d", "pad" },
    { "upsampling2d", "upsample" },
    { "interpolate", "upsample" },
    { "resize", "upsample" },
    { "sequential", "sequence" },
    { "skip", "residual" },
    { "shortcut", "residual" },
    { "add", "residual" },
    { "concatenate", "concat" },
    { "cat", "concat" },
    { "reshape", "unflatten" },
    /* their options */
    { "filters", "out_channels" },
    { "units", "out_features" },
    { "kernelsize", "kernel" },
    { "poolsize", "kernel" },
    { "dilationrate", "dilation" },
    { "bias", "no_bias" },
    { "usebias", "no_bias" },
    { "affine", "no_affine" },
    { "eps", "epsilon" },
    { "rate", "p" },
    { "negativeslope", "slope" },
    { "alpha", "slope" },
    { "numgroups", "groups" },
    /* losses, optimizers, schedules, colours */
    { "ce", "cross-entropy" },
    { "crossentropyloss", "cross-entropy" },
    { "nll", "cross-entropy" },
    { "softmax", "cross-entropy" },
    { "categoricalcrossentropy", "cross-entropy" },
    { "sparsecategoricalcrossentropy", "cross-entropy" },
    { "mseloss", "mse" },
    { "meansquarederror", "mse" },
    { "l2", "mse" },
    { "smoothl1", "huber" },
    { "smoothl1loss", "huber" },
    { "binarycrossentropy", "bce" },
    { "bcewithlogits", "bce" },
    { "logistic", "bce" },
    { "momentum", "sgd" },
    { "nesterov", "sgd" },
    { "cosineannealing", "cosine" },
    { "cosineannealinglr", "cosine" },
    { "onecyclelr", "one-cycle" },
    { "steplr", "step" },
    { "multistep", "step" },
    { "none", "constant" },
    { "fixed", "constant" },
    { "gray", "grey" },
    { "grayscale", "grey" },
    /* subcommands */
    { "fit", "train" },
    { "test", "eval" },
    { "validate", "eval" },
    { "score", "eval" },
    { "infer", "predict" },
    { "classify", "predict" },
    { "info", "summary" },
    { "show", "summary" },
    { "convert", "export" },
    { "benchmark", "bench-model" },
    { "bench", "bench-model" },
    { "compare", "report" },
};

/* At most LONGEST_NAME letters, without capitals, - and _; returns their number, or 0 if there are more. */
static size_t fold(char to[LONGEST_NAME + 1], const char *from, size_t length)
{
    size_t kept = 0;
    for (size_t i = 0; i < length; i++) {
        if (from[i] == '-' || from[i] == '_') continue;
        if (kept == LONGEST_NAME) return 0;
        to[kept++] = (char)tolower((unsigned char)from[i]);
    }
    to[kept] = '\0';
    return kept;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Edit distance: letters inserted, deleted, replaced, or two neighbours exchanged (Damerau 1964). row[i][j]
 * is that of the first i letters of a and the first j of b. */
static int distance(const char *a, size_t n, const char *b, size_t m)
{
    int row[LONGEST_NAME + 1][LONGEST_NAME + 1];
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                row[i][j] = (int)(i + j);
                continue;
            }
            const int replaced = row[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            row[i][j] = least(replaced, 1 + least(row[i - 1][j], row[i][j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[i][j] = least(row[i][j], 1 + row[i - 2][j - 2]);
        }
    return row[n][m];
}

static bool is_synonym(const char *word, const char *name)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcmp(word, synonyms[i][0]) == 0 && strcmp(name, synonyms[i][1]) == 0) return true;
    return false;
}

/* True if the longer of two words begins with the other one. */
static bool continues(const char *a, size_t n, const char *b, size_t m)
{
    return n > 2 && m > 2 && strncmp(a, b, n < m ? n : m) == 0;
}

/* The nearest name means the same; next is one that begins with the word, or the word with it; then one that
 * differs in at most a third of its letters. */
void nearest_try(nearest *n, const char *name)
{
    char word[LONGEST_NAME + 1], other[LONGEST_NAME + 1];
    const size_t count = fold(word, n->word, n->length), length = fold(other, name, strlen(name));
    if (count < 2 || length == 0 || strlen(name) > LONGEST_NAME) return;
    int found = distance(word, count, other, length);
    if (continues(word, count, other, length)) found = least(found, 1);
    if (is_synonym(word, name)) found = 0;
    if (found > least(3, (int)(length + 2) / 3) || (n->name[0] && found >= n->distance)) return;
    strcpy(n->name, name);
    n->distance = found;
}

nearest_text nearest_question(const nearest *n, const char *before)
{
    nearest_text t = { "" };
    if (n->name[0]) snprintf(t.text, sizeof t.text, "; did you mean %.8s%s?", before, n->name);
    return t;
}
