/* optimizers.h: the optimizers of the library, and their options. Formulas and defaults are PyTorch's.
 *
 * w are the parameters and g their gradients, to which weight decay adds weight_decay w (except in AdamW). An
 * option that is 0 takes the default in its comment; ST_ZERO means 0. */
#ifndef STRIDE_NN_OPTIMIZERS_H
#define STRIDE_NN_OPTIMIZERS_H

#include "nn/optim.h"

ST_API_BEGIN

/* v = momentum v + (1 - dampening) g (the first v is g); w -= lr v, or with Nesterov lr (g + momentum v). */
typedef struct st_sgd_options {
    double lr; /* required */
    double momentum, dampening, weight_decay;
    bool nesterov;
} st_sgd_options;
st_optim *st_sgd_new(st_sgd_options options);
#define st_sgd(...) st_sgd_new(ST_OPTIONS(st_sgd_options, __VA_ARGS__))

/* Kingma and Ba 2015: m and v are running means of g and g², w -= lr m^ / (sqrt(v^) + epsilon). */
typedef struct st_adam_options {
    double lr;           /* 0.001 */
    double beta1, beta2; /* 0.9, 0.999 */
    double epsilon;      /* 1e-8 */
    double weight_decay; /* adam: 0; adamw: 0.01 */
} st_adam_options;
st_optim *st_adam_new(st_adam_options options);
#define st_adam(...) st_adam_new(ST_OPTIONS(st_adam_options, __VA_ARGS__))
/* Loshchilov and Hutter 2019: w -= lr weight_decay w, apart from g */
st_optim *st_adamw_new(st_adam_options options);
#define st_adamw(...) st_adamw_new(ST_OPTIONS(st_adam_options, __VA_ARGS__))

/* Hinton 2012: s is a running mean of g²; w -= lr g / (sqrt(s) + epsilon), with momentum on that step;
 * with `centered` s is an estimate of the variance (Graves 2013). */
typedef struct st_rmsprop_options {
    double lr;      /* 0.01 */
    double alpha;   /* 0.99 */
    double epsilon; /* 1e-8 */
    double momentum, weight_decay;
    bool centered;
} st_rmsprop_options;
st_optim *st_rmsprop_new(st_rmsprop_options options);
#define st_rmsprop(...) st_rmsprop_new(ST_OPTIONS(st_rmsprop_options, __VA_ARGS__))

/* These kinds; ends with NULL. */
extern const st_optim_kind *const st_optim_kinds[];

ST_API_END

#endif
