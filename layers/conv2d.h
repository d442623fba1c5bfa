/* conv2d.h: the ways to compute a convolution.
 *
 * conv2d.c asks each in turn whether it suits; the last, columns, suits always, and is what the others are held
 * against: im2col and a product by BLAS. */
#ifndef STRIDE_LAYERS_CONV2D_H
#define STRIDE_LAYERS_CONV2D_H

#include "layers/layers.h"
#include "layers/window.h"

enum { CONV2D_WEIGHT, CONV2D_BIAS }; /* parameters */

typedef struct conv2d_method {
    /* Whether this is the way to take for images x, l->kernel not being NULL. */
    bool (*suits)(const layer *l, const window *w, shape x);
    int (*plan)(layer *l, const window *w, shape x); /* asks for scratch */

    /* As the hooks of the same names; gradient adds to the weight's, and where it sums dy anyway to the bias's. */
    void (*forward)(layer *l, const window *w, tensor x, tensor y);
    void (*backward)(layer *l, const window *w, tensor dy, tensor dx);
    void (*gradient)(layer *l, const window *w, tensor x, tensor dy);
    bool sums_bias;
} conv2d_method;

/* The bias of each output channel; NULL: none. Adding it to y [N, O, OH, OW]. */
const real *conv2d_bias(const layer *l);
void conv2d_add_bias(const layer *l, tensor y);

extern const conv2d_method conv2d_winograd_4, conv2d_winograd_2, conv2d_direct, conv2d_columns;

#endif
