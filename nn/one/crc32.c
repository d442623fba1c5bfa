/* crc32.c: the checksum that nn/files/ calls of zlib, for the one file. */
#include <stddef.h>
#include <stdint.h>

static unsigned long crc32_z(unsigned long sum, const unsigned char *bytes, size_t count)
{
    uint32_t crc = ~(uint32_t)sum;
    for (; count > 0; count--) {
        crc ^= *bytes++;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (UINT32_C(0xedb88320) & (0 - (crc & 1)));
    }
    return (uint32_t)~crc;
}
