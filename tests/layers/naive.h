/* naive.h: layers computed from their definitions in plain loops over doubles: the oracles of the tests.
 * Every result is a new tensor. */
#ifndef STRIDE_TESTS_NAIVE_H
#define STRIDE_TESTS_NAIVE_H

#include "layers/layers.h"
#include "tensor/tensor.h"

/* A layer's results for x and dy; parts that it does not have are null. */
typedef struct naive {
    st_tensor y, dx;
    st_tensor dweight, dbias; /* what is to be added to the gradients */
} naive;
void naive_free(naive result);

/* ---- windows over x [N, C, H, W] ------------------------------------------------------------- */

/* How windows are laid over an axis; pooling's defaults (kernel 0, stride 0) are filled in. */
typedef struct naive_axis {
    ptrdiff_t size, kernel, stride, padding, after, dilation; /* padding before and after the image */
    bool ceil_mode;
} naive_axis;

/* The place of element k of window `at` in the image; outside 0 … size-1 it lies in the padding. */
ptrdiff_t naive_place(naive_axis a, ptrdiff_t at, ptrdiff_t k);

naive_axis naive_maxpool_axis(st_maxpool_options o, st_shape x, int axis); /* axis 0: height, 1: width */

st_shape naive_maxpool_shape(st_maxpool_options o, st_shape x);

/* ---- layers: y from x, and from dy everything else, by the layer's options and parameters ---- */

typedef naive naive_layer(const st_layer *l, st_tensor x, st_tensor dy);

naive_layer naive_conv2d, naive_dense;

/* Every element of x, times the kernel, is added to the output where a convolution would have read it. */
naive_layer naive_conv_transpose2d;

/* Outside the image is -inf, which no window picks that sees the image, or 0; what ceil_mode hangs over
 * is outside like the padding. The first maximum has the gradient, the first NaN where there is one. */
naive_layer naive_maxpool;

/* Outside the image is 0. A window is divided by the number of its places in the image, or in the image
 * and its padding; 0 where there are none. */
naive_layer naive_avgpool;

/* A place outside the image holds the value, or what stands at its mirror image, or at the nearest edge. */
naive_layer naive_pad2d;

/* Nearest: y[i] = x[floor(i / scale)]. Bilinear: between the two pixels around (i + 1/2) / scale - 1/2, or
 * around i (H - 1) / (OH - 1) where corners are aligned; beyond the edge, the edge. */
naive_layer naive_upsample;

/* The mean over rows floor(i H / OH) to ceil((i + 1) H / OH) - 1, and columns likewise. */
naive_layer naive_adaptive_avgpool;

/* y = x, or weight x where x is not above 0; weight [1] or [C]. */
naive_layer naive_prelu;

/* ---- functions of one number ----------------------------------------------------------------- */

/* An activation by definition. At a kink the derivative is that of the left side. Both functions are for
 * finite x; the limits at -inf and +inf stand beside them. */
typedef struct naive_function {
    const char *name;
    st_layer *(*make)(void);
    double (*value)(double x);
    double (*slope)(double x);
    double value_at_infinity[2], slope_at_infinity[2]; /* at -inf, +inf */
} naive_function;
extern const naive_function naive_functions[]; /* ended by one without a name */

/* Options of those that have one. */
#define NAIVE_LEAKY_SLOPE 0.125
#define NAIVE_ELU_ALPHA 1.5
#define NAIVE_HARDTANH ((const double[]){ -2, 3 }) /* min_val, max_val */

#endif
