/* fuzz_replay.c: train_replay takes any file. An input is a file of safetensors (fuzz.h). */
#include "tests/fuzz/fuzz.h"

#include "layers/layers.h"
#include "nn/watch/anomaly.h"
#include "nn/train.h"

#include <math.h>
#include <stdlib.h>

/* A step that is taken again and goes wrong is no refusal, but not told from one. */
static void take_again(const char *path, loss l)
{
    fuzz_begin();
    fuzz_took(train_replay(path, l, (net_known){ 0 }) == 0);
}

static void feed(const uint8_t *at, size_t size)
{
    take_again(fuzz_safetensors("batch", at, size), size % 2 ? loss_cross_entropy(0) : loss_mse());
}

/* An entry of many lists. */
static void large(void)
{
    take_again(fuzz_large("batch", "{\"__metadata__\":{\"anomaly\":\"[", "[],", "[]]\"}}"), loss_mse());
}

static void seed(void)
{
    const char *path = fuzz_path("batch");
    net *n = net_new(SHAPE(1, 3, 3), layer_conv2d((conv2d){ .out_channels = 2, .kernel = { 2, 2 } }),
                     layer_dropout(0.5), layer_flatten(), layer_dense((dense){ .out_features = 2 }));
    tensor x = tensor_new(SHAPE(2, 1, 3, 3)), classes = tensor_new(SHAPE(2)),
           targets = tensor_new(SHAPE(2, 2));
    if (!n || net_build(n, 2, 1)) abort();
    for (int i = 0; i < 4; i++) {
        tensor_data(x)[4] = i < 2 ? (real)NAN : 1;
        anomaly_save(n, path, x, i % 2 ? classes : targets);
        fuzz_seed_safetensors(path);
    }
    net_free(n);
    tensor_free(x);
    tensor_free(classes);
    tensor_free(targets);
}

static const char *const words[] = { "\\\"seed\\\": ",
                                     "\\\"step\\\": ",
                                     "\"train.x\"",
                                     "\"train.target\"",
                                     "\"anomaly\":\"",
                                     "\"shape\":[",
                                     "\"shape\":[]",
                                     "[2,1,3,3]",
                                     "[0,1,3,3]",
                                     "[1,1,3,3]",
                                     "[2,2]",
                                     "\"dtype\":\"F64\"",
                                     "\"data_offsets\":[",
                                     "\\\"type\\\":\\\"relu\\\"",
                                     "9223372036854775807",
                                     NULL };

const fuzzer fuzz = { feed, seed, large, .words = words };
