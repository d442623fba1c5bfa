/* folder.h: folders of pictures as data sets. */
#ifndef STRIDE_EXAMPLES_STRIDE_FOLDER_H
#define STRIDE_EXAMPLES_STRIDE_FOLDER_H

#include "nn/data.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

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
