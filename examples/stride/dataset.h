/* dataset.h: data sets by path: what is there says what it is.
 *
 *     nothing                     MNIST, looked for as `make mnist` does
 *     a folder                    MNIST's IDX files, CIFAR-10's binary files, or a folder of pictures for each class,
 *                                 itself or as train/ and test/ (val/, validation/) inside it
 *     NAME-idx3-ubyte[.gz]        IDX images, the labels beside them
 *     IMAGES,LABELS               a pair of IDX files or of NumPy's, X.npy,Y.npy
 *     NAME.csv, .tsv [.gz]        a table
 *     NAME.bin[,NAME.bin...]      CIFAR-10's */
#ifndef STRIDE_EXAMPLES_STRIDE_DATASET_H
#define STRIDE_EXAMPLES_STRIDE_DATASET_H

#include "examples/stride/options.h"
#include "nn/data.h"
#include "nn/net.h"

/* As given on a command line; NULL: not. */
typedef struct dataset_options {
    const char *data;
    const char *size, *image;    /* HxW of pictures, CxHxW of a table's rows */
    const char *label, *targets; /* a table's columns */
    int colour;                  /* of pictures: as the files are, grey, rgb */
} dataset_options;

/* Their rows, in a table of options whose settings have them as member `m`. */
#define DATASET_OPTIONS(settings, m)                                                                         \
    { "data",                                                                                                \
      'd',                                                                                                   \
      OPTION_FILE,                                                                                           \
      offsetof(settings, m.data),                                                                            \
      "PATH",                                                                                                \
      .help =                                                                                                \
          "a data set: a folder of MNIST, of CIFAR-10 or of pictures by class, a table (.csv), or a pair "   \
          "IMAGES,LABELS of IDX or .npy files; without it MNIST is looked for" },                            \
        { "size",      0,                                                                                    \
          OPTION_TEXT, offsetof(settings, m.size),                                                           \
          "HxW",       .help = "make pictures that high and wide" },                                         \
        { "colour",                                                                                          \
          0,                                                                                                 \
          OPTION_CHOICE,                                                                                     \
          offsetof(settings, m.colour),                                                                      \
          "files|grey|rgb",                                                                                  \
          "files",                                                                                           \
          "read pictures as the files are, or as" },                                                         \
        { "image",     0,                                                                                    \
          OPTION_TEXT, offsetof(settings, m.image),                                                          \
          "CxHxW",     .help = "a table's rows are images of that shape" },                                  \
        { "label",     0,                                                                                    \
          OPTION_TEXT, offsetof(settings, m.label),                                                          \
          "N",         .help = "a table's column of the class, counted from 0, or from the last, -1 (0)" },  \
    {                                                                                                        \
        "targets", 0, OPTION_TEXT, offsetof(settings, m.targets), "K",                                       \
            .help = "K columns from --label on are numbers to predict, not a class"                          \
    }

enum { DATASET_SETS = 8 };

typedef struct dataset {
    char text[320];     /* "MNIST in data/mnist" */
    data *train, *test; /* test: NULL where there is none */
    int classes;        /* that have names, or 0 */
    const char *const *name;
    const char *size; /* that pictures were made of, or NULL */
    bool drawn;       /* no MNIST found */

    data *own[DATASET_SETS]; /* what is freed with it */
    struct image_folder *folder[2];
} dataset;

/* `messages` hears where MNIST was looked for. -1 with an error, and nothing to close. */
int dataset_open(dataset *s, const dataset_options *o, FILE *messages);
void dataset_close(dataset *s);

/* Whether what is given as data, or NULL, names that file: alone or among others. */
bool dataset_names(const char *given, const char *path);

/* How a net's data were read, as its notes, so that nobody needs to say it again; and those that are not given,
 * by a net's notes and its input. */
int dataset_note(net *n, const dataset_options *o, const dataset *s);
void dataset_recall(dataset_options *o, const net *n);

#endif
