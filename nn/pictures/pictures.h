/* pictures.h: pictures from PNG and JPEG files, and folders of them as data sets.
 *
 *     st_dataset *pets = st_pictures("pets", .height = 64, .width = 64);    // pets/cat/1.jpg, ...
 *     st_train(net, pets, ...);
 *
 * It is a separate library, so that Stride itself needs neither libpng nor TurboJPEG; link with the flags of
 * stride-pictures.pc or stride-pictures-double.pc. It reads the formats whose library was found when it was
 * built. The program `stride` reads pictures by these functions: a net that it has trained takes samples of
 * the set that has its size, channels and classes,
 *
 *     st_class_names *names = st_net_classes(net);
 *     const st_shape x = net->input;                                        // [C, H, W]
 *     st_dataset *more = st_pictures("more", .channels = (int)x.n[0], .height = (int)x.n[1],
 *                                    .width = (int)x.n[2]);
 *     st_pictures_match(more, names->count, names->name);
 *
 * through the normalisation that st_net_normalization returns (nn/data/normalize.h). */
#ifndef STRIDE_NN_PICTURES_PICTURES_H
#define STRIDE_NN_PICTURES_PICTURES_H

#include "nn/data.h"

#include <stdbool.h>

ST_API_BEGIN

/* ---- one picture ---------------------------------------------------------------------------------- */

/* A new tensor [C, H, W] of 1 channel (grey) or 3 (red, green, blue), 0 to 1. Palettes are expanded, CMYK
 * becomes RGB, 8-bit PNGs of another gamma than sRGB's (gAMA) are converted to it, transparent pixels are
 * blended with black. Null with an error that names the file: missing, not a regular file, broken, truncated,
 * neither PNG nor JPEG, of a format whose library is missing. */
st_tensor st_picture_load(const char *path);

/* A new tensor [channels, height, width] from an image [1, H, W] or [3, H, W]; 0: unchanged. Grey is copied
 * to three channels; three channels become grey by luminance (ITU-R BT.601). Sizes change by bilinear
 * interpolation, which averages when shrinking. Null with an error, or for a null image. */
st_tensor st_picture_fit(st_tensor image, int channels, int height, int width);

/* The format that a file's name ends in, such as .png; OTHER: a format of pictures that is not read, such as
 * .bmp, .webp or .tiff; NONE: no picture. */
typedef enum st_picture_kind {
    ST_PICTURE_NONE,
    ST_PICTURE_PNG,
    ST_PICTURE_JPEG,
    ST_PICTURE_OTHER
} st_picture_kind;
st_picture_kind st_picture_named(const char *path);

/* The package without which this library was built and cannot read PNG or JPEG: "libpng (libpng-dev)"; NULL:
 * it can. */
const char *st_picture_missing(st_picture_kind kind);

/* ---- a folder ------------------------------------------------------------------------------------- */

/* The result of reading a file, or a folder that is left out. */
typedef enum st_pictures_event {
    ST_PICTURES_READ,    /* the picture was read */
    ST_PICTURES_BAD,     /* it is left out, as it cannot be read: `text` says why */
    ST_PICTURES_FOREIGN, /* it is left out, as its name is of a format that is not read */
    ST_PICTURES_EMPTY,   /* the folder of a class has no picture that can be read */
    ST_PICTURES_UNEQUAL  /* it has another size than those before, which is the error: `text` says both */
} st_pictures_event;

/* Zeros: pictures as they are in the files. */
typedef struct st_pictures_options {
    int channels, height, width; /* 0: as in the files, which must be alike; grey if all are */
    bool skip_bad;               /* leave out files that cannot be read, which are an error otherwise */

    /* Called once for each picture and each empty folder, by the thread that opens the set; NULL: no one is
     * told. */
    void (*tell)(void *context, st_pictures_event event, const char *path, const char *text);
    void *context;
} st_pictures_options;

/* A set from a folder that has one folder of pictures for each class, numbered by name. Pictures are kept in
 * memory, 16 bits an element. Hidden files, files that are no pictures and empty folders are ignored. NULL
 * with an error: no such folder, fewer than one class, pictures of different sizes, or that cannot be
 * read. */
st_dataset *st_pictures_new(const char *path, st_pictures_options options);
#define st_pictures(path, ...) st_pictures_new(path, ST_OPTIONS(st_pictures_options, __VA_ARGS__))

/* The names of its classes, which belong to the set, and their number; NULL for another set. */
const char *const *st_pictures_classes(const st_dataset *d, ptrdiff_t *count);

/* Gives each class the index of its name in a list, such as the class names of a net. -1 with an error that
 * lists the classes that are not in it, and nothing is changed. */
int st_pictures_match(st_dataset *d, ptrdiff_t count, const char *const name[]);

/* The file of sample i; NULL for another set, such as one that is made from it (st_dataset_origin). */
const char *st_pictures_path(const st_dataset *d, ptrdiff_t i);

ST_API_END

#endif
