/* scores.h: how a net does on a data set: loss, accuracy, and which classes are taken for which. */
#ifndef STRIDE_EXAMPLES_STRIDE_SCORES_H
#define STRIDE_EXAMPLES_STRIDE_SCORES_H

#include "examples/stride/model.h"
#include "nn/data.h"

#include <jansson.h>

typedef struct scores {
    ptrdiff_t count;      /* samples */
    double loss;          /* their mean */
    ptrdiff_t classes;    /* 0: the samples have none, and there is only a loss */
    ptrdiff_t *confusion; /* [truth * classes + answer]: samples */
} scores;

/* In inference mode, in batches of what the net is built for. -1 with an error, and nothing to free. */
int scores_measure(scores *s, net *n, const data *d, loss l);
void scores_free(scores *s);

double scores_accuracy(const scores *s);

/* Of the samples answered k, how many are; of those that are k, how many were answered so; their harmonic mean. NaN of
 * none. */
typedef struct class_scores {
    ptrdiff_t samples;
    double precision, recall, f1;
} class_scores;
class_scores scores_of(const scores *s, ptrdiff_t k);

void scores_print(const scores *s, const model *m, FILE *to);
json_t *scores_json(const scores *s, const model *m); /* the caller's */

#endif
