/* sets.h: data sets made from another one, which must outlive them. NULL with an error: no memory. */
#ifndef STRIDE_EXAMPLES_STRIDE_SETS_H
#define STRIDE_EXAMPLES_STRIDE_SETS_H

#include "nn/data.h"

/* Classes as targets [K]: 1 for the class, 0 for the others. */
st_dataset *set_one_hot(const st_dataset *of, ptrdiff_t classes);

/* Class k becomes class[k]. */
st_dataset *set_relabelled(const st_dataset *of, ptrdiff_t classes, const ptrdiff_t *class);

/* The set that sample i comes from, behind its parts and set_relabelled; *i becomes its number there. */
const st_dataset *set_origin(const st_dataset *d, ptrdiff_t *i);

#endif
