/* cnn.c [MICRO_BATCHES [GROUP]]: trains a small CNN and prints the bits it came to. `make core` builds it
 * with tensor/, layers/ and nn/ alone, and holds what it prints against what it prints with the whole library
 * and STRIDE_ENGINE=reference. */
#include "layers/layers.h"
#include "nn/train.h"
#include "tensor/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 128, SIZE = 8, CLASSES = 4 };

/* Noise, and a bright quarter of the image, which is the class. */
static void draw(st_tensor x, st_tensor y)
{
    for (ptrdiff_t i = 0; i < SAMPLES; i++) {
        int class = (int)(i % CLASSES);
        st_tensor image = st_select(st_select(x, 0, i), 0, 0);
        st_tensor quarter =
            st_narrow(st_narrow(image, 0, class / 2 * SIZE / 2, SIZE / 2), 1, class % 2 * SIZE / 2, SIZE / 2);
        for (ptrdiff_t k = 0; k < SIZE * SIZE; k++)
            *st_at(image, ST_INDEX(k / SIZE, k % SIZE)) =
                (st_real)(0.25 * st_random_normal((st_random_key){ 1 }, (uint64_t)(i * SIZE * SIZE + k)));
        for (ptrdiff_t k = 0; k < SIZE / 2 * (SIZE / 2); k++)
            *st_at(quarter, ST_INDEX(k / (SIZE / 2), k % (SIZE / 2))) += 1;
        *st_at(y, ST_INDEX(i)) = (st_real) class;
    }
}

static uint64_t hash_of(st_tensor x)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (ptrdiff_t i = 0; i < st_numel(x); i++) {
        unsigned char bytes[sizeof(st_real)];
        memcpy(bytes, st_at(x, ST_INDEX(i)), sizeof bytes);
        for (size_t k = 0; k < sizeof bytes; k++) hash = (hash ^ bytes[k]) * 1099511628211u;
    }
    return hash;
}

int main(int argc, char **argv)
{
    st_tensor x = st_tensor_new(ST_SHAPE(SAMPLES, 1, SIZE, SIZE)), y = st_tensor_new(ST_SHAPE(SAMPLES));
    draw(x, y);
    st_dataset *d = st_dataset_tensors(x, y);
    st_net *n =
        st_net_new(ST_SHAPE(1, SIZE, SIZE), st_conv2d(.out_channels = 4, .kernel = { 3 }), st_batchnorm(),
                   st_relu(), st_maxpool(.kernel = { 2 }), st_conv2d(.out_channels = 8, .kernel = { 2 }),
                   st_relu(), st_dropout(.p = 0.1), st_flatten(), st_dense(.out_features = CLASSES));
    st_optim *o = st_sgd(.lr = 0.05, .momentum = 0.9);
    st_train_result result = { 0 };
    int failed = st_train(n, d, .epochs = 5, .batch = 16, .loss = st_cross_entropy(), .optim = o,
                          .micro_batches = argc > 1 ? atoi(argv[1]) : 0,
                          .groups = { { argc > 2 ? argv[2] : NULL, .lr_factor = 0.5 } }, .result = &result);
    if (failed || result.training.accuracy < 0.9)
        printf("accuracy %g: %s\n", result.training.accuracy,
               st_error() ? st_error() : "expected 0.9 or more");
    else printf("%016" PRIx64 "\n", hash_of(st_net_parameters(n)));
    st_optim_free(o), st_net_free(n), st_dataset_free(d), st_tensor_free(x), st_tensor_free(y);
    return failed || result.training.accuracy < 0.9;
}
