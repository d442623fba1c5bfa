/* power.h: the mean of powers, y = (mean of a[i]^p)^(1/p) of a[i] >= 0. */
#ifndef STRIDE_LAYERS_POOLING_POWER_H
#define STRIDE_LAYERS_POOLING_POWER_H

#include "layers/pooling/family.h"

/* Element i of a window as a[i]. */
typedef double power_base(const st_window *w, ptrdiff_t i);

/* Powers are taken of ratios to the greatest a, so that they do not overflow. NaN propagates; y of no
 * elements is 0. */
double power_mean(const st_window *w, power_base *base, double p);

/* Writes dx[i] = dy (dy/da[i]), or 0 where a[i] is 0, and returns dy (dy/dp). */
double power_adjoint(const st_window *w, power_base *base, double p, double dy, st_real *dx);

#endif
