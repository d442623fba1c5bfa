/* image.c: pixels from files, by libpng's simplified interface and TurboJPEG. */
#define _POSIX_C_SOURCE 200809L
#include "nn/pictures/pictures.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#ifdef STRIDE_PNG
#include <png.h>
#include <zlib.h>
#endif
#ifdef STRIDE_JPEG
#include <turbojpeg.h>
#endif

enum {
    MOST_PIXELS = 1 << 26, /* of one image, against broken headers */
    MOST_PACKED = 8 * 1032 /* pixels per byte of a file: 1 bit each, at deflate's highest ratio */
};

/* A file in memory, and its pixels in rows with interleaved channels: 1 or 3, then alpha if there is one. */
typedef struct pixels {
    const char *path;
    unsigned char *file, *at;
    size_t size;
    ptrdiff_t channels, height, width;
    bool alpha, wide; /* wide: 16 bits, premultiplied by alpha */
} pixels;

/* ---- formats ------------------------------------------------------------------------------------ */

static const struct {
    const char *ending;
    st_picture_kind kind;
} endings[] = {
    { ".png", ST_PICTURE_PNG },    { ".jpg", ST_PICTURE_JPEG },   { ".jpeg", ST_PICTURE_JPEG },
    { ".jpe", ST_PICTURE_JPEG },   { ".jfif", ST_PICTURE_JPEG },  { ".bmp", ST_PICTURE_OTHER },
    { ".webp", ST_PICTURE_OTHER }, { ".tif", ST_PICTURE_OTHER },  { ".tiff", ST_PICTURE_OTHER },
    { ".gif", ST_PICTURE_OTHER },  { ".ppm", ST_PICTURE_OTHER },  { ".pgm", ST_PICTURE_OTHER },
    { ".heic", ST_PICTURE_OTHER }, { ".heif", ST_PICTURE_OTHER }, { ".avif", ST_PICTURE_OTHER },
    { ".jp2", ST_PICTURE_OTHER },  { ".jxl", ST_PICTURE_OTHER },  { ".tga", ST_PICTURE_OTHER },
};

st_picture_kind st_picture_named(const char *path)
{
    const size_t length = path ? strlen(path) : 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t ending = strlen(endings[i].ending);
        if (length > ending && strcasecmp(path + length - ending, endings[i].ending) == 0)
            return endings[i].kind;
    }
    return ST_PICTURE_NONE;
}

const char *st_picture_missing(st_picture_kind kind)
{
#ifndef STRIDE_PNG
    if (kind == ST_PICTURE_PNG) return "libpng (libpng-dev)";
#endif
#ifndef STRIDE_JPEG
    if (kind == ST_PICTURE_JPEG) return "TurboJPEG (libturbojpeg0-dev)";
#endif
    (void)kind;
    return NULL;
}

#if !defined STRIDE_PNG || !defined STRIDE_JPEG
static int refuse_kind(const pixels *p, st_picture_kind kind)
{
    return st_error_set("%.200s: built without %s: install it and build again", p->path,
                        st_picture_missing(kind));
}
#endif

#if defined STRIDE_PNG || defined STRIDE_JPEG
static int make_pixels(pixels *p, long height, long width, int channels, bool alpha)
{
    if (height < 1 || width < 1 || height > MOST_PIXELS / width)
        return st_error_set("%.200s: %ldx%ld pixels, expected at most %d in all", p->path, height, width,
                            MOST_PIXELS);
    if ((size_t)(height * width / MOST_PACKED) > p->size)
        return st_error_set("%.200s: %ldx%ld pixels, more than a file of %zu bytes holds", p->path, height,
                            width, p->size);
    p->channels = channels, p->height = height, p->width = width, p->alpha = alpha;
    p->at = calloc((size_t)(height * width), ((size_t)channels + alpha) * (p->wide ? 2 : 1));
    return p->at ? 0 : st_error_set("%.200s: no memory for %ldx%ld pixels", p->path, height, width);
}
#endif

#ifdef STRIDE_PNG

static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Checks every chunk and its check sum, since libpng's simplified interface reads only as far as the last
 * row. */
static bool is_whole(const unsigned char *file, size_t size)
{
    for (size_t at = 8, length; at + 12 <= size; at += 12 + length) {
        length = big_endian(file + at);
        if (length > size - at - 12) return false;
        if (big_endian(file + at + 8 + length) != crc32(0, file + at + 4, (uInt)length + 4)) return false;
        if (memcmp(file + at + 4, "IEND", 4) == 0) return true;
    }
    return false;
}

