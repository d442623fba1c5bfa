/* steps.h: a net in inference as a list of steps, each of which becomes one C function, and where their values lie. */
#ifndef STRIDE_NN_EXPORT_C_STEPS_H
#define STRIDE_NN_EXPORT_C_STEPS_H

#include "nn/net.h"

/* Families of layers: nothing in inference; functions of one number; of windows; weighted sums of pixels; products with
 * weights; numbers with the constants of their channel; rows that are normalized. From CHANNELS on y may be where x is. */
typedef enum kind { NOTHING, ACTIVATION, WINDOWS, TAPS, PRODUCT, CHANNELS, ROWS } kind;

/* A type of layer as C: see forms.c. */
typedef struct form {
    const char *type;
    kind kind;
    const char *text;   /* C; of an activation, an expression in x */
    const char *option; /* NULL, or of layers only whose option of that name is `value` */
    int value;
} form;
const form *form_of(const st_layer *l); /* NULL: it has none */
extern const form form_normalize, form_add, form_copy, form_int8;

bool is_type(const st_layer *l, const char *type);

typedef struct step {
    const form *form;
    const st_layer *l;                 /* NULL: a copy, or the normalization of the input */
    const st_layer *norm, *activation; /* folded into it; NULL: none */
    char path[ST_LAYER_PATH];
    int x, other, y;    /* values; other: what is added to x, or 0 */
    ptrdiff_t at, size; /* written: elements at ... at + size - 1 of y */
    double range;       /* x becomes or is integers, of which 127 stands for this; 0: floats */
} step;

enum { INPUT }; /* the first value */

typedef struct step_value {
    ptrdiff_t size, offset; /* in floats; the offset from the end of the workspace where it lies */
    bool top, used;         /* that end; it is in the workspace, and a step will read it */
    int held;               /* the number of layers around the present one that read it later */
} step_value;

typedef struct steps {
    step *step;
    step_value *value;
    int count, values, output;
    int layers;          /* walked so far, in the order of st_layer_visit */
    ptrdiff_t workspace; /* floats */
    const float *range;  /* of each layer's input; NULL: nothing becomes integers */
} steps;

int steps_plan(steps *s, const st_net *n, const float *range); /* -1 with an error */
void steps_free(steps *s);

#endif
