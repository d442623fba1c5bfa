/* optim.h: optimizers: how parameters follow their gradients. Formulas and defaults are PyTorch's.
 *
 * An optimizer works on flat tensors, such as net_parameters and net_gradients, and keeps its own flat
 * state of the same length. In what follows g is the gradient, to which weight decay adds
 * weight_decay * parameter (but for adamw). An option of 0 is the default that stands beside it; ST_ZERO is 0. */
#ifndef STRIDE_NN_OPTIM_H
#define STRIDE_NN_OPTIM_H

#include "layers/options.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

#pragma GCC visibility push(default)

enum { OPTIM_STATES = 3 }; /* that an optimizer may keep, at most */

/* An optimizer at work: its kind, its options, and what it keeps from step to step. One of your own has a name, a step
 * and perhaps a context, which stays yours:
 *
 *     static void lion(const optim *o, double lr, ptrdiff_t first, ptrdiff_t n, real *w, const real *g)
 *     {
 *         const double *beta = o->context;
 *         real *m = tensor_data(o->state[0]) + first;
 *         for (ptrdiff_t i = 0; i < n; i++) {
 *             double c = beta[0] * m[i] + (1 - beta[0]) * g[i];
 *             w[i] -= (real)(lr * ((c > 0) - (c < 0)));
 *             m[i] = (real)(beta[1] * m[i] + (1 - beta[1]) * g[i]);
 *         }
 *     }
 *     optim *o = optim_new((optim){ .name = "lion", .step = lion, .lr = 1e-4, .states = 1, .context = beta }); */
typedef struct optim optim;
struct optim {
    const char *name;
    /* n parameters w with gradients g; their states begin at `first`. Threads take parts of all parameters. */
    void (*step)(const optim *o, double lr, ptrdiff_t first, ptrdiff_t n, real *w, const real *g);
    double lr;  /* the base that a schedule multiplies */
    int states; /* 0 to OPTIM_STATES */
    void *context;
    const layer_field *fields; /* of this struct: options that a checkpoint compares; NULL: none */

    double momentum, dampening, beta1, beta2, epsilon, weight_decay; /* of the optimizers below */
    bool nesterov, centered, decoupled;
    tensor state[OPTIM_STATES]; /* zeros at the first step */
    long steps;                 /* taken */
};

/* NULL with an error: no name, no step, an option out of range. */
optim *optim_new(optim kind);

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
    double weight_decay; /* adam: 0; adamw: 0.01 */
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

/* One step at learning rate lr (o->lr, times a schedule's factor). Both are flat, contiguous, of the length of the first
 * step's; gradients are left as they are. -1 with an error, also where there was one before: nothing is changed then,
 * unless a parameter is NaN or infinite after the step, which is the error that names it. */
int optim_step(optim *o, double lr, tensor parameters, tensor gradients);

/* Scales the gradients so that their 2-norm is at most `most`; returns the norm before. A norm that is not finite
 * scales nothing. `most` is at least 0, here and below; other values are an error. */
double optim_clip_norm(tensor gradients, double most);
void optim_clip_value(tensor gradients, double most); /* into ±most; NaN stays */

#pragma GCC visibility pop

#endif