/* libpng expands palettes and low bit depths. Files of 16 bits are read as linear, premultiplied by alpha,
 * so that values are not converted. */
static int read_png(pixels *p)
{
    png_image image = { .version = PNG_IMAGE_VERSION };
    if (!is_whole(p->file, p->size))
        return st_error_set("%.200s: broken PNG: truncated, or a wrong check sum", p->path);
    if (png_image_begin_read_from_memory(&image, p->file, p->size)) {
        bool colour = image.format & PNG_FORMAT_FLAG_COLOR;
        p->wide = image.format & PNG_FORMAT_FLAG_LINEAR;
        image.format = (colour ? PNG_FORMAT_RGBA : PNG_FORMAT_GA) | (p->wide ? PNG_FORMAT_FLAG_LINEAR : 0);
        if (make_pixels(p, image.height, image.width, colour ? 3 : 1, true) == 0)
            png_image_finish_read(&image, NULL, p->at, 0, NULL);
    }
    if (!st_error() && PNG_IMAGE_FAILED(image))
        st_error_set("%.200s: broken PNG: %.100s", p->path, image.message);
    png_image_free(&image);
    return st_error() ? -1 : 0;
}

#else

static int read_png(pixels *p)
{
    return refuse_kind(p, ST_PICTURE_PNG);
}

#endif

#ifdef STRIDE_JPEG

/* CMYK is stored inverted, as Adobe's programs write it. */
static void from_cmyk(pixels *p, const unsigned char *cmyk)
{
    for (ptrdiff_t i = 0; i < p->height * p->width; i++)
        for (int k = 0; k < 3; k++)
            p->at[3 * i + k] = (unsigned char)(cmyk[4 * i + k] * cmyk[4 * i + 3] / 255);
}

/* Warnings are errors, for example of a truncated file. */
static int read_jpeg(pixels *p)
{
    int width = 0, height = 0, sampling, colours = 0;
    unsigned char *cmyk = NULL;
    tjhandle jpeg = tjInitDecompress();
    int status =
        jpeg ? tjDecompressHeader3(jpeg, p->file, p->size, &width, &height, &sampling, &colours) : -1;
    bool ink = colours == TJCS_CMYK || colours == TJCS_YCCK, grey = colours == TJCS_GRAY;
    if (status == 0 && (height < 1 || width < 1))
        st_error_set("%.200s: broken JPEG: it ends before its size", p->path);
    else if (status == 0 && make_pixels(p, height, width, grey ? 1 : 3, false) == 0) {
        if (ink) cmyk = calloc((size_t)height * (size_t)width, 4);
        if (ink && !cmyk) st_error_set("%.200s: no memory for %dx%d pixels", p->path, height, width);
        else
            status = tjDecompress2(jpeg, p->file, p->size, ink ? cmyk : p->at, width, 0, height,
                                   ink    ? TJPF_CMYK
                                   : grey ? TJPF_GRAY
                                          : TJPF_RGB,
                                   TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING);
        if (ink && status == 0 && !st_error()) from_cmyk(p, cmyk);
    }
    if (status) st_error_set("%.200s: broken JPEG: %.100s", p->path, tjGetErrorStr2(jpeg));
    free(cmyk);
    tjDestroy(jpeg);
    return st_error() ? -1 : 0;
}

#else

static int read_jpeg(pixels *p)
{
    return refuse_kind(p, ST_PICTURE_JPEG);
}

#endif

/* ---- one file ---------------------------------------------------------------------------------- */

static void read_file(pixels *p)
{
    struct stat about;
    FILE *f = NULL;
    if (stat(p->path, &about) == 0 && !S_ISREG(about.st_mode)) { /* opening a FIFO would wait */
        st_error_set("%.200s: not a regular file", p->path);
        return;
    }
    if (!(f = fopen(p->path, "rb")) || fstat(fileno(f), &about))
        st_error_set("%.200s: %s", p->path, strerror(errno));
    else if (!(p->file = malloc((size_t)about.st_size + 1)))
        st_error_set("%.200s: no memory for %lld bytes", p->path, (long long)about.st_size);
    else p->size = fread(p->file, 1, (size_t)about.st_size, f);
    if (f && ferror(f)) st_error_set("%.200s: %s", p->path, strerror(errno));
    if (f) fclose(f);
}

