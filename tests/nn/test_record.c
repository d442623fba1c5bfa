/* test_record.c: four networks train to the same bits as before, on every engine: a record against which a
 * change that should not change results is held.
 *
 * tests/nn/record.txt has a line for each environment, engine, precision and network, with CRC-32 sums of the
 * parameters and states after 5 steps, of the same after all steps, and of what is then predicted. There
 * are 25 steps, 5 for a large network. The sums are made by one thread; the test trains by two, a small
 * network after its first 5 steps. The environment is what the bits depend on besides our code: the C
 * library with its exp and sin, and whether the processor has fused multiply-add. A test is skipped where the
 * file has no line for it. gcc makes fused multiply-adds from -O2 on, or with
 * -fexpensive-optimizations: with less the kernels of avx2 and avx512 give other bits, and their tests fail.
 *
 *     STRIDE_RECORD=1 build/float/tests/test_record      prints the lines of this environment
 *
 * STRIDE_FAST takes 5 steps of the small networks, for processors that are emulated; so does the reference
 * engine in double, which is slow, and whose code is that of float. */
#include "tests/support.h"

#include "nn/data/augment.h"
#include "nn/data/digits.h"
#include "nn/train.h"
#include "tensor/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#ifndef __has_feature
#define __has_feature(NAME) 0
#endif

#define RECORD "tests/nn/record.txt"

enum { EPOCH = 5, EPOCHS = 5 }; /* an epoch of as many steps */

static bool fast;

/* ---- networks ------------------------------------------------------------------------------------ */

static st_net *lenet5(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28),
                      st_conv2d(.out_channels = 6, .kernel = { 5, 5 }, .padding = { 2, 2 }), st_relu(),
                      st_maxpool(.kernel = { 2, 2 }), st_conv2d(.out_channels = 16, .kernel = { 5, 5 }),
                      st_relu(), st_maxpool(.kernel = { 2, 2 }), st_flatten(), st_dense(.out_features = 120),
                      st_relu(), st_dense(.out_features = 84), st_relu(), st_dense(.out_features = 10));
}

static st_net *example(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = 32, .kernel = { 3, 3 }), st_relu(),
                      st_conv2d(.out_channels = 64, .kernel = { 3, 3 }), st_relu(),
                      st_maxpool(.kernel = { 2, 2 }), st_dropout(.p = 0.25), st_flatten(),
                      st_dense(.out_features = 128), st_relu(), st_dropout(.p = 0.5),
                      st_dense(.out_features = 10));
}

static st_layer *conv3x3(int out_channels)
{
    return st_conv2d(.out_channels = out_channels, .kernel = { 3, 3 }, .padding = { 1, 1 }, .no_bias = true);
}

static st_net *bnnet(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28), conv3x3(32), st_batchnorm(), st_relu(), conv3x3(32),
                      st_batchnorm(), st_relu(),
                      st_maxpool(.kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }), conv3x3(64),
                      st_batchnorm(), st_relu(), conv3x3(64), st_batchnorm(), st_relu(), st_avgpool(),
                      st_flatten(), st_dense(.out_features = 10));
}

static st_net *mlp(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28), st_flatten(), st_dense(.out_features = 512), st_relu(),
                      st_dropout(.p = 0.2), st_dense(.out_features = 512), st_relu(),
                      st_dense(.out_features = 10));
}

static st_optim *momentum(void)
{
    return st_sgd(.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-4);
}

static st_optim *adam_of_defaults(void)
{
    return st_adam();
}

/* Threads share a batch by 8 images in convolutions and by 32 in dense layers: the last part is smaller. */
static const struct network {
    const char *name;
    st_net *(*make)(void);
    st_optim *(*optimizer)(void);
    int batch;
    bool large;
} networks[] = {
    { "lenet5", lenet5, momentum, 36 },
    { "example", example, adam_of_defaults, 9, true },
    { "bnnet", bnnet, momentum, 9, true },
    { "mlp", mlp, adam_of_defaults, 36 },
};

enum { NETWORKS = sizeof networks / sizeof *networks };

/* ---- sums ---------------------------------------------------------------------------------------- */

typedef struct sums {
    unsigned long early, late, predicted; /* after 5 steps, after all steps, of predictions then */
} sums;

static unsigned long sum_of(unsigned long crc, st_tensor x)
{
    return crc32(crc, (const Bytef *)st_data(x), (uInt)((size_t)st_numel(x) * sizeof(st_real)));
}

static unsigned long sum_of_net(const st_net *n)
{
    return sum_of(sum_of(crc32(0, NULL, 0), st_net_parameters(n)), st_net_states(n));
}

static void run(st_net *n, const st_dataset *d, st_optim *o, int batch, int epochs)
{
    st_train_options options = {
        .loss = st_cross_entropy(), .optim = o, .epochs = epochs, .batch = batch, .seed = 3
    };
    if (st_train_run(n, d, options, NULL)) fail_msg("%s", st_error());
}

static unsigned long sum_of_predictions(st_net *n, const st_dataset *d)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(d->count, 1, 28, 28)), y = st_tensor_new(ST_SHAPE(d->count)),
                outputs = st_tensor_new(ST_SHAPE(d->count, 10));
    assert_int_equal(st_dataset_batch(d, NULL, 0, d->count, x, y), 0);
    assert_int_equal(st_net_predict(n, x, outputs), 0);
    unsigned long sum = sum_of(crc32(0, NULL, 0), outputs);
    return sum;
}

