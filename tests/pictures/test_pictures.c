/* test_pictures.c: pixels from PNG and JPEG files that are written here, their sizes changed, folders of
 * them. */
#define _POSIX_C_SOURCE 200809L
#include "nn/pictures/pictures.h"

#include "nn/data/sets.h"
#include "tests/files.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef STRIDE_PNG
#include <png.h>
#ifdef STRIDE_JPEG
#include <turbojpeg.h>
#endif

/* ---- writing pictures ---------------------------------------------------------------------------- */

typedef struct picture {
    int kind, depth, width, height; /* kind: PNG_COLOR_TYPE_… */
    bool interlaced;
    int colours; /* of a palette */
    png_color palette[4];
    png_byte alpha[4]; /* of the palette's colours; used where transparent */
    bool transparent;
} picture;

/* Rows are `stride` bytes apart. */
static void write_png(const char *path, const picture *p, const unsigned char *raw, size_t stride)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_init_io(png, f);
    png_set_IHDR(png, info, (png_uint_32)p->width, (png_uint_32)p->height, p->depth, p->kind,
                 p->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (p->colours) png_set_PLTE(png, info, p->palette, p->colours);
    if (p->transparent) png_set_tRNS(png, info, p->alpha, p->colours, NULL);
    png_write_info(png, info);
    png_bytep rows[64];
    for (int i = 0; i < p->height; i++) rows[i] = (png_bytep)raw + (size_t)i * stride;
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    fclose(f);
}

