/* init.h: initial values of weights, by name. */
#ifndef STRIDE_LAYERS_INIT_H
#define STRIDE_LAYERS_INIT_H

#include "layers/layers.h"

#include <math.h>

static const char *const init_names[] = { "default",         "xavier_uniform", "xavier_normal",
                                          "kaiming_uniform", "kaiming_normal", NULL };

/* The initial values of a weight [O, I, ...]; the default is also used for biases. */
static inline st_init init_of(st_init_name name, st_shape weight)
{
    double fan_in = 1, fan_out = (double)weight.n[0];
    for (int axis = 1; axis < weight.rank; axis++) fan_in *= (double)weight.n[axis];
    for (int axis = 2; axis < weight.rank; axis++) fan_out *= (double)weight.n[axis];
    switch (name) {
    case ST_INIT_DEFAULT: break;
    case ST_INIT_XAVIER_UNIFORM: return (st_init){ .uniform = sqrt(6 / (fan_in + fan_out)) };
    case ST_INIT_XAVIER_NORMAL: return (st_init){ .normal = sqrt(2 / (fan_in + fan_out)) };
    case ST_INIT_KAIMING_UNIFORM: return (st_init){ .uniform = sqrt(6 / fan_in) };
    case ST_INIT_KAIMING_NORMAL: return (st_init){ .normal = sqrt(2 / fan_in) };
    }
    return (st_init){ .uniform = 1 / sqrt(fan_in) };
}

#endif
