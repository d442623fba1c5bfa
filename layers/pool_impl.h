/* pool_impl.h: the plan's data of maxpool, avgpool, lppool and pool. */
#ifndef STRIDE_LAYERS_POOL_IMPL_H
#define STRIDE_LAYERS_POOL_IMPL_H

#include "layers/window.h"

/* y of a window; and the adjoint, which writes dx [KH KW]. */
typedef struct pool_window pool_window;
typedef st_real window_value(const pool_window *at);
typedef void window_adjoint(const pool_window *at, st_real y, st_real dy, st_real *dx);

typedef struct pool_plan {
    window w;
    st_real padding; /* the value of padding elements */
    window_value *value;
    window_adjoint *adjoint;
} pool_plan;

/* The number of elements of window `at`, along an axis, in the image, or in the image and its padding. */
int pool_counted(const window *w, int axis, ptrdiff_t at, bool exclude_pad);

#endif
