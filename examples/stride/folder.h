/* folder.h: folders of pictures: opened as a data set, with what is left out on a stream, and listed. */
#ifndef STRIDE_EXAMPLES_STRIDE_FOLDER_H
#define STRIDE_EXAMPLES_STRIDE_FOLDER_H

#include "nn/pictures/pictures.h"

#include <stdio.h>

/* The set of st_pictures; prints files that cannot be read and empty classes to `messages`, unless NULL, and
 * its progress if that is a terminal. NULL with an error. */
st_dataset *folder_open(const char *path, st_pictures_options options, FILE *messages);

/* True if this folder contains a folder with pictures of any format. Sets no error. */
bool folder_has_classes(const char *path);

/* The pictures of a folder and of its folders, each sorted by name; freed by folder_free. */
typedef struct folder_list {
    char **path;
    int count;
    size_t root;     /* bytes of the folder's path, with which the paths begin */
    int unread;      /* other pictures: of formats that this program does not read, */
    char names[200]; /* the first of them, */
    char why[120];   /* and why: "only PNG and JPEG are read", or the package that is missing */
} folder_list;
int folder_pictures(const char *path, folder_list *to); /* -1 with an error if there is none at all */
void folder_free(folder_list *l);

#endif
