/* fuzz_checkpoint.c: st_train_run resumes from any file that it is given as its checkpoint.
 *
 * An input: a byte that says what is run, then a file of safetensors (fuzz.h). Bit 2: the run has its data,
 * and steps on; else the first step fails, so that it is known whether the file was taken. */
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

static void get(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    if (broken) st_error_set("a broken set");
    st_fill(x, (st_real)i / SAMPLES);
    st_fill(y, (st_real)(i % 2));
}

typedef struct world {
    st_net *net;
    st_dataset *set;
    st_optim *optim;
} world;

static world make(void)
{
    world w = { st_net_new(ST_SHAPE(2), st_dense(.out_features = 2), st_batchnorm()),
                st_dataset_new((st_dataset){ .count = SAMPLES, .x = ST_SHAPE(2), .get = get }),
                st_sgd(.lr = 0.1, .momentum = 0.9) };
    if (!w.net || !w.set || !w.optim || st_net_build(w.net, 2, 1)) abort();
    return w;
}

static void drop(world w)
{
    st_net_free(w.net);
    st_dataset_free(w.set);
    st_optim_free(w.optim);
}

static int run(world w, const char *path)
{
    return st_train(w.net, w.set, .loss = st_cross_entropy(), .optim = w.optim, .epochs = 2, .batch = 2,
                    .validation = w.set, .callbacks = { patient(2), st_checkpoint(path, 1, true) });
}

static bool same(st_tensor a, st_tensor b)
{
    return memcmp(st_data(a), st_data(b), (size_t)st_numel(a) * sizeof(st_real)) == 0;
}

/* A refused file leaves the net and the optimizer as they were, for the next input. */
static void continue_from(const char *path)
{
    static world w;
    static st_tensor parameters, states;
    if (!w.net) {
        w = make();
        parameters = st_tensor_clone(st_net_parameters(w.net)),
        states = st_tensor_clone(st_net_states(w.net));
    }
    uint64_t step = w.net->step, seed = w.net->seed;
    fuzz_begin();
    int status = run(w, path);
    /* The file was accepted, and training then met a loss that is not finite, or the data set that fails. */
    bool began = status && st_error() &&
                 (strncmp(st_error(), "train: ", 7) == 0 || strstr(st_error(), "a broken set"));
    if (began) st_error_clear();
    bool taken = began || fuzz_took(status == 0);
    fuzz_claim(taken || (same(parameters, st_net_parameters(w.net)) && same(states, st_net_states(w.net)) &&
                         step == w.net->step && seed == w.net->seed && w.optim->steps == 0),
               "what is refused changes nothing");
    if (!taken) return;
    st_tensor_free(parameters);
    st_tensor_free(states);
    drop(w);
    w = (world){ 0 };
}

static void feed(const uint8_t *at, size_t size)
{
    if (size < 1) return;
    broken = !(at[0] & STEPS_ON);
    continue_from(fuzz_safetensors("run", at, size));
}

static bool stop(const st_train_report *r, void *context)
{
    return false;
}

/* Runs that ended after an epoch, in one, and with all. */
static void seed(void)
{
    const char *path = fuzz_path("run");
    for (int i = 0; i < 3; i++) {
        world w = make();
        st_train(w.net, w.set, .loss = st_cross_entropy(), .optim = w.optim, .epochs = 2, .batch = 2,
                 .validation = w.set,
                 .callbacks = { patient(2), i ? (st_callback){ 0 } : each_epoch(stop, NULL),
                                st_checkpoint(path) });
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
