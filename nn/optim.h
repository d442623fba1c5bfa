/* optim.h: optimizers: how parameters follow their gradients. Formulas and defaults are PyTorch's.
 *
 * An optimizer works on flat tensors, such as net_parameters and net_gradients, and keeps its own flat
 * state of the same length. In what follows g is the gradient, to which weight decay adds
 * weight_decay * parameter (but for adamw). Options of 0 mean the default that stands beside them. */
#ifndef STRIDE_NN_OPTIM_H
#define STRIDE_NN_OPTIM_H

#include "tensor/error.h"
#include "tensor/tensor.h"

#pragma GCC visibility push(default)

enum { OPTIM_STATES = 3 }; /* that an optimizer may keep, at most */

/* An optimizer at work: its kind, its options, and what it keeps from step to step. */
typedef struct optim optim;
struct optim {
    const char *name;
    /* Of n parameters w and gradients g, whose states begin at `first`; called for parts, which threads share. */
    void (*step)(const optim *o, double lr, ptrdiff_t first, ptrdiff_t n, real *w, const real *g);
    /* How large things can get: most[0] is the most of |w|, most[1 + i] of state i, before a step with gradients of at
     * most g, and then after it. NULL: nobody knows, and the trainer tries each step before it takes it. */
    void (*reach)(const optim *o, double lr, double g, double most[1 + OPTIM_STATES]);
    double lr; /* the base that a schedule multiplies */
    double momentum, dampening, beta1, beta2, epsilon, weight_decay;
    bool nesterov, centered, decoupled;
    int states;
    tensor state[OPTIM_STATES]; /* made at the first step */
    long steps;                 /* taken */
};

/* v = momentum v + (1 - dampening) g (the first v is g); w -= lr v, or with Nesterov lr (g + momentum v). */
typedef struct sgd {
    double lr; /* required */
    double momentum, dampening, weight_decay;
    bool nesterov;
} sgd;
optim *optim_sgd(sgd options);

/* Kingma and Ba 2015: m and v are running means of g and g², w -= lr m^ / (sqrt(v^) + epsilon). */
typedef struct adam {
    double lr;           /* 0.001 */
    double beta1, beta2; /* 0.9, 0.999 */
    double epsilon;      /* 1e-8 */
    double weight_decay; /* adam: 0; adamw: 0.01; negative: none */
} adam;
optim *optim_adam(adam options);
optim *optim_adamw(adam options); /* Loshchilov and Hutter 2019: w -= lr weight_decay w, apart from g */

/* Hinton 2012: s is a running mean of g²; w -= lr g / (sqrt(s) + epsilon), with momentum on that step;
 * centered divides by the deviation (Graves 2013). */
typedef struct rmsprop {
    double lr;      /* 0.01 */
    double alpha;   /* 0.99 */
    double epsilon; /* 1e-8 */
    double momentum, weight_decay;
    bool centered;
} rmsprop;
optim *optim_rmsprop(rmsprop options);

void optim_free(optim *o); /* NULL is allowed */

/* Makes the states, of zeros, for so many parameters, where they are not there yet; optim_step does so itself. -1 with
 * an error where there is no memory or they are for another number. */
int optim_build(optim *o, ptrdiff_t parameters);

/* One step at learning rate lr (o->lr, times what a schedule says). Both flat, contiguous, of the length
 * of the first step's. Gradients are left as they are. 0, or -1 with an error and nothing changed, also where there was
 * one before. */
int optim_step(optim *o, double lr, tensor parameters, tensor gradients);

/* Scales the gradients so that their 2-norm is at most `most`; returns the norm before. A norm that is not finite
 * scales nothing. `most` is at least 0, here and below; other values are an error. */
double optim_clip_norm(tensor gradients, double most);
void optim_clip_value(tensor gradients, double most); /* into ±most; NaN stays */

#pragma GCC visibility pop

#endif
