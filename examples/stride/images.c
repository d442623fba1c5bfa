/* images.c: files to pixels of 16 bits, in which 8 bits are kept exactly (255 * 257 = 65535). */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/images.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#ifdef STRIDE_PNG
#include <png.h>
#endif
#ifdef STRIDE_JPEG
#include <jpeglib.h>
#endif

enum {
    MOST_PIXELS = 1 << 26,  /* of one image: what a broken header says is not allocated */
    MOST_PACKED = 8 * 1032, /* pixels in a byte of a file: of a bit each, where deflate packs most */
    WHITE = 65535,
    LONGEST_PATH = 4096
};

/* Rows of pixels, channels side by side. */
typedef struct pixels {
    uint16_t *at;
    ptrdiff_t channels, height, width;
} pixels;

/* Of a file of so many bytes. */
static int make_pixels(pixels *p, const char *path, long long size, ptrdiff_t channels, ptrdiff_t height,
                       ptrdiff_t width)
{
    if (height < 1 || width < 1 || height > MOST_PIXELS / width)
        return error_set("%.200s: %tdx%td pixels, expected at most %d in all", path, height, width,
                         MOST_PIXELS);
    if (height * width / MOST_PACKED > size)
        return error_set("%.200s: %tdx%td pixels, more than a file of %lld bytes holds", path, height, width,
                         size);
    *p = (pixels){ calloc((size_t)(channels * height * width), sizeof *p->at), channels, height, width };
    return p->at ? 0 : error_set("%.200s: no memory for %tdx%td pixels", path, height, width);
}

/* What a library of somebody else's says is wrong, and the way back from where it says so. */
typedef struct complaint {
    jmp_buf back;
    const char *path;
    long long size; /* of the file */
} complaint;

/* ---- PNG --------------------------------------------------------------------------------------- */

#ifdef STRIDE_PNG

static void complain_png(png_structp png, png_const_charp text)
{
    complaint *c = png_get_error_ptr(png);
    error_set("%.200s: broken PNG: %.100s", c->path, text);
    longjmp(c->back, 1);
}

static void ignore_png(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

/* Grey or RGB with alpha, 16 bits, the most significant byte first. */
static void lay_on_black(pixels *p, ptrdiff_t row, const unsigned char *from)
{
    ptrdiff_t parts = p->channels + 1;
    for (ptrdiff_t j = 0; j < p->width; j++, from += 2 * parts) {
        const unsigned char *a = from + 2 * p->channels;
        uint64_t alpha = (uint64_t)(a[0] << 8 | a[1]);
        for (ptrdiff_t k = 0; k < p->channels; k++) {
            uint64_t value = (uint64_t)(from[2 * k] << 8 | from[2 * k + 1]);
            p->at[(row * p->width + j) * p->channels + k] = (uint16_t)((value * alpha + WHITE / 2) / WHITE);
        }
    }
}

/* All that may be jumped over is in `work`, which the caller frees. */
typedef struct png_work {
    png_structp png;
    png_infop info;
    unsigned char *bytes, **rows;
} png_work;

static int decode_png(png_work *w, FILE *f, complaint *c, pixels *to)
{
    if (setjmp(c->back)) return -1;
    png_set_keep_unknown_chunks(w->png, PNG_HANDLE_CHUNK_NEVER, NULL,
                                -1); /* texts, profiles: up to 8 MB each */
    png_init_io(w->png, f);
    png_read_info(w->png, w->info);
    bool grey = !(png_get_color_type(w->png, w->info) & PNG_COLOR_MASK_COLOR);
    ptrdiff_t height = png_get_image_height(w->png, w->info), width = png_get_image_width(w->png, w->info);
    if (make_pixels(to, c->path, c->size, grey ? 1 : 3, height, width)) return -1;
    png_set_expand_16(w->png); /* palettes, few bits and transparent colours too */
    png_set_add_alpha(w->png, WHITE, PNG_FILLER_AFTER);
    png_set_interlace_handling(w->png);
    png_read_update_info(w->png, w->info);
    size_t row = png_get_rowbytes(w->png, w->info);
    if (row != (size_t)(2 * (to->channels + 1) * width))
        return error_set("%.200s: PNG of an unknown kind", c->path);
    w->bytes = calloc((size_t)height, row);
    w->rows = calloc((size_t)height, sizeof *w->rows);
    if (!w->bytes || !w->rows) return error_set("%.200s: no memory", c->path);
    for (ptrdiff_t i = 0; i < height; i++) w->rows[i] = w->bytes + (size_t)i * row;
    png_read_image(w->png, w->rows);
    png_read_end(w->png, NULL);
    for (ptrdiff_t i = 0; i < height; i++) lay_on_black(to, i, w->rows[i]);
    return 0;
}

static int read_png(const char *path, long long size, FILE *f, pixels *to)
{
    complaint c = { .path = path, .size = size };
    png_work w = { .png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &c, complain_png, ignore_png) };
    if (w.png) w.info = png_create_info_struct(w.png);
    int status = w.info ? decode_png(&w, f, &c, to) : error_set("%.200s: no memory", path);
    png_destroy_read_struct(&w.png, &w.info, NULL);
    free(w.bytes);
    free(w.rows);
    return status;
}

