/* findings.h: what a net makes of a set of classes: which it takes for which, and where it is surest and wrong. */
#ifndef STRIDE_EXAMPLES_STRIDE_FINDINGS_H
#define STRIDE_EXAMPLES_STRIDE_FINDINGS_H

#include "nn/data.h"
#include "nn/loss.h"
#include "nn/net.h"

enum { MOST_MISTAKES = 24 };

typedef struct mistake {
    ptrdiff_t sample; /* its number in the set */
    int truth, predicted;
    double confidence; /* the softmax of the predicted class's output */
    tensor x;
} mistake;

typedef struct findings {
    ptrdiff_t count; /* samples */
    int classes;     /* 0: the loss or the set has none, and nothing below is there */
    double loss, accuracy;
    ptrdiff_t *confusion; /* [true][predicted] */
    int mistakes;
    mistake mistake[MOST_MISTAKES]; /* most confident first */
} findings;

/* In inference mode. 0, or -1 with an error. */
int findings_make(findings *f, net *n, loss l, const data *d);
void findings_free(findings *f);

ptrdiff_t findings_at(const findings *f, int truth, int predicted);
ptrdiff_t findings_of_class(const findings *f, int truth); /* samples */
double findings_recall(const findings *f, int of);         /* NaN where the set has none of it */
double findings_precision(const findings *f, int of);      /* NaN where it was never predicted */

#endif
