/* steps.h: a net in inference as a list of steps, each of which becomes one C function. */
#ifndef STRIDE_NN_EXPORT_C_STEPS_H
#define STRIDE_NN_EXPORT_C_STEPS_H

#include "nn/net.h"

/* Families of layers. CHANNELS and ROWS may run in place. */
typedef enum kind {
    NOTHING,    /* the identity in inference */
    ACTIVATION, /* a function of one number */
    TAPS,       /* weighted sums of pixels */
    WINDOWS,    /* a function of windows */
    PRODUCT,    /* a product with weights */
    CHANNELS,   /* a function of a number and its channel */
    ROWS        /* a normalisation of rows */
} kind;

/* A type of layer as C: see forms.c. */
typedef struct form {
    const st_layer_type *type; /* or the one that it is like */
    kind kind;
    const char *text;
} form;
const form *form_of(const st_layer *l); /* NULL: it has none */
extern const form form_normalize, form_add, form_multiply, form_copy, form_int8;

typedef struct step {
    const form *form;
    const st_layer *l, *norm, *activation; /* computed by it, the last two NULL if there are none */
    char path[ST_LAYER_PATH];
    int x, other, y; /* steps that write them first; other: what is added to x or multiplied with it */
    int branch;      /* of a product: the branch that other is multiplied with */
    ptrdiff_t at;    /* it writes y from this element on */
    double range;    /* x becomes or is 8-bit integers, of which 127 stands for this; 0: it stays float */

    /* y, if this step writes it first. A negative offset counts from the workspace's end. */
    ptrdiff_t size, offset; /* in floats */
    enum { UNPLACED, OUTSIDE, INSIDE } place;
} step;

enum { INPUT }; /* a step without a form; it and the output are not in the workspace */

typedef struct steps {
    step *step, *last; /* last: what the next layer may be folded into, or NULL */
    int count;
    ptrdiff_t workspace; /* floats, at least 1 */
    const float *range;  /* of each layer's input; NULL: nothing becomes integers */
} steps;

/* The shape of the product of the branches of l, a multiply, before branch `end`. */
st_shape steps_product(const st_layer *l, int end);

int steps_plan(steps *s, const st_net *n, const float *range); /* -1 with an error */
#endif