#ifdef STRIDE_JPEG
static void write_jpeg(const char *path, int channels, int width, int height, const unsigned char *raw)
{
    const int format = channels == 1 ? TJPF_GRAY : channels == 3 ? TJPF_RGB : TJPF_CMYK;
    unsigned char *packed = NULL;
    unsigned long size = 0;
    tjhandle jpeg = tjInitCompress();
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(tjCompress2(jpeg, raw, width, 0, height, format, &packed, &size,
                                 channels == 1 ? TJSAMP_GRAY : TJSAMP_444, 100, 0),
                     0);
    assert_int_equal(fwrite(packed, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    tjFree(packed);
    tjDestroy(jpeg);
}
#endif

/* A grey PNG of one value. */
static void write_grey(const char *path, int width, int height, int value)
{
    unsigned char raw[4096];
    memset(raw, value, sizeof raw);
    picture p = { PNG_COLOR_TYPE_GRAY, 8, width, height, .interlaced = false };
    write_png(path, &p, raw, (size_t)width);
}

static void write_red(const char *path, int width, int height)
{
    unsigned char raw[4096] = { 0 };
    for (int i = 0; i < width * height; i++) raw[3 * i] = 255;
    picture p = { PNG_COLOR_TYPE_RGB, 8, width, height, .interlaced = false };
    write_png(path, &p, raw, (size_t)(3 * width));
}

/* ---- pixels -------------------------------------------------------------------------------------- */

static void assert_image(const char *path, st_shape s, const double *expected)
{
    st_tensor image = st_picture_load(path);
    assert_null(st_error());
    assert_string_equal(st_shape_text(image.shape).text, st_shape_text(s).text);
    for (ptrdiff_t i = 0; i < st_numel(image); i++) {
        double found = (double)*element(image, i), difference = found - expected[i];
        if (difference < -1e-7 || difference > 1e-7)
            fail_msg("%s: element %td is %g, expected %g", path, i, found, expected[i]);
    }
    st_tensor_free(image);
}

SETUP(enter_folder)

TEST(grey_of_any_depth)
{
    for (int depth = 1; depth <= 16; depth *= 2)
        for (int interlaced = 0; interlaced < 2; interlaced++) {
            enum { WIDTH = 11, HEIGHT = 9 };
            unsigned char raw[HEIGHT][2 * WIDTH] = { { 0 } };
            double expected[HEIGHT * WIDTH];
            dice d = { { (uint64_t)depth } };
            int most = (1 << depth) - 1;
            about("%d bits, interlaced %d", depth, interlaced);
            for (int i = 0; i < HEIGHT; i++)
                for (int j = 0; j < WIDTH; j++) {
                    int value = (int)roll(&d, 0, most), bit = j * depth;
                    expected[i * WIDTH + j] = (double)value / most;
                    if (depth == 16)
                        raw[i][2 * j] = (unsigned char)(value >> 8), raw[i][2 * j + 1] = (unsigned char)value;
                    else raw[i][bit / 8] |= (unsigned char)(value << (8 - depth - bit % 8));
                }
            picture p = { PNG_COLOR_TYPE_GRAY, depth, WIDTH, HEIGHT, .interlaced = interlaced };
            write_png(path_of("grey.png"), &p, raw[0], sizeof raw[0]);
            assert_image(path_of("grey.png"), ST_SHAPE(1, HEIGHT, WIDTH), expected);
        }
}

TEST(colours_are_planes)
{
    const unsigned char rgb[] = { 255, 0, 51, 0, 102, 255 };
    picture p = { PNG_COLOR_TYPE_RGB, 8, 2, 1, .interlaced = false };
    write_png(path_of("rgb.png"), &p, rgb, sizeof rgb);
    assert_image(path_of("rgb.png"), ST_SHAPE(3, 1, 2), (const double[]){ 1, 0, 0, 0.4, 0.2, 1 });
}

TEST(palettes_are_looked_up)
{
    const unsigned char places[] = { 0x1b }; /* 0, 1, 2, 3 in two bits each */
    picture p = { PNG_COLOR_TYPE_PALETTE,
                  2,
                  4,
                  1,
                  .colours = 4,
                  .transparent = true,
                  .palette = { { 255, 0, 0 }, { 0, 255, 0 }, { 255, 255, 255 }, { 255, 255, 255 } },
                  .alpha = { 255, 255, 51, 0 } };
    write_png(path_of("palette.png"), &p, places, 1);
    assert_image(path_of("palette.png"), ST_SHAPE(3, 1, 4),
                 (const double[]){ 1, 0, 0.2, 0, 0, 1, 0.2, 0, 0, 0, 0.2, 0 });
}

TEST(what_is_transparent_lies_on_black)
{
    const unsigned char grey[] = { 255, 255, 255, 102, 255, 0, 51, 255 },
                        rgba[] = { 255, 51, 0, 255, 255, 255, 255, 0 };
    picture p = { PNG_COLOR_TYPE_GRAY_ALPHA, 8, 4, 1, .interlaced = false };
    write_png(path_of("alpha.png"), &p, grey, sizeof grey);
    assert_image(path_of("alpha.png"), ST_SHAPE(1, 1, 4), (const double[]){ 1, 0.4, 0, 0.2 });
    p = (picture){ PNG_COLOR_TYPE_RGB_ALPHA, 8, 2, 1, .interlaced = false };
    write_png(path_of("rgba.png"), &p, rgba, sizeof rgba);
    assert_image(path_of("rgba.png"), ST_SHAPE(3, 1, 2), (const double[]){ 1, 0, 0.2, 0, 0, 0 });
}

#ifdef STRIDE_JPEG
TEST(jpeg_is_read)
{
    unsigned char grey[64], rgb[192], cmyk[256];
    memset(grey, 200, sizeof grey);
    memset(cmyk, 90, sizeof cmyk);
    for (int i = 0; i < 64; i++) rgb[3 * i] = 255, rgb[3 * i + 1] = 128, rgb[3 * i + 2] = 0;
    write_jpeg(path_of("grey.jpg"), 1, 8, 8, grey);
    st_tensor image = st_picture_load(path_of("grey.jpg"));
    assert_shape(image, 1, 8, 8);
    for (int i = 0; i < 64; i++) assert_true(fabs((double)*element(image, i) - 200 / 255.0) < 0.01);
    st_tensor_free(image);
    write_jpeg(path_of("rgb.jpeg"), 3, 8, 8, rgb);
    image = st_picture_load(path_of("rgb.jpeg"));
    assert_shape(image, 3, 8, 8);
    for (int i = 0; i < 192; i++)
        assert_true(fabs((double)*element(image, i) - (i < 64 ? 1 : i < 128 ? 128 / 255.0 : 0)) < 0.02);
    st_tensor_free(image);
    for (int i = 0; i < 64; i++) cmyk[4 * i] = 255, cmyk[4 * i + 3] = 200; /* inverted: no cyan, some black */
    write_jpeg(path_of("cmyk.jpg"), 4, 8, 8, cmyk);
    image = st_picture_load(path_of("cmyk.jpg"));
    assert_shape(image, 3, 8, 8);
    for (int i = 0; i < 192; i++)
        assert_true(fabs((double)*element(image, i) - (i < 64 ? 200 : 90 * 200 / 255.0) / 255) < 0.02);
    st_tensor_free(image);
}
#endif

/* ---- files that are broken ------------------------------------------------------------------------ */

static long size_of(const char *path)
{
    struct stat about_it;
    return stat(path, &about_it) == 0 ? (long)about_it.st_size : -1;
}

TEST(files_cut_off_are_refused_by_name)
{
    unsigned char noise[1024];
    dice d = { { 3 } };
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (unsigned char)roll(&d, 0, 255);
    picture p = { PNG_COLOR_TYPE_GRAY, 8, 16, 16, .interlaced = false };
    const char *const names[] = { "cut.png", "cut.jpg" };
    for (int kind = 0; kind < 2; kind++) {
        const char *path = path_of(names[kind]);
        if (kind == 0) write_png(path, &p, noise, 16);
#ifdef STRIDE_JPEG
        else write_jpeg(path, 1, 16, 16, noise);
#else
        else continue;
#endif
        for (long size = size_of(path) - 1; size >= 0; size -= 1 + size / 40) {
            about("%s of %ld bytes", names[kind], size);
            assert_int_equal(truncate(path, size), 0);
            expect_failure(st_picture_load(path), "%s: ", path);
        }
    }
    expect_failure(st_picture_load(path_of("none.png")), "none.png: No such file");
    expect_failure(st_picture_load(path_of("")), "not a regular file");
}

TEST(a_bit_that_is_wrong_is_found_in_png)
{
    const char *path = path_of("bits.png");
    int found = 0, tries = 0;
    for (long at = 8;; at += 3, tries++) {
        write_grey(path, 9, 9, 100);
        if (at >= size_of(path)) break;
        FILE *f = fopen(path, "r+b");
        fseek(f, at, SEEK_SET);
        int byte = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(byte ^ 0x10, f);
        fclose(f);
        st_tensor image = st_picture_load(path);
        found += st_is_null(image);
        st_tensor_free(image);
        st_error_clear();
    }
    assert_true(tries > 15 && found >= tries - 2); /* what is no data may be passed over */
}

#ifdef STRIDE_JPEG
/* A size in a header is not allocated where the file is too small for it. */
TEST(sizes_beyond_the_file_are_refused)
{
    const char *path = path_of("huge.jpg");
    unsigned char grey[64] = { 0 }, said[2048];
    write_jpeg(path, 1, 8, 8, grey);
    FILE *f = fopen(path, "r+b");
    size_t size = fread(said, 1, sizeof said, f), at = 0;
    while (at + 9 < size && (said[at] != 0xff || said[at + 1] != 0xc0)) at++;
    memcpy(said + at + 5, "\x1f\x40\x1f\x40", 4); /* 8000 x 8000 */
    rewind(f);
    assert_int_equal(fwrite(said, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    expect_failure(st_picture_load(path), "%s: 8000x8000 pixels, more than a file of %zu bytes holds", path,
                   size);
}

TEST(a_jpeg_that_ends_before_its_size_is_broken)
{
    static const char begun[] = "\xff\xd8\xff\xe0junk";
    const char *path = path_of("junk.jpg");
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(begun, 1, sizeof begun - 1, f), sizeof begun - 1);
    assert_int_equal(fclose(f), 0);
    expect_failure(st_picture_load(path), "%s: broken JPEG: ", path);
}
#endif

/* ---- sizes --------------------------------------------------------------------------------------- */

TEST(sizes_are_changed)
{
    st_tensor x = tensor_of(ST_SHAPE(1, 2, 4), 0, 4, 8, 12, 16, 20, 24, 28), y;
    y = st_picture_fit(x, 0, 0, 0);
    assert_same(y, x);
    st_tensor_free(y);
    y = st_picture_fit(x, 0, 1, 1); /* the mean, by triangles as wide as all: symmetric, so that of a ramp */
    assert_true(fabs((double)*element(y, 0) - 14) < 1e-5);
    st_tensor_free(y);
    y = st_picture_fit(x, 0, 2,
                       8); /* between neighbours at a quarter and three, and beyond the edge the edge */
    st_tensor between = tensor_of(ST_SHAPE(8), 0, 1, 3, 5, 7, 9, 11, 12);
    assert_near(st_select(st_select(y, 0, 0), 0, 0), between, 1e-5);
    st_tensor_free(between), st_tensor_free(y);
    y = st_picture_fit(x, 3, 2, 4);
    for (int k = 0; k < 3; k++) assert_same(st_select(y, 0, k), st_select(x, 0, 0));
    st_tensor grey = st_picture_fit(y, 1, 0, 0);
    assert_near(grey, x, 1e-5);
    st_tensor_free(grey), st_tensor_free(y), st_tensor_free(x);
    x = tensor_of(ST_SHAPE(3, 1, 1), 1, 0.5, 0.25);
    y = st_picture_fit(x, 1, 0, 0);
    assert_true(fabs((double)*element(y, 0) - (0.299 + 0.587 * 0.5 + 0.114 * 0.25)) < 1e-6);
    st_tensor_free(x), st_tensor_free(y);
}

TEST(pictures_without_pixels_are_refused)
{
    auto_tensor empty = st_tensor_new(ST_SHAPE(3, 0, 4));
    expect_failure(st_picture_fit(empty, 1, 5, 5),
                   "st_picture_fit: [3, 0, 4] to 1 channels, 5x5: expected [1 or 3, H, W]");
    expect_failure(st_picture_load(NULL), "st_picture_load: the path is NULL");
}

TEST(what_is_even_stays_even)
{
    st_tensor x = st_tensor_new(ST_SHAPE(1, 7, 5));
    st_fill(x, (st_real)0.75);
    for (int h = 1; h < 20; h += 3)
        for (int w = 1; w < 20; w += 2) {
            st_tensor y = st_picture_fit(x, 0, h, w);
            assert_shape(y, 1, h, w);
            for (ptrdiff_t i = 0; i < st_numel(y); i++)
                assert_true(fabs((double)*element(y, i) - 0.75) < 1e-6);
            st_tensor_free(y);
        }
    st_tensor_free(x);
}

/* ---- folders ------------------------------------------------------------------------------------- */

static const char *folder(const char *name)
{
    const char *path = path_of(name);
    mkdir(path, 0777);
    return path;
}

/* All that is told of a folder, a line each. */
typedef struct told {
    char text[4000];
    int read;
} told;

static void tell(void *context, st_pictures_event event, const char *path, const char *text)
{
    static const char *const names[] = { [ST_PICTURES_BAD] = "bad",
                                         [ST_PICTURES_FOREIGN] = "foreign",
                                         [ST_PICTURES_EMPTY] = "empty",
                                         [ST_PICTURES_UNEQUAL] = "unequal" };
    told *t = context;
    const size_t used = strlen(t->text);
    if (event == ST_PICTURES_READ) t->read++;
    else
        snprintf(t->text + used, sizeof t->text - used, "%s %s%s%s\n", names[event], strrchr(path, '/') + 1,
                 *text ? ": " : "", text);
}

static void assert_classes(const st_dataset *d, const char *expected) /* "Z a b" */
{
    ptrdiff_t count;
    const char *const *name = st_pictures_classes(d, &count);
    char all[200] = "";
    for (ptrdiff_t i = 0; i < count; i++) strcat(strcat(all, i ? " " : ""), name[i]);
    assert_string_equal(all, expected);
}

TEST(folders_are_classes)
{
    char path[512];
    snprintf(path, sizeof path, "%s", folder("set"));
    folder("set/b"), folder("set/a"), folder("set/Z"), folder("set/.hidden");
    write_grey(path_of("set/b/2.png"), 3, 2, 51);
    write_grey(path_of("set/b/1.png"), 3, 2, 102);
    write_grey(path_of("set/a/x.PNG"), 3, 2, 255);
    write_grey(path_of("set/Z/y.png"), 3, 2, 0);
    fclose(fopen(path_of("set/a/notes.txt"), "w"));
    st_dataset *d = st_pictures_new(path, (st_pictures_options){ 0 });
    assert_non_null(d);
    assert_classes(d, "Z a b");
    st_tensor x = st_tensor_new(ST_SHAPE(4, 1, 2, 3)), y = st_tensor_new(ST_SHAPE(4));
    assert_int_equal(d->count, 4);
    assert_int_equal(st_dataset_batch(d, NULL, 0, 4, x, y), 0);
    assert_elements(y, 0, 1, 2, 2);
    static const int pixels[] = { 0, 255, 102, 51 };
    for (int i = 0; i < 4; i++)
        assert_true(*st_at(x, ST_INDEX(i, 0, 1, 2)) == (st_real)((double)pixels[i] / 255));

    /* Names of another order; a class that is not there changes nothing. */
    static const char *const names[] = { "b", "c", "a", "Z" };
    expect_failure(st_pictures_match(d, 3, names), "classes that are not among the 3 names: Z");
    assert_int_equal(st_pictures_match(d, 4, names), 0);
    assert_int_equal(st_dataset_batch(d, NULL, 0, 4, x, y), 0);
    assert_elements(y, 3, 2, 0, 0);
    assert_classes(d, "Z a b");
    auto_dataset *part = st_dataset_slice(d, 1, 2);
    ptrdiff_t i = 1;
    const st_dataset *origin = st_dataset_origin(part, &i);
    assert_string_equal(strrchr(st_pictures_path(origin, i), '/'), "/1.png");
    assert_null(st_pictures_path(part, 0));
    assert_null(st_pictures_path(d, 4));
    expect_failure(st_pictures_match(part, 4, names), "the set is not one of st_pictures");
    expect_failure(st_pictures_match(d, -1, names), "st_pictures_match: -1 names, expected at least 0");
    expect_failure(st_pictures_match(d, 2, NULL), "2 names of a list that is NULL");
    expect_failure(st_pictures_match(d, 2, (const char *const[]){ "a", NULL }), "name 1 is NULL");
    expect_failure(st_pictures_match(d, 0, NULL), "classes that are not among the 0 names: Z, a, b");
    assert_string_equal(st_pictures_classes(d, NULL)[0], "Z");
    st_tensor_free(x), st_tensor_free(y), st_dataset_free(d);
}

TEST(sizes_and_colours_of_a_folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s", folder("sizes"));
    folder("sizes/a"), folder("sizes/b");
    write_grey(path_of("sizes/a/1.png"), 3, 2, 102);
    write_grey(path_of("sizes/b/1.png"), 3, 2, 51);
    write_red(path_of("sizes/b/3.png"), 3, 2); /* one in colour: all are */
    st_dataset *d = st_pictures_new(path, (st_pictures_options){ 0 });
    assert_true(st_shape_equal(d->x, ST_SHAPE(3, 2, 3)) && d->count == 3);
    st_dataset_free(d);
    d = st_pictures(path, .channels = 1);
    assert_true(st_shape_equal(d->x, ST_SHAPE(1, 2, 3)));
    st_dataset_free(d);
    write_grey(path_of("sizes/b/4.png"), 4, 2, 7);
    told heard = { 0 };
    expect_failure(st_pictures(path, .tell = tell, .context = &heard), "b/4.png is [3, 2, 4] and ");
    assert_non_null(strstr(heard.text, "unequal 4.png: "));
    assert_non_null(strstr(heard.text, "a/1.png is [3, 2, 3]\n"));
    d = st_pictures(path, .height = 5, .width = 6);
    assert_true(st_shape_equal(d->x, ST_SHAPE(3, 5, 6)) && d->count == 4);
    st_dataset_free(d);
    expect_failure(st_pictures(path, .channels = 2), "st_pictures: 2 channels, expected 0, 1 or 3");
    expect_failure(st_pictures(path, .height = -1), "-1 by 0, expected no negative size");
    expect_failure(st_pictures_new(NULL, (st_pictures_options){ 0 }), "the path is NULL");
    expect_failure(st_pictures_new(path_of("sizes/a"), (st_pictures_options){ 0 }),
                   "contains no folder with pictures");
    expect_failure(st_pictures_new(path_of("none"), (st_pictures_options){ 0 }), "No such file");
}

/* Every file is told once, also where a second pass begins, in colour; folders without a picture are no
 * classes. */
TEST(what_cannot_be_read_is_told)
{
    char path[512];
    told t = { .read = 0 };
    snprintf(path, sizeof path, "%s", folder("bad"));
    folder("bad/a"), folder("bad/b"), folder("bad/c"), folder("bad/d");
    write_grey(path_of("bad/b/1.png"), 3, 2, 102);
    write_grey(path_of("bad/b/2.png"), 3, 2, 51);
    write_grey(path_of("bad/c/x.png"), 3, 2, 51);
    write_grey(path_of("bad/d/y.png"), 3, 2, 51);
    assert_int_equal(truncate(path_of("bad/b/1.png"), 60), 0);
    assert_int_equal(truncate(path_of("bad/c/x.png"), 20), 0);
    fclose(fopen(path_of("bad/b/3.webp"), "w"));
    fclose(fopen(path_of("bad/b/4.BMP"), "w"));
    fclose(fopen(path_of("bad/d/5.Tiff"), "w"));
    write_red(path_of("bad/d/z.png"), 3, 2);
    expect_failure(st_pictures(path, .tell = tell, .context = &t), "bad: 5 pictures cannot be read");
    char expected[1200];
    snprintf(
        expected, sizeof expected,
        "bad 1.png: %s/b/1.png: broken PNG: truncated, or a wrong check sum\nforeign 3.webp\n"
        "foreign 4.BMP\nbad x.png: %s/c/x.png: broken PNG: truncated, or a wrong check sum\nforeign 5.Tiff\n",
        path, path);
    assert_string_equal(t.text, expected);

    t = (told){ .read = 0 };
    auto_dataset *d = st_pictures(path, .skip_bad = true, .tell = tell, .context = &t);
    assert_non_null(d);
    strcat(expected, "empty a\nempty c\n");
    assert_string_equal(t.text, expected);
    assert_true(d->count == 3 && st_shape_equal(d->x, ST_SHAPE(3, 2, 3)));
    assert_int_equal(t.read, 3);
    assert_classes(d, "b d");
    auto_tensor x = st_tensor_new(ST_SHAPE(3, 3, 2, 3)), y = st_tensor_new(ST_SHAPE(3));
    assert_int_equal(st_dataset_batch(d, NULL, 0, 3, x, y), 0);
    assert_elements(y, 0, 1, 1);
    assert_string_equal(strrchr(st_pictures_path(d, 0), '/'), "/2.png");

    assert_int_equal(
        remove(path_of("bad/b/2.png")) | remove(path_of("bad/d/y.png")) | remove(path_of("bad/d/z.png")), 0);
    expect_failure(st_pictures(path, .skip_bad = true), "bad: contains no picture that can be read");
}

TEST(formats_are_known_by_their_names)
{
    static const struct {
        const char *name;
        st_picture_kind kind;
    } cases[] = {
        { "a.png", ST_PICTURE_PNG },   { "b/a.PnG", ST_PICTURE_PNG },  { "a.jpg", ST_PICTURE_JPEG },
        { "a.JPEG", ST_PICTURE_JPEG }, { "a.webp", ST_PICTURE_OTHER }, { "a.tif", ST_PICTURE_OTHER },
        { "a.bmp", ST_PICTURE_OTHER }, { ".png", ST_PICTURE_NONE },    { "apng", ST_PICTURE_NONE },
        { "a.txt", ST_PICTURE_NONE },  { "", ST_PICTURE_NONE },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(st_picture_named(cases[i].name), cases[i].kind);
    assert_null(st_picture_missing(ST_PICTURE_PNG));
#ifdef STRIDE_JPEG
    assert_null(st_picture_missing(ST_PICTURE_JPEG));
#else
    assert_string_equal(st_picture_missing(ST_PICTURE_JPEG), "TurboJPEG (libturbojpeg0-dev)");
    folder("jpegs"), folder("jpegs/a");
    fclose(fopen(path_of("jpegs/a/1.jpg"), "w"));
    fclose(fopen(path_of("jpegs/a/2.jpg"), "w"));
    expect_failure(st_pictures_new(path_of("jpegs"), (st_pictures_options){ 0 }),
                   "jpegs: 2 JPEG pictures, but built without TurboJPEG (libturbojpeg0-dev): install it");
#endif
}

#else

TEST(pictures)
{
    skip_because("libpng is not installed (libpng-dev)");
}

#endif
