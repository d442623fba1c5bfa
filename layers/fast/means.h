/* means.h: the inner loops of average pooling: sums of windows, and gradients back to all places of each. */
#ifndef STRIDE_LAYERS_FAST_MEANS_H
#define STRIDE_LAYERS_FAST_MEANS_H

#include "layers/window.h"

typedef struct means {
    window w;
    const real *weight; /* of each window [OH, OW]: 1 / (its elements that count) */
    real *weighed;      /* room for a row of windows */
} means;

/* y = weight * sum of each window. */
void means_forward(const layer *l, const means *m, tensor x, tensor y);

/* dx = weight * dy at each place of a window, added where windows overlap. */
void means_backward(const layer *l, const means *m, tensor dy, tensor dx);

#endif
