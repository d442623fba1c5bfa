/* images.h: pictures from PNG and JPEG files, and folders of them as data sets.
 *
 * What the files hold is 0 to 1, of 1 channel (grey) or 3 (red, green, blue). Palettes are looked up, 1 to 16 bits
 * read as they are, and what is transparent is laid on black. PNG needs libpng and JPEG libjpeg, when this is built;
 * without them a file of that kind is an error that says so. */
#ifndef STRIDE_EXAMPLES_STRIDE_IMAGES_H
#define STRIDE_EXAMPLES_STRIDE_IMAGES_H

#include "nn/data.h"

#include <stdbool.h>

/* Whether a file's name ends like a picture's: .png, .jpg or .jpeg. */
bool image_named(const char *path);

/* A new tensor [C, H, W]. Null, with an error that names the file: missing, broken, cut off, of no kind known. */
tensor image_read(const char *path);

/* A new tensor [channels, height, width] of an image [C, H, W]; 0: as it is. Grey is given to all three channels; of
 * three the luminance is taken (ITU-R BT.601). Sizes are changed by bilinear interpolation, which averages over what
 * a pixel covers where the image becomes smaller. */
tensor image_fit(tensor image, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t width);

/* A set from a folder that has a folder for each class, in the order of their names' bytes, each with its pictures;
 * other files and hidden ones are passed over. Options of 0: as the files are, which must then be of one size. They
 * are grey where all of them are. NULL with an error. */
typedef struct folder_options {
    ptrdiff_t channels, height, width;
} folder_options;

typedef struct image_folder {
    data *set;
    int classes;
    char **name; /* of each class */
} image_folder;

int folder_open(image_folder *f, const char *path, folder_options options);
void folder_close(image_folder *f);

/* Whether there is a folder with pictures inside this one: cheap, and without an error. */
bool folder_has_classes(const char *path);

#endif