/* Channel k of pixel i, 0 to 1, blended with black. */
static double value_of(const pixels *p, ptrdiff_t i, ptrdiff_t k)
{
    const ptrdiff_t each = p->channels + p->alpha;
    if (p->wide) return ((const uint16_t *)(const void *)p->at)[i * each + k] / 65535.0;
    return p->at[i * each + k] / 255.0 * (p->alpha ? p->at[i * each + p->channels] / 255.0 : 1);
}

/* [C, H, W] */
static st_tensor spread(const pixels *p)
{
    st_tensor to = st_tensor_new(ST_SHAPE(p->channels, p->height, p->width));
    for (ptrdiff_t k = 0; k < p->channels && !st_is_null(to); k++)
        for (ptrdiff_t i = 0; i < p->height * p->width; i++)
            st_data(to)[k * p->height * p->width + i] = (st_real)value_of(p, i, k);
    return to;
}

/* The first bytes of a file tell its kind, not its name. */
st_tensor st_picture_load(const char *path)
{
    pixels p = { .path = path };
    if (!path) st_error_set("st_picture_load: the path is NULL");
    if (!st_error()) read_file(&p);
    if (!st_error()) {
        if (p.size >= 8 && memcmp(p.file, "\x89PNG\r\n\x1a\n", 8) == 0) read_png(&p);
        else if (p.size >= 3 && memcmp(p.file, "\xff\xd8\xff", 3) == 0) read_jpeg(&p);
        else st_error_set("%.200s: neither PNG nor JPEG", p.path);
    }
    st_tensor image = st_error() ? (st_tensor){ 0 } : spread(&p);
    free(p.file);
    free(p.at);
    return image;
}

/* ---- resizing ------------------------------------------------------------------------------ */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Resizes one axis of [C, H, W] with a triangle filter, widened when shrinking. */
static st_tensor resample(st_tensor from, int axis, ptrdiff_t size)
{
    st_shape s = from.shape;
    double scale = (double)s.n[axis] / (double)size, reach = larger(scale, 1);
    s.n[axis] = size;
    st_tensor to = st_tensor_new(s);
    for (ptrdiff_t i = 0; i < size && !st_is_null(to); i++) {
        double centre = ((double)i + 0.5) * scale - 0.5, sum = 0;
        for (int pass = 0; pass < 2; pass++)
            for (ptrdiff_t j = (ptrdiff_t)larger(0, centre - reach);
                 j < from.shape.n[axis] && (double)j < centre + reach; j++) {
                double distance = (double)j > centre ? (double)j - centre : centre - (double)j;
                double weight = larger(0, 1 - distance / reach);
                if (pass == 0) sum += weight;
                else if (weight > 0)
                    st_add(st_select(to, axis, i), (st_real)(weight / sum), st_select(from, axis, j));
            }
    }
    st_tensor_free(from);
    return to;
}

static st_tensor recolour(st_tensor from, ptrdiff_t channels)
{
    static const double luminance[] = { 0.299, 0.587, 0.114 };
    st_tensor to = st_tensor_new(ST_SHAPE(channels, from.shape.n[1], from.shape.n[2]));
    if (from.shape.n[0] == 1) st_copy(to, st_expand(from, to.shape));
    else
        for (int k = 0; k < 3; k++) st_add(st_select(to, 0, 0), (st_real)luminance[k], st_select(from, 0, k));
    st_tensor_free(from);
    return to;
}

st_tensor st_picture_fit(st_tensor image, int channels, int height, int width)
{
    const st_shape x = image.shape;
    if (st_is_null(image) || st_error()) return (st_tensor){ 0 };
    if (x.rank != 3 || (x.n[0] != 1 && x.n[0] != 3) || (channels != 0 && channels != 1 && channels != 3) ||
        height < 0 || width < 0 || st_numel(image) == 0) {
        st_error_set("st_picture_fit: %s to %d channels, %dx%d: expected [1 or 3, H, W], 1 or 3 channels",
                     st_shape_text(x).text, channels, height, width);
        return (st_tensor){ 0 };
    }
    st_tensor fitted = st_tensor_clone(image);
    if (channels && channels != x.n[0]) fitted = recolour(fitted, channels);
    if (height && height != x.n[1]) fitted = resample(fitted, 1, height);
    if (width && width != x.n[2]) fitted = resample(fitted, 2, width);
    return fitted;
}
