/* sets.h: data sets made from another one, which must outlive them. NULL with an error: no memory. */
#ifndef STRIDE_EXAMPLES_STRIDE_SETS_H
#define STRIDE_EXAMPLES_STRIDE_SETS_H

#include "nn/data.h"

/* `count` samples from `first` on, in an order shuffled by the seed, since files may be sorted by class. */
st_dataset *set_part(const st_dataset *of, uint64_t seed, ptrdiff_t first, ptrdiff_t count);

/* Classes as targets [K]: 1 for the class, 0 for the others. */
st_dataset *set_one_hot(const st_dataset *of, ptrdiff_t classes);

/* Class k becomes class[k]. */
st_dataset *set_relabelled(const st_dataset *of, ptrdiff_t classes, const ptrdiff_t *class);

/* The set that sample i comes from, behind set_part and set_relabelled; *i becomes its number there. */
const st_dataset *set_origin(const st_dataset *d, ptrdiff_t *i);

#endif
