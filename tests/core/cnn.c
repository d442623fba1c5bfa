/* cnn.c: trains a small CNN and prints the bits it came to. `make core` builds it with tensor/, layers/ and nn/
 * alone, and holds what it prints against what it prints with the whole library and STRIDE_ENGINE=reference. */
#include "layers/layers.h"
#include "nn/train.h"
#include "tensor/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 128, SIZE = 8, CLASSES = 4 };

/* Noise, and a bright quarter of the image, which is the class. */
static void draw(tensor x, tensor y)
{
    for (ptrdiff_t i = 0; i < SAMPLES; i++) {
        int class = (int)(i % CLASSES);
        tensor image = tensor_select(tensor_select(x, 0, i), 0, 0);
        tensor quarter = tensor_narrow(tensor_narrow(image, 0, class / 2 * SIZE / 2, SIZE / 2), 1,
                                       class % 2 * SIZE / 2, SIZE / 2);
        for (ptrdiff_t k = 0; k < SIZE * SIZE; k++)
            *tensor_at(image, INDEX(k / SIZE, k % SIZE)) =
                (real)(0.25 * random_normal((random_key){ 1 }, (uint64_t)(i * SIZE * SIZE + k)));
        for (ptrdiff_t k = 0; k < SIZE / 2 * (SIZE / 2); k++)
            *tensor_at(quarter, INDEX(k / (SIZE / 2), k % (SIZE / 2))) += 1;
        *tensor_at(y, INDEX(i)) = (real) class;
    }
}

static uint64_t hash_of(tensor x)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (ptrdiff_t i = 0; i < tensor_count(x); i++) {
        unsigned char bytes[sizeof(real)];
        memcpy(bytes, tensor_at(x, INDEX(i)), sizeof bytes);
        for (size_t k = 0; k < sizeof bytes; k++) hash = (hash ^ bytes[k]) * 1099511628211u;
    }
    return hash;
}

int main(void)
{
    tensor x = tensor_new(SHAPE(SAMPLES, 1, SIZE, SIZE)), y = tensor_new(SHAPE(SAMPLES));
    draw(x, y);
    data *d = data_tensors(x, y);
    net *n =
        net_new(SHAPE(1, SIZE, SIZE), layer_conv2d((conv2d){ .out_channels = 4, .kernel = { 3 } }),
                layer_batchnorm((batchnorm){ 0 }), layer_relu(), layer_maxpool((maxpool){ .kernel = { 2 } }),
                layer_dropout(0.1), layer_flatten(), layer_dense((dense){ .out_features = CLASSES }));
    optim *o = optim_sgd((sgd){ .lr = 0.05, .momentum = 0.9 });
    train_result result = { 0 };
    int failed = train_run(
        n, d, (train){ .epochs = 5, .batch = 16, .loss = loss_cross_entropy(0), .optim = o }, &result);
    if (failed || result.training.accuracy < 0.9)
        printf("accuracy %g: %s\n", result.training.accuracy,
               error_text() ? error_text() : "expected 0.9 or more");
    else printf("%016" PRIx64 "\n", hash_of(net_parameters(n)));
    optim_free(o), net_free(n), data_free(d), tensor_free(x), tensor_free(y);
    return failed || result.training.accuracy < 0.9;
}
