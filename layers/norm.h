/* norm.h: what batch, layer and group normalisation share; private to layers/.
 *
 * A set of elements is normalised to mean 0 and variance 1, then scaled and shifted:
 *     y = w h + b,   h = (x - mean) / sqrt(variance + epsilon)
 * and with g = w dy, the mean over the set written <>:
 *     dx = (g - <g> - h <g h>) / sqrt(variance + epsilon) */
#ifndef STRIDE_LAYERS_NORM_H
#define STRIDE_LAYERS_NORM_H

#include "layers/layer.h"

/* A set: `rows` rows of `length` elements, `stride` apart. */
typedef struct norm_set {
    ptrdiff_t rows, length, stride;
} norm_set;

typedef struct norm_moments {
    double mean, variance; /* of the set: the biased variance */
} norm_moments;
norm_moments norm_measure(norm_set s, const real *x);

/* x becomes h, in place. */
void norm_apply(norm_set s, real *x, double mean, double deviation);

/* h becomes dx, in place, of g. */
void norm_adjoint(norm_set s, real *h, const real *g, double deviation);

/* A tensor [C] as a view of shape s [N, C, ...]: one number a channel. */
tensor norm_by_channel(tensor c, shape s);

/* The hooks of a layer whose sets are all runs of `length` elements of each image, with or without
 * parameters 0, weight, and 1, bias, which `spread` makes views of shape s. Scratch slot 0 is one image. */
typedef struct norm_runs {
    ptrdiff_t length;
    double epsilon;
    tensor (*spread)(tensor parameter, shape s);
} norm_runs;
void norm_runs_forward(const layer *l, norm_runs r, tensor x, tensor y);
void norm_runs_backward(const layer *l, norm_runs r, tensor x, tensor dy, tensor dx);
void norm_runs_gradient(const layer *l, norm_runs r, tensor x, tensor dy);

#endif
