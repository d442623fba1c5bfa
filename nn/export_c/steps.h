/* steps.h: a net as a list of steps, each of which becomes one C function, and where in the workspace their values
 * lie. */
#ifndef STRIDE_NN_EXPORT_C_STEPS_H
#define STRIDE_NN_EXPORT_C_STEPS_H

#include "layers/layer.h"

#include <stdio.h>

typedef struct step step;
typedef struct writer writer;

/* A type of layer as C. */
typedef struct form {
    const char *type;
    void (*write)(writer *w, const step *s); /* NULL: nothing in inference */
    const char *activation;                  /* of an element-wise function: an expression in x */
    bool in_place;                           /* y may be where x is */
    bool takes_norm;                         /* a batchnorm after it can be folded into its weights */
    bool takes_activation;                   /* an activation after it can be computed with it */
    bool weighs;                             /* multiplies by weights, which may be integers of 8 bits */
} form;

/* The form of a layer; NULL where it has none. */
const form *form_of(const st_layer *l);

extern const form form_normalize, form_copy, form_add;

struct step {
    const form *form;
    const st_layer *l;                 /* NULL: normalization and copies */
    const st_layer *norm, *activation; /* folded into it; NULL: none */
    char path[ST_LAYER_PATH];
    int x, other, y;    /* values; other: what is added to x, or -1 */
    ptrdiff_t at, size; /* written: elements at … at + size - 1 of y */
};

enum { VALUE_INPUT };                         /* the first value */
enum { PLACE_INPUT = -1, PLACE_OUTPUT = -2 }; /* as place.offset: not in the workspace */

/* The output of a step; several values may lie in one place. */
typedef struct step_value {
    ptrdiff_t size;
    int place;
    int last;    /* the last step that reads it */
    bool shared; /* more than one layer reads it */
} step_value;

typedef struct step_place {
    ptrdiff_t size, offset;
    int first, last; /* steps between which it is in use */
} step_place;

typedef struct steps {
    step *step;
    step_value *value;
    step_place *place;
    int count, values, places;
    ptrdiff_t workspace; /* elements */
} steps;

/* -1 with an error. `normalize`: the input is normalized first. */
int steps_plan(steps *s, const st_layer *root, ptrdiff_t inputs, bool normalize);
void steps_free(steps *s);

/* Latches "layer 3.body.0: pool: …". Always -1. */
int step_refuse(const char *path, const st_layer *l, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
