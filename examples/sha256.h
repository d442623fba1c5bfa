/* sha256.h: the SHA-256 sum of a stream of bytes (FIPS 180-4). */
#ifndef STRIDE_EXAMPLES_SHA256_H
#define STRIDE_EXAMPLES_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    unsigned char block[64];
} sha256;

typedef struct sha256_string {
    char text[65]; /* lower-case hexadecimal digits */
} sha256_string;

sha256 sha256_begin(void);
void sha256_add(sha256 *s, const void *bytes, size_t count);
sha256_string sha256_end(sha256 s); /* of a copy: the stream may go on */

#endif
