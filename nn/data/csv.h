/* csv.h: CSV tables: one sample per line, with features and a class in columns.
 *
 *     st_dataset *flowers = st_dataset_csv("iris.csv", .label = -1);
 *     st_dataset *digits = st_dataset_csv("mnist_train.csv.gz", .image = ST_SHAPE(1, 28, 28), .scale = 1.0 / 255);
 * / */
#ifndef STRIDE_NN_DATA_CSV_H
#define STRIDE_NN_DATA_CSV_H

#include "nn/data.h"

ST_API_BEGIN

/* The first line names the columns, or not. ST_CSV_DETECT: it does if none of its fields is a number; an
 * error if only some are. */
typedef enum st_csv_header { ST_CSV_DETECT, ST_CSV_HEADER, ST_CSV_NO_HEADER } st_csv_header;

/* Zeros: commas, a class in the first column, features in the others. */
typedef struct st_csv_options {
    char delimiter;       /* 0: a comma. ' ': any number of blanks; blanks around a line are ignored */
    st_csv_header header; /* of the first line that is not empty */
    int label;   /* the column of the class, or the first of the targets; negative: from the last, -1 */
    int targets; /* 0: a class, y is a number; k: k columns to regress, y is [k]; ST_CSV_UNLABELLED: y is 0 */
    st_shape image; /* the shape of x, [C, H, W], features in row-major order; rank 0: [features] */
    double scale;   /* factor of the features; 0: 1 */
} st_csv_options;

enum { ST_CSV_UNLABELLED = -1 }; /* for `targets`: every column is a feature */

/* Plain or gzipped. Numbers are decimal, with a point in any locale, finite, and may be quoted within a line
 * (RFC 4180). Blanks around them, empty lines and a byte order mark are ignored. Classes are integers from 0 on. All
 * lines have as many columns as the first one. Limits: 64 MiB per line, 2^30 numbers. NULL with an error that
 * names the file, the line and the column. */
st_dataset *st_dataset_csv_new(const char *path, st_csv_options options);
#define st_dataset_csv(path, ...) st_dataset_csv_new(path, ST_OPTIONS(st_csv_options, __VA_ARGS__))

ST_API_END

#endif
