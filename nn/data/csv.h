/* csv.h: tables of numbers as text: one sample a line, its features and its class in columns.
 *
 *     st_dataset *flowers = st_dataset_csv("iris.csv", .label = -1);
 *     st_dataset *digits = st_dataset_csv("mnist_train.csv.gz", .image = ST_SHAPE(1, 28, 28), .scale = 1.0 / 255);
 */
#ifndef STRIDE_NN_DATA_CSV_H
#define STRIDE_NN_DATA_CSV_H

#include "nn/data.h"

ST_API_BEGIN

/* Whether the first line names the columns. Where nobody says, it does if none of its fields is a number; if
 * some are and others are not, the file is refused. */
typedef enum st_csv_header { ST_CSV_DETECT, ST_CSV_HEADER, ST_CSV_NO_HEADER } st_csv_header;

/* Zero: commas, a class in the first column, features in the others. */
typedef struct st_csv_options {
    char delimiter; /* between fields; 0: a comma. Of ' ' several are one, and those around a line are none */
    st_csv_header header; /* of the first line that is not empty */
    int label;   /* the column of the class, or the first of the targets; negative: from the last, -1 */
    int targets; /* 0: a class, y is a number; k: k columns to regress, y is [k]; ST_CSV_UNLABELLED: y is 0 */
    st_shape image; /* of a sample, whose features are in row-major order: [C, H, W]; rank 0: [features] */
    double scale;   /* by which features are multiplied, not targets; 0: 1 */
} st_csv_options;

enum { ST_CSV_UNLABELLED = -1 }; /* for `targets`: every column is a feature */

/* Plain or gzipped. Numbers are decimal, with or without a point and an exponent, whatever the locale; blanks around
 * them are passed over, and so are empty lines and a byte order mark; they may stand in quotes (RFC 4180). Classes are
 * integers from 0 on. A line has at most 64 MiB, a table 2^30 numbers, all of them finite, and each line as many columns as
 * the first. NULL with an error that names the file, the line and the column. */
st_dataset *st_dataset_csv_new(const char *path, st_csv_options options);
#define st_dataset_csv(path, ...) st_dataset_csv_new(path, ST_OPTIONS(st_csv_options, __VA_ARGS__))

ST_API_END

#endif
