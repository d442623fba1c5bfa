/* formats.h: data sets from files: IDX, CIFAR-10, CSV and NumPy's .npy. The first three are read plain or
 * gzipped, of at most 4 GiB. Errors name the file and the place in it. A format of your own is st_dataset_new
 * (nn/data.h). Folders of PNG and JPEG pictures are nn/pictures/pictures.h, a library of its own. */
#ifndef STRIDE_NN_DATA_FORMATS_H
#define STRIDE_NN_DATA_FORMATS_H

#include "nn/data.h"

ST_API_BEGIN

/* IDX, the format of LeCun's MNIST: images of rank 3, or 4 with channels, and labels of rank 1, of unsigned
 * bytes. x is [C, H, W] with pixels 0..255 scaled to 0..1; y is the class. Pixels are stored as bytes and
 * converted when loaded. NULL with an error: missing, truncated, too long, of another type, or different
 * numbers of images and labels. */
st_dataset *st_dataset_idx(const char *images, const char *labels);

/* CIFAR-10's binary files, one set from several: records of a byte for the class, 0 to 9, and 3072 for the
 * image. x is [3, 32, 32], red, green and blue, 0..255 scaled to 0..1; y is the class. NULL with an error: a
 * record is truncated or has another class. */
st_dataset *st_dataset_cifar10(const char *const *paths, int count);

/* ---- CSV: a sample per line, with features and a class in columns ---------------------------------------
 *
 *     st_dataset *flowers = st_dataset_csv("iris.csv", .label = -1);
 *     st_dataset *people = st_dataset_csv("people.csv", .label_name = "income", .features = "age,work_*",
 *                                         .missing = ST_CSV_MEAN);
 *     st_dataset *digits = st_dataset_csv("mnist.csv.gz", .image = ST_SHAPE(1, 28, 28), .scale = 1.0 / 255);
 *
 * st_dataset_table (nn/data/table.h) has the names of columns and classes. */

/* The first line names the columns, or not. ST_CSV_DETECT: it does if none of its fields is a number; it does
 * not if all are, or if the others are words in the second line, too; anything else is an error. */
typedef enum st_csv_header { ST_CSV_DETECT, ST_CSV_HEADER, ST_CSV_NO_HEADER } st_csv_header;

/* A missing value is an error, becomes the mean of the column's other values, or leaves out its row. A class
 * or target has no mean. */
typedef enum st_csv_missing { ST_CSV_REFUSE, ST_CSV_MEAN, ST_CSV_DROP } st_csv_missing;

/* Zeros: a class in the first column, features in the others. */
typedef struct st_csv_options {
    /* 0: a comma, semicolon or tab, found in the first line. ' ': any number of blanks; blanks around a line
     * are ignored. */
    char delimiter;
    st_csv_header header; /* of the first line that is not empty */
    int label;            /* the column of the class, or the first of the targets, from 0; negative: from the
                             last, -1; or ST_CSV_FIND_LABEL */
    int targets; /* 0: a class, y is a number; k: k columns to regress, y is [k]; ST_CSV_UNLABELLED: y is 0 */
    st_shape image; /* the shape of x, [C, H, W], features in row-major order; rank 0: [features] */
    double scale;   /* factor of the features; 0: 1 */

    const char *label_name;      /* in place of `label`: the column's name, or its number as text */
    const char *features;        /* columns to learn from: names, patterns with * and ?, or numbers, separated
                                    by commas; NULL: all others */
    st_csv_missing missing;      /* for values that are empty, ?, NA, N/A, NaN or null, in any case */
    bool name_numbers;           /* classes that are numbers have names, too, unless they are 0 to K - 1 */
    const struct st_table *like; /* read as that table (nn/data/table.h): its columns, classes and means */

    /* Called before the error about a name that no column has; NULL: nothing is called. */
    void (*no_column)(void *context, const char *name, ptrdiff_t columns, const char *const *names);
    void *context;
} st_csv_options;

enum {
    ST_CSV_UNLABELLED = -1, /* for `targets`: every column is a feature, or those of `like` */

    /* For `label`: the first or the last column that is none of `features`. It is the last if that has words;
     * else the first that has the classes 0 to K - 1; else the first column if it has words or whole numbers;
     * else the last. With `targets` it is the first. */
    ST_CSV_FIND_LABEL = -2147483647
};

/* Numbers are decimal, with a point in any locale, finite, and may be quoted (RFC 4180: quoted fields may
 * hold delimiters and line ends). Blanks around them, empty lines, a byte order mark, and a delimiter at the
 * end of every line are ignored. Classes are integers from 0 on, or words, whose names are sorted. All lines
 * have as many columns as the first one, and columns in use have different names. As R writes tables, a
 * header may have one name fewer if the first column holds quoted row names, which are skipped. NULL with an
 * error. */
st_dataset *st_dataset_csv_new(const char *path, st_csv_options options);
#define st_dataset_csv(...) ST_CALL(st_dataset_csv_new, st_csv_options, __VA_ARGS__)

/* ---- .npy ------------------------------------------------------------------------------------------------
 *
 * A file is a magic number, a version (1.0, 2.0 or 3.0), the length of its header, the header, which says
 * dtype, order and shape as Python would write a dict, and the elements.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */

/* A new tensor, converted to st_real from float16, float32, float64, int8 to int64, uint8 to uint64 or bool,
 * in either byte order. An array in Fortran order becomes a permuted view. Null with an error: missing, not a
 * regular file, another dtype, more than ST_MAX_RANK axes, a size that differs from the header. Nothing
 * larger than the file is allocated before it is checked. */
st_tensor st_npy_load(const char *path);

/* Writes any view, in C order and this library's precision. The file is replaced atomically. -1 with an
 * error; the file is then unchanged. */
int st_npy_save(const char *path, st_tensor x);

/* The order of the axes of images [N, ...] of rank 4. ST_NPY_DETECT refuses those that look like channels
 * last, [N, H, W, C] with C up to 4 and H above; ST_NPY_NHWC takes them as views [N, C, H, W]. */
typedef enum st_npy_layout { ST_NPY_DETECT, ST_NPY_NCHW, ST_NPY_NHWC } st_npy_layout;

/* Options of st_dataset_npy. */
typedef struct st_npy_options {
    st_npy_layout layout; /* of x */
    bool classes;         /* y [N, 1] are classes, as y [N] */
} st_npy_options;

/* A pair of files, x [N, ...] and y [N, ...]: y [N] are classes, [N, K] targets. Images [N, H, W] become
 * samples [1, H, W] of one channel. st_dataset_npy("x.npy", "y.npy", .layout = ST_NPY_NHWC) */
st_dataset *st_dataset_npy_new(const char *x, const char *y, st_npy_options options);
#define st_dataset_npy(x, ...) ST_NPY_CALL(x, __VA_ARGS__, )
#define ST_NPY_CALL(x, y, ...) st_dataset_npy_new(x, y, ST_OPTIONS(st_npy_options, __VA_ARGS__))

ST_API_END

#endif
