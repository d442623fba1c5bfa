/* classes.h: the names of a net's classes, saved with it. */
#ifndef STRIDE_NN_DATA_CLASSES_H
#define STRIDE_NN_DATA_CLASSES_H

#include "nn/net.h"

ST_API_BEGIN

/* A name for each output. */
typedef struct st_class_names {
    ptrdiff_t count;
    const char **name; /* in UTF-8 */
} st_class_names;

/* Sets the metadata "classes", JSON: ["cat", "dog"]. -1 with an error: the net's output is not [count], a
 * name is not UTF-8, or two are the same. */
int st_net_set_classes(st_net *to, ptrdiff_t count, const char *const name[]);

/* The class names in the metadata; NULL if there are none; NULL with an error if they are invalid. */
st_class_names *st_net_classes(const st_net *n);
void st_class_names_free(st_class_names *c); /* NULL is allowed */

ST_API_END

#endif
