/* optim.h: optimizers. Formulas and defaults are PyTorch's.
 *
 * An optimizer works on flat tensors, such as st_net_parameters and st_net_gradients, and keeps flat states
 * of the same length. */
#ifndef STRIDE_NN_OPTIM_H
#define STRIDE_NN_OPTIM_H

#include "nn/net.h"

ST_API_BEGIN

enum { ST_OPTIM_STATES = 3 }; /* the most states of an optimizer */

typedef struct st_optim st_optim;

/* One call of a kind's step, which updates n of the parameters. */
typedef struct st_optim_call {
    const void *options;
    double lr, weight_decay;         /* of this step, and of the parameters' group */
    long steps;                      /* taken before this one */
    st_real *state[ST_OPTIM_STATES]; /* n numbers each */
} st_optim_call;

/* The kind of an optimizer: a static const table. One of your own:
 *
 *     typedef struct lion_options {
 *         double lr, beta1, beta2;
 *     } lion_options;
 *     static const st_field lion_fields[] = {
 *         { ST_FIELD(REAL, lion_options, lr), .fallback = 1e-4 },
 *         { ST_FIELD(REAL, lion_options, beta1), .fallback = 0.9, .below = 1 },
 *         { ST_FIELD(REAL, lion_options, beta2), .fallback = 0.99, .below = 1 },
 *         { 0 },
 *     };
 *     static void lion_step(const st_optim_call *c, ptrdiff_t n, st_real *w, const st_real *g)
 *     {
 *         const lion_options *o = c->options;
 *         st_real *m = c->state[0];
 *         for (ptrdiff_t i = 0; i < n; i++) {
 *             double d = o->beta1 * m[i] + (1 - o->beta1) * g[i];
 *             w[i] -= (st_real)(c->lr * (isfinite(d) ? (d > 0) - (d < 0) : d));
 *             m[i] = (st_real)(o->beta2 * m[i] + (1 - o->beta2) * g[i]);
 *         }
 *     }
 *     static const st_optim_kind lion = { "lion", sizeof(lion_options), lion_fields,
 *                                         .states = 1, .step = lion_step };
 *     st_optim *o = st_optim_new(&lion, &(lion_options){ .lr = 0.25 }); */
typedef struct st_optim_kind {
    const char *name;
    size_t options_size;
    const st_field *fields; /* of the options; "lr" and, if there is one, "weight_decay" are REAL */
    int states;             /* numbers kept for each parameter, 0 at the first step; 0 to ST_OPTIM_STATES */
    /* Checks the options, and may set o->states to fewer. 0, or -1 with an error. NULL: nothing to check. */
    int (*plan)(st_optim *o);
    /* Updates n parameters w with gradients g. Several threads call it. A gradient that is NaN or infinite
     * must leave w NaN or infinite, by which st_optim_step finds it. */
    void (*step)(const st_optim_call *c, ptrdiff_t n, st_real *w, const st_real *g);
} st_optim_kind;

/* An optimizer: a kind, its options and its states. */
struct st_optim {
    const st_optim_kind *kind;
    const void *options; /* of the kind, with defaults filled in */
    double lr; /* the base learning rate, which a schedule multiplies; at first that of the options */
    int states;
    st_tensor state[ST_OPTIM_STATES];
    long steps;                     /* taken */
    struct st_optim_ranges *groups; /* private; NULL: all parameters train alike */
};

/* NULL with an error: a kind without name, step or lr, an option out of range. */
st_optim *st_optim_new(const st_optim_kind *kind, const void *options);

void st_optim_free(st_optim *o); /* NULL is allowed */

/* Allocates the states, zeroed, unless they exist; st_optim_step calls it. -1 with an error: no memory, or
 * the states are for another number of parameters. */
int st_optim_build(st_optim *o, ptrdiff_t parameters);

/* A group of parameters (nn/groups/groups.h): all whose name in the state dict matches a pattern with the
 * wildcards *, ? and [01]. The pattern may also name a layer, for all parameters in it: "0" is "0.weight" and
 * "0.bias", "3.body" all of that block. */
typedef struct st_param_group {
    const char *names;   /* the pattern */
    bool vectors;        /* of these, only tensors of rank 1: biases, and weights of normalisations */
    bool frozen;         /* not trained */
    double lr_factor;    /* of the learning rate; 0: 1 */
    double weight_decay; /* 0: the optimizer's; ST_ZERO: none */
} st_param_group;
enum { ST_MAX_GROUPS = 8 }; /* the most groups of a net */

/* One step with learning rate lr, usually o->lr times a schedule's factor. Both tensors are flat and
 * contiguous, with the same length at every step. -1 with an error: arguments that do not fit, or an error
 * that was set before, and nothing is changed; or a parameter that is NaN or infinite after the step. */
int st_optim_step(st_optim *o, double lr, st_tensor parameters, st_tensor gradients);

ST_API_END

#endif
