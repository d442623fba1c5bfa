/* fuzz_replay.c: st_train_replay takes any file. An input is a file of safetensors (fuzz.h). */
#include "tests/fuzz/fuzz.h"

#include "layers/layers.h"
#include "nn/watch/anomaly.h"
#include "nn/train.h"

#include <math.h>
#include <stdlib.h>

/* A step that fails when it is repeated is no refusal, but looks the same here. */
static void take_again(const char *path, st_loss l)
{
    fuzz_begin();
    fuzz_took(st_train_replay(path, l, (st_net_known){ 0 }) == 0);
}

static void feed(const uint8_t *at, size_t size)
{
    take_again(fuzz_safetensors("batch", at, size), size % 2 ? st_cross_entropy() : st_mse());
}

/* An entry of many lists. */
static void large(void)
{
    take_again(fuzz_large("batch", "{\"__metadata__\":{\"anomaly\":\"[", "[],", "[]]\"}}"), st_mse());
}

static void seed(void)
{
    const char *path = fuzz_path("batch");
    st_net *n = st_net_new(ST_SHAPE(1, 3, 3), st_conv2d(.out_channels = 2, .kernel = { 2, 2 }),
                           st_dropout(.p = 0.5), st_flatten(), st_dense(.out_features = 2));
    st_tensor x = st_tensor_new(ST_SHAPE(2, 1, 3, 3)), classes = st_tensor_new(ST_SHAPE(2)),
              targets = st_tensor_new(ST_SHAPE(2, 2));
    st_optim *sgd = st_sgd(.lr = 0.1);
    if (!n || !sgd || st_net_build(n, 2, 1)) abort();
    st_data(x)[4] = (st_real)NAN; /* the run ends, and keeps its batch */
    for (int i = 0; i < 2; i++) {
        st_dataset *d = st_dataset_tensors(x, i ? classes : targets);
        st_train(n, d, .batch = 2, .loss = i ? st_cross_entropy() : st_mse(), .optim = sgd,
                 .callbacks = { st_detect_anomaly(path) });
        st_error_clear();
        fuzz_seed_safetensors(path);
        st_dataset_free(d);
    }
    st_optim_free(sgd);
    st_net_free(n);
    st_tensor_free(x);
    st_tensor_free(classes);
    st_tensor_free(targets);
}

/* clang-format off */
static const char *const words[] = {
    "\\\"seed\\\": ", "\\\"step\\\": ", "\"train.x\"", "\"train.target\"", "\"anomaly\":\"", "\"shape\":[",
    "\"shape\":[]", "[2,1,3,3]", "[0,1,3,3]", "[1,1,3,3]", "[2,2]", "\"dtype\":\"F64\"", "\"data_offsets\":[",
    "\\\"type\\\":\\\"relu\\\"", "9223372036854775807", NULL
};
/* clang-format on */

const fuzzer fuzz = { feed, seed, large, .words = words };
