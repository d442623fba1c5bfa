/* pool_impl.h: the plan's data of maxpool, avgpool, lppool and pool. */
#ifndef STRIDE_LAYERS_POOL_IMPL_H
#define STRIDE_LAYERS_POOL_IMPL_H

#include "layers/window.h"

typedef struct pool_plan {
    window w;
    st_real padding; /* the value of padding elements */
} pool_plan;

/* The number of elements of window `at`, along an axis, in the image, or in the image and its padding. */
int pool_counted(const window *w, int axis, ptrdiff_t at, bool exclude_pad);

#endif
