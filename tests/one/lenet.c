/* lenet.c: trains LeNet on drawn digits and prints the SHA-256 of its parameters and states.
 *
 *     lenet                      200 steps
 *     lenet CHECKPOINT STEPS     the same, but ends after STEPS steps and writes a checkpoint
 *     lenet CHECKPOINT           the rest of the 200 steps, from that checkpoint
 *
 * Dropout, batch normalisation, augmentation, momentum and a schedule are in it, so that the hash depends
 * on all of them. The numbers are hashed as little-endian bytes. */
#include "stride.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 1600, BATCH = 16, STEPS_PER_EPOCH = 100, EPOCHS = 2 };

/* ---- SHA-256 (FIPS 180-4) -------------------------------------------------------------------- */

typedef struct sha256 {
    uint32_t h[8];
    uint64_t bytes;
    unsigned char block[64];
} sha256;

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

static uint32_t turned(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static void hash_block(sha256 *s)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++) {
        const unsigned char *b = s->block + 4 * i;
        w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + w[i - 7] +
               (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
    }
    memcpy(v, s->h, sizeof v);
    for (int i = 0; i < 64; i++) {
        const uint32_t e = v[4], a = v[0];
        const uint32_t one =
            v[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + K[i] + w[i];
        const uint32_t two =
            (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) s->h[i] += v[i];
}

static void hash_byte(sha256 *s, unsigned char byte)
{
    s->block[s->bytes++ % 64] = byte;
    if (s->bytes % 64 == 0) hash_block(s);
}

static void hash_numbers(sha256 *s, st_tensor x)
{
    for (ptrdiff_t i = 0; i < st_numel(x); i++) {
        uint64_t bits = 0;
        uint32_t narrow;
        const st_real value = st_data(x)[i];
        if (sizeof value == sizeof narrow) memcpy(&narrow, &value, sizeof narrow), bits = narrow;
        else memcpy(&bits, &value, sizeof value);
        for (size_t k = 0; k < sizeof value; k++) hash_byte(s, (unsigned char)(bits >> 8 * k));
    }
}

static void print_hash(sha256 *s)
{
    const uint64_t bits = 8 * s->bytes;
    hash_byte(s, 0x80);
    while (s->bytes % 64 != 56) hash_byte(s, 0);
    for (int i = 7; i >= 0; i--) hash_byte(s, (unsigned char)(bits >> 8 * i));
    for (int i = 0; i < 8; i++) printf("%08lx", (unsigned long)s->h[i]);
}

/* ---- training -------------------------------------------------------------------------------- */

static void stop_after(st_callback *self, st_run *run, st_event event)
{
    const long *steps = self->context;
    if (event == ST_ON_STEP && run->report.step == *steps) run->stop = true;
}

int main(int argc, char *argv[])
{
    long steps = argc > 2 ? atol(argv[2]) : 0;
    sha256 s = { { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                   0x5be0cd19 },
                 0,
                 { 0 } };
    st_net *n = st_net_new(
        ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = 6, .kernel = { 5 }, .padding = { 2 }), st_batchnorm(),
        st_relu(), st_maxpool(.kernel = { 2 }), st_conv2d(.out_channels = 16, .kernel = { 5 }), st_relu(),
        st_avgpool(.kernel = { 2 }), st_flatten(), st_dense(.out_features = 120), st_tanh(),
        st_dropout(.p = 0.25), st_dense(.out_features = 84), st_relu(), st_dense(.out_features = 10));
    st_dataset *digits = st_digits(IMAGES, 1);
    st_dataset *d = st_dataset_augment(digits, .shift = 2, .rotation = 10, .scale = 0.1, .seed = 3);
    st_optim *o = st_sgd(.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-4);
    st_train_result result = { 0 };
    st_train(
        n, d, .epochs = EPOCHS, .batch = BATCH, .steps_per_epoch = STEPS_PER_EPOCH,
        .loss = st_cross_entropy(), .optim = o, .schedule = st_cosine_lr(), .seed = 7, .result = &result,
        .callbacks = { { "stop", steps ? stop_after : NULL, &steps },
                       argc > 1 ? st_checkpoint(.path = argv[1], .resume = argc == 2) : (st_callback){ 0 } });
    if (st_error()) {
        fprintf(stderr, "%s\n", st_error());
        return 1;
    }
    hash_numbers(&s, st_net_parameters(n)), hash_numbers(&s, st_net_states(n));
    printf("%s %.3f ", sizeof(st_real) == 8 ? "double" : "float", result.training.accuracy);
    print_hash(&s);
    printf(" %ld\n", (long)result.resumed);
    st_net_free(n), st_dataset_free(d), st_dataset_free(digits), st_optim_free(o);
    return 0;
}
