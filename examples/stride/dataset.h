/* dataset.h: opens a data set of any kind (DATASET_KINDS) by its path; without one MNIST, from the folders
 * that `make mnist` uses. Tables, IDX files and CIFAR-10's may be gzipped. Folders of pictures may be in
 * train/ and test/ (val/, valid/, validation/). */
#ifndef STRIDE_EXAMPLES_STRIDE_DATASET_H
#define STRIDE_EXAMPLES_STRIDE_DATASET_H

#include "examples/stride/model.h"
#include "examples/stride/options.h"
#include "nn/data.h"
#include "nn/data/table.h"
#include "nn/net.h"

/* Options of the command line; NULL: not given. */
typedef struct dataset_options {
    const char *data;
    const char *asked;            /* the option that gives it; NULL: data */
    const char *size, *image;     /* HxW of pictures, CxHxW of a table's rows */
    const char *label, *features; /* a table's columns, by name or number, by patterns */
    const char *delimiter;        /* of a table */
    int missing, header, layout;  /* choices; layout: of arrays */
    long targets;                 /* columns of numbers to predict, from the label on; 0: a class */
    const st_net *net;            /* whose metadata say how a table is read; NULL: none */
    const st_table *like;         /* in place of it: a table to be read like */
    const st_shape *sample;       /* the shape of a table's rows; NULL: as the file has them */
    bool matched;                 /* classes are those of `net`, too */
    bool classes;                 /* the loss takes classes: an array of [N, 1] is N of them */
    int colour;                   /* of pictures: 0 as in the files, 1 grey, 2 rgb */
    bool skip_bad;                /* leave out pictures that cannot be read */
} dataset_options;

/* The kinds of data, in the order in which they are offered a path: KIND(function open_..., what a path of it
 * looks like, what its own options are options of, their names). */
#define DATASET_KINDS(KIND)                                                                                  \
    KIND(mnist, "a folder of MNIST", NULL, "")                                                               \
    KIND(cifar10, "a folder of CIFAR-10 or its .bin files", NULL, "")                                        \
    KIND(table, "a table (.csv, .tsv)", "tables", "image label features delimiter header missing targets")   \
    KIND(npy, "arrays X.npy,Y.npy", ".npy arrays", "layout")                                                 \
    KIND(idx, "IDX files IMAGES,LABELS", NULL, "")                                                           \
    KIND(pictures, "a folder of pictures by class", "pictures", "size colour skip-bad")
#define DATASET_PATH(OPEN, PATH, OF, OPTIONS) PATH "; "

/* Rows for a table of options whose settings have a dataset_options `source`. */
/* clang-format off */
#define DATASET_OPTIONS                                                                                      \
    { "data", 'd', OPTION_TEXT, AT(source.data), "PATH",                                                     \
      .help = "a data set: " DATASET_KINDS(DATASET_PATH) "default: MNIST" },                                 \
    { "size", 0, OPTION_TEXT, AT(source.size), "HxW", .help = "resize pictures to that height and width" },  \
    { "colour", 0, OPTION_CHOICE, AT(source.colour), "files|grey|rgb", "files", "the colours of pictures" }, \
    { "skip-bad", 0, OPTION_FLAG, AT(source.skip_bad), .help = "leave out pictures that cannot be read" },   \
    { "image", 0, OPTION_TEXT, AT(source.image), "CxHxW", .help = "the rows of a table are such images" },   \
    { "label", 0, OPTION_TEXT, AT(source.label), "COLUMN",                                                   \
      .help = "a table's column with the class: its name, or its number from 0 or from the last, -1" },      \
    { "features", 0, OPTION_TEXT, AT(source.features), "NAMES",                                              \
      .help = "a table's columns to learn from: names, patterns, numbers: 'sepal_*,petal_*', 1,2" },         \
    { "delimiter", 0, OPTION_TEXT, AT(source.delimiter), "C",                                                \
      .help = "what separates a table's columns: a character, tab or space; default: found in its first "    \
              "line" },                                                                                      \
    { "header", 0, OPTION_CHOICE, AT(source.header), "detect|yes|no", "detect",                              \
      "whether a table's first line names the columns" },                                                    \
    { "missing", 0, OPTION_CHOICE, AT(source.missing), "refuse|mean|drop", "refuse",                         \
      "a table's missing values are an error, the column's mean, or leave out the row" },                    \
    { "layout", 0, OPTION_CHOICE, AT(source.layout), "detect|nchw|nhwc", "detect",                           \
      "the order of the axes of .npy images: channels first or last" },                                      \
    { "targets", 0, OPTION_INTEGER, AT(source.targets), "K", NULL,                                           \
      "K columns from --label on are numbers to predict, not a class", 0, 1e6 }