/* A small network's first epoch is trained by one thread, all else by so many. */
static sums train_and_sum(const struct network *of, const char *engine, int threads, bool brief)
{
    st_set_num_threads(of->large ? threads : 1);
    use_engine(engine);
    auto_dataset *drawn = st_digits(EPOCH * of->batch, 1);
    auto_dataset *d = st_dataset_augment(drawn, .shear = 5, .rotation = 10, .scale = 0.1, .shift = 2,
                                         .noise = 0.05, .cutout = 6, .seed = 2);
    auto_net *n = of->make();
    auto_optim *o = of->optimizer();
    assert_true(d && n && o);
    sums s = { 0 };
    run(n, d, o, of->batch, 1);
    s.early = sum_of_net(n);
    st_set_num_threads(threads);
    if (!of->large && !brief) run(n, d, o, of->batch, EPOCHS - 1);
    s.late = sum_of_net(n);
    s.predicted = sum_of_predictions(n, drawn);
    use_engine(NULL);
    return s;
}

/* ---- environments -------------------------------------------------------------------------------- */

typedef struct text {
    char of[256];
} text;

static const char *processor(void)
{
#if defined(__x86_64__) && defined(__FMA__)
    return "x86-64-built-with-fma";
#elif defined(__x86_64__)
    return __builtin_cpu_supports("fma") ? "x86-64-fma" : "x86-64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "unknown";
#endif
}

static text environment(void)
{
    text t;
    const char *libc = "unknown";
#ifdef __GLIBC__
    libc = gnu_get_libc_version();
#endif
    snprintf(t.of, sizeof t.of, "libc-%.19s,%s", libc, processor());
    return t;
}

static bool other_optimization(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
    return true;
#else
    return __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||
           __has_feature(memory_sanitizer) || __has_feature(undefined_behavior_sanitizer);
#endif
}

/* ---- the file ------------------------------------------------------------------------------------ */

static const char *precision = sizeof(st_real) == sizeof(float) ? "float" : "double";

/* The beginning of a line of the file. */
static text key_of(const struct network *n, const char *engine)
{
    text t;
    snprintf(t.of, sizeof t.of, "%.199s %s %s %s", environment().of, engine, precision, n->name);
    return t;
}

static bool recorded(const char *key, sums *s)
{
    FILE *file = fopen(RECORD, "r");
    if (!file) fail_msg("%s: expected in the current folder", RECORD);
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0 || line[strlen(key)] != ' ') continue;
        int numbers = sscanf(line + strlen(key), "%lx %lx %lx", &s->early, &s->late, &s->predicted);
        if (numbers != 3) fail_msg("%s: expected three sums: %s", RECORD, line);
        found = true;
    }
    fclose(file);
    return found;
}

static int write_lines(void)
{
    for (int i = 0; i < NETWORKS; i++)
        for (int j = 0; j < ENGINES; j++) {
            if (!choose_engine(engines[j])) continue;
            sums s = train_and_sum(&networks[i], engines[j], 1, fast);
            printf("%s %08lx %08lx %08lx\n", key_of(&networks[i], engines[j]).of, s.early, s.late,
                   s.predicted);
            fflush(stdout);
        }
    return 0;
}

/* ---- claims -------------------------------------------------------------------------------------- */

typedef struct record {
    const struct network *network;
    const char *engine;
    char name[64]; /* of the claim */
} record;

static void trains_to_the_recorded_bits(void **state)
{
    const record *r = *state;
    text key = key_of(r->network, r->engine);
    sums expected;
    if (other_optimization()) test_skip(r->name, "a build with a sanitizer or -O0 may round otherwise");
    if (fast && r->network->large) test_skip(r->name, "STRIDE_FAST is set");
    if (!choose_engine(r->engine)) test_skip(r->name, "this machine has no such instructions");
    if (!recorded(key.of, &expected)) test_skip(r->name, "%s has no line %s", RECORD, key.of);
    const bool slow = sizeof(st_real) > sizeof(float) && strcmp(r->engine, "reference") == 0,
               brief = fast || (slow && !r->network->large);
    sums s = train_and_sum(r->network, r->engine, 2, brief);
    if (s.early != expected.early ||
        (!brief && (s.late != expected.late || s.predicted != expected.predicted)))
        fail_msg("%s: expected %08lx %08lx %08lx, found %08lx %08lx %08lx", key.of, expected.early,
                 expected.late, expected.predicted, s.early, s.late, s.predicted);
}

int main(void)
{
    share_all_work();
    if (getenv("STRIDE_RECORD")) return write_lines();
    const char *set = getenv("STRIDE_FAST");
    fast = set && *set;
    static record records[NETWORKS * ENGINES];
    struct CMUnitTest claims[NETWORKS * ENGINES];
    for (int i = 0; i < NETWORKS * ENGINES; i++) {
        records[i] = (record){ &networks[i / ENGINES], engines[i % ENGINES], "" };
        snprintf(records[i].name, sizeof records[i].name, "%s_of_%s_is_as_recorded", records[i].network->name,
                 records[i].engine);
        claims[i] = (struct CMUnitTest)CLAIM(trains_to_the_recorded_bits);
        claims[i].name = records[i].name;
        claims[i].initial_state = &records[i];
    }
    return cmocka_run_group_tests(claims, NULL, NULL);
}
