/* pictures.h: pictures from PNG and JPEG files, and folders of them as data sets.
 *
 * Pixels are 0 to 1, of 1 channel (grey) or 3 (red, green, blue). Palettes are expanded, CMYK becomes RGB,
 * transparent pixels are blended with black. PNG needs libpng and JPEG TurboJPEG when this is built;
 * without them reading such a file is an error. */
#ifndef STRIDE_EXAMPLES_STRIDE_PICTURES_H
#define STRIDE_EXAMPLES_STRIDE_PICTURES_H

#include "nn/data.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* True for a file name that ends in .png, .jpg or .jpeg. */
bool image_named(const char *path);

/* A new tensor [C, H, W]. Null with an error that names the file: missing, broken, truncated, neither PNG
 * nor JPEG. */
st_tensor image_read(const char *path);

/* A new tensor [channels, height, width] from an image [C, H, W]; 0: unchanged. Grey is copied to three
 * channels; three channels become grey by luminance (ITU-R BT.601). Sizes change by bilinear
 * interpolation, which averages when shrinking. */
st_tensor image_fit(st_tensor image, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t width);

/* ---- folders ------------------------------------------------------------------------------------- */

/* Paths, or names; freed by folder_free_paths. */
typedef struct folder_paths {
    char **path;
    int count;
} folder_paths;
void folder_free_paths(folder_paths *p);

/* Options of a set from a folder that has one folder of pictures per class, sorted by name. Other files
 * and hidden ones are ignored. */
typedef struct folder_options {
    ptrdiff_t channels, height, width; /* 0: as in the files, which must be alike; grey if all are */
    bool skip_bad;                     /* leave out files that cannot be read */
    FILE *messages;                    /* for these files and empty classes; NULL: none */
} folder_options;

typedef struct image_folder {
    st_dataset *set;
    folder_paths classes; /* their names */

    folder_paths files;    /* those of the images first */
    int *class;            /* of each file */
    uint16_t *pixel;       /* all images, each [C, H, W] */
    ptrdiff_t count, size; /* images, elements of one */
} image_folder;

/* Opens a folder, which must stay where it is. -1 with an error. */
int folder_open(image_folder *f, const char *path, folder_options options);
void folder_close(image_folder *f);

/* Class k becomes class[k]; `classes` keeps its order. */
void folder_renumber(image_folder *f, const ptrdiff_t *class);

/* The file of sample i of a folder's set; NULL for another set. */
const char *folder_path(const st_dataset *set, ptrdiff_t i);

/* True if this folder contains a folder with pictures. Sets no error. */
bool folder_has_classes(const char *path);

/* Lists the pictures of a folder and of its folders, each sorted by name. -1 with an error if there is none. */
int folder_pictures(const char *path, folder_paths *to);

#endif
