/* pages.c: pages and logs of runs of every kind, for tests/test_report.sh: digits.html and digits.jsonl and
 * digits.csv of a run; the others have epochs that are made up. */
#include "examples/stride/report.h"
#include <stride.h>
#include "tests/each_epoch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;

static const char *within(const char *name)
{
    static char path[4][1024];
    static int turn;
    char *text = path[turn++ % 4];
    snprintf(text, sizeof path[0], "%s/%s", folder, name);
    return text;
}

/* ---- a run ------------------------------------------------------------------------------------- */

static st_net *small_net(void)
{
    return st_net_new(
        ST_SHAPE(1, 28, 28),
        st_sequence(st_conv2d(.out_channels = 8, .kernel = { 5, 5 }, .padding = { 2, 2 }, .no_bias = true),
                    st_batchnorm(), st_relu()),
        st_maxpool(.kernel = { 2, 2 }),
        st_residual(
            st_sequence(st_conv2d(.out_channels = 8, .kernel = { 3, 3 }, .padding = { 1, 1 }), st_relu())),
        st_maxpool(.kernel = { 2, 2 }), st_flatten(), st_dropout(.p = 0.2), st_dense(.out_features = 10));
}

static int digits(int epochs)
{
    static const report_fact facts[] = { { "data", "500 drawn digits; 300 others for validation" }, { 0 } };
    history h = { 0 };
    char csv[1024], json[1024];
    snprintf(csv, sizeof csv, "%s", within("digits.csv"));
    snprintf(json, sizeof json, "%s", within("digits.jsonl"));
    st_dataset *training = st_digits(500, 1), *validation = st_digits(300, 2);
    st_net *n = small_net();
    st_optim *o = st_sgd(.lr = 0.1, .momentum = 0.9, .nesterov = true);
    st_loss l = st_cross_entropy();
    st_train_options options = { .loss = l,
                                 .optim = o,
                                 .epochs = epochs,
                                 .batch = 32,
                                 .seed = 1,
                                 .schedule = st_one_cycle_lr(),
                                 .validation = validation,
                                 .callbacks = { st_log(csv), st_log(json), each_epoch(history_keep, &h),
                                                patient(epochs) } };
    layer_times times = { 0 };
    int status = st_train_run(n, training, options, NULL) || layer_times_measure(&times, n, training, l, 0) ||
                 report_write(within("digits.html"),
                              &(report){ .title = "Drawn digits",
                                         .network = "input 1x28x28\nconv 8 5x5, batchnorm, relu",
                                         .facts = facts,
                                         .epochs = h.epochs,
                                         .count = h.count,
                                         .net = n,
                                         .loss = l,
                                         .validation = validation,
                                         .times = &times });
    layer_times_free(&times);
    history_free(&h);
    st_optim_free(o), st_net_free(n), st_dataset_free(training), st_dataset_free(validation);
    return status;
}

/* ---- made up ----------------------------------------------------------------------------------- */

static void make_up(st_train_report *r, int epochs, bool validated, bool accurate)
{
    double best = INFINITY;
    for (int i = 0; i < epochs; i++) {
        double t = (double)(i + 1) / epochs, wave = sin(12.9898 * i) * 0.04;
        r[i] = (st_train_report){
            .epoch = i + 1, .epochs = epochs, .step = 20L * (i + 1), .steps = 20L * epochs
        };
        r[i].lr = 0.1 * (1 + cos(3.141592653589793 * t)) / 2;
        r[i].training = (st_metrics){ 2.3 * exp(-5 * t) * (1 + wave), NAN };
        r[i].validation = (st_metrics){ NAN, NAN };
        if (validated) r[i].validation.loss = (2.3 * exp(-4 * t) + 0.25 * t * t) * (1 + wave);
        if (accurate) r[i].training.accuracy = 1 - 0.9 * exp(-5 * t);
        if (accurate && validated) r[i].validation.accuracy = 0.94 - 0.84 * exp(-4.5 * t) + wave / 8;
        r[i].seconds = 3.7 * (i + 1);
        r[i].best = validated && r[i].validation.loss < best;
        if (r[i].best) best = r[i].validation.loss;
    }
}

/* Noise, of classes in turn. */
static void get_noise(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    st_uniform(x, (st_random_key){ 7, (uint64_t)i }, 0, 1);
    if (y.shape.rank == 0) *st_at(y, (st_shape){ 0 }) = (st_real)(i % *(const int *)d->own);
    else st_fill(y, (st_real)0.5);
}

typedef struct kind {
    const char *name, *title;
    int epochs, classes;
    bool validated, images, no_classes;
    const char *const *names;
} kind;

static const char *const animals[] = { "</script><script>alert(1)</script>", "cat & \"dog\"", "<b>bird</b>",
                                       "b\xc3\xa4r", "\xff\xfe broken" };

static const kind kinds[] = {
    { "one.html", "One epoch, two classes", 1, 2, true, true, false, NULL },
    { "thousand.html", "A thousand epochs, 100 classes, RGB", 1000, 100, true, true, false, NULL },
    { "hostile.html", "<img src=x onerror=alert(1)> & \"friends\" <!--<script>", 12, 5, true, true, false,
      animals },
    { "vectors.html", "No images", 30, 20, true, false, false, NULL },
    { "regression.html", "Regression", 40, 3, false, false, true, NULL },
};

static int write_kind(const kind *k)
{
    static st_train_report epochs[1000];
    make_up(epochs, k->epochs, k->validated, !k->no_classes);
    st_dataset of = { .count = 200, .get = get_noise, .own = (void *)&k->classes };
    of.x = k->images ? ST_SHAPE(3, 32, 32) : ST_SHAPE(12);
    of.target = k->no_classes ? ST_SHAPE(k->classes) : (st_shape){ 0 };
    st_dataset *d = st_dataset_new(of);
    st_net *n =
        k->images
            ? st_net_new(of.x, st_conv2d(.out_channels = 12, .kernel = { 5, 5 }, .stride = { 2, 2 }),
                         st_relu(), st_avgpool(.kernel = { 2, 2 }), st_flatten(),
                         st_dense(.out_features = k->classes))
            : st_net_new(of.x, st_dense(.out_features = 16), st_tanh(), st_dense(.out_features = k->classes));
    st_optim *o = st_adam(.lr = 0.003);
    st_loss l = k->no_classes ? st_mse() : st_cross_entropy();
    static const report_fact facts[] = { { "data", "noise about waves" },
                                         { "options", "<none> & 'none'" },
                                         { 0 } };
    int status = st_train(n, d, .epochs = 2, .batch = 40, .loss = l, .optim = o) ||
                 report_write(within(k->name), &(report){ .title = k->title,
                                                          .facts = facts,
                                                          .epochs = epochs,
                                                          .count = k->epochs,
                                                          .net = n,
                                                          .loss = l,
                                                          .validation = k->validated ? d : NULL,
                                                          .classes = k->names });
    st_optim_free(o), st_net_free(n), st_dataset_free(d);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    folder = argv[1];
    int status = digits(argc > 2 ? atoi(argv[2]) : 3);
    if (!st_error()) status |= report_write(within("empty.html"), &(report){ 0 });
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !st_error(); i++) status |= write_kind(&kinds[i]);
    if (st_error()) fprintf(stderr, "%s\n", st_error());
    return status != 0;
}
