/* optim.h: optimizers. Formulas and defaults are PyTorch's.
 *
 * An optimizer works on flat tensors, such as st_net_parameters and st_net_gradients, and keeps flat states
 * of the same length. Below, w are the parameters and g their gradients, to which weight decay adds
 * weight_decay w (except in AdamW). An option that is 0 takes the default in its comment; ST_ZERO means 0. */
#ifndef STRIDE_NN_OPTIM_H
#define STRIDE_NN_OPTIM_H

#include "nn/net.h"

ST_API_BEGIN

enum { ST_OPTIM_STATES = 3 }; /* the most states of an optimizer */

/* An optimizer: its step function, options and states. One of your own has a name, a step, and perhaps a
 * context, which you free:
 *
 *     static void lion(const st_optim *o, double lr, ptrdiff_t first, ptrdiff_t n, st_real *w, const st_real *g)
 *     {
 *         const double *beta = o->context;
 *         st_real *m = st_data(o->state[0]) + first;
 *         for (ptrdiff_t i = 0; i < n; i++) {
 *             double c = beta[0] * m[i] + (1 - beta[0]) * g[i];
 *             w[i] -= (st_real)(lr * ((c > 0) - (c < 0)));
 *             m[i] = (st_real)(beta[1] * m[i] + (1 - beta[1]) * g[i]);
 *         }
 *     }
 *     st_optim *o = st_optim_new((st_optim){ .name = "lion", .step = lion, .lr = 1e-4, .states = 1, .context = beta }); */
typedef struct st_optim st_optim;
struct st_optim {
    const char *name;
    /* Updates n parameters w with gradients g; their states begin at element `first`. Several threads call
     * it. */
    void (*step)(const st_optim *o, double lr, ptrdiff_t first, ptrdiff_t n, st_real *w, const st_real *g);
    double lr;  /* the base learning rate, which a schedule multiplies */
    int states; /* 0 to ST_OPTIM_STATES */
    void *context;
    const st_field *fields; /* of this struct: options that a checkpoint compares; NULL: none */

    double momentum, dampening, beta1, beta2, epsilon, weight_decay; /* of the optimizers below */
    bool nesterov, centered, decoupled;
    st_tensor state[ST_OPTIM_STATES]; /* zeros at the first step */
    long steps;                       /* taken */
    struct st_optim_range *range;     /* private: parameters that train; NULL: all */
    int ranges;
    ptrdiff_t grouped; /* private: the number of parameters that were grouped */
};

/* NULL with an error: no name, no step, an option out of range. */
st_optim *st_optim_new(st_optim kind);

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

void st_optim_free(st_optim *o); /* NULL is allowed */

/* Allocates the states, zeroed, unless they exist; st_optim_step calls it. -1 with an error: no memory, or
 * the states are for another number of parameters. */
int st_optim_build(st_optim *o, ptrdiff_t parameters);

/* A group of parameters: all whose name in the state dict matches a pattern with the wildcards * and ?. The
 * pattern may also name a layer, for all parameters in it: "0" is "0.weight" and "0.bias", "3.body" all of
 * that block. */
typedef struct st_param_group {
    const char *names;   /* the pattern */
    bool vectors;        /* of these, only tensors of rank 1: biases, and weights of normalisations */
    bool frozen;         /* not trained */
    double lr_factor;    /* of the learning rate; 0: 1 */
    double weight_decay; /* 0: the optimizer's; ST_ZERO: none */
} st_param_group;
enum { ST_MAX_GROUPS = 8 }; /* the most groups of a net */

/* Divides the parameters of a built net into groups, as PyTorch's parameter groups do. A parameter belongs to
 * the first group that matches it; one in no group trains with the optimizer's options. Frozen parameters are
 * frozen in the net, too (st_layer_freeze). Replaces earlier groups; with a count of 0 all parameters train.
 * The trainer does both with its option .groups, which holds for one run:
 *
 *     .groups = { { "0.*", .frozen = true },                            // a layer as it was loaded
 *                 { "*", .vectors = true, .weight_decay = ST_ZERO } }   // no decay of biases and norms
 *
 * A batch normalisation with frozen parameters still updates its running statistics in training, as in
 * PyTorch. -1 with an error: a group without parameters, none that trains, a number out of range. */
int st_optim_groups(st_optim *o, st_net *n, int count, const st_param_group group[]);

/* One step with learning rate lr, usually o->lr times a schedule's factor. Both tensors are flat and
 * contiguous, with the same length at every step. -1 with an error. A parameter that is NaN or infinite
 * after the step is such an error; after any other one, or if one was set before, nothing is changed. */
int st_optim_step(st_optim *o, double lr, st_tensor parameters, st_tensor gradients);

ST_API_END

#endif
