/* png.c: images as PNG (ISO 15948) in base64 (RFC 4648). */
#include "examples/stride/page.h"
#include "tensor/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MOST_SIDE = 96 };

/* ---- pixels ------------------------------------------------------------------------------------ */

typedef struct picture {
    st_tensor x;
    double low, high;
    ptrdiff_t block; /* pixels of x on a side of a pixel */
    ptrdiff_t width, height, channels;
} picture;

typedef struct bytes {
    unsigned char *at;
    size_t count;
} bytes;

/* The mean of a block of `count` channels from `first` on. */
static double mean(const picture *p, ptrdiff_t first, ptrdiff_t count, ptrdiff_t i, ptrdiff_t j)
{
    const ptrdiff_t *n = p->x.shape.n, block = p->block;
    double sum = 0, pixels = 0;
    for (ptrdiff_t c = first; c < first + count; c++)
        for (ptrdiff_t a = i * block; a < (i + 1) * block && a < n[1]; a++)
            for (ptrdiff_t b = j * block; b < (j + 1) * block && b < n[2]; b++, pixels++)
                sum += (double)*st_at(p->x, ST_INDEX(c, a, b));
    return sum / pixels;
}

/* Rows, each after the byte for no filter. */
static bytes rows(const picture *p)
{
    bytes b = { malloc((size_t)((p->width * p->channels + 1) * p->height)), 0 };
    for (ptrdiff_t i = 0; i < p->height && b.at; i++) {
        b.at[b.count++] = 0;
        for (ptrdiff_t k = 0; k < p->width * p->channels; k++) {
            const ptrdiff_t each = p->channels == 3 ? 1 : p->x.shape.n[0];
            const double part =
                (mean(p, k % p->channels, each, i, k / p->channels) - p->low) / (p->high - p->low);
            b.at[b.count++] = (unsigned char)lround(255 * (part > 0 ? fmin(part, 1) : 0)); /* NaN: 0 */
        }
    }
    return b;
}

/* ---- PNG --------------------------------------------------------------------------------------- */

static void put(bytes *b, const void *from, size_t count)
{
    memcpy(b->at + b->count, from, count);
    b->count += count;
}

static void put_big(bytes *b, uLong value)
{
    const unsigned char four[] = { (unsigned char)(value >> 24), (unsigned char)(value >> 16),
                                   (unsigned char)(value >> 8), (unsigned char)value };
    put(b, four, sizeof four);
}

static void put_chunk(bytes *b, const char *type, const void *content, size_t count)
{
    put_big(b, count);
    put(b, type, 4);
    put(b, content, count);
    put_big(b, crc32(0, b->at + b->count - count - 4, (uInt)count + 4));
}

static bytes png(const picture *p)
{
    bytes plain = rows(p), b = { 0 };
    uLongf packed = compressBound(plain.count);
    unsigned char *content = malloc(packed);
    if (plain.at && content && compress2(content, &packed, plain.at, plain.count, 9) == Z_OK)
        b.at = malloc(packed + 64);
    if (b.at) {
        const unsigned char head[13] = { [3] = (unsigned char)p->width,
                                         [7] = (unsigned char)p->height,
                                         [8] = 8,
                                         [9] = p->channels == 3 ? 2 : 0 };
        put(&b, "\x89PNG\r\n\x1a\n", 8);
        put_chunk(&b, "IHDR", head, sizeof head);
        put_chunk(&b, "IDAT", content, packed);
        put_chunk(&b, "IEND", "", 0);
    }
    free(content);
    free(plain.at);
    return b;
}

int page_image(FILE *to, const char *alt, st_tensor image, double low, double high)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const ptrdiff_t *n = image.shape.n;
    if (image.shape.rank != 3 || st_numel(image) == 0) return 0;
    const ptrdiff_t block = ((n[1] > n[2] ? n[1] : n[2]) + MOST_SIDE - 1) / MOST_SIDE;
    const picture p = {
        image, low, high, block, (n[2] + block - 1) / block, (n[1] + block - 1) / block, n[0] == 3 ? 3 : 1
    };
    bytes b = png(&p);
    if (!b.at) return st_error_set("no memory for a picture of %td x %td pixels", p.width, p.height);
    page_put(to, "<img alt=\"", alt, "\" src=\"data:image/png;base64,");
    for (size_t i = 0; i < b.count; i += 3) {
        size_t left = b.count - i;
        unsigned three = (unsigned)b.at[i] << 16 | (left > 1 ? (unsigned)b.at[i + 1] << 8 : 0) |
                         (left > 2 ? b.at[i + 2] : 0);
        fputc(digit[three >> 18], to);
        fputc(digit[three >> 12 & 63], to);
        fputc(left > 1 ? digit[three >> 6 & 63] : '=', to);
        fputc(left > 2 ? digit[three & 63] : '=', to);
    }
    fputs("\"/>", to);
    free(b.at);
    return 0;
}
