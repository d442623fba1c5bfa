/* table.h: which columns of a table a net learns from and which it predicts, kept with the net, so that
 * another table is read alike: columns by name in any order, classes by name, missing values filled as in
 * training.
 *
 *     st_dataset *flowers = st_dataset_csv("flowers.csv", .label_name = "species");
 *     const st_table *table = st_dataset_table(flowers);            // 4 features, 3 classes
 *     st_net *n = st_net_new(ST_SHAPE(table->features), st_dense(.out_features = (int)table->classes));
 *     st_net_set_table(n, table);                                   // before st_net_save
 *
 *     st_table *table = st_net_table(n);                            // after st_net_load
 *     st_dataset *unknown = st_dataset_csv("new.csv", .like = table, .targets = ST_CSV_UNLABELLED); */
#ifndef STRIDE_NN_DATA_TABLE_H
#define STRIDE_NN_DATA_TABLE_H

#include "nn/data.h"
#include "nn/net.h"

ST_API_BEGIN

/* Columns are numbered from 0. Read-only. */
typedef struct st_table {
    ptrdiff_t columns;          /* of the file, with those that are not used */
    ptrdiff_t features;         /* columns of x */
    ptrdiff_t targets;          /* columns of numbers to predict; 0: a class, or no label */
    ptrdiff_t classes;          /* names of classes; 0: classes are numbers */
    ptrdiff_t label;            /* the column of the class or of the first target; -1: none */
    const ptrdiff_t *column;    /* of each feature */
    const char *const *feature; /* names of the features, in the order of x; NULL: the table has no header */
    const char *label_name;     /* of the column `label`; NULL: the table has no header, or no label */
    const char *const *class_name; /* names of the classes; NULL: numbers */
    const double *fill;            /* for each feature, what a missing value becomes; NULL: it is an error */
    ptrdiff_t filled, dropped;     /* values that were missing; rows left out */
} st_table;

/* The columns of a set that st_dataset_csv made, or of a part of it; valid as long as the set. NULL for
 * another set. */
const st_table *st_dataset_table(const st_dataset *d);

/* Sets the net's metadata "table", "columns", "label", "targets", "missing" and, where classes have names,
 * "classes". -1 with an error, and nothing is changed: another number of inputs or outputs, or a name that is
 * not UTF-8. */
int st_net_set_table(st_net *to, const st_table *t);

/* The table in the metadata; NULL if there is none; NULL with an error if it is invalid. */
st_table *st_net_table(const st_net *n);
void st_table_free(st_table *t); /* NULL is allowed */

ST_API_END

#endif
