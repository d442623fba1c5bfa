/* picture.c: pixels as PNG (ISO 15948) in base64 (RFC 4648). */
#include "examples/stride/picture.h"
#include "tensor/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MOST_SIDE = 96 };

/* ---- pixels ------------------------------------------------------------------------------------ */

static unsigned char byte_of(double value)
{
    return (unsigned char)lround(255 * (value > 0 ? fmin(value, 1) : 0)); /* NaN: 0 */
}

static picture picture_new(int width, int height, int channels)
{
    picture p = { width, height, channels, malloc((size_t)width * (size_t)height * (size_t)channels) };
    if (!p.pixels) st_error_set("picture: no memory for %d x %d pixels", width, height);
    return p;
}

void picture_free(picture *p)
{
    free(p->pixels);
    p->pixels = NULL;
}

/* An image as [C, H, W]; null, without an error, if it is not an image. */
static st_tensor planes(st_tensor image)
{
    st_shape s = image.shape;
    if (s.rank == 2) return st_expand(image, ST_SHAPE(1, s.n[0], s.n[1]));
    return s.rank == 3 && st_numel(image) > 0 ? image : (st_tensor){ 0 };
}

/* The mean of a block of `count` channels from `first` on. */
static double mean(st_tensor x, ptrdiff_t first, ptrdiff_t count, ptrdiff_t i, ptrdiff_t j, ptrdiff_t block)
{
    double sum = 0, pixels = 0;
    for (ptrdiff_t c = first; c < first + count; c++)
        for (ptrdiff_t a = i * block; a < (i + 1) * block && a < x.shape.n[1]; a++)
            for (ptrdiff_t b = j * block; b < (j + 1) * block && b < x.shape.n[2]; b++, pixels++)
                sum += (double)*st_at(x, ST_INDEX(c, a, b));
    return sum / pixels;
}

static ptrdiff_t block_of(st_tensor x)
{
    ptrdiff_t side = x.shape.n[1] > x.shape.n[2] ? x.shape.n[1] : x.shape.n[2];
    return (side + MOST_SIDE - 1) / MOST_SIDE;
}

picture picture_of(st_tensor image, double low, double high)
{
    st_tensor x = planes(image);
    if (st_is_null(x)) return (picture){ 0 };
    const ptrdiff_t block = block_of(x), planes_each = x.shape.n[0] == 3 ? 1 : x.shape.n[0];
    const int width = (int)((x.shape.n[2] + block - 1) / block),
              height = (int)((x.shape.n[1] + block - 1) / block), channels = x.shape.n[0] == 3 ? 3 : 1;
    picture p = picture_new(width, height, channels);
    unsigned char *at = p.pixels;
    for (int i = 0; i < height && at; i++)
        for (int j = 0; j < width; j++)
            for (int c = 0; c < channels; c++)
                *at++ = byte_of((mean(x, c, planes_each, i, j, block) - low) / (high - low));
    return p;
}

/* ---- weights ----------------------------------------------------------------------------------- */

static double max_abs(st_tensor x)
{
    double most = 0;
    for (ptrdiff_t c = 0; c < x.shape.n[0]; c++)
        for (ptrdiff_t i = 0; i < x.shape.n[1]; i++)
            for (ptrdiff_t j = 0; j < x.shape.n[2]; j++)
                most = fmax(most, fabs((double)*st_at(x, ST_INDEX(c, i, j))));
    return most;
}

picture picture_of_weights(st_tensor weight, const unsigned char above[3], const unsigned char below[3])
{
    st_tensor x = planes(weight);
    if (st_is_null(x)) return (picture){ 0 };
    double most = max_abs(x);
    if (x.shape.n[0] == 3) return picture_of(x, -most, most > 0 ? most : 1);
    picture p = picture_new((int)x.shape.n[2], (int)x.shape.n[1], 4);
    unsigned char *at = p.pixels;
    for (int i = 0; i < p.height && at; i++)
        for (int j = 0; j < p.width; j++, at += 4) {
            double value = mean(x, 0, x.shape.n[0], i, j, 1);
            memcpy(at, value > 0 ? above : below, 3);
            at[3] = byte_of(most > 0 ? fabs(value) / most : 0);
        }
    return p;
}

/* ---- PNG --------------------------------------------------------------------------------------- */

typedef struct bytes {
    unsigned char *at;
    size_t count;
} bytes;

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

/* Rows, each after the byte for no filter. */
static bytes rows(const picture *p)
{
    size_t row = (size_t)p->width * (size_t)p->channels;
    bytes b = { malloc((row + 1) * (size_t)p->height), 0 };
    for (int i = 0; i < p->height && b.at; i++) {
        put(&b, "", 1);
        put(&b, p->pixels + (size_t)i * row, row);
    }
    return b;
}

static bytes png(const picture *p)
{
    static const char signature[] = "\x89PNG\r\n\x1a\n";
    static const unsigned char colour_type[] = { [1] = 0, [3] = 2, [4] = 6 };
    bytes plain = rows(p), b = { 0 };
    uLongf packed = compressBound(plain.count);
    unsigned char *content = malloc(packed);
    if (plain.at && content && compress2(content, &packed, plain.at, plain.count, 9) == Z_OK)
        b.at = malloc(packed + 64);
    if (b.at) {
        unsigned char head[13] = { [3] = (unsigned char)p->width, [7] = (unsigned char)p->height, [8] = 8 };
        head[2] = (unsigned char)(p->width >> 8), head[6] = (unsigned char)(p->height >> 8);
        head[9] = colour_type[p->channels];
        put(&b, signature, 8);
        put_chunk(&b, "IHDR", head, sizeof head);
        put_chunk(&b, "IDAT", content, packed);
        put_chunk(&b, "IEND", "", 0);
    }
    free(content);
    free(plain.at);
    return b;
}

/* ---- base64 ------------------------------------------------------------------------------------ */

int picture_put(FILE *to, const picture *p)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes b = png(p);
    if (!b.at) return st_error_set("picture: no memory for %d x %d pixels", p->width, p->height);
    fputs("data:image/png;base64,", to);
    for (size_t i = 0; i < b.count; i += 3) {
        size_t left = b.count - i;
        unsigned three = (unsigned)b.at[i] << 16 | (left > 1 ? (unsigned)b.at[i + 1] << 8 : 0) |
                         (left > 2 ? b.at[i + 2] : 0);
        fputc(digit[three >> 18], to);
        fputc(digit[three >> 12 & 63], to);
        fputc(left > 1 ? digit[three >> 6 & 63] : '=', to);
        fputc(left > 2 ? digit[three & 63] : '=', to);
    }
    free(b.at);
    return 0;
}
