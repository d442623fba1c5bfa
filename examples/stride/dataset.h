/* dataset.h: opens a data set of any kind by its path.
 *
 *     no path                     MNIST, from the folders that `make mnist` uses
 *     a folder                    of MNIST's IDX files, of CIFAR-10's binary files, or with a folder of
 *                                 pictures per class, perhaps in train/ and test/ (val/, valid/, validation/)
 *     IMAGES,LABELS               a pair of IDX files, plain or gzipped, or of NumPy's, X.npy,Y.npy
 *     NAME.csv, .tsv [.gz]        a table
 *     NAME.bin[,NAME.bin...]      CIFAR-10's */
#ifndef STRIDE_EXAMPLES_STRIDE_DATASET_H
#define STRIDE_EXAMPLES_STRIDE_DATASET_H

#include "examples/stride/model.h"
#include "examples/stride/options.h"
#include "nn/data.h"
#include "nn/net.h"

/* Options of the command line; NULL: not given. */
typedef struct dataset_options {
    const char *data;
    const char *size, *image;     /* HxW of pictures, CxHxW of a table's rows */
    const char *label, *features; /* a table's columns, by name or number, by patterns */
    long targets;                 /* columns of numbers to predict, from the label on; 0: a class */
    const char *columns;          /* the features' names, as from dataset_columns; NULL: all */
    const st_shape *sample;       /* the shape of a table's rows; NULL: as the file has them */
    int colour;                   /* of pictures: 0 as in the files, 1 grey, 2 rgb */
    bool skip_bad;                /* leave out pictures that cannot be read */
} dataset_options;

/* Rows for a table of options whose settings have a dataset_options `source`. */
/* clang-format off */
#define DATASET_OPTIONS                                                                                      \
    { "data", 'd', OPTION_TEXT, AT(source.data), "PATH",                                                     \
      .help = "a data set: a folder of MNIST, of CIFAR-10 or of pictures by class, a table (.csv, "          \
              ".tsv), or a pair IMAGES,LABELS of IDX or .npy files; default: MNIST" },                       \
    { "size", 0, OPTION_TEXT, AT(source.size), "HxW", .help = "resize pictures to that height and width" },  \
    { "colour", 0, OPTION_CHOICE, AT(source.colour), "files|grey|rgb", "files", "the colours of pictures" }, \
    { "skip-bad", 0, OPTION_FLAG, AT(source.skip_bad), .help = "leave out pictures that cannot be read" },   \
    { "image", 0, OPTION_TEXT, AT(source.image), "CxHxW", .help = "a table's rows are images of that shape" },\
    { "label", 0, OPTION_TEXT, AT(source.label), "COLUMN",                                                   \
      .help = "a table's column with the class: its name, or its number from 0 or from the last, -1" },      \
    { "features", 0, OPTION_TEXT, AT(source.features), "NAMES",                                              \
      .help = "a table's columns to learn from: names or patterns such as 'sepal_*,petal_*'" },              \
    { "targets", 0, OPTION_INTEGER, AT(source.targets), "K", NULL,                                           \
      "K columns from --label on are numbers to predict, not a class", 0, 1e6 }
/* clang-format on */

enum { DATASET_SETS = 12 };

typedef struct dataset {
    char text[320];                 /* "MNIST in data/mnist" */
    const st_dataset *train, *test; /* test: NULL if there is none */
    int classes;                    /* number of class names */
    const char *const *name;
    const char *size; /* to which pictures were resized, or NULL */

    st_dataset *own[DATASET_SETS]; /* freed with it */
    struct image_folder *folder[2];
    struct table *table;
    ptrdiff_t *class; /* dataset_match's new number of each class */
} dataset;

/* Prints to `messages`, unless NULL, if MNIST is not found. -1 with an error, and nothing to close. */
int dataset_open(dataset *s, const dataset_options *o, FILE *messages);
void dataset_close(dataset *s);

/* A table for prediction: columns with labels, if any, are ignored. -1 with an error. */
int dataset_open_unlabelled(dataset *s, const dataset_options *o);

/* Renumbers the classes in the order of these names, which must outlive the set; 0 names: does nothing. -1
 * with an error that lists the classes that are not among them. */
int dataset_match(dataset *s, ptrdiff_t classes, const char *const *name);

/* Opens the data of a saved net, with options that are not given from its metadata, and matches its classes. */
int dataset_open_for(dataset *s, const model *m, dataset_options *o);

/* The names of a table's features as a JSON list, to be freed; NULL: none. */
char *dataset_columns(const dataset *s);

/* The file of a sample, if each has its own; otherwise NULL. */
const char *dataset_path(const st_dataset *set, ptrdiff_t i);

/* Checks that the files exist, without reading them: 0, or -1 with an error. NULL is allowed. */
int dataset_check(const char *given);

/* True if one of the paths given as data names that file. */
bool dataset_names(const char *given, const char *path);

/* Stores the options with which data were read in the net's metadata; and fills in options that are not
 * given from a net's metadata and input shape. */
int dataset_note(st_net *n, const dataset_options *o, const dataset *s);
void dataset_recall(dataset_options *o, const st_net *n);

/* ---- CSV tables, with columns by name and classes that may be words ---------------------------------- */

typedef struct table_options {
    char delimiter;
    const char *label;    /* a column's name or number, negative from the last; NULL: the first or last one */
    int targets;          /* columns of numbers to predict, from the label on; 0: a class */
    const char *features; /* patterns of names with * and ?, separated by commas; NULL: all other columns */
    const char *columns;  /* a JSON list of the features' names, in order; NULL: as in the file */
    st_shape sample;      /* a row's features as an image; rank 0: [features] */
    bool unlabelled;      /* labels are ignored; `sample` gives the number of features */
} table_options;

typedef struct table {
    st_dataset *set;
    st_tensor x, y;
    char **column; /* names of the features; NULL: the table has none */
    char **class;  /* names of the classes, sorted; NULL: they are numbers */
    int columns, classes;
} table;

/* The first line names the columns unless one of its fields is a number. -1 with an error that names the
 * line. */
int table_open(table *t, const char *path, const table_options *o);
void table_close(table *t);

#endif
