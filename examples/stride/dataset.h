/* dataset.h: data sets by path: what is there says what it is.
 *
 *     nothing                     MNIST, looked for as `make mnist` does
 *     a folder                    MNIST's IDX files, CIFAR-10's binary files, or a folder of pictures for
 *                                 each class, itself or as train/ and test/ (val/, validation/) inside it
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
    const char *size, *image;               /* HxW of pictures, CxHxW of a table's rows */
    const char *label, *targets, *features; /* a table's columns */
    const char *columns;                    /* names of columns to take, as from dataset_columns; NULL: all */
    const st_shape *sample;                 /* the shape of a table's rows; NULL: as the file has them */
    int colour;                             /* of pictures: as the files are, grey, rgb */
    bool skip_bad;                          /* leave out pictures that cannot be read */
} dataset_options;

/* Their rows, in a table of options whose settings have them as member `m`. */
/* clang-format off */
#define DATASET_OPTIONS(settings, m)                                                                         \
    { "data", 'd', OPTION_FILE, offsetof(settings, m.data), "PATH",                                          \
      .help = "a data set: a folder of MNIST, of CIFAR-10 or of pictures by class, a table (.csv), or a "    \
              "pair IMAGES,LABELS of IDX or .npy files; without it MNIST is looked for" },                   \
    { "size", 0, OPTION_TEXT, offsetof(settings, m.size), "HxW",                                             \
      .help = "resize pictures to that height and width" },                                                  \
    { "colour", 0, OPTION_CHOICE, offsetof(settings, m.colour), "files|grey|rgb", "files",                   \
      "the colours of pictures" },                                                                           \
    { "skip-bad", 0, OPTION_FLAG, offsetof(settings, m.skip_bad),                                            \
      .help = "leave out pictures that cannot be read" },                                                    \
    { "image", 0, OPTION_TEXT, offsetof(settings, m.image), "CxHxW",                                         \
      .help = "a table's rows are images of that shape" },                                                   \
    { "label", 0, OPTION_TEXT, offsetof(settings, m.label), "COLUMN",                                        \
      .help = "a table's column of the class: its name, or its number from 0, or from the last, -1" },       \
    { "features", 0, OPTION_TEXT, offsetof(settings, m.features), "NAMES",                                   \
      .help = "a table's columns to learn from: names or patterns such as 'sepal_*,petal_*'" },              \
    { "targets", 0, OPTION_TEXT, offsetof(settings, m.targets), "K",                                         \
      .help = "K columns from --label on are numbers to predict, not a class" }
/* clang-format on */

enum { DATASET_SETS = 12 };

typedef struct dataset {
    char text[320];                 /* "MNIST in data/mnist" */
    const st_dataset *train, *test; /* test: NULL where there is none */
    int classes;                    /* that have names, or 0 */
    const char *const *name;
    const char *size; /* that pictures were made of, or NULL */
    bool drawn;       /* no MNIST found */

    st_dataset *own[DATASET_SETS]; /* freed with it */
    struct image_folder *folder[2];
    struct table *table;
} dataset;

/* `messages` hears where MNIST was looked for. -1 with an error, and nothing to close. */
int dataset_open(dataset *s, const dataset_options *o, FILE *messages);
void dataset_close(dataset *s);

/* A table for prediction, whose labels are left out if they are there. -1 with an error. */
int dataset_open_unlabelled(dataset *s, const dataset_options *o);

/* Numbers the classes as these names are (0: they have none), which must live as long. -1 with an error that
 * says which are not among them. */
int dataset_match(dataset *s, ptrdiff_t classes, const char *const *name);

/* The names of a table's features as a JSON list, the caller's; NULL: none. */
char *dataset_columns(const dataset *s);

/* The file of a sample of a set, where it has one of its own; else NULL. */
const char *dataset_path(const st_dataset *set, ptrdiff_t i);

/* Looks for the files, before anything is read: 0, or -1 with an error. NULL is allowed. */
int dataset_check(const char *given);

/* True if the path given as data, or one of several, names that file. */
bool dataset_names(const char *given, const char *path);

/* How a net's data were read, as its notes, so that nobody needs to say it again; and those that are not
 * given, by a net's notes and its input. */
int dataset_note(st_net *n, const dataset_options *o, const dataset *s);
void dataset_recall(dataset_options *o, const st_net *n);

#endif
