/* sets.h: data sets made of others, which the caller keeps alive. */
#ifndef STRIDE_EXAMPLES_STRIDE_SETS_H
#define STRIDE_EXAMPLES_STRIDE_SETS_H

#include "nn/data.h"

/* `count` samples from place `first` on, of a set whose order is shuffled by the seed: folders and files may be
 * sorted by class. NULL with an error. */
data *set_part(const data *of, uint64_t seed, ptrdiff_t first, ptrdiff_t count);

/* Classes as targets [K]: 1 for the class, 0 for the others. */
data *set_one_hot(const data *of, ptrdiff_t classes);

/* Class k becomes class[k]. */
data *set_relabelled(const data *of, ptrdiff_t classes, const ptrdiff_t *class);

/* The set that sample i of a set made above is from; *i becomes its number there. */
const data *set_origin(const data *d, ptrdiff_t *i);

/* Class k becomes class[k]. */
data *set_relabelled(const data *of, ptrdiff_t classes, const ptrdiff_t *class);

/* Samples of shape x whose element k is column[k] of a row [columns]. */
data *set_columns(const data *of, shape x, const ptrdiff_t *column);

/* The set that sample i of a set made above is from; *i becomes its number there. */
const data *set_origin(const data *d, ptrdiff_t *i);

#endif
