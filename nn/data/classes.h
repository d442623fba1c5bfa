/* classes.h: the names of a net's classes, as a note that travels with it. */
#ifndef STRIDE_NN_DATA_CLASSES_H
#define STRIDE_NN_DATA_CLASSES_H

#include "nn/net.h"

ST_API_BEGIN

/* One for each output. */
typedef struct st_class_names {
    ptrdiff_t count;
    const char **name; /* in UTF-8 */
} st_class_names;

/* As the note "classes", JSON: ["cat", "dog"]. -1 with an error where the net's output is not [count] or a name is
 * not UTF-8. */
int st_net_set_classes(st_net *to, ptrdiff_t count, const char *const name[]);

/* What that note says; NULL, without an error, where there is none; with one where it is not what was written. */
st_class_names *st_net_classes(const st_net *n);
void st_class_names_free(st_class_names *c); /* NULL is allowed */

ST_API_END

#endif
