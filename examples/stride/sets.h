/* sets.h: data sets made of others, which the caller keeps alive. */
#ifndef STRIDE_EXAMPLES_STRIDE_SETS_H
#define STRIDE_EXAMPLES_STRIDE_SETS_H

#include "nn/data.h"

/* `count` samples from place `first` on, of a set whose order is shuffled by the seed: folders and files may
 * be sorted by class. NULL with an error. */
st_dataset *set_part(const st_dataset *of, uint64_t seed, ptrdiff_t first, ptrdiff_t count);

/* Classes as targets [K]: 1 for the class, 0 for the others. */
st_dataset *set_one_hot(const st_dataset *of, ptrdiff_t classes);

/* Class k becomes class[k]. */
st_dataset *set_relabelled(const st_dataset *of, ptrdiff_t classes, const ptrdiff_t *class);

/* The set that sample i of a set made above is from; *i becomes its number there. */
const st_dataset *set_origin(const st_dataset *d, ptrdiff_t *i);

/* Class k becomes class[k]. */
st_dataset *set_relabelled(const st_dataset *of, ptrdiff_t classes, const ptrdiff_t *class);

/* The set that sample i of a set made above is from; *i becomes its number there. */
const st_dataset *set_origin(const st_dataset *d, ptrdiff_t *i);

#endif
