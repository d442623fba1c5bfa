/* sha256.c: blocks of 64 bytes are stirred into eight words, one after another. */
#include "examples/sha256.h"

#include <stdio.h>

enum { BLOCK = 64 };

/* The first 32 bits of the fractions of the square roots of the first 8 primes, and of the cube roots of
 * the first 64. */
static const uint32_t ROOT[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};
static const uint32_t CUBE_ROOT[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int right)
{
    return x >> right | x << (32 - right);
}

static void expand(uint32_t w[64], const unsigned char *block)
{
    for (int i = 0; i < 16; i++, block += 4)
        w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    for (int i = 16; i < 64; i++) {
        uint32_t near = w[i - 2], far = w[i - 15];
        w[i] = w[i - 16] + (rotate(far, 7) ^ rotate(far, 18) ^ far >> 3) + w[i - 7] +
               (rotate(near, 17) ^ rotate(near, 19) ^ near >> 10);
    }
}

static void stir(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], v[8]; /* a, b, … h of the standard */
    expand(w, block);
    for (int i = 0; i < 8; i++) v[i] = state[i];
    for (int i = 0; i < 64; i++) {
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        uint32_t first =
            v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) + choice + CUBE_ROOT[i] + w[i];
        uint32_t second = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) + majority;
        for (int j = 7; j > 0; j--) v[j] = v[j - 1];
        v[4] += first;
        v[0] = first + second;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

sha256 sha256_begin(void)
{
    sha256 s = { .length = 0 };
    for (int i = 0; i < 8; i++) s.state[i] = ROOT[i];
    return s;
}

void sha256_add(sha256 *s, const void *bytes, size_t count)
{
    for (const unsigned char *from = bytes; count > 0; count--) {
        s->block[s->length++ % BLOCK] = *from++;
        if (s->length % BLOCK == 0) stir(s->state, s->block);
    }
}

/* The stream, a bit of 1, zeros, and at the end of a block the length in bits. */
sha256_string sha256_end(sha256 s)
{
    unsigned char bits[8];
    for (int i = 0; i < 8; i++) bits[i] = (unsigned char)(s.length * 8 >> (56 - 8 * i));
    sha256_add(&s, "\x80", 1);
    while (s.length % BLOCK != BLOCK - sizeof bits) sha256_add(&s, "", 1);
    sha256_add(&s, bits, sizeof bits);
    sha256_string out;
    for (int i = 0; i < 8; i++) snprintf(out.text + 8 * i, 9, "%08lx", (unsigned long)s.state[i]);
    return out;
}
