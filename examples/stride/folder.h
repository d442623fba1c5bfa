/* folder.h: folders of pictures as data sets. */
#ifndef STRIDE_EXAMPLES_STRIDE_FOLDER_H
#define STRIDE_EXAMPLES_STRIDE_FOLDER_H

#include "nn/data.h"

#include <stdbool.h>

/* Options of a set from a folder that has one folder of pictures per class, sorted by name. Other files
 * and hidden ones are ignored. */
typedef struct folder_options {
    ptrdiff_t channels, height, width; /* 0: as in the files, which must be alike; grey if all are */
    bool skip_bad;                     /* leave out files that cannot be read */
    FILE *messages;                    /* for these files and empty classes; NULL: none */
} folder_options;

typedef struct image_folder {
    st_dataset *set;
    int classes;
    char **name; /* of each class */
} image_folder;

/* -1 with an error. */
int folder_open(image_folder *f, const char *path, folder_options options);
void folder_close(image_folder *f);

/* The file of sample i of a folder's set; NULL for another set. */
const char *folder_path(const st_dataset *set, ptrdiff_t i);

/* True if this folder contains a folder with pictures. Sets no error. */
bool folder_has_classes(const char *path);

/* Calls `visit` for every picture in a folder and its folders, sorted by name, until it returns nonzero.
 * -1 with an error if there is none. */
int folder_visit(const char *path, int (*visit)(const char *path, void *context), void *context);

#endif
