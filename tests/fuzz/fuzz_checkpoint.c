/* fuzz_checkpoint.c: train_run goes on from any file that it is told is its checkpoint.
 *
 * An input: a byte that says what is run, then a file of safetensors (fuzz.h). Bit 2: the run has its data, and steps on;
 * else the first step fails, so that it is known whether the file was taken. */
#include "tests/fuzz/fuzz.h"

#include "layers/layers.h"
#include "nn/files/checkpoint.h"
#include "nn/train.h"
#include "tests/each_epoch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_ON = 4, SAMPLES = 4 };

static bool broken; /* the set: nothing is fetched */

static void get(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    (void)d;
    if (broken) error_set("a broken set");
    tensor_fill(x, (real)i / SAMPLES);
    tensor_fill(y, (real)(i % 2));
}

typedef struct world {
    net *net;
    data *set;
    optim *optim;
} world;

static world make(void)
{
    world w = { net_new(SHAPE(2), layer_dense((dense){ .out_features = 2 }),
                        layer_batchnorm((batchnorm){ 0 })),
                data_new((data){ .count = SAMPLES, .x = SHAPE(2), .get = get }),
                optim_sgd((sgd){ .lr = 0.1, .momentum = 0.9 }) };
    if (!w.net || !w.set || !w.optim || net_build(w.net, 2, 1)) abort();
    return w;
}

static void drop(world w)
{
    net_free(w.net);
    data_free(w.set);
    optim_free(w.optim);
}

static int run(world w, const char *path)
{
    return train_run(
        w.net, w.set,
        (train){ .loss = loss_cross_entropy(0),
                 .optim = w.optim,
                 .epochs = 2,
                 .batch = 2,
                 .validation = w.set,
                 .callbacks = { patient(2), callback_checkpoint((checkpoint){ path, 1, true }) } },
        NULL);
}

static bool same(tensor a, tensor b)
{
    return memcmp(tensor_data(a), tensor_data(b), (size_t)tensor_count(a) * sizeof(real)) == 0;
}

/* What is refused leaves a world as it was: for the next input. */
static void continue_from(const char *path)
{
    static world w;
    static tensor parameters, states;
    if (!w.net) {
        w = make();
        parameters = tensor_clone(net_parameters(w.net)), states = tensor_clone(net_states(w.net));
    }
    uint64_t step = w.net->step, seed = w.net->seed;
    fuzz_begin();
    int status = run(w, path);
    bool began =
        status && error_text() && strncmp(error_text(), "train: ", 7) == 0; /* a loss that is not finite */
    if (began) error_clear();
    bool taken = began || fuzz_took_unless(status == 0, "a broken set");
    fuzz_claim(taken || (same(parameters, net_parameters(w.net)) && same(states, net_states(w.net)) &&
                         step == w.net->step && seed == w.net->seed && w.optim->steps == 0),
               "what is refused changes nothing");
    if (!taken) return;
    tensor_free(parameters);
    tensor_free(states);
    drop(w);
    w = (world){ 0 };
}

static void feed(const uint8_t *at, size_t size)
{
    if (size < 1) return;
    broken = !(at[0] & STEPS_ON);
    continue_from(fuzz_safetensors("run", at, size));
}

static bool stop(const train_report *r, void *context)
{
    (void)r, (void)context;
    return false;
}

/* Runs that ended after an epoch, in one, and with all. */
static void seed(void)
{
    const char *path = fuzz_path("run");
    for (int i = 0; i < 3; i++) {
        world w = make();
        train_run(w.net, w.set,
                  (train){ .loss = loss_cross_entropy(0),
                           .optim = w.optim,
                           .epochs = 2,
                           .batch = 2,
                           .validation = w.set,
                           .callbacks = { patient(2), i ? (callback){ 0 } : each_epoch(stop, NULL),
                                          callback_checkpoint((checkpoint){ path }) } },
                  NULL);
        fuzz_seed_safetensors(path);
        if (i == 2) fuzz_seed_file(path, STEPS_ON);
        drop(w);
    }
}

/* A place of many lists. */
static void large(void)
{
    continue_from(fuzz_large("run", "{\"__metadata__\":{\"training\":\"[", "[],", "[]]\"}}"));
}

const fuzzer fuzz = { feed, seed, large,
                      .words = (const char *const[]){
                          "\\\"epoch\\\":", "\\\"batch\\\":", "\\\"step\\\":", "\\\"since_best\\\":",
                          "\\\"best_epoch\\\":", "\\\"optim_steps\\\":", "\\\"net_step\\\":",
                          "\\\"begun\\\":", "\\\"loss_sum\\\":", "\\\"best_loss\\\":", "9223372036854775807",
                          "-9223372036854775808", "1e308", "null", "train.best", "train.optim.0", NULL } };
