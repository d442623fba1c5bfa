/* table.h: CSV tables as data sets, with columns by name and classes that may be words. */
#ifndef STRIDE_EXAMPLES_STRIDE_TABLE_H
#define STRIDE_EXAMPLES_STRIDE_TABLE_H

#include "nn/data.h"

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
