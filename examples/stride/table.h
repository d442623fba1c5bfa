/* table.h: tables of numbers (CSV) as data sets, whose columns may have names and whose classes may be
 * words. */
#ifndef STRIDE_EXAMPLES_STRIDE_TABLE_H
#define STRIDE_EXAMPLES_STRIDE_TABLE_H

#include "nn/data.h"

typedef struct table_options {
    char delimiter;
    const char *label;    /* a column's name or number, negative from the last; NULL: see below */
    int targets;          /* columns of numbers to predict from the label's on; 0: a class */
    const char *features; /* patterns of names with * and ?, separated by commas; NULL: all other columns */
    const char *columns;  /* a JSON list of names, which are taken in that order; NULL: as in the file */
    st_shape sample;      /* a row's features as an image; rank 0: [features] */
    bool unlabelled;      /* labels are left out: `sample` says how many features there are */
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
