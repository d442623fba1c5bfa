/* fuzz_picture.c: st_picture_load takes any bytes, and what it takes is 0 to 1. Its pixels take more than the
 * file, each up to 32 bytes, but no more of them than the file may hold.
 *
 * An input: a byte that says what the rest is: a file; a PNG whose check sums are made right; or a PNG's 13
 * bytes of header and rows, which are packed. */
#include "tests/fuzz/fuzz.h"

#include "nn/pictures/pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#ifdef STRIDE_JPEG
#include <jpeglib.h>
#endif

enum { WHOLE, MENDED, ROWS, KINDS, HEADER = 13, MOST = 1 << 14 };

static const char signature[] = "\x89PNG\r\n\x1a\n";

static uint32_t get(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Chunks of 4 bytes of length, 4 of a name, data and 4 of a check sum, as far as they go. */
static void mend(uint8_t *png, size_t size)
{
    for (size_t at = 8, length; at + 12 <= size && (length = get(png + at)) <= size - at - 12;
         at += 12 + length)
        put(png + at + 8 + length, (uint32_t)crc32(0, png + at + 4, (unsigned)length + 4));
}

static size_t put_chunk(uint8_t *to, const char *name, const uint8_t *from, size_t size)
{
    put(to, (uint32_t)size);
    memcpy(to + 4, name, 4);
    if (size > 0) memmove(to + 8, from, size);
    put(to + 8 + size, (uint32_t)crc32(0, to + 4, (unsigned)size + 4));
    return 12 + size;
}

/* A palette of two colours comes with every one; libpng passes it over where it has no place. */
static size_t make(const uint8_t *at, size_t size, uint8_t *png)
{
    static uint8_t packed[2 * MOST];
    uLongf room = sizeof packed;
    memcpy(png, signature, 8);
    size_t used = 8 + put_chunk(png + 8, "IHDR", at, HEADER);
    fuzz_claim(compress2(packed, &room, at + HEADER, size - HEADER, 1) == Z_OK, "rows are packed");
    if (at[9] == 3) used += put_chunk(png + used, "PLTE", (const uint8_t *)"\1\2\3\4\5\6", 6);
    used += put_chunk(png + used, "IDAT", packed, room);
    return used + put_chunk(png + used, "IEND", NULL, 0);
}

static void claim_range(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        st_real x = at[0][i * stride[0]];
        fuzz_claim(x >= 0 && x <= 1, "pixels are 0 to 1");
    }
}

/* The memory of a picture that has as many pixels as its file says and may hold. */
static long long decoded(const uint8_t *file, size_t size)
{
    enum { MOST_PACKED = 8 * 1032, EDGE = 64, PIXEL = 32 };
    long long height = 0, width = 0;
    if (size > 24 && memcmp(file, signature, 8) == 0) width = get(file + 16), height = get(file + 20);
    else
        for (size_t at = 2; at + 9 < size && file[at] == 0xff && height == 0;) {
            const uint8_t *marker = file + at;
            if (marker[1] >= 0xc0 && marker[1] <= 0xc2)
                height = marker[5] << 8 | marker[6], width = marker[7] << 8 | marker[8];
            at += marker[1] == 0xff ? 1 : 2 + (marker[2] << 8 | marker[3]); /* 0xff fills room before one */
        }
    if (width > 0 && height / MOST_PACKED > (long long)size / width) return 0;
    return (height + EDGE) * (width + EDGE) * PIXEL;
}

static void read_picture(const uint8_t *file, size_t size)
{
    const char *path = fuzz_file("picture", file, size);
    fuzz_allow(decoded(file, size));
    fuzz_begin();
    st_tensor x = st_picture_load(path);
    if (!fuzz_took(!st_is_null(x))) return;
    st_walk(1, &x, ST_ANY_ORDER, claim_range, NULL);
    if (st_numel(x) < 1 << 12) {
        st_tensor y = st_picture_fit(x, size % 2 ? 1 : 3, 3, 5);
        fuzz_look(y);
        st_tensor_free(y);
    }
    st_tensor_free(x);
}

static void feed(const uint8_t *at, size_t size)
{
    static uint8_t png[4 * MOST];
    if (size < 1 || size > MOST) return;
    int kind = *at++ % KINDS;
    size--;
    if (kind == ROWS && size < HEADER) return;
    if (kind == ROWS) size = make(at, size, png);
    else memcpy(png, at, size);
    if (kind == MENDED) mend(png, size);
    read_picture(png, size);
}

/* Texts of many MiB, packed, in a picture without its end. */
static void large(void)
{
    enum { TEXTS = 64, TEXT = 4 << 20, PACKED = 1 << 16 };
    static uint8_t png[TEXTS * PACKED] = "\x89PNG\r\n\x1a\n", chunk[PACKED / 2] = "a";
    uint8_t *text = calloc(TEXT, 1);
    uLongf room = sizeof chunk - 3;
    fuzz_claim(compress2(chunk + 3, &room, text, TEXT, 9) == Z_OK, "a text is packed");
    free(text);
    size_t used = 8 + put_chunk(png + 8, "IHDR", (const uint8_t *)"\0\0\0\1\0\0\0\1\x08\0\0\0", HEADER);
    for (int i = 0; i < TEXTS; i++) used += put_chunk(png + used, "zTXt", chunk, 3 + room);
    read_picture(png, used);
}

/* ---- seeds ----------------------------------------------------------------------------------- */

#ifdef STRIDE_JPEG
static void seed_jpeg(int channels, bool progressive)
{
    static uint8_t row[3 * 9] = { 1, 200, 30 };
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    const char *path = fuzz_path("picture");
    FILE *f = fopen(path, "wb");
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, f);
    jpeg.image_width = jpeg.image_height = 9;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    if (progressive) jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    for (int i = 0; i < 9; i++) jpeg_write_scanlines(&jpeg, (JSAMPROW[]){ row }, 1);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    fclose(f);
    fuzz_seed_file(path, WHOLE);
}
#endif

/* Every colour type and depth, plain and interlaced. */
static void seed(void)
{
    static const uint8_t kinds[][2] = {
        { 0, 1 }, { 0, 8 }, { 0, 16 }, { 2, 8 }, { 3, 1 }, { 4, 8 }, { 6, 16 }
    };
    uint8_t input[256], png[1024];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (uint8_t interlaced = 0; interlaced < 2; interlaced++) {
            memset(input, 0, sizeof input);
            input[0] = ROWS;
            put(input + 1, 3), put(input + 5, 2);
            input[9] = kinds[i][1], input[10] = kinds[i][0], input[13] = interlaced;
            fuzz_seed(input, sizeof input / 2);
            png[0] = MENDED;
            fuzz_seed(png, 1 + make(input + 1, 80, png + 1));
        }
#ifdef STRIDE_JPEG
    seed_jpeg(1, false);
    seed_jpeg(3, false);
    seed_jpeg(3, true);
#endif
}

static const char *const words[] = {
    "IHDR",     "PLTE",     "IDAT",     "IEND",         "tRNS",     "gAMA",     "sBIT",
    "iCCP",     "zTXt",     "bKGD",     "\xff\xd8\xff", "\xff\xc0", "\xff\xc2", "\xff\xc4",
    "\xff\xda", "\xff\xdb", "\xff\xdd", "\xff\xd9",     "\xff\xee", "Adobe",    NULL
};

const fuzzer fuzz = { feed, seed, large, .words = words };
