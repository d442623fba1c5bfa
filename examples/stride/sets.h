/* sets.h: a data set made from another one. */
#ifndef STRIDE_EXAMPLES_STRIDE_SETS_H
#define STRIDE_EXAMPLES_STRIDE_SETS_H

#include "nn/data.h"

/* Classes as targets [K]: 1 for the class, 0 for the others. The other set must outlive this one. NULL with an
 * error: no memory. */
st_dataset *set_one_hot(const st_dataset *of, ptrdiff_t classes);

#endif
