/* reach.h: steps of an optimizer that end in numbers, or are not taken.
 *
 * How large parameters and states are after a step is bounded by how large they and the gradients were before it. Only
 * a step that might overflow by these bounds is tried first, on a copy, part by part. */
#ifndef STRIDE_NN_WATCH_REACH_H
#define STRIDE_NN_WATCH_REACH_H

#include "nn/optim.h"

typedef struct reach {
    bool known;                    /* false: they are measured before the next step */
    double most[1 + OPTIM_STATES]; /* no |parameter| exceeds most[0], nor any of state i most[1 + i] */
} reach;

/* Of the first parameter, in their flat order, that a step would leave without a number. */
typedef struct overflow {
    bool found;
    ptrdiff_t at;
    int state; /* the one that overflows; -1: the parameter itself */
    real value;
} overflow;

/* optim_step, where gradients are at most `greatest`. Where something overflows nothing is changed, neither parameters
 * nor states: `bad` says what, and no error is set. Other errors are -1. */
int reach_step(reach *r, optim *o, double lr, tensor parameters, tensor gradients, double greatest,
               overflow *bad);

/* The greatest |x| of a tensor of rank 1; not finite where an element is not. Several threads share it. */
double reach_greatest(tensor flat);

#endif
