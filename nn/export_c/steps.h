/* steps.h: a net in inference as a list of steps, each of which becomes one C function, and where their values lie. */
#ifndef STRIDE_NN_EXPORT_C_STEPS_H
#define STRIDE_NN_EXPORT_C_STEPS_H

#include "nn/net.h"

/* Families of layers: nothing in inference; functions of one number; weighted sums of pixels; functions of windows;
 * products with weights; weight * x + bias in each channel; other functions of a number and its channel; rows that are
 * normalized. From AFFINE on y may be where x is. */
typedef enum kind { NOTHING, ACTIVATION, TAPS, WINDOWS, PRODUCT, AFFINE, CHANNELS, ROWS } kind;

/* A type of layer as C: see forms.c. */
typedef struct form {
    const char *type;
    kind kind;
    const char *text;
} form;
const form *form_of(const st_layer *l); /* NULL: it has none */
extern const form form_normalize, form_add, form_copy, form_int8;

bool is_type(const st_layer *l, const char *type);

typedef struct step {
    const form *form;
    const st_layer *l, *norm, *activation; /* computed by it, the last two NULL if there are none */
    char path[ST_LAYER_PATH];
    int x, other, y;    /* values; other: what is added to x */
    ptrdiff_t at, size; /* writes elements at ... at + size - 1 of y */
    bool int8;          /* it multiplies integers */
    double range;       /* x becomes or is integers: 127 stands for this */
} step;

enum { INPUT }; /* the first value; it and the output are not in the workspace */
typedef enum side { BOTTOM, TOP, OUTSIDE } side;

typedef struct step_value {
    ptrdiff_t offset, size; /* in floats, from that side of the workspace */
    side side;
} step_value;

typedef struct steps {
    step *step, *last; /* last: what the next layer may be folded into, or NULL */
    step_value *value;
    int count, values, output;
    ptrdiff_t workspace; /* floats */
    const float *range;  /* of each layer's input; NULL: nothing becomes integers */
} steps;

int steps_plan(steps *s, const st_net *n, const float *range); /* -1 with an error */
#endif