/* clang-format on */

enum { DATASET_SETS = 14 };

typedef struct dataset {
    char text[320];                 /* "MNIST in data/mnist" */
    const st_dataset *train, *test; /* test: NULL if there is none */
    int classes;                    /* number of class names */
    const char *const *name;
    const char *size;   /* to which pictures were resized, or NULL */
    const char *layout; /* of arrays, as given; or NULL */

    st_dataset *own[DATASET_SETS]; /* freed with it */
    const st_table *table;         /* the columns of a table; NULL: of another kind */
    ptrdiff_t *class;              /* dataset_match's new number of each class */
} dataset;

/* Prints to `messages`, unless NULL, if MNIST is not found. -1 with an error, and nothing to close. */
int dataset_open(dataset *s, const dataset_options *o, FILE *messages);
void dataset_close(dataset *s);

/* A table for prediction: columns with labels, if any, are ignored. -1 with an error. */
int dataset_open_unlabelled(dataset *s, const dataset_options *o);

/* Renumbers the classes in the order of these names, which must outlive the set; 0 names: does nothing. -1
 * with an error that lists the classes that are not among them. */
int dataset_match(dataset *s, ptrdiff_t classes, const char *const *name);

/* Opens the data of a saved net, with options that are not given from its metadata, and matches its
 * classes. */
int dataset_open_for(dataset *s, const model *m, dataset_options *o);

/* Checks classes that are numbers against a network's output. Where the names of a table's classes are whole
 * numbers, and the output has more elements than there are names, classes become these numbers. -1 with an
 * error. */
int dataset_fit(dataset *s, st_shape output);

/* Checks that a network has an output for each class that has a name. -1 with an error. */
int dataset_check_classes(const dataset *s, st_shape output);

/* Prints a line about a table: which column is the label, which are features. */
void dataset_print_table(const dataset *s, FILE *to);

/* An array's samples with channels first; a view. */
st_tensor dataset_channels_first(st_tensor x, const dataset_options *o);

/* The file of a sample, if each has its own; otherwise NULL. */
const char *dataset_path(const st_dataset *set, ptrdiff_t i);

/* Checks that the files exist, without reading them: 0, or -1 with an error. NULL is allowed. */
int dataset_check(const char *given);

/* True if that is a folder, or the name of a file is that of a table or an array. */
bool dataset_likely(const char *path);

/* True if one of the paths given as data names that file. */
bool dataset_names(const char *given, const char *path);

/* Identifies a set by some of its samples and their number: 16 hexadecimal digits. Empty with an error. */
typedef struct dataset_identity {
    char text[17];
} dataset_identity;
dataset_identity dataset_identify(const st_dataset *set);

/* Stores how the data were read in the net's metadata; and fills in options that are not given from a net's
 * metadata and input shape. */
int dataset_note(st_net *n, const dataset *s);
void dataset_recall(dataset_options *o, const st_net *n);

/* Samples are to have that shape, which must outlive the options: rows of a table get it, and pictures its
 * number of channels unless a colour is given. */
void dataset_expect(dataset_options *o, const st_shape *x);

#endif