#else

static int read_png(const char *path, long long size, FILE *f, pixels *to)
{
    (void)size, (void)f, (void)to;
    return error_set("%.200s: built without libpng, which reads PNG (install libpng-dev and run make again)",
                     path);
}

#endif

/* ---- JPEG -------------------------------------------------------------------------------------- */

#ifdef STRIDE_JPEG

typedef struct jpeg_work {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors; /* first, so that ... */
    complaint complaint;
    unsigned char *row;
} jpeg_work;

static void complain_jpeg(j_common_ptr jpeg)
{
    jpeg_work *w = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    error_set("%.200s: broken JPEG: %.100s", w->complaint.path, text);
    longjmp(w->complaint.back, 1);
}

/* A warning is of data that are not as they should be: cut off, say. */
static void take_seriously(j_common_ptr jpeg, int level)
{
    if (level < 0) complain_jpeg(jpeg);
}

static int decode_jpeg(jpeg_work *w, FILE *f, pixels *to)
{
    struct jpeg_decompress_struct *jpeg = &w->jpeg;
    if (setjmp(w->complaint.back)) return -1;
    jpeg_create_decompress(jpeg);
    jpeg_stdio_src(jpeg, f);
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->num_components != 1 && jpeg->num_components != 3)
        return error_set("%.200s: a JPEG of %d channels, expected grey or RGB", w->complaint.path,
                         jpeg->num_components);
    jpeg->out_color_space = jpeg->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg->dct_method = JDCT_ISLOW;
    ptrdiff_t channels = jpeg->num_components, height = jpeg->image_height, width = jpeg->image_width;
    if (make_pixels(to, w->complaint.path, w->complaint.size, channels, height, width)) return -1;
    w->row = malloc((size_t)(channels * width));
    if (!w->row) return error_set("%.200s: no memory", w->complaint.path);
    jpeg_start_decompress(jpeg);
    for (ptrdiff_t i = 0; i < height; i++) {
        jpeg_read_scanlines(jpeg, &w->row, 1);
        for (ptrdiff_t j = 0; j < channels * width; j++)
            to->at[i * channels * width + j] = (uint16_t)(w->row[j] * 257);
    }
    jpeg_finish_decompress(jpeg);
    return 0;
}

static int read_jpeg(const char *path, long long size, FILE *f, pixels *to)
{
    jpeg_work w = { .complaint = { .path = path, .size = size } };
    w.jpeg.err = jpeg_std_error(&w.errors);
    w.jpeg.client_data = &w;
    w.errors.error_exit = complain_jpeg;
    w.errors.emit_message = take_seriously;
    int status = decode_jpeg(&w, f, to);
    jpeg_destroy_decompress(&w.jpeg);
    free(w.row);
    return status;
}

