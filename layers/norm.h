/* norm.h: what batch, layer and group normalisation share.
 *
 * A set of elements is normalised to mean 0 and variance 1, then scaled and shifted:
 *     y = w h + b,   h = (x - mean) / sqrt(variance + epsilon)
 * and with g = w dy, the mean over the set written <>:
 *     dx = (g - <g> - h <g h>) / sqrt(variance + epsilon)
 * One pass takes two sums, in double, by fixed lanes; another writes the result. */
#ifndef STRIDE_LAYERS_NORM_H
#define STRIDE_LAYERS_NORM_H

#include "layers/layer.h"

/* A set: `rows` rows of `length` elements, `stride` apart. */
typedef struct norm_set {
    ptrdiff_t rows, length, stride;
    bool wide; /* whether the machine has wide vectors */
} norm_set;

typedef struct norm_moments {
    double mean, variance; /* of the set: the biased variance */
} norm_moments;
norm_moments norm_measure(norm_set s, const real *x);

/* Sums over the set: of g, and of g (x - mean). Rows of x are `stride_x` apart. */
typedef struct norm_sums {
    double g, product;
} norm_sums;
norm_sums norm_sum(norm_set s, const real *g, const real *x, ptrdiff_t stride_x, double mean);

/* y = (x - mean) scale + shift; y may be x, here and below. */
void norm_apply(norm_set s, real *y, const real *x, double mean, double scale, double shift);

/* dx = (g - <g> - h <g h>) / deviation of g = w dy, from the sums of g over the `count` elements whose moments
 * these are: the set, or sets with other w. */
void norm_adjoint(norm_set s, real *dx, const real *dy, double w, const real *x, double mean,
                  double deviation, norm_sums of_g, double count);

/* The elements of a tensor, row-major: where they lie if they can, or else in the copy. */
const real *norm_elements(tensor x, tensor copy);

#endif