#else

static int read_jpeg(const char *path, long long size, FILE *f, pixels *to)
{
    (void)size, (void)f, (void)to;
    return error_set(
        "%.200s: built without libjpeg, which reads JPEG (install libjpeg-dev and run make again)", path);
}

#endif

/* ---- one file ---------------------------------------------------------------------------------- */

bool image_named(const char *path)
{
    static const char *const endings[] = { ".png", ".jpg", ".jpeg" };
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(path), ending = strlen(endings[i]);
        if (length > ending && strcasecmp(path + length - ending, endings[i]) == 0) return true;
    }
    return false;
}

/* What a file is, its first bytes say and not its name. */
static int read_pixels(const char *path, pixels *to)
{
    static const unsigned char png[] = "\x89PNG\r\n\x1a\n", jpeg[] = "\xff\xd8\xff";
    unsigned char first[8] = "";
    struct stat about;
    *to = (pixels){ 0 };
    FILE *f = fopen(path, "rb");
    if (!f) return error_set("%.200s: %s", path, strerror(errno));
    int status = -1;
    size_t length = fstat(fileno(f), &about) == 0 && S_ISREG(about.st_mode) ? fread(first, 1, 8, f) : 0;
    rewind(f);
    if (length == 8 && memcmp(first, png, 8) == 0) status = read_png(path, about.st_size, f, to);
    else if (length >= 3 && memcmp(first, jpeg, 3) == 0) status = read_jpeg(path, about.st_size, f, to);
    else error_set("%.200s: neither PNG nor JPEG", path);
    fclose(f);
    if (status) free(to->at);
    return status;
}

/* [C, H, W] of 0 to 1. */
static void spread(const pixels *p, tensor to)
{
    for (ptrdiff_t i = 0; i < p->height; i++)
        for (ptrdiff_t j = 0; j < p->width; j++)
            for (ptrdiff_t k = 0; k < p->channels; k++)
                *tensor_at(to, INDEX(k, i, j)) =
                    (real)p->at[(i * p->width + j) * p->channels + k] / (real)WHITE;
}

tensor image_read(const char *path)
{
    pixels p;
    if (read_pixels(path, &p)) return (tensor){ 0 };
    tensor image = tensor_new(SHAPE(p.channels, p.height, p.width));
    if (!tensor_is_null(image)) spread(&p, image);
    free(p.at);
    return image;
}

/* ---- another size ------------------------------------------------------------------------------ */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Along `axis` of [C, H, W]: a triangle about where each new pixel was, as wide as it covers there. */
static tensor resample(tensor from, int axis, ptrdiff_t size)
{
    shape s = from.shape;
    double scale = (double)s.n[axis] / (double)size, reach = larger(scale, 1);
    s.n[axis] = size;
    tensor to = tensor_new(s);
    for (ptrdiff_t i = 0; i < size && !tensor_is_null(to); i++) {
        double centre = ((double)i + 0.5) * scale - 0.5, sum = 0;
        for (int pass = 0; pass < 2; pass++)
            for (ptrdiff_t j = (ptrdiff_t)larger(0, centre - reach);
                 j < from.shape.n[axis] && (double)j < centre + reach; j++) {
                double distance = (double)j > centre ? (double)j - centre : centre - (double)j;
                double weight = larger(0, 1 - distance / reach);
                if (pass == 0) sum += weight;
                else if (weight > 0)
                    tensor_add(tensor_select(to, axis, i), (real)(weight / sum),
                               tensor_select(from, axis, j));
            }
    }
    tensor_free(from);
    return to;
}

static tensor recolour(tensor from, ptrdiff_t channels)
{
    static const double luminance[] = { 0.299, 0.587, 0.114 };
    tensor to = tensor_new(SHAPE(channels, from.shape.n[1], from.shape.n[2]));
    if (from.shape.n[0] == 1) tensor_copy(to, tensor_expand(from, to.shape));
    else
        for (int k = 0; k < 3; k++)
            tensor_add(tensor_select(to, 0, 0), (real)luminance[k], tensor_select(from, 0, k));
    tensor_free(from);
    return to;
}

tensor image_fit(tensor image, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t width)
{
    if (tensor_is_null(image)) return image;
    tensor fitted = tensor_clone(image);
    if (channels && channels != image.shape.n[0]) fitted = recolour(fitted, channels);
    if (height && height != image.shape.n[1]) fitted = resample(fitted, 1, height);
    if (width && width != image.shape.n[2]) fitted = resample(fitted, 2, width);
    return fitted;
}

/* ---- folders ----------------------------------------------------------------------------------- */

typedef struct names {
    char **name;
    int count;
} names;

static void free_names(names *n)
{
    while (n->count > 0) free(n->name[--n->count]);
    free(n->name);
    *n = (names){ 0 };
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_folder(const char *in, const char *name)
{
    char path[LONGEST_PATH];
    struct stat about;
    int length = snprintf(path, sizeof path, "%s/%s", in, name);
    return length < LONGEST_PATH && stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Folders in a folder, or pictures, sorted. */
static int list(const char *in, bool folders, names *to)
{
    DIR *d = opendir(in);
    if (!d) return error_set("%.200s: %s", in, strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.' || (folders ? !is_folder(in, e->d_name) : !image_named(e->d_name))) continue;
        char **more = realloc(to->name, ((size_t)to->count + 1) * sizeof *more);
        if (more) to->name = more;
        if (!more || !(to->name[to->count] = strdup(e->d_name))) {
            error_set("%.200s: no memory for its names", in);
            break;
        }
        to->count++;
    }
    closedir(d);
    if (to->count > 0) qsort(to->name, (size_t)to->count, sizeof *to->name, compare);
    return error_text() ? -1 : 0;
}

bool folder_has_classes(const char *path)
{
    names folders = { 0 };
    bool found = false;
    if (list(path, true, &folders)) error_clear();
    for (int i = 0; i < folders.count && !found; i++) {
        char below[LONGEST_PATH];
        names files = { 0 };
        if (snprintf(below, sizeof below, "%s/%s", path, folders.name[i]) < LONGEST_PATH &&
            list(below, false, &files))
            error_clear();
        found = files.count > 0;
        free_names(&files);
    }
    free_names(&folders);
    return found;
}

/* Images as they are kept: [C, H, W] each, one after another. */
typedef struct album {
    uint16_t *pixel;
    int *class;
    ptrdiff_t count, room, size; /* images, images there is memory for, elements of one */
} album;

static void get(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    const album *a = d->own;
    const uint16_t *from = a->pixel + i * a->size;
    for (ptrdiff_t c = 0; c < d->x.n[0]; c++)
        for (ptrdiff_t h = 0; h < d->x.n[1]; h++)
            for (ptrdiff_t w = 0; w < d->x.n[2]; w++)
                *tensor_at(x, INDEX(c, h, w)) = (real)*from++ / (real)WHITE;
    *tensor_at(y, (shape){ 0 }) = (real)a->class[i];
}

static void release(data *d)
{
    album *a = d->own;
    free(a->pixel);
    free(a->class);
    free(a);
}

static bool grow(album *a)
{
    if (a->count < a->room) return true;
    ptrdiff_t room = a->room ? 2 * a->room : 64;
    if (room > PTRDIFF_MAX / 2 / (a->size + 1)) return false;
    uint16_t *pixel = realloc(a->pixel, (size_t)(room * a->size) * sizeof *pixel);
    if (pixel) a->pixel = pixel;
    int *class = pixel ? realloc(a->class, (size_t)room * sizeof *class) : NULL;
    if (class) a->class = class;
    if (class) a->room = room;
    return class;
}

static int add(album *a, tensor image, int class, const char *path)
{
    if (!grow(a)) return error_set("%.200s: no memory for %td images before it", path, a->count);
    uint16_t *to = a->pixel + a->count * a->size;
    const real *from = tensor_data(image);
    for (ptrdiff_t i = 0; i < a->size; i++) {
        double value = (double)from[i] * WHITE + 0.5;
        to[i] = value <= 0 ? 0 : value >= WHITE ? WHITE : (uint16_t)value;
    }
    a->class[a->count++] = class;
    return 0;
}

/* What the first image is like, all others must be; where one is in colour all are. */
typedef struct reading {
    album *album;
    shape each; /* rank 0: none read yet */
    folder_options options;
    bool coloured; /* one in colour came after grey ones: read anew */
    char first[LONGEST_PATH];
} reading;

static int read_one(reading *r, const char *path, int class)
{
    folder_options o = r->options;
    tensor raw = image_read(path);
    if (tensor_is_null(raw)) return -1;
    if (o.channels == 0 && r->each.rank > 0) {
        r->coloured = r->each.n[0] < raw.shape.n[0];
        o.channels = r->each.n[0];
    }
    tensor image = image_fit(raw, o.channels, o.height, o.width);
    tensor_free(raw);
    if (tensor_is_null(image)) return -1;
    int status;
    if (r->each.rank == 0) {
        r->each = image.shape;
        r->album->size = tensor_count(image);
        snprintf(r->first, sizeof r->first, "%s", path);
    }
    if (shape_equal(image.shape, r->each)) status = add(r->album, image, class, path);
    else
        status = error_set("%.150s is %s and %.150s %s: give --size HxW to make them alike", path,
                           shape_text(image.shape).text, r->first, shape_text(r->each).text);
    tensor_free(image);
    return status;
}

static int read_class(reading *r, const char *in, const char *name, int class)
{
    char path[LONGEST_PATH];
    names files = { 0 };
    int status = -1;
    if (snprintf(path, sizeof path, "%s/%s", in, name) >= LONGEST_PATH)
        error_set("%.200s: a path too long", in);
    else status = list(path, false, &files);
    for (int i = 0; i < files.count && status == 0; i++) {
        if (snprintf(path, sizeof path, "%s/%s/%s", in, name, files.name[i]) < LONGEST_PATH)
            status = read_one(r, path, class) || r->coloured ? -1 : 0;
        else status = error_set("%.200s: a path too long", in);
    }
    if (status == 0 && files.count == 0) status = error_set("%.200s/%.100s: no picture in it", in, name);
    free_names(&files);
    return status;
}

static int read_all(album *a, const char *path, const names *classes, folder_options options, shape *each)
{
    reading r = { .album = a, .options = options };
    int status = 0;
    for (int i = 0; i < classes->count && status == 0; i++)
        status = read_class(&r, path, classes->name[i], i);
    *each = r.each;
    if (error_text() || !r.coloured) return status;
    free(a->pixel);
    free(a->class);
    *a = (album){ 0 };
    options.channels = 3;
    return read_all(a, path, classes, options, each);
}

int folder_open(image_folder *f, const char *path, folder_options options)
{
    *f = (image_folder){ 0 };
    names classes = { 0 };
    shape each = { 0 };
    album *a = calloc(1, sizeof *a);
    if (!a) return error_set("%.200s: no memory", path);
    int status = list(path, true, &classes);
    if (status == 0 && classes.count == 0) status = error_set("%.200s: no folder of a class in it", path);
    if (status == 0) status = read_all(a, path, &classes, options, &each);
    data kind = { .count = a->count, .x = each, .get = get, .release = release, .own = a, .grain = 64 };
    if (status) release(&kind);
    else f->set = data_new(kind);
    f->classes = classes.count;
    f->name = classes.name;
    if (!f->set) folder_close(f);
    return f->set ? 0 : -1;
}

void folder_close(image_folder *f)
{
    names classes = { f->name, f->classes };
    data_free(f->set);
    free_names(&classes);
    *f = (image_folder){ 0 };
}
